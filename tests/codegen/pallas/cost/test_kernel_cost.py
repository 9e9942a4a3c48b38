"""What is predicted of a tiled kernel."""

from __future__ import annotations

import math

import pytest

from aiosearch.codegen.lower.lowering import lower
from aiosearch.codegen.pallas import Tiling, plans
from aiosearch.codegen.pallas.cost.block_demand import block_demand
from aiosearch.codegen.pallas.cost.kernel_cost import (
    MOST_REGISTERS_PER_THREAD,
    TilingPrediction,
    widest_shared_bytes,
)
from aiosearch.codegen.pallas.layout import TileLayout
from aiosearch.codegen.pallas.nodes import TileNodes
from aiosearch.codegen.pallas.space.tiling_space import TilingSpace
from aiosearch.codegen.passes.kernel_fusion import fuse_kernels
from aiosearch.devices import device
from aiosearch.tensor import DType, Program
from aiosearch.tensor.programs import builtin

H200 = device("H200")
PRODUCTS = {"rms_norm": 6144 * 4096, "gated_mlp": 2 * 4096 * 4096, "gqa": 2 * 2 * 256 * 64 * 4096}
"""Elements that are multiplied and added up, by row where there are rows."""


def _predicted(
    program: Program, tiles: dict[str, int], warps: int = 4, stages: int = 3
) -> TilingPrediction:
    kernel = fuse_kernels(lower(program)).kernels[-1]
    asked = block_demand(TileLayout(TileNodes(kernel), Tiling(tiles)))
    return TilingPrediction(asked, warps, stages, H200)


def _gated(rows: int = 8) -> Program:
    return builtin("gated_mlp", DType.BF16, row=rows)


def _attention() -> Program:
    return builtin("gqa", DType.BF16, head=16)


@pytest.mark.parametrize("name", PRODUCTS)
def test_nothing_is_faster_than_its_bytes_and_products_allow(name: str) -> None:
    rows = {} if name == "gqa" else {"row": 16}
    program = builtin(name, DType.BF16, **rows)
    terms = [*program.inputs, *program.outputs]
    moved = sum(2 * math.prod(int(str(size)) for size in term.shape) for term in terms)
    products = 2 * PRODUCTS[name] * rows.get("row", 1)
    least = max(moved / H200.bytes_per_second, products / H200.rate(DType.BF16))
    for one in plans(fuse_kernels(lower(program)), H200, 1000):
        assert one.seconds > least + H200.launch_seconds * len(one.module.kernels)


def test_blocks_that_leave_units_idle_take_longer() -> None:
    few, many = (_predicted(_gated(), {"i": 16, "j": tile, "k": 128}) for tile in (128, 32))
    assert few.asked.blocks < many.asked.blocks < H200.units
    assert few.seconds > many.seconds


def test_one_block_more_than_units_takes_almost_twice_as_long_where_arithmetic_decides() -> None:
    heads = {"j": 64, "k": 64, "k1": 128, "i": 1}
    full, more = (
        _predicted(builtin("gqa", DType.BF16, head=head), heads, warps=8) for head in (33, 34)
    )
    assert (full.asked.blocks, more.asked.blocks) == (132, 136)
    assert 1.8 < more.seconds / full.seconds < 2


def test_little_on_its_way_from_memory_is_slow() -> None:
    two, four = (_predicted(_gated(), {"i": 16, "j": 16, "k": 32}, stages=n) for n in (2, 4))
    assert two.seconds > four.seconds


def test_tiles_that_registers_cannot_hold_do_not_fit() -> None:
    """A score for each of 64 x 256 pairs, and what is made of it, is more than 128 threads have."""
    tiles = {"i": 1, "j": 64, "k": 64}
    large = _predicted(_attention(), {**tiles, "k1": 256}, stages=2)
    assert large.shared_bytes <= H200.shared_bytes
    assert large.registers > MOST_REGISTERS_PER_THREAD
    small = _predicted(_attention(), {**tiles, "k1": 64}, stages=2)
    assert small.registers <= MOST_REGISTERS_PER_THREAD


def test_operands_that_shared_memory_cannot_hold_do_not_fit() -> None:
    tiles = {"i": 16, "j": 128, "k": 256}
    two, four = (_predicted(_gated(), tiles, warps=8, stages=n).shared_bytes for n in (2, 4))
    assert two <= H200.shared_bytes < four


REFUSED = [
    ({"i": 1, "j": 64, "k": 16, "k1": 256}, 4),
    ({"i": 1, "j": 128, "k": 32, "k1": 256}, 4),
    ({"i": 1, "j": 16, "k": 32, "k1": 256}, 5),
    ({"i": 1, "j": 32, "k": 32, "k1": 256}, 4),
]
"""Tiles and stages for which Triton asked an H100 for 251904 bytes and more."""


@pytest.mark.parametrize(("tiles", "stages"), REFUSED)
def test_keys_that_are_normalised_need_room_for_more_than_their_product(
    tiles: dict[str, int], stages: int
) -> None:
    kernel = fuse_kernels(lower(builtin("qk_norm", DType.BF16, head=16))).kernels[-1]
    asked = block_demand(TileLayout(TileNodes(kernel), Tiling(tiles)))
    assert widest_shared_bytes(asked, stages) > H200.shared_bytes
    chosen = {**tiles, "j1": 0, "warps": 4, "stages": stages, "fastest": None}
    space = TilingSpace(kernel, H200)
    assert not all(
        constraint.holds(*(chosen[name] for name in constraint.of))
        for constraint in space.constraints
    )


def test_keys_that_are_normalised_find_room_in_two_stages() -> None:
    """As they did on an H100."""
    kernel = fuse_kernels(lower(builtin("qk_norm", DType.BF16, head=16))).kernels[-1]
    tiles = {"i": 1, "j": 128, "k": 32, "k1": 256}
    asked = block_demand(TileLayout(TileNodes(kernel), Tiling(tiles)))
    assert widest_shared_bytes(asked, 2) <= H200.shared_bytes
