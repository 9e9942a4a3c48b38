"""The answer for each program of one `optimize` call, by one `EffortStep` after the other: looked
up in the results store, or else generated, raced and stored.

`AnswerFinder` asks three questions, each with a `Key` of its own: which source is the fastest for a
program (`answer`), which answers pay in the function as a whole (`whole`), and whether the drop-in
pays where it is called (`as_called`). What noise left open is stored with its best guesses, which
are raced again the next time: that takes seconds, where a search takes a minute.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from types import TracebackType

import jax
import jax.numpy as jnp
import msgspec
from anyio import to_thread

from ..capture.jax_types import Leaf, PyTree
from ..capture.names import title
from ..codegen.native import NativeError, embedded_programs, llvm_library, register_program
from ..equivalence import FloatEvidence
from ..measure import ArrayType, Executor, Failure, JaxExecutor
from ..measure.ratios import LOUD
from ..pool import usable_cores
from ..tensor import Program
from ..tensor.files import from_json, to_json
from ..tensor.text import write
from .array_types import array_types
from .candidates.candidate_build import candidate
from .candidates.generation import (
    CandidateQuestion,
    CandidateSet,
    CandidateSource,
    HearCandidate,
)
from .candidates.generation_process import (
    GenerationProcess,
    NeighboursReply,
    SourceReply,
    generation_process,
)
from .candidates.gpu_kernels import describe_missing_kernels
from .candidates.jax_source import merged
from .candidates.schedule_point import SchedulePoint
from .device_kind import (
    described_gpu,
    device_kind,
    gpu_units,
    has_mosaic,
    undescribed_reason,
)
from .effort import NO_DEADLINE, UNFINISHED, Budget, Deadline, EffortStep, named_step
from .handback.optimized import Optimized
from .jax_settings import JaxSettings
from .outcomes.answer import Answer, Key, Packing, Timings, canonical_digest
from .outcomes.report import WHOLE, Found, Tell, WholeFunctionResult, times_by_mode
from .outcomes.results import Results
from .outcomes.roofline import work
from .outcomes.unfinished_work import WorkKind, WorkRecord, WorkStore
from .progress import ProgressReporter
from .race.as_called import LONGEST, RERUNS, AsCalledRace, AsCalledTimes, is_quiet
from .race.entrants import GivenInputs
from .race.recorded_executor import RecordedExecutor
from .race.selection import Selection, decoded_guesses, encoded_guesses
from .race.selector import Selector
from .race.whole_function import (
    WholeRace,
    called_answer,
    called_key,
    confirmed,
    whole_key,
)
from .trace.pieces import Subject
from .trace.region_arguments import RegionArguments
from .trace.splice import Packed, Replacement
from .trace.traced import CutFunction

GENERATION_SHARE = 0.4
"""The share of a program's seconds in which candidates are made; the others are for races."""
PLAIN = "plain JAX"
"""Among `Key.settings` where machine code of ours is no answer."""


