"""Products of float32 on a GPU, emulated: what rounding to TF32 explains is allowed, not more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from aiosearch.equivalence.floats import FloatEvidence, compare_sides
from aiosearch.equivalence.inputs.distributions import DISTRIBUTIONS
from aiosearch.equivalence.rounding.machine import (
    OWN,
    TENSOR_FLOAT,
    Emulated,
    Working,
    execute,
    in_tensor_float,
    product_unit,
    rounded,
)
from aiosearch.equivalence.runnables import ExecutedProgram
from aiosearch.tensor import DType, Program, Term, apply, tensor
from aiosearch.tensor.floats import Array

X, W = tensor("x", "f32", (8, 96)), tensor("w", "f32", (96, 24))


def norm(x: Term) -> Term:
    return apply("sqrt", apply("mean", apply("square", x), axes=(1,), keep=True))


BEFORE = Program("normalised", (X, W), ((X / norm(X)) @ W,))
AFTER = Program("normalised", (X, W), ((X @ W) / norm(X),))
LARGER = Program("normalised", (X, W), ((X @ W) / norm(X) * 1.01,))


def floats(*numbers: float) -> Array:
    return np.array(numbers, np.float32)


class OnMatrixUnits(ExecutedProgram):
    """A program on a machine that rounds the operands of products before it multiplies them."""

    def __init__(
        self, program: Program, unit: float, rounds: Callable[[Array], Array] = in_tensor_float
    ) -> None:
        super().__init__(program, unit)
        algebra = _Rounding(rounds)

        def algebra_of(type_: Working) -> Emulated:
            return algebra if type_ is np.float32 else Emulated(type_)

        self._machine = replace(OWN, algebra=algebra_of)

    def own(self, inputs: Sequence[Array]) -> list[Array]:
        return execute(self.program, self._machine, inputs)


class _Rounding(Emulated):
    def __init__(self, rounds: Callable[[Array], Array]) -> None:
        super().__init__(np.float32)
        self._rounds = rounds

    def matmul(self, x: Array, y: Array) -> Array:
        return super().matmul(self._rounds(x), self._rounds(y))


def compared(original: ExecutedProgram, candidate: ExecutedProgram) -> FloatEvidence:
    return compare_sides(original, candidate, seed=0, strict=False, distributions=DISTRIBUTIONS)


def test_without_the_unit_of_the_device_usual_inputs_say_nothing() -> None:
    """The original itself seems too inaccurate to be compared with."""
    without, side = OnMatrixUnits(BEFORE, 0.0), OnMatrixUnits(BEFORE, TENSOR_FLOAT)
    assert "normal" in compared(without, without).skipped
    assert "normal" not in compared(side, side).skipped


@pytest.mark.parametrize("candidate", [BEFORE, AFTER])
def test_with_it_a_candidate_that_rounds_elsewhere_agrees(candidate: Program) -> None:
    found = compared(OnMatrixUnits(BEFORE, TENSOR_FLOAT), OnMatrixUnits(candidate, 0.0))
    assert found.outcome == "agree", found
    assert found.counted >= 7


def test_one_that_does_not_round_at_all_agrees_too_and_the_other_way_round() -> None:
    rough, exact = OnMatrixUnits(BEFORE, TENSOR_FLOAT), ExecutedProgram(AFTER, TENSOR_FLOAT)
    assert compared(rough, exact).outcome == "agree"
    assert compared(exact, rough).outcome == "agree"


def test_what_is_off_by_a_hundredth_differs() -> None:
    found = compared(OnMatrixUnits(BEFORE, TENSOR_FLOAT), OnMatrixUnits(LARGER, 0.0))
    assert "normal" in found.failed


def test_what_rounds_to_fewer_bits_differs() -> None:
    def in_bfloat16(x: Array) -> Array:
        return rounded(x, DType.BF16)

    coarse = OnMatrixUnits(AFTER, 0.0, in_bfloat16)
    assert "normal" in compared(OnMatrixUnits(BEFORE, TENSOR_FLOAT), coarse).failed


def test_sums_that_are_no_products_are_held_to_float32() -> None:
    mean = Program("mean", (X,), (apply("mean", X, axes=(1,), keep=True),))
    assert ExecutedProgram(mean, TENSOR_FLOAT).unit(DType.F32) == 2.0**-24
    assert ExecutedProgram(BEFORE, TENSOR_FLOAT).unit(DType.F32) == TENSOR_FLOAT


@pytest.mark.parametrize("precision", [None, "default", "tensorfloat32"])
def test_a_gpu_rounds_where_jax_lets_it(precision: str | None) -> None:
    assert product_unit("cuda", precision) == TENSOR_FLOAT
    assert product_unit("cpu", precision) == 0.0
    assert product_unit("cuda", "highest") == product_unit("cuda", "float32") == 0.0


def test_numbers_of_eleven_bits_are_kept_and_ties_go_to_even() -> None:
    given = floats(1 + 2.0**-10, 1 + 2.0**-11, 1 + 3 * 2.0**-11, -np.inf, 3e38)
    wanted = floats(1 + 2.0**-10, 1.0, 1 + 2.0**-9, -np.inf, 3e38)
    np.testing.assert_allclose(in_tensor_float(given), wanted, rtol=2.0**-11)
    np.testing.assert_array_equal(in_tensor_float(given)[:4], wanted[:4])
    assert np.isnan(in_tensor_float(floats(np.nan)))[0]
