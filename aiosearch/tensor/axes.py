"""Axes with labels: digits side by side, each with a label that may meet others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from .sizes import Dim, quotient


class Label:
    """The label of an axis, perhaps not known yet. Labels that meet become one."""

    __slots__ = ("_same_as", "name", "origin")

    def __init__(self, name: str | None = None, origin: str = "") -> None:
        self.name = name
        """Labels with different names cannot meet."""
        self.origin = origin
        self._same_as: Label | None = None

    def root(self) -> Label:
        label = self
        while label._same_as is not None:
            label = label._same_as
        return label

    def meet(self, other: Label) -> bool:
        """Makes two labels one; False where they have different names."""
        mine, theirs = self.root(), other.root()
        if mine is theirs:
            return True
        if mine.name and theirs.name and mine.name != theirs.name:
            return False
        if theirs.name and not mine.name:
            mine, theirs = theirs, mine
        theirs._same_as = mine
        mine.origin = mine.origin or theirs.origin
        return True

    def __str__(self) -> str:
        root = self.root()
        if self.origin and root.name and not self.name:
            return f"{self.origin} ({root.origin})"
        return self.origin or root.origin or "an axis"


@dataclass(frozen=True, slots=True)
class Joined:
    """The label of an axis that was put together end to end: each part and its length."""

    parts: tuple[Axis, ...]

    def __str__(self) -> str:
        return " + ".join("·".join(str(label) for label, _ in part.digits) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Axis:
    size: Dim
    digits: Digits
    """Outermost first; an axis of size one has none."""


Labelled: TypeAlias = tuple[Axis, ...]
Digit: TypeAlias = Label | Joined
Digits: TypeAlias = tuple[tuple[Digit, Dim], ...]
Pair: TypeAlias = tuple[Digit, Digit]

ONE = Axis(1, ())


class ClashError(Exception):
    """Two labels that cannot meet, and the axis where they do (None where it is contracted)."""

    def __init__(self, axis: int | None, one: object, two: object) -> None:
        super().__init__(axis, one, two)
        self.axis, self.one, self.two = axis, one, two


def new_axis(size: Dim, label: Label | None = None) -> Axis:
    return ONE if size == 1 else Axis(size, ((label or Label(), size),))


def meet(one: Axis, two: Axis, where: int | None) -> Axis:
    """Two axes that are walked together; an axis of size one goes with any."""
    if one.size == 1 or two.size == 1:
        return two if one.size == 1 else one
    pairs = list(_aligned(one.digits, two.digits))
    told = [_partners(pairs, side) for side in (0, 1)]
    for a, b in pairs:
        if isinstance(a, Joined) or isinstance(b, Joined):
            _meet_parts(a, b, where)
        elif all(
            label.root().name or len(partners[label]) == 1
            for label, partners in zip((a, b), told, strict=True)
        ) and not a.meet(b):
            raise ClashError(where, a, b)
    return one if len(one.digits) >= len(two.digits) else two


def _partners(pairs: Sequence[Pair], side: int) -> dict[Digit, set[Digit]]:
    """What each label of one side meets: an open one that meets several is the product of them."""
    found: dict[Digit, set[Digit]] = {}
    for pair in pairs:
        other = pair[1 - side]
        root = other.root() if isinstance(other, Label) else other
        found.setdefault(pair[side], set()).add(root)
    return found


def _aligned(ours: Digits, theirs: Digits) -> Iterator[Pair]:
    """The labels that meet, digit by digit from the outermost, as far as their sizes agree."""
    left, right = list(reversed(ours)), list(reversed(theirs))
    while left and right:
        (one, m), (two, n) = left.pop(), right.pop()
        if m != n:
            more, less = quotient(m, n), quotient(n, m)
            if more is not None:
                left.append((one, more))
            elif less is not None:
                right.append((two, less))
            else:
                return
        yield one, two


def _meet_parts(one: Digit, two: Digit, where: int | None) -> None:
    """Axes put together end to end meet part by part, where the parts are as long."""
    if not isinstance(one, Joined) or not isinstance(two, Joined):
        return
    if [part.size for part in one.parts] == [part.size for part in two.parts]:
        for ours, theirs in zip(one.parts, two.parts, strict=True):
            meet(ours, theirs, where)


def taken(digits: Digits, size: Dim) -> tuple[Axis, Digits]:
    """The outermost digits that make up an axis of this size, and the rest."""
    found: list[tuple[Digit, Dim]] = []
    rest, need = list(digits), size
    while need != 1 and rest:
        label, own = rest.pop(0)
        left, more = quotient(need, own), quotient(own, need)
        if left is not None:
            need = left
        elif more is not None and isinstance(label, Label):
            rest.insert(0, (label, more))
            own, need = need, 1
        else:
            break
        if found and _same(found[-1][0], label):
            own = own * found.pop()[1]
        found.append((label, own))
    return (Axis(size, tuple(found)), tuple(rest)) if need == 1 else (new_axis(size), ())


def _same(one: Digit, two: Digit) -> bool:
    return isinstance(one, Label) and isinstance(two, Label) and one.root() is two.root()


def resized(axis: Axis, size: Dim) -> Axis:
    """More or fewer of the same elements: a label stays, a product does not."""
    if axis.size == size:
        return axis
    label = axis.digits[0][0] if len(axis.digits) == 1 else None
    return new_axis(size, label if isinstance(label, Label) else None)


def part(axis: Axis, start: Dim, stop: Dim) -> Axis:
    """A stretch of an axis: of one that was put together, the part that lies there."""
    whole = axis.digits[0][0] if len(axis.digits) == 1 else None
    if isinstance(whole, Joined):
        begin: Dim = 0
        for own in whole.parts:
            if (begin, begin + own.size) == (start, stop):
                return own
            begin = begin + own.size
    return resized(axis, stop - start)


def joined(parts: Sequence[Axis]) -> Axis:
    size: Dim = 0
    for part in parts:
        size = size + part.size
    labels = [part.digits[0][0] for part in parts if len(part.digits) == 1]
    if len(labels) == len(parts) and all(_same(labels[0], label) for label in labels):
        return resized(parts[0], size)
    return Axis(size, ((Joined(tuple(parts)), size),))
