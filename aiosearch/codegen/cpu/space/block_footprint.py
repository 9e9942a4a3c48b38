"""How many bytes of tiles a block of a kernel keeps, which have to fit L2.

The constraint `ReductionSpace._fits_l2` asks for every combination of tile sizes, so what does not
depend on the schedule is worked out once per kernel.

Example: the f32 product `X[8, 4096] @ W[4096, 4096]`, with indices i, j and the reduced k. With
tiles j=512 and k=128 and the serial index k, a block keeps its accumulators between tiles of k: 8 *
512 * 4 = 16,384 bytes. With a copy of its tile of W, it keeps 128 * 512 * 4 bytes more, 278,528 in
all. Without a serial index it keeps nothing, as accumulators never leave the registers; inputs that
are not copied stream through and are not counted.
"""

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
    """A tile that a block may keep: the target of a stage, or a copy of an input."""

    free: tuple[LoopIndex, ...]
    """The indices that span the tile."""
    bytes: int
    """Bytes of one element."""
    folded: frozenset[str] | None
    """Names of the indices that the stage reduces, for an output, which is kept only while the
    serial index is among them; `None` for scratch and copies, which are kept by any schedule that
    makes them.
    """
    copy_of: str = ""
    """The input of which this is a copy; empty for the target of a stage."""
    kept_whole_along: frozenset[str] = frozenset()
    """Names of the serial indices along which a later pass reads the tile again, so that
    `Schedule.keeps` makes it as long as the index."""

    def is_kept(self, serial: str | None, copied: Collection[str]) -> bool:
        """Whether a schedule with this serial index and these `copied` inputs keeps the tile."""
        if self.copy_of:
            return self.copy_of in copied
        return self.folded is None or serial in self.folded

    def size(self, cut: Schedule, whole: str | None) -> int:
        """Bytes of the tile under the tile sizes of `cut`, full length along `whole` where a later
        pass needs it."""
        last = whole if whole in self.kept_whole_along else None
        sizes = (index.size if index.name == last else cut.tile(index) for index in self.free)
        return self.bytes * math.prod(sizes)


class BlockFootprint:
    """The bytes that a block of one kernel keeps, for any schedule.

    `wide` counts 16-bit floats as the f32 that `Schedule.wide` makes of them.
    """

    def __init__(self, kernel: TileKernel, *, wide: bool = False) -> None:
        self._tiles = [*_tiles_of(kernel, wide)]
        # Sizes and selection are cached apart: a search asks for few tilings and few selections,
        # but for all combinations of both.
        self.kept_along = {name for tile in self._tiles for name in tile.kept_whole_along}
        """Names of the serial indices along which `Schedule.keeps` makes a difference."""
        self._sizes, self._kept_tiles = cache(self._list_sizes), cache(self._list_kept)

    def bytes(
        self, tiles: Mapping[str, int], serial: str | None, keeps: bool, copied: tuple[str, ...]
    ) -> int:
        """Bytes kept with these tile sizes, serial index and copies of inputs; `keeps` is
        `Schedule.keeps`."""
        sizes = self._sizes(tuple(tiles.items()), serial if keeps else None)
        return sum(compress(sizes, self._kept_tiles(serial, copied)))

    def _list_sizes(self, tiles: tuple[tuple[str, int], ...], whole: str | None) -> list[int]:
        """The bytes of every tile, full length along `whole` where a later pass reads it."""
        cut = Schedule(dict(tiles))
        return [tile.size(cut, whole) for tile in self._tiles]

    def _list_kept(self, serial: str | None, copied: tuple[str, ...]) -> list[bool]:
        """Which of the tiles a schedule with this `serial` index and these copies keeps."""
        return [tile.is_kept(serial, copied) for tile in self._tiles]


def _tiles_of(kernel: TileKernel, wide: bool) -> Iterator[_BlockTile]:
    """Yields the targets of the `kernel`'s stages, and a possible copy of each input."""
    widened = {*widenable_tiles(kernel), *kernel.inputs} if wide else set[Buffer]()

    def element(buffer: Buffer) -> int:
        return STORED[(widened_buffer(buffer) if buffer in widened else buffer).dtype][1]

    read_later = {index: tiles_read_later(kernel, index) for index in serial(kernel)}
    fused = fused_epilogues(kernel)
    # The printer stores a reduction with a fused epilogue straight through its reader, so its own
    # buffer never exists.
    for stage in kernel.stages:
        if stage.target in fused:
            continue
        folded = frozenset(index.name for index in stage.folded)
        reduced_indices = folded if stage.target in kernel.outputs else None
        names = frozenset(
            index.name for index, buffers in read_later.items() if stage.target in buffers
        )
        yield _BlockTile(stage.free, element(stage.target), reduced_indices, kept_whole_along=names)
    for buffer in kernel.inputs:
        loads = [load for stage in kernel.stages for load in stage.loads if load.buffer == buffer]
        places = [single_index(position) for load in loads for position in load.at]
        free = tuple(dict.fromkeys(index for index in places if index is not None))
        yield _BlockTile(free, element(buffer), None, buffer.name)
