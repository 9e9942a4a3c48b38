"""`RecordedExecutor`: an executor whose compilations and races are remembered, and which says what
it is at.

A program asks it what it would ask the executor, in the same order each time, and is answered from
the `WorkRecord` as far as that goes. Runs are not remembered: their outputs are large, and what is
concluded from them is remembered instead (`Entrants`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import Self

import anyio
import msgspec
from msgspec import Struct

from ...measure import Candidate, Compiled, Executor, Failure, Race
from ...measure.candidates import Array
from ...measure.executor import ROUNDS, Inputs
from ...measure.race import LEAST_ROUNDS
from ..outcomes.unfinished_work import WorkKind, WorkRecord, unit_name
from ..progress import ProgressReporter


class _Executable(Struct, frozen=True):
    """What is kept of a `Compiled`: the candidate is the caller's."""

    seconds: float
    executable: bytes
    looped: bytes


class RecordedExecutor:
    """Compiles and times as `executor` does, where `record` does not know the outcome already."""

    def __init__(self, executor: Executor, record: WorkRecord, reporter: ProgressReporter) -> None:
        self._executor = executor
        self._record = record
        self._reporter = reporter
        self._compiling = 0
        self._early: dict[bytes, asyncio.Task[_Executable | Failure]] = {}
        """Compilations that were begun before anyone waits for them, by `unit_name`."""

    @property
    def virtual(self) -> bool:
        return self._executor.virtual

    @property
    def platform(self) -> str:
        return self._executor.platform

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ends compilations that nobody has waited for; leaves the executor open, which is somebody
        else's."""
        early = [*self._early.values()]
        self._early.clear()
        for task in early:
            task.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.gather(*early, return_exceptions=True)

    def begin(self, candidate: Candidate) -> None:
        """Begins to compile a candidate that `compile` will be asked for."""
        unit = unit_name(*compilation(candidate))
        if unit not in self._early:
            self._early[unit] = asyncio.create_task(self._compiled(candidate))

    async def compile(self, candidate: Candidate) -> Compiled | Failure:
        """Compiles a candidate, or takes what it compiled to before."""
        self._compiling += 1
        self._reporter.doing(f"compiling {self._compiling}")
        early = self._early.pop(unit_name(*compilation(candidate)), None)
        try:
            outcome = await (early or self._compiled(candidate))
        finally:
            self._compiling -= 1
        if isinstance(outcome, Failure):
            # It may have been compiled by another name.
            return msgspec.structs.replace(outcome, name=candidate.name)
        return Compiled(candidate, outcome.seconds, outcome.executable, outcome.looped)

    async def _compiled(self, candidate: Candidate) -> _Executable | Failure:
        async def work() -> _Executable | Failure:
            compiled = await self._executor.compile(candidate)
            if isinstance(compiled, Failure):
                return compiled
            return _Executable(compiled.seconds, compiled.executable, compiled.looped)

        parts = compilation(candidate)
        return await self._record.once(WorkKind.COMPILATION, parts, _Executable, work)

    async def run(self, compiled: Compiled, inputs: Inputs) -> tuple[Array, ...] | Failure:
        """Runs a candidate once."""
        self._reporter.doing("checking")
        return await self._executor.run(compiled, inputs)

    async def race(
        self,
        contenders: Sequence[Compiled],
        *,
        seed: int = 0,
        rounds: int = ROUNDS,
        seconds: float | None = None,
        deciding: bool = False,
        least: int = LEAST_ROUNDS,
    ) -> Race:
        """Times candidates in turns, or takes what that gave before."""

        async def work() -> Race:
            return await self._executor.race(
                contenders, seed=seed, rounds=rounds, seconds=seconds, deciding=deciding,
                least=least,
            )  # fmt: skip

        self._reporter.doing(f"racing {len(contenders)}")
        entrants = [run_candidate(compiled) for compiled in contenders]
        parts = entrants, seed, rounds, seconds, deciding, least
        race = await self._record.once(WorkKind.RACE, parts, Race, work, _is_whole)
        names = [compiled.name for compiled in contenders]
        laps = (
            msgspec.structs.replace(lap, name=name)
            for lap, name in zip(race.laps, names, strict=True)
        )
        # What a candidate is called may have changed since: what it is has not.
        return msgspec.structs.replace(race, laps=tuple(laps))

    async def close(self) -> None:
        """Leaves the executor open, which is somebody else's."""


def _is_whole(race: Race) -> bool:
    """Whether nobody failed in it: what is out for a failure may run another time."""
    return all(lap.failure is None for lap in race.laps)


def compilation(candidate: Candidate) -> tuple[object, ...]:
    """All that a compilation depends on, beside the device and the versions of jax."""
    return (
        candidate.source,
        candidate.function,
        candidate.inputs,
        candidate.x64,
        candidate.precision,
        candidate.promotion,
    )


def run_candidate(compiled: Compiled) -> tuple[object, ...]:
    """All that a run depends on, beside the seed: also what its inputs are drawn from."""
    candidate = compiled.candidate
    return (*compilation(candidate), sorted(candidate.draws.items()), sorted(candidate.constants))
