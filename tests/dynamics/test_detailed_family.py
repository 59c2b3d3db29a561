"""The detailed family: its hand-written gradient against a complex step, for every device."""

# ruff: noqa: F811 - the fixture andes

import numpy as np
import pytest

from andes_helpers import andes  # noqa: F401 - a fixture
from detailed_helpers import case_of, dumped, small_case, typical_table
from gridveil.dynamics.detailed.affine import Affine
from gridveil.dynamics.detailed.equilibrium import solve
from gridveil.dynamics.detailed.family import DetailedFamily, Lever, LeverTarget
from gridveil.dynamics.detailed.linearise import linearise
from gridveil.dynamics.detailed.numbers import numbers_of
from gridveil.dynamics.detailed.registry import DEVICES
from gridveil.dynamics.engine.lti import LTI, LinearFamily
from gridveil.foundation.errors import InputError, OptionError
from gridveil.grid.parameters import Group


def every_lever(case):
    """A lever on every column of a case; on items, common factors and shifts."""
    levers = [
        Lever("network", (LeverTarget("branch", "x"), LeverTarget("branch", "r", weight=0.5))),
        Lever("x", (LeverTarget("branch", "x"),), "item"),
        *(Lever(name, (LeverTarget("branch", name),), "shift") for name in ("b", "tap", "phase")),
        Lever("shunt", (LeverTarget("shunt", "b"), LeverTarget("shunt", "g", weight=0.1)), "shift"),
        *(Lever(name, (LeverTarget("load", name),), "item") for name in ("p", "q")),
        *(Lever(name, (LeverTarget("load", name),), "shift") for name in ("zp", "zq", "ip", "iq")),
        *(Lever(name, (LeverTarget("unit", name),), "item") for name in ("power", "set_point")),
    ]
    numbers = numbers_of(case)
    for table in case.devices:
        device = DEVICES[table.model]
        for name, column in numbers[table.model].items():
            # zeros in these places are structure, not numbers
            if name not in device.modes and not (name in device.shaping and not column.any()):
                levers.append(
                    Lever(f"{table.model} {name}", (LeverTarget(table.model, name),), "item")
                )
    return levers


def family(case, levers, seed=0):
    generator = np.random.default_rng(seed)
    ports = np.setdiff1d(np.arange(len(case.buses)), case.units.bus)[-1:]
    p = len(case.units.bus) + 1
    drive = generator.normal(size=(p, 2)) + 1j * generator.normal(size=(p, 2))
    return DetailedFamily(case, levers, ports, drive, np.array([0, 1, p - 1, p, 2 * p - 1]))


def random_bar(lti, seed=1):
    generator = np.random.default_rng(seed)
    return LTI(generator.normal(size=lti.F.shape), generator.normal(size=lti.H.shape), lti.states)


def full_machine(model, **changed):
    return (
        typical_table("GENROU", [0, 1, 2], M=8.0, D=1.0),
        typical_table(model, [0, 1], **changed),
    )


UNITS = {
    "GENCLS": (typical_table("GENCLS", [0, 1, 2]),),
    "GENSAL": (typical_table("GENSAL", [0, 1, 2]), typical_table("SEXS", [0, 1, 2])),
    "TWOAXIS": (typical_table("TWOAXIS", [0, 1, 2]), typical_table("TGOV1", [0])),
    **{
        model: (typical_table("GENROU", [0, 1], M=8.0, D=1.0), typical_table(model, [2]))
        for model in ("REGCV1", "REGF1", "REGFM_A1", "REGCA1", "REGCP1")
    },
    **{
        model: full_machine(model)
        for model, device in DEVICES.items()
        if device.role in ("exciter", "governor")
    },
    **{
        f"{model} {mode}": (
            *full_machine("EXST1"),
            typical_table(
                model, [0, 1], MODE=mode, A1=0.1, A2=0.01, A3=0.2, A4=0.02, A5=0.1, A6=0.01
            ),
        )
        for model, mode in (("IEEEST", 1), ("IEEEST", 3), ("IEEEST", 5))
    },
    "ST2CUT": (*full_machine("SEXS"), typical_table("ST2CUT", [0, 1], MODE2=3, K2=0.3)),
}


@pytest.mark.parametrize("name", UNITS)
def test_pull_is_a_complex_step(name):
    case = small_case(*UNITS[name])
    own = family(case, every_lever(case))
    bar = random_bar(own.lti(own.start))
    ours, theirs = own.pull(own.start, bar), LinearFamily.pull(own, own.start, bar)
    assert np.isfinite(theirs).all()
    assert np.abs(ours - theirs).max() <= 1e-12 * np.abs(theirs).max()