@dataclass
class AnswerFinder:
    """Answers for one program after the other; an executor is started only to time something.

    What was found before with less effort is searched again.
    """

    platform: str
    seed: int
    strict: bool
    kernels: bool
    """Whether machine code of ours may be the answer."""
    store: Results
    executor: Executor | None
    tell: Tell
    settings: JaxSettings
    """The settings of jax under which the answers will run."""
    reporter: ProgressReporter = field(default_factory=ProgressReporter)
    arguments: RegionArguments | None = field(default=None, init=False)
    """What the programs are given where the function is called with the user's arguments."""
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    _generation: GenerationProcess | None = None
    _work: WorkStore = field(init=False)
    """What was done for answers that are not there yet, so that it need not be done again."""
    _calls: dict[Key, Answer] = field(default_factory=dict)
    """What was called for this search; what is in doubt is called again by the next one only."""

    async def __aenter__(self) -> AnswerFinder:
        self._work = WorkStore(self.store.path)
        self._stack.callback(self._work.close)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    async def earlier(self, subject: Subject) -> Found | None:
        """What was found for a program by an earlier call, with whatever effort, if it runs."""
        if lack := self._lack():
            self.tell(describe_missing_kernels(lack))
        key, program = await to_thread.run_sync(self._key, subject), subject.program
        earlier = await to_thread.run_sync(self.store.find, key)
        if earlier is None:
            return None
        why = await to_thread.run_sync(why_unloadable, earlier)
        if why:
            self.tell(f"{program.name}: what was found before does not run here: {why}")
            return None
        await self._named(earlier, program.name)
        return Found.before(earlier, program.name)

    async def answer(
        self,
        subject: Subject,
        step: EffortStep,
        best: Found | None,
        *,
        last: bool,
        deadline: Deadline = NO_DEADLINE,
    ) -> Found:
        """The answer for a program by a search of its own; `best` is the best so far, and `last`
        says whether this is the last step. Raises `OptimizeError` where the program itself does not
        run."""
        key, program = await to_thread.run_sync(self._key, subject), subject.program
        question = await to_thread.run_sync(self._question, subject, step.budget)
        record = WorkRecord(self._work, key.digest)
        generator = _RecordedGenerator(record, program.name, self.tell, self.reporter)
        generator.deadline = deadline.part(GENERATION_SHARE)
        async with AsyncExitStack() as stack:
            executor, tried = await self._begun(generator, question, program, stack)
            contenders = await _with_leader(record, tried.contenders)
            count = len(contenders)
            self.tell(f"{program.name}: {count} way{'s' * (count != 1)} to write it")
            selector = Selector(
                executor, program, step.budget, self.seed, self.strict, self.tell, self.settings,
                generator, record, self._given(subject), deadline,
            )  # fmt: skip
            selection = await selector.select(contenders)
        if last and selection.in_doubt:
            # The next call times again, on a machine that should be quieter.
            await record.forget([WorkKind.RACE])
        # Noise hides what is faster, and does not speak against what was verified before.
        if selection.in_doubt and best is not None and best.answer.faster:
            return best
        await record.keep(WorkKind.CANDIDATES, _LEADER, selection.winner)
        answer = await to_thread.run_sync(self._answered, key, program.name, selection, step.name)
        # An answer with more effort takes the place of the earlier one, and keeps the names that it
        # went by.
        answer = answer.also(*best.answer.names) if best is not None else answer
        if answer.faster or step.name != UNFINISHED:
            await to_thread.run_sync(self.store.keep, answer)
            if last:
                await record.forget(_TIMED if answer.guesses else [*WorkKind])
        return Found(answer, False, selection.tried, selection.in_doubt)

    async def raced_again(
        self,
        subject: Subject,
        step: EffortStep,
        earlier: Answer,
        deadline: Deadline = NO_DEADLINE,
    ) -> Found:
        """Races what noise may have hidden from an earlier call, or who won under much noise, and
        searches nothing."""
        self.tell(f"{subject.program.name}: racing again what noise may have hidden")
        # The executor records nothing, so that races are run; the checks of the earlier call hold.
        record = WorkRecord(self._work, earlier.key.digest)
        selector = Selector(
            await self._ready(), subject.program, step.budget, self.seed, self.strict, self.tell,
            self.settings, record=record, given=self._given(subject), deadline=deadline,
        )  # fmt: skip
        selection = await selector.select(decoded_guesses(earlier.guesses))
        # What was verified and won stays, where noise alone speaks against it.
        if selection.in_doubt and earlier.faster:
            return Found(earlier, False, earlier.evidence.tried)
        answer = await to_thread.run_sync(
            self._answered, earlier.key, earlier.name, selection, earlier.effort
        )
        # What was tried the last time is known still.
        again = {tried.how for tried in answer.evidence.tried}
        before = [tried for tried in earlier.evidence.tried if tried.how not in again]
        evidence = msgspec.structs.replace(answer.evidence, tried=(*answer.evidence.tried, *before))
        answer = msgspec.structs.replace(answer, evidence=evidence).also(*earlier.names)
        await to_thread.run_sync(self.store.keep, answer)
        if not answer.guesses:
            await record.forget()
        return Found(answer, False, evidence.tried, selection.in_doubt)

    async def whole(
        self,
        cut: CutFunction,
        examples: Sequence[Leaf],
        faster: Mapping[Subject, Answer],
        loaded: Mapping[Subject, Replacement | Packed],
        step: EffortStep,
        deadline: Deadline = NO_DEADLINE,
    ) -> WholeFunctionResult | str:
        """What a function of several pieces gains by what is faster in it; or why that is open."""
        name = title(cut.function, None)
        any_key = next(iter(faster.values())).key
        key = await to_thread.run_sync(whole_key, any_key, cut, faster)
        earlier = await to_thread.run_sync(self.store.find, key)
        if earlier is not None and named_step(earlier.effort).covers(step):
            await self._named(earlier, f"{name}{WHOLE}")
            return WholeFunctionResult.before(earlier, name)
        self.tell(f"{name}: racing the function as a whole")
        record = WorkRecord(self._work, key.digest)
        executor = RecordedExecutor(await self._ready(), record, self.reporter)
        race = WholeRace(executor, step, self.seed, examples, self.tell, deadline)
        answer = await race.answer(key, cut, faster, loaded)
        if isinstance(answer, Failure):
            return f"{name} is left as it is, as it could not be timed as a whole: {answer}"
        if not race.in_doubt:
            await to_thread.run_sync(self.store.keep, answer)
        await record.forget([WorkKind.RACE] if race.in_doubt else [*WorkKind])
        return WholeFunctionResult(answer, remembered=False, in_doubt=race.in_doubt)

    async def as_called(
        self,
        call: AsCalledRace,
        optimized: Optimized[..., PyTree],
        cut: CutFunction,
        faster: Mapping[Subject, Answer],
        step: EffortStep,
        deadline: Deadline = NO_DEADLINE,
    ) -> Answer | None:
        """What the drop-in gains where it is called; `None` where it is not called.

        It is called a thousand times, and so only if that has no effects, and after something was
        timed for this function. A claim that was measured on a noisy machine is measured again on
        one that is quieter.
        """
        if any(piece.jaxpr.effects for piece in cut.pieces):
            return None  # each call of the thousand would be heard
        any_answer = next(iter(faster.values()))
        key = await to_thread.run_sync(called_key, any_answer.key, cut, faster)
        if key in self._calls:
            return self._calls[key]
        earlier = await to_thread.run_sync(self.store.find, key)
        if earlier is not None and not (earlier.uncertain and is_quiet()):
            self._calls[key] = earlier
            return earlier
        short = any_answer.timings.original < LONGEST and call.possible
        real = self.executor is None or not self.executor.virtual
        if not (short and real):
            return earlier
        self.tell(f"{title(cut.function, None)}: calling it here")
        self.reporter.doing("calling it here")
        called = await self._called(call, optimized, step.budget.race_seconds, deadline)
        answer = called_answer(key, cut, called, step.name)
        if earlier is not None and answer.timings.noise > earlier.timings.noise:
            answer = earlier
        self._calls[key] = answer
        if not called.in_doubt:
            await to_thread.run_sync(self.store.keep, answer)
        return answer

    async def confirm(self, answer: Answer, called: Answer) -> Answer:
        """The answer with the figures of its calls, so that a gain has one wherever it stands."""
        restated = confirmed(answer, called)
        if restated != answer:
            await to_thread.run_sync(self.store.keep, restated)
        return restated

    async def _called(
        self,
        call: AsCalledRace,
        optimized: Optimized[..., PyTree],
        seconds: float,
        deadline: Deadline,
    ) -> AsCalledTimes:
        """Calls both, again where noise hides which one is faster."""
        called = await to_thread.run_sync(call.race, optimized, seconds)
        for _ in range(RERUNS):
            if not called.in_doubt or deadline.passed:
                break
            self.tell("noise hides which one is faster where it is called; calling it again")
            called = called.joined(await to_thread.run_sync(call.race, optimized, seconds))
        return called

    async def _named(self, answer: Answer, name: str) -> None:
        """Stores that an answer goes by this name too."""
        if name not in answer.names:
            await to_thread.run_sync(self.store.name, answer.key, name)

    async def _begun(
        self,
        generator: _RecordedGenerator,
        question: CandidateQuestion,
        program: Program,
        stack: AsyncExitStack,
    ) -> tuple[RecordedExecutor, CandidateSet]:
        """Starts the executor while the program is rewritten in another process, and has it compile
        each candidate as soon as that is there."""
        try:
            async with asyncio.TaskGroup() as group:
                starting = group.create_task(self._ready())
                generator.process = await self._generating()
                tried = group.create_task(generator.contest(question))
                executor = await stack.enter_async_context(
                    RecordedExecutor(await starting, generator.record, self.reporter)
                )
                generator.hear_with(
                    lambda source: executor.begin(candidate(program, source, self.settings))
                )
        except BaseExceptionGroup as errors:
            # A caller asked for one thing, and expects its error rather than a group.
            raise errors.exceptions[0] from None
        return executor, tried.result()

    async def _generating(self) -> GenerationProcess:
        if self._generation is None:
            self._generation = await self._stack.enter_async_context(generation_process(self.tell))
        return self._generation

    async def _ready(self) -> Executor:
        if self.executor is None:
            self.executor = await self._stack.enter_async_context(JaxExecutor(self.platform))
        return self.executor

    def _given(self, subject: Subject) -> GivenInputs | None:
        """Computes what the user's arguments come to in a program."""
        return None if self.arguments is None else partial(self.arguments.of, subject)

    def _key(self, subject: Subject) -> Key:
        return Key(
            canonical_digest(subject.program),
            tuple(str(array_type) for array_type in array_types(subject.program)),
            device_kind(self.platform),
            jax.__version__,
            version("jaxlib"),
            self.strict,
            subject.constant,
            (*self.settings.described(), *(() if self._has_kernels else (PLAIN,))),
        )

    @property
    def _has_kernels(self) -> bool:
        """Whether machine code is possible; where it is not, the question is one for plain JAX, and
        is remembered as that."""
        return self.kernels and not self._lack()

    def _lack(self) -> str:
        """Why none can be made that were asked for; nothing where they can."""
        if not self.kernels:
            return ""
        if self.platform == "cuda":
            return undescribed_reason()
        return llvm_library.missing_llvm_reason() if self.platform == "cpu" else ""

    def _question(self, subject: Subject, budget: Budget) -> CandidateQuestion:
        program = to_json(subject.program)
        threads = usable_cores() if self._has_kernels and self.platform == "cpu" else 0
        gpu = described_gpu() if self._has_kernels and self.platform == "cuda" else ""
        return CandidateQuestion(
            program, budget, self.seed, self.strict, subject.constant, threads, gpu,
            mosaic=bool(gpu) and has_mosaic(), gpu_units=gpu_units() if gpu else 0,
            row_blocks=self.platform == "cpu",
        )  # fmt: skip

    def _answered(self, key: Key, name: str, selection: Selection, effort: str) -> Answer:
        winner, original = selection.winner, selection.original
        over_original, over_plain = selection.ratio(original), selection.ratio(selection.plain)
        packing = _packing(winner)
        original_error, answer_error = _largest_errors(selection.floats)
        return Answer(
            key,
            name,
            selection.otherwise.function,
            merged(selection.otherwise.source, winner.source) if packing else winner.source,
            _verdict(winner, selection.floats),
            Timings(
                selection.seconds(original),
                selection.seconds(selection.plain),
                selection.seconds(winner),
                1 + (selection.final.race.noise() or 0.0),
            ),
            winner is not original,
            effort,
            msgspec.structs.replace(
                work(from_json(winner.program)),
                original_error_ulp=original_error,
                answer_error_ulp=answer_error,
                newly_defined=None if selection.floats is None else selection.floats.newly_defined,
                packed_bytes=_packed_bytes(winner),
                program=write(from_json(winner.program)),
                original=None if winner.form == 0 else write(from_json(original.program)),
                timed_on=str(selection.inputs),
                ways=times_by_mode(selection.final.race, selection.place),
                tried=selection.tried,
                speedup=over_original.median,
                between=(over_original.low, over_original.high),
                speedup_over_plain=over_plain.median,
                over_plain_between=(over_plain.low, over_plain.high),
            ),
            packing=packing,
            guesses=_to_be_raced(selection),
        )


