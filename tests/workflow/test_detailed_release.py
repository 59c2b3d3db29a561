"""A release with detailed devices: what is drawn and charged, and that nothing private is solved,
said or written.
"""

import json
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest

from cli_helpers import Done, as_json, charges, files_under, gridveil
from detailed_releases import FILE, HALF, Counting, charged, demo, detailed, write_private
from differential_helpers import differing, dumped, pin_nonces
from gridveil import load, verify
from gridveil.dynamics.detailed import equilibrium, projection
from gridveil.dynamics.detailed.arrays import to_arrays
from gridveil.dynamics.detailed.model import DetailedModel
from gridveil.dynamics.detailed.projection import check_public_end
from gridveil.dynamics.events import Event
from gridveil.dynamics.models import ReducedModel
from gridveil.dynamics.trajectory import Trajectory
from gridveil.foundation.errors import BudgetExceeded, OptionError
from gridveil.grid.parameters import assets
from gridveil.inference.fit.problem import Observation
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.allocation import Allocation
from gridveil.privacy.ledger import Ledger
from gridveil.privacy.mechanisms import parts
from gridveil.privacy.provenance import Provenance
from gridveil.publication.bundle import contents
from gridveil.publication.stated import release_problems
from gridveil.readers import assemble
from gridveil.readers.cases import open_grid, read_grid
from gridveil.readers.detailed import detailed_case, locked
from gridveil.readers.dynamics import Detailed, Dynamics
from gridveil.vault.sampler import SecureSampler
from gridveil.vault.source import Private
from gridveil.workflow import detailed as workflow
from gridveil.workflow.detailed import allocate, publish_detailed
from gridveil.workflow.settings import ReleaseSettings
from psse_helpers import ANDES

CASES = ("andes:kundur", "andes:ieee39")
MEASURED = Provenance("measured", "an operator", "2026-01-02", "https://example.org", "its report")
EXPORTS = ("andes", "psse", "mat", "statespace", "modelica", "fmu", "matrices")


@pytest.fixture
def room(tmp_path, monkeypatch):
    """A folder to work in, with a home of its own."""
    monkeypatch.setenv("GRIDVEIL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GRIDVEIL_WITNESS", str(tmp_path / "home/witness.sqlite"))
    monkeypatch.delenv("GRIDVEIL_LEDGER", raising=False)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def release(*options, grid="andes:kundur", out="bundle"):
    return gridveil(
        "release", grid, "--epsilon=1/2", "--ledger=ledger.sqlite", "--out", out, *options
    )


# --- what is drawn --------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_the_same_seed_gives_the_same_bytes(case):
    with_bars = {"seed": 3, "error_bars": case == CASES[0]}
    first, second = (contents(demo(case, **with_bars), formats=EXPORTS) for _ in range(2))
    assert first == second
    assert contents(demo(case, seed=6), formats=EXPORTS)["model.mat"] != first["model.mat"]


@pytest.mark.parametrize("case", CASES)
def test_a_charged_release_is_one_row_of_the_ledger(case, room):
    release = charged(room, case, form="network")
    report = release.save(room / "bundle", formats=EXPORTS)
    assert verify(room / "bundle") == report
    assert (report.demo, report.epsilon, report.exports) == (False, "1/2", EXPORTS)
    assert "certificate.json" in report.files
    (entry,) = Ledger(room / "ledger.sqlite").entries()
    assert (entry.epsilon, entry.state) == (HALF, "published")
    assert release.guarantee.spent <= HALF


def drawn_in_parts(case):
    facts = detailed(case).facts
    adjacency = Adjacency("one-asset-relative", family="detailed")
    allocation = allocate(facts, adjacency)
    return list(parts(dict(allocation.draws), assets("detailed")))


def moved_of(case, seed, epsilon=HALF):
    """Whether projection moved a release, each part of which must have been drawn once."""
    sampler = Counting(seed)
    made = demo(case, sampler=sampler, epsilon=epsilon)
    assert len(sampler.shapes) == len(drawn_in_parts(case))
    return made.shown.moved > 0


@pytest.mark.parametrize("case", CASES)
def test_each_part_is_drawn_once_whatever_became_of_the_draw(case):
    """A second draw of an unstable model would cost a second ε."""
    calm = [moved_of(case, seed) for seed in range(3)]
    rough = [moved_of(case, 1, HALF / 5)]
    assert not all(calm) and all(rough)  # both kinds were counted


@pytest.mark.slow
def test_each_part_is_drawn_once_in_many_releases():
    moved = [moved_of(case, seed) for case in CASES for seed in range(20)]
    assert 0 < sum(moved) < len(moved)


