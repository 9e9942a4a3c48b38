"""Which stages run in one kernel, where the program does not say."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .ir import Buffer, Fold, Stage
from .merging import in_place, merged
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
    stages = merged([*unit.stages, stage])
    if unit.owner is not None or not in_place(stages):
        return False
    own, folds = stages[-1], [one for one in stages if one.fold is not Fold.NONE]
    if own.fold is Fold.NONE and (not folds or set(own.free) <= set(folds[0].free)):
        return True
    return _chained(stages, folds)


def _chained(stages: Sequence[Stage], folds: Sequence[Stage]) -> bool:
    """Whether everything goes along the same rows, and only folds or fills one row."""
    rows = set(folds[0].free) if folds else set(stages[0].free)
    along = {one for fold in folds for one in fold.folded}
    if any(set(fold.free) != rows for fold in folds):
        return False
    if any(not rows <= set(one.free) <= rows | along for one in stages):
        return False
    return math.prod(one.size for one in along) <= _ROW
