from __future__ import annotations

import pytest

from aiosearch.tensor import ShapeError
from aiosearch.tensor.analysis.size_unification import Unknowns
from aiosearch.tensor.sizes import product


@pytest.fixture
def unknowns() -> Unknowns:
    return Unknowns()


def test_sizes_of_one_and_nought_are_never_unknown(unknowns: Unknowns) -> None:
    """What broadcasts and what is empty stays so."""
    assert unknowns.fresh("n", 1) == 1
    assert unknowns.fresh("n", 0) == 0


def test_equal_numbers_are_not_the_same_unknown(unknowns: Unknowns) -> None:
    """Two sizes are one only where a rule says so."""
    n, m = unknowns.fresh("n", 64), unknowns.fresh("m", 64)
    assert unknowns.resolve(n) != unknowns.resolve(m)
    unknowns.same(n, m, "test")
    assert unknowns.resolve(n) == unknowns.resolve(m)


def test_what_is_divided_becomes_a_product(unknowns: Unknowns) -> None:
    """A grid of unknown size makes the axis that it splits a multiple of it."""
    n, g = unknowns.fresh("n", 64), unknowns.fresh("g", 16)
    tile = unknowns.over(n, g, "test")
    assert unknowns.value(tile) == 4
    assert unknowns.resolve(n) == unknowns.resolve(g * tile)


@pytest.mark.parametrize(
    ("ours", "theirs", "left"),
    [
        ([64, 64], [64, 64], 2),
        ([64, 64], [16, 256], 3),
        ([4, 6], [6, 4], 4),
        ([6, 35], [10, 21], 4),
        ([4096], [4, 4, 4, 64], 4),
        ([3, 5], [15], 2),
    ],
)
def test_products_share_their_common_refinement(
    unknowns: Unknowns, ours: list[int], theirs: list[int], left: int
) -> None:
    """Two ways to split one axis become one finer way, with nothing lost."""
    a = [unknowns.fresh("a", size) for size in ours]
    b = [unknowns.fresh("b", size) for size in theirs]
    unknowns.same(product(a), product(b), "test")
    assert unknowns.resolve(product(a)) == unknowns.resolve(product(b))
    assert [unknowns.value(unknowns.resolve(dim)) for dim in a + b] == ours + theirs
    assert len(unknowns.names()) == left
    assert not unknowns.fixed


def test_factors_that_are_numbers_stay_numbers(unknowns: Unknowns) -> None:
    """An unknown that equals twice something is even for all values."""
    n, m = unknowns.fresh("n", 12), unknowns.fresh("m", 18)
    unknowns.same(3 * n, 2 * m, "test")
    assert unknowns.resolve(3 * n) == unknowns.resolve(2 * m)
    assert len(unknowns.names()) == 1


def test_slices_of_a_common_length_scale_with_the_axis(unknowns: Unknowns) -> None:
    """Bounds with a common divisor are multiples of one unknown chunk."""
    n, start = unknowns.fresh("n", 64), unknowns.fresh("start", 16)
    stop = unknowns.fresh("stop", 48)
    low, high, whole = unknowns.ordered((start, stop, n), "test")
    assert low * 4 == whole
    assert high == low * 3
    assert not unknowns.fixed


def test_bounds_without_a_common_divisor_stay_numbers(unknowns: Unknowns) -> None:
    """A slice at a prime place fixes its axis, and says why."""
    n, stop = unknowns.fresh("n", 10), unknowns.fresh("stop", 7)
    assert unknowns.ordered((0, stop, n), "a slice") == (0, 7, 10)
    assert unknowns.reason(n) == "a slice"


def test_a_sum_may_be_an_axis_and_be_divided(unknowns: Unknowns) -> None:
    """Axes put together add up; each part is divided where the whole is."""
    a, b, n = (unknowns.fresh("abn"[i], size) for i, size in enumerate((4096, 16, 4112)))
    unknowns.same(a + b, n, "test")
    tile = unknowns.over(n, unknowns.fresh("f", 16), "test")
    assert unknowns.value(tile) == 257
    assert not unknowns.fixed
    assert len(unknowns.names()) == 2


def test_a_sum_that_a_size_does_not_divide_term_by_term_stays_a_number(unknowns: Unknowns) -> None:
    """What cannot be solved for all values is solved for the values at hand."""
    a, b, g = unknowns.fresh("a", 3), unknowns.fresh("b", 5), unknowns.fresh("g", 4)
    assert unknowns.over(a + b, g, "test") == 2
    assert set(unknowns.fixed.values()) == {"test"}


def test_contradictions_are_shape_errors(unknowns: Unknowns) -> None:
    """Numbers that differ, do not divide or do not rise do not become right by being unknown."""
    n, m = unknowns.fresh("n", 6), unknowns.fresh("m", 4)
    with pytest.raises(ShapeError, match="6 is not 4"):
        unknowns.same(n, m, "test")
    with pytest.raises(ShapeError, match="4 does not divide 6"):
        unknowns.over(n, m, "test")
    with pytest.raises(ShapeError, match="no rising order"):
        unknowns.ordered((n, m), "test")
