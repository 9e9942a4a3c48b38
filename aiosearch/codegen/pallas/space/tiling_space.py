"""The tilings of a kernel that are worth a trial, best predicted first.

Problem: a kernel of three indices has thousands of tilings, most of which do not fit or are alike.
The space declares powers of two between limits that depend on what an index is for, and constraints
that cut what cannot run; `kernel_cost` ranks the remainder.

Worked example, a product of bf16[64, 4096] by [4096, 4096] on an H200: tiles of i are 16, 32 or 64,
of j 16 to 128, of k 16 to 256 or whole, times warps and stages. 503 tilings are legal; the best
predicted is `i: 32, j: 64, k: 64; 4 warps, 3 stages`.

Invariant: a tiling that the constraints allow can be printed; whether its registers suffice is as
good as `register_pressure`.

Cost: a `BlockDemand` for each choice of tiles, counted once for all warps and stages.

See docs/why/kernels.md, "The same kernel for a GPU".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING

from ... import ir
from ...errors import CannotPrint
from ...schedule.space import (
    ParameterValues,
    ScheduleChoice,
    ScheduleConstraint,
    ScheduleParameter,
    ranked_choices,
)
from ..contractions import matrices
from ..cost.block_demand import BlockDemand, block_demand
from ..cost.kernel_cost import (
    MOST_REGISTERS_PER_THREAD,
    TilingPrediction,
    registers,
    widest_shared_bytes,
)
from ..dialect import LEAST_DOT_SIZE
from ..layout import TileLayout, Tiling, parallel, serial
from ..nodes import TileNodes

if TYPE_CHECKING:
    from ....devices import Device

WARP_COUNTS = (4, 8, 2, 1)
PIPELINE_STAGES = (3, 4, 2, 5)
_WARPS, _STAGES, _FASTEST = "warps", "stages", "fastest"

_DOT_TILE_LIMITS = (LEAST_DOT_SIZE, 128)
_REDUCED_TILE_LIMITS = (LEAST_DOT_SIZE, 256)
_STRIDED_TILE_LIMITS = (1, 8)
_CONTIGUOUS_TILE_LIMITS = (64, 2048)
"""The least and the largest tile, of an index that neighbours in memory belong to. The limits above
are those of a matrix' sides, of what its product is summed over, and of indices that are only gone
through."""


@dataclass(frozen=True)
class IndexTile(ScheduleParameter):
    """The tile of an index as a parameter, with 0 for all of it."""

    loop: bool = False
    """Whether it is a loop's, of which one at most is not 0."""


def parameters(nodes: TileNodes) -> list[IndexTile]:
    """The tiles that may be chosen of a kernel: how its outputs are shared out, and along what it
    loops.
    """
    sides, batch, summed = matrices(nodes)
    free = parallel(nodes)
    # With more than two free indices, some sides of the matrices have to be single rows.
    alone = (1,) if len(sides & set(free)) > 2 else ()
    last = {
        loop_index
        for node in nodes.outputs
        for at in node.stage.at[-1:]
        for loop_index in ir.indices(at)
    }
    apart = _strided_indices(nodes) if serial(nodes) else set()
    tiles: list[IndexTile] = []
    for loop_index in free:
        if loop_index in sides:
            values = (*alone, *_tile_powers(loop_index, *_DOT_TILE_LIMITS))
        # Every block multiplies one pair of a batch: a dot has no batch axis.
        elif loop_index in batch:
            values = (1,)
        else:
            least, most = _CONTIGUOUS_TILE_LIMITS if loop_index in last else _STRIDED_TILE_LIMITS
            # An index that is contiguous in the output but strided in what is read gets both kinds
            # of tiles, at every other power.
            few = loop_index in last & apart
            values = (
                _tile_powers(loop_index, 1, most)[::2]
                if few
                else _tile_powers(loop_index, least, most)
            )
        tiles.append(IndexTile(loop_index.name, values))
    for loop_index in serial(nodes):
        values = _tile_powers(
            loop_index,
            *(
                _REDUCED_TILE_LIMITS
                if loop_index in summed or loop_index in sides
                else _CONTIGUOUS_TILE_LIMITS
            ),
        )
        cuts = tuple(tile for tile in values if tile < loop_index.size) or (1,) * (
            loop_index in summed
        )
        tiles.append(IndexTile(loop_index.name, (0, *cuts), loop=True))
    return tiles


def _strided_indices(nodes: TileNodes) -> set[ir.LoopIndex]:
    """The indices along which something is read that is not contiguous: as rows of a sum.

    Of these a block may have few, even if what is made of them is contiguous.
    """
    read = {load for node in nodes.all for load in node.taken}
    ends = [load.at[-1] for load in read if load.at]
    strided = [at for load in read for at in load.at[:-1]]
    strided += [at for at in ends if ir.single_index(at) is None]
    return {loop_index for at in strided for loop_index in ir.indices(at)}


def _tile_powers(loop_index: ir.LoopIndex, least: int, most: int) -> tuple[int, ...]:
    """Powers of two from `least` to `most`, as far as they are not larger than the index."""
    powers, tile = [], least
    while tile <= most and (tile == least or tile < 2 * loop_index.size):
        powers.append(tile)
        tile *= 2
    return tuple(powers)


