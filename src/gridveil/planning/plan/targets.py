"""Targets of a plan: the largest errors of nadir, RoCoF and settling frequency that an owner will
have.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from gridveil.foundation.errors import OptionError
from gridveil.foundation.limits import LONGEST_OPTION

Figure = Literal["nadir", "rocof", "settling"]
FIGURES: tuple[Figure, ...] = get_args(Figure)
NO_PLAN = "Nothing was planned."
UNITS_OF: Mapping[Figure, Mapping[str, tuple[str, float]]] = {
    "nadir": {"mhz": ("nadir_mhz", 1.0), "hz": ("nadir_mhz", 1e3), "%": ("nadir_percent", 1.0)},
    "rocof": {
        "mhz/s": ("rocof_mhz_s", 1.0),
        "hz/s": ("rocof_mhz_s", 1e3),
        "%": ("rocof_percent", 1.0),
    },
    "settling": {
        "mhz": ("settling_mhz", 1.0),
        "hz": ("settling_mhz", 1e3),
        "%": ("settling_percent", 1.0),
    },
}
UNIT_NAMES = {"nadir_mhz": "mHz", "rocof_mhz_s": "mHz/s", "settling_mhz": "mHz"}


@dataclass(frozen=True)
class Target:
    """A largest error of one figure. error : its name in `Comparison`; limit : in that one's unit.

    >>> Target.parse("nadir", "5mHz").in_words
    'nadir within 5 mHz'
    """

    figure: Figure
    error: str
    limit: float

    @classmethod
    def parse(cls, figure: Figure, text: str) -> Target:
        """Read a limit as it is written on the command line: 5mHz, 0.01 Hz, 10 %, or 20mHz/s of a
        RoCoF.
        """
        known = UNITS_OF[figure]
        match = (
            re.fullmatch(r"([0-9.eE+-]+)\s*(\D+)", text.strip())
            if len(text) <= LONGEST_OPTION
            else None
        )
        try:
            error, factor = known[match[2].strip().lower()] if match else ("", 0.0)
            limit = float(match[1]) * factor if match else math.nan
        except (KeyError, ValueError):
            error, limit = "", math.nan
        if not (math.isfinite(limit) and limit > 0):
            usual = "10mHz/s or 10%" if figure == "rocof" else "5mHz or 10%"
            raise OptionError(
                f"--{figure}-error {text} cannot be read.",
                expected=f"a size above 0 with its unit, such as {usual}",
                outcome=NO_PLAN,
            )
        return cls(figure, error, limit)

    @property
    def unit(self) -> str:
        """mHz, mHz/s or %."""
        return UNIT_NAMES.get(self.error, "%")

    @property
    def in_words(self) -> str:
        """Such as "nadir within 5 mHz"."""
        return (
            f"{'RoCoF' if self.figure == 'rocof' else self.figure} within {self.limit:g} "
            f"{self.unit}"
        )
