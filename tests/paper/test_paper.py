"""The reproduction: equal to a plain reference, resumable, marked as a demo, and within the paper's
bands.
"""

import json
import signal
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import plain_paper
from batch_helpers import STRICT
from gridveil.foundation.errors import GridveilError, OptionError
from gridveil.foundation.executors import here, local
from gridveil.paper import experiment as experiment_module
from gridveil.paper import reproduce
from gridveil.paper.experiment import (
    EPSILONS,
    Experiment,
    RunBlock,
    RunTask,
    blocks,
    collect,
    paper_experiment,
    run_task,
)
from gridveil.paper.star import cases, recover_star
from gridveil.vault.truth import true_full_model

DOCS = Path(__file__).parents[2] / "docs"
GRIDVEIL = Path(sys.executable).with_name("gridveil")
HALF = Fraction(1, 2)


@pytest.mark.parametrize("iterations", [15, pytest.param(500, marks=pytest.mark.slow)])
def test_the_projected_steps_equal_a_plain_reference(iterations):
    experiment = Experiment.ieee30(iterations=iterations)
    facts, truth = experiment.source.facts, experiment.truth
    full = true_full_model(experiment.source)
    k_r, K_ac = plain_paper.reduced(facts.edges, full.k, facts.machines.tolist(), len(facts.buses))
    np.testing.assert_allclose(truth.k_r, k_r, rtol=1e-12)
    inner = [bus for bus in range(30) if bus not in facts.machines]
    T, G, g = facts.governor_rate, facts.droop_gain, len(facts.machines)

    def load_on_machines(K):
        return 0.2 * (facts.loads[facts.machines] + K @ facts.loads[inner])

    observed = plain_paper.euler(k_r, full.m, full.d, T, G, load_on_machines(K_ac), 0.01, 3000)[0]
    runs = experiment.run(HALF, seed=3, first=5, count=2)
    start = runs.before[1]
    found = plain_paper.descend(
        start[:15],
        start[15:21],
        start[21:],
        T,
        G,
        load_on_machines(runs.K_ac[1]),
        observed,
        0.01,
        iterations,
    )
    assert g == 6
    np.testing.assert_allclose(runs.after[1], np.concatenate(found[:3]), rtol=1e-10)
    np.testing.assert_allclose(runs.history[1, :-1], found[3], rtol=1e-10)


def test_runs_do_not_depend_on_their_company():
    alone = Experiment.ieee30(iterations=3).run(HALF, seed=0, first=4, count=1)
    together = Experiment.ieee30(iterations=3).run(HALF, seed=0, first=0, count=7)
    np.testing.assert_allclose(alone.after[0], together.after[4], rtol=1e-12)
    np.testing.assert_allclose(alone.L_pp[0], together.L_pp[4], rtol=1e-9)


def test_runs_are_the_same_on_another_array_library():
    ours, theirs = (
        Experiment.ieee30(iterations=3, **where).run(HALF, seed=0, first=0, count=3)
        for where in ({}, {"compute": STRICT})
    )
    np.testing.assert_allclose(theirs.after, ours.after, rtol=1e-9)
    np.testing.assert_allclose(theirs.history, ours.history, rtol=1e-9)


def test_runs_are_cut_into_blocks_of_ten_seeds():
    cut = list(blocks(1000))
    assert sum(block.count for block in cut) == 3000
    assert {block.seed for block in cut} == set(range(10))
    assert len({block.name for block in cut}) == len(cut)


