"""Among how many warps tiles are spread, and what registers that takes."""

from __future__ import annotations

import pytest

from aiosearch.codegen.lower.lowering import lower
from aiosearch.codegen.pallas import Tiling
from aiosearch.codegen.pallas.cost.block_demand import BlockDemand, block_demand
from aiosearch.codegen.pallas.cost.register_pressure import WarpLayout
from aiosearch.codegen.pallas.layout import TileLayout
from aiosearch.codegen.pallas.nodes import TileNodes
from aiosearch.codegen.passes.kernel_fusion import fuse_kernels
from aiosearch.tensor import DType, Program
from aiosearch.tensor.programs import builtin


def _demand(program: Program, **tiles: int) -> BlockDemand:
    kernel = fuse_kernels(lower(program)).kernels[-1]
    return block_demand(TileLayout(TileNodes(kernel), Tiling(tiles)))


def _attention(rows: int, keys: int) -> BlockDemand:
    return _demand(builtin("gqa", DType.BF16, head=16), i=1, j=rows, k=64, k1=keys)


def _product(columns: int) -> BlockDemand:
    return _demand(builtin("gated_mlp", DType.BF16), i=16, j=columns, k=64)


@pytest.mark.parametrize(("columns", "warps"), [(16, 2), (32, 4), (128, 8)])
def test_a_dot_of_few_rows_is_dealt_out_by_eight_columns(columns: int, warps: int) -> None:
    asked = _product(columns)
    (first, *_) = asked.products
    assert asked.warping(8).of(first.node) == warps


@pytest.mark.parametrize(("rows", "warps"), [(64, 4), (128, 8)])
def test_a_tall_dot_that_leads_to_another_is_dealt_out_by_sixteen_rows(
    rows: int, warps: int
) -> None:
    asked = _attention(rows, 64)
    assert {asked.warping(8).of(one.node) for one in asked.products} == {warps}


def _registers(asked: BlockDemand, warps: int) -> int:
    return asked.pressure.registers(WarpLayout(asked.layout, warps))


def test_warps_that_hold_what_others_hold_save_no_registers() -> None:
    few, many = _attention(64, 256), _attention(128, 256)
    assert _registers(few, 4) * 0.8 < _registers(few, 8)
    assert _registers(many, 8) < _registers(many, 4) * 0.6


def test_a_larger_tile_takes_more_registers() -> None:
    sizes = [_registers(_attention(64, keys), 4) for keys in (32, 64, 128, 256)]
    assert sizes == sorted(set(sizes))


def test_operands_of_each_iteration_wait_in_shared_memory_apart_from_those_that_stay() -> None:
    """Queries stay; keys and values move; numerators of a tall dot need not go there."""
    asked = _attention(64, 128)
    assert asked.shared_bytes == 2 * 64 * 64
    assert asked.streamed_bytes == 2 * 2 * 128 * 64
