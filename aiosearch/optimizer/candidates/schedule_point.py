"""Points of the schedule space as they travel between processes, and the source that each one
gives."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct

from ...codegen.schedule.plans import ChoiceSelection, ModulePlan, ModulePlans, best_plans
from ...codegen.schedule.space import Point
from ...measure import ArrayType

ScheduleT = TypeVar("ScheduleT")


class SchedulePoint(Struct, frozen=True):
    """One way to run a program as kernels, as it travels between processes."""

    module: int
    """The index of the module, among those that the program was lowered to."""
    points: tuple[Point, ...]
    """The schedule of each of its kernels."""
    parts: tuple[float, ...]
    """Seconds that each of them is predicted to take."""
    form: int = 0
    """Index of the program it was made of in `_VerifiedRewrites.lowered`."""
    parting: tuple[Point, ...] = ()
    """How the reductions of the module's kernels are parted among blocks, where that is free."""

    @property
    def seconds(self) -> float:
        """What it is predicted to take."""
        return sum(self.parts)

    @property
    def key(self) -> tuple[int, int, str]:
        """Says which point it is, whatever it is predicted to take."""
        return self.form, self.module, repr((self.parting, self.points))


@dataclass(frozen=True)
class KernelSource:
    """A source that calls kernels, and what it wants to be made beforehand."""

    how: str
    """What the kernels are, in words: `one fused kernel, W packed`."""
    seconds: float
    """What it should take."""
    source: str
    function: str
    positions: tuple[int, ...] = ()
    """Positions of the inputs that are packed."""
    pack: str = ""
    """The function in `source` that packs them; empty where nothing is packed."""
    types: tuple[ArrayType, ...] = ()
    """The types of the arrays that `pack` gives."""
    schedule: str = ""
    """The schedule of each kernel, as short as can be: `[m 16, k 256, 4x2, W packed]`."""


class KernelSpace(Protocol):
    """All ways to run one program on one device: `CpuKernels` or `GpuKernels`."""

    def first(self, most: int) -> list[SchedulePoint]:
        """At most `most` points, best predicted first."""
        ...

    def code(self, place: SchedulePoint) -> Hashable:
        """What is equal for points that come to the same code; to be asked of few, as it may have
        to be printed."""
        ...

    def neighbours(self, place: SchedulePoint) -> list[SchedulePoint]:
        """The points that differ from `place` in one choice."""
        ...

    def source(self, place: SchedulePoint) -> KernelSource:
        """What runs a point; raises `AiosearchError` where there is no such point."""
        ...


@dataclass(frozen=True)
class PlannedModules(Generic[ScheduleT]):
    """The plans of all modules that a program was lowered to; `SchedulePoint.module` is an index of
    `plans`."""

    plans: Sequence[ModulePlans[ScheduleT]]
    selection: ChoiceSelection[ScheduleT]
    """Puts those of a kernel's choices first that are worth a look."""

    def first(self, most: int) -> list[SchedulePoint]:
        """At most `most` points, best predicted first, and the first of each module at any rate."""
        ways = [
            [point_of(at, plan) for plan in plans.first(most, self.selection)]
            for at, plans in enumerate(self.plans)
        ]
        return best_plans(ways, most)

    def neighbours(self, place: SchedulePoint) -> list[SchedulePoint]:
        """The points that differ from `place` in one choice."""
        neighbours = self.plans[place.module].beside(place.points)
        return [point_of(place.module, plan) for plan in neighbours]

    def plan(self, place: SchedulePoint) -> ModulePlan[ScheduleT]:
        """The plan of a point; raises `IllegalPointError` where there is none."""
        return self.plans[place.module].at(place.points)


def point_of(module: int, plan: ModulePlan[Any], parting: tuple[Point, ...] = ()) -> SchedulePoint:
    """The `SchedulePoint` of a plan."""
    return SchedulePoint(module, plan.points, plan.parts, parting=parting)
