"""Exact ε: fractions inside, floats rounded to the safe side only where OpenDP needs them."""

from __future__ import annotations

import math
from decimal import Decimal, InvalidOperation
from fractions import Fraction

from gridveil.errors import OptionError


def exact(value: str | int | float | Fraction | Decimal, *, name: str = "epsilon") -> Fraction:
    """Read a positive number exactly: "1/3", "0.1", 2 or 0.1 (a float is read as it prints).

    >>> exact("1/3"), exact(0.1)
    (Fraction(1, 3), Fraction(1, 10))
    """
    problem = f"{name} = {value!s} is not a positive number."
    remedy = f"Give {name} as a fraction or a decimal above 0, such as 1/2 or 0.5."
    try:
        text = repr(value) if isinstance(value, float) else value
        number = Fraction(Decimal(text.strip())) if isinstance(text, str) and "/" not in text else Fraction(text)
    except (ValueError, ZeroDivisionError, OverflowError, InvalidOperation, TypeError):
        raise OptionError(problem, outcome="Nothing was drawn and nothing was spent.", remedy=remedy) from None
    if not 0 < number < 10**12:
        raise OptionError(problem, outcome="Nothing was drawn and nothing was spent.", remedy=remedy)
    return number


def float_at_most(number: Fraction) -> float:
    """Round to the largest float not above number.

    >>> Fraction(float(Fraction(1, 10))) > Fraction(1, 10) >= Fraction(float_at_most(Fraction(1, 10)))
    True
    """
    nearest = float(number)
    return math.nextafter(nearest, -math.inf) if Fraction(nearest) > number else nearest


def float_at_least(number: Fraction) -> float:
    """Round to the smallest float not below number."""
    nearest = float(number)
    return math.nextafter(nearest, math.inf) if Fraction(nearest) < number else nearest
