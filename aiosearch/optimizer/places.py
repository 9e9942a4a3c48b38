"""Where a way to run a program as kernels lies among all of them, and what it comes to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from msgspec import Struct

from ..codegen.parameters import Point
from ..measure import ArrayType


class Place(Struct, frozen=True):
    """One of the ways, as it travels between processes."""

    module: int
    """Which of the modules that the program was lowered to."""
    points: tuple[Point, ...]
    """Of its kernels."""
    seconds: float
    """What it should take."""
    form: int = 0
    """Which program it was made of, where there are several."""

    @property
    def key(self) -> tuple[int, int, str]:
        """Says which one it is, whatever it should take."""
        return self.form, self.module, repr(self.points)


@dataclass(frozen=True)
class KernelSource:
    """A source that calls kernels, and what it wants to be made beforehand."""

    how: str
    """In words."""
    seconds: float
    """What it should take."""
    source: str
    function: str
    positions: tuple[int, ...] = ()
    """The inputs that are packed."""
    pack: str = ""
    """The function in the source that packs them."""
    types: tuple[ArrayType, ...] = ()
    """Of what it makes."""


def best(ways: Sequence[Sequence[Place]], most: int) -> list[Place]:
    """Those that should be fastest of all ways, and the first of each at any rate."""
    firsts = [own[0] for own in ways if own]
    others = [one for own in ways for one in own[1:]]
    others.sort(key=lambda one: one.seconds)
    return sorted([*firsts, *others][:most], key=lambda one: one.seconds)


class Kernels(Protocol):
    """All ways to run one program on one device."""

    def first(self, most: int) -> list[Place]:
        """At most so many, best predicted first."""
        ...

    def beside(self, place: Place) -> list[Place]:
        """Those that differ in one choice."""
        ...

    def source(self, place: Place) -> KernelSource:
        """What runs it; raises LookupError where there is no such place."""
        ...
