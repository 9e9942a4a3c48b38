"""The split of a stage at the place where a condition on one index changes, so that neither part
tests it.

Problem: a sum over a concatenation tests for each element which side it is on, which no vector
instruction and no matrix product can do.

Worked example: `sum over k of (A[i, k] if k < 16 else B[i, k - 16])` with k below 32 becomes `t0[i]
= sum over k of A[i, k]`, `t1[i] = sum over k of B[i, k]` and `out[i] = add(t0[i], t1[i])`, each sum
over k below 16. So a product with matrices side by side is computed as the sum of the products with
each.

Invariant: the two ranges together are the whole range; a reduction's parts are combined by its own
operation, and a stage that is split along a free index keeps the condition only in the stage that
joins the parts.

Cost: one stage more for each condition; conditions on several indices stay.

See docs/why/kernels.md, "The tile IR".
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

    index: LoopIndex
    place: int


def without_unused_reduction_indices(draft: StageDraft, dtype: DType = DType.F32) -> StageDraft:
    """`draft` without reductions over indices that nothing depends on: a sum becomes a
    multiplication.
    """
    seen = set(used_indices(draft.value))
    value = draft.value
    if dtype is DType.I32 and is_made_of_literals(value) and not seen >= set(draft.folded):
        value = Round(value, dtype)  # the count wraps as int32 does
    # A maximum over an index that nothing depends on is the value itself, so only sums need a
    # factor.
    for reduced in draft.folded:
        if reduced not in seen and draft.reduction is ReductionKind.SUM:
            value = fold_operation(Operation.MULTIPLY, value, Constant(float(reduced.size)))
            value = fold_operation(Operation.ADD, value, Constant(0.0))  # sums of -0.0 are 0.0
    folded = tuple(reduced for reduced in draft.folded if reduced in seen)
    return replace(
        draft,
        value=value,
        folded=folded,
        reduction=draft.reduction if folded else ReductionKind.NONE,
    )


def split_at_condition(draft: StageDraft) -> IndexCut | None:
    """Where the first condition of `draft` that depends on one index alone changes, or None."""
    # Only a reduction is worth splitting: elsewhere the condition is a single select.
    if draft.reduction is ReductionKind.NONE:
        return None
    for part in walk(draft.value):
        if isinstance(part, BoundedValue):
            for at, low, high in part.limits:
                match at:
                    case Affine(terms=((condition_index, 1),)):
                        # Either end of the limits can be the border; one outside of the index's
                        # range never changes the condition.
                        for place in (low - at.offset, high - at.offset):
                            if 0 < place < condition_index.size:
                                return IndexCut(condition_index, place)
    return None


def split_stages(
    draft: StageDraft, cut: IndexCut, fresh: FreshIndex
) -> list[tuple[StageDraft, AxisPositions]]:
    """The drafts of the two parts at `cut`, and the positions at which the whole reads what each
    fills.
    """
    ends = (0, cut.place), (cut.place, cut.index.size)
    return [_part(draft, cut.index, *end, fresh) for end in ends]


def joining_stage(draft: StageDraft, cut: IndexCut, loads: Sequence[BufferLoad]) -> StageDraft:
    """The draft that puts the two parts at `cut` together from their `loads`."""
    first, second = loads
    value: Expression
    # A border inside the reduction leaves two partial results of one element; a border along a free
    # index leaves two ranges of elements, of which one is chosen.
    if cut.index in draft.folded:
        value = fold_operation(draft.reduction.operation, first, second)
    else:
        value = bounded([(index(cut.index), 0, cut.place)], first, second)
    return replace(draft, value=value, folded=(), reduction=ReductionKind.NONE)


def _part(
    draft: StageDraft, split_index: LoopIndex, low: int, high: int, fresh: FreshIndex
) -> tuple[StageDraft, AxisPositions]:
    """The draft for index values from `low` to `high`, and the positions at which the whole reads
    it.
    """
    part_index = fresh(high - low)
    # A part of a single value needs no index, nor an axis of its buffer.
    place = index(part_index) if part_index.size > 1 else ZERO
    # In the part, the index is its new index plus `low`: conditions of the whole simplify to true
    # or false.
    inside = {split_index: shifted(place, low)}
    value = map_positions(draft.value, lambda at: substituted(at, inside))
    part_indices = (part_index,) if part_index.size > 1 else ()
    folded = tuple(
        new for old in draft.folded for new in (part_indices if old == split_index else (old,))
    )
    local = [substituted(at, {split_index: place}) for at in draft.at]
    # The whole reads the part at positions relative to its beginning.
    seen = [substituted(at, {split_index: index(split_index, 1, -low)}) for at in draft.at]
    # Axes of a single value are dropped, so that the buffer of a part has no axis of size one.
    axes = [axis for axis, at in enumerate(local) if at != ZERO]
    part = StageDraft(
        at=tuple(local[axis] for axis in axes),
        layout=tuple(((axis, 1),) for axis in range(len(axes))),
        pinned=False,
        value=value,
        folded=folded,
        reduction=draft.reduction if folded else ReductionKind.NONE,
    )
    return part, tuple(seen[axis] for axis in axes)
