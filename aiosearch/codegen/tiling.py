"""Scratch that some stage reads in tiles is written in tiles, so that both run along the same."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from .expressions import reloaded, relocated
from .ir import Affine, Buffer, Index, Load, Position, Stage, alone
from .moves import Places
from .positions import quotient, remainder, substituted
from .reindexing import Fresh


@dataclass(frozen=True, slots=True)
class _Tiles:
    """An axis of a buffer, and how long its tiles are."""

    buffer: Buffer
    axis: int
    length: int

    @property
    def tiled(self) -> Buffer:
        """The buffer with an axis for the tiles, and one for what is in them."""
        shape, axis = self.buffer.shape, self.axis
        split = (shape[axis] // self.length, self.length)
        return replace(self.buffer, shape=(*shape[:axis], *split, *shape[axis + 1 :]))

    def places(self, at: Places) -> Places:
        own = at[self.axis]
        split = (quotient(own, self.length), remainder(own, self.length))
        return (*at[: self.axis], *split, *at[self.axis + 1 :])


def tiled(stages: Sequence[Stage], fixed: Collection[Buffer], fresh: Fresh) -> list[Stage]:
    """A kernel's stages, with the scratch laid out anew; the `fixed` buffers stay as they are."""
    found, refused = list(stages), set[_Tiles]()
    while tiles := next((t for t in _candidates(found, fixed) if t not in refused), None):
        changed = [_changed(stage, tiles, fresh) for stage in found]
        if all(_plain(stage, tiles.tiled) for stage in changed):
            found = changed
        else:
            refused.add(tiles)
    return found


def _candidates(stages: Sequence[Stage], fixed: Collection[Buffer]) -> Iterator[_Tiles]:
    scratch = {stage.target for stage in stages} - set(fixed)
    for stage in stages:
        for load in (Load(stage.target, stage.at), *stage.loads):
            if load.buffer in scratch:
                for axis, (at, size) in enumerate(zip(load.at, load.buffer.shape, strict=True)):
                    if (length := _length(at, size)) is not None:
                        yield _Tiles(load.buffer, axis, length)


def _length(at: Position, size: int) -> int | None:
    """How long the tiles are, where a place is one of a tile, for all tiles of an axis."""
    match at:
        case Affine(terms=((one, factor), (other, 1))) | Affine(terms=((other, 1), (one, factor))):
            whole = at.offset == 0 and other.size == factor and one.size * factor == size
            return factor if whole else None
    return None


def _changed(stage: Stage, tiles: _Tiles, fresh: Fresh) -> Stage:
    """The stage with the buffer's new layout, and with an index along the old axis in two."""
    seen = [(stage.target, stage.at), *((load.buffer, load.at) for load in stage.loads)]
    along = {alone(at[tiles.axis]) for buffer, at in seen if buffer == tiles.buffer} - {None}
    for one in along:
        assert one is not None
        stage = _halved(stage, one, tiles.length, fresh)
    target = tiles.buffer == stage.target
    return replace(
        stage,
        target=tiles.tiled if target else stage.target,
        at=tiles.places(stage.at) if target else stage.at,
        value=reloaded(stage.value, lambda load: _load(load, tiles)),
    )


def _halved(stage: Stage, one: Index, length: int, fresh: Fresh) -> Stage:
    tile, within = fresh(one.size // length), fresh(length)
    split = {one: Affine(((tile, length), (within, 1)))}

    def change(position: Position) -> Position:
        return substituted(position, split)

    folded = [new for old in stage.folded for new in ((tile, within) if old == one else (old,))]
    at, value = tuple(map(change, stage.at)), relocated(stage.value, change)
    return replace(stage, at=at, value=value, folded=tuple(folded))


def _load(load: Load, tiles: _Tiles) -> Load:
    if load.buffer != tiles.buffer:
        return load
    return Load(tiles.tiled, tiles.places(load.at))


def _plain(stage: Stage, buffer: Buffer) -> bool:
    """Whether a buffer is read at sums of indices only."""
    return all(
        isinstance(at, Affine) for load in stage.loads if load.buffer == buffer for at in load.at
    )