def test_its_model_is_the_linearised_one():
    case = small_case(*UNITS["IEEEG1"])
    own = family(case, every_lever(case))
    model = linearise(case, solve(case), np.array([3]))
    lti = own.lti(own.start)
    there = model.lti(own.drive, np.array([0, 1, 3]))
    assert pytest.approx(there.A, abs=1e-8) == lti.A
    assert lti.H[:3] == pytest.approx(there.H, abs=1e-8)


def test_levers_act_in_turn():
    case = small_case(*UNITS["GENCLS"])
    levers = [
        Lever("M", (LeverTarget("GENCLS", "M"),), "item"),
        Lever(
            "inertia", (LeverTarget("GENCLS", "M"), LeverTarget("branch", "x", np.array([0]), -1.0))
        ),
        Lever("damping", (LeverTarget("GENCLS", "D", np.array([1]), 2.0),), "shift"),
    ]
    own = family(case, levers)
    assert [group.name for group in own.groups] == ["M", "inertia", "damping"]
    numbers = own.numbers(np.array([5.0, 6.0, 7.0, 2.0, 0.5]))
    assert numbers["GENCLS"]["M"] == pytest.approx([10, 12, 14])
    assert numbers["branch"]["x"][:2] == pytest.approx([0.05, 0.15])
    (machines,) = (table for table in case.devices if table.model == "GENCLS")
    assert numbers["GENCLS"]["D"] == pytest.approx(machines.values["D"] + [0, 1, 0])
    theta = np.array([5.0, 6.0, 7.0, 1.1, 0.5])
    bar = random_bar(own.lti(theta))
    assert own.pull(theta, bar) == pytest.approx(LinearFamily.pull(own, theta, bar), rel=1e-10)


def test_a_batch_is_its_members():
    case = small_case(*UNITS["GENCLS"])
    own = family(case, every_lever(case)[:2])
    thetas = np.stack([own.start, 1.05 * own.start])
    lti = own.lti(thetas)
    assert lti.F[1] == pytest.approx(own.lti(thetas[1]).F)
    bar = random_bar(lti)
    second = LTI(bar.F[1], bar.H[1], bar.states)
    assert own.pull(thetas, bar)[1] == pytest.approx(own.pull(thetas[1], second))


def test_a_lever_on_nothing_and_a_drive_of_other_ports_are_refused():
    case = small_case(*UNITS["GENCLS"])
    with pytest.raises(OptionError):
        family(case, [Lever("a", (LeverTarget("GENROU", "M"),))])
    with pytest.raises(OptionError):
        DetailedFamily(case, [], np.array([3]), np.ones((3, 1)), np.array([0]))


@pytest.mark.slow
def test_a_gradient_of_ieee39_is_that_of_a_complex_step(andes):
    case = case_of(dumped(andes, "ieee39/ieee39_full.xlsx", after="pass"))
    levers = [
        Lever("x", (LeverTarget("branch", "x"),), "item"),
        Lever("p", (LeverTarget("load", "p"),), "item"),
        Lever("power", (LeverTarget("unit", "power"),), "item"),
        *(
            Lever(f"{table} {column}", (LeverTarget(table, column),), "item")
            for table, column in (
                ("GENROU", "M"), ("GENROU", "xd1"), ("TGOV1N", "R"), ("TGOV1N", "T3"),
                ("IEEEX1", "KA"), ("IEEEX1", "TE"), ("IEEEST", "KS"),
            )
        ),
    ]  # fmt: skip
    own = family(case, levers)
    assert own.size >= 140
    bar = random_bar(own.lti(own.start))
    ours, theirs = own.pull(own.start, bar), LinearFamily.pull(own, own.start, bar)
    assert np.abs(ours - theirs).max() <= 1e-12 * np.abs(theirs).max()


def test_an_affine_family_is_its_matrices():
    generator = np.random.default_rng(0)
    parts = [
        LTI.of(*(generator.normal(size=shape) for shape in ((3, 3), (3, 1), (2, 3), (2, 1))))
        for _ in range(3)
    ]
    own = Affine(parts[0], parts[1:], (Group("a", 2, None),))
    theta = np.array([0.3, -2.0])
    assert pytest.approx(parts[0].A + 0.3 * parts[1].A - 2 * parts[2].A) == own.lti(theta).A
    bar = random_bar(own.lti(theta))
    assert own.pull(theta, bar) == pytest.approx(LinearFamily.pull(own, theta, bar))
    with pytest.raises(InputError):
        Affine(parts[0], parts[1:], (Group("a", 3, None),))
