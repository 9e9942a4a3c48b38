"""The layout of scratch buffers: tiles as their readers take them, and axes in the order of their
loops.

Problem: a scratch buffer is written by one stage and read by others of the kernel, so its layout is
free. Read in tiles, or in another order than it is written, it would be strided.

Worked example: a reader of `t[8i + j]` with t of 64 elements makes it `t[8, 8]`, read at `[i, j]`
and written at `[k / 8, k % 8]`, where the writer's index k is split so that no division stays.
`t[i, j]` that is read with j outside i becomes `t[j, i]`.

Invariant: buffers of the caller and of other kernels are `fixed` and keep their layout; the same
elements are read as before. A tiling is refused where some reader would need a division.

Cost: each candidate axis once, over all stages.

See docs/why/kernels.md, "The tile IR".
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
        """The `buffer` with an axis for the tiles, and an axis for the place in a tile."""
        shape, axis = self.buffer.shape, self.axis
        split = (shape[axis] // self.length, self.length)
        return replace(self.buffer, shape=(*shape[:axis], *split, *shape[axis + 1 :]))

    def places(self, at: AxisPositions) -> AxisPositions:
        """The positions in the tiled buffer of the element at `at`."""
        place = at[self.axis]
        split = (quotient(place, self.length), remainder(place, self.length))
        return (*at[: self.axis], *split, *at[self.axis + 1 :])


def tile_scratch(
    stages: Sequence[KernelStage], fixed: Collection[Buffer], fresh: FreshIndex
) -> list[KernelStage]:
    """A kernel's stages, with the scratch laid out anew; the `fixed` buffers stay as they are."""
    tiled_stages, refused = list(stages), set[_TiledAxis]()
    # Every change makes new candidates, as it splits indices of other buffers too. It ends, since
    # each makes an axis shorter, and what was refused is not tried again.
    while tiles := next((t for t in _candidates(tiled_stages, fixed) if t not in refused), None):
        # All stages change together, as writer and readers must agree on the layout.
        changed = [_tiled_stage(stage, tiles, fresh) for stage in tiled_stages]
        if all(_is_read_affinely(stage, tiles.tiled) for stage in changed):
            tiled_stages = changed
        else:
            refused.add(tiles)
    return tiled_stages


def _candidates(stages: Sequence[KernelStage], fixed: Collection[Buffer]) -> Iterator[_TiledAxis]:
    """Axes of buffers that are not `fixed` and that some stage reads or writes tile by tile."""
    # What other kernels or the caller see keeps its shape.
    scratch = {stage.target for stage in stages} - set(fixed)
    for stage in stages:
        for load in (BufferLoad(stage.target, stage.at), *stage.loads):
            if load.buffer in scratch:
                for axis, (at, size) in enumerate(zip(load.at, load.buffer.shape, strict=True)):
                    if (length := _tile_length(at, size)) is not None:
                        yield _TiledAxis(load.buffer, axis, length)


def _tile_length(at: Position, size: int) -> int | None:
    """The length of the tiles of an axis of `size`, where `at` is a place of a tile, for all tiles;
    or None.
    """
    match at:
        case (
            Affine(terms=((tile, factor), (within, 1)))
            | Affine(terms=((within, 1), (tile, factor)))
        ):
            whole = at.offset == 0 and within.size == factor and tile.size * factor == size
            return factor if whole else None
    return None


def _tiled_stage(stage: KernelStage, tiles: _TiledAxis, fresh: FreshIndex) -> KernelStage:
    """The stage with the buffer's new layout, and with an index along the old axis in two."""
    seen = [(stage.target, stage.at), *((load.buffer, load.at) for load in stage.loads)]
    # An index that runs along the untiled axis is split in two first: its position is then a sum of
    # which quotient and remainder by the tile's length are single indices.
    along = {single_index(at[tiles.axis]) for buffer, at in seen if buffer == tiles.buffer} - {None}
    for axis_index in along:
        assert axis_index is not None
        stage = _split_index(stage, axis_index, tiles.length, fresh)
    target = tiles.buffer == stage.target
    return replace(
        stage,
        target=tiles.tiled if target else stage.target,
        at=tiles.places(stage.at) if target else stage.at,
        value=map_loads(stage.value, lambda load: _load(load, tiles)),
    )


