"""Every policy for awkward data, on grids small enough to work out by hand; each is counted, and
none tells a value.
"""

from dataclasses import replace
from math import cos, pi, sqrt

import numpy as np
import pytest

from cli_helpers import write_grid
from file_grids import bus, file_grid, line, unit
from gridveil.dynamics.powerflow import newton
from gridveil.foundation.errors import InputError, OptionError
from gridveil.readers import assemble as module
from gridveil.readers.assemble import assemble
from gridveil.readers.cases import open_grid
from gridveil.readers.dynamics import Dynamics, Policy
from gridveil.readers.network import CONTROLLED, ISOLATED, LOAD, REFERENCE
from gridveil.vault.source import Private

NAN = float("nan")
SECRET = 0.123456789


def settings(*, point="flat", machines=None, fuels=None, publish_loads=True, **values) -> Dynamics:
    """Constants for every machine, and policies by their names."""
    policy = Policy(**{name: values.pop(name) for name in Policy.model_fields if name in values})
    given = {"inertia": 10.0, "damping": 5.0} | values
    return Dynamics(
        operating_point=point,
        publish_loads=publish_loads,
        machines=machines or {},
        fuels=fuels or {},
        policy=policy,
        **given,
    )


def opened(grid, **options):
    source = assemble(grid, settings(**options))
    return source.facts, {name: Private.open(source.values[name]) for name in "kmd"}


def weights(grid, **options):
    """k of every line, by the labels of its ends."""
    facts, private = opened(grid, **options)
    return dict(
        zip(
            (facts.edge_name(e) for e in range(len(facts.edges))),
            private["k"].tolist(),
            strict=True,
        )
    )


def refused(grid, match, **options):
    with pytest.raises(InputError, match=match) as refusal:
        opened(grid, **options)
    return refusal.value


@pytest.fixture
def solved(monkeypatch):
    """The networks that the power flow was given, with what it found."""
    calls = []

    def watched(network, voltage, angle, **options):
        found = newton(network, voltage, angle, **options)
        calls.append((network, voltage.copy(), *found))
        return found

    monkeypatch.setattr(module, "newton", watched)
    return calls


# A triangle: machines at a and c, load at b.
BUSES = {"a": bus(REFERENCE, 0.1), "b": bus(LOAD, 0.3 + 0.1j), "c": bus(CONTROLLED, 0.2)}
UNITS = [unit("a", 0.2), unit("c", 0.4)]


def triangle(ab=0.1, bc=0.2, ac=0.25, buses=BUSES, units=UNITS):
    return file_grid(buses, [line("a", "b", ab), line("b", "c", bc), line("a", "c", ac)], units)


def test_a_plain_grid_keeps_every_item_and_has_nothing_to_note():
    facts, private = opened(triangle())
    assert (facts.buses, facts.edges.tolist(), facts.machines.tolist()) == (
        ("a", "b", "c"),
        [[0, 1], [0, 2], [1, 2]],
        [0, 2],
    )
    np.testing.assert_allclose(private["k"], [10, 4, 5], rtol=1e-14)
    assert (private["m"].tolist(), private["d"].tolist()) == ([10, 10], [5, 5])
    assert facts.loads.tolist() == [0.1, 0.3, 0.2]
    assert (facts.notes, facts.policy) == ((), dict(Policy()))


@pytest.mark.parametrize(
    "policy",
    [
        {"negative_x": "ignore"},
        {"zero_x": "abs"},
        {"taps": "yes"},
        {"without_dynamics": ""},
        {"island": 3},
        {"taps": None},
    ],
    ids=str,
)
def test_a_policy_that_does_not_exist_is_refused_by_name(policy):
    with pytest.raises(
        OptionError, match=f"{next(iter(policy))} is (unknown|not usable); expected (one of|text)"
    ):
        Policy(**policy)


def test_the_policy_is_kept_with_the_facts():
    chosen = {
        "negative_x": "abs",
        "zero_x": "merge",
        "island": "largest",
        "taps": "ignore",
        "without_dynamics": "drop",
    }
    assert opened(triangle(), **chosen)[0].policy == chosen


# --- x < 0 ----------------------------------------------------------------------------------------


