"""Exact ε: fractions inside, floats rounded to the safe side only where OpenDP needs them."""

from __future__ import annotations

import math
from decimal import Decimal, InvalidOperation
from fractions import Fraction

from gridveil.foundation.arguments import takes
from gridveil.foundation.errors import NOTHING_SPENT, OptionError

# What is computed with such numbers, α/ε and ε_γ above all, can still be a float, and be written
# down after the charge.
SMALLEST, LONGEST_TEXT = Fraction(1, 10**100), 1000
# Below it e^ε to three digits is 1, which reads as no change at all: it is then written 1 + (e^ε −
# 1).
SMALL = Fraction(1, 200)


Exact = str | int | float | Fraction | Decimal


@takes(outcome=NOTHING_SPENT)
def exact(value: Exact, *, name: str = "epsilon") -> Fraction:
    """Read a positive number exactly: "1/3", "0.1", 2 or 0.1 (a float is read as it prints).

    >>> exact("1/3"), exact(0.1)
    (Fraction(1, 3), Fraction(1, 10))
    """
    text = "(a number of very many digits)"
    try:
        if len(written := str(value).strip()) > LONGEST_TEXT:
            raise OverflowError
        text = written
        number = Fraction(text) if "/" in text else _from_decimal(Decimal(text))
    except (ValueError, ZeroDivisionError, OverflowError, InvalidOperation):
        number = Fraction(0)
    if not SMALLEST <= number < 10**12:
        raise OptionError(
            f"{name} = {text[:40]} is not a positive number from 1e-100 to below 1e12.",
            outcome=NOTHING_SPENT,
            remedy=f"Give {name} as a fraction or a decimal above 0, such as 1/2 or 0.5.",
        )
    return number


def _from_decimal(number: Decimal) -> Fraction:
    if (
        abs(number.adjusted()) > 400
    ):  # beyond every float; written out, 1e999999999 would fill the memory
        raise OverflowError
    return Fraction(number)


def float_at_most(number: Fraction) -> float:
    """Round to the largest float not above number.

    >>> tenth = Fraction(1, 10)
    >>> Fraction(float(tenth)) > tenth >= Fraction(float_at_most(tenth))
    True
    """
    nearest = float(number)
    return math.nextafter(nearest, -math.inf) if Fraction(nearest) > number else nearest


def float_at_least(number: Fraction) -> float:
    """Round to the smallest float not below number."""
    nearest = float(number)
    return math.nextafter(nearest, math.inf) if Fraction(nearest) < number else nearest
