"""Which programs compute with whole numbers that may find no room."""

from __future__ import annotations

import pytest

from aiosearch.tensor import Program, Term, apply, literal, tensor
from aiosearch.tensor.analysis.integer_overflow import may_overflow

X = tensor("X", "f32", (8, 64))
N = tensor("N", "i32", (8, 64))
PLACES = apply("iota", shape=(8, 64), axis=1, dtype="i32")
FAR = apply("iota", shape=(60000, 8), axis=0, dtype="i32")


def floats(n: Term) -> Term:
    return apply("cast", n, dtype="f32")


def whole(x: Term) -> Term:
    return apply("cast", x, dtype="i32")


COUNT = apply("sum", whole(apply("less", X, literal(0))), axes=(1,))
"""How many elements of a row are less than none."""


@pytest.mark.parametrize(
    "output",
    [
        N * N,
        N + literal(1),
        literal(2) * N,
        apply("abs", N),
        apply("square", N),
        apply("sum", N, axes=(1,)),
        whole(X) + PLACES,
        apply("maximum", N, PLACES) - PLACES,
        FAR * FAR,
    ],
)
def test_what_is_computed_of_whole_numbers_may_wrap(output: Term) -> None:
    program = Program("wraps", (X, N), (floats(output),))
    assert may_overflow(program)
    assert may_overflow(program, at_any_size=True)


@pytest.mark.parametrize(
    "output",
    [
        floats(apply("maximum", N, PLACES)),
        floats(whole(X)),
        floats(N) * floats(N),
        floats(COUNT),
    ],
)
def test_what_is_only_read_or_counted_does_not(output: Term) -> None:
    program = Program("keeps", (X, N), (output, output * output))
    assert not may_overflow(program)
    assert not may_overflow(program, at_any_size=True)


@pytest.mark.parametrize("output", [PLACES * PLACES, COUNT * COUNT, COUNT + literal(1)])
def test_what_finds_room_at_these_sizes_may_not_at_others(output: Term) -> None:
    program = Program("sizes", (X,), (floats(output),))
    assert not may_overflow(program)
    assert may_overflow(program, at_any_size=True)
