"""Plans: one schedule for each kernel of a module, and the neighbours of a plan.

A tuner times plans: it begins with those that `ModulePlans.first` gives, and goes on with
`ModulePlans.beside` of the plans that were fast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeAlias, TypeVar

from ...errors import AiosearchError
from ..ir import Module
from .space import (
    Point,
    ScheduleChoice,
    ScheduleSpace,
    choice_at,
    neighbouring_choices,
    ranked_choices,
)

ScheduleT = TypeVar("ScheduleT")


ChoiceSelection: TypeAlias = Callable[
    [Sequence[ScheduleChoice[ScheduleT]], int], Sequence[ScheduleChoice[ScheduleT]]
]
"""Picks at most so many of `ScheduleChoice`s that come best first."""

ChoiceRanking: TypeAlias = Callable[[ScheduleSpace[ScheduleT]], Sequence[ScheduleChoice[ScheduleT]]]
"""Gives the choices of a space that come best first: `ranked_choices`."""


class Predicted(Protocol):
    """What has a prediction of its time."""

    @property
    def seconds(self) -> float: ...


PredictedT = TypeVar("PredictedT", bound=Predicted)


class IllegalPointError(AiosearchError):
    """Raised for a `Point` at which there is no schedule."""


def best_plans(ways: Sequence[Sequence[PredictedT]], most: int) -> list[PredictedT]:
    """The `most` of all lists that should be fastest, and the first of each list at any rate."""
    firsts = [plans[0] for plans in ways if plans]
    later = sorted((plan for plans in ways for plan in plans[1:]), key=lambda plan: plan.seconds)
    return sorted([*firsts, *later][:most], key=lambda plan: plan.seconds)


@dataclass(frozen=True, eq=False)
class ModulePlan(Generic[ScheduleT]):
    """How each kernel of `module` is to run."""

    module: Module
    choices: tuple[ScheduleChoice[ScheduleT], ...]
    begun: float = 0.0
    """Seconds until a kernel has begun, where no prediction counts them."""

    @property
    def schedules(self) -> Mapping[str, ScheduleT]:
        pairs = zip(self.module.kernels, self.choices, strict=True)
        return {kernel.name: choice.schedule for kernel, choice in pairs}

    @property
    def points(self) -> tuple[Point, ...]:
        return tuple(choice.point for choice in self.choices)

    @property
    def parts(self) -> tuple[float, ...]:
        """Seconds that each kernel should take."""
        return tuple(choice.seconds + self.begun for choice in self.choices)

    @property
    def seconds(self) -> float:
        """Seconds that the module should take: its kernels run one after the other."""
        return sum(self.parts)


@dataclass(frozen=True, eq=False)
class ModulePlans(Generic[ScheduleT]):
    """The plans of one `Module`."""

    module: Module
    spaces: Sequence[ScheduleSpace[ScheduleT]]
    """The schedule space of each kernel."""
    begun: float = 0.0
    ranking: ChoiceRanking[ScheduleT] = ranked_choices
    """Ranks the choices of a space; one that remembers does so once for kernels that are alike."""

    def first(
        self, most: int, select: ChoiceSelection[ScheduleT]
    ) -> Iterator[ModulePlan[ScheduleT]]:
        """The plan of the best choice of each kernel, then of the second best, and so on, at most
        `most`.

        Of a kernel's choices, `select` gives those that come first. There are no plans where
        nothing is to be computed, or nothing fits.
        """
        options = [select(self.ranking(space), most) for space in self.spaces]
        # Rank by rank in place of the product of all choices, which would be exponential in the
        # kernels.
        turns = max(map(len, options), default=0) if all(options) else 0
        for turn in range(min(most, turns)):
            yield self._plan([choices[min(turn, len(choices) - 1)] for choices in options])

    def at(self, points: Sequence[Point]) -> ModulePlan[ScheduleT]:
        """The plan that has `points`; raises `IllegalPointError` where a point is not legal."""
        choices = [choice_at(*pair) for pair in zip(self.spaces, points, strict=True)]
        legal = [choice for choice in choices if choice is not None]
        if len(legal) < len(choices):
            raise IllegalPointError(f"{self.module.name}: no schedule is at {points}")
        return self._plan(legal)

    def beside(self, points: Sequence[Point]) -> Iterator[ModulePlan[ScheduleT]]:
        """The plans in which one kernel's schedule differs from that at `points` in one
        parameter.
        """
        choices = self.at(points).choices
        for at, (space, point) in enumerate(zip(self.spaces, points, strict=True)):
            for neighbour in neighbouring_choices(space, point):
                yield self._plan([*choices[:at], neighbour, *choices[at + 1 :]])

    def _plan(self, choices: Sequence[ScheduleChoice[ScheduleT]]) -> ModulePlan[ScheduleT]:
        return ModulePlan(self.module, tuple(choices), self.begun)