@dataclass
class _RecordedGenerator:
    """Candidates and kernels of one program, from the record or else from a process; it is the
    `KernelMaker` of a `Selector`."""

    record: WorkRecord
    name: str
    tell: Tell
    reporter: ProgressReporter
    process: GenerationProcess = field(init=False)
    question: CandidateQuestion = field(init=False)
    """The last that was asked; a `SchedulePoint` is one of its answer."""
    deadline: Deadline = NO_DEADLINE
    """When no further candidates are made."""
    _early: list[CandidateSource] = field(default_factory=list, init=False)
    """Candidates before anyone hears of them."""
    _hear: HearCandidate | None = field(default=None, init=False)

    def hear_with(self, hear: HearCandidate) -> None:
        """Has a function called with each candidate of `contest` as soon as that is there."""
        self._hear = hear
        for source in self._early:
            hear(source)

    def _heard(self, source: CandidateSource) -> None:
        if self._hear is None:
            self._early.append(source)
        else:
            self._hear(source)

    async def contest(self, question: CandidateQuestion) -> CandidateSet:
        """All that is to be tried at first."""
        self.question = question
        self.process.remember(question)

        async def work() -> CandidateSet:
            self.tell(f"{self.name}: rewriting")
            return await self.process.contest(question, self.deadline.left, self._heard)

        self.reporter.doing("rewriting")
        return await self.record.once(WorkKind.CANDIDATES, (question,), CandidateSet, work)

    async def neighbours(self, place: SchedulePoint) -> Sequence[SchedulePoint]:
        """The schedules that differ in one choice from `place`."""

        async def work() -> NeighboursReply:
            return NeighboursReply(await self.process.neighbours(place))

        parts = "near", self.question, place
        return (await self.record.once(WorkKind.KERNELS, parts, NeighboursReply, work)).places

    async def contender(self, place: SchedulePoint) -> CandidateSource:
        """A source with these kernels."""

        async def work() -> SourceReply:
            return SourceReply(await self.process.contender(place))

        parts = "source", self.question, place
        return (await self.record.once(WorkKind.KERNELS, parts, SourceReply, work)).contender


