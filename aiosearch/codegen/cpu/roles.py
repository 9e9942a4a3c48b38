"""What the indices of a kernel are to it: which lanes lie along, which rows share, what is cut."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType

from ...tensor.types import DType
from ..ir import Buffer, Fold, Index, Kernel, Load, Stage, alone, indices
from ..native.machine import Machine
from .memory import Storage, bytes_of
from .packed import Layout, Packed
from .products import of_floats
from .ranges import known
from .schedule import blocked, serial
from .shape import Shape, Wishes, shape
from .storages import packed, plain
from .values import Value

_MANY = 16
"""Rows that are worth laying out what they all read."""


@dataclass(frozen=True)
class Roles:
    """Of the stage that does most of the work."""

    stage: Stage
    shapes: Mapping[Stage, Shape]
    """How each stage would lie in registers if nothing were cut; the main one as if inputs were
    laid out, where lanes lie along what it folds otherwise."""
    blocked: tuple[Index, ...]
    serial: tuple[Index, ...]
    work: int
    """Elements that it goes through."""

    @cached_property
    def shape(self) -> Shape:
        """Asked for with every schedule, and a stage is long to look up."""
        return self.shapes[self.stage]

    @property
    def along(self) -> Index | None:
        return self.shape.along

    @property
    def row(self) -> Index | None:
        return self.shape.row


def roles(
    kernel: Kernel, machine: Machine, layouts: Mapping[str, Layout] = MappingProxyType({})
) -> Roles:
    """Where these inputs may be laid out beforehand."""
    main = max(kernel.stages, key=work)
    shapes = {stage: natural(kernel, stage, machine) for stage in kernel.stages}
    if shapes[main].along in main.folded:
        shapes[main] = _upright(kernel, main, machine, layouts) or shapes[main]
    return Roles(main, shapes, blocked(kernel), serial(kernel), work(main))


def _upright(
    kernel: Kernel, main: Stage, machine: Machine, layouts: Mapping[str, Layout]
) -> Shape | None:
    """How it would lie if inputs were laid out: beforehand, or by blocks that serve many rows."""
    beforehand = natural(kernel, main, machine, layouts)
    if beforehand.along not in main.folded:
        return beforehand
    names = [one.name for one in kernel.inputs]
    found = natural(kernel, main, machine, packable(kernel, names, machine, again=True))
    served = found.row is not None and found.row.size >= _MANY and found.along not in main.folded
    return found if served else None


def natural(
    kernel: Kernel,
    stage: Stage,
    machine: Machine,
    layouts: Mapping[str, Layout] = MappingProxyType({}),
) -> Shape:
    """How a stage would lie in registers if nothing were cut, and of its inputs these packed."""
    buffers = (*kernel.inputs, *(one.target for one in kernel.stages))
    null = Value("null", "ptr")
    storages: dict[Buffer, Storage | Packed] = {one: plain(null, one) for one in buffers}
    if stage.folded:
        for one in kernel.inputs:
            if one.name in layouts:
                storages[one] = packed(null, one, replace(layouts[one.name], coded=False))
    ranges = {one: known(one.size) for one in kernel.indices}
    return shape(stage, ranges, storages, machine.width // 4, 32, Wishes())


def work(stage: Stage) -> int:
    return math.prod(one.size for one in (*stage.free, *stage.folded))


def far(stage: Stage, own: Shape, inputs: Iterable[Buffer], l2: int) -> frozenset[str]:
    """The inputs down whose rows a fold goes, and whose matrix is larger than the second cache."""
    along, inner, given = own.along, own.inner, {*inputs}
    if along is None or inner is None or along == inner:
        return frozenset()
    return frozenset(
        load.buffer.name
        for load in stage.loads
        if load.buffer in given
        and load.at
        and alone(load.at[-1]) == along
        and any(inner in set(indices(position)) for position in load.at)
        and bytes_of(load.buffer.dtype, (along.size, inner.size)) > l2
    )


def woven(stage: Stage, own: Shape) -> set[str]:
    """What a matrix unit's tiles can be made of as it lies: its lanes lie side by side."""
    return {load.buffer.name for load in stage.loads if load.at and alone(load.at[-1]) == own.along}