class TilingSpace:
    """The space of a kernel's tilings on a device.

    Free are tiles, a block's warps and stages, and the order in which blocks follow each other.
    """

    def __init__(self, kernel: ir.TileKernel, device: Device) -> None:
        self.kernel, self._nodes, self._device = kernel, TileNodes(kernel), device
        self._tiles = parameters(self._nodes)
        self._grid = parallel(self._nodes)
        grid = tuple(loop_index.name for loop_index in self._grid)
        # Constraints and predictions share the demand of a choice of tiles.
        self._asked = cache(self._counted)
        self.parameters = (
            *self._tiles,
            ScheduleParameter(_WARPS, WARP_COUNTS),
            ScheduleParameter(_STAGES, PIPELINE_STAGES),
            # `fine`: the prediction does not know the order of blocks, so only trials change it.
            ScheduleParameter(_FASTEST, (None, *grid[1:]), fine=True),
        )
        tiles = tuple(loop_index.name for loop_index in self._tiles)
        loops = tuple(loop_index.name for loop_index in self._tiles if loop_index.loop)
        self.constraints = [
            *([ScheduleConstraint(loops, _one_at_most)] if loops else []),
            ScheduleConstraint((*grid, _FASTEST), self._is_another_order),
            *([ScheduleConstraint(tiles, self._has_a_layout)] if tiles else []),
            # Each constraint names only what it depends on, so that it is asked once for each
            # combination of those.
            ScheduleConstraint((*tiles, _WARPS), self._finds_registers),
            ScheduleConstraint((*tiles, _STAGES), self._loads_ahead),
            ScheduleConstraint((*tiles, _STAGES), self._finds_shared_memory),
        ]

    def schedule(self, chosen: ParameterValues) -> Tiling:
        tiles = {
            parameter.name: chosen[parameter.name]
            for parameter in self._tiles
            if chosen[parameter.name]
        }
        return Tiling(tiles, chosen[_WARPS], chosen[_STAGES], chosen[_FASTEST])

    def seconds(self, schedule: Tiling) -> float:
        asked = self.demand(schedule)
        return TilingPrediction(asked, schedule.warps, schedule.stages, self._device).seconds

    @cached_property
    def _first(self) -> ScheduleChoice[Tiling] | None:
        return next(iter(ranked_choices(self)), None)

    @property
    def finds_room(self) -> bool:
        """Whether any tiling is legal."""
        return self._first is not None

    @property
    def best(self) -> ScheduleChoice[Tiling]:
        """The best predicted; raises CannotPrint where none finds room."""
        if self._first is None:
            raise no_tiling_error(self.kernel, self._device)
        return self._first

    def demand(self, tiling: Tiling) -> BlockDemand:
        """What the blocks of a legal tiling ask for."""
        demand = self._asked(*(tiling.tiles.get(parameter.name, 0) for parameter in self._tiles))
        assert demand is not None, "a tiling without a layout is not legal"
        return demand

    def _counted(self, *tiles: int) -> BlockDemand | None:
        """What blocks ask for, whatever their order; None where they cannot be laid out."""
        named = {
            parameter.name: tile for parameter, tile in zip(self._tiles, tiles, strict=True) if tile
        }
        # A tiling that `TileLayout` refuses, as its tiles are too large or not divisible, is just
        # not legal.
        with suppress(CannotPrint):
            return block_demand(TileLayout(self._nodes, Tiling(named)))
        return None

    def _is_another_order(self, *chosen: int | str | None) -> bool:
        """Whether `fastest` is None, or an index that is cut and not the first of these."""
        *tiles, fastest = chosen
        cut = [
            loop_index.name
            for loop_index, tile in zip(self._grid, tiles, strict=True)
            if isinstance(tile, int) and tile < loop_index.size
        ]
        return fastest is None or fastest in cut[1:]

    def _has_a_layout(self, *tiles: int) -> bool:
        return self._asked(*tiles) is not None

    def _finds_registers(self, *chosen: int) -> bool:
        """Whether all that a block has at once is in registers."""
        *tiles, warps = chosen
        asked = self._asked(*tiles)
        return asked is not None and registers(asked, warps) <= MOST_REGISTERS_PER_THREAD

    def _loads_ahead(self, *chosen: int) -> bool:
        """Whether stages mean something: where nothing is loaded ahead there are the fewest."""
        *tiles, stages = chosen
        asked = self._asked(*tiles)
        return asked is not None and (asked.streamed_bytes > 0 or stages == min(PIPELINE_STAGES))

    def _finds_shared_memory(self, *chosen: int) -> bool:
        """Whether shared memory holds the operands of dots, and those that are loaded ahead."""
        *tiles, stages = chosen
        asked = self._asked(*tiles)
        return asked is not None and widest_shared_bytes(asked, stages) <= self._device.shared_bytes


def _one_at_most(*tiles: int) -> bool:
    """Whether no more than one index is looped over."""
    return sum(map(bool, tiles)) <= 1


def choices(kernel: ir.TileKernel, device: Device) -> list[Tiling]:
    """The legal tilings that are worth a try, the most promising first.

    These differ in their tiles, each with the warps and stages that suit it best; behind them stand
    those tiles with other numbers of warps and stages. Raises CannotPrint where there are none.
    """
    ranked = by_tiles(ranked_choices(TilingSpace(kernel, device)))
    if not ranked:
        raise no_tiling_error(kernel, device)
    return [choice.schedule for choice in ranked]


def no_tiling_error(kernel: ir.TileKernel, device: Device) -> CannotPrint:
    """The error of a kernel that has no tiling."""
    return CannotPrint(f"kernel {kernel.name}: no tiling of it finds room on {device.name}")


def by_tiles(ranked: Iterable[ScheduleChoice[Tiling]]) -> list[ScheduleChoice[Tiling]]:
    """First the best of those with the same tiles, then the next best of each."""
    # The prediction ranks tiles better than it ranks warps, so trials see different tiles first.
    turns: Counter[tuple[tuple[str, int], ...]] = Counter()
    placed = []
    for choice in ranked:
        tiles = tuple(choice.schedule.tiles.items())
        placed.append((turns[tiles], choice))
        turns[tiles] += 1
    return [choice for _, choice in sorted(placed, key=lambda pair: pair[0])]
