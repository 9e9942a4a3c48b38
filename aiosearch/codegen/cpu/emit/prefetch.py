"""Prefetch of the next tile's rows while a block computes this one.

Its rows lie apart, so that nothing else would know of them. Each block of registers fetches its
share, because whoever asks for much at once waits for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ...ir import Buffer, BufferLoad, LoopIndex, used_indices
from ...llvm.builder import LlvmInteger
from ...llvm.linear import linear
from ...llvm.memory import vectors_per_cache_line
from .addressing import IndexPlaces, LaneAddress
from .tile import RegisterTile


@dataclass(frozen=True)
class NextTilePrefetch:
    """Of inputs that a block copies tile by tile."""

    serial: LoopIndex
    step: int
    """By how much it goes along."""
    copied: Mapping[Buffer, BufferLoad]
    """What is read of them, by their copies."""

    def fetch(self, block: RegisterTile) -> None:
        """The share of a block of registers, if it reads copies down its rows.

        Rows that are left over fetch nothing. It comes no nearer than the second cache: it is read
        once, when it is copied.
        """
        shape, tile, inner = block.tile.shape, block.tile, block.tile.shape.inner
        wanted = [*self._wanted(block)]
        if not wanted or shape.row is None or inner is None or block.rows != shape.rows:
            return
        own, turns = tile.ranges[shape.row], tile.ranges[inner]
        number, _ = (block.places[shape.row] - own.base).over(block.rows, tile.writer)
        share = -(-turns.largest // max(1, own.largest // block.rows))

        def turn(at: LlvmInteger) -> None:
            places = {**block.places, inner: turns.base + number * share + linear(at)}
            for load in wanted:
                for spot in self._spots(block, load, places):
                    tile.access.fetch(load, spot, nearest=False)

        tile.writer.repeat(0, share, turn)

    def _wanted(self, block: RegisterTile) -> Iterator[BufferLoad]:
        shape = block.tile.shape
        own, here = {shape.along, shape.inner, self.serial}, {*block.places, shape.inner}
        for one in block.tile.stage.loads:
            found = self.copied.get(one.buffer)
            if found is not None and own <= set(used_indices(found)) <= here:
                yield found

    def _spots(
        self, block: RegisterTile, load: BufferLoad, places: IndexPlaces
    ) -> Iterator[LaneAddress]:
        """One for each line of the row."""
        tile, along = block.tile, block.tile.shape.along
        assert along is not None
        every = vectors_per_cache_line(tile.lanes, load.buffer.dtype)
        later = {**places, self.serial: places[self.serial] + self.step}
        for vector in range(0, block.vectors, every):
            yield LaneAddress({**later, along: later[along] + vector * tile.lanes})
