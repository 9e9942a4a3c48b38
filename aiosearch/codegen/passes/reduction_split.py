"""The split of a stage at the place where a condition on one index changes, so that neither part
tests it.

So the product of things side by side is computed as the sum of the products of what is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...tensor.types import DType
from ..ir import (
    Affine,
    BoundedValue,
    BufferLoad,
    Constant,
    Expression,
    LoopIndex,
    Operation,
    ReductionKind,
    Round,
    index,
    used_indices,
    walk,
)
from ..ir.affine_maps import ZERO, shifted, substituted
from ..ir.index_maps import AxisPositions
from ..ir.simplification import bounded, fold_operation, is_made_of_literals, map_positions
from .reindexing import FreshIndex, StageDraft


@dataclass(frozen=True, slots=True)
class IndexCut:
    """An index, and the first place behind the cut."""

    one: LoopIndex
    place: int


def without_unused_reduction_indices(draft: StageDraft, dtype: DType = DType.F32) -> StageDraft:
    """Without folds over indices that nothing depends on: how often is enough."""
    seen = set(used_indices(draft.value))
    value = draft.value
    if dtype is DType.I32 and is_made_of_literals(value) and not seen >= set(draft.folded):
        value = Round(value, dtype)  # how often it is wraps
    for one in draft.folded:
        if one not in seen and draft.fold is ReductionKind.SUM:
            value = fold_operation(Operation.MULTIPLY, value, Constant(float(one.size)))
            value = fold_operation(Operation.ADD, value, Constant(0.0))  # sums of -0.0 are 0.0
    folded = tuple(one for one in draft.folded if one in seen)
    return replace(
        draft, value=value, folded=folded, fold=draft.fold if folded else ReductionKind.NONE
    )


def split_at_condition(draft: StageDraft) -> IndexCut | None:
    """Where the first question that depends on one index alone is answered."""
    if draft.fold is ReductionKind.NONE:
        return None
    for one in walk(draft.value):
        if isinstance(one, BoundedValue):
            for at, low, high in one.limits:
                match at:
                    case Affine(terms=((own, 1),)):
                        for place in (low - at.offset, high - at.offset):
                            if 0 < place < own.size:
                                return IndexCut(own, place)
    return None


def split_stages(
    draft: StageDraft, place: IndexCut, fresh: FreshIndex
) -> list[tuple[StageDraft, AxisPositions]]:
    """The two stages, and where what they fill is read at the places of the whole."""
    ends = (0, place.place), (place.place, place.one.size)
    return [_part(draft, place.one, *each, fresh) for each in ends]


def joining_stage(draft: StageDraft, place: IndexCut, loads: Sequence[BufferLoad]) -> StageDraft:
    """The stage that puts the parts together."""
    first, second = loads
    value: Expression
    if place.one in draft.folded:
        value = fold_operation(draft.fold.operation, first, second)
    else:
        value = bounded([(index(place.one), 0, place.place)], first, second)
    return replace(draft, value=value, folded=(), fold=ReductionKind.NONE)


def _part(
    draft: StageDraft, one: LoopIndex, low: int, high: int, fresh: FreshIndex
) -> tuple[StageDraft, AxisPositions]:
    own = fresh(high - low)
    place = index(own) if own.size > 1 else ZERO
    inside = {one: shifted(place, low)}
    value = map_positions(draft.value, lambda at: substituted(at, inside))
    kept = (own,) if own.size > 1 else ()
    folded = tuple(new for old in draft.folded for new in (kept if old == one else (old,)))
    local = [substituted(at, {one: place}) for at in draft.at]
    seen = [substituted(at, {one: index(one, 1, -low)}) for at in draft.at]
    axes = [axis for axis, at in enumerate(local) if at != ZERO]
    part = StageDraft(
        at=tuple(local[axis] for axis in axes),
        layout=tuple(((axis, 1),) for axis in range(len(axes))),
        pinned=False,
        value=value,
        folded=folded,
        fold=draft.fold if folded else ReductionKind.NONE,
    )
    return part, tuple(seen[axis] for axis in axes)
