"""Indices are sums of digits: they are split, put together, and told to be apart."""

from __future__ import annotations

import pytest

from aiosearch.equivalence.proof.indices import (
    CasesNeeded,
    IndexSum,
    SplitNeeded,
    Unprovable,
    Var,
    at_most,
    border,
    divide,
)
from aiosearch.tensor import Size

N, M = Size.named("n"), Size.named("m")


def test_digits_divide() -> None:
    """`high * m + low` divided by m is high, and low remains."""
    high, low = Var(N), Var(M)
    index = IndexSum.of(high).times(M).plus(IndexSum.of(low))
    above, below = divide(index, M)
    assert (above.key({}), below.key({})) == (IndexSum.of(high).key({}), IndexSum.of(low).key({}))


def test_a_whole_index_asks_for_its_digits() -> None:
    """An index over n·m places that is divided by m is needed in two digits."""
    whole = Var(N * M)
    with pytest.raises(SplitNeeded) as asked:
        divide(IndexSum.of(whole), M)
    assert (asked.value.var, asked.value.inner) == (whole, M)


def test_digits_of_another_size_do_not_divide() -> None:
    """What is made of n by m places cannot be read as if it were made of others."""
    with pytest.raises(Unprovable):
        divide(IndexSum.of(Var(N)), M)


@pytest.mark.parametrize("shift", [-2, 0 - N, N - M])
def test_an_index_that_begins_below_zero_has_no_digits(shift: Size | int) -> None:
    """`high * m + low - 2` borrows from high where low is small."""
    high, low = Var(N), Var(M)
    index = IndexSum.of(high).times(M).plus(IndexSum.of(low)).shifted(shift)
    with pytest.raises(Unprovable):
        divide(index, M)


def test_whole_steps_below_zero_are_taken_from_the_high_digit() -> None:
    """`high * m + low - m` is high - 1, and low."""
    high, low = Var(N), Var(M)
    above, below = divide(IndexSum.of(high).times(M).plus(IndexSum.of(low)).shifted(0 - M), M)
    assert above.key({}) == IndexSum.of(high).shifted(-1).key({})
    assert below.key({}) == IndexSum.of(low).key({})


def test_a_border_that_may_lie_outside_makes_no_cases() -> None:
    """There are no n - m places above a border at m that may be above all n."""
    with pytest.raises(Unprovable):
        border(IndexSum.of(Var(N)), M)


def test_a_border_asks_for_cases() -> None:
    """An index over n + m places is below n, or not."""
    whole = Var(N + M)
    with pytest.raises(CasesNeeded) as asked:
        border(IndexSum.of(whole), N)
    assert (asked.value.var, asked.value.border) == (whole, N)


def test_a_border_that_is_not_crossed() -> None:
    """An index over n places is below n, and from n on it is not."""
    index = IndexSum.of(Var(N))
    assert border(index, N)
    assert not border(index.shifted(N), N)


@pytest.mark.parametrize(
    ("a", "b", "known"),
    [
        (2, 3, True),
        (3, 2, False),
        (N, N * M, True),
        (N * M, N, False),
        (N, M, False),
        (N, N + 1, True),
        (1, N, True),
        (0, N - 1, True),
        (N, 0, False),
        (N, N - 1, False),
    ],
)
def test_sizes_are_compared_for_all_values(a: Size | int, b: Size | int, known: bool) -> None:
    """Only what holds whatever the names stand for is known."""
    assert at_most(a, b) is known


def test_an_index_of_one_place_is_zero() -> None:
    """There is nothing to run over."""
    assert IndexSum.of(Var(1)).key({}) == "0"
