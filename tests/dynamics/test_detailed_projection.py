"""Projection: whatever was drawn, the released model stands, and the rule sees no private value."""

import inspect
from dataclasses import replace

import numpy as np
import pytest

from detailed_cases import two_areas
from gridveil.dynamics.detailed.entries import entries_of, released_case
from gridveil.dynamics.detailed.linearise import linearise
from gridveil.dynamics.detailed.projection import (
    NoPublicEnd,
    balanced,
    check_public_end,
    is_stable,
    project,
)
from gridveil.dynamics.detailed.typical import public_case

NOWHERE = np.empty(0, dtype=int)


def drawn(case, seed, deviation):
    """Entries with noise of a deviation on each logarithm."""
    random = np.random.default_rng(seed)
    return {
        name: values * np.exp(random.normal(0, deviation, values.shape))
        for name, (values, _) in entries_of(case).items()
    }


def stands(projected):
    return is_stable(linearise(projected.case, projected.equilibrium, NOWHERE))


def test_dispatch_meets_load_and_losses():
    case, equilibrium = balanced(two_areas())
    assert equilibrium.power.real == pytest.approx(case.units.power, abs=3e-3)
    assert case.units.power / two_areas().units.power == pytest.approx(
        np.full(4, case.units.power[1] / 7.0)
    )


def test_a_case_that_stands_is_left_as_it_is():
    case = two_areas()
    values = {name: own for name, (own, _) in entries_of(case).items()}
    projected = project(public_case(case), values)
    assert not projected.is_moved
    assert entries_of(projected.case)["M"][0] == pytest.approx(values["M"])


@pytest.mark.parametrize("zip_shares", [(1.0, 0.0), (0.0, 0.0)], ids=["Z", "P"])
@pytest.mark.parametrize("draws", [6, pytest.param(200, marks=pytest.mark.slow)])
def test_no_draw_stays_unstable(draws, zip_shares):
    case = two_areas(zip_shares)
    public, moved = public_case(case), 0
    for seed in range(draws):
        projected = project(public, drawn(case, seed, 0.5))
        assert stands(projected)
        moved += projected.is_moved
    assert 0 < moved < draws


def test_no_load_is_too_large_for_the_ladder():
    case = two_areas((0.0, 0.0))
    values = {name: own for name, (own, _) in entries_of(case).items()}
    projected = project(public_case(case), values | {"p_load": np.array([100.0, 100.0])})
    assert stands(projected)
    assert projected.shares["load"] > 0


def test_the_end_is_checked_before_a_draw():
    check_public_end(public_case(two_areas()))
    case = two_areas()
    without = replace(case, devices=tuple(t for t in case.devices if t.model != "TGOV1"))
    with pytest.raises(NoPublicEnd, match="Nothing was drawn and nothing was spent"):
        check_public_end(public_case(without))


def test_projection_sees_released_and_public_values_alone():
    assert list(inspect.signature(project).parameters) == ["public", "values"]
    assert list(inspect.signature(released_case).parameters) == ["public", "values"]