def test_shares_of_each_asset_add_up_to_the_whole():
    facts = detailed("andes:ieee39").facts
    adjacency = Adjacency("one-asset-relative", family="detailed")
    shares = allocate(facts, adjacency).over(adjacency)
    by_asset = {}
    for _, names in parts(dict(allocate(facts, adjacency).draws), assets("detailed")):
        (share,) = {shares.shares[name] for name in names}  # spent once on all of a part
        asset = facts.parameters[names[0]].asset
        by_asset[asset] = by_asset.get(asset, 0) + share
    assert by_asset == dict.fromkeys(("line", "shunt", "load", "machine"), 1)


# --- what is refused, and which model is made -----------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        ("--model=swing",),
        ("--mechanism=items",),
        ("--mechanism=aggregates",),
        ("--split=k=1,m=1/2,d=1/2",),
        ("--share-by=rating",),
        ("--merge-loads=1",),
        ("--adjacency=one-asset",),
        ("--bounds=m=1:400",),
        ("--alpha=k=1",),
    ],
    ids=" ".join,
)
def test_options_of_swing_models_keep_the_swing_path(room, options):
    done = release(*options, "--bounds=derived")
    assert done.code == 0, done.err
    assert isinstance(load("bundle").model, ReducedModel)
    assert verify("bundle").epsilon == "1/2"


@pytest.mark.parametrize(
    "option",
    [
        "--mechanism=items",
        "--split=k=1,m=1/2,d=1/2",
        "--share-by=rating",
        "--merge-loads=1",
        "--surrogate=star5",
        "--profile=paper",
        "--inertia=5",
        "--load-damping=1",
        "--publish-loads",
        "--operating-point=flat",
        "--adjacency=one-asset",
        "--adjacency=one-per-group",
        "--bounds=m=1:400",
        "--alpha=k=1",
        "--formats=csv",
        "--formats=andes,matpower",
    ],
)
def test_options_of_swing_models_are_refused_of_a_detailed_one_before_a_charge(room, option):
    done = release("--model=detailed", option)
    assert done.code == 2, done.out
    assert "spent" in done.err or "Nothing" in done.err, done.err
    assert charges(room / "ledger.sqlite") == []
    assert not (room / "bundle").exists()


def test_a_file_with_controls_becomes_a_detailed_model_unless_it_is_told_otherwise(room):
    assert release().code == 0
    assert isinstance(load("bundle").model, DetailedModel)
    assert open_grid("andes:kundur").facts.family == "swing"
    assert as_json(gridveil("inspect", "andes:kundur", "--json"))["model"] == "detailed"
    shown = as_json(gridveil("inspect", "andes:kundur", "--model=swing", "--json"))
    assert "model" not in shown and "omega_b_rad_s" in shown


def test_settings_say_which_family_they_are_of():
    given = {"grid": "andes:kundur", "epsilon": "1/2"}
    assert ReleaseSettings.of(given).said_family is None
    assert ReleaseSettings.of(given, model="swing").said_family == "swing"
    assert ReleaseSettings.of(given, mechanism="items").said_family == "swing"
    assert ReleaseSettings.of(given, adjacency="asset-l1-relative").said_family == "detailed"
    assert ReleaseSettings.of(given, bounds="M=1:400").said_family == "detailed"
    assert ReleaseSettings.of(given, alpha="x=1/10").said_family == "detailed"
    with pytest.raises(OptionError, match="--model steady is unknown"):
        ReleaseSettings.of(given, model="steady")
    with pytest.raises(OptionError, match="--form whole is unknown"):
        ReleaseSettings.of(given, form="whole")


@pytest.mark.parametrize("first", ["detailed", "swing"])
def test_a_lineage_has_one_family(room, first):
    second = {"detailed": "swing", "swing": "detailed"}[first]
    assert release(f"--model={first}", "--bounds=derived").code == 0
    before = len(charges(room / "ledger.sqlite"))
    for lineage in ((), ("--lineage=another",)):  # by its name, and by its network
        done = release(f"--model={second}", "--bounds=derived", *lineage, out="second")
        assert done.code == 2
        assert f"counts parameters of the {first} family" in " ".join(done.err.split())
    assert len(charges(room / "ledger.sqlite")) == before
    assert not (room / "second").exists()


def test_python_meets_the_same_ledger(room):
    charged(room, lineage="north")
    with pytest.raises(BudgetExceeded):
        charged(room, lineage="north")
    with pytest.raises(OptionError, match="needs a ledger"):
        publish_detailed(detailed(), epsilon=HALF, ledger=None)


