"""Prefetch of the next serial tile's rows while a block computes this one.

Rows of an unpacked matrix are far apart, so a hardware prefetcher does not find the next tile. Each
register tile prefetches its share: whoever asks for many lines at once has to wait for a free line
fill buffer.

Example: tiles of 128 rows, 16 register tiles of rows per serial tile: each prefetches 8 rows, as
wide as its own columns.
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
    """Prefetches of the inputs that a block packs tile by tile."""

    serial: LoopIndex
    """The serial index."""
    step: int
    """The length of a serial tile."""
    copied: Mapping[Buffer, BufferLoad]
    """The load that each copy makes, by the copy."""

    def fetch(self, block: RegisterTile) -> None:
        """Prints the prefetches of a register tile, if it reads copies row by row.

        Register tiles of remaining rows prefetch nothing. Lines go to L2 only: they are read once,
        when they are copied.
        """
        shape, tile, inner = block.tile.shape, block.tile, block.tile.shape.inner
        loads = [*self._copied_loads(block)]
        if not loads or shape.row is None or inner is None or block.rows != shape.rows:
            return
        rows, turns = tile.ranges[shape.row], tile.ranges[inner]
        # The register tile's number along the rows says which share of the next tile is its own.
        number, _ = (block.places[shape.row] - rows.base).divmod(block.rows, tile.writer)
        # Rounded up, so that all register tiles together cover the tile.
        share = -(-turns.largest // max(1, rows.largest // block.rows))

        def turn(at: LlvmInteger) -> None:
            places = {**block.places, inner: turns.base + number * share + linear(at)}
            for load in loads:
                for spot in self._spots(block, load, places):
                    tile.access.fetch(load, spot, to_l1=False)

        tile.writer.repeat(0, share, turn)

    def _copied_loads(self, block: RegisterTile) -> Iterator[BufferLoad]:
        """Yields the loads of the inputs whose copies the register tile reads."""
        shape = block.tile.shape
        required, here = {shape.along, shape.inner, self.serial}, {*block.places, shape.inner}
        for load in block.tile.stage.loads:
            source = self.copied.get(load.buffer)
            if source is not None and required <= set(used_indices(source)) <= here:
                yield source

    def _spots(
        self, block: RegisterTile, load: BufferLoad, places: IndexPlaces
    ) -> Iterator[LaneAddress]:
        """Yields an address in each cache line of the row."""
        tile, along = block.tile, block.tile.shape.along
        assert along is not None
        every = vectors_per_cache_line(tile.lanes, load.buffer.dtype)
        later = {**places, self.serial: places[self.serial] + self.step}
        for vector in range(0, block.vectors, every):
            yield LaneAddress({**later, along: later[along] + vector * tile.lanes})
