"""What compares machine code with its module sees what is a little wrong."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from testkit.kernels.error_bounds import Referee
from testkit.kernels.lowered import attention, norm
from testkit.kernels.native_run import KINDS, drawn, program, run

from aiosearch.codegen.ir import Module
from aiosearch.codegen.lower.lowering import lower
from aiosearch.tensor import DType, Program, literal, tensor


def product(dtype: DType, inner: int) -> Module:
    return lower(program(tensor("X", dtype, (9, inner)) @ tensor("W", dtype, (inner, 40))))


@pytest.mark.parametrize("dtype", [DType.BF16, DType.F16, DType.F32])
@pytest.mark.parametrize("inner", [33, 256])
def test_a_product_that_is_left_out_is_seen(dtype: DType, inner: int) -> None:
    """Of each sum the last one."""
    module = product(dtype, inner)
    given = drawn(module)
    w, x = (np.asarray(one, np.float64) for one in given)
    referee = Referee(module, given)
    (right,) = run(module, given)
    assert not referee.wrong([right])
    assert referee.wrong([(x[:, :-1] @ w[:-1]).astype(KINDS[dtype])])


@pytest.mark.parametrize("dtype", [DType.BF16, DType.F16, DType.F32])
def test_a_result_that_is_off_by_more_than_its_rounding_is_seen(dtype: DType) -> None:
    """By two in a hundred: bf16 has eight bits."""
    module = product(dtype, 64)
    given = drawn(module)
    (right,) = run(module, given)
    off = (np.asarray(right, np.float64) * 1.02).astype(KINDS[dtype])
    assert Referee(module, given).wrong([off])


def test_what_it_does_not_judge_it_says() -> None:
    """Halves of whole numbers: of these, types have no meaning."""
    module = lower(program(tensor("X", DType.I32, (4,)) * literal(0.5)))
    for given, judged in ((2, True), (3, False)):
        referee = Referee(module, [np.full(4, given, np.int32)])
        assert referee.judges == judged
        assert bool(referee.wrong([np.full(4, 77, np.int32)])) == judged


@pytest.mark.parametrize("made", [norm, attention])
def test_so_it_is_where_much_is_rounded_on_the_way(made: Callable[..., Program]) -> None:
    module = lower(made())
    given = drawn(module)
    found = run(module, given)
    referee = Referee(module, given)
    assert not referee.wrong(found)
    off = [(np.asarray(one, np.float64) * 1.05).astype(one.dtype) for one in found]
    assert referee.wrong(off)