def test_a_negative_reactance_is_refused_by_row_and_counted_without_its_value():
    error = refused(
        triangle(bc=-SECRET, ac=-0.3), r"x is negative.*such branches: 2.*--negative-x abs"
    )
    assert (error.table, error.row) == ("branch", 2)
    assert "1234" not in str(error)
    assert error.__context__ is None


def test_abs_takes_the_size_of_a_negative_reactance():
    facts, private = opened(triangle(bc=-0.2), negative_x="abs")
    np.testing.assert_allclose(private["k"], [10, 4, 5], rtol=1e-14)
    assert facts.notes == ("1 branches with x < 0: their absolute value is used in k",)


def test_the_power_flow_keeps_the_sign_that_abs_takes_away(solved):
    k = weights(triangle(bc=-0.2), negative_x="abs", point="newton")
    (network, _, v, angle) = solved[0]
    assert sorted(network.series.imag) == [-0.2, 0.1, 0.25]
    assert k["b-c"] == pytest.approx(v[1] * v[2] * cos(angle[1] - angle[2]) / 0.2, rel=1e-12)
    power = (
        v[1] * v[2] * np.sin(angle[1] - angle[2]) / -0.2
        + v[1] * v[0] * np.sin(angle[1] - angle[0]) / 0.1
    )
    assert power == pytest.approx(-0.3, abs=1e-9)  # with +0.2 the flows would not balance


def test_merge_joins_the_buses_of_a_negative_reactance():
    facts, private = opened(triangle(bc=-0.2), negative_x="merge")
    assert facts.buses == ("a", "c")  # c holds its voltage, so it stands for both
    np.testing.assert_allclose(private["k"], [10 + 4], rtol=1e-14)
    np.testing.assert_allclose(facts.loads, [0.1, 0.5], rtol=1e-14)
    assert facts.notes == (
        "1 branches with x ≈ 0 or x < 0: their 1 buses merged into their neighbours",
        "1 parallel branches merged with their twins",
    )


def test_a_line_out_of_service_may_have_any_reactance():
    lines = [
        line("a", "b", 0.1),
        line("b", "c", 0.2),
        line("a", "c", -0.2, closed=False),
        line("a", "c", 0.0, closed=False),
    ]
    facts, private = opened(file_grid(BUSES, lines, UNITS))
    np.testing.assert_allclose(private["k"], [10, 5], rtol=1e-14)
    assert facts.notes == ("2 branches out of service left out",)


# --- x = 0 ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("x", [0.0, 9e-7, -9e-7, 1e-320])
def test_a_reactance_next_to_zero_is_refused_by_row(x):
    error = refused(
        triangle(ab=x, bc=x),
        r"x is zero, or next to it.*such branches: 2.*--zero-x merge",
        negative_x="abs",
    )
    assert (error.table, error.row) == ("branch", 1)


