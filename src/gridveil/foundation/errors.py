"""Errors a user can meet.

Each says what was wrong and where, what did not happen, and the next step.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Self

from gridveil.foundation.shown import shown

NOTHING_SPENT = "Nothing was drawn and nothing was spent."
LONGEST_PROBLEM = 1000  # characters, as files and options may hold a million


class GridveilError(Exception):
    """An error the user can fix.

    problem : what was wrong, and where.
    outcome : what did not happen because of it.
    remedy : the next step.
    details : facts behind it, for `--json`.

    All three are one line: what they quote of a file, a bundle or an option is escaped.
    """

    exit_code = 2
    details: Mapping[str, object] = MappingProxyType({})

    def __init__(
        self, problem: str, *, outcome: str = "Nothing was written.", remedy: str = ""
    ) -> None:
        self.problem = shown(problem if problem.endswith((".", "…")) else f"{problem}.")
        self.outcome = shown(outcome)
        self.remedy = shown(remedy)
        super().__init__(
            " ".join(part for part in (self.problem, self.outcome, self.remedy) if part)
        )

    def also(self, outcome: str) -> Self:
        """Say more of what did and did not happen."""
        self.outcome = f"{self.outcome} {shown(outcome)}"
        self.args = (" ".join(part for part in (self.problem, self.outcome, self.remedy) if part),)
        return self


class InputError(GridveilError):
    """A grid file, an option or a table that cannot be used as it is.

    What it quotes of them is cut short.
    """

    def __init__(
        self,
        problem: str,
        *,
        file: str = "",
        table: str = "",
        row: int | None = None,
        line: int | None = None,
        expected: str = "",
        outcome: str = "Nothing was written.",
        remedy: str = "Correct it and try again.",
    ) -> None:
        self.file = file
        self.table = table
        self.row = row
        self.line = line
        self.expected = expected
        place = ", ".join(
            part
            for part in (
                file,
                f"table {table}" if table else "",
                f"row {row}" if row is not None else "",
                f"line {line}" if line is not None else "",
            )
            if part
        )
        problem = problem if len(problem) <= LONGEST_PROBLEM else f"{problem[:LONGEST_PROBLEM]}…"
        text = f"{place}: {problem}" if place else problem
        if expected:
            text = f"{text.rstrip('.')}; expected {expected}."
        super().__init__(text, outcome=outcome, remedy=remedy)


class OptionError(InputError):
    """An option, or a key of a configuration file, whose value cannot be used."""


class EventError(InputError):
    """An event that names a bus, a time or a size which the model does not have."""


class PrivateValueError(TypeError):
    """Something tried to look at a private value. Only `perturb` and `assess` may."""


class UnstableStep(GridveilError):
    """A time step at which the scheme would blow up; carries one that would do."""

    def __init__(self, scheme: str, dt_s: float, stable_dt_s: float) -> None:
        self.scheme = scheme
        self.dt_s = dt_s
        self.stable_dt_s = stable_dt_s
        super().__init__(
            f"The {scheme} scheme is unstable for this model at a step of {dt_s:g} s.",
            outcome="Nothing was simulated.",
            remedy=(
                f"Use a step of {0.995 * stable_dt_s:.3g} s or less, or"
                if stable_dt_s > 0
                else "No step would do; use"
            )
            + " the scheme 'exact', which is stable at any step.",
        )


class LedgerError(GridveilError):
    """The ledger could not take a charge. Nothing was drawn and nothing was spent."""


class NoLedger(LedgerError):
    """There is no ledger where one was looked for."""


class BudgetExceeded(GridveilError):
    """A split or a charge asks for more than ε. Nothing was drawn and nothing was spent."""


class Interrupted(GridveilError):
    """A signal in the middle of a release: it says whether privacy budget was spent.

    signal : its number, 2 for Ctrl-C.
    """

    def __init__(self, problem: str, *, outcome: str, remedy: str = "", signal: int = 2) -> None:
        self.exit_code = 128 + signal  # as shells have it
        super().__init__(problem, outcome=outcome, remedy=remedy)


class OutputExists(GridveilError):
    """The place where a result should go is taken. Nothing was drawn, written or overwritten."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(
            f"{path} exists already.",
            outcome="Nothing was drawn and nothing was written.",
            remedy="Name another place with --out, or move the old one away.",
        )


class BundleError(GridveilError):
    """A bundle that is damaged, incomplete, altered or from a newer gridveil."""

    exit_code = 1
