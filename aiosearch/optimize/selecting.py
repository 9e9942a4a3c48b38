"""Which contender wins: compiled, raced, checked on the device, in this order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ..equivalence.floats import FloatEvidence
from ..measure import Candidate, Compiled, Executor, Failure, Race
from ..tensor import Program
from .checking import check
from .contenders import Contender
from .effort import Budget
from .errors import OptimizeError
from .report import Tried
from .types import array_types

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Selection:
    """The winner of a race, which is the original where nothing beat it."""

    winner: Contender
    race: Race
    entrants: tuple[Contender, ...]
    """In the race's order."""
    tried: tuple[Tried, ...]
    floats: FloatEvidence | None = None

    def seconds(self, contender: Contender) -> float:
        lap = self.race.laps[self.entrants.index(contender)]
        return lap.samples[self.race.ways[0]].median()


@dataclass
class Selector:
    """Chooses for one program."""

    executor: Executor
    program: Program
    budget: Budget
    seed: int
    strict: bool
    tell: Tell
    _compiled: dict[Contender, Compiled] = field(default_factory=dict)
    _notes: dict[Contender, str] = field(default_factory=dict)

    async def select(self, contenders: Sequence[Contender]) -> Selection:
        """Races them; raises OptimizeError where the original itself cannot be run."""
        await self._compile(contenders)
        original = contenders[0]
        if original not in self._compiled:
            raise OptimizeError(f"the original does not run: {self._notes[original]}")
        self.tell(f"{len(self._compiled)} of {len(contenders)} compiled; racing")
        entrants, race = await self._race(list(self._compiled), self.budget.rounds // 3)
        finalists = _fastest(entrants, race, self.budget.finalists)
        if len(entrants) > len(finalists):
            self._note_losers(entrants, race)
        self.tell(f"{len(finalists) - 1} in the last race")
        entrants, race = await self._race(finalists, self.budget.rounds)
        winner, floats = await self._winner(entrants, race)
        return Selection(winner, race, entrants, self._tried(contenders, entrants, race), floats)

    async def _compile(self, contenders: Sequence[Contender]) -> None:
        async def one(contender: Contender) -> None:
            types = array_types(self.program)
            candidate = Candidate(
                contender.how, contender.source, contender.function, types, x64=_wide(types)
            )
            found = await self.executor.compile(candidate)
            if isinstance(found, Failure):
                self._notes[contender] = str(found)
            else:
                self._compiled[contender] = found

        async with asyncio.TaskGroup() as group:
            for contender in contenders:
                group.create_task(one(contender))
        order = {contender: place for place, contender in enumerate(contenders)}
        self._compiled = dict(sorted(self._compiled.items(), key=lambda item: order[item[0]]))

    async def _race(
        self, entrants: Sequence[Contender], rounds: int
    ) -> tuple[tuple[Contender, ...], Race]:
        race = await self.executor.race(
            [self._compiled[one] for one in entrants],
            seed=self.seed,
            rounds=rounds,
            seconds=self.budget.race_seconds,
        )
        for contender, lap in zip(entrants, race.laps, strict=True):
            if lap.failure is not None:
                self._notes[contender] = str(lap.failure)
        return tuple(entrants), race

    def _note_losers(self, entrants: Sequence[Contender], race: Race) -> None:
        for place, contender in enumerate(entrants):
            ratio = race.speedup(place)
            if ratio is not None and place:
                self._notes.setdefault(contender, f"{ratio.median:.2f} times in the first race")

    async def _winner(
        self, entrants: Sequence[Contender], race: Race
    ) -> tuple[Contender, FloatEvidence | None]:
        """The fastest that wins and that the device computes as well as the original."""
        original = entrants[0]
        places = [place for place in range(1, len(entrants)) if race.wins(place)]
        places.sort(key=lambda place: -_ratio(race, place))
        for place in places:
            contender = entrants[place]
            self.tell(f"checking {contender.how} on the device")
            floats = await check(
                self.executor,
                self.program,
                self._compiled[original],
                self._compiled[contender],
                seed=self.seed,
                strict=self.strict,
            )
            if floats.outcome == "agree":
                return contender, floats
            self._notes[contender] = f"not as accurate: {floats}"
        return original, None

    def _tried(
        self, contenders: Sequence[Contender], entrants: Sequence[Contender], race: Race
    ) -> tuple[Tried, ...]:
        found = []
        for contender in contenders:
            seconds, speedup = None, None
            if contender in entrants:
                place = entrants.index(contender)
                samples = race.laps[place].samples.get(race.ways[0]) if race.ways else None
                if samples is not None and samples.wall:
                    seconds, speedup = samples.median(), _ratio(race, place)
            found.append(Tried(contender.how, seconds, speedup, self._notes.get(contender, "")))
        return tuple(found)


def _fastest(entrants: Sequence[Contender], race: Race, most: int) -> list[Contender]:
    """The original, and the few that did best."""
    places = [place for place in range(1, len(entrants)) if race.speedup(place) is not None]
    places.sort(key=lambda place: -_ratio(race, place))
    return [entrants[0], *(entrants[place] for place in places[:most])]


def _ratio(race: Race, place: int) -> float:
    ratio = race.speedup(place)
    return ratio.median if ratio is not None else 0.0


def _wide(types: Sequence[object]) -> bool:
    return any(str(one).startswith(("float64", "int64")) for one in types)
