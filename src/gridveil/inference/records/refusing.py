"""How a trajectory is refused."""

from __future__ import annotations

from gridveil.foundation.errors import InputError

NOT_USED = "The trajectory was not used and nothing was spent."


def refusal(
    problem: str, *, file: str, line: int | None = None, expected: str, remedy: str = "Correct it."
) -> InputError:
    """An error that says that the trajectory was not used."""
    return InputError(
        problem, file=file, line=line, expected=expected, outcome=NOT_USED, remedy=remedy
    )
