"""What is made of the elements of a fold while they are in registers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ..ir import Buffer, Expression, Fold, Index, Kernel, Load, Stage, indices
from .arithmetic import working
from .packed import Layout


@dataclass(frozen=True)
class Ending:
    """Of one fold; what it is stored as is this value."""

    fold: Load
    """The element, in the value."""
    value: Expression


def with_endings(
    kernel: Kernel, serial: Index | None, panels: Mapping[Buffer, Layout]
) -> tuple[Kernel, dict[Buffer, Ending]]:
    """The kernel with folds that are stored where their one reader goes, as that makes them.

    From then on a stage's loads are only those of its fold: what else the ending loads is not
    among them.
    """
    endings: dict[Buffer, Ending] = {}
    stages = list(kernel.stages)
    for fold in kernel.stages:
        # A reader is the ending of one fold at most; its other operands stay stages.
        reader = _ending(fold, kernel, serial)
        if reader is not None and reader in stages and _in_lanes(fold, panels):
            endings[reader.target] = Ending(Load(fold.target, fold.at), reader.value)
            whole = replace(fold, target=reader.target, at=reader.at)
            stages = [whole if one == reader else one for one in stages if one != fold]
    return replace(kernel, stages=tuple(stages)), endings


def ended(kernel: Kernel) -> set[Buffer]:
    """Folds that are stored as their one reader makes them, if lanes lie so: one of each reader."""
    found: dict[Stage, Buffer] = {}
    for fold in kernel.stages:
        reader = _ending(fold, kernel, None)
        if reader is not None:
            found.setdefault(reader, fold.target)
    return {*found.values()}


def _ending(fold: Stage, kernel: Kernel, serial: Index | None) -> Stage | None:
    """What alone reads a fold, and may be done at once."""
    readers = [one for one in kernel.stages if _reads(one, fold)]
    if len(readers) != 1 or not _ends(readers[0], fold, kernel, serial):
        return None
    return readers[0]


def _reads(stage: Stage, other: Stage) -> bool:
    return any(load.buffer == other.target for load in stage.loads)


def _ends(reader: Stage, fold: Stage, kernel: Kernel, serial: Index | None) -> bool:
    """Whether a stage only changes the elements of a fold, each by itself, and may do so at once.

    It is in a register as its working type, so both have to work in the same. In which pass along
    the serial index a stage runs is seen from its loads, so there an ending may read nothing that
    the kernel makes.
    """
    if fold.fold is Fold.NONE or reader.fold is not Fold.NONE or fold.target in kernel.outputs:
        return False
    others = [one for one in reader.loads if one.buffer != fold.target]
    if serial is not None and (serial in fold.folded or not _given(others, kernel)):
        return False
    elsewhere = any(one.at != fold.at for one in reader.loads if one.buffer == fold.target)
    same = set(reader.free) == set(fold.free) and working(reader) == working(fold)
    alike = reader.accumulated == fold.accumulated
    return same and alike and not elsewhere


def _in_lanes(fold: Stage, panels: Mapping[Buffer, Layout]) -> bool:
    """Whether neighbours of the result are neighbours in a factor, so that lanes lie along them.

    Where lanes lie along what is folded, one element at a time would be changed.
    """
    free = set(fold.free)
    rows = [load.at[_lanes(panels.get(load.buffer))] for load in fold.loads if load.at]
    return any(free & set(indices(position)) for position in rows)


def _lanes(layout: Layout | None) -> int:
    """The axis along which neighbours lie."""
    return -1 if layout is None else layout.column


def _given(loads: Iterable[Load], kernel: Kernel) -> bool:
    """Whether they are there from the beginning, and not made by the kernel."""
    return all(one.buffer in kernel.inputs for one in loads)
