"""Grids as a file would have them, made by hand."""

import numpy as np

from gridveil.readers.network import LOAD, BranchRecords, Buses, FileGrid, Machines, Rows

NAN = float("nan")


def bus(kind=LOAD, load=0.0, shunt=0.0, voltage=1.0, angle=0.0):
    return {"kind": kind, "load": load, "shunt": shunt, "voltage": voltage, "angle": angle}


def line(i, j, x, *, r=0.0, charging=0.0, ratio=1.0, closed=True):
    return {
        "ends": (i, j),
        "series": r + 1j * x,
        "charging": charging,
        "ratio": ratio,
        "in_service": closed,
    }


def unit(
    at,
    power=0.0,
    *,
    m=NAN,
    d=NAN,
    rate=NAN,
    gain=NAN,
    rated=NAN,
    fuel="",
    set_point=NAN,
    running=True,
):
    return {
        "bus": at,
        "power": power,
        "set_point": set_point,
        "in_service": running,
        "rated_mva": rated,
        "fuel": fuel,
        "inertia": m,
        "damping": d,
        "governor_rate": rate,
        "droop_gain": gain,
    }


def file_grid(buses, lines, units, **others) -> FileGrid:
    """A grid of buses by label, with lines and units that name them."""
    place = {label: position for position, label in enumerate(buses)}

    def columns(rows, names):
        return {name: np.array([row[name] for row in rows]) for name in names}

    return FileGrid(
        file="hand.m",
        base_mva=100.0,
        frequency_hz=None,
        buses=Buses(
            Rows("hand.m", "bus"),
            np.arange(len(buses)),
            labels=tuple(buses),
            **columns(buses.values(), ("kind", "voltage", "angle")),
            **{
                name: np.array([b[name] for b in buses.values()], dtype=complex)
                for name in ("load", "shunt")
            },
        ),
        branches=BranchRecords(
            Rows("hand.m", "branch"),
            np.arange(len(lines)),
            ends=np.array([[place[end] for end in one["ends"]] for one in lines]).reshape(-1, 2),
            in_service=np.array([one["in_service"] for one in lines], dtype=bool),
            charging=np.array([one["charging"] for one in lines], dtype=float),
            **{
                name: np.array([one[name] for one in lines], dtype=complex)
                for name in ("series", "ratio")
            },
        ),
        machines=Machines(
            Rows("hand.m", "gen"),
            np.arange(len(units)),
            bus=np.array([place[one["bus"]] for one in units], dtype=int),
            power=np.array([one["power"] for one in units], dtype=complex),
            in_service=np.array([one["in_service"] for one in units], dtype=bool),
            fuel=tuple(one["fuel"] for one in units),
            **columns(
                units,
                ("set_point", "rated_mva", "inertia", "damping", "governor_rate", "droop_gain"),
            ),
        ),
        **others,
    )