def packable(
    kernel: Kernel, constant: Iterable[str], machine: Machine, *, again: bool = False
) -> dict[str, Layout]:
    """Of constant inputs that one product reads along its lanes: layouts of one vector's width.

    Of a product, one factor at most. Others may read it again only at the same places, if at all.
    """
    names = set(constant)
    loads = [load for stage in kernel.stages for load in stage.loads]
    readers = Counter(load.buffer.name for load in (dict.fromkeys(loads) if again else loads))
    found: dict[str, Layout] = {}
    for stage in kernel.stages:
        if stage.fold is not Fold.SUM or len(stage.folded) != 1:
            continue
        if again and len(set(stage.loads)) == 1:
            continue
        wanted = [load for load in stage.loads if load.buffer.name in names]
        if again:
            wanted = [load for load in wanted if _serves(stage, load)]
        if not again:
            wanted = [load for load in wanted if _is_whole(load)]
        columns = {load: _column(stage, load) for load in wanted if readers[load.buffer.name] == 1}
        wide = [
            (load, one) for load, one in columns.items() if one and one.size >= machine.width // 4
        ]
        if wide:
            load, column = max(wide, key=_preferred(stage, natural(kernel, stage, machine)))
            found[load.buffer.name] = _layout(stage, load, column, machine)
    return found


def codable(kernel: Kernel, layouts: Mapping[str, Layout], machine: Machine) -> dict[str, Index]:
    """Of inputs that are laid out beforehand, those whose panels may be coded: their columns.

    What reads them are products of pairs, whose lanes lie along the columns. Tiles of these have to
    be of whole panels.
    """
    found: dict[str, Index] = {}
    for stage in kernel.stages:
        own = natural(kernel, stage, machine)
        for load in stage.loads:
            layout = layouts.get(load.buffer.name)
            if layout is None or not layout.pairs or machine.width != 64 or own.along is None:
                continue
            along = alone(load.at[layout.column]) == own.along
            if along and own.inner is not None and in_rows(stage, own.inner, {load.buffer.name}):
                found[load.buffer.name] = own.along
    return found


def _preferred(stage: Stage, own: Shape) -> Callable[[tuple[Load, Index]], tuple[bool, bool, int]]:
    """What lies along the lanes anyway, else side by side in what is made, else what is longest."""
    beside = alone(stage.at[-1])
    return lambda pair: (pair[1] == own.along, pair[1] == beside, pair[1].size)


def _column(stage: Stage, load: Load) -> Index | None:
    """The longest index of a factor that the others do not have, where its places are indices."""
    places = [alone(load.at[axis]) for axis in load.moving]
    if None in places or stage.folded[0] not in places or len(set(places)) < len(places):
        return None
    columns = [one for one in stage.free if one in places and not _shared(stage, load, one)]
    return max(columns, key=lambda one: one.size, default=None)


def _is_whole(load: Load) -> bool:
    """Whether it reads more than one place of each axis that has several."""
    return all(size == 1 or axis in load.moving for axis, size in enumerate(load.buffer.shape))


def _layout(stage: Stage, load: Load, column: Index, machine: Machine) -> Layout:
    places = [alone(position) for position in load.at]
    row, wide = places.index(stage.folded[0]), machine.width // 4
    # Two rows at a time are read faster: by one instruction, or widened by one each.
    pairs = load.buffer.dtype is DType.BF16 and of_floats(stage)
    return Layout(row, places.index(column), wide, pairs)


def _shared(stage: Stage, load: Load, index: Index) -> bool:
    """Whether the other factors depend on an index, too."""
    return any(
        index in {one for position in other.at for one in indices(position)}
        for other in stage.loads
        if other != load
    )


def _serves(stage: Stage, load: Load) -> bool:
    """Whether several rows read the same."""
    own = {one for position in load.at for one in indices(position)}
    return any(one.size > 1 for one in stage.free if one not in own)


def in_rows(stage: Stage, inner: Index | None, apart_from: Set[str] = frozenset()) -> bool:
    """Whether a factor's neighbours lie along an index, as products of pairs take them."""
    loads = [one for one in stage.loads if one.buffer.name not in apart_from]
    return any(one.at and inner is not None and alone(one.at[-1]) == inner for one in loads)
