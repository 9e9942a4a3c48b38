"""Every scalar function and every way to read, through the printer."""

from __future__ import annotations

import math

import numpy as np
import pytest
from testkit.kernels.pallas_run import drawn, outputs

from aiosearch.codegen import ir
from aiosearch.codegen.ir import (
    Apply,
    Buffer,
    BufferLoad,
    Constant,
    LoopIndex,
    Module,
    Operation,
    TileKernel,
)
from aiosearch.codegen.ir.interpreter import interpret
from aiosearch.codegen.pallas import CannotPrint, write
from aiosearch.tensor import DType

I = LoopIndex("i", 33)  # noqa: E741
AT = (ir.index(I),)
X, Y = (Buffer(name, DType.F32, (33,)) for name in "XY")
TWO = {
    Operation.ADD,
    Operation.SUBTRACT,
    Operation.MULTIPLY,
    Operation.DIVIDE,
    Operation.MAXIMUM,
    Operation.MINIMUM,
    Operation.LESS,
    Operation.LESS_EQUAL,
    Operation.EQUAL,
    Operation.NOT_EQUAL,
    Operation.REM,
}
POSITIVE = {Operation.SQRT, Operation.LOG, Operation.POW}


def _value(operation: Operation) -> ir.Expression:
    x, y = BufferLoad(X, AT), BufferLoad(Y, AT)
    if operation is Operation.SELECT:
        return Apply(operation, (Apply(Operation.LESS, (x, y)), x, Constant(2.0)))
    first = Apply(Operation.ABSOLUTE, (x,)) if operation in POSITIVE else x
    if operation is Operation.POW:
        return Apply(operation, (first, y))
    return Apply(operation, (first, y) if operation in TWO else (first,))


def _module(values: list[ir.Expression], dtype: DType = DType.F32) -> Module:
    filled = [Buffer(f"O{number}", dtype, (33,)) for number in range(len(values))]
    stages = tuple(
        ir.KernelStage(buffer, AT, value) for buffer, value in zip(filled, values, strict=True)
    )
    kernel = TileKernel("k", (X, Y), tuple(filled), stages)
    return Module("m", (X, Y), tuple(filled), (kernel,))


def _right(module: Module, given: list[object]) -> None:
    wanted = interpret(module, [np.asarray(one, float) for one in given])
    for found, right in zip(outputs(module, {}, given), wanted, strict=True):
        np.testing.assert_allclose(found, right, rtol=2e-6, atol=3e-7)


def test_every_scalar_function_gives_what_numpy_gives() -> None:
    module = _module([_value(operation) for operation in Operation])
    _right(module, list(drawn(module.inputs)))


def test_rounding_takes_halves_to_even_and_erf_holds_at_both_ends() -> None:
    module = _module([Apply(one, (BufferLoad(X, AT),)) for one in (Operation.ROUND, Operation.ERF)])
    given = [np.linspace(-4, 4, 33, dtype=np.float32), np.zeros(33, np.float32)]
    _right(module, list(given))


def test_what_erf_lacks_keeps_its_digits_to_where_it_is_no_normal_number() -> None:
    module = _module([Apply(Operation.ERFC, (BufferLoad(X, AT),))])
    given = np.linspace(-4, 9, 33, dtype=np.float32)
    (found,) = outputs(module, {}, [given, given])
    np.testing.assert_allclose(found, [math.erfc(float(one)) for one in given], rtol=4e-6)


def test_positions_may_be_divided_wrapped_and_out_of_bounds() -> None:
    at = ir.affine({I: 2}, -5)
    rough = ir.Mixed(((ir.Quotient(at, 4), 1), (ir.Remainder(at, 3), 2)), ir.Affine((), 3))
    inside = ir.BoundedValue(((at, 0, 33),), BufferLoad(X, (at,)), Constant(-1.0))
    module = _module([inside, ir.PositionValue(rough), BufferLoad(Y, (ir.Remainder(at, 7),))])
    _right(module, list(drawn(module.inputs)))


@pytest.mark.parametrize("operation", [Operation.ERF, Operation.ERFC])
def test_double_precision_erf_is_refused_by_name(operation: Operation) -> None:
    x = Buffer("X", DType.F64, (33,))
    value = Apply(operation, (BufferLoad(x, AT),))
    kernel = TileKernel(
        "k", (x,), (out := Buffer("O", DType.F64, (33,)),), (ir.KernelStage(out, AT, value),)
    )
    with pytest.raises(CannotPrint, match=f"no {operation},"):
        write(Module("m", (x,), (out,), (kernel,)))
