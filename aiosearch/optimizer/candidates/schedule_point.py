"""Points of the schedule space as they travel between processes, and the source that each one
gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct

from ...codegen.schedule.plans import ChoiceSelection, ModulePlan, ModulePlans, best_plans
from ...codegen.schedule.space import Point
from ...measure import ArrayType

ScheduleT = TypeVar("ScheduleT")


class SchedulePoint(Struct, frozen=True):
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


class KernelSpace(Protocol):
    """All ways to run one program on one device."""

    def first(self, most: int) -> list[SchedulePoint]:
        """At most so many, best predicted first."""
        ...

    def beside(self, place: SchedulePoint) -> list[SchedulePoint]:
        """Those that differ in one choice."""
        ...

    def source(self, place: SchedulePoint) -> KernelSource:
        """What runs it; raises AiosearchError where there is no such place."""
        ...


@dataclass(frozen=True)
class PlannedModules(Generic[ScheduleT]):
    """The plans of all modules that a program was lowered to, by their places."""

    plans: Sequence[ModulePlans[ScheduleT]]
    selection: ChoiceSelection[ScheduleT]
    """Of a kernel's choices, those that come first."""

    def first(self, most: int) -> list[SchedulePoint]:
        """At most so many, best predicted first, and the first of each module at any rate."""
        ways = [
            [point_of(at, plan) for plan in plans.first(most, self.selection)]
            for at, plans in enumerate(self.plans)
        ]
        return best_plans(ways, most)

    def beside(self, place: SchedulePoint) -> list[SchedulePoint]:
        """Those that differ in one choice."""
        neighbours = self.plans[place.module].beside(place.points)
        return [point_of(place.module, plan) for plan in neighbours]

    def plan(self, place: SchedulePoint) -> ModulePlan[ScheduleT]:
        """Raises IllegalPointError where there is none."""
        return self.plans[place.module].at(place.points)


def point_of(module: int, plan: ModulePlan[Any], parting: tuple[Point, ...] = ()) -> SchedulePoint:
    """Where a plan lies."""
    return SchedulePoint(module, plan.points, plan.parts, parting=parting)
