"""The tilings of a kernel that are worth a trial, best predicted first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from ... import ir
from ...schedule.space import ScheduleChoice, ScheduleConstraint, ScheduleParameter, ranked_choices
from ..contractions import matrices
from ..cost.block_demand import BlockDemand, block_demand
from ..cost.kernel_cost import MOST_REGISTERS_PER_THREAD, TilingPrediction, registers, shared_bytes
from ..dialect import LEAST_DOT_SIZE
from ..errors import CannotPrint
from ..layout import TileLayout, Tiling, parallel, serial
from ..nodes import TileNodes

if TYPE_CHECKING:
    from ....devices import Device

WARP_COUNTS = (4, 8, 2)
PIPELINE_STAGES = (3, 4, 2)
_WARPS, _STAGES, _FASTEST = "warps", "stages", "fastest"

_DOT_TILE_LIMITS = (LEAST_DOT_SIZE, 128)
_REDUCED_TILE_LIMITS = (LEAST_DOT_SIZE, 256)
_STRIDED_TILE_LIMITS = (1, 8)
_CONTIGUOUS_TILE_LIMITS = (64, 2048)
"""The least and the largest tile: of a matrix' sides, of what its product is summed over, of
indices that are only gone through, and of those that neighbours in memory belong to."""


@dataclass(frozen=True)
class IndexTile(ScheduleParameter):
    """An index's tile, or 0 for all of it."""

    loop: bool = False
    """Of all loops, one at most is not 0."""


def parameters(nodes: TileNodes) -> list[IndexTile]:
    """What may be chosen of a kernel: how its outputs are shared out, and along what it loops."""
    sides, batch, summed = matrices(nodes)
    free = parallel(nodes)
    alone = (1,) if len(sides & set(free)) > 2 else ()
    last = {one for node in nodes.outputs for at in node.stage.at[-1:] for one in ir.indices(at)}
    apart = _strided_indices(nodes) if serial(nodes) else set()
    found: list[IndexTile] = []
    for one in free:
        if one in sides:
            values = (*alone, *_tile_powers(one, *_DOT_TILE_LIMITS))
        elif one in batch:
            values = (1,)
        else:
            least, most = _CONTIGUOUS_TILE_LIMITS if one in last else _STRIDED_TILE_LIMITS
            few = one in last & apart
            values = _tile_powers(one, 1, most)[::2] if few else _tile_powers(one, least, most)
        found.append(IndexTile(one.name, values))
    for one in serial(nodes):
        values = _tile_powers(
            one,
            *(_REDUCED_TILE_LIMITS if one in summed or one in sides else _CONTIGUOUS_TILE_LIMITS),
        )
        cuts = tuple(tile for tile in values if tile < one.size) or (1,) * (one in summed)
        found.append(IndexTile(one.name, (0, *cuts), loop=True))
    return found


def _strided_indices(nodes: TileNodes) -> set[ir.LoopIndex]:
    """The indices along which something is read that does not lie side by side: as rows of a sum.

    Of these a block may have few, even if what is made of them does.
    """
    read = {load for node in nodes.all for load in node.taken}
    ends = [load.at[-1] for load in read if load.at]
    others = [at for load in read for at in load.at[:-1]]
    others += [at for at in ends if ir.single_index(at) is None]
    return {one for at in others for one in ir.indices(at)}


def _tile_powers(one: ir.LoopIndex, least: int, most: int) -> tuple[int, ...]:
    """Powers of two, as far as they are not larger than the index."""
    found, tile = [], least
    while tile <= most and (tile == least or tile < 2 * one.size):
        found.append(tile)
        tile *= 2
    return tuple(found)