def test_an_interrupted_collection_goes_on_to_the_same_result(tmp_path, monkeypatch):
    monkeypatch.setattr(experiment_module, "BLOCK", 2)
    paper_experiment.cache_clear()
    whole = collect(4, tmp_path / "whole", here(), iterations=3)
    run, calls = Experiment.run, []

    def interrupted(experiment, *block):
        calls.append(block)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return run(experiment, *block)

    monkeypatch.setattr(Experiment, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        collect(4, tmp_path / "cut", here(), iterations=3)
    saved = sorted((tmp_path / "cut").rglob("*.npz"))
    assert len(saved) == 3
    saved[0].write_bytes(saved[0].read_bytes()[:1000])  # as if the disk had filled up
    again = collect(4, tmp_path / "cut", here(), iterations=3)
    assert len(calls) == 4 + 4
    paper_experiment.cache_clear()
    for epsilon in EPSILONS:
        for name in ("before", "after", "history", "L_lap", "L_pp"):
            np.testing.assert_array_equal(
                getattr(again[epsilon], name), getattr(whole[epsilon], name)
            )


def test_processes_give_the_same_runs(tmp_path):
    alone = collect(25, tmp_path / "alone", here(), iterations=2)
    shared = collect(25, tmp_path / "shared", local(2), iterations=2)
    for epsilon in EPSILONS:
        np.testing.assert_array_equal(shared[epsilon].L_pp, alone[epsilon].L_pp)


def test_a_worker_of_another_version_is_refused(tmp_path):
    task = RunTask(RunBlock(HALF, 0, 0, 1), 1, "cpu", version="0.0")
    with pytest.raises(GridveilError, match=r"of 0\.0"):
        run_task(task)


def paper(*arguments, **options):
    return subprocess.run(
        [GRIDVEIL, "paper", "--json", *arguments],
        capture_output=True,
        text=True,
        check=True,
        **options,
    )


@pytest.mark.slow
@pytest.mark.parametrize("with_signal", [signal.SIGINT, signal.SIGKILL])
def test_a_killed_command_goes_on_where_it_stopped(tmp_path, with_signal):
    arguments = ("--runs", "20", "--only", "fig4", "--out")
    whole = paper(*arguments, tmp_path / "whole")
    process = subprocess.Popen(
        [GRIDVEIL, "paper", *arguments, tmp_path / "cut"],
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(
            signal.SIGINT, signal.SIG_DFL
        ),  # a shell's background jobs ignore it
    )
    while not list((tmp_path / "cut").rglob("*.npz")):
        time.sleep(0.05)
    process.send_signal(with_signal)
    assert process.wait() in (130, -signal.SIGKILL)
    assert len(list((tmp_path / "cut").rglob("*.npz"))) < 3
    again = paper(*arguments, tmp_path / "cut")
    assert json.loads(again.stdout)["levels"] == json.loads(whole.stdout)["levels"]
    for name in ("fig4.png", "fig4.csv", "reproduction.md"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A whole reproduction, with few runs and few iterations."""
    out = tmp_path_factory.mktemp("paper")
    patch = pytest.MonkeyPatch()
    patch.setenv("GRIDVEIL_LEDGER", str(out / "ledger.sqlite"))
    yield out, reproduce(4, out, iterations=2)
    patch.undo()


def test_every_figure_comes_as_png_pdf_and_csv(small):
    out, found = small
    for number in range(1, 10):
        assert (out / f"fig{number}.png").stat().st_size > 5_000
        assert (out / f"fig{number}.pdf").read_bytes().startswith(b"%PDF")
        assert len(pd.read_csv(out / f"fig{number}.csv", comment="#")) > 1
    assert len(found.files) == 28


def test_everything_is_marked_as_a_demo_and_nothing_is_charged(small):
    out, _ = small
    assert "**demo**" in (out / "reproduction.md").read_text(encoding="utf-8")
    assert all(
        (out / f"fig{n}.csv").read_text(encoding="utf-8").startswith("# demo") for n in range(1, 10)
    )
    assert not (out / "ledger.sqlite").exists()


def test_figures_name_no_program_and_no_time(small):
    out, _ = small
    for path in out.glob("fig*.p*"):
        for mark in (b"/CreationDate", b"/Producer", b"/Creator", b"matplotlib.org", b"Software"):
            assert mark not in path.read_bytes()


def test_an_unknown_figure_and_a_bad_count_are_refused(tmp_path):
    with pytest.raises(OptionError, match="fig9"):
        reproduce(100, tmp_path / "out", only=["fig10"])
    with pytest.raises(OptionError, match="2 to"):
        reproduce(0, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_star_is_recovered_and_the_row_is_not():
    over, well, under = cases()
    assert over.error < 1e-12
    assert well.error < 1e-12
    assert (over.rank, well.rank, under.rank) == (4, 3, 1)
    np.testing.assert_allclose(recover_star(np.array([1, 1.6, 1, 4, 2.5, 4]), 4), [4, 10, 16, 10])


def test_the_example_runs_on_another_grid():
    script = DOCS.parent / "examples" / "another_grid.py"
    done = subprocess.run(
        [sys.executable, script, "--runs", "1", "--iterations", "1"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "118 buses" in done.stdout
    assert done.stdout.count("L_pp mean") == 3


@pytest.fixture(scope="module")
def published():
    """The 1000 runs per ε whose figures stand in docs/reproduction.md."""
    return json.loads((DOCS / "reproduction" / "results.json").read_text(encoding="utf-8"))


CENTRES = {"1/2": (2.9e-3, 4.7e-4), "1": (1.4e-3, 2.2e-4), "2": (4.9e-4, 1.0e-4)}


def test_the_published_means_lie_in_the_bands_of_a_faithful_reproduction(published):
    for level in published["levels"]:
        laplace, fitted = CENTRES[level["epsilon"]]
        assert level["runs"] == 1000
        assert level["laplace"]["mean"] == pytest.approx(laplace, rel=0.20)
        assert level["fitted"]["mean"] == pytest.approx(fitted, rel=0.12)


def test_the_published_figures_fall_with_epsilon_and_damping_tightens(published):
    levels = published["levels"]
    for stage in ("laplace", "fitted"):
        for figure in ("mean", "median"):
            values = [level[stage][figure] for level in levels]
            assert values == sorted(values, reverse=True)
    assert all(level["rmse_after"]["d"] < level["rmse_before"]["d"] for level in levels)
    assert all(level["wins"] > 0.85 for level in levels)


def test_the_page_states_the_published_figures(published):
    page = (DOCS / "reproduction.md").read_text(encoding="utf-8")
    for level in published["levels"]:
        assert f"{level['laplace']['mean']:.2e}" in page
        assert f"{level['fitted']['mean']:.2e}" in page
    for claim in published["claims"]:
        assert claim["figure"] in page


@pytest.mark.slow
def test_a_hundred_runs_agree_with_the_thousand(published, tmp_path):
    found = json.loads(paper("--runs", "100", "--only", "fig5", "--out", tmp_path).stdout)
    for level, reference in zip(found["levels"], published["levels"], strict=True):
        for stage in ("laplace", "fitted"):
            one, many = level[stage], reference[stage]
            half = max(one["mean_high"] - one["mean"], many["mean_high"] - many["mean"])
            assert abs(one["mean"] - many["mean"]) < 3 * half
