"""Kernels of both printers where inputs are not finite: strictly, and as usual."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from testkit.kernels.native_run import Array, run
from testkit.kernels.pallas_run import results

from aiosearch.codegen.lower.lowering import lower
from aiosearch.equivalence import FloatEvidence
from aiosearch.equivalence.inputs.distributions import SPECIAL
from aiosearch.optimizer.race.referee_process import JudgeRequest, Referee
from aiosearch.tensor import Program, apply, tensor
from aiosearch.tensor.files import to_json

X = tensor("x", "f32", (8, 24))
SHIFTED = apply("exp", X - apply("max", X, axes=(1,), keep=True))
SOFTMAX = Program("softmax", (X,), (SHIFTED / apply("sum", SHIFTED, axes=(1,), keep=True),))
RELU = Program("relu", (X,), (apply("relu", X),))
ZERO = apply("cast", apply("less", X, X), dtype="f32")
DEAF = Program("deaf", (X,), (apply("select", apply("less", ZERO, X), X, ZERO),))
"""The same but for NaN, which it makes zero."""

PRINTERS = pytest.mark.parametrize("printed", [run, results], ids=["LLVM IR", "Pallas"])
POLICIES = pytest.mark.parametrize("strict", [False, True], ids=["usual", "strict"])


async def compared(
    original: Program, candidate: Program, printed: Callable[..., list[Array]], strict: bool
) -> FloatEvidence:
    """The candidate's kernel beside the original's, on all inputs of the policy."""
    sides = [lower(original), lower(candidate)]

    async def ran(side: int, inputs: Sequence[Any]) -> tuple[Any, ...]:
        given = [np.asarray(one, np.float32) for one in inputs]
        return tuple(printed(sides[side], given) if side else run(sides[0], given))

    async with Referee(JudgeRequest(to_json(original), {}, 0, strict)) as referee:
        found = await referee.judge(ran)
    assert isinstance(found, FloatEvidence)
    return found


@PRINTERS
@POLICIES
@pytest.mark.parametrize("program", [SOFTMAX, RELU], ids=lambda one: one.name)
async def test_kernels_are_not_finite_where_their_programs_are_not(
    program: Program, printed: Callable[..., list[Array]], strict: bool
) -> None:
    evidence = await compared(program, program, printed, strict)
    assert evidence.outcome == "agree"
    assert {*SPECIAL}.issubset(one.distribution for one in evidence.trials) == strict


@PRINTERS
@POLICIES
async def test_a_kernel_that_does_not_hear_of_nan_is_wrong_strictly(
    printed: Callable[..., list[Array]], strict: bool
) -> None:
    evidence = await compared(RELU, DEAF, printed, strict)
    assert evidence.outcome == ("differ" if strict else "agree")
    assert evidence.failed[:1] == (("nans",) if strict else ())