class TilingSpace:
    """The space of a kernel's tilings on a device.

    Free are tiles, a block's warps and stages, and the order in which blocks follow each other.
    """

    def __init__(self, kernel: ir.TileKernel, device: Device) -> None:
        self.kernel, self._nodes, self._device = kernel, TileNodes(kernel), device
        self._tiles = parameters(self._nodes)
        self._grid = parallel(self._nodes)
        grid = tuple(one.name for one in self._grid)
        self._asked = cache(self._counted)
        self.parameters = (
            *self._tiles,
            ScheduleParameter(_WARPS, WARP_COUNTS),
            ScheduleParameter(_STAGES, PIPELINE_STAGES),
            ScheduleParameter(_FASTEST, (None, *grid[1:]), fine=True),
        )
        tiles = tuple(one.name for one in self._tiles)
        loops = tuple(one.name for one in self._tiles if one.loop)
        self.constraints = [
            *([ScheduleConstraint(loops, _one_at_most)] if loops else []),
            ScheduleConstraint((*grid, _FASTEST), self._is_another_order),
            *([ScheduleConstraint(tiles, self._has_a_layout)] if tiles else []),
            ScheduleConstraint((*tiles, _WARPS), self._finds_registers),
            ScheduleConstraint((*tiles, _STAGES), self._loads_ahead),
            ScheduleConstraint((*tiles, _STAGES), self._finds_shared_memory),
        ]

    def schedule(self, chosen: Mapping[str, Any]) -> Tiling:
        tiles = {one.name: chosen[one.name] for one in self._tiles if chosen[one.name]}
        return Tiling(tiles, chosen[_WARPS], chosen[_STAGES], chosen[_FASTEST])

    def seconds(self, schedule: Tiling) -> float:
        asked = self.demand(schedule)
        return TilingPrediction(asked, schedule.warps, schedule.stages, self._device).seconds

    @cached_property
    def _first(self) -> ScheduleChoice[Tiling] | None:
        return next(iter(ranked_choices(self)), None)

    @property
    def finds_room(self) -> bool:
        """Whether any tiling does."""
        return self._first is not None

    @property
    def best(self) -> ScheduleChoice[Tiling]:
        """The best predicted; raises CannotPrint where none finds room."""
        if self._first is None:
            raise no_tiling_error(self.kernel, self._device)
        return self._first

    def demand(self, tiling: Tiling) -> BlockDemand:
        """What the blocks of a legal one ask for."""
        found = self._asked(*(tiling.tiles.get(one.name, 0) for one in self._tiles))
        assert found is not None, "a tiling without a layout is not legal"
        return found

    def _counted(self, *tiles: int) -> BlockDemand | None:
        """What blocks ask for, whatever their order; nothing where they cannot be laid out."""
        named = {one.name: tile for one, tile in zip(self._tiles, tiles, strict=True) if tile}
        with suppress(CannotPrint):
            return block_demand(TileLayout(self._nodes, Tiling(named)))
        return None

    def _is_another_order(self, *chosen: Any) -> bool:
        """Or none at all: along an index that is cut, and not the first of these."""
        *tiles, fastest = chosen
        cut = [one.name for one, tile in zip(self._grid, tiles, strict=True) if tile < one.size]
        return fastest is None or fastest in cut[1:]

    def _has_a_layout(self, *tiles: int) -> bool:
        return self._asked(*tiles) is not None

    def _finds_registers(self, *chosen: int) -> bool:
        """Whether all that a block has at once is in registers."""
        *tiles, warps = chosen
        asked = self._asked(*tiles)
        return asked is not None and registers(asked, warps) <= MOST_REGISTERS_PER_THREAD

    def _loads_ahead(self, *chosen: int) -> bool:
        """Where nothing is loaded ahead there are the fewest stages."""
        *tiles, stages = chosen
        asked = self._asked(*tiles)
        return asked is not None and (asked.streamed_bytes > 0 or stages == min(PIPELINE_STAGES))

    def _finds_shared_memory(self, *chosen: int) -> bool:
        """Whether it holds the operands of dots, and those that are loaded ahead."""
        *tiles, stages = chosen
        asked = self._asked(*tiles)
        return asked is not None and shared_bytes(asked, stages) <= self._device.shared_bytes


def _one_at_most(*tiles: int) -> bool:
    return sum(map(bool, tiles)) <= 1


def choices(kernel: ir.TileKernel, device: Device) -> list[Tiling]:
    """The legal tilings that are worth a try, the most promising first.

    These differ in their tiles, each with the warps and stages that suit it best; behind them stand
    the same ones with other numbers of warps and stages. Raises CannotPrint where there are none.
    """
    found = by_tiles(ranked_choices(TilingSpace(kernel, device)))
    if not found:
        raise no_tiling_error(kernel, device)
    return [one.schedule for one in found]


def no_tiling_error(kernel: ir.TileKernel, device: Device) -> CannotPrint:
    """What is raised where a kernel has no tiling."""
    return CannotPrint(f"kernel {kernel.name}: no tiling of it finds room on {device.name}")


def by_tiles(found: Iterable[ScheduleChoice[Tiling]]) -> list[ScheduleChoice[Tiling]]:
    """First the best of those with the same tiles, then the next best."""
    turns: Counter[tuple[tuple[str, int], ...]] = Counter()
    placed = []
    for one in found:
        tiles = tuple(one.schedule.tiles.items())
        placed.append((turns[tiles], one))
        turns[tiles] += 1
    return [one for _, one in sorted(placed, key=lambda pair: pair[0])]
