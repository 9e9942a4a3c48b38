"""What a block copies for its next tile is brought near while it computes this one.

Its rows lie apart, so that nothing else would know of them. Each block of registers fetches its
share, because whoever asks for much at once waits for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..ir import Buffer, Index, Load, used
from .linear import linear
from .memory import in_a_line
from .registers import Block
from .spots import Places, Spot
from .values import Whole


@dataclass(frozen=True)
class Coming:
    """Of inputs that a block copies tile by tile."""

    serial: Index
    step: int
    """By how much it goes along."""
    copied: Mapping[Buffer, Load]
    """What is read of them, by their copies."""

    def fetch(self, block: Block) -> None:
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

        def turn(at: Whole) -> None:
            places = {**block.places, inner: turns.base + number * share + linear(at)}
            for load in wanted:
                for spot in self._spots(block, load, places):
                    tile.access.fetch(load, spot, nearest=False)

        tile.writer.repeat(0, share, turn)

    def _wanted(self, block: Block) -> Iterator[Load]:
        shape = block.tile.shape
        own, here = {shape.along, shape.inner, self.serial}, {*block.places, shape.inner}
        for one in block.tile.stage.loads:
            found = self.copied.get(one.buffer)
            if found is not None and own <= set(used(found)) <= here:
                yield found

    def _spots(self, block: Block, load: Load, places: Places) -> Iterator[Spot]:
        """One for each line of the row."""
        tile, along = block.tile, block.tile.shape.along
        assert along is not None
        every = in_a_line(tile.lanes, load.buffer.dtype)
        later = {**places, self.serial: places[self.serial] + self.step}
        for vector in range(0, block.vectors, every):
            yield Spot({**later, along: later[along] + vector * tile.lanes})
