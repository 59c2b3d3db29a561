"""Ensembles: rows are those of the releases that they name, and the same bytes whoever makes them,
in whichever parts.
"""

import json
import pickle
import re
import tomllib
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from cli_helpers import gridveil, gridveil_process, make_release, write_grid
from gridveil import DemoSampler, Event, GridveilError, Ledger, SecureSampler, open_grid, simulate
from gridveil.foundation.executors import here
from gridveil.publication.release import neutral_names
from gridveil.vault.truth import true_model
from gridveil.workflow.ensemble import Shards, Spec, batches_of, run_ensemble
from gridveil.workflow.ensemble.batch import Batch, recorded, run_batch, share
from gridveil.workflow.ensemble.cells import cells_of
from gridveil.workflow.ensemble.table import decode, encode
from gridveil.workflow.publish import publish, share_out

TINY = {
    "case": "star5",
    "epsilon": ["1/2", 2],
    "mechanism": ["items", "topology"],
    "fit": ["none", "l-bfgs-b"],
    "seeds": 3,
    "batch": 2,
}
TOML = "\n".join(f"{key} = {json.dumps(value)}" for key, value in TINY.items()) + "\n"
SPEC = Spec.from_table("tiny.toml", TINY)
FILES = ("ensemble.parquet", "summary.md", "error.png")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The whole ensemble, made at once."""
    out = tmp_path_factory.mktemp("whole")
    found = run_ensemble(SPEC, out, here())
    assert (found.tasks, found.made, found.failed) == (15, 15, ())
    return out


def rows_of(out, **wanted):
    rows = decode((out / "ensemble.parquet").read_bytes())
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def bytes_of(out):
    return {path.relative_to(out): path.read_bytes() for path in out.rglob("*") if path.is_file()}


def test_parts_made_apart_merge_to_the_same_bytes(whole, tmp_path):
    for index in range(4):
        part = run_ensemble(SPEC, tmp_path, here(), shard=Shards(index, 4))
        assert part.made == part.tasks > 0
        assert not (tmp_path / "ensemble.parquet").exists()
    merged = run_ensemble(SPEC, tmp_path, here())
    assert merged.made == 0
    assert bytes_of(tmp_path) == bytes_of(whole)


def test_another_process_makes_the_same_bytes(whole, tmp_path):
    """By the command, with another order of Python's sets."""
    (tmp_path / "tiny.toml").write_text(TOML)
    done = gridveil_process(
        *("ensemble", "tiny.toml", "--shard=1/5", "--workers=1", "--json"),
        cwd=tmp_path,
        PYTHONHASHSEED="7",
    )
    assert done.code == 0, done.err
    assert json.loads(done.out)["made"] == 3
    ours, theirs = (bytes_of(folder / "shards") for folder in (whole, tmp_path / "ensemble"))
    assert len(theirs) == 3
    assert theirs.items() <= ours.items()


def test_lost_cut_and_altered_shards_are_made_again_and_no_others(whole, tmp_path):
    shards = tmp_path / "shards"
    shards.mkdir()
    for path in (whole / "shards").iterdir():
        (shards / path.name).write_bytes(path.read_bytes())
    lost, cut, altered, swapped, *others = sorted(shards.iterdir())
    lost.unlink()
    cut.write_bytes(cut.read_bytes()[:-20])
    table = pq.read_table(altered)
    column = table.column("L").to_numpy() * (1 + 1e-15)
    at = table.schema.get_field_index("L")
    pq.write_table(table.set_column(at, table.schema.field(at), [column]), altered)
    swapped.write_bytes(others[0].read_bytes())
    before = {path: path.stat().st_mtime_ns for path in others}
    again = run_ensemble(SPEC, tmp_path, here())
    assert again.made == 4
    assert {path: path.stat().st_mtime_ns for path in others} == before
    assert bytes_of(tmp_path) == bytes_of(whole)


def test_no_row_is_there_twice_and_none_is_missing(whole):
    rows = rows_of(whole)
    assert len({(row["hash"], row["seed"]) for row in rows}) == len(rows)
    # Two ε of items without and with a fit, and of topology; of controls, one batch of two.
    assert len(rows) == 3 * 2 * 3 + 2 + 2 + 2


def test_more_seeds_leave_full_batches_as_they_are(whole):
    more = Spec.from_table("more.toml", TINY | {"seeds": 5})
    cells = cells_of(more, "more.toml")
    names = {batch.name for batch in batches_of(more, cells)}
    there = {path.name for path in (whole / "shards").iterdir()}
    assert there - names == {name for name in there if name.endswith("-3-3.parquet")}


