"""Which programs compute with whole numbers that may find no room."""

from __future__ import annotations

import pytest

from aiosearch.tensor import Program, Term, apply, literal, tensor
from aiosearch.tensor.wholes import may_wrap

X = tensor("X", "f32", (8, 64))
N = tensor("N", "i32", (8, 64))
PLACES = apply("iota", shape=(8, 64), axis=1, dtype="i32")


def floats(n: Term) -> Term:
    return apply("cast", n, dtype="f32")


def count() -> Term:
    """How many elements of a row are less than none."""
    truths = apply("cast", apply("less", X, literal(0)), dtype="i32")
    return apply("sum", truths, axes=(1,))


@pytest.mark.parametrize(
    "output", [N * N, N + literal(1), apply("sum", N, axes=(1,)), count() * count()]
)
def test_what_is_computed_of_given_numbers_may_wrap(output: Term) -> None:
    assert may_wrap(Program("wraps", (X, N), (floats(output),)))


@pytest.mark.parametrize(
    "output", [floats(apply("maximum", N, PLACES)), X * floats(PLACES * PLACES), floats(count())]
)
def test_what_is_only_read_counted_or_not_given_does_not(output: Term) -> None:
    assert not may_wrap(Program("keeps", (X, N), (output, output * output)))