_TIMED = [kind for kind in WorkKind if kind is not WorkKind.CHECK]
"""What is done again for an answer that is raced again: a check does not depend on noise."""

_LEADER = ("leader",)
"""Names the winner of the last step in a record."""


async def _with_leader(
    record: WorkRecord, contenders: Sequence[CandidateSource]
) -> Sequence[CandidateSource]:
    """The contenders, and the winner of the step before where it is not among them.

    A kernel stays out: its `SchedulePoint` is one of the generator of that step.
    """
    leader = await record.recall(WorkKind.CANDIDATES, _LEADER, CandidateSource)
    if leader is None or leader.kernels:
        return contenders
    if any(contender.source == leader.source for contender in contenders):
        return contenders
    return [*contenders, leader]


def _to_be_raced(selection: Selection) -> str:
    """What is kept to be raced again: what noise may have hidden, or who won under much noise."""
    original, winner = selection.original, selection.winner
    if selection.in_doubt:
        return encoded_guesses(original, selection.guesses)
    if winner is original or (selection.final.race.noise() or 0.0) <= LOUD:
        return ""
    rivals = dict.fromkeys([winner, selection.otherwise, selection.plain])
    return encoded_guesses(original, [rival for rival in rivals if rival is not original])


def _packing(winner: CandidateSource) -> Packing | None:
    before = winner.beforehand
    if before is None:
        return None
    return Packing(before.positions, before.function, winner.function)


