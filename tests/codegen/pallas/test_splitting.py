"""Sums that more blocks share out."""

from __future__ import annotations

import numpy as np
import pytest
from printed import drawn, outputs

from aiosearch.codegen import ir
from aiosearch.codegen.interpreting import interpret
from aiosearch.codegen.lowering import lower
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


def test_what_needs_a_total_along_the_same_index_is_not_split() -> None:
    module = lower(builtin("moe_gate", DType.F32, row=2, feature=8, expert=4))
    kernel = module.kernels[-1]
    folded = next(one for stage in kernel.stages for one in stage.folded)
    with pytest.raises(CannotPrint, match="is needed along"):
        split(module, kernel.name, folded.name, 2)
