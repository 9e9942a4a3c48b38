"""Bytes of tiles that a block of a kernel keeps."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import compress

from ...ir import Buffer, LoopIndex, TileKernel, single_index
from ...llvm.memory import STORED
from ..prepare.precision import widenable_tiles, widened_buffer
from ..prepare.serial_passes import tiles_read_later
from ..reduce.epilogue import fused_epilogues
from ..schedule import Schedule, serial


@dataclass(frozen=True)
class _BlockTile:
    """What a block may keep."""

    free: tuple[LoopIndex, ...]
    bytes: int
    """Of an element."""
    folded: frozenset[str] | None
    """An output is kept while it is folded over these; scratch always."""
    copy_of: str = ""
    lasts: frozenset[str] = frozenset()
    """The serial indices along which it may have to be kept whole."""

    def is_kept(self, serial: str | None, copied: Collection[str]) -> bool:
        if self.copy_of:
            return self.copy_of in copied
        return self.folded is None or serial in self.folded

    def size(self, cut: Schedule, whole: str | None) -> int:
        """Its bytes where indices are cut like this."""
        last = whole if whole in self.lasts else None
        sizes = (each.size if each.name == last else cut.tile(each) for each in self.free)
        return self.bytes * math.prod(sizes)


class BlockFootprint:
    """What a block of a kernel keeps, by any schedule."""

    def __init__(self, kernel: TileKernel, *, wide: bool = False) -> None:
        self._tiles = [*_tiles_of(kernel, wide)]
        self.lasting = {name for one in self._tiles for name in one.lasts}
        """The serial indices along which something may have to be kept whole."""
        self._sizes, self._kept = cache(self._sized), cache(self._keeping)

    def bytes(
        self, tiles: Mapping[str, int], serial: str | None, keeps: bool, copied: tuple[str, ...]
    ) -> int:
        """With copies of these inputs; whole along the index, if a block keeps what lasts."""
        sizes = self._sizes(tuple(tiles.items()), serial if keeps else None)
        return sum(compress(sizes, self._kept(serial, copied)))

    def _sized(self, tiles: tuple[tuple[str, int], ...], whole: str | None) -> list[int]:
        """All bytes of each; whole along an index, where it lasts."""
        cut = Schedule(dict(tiles))
        return [one.size(cut, whole) for one in self._tiles]

    def _keeping(self, serial: str | None, copied: tuple[str, ...]) -> list[bool]:
        return [one.is_kept(serial, copied) for one in self._tiles]


def _tiles_of(kernel: TileKernel, wide: bool) -> Iterator[_BlockTile]:
    """What its stages make, and copies of what they read."""
    widened = {*widenable_tiles(kernel), *kernel.inputs} if wide else set[Buffer]()

    def element(buffer: Buffer) -> int:
        return STORED[(widened_buffer(buffer) if buffer in widened else buffer).dtype][1]

    lasts = {one: tiles_read_later(kernel, one) for one in serial(kernel)}
    passing = fused_epilogues(kernel)
    for stage in kernel.stages:
        if stage.target in passing:
            continue
        folded = frozenset(one.name for one in stage.folded)
        kept = folded if stage.target in kernel.outputs else None
        names = frozenset(one.name for one, found in lasts.items() if stage.target in found)
        yield _BlockTile(stage.free, element(stage.target), kept, lasts=names)
    for buffer in kernel.inputs:
        loads = [load for stage in kernel.stages for load in stage.loads if load.buffer == buffer]
        places = [single_index(position) for load in loads for position in load.at]
        free = tuple(dict.fromkeys(one for one in places if one is not None))
        yield _BlockTile(free, element(buffer), None, buffer.name)
