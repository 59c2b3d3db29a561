"""Every public function, called as people would call it: what is clear is read, and what is wrong
is refused with what to pass.
"""

import inspect
from datetime import date
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import gridveil
from gridveil import (
    Adjacency,
    Bounds,
    DemoSampler,
    Event,
    FitSettings,
    GridveilError,
    Ledger,
    Observation,
    Provenance,
    Range,
    Release,
    ReleaseSettings,
    SecureSampler,
    Trajectory,
)
from gridveil.dynamics.detailed.equilibrium import solve
from gridveil.dynamics.detailed.linearise import linearise
from gridveil.publication.frames import lines_frame, machines_frame
from small_detailed import small_case


@pytest.fixture(scope="module")
def source():
    return gridveil.open_grid("star5")


@pytest.fixture(scope="module")
def release(source):
    return drawn(source, gridveil.publish)


def drawn(source, verb, **changed):
    settings = {"epsilon": 1, "adjacency": "one-asset", "bounds": {"m": (1, 40)}, "ledger": None}
    return verb(source, **settings | {"sampler": DemoSampler(1)} | changed)


RECORD = ("load:1=0.1", "a trajectory", "a source")
# Of each public name: three calls that people make, and what the refusal has to say.
WRONG = {
    "Adjacency": [
        (lambda s, r: Adjacency("one_asset"), "one-asset"),
        (lambda s, r: Adjacency(alpha=1), "numbers by group"),
        (lambda s, r: Adjacency("one-asset", family="swings"), "swing, detailed"),
    ],
    "Bounds": [
        (lambda s, r: Bounds((1, 40)), r"Bounds\(m=\(1, 40\)\)"),
        (lambda s, r: Bounds(m=40), "a pair of numbers"),
        (lambda s, r: Bounds(inertia=(1, 40)), "bounds of k, k_r, m, d"),
    ],
    "DemoSampler": [
        (lambda s, r: DemoSampler("one"), "a whole number of 0 or more"),
        (lambda s, r: DemoSampler(-1), "a whole number of 0 or more"),
        (lambda s, r: DemoSampler(), r"DemoSampler\(seed\)"),
    ],
    "Event": [
        (lambda s, r: Event("load:1=+0.1"), "Event.parse"),
        (lambda s, r: Event.load("1"), r"\{'G1': 0.1\}"),
        (lambda s, r: Event.parse("load 1 0.1"), "load:BUS"),
    ],
    "FitSettings": [
        (lambda s, r: FitSettings("newton"), "two-stage"),
        (lambda s, r: FitSettings(dt_s="0.01"), "a time step above 0"),
        (lambda s, r: FitSettings(iteration=5), "Did you mean iterations"),
    ],
    "Ledger": [
        (lambda s, r: Ledger(None), r"Ledger.default\(\)"),
        (lambda s, r: Ledger(""), r"Ledger.default\(\)"),
        (lambda s, r: Ledger(), r"Ledger\(location"),
    ],
    "Observation": [
        (lambda s, r: Observation("load:1=0.1", "record.csv", None), "a Trajectory"),
        (lambda s, r: Observation(0.1, r.simulate("load:G1=0.1"), None), "an Event, or words"),
        (
            lambda s, r: Observation("load:G1=0.1", r.simulate("load:G1=0.1"), "a paper"),
            "a Provenance",
        ),
    ],
    "Provenance": [
        (lambda s, r: Provenance("public", "a paper"), "measured or simulated"),
        (lambda s, r: Provenance("measured", None), "a text"),
        (lambda s, r: Provenance("measured", "a paper", "24.5.2026"), "as 2026-05-24"),
    ],
    "Range": [
        (lambda s, r: Range("1:40"), r"Range\(lower, upper"),
        (lambda s, r: Range(40, 1), "lower < upper"),
        (lambda s, r: Range("a", "b"), "a number"),
    ],
    "Release": [
        (lambda s, r: Release("bundle"), r"Release\(model, guarantee"),
        (lambda s, r: Release("bundle", *[None] * 6), r"load\(path\)"),
        (lambda s, r: r.simulate(0.1), "an Event, or words"),
    ],
    "ReleaseSettings": [
        (lambda s, r: ReleaseSettings("grid.m"), r"ReleaseSettings\(.*epsilon"),
        (lambda s, r: ReleaseSettings(grid="grid.m", epsilon="much"), "such as 1/2 or 0.5"),
        (lambda s, r: ReleaseSettings(grid="grid.m", epsilon=1, bounds=(1, 40)), "Bounds"),
    ],
    "SecureSampler": [
        (lambda s, r: SecureSampler(1), r"SecureSampler\(\)"),
        (lambda s, r: SecureSampler(seed=1), r"SecureSampler\(\)"),
        (lambda s, r: SecureSampler(None, None), r"SecureSampler\(\)"),
    ],
    "Trajectory": [
        (lambda s, r: Trajectory("record.csv"), r"Trajectory\(time_s"),
        (lambda s, r: Trajectory("a", [1.0], ["1"], 60, 0), "an array of numbers"),
        (lambda s, r: Trajectory([0.0], [[0.0]], 1, 60, 0), "names of buses"),
    ],
    "exact": [
        (lambda s, r: gridveil.exact("half"), "such as 1/2 or 0.5"),
        (lambda s, r: gridveil.exact(0), "such as 1/2 or 0.5"),
        (lambda s, r: gridveil.exact(), r"exact\(value"),
    ],
    "load": [
        (lambda s, r: gridveil.load("nowhere"), "nowhere"),
        (lambda s, r: gridveil.load(None), "a path to a bundle"),
        (lambda s, r: gridveil.load(r), "a path to a bundle"),
    ],
    "modes": [
        (lambda s, r: gridveil.modes("bundle"), "a model, such as release.model"),
        (lambda s, r: gridveil.modes(r), "a model, such as release.model"),
        (lambda s, r: gridveil.modes(s), "a model, such as release.model"),
    ],
    "open_grid": [
        (lambda s, r: gridveil.open_grid("nowhere.m"), "nowhere.m"),
        (lambda s, r: gridveil.open_grid(None), "'ieee30'"),
        (lambda s, r: gridveil.open_grid("star5", damping=2), "open_grid"),
    ],
    "perturb": [
        (lambda s, r: drawn("star5", gridveil.perturb), "a grid that open_grid returns"),
        (lambda s, r: drawn(s, gridveil.perturb, adjacency=1), "'one-asset'"),
        (lambda s, r: drawn(s, gridveil.perturb, ledger="ledger.sqlite"), r"Ledger.default\(\)"),
    ],
    "publish": [
        (lambda s, r: drawn(s, gridveil.publish, bounds=(1, 40)), "ranges by name"),
        (lambda s, r: drawn(s, gridveil.publish, observed="record.toml"), "Observations"),
        (lambda s, r: gridveil.publish(s, epsilon=1), "missing a required argument"),
    ],
    "read_trajectory": [
        (lambda s, r: gridveil.read_trajectory("record.toml"), "missing a required argument"),
        (lambda s, r: gridveil.read_trajectory("record.toml", s), "source.facts"),
        (lambda s, r: gridveil.read_trajectory(None, s.facts), "a path to the TOML"),
    ],
    "compare": [
        (lambda s, r: gridveil.compare(r), "missing a required argument"),
        (lambda s, r: gridveil.compare(r, 3), "release"),
        (lambda s, r: gridveil.compare(r, r, 0.1), "event"),
    ],
    "init_record": [
        (lambda s, r: gridveil.init_record(3), "DataFrame"),
        (lambda s, r: gridveil.init_record([]), "1 to"),
        (lambda s, r: gridveil.init_record("nowhere.csv"), "nowhere.csv"),
    ],
    "reduce": [
        (lambda s, r: gridveil.reduce(s), r"perturb\(\)"),
        (lambda s, r: gridveil.reduce("star5"), r"perturb\(\)"),
        (lambda s, r: gridveil.reduce(r), r"perturb\(\)"),
    ],
    "release_grid": [
        (lambda s, r: gridveil.release_grid("star5"), "ReleaseSettings.of"),
        (lambda s, r: gridveil.release_grid(s), "ReleaseSettings.of"),
        (lambda s, r: gridveil.release_grid(grid="star5", epsilon=1), r"release_grid\(settings"),
    ],
    "run_demo": [
        (lambda s, r: gridveil.run_demo("ieee39"), "ieee30 or star5"),
        (lambda s, r: gridveil.run_demo("star5", profile="papers"), "did you mean paper"),
        (lambda s, r: gridveil.run_demo("star5", seed="one"), "a whole number"),
    ],
    "simulate": [
        (lambda s, r: gridveil.simulate(r.model, 0.1), "load:G1=\\+0.1"),
        (lambda s, r: gridveil.simulate(r, "load:G1=+0.1"), "release.model"),
        (lambda s, r: gridveil.simulate(r.model, "load:G1=1", horizon=5), "mean horizon_s"),
    ],
    "verify": [
        (lambda s, r: gridveil.verify(None), "a path to a bundle"),
        (lambda s, r: gridveil.verify("nowhere"), "nowhere"),
        (lambda s, r: gridveil.verify("nowhere", key=3), "public key"),
    ],
}
# It is raised, never called.
NO_CALL = {"GridveilError"}