def _split_index(
    stage: KernelStage, old_index: LoopIndex, length: int, fresh: FreshIndex
) -> KernelStage:
    """The stage with two indices for one, so that its quotient and remainder by `length` are
    indices.
    """
    tile, within = fresh(old_index.size // length), fresh(length)
    split = {old_index: Affine(((tile, length), (within, 1)))}

    def change(position: Position) -> Position:
        return substituted(position, split)

    folded = [
        new for old in stage.folded for new in ((tile, within) if old == old_index else (old,))
    ]
    at, value = tuple(map(change, stage.at)), map_positions(stage.value, change)
    return replace(stage, at=at, value=value, folded=tuple(folded))


def _load(load: BufferLoad, tiles: _TiledAxis) -> BufferLoad:
    if load.buffer != tiles.buffer:
        return load
    return BufferLoad(tiles.tiled, tiles.places(load.at))


def _is_read_affinely(stage: KernelStage, buffer: Buffer) -> bool:
    """Whether `stage` reads `buffer` at sums of indices only."""
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
    """A kernel's stages, with the axes of scratch in the order in which its readers run; `fixed`
    buffers stay.

    What is computed element by element from an array of the caller has the layout of that array.
    """
    turns: dict[Buffer, _AxisPermutation] = {}
    running: dict[Buffer, list[LoopIndex]] = {}
    # Readers come after writers, so going backwards the order in which a buffer is read is known
    # when its writer is reached.
    for stage in reversed(stages):
        order = [loop_index for at in stage.at if (loop_index := single_index(at)) is not None]
        if stage.target not in fixed and len(order) == len(stage.at):
            preferred = _order_of_copied(stage, stages) or running.get(stage.target, order)
            order = sorted(
                order,
                key=lambda loop_index: (
                    preferred.index(loop_index) if loop_index in preferred else len(preferred)
                ),
            )
            turns[stage.target] = _axis_permutation(stage, order)
        for load in stage.loads:
            # The reader that comes last in the kernel decides, as it is met first here.
            running.setdefault(load.buffer, [*order, *stage.folded])
    return [_permuted(stage, turns) for stage in stages]


def _order_of_copied(stage: KernelStage, stages: Sequence[KernelStage]) -> list[LoopIndex] | None:
    """The indices of an array from outside that has all of a stage's, in its order."""
    scratch = {item.target for item in stages}
    for load in stage.loads if stage.reduction is ReductionKind.NONE else ():
        seen = [item for at in load.at if (item := single_index(at)) is not None]
        # An array that lacks one of the stage's indices says nothing about its place among the
        # axes.
        if load.buffer not in scratch and set(stage.free) <= set(seen):
            return seen
    return None


def _axis_permutation(stage: KernelStage, order: Sequence[LoopIndex]) -> _AxisPermutation:
    """The target of a stage with its axes in the order of these indices."""
    places = [single_index(at) for at in stage.at]
    axes = tuple(places.index(loop_index) for loop_index in order)
    shape = tuple(stage.target.shape[axis] for axis in axes)
    return _AxisPermutation(replace(stage.target, shape=shape), axes)


def _permuted(stage: KernelStage, turns: Mapping[Buffer, _AxisPermutation]) -> KernelStage:
    """`stage` with the target and the loads that `turns` permutes."""

    def change(load: BufferLoad) -> BufferLoad:
        return turns[load.buffer].load(load) if load.buffer in turns else load

    target = change(BufferLoad(stage.target, stage.at))
    value = map_loads(stage.value, change)
    return replace(stage, target=target.buffer, at=target.at, value=value)
