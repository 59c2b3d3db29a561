"""A small grid whose private values are easy to find again, and ways to look for them."""

import reprlib
import struct
import traceback
from pathlib import Path

import numpy as np

from gridveil.grid.facts import GridFacts
from gridveil.vault.source import SourceGrid

TRUE = {
    "k": (27.182818284, 31.415926535, 57.721566490, 69.314718055),
    "m": (16.180339887, 14.142135623, 17.320508075),
    "d": (11.459155902, 12.020569031, 13.063778838),
}


def chain(buses=5, machines=3):
    """Public facts of buses b0, b1, ... in a row, the first of them with machines."""
    return GridFacts(
        name="chain",
        buses=tuple(f"b{i}" for i in range(buses)),
        edges=np.column_stack([np.arange(buses - 1), np.arange(1, buses)]),
        machines=np.arange(machines),
        governor_rate=np.full(machines, 2.0),
        droop_gain=np.full(machines, 20.0),
        loads=np.ones(buses),
        load_damping=np.zeros(buses),
        omega_b=1.0,
        frequency_hz=60.0,
        base_mva=100.0,
        loads_are_public=True,
        operating_point="flat",
    )


def private_grid(**changed):
    """The chain with the values of TRUE, or those that a test changes."""
    return SourceGrid.of(chain(), **(TRUE | changed))


def traces(values):
    """Every form in which a file or a pickle could hold one of the values."""
    return [
        form
        for value in values
        for form in (
            struct.pack("<d", value),
            struct.pack(">d", value),
            repr(value).encode(),
            f"{value:.6g}".encode(),
        )
    ]


def all_that_it_says(error):
    """The text of an error and of all errors that it carries along."""
    said = []
    while error is not None:
        said.append(f"{error} {error!r} {vars(error)}")
        error = error.__cause__ or error.__context__
    return "\n".join(said)


def locals_seen(error):
    """What a traceback with locals (capture_locals, rich, pytest -l) shows of an error: all frames
    but those of the tests.
    """
    said = []
    for frame, line in traceback.walk_tb(error.__traceback__):
        if not Path(frame.f_code.co_filename).is_relative_to(Path(__file__).parent):
            said += [
                f"{frame.f_code.co_name}:{line} {name} = {_seen(value)}"
                for name, value in frame.f_locals.items()
            ]
    return "\n".join(said)


def _seen(value):
    """As it is printed; of long texts, which a debugger shows whole, more than repr's own
    shortening would.
    """
    try:
        return repr(value) if not isinstance(value, np.ndarray) else repr(value.tolist())
    except Exception as refusal:
        return reprlib.repr(refusal)
