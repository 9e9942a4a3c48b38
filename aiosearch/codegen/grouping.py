"""Which stages run in one kernel, where the program does not say."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence

from ..tensor.types import BYTES
from .ir import Apply, Buffer, Fold, Stage, walk
from .merging import in_place, merged
from .staging import Unit
from .uses import DEAR

_FEW = 4
"""So many operations may be done again for each block of rows that are multiplied."""
_ROW = 1 << 16
"""So many elements of a row, at most, are gone through by several folds of one kernel."""


def grouped(units: Sequence[Unit], outputs: Collection[Buffer]) -> list[Unit]:
    """Units that are one kernel each, in an order in which they can run; some are empty.

    A custom kernel is one, with all its stages. Elsewhere a fold starts a kernel and what is
    computed element by element from it joins it, at the same places. A fold of what an earlier
    kernel computes joins that one too, where all folds in it then have the same free indices, the
    rows, and a row is small: a softmax or a norm is one kernel. And what one sum alone takes, and
    is easily made, more than what it gives and in more bits than what it is made of, is made in its
    kernel, tile by tile: of weights in few bits nobody has to write down all that they stand for.
    """
    found: list[Unit] = []
    where: dict[Buffer, int] = {}
    asked = Counter(buffer for unit in units for buffer in _all_read(unit))
    for unit in units:
        place = max((where.get(b, -1) for s in unit.stages for b in _read(s)), default=-1)
        if unit.owner is None and place >= 0 and _joins(unit.stages[0], found[place]):
            found[place].stages.extend(unit.stages)
        else:
            place = len(found)
            found.append(Unit(unit.owner, list(unit.stages)))
            alone = [one for one in where if asked[one] == 1 and one not in outputs]
            _take_in(found[place], [found[where[one]] for one in alone])
        where.update((stage.target, place) for stage in found[place].stages)
    return found


def _take_in(unit: Unit, makers: Sequence[Unit]) -> None:
    """What makes something for the first stage of a unit, and may as well do so in it."""
    if unit.owner is not None:
        return
    stage = unit.stages[0]
    read = _read(stage)
    for maker in makers:
        if len(maker.stages) == 1 and maker.stages[0].target in read and _serves(maker, stage):
            unit.stages[:0] = maker.stages
            maker.stages.clear()


def _all_read(unit: Unit) -> set[Buffer]:
    return set[Buffer]().union(*map(_read, unit.stages))


def _serves(maker: Unit, stage: Stage) -> bool:
    """Whether what is made, and nothing else with it, may be made where it is summed up."""
    (made,) = maker.stages
    if maker.owner is not None or stage.fold is not Fold.SUM or not in_place(merged([made, stage])):
        return False
    operations = [one.operation for one in walk(made.value) if isinstance(one, Apply)]
    easily = len(operations) <= _FEW and DEAR.isdisjoint(operations)
    more = math.prod(made.target.shape) > math.prod(stage.target.shape)
    most = max(made.loads, key=lambda one: math.prod(one.buffer.shape), default=None)
    wider = most is not None and BYTES[made.target.dtype] > BYTES[most.buffer.dtype]
    return made.fold is Fold.NONE and easily and more and wider


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
