"""The tilings of a kernel that are worth a try, the most promising first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from .. import ir
from ..parameters import Choice, Constraint, Parameter, choices_of
from .counting import Demand, demand
from .dialect import LEAST
from .errors import CannotPrint
from .factors import matrices
from .layout import Layout, parallel, serial
from .nodes import Nodes
from .predicting import MOST_REGISTERS, Prediction, registers, shared_bytes
from .tiling import Tiling

if TYPE_CHECKING:
    from ...devices import Device

WARPS = (4, 8, 2)
STAGES = (3, 4, 2)
_WARPS, _STAGES, _FASTEST = "warps", "stages", "fastest"

_MATRIX = (LEAST, 128)
_SUMMED = (LEAST, 256)
_ROWS = (1, 8)
_ALONG = (64, 2048)
"""The least and the largest tile: of a matrix' sides, of what its product is summed over, of
indices that are only gone through, and of those that neighbours in memory belong to."""


@dataclass(frozen=True)
class Cut(Parameter):
    """An index's tile, or 0 for all of it."""

    loop: bool = False
    """Of all loops, one at most is not 0."""


def parameters(nodes: Nodes) -> list[Cut]:
    """What may be chosen of a kernel: how its outputs are shared out, and along what it loops."""
    sides, batch, summed = matrices(nodes)
    free = parallel(nodes)
    alone = (1,) if len(sides & set(free)) > 2 else ()
    last = {one for node in nodes.outputs for at in node.stage.at[-1:] for one in ir.indices(at)}
    apart = _apart(nodes) if serial(nodes) else set()
    found: list[Cut] = []
    for one in free:
        if one in sides:
            values = (*alone, *_powers(one, *_MATRIX))
        elif one in batch:
            values = (1,)
        else:
            least, most = _ALONG if one in last else _ROWS
            few = one in last & apart
            values = _powers(one, 1, most)[::2] if few else _powers(one, least, most)
        found.append(Cut(one.name, values))
    for one in serial(nodes):
        values = _powers(one, *(_SUMMED if one in summed or one in sides else _ALONG))
        cuts = tuple(tile for tile in values if tile < one.size) or (1,) * (one in summed)
        found.append(Cut(one.name, (0, *cuts), loop=True))
    return found


def _apart(nodes: Nodes) -> set[ir.Index]:
    """The indices along which something is read that does not lie side by side: as rows of a sum.

    Of these a block may have few, even if what is made of them does.
    """
    read = {load for node in nodes.all for load in node.taken}
    ends = [load.at[-1] for load in read if load.at]
    others = [at for load in read for at in load.at[:-1]]
    others += [at for at in ends if ir.alone(at) is None]
    return {one for at in others for one in ir.indices(at)}


def _powers(one: ir.Index, least: int, most: int) -> tuple[int, ...]:
    """Powers of two, as far as they are not larger than the index."""
    found, tile = [], least
    while tile <= most and (tile == least or tile < 2 * one.size):
        found.append(tile)
        tile *= 2
    return tuple(found)


class Tilings:
    """The space of a kernel's tilings on a device.

    Free are tiles, a block's warps and stages, and the order in which blocks follow each other.
    """

    def __init__(self, kernel: ir.Kernel, device: Device) -> None:
        self.kernel, self._nodes, self._device = kernel, Nodes(kernel), device
        self._tiles = parameters(self._nodes)
        self._grid = parallel(self._nodes)
        grid = tuple(one.name for one in self._grid)
        self._asked = cache(self._counted)
        self.parameters = (
            *self._tiles,
            Parameter(_WARPS, WARPS),
            Parameter(_STAGES, STAGES),
            Parameter(_FASTEST, (None, *grid[1:]), fine=True),
        )
        tiles = tuple(one.name for one in self._tiles)
        loops = tuple(one.name for one in self._tiles if one.loop)
        self.constraints = [
            *([Constraint(loops, _one_at_most)] if loops else []),
            Constraint((*grid, _FASTEST), self._is_another_order),
            *([Constraint(tiles, self._has_a_layout)] if tiles else []),
            Constraint((*tiles, _WARPS), self._finds_registers),
            Constraint((*tiles, _STAGES), self._loads_ahead),
            Constraint((*tiles, _STAGES), self._finds_shared_memory),
        ]

    def schedule(self, chosen: Mapping[str, Any]) -> Tiling:
        tiles = {one.name: chosen[one.name] for one in self._tiles if chosen[one.name]}
        return Tiling(tiles, chosen[_WARPS], chosen[_STAGES], chosen[_FASTEST])

    def seconds(self, schedule: Tiling) -> float:
        asked = self.demand(schedule)
        return Prediction(asked, schedule.warps, schedule.stages, self._device).seconds

    @cached_property
    def _first(self) -> Choice[Tiling] | None:
        return next(iter(choices_of(self)), None)

    @property
    def finds_room(self) -> bool:
        """Whether any tiling does."""
        return self._first is not None

    @property
    def best(self) -> Choice[Tiling]:
        """The best predicted; raises CannotPrint where none finds room."""
        if self._first is None:
            raise absent(self.kernel, self._device)
        return self._first

    def demand(self, tiling: Tiling) -> Demand:
        """What the blocks of a legal one ask for."""
        found = self._asked(*(tiling.tiles.get(one.name, 0) for one in self._tiles))
        assert found is not None, "a tiling without a layout is not legal"
        return found

    def _counted(self, *tiles: int) -> Demand | None:
        """What blocks ask for, whatever their order; nothing where they cannot be laid out."""
        named = {one.name: tile for one, tile in zip(self._tiles, tiles, strict=True) if tile}
        with suppress(CannotPrint):
            return demand(Layout(self._nodes, Tiling(named)))
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
        return asked is not None and registers(asked, warps) <= MOST_REGISTERS

    def _loads_ahead(self, *chosen: int) -> bool:
        """Where nothing is loaded ahead there are the fewest stages."""
        *tiles, stages = chosen
        asked = self._asked(*tiles)
        return asked is not None and (asked.streamed_bytes > 0 or stages == min(STAGES))

    def _finds_shared_memory(self, *chosen: int) -> bool:
        """Whether it holds the operands of dots, and those that are loaded ahead."""
        *tiles, stages = chosen
        asked = self._asked(*tiles)
        return asked is not None and shared_bytes(asked, stages) <= self._device.shared_bytes


def _one_at_most(*tiles: int) -> bool:
    return sum(map(bool, tiles)) <= 1


def choices(kernel: ir.Kernel, device: Device) -> list[Tiling]:
    """The legal tilings that are worth a try, the most promising first.

    These differ in their tiles, each with the warps and stages that suit it best; behind them stand
    the same ones with other numbers of warps and stages. Raises CannotPrint where there are none.
    """
    found = by_tiles(choices_of(Tilings(kernel, device)))
    if not found:
        raise absent(kernel, device)
    return [one.schedule for one in found]


def absent(kernel: ir.Kernel, device: Device) -> CannotPrint:
    """What is raised where a kernel has no tiling."""
    return CannotPrint(f"kernel {kernel.name}: no tiling of it finds room on {device.name}")


def by_tiles(found: Iterable[Choice[Tiling]]) -> list[Choice[Tiling]]:
    """First the best of those with the same tiles, then the next best."""
    turns: Counter[tuple[tuple[str, int], ...]] = Counter()
    placed = []
    for one in found:
        tiles = tuple(one.schedule.tiles.items())
        placed.append((turns[tiles], one))
        turns[tiles] += 1
    return [one for _, one in sorted(placed, key=lambda pair: pair[0])]
