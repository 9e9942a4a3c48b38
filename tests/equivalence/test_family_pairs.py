"""Mistakes that hardly any input shows: singularities, ties, whole numbers that wrap around."""

from __future__ import annotations

import numpy as np
import pytest
from testkit.programs.family_pairs import FAMILIES, WholeFunction
from testkit.programs.float_pairs import over

from aiosearch.equivalence import Status, verify, verify_functions
from aiosearch.equivalence.counterexample import CounterexampleKind
from aiosearch.equivalence.functions import compare_functions
from aiosearch.tensor import DType, TensorType, Term, apply, literal, tensor
from aiosearch.tensor.floats import Array

SEEDS = range(12)
X, Y = tensor("X", "f32", (16, 8)), tensor("Y", "f32", (16, 8))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_mistake_is_refuted_and_what_is_right_is_not(family: str, seed: int) -> None:
    wrong, right = FAMILIES[family](seed)
    assert wrong.status is Status.REFUTED, wrong.summary()
    assert right.status is not Status.REFUTED, right.summary()


@pytest.mark.parametrize(
    ("original", "candidate"),
    [
        (X + 1, (X * X - 1) / (X - 1)),
        (X + 3.7, (X * X - 3.7 * 3.7) / (X - 3.7)),
        (X + Y, (X * X - Y * Y) / (X - Y)),
        (X * 0.5, X * 0.5 + 0 * apply("log", apply("abs", X - 2.5))),
    ],
    ids=["one", "a literal", "two inputs", "a logarithm"],
)
def test_a_singularity_that_the_original_does_not_have_is_seen(
    original: Term, candidate: Term
) -> None:
    verdict = verify(over(X, Y)(original), over(X, Y)(candidate))
    assert verdict.status is Status.REFUTED
    assert verdict.counterexample is not None
    assert verdict.counterexample.kind in (CounterexampleKind.DOMAIN, CounterexampleKind.OVERFLOW)
    assert verdict.counterexample.replay(over(X, Y)(original), over(X, Y)(candidate))
    # The other way round the candidate is a number at more inputs, which it may be.
    assert verify(over(X, Y)(candidate), over(X, Y)(original)).status.accepted


def test_a_scalar_is_drawn_at_its_singularity_too() -> None:
    x = tensor("X", "f32", ())
    verdict = verify(over(x)(x + 2), over(x)((x * x - 4) / (x - 2)))
    assert verdict.status is Status.REFUTED


@pytest.mark.parametrize(
    ("original", "candidate"),
    [
        (apply("select", apply("less", X, Y), X * 2, Y * 3),
         apply("select", apply("less_equal", X, Y), X * 2, Y * 3)),
        (apply("round", X), apply("floor", X + 0.5)),
        (apply("floor", X + 0.5), apply("round", X)),
        (apply("cast", apply("less", literal(1), X), dtype="f32"),
         apply("cast", apply("less_equal", literal(1), X), dtype="f32")),
    ],
    ids=["select", "round", "floor", "threshold"],
)  # fmt: skip
def test_equal_numbers_are_decided_as_in_the_original(original: Term, candidate: Term) -> None:
    make = over(X, Y)
    assert verify(make(original), make(candidate)).status is Status.REFUTED
    assert verify(make(original), make(original * 1.0)).status.accepted


class Rows:
    """A function of the rows of a matrix that gives a place for each."""

    inputs = (TensorType(DType.F32, (16, 8)),)
    outputs = (TensorType(DType.I32, (16,)),)

    def __init__(self, last: bool) -> None:
        self.last = last

    def own(self, inputs: list[Array]) -> list[Array]:
        (x,) = inputs
        place = x.shape[-1] - 1 - np.argmax(x[:, ::-1], -1) if self.last else np.argmax(x, -1)
        return [place.astype(np.float64)]

    double = own


def test_the_first_of_equal_numbers_is_not_the_last() -> None:
    first, last = Rows(False), Rows(True)
    assert compare_functions(first, first).outcome == "agree"
    assert "ties" in compare_functions(first, last).failed


def test_whole_numbers_that_wrap_around_are_drawn() -> None:
    def halved(a: np.ndarray, b: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]  # of int32
        return (a + b) >> 1

    def mean(a: np.ndarray, b: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]  # of int32
        return (a & b) + ((a ^ b) >> 1)

    verdict = verify_functions(WholeFunction(mean), WholeFunction(halved), "bits")
    assert verdict.status is Status.REFUTED
    assert verdict.floats is not None
    assert "limits" in verdict.floats.failed
    assert verify_functions(WholeFunction(mean), WholeFunction(mean), "bits").status.accepted