def test_several_draws_are_several_bundles_and_charges(room):
    done = release("--count=2", "--json")
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert [verify(path).epsilon for path in told["bundles"]] == ["1/2", "1/2"]
    assert len(charges(room / "ledger.sqlite")) == 2


@pytest.mark.parametrize("rule", ["one-item-relative", "asset-l1-relative"])
def test_other_rules_draw_each_entry_for_itself(room, rule):
    done = release(f"--adjacency={rule}")
    assert done.code == 0, done.err
    groups = load("bundle").guarantee.groups
    assert {loss.drawn for loss in groups.values()} == {"items", "mean"}
    assert {loss.epsilon for loss in groups.values()} == {HALF}
    assert verify("bundle").adjacency == rule


def test_bounds_and_alpha_of_detailed_parameters_are_taken(room):
    done = release("--bounds=M=1:400", "--bounds-origin=a public study", "--alpha=M=1/10")
    assert done.code == 0, done.err
    made = load("bundle")
    assert (made.bounds["M"].lower, made.bounds["M"].upper) == (1, 400)
    assert made.guarantee.groups["M"].alpha * 10 == 1
    assert made.public_inputs["bounds"] == "a public study"


# --- nothing private is solved, said or written ---------------------------------------------------


@pytest.fixture
def solved(monkeypatch):
    """All numbers that a power flow is solved for, in order, and between them every draw."""
    seen = []
    honest = {
        (equilibrium, "flow"): lambda wiring, numbers, *rest: numbers,
        (equilibrium, "newton"): lambda grid, *rest: vars(grid),
        (assemble, "newton"): lambda grid, *rest: vars(grid),
        (projection, "solve"): lambda case: case_numbers(case),
    }

    def recording(of, taken):
        def record(*arguments, **named):
            seen.append(flat(taken(*arguments)))
            return of(*arguments, **named)

        return record

    for (module, name), taken in honest.items():
        monkeypatch.setattr(module, name, recording(getattr(module, name), taken))
    return seen


def case_numbers(case):
    tables = {table.model: dict(table.values) for table in case.devices}
    return tables | {
        name: vars(getattr(case, name)) for name in ("branches", "loads", "units")
    } | {"shunt": case.shunt}  # fmt: skip


def flat(numbers):
    """Every number in nested mappings of arrays, real and imaginary parts."""
    if isinstance(numbers, dict):
        return np.concatenate([np.empty(0), *map(flat, numbers.values())])
    values = np.atleast_1d(np.asarray(numbers)).ravel().astype(complex)
    return np.concatenate([values.real, values.imag])


DRAWN = "a draw"


def private_numbers(source):
    """Every entry of the table but those that happen to be round: x and x′d M and all others."""
    return np.concatenate([Private.open(values) for values in source.values.values()])


def test_the_private_case_is_never_solved(solved, tmp_path, monkeypatch):
    path = write_private(tmp_path, seed=7)
    source = detailed(path)
    assert solved == []  # it was read, and no operating point was looked for
    check_public_end(source.facts.public)
    public = list(solved)
    assert public
    solved.clear()

    class Marking(Counting):
        def draw(self, values, scale, noise):
            solved.append(DRAWN)
            return super().draw(values, scale, noise)

    made = publish_detailed(source, epsilon=HALF, ledger=None, sampler=Marking(2))
    first = next(n for n, numbers in enumerate(solved) if isinstance(numbers, str))
    last = max(n for n, numbers in enumerate(solved) if isinstance(numbers, str))
    before, after = solved[:first], solved[last + 1 :]
    # Before the draw: what the public case alone gives, to the bit.
    assert len(before) == len(public)
    assert all(np.array_equal(one, other) for one, other in zip(before, public, strict=True))
    assert solved[first : last + 1] == [DRAWN] * (last + 1 - first)  # nothing between draws
    # After it: no number of the table at all.
    assert after
    contents(made, formats=EXPORTS)
    true = private_numbers(source)
    for numbers in (numbers for numbers in solved if not isinstance(numbers, str)):
        near = np.abs(numbers[:, None] - true) <= 1e-9 * np.abs(true)
        assert not near.any()


def test_the_command_solves_nothing_private_either(solved, room, monkeypatch):
    write_private(room, seed=7)
    source = detailed(room / FILE)
    check_public_end(source.facts.public)
    public = list(solved)
    solved.clear()
    honest = SecureSampler.draw

    def draw(self, values, scale, noise):
        solved.append(DRAWN)
        return honest(self, values, scale, noise)

    monkeypatch.setattr(SecureSampler, "draw", draw)
    assert release(grid=FILE).code == 0
    before = solved[: next(n for n, numbers in enumerate(solved) if isinstance(numbers, str))]
    assert len(before) == len(public)
    assert all(np.array_equal(one, other) for one, other in zip(before, public, strict=True))


