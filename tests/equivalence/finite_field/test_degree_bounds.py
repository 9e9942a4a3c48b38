"""Bounds of the polynomials behind a program's values."""

from __future__ import annotations

import math

import pytest

from aiosearch.equivalence.finite_field.degree_bounds import DegreeBound, Degrees, degree_bounds
from aiosearch.tensor import OPERATORS, Program, ShapeError, Size, apply, tensor

X = tensor("X", "f32", (2, 3))
W = tensor("W", "f32", (3, 4))


def bound(x: DegreeBound) -> tuple[float, float]:
    return x.above, x.below


def test_degrees_of_sums_and_products_are_those_of_polynomials() -> None:
    k, x = Degrees(), DegreeBound((2, 3))
    assert bound(k.add(x, x)) == (1, 0)
    assert bound(k.multiply(x, x)) == (2, 0)
    assert bound(k.divide(x, x)) == (1, 1)
    assert bound(k.add(k.divide(x, x), k.divide(x, x))) == (2, 2)
    assert bound(k.sum(k.divide(x, x), (1,))) == (3, 3)
    assert bound(k.matmul(x, DegreeBound((3, 4)))) == (2, 0)
    assert bound(k.exp(k.multiply(x, x))) == (1, 0)
    assert bound(k.sqrt(k.divide(x, x))) == (1, 1)


def test_bits_count_the_sum_of_the_absolute_coefficients() -> None:
    k, x = Degrees(), DegreeBound((8,))
    assert k.sum(x, (0,)).bits_above == 3
    assert k.add(x, x).bits_above == 1


def test_a_deeper_program_has_a_larger_bound() -> None:
    shallow = degree_bounds(Program("p", (X, W), (X @ W,)))
    deep = degree_bounds(Program("p", (X, W), (apply("rms_norm", X) @ W,)))
    assert 2 < shallow.degree < deep.degree < 100
    assert 0 < shallow.bits < deep.bits < math.inf


def test_wide_sums_matter_only_where_exponents_are_quotients() -> None:
    plain = Program("p", (X,), (apply("exp", X),))
    quotient = Program("p", (X,), (apply("exp", X / (X + 1)),))
    assert degree_bounds(plain, widest=1).degree == degree_bounds(plain, widest=50).degree
    assert degree_bounds(quotient, widest=1).degree < degree_bounds(quotient, widest=50).degree


def test_exponentials_of_logarithms_have_the_degree_of_what_is_under_them() -> None:
    program = Program("p", (X,), (apply("exp", apply("log", X * X * X)),))
    assert degree_bounds(program, released=1).degree > degree_bounds(program, released=0).degree


def test_shapes_are_those_of_the_language() -> None:
    image = tensor("I", "f32", (1, 5, 2))
    filters = tensor("F", "f32", (2, 2, 3))
    given = {"strides": (2,), "low": (1,), "high": (0,), "dilation": (2,), "groups": 1}
    term = apply("convolution", image, filters, **given)
    k = Degrees()
    found = OPERATORS["convolution"].meaning(
        k, DegreeBound((1, 5, 2)), DegreeBound((2, 2, 3)), **given
    )
    assert found.shape == term.shape
    for name in ("stack", "concatenate"):
        term = apply(name, X, X, axis=1)
        found = OPERATORS[name].meaning(k, DegreeBound((2, 3)), DegreeBound((2, 3)), axis=1)
        assert found.shape == term.shape


def test_programs_of_unknown_sizes_are_refused() -> None:
    unknown = tensor("U", "f32", (Size.named("n"),))
    with pytest.raises(ShapeError, match="sizes that are not known"):
        degree_bounds(Program("p", (unknown,), (unknown,)))