@pytest.mark.parametrize(("case", "mechanism"), [("star5", "items"), ("ieee30", "topology")])
def test_a_row_is_what_its_release_is_off_by(case, mechanism):
    """Oracle: the release itself, simulated event by event on its own names."""
    spec = Spec.from_table("one", {"case": case, "epsilon": "1/2", "mechanism": mechanism})
    cell = cells_of(spec, "one")[0]
    (row,) = run_batch(Batch(cell, 2, 2, share(cell)))
    source, judged = open_grid(case), cell.case
    facts, truth, off, nadirs = source.facts, true_model(source), [], []
    release = publish(
        source,
        epsilon=Fraction(1, 2),
        adjacency="one-asset",
        bounds=judged.bounds,
        ledger=None,
        sampler=DemoSampler(2),
        allocation=share_out(
            facts, judged.adjacency, Fraction(1, 2), judged.bounds, mechanism=mechanism
        ),
    )
    names = neutral_names(facts) if mechanism == "items" else {}
    machines = [facts.buses[at] for at in facts.machines]
    assert len(judged.events) == min(6, len(judged.truth.ports))
    for event in judged.events:
        (bus,) = event.places
        port = f"G{machines.index(bus) + 1}" if bus in machines else "L1"
        own = simulate(truth, event, horizon_s=30.0, dt_s=0.02)
        released = release.simulate(
            Event.load({names.get(bus, port): 0.1}), horizon_s=30.0, dt_s=0.02
        )
        off.append(released.omega - own.omega)
        systems = [
            (run.omega @ model.m / model.m.sum()).min()
            for run, model in ((own, truth), (released, release.model))
        ]
        nadirs.append(60e3 * (systems[1] - systems[0]))
    square = 0.02 * sum((part**2).sum() for part in off) / len(off)
    assert row["L"] == pytest.approx(square, rel=1e-9)
    assert row["rms_mhz"] == pytest.approx(60e3 * np.sqrt(square / 30 / len(truth.m)), rel=1e-9)
    assert row["nadir_mhz"] == pytest.approx(max(map(abs, nadirs)), rel=1e-3)  # between samples


def test_the_simplest_model_is_one_machine_that_answers_the_sum_of_loads(whole):
    """Oracle: M ω' = −u − D ω − K (F ω + (1 − F) y), T y' = ω − y, by SciPy."""
    from scipy.integrate import solve_ivp

    from gridveil.inference.fit.controls import fitted_response

    case = cells_of(SPEC, "tiny.toml")[0].case
    seen, whole_load = recorded(case, 1), 0.2 * case.table.facts.loads.sum()
    told = replace(seen, event=Event.load({case.truth.ports[0]: whole_load}))
    one = fitted_response([told], 0.05)

    def slopes(_, state):
        omega, lagged = state
        pull = one.gain * (one.fraction * omega + (1 - one.fraction) * lagged)
        return (-0.1 - one.damping * omega - pull) / one.inertia, (omega - lagged) / one.time_s

    time = np.arange(1501) * 0.02
    alone = solve_ivp(slopes, (0, 30), (0, 0), t_eval=time, rtol=1e-10, atol=1e-13).y[0]
    L = []
    for event in case.events:
        own = simulate(case.truth, event, horizon_s=30.0, dt_s=0.02).omega
        L.append(0.02 * ((alone[:, None] - own) ** 2).sum())
    (row,) = rows_of(whole, mechanism="one machine", seed=1)
    assert row["L"] == pytest.approx(np.mean(L), rel=1e-6)


def test_every_output_says_that_it_is_a_demo(whole, tmp_path):
    for path in whole.rglob("*.parquet"):
        said = json.loads(pq.read_schema(path).metadata[b"gridveil"])
        assert said["demo"] is True
        assert "no privacy follows" in said["words"]
    assert (whole / "summary.md").read_text().startswith("# Ensemble (demo)\n\n**A demo for ever")
    (tmp_path / "tiny.toml").write_text(TOML)
    for options in ((), ("--json",)):
        done = gridveil("ensemble", tmp_path / "tiny.toml", "--out", whole, "--workers=1", *options)
        assert done.code == 0, done.err
        assert "demo for ever" in done.out
    told = json.loads(done.out)
    assert (told["demo"], told["made"], len(told["levels"])) == (True, 0, 9)


def test_workers_get_a_public_table_and_no_grid(whole):
    batch = Batch(cells_of(SPEC, "tiny.toml")[-1], 1, 1)
    sent = pickle.dumps(batch)
    assert b"SourceGrid" not in sent
    assert run_batch(pickle.loads(sent)) == rows_of(whole, hash=batch.cell.hash, seed=1)
    with pytest.raises(GridveilError, match="Install the same version"):
        run_batch(replace(batch, version="0.0.1"))


