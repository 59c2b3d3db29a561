"""A small case with devices, made by hand: three machines around three loads."""

import numpy as np

from gridveil.dynamics.detailed.registry import DEVICES
from gridveil.grid.case import Branches, DetailedCase, DeviceTable, Loads, Units


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
