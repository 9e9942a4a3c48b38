"""Where a way to run a program as kernels lies among all of them, and what it comes to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct

from ..codegen.parameters import Point
from ..codegen.plans import Plan, Plans, Some, best
from ..measure import ArrayType

ScheduleT = TypeVar("ScheduleT")


class Place(Struct, frozen=True):
    """One of the ways, as it travels between processes."""

    module: int
    """Which of the modules that the program was lowered to."""
    points: tuple[Point, ...]
    """Of its kernels."""
    parts: tuple[float, ...]
    """Seconds that each of them should take."""
    form: int = 0
    """Which program it was made of, where there are several."""
    parting: tuple[Point, ...] = ()
    """How the folds of the module's kernels are shared out, where that is free."""

    @property
    def seconds(self) -> float:
        """What it should take."""
        return sum(self.parts)

    @property
    def key(self) -> tuple[int, int, str]:
        """Says which one it is, whatever it should take."""
        return self.form, self.module, repr((self.parting, self.points))


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


class Kernels(Protocol):
    """All ways to run one program on one device."""

    def first(self, most: int) -> list[Place]:
        """At most so many, best predicted first."""
        ...

    def beside(self, place: Place) -> list[Place]:
        """Those that differ in one choice."""
        ...

    def source(self, place: Place) -> KernelSource:
        """What runs it; raises AiosearchError where there is no such place."""
        ...


@dataclass(frozen=True)
class Planned(Generic[ScheduleT]):
    """The plans of all modules that a program was lowered to, by their places."""

    plans: Sequence[Plans[ScheduleT]]
    some: Some[ScheduleT]
    """Of a kernel's choices, those that come first."""

    def first(self, most: int) -> list[Place]:
        """At most so many, best predicted first, and the first of each module at any rate."""
        ways = [
            [place_of(at, one) for one in own.first(most, self.some)]
            for at, own in enumerate(self.plans)
        ]
        return best(ways, most)

    def beside(self, place: Place) -> list[Place]:
        """Those that differ in one choice."""
        found = self.plans[place.module].beside(place.points)
        return [place_of(place.module, one) for one in found]

    def plan(self, place: Place) -> Plan[ScheduleT]:
        """Raises IllegalPointError where there is none."""
        return self.plans[place.module].at(place.points)


def place_of(module: int, plan: Plan[Any], parting: tuple[Point, ...] = ()) -> Place:
    """Where a plan lies."""
    return Place(module, plan.points, plan.parts, parting=parting)
