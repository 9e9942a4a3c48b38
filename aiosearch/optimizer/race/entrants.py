"""The entrants of a race: candidates that compiled and agree with float64 on the device, and why
others are out.

The third layer of verification on the real thing: what the device gives, against float64.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
from anyio import to_thread

from ...equivalence.floats import FloatEvidence
from ...measure import Cause, Compiled, Executor, Failure
from ...tensor import Program
from ...tensor.files import to_json
from ..candidates.candidate_build import Packer, PrepackedInputs, candidate, packer
from ..candidates.generation import CandidateSource
from ..candidates.nan_guard import guard_candidate
from ..errors import OptimizeError
from ..jax_settings import JaxSettings, current_settings
from ..outcomes.report import Tell
from .benchmark_inputs import BenchmarkInputs, find_benchmark_inputs
from .referee_process import JudgeRequest, judge_outputs
from .selection import RaceResult, describe_objection


async def check(
    executor: Executor,
    program: Program,
    original: Compiled,
    candidate: Compiled,
    inputs: BenchmarkInputs,
    packer: Packer | None = None,
    *,
    seed: int,
    strict: bool,
) -> FloatEvidence | Failure:
    """Runs both on every distribution of inputs; a failure is that of the one that cannot run."""
    sides = original, candidate

    async def run(side: int, arrays: Sequence[Any]) -> tuple[Any, ...] | Failure:
        if packer is not None and sides[side] is candidate:
            packed = await packer.packed(arrays)
            if isinstance(packed, Failure):
                return packed
            arrays = packed
        return await executor.run(sides[side], arrays)

    text = await to_thread.run_sync(to_json, program)
    return await judge_outputs(JudgeRequest(text, dict(inputs.draws), seed, strict), run)


pass


MEMORY = (
    """ (this process may hold it: set XLA_PYTHON_CLIENT_PREALLOCATE=false before it loads jax)"""
)
"""Said where jax has a GPU, most of whose memory it takes when it starts."""


@dataclass
class Entrants:
    """Of one program; the first contender that enters is the original."""

    executor: Executor
    program: Program
    seed: int
    strict: bool
    tell: Tell
    settings: JaxSettings = field(default_factory=current_settings)
    """Under which the winner will run."""
    compiled: dict[CandidateSource, Compiled] = field(default_factory=dict)
    notes: dict[CandidateSource, str] = field(default_factory=dict)
    """Of those that are out."""
    overflown: dict[CandidateSource, None] = field(default_factory=dict)
    """Those of them that are out for nothing but numbers that are not finite."""
    inaccurate: set[CandidateSource] = field(default_factory=set)
    """Those that are out for what they gave."""
    original: CandidateSource = field(init=False)
    inputs: BenchmarkInputs = field(init=False)
    _makings: PrepackedInputs = field(init=False)

    async def begin(self, contenders: Sequence[CandidateSource]) -> BenchmarkInputs:
        """Compiles them, and has all draw inputs on which the original is finite.

        Raises OptimizeError where the original itself cannot be run.
        """
        self.original = contenders[0]
        try:
            async with asyncio.TaskGroup() as group:
                for contender in contenders:
                    group.create_task(self._compile(contender))
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        self._require_original(self.original in self.compiled)
        self.compiled = {one: self.compiled[one] for one in contenders if one in self.compiled}
        compiled = self.compiled[self.original]
        found = await find_benchmark_inputs(self.executor, self.program, compiled, self.seed)
        if isinstance(found, Failure):
            self.fails(self.original, found)
            raise OptimizeError(self._not_running)
        self.inputs = found
        self._makings = PrepackedInputs(self.executor, self.program, self.settings, self.seed)
        for contender in list(self.compiled):
            await self._suit(contender)
        return found

    async def enter(self, contender: CandidateSource) -> bool:
        """One more; says whether it compiles, and what it makes beforehand can be made."""
        return await self._compile(contender) and await self._suit(contender)

    async def race(
        self,
        entrants: Sequence[CandidateSource],
        rounds: int,
        *,
        seconds: float | None = None,
        seed: int = 0,
    ) -> RaceResult:
        """Whoever fails is out; raises OptimizeError where the original does."""
        race = await self.executor.race(
            [self.compiled[one] for one in entrants],
            seed=self.seed + seed,
            rounds=rounds,
            seconds=seconds,
        )
        for contender, lap in zip(entrants, race.laps, strict=True):
            if lap.failure is not None:
                self.fails(contender, lap.failure)
        if entrants[0] is self.original:
            self._require_original(race.laps[0].failure is None)
        return RaceResult(tuple(entrants), race)

    async def agreeing(self, contender: CandidateSource) -> FloatEvidence | None:
        """What speaks for a contender on the device; nothing where it is out."""
        self.tell(f"checking {contender.how} on the device")
        try:
            floats = await self._checked(contender)
        except OptimizeError as error:  # the judge's failure, and nobody else's
            self.is_out(contender, f"not judged: {error}")
            return None
        if isinstance(floats, Failure):
            self.fails(contender, floats)
            return None
        if floats.outcome == "agree" and not floats.unseen:
            return floats
        if floats.overflows and not contender.watched:
            self.overflown[contender] = None
        else:
            self.inaccurate.add(contender)
        self.is_out(contender, describe_objection(floats))
        return None

    def fit(self, contender: CandidateSource) -> CandidateSource:
        """The contender, watched where kernels of the same form have overflown."""
        alike = any(one.form == contender.form for one in self.overflown if one.kernels)
        return guard_candidate(contender, self.program) if alike else contender

    async def instead(self, contender: CandidateSource) -> CandidateSource | None:
        """The same watched, entered, where that is all that it lacks."""
        if contender not in self.overflown:
            return None
        found = guard_candidate(contender, self.program)
        return found if found in self.compiled or await self.enter(found) else None

    def fails(self, contender: CandidateSource, failure: Failure) -> None:
        told = str(failure)
        if failure.cause is Cause.MEMORY and jax.default_backend() != "cpu":
            told += MEMORY
        self.notes[contender] = told
        self.tell(told)

    def is_out(self, contender: CandidateSource, why: str) -> None:
        self.notes[contender] = why
        self.tell(f"{contender.how} is {why}")

    def note(self, contenders: Iterable[CandidateSource], why: str) -> None:
        """Says it of those of whom nothing is said."""
        for contender in contenders:
            self.notes.setdefault(contender, why)

    async def _compile(self, contender: CandidateSource) -> bool:
        found = await self.executor.compile(candidate(self.program, contender, self.settings))
        if isinstance(found, Failure):
            self.fails(contender, found)
            return False
        self.compiled[contender] = found
        return True

    async def _suit(self, contender: CandidateSource) -> bool:
        """Has it run on the inputs that are drawn, and on what it makes of them beforehand."""
        before = contender.beforehand
        packed = before.positions if before else ()
        suited = self.inputs.on(self.compiled[contender], packed)
        made = await self._makings.of(contender, self.inputs.draws)
        if isinstance(made, Failure):
            del self.compiled[contender]
            self.fails(contender, made)
            return False
        one = replace(suited.candidate, constants={**suited.candidate.constants, **made})
        self.compiled[contender] = replace(suited, candidate=one)
        return True

    def _require_original(self, runs: bool) -> None:
        if not runs:
            raise OptimizeError(self._not_running)

    @property
    def _not_running(self) -> str:
        return f"the original does not run: {self.notes[self.original]}"

    async def _checked(self, contender: CandidateSource) -> FloatEvidence | Failure:
        before = await packer(self.executor, self.program, contender, self.settings)
        if isinstance(before, Failure):
            return before
        return await check(
            self.executor,
            self.program,
            self.compiled[self.original],
            self.compiled[contender],
            self.inputs,
            before,
            seed=self.seed,
            strict=self.strict,
        )