def test_every_public_name_is_called_with_three_wrong_arguments():
    assert WRONG.keys() | NO_CALL == set(gridveil.__all__)
    assert all(len(calls) >= 3 for calls in WRONG.values())


@pytest.mark.parametrize(
    ("name", "number"), [(name, n) for name, calls in WRONG.items() for n in range(len(calls))]
)
def test_a_wrong_argument_is_refused_with_what_to_pass(
    name, number, source, release, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    call, match = WRONG[name][number]
    with pytest.raises(GridveilError, match=match) as caught:
        call(source, release)
    assert caught.value.outcome
    assert caught.value.remedy
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", sorted(WRONG))
@pytest.mark.parametrize("wrong", [None, 3.5, "x\x00y", [], {}, object()])
def test_whatever_is_passed_no_raw_error_comes_out(name, wrong, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GRIDVEIL_HOME", str(tmp_path / "home"))
    function = getattr(gridveil, name)
    for key, parameter in inspect.signature(function).parameters.items():
        keywords = {key: wrong}
        try:
            if parameter.kind is parameter.POSITIONAL_ONLY:
                function(wrong)
            else:
                function(**keywords)
        except GridveilError:
            pass


# --- what is read ---------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [1, "1", 1.0, "1/1", Fraction(1), np.float64(1)])
def test_epsilon_may_be_written_in_any_clear_way(source, epsilon):
    noisy = drawn(source, gridveil.perturb, epsilon=epsilon)
    assert noisy.guarantee.epsilon == 1


def test_a_float_is_read_by_its_shortest_decimal(source):
    assert drawn(source, gridveil.perturb, epsilon=0.1).guarantee.epsilon == Fraction(1, 10)


def test_rules_bounds_and_events_may_be_words(source):
    noisy = drawn(source, gridveil.perturb)
    whole = drawn(
        source,
        gridveil.perturb,
        adjacency=Adjacency("one-asset"),
        bounds=Bounds({"m": Range(1, 40)}),
    )
    for name, values in noisy.values.items():
        np.testing.assert_array_equal(values, whole.values[name])
    model = gridveil.reduce(noisy)
    by_words = gridveil.simulate(model, "load:1=+10MW", horizon_s=1)
    by_event = gridveil.simulate(model, Event.load({"1": 10 / model.base_mva}), horizon_s=1)
    np.testing.assert_array_equal(by_words.omega, by_event.omega)
    one = gridveil.simulate(model, "load:1=+0.1", horizon_s=1, buses="2,3")
    assert one.buses == ("2", "3")


def test_bounds_take_pairs_and_texts():
    assert Bounds(m=(1, 40), k="2:30") == Bounds({"m": Range(1, 40), "k": Range(2, 30)})
    assert Bounds({"m": (1, 40)}, origin="a guide").origin == "a guide"


def test_a_day_may_be_a_date():
    told = {"link": "https://example.org", "event_source": "the operator"}
    measured = Provenance("measured", "the operator", date(2026, 5, 24), **told)
    assert measured.date == "2026-05-24"


def test_the_default_ledger_is_the_one_at_home(monkeypatch, tmp_path):
    monkeypatch.delenv("GRIDVEIL_LEDGER", raising=False)
    monkeypatch.setenv("GRIDVEIL_HOME", str(tmp_path))
    assert Path(Ledger.default().location) == tmp_path / "ledger.sqlite"


# --- how things look ------------------------------------------------------------------------------


def things(source, release):
    simulated = release.simulate("load:G1=+0.1", horizon_s=1)
    simple = Provenance("simulated", "<b>a</b> case")
    return [
        source,
        drawn(source, gridveil.perturb),
        release,
        release.model,
        simulated,
        release.modes()[0],
        Event.parse("load:G1=+0.1"),
        Observation("load:G1=+0.1", simulated, simple),
        simple,
        Adjacency(),
        Bounds(),
        Range(1, 40),
        FitSettings(),
        ReleaseSettings(grid="star5", epsilon=1),
        DemoSampler(1),
        SecureSampler(),
    ]


def test_everything_has_a_line_of_its_own_and_one_for_notebooks(source, release, tmp_path):
    seen = [*things(source, release), Ledger(tmp_path / "ledger.sqlite", safe=tmp_path)]
    for thing in seen:
        assert "\n" not in repr(thing)
        assert len(repr(thing)) <= 400, type(thing)
        html = thing._repr_html_()
        assert type(thing).__name__ in html
        assert "<b>a" not in html
    kinds = {type(thing) for thing in seen} | {GridveilError}
    assert {getattr(gridveil, name) for name in gridveil.__all__ if name[0].isupper()} <= kinds


def test_a_release_lists_its_machines_and_lines(source, release):
    machines, lines = release.machines, release.lines
    assert list(machines.index) == ["G1", "G2", "G3", "G4"]
    np.testing.assert_array_equal(machines["m"], release.model.m)
    np.testing.assert_array_equal(machines["d"], release.model.d)
    assert list(lines.columns) == ["from", "to", "k_r"]
    np.testing.assert_array_equal(lines["k_r"], release.model.k_r)
    assert (lines["from"][0], lines["to"][0]) == ("G1", "G2")
    assert machines.attrs["units"]["m"] == "p.u. power * s / p.u. frequency"


def test_a_detailed_release_lists_its_units_and_the_lines_of_its_case():
    case = small_case()
    model = linearise(case, solve(case), np.array([3, 4, 5]))
    release = SimpleNamespace(model=model, shown=SimpleNamespace(case=case))
    machines, lines = machines_frame(release), lines_frame(release)
    assert list(machines.index) == list(model.machines)
    np.testing.assert_array_equal(machines["inertia"], model.inertia)
    np.testing.assert_allclose(machines["p_gen"], solve(case).power.real)
    np.testing.assert_array_equal(lines["x"], case.branches.series.imag)
    assert lines["from"][0] == case.buses[case.branches.ends[0, 0]]


def test_a_trajectory_is_drawn_into_given_axes(release):
    from matplotlib.figure import Figure

    figure = Figure()
    axes = figure.subplots()
    drawn_in = release.simulate("load:G1=+0.1", horizon_s=1).plot(ax=axes)
    assert drawn_in is figure
    assert axes.get_xlabel() == "time [s]"
    with pytest.raises(GridveilError, match="Axes of matplotlib"):
        release.simulate("load:G1=+0.1", horizon_s=1).plot(ax=3)
