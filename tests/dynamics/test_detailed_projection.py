"""Projection: whatever was drawn, the released model stands, and the rule sees no private value."""

import inspect
from dataclasses import replace

import numpy as np
import pytest

from detailed_cases import two_areas
from gridveil.dynamics.detailed.entries import entries_of, released_case
from gridveil.dynamics.detailed.linearise import linearise
from gridveil.dynamics.detailed.projection import (
    RUNGS,
    NoPublicEnd,
    balanced,
    check_public_end,
    is_stable,
    moved,
    project,
)
from gridveil.dynamics.detailed.typical import public_case
from gridveil.grid.case import DeviceTable

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
@pytest.mark.parametrize("draws", [6, pytest.param(80, marks=pytest.mark.slow)])
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
    lines = replace(case.branches, series=np.conj(case.branches.series))
    with pytest.raises(NoPublicEnd, match="Nothing was drawn and nothing was spent") as refused:
        check_public_end(public_case(replace(case, branches=lines)))
    assert "power flow has no solution" in str(refused.value) or "Hz" in str(refused.value)


def test_a_grid_without_governors_stands_by_its_damping():
    case = two_areas()
    without = replace(case, devices=tuple(t for t in case.devices if t.model != "TGOV1"))
    check_public_end(public_case(without))


def test_a_series_capacitor_leaves_something_of_its_line():
    case = two_areas()
    series = case.branches.series.copy()
    series[0] = np.conj(series[0])
    public = public_case(replace(case, branches=replace(case.branches, series=series)))
    x = public.branches.series.imag
    assert x[0] == pytest.approx(-0.25 * x[1])
    assert public.branches.series[0].real > 0


def test_classical_machines_get_the_damping_they_lack_and_nothing_else_moves():
    case = two_areas()
    tables = tuple(t for t in case.devices if t.model == "GENROU")
    classical = tuple(
        DeviceTable("GENCLS", t.unit, {name: t.values[name] for name in ("M", "D", "ra", "xd1")})
        for t in tables
    )
    governors = tuple(t for t in case.devices if t.model == "TGOV1")
    case = replace(case, devices=(*classical, *governors))
    public = public_case(case)
    values = {name: own for name, (own, _) in entries_of(case).items() if len(own)}
    projected = project(public, values)
    assert stands(projected)
    assert {rung for rung, share in projected.shares.items() if share} == {"classical"}
    machines = next(t for t in projected.case.devices if t.model == "GENCLS")
    share = projected.shares["classical"]
    assert machines.values["D"] == pytest.approx(share * 25 / 8 * machines.values["M"])


def test_governor_gain_by_dispatch_keeps_the_mean_of_its_logarithms():
    case = two_areas()
    public = public_case(case)
    values = {name: own for name, (own, _) in entries_of(case).items() if len(own)}
    values |= {"gov_gain": np.array([180.0]), "p_gen": np.array([2.0, 8.0, 4.0, 16.0])}
    gains = entries_of(moved(public, values, dict.fromkeys(RUNGS, 0.0) | {"droops": 1.0}))
    gains = gains["gov_gain"][0]
    assert gains / gains[0] == pytest.approx([1, 4, 2, 8])
    assert np.exp(np.log(gains).mean()) == pytest.approx(180.0)


def test_dispatch_goes_to_where_the_load_is():
    case = two_areas()
    public = public_case(case)
    values = {name: own for name, (own, _) in entries_of(case).items() if len(own)}
    near = moved(public, values, dict.fromkeys(RUNGS, 0.0) | {"dispatch": 1.0}).units.power
    before = case.units.power
    # the second area has more load than its machines give
    assert near[2:].sum() / near.sum() > before[2:].sum() / before.sum()


def test_projection_sees_released_and_public_values_alone():
    assert list(inspect.signature(project).parameters) == ["public", "values"]
    assert list(inspect.signature(released_case).parameters) == ["public", "values"]
