"""The layout of scratch buffers: tiles as their readers take them, and axes in the order of their
loops.

The axes of scratch in the order in which it is gone through: neighbours lie side by side.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ..ir import (
    Affine,
    Buffer,
    BufferLoad,
    KernelStage,
    LoopIndex,
    Position,
    ReductionKind,
    single_index,
)
from ..ir.affine_maps import quotient, remainder, substituted
from ..ir.index_maps import AxisPositions
from ..ir.simplification import map_loads, map_positions
from .reindexing import FreshIndex


@dataclass(frozen=True, slots=True)
class _TiledAxis:
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

    def places(self, at: AxisPositions) -> AxisPositions:
        own = at[self.axis]
        split = (quotient(own, self.length), remainder(own, self.length))
        return (*at[: self.axis], *split, *at[self.axis + 1 :])


def tile_scratch(
    stages: Sequence[KernelStage], fixed: Collection[Buffer], fresh: FreshIndex
) -> list[KernelStage]:
    """A kernel's stages, with the scratch laid out anew; the `fixed` buffers stay as they are."""
    found, refused = list(stages), set[_TiledAxis]()
    while tiles := next((t for t in _candidates(found, fixed) if t not in refused), None):
        changed = [_changed(stage, tiles, fresh) for stage in found]
        if all(_is_read_affinely(stage, tiles.tiled) for stage in changed):
            found = changed
        else:
            refused.add(tiles)
    return found


def _candidates(stages: Sequence[KernelStage], fixed: Collection[Buffer]) -> Iterator[_TiledAxis]:
    scratch = {stage.target for stage in stages} - set(fixed)
    for stage in stages:
        for load in (BufferLoad(stage.target, stage.at), *stage.loads):
            if load.buffer in scratch:
                for axis, (at, size) in enumerate(zip(load.at, load.buffer.shape, strict=True)):
                    if (length := _length(at, size)) is not None:
                        yield _TiledAxis(load.buffer, axis, length)


def _length(at: Position, size: int) -> int | None:
    """How long the tiles are, where a place is one of a tile, for all tiles of an axis."""
    match at:
        case Affine(terms=((one, factor), (other, 1))) | Affine(terms=((other, 1), (one, factor))):
            whole = at.offset == 0 and other.size == factor and one.size * factor == size
            return factor if whole else None
    return None


def _changed(stage: KernelStage, tiles: _TiledAxis, fresh: FreshIndex) -> KernelStage:
    """The stage with the buffer's new layout, and with an index along the old axis in two."""
    seen = [(stage.target, stage.at), *((load.buffer, load.at) for load in stage.loads)]
    along = {single_index(at[tiles.axis]) for buffer, at in seen if buffer == tiles.buffer} - {None}
    for one in along:
        assert one is not None
        stage = _split_index(stage, one, tiles.length, fresh)
    target = tiles.buffer == stage.target
    return replace(
        stage,
        target=tiles.tiled if target else stage.target,
        at=tiles.places(stage.at) if target else stage.at,
        value=map_loads(stage.value, lambda load: _load(load, tiles)),
    )


def _split_index(stage: KernelStage, one: LoopIndex, length: int, fresh: FreshIndex) -> KernelStage:
    tile, within = fresh(one.size // length), fresh(length)
    split = {one: Affine(((tile, length), (within, 1)))}

    def change(position: Position) -> Position:
        return substituted(position, split)

    folded = [new for old in stage.folded for new in ((tile, within) if old == one else (old,))]
    at, value = tuple(map(change, stage.at)), map_positions(stage.value, change)
    return replace(stage, at=at, value=value, folded=tuple(folded))


def _load(load: BufferLoad, tiles: _TiledAxis) -> BufferLoad:
    if load.buffer != tiles.buffer:
        return load
    return BufferLoad(tiles.tiled, tiles.places(load.at))


def _is_read_affinely(stage: KernelStage, buffer: Buffer) -> bool:
    """Whether a buffer is read at sums of indices only."""
    return all(
        isinstance(at, Affine) for load in stage.loads if load.buffer == buffer for at in load.at
    )


@dataclass(frozen=True, slots=True)
class _AxisPermutation:
    """A buffer with its axes in another order."""

    buffer: Buffer
    axes: tuple[int, ...]

    def load(self, load: BufferLoad) -> BufferLoad:
        return BufferLoad(self.buffer, tuple(load.at[axis] for axis in self.axes))


def order_scratch_axes(
    stages: Sequence[KernelStage], fixed: Collection[Buffer]
) -> list[KernelStage]:
    """A kernel's stages, with scratch turned as what reads it runs; the `fixed` buffers stay.

    What is computed element by element from an array of the caller's lies as that does.
    """
    turns: dict[Buffer, _AxisPermutation] = {}
    running: dict[Buffer, list[LoopIndex]] = {}
    for stage in reversed(stages):
        own = [one for at in stage.at if (one := single_index(at)) is not None]
        if stage.target not in fixed and len(own) == len(stage.at):
            wanted = _copied(stage, stages) or running.get(stage.target, own)
            own = sorted(own, key=lambda one: wanted.index(one) if one in wanted else len(wanted))
            turns[stage.target] = _axis_permutation(stage, own)
        for load in stage.loads:
            running.setdefault(load.buffer, [*own, *stage.folded])
    return [_permuted(stage, turns) for stage in stages]


def _copied(stage: KernelStage, stages: Sequence[KernelStage]) -> list[LoopIndex] | None:
    """The indices of an array from outside that has all of a stage's, in its order."""
    scratch = {one.target for one in stages}
    for load in stage.loads if stage.fold is ReductionKind.NONE else ():
        seen = [one for at in load.at if (one := single_index(at)) is not None]
        if load.buffer not in scratch and set(stage.free) <= set(seen):
            return seen
    return None


def _axis_permutation(stage: KernelStage, wanted: Sequence[LoopIndex]) -> _AxisPermutation:
    places = [single_index(at) for at in stage.at]
    axes = tuple(places.index(one) for one in wanted)
    shape = tuple(stage.target.shape[axis] for axis in axes)
    return _AxisPermutation(replace(stage.target, shape=shape), axes)


def _permuted(stage: KernelStage, turns: Mapping[Buffer, _AxisPermutation]) -> KernelStage:
    def change(load: BufferLoad) -> BufferLoad:
        return turns[load.buffer].load(load) if load.buffer in turns else load

    target = change(BufferLoad(stage.target, stage.at))
    value = map_loads(stage.value, change)
    return replace(stage, target=target.buffer, at=target.at, value=value)
