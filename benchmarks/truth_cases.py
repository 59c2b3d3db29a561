"""What `truth.py` simulates: ANDES's cases with devices, kinds of load, steps of load and trips.

All of it is declared before any release is judged. Event A of each case is the public record that
fits see; the others are held out. A step draws constant power, whatever kind the loads have: an
event in MW is in MW.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np

LoadKind = Literal["Z", "IZ", "P"]
LOAD_KINDS: tuple[LoadKind, ...] = ("Z", "IZ", "P")
# Shares of constant power, current and impedance: of P, then of Q.
SHARES: Mapping[LoadKind, tuple[tuple[float, float, float], tuple[float, float, float]]] = {
    "Z": ((0.0, 0.0, 1.0), (0.0, 0.0, 1.0)),
    "IZ": ((0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
    "P": ((1.0, 0.0, 0.0), (1.0, 0.0, 0.0)),
}
HORIZON_S, DT_S = 20.0, 0.02
RECORD = "A"
SPREAD, SPREAD_SEED = 1.5, 20_390
# Columns of ANDES's tables that the heterogeneous case spreads.
SPREAD_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "GENROU": ("M",),
    "TGOV1N": ("R", "T1", "T2", "T3"),
    "IEEEX1": ("KA",),
}


@dataclass(frozen=True)
class LoadStep:
    """A lasting step of load at t = 0.

    share : of the case's total load, signed; buses : where, in equal parts.
    """

    share: float
    buses: tuple[str, ...]

    def in_words(self) -> str:
        """Say it in a few words."""
        return f"{100 * self.share:+g} % of load at {', '.join(self.buses)}"


@dataclass(frozen=True)
class Trip:
    """A machine leaves at t = 0.

    bus : where it stands.
    """

    bus: str

    def in_words(self) -> str:
        """Say it in a few words."""
        return f"machine {self.bus} trips"


@dataclass(frozen=True)
class TruthCase:
    """A case of ANDES with its events.

    file : among ANDES's cases.
    recorded : machines' buses whose frequency a record shows.
    steps : by name, A being the one that is recorded; trips : by name.
    spread : whether machines and controls are made unlike; see `spread_factors`.
    """

    name: str
    file: str
    recorded: tuple[str, ...]
    steps: Mapping[str, LoadStep]
    trips: Mapping[str, Trip] = field(default_factory=dict)
    spread: bool = False

    @property
    def events(self) -> dict[str, LoadStep | Trip]:
        """All events by name."""
        return {**self.steps, **self.trips}

    @property
    def held_out(self) -> tuple[str, ...]:
        """Names of the steps that no fit sees."""
        return tuple(name for name in self.steps if name != RECORD)


IEEE39 = TruthCase(
    "ieee39",
    "ieee39/ieee39_full.xlsx",
    recorded=("30", "35", "38"),
    steps={
        "A": LoadStep(0.03, ("15", "21")),
        "B": LoadStep(0.02, ("4",)),
        "C": LoadStep(0.03, ("8", "27")),
        "D": LoadStep(-0.03, ("20",)),
        "E": LoadStep(0.05, ("3", "16", "24", "29")),
        "F": LoadStep(-0.05, ("7", "18", "23", "28")),
    },
    trips={"T37": Trip("37"), "T34": Trip("34")},
)
CASES: Mapping[str, TruthCase] = {
    case.name: case
    for case in (
        IEEE39,
        TruthCase(
            "kundur",
            "kundur/kundur_full.xlsx",
            recorded=("1", "3"),
            steps={
                "A": LoadStep(0.02, ("7",)),
                "B": LoadStep(0.02, ("8",)),
                "C": LoadStep(-0.025, ("7",)),
                "D": LoadStep(0.03, ("7", "8")),
                "E": LoadStep(-0.02, ("8",)),
            },
        ),
        TruthCase(
            "kundur-large",
            "kundur/kundur_full.xlsx",
            recorded=("1", "3"),
            steps={
                "A": LoadStep(0.03, ("7",)),
                "B": LoadStep(0.03, ("8",)),
                "C": LoadStep(-0.04, ("7",)),
                "D": LoadStep(0.05, ("7", "8")),
                "E": LoadStep(-0.02, ("8",)),
            },
        ),
        TruthCase(
            "ieee14",
            "ieee14/ieee14_full.xlsx",
            recorded=("1", "3", "8"),
            steps={
                "A": LoadStep(0.03, ("4",)),
                "B": LoadStep(0.03, ("9",)),
                "C": LoadStep(-0.03, ("3",)),
                "D": LoadStep(0.05, ("5", "13")),
                "E": LoadStep(-0.02, ("14",)),
            },
        ),
        TruthCase(
            "ieee39-unlike",
            IEEE39.file,
            recorded=IEEE39.recorded,
            steps=IEEE39.steps,
            trips=IEEE39.trips,
            spread=True,
        ),
    )
}


@cache
def spread_factors(units: int = 10) -> Mapping[tuple[str, str], np.ndarray]:
    """Draw a factor for each value of the heterogeneous case, log-uniform within ×/÷ 1.5: (units,)
    by table and column.
    """
    random = np.random.default_rng(SPREAD_SEED)
    return {
        (table, column): SPREAD ** random.uniform(-1.0, 1.0, units)
        for table, columns in SPREAD_COLUMNS.items()
        for column in columns
    }


def case_file(case: TruthCase, cache_folder: Path) -> Path:
    """Find the case's file; the heterogeneous one is written into the cache."""
    from gridveil.readers.cases.packages import package_case

    stock = package_case(f"andes:{case.file}")
    assert stock is not None, "the name has its prefix"
    if not case.spread:
        return stock
    from openpyxl import load_workbook

    path = cache_folder / f"{case.name}.xlsx"
    if path.exists():
        return path
    book = load_workbook(stock)
    for (table, column), factors in spread_factors().items():
        sheet = book[table]
        head = [cell.value for cell in sheet[1]]
        for row, factor in enumerate(factors, start=2):
            place = (row, head.index(column) + 1)
            value = sheet.cell(*place).value
            assert isinstance(value, int | float), "a number"
            sheet.cell(*place, value=float(value) * float(factor))
    path.parent.mkdir(parents=True, exist_ok=True)
    book.save(path)
    return path


class Bar:
    """Says on stderr how far the work is."""

    def __init__(self, total: int) -> None:
        self.total, self.done = total, 0

    def step(self, what: str) -> None:
        """Count a piece of work, and name it."""
        self.done += 1
        full = 24 * self.done // max(1, self.total)
        bar = "█" * full + "·" * (24 - full)
        end = "\n" if self.done == self.total else ""
        print(
            f"\r\033[K{bar} {self.done}/{self.total} {what}", end=end, file=sys.stderr, flush=True
        )
