"""What scales with a maximum."""

from __future__ import annotations

import pytest

from aiosearch.codegen import ir
from aiosearch.codegen.ir import (
    Apply,
    Buffer,
    BufferLoad,
    Constant,
    KernelStage,
    LoopIndex,
    Operation,
    ReductionKind,
    TileKernel,
)
from aiosearch.codegen.pallas.nodes import TileNode, TileNodes
from aiosearch.codegen.pallas.rescaling import online_weight
from aiosearch.tensor import DType

I, K = LoopIndex("i", 4), LoopIndex("k", 6)  # noqa: E741
ROW, WHOLE = (ir.index(I),), (ir.index(I), ir.index(K))
X, Y = (Buffer(name, DType.F32, (4, 6)) for name in "XY")
MOST, TOTAL = (Buffer(name, DType.F32, (4,)) for name in ("most", "total"))
x, y, most = BufferLoad(X, WHOLE), BufferLoad(Y, WHOLE), BufferLoad(MOST, ROW)


def _apply(operation: Operation, *arguments: ir.Expression) -> ir.Expression:
    return Apply(operation, arguments)


def _times(*values: ir.Expression) -> ir.Expression:
    return _apply(Operation.MULTIPLY, *values)


def _less(value: ir.Expression) -> ir.Expression:
    return _apply(Operation.SUBTRACT, value, most)


def _exp(value: ir.Expression) -> ir.Expression:
    return _apply(Operation.EXP, value)


def _nodes(
    value: ir.Expression, dtype: DType = DType.F32, reduction: ReductionKind = ReductionKind.SUM
) -> list[TileNode]:
    """The maximum of x along a row, and the fold of a value along it."""
    rounded = Buffer("most", dtype, (4,))
    at = BufferLoad(rounded, ROW)
    stages = (
        KernelStage(rounded, ROW, x, (K,), ReductionKind.MAX),
        KernelStage(TOTAL, ROW, _read(value, at), (K,), reduction),
    )
    return TileNodes(TileKernel("k", (X, Y), (rounded, TOTAL), stages)).all


def _read(value: ir.Expression, at: BufferLoad) -> ir.Expression:
    if value == most:
        return at
    if isinstance(value, Apply):
        return Apply(value.operation, tuple(_read(one, at) for one in value.arguments))
    return value


@pytest.mark.parametrize(
    ("value", "weight"),
    [
        (_exp(_less(x)), -1),
        (_times(_exp(_less(x)), y), -1),
        (_exp(_times(_less(x), Constant(0.5))), -0.5),
        (_times(_exp(_less(x)), _exp(_times(Constant(2), _less(x)))), -3),
        (_apply(Operation.DIVIDE, _exp(_times(_less(x), Constant(3))), _exp(_less(x))), -2),
        (_apply(Operation.SELECT, x, y, Constant(0)), 0),
        (_apply(Operation.ADD, _exp(_less(x)), _times(y, _exp(_less(x)))), -1),
        (_times(x, y), 0),
    ],
)
def test_a_sum_scales_as_its_numerators_do(value: ir.Expression, weight: float) -> None:
    most_of_x, total = _nodes(value)
    assert online_weight(total, most_of_x) == weight


@pytest.mark.parametrize(
    "value",
    [
        _less(x),
        _apply(Operation.SELECT, x, _exp(_less(x)), Constant(0)),
        ir.Round(_exp(_less(x)), DType.I32),
        _times(_exp(_less(x)), most),
        _apply(Operation.ADD, _exp(_less(x)), y),
        _apply(Operation.SQRT, _exp(_less(x))),
        _exp(_times(_less(x), most)),
        _exp(_less(y)),
        _exp(_less(_times(x, Constant(2)))),
    ],
)
def test_what_depends_on_the_maximum_otherwise_does_not_scale(value: ir.Expression) -> None:
    most_of_x, total = _nodes(value)
    assert online_weight(total, most_of_x) is None


@pytest.mark.parametrize("factor", [0.0, -1.0, float("inf")])
def test_only_what_vanishes_below_the_maximum_runs_along(factor: float) -> None:
    """So what comes before anything but minus infinity was seen adds nothing."""
    most_of_x, total = _nodes(_exp(_times(_less(x), Constant(factor))))
    assert online_weight(total, most_of_x) is None


def test_a_sum_that_grows_with_its_maximum_cannot_run_along() -> None:
    most_of_x, total = _nodes(_apply(Operation.DIVIDE, x, _exp(_less(x))))
    assert online_weight(total, most_of_x) is None


def test_a_maximum_that_is_rounded_is_not_what_is_seen_on_the_way() -> None:
    most_of_x, total = _nodes(_exp(_less(x)), DType.BF16)
    assert online_weight(total, most_of_x) is None


def test_only_sums_are_scaled() -> None:
    most_of_x, total = _nodes(_exp(_less(x)), reduction=ReductionKind.MAX)
    assert online_weight(total, most_of_x) is None
