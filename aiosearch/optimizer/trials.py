"""Trials of kernels beside those of a first race: each is raced against the best of these."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ..measure import Compiled, Executor, Failure
from ..tensor import Program
from .contenders import Contender
from .effort import Budget
from .entering import candidate
from .errors import OptimizeError
from .places import Place
from .settings import Settings
from .suiting import Suited
from .tuning import tuned

_ROUNDS = 7


class Maker(Protocol):
    """Knows all kernels of a program, and makes those that are wanted."""

    async def beside(self, place: Place) -> Sequence[Place]:
        """The kernels that differ in one choice from others."""
        ...

    async def made(self, place: Place) -> Contender:
        """A contender of these kernels; raises OptimizeError where there is none."""
        ...


@dataclass
class Trials:
    """One after the other, as an executor comes to them."""

    executor: Executor
    program: Program
    settings: Settings
    inputs: Suited
    maker: Maker
    best: Compiled
    """What all others are raced against."""
    seconds: float
    """What that takes."""
    fails: Callable[[Contender, Failure], None]
    compiled: dict[Contender, Compiled] = field(default_factory=dict)
    """Those that were tried and could be compiled."""
    _made: dict[Place, Contender] = field(default_factory=dict)

    async def run(self, known: Mapping[Contender, float], budget: Budget) -> dict[Contender, float]:
        """What kernels near the known ones take, the fastest first."""
        places = {one.place: taken for one, taken in known.items() if one.place is not None}
        found = await tuned(
            places, self.maker.beside, self._time, budget.trials, budget.trial_seconds
        )
        return {self._made[one.place]: one.seconds for one in found}

    async def _time(self, place: Place) -> float | None:
        """What these kernels take; nothing where they do not run."""
        try:
            contender = await self.maker.made(place)
        except OptimizeError:  # no legal choice for the printer
            return None
        self._made[place] = contender
        compiled = await self._compiled(contender)
        if isinstance(compiled, Failure):
            self.fails(contender, compiled)
            return None
        self.compiled[contender] = compiled
        race = await self.executor.race([self.best, compiled], rounds=_ROUNDS)
        ratio = race.speedup(1)
        if ratio is not None:
            return self.seconds / ratio.median
        if race.laps[1].failure is not None:
            self.fails(contender, race.laps[1].failure)
        return None

    async def _compiled(self, contender: Contender) -> Compiled | Failure:
        found = await self.executor.compile(candidate(self.program, contender, self.settings))
        if isinstance(found, Failure):
            return found
        before = contender.beforehand
        return self.inputs.on(found, before.positions if before else ())