def _packed_bytes(winner: CandidateSource) -> int | None:
    """The memory of what the winner makes beforehand; `None` where it makes nothing."""
    if winner.beforehand is None:
        return None
    return sum(map(_bytes, winner.beforehand.types))


def _bytes(array: ArrayType) -> int:
    return math.prod(array.shape) * int(jnp.dtype(array.dtype).itemsize)


def _verdict(winner: CandidateSource, floats: FloatEvidence | None) -> tuple[str, ...]:
    lines = list(winner.verdict) or ["the original's own operations"]
    if winner.watched:
        lines.append("  watched: where not all that it gives is finite, the original is computed")
    if floats is not None:
        lines.append(f"  c floats, on the device: {floats}")
    return tuple(lines)


def _largest_errors(floats: FloatEvidence | None) -> tuple[float | None, float | None]:
    """The largest errors of the original and of the candidate on the device, in ulp.

    Only distributions that the candidate passed count: on others the original's error is high too.
    """
    if floats is None:
        return None, None
    passed = [trial for trial in floats.trials if trial.status == "passed"]
    return (
        max(trial.original_error for trial in passed),
        max(trial.candidate_error for trial in passed),
    )


def why_unloadable(answer: Answer) -> str:
    """Why the kernels of an answer cannot be called in this process; empty where they can, from now
    on.

    Otherwise the first call of a user would find out. Blocks.
    """
    try:
        for _, program in embedded_programs(answer.source):
            register_program(program.native, program.machine, program.effort)
    except (NativeError, MemoryError) as error:
        return str(error) or type(error).__name__
    return ""