class Tables:
    """Commands on tables of the same public facts, in the same places and with the same noise."""

    def __init__(self, tmp_path, monkeypatch):
        self.home, self.work = tmp_path / "home", tmp_path / "work"
        self.prepared, self.patch = tmp_path / "prepared", monkeypatch
        monkeypatch.setenv("GRIDVEIL_HOME", str(self.home))
        monkeypatch.setenv("GRIDVEIL_WITNESS", str(self.home / "witness.sqlite"))
        monkeypatch.delenv("GRIDVEIL_LEDGER", raising=False)
        Ledger(self.home / "ledger.sqlite").register("another grid")
        assert gridveil("keys", "new", "--no-passphrase").code == 0
        shutil.copytree(self.home, self.prepared)
        self.values, self.same = [], {}

    def record(self, command):
        """Draw once for real, so that constants are such as a draw has."""
        honest = SecureSampler.draw

        def draw(sampler, values, scale, noise):
            self.values.append(honest(sampler, values, scale, noise))
            return self.values[-1]

        with self.patch.context() as patched:
            patched.setattr(SecureSampler, "draw", draw)
            self._run(0, command)

    def run(self, seed, *commands):
        """All that commands say and leave, each draw what was recorded."""
        drawn = iter(self.values * len(commands))

        def constant(sampler, values, scale, noise):
            constants = next(drawn)
            assert constants.shape == values.shape
            return constants

        with self.patch.context() as patched:
            patched.setattr(SecureSampler, "draw", constant)
            return self._run(seed, *commands)

    def _run(self, seed, *commands):
        for old in (self.home, self.work):
            shutil.rmtree(old, ignore_errors=True)
        shutil.copytree(self.prepared, self.home)
        write_private(self.work, seed, self.same)
        pin_nonces(self.patch)
        self.patch.chdir(self.work)
        said = {f"{n}: {command[0]}": gridveil(*command) for n, command in enumerate(commands)}
        left = {
            str(path): dumped(path) if path.suffix == ".sqlite" else data
            for path, data in (files_under(self.home) | files_under(self.work)).items()
            if path.name != FILE
        }
        return said | left


@pytest.fixture
def tables(tmp_path, monkeypatch):
    return Tables(tmp_path, monkeypatch)


def command(*options, out="bundle"):
    return ("release", FILE, "--epsilon=1/2", "--out", out, *options)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param((f"--formats={','.join(EXPORTS)}", "--form=network"), marks=pytest.mark.slow),
        ("--json",),
        pytest.param(("--adjacency=one-item-relative",), marks=pytest.mark.slow),
        pytest.param(("--adjacency=asset-l1-relative", "--zip=P"), marks=pytest.mark.slow),
        pytest.param(("--bounds=M=1:40", "--alpha=x=1/4"), marks=pytest.mark.slow),
        pytest.param(
            ("--treatments=x=publish,p_load=publish,M=mean,gov_gain=typical", "--form=network"),
            marks=pytest.mark.slow,
        ),
    ],
    ids=" ".join,
)
def test_two_private_cases_leave_the_same_bytes(tables, options):
    if any("publish" in option for option in options):  # neighbours share what is published
        tables.same = {"Line": {"x"}, "PQ": {"p0"}}
    tables.record(command(*options))
    commands = (
        command(*options),
        ("verify", "bundle"),
        ("ledger", "show"),
        ("inspect", FILE, "--json"),
        command(*options, out="second"),  # the budget is spent
    )
    first, *others = (tables.run(seed, *commands) for seed in (0, 1, 2))
    codes = [done.code for done in first.values() if isinstance(done, Done)]
    assert codes == [0, 0, 0, 0, 2], first
    assert [differing(first, other) for other in others] == [[], []]
    assert any(name.endswith("bundle/certificate.json") for name in first)


def test_a_true_value_in_the_12th_digit_is_caught(tables, monkeypatch):
    """The check above sees what it is for."""
    tables.record(command())
    honest, drawn = workflow.project, workflow.perturb_planned
    true = []

    def perturb_planned(plan, **settings):
        true.append(float(Private.open(plan.source.values["M"]).sum()))
        return drawn(plan, **settings)

    def project(public, values):
        return honest(public, values | {"x": values["x"] * (1 + 1e-12 * true[-1])})

    monkeypatch.setattr(workflow, "perturb_planned", perturb_planned)
    monkeypatch.setattr(workflow, "project", project)
    one, other = (tables.run(seed, command()) for seed in (0, 1))
    assert any(name.endswith("SHA256SUMS") for name in differing(one, other))


