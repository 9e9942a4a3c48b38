"""The tilings of a kernel that are worth a try, the most promising first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from .. import ir
from .counting import Demand, demand
from .errors import CannotPrint
from .factors import matrices
from .layout import LEAST, Layout, parallel, serial
from .nodes import Nodes
from .predicting import Prediction
from .tiling import Tiling

if TYPE_CHECKING:
    from ...devices import Device

WARPS = (4, 8, 2)
STAGES = (3, 4, 2)

_MATRIX = (LEAST, 128)
_SUMMED = (LEAST, 256)
_ROWS = (1, 8)
_ALONG = (64, 2048)
"""The least and the largest tile: of a matrix' sides, of what its product is summed over, of
indices that are only gone through, and of those that neighbours in memory belong to."""


@dataclass(frozen=True)
class Parameter:
    """A free choice: an index's tile, or 0 for all of it."""

    name: str
    values: tuple[int, ...]
    loop: bool = False
    """Of all loops, one at most is not 0."""


def parameters(nodes: Nodes) -> list[Parameter]:
    """What may be chosen of a kernel: how its outputs are shared out, and along what it loops."""
    sides, batch, summed = matrices(nodes)
    free = parallel(nodes)
    alone = (1,) if len(sides & set(free)) > 2 else ()
    last = {one for node in nodes.outputs for at in node.stage.at[-1:] for one in ir.indices(at)}
    found = []
    for one in free:
        if one in sides:
            values = (*alone, *_powers(one, *_MATRIX))
        elif one in batch:
            values = (1,)
        else:
            values = _powers(one, *(_ALONG if one in last else _ROWS))
        found.append(Parameter(one.name, values))
    for one in serial(nodes):
        values = _powers(one, *(_SUMMED if one in summed or one in sides else _ALONG))
        cuts = tuple(tile for tile in values if tile < one.size) or (1,) * (one in summed)
        found.append(Parameter(one.name, (0, *cuts), loop=True))
    return found


def _powers(one: ir.Index, least: int, most: int) -> tuple[int, ...]:
    """Powers of two, as far as they are not larger than the index."""
    found, tile = [], least
    while tile <= most and (tile == least or tile < 2 * one.size):
        found.append(tile)
        tile *= 2
    return tuple(found)


@dataclass(frozen=True)
class Ranked:
    """A tiling, and what is predicted of it."""

    tiling: Tiling
    seconds: float
    blocks: int


def choices(kernel: ir.Kernel, device: Device) -> list[Tiling]:
    """The legal tilings that are worth a try, the most promising first.

    These differ in their tiles, each with the warps and stages that suit it best; behind them stand
    the same ones with other numbers of warps and stages.
    """
    return [one.tiling for one in ranked(kernel, device)]


def ranked(kernel: ir.Kernel, device: Device) -> list[Ranked]:
    """The same with what is predicted."""
    nodes = Nodes(kernel)
    found: list[tuple[int, float, int, Ranked]] = []
    for tiles in _tiles(parameters(nodes)):
        with suppress(CannotPrint):
            asked = demand(Layout(nodes, Tiling(tiles)))
            legal = sorted(_legal(tiles, asked, device), key=lambda one: one.seconds)
            found += [(turn, one.seconds, asked.steps, one) for turn, one in enumerate(legal)]
    if not found:
        raise CannotPrint(f"kernel {kernel.name}: no tiling of it finds room on {device.name}")
    return [one for *_, one in sorted(found, key=lambda one: one[:3])]


def _tiles(free: Sequence[Parameter]) -> Iterator[dict[str, int]]:
    loops = {one.name for one in free if one.loop}
    for values in product(*(one.values for one in free)):
        chosen = {one.name: value for one, value in zip(free, values, strict=True) if value}
        if len(chosen.keys() & loops) <= 1:
            yield chosen


def _legal(tiles: dict[str, int], asked: Demand, device: Device) -> Iterator[Ranked]:
    for warps, stages in product(WARPS, STAGES if asked.streamed_bytes else STAGES[-1:]):
        found = Prediction(asked, warps, stages, device)
        if found.fits:
            yield Ranked(Tiling(tiles, warps, stages), found.seconds, asked.blocks)
