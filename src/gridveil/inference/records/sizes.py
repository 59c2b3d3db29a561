"""Whether values can be what they are declared to be; where they cannot, the likely unit."""

from __future__ import annotations

from typing import NamedTuple, get_args

import numpy as np

from gridveil.grid.facts import Array
from gridveil.inference.records.layout import RecordFile, Unit, Values, nominal_in
from gridveil.inference.records.record import RawRecord

# No grid runs further from its nominal frequency than this; 50 and 60 Hz lie further apart.
FURTHEST = 0.15
# What a frequency is near to before and after an event.
NEAR = 0.06
UNITS: tuple[Unit, ...] = get_args(Unit)
# Of deviations, the largest in each unit that a grid survives.
LARGEST_DEVIATION: dict[Unit, float] = {"p.u.": 0.05, "Hz": 3.0, "mHz": 3000.0}


def per_unit(raw: RawRecord, file: RecordFile, nominal_hz: float) -> Array:
    """Turn values into deviations [p.u.], and refuse those that cannot be frequencies in their
    unit.
    """
    omega = raw.values / nominal_in(file.unit, nominal_hz)
    omega = omega - (1.0 if file.values == "absolute" else 0.0)
    wrong = np.argwhere(np.abs(omega) > FURTHEST)  # a gap is not
    if len(wrong):
        row, place = wrong[0]
        kind = "frequency" if file.values == "absolute" else "deviation of the frequency"
        guess = likely(raw.values[:, place], nominal_hz)
        declared = Likely(
            file.unit, file.values, guess.nominal_hz and nominal_hz if guess else None
        )
        if guess and guess != declared:
            words = guess.in_words(nominal_hz)
            remedy = f"It looks like {words}: check unit, values and nominal_hz."
        else:
            remedy = (
                "Declare what stands for a gap, such as missing = "
                f'["{raw.values[row, place]:g}"], or a window that ends before it; check unit, '
                "values and nominal_hz."
            )
        raise raw.error(
            int(row),
            f"column {list(file.locations)[place]!r} is no {kind} of a {nominal_hz:g} Hz grid in "
            f"{file.unit}",
            expected=f"within {100 * FURTHEST:g} % of nominal, or nothing for a gap",
            remedy=remedy,
        )
    return omega


class Likely(NamedTuple):
    """What values look like. nominal_hz : of the grid, where absolute ones tell."""

    unit: Unit
    values: Values
    nominal_hz: float | None

    def in_words(self, nominal_hz: float | None = None) -> str:
        """As a TOML would declare it. nominal_hz : what it says already."""
        other = self.nominal_hz is not None and self.nominal_hz != nominal_hz
        return f'unit = "{self.unit}", values = "{self.values}"' + (
            f", nominal_hz = {self.nominal_hz}" if other else ""
        )


def likely(values: Array, nominal_hz: float | None = None) -> Likely | None:
    """What values look like; None: like nothing known.

    >>> likely(np.array([49980.0, 49990.0]), 50.0).in_words(50.0)
    'unit = "mHz", values = "absolute"'
    >>> likely(np.array([59.98, 59.99]), 50.0).in_words(50.0)
    'unit = "Hz", values = "absolute", nominal_hz = 60.0'
    """
    seen = values[np.isfinite(values)]
    if not len(seen):
        return None
    middle = float(np.median(seen))
    for hz in dict.fromkeys((nominal_hz, 50.0, 60.0)):
        for unit in UNITS:
            if hz is not None and abs(middle / nominal_in(unit, hz) - 1) < NEAR:
                return Likely(unit, "absolute", None if unit == "p.u." else hz)
    largest = float(np.quantile(np.abs(seen), 0.99))
    for unit, most in LARGEST_DEVIATION.items():
        if 0 < largest <= most and abs(middle) < most / 3:
            return Likely(unit, "deviation", None)
    return None
