"""A detailed case by hand: two areas, four machines with exciters, governors and stabilisers, after
example 12.6 of Kundur (1994).
"""

import numpy as np

from gridveil.grid.case import Branches, DetailedCase, DeviceTable, Loads, Units

SHARE = 9.0  # rating of each machine over the system's base
LINES = [
    (4, 5, 0.005 + 0.05j, 0.075),
    (4, 5, 0.005 + 0.05j, 0.075),
    (5, 6, 0.002 + 0.02j, 0.03),
    (5, 6, 0.002 + 0.02j, 0.03),
    (6, 7, 0.022 + 0.22j, 0.33),
    (6, 7, 0.022 + 0.22j, 0.33),
    (6, 7, 0.022 + 0.22j, 0.33),
    (7, 8, 0.002 + 0.02j, 0.03),
    (7, 8, 0.002 + 0.02j, 0.03),
    (8, 9, 0.005 + 0.05j, 0.075),
    (8, 9, 0.005 + 0.05j, 0.075),
    (0, 4, 0.001 + 0.012j, 0.0),
    (1, 5, 0.001 + 0.012j, 0.0),
    (2, 8, 0.001 + 0.012j, 0.0),
    (3, 9, 0.001 + 0.012j, 0.0),
]
MACHINE = {
    "M": 13.0 * SHARE,
    "D": 0.0,
    "ra": 0.0,
    "xd1": 0.3 / SHARE,
    "xl": 0.06 / SHARE,
    "xd": 1.8 / SHARE,
    "xq": 1.7 / SHARE,
    "xq1": 0.55 / SHARE,
    "xd2": 0.25 / SHARE,
    "xq2": 0.25 / SHARE,
    "Td10": 8.0,
    "Tq10": 0.4,
    "Td20": 0.03,
    "Tq20": 0.05,
    "S10": 0.0,
    "S12": 0.0,
}
GOVERNOR = {
    "R": 0.05 / SHARE,
    "VMAX": 1.2 * SHARE,
    "VMIN": 0.0,
    "T1": 0.49,
    "T2": 2.1,
    "T3": 7.0,
    "Dt": 0.0,
}
EXCITER = {
    "TR": 0.02,
    "TA": 0.02,
    "TC": 1.0,
    "TB": 1.0,
    "TE": 0.83,
    "TF1": 1.246,
    "KF1": 0.0754,
    "KA": 20.0,
    "KE": 1.0,
    "VRMAX": 5.2,
    "VRMIN": -4.16,
    "E1": 0.0,
    "SE1": 0.0,
    "E2": 1.0,
    "SE2": 1.0,
}
# Of speed: T5 and T6 are the washout.
STABILISER = {
    "MODE": 1.0,
    **dict.fromkeys(("A1", "A2", "A3", "A4", "A5", "A6"), 0.0),
    "T1": 0.05,
    "T2": 0.02,
    "T3": 0.0,
    "T4": 0.0,
    "T5": 10.0,
    "T6": 10.0,
    "KS": -1.0,
    "LSMAX": 0.1,
    "LSMIN": -0.1,
}


def table(model, constants, units=4):
    """A table whose devices are alike."""
    return DeviceTable(
        model, np.arange(units), {name: np.full(units, value) for name, value in constants.items()}
    )


def two_areas(zip_shares=(1.0, 0.0), devices=None):
    """The case; zip_shares : of constant impedance and of constant current."""
    n, loads = 10, np.array([6, 7])
    impedance, current = (np.full((2, 2), share) for share in zip_shares)
    shunt = np.zeros(n, dtype=complex)
    shunt[6] = 0.5j
    return DetailedCase(
        "two areas",
        tuple(str(bus + 1) for bus in range(n)),
        100.0,
        60.0,
        Branches(
            np.array([line[:2] for line in LINES]),
            np.array([line[2] for line in LINES]),
            np.array([line[3] for line in LINES]),
            np.ones(len(LINES), dtype=complex),
        ),
        shunt,
        Loads(loads, np.array([11.59 - 0.735j, 15.75 - 0.899j]), impedance, current),
        Units(np.arange(4), np.array([7.46, 7.0, 7.0, 7.0]), np.array([1.0, 1.01, 1.0, 1.02]), 0),
        devices
        or (
            table("GENROU", MACHINE),
            table("TGOV1", GOVERNOR),
            table("EXDC2", EXCITER),
            table("IEEEST", STABILISER, units=2),
        ),
    )
