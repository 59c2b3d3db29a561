"""Declared quantities of detailed tables against hand figures, and released cases made of them."""

from dataclasses import replace

import numpy as np
import pytest

from detailed_cases import two_areas
from gridveil.dynamics.detailed.entries import ENTRIES, entries_of, released_case
from gridveil.dynamics.detailed.equilibrium import solve
from gridveil.dynamics.detailed.linearise import linearise
from gridveil.dynamics.detailed.quantities import QUANTITIES, field_slope
from gridveil.dynamics.detailed.registry import DEVICES
from gridveil.dynamics.detailed.typical import bases, public_case, publishable
from gridveil.foundation.errors import InputError
from gridveil.grid.parameters import DETAILED, parameters_of

NOWHERE = np.empty(0, dtype=int)


def spread(case, seed=0):
    """A case of the same structure whose numbers are all others."""
    random = np.random.default_rng(seed)

    def other(values):
        return values * np.exp(random.normal(0, 0.2, values.shape))

    def others(table):
        fixed = DEVICES[table.model].modes
        return replace(
            table, values={n: v if n in fixed else other(v) for n, v in table.values.items()}
        )

    lines, units = case.branches, case.units
    return replace(
        case,
        branches=replace(
            lines,
            series=other(lines.series.real) + 1j * other(lines.series.imag),
            charging=other(lines.charging),
            ratio=other(np.abs(lines.ratio)).astype(complex),
        ),
        shunt=1j * other(case.shunt.imag),
        loads=replace(
            case.loads,
            power=other(case.loads.power.real) + 1j * other(case.loads.power.imag),
        ),
        units=replace(units, power=other(units.power), set_point=other(units.set_point)),
        devices=tuple(others(table) for table in case.devices),
    )


def test_every_declared_entry_is_read_and_written():
    assert list(ENTRIES) == list(parameters_of(DETAILED))


def test_entries_are_those_of_the_formulas():
    values = {name: own for name, (own, _) in entries_of(two_areas()).items()}
    assert values["x"][:4] == pytest.approx([0.05, 0.05, 0.02, 0.02])
    assert values["b_ratio"] == pytest.approx(np.full(11, 1.5))
    assert values["b_shunt"] == pytest.approx([0.5])
    assert values["p_load"] == pytest.approx([11.59, 15.75])
    assert values["q_ratio"] == pytest.approx([-0.735 / 11.59, -0.899 / 15.75])
    assert values["p_gen"] == pytest.approx([7.46, 7, 7, 7])
    assert values["M"] == pytest.approx(np.full(4, 117.0))
    assert values["x_machine"] == pytest.approx(np.full(4, 0.3 * 13))  # on any base
    assert values["gov_gain"] == pytest.approx(np.full(4, 180.0))
    assert values["gov_servo"] == pytest.approx(np.full(4, 0.49 / 0.2))
    assert values["gov_lag"] == pytest.approx(np.full(4, 7.0 / 7.0))
    assert values["gov_fast"] == pytest.approx(np.full(4, 900 / 500))  # T2/T3 is typical
    # typical: K_A 40, K_E 1, S(3.1) 0.33, S(2.3) 0.1, so A = 1.5786, B = 0.4420, slope 1.3725
    assert values["avr_gain"] == pytest.approx(np.full(4, 20 / (40 / 1.3725)), rel=1e-3)
    assert values["avr_feedback"] == pytest.approx(np.full(4, 0.0754 / 1.246 / 0.05))
    s = 2j * np.pi
    lead_lag = (1 + 0.05 * s) / (1 + 0.02 * s)
    typical = 20 * lead_lag * (1 + 3 * s) / (1 + 5.4 * s)
    assert values["pss_gain"] == pytest.approx(np.full(2, abs(lead_lag / typical)))


def test_an_exciter_without_a_steady_gain_has_the_least_slope():
    columns = {
        n: np.array([v])
        for n, v in {"KE": -0.05, "E1": 3.0, "SE1": 0.08, "E2": 4.0, "SE2": 0.3}.items()
    }
    assert field_slope(columns) == pytest.approx([0.2])


def test_everything_published_is_the_case_itself():
    case = spread(two_areas())
    public = public_case(case, frozenset(publishable(case)))
    same = released_case(public, {name: values for name, (values, _) in entries_of(case).items()})
    theirs, ours = (linearise(each, solve(each), NOWHERE) for each in (case, same))
    assert np.abs(theirs.A - ours.A).max() <= 1e-10 * np.abs(theirs.A).max()
    assert np.abs(theirs.B - ours.B).max() <= 1e-10 * np.abs(theirs.B).max()