def test_a_reactance_above_the_threshold_is_a_line():
    assert weights(triangle(ab=1.1e-6))["a-b"] == pytest.approx(1 / 1.1e-6, rel=1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_a_grid_with_lines_just_above_the_threshold_has_an_operating_point(seed):
    """Admittances of 10⁶ leave 10⁻¹⁰ of rounding in the mismatch: a tolerance below that is never
    met.
    """
    rng = np.random.default_rng(seed)
    buses = {f"b{n}": bus(LOAD, rng.uniform(0, 0.2) + 0.02j, voltage=1.037) for n in range(12)} | {
        "b0": bus(REFERENCE)
    }
    x = rng.permutation([1.1e-6] * 4 + [0.05] * 7)
    lines = [
        line(f"b{int(rng.integers(n))}", f"b{n}", x[n - 1], charging=0.02) for n in range(1, 12)
    ]
    assert (
        len(weights(file_grid(buses, lines, [unit("b0", set_point=1.037)]), point="newton")) == 11
    )


@pytest.mark.parametrize("x", [0.0, -9e-7])
def test_merging_a_tie_adds_loads_shunts_and_machines_up(solved, x):
    buses = {
        "a": bus(REFERENCE, 0.1 + 0.05j, shunt=0.01j),
        "b": bus(LOAD, 0.3 + 0.1j, shunt=0.02 + 0.3j),
        "c": bus(CONTROLLED, 0.2),
    }
    grid = triangle(ab=x, buses=buses, units=[*UNITS, unit("b", 0.15 + 0.1j)])
    facts, private = opened(grid, zero_x="merge", point="newton")
    assert (facts.buses, facts.edges.tolist(), facts.machines.tolist()) == (
        ("a", "c"),
        [[0, 1]],
        [0, 1],
    )
    np.testing.assert_allclose(facts.loads, [0.4, 0.2], rtol=1e-14)
    assert (private["m"].tolist(), private["d"].tolist(), facts.droop_gain.tolist()) == (
        [20, 10],
        [10, 5],
        [40, 20],
    )
    (network, _, v, angle) = solved[0]
    np.testing.assert_allclose(network.shunt, [0.02 + 0.31j, 0], rtol=1e-14)
    np.testing.assert_allclose(network.injection, [0.35 - 0.4 + 0.1j - 0.15j, 0.2], rtol=1e-13)
    assert private["k"][0] == pytest.approx(
        v[0] * v[1] * cos(angle[0] - angle[1]) * (4 + 5), rel=1e-12
    )
    assert facts.notes == (
        "1 branches with x ≈ 0 or x < 0: their 1 buses merged into their neighbours",
        "1 parallel branches merged with their twins",
        "1 machines summed with others on their bus",
    )


@pytest.mark.parametrize(
    ("kinds", "stays"),
    [
        ((LOAD, REFERENCE), "b"),
        ((REFERENCE, LOAD), "a"),
        ((LOAD, CONTROLLED), "b"),
        ((CONTROLLED, REFERENCE), "b"),
        ((LOAD, LOAD), "a"),
    ],
)
def test_the_reference_bus_stands_for_a_merged_group_then_one_that_holds_its_voltage_then_the_first(
    kinds, stays
):
    buses = {"a": bus(kinds[0], voltage=1.01), "b": bus(kinds[1], voltage=1.02), "c": bus(LOAD)}
    lines = [line("a", "b", 0.0), line("b", "c", 0.5)]
    facts, private = opened(
        file_grid(buses, lines, [unit("a"), unit("b")]), zero_x="merge", point="file"
    )
    assert facts.buses == (stays, "c")
    assert private["k"].tolist() == pytest.approx([buses[stays]["voltage"] / 0.5], rel=1e-14)


def test_chains_of_ties_become_one_bus_and_lines_between_their_buses_are_left_out():
    """b-c-d is one bus by two ties; b-d, parallel to them, goes with them; a-b and d-a become
    twins.
    """
    buses = {name: bus(REFERENCE if name == "a" else LOAD, 0.1) for name in "abcde"}
    lines = [
        line("a", "b", 0.1),
        line("b", "c", 0.0),
        line("c", "d", 1e-9),
        line("d", "b", 0.3),
        line("d", "a", 0.2),
        line("c", "e", 0.5),
        line("b", "c", 0.0),
    ]
    facts, private = opened(
        file_grid(buses, lines, [unit("a"), unit("c"), unit("d")]), zero_x="merge"
    )
    assert (facts.buses, facts.edges.tolist(), facts.machines.tolist()) == (
        ("a", "b", "e"),
        [[0, 1], [1, 2]],
        [0, 1],
    )
    np.testing.assert_allclose(private["k"], [10 + 5, 2], rtol=1e-14)
    np.testing.assert_allclose(facts.loads, [0.1, 0.3, 0.1], rtol=1e-14)
    assert private["m"].tolist() == [10, 20]
    assert facts.notes == (
        "3 branches with x ≈ 0 or x < 0: their 2 buses merged into their neighbours",
        "1 branches between merged buses left out",
        "1 parallel branches merged with their twins",
        "1 machines summed with others on their bus",
    )


def test_zero_and_negative_reactances_are_merged_together_where_both_policies_say_so():
    facts, private = opened(triangle(ab=0.0, bc=-0.2), zero_x="merge", negative_x="merge")
    assert (facts.buses, len(private["k"]), facts.machines.tolist()) == (("a",), 0, [0])
    assert private["m"].tolist() == [20]


def test_a_machine_is_known_by_its_own_bus_after_that_was_merged():
    own = {"a": {"inertia": 3.0}, "c": {"inertia": 4.0}}
    _, private = opened(triangle(ac=0.0), zero_x="merge", machines=own)
    assert private["m"].tolist() == [7]


# --- islands --------------------------------------------------------------------------------------

# a-b with a machine, c-d-e with two, f alone with none.
ISLANDS = {name: bus(REFERENCE if name in "ac" else LOAD, 0.1) for name in "abcdef"}
ISLAND_LINES = [line("a", "b", 0.1), line("c", "d", 0.2), line("d", "e", 0.25)]
ISLAND_UNITS = [unit("a"), unit("c"), unit("e")]


def islands(lines=ISLAND_LINES):
    return file_grid(ISLANDS, lines, ISLAND_UNITS)


def test_islands_are_refused_with_their_sizes_and_a_bus_of_each():
    refused(
        islands(),
        r"3 islands \(3 buses with 2 machines around bus c; 2 buses with 1 machines around bus a; "
        r"1 buses with 0 machines around bus f\).*--island",
    )


def test_more_islands_than_can_be_shown_are_counted():
    buses = {f"b{n}": bus() for n in range(9)}
    refused(file_grid(buses, [line("b0", "b1", 0.1)], [unit("b0")]), r"8 islands \(2 buses.*; …\)")


@pytest.mark.parametrize("island", ["largest", "c", "d", "e"])
def test_the_largest_island_is_kept_or_the_one_that_a_bus_lies_in(island):
    facts, private = opened(islands(), island=island)
    assert (facts.buses, facts.edges.tolist(), facts.machines.tolist()) == (
        ("c", "d", "e"),
        [[0, 1], [1, 2]],
        [0, 2],
    )
    np.testing.assert_allclose(private["k"], [5, 4], rtol=1e-14)
    assert facts.notes == ("2 other islands left out, with 3 buses and 1 machines",)
    assert facts.policy["island"] == island


def test_a_small_island_is_kept_where_its_bus_is_named(solved):
    facts, _ = opened(islands(), island="b", point="newton")
    assert (facts.buses, facts.machines.tolist()) == (("a", "b"), [0])
    assert solved[0][0].slack.tolist() == [0]
    assert facts.notes == ("2 other islands left out, with 4 buses and 2 machines",)


@pytest.mark.parametrize("grid", [islands(), triangle()], ids=["several islands", "one island"])
def test_an_island_of_an_unknown_bus_is_refused(grid):
    refused(grid, r"bus zz, which the grid does not have.*largest, or a bus", island="zz")


def test_an_island_without_a_machine_is_refused():
    refused(islands(), r"no machine .*service", island="f")


def test_a_bus_that_was_merged_away_still_names_its_island():
    lines = [line("a", "b", 0.1), line("c", "d", 0.0), line("d", "e", 0.25)]
    assert opened(islands(lines), island="d", zero_x="merge")[0].buses == ("c", "e")


def test_awkward_lines_of_other_islands_are_neither_refused_nor_counted():
    lines = [line("a", "b", -0.1), line("c", "d", 0.2), line("d", "e", 0.25)]
    for options in ({}, {"negative_x": "abs"}, {"negative_x": "merge"}):
        facts, _ = opened(islands(lines), island="largest", **options)
        assert facts.notes == ("2 other islands left out, with 3 buses and 1 machines",)


def test_isolated_buses_are_no_islands():
    buses = BUSES | {"z": bus(ISOLATED, 9.0)}
    facts, _ = opened(triangle(buses=buses))
    assert facts.buses == ("a", "b", "c")
    assert facts.notes == ("1 isolated buses (type 4) left out",)


# --- taps -----------------------------------------------------------------------------------------

TAP, SHIFT = 0.95, np.deg2rad(12)
RATIO = TAP * np.exp(1j * SHIFT)


def transformer(ratio=RATIO, power=0.6, v=(1.03, 0.98)):
    """A machine behind a transformer without losses: P = v₁ v₂ sin(δ₁ − δ₂ − φ) / (t x)."""
    buses = {
        "a": bus(REFERENCE, angle=0.3, voltage=v[0]),
        "b": bus(CONTROLLED, power, angle=-0.1, voltage=v[1]),
    }
    return file_grid(buses, [line("a", "b", 0.25, ratio=ratio)], [unit("a"), unit("b")])


def test_a_transformers_weight_is_the_slope_of_its_power_over_the_angle():
    steepest = 1.03 * 0.98 / (TAP * 0.25)
    assert weights(transformer(), point="newton")["a-b"] == pytest.approx(
        sqrt(steepest**2 - 0.6**2), rel=1e-10
    )


def test_a_transformer_listed_the_other_way_round_has_its_tap_at_the_other_end():
    grid = transformer()
    branches = replace(
        grid.branches, ends=grid.branches.ends[:, ::-1], ratio=1 / grid.branches.ratio
    )
    flipped = replace(grid, branches=replace(branches, series=grid.branches.series * TAP**2))
    for point in ("newton", "file"):
        assert weights(flipped, point=point)["a-b"] == pytest.approx(
            weights(grid, point=point)["a-b"], rel=1e-10
        )


@pytest.mark.parametrize(
    ("taps", "point", "expected"),
    [
        ("include", "file", 1.03 * 0.98 * cos(0.4 - SHIFT) / (TAP * 0.25)),
        ("ignore", "file", 1.03 * 0.98 * cos(0.4 - SHIFT) / 0.25),
        ("include", "flat", 1 / (TAP * 0.25)),
        ("ignore", "flat", 1 / 0.25),
    ],
)
def test_tap_and_shift_enter_a_weight_where_they_are_included(taps, point, expected):
    assert weights(transformer(), taps=taps, point=point)["a-b"] == pytest.approx(
        expected, rel=1e-12
    )


def test_the_power_flow_has_taps_whether_or_not_a_weight_does(solved):
    for taps in ("include", "ignore"):
        opened(transformer(), taps=taps, point="newton")
    for network, *_ in solved:
        np.testing.assert_allclose(network.ratio, [RATIO])


def test_a_weight_that_is_not_positive_is_refused_by_the_lines_name():
    error = refused(
        transformer(ratio=np.exp(1j * np.deg2rad(150))),
        "line weight k of a-b is not usable",
        point="file",
    )
    assert error.__context__ is None


# --- machines -------------------------------------------------------------------------------------


def without_one(**changes):
    """Inertia for the machines at a and c in the file, none for the one at b."""
    units = [
        unit("a", 0.2, m=6.0, d=1.0),
        unit("b", 0.25 + 0.1j, **changes),
        unit("c", 0.1, m=8.0, d=2.0),
    ]
    return triangle(units=units)


def test_a_machine_without_inertia_is_refused_by_its_bus():
    refused(
        without_one(),
        r"machine at bus b has no inertia.*--inertia.*--without-dynamics drop",
        inertia=None,
    )


def test_a_machine_without_damping_is_refused_by_its_bus():
    refused(
        without_one(m=5.0),
        r"machine at bus b has no damping.*--damping",
        inertia=None,
        damping=None,
    )


def test_drop_leaves_a_machine_without_inertia_out_and_keeps_its_bus():
    facts, private = opened(without_one(), inertia=None, without_dynamics="drop")
    assert (facts.buses, facts.machines.tolist(), private["m"].tolist()) == (
        ("a", "b", "c"),
        [0, 2],
        [6, 8],
    )
    assert "1 machines without dynamics left out; their buses stay" in facts.notes


def test_a_machine_that_is_dropped_keeps_feeding_the_power_flow(solved):
    """It has no inertia, but it runs: without its power and its voltage the operating point would
    be another grid's.
    """
    buses = BUSES | {"b": bus(CONTROLLED, 0.3 + 0.1j)}
    units = [
        unit("a", 0.2, m=6.0, d=1.0),
        unit("b", 0.25, set_point=1.04),
        unit("c", 0.1, m=8.0, d=2.0),
    ]
    grid = triangle(buses=buses, units=units)
    dropped = weights(grid, point="newton", inertia=None, without_dynamics="drop")
    assert dropped == weights(grid, point="newton")
    np.testing.assert_allclose(solved[0][0].injection, solved[1][0].injection)
    assert solved[0][2][1] == 1.04


def test_a_grid_all_of_whose_machines_lack_inertia_is_refused_even_where_they_may_be_dropped():
    refused(
        triangle(),
        "machine at bus a.* has no inertia.*no machine is left",
        inertia=None,
        without_dynamics="drop",
    )


def test_values_of_a_file_come_before_the_settings():
    units = [unit("a", m=6.0, d=1.5, rate=3.0, gain=25.0), unit("c")]
    facts, private = opened(triangle(units=units))
    assert (private["m"].tolist(), private["d"].tolist()) == ([6, 10], [1.5, 5])
    assert (facts.governor_rate.tolist(), facts.droop_gain.tolist()) == ([3, 2], [25, 20])
    assert facts.notes == tuple(
        f"1 machines have no {what} in the file, and got the settings' value"
        for what in ("inertia", "damping")
    )


def test_a_governor_that_the_file_says_is_missing_stays_missing():
    assert opened(triangle(units=[unit("a", gain=0.0), unit("c")]))[0].droop_gain.tolist() == [
        0,
        20,
    ]


def test_damping_of_zero_in_a_file_counts_as_not_given():
    units = [unit("a", m=6.0, d=0.0), unit("c", m=8.0, d=2.0)]
    facts, private = opened(triangle(units=units))
    assert private["d"].tolist() == [5, 2]
    assert facts.notes == ("1 machines have no damping in the file, and got the settings' value",)


def test_damping_of_zero_stays_where_nobody_gives_another_and_is_pointed_out():
    units = [unit("a", m=6.0, d=0.0), unit("c", m=8.0, d=2.0)]
    facts, private = opened(triangle(units=units), damping=None)
    assert private["d"].tolist() == [0, 2]
    assert facts.notes == ("1 machines have D = 0: give --damping if that is not meant",)


def test_a_machine_that_is_given_damping_by_its_bus_is_not_pointed_out():
    units = [unit("a", m=6.0, d=0.0), unit("c", m=8.0, d=2.0)]
    facts, private = opened(triangle(units=units), damping=None, machines={"a": {"damping": 3.0}})
    assert private["d"].tolist() == [3, 2]
    assert facts.notes == ()


@pytest.mark.parametrize("what", ["m", "d", "rate", "gain"])
def test_a_negative_value_in_a_file_is_refused_even_where_a_sum_would_hide_it(what):
    units = [unit("a", **{what: -SECRET}), unit("a", **{what: 50.0}), unit("c")]
    error = refused(triangle(units=units), "hand.m")
    assert "1234" not in str(error)


def test_rated_settings_are_brought_to_the_system_base_and_fuels_have_their_own():
    units = [
        unit("a", rated=250.0, fuel="Coal"),
        unit("c", rated=40.0, fuel="wind"),
        unit("c", rated=10.0),
    ]
    facts, private = opened(
        triangle(units=units),
        base="rated",
        fuels={"coal": {"inertia": 9.0}, "wind": {"inertia": 2.0, "droop_gain": 0.0}},
    )
    np.testing.assert_allclose(private["m"], [9 * 2.5, 2 * 0.4 + 10 * 0.1], rtol=1e-14)
    np.testing.assert_allclose(private["d"], [5 * 2.5, 5 * 0.5], rtol=1e-14)
    np.testing.assert_allclose(facts.droop_gain, [20 * 2.5, 20 * 0.1], rtol=1e-14)
    assert facts.governor_rate.tolist() == [2, 2]


def test_values_of_a_file_are_on_the_system_base_whatever_the_settings_are_on():
    units = [unit("a", m=6.0, d=1.0, gain=7.0, rated=300.0), unit("c", rated=300.0)]
    facts, private = opened(triangle(units=units), base="rated")
    assert (private["m"].tolist(), private["d"].tolist(), facts.droop_gain.tolist()) == (
        [6, 30],
        [1, 15],
        [7, 60],
    )


def test_a_machine_without_rated_power_is_refused_where_the_settings_are_rated():
    error = refused(
        triangle(units=[unit("a", rated=100.0), unit("c")]),
        "machine at bus c has no rated MVA",
        base="rated",
    )
    assert (error.table, error.row) == ("gen", 2)


def test_values_of_a_bus_win_over_file_fuel_and_constants_one_by_one():
    units = [unit("a", m=6.0, d=1.0, fuel="coal"), unit("c", fuel="coal")]
    fuels = {"coal": {"inertia": 9.0, "damping": 3.0, "droop_gain": 11.0}}
    facts, private = opened(
        triangle(units=units),
        fuels=fuels,
        machines={"a": {"inertia": 7.0}, "c": {"damping": 0.0, "governor_rate": 4.0}},
    )
    assert (private["m"].tolist(), private["d"].tolist()) == ([7, 9], [1, 0])
    assert (facts.droop_gain.tolist(), facts.governor_rate.tolist()) == ([11, 11], [2, 4])


def test_values_of_a_bus_are_on_the_base_that_the_settings_are_on():
    units = [unit("a", rated=250.0), unit("c", rated=40.0)]
    facts, private = opened(
        triangle(units=units), base="rated", machines={"a": {"inertia": 4.0, "droop_gain": 10.0}}
    )
    np.testing.assert_allclose(private["m"], [4 * 2.5, 10 * 0.4], rtol=1e-14)
    np.testing.assert_allclose(facts.droop_gain, [10 * 2.5, 20 * 0.4], rtol=1e-14)


def test_machines_of_a_bus_without_one_are_refused():
    refused(
        triangle(),
        r"machine at bus b, where the grid has none; expected one of a, c",
        machines={"b": {"inertia": 1.0}},
    )


def test_unlike_governors_of_one_bus_share_a_rate_weighted_by_gain():
    units = [unit("a", rate=1.0, gain=30.0), unit("a", rate=5.0, gain=10.0), unit("c")]
    facts, _ = opened(triangle(units=units))
    assert facts.governor_rate.tolist() == [2, 2]
    assert facts.droop_gain.tolist() == [40, 20]
    assert facts.notes == (
        "1 machines summed with others on their bus",
        "1 buses with unlike governors: T weighted by gain",
    )


def test_a_unit_without_a_governor_does_not_move_the_rate_of_its_bus():
    units = [unit("a", rate=3.0, gain=30.0), unit("a", rate=9.0, gain=0.0), unit("c")]
    assert opened(triangle(units=units))[0].governor_rate.tolist() == [3, 2]


def test_units_of_one_bus_without_any_gain_share_a_plain_mean():
    units = [unit("a", rate=3.0, gain=0.0), unit("a", rate=9.0, gain=0.0), unit("c")]
    facts, _ = opened(triangle(units=units))
    assert (facts.governor_rate.tolist(), facts.droop_gain.tolist()) == ([6, 2], [0, 20])


def test_like_governors_keep_their_rate_to_the_bit():
    units = [
        unit("a", rate=0.1, gain=0.3),
        unit("a", rate=0.1, gain=0.7),
        unit("a", rate=0.1, gain=1.1),
        unit("c"),
    ]
    facts, _ = opened(triangle(units=units))
    assert facts.governor_rate.tolist() == [0.1, 2]
    assert facts.notes == ("2 machines summed with others on their bus",)


# --- the operating point --------------------------------------------------------------------------


def test_every_reference_bus_holds_the_angle_that_the_file_gives_it(solved):
    buses = BUSES | {"c": bus(REFERENCE, 0.2, angle=-0.05)}
    opened(triangle(buses=buses), point="newton")
    network, _, _, angle = solved[0]
    assert network.slack.tolist() == [0, 2]
    assert (angle[0], angle[2]) == (0, -0.05)


@pytest.mark.parametrize("kinds", ["none", "without a machine", "machine out of service"])
def test_where_no_reference_bus_has_a_machine_the_largest_schedule_balances_the_grid(solved, kinds):
    buses, units = dict(BUSES), list(UNITS)
    buses["a"] = bus(LOAD if kinds == "none" else REFERENCE, 0.1)
    if kinds != "none":
        units[0] = (
            unit("a", 9.0, running=False) if kinds == "machine out of service" else unit("b", 0.1)
        )
    facts, _ = opened(triangle(buses=buses, units=units), point="newton")
    assert facts.buses[solved[0][0].slack[0]] == "c"
    assert len(solved[0][0].slack) == 1


def test_set_points_are_held_where_a_bus_is_controlled_and_only_there(solved):
    units = [
        unit("a", 0.2, set_point=1.05),
        unit("b", 0.1, set_point=1.09),
        unit("c", 0.4, set_point=0.97),
    ]
    opened(triangle(units=units), point="newton")
    network, start, magnitude, _ = solved[0]
    assert network.controlled.tolist() == [0, 2]
    assert start.tolist() == [1.05, 1.0, 0.97]
    assert magnitude[[0, 2]].tolist() == [1.05, 0.97]


def test_a_unit_without_a_set_point_holds_the_voltage_of_the_file(solved):
    buses = BUSES | {"c": bus(CONTROLLED, 0.2, voltage=1.03)}
    opened(triangle(buses=buses), point="newton")
    assert solved[0][2][2] == 1.03


def test_load_damping_follows_loads_and_never_generation():
    buses = BUSES | {"c": bus(CONTROLLED, -0.2)}
    facts, _ = opened(triangle(buses=buses), load_damping=1.5)
    np.testing.assert_allclose(facts.load_damping, [0.15, 0.45, 0], rtol=1e-14)


def test_the_frequency_is_the_options_then_the_files_then_60():
    grid = replace(triangle(), frequency_hz=50.0)
    assert opened(grid)[0].frequency_hz == 50
    assert opened(grid)[0].omega_b == pytest.approx(2 * pi * 50, rel=1e-15)
    assert opened(grid, frequency_hz=16.7)[0].frequency_hz == 16.7
    assert opened(triangle())[0].frequency_hz == 60


def test_notes_of_the_reader_come_first():
    assert (
        opened(replace(triangle(bc=-0.2), notes=("2 shunts left out",)), negative_x="abs")[0].notes[
            0
        ]
        == "2 shunts left out"
    )


# --- what a MATPOWER file says beside its tables --------------------------------------------------


def opened_file(folder, more, **options):
    path = write_grid(folder)
    path.write_text(path.read_text() + more)
    return open_grid(str(path), options=options).facts


def test_direct_current_lines_are_left_out_and_counted(tmp_path):
    """Their power is missing from the power flow: whoever reads the notes knows."""
    rows = "1 5 1 20 19 0 0 1 1 0 99 0 0 0 0 1 0;\n2 4 0 20 19 0 0 1 1 0 99 0 0 0 0 1 0;\n"
    facts = opened_file(tmp_path, f"mpc.dcline = [\n{rows}];\n")
    assert facts.notes == ("1 DC lines (mpc.dcline) left out, and their power with them",)


def test_fuels_that_do_not_match_the_machines_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"mpc\.genfuel has 2 entries; expected 3"):
        opened_file(tmp_path, "mpc.genfuel = {\n'coal';\n'wind';\n};\n")


