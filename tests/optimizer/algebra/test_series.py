from __future__ import annotations

from itertools import combinations

from aiosearch.equivalence import draws
from aiosearch.equivalence.field import Field
from aiosearch.equivalence.ring import Value
from aiosearch.equivalence.scalars import Scalars
from aiosearch.optimizer.algebra.series import Series

FIELD = Field(draws.prime(0, 0), b"0")
SCALARS = Scalars(FIELD)
X, Y, Z = draws.elements(FIELD.prime, 3, "series")
E, F = SCALARS.exp(X), SCALARS.exp(Y)
SERIES = Series(FIELD)


def one_over(value: Value) -> Value:
    return FIELD.invert(value)


def test_values_that_are_equal_in_other_forms_have_one_series() -> None:
    """Inverses of sums cancel in the series where they do not in the normal form."""
    total = E + F
    whole = E * one_over(total) + F * one_over(total)
    assert whole != 1
    assert SERIES.written(whole) == SERIES.written(1)
    twice = one_over(one_over(E + 1) + one_over(F + 1))
    once = (E + 1) * (F + 1) * one_over(E + F + 2)
    assert SERIES.written(twice) == SERIES.written(once)


def test_different_values_have_different_series() -> None:
    """Exponentials of different exponents, what is of one first order, roots and logarithms."""
    values: list[Value] = [
        X, Y, E, F, E + F, E * F, E + X, E * X, one_over(E + 1), one_over(F + 1), E - X - 1, Z,
        SCALARS.sqrt(X), SCALARS.sqrt(Y), SCALARS.log(X), SCALARS.log(Y), SCALARS.log(E + 1),
        one_over(SCALARS.sqrt(X)), one_over(SCALARS.sqrt(X) + 1),
    ]  # fmt: skip
    for one, other in combinations(values, 2):
        assert SERIES.written(one) != SERIES.written(other)


def test_a_divisor_whose_series_starts_with_nothing_is_a_number_of_its_own() -> None:
    """The difference of two exponentials is no divisor of series, and still has an inverse."""
    assert SERIES.written(one_over(E - F)) == SERIES.written(one_over(E - F))
    assert SERIES.written(one_over(E - F)) != SERIES.written(one_over(F - 1))
