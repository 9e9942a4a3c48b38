from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosearch.tensor import Block, ShapeError, tensor
from aiosearch.tensor.sizes import Dim, Divisor, Size, product, quotient

N, M, K = (Size.named(name) for name in "nmk")
VALUES = {"n": 3, "m": 5, "k": 7}


def at(dim: Dim) -> int:
    found = dim if isinstance(dim, int) else dim.at(VALUES)
    assert isinstance(found, int)
    return found


polynomials = st.recursive(
    st.sampled_from([N, M, K]) | st.integers(-4, 9),
    lambda inner: st.tuples(st.sampled_from("+-*"), inner, inner).map(
        lambda drawn: {
            "+": lambda a, b: a + b,
            "-": lambda a, b: a - b,
            "*": lambda a, b: a * b,
        }[drawn[0]](drawn[1], drawn[2])
    ),
    max_leaves=6,
)


@given(polynomials, polynomials)
def test_arithmetic_is_that_of_the_values(a: Dim, b: Dim) -> None:
    """Adding, subtracting and multiplying sizes does so with their numbers."""
    assert at(a + b) == at(a) + at(b)
    assert at(a - b) == at(a) - at(b)
    assert at(a * b) == at(a) * at(b)


@given(polynomials, polynomials)
def test_a_product_divides_by_its_factors(a: Dim, b: Dim) -> None:
    """What was multiplied can be divided out again, sums included."""
    if b != 0:
        assert quotient(a * b, b) == a


@given(polynomials, polynomials)
def test_a_quotient_is_exact(a: Dim, b: Dim) -> None:
    """A quotient times the divisor is the size that was divided."""
    found = quotient(a, b)
    if found is not None:
        assert found * b == a


@pytest.mark.parametrize(("a", "b"), [(7, 2), (N, M), (N, 2), (N + M, N), (N, 0), (4, 0), (3, N)])
def test_what_does_not_divide_has_no_quotient(a: Dim, b: Dim) -> None:
    """Sizes that divide for some values only do not count as dividing."""
    assert quotient(a, b) is None


def test_equal_sizes_are_equal_however_they_came_about() -> None:
    """A size is a polynomial: the order of operations does not show, and hashes agree."""
    one, two = (N + M) * K, K * M + N * K
    assert one == two
    assert hash(one) == hash(two)
    assert N - N == 0
    assert isinstance(N - N, int)


def test_names_without_a_value_stay() -> None:
    """Values may be put in for some names, and other sizes for names."""
    assert (N * M + K).at({"n": 2}) == 2 * M + K
    assert N.at({"n": M * K}) == M * K


def test_the_text_of_a_size() -> None:
    """Sizes read as products and sums."""
    assert str(2 * N * M + K * K) == "k^2 + 2·m·n"
    assert str(N - M) == "-1·m + n"
    assert str(product([N, N, 3])) == "3·n^2"


G, R = (Size.named(Divisor(name)) for name in "gr")


def divided(a: Dim, b: Dim) -> Dim:
    found = quotient(a, b)
    assert found is not None
    return found


@given(polynomials, st.sampled_from([G, R, G * R, 2 * G]))
def test_a_divisor_divides_whatever_it_is_to(a: Dim, b: Dim) -> None:
    """A quotient times the divisor is what was divided, whose factors need not be in it."""
    assert divided(a * 2, b) * b == a * 2


def test_what_a_divisor_cut_is_cut_again() -> None:
    """By numbers that divide its factor, and by more names; what cancels is gone."""
    part = divided(64, G)
    assert divided(part, 16) * G == 4
    assert quotient(part, 3) is None
    assert divided(part, R) * R == part
    assert quotient(part * 3, part) == 3
    assert quotient(64, G + 1) is None
    assert quotient(part, N) is None


def test_a_divisor_has_to_divide_in_numbers() -> None:
    """A part comes to its quotient, or says that there is none."""
    part = quotient(64, G * R)
    assert isinstance(part, Size)
    assert part.at({"g": 4, "r": 8}) == 2
    assert part.at({"g": 4}) == divided(16, R)
    with pytest.raises(ShapeError, match="3 does not divide 64"):
        part.at({"g": 3, "r": 1})


def test_kernels_take_divisors_for_numbers() -> None:
    """Tensors of known sizes are split by grids and loops that only have names."""
    x, w = tensor("X", "f32", (4, 64)), tensor("W", "f32", (64, 32))
    block = Block((G,), R)
    tile = block.load(w, (1,), loop=0)
    assert [size.at({"g": 8, "r": 16}) for size in tile.shape if isinstance(size, Size)] == [4, 4]
    (found,) = block.results((block.accumulate(block.load(x, loop=1) @ tile), (1,)))
    assert found.shape == (4, 32)