# --- what cannot be used --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("buses", "load", np.inf),
        ("buses", "voltage", NAN),
        ("branches", "series", complex(0, NAN)),
        ("branches", "ratio", np.inf),
        ("machines", "power", NAN),
        ("machines", "inertia", np.inf),
        ("machines", "rated_mva", -np.inf),
    ],
)
def test_a_number_that_is_not_finite_is_refused_by_table_and_row(table, column, value):
    grid = triangle()
    records = getattr(grid, table)
    values = getattr(records, column).copy()
    values[1] = value
    error = refused(
        replace(grid, **{table: replace(records, **{column: values})}),
        f"{column} is NaN or infinite",
    )
    assert (error.table, error.row) == (
        {"buses": "bus", "branches": "branch", "machines": "gen"}[table],
        2,
    )


def test_a_line_that_joins_a_bus_to_itself_is_refused_by_row():
    lines = [line("a", "b", 0.1), line("b", "b", 0.2), line("b", "c", 0.2)]
    assert refused(file_grid(BUSES, lines, UNITS), "joins a bus to itself").row == 2


@pytest.mark.parametrize("units", [[], [unit("a", running=False)]], ids=["none", "out of service"])
def test_a_grid_without_a_machine_is_refused(units):
    refused(triangle(units=units), "no machine is in service")


@pytest.mark.parametrize("base_mva", [0.0, -100.0, NAN, np.inf])
def test_a_base_that_is_none_is_refused(base_mva):
    refused(replace(triangle(), base_mva=base_mva), "base power is missing or unusable")


def test_an_error_tells_no_private_value():
    grids = {
        "negative x": (triangle(ab=-SECRET), {}),
        "no weight": (transformer(ratio=np.exp(1j * 2), v=(SECRET, 1.0)), {"point": "file"}),
        "no solution": (
            triangle(ab=SECRET, buses=BUSES | {"b": bus(LOAD, 70.0)}),
            {"point": "newton"},
        ),
        "no rating": (
            triangle(units=[unit("a", rated=100.0), unit("c", power=SECRET)]),
            {"base": "rated"},
        ),
    }
    for grid, options in grids.values():
        error = refused(grid, "hand.m", **options)
        assert "1234" not in str(error)
        assert error.__context__ is None
