"""How exact sums are: long ones, and those that are equal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from testkit.kernels.native_run import MACHINES, program, run

from aiosearch.codegen.cpu.emit.addressing import LaneAddress
from aiosearch.codegen.cpu.emit.expression import ExpressionEmitter
from aiosearch.codegen.cpu.emit.kernel import print_module
from aiosearch.codegen.cpu.space.choices import choices
from aiosearch.codegen.ir import Expression
from aiosearch.codegen.llvm.builder import LlvmValue
from aiosearch.codegen.lower.lowering import lower
from aiosearch.codegen.native.machine import CpuMachine, host
from aiosearch.codegen.passes.kernel_fusion import fuse_kernels
from aiosearch.tensor import DType, apply, literal, tensor

ULP = 2.0**-24


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
@pytest.mark.parametrize("columns", [41, 100])
@pytest.mark.parametrize("inner", [60, 1024])
def test_equal_columns_have_equal_sums(machine: CpuMachine, columns: int, inner: int) -> None:
    """In whole vectors and in lanes that are left over, so that what is subtracted is zero."""
    a, b = tensor("A", DType.F32, (7, inner)), tensor("B", DType.F32, (inner, columns))
    draw = np.random.default_rng(0)
    rows = draw.normal(size=(7, inner)).astype(np.float32)
    column = draw.normal(size=(inner, 1)).astype(np.float32)
    given = [rows, np.repeat(column, columns, axis=1)]
    (found,) = run(lower(program(a @ b)), given, machine=machine)
    assert (found == found[:, :1]).all()


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((65536,), (0,)),
        ((8192, 24), (0,)),
        ((500_000, 4), (0,)),
        ((4096, 520), (0,)),
        ((3, 16384), (1,)),
        ((700, 900), (0, 1)),
        ((2, 33, 33, 24), (1, 2)),
        ((20, 900, 40), (0, 1)),
    ],
    ids=str,
)
def test_long_sums_are_sums_of_shorter_ones(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    """Whatever the schedule: XLA's own, which are trees, are about twice as exact as this asks."""
    module = lower(program(apply("sum", tensor("X", DType.F32, shape), axes=axes)))
    draw = np.random.default_rng(0)
    values: Any = draw.random(shape).astype(np.float32)
    exact = values.astype(np.float64).sum(axes)
    (kernel,) = module.kernels
    some = choices(kernel, host(), 2)[:3]
    assert some
    for own in some:
        (found,) = run(module, [values], {kernel.name: own})
        off = np.abs(found - exact).max() / np.abs(exact).max() / ULP
        assert off < 7, own


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_a_sum_in_32_bits_of_products_in_64_is_one(machine: CpuMachine) -> None:
    """They are rounded before they are added."""
    x = tensor("X", DType.F32, (40, 20))
    tenths = apply("floor", apply("cast", x, dtype=DType.F64) / literal(0.1))
    made = apply("sum", apply("cast", tenths, dtype=DType.F32) * literal(0.3), axes=(0,))
    values = np.arange(800).astype(np.float32).reshape(40, 20)
    (found,) = run(lower(program(made)), [values], machine=machine)
    exact = (np.floor(values.astype(np.float64) / 0.1) * 0.3).sum(0)
    np.testing.assert_allclose(found, exact, rtol=1e-6)


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_exponentials_less_one_are_minus_one_no_sooner_than_they_have_to(
    machine: CpuMachine,
) -> None:
    """The logarithm of one more is finite so long."""
    values = np.linspace(-17.4, -16, 10_000).astype(np.float32)
    module = lower(program(apply("expm1", tensor("X", DType.F32, values.shape))))
    (found,) = run(module, [values], machine=machine)
    assert (found == np.expm1(values.astype(np.float64)).astype(np.float32)).all()


@pytest.mark.skipif(not host().fma, reason="this processor has no fused multiply-add")
def test_a_product_that_is_made_of_sums_is_added_in_one_step() -> None:
    """Any other is rounded on the way, as in the program, so that what cancels there cancels."""
    x, y = tensor("X", DType.F32, (40, 33)), tensor("Y", DType.F32, (40, 33))
    total = apply("reshape", apply("sum", y, axes=(1,)), shape=(40, 1))
    opposites = apply("neg", x * total), x * total * literal(-1.0)
    zeros = (x * total + one for one in opposites)
    made = lower(program(x * total + y, x * y + x, *zeros))
    draw = np.random.default_rng(0)
    a = draw.normal(size=(40, 33)).astype(np.float32)
    b = draw.integers(-9, 10, size=(40, 33)).astype(np.float32)  # whose sums are exact
    of_sums, plain, *differences = run(made, [a, b])
    assert not any(one.any() for one in differences)
    wide, sums = a.astype(np.float64), b.sum(1, keepdims=True, dtype=np.float64)
    assert np.array_equal(of_sums, (wide * sums + b).astype(np.float32))
    assert np.array_equal(plain, a * b + a)
    assert not np.array_equal(plain, (wide * b + a).astype(np.float32))


def test_each_part_of_nested_sums_is_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where they are quotients that no instruction adds: twice at each level would be 2^n."""
    written = 0
    value = ExpressionEmitter.value

    def counted(self: ExpressionEmitter, expression: Expression, spot: LaneAddress) -> LlvmValue:
        nonlocal written
        written += 1
        assert written < 1000
        return value(self, expression, spot)

    x = tensor("X", DType.F32, (9, 64))
    total = apply("reshape", apply("sum", x, axes=(1,)), shape=(9, 1))
    found = x
    for _ in range(40):
        found = x + total / found
    module = fuse_kernels(lower(program(found)))
    monkeypatch.setattr(ExpressionEmitter, "value", counted)
    print_module(module, {}, host())
    assert written > 40