def test_no_worker_draws_real_noise_or_charges_a_ledger(monkeypatch):
    def never(*_, **__):
        raise AssertionError("of a real release alone")

    monkeypatch.setattr(SecureSampler, "draw", never)
    monkeypatch.setattr(Ledger, "__init__", never)
    cells = cells_of(SPEC, "tiny.toml")
    for mechanism in ("items", "topology"):
        cell = next(one for one in cells if one.mechanism == mechanism and one.fit == "none")
        assert len(run_batch(Batch(cell, 1, 2, share(cell)))) == 2


def test_what_cannot_be_made_is_listed_and_the_rest_is_made(tmp_path):
    """The paper's Euler steps are not stable on a grid in physical units."""
    write_grid(tmp_path)
    spec = f"case = {json.dumps(str(tmp_path / 'private.m'))}\npublic = true\nepsilon = 1\n"
    spec += 'mechanism = "items"\nfit = ["none", "projected-gradient"]\nseeds = 2\n'
    (tmp_path / "spec.toml").write_text(spec)
    done = gridveil("ensemble", tmp_path / "spec.toml", "--out", tmp_path / "out", "--workers=1")
    assert done.code == 1
    assert "Euler" in done.out or "euler" in done.out
    page = (tmp_path / "out" / "summary.md").read_text()
    assert "## Failed" in page
    rows = rows_of(tmp_path / "out")
    assert {row["fit"] for row in rows} == {"none", "record"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ('epsilon = [1, "x"]', "spec.toml: entry 2 of epsilon is not usable"),
        ("epsilon = [1, 1.0]", "spec.toml: epsilon is not usable; expected numbers"),
        ('mechanism = "item"', "expected aggregates, items, topology"),
        ('case = "nowhere"', "spec.toml: case does not do for nowhere"),
        ('adjacency = "asset-l1-relative"', "entry 1 of adjacency is not usable"),
        ('fit = "two-stage"', "spec.toml: fit needs the mechanism items"),
        ("seed = 3", "spec.toml: the key 'seed' is unknown"),
        ("seeds = 0", "spec.toml: seeds is not usable; expected a whole number"),
        ('events = ["load:77=+0.1"]', "spec.toml: events does not do for star5"),
        ('record = {event = "uniform"}', "spec.toml: record does not do for star5"),
        ("record = {noise = 1}", "spec.toml [record]: the key 'noise' is unknown"),
        ("reading = {inertias = 1}", "spec.toml: case does not do for star5"),
        ("epsilon = ", "spec.toml: this is no TOML"),
    ],
)
def test_a_wrong_spec_is_refused_with_its_place_and_nothing_is_written(tmp_path, change, said):
    lines = {"case": 'case = "star5"', "epsilon": "epsilon = 1"}
    lines[change.split(" = ")[0]] = change
    (tmp_path / "spec.toml").write_text("\n".join(lines.values()))
    done = gridveil("ensemble", tmp_path / "spec.toml", "--out", tmp_path / "out", "--workers=1")
    assert done.code == 2
    assert said in done.err
    assert "Nothing was written." in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["spec.toml"]


@pytest.mark.parametrize("part", ["4/4", "1", "-1/4", "a/b", "0/0"])
def test_a_part_that_is_none_is_refused(tmp_path, part):
    done = gridveil("ensemble", tmp_path / "spec.toml", f"--shard={part}")
    assert done.code == 2
    assert "such as 0/4" in done.err


def test_a_file_is_no_case_unless_it_is_said_to_be_public(tmp_path, monkeypatch):
    make_release(tmp_path / "ours")
    monkeypatch.setenv("GRIDVEIL_LEDGER", str(tmp_path / "ours" / "ledger.sqlite"))
    own = {"case": str(tmp_path / "ours" / "private.m"), "epsilon": 1}
    with pytest.raises(GridveilError, match="say public = true"):
        cells_of(Spec.from_table("s", own), "s")
    with pytest.raises(GridveilError, match="it is a private grid"):
        cells_of(Spec.from_table("s", own | {"public": True}), "s")


def test_the_spec_of_the_page_is_one():
    page = Path(__file__).parents[2] / "docs" / "ensemble.md"
    (block,) = re.findall(r"^```toml\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    spec = Spec.from_table("sweep.toml", tomllib.loads(block))
    releases, controls = 3 * (3 + 1), 2 + 1
    assert len(cells_of(spec, "sweep.toml")) == releases + controls
    for key in Spec.model_fields:
        assert f"`{key}`" in page.read_text() or f"`[{key}]`" in page.read_text(), key


def test_rows_come_back_bit_by_bit(whole):
    for path in (whole / "shards").iterdir():
        assert encode(decode(path.read_bytes())) == path.read_bytes()
    with pytest.raises(ValueError, match="no Parquet"):
        decode(b"PAR1")
