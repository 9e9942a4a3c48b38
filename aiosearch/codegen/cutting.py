"""A fold of what differs along an index from some place on is cut there, into two without question.

So the product of things side by side is computed as the sum of the products of what is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..tensor.types import DType
from .expressions import applied, of_literals, relocated, within
from .ir import (
    Affine,
    Constant,
    Expression,
    Fold,
    Index,
    Load,
    Operation,
    Round,
    Within,
    index,
    used,
    walk,
)
from .moves import Places
from .positions import ZERO, shifted, substituted
from .reindexing import Draft, Fresh


@dataclass(frozen=True, slots=True)
class Cut:
    """An index, and the first place behind the cut."""

    one: Index
    place: int


def counted(draft: Draft, dtype: DType = DType.F32) -> Draft:
    """Without folds over indices that nothing depends on: how often is enough."""
    seen = set(used(draft.value))
    value = draft.value
    if dtype is DType.I32 and of_literals(value) and not seen >= set(draft.folded):
        value = Round(value, dtype)  # how often it is wraps
    for one in draft.folded:
        if one not in seen and draft.fold is Fold.SUM:
            value = applied(Operation.MULTIPLY, value, Constant(float(one.size)))
            value = applied(Operation.ADD, value, Constant(0.0))  # sums of -0.0 are 0.0
    folded = tuple(one for one in draft.folded if one in seen)
    return replace(draft, value=value, folded=folded, fold=draft.fold if folded else Fold.NONE)


def cut(draft: Draft) -> Cut | None:
    """Where the first question that depends on one index alone is answered."""
    if draft.fold is Fold.NONE:
        return None
    for one in walk(draft.value):
        if isinstance(one, Within):
            for at, low, high in one.limits:
                match at:
                    case Affine(terms=((own, 1),)):
                        for place in (low - at.offset, high - at.offset):
                            if 0 < place < own.size:
                                return Cut(own, place)
    return None


def parts(draft: Draft, place: Cut, fresh: Fresh) -> list[tuple[Draft, Places]]:
    """The two stages, and where what they fill is read at the places of the whole."""
    ends = (0, place.place), (place.place, place.one.size)
    return [_part(draft, place.one, *each, fresh) for each in ends]


def joined(draft: Draft, place: Cut, loads: Sequence[Load]) -> Draft:
    """The stage that puts the parts together."""
    first, second = loads
    value: Expression
    if place.one in draft.folded:
        value = applied(draft.fold.operation, first, second)
    else:
        value = within([(index(place.one), 0, place.place)], first, second)
    return replace(draft, value=value, folded=(), fold=Fold.NONE)


def _part(draft: Draft, one: Index, low: int, high: int, fresh: Fresh) -> tuple[Draft, Places]:
    own = fresh(high - low)
    place = index(own) if own.size > 1 else ZERO
    inside = {one: shifted(place, low)}
    value = relocated(draft.value, lambda at: substituted(at, inside))
    kept = (own,) if own.size > 1 else ()
    folded = tuple(new for old in draft.folded for new in (kept if old == one else (old,)))
    local = [substituted(at, {one: place}) for at in draft.at]
    seen = [substituted(at, {one: index(one, 1, -low)}) for at in draft.at]
    axes = [axis for axis, at in enumerate(local) if at != ZERO]
    part = Draft(
        at=tuple(local[axis] for axis in axes),
        layout=tuple(((axis, 1),) for axis in range(len(axes))),
        pinned=False,
        value=value,
        folded=folded,
        fold=draft.fold if folded else Fold.NONE,
    )
    return part, tuple(seen[axis] for axis in axes)
