"""The function as a whole: what is faster alone need not be faster in its place."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import msgspec
import numpy as np
from anyio import to_thread

from ..capture.names import title
from ..measure import ArrayType, Candidate, Compiled, Executor, Failure, Race
from .answers import Answer, Key, Timings
from .effort import Budget, Effort
from .exporting import NAME, exported
from .made_for import settings
from .report import Tell
from .splice.cutting import Cut, is_array
from .splice.pieces import Subject
from .splice.replacing import Packed, Replacement
from .splice.splicing import Spliced

SINGLE = 3
"""How many programs are also tried alone in their places: those that save most."""
AGAIN = 2
"""How often the race is run again, where noise may hide what is faster."""


def alone(cut: Cut) -> bool:
    """Whether the function is one program and nothing else, and so was raced already.

    Then it takes all arrays as arguments: those that were closed over, XLA may prepare itself.
    """
    taken = [piece.inputs for piece in cut.pieces if piece.inputs]
    return len(taken) == 1 and not any(var in cut.flat.constants for var in taken[0])


def whole_key(key: Key, cut: Cut, faster: Mapping[Subject, Answer]) -> Key:
    """Names the function and what is to stand in it, beside the device and versions of a key."""
    texts = [re.sub(r" at 0x[0-9a-f]+", "", str(piece.jaxpr)) for piece in cut.pieces]
    texts += sorted(answer.source for answer in faster.values())
    name = hashlib.blake2b("\0".join(texts).encode(), digest_size=16).hexdigest()
    return msgspec.structs.replace(
        key,
        program=f"whole {name}",
        types=tuple(map(str, _types(cut.avals))),
        constant=tuple(sorted(cut.constant)),
    )


def kept(answer: Answer, faster: Mapping[Subject, Answer]) -> dict[Subject, Answer]:
    """What stands in the function, by what is remembered of it."""
    return {one: found for one, found in faster.items() if found.id in answer.evidence["kept"]}


@dataclass
class WholeRace:
    """Races a function against itself with answers in the places of its programs."""

    executor: Executor
    effort: Effort
    budget: Budget
    seed: int
    tell: Tell

    async def answer(
        self,
        key: Key,
        cut: Cut,
        faster: Mapping[Subject, Answer],
        loaded: Mapping[Subject, Replacement | Packed],
    ) -> Answer | Failure:
        """Which of them stay; a failure where the function as it is cannot be timed elsewhere.

        An arrangement that fails is out alone.
        """
        compiled: list[Compiled] = []
        ids: list[list[str]] = []
        for name, subjects in {"as written": (), **dict(_arrangements(cut, faster))}.items():
            found = await self._compiled(name, cut, {one: loaded[one] for one in subjects})
            if isinstance(found, Failure):
                self.tell(f"as a whole, {found}")
            if isinstance(found, Compiled):
                compiled.append(found)
                ids.append([faster[one].id for one in subjects])
            elif not compiled:
                return found
        race = await self._race(compiled)
        for lap in race.laps:
            if lap.failure is not None:
                self.tell(f"as a whole, {lap.failure}")
        failure = race.laps[0].failure
        return failure or self._answer(key, title(cut.function, None), ids, race)

    async def _compiled(
        self, name: str, cut: Cut, replacements: Mapping[Subject, Replacement | Packed]
    ) -> Compiled | Failure:
        """The function with these in their places, on the arrays that it was traced with."""
        spliced = Spliced(cut, replacements)
        found = await to_thread.run_sync(exported, spliced, settings())
        if isinstance(found, Failure):
            return found
        types = _types([*found.packs, *cut.avals])
        leaves = map(_value, cut.examples, cut.avals)
        given = {at: one for at, one in enumerate([*found.packs, *leaves]) if one is not None}
        return await self.executor.compile(
            Candidate(name, found.source, NAME, types, given, x64=found.x64)
        )

    async def _race(self, compiled: Sequence[Compiled]) -> Race:
        for _ in range(1 + AGAIN):
            race = await self.executor.race(
                compiled,
                seed=self.seed,
                rounds=self.budget.rounds,
                seconds=self.budget.race_seconds,
            )
            if any(race.wins(place) for place in range(1, len(compiled))):
                break
        return race

    def _answer(self, key: Key, name: str, ids: Sequence[Sequence[str]], race: Race) -> Answer:
        winner = _fastest(race)
        ratio = race.speedup(winner)
        assert ratio is not None
        original, found = (race.laps[at].samples[race.ways[0]].median() for at in (0, winner))
        return Answer(
            key,
            f"{name} (whole)",
            "",
            "",
            ("the answers that are kept in it are verified each",),
            Timings(original, original, found, 1 + (race.noise() or 0.0)),
            winner > 0,
            self.effort.value,
            evidence={"speedup": ratio.median, "kept": ids[winner]},
        )


def _arrangements(
    cut: Cut, faster: Mapping[Subject, Answer]
) -> Iterator[tuple[str, frozenset[Subject]]]:
    """What is worth a trial: all that are faster, and the few that save most, each alone."""
    yield "all that are faster", frozenset(faster)
    if len(faster) > 1:
        ordered = sorted(faster, key=lambda subject: -_saved(cut, subject, faster[subject]))
        for place, one in enumerate(ordered[:SINGLE]):
            yield f"only {one.program.name}, {place}", frozenset({one})


def _saved(cut: Cut, subject: Subject, answer: Answer) -> float:
    times = sum(piece.subject == subject for piece in cut.regions)
    return times * (answer.timings.original - answer.timings.answer)


def _fastest(race: Race) -> int:
    """The place of the fastest that beats the original for certain, or the original's."""
    places = [place for place in range(1, len(race.laps)) if race.wins(place)]
    return max(places, key=lambda place: _ratio(race, place), default=0)


def _ratio(race: Race, place: int) -> float:
    ratio = race.speedup(place)
    return ratio.median if ratio is not None else 0.0


def _value(example: Any, aval: Any) -> Any:
    """What a leaf is timed on: its own value as jax takes it; nothing where it stands for one."""
    if isinstance(example, jax.ShapeDtypeStruct):
        return None
    return example if is_array(example) else np.asarray(example, aval.dtype)


def _types(arrays: Sequence[Any]) -> tuple[ArrayType, ...]:
    return tuple(ArrayType(str(one.dtype), tuple(one.shape)) for one in arrays)
