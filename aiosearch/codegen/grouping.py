"""Which stages run in one kernel, where the program does not say."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .ir import Buffer, Fold, Stage, alone
from .merging import merged
from .staging import Unit

_ROW = 1 << 16
"""So many elements of a row, at most, are gone through by several folds of one kernel."""


def grouped(units: Sequence[Unit]) -> list[Unit]:
    """Units that are one kernel each, in an order in which they can run.

    A custom kernel is one, with all its stages. Elsewhere a fold starts a kernel and what is
    computed element by element from it joins it, at the same places. A fold of what an earlier
    kernel computes joins that one too, where all folds in it then have the same free indices, the
    rows, and a row is small: a softmax or a norm is one kernel.
    """
    found: list[Unit] = []
    where: dict[Buffer, int] = {}
    for unit in units:
        place = max((where.get(b, -1) for s in unit.stages for b in _read(s)), default=-1)
        if unit.owner is None and place >= 0 and _joins(unit.stages[0], found[place]):
            found[place].stages.extend(unit.stages)
        else:
            place = len(found)
            found.append(Unit(unit.owner, list(unit.stages)))
        where.update((stage.target, place) for stage in unit.stages)
    return found


def _read(stage: Stage) -> set[Buffer]:
    return {load.buffer for load in stage.loads}


def _joins(stage: Stage, unit: Unit) -> bool:
    if unit.owner is not None or not _plainly(stage, unit):
        return False
    *others, own = merged([*unit.stages, stage])
    folds = [one for one in (*others, own) if one.fold is not Fold.NONE]
    rows = set(folds[0].free) if folds else set(own.free)
    if own.fold is Fold.NONE and set(own.free) <= rows:
        return True
    return _chained([*others, own], folds)


def _plainly(stage: Stage, unit: Unit) -> bool:
    """Whether what it reads of others is read along whole axes, one index for each."""
    written = {one.target: one for one in unit.stages}
    for load in stage.loads:
        if load.buffer in written:
            bare = [alone(at) for at in (*load.at, *written[load.buffer].at)]
            if any(
                one is None and size > 1
                for one, size in zip(bare, load.buffer.shape * 2, strict=True)
            ):
                return False
    return True


def _chained(stages: Sequence[Stage], folds: Sequence[Stage]) -> bool:
    """Whether everything goes along the same rows, and only folds or fills one row."""
    rows = set(folds[0].free) if folds else set(stages[0].free)
    along = {one for fold in folds for one in fold.folded}
    if any(set(fold.free) != rows for fold in folds):
        return False
    if any(not rows <= set(one.free) <= rows | along for one in stages):
        return False
    return math.prod(one.size for one in along) <= _ROW
