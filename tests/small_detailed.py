"""A small case with devices, made by hand: three machines around three loads; and records of it."""

from dataclasses import replace

import numpy as np

from gridveil.dynamics.detailed.equilibrium import solve
from gridveil.dynamics.detailed.linearise import linearise
from gridveil.dynamics.detailed.registry import DEVICES
from gridveil.dynamics.events import Event
from gridveil.dynamics.simulate import simulate
from gridveil.grid.case import Branches, DetailedCase, DeviceTable, Loads, Units
from gridveil.inference.fit.detailed import DetailedFitSettings, case_with
from gridveil.inference.fit.detailed_residuals import Prediction
from gridveil.inference.fit.factors import factors_of, theta_of
from gridveil.inference.fit.problem import Observation
from gridveil.privacy.provenance import Provenance

PORTS = np.array([3, 4, 5])
DT = 0.04
CLOCK = {"horizon_s": 12.0, "dt_s": DT}
SETTINGS = DetailedFitSettings(dt_s=DT, sigma=1e-5)
ORIGIN = Provenance("simulated", "a case made by hand")
EVENT = Event.parse("load:L1=+40MW;load:L3=-15MW@5s", base_mva=100)


def small_case(p_impedance: float = 0.5, q_impedance: float = 0.5) -> DetailedCase:
    """Units at buses G1 to G3, loads at L1 to L3; machines of different sizes."""
    size = np.array([6.0, 4.0, 8.0])
    shares = np.tile([p_impedance, q_impedance], (3, 1))
    return DetailedCase(
        "small",
        ("G1", "G2", "G3", "L1", "L2", "L3"),
        100.0,
        60.0,
        Branches(
            np.array([[0, 3], [1, 4], [2, 5], [3, 4], [4, 5], [3, 5]]),
            np.array([0.02j, 0.03j, 0.015j, 0.01 + 0.08j, 0.008 + 0.06j, 0.012 + 0.1j]),
            np.array([0.0, 0.0, 0.0, 0.1, 0.1, 0.15]),
            np.ones(6, dtype=complex),
        ),
        np.zeros(6, dtype=complex),
        Loads(
            np.array([3, 4, 5]),
            np.array([5.0 + 1.0j, 3.0 + 0.8j, 4.0 + 1.2j]),
            shares,
            np.zeros((3, 2)),
        ),
        Units(np.arange(3), np.array([4.0, 3.0, 5.1]), np.array([1.03, 1.02, 1.03]), 2),
        tuple(_typical(model, size) for model in ("GENROU", "SEXS", "TGOV1")),
    )


def _typical(model: str, size: np.ndarray) -> DeviceTable:
    values = {
        parameter.name: np.asarray(parameter.to_system(np.full(3, parameter.typical), size))
        for parameter in DEVICES[model].parameters
    }
    if model == "TGOV1":
        values["T3"] = values["T3"] * np.array([0.8, 1.0, 1.3])
    return DeviceTable(model, np.arange(3), values)


def recorded(case, event=EVENT, buses=("G1", "G3"), sigma=1e-5, seed=3):
    trajectory = simulate(linearise(case, solve(case), PORTS), event, **CLOCK, buses=buses)
    noise = sigma * np.random.default_rng(seed).standard_normal(trajectory.omega.shape)
    return Observation(event, replace(trajectory, omega=trajectory.omega + noise), ORIGIN)


def moved(case, **x):
    """The case with factors at x."""
    factors = factors_of(case, exponents=False)
    prediction = predicted(case, factors, recorded(case))
    at = np.array([x.get(factor.name, 0.0) for factor in factors])
    return case_with(case, prediction.family.numbers(theta_of(factors, at)))


def predicted(case, factors, record):
    model = linearise(case, solve(case), PORTS)
    return Prediction.of(case, model, PORTS, factors, [record], dt_s=DT, scheme="exact")
