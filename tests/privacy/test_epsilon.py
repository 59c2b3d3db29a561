"""ε is read exactly, and becomes a float on the safe side only."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gridveil.foundation.errors import OptionError
from gridveil.privacy.epsilon import exact, float_at_least, float_at_most

fractions = st.fractions(min_value=0, max_value=10**12)


@pytest.mark.parametrize(
    ("given_as", "read_as"),
    [
        ("1/3", Fraction(1, 3)),
        (" 1/3 ", Fraction(1, 3)),
        ("0.1", Fraction(1, 10)),
        (" .5\n", Fraction(1, 2)),
        ("1e-3", Fraction(1, 1000)),
        ("2", Fraction(2)),
        (2, Fraction(2)),
        (0.1, Fraction(1, 10)),
        (1e-7, Fraction(1, 10**7)),
        (np.float64(0.1), Fraction(1, 10)),
        (np.int64(2), Fraction(2)),
        (Decimal("0.1"), Fraction(1, 10)),
        (Fraction(1, 6), Fraction(1, 6)),
    ],
    ids=repr,
)
def test_a_positive_number_is_read_exactly(given_as, read_as):
    number = exact(given_as)
    assert number == read_as
    assert type(number.numerator) is type(number.denominator) is int


NOT_POSITIVE = [0, 0.0, -0.0, -1, -0.5, "0", "-1/3"]
NOT_FINITE = [math.nan, math.inf, "nan", "inf", "-inf", Decimal("NaN"), Decimal("Infinity")]
NOT_A_NUMBER = ["abc", "", " ", "1/0", "1/2/3", "1,5", "0x10", None, 1j]


@pytest.mark.parametrize("value", NOT_POSITIVE + NOT_FINITE + NOT_A_NUMBER, ids=repr)
def test_what_is_not_a_positive_number_is_refused(value):
    with pytest.raises(OptionError, match=r"epsilon.*nothing was spent"):
        exact(value)


OUT_OF_PROPORTION = {
    "bound": "1e12",
    "float": 1e300,
    "long integer": 10**5000,
    "long text": "9" * 5000,
    "long fraction": "1" + "0" * 2000 + "/3" + "0" * 2000,
    "below every float": "1e-400",
    "fraction below every float": f"1/{10**400}",
    # Written out, these exponents would take a second each, and longer ones all memory.
    "long exponent": "1e3000000",
    "long negative exponent": "1e-3000000",
}


@pytest.mark.parametrize("value", OUT_OF_PROPORTION.values(), ids=OUT_OF_PROPORTION)
def test_a_number_out_of_all_proportion_is_refused(value):
    with pytest.raises(OptionError) as refusal:
        exact(value)
    assert len(str(refusal.value)) < 300


def test_a_refusal_names_the_option():
    with pytest.raises(OptionError, match="alpha of k"):
        exact("abc", name="alpha of k")


@given(st.fractions(min_value=Fraction(1, 10**20), max_value=10**11))
def test_a_fraction_survives_its_own_text(number):
    assert exact(number) == exact(str(number)) == number


@given(st.floats(min_value=1e-20, max_value=1e11))
def test_a_float_is_read_as_it_prints(value):
    assert exact(value) == Fraction(repr(value))


@given(fractions)
@example(Fraction(1, 10))
@example(Fraction(1, 10**400))
def test_float_at_most_is_the_largest_float_not_above(number):
    rounded = float_at_most(number)
    assert Fraction(rounded) <= number < Fraction(math.nextafter(rounded, math.inf))


@given(fractions)
@example(Fraction(1, 3))
@example(Fraction(1, 10**400))
def test_float_at_least_is_the_smallest_float_not_below(number):
    rounded = float_at_least(number)
    assert Fraction(math.nextafter(rounded, -math.inf)) < number <= Fraction(rounded)


@given(st.floats(min_value=0, max_value=1e12))
def test_a_float_rounds_to_itself(value):
    assert float_at_most(Fraction(value)) == float_at_least(Fraction(value)) == value
