"""The entrants of a race: candidates that compiled and agree with float64 on the device, and why
others are out.

`Entrants` compiles contenders, has them draw the inputs that `find_benchmark_inputs` finds, and
runs the third layer of verification on the real thing: what the device gives, against float64
(by `referee_process`). Every contender that is out has a note, which ends up in the
report.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import version
from itertools import zip_longest
from types import TracebackType
from typing import Self, TypeAlias

import jax
from anyio import to_thread

from ...capture.jax_types import Leaf
from ...equivalence import FloatEvidence, product_unit
from ...measure import Cause, Compiled, Executor, Failure
from ...measure.race import LEAST_ROUNDS
from ...pool import usable_cores
from ...tensor import Program
from ...tensor.files import to_json
from ..candidates.candidate_build import PrepackedInputs, candidate, packer
from ..candidates.generation import CandidateSource
from ..candidates.nan_guard import guard_candidate
from ..effort import NO_DEADLINE, Deadline
from ..errors import OptimizeError
from ..jax_settings import JaxSettings, current_settings
from ..outcomes.report import Tell
from ..outcomes.unfinished_work import WorkKind, WorkRecord
from .benchmark_inputs import BenchmarkInputs, find_benchmark_inputs
from .recorded_executor import run_candidate
from .referee_process import JudgeRequest, Referee
from .selection import RaceResult, describe_objection

GivenInputs: TypeAlias = Callable[[], "Sequence[Leaf] | None"]
"""Computes inputs when they are first wanted; it blocks."""


MEMORY = (
    """ (this process may hold it: set XLA_PYTHON_CLIENT_PREALLOCATE=false before it loads jax)"""
)
"""Added to a failure for lack of memory where jax has a GPU, most of whose memory it takes when it
starts."""


COMPILATION_SHARE = 0.5
"""The share of the seconds that are left in which candidates are compiled, the original aside."""
CHECK_SECONDS = 20.0
"""Seconds that a check on the device may take however late it begins: what has won is worth it."""


@dataclass
class Entrants:
    """The contenders of one program; the first that enters is the original."""

    executor: Executor
    program: Program
    seed: int
    strict: bool
    tell: Tell
    settings: JaxSettings = field(default_factory=current_settings)
    """The settings of jax under which the winner will run."""
    record: WorkRecord = field(default_factory=WorkRecord.nowhere)
    """What was checked before."""
    given: GivenInputs | None = None
    """Gives what the user's arguments come to in this program, if they do."""
    deadline: Deadline = NO_DEADLINE
    """A check that has begun has `CHECK_SECONDS` at any rate, and ends with this."""
    compiled: dict[CandidateSource, Compiled] = field(default_factory=dict)
    """The contenders that are in, compiled, in the order in which they came."""
    notes: dict[CandidateSource, str] = field(default_factory=dict)
    """Why others are out."""
    overflown: dict[CandidateSource, None] = field(default_factory=dict)
    """Contenders that are out for nothing but numbers that are not finite; a `dict` keeps their
    order."""
    inaccurate: set[CandidateSource] = field(default_factory=set)
    """Contenders that are out for what they gave."""
    original: CandidateSource = field(init=False)
    inputs: BenchmarkInputs = field(init=False)
    _prepacked: PrepackedInputs = field(init=False)
    _referee: Referee | None = field(default=None, init=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._referee is not None:
            await self._referee.close()

    async def begin(self, contenders: Sequence[CandidateSource]) -> BenchmarkInputs:
        """Compiles contenders, and has all draw inputs on which the original is finite.

        Raises `OptimizeError` where the original itself cannot be run.
        """
        self.original = contenders[0]
        in_time = self.deadline.part(COMPILATION_SHARE)
        # A few wait at the executor, so that it has always one to compile; the others wait here.
        gate = asyncio.Semaphore(max(2, usable_cores() // 2))

        async def compiled_in_time(contender: CandidateSource) -> None:
            async with gate:
                if contender is not self.original and in_time.passed:
                    self.note([contender], "not compiled: the seconds of this effort are for races")
                else:
                    await self._compile(contender)

        try:
            async with asyncio.TaskGroup() as group:
                for contender in _by_turns(contenders):
                    group.create_task(compiled_in_time(contender))
        except BaseExceptionGroup as errors:
            # One error is enough for a caller, who knows nothing of the group.
            raise errors.exceptions[0] from None
        self._require_original(self.original in self.compiled)
        # They come back in any order, as compilations end: the order of a race must not depend on
        # that.
        self.compiled = {
            contender: self.compiled[contender]
            for contender in contenders
            if contender in self.compiled
        }
        compiled = self.compiled[self.original]
        inputs = await find_benchmark_inputs(self.executor, self.program, compiled, self.seed)
        if isinstance(inputs, Failure):
            self.fails(self.original, inputs)
            raise OptimizeError(self._not_running)
        self.inputs = inputs
        self._prepacked = PrepackedInputs(self.executor, self.program, self.settings, self.seed)
        # A copy: `_set_inputs` takes out those that cannot be given their inputs.
        for contender in list(self.compiled):
            await self._set_inputs(contender)
        return inputs

    async def enter(self, contender: CandidateSource) -> bool:
        """Compiles one contender more; gives whether it compiles, and what it makes beforehand can
        be made."""
        return await self._compile(contender) and await self._set_inputs(contender)

    async def race(
        self,
        entrants: Sequence[CandidateSource],
        rounds: int,
        *,
        seconds: float | None = None,
        seed: int = 0,
        deciding: bool = False,
        least: int = LEAST_ROUNDS,
    ) -> RaceResult:
        """Races entrants, in all ways or in the `deciding` one; whoever fails is out.

        Raises `OptimizeError` where the original fails.
        """
        race = await self.executor.race(
            [self.compiled[entrant] for entrant in entrants],
            seed=self.seed + seed,
            rounds=rounds,
            seconds=seconds,
            deciding=deciding,
            least=least,
        )
        for contender, lap in zip(entrants, race.laps, strict=True):
            if lap.failure is not None:
                self.fails(contender, lap.failure)
        if entrants[0] is self.original:
            self._require_original(race.laps[0].failure is None)
        return RaceResult(tuple(entrants), race)

    async def agreeing(self, contender: CandidateSource) -> FloatEvidence | None:
        """The evidence for a contender on the device; `None` where it is out."""
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
        self._object(contender, floats)
        return None

    async def overflows(self, contender: CandidateSource) -> bool:
        """Whether inputs as large as the original bears them are all that is too much for a
        contender; what is worse than that is left to `agreeing`."""
        if not contender.kernels or contender.watched:
            return False
        try:
            floats = await self._judged(contender, vast=True)
        except OptimizeError:  # the judge's failure, which `agreeing` will tell
            return False
        if isinstance(floats, Failure) or not floats.overflows:
            return False
        self._object(contender, floats)
        return True

    def _object(self, contender: CandidateSource, floats: FloatEvidence) -> None:
        """Takes a contender out that the floats do not speak for."""
        # What only overflows may be right where it does not: watched by `guard_candidate` it may
        # still win.
        if floats.overflows and not contender.watched:
            self.overflown[contender] = None
        else:
            self.inaccurate.add(contender)
        self.is_out(contender, describe_objection(floats))

    def fit(self, contender: CandidateSource) -> CandidateSource:
        """The contender, watched where kernels of an equal form have overflown already."""
        alike = any(
            overflown.form == contender.form for overflown in self.overflown if overflown.kernels
        )
        return guard_candidate(contender, self.program) if alike else contender

    async def instead(self, contender: CandidateSource) -> CandidateSource | None:
        """The contender, watched and entered, where that is all that it lacks; else `None`."""
        if contender not in self.overflown:
            return None
        watched = guard_candidate(contender, self.program)
        return watched if watched in self.compiled or await self.enter(watched) else None

    def fails(self, contender: CandidateSource, failure: Failure) -> None:
        """Takes a contender out for a failure, and says so."""
        reason = str(failure)
        # jax preallocates most of a GPU's memory: a failure of a few megabytes is then this
        # process's doing.
        if failure.cause is Cause.MEMORY and jax.default_backend() != "cpu":
            reason += MEMORY
        self.notes[contender] = reason
        self.tell(reason)

    def is_out(self, contender: CandidateSource, why: str) -> None:
        """Takes a contender out for what it gave, and says so."""
        self.notes[contender] = why
        self.tell(f"{contender.how} is {why}")

    def note(self, contenders: Iterable[CandidateSource], why: str) -> None:
        """Notes why these are out, where nothing is noted yet."""
        for contender in contenders:
            self.notes.setdefault(contender, why)

    async def _compile(self, contender: CandidateSource) -> bool:
        """Compiles a contender; gives whether it is in."""
        compiled = await self.executor.compile(candidate(self.program, contender, self.settings))
        if isinstance(compiled, Failure):
            self.fails(contender, compiled)
            return False
        self.compiled[contender] = compiled
        return True

    async def _set_inputs(self, contender: CandidateSource) -> bool:
        """Sets what a contender runs on: the draws of its inputs, and what it makes of them
        beforehand."""
        before = contender.beforehand
        packed = before.positions if before else ()
        drawing = self.inputs.on(self.compiled[contender], packed)
        constants = await self._prepacked.of(contender, self.inputs.draws)
        if isinstance(constants, Failure):
            del self.compiled[contender]
            self.fails(contender, constants)
            return False
        prepared = replace(
            drawing.candidate, constants={**drawing.candidate.constants, **constants}
        )
        self.compiled[contender] = replace(drawing, candidate=prepared)
        return True

    def _require_original(self, runs: bool) -> None:
        if not runs:
            raise OptimizeError(self._not_running)

    @property
    def _not_running(self) -> str:
        return f"the original does not run: {self.notes[self.original]}"

    async def _checked(self, contender: CandidateSource) -> FloatEvidence | Failure:
        """What the check gives, or gave before an optimization was ended."""
        sides = [run_candidate(self.compiled[side]) for side in (self.original, contender)]
        packed = contender.beforehand and (contender.beforehand.function, contender.source)
        return await self.record.once(
            WorkKind.CHECK,
            (*sides, packed, self.seed, self.strict, version("aiosearch")),
            FloatEvidence,
            partial(self._judged, contender),
        )

    async def _judged(
        self, contender: CandidateSource, *, vast: bool = False
    ) -> FloatEvidence | Failure:
        """What the referee says of a contender, on all inputs or on `vast` ones alone."""
        before = await packer(self.executor, self.program, contender, self.settings)
        if isinstance(before, Failure):
            return before
        sides = self.compiled[self.original], self.compiled[contender]

        async def run(side: int, arrays: Sequence[Leaf]) -> tuple[Leaf, ...] | Failure:
            # The original takes the inputs as they are, the candidate some of them packed.
            if side and before is not None:
                packed = await before.packed(arrays)
                if isinstance(packed, Failure):
                    return packed
                arrays = packed
            return await self.executor.run(sides[side], arrays)

        if self._referee is None:
            self._referee = await self._chosen_referee()
        seconds = max(self.deadline.left, CHECK_SECONDS)
        return await self._referee.judge(run, vast=vast, seconds=seconds)

    async def _chosen_referee(self) -> Referee:
        """The referee of all contenders."""
        text = await to_thread.run_sync(to_json, self.program)
        precision = self.compiled[self.original].candidate.precision
        unit = product_unit(self.executor.platform, precision)
        draws = dict(self.inputs.draws)
        given = None if self.given is None else await to_thread.run_sync(self.given)
        return Referee(JudgeRequest(text, draws, self.seed, self.strict, unit), given)


def _by_turns(contenders: Sequence[CandidateSource]) -> list[CandidateSource]:
    """The original, then kernels and others by turns: where time ends, some of each are there."""
    original, *others = contenders
    kernels = [contender for contender in others if contender.kernels]
    plain = [contender for contender in others if not contender.kernels]
    pairs = zip_longest(kernels, plain)
    return [original, *(contender for pair in pairs for contender in pair if contender is not None)]
