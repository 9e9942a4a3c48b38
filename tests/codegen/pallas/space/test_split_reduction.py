"""Sums that more blocks share out."""

from __future__ import annotations

import numpy as np
import pytest
from testkit.kernels.pallas_run import drawn, outputs

from aiosearch.codegen import ir
from aiosearch.codegen.ir.interpreter import interpret
from aiosearch.codegen.lower.lowering import lower
from aiosearch.codegen.pallas import CannotPrint, Tiling, split
from aiosearch.tensor import Block, DType, Program, apply
from aiosearch.tensor.programs import builtin


def _attention() -> ir.Module:
    program = builtin("gqa", DType.F32, head=2, row=16, feature=16, key=64, value=16)
    q, k, v = program.inputs
    block = Block((2,), 2)
    e = apply("exp", block.load(q, (0,)) @ block.load(k, (0,), 2))
    weighted, total = block.accumulate(e @ block.load(v, (0,), 1)), block.accumulate(e, "sum")
    return lower(Program("gqa", program.inputs, block.results((weighted / total, (0,)))))


def test_keys_in_parts_are_one_more_axis_of_the_grid_and_a_kernel_that_joins_them() -> None:
    module = _attention()
    name = module.kernels[0].name
    parted = split(module, name, "l", 4)
    assert [kernel.name for kernel in parted.kernels] == [f"{name}_parts", name]
    given = drawn(module.inputs)
    wanted = interpret(module, [np.asarray(one, float) for one in given])
    tiling = Tiling({"i": 1, "l_part": 1, "l": 8})
    (found,) = outputs(parted, {f"{name}_parts": tiling}, given)
    np.testing.assert_allclose(found, wanted[0], rtol=1e-5, atol=2e-6)


def test_parts_that_are_not_equal_are_refused() -> None:
    module = _attention()
    with pytest.raises(CannotPrint, match="64 of l are not 5 equal parts"):
        split(module, module.kernels[0].name, "l", 5)


def _masked_softmax() -> ir.Module:
    """The maximum of each row, and the sum of its numerators times other numbers."""
    i, k = ir.LoopIndex("i", 6), ir.LoopIndex("k", 64)
    row, whole = (ir.index(i),), (ir.index(i), ir.index(k))
    x, v = ir.Buffer("X", DType.F32, (6, 64)), ir.Buffer("V", DType.F32, (6, 64))
    most, out = ir.Buffer("most", DType.F32, (6,)), ir.Buffer("out", DType.BF16, (6,))
    less = ir.Apply(ir.Operation.SUBTRACT, (ir.BufferLoad(x, whole), ir.BufferLoad(most, row)))
    numerator = ir.Apply(ir.Operation.EXP, (less,))
    weighted = ir.Apply(ir.Operation.MULTIPLY, (numerator, ir.BufferLoad(v, whole)))
    stages = (
        ir.KernelStage(most, row, ir.BufferLoad(x, whole), (k,), ir.ReductionKind.MAX),
        ir.KernelStage(out, row, weighted, (k,), ir.ReductionKind.SUM),
    )
    return ir.Module("m", (x, v), (most, out), (ir.TileKernel("k", (x, v), (most, out), stages),))


def test_each_part_has_its_own_maximum_and_parts_of_nothing_count_nothing() -> None:
    x, v = np.random.default_rng(0).normal(size=(2, 6, 64))
    x[0] += 20 * np.arange(64)
    x[1] -= 20 * np.arange(64)
    x[2, :40] = -np.inf
    x[3] = -np.inf
    x[4, 50] = np.inf
    x[5, 5] = np.nan
    module = _masked_softmax()
    wanted = interpret(module, [x, v])
    for found, right in zip(interpret(split(module, "k", "k", 4), [x, v]), wanted, strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-12)


def test_parts_are_added_up_before_anything_is_rounded() -> None:
    (parts, joined) = split(_masked_softmax(), "k", "k", 4).kernels
    assert [one.dtype for one in parts.outputs] == [DType.F32, DType.F32]
    assert [one.dtype for one in joined.outputs] == [DType.F32, DType.BF16]


def test_neither_kernel_computes_or_reads_more_than_it_has_to() -> None:
    module = _attention()
    (parts, joined) = split(module, module.kernels[0].name, "l", 4).kernels
    assert {stage.target for stage in joined.stages} >= set(module.outputs)
    assert joined.inputs == parts.outputs
    assert not set(module.outputs) & {stage.target for stage in parts.stages}


def test_what_needs_a_total_along_the_same_index_is_not_split() -> None:
    module = lower(builtin("moe_gate", DType.F32, row=2, feature=8, expert=4))
    kernel = module.kernels[-1]
    folded = next(one for stage in kernel.stages for one in stage.folded)
    with pytest.raises(CannotPrint, match="is needed along"):
        split(module, kernel.name, folded.name, 2)