def test_tables_of_the_file_differ_in_every_parameter(tmp_path):
    """What is said above of two cases is said of cases that share no private value."""
    one, other = (detailed(write_private(tmp_path / str(seed), seed)) for seed in (0, 1))
    assert one.values.keys() == other.values.keys()
    for name, values in one.values.items():
        assert (Private.open(values) != Private.open(other.values[name])).all(), name


def test_an_allocation_of_the_caller_s_is_drawn(room):
    facts = detailed().facts
    everything = allocate(facts, Adjacency("one-asset-relative", family="detailed"))
    fewer = dict(everything.draws) | {"b_ratio": "nothing"}
    made = demo(allocation=Allocation(fewer))
    assert "b_ratio" not in made.guarantee.groups
    made.save(room / "bundle")
    assert verify(room / "bundle").demo
    assert re.search(r'"b_ratio": null', (room / "bundle/release.json").read_text())


# --- what a reviewer broke ------------------------------------------------------------------------


def test_shares_of_a_files_loads_stay_private():
    """They are quotients of private powers: to the last bit, a neighbour has others."""
    zip_file = ANDES / "ieee14" / "ieee14_zip.json"
    grid = read_grid(zip_file)
    private, _ = detailed_case(grid, Dynamics())
    assert np.ptp(private.loads.impedance) > 0
    scaled = replace(private.loads, power=private.loads.power * 1.02)
    shifted = replace(
        scaled, impedance=scaled.impedance * (1 + 1e-15), current=0.9 * scaled.current
    )
    first, second = (
        locked(replace(private, loads=loads), Detailed(zip="P")).facts.public
        for loads in (private.loads, shifted)
    )
    for name, array in to_arrays(first).items():
        assert array.tobytes() == to_arrays(second)[name].tobytes(), name
    assert not first.loads.impedance.any()


@pytest.mark.parametrize(
    "event",
    [
        "load:nowhere=+100MW",
        "trip:5",
        "trip:1;trip:1@2s",
        "trip:1,2,3,4",
        "uniform:+5%",
        "ramp:7=+50MW@1s..3s",
    ],
)
def test_an_event_that_cannot_be_fitted_is_refused_before_the_charge(event, room):
    source = detailed("andes:kundur")
    time_s = np.arange(501) * 0.02
    trajectory = Trajectory(time_s, -1e-4 * time_s[:, None], ("1",), 60.0, float("nan"))
    record = Observation(Event.parse(event, base_mva=100), trajectory, MEASURED)
    ledger = Ledger(room / "ledger.sqlite")
    with pytest.raises(OptionError, match="Nothing was drawn and nothing was spent"):
        publish_detailed(source, [record], epsilon=HALF, ledger=ledger)
    assert ledger.entries() == []


def test_a_format_without_words_for_a_device_is_refused_before_the_charge(room):
    done = release("--formats=psse", grid=str(ANDES / "ieee14" / "ieee14_regcp1.xlsx"))
    assert done.code == 2
    assert "REGCP1" in done.err
    assert charges(room / "ledger.sqlite") == []


def forged(release, **changed):
    return next(release_problems(replace(release, **changed)), None)


@pytest.mark.parametrize("form", ["reduced", "network"])
def test_a_guarantee_that_its_case_contradicts_does_not_verify(form):
    made = demo("andes:kundur", form=form)
    assert forged(made) is None
    guarantee, shown = made.guarantee, made.shown
    means = {name: 10**6 * count for name, count in guarantee.means.items()}
    assert "another number of entries" in forged(made, guarantee=replace(guarantee, means=means))
    fewer = tuple(name for name in guarantee.parameters if name != "M")
    groups = {name: guarantee.groups[name] for name in guarantee.groups if name in fewer}
    clipped = {name: made.clipped[name] for name in fewer}
    other = replace(guarantee, parameters=fewer, groups=groups)
    assert "other entries" in forged(made, guarantee=other, clipped=clipped)
    for model, name in (("GENROU", "Td10"), ("EXDC2", "KA"), ("GENROU", "M")):
        tables = tuple(
            replace(table, values={**table.values, name: table.values[name] * [1, 1.1, 1.2, 1.3]})
            if table.model == model
            else table
            for table in shown.case.devices
        )
        case = replace(shown.case, devices=tables)
        assert forged(made, shown=replace(shown, case=case)) is not None, name
