"""How the axes of two values meet, in a pointwise operator and in a product."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import NamedTuple

from .formal import Axes, overlap
from .forms import Mask


class Meeting(NamedTuple):
    """What comes of two values' axes; None where they do not go together."""

    joined: Axes | None
    """The axes of a pointwise result."""
    across: Axes | None
    """Those of a product."""
    inner: Mask
    """What the product sums over."""


class Meetings:
    """Each looked at once."""

    def __init__(self) -> None:
        self._known: dict[tuple[Axes, Axes], Meeting] = {}
        self._along: dict[Axes, Mask] = {}

    def of(self, one: Axes, two: Axes) -> Meeting:
        found = self._known.get((one, two))
        if found is None:
            found = self._known[one, two] = Meeting(_pointwise(one, two), *_across(one, two))
        return found

    def along(self, axes: Axes) -> Mask:
        """The index parts that a value with these axes lies along."""
        found = self._along.get(axes)
        if found is None:
            found = self._along[axes] = reduce(or_, (piece for axis in axes for piece in axis), 0)
        return found


def _pointwise(one: Axes, two: Axes) -> Axes | None:
    if not one or not two:
        return one or two
    if len(one) != len(two):
        return None
    found = []
    for a, b in zip(one, two, strict=True):
        if a and b and a != b:
            return None
        found.append(a or b)
    return None if overlap(tuple(found)) else tuple(found)


def _across(one: Axes, two: Axes) -> tuple[Axes | None, Mask]:
    if len(one) != len(two) or len(one) < 2 or one[-1] != two[-2]:
        return None, 0
    lead = _pointwise(one[:-2], two[:-2]) if len(one) > 2 else ()
    if lead is None:
        return None, 0
    if overlap((*lead, one[-2], one[-1], two[-1])):
        return None, 0
    return (*lead, one[-2], two[-1]), sum(one[-1])
