"""The tilings of a kernel that a warpgroup can run, best predicted first.

Tiles are 64 or 128 along an index of the outputs, single places of a batch, or all of an index; one
reduced index may be the loop. Along a shorter index a tile may be 64 as well, and arrays are padded
there, which costs launches. There are some dozens of tilings, so each is printed to see whether it
can be. They are ranked by the model that ranks Triton's, which knows the traffic and the blocks and
nothing of the instructions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import TYPE_CHECKING

from ....tensor.types import BYTES
from ... import ir
from ...errors import CannotPrint
from ...schedule.space import ScheduleChoice
from ..cost.block_demand import block_demand
from ..cost.kernel_cost import TilingPrediction
from ..layout import Tiling, parallel, serial
from ..nodes import TileNodes
from ..printer.text import NameAllocator
from .layout import LARGEST_COPY, ROWS, WARPS, BlockLayout, extends
from .rows import block_function

if TYPE_CHECKING:
    from ....devices import Device

_OUTPUT_TILES = (ROWS, 2 * ROWS, 1)
_LOOP_TILES = (ROWS, 2 * ROWS, ROWS // 2)
_STAGES = (4, 3, 2)


def mosaic_tilings(kernel: ir.TileKernel, device: Device) -> list[Tiling]:
    """The tilings with which `write_mosaic` prints `kernel`, the best predicted first; raises
    CannotPrint with the first reason where there are none.
    """
    return [choice.schedule for choice in mosaic_choices(kernel, device)]


def mosaic_choices(kernel: ir.TileKernel, device: Device) -> list[ScheduleChoice[Tiling]]:
    """The same with predicted seconds; a choice's point is its place among all tilings."""
    nodes = TileNodes(kernel)
    legal: list[ScheduleChoice[Tiling]] = []
    refusal: CannotPrint | None = None
    for place, tiling in enumerate(_tilings(nodes)):
        try:
            layout, _ = block_function(nodes, tiling, kernel.name, NameAllocator())
        except CannotPrint as error:
            refusal = refusal or error
        else:
            legal.append(ScheduleChoice((place,), tiling, _seconds(layout, device)))
    if not legal:
        raise refusal or CannotPrint(f"kernel {kernel.name}: it has no index to cut")
    return sorted(legal, key=lambda choice: choice.seconds)


def _seconds(layout: BlockLayout, device: Device) -> float:
    """The prediction, with what it takes to pad and cut arrays: a launch each, and their bytes."""
    nodes = layout.nodes
    seconds = TilingPrediction(block_demand(layout), WARPS, layout.tiling.stages, device).seconds
    for buffer in (*nodes.loaded, *(node.stage.target for node in nodes.outputs)):
        shape = layout.padded_shape(buffer)
        if shape != buffer.shape:
            moved = 2 * BYTES[buffer.dtype] * math.prod(shape)
            seconds += device.launch_seconds + moved / device.bytes_per_second
    return seconds


def _tilings(nodes: TileNodes) -> Iterator[Tiling]:
    """All tilings that may be possible."""
    free = [
        (loop_index, (*_divisors(loop_index, _OUTPUT_TILES), *_beyond(nodes, loop_index)))
        for loop_index in parallel(nodes)
    ]
    loops: list[tuple[str, int] | None] = [
        (loop_index.name, tile)
        for loop_index in serial(nodes)
        for tile in _divisors(loop_index, _LOOP_TILES)
        if 0 < tile < loop_index.size
    ]
    # Without a loop there is nothing to load ahead.
    for cut in (*loops, None):
        for tiles in product(*(values for _, values in free)):
            named = {
                loop_index.name: tile
                for (loop_index, _), tile in zip(free, tiles, strict=True)
                if tile
            }
            for stages in _STAGES if cut else (1,):
                yield Tiling({**named, **dict([cut] if cut else [])}, WARPS, stages)


def _beyond(nodes: TileNodes, loop_index: ir.LoopIndex) -> tuple[int, ...]:
    """The tile that is longer than an index, where arrays may be padded along it."""
    return (ROWS,) if loop_index.size < ROWS and extends(nodes, loop_index) else ()


def _divisors(loop_index: ir.LoopIndex, tiles: tuple[int, ...]) -> tuple[int, ...]:
    """The tiles that divide an index, and 0 for all of it where a copy takes that."""
    whole = (0,) if loop_index.size <= LARGEST_COPY else ()
    return (*whole, *(tile for tile in tiles if loop_index.size % tile == 0))