def test_a_public_case_knows_nothing_but_the_structure():
    first, second = (public_case(spread(two_areas(), seed)) for seed in (1, 2))
    assert (first.branches.series == second.branches.series).all()
    assert (first.branches.charging == second.branches.charging).all()
    assert (first.branches.ratio == second.branches.ratio).all()
    assert (first.shunt == second.shunt).all()
    assert (first.loads.power == second.loads.power).all()
    assert (first.units.power == second.units.power).all()
    assert (first.units.set_point == second.units.set_point).all()
    for one, other in zip(first.devices, second.devices, strict=True):
        for name in bases(one.model):
            assert (one.values[name] == other.values[name]).all(), (one.model, name)


def test_a_public_case_has_the_same_entries():
    case = spread(two_areas())
    private, public = entries_of(case), entries_of(public_case(case))
    for name, (_, at) in private.items():
        assert (at == public[name][1]).all()


def test_what_is_written_is_read_again():
    public = public_case(two_areas())
    random = np.random.default_rng(0)
    drawn = {
        name: np.exp(random.normal(0, 0.3, values.shape)) * np.abs(values)
        for name, (values, _) in entries_of(public).items()
    }
    again = entries_of(released_case(public, drawn))
    for name, values in drawn.items():
        assert again[name][0] == pytest.approx(values, rel=1e-12), name


def test_a_quantity_that_is_left_out_follows_the_typical_device():
    case = released_case(public_case(two_areas()), {"M": np.array([20.0, 40.0, 80.0, 160.0])})
    machine = case.devices[0].values
    assert machine["xd1"] * machine["M"] == pytest.approx(np.full(4, 0.3 * 8))
    assert (machine["xd2"] == machine["xq2"]).all()
    assert machine["xd"] / machine["xd1"] == pytest.approx(np.full(4, 6.0))


def test_limits_go_with_the_governor_and_r_and_b_with_x():
    case = released_case(
        public_case(two_areas()), {"gov_gain": np.array([40.0]), "x": np.array([0.1])}
    )
    governor = case.devices[1].values
    assert governor["VMAX"] == pytest.approx(np.full(4, 40.0 * 0.05))  # typical droop and limit 1
    assert governor["R"] == pytest.approx(np.full(4, 1 / 40))
    assert case.branches.series[0] == pytest.approx(0.01 + 0.1j)


@pytest.mark.parametrize("entry", QUANTITIES)
def test_every_model_gives_back_the_quantity_that_was_put(entry):
    random = np.random.default_rng(1)
    for model, quantity in QUANTITIES[entry].items():
        own = {
            p.name: p.typical * np.exp(random.normal(0, 0.1, 3)) for p in DEVICES[model].parameters
        }
        new = quantity.get(own) * np.array([0.5, 1.0, 3.0])
        assert (quantity.get(own) > 0).all(), model
        assert quantity.get(own | quantity.put(own, bases(model), new)) == pytest.approx(new)


def test_unknown_names_and_shapes_are_refused():
    public = public_case(two_areas())
    with pytest.raises(InputError, match="no entries z"):
        released_case(public, {"z": np.ones(1)})
    with pytest.raises(InputError, match="x has shape"):
        released_case(public, {"x": np.ones(3)})
    with pytest.raises(InputError, match=r"GENROU\.H cannot be published"):
        public_case(two_areas(), {"GENROU.H"})
    with pytest.raises(InputError, match="an entry sets it"):
        public_case(two_areas(), {"GENROU.M"})


def test_a_published_constant_is_published_in_proportion():
    case = spread(two_areas())
    machine, governor = case.devices[0].values, case.devices[1].values
    public = public_case(case, {"GENROU.xd", "TGOV1.VMAX", "GENROU.Td10"})
    ours, theirs = public.devices[0].values, public.devices[1].values
    assert ours["xd"] / ours["xd1"] == pytest.approx(machine["xd"] / machine["xd1"])
    assert theirs["VMAX"] * theirs["R"] == pytest.approx(governor["VMAX"] * governor["R"])
    assert (ours["Td10"] == machine["Td10"]).all()
    assert ours["xd1"] == pytest.approx(np.full(4, 0.3 / 5))  # typical, of 500 MVA
