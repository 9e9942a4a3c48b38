"""`optimize`: takes a JAX function and gives one that is verified and measured to be faster.

A call of `optimize` goes through four stages. Tracing needs the settings of the caller's thread and
runs there; searching and racing leave the event loop to others:

    trace      the function becomes a `CutFunction`: programs to search, and what stays with JAX
    search     `AnswerFinder` looks each program up, or rewrites, races and verifies it
    race       the function as a whole against itself, then the drop-in as its user will call it
    hand back  `Spliced` puts the answers that are left in their places, behind an `Optimized`

All but the first are gone through once for each `EffortStep`, first in a few seconds and then with
all that may be spent, so that something verified, raced and handed back is there soon: the best so
far.
An `Optimization` may be ended at any time, and has it then.

What is known after each stage is in `_Stages`. docs/reference/optimize.md has the options, and says
what is timed.
"""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Generic, ParamSpec, TypeVar, cast

import anyio
import jax
import msgspec
from anyio import CancelScope, to_thread

from .._blocking import short_switch_interval, waited_for
from ..capture.jax_types import PyTree
from ..capture.names import title
from ..codegen.pallas import without_backend_warning
from ..measure import Executor
from .algebra.cost import estimate
from .answer_finder import AnswerFinder, why_unloadable
from .device_kind import device, platform
from .effort import (
    NO_DEADLINE,
    Budget,
    Deadline,
    Effort,
    EffortStep,
    effort_steps,
    named_step,
)
from .errors import OptimizeError
from .handback.optimized import Optimized, original_of
from .handback.source import source
from .jax_settings import current_settings, use_settings
from .options import Options, demand, demand_values, split_options
from .outcomes.answer import Answer
from .outcomes.function_parts import function_parts
from .outcomes.report import Found, Report, Tell, WholeFunctionResult
from .outcomes.results import Results
from .progress import HearProgress, OptimizeProgress, ProgressReporter, told_progress
from .race.arrangements import by_share
from .race.as_called import AsCalledRace, is_quiet
from .race.whole_function import (
    describe_slower_as_called,
    is_single_program,
    stored_arrangement,
)
from .trace.pieces import Subject
from .trace.region_arguments import RegionArguments
from .trace.splice import Packed, Replacement, Spliced
from .trace.traced import CutFunction, Traced, trace

SEARCH_SHARE = 0.7
"""The share of an effort's seconds in which the programs of a function are searched; the others are
for the function as a whole."""

P = ParamSpec("P")
R = TypeVar("R")


async def optimize(
    function: Callable[P, R],
    /,
    *args: PyTree,
    effort: Effort | Budget | str = Effort.DEFAULT,
    seconds: float | None = None,
    target: str = "auto",
    seed: int = 0,
    strict: bool = False,
    kernels: bool = True,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Iterable[str] = (),
    constant_argnums: int | Sequence[int] = (),
    results: Results | None = None,
    executor: Executor | None = None,
    tell: Tell = lambda text: None,
    progress: bool | HearProgress | None = None,
    kwargs: Mapping[str, PyTree] | None = None,
    **named: PyTree,
) -> Optimized[P, R]:
    """Finds a faster function that computes the same; gives the original's behaviour otherwise.

        fast = await optimize(attention, q, k, v, effort="quick")
        fast(q, k, v)          # as `attention(q, k, v)`, for arrays of these shapes and types

    Only tracing runs in this thread, before anything else and under jax's settings of that moment,
    which are those that the answer is for. What was found before is not searched again. `tell`
    hears what is going on, in words, and `progress` how it stands in numbers, where it is a
    function of an `OptimizeProgress`; else it says whether a line shows that, which one does in a
    terminal and in a notebook. Without `kernels` the answer is plain JAX. Of jax's arrays at
    `constant_argnums`, and of those that are closed over, something may be made beforehand, which
    `Optimized` keeps. Keyword arguments of the function that are called as one of these options are
    given in `kwargs`. What was optimized before stands for its original, also as a method or in a
    `functools.partial`; in a `jax.jit` it stays what it is.

    After `seconds`, if that is given, it ends with the best so far, or the original where there is
    none yet, and its report is `unfinished`; of a function of several parts it takes the race that
    tells whether the last that was found pays. A call that is cancelled raises what cancelling
    raises, as everywhere. Either way what was found is kept: the next call goes on from there, and
    with `seconds=0` gives the best so far at once. An `Optimization` can be ended by hand, and has
    the `best` so far while it runs.

    Raises an AiosearchError: an `OptimizeError` where an option is wrong, or the target absent, or
    arrays lie elsewhere, or on several devices, or are deleted; a `SpliceError` where the function
    cannot be traced.
    """
    optimization = Optimization(
        function,
        *args,
        effort=effort,
        seconds=seconds,
        target=target,
        seed=seed,
        strict=strict,
        kernels=kernels,
        static_argnums=static_argnums,
        static_argnames=static_argnames,
        constant_argnums=constant_argnums,
        results=results,
        executor=executor,
        tell=tell,
        progress=progress,
        kwargs=kwargs,
        **named,
    )
    return await optimization.run()


class Optimization(Generic[P, R]):
    """One call of `optimize`, which takes the same: to be looked at while it runs, and ended.

        search = Optimization(attention, q, k, v, effort="exhaustive")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(60):
                await search.run()
        fast = search.best or attention

    It is made and run once.
    """

    def __init__(self, function: Callable[P, R], /, *args: PyTree, **options: PyTree) -> None:
        """Raises `OptimizeError` for an option that cannot be one."""
        self._function = original_of(function)
        self._args = args
        chosen, named = split_options(options)
        demand(self._function, args, named, chosen)
        self._options = Options(**chosen)
        self._spends = self._options.spends
        self._keywords = {**(self._options.kwargs or {}), **named}
        self._traced: Traced | None = None
        self._listeners: list[Callable[[Optimized[P, R]], object]] = []
        self._best: Optimized[P, R] | None = None
        self._reporter = ProgressReporter()
        self._scope: CancelScope | None = None
        """What is going on: the search, and once that is stopped the end of it. It is made in an
        event loop."""
        self._stopped = self._is_run = False

    @property
    def best(self) -> Optimized[P, R] | None:
        """The fastest so far, verified and raced as what `run` gives; `None` before there is one
        that is faster than the original."""
        return self._best

    @property
    def progress(self) -> OptimizeProgress:
        """How it stands."""
        return self._reporter.now()

    @property
    def stopped(self) -> bool:
        """Whether it was asked to `stop`, or its seconds were over, before it had ended."""
        return self._stopped

    def on_improvement(self, hear: Callable[[Optimized[P, R]], object]) -> None:
        """Has a function called with each new `best`, in the thread of its event loop."""
        self._listeners.append(hear)

    def stop(self) -> None:
        """Has `run` end with the best so far; a second time at once, without the race of a function
        of several parts that would tell whether the last of what was found pays in it.

        To be called in the thread of its event loop.
        """
        self._stopped = True
        if self._scope is not None:
            self._scope.cancel()

    def trace(self) -> None:
        """Traces the function, in this thread and under its settings of jax; `run` does so by
        itself where it was not done. Raises a `SpliceError` where that is not possible."""
        options = self._options
        traced = trace(
            self._function,
            *self._args,
            static_argnums=options.static_argnums,
            static_argnames=options.static_argnames,
            constant_argnums=options.constant_argnums,
            kwargs=self._keywords,
        )
        arguments = dict(zip(traced.call.names(), traced.examples, strict=True))
        demand_values(self._function, arguments, traced.closed_over)
        self._traced = traced

    async def run(self) -> Optimized[P, R]:
        """Searches, and gives what `optimize` gives; raises `OptimizeError` the second time."""
        with short_switch_interval():
            async with self._begun() as stages:
                optimized = await self._climb(stages)
                assert optimized.report is not None, "`_Stages` gives one"
                history = tuple(self._reporter.history)
                optimized.report = msgspec.structs.replace(optimized.report, history=history)
                return optimized

    async def answers(self) -> tuple[CutFunction, dict[Subject, Found]]:
        """In the place of `run`: searches the programs of the function alone, with all that may be
        spent, for whoever goes on from there and races the function as a whole.

        After `seconds` it gives what it has by then.
        """
        with short_switch_interval():
            async with self._begun() as stages:
                step = effort_steps(self._spends)[-1]
                await stages.look_up(step)
                self._scope = scope = CancelScope(deadline=self._deadline(stages))
                if self._stopped:  # before there was a scope
                    scope.cancel()
                with scope:
                    await stages.search([step])
                return stages.cut, stages.outcomes

    @asynccontextmanager
    async def _begun(self) -> AsyncIterator[_Stages]:
        """The stages after the trace, with what they need: a store, and processes once something is
        timed."""
        if self._is_run:
            raise OptimizeError(
                "an Optimization is run once: make another, which goes on from there"
            )
        self._is_run = True
        options, started = self._options, time.monotonic()
        # Nothing is awaited before: meanwhile the settings of jax may become another task's.
        if self._traced is None:
            self.trace()
        traced = self._traced
        assert traced is not None, "`trace` sets it"
        if options.seconds is not None:
            self._reporter.deadline = started + options.seconds
        platform_name = await to_thread.run_sync(platform, options.target, traced.shardings)
        # A virtual executor invents its times, which must not reach the user's own store.
        virtual = options.executor is not None and options.executor.virtual
        store = options.results or (Results.nowhere() if virtual else Results.open())
        try:
            cut = await to_thread.run_sync(traced.cut)
            async with (
                told_progress(self._reporter, options.progress),
                AnswerFinder(
                    platform_name, options.seed, options.strict, options.kernels, store,
                    options.executor, options.tell, traced.settings, self._reporter,
                ) as finder,
            ):  # fmt: skip
                finder.arguments = RegionArguments(cut, traced.examples)
                call = AsCalledRace(self._function, self._args, self._keywords, traced.examples)
                yield _Stages(
                    traced, cut, finder, call, platform_name, options.tell, self._reporter, started
                )
        finally:
            if options.results is None:
                # A cancelled call still writes what it found before it was cancelled.
                with CancelScope(shield=True):
                    await to_thread.run_sync(store.close)

    def _deadline(self, stages: _Stages) -> float:
        """When the seconds of the call are over, by the clock of its event loop."""
        if self._options.seconds is None:
            return math.inf
        left = stages.started + self._options.seconds - time.monotonic()
        return anyio.current_time() + max(left, 0.0)

    async def _climb(self, stages: _Stages) -> Optimized[P, R]:
        """One step after the other; where it is stopped, what is best then."""
        steps, scope = effort_steps(self._spends), CancelScope()
        await stages.look_up(steps[-1])
        if stages.covers(steps[-1]):
            steps = steps[-1:]
        else:
            scope.deadline = self._deadline(stages)
        self._scope = scope
        if self._stopped:  # before there was a scope
            scope.cancel()
        with scope:
            for at, step in enumerate(steps):
                await stages.search(steps[at:])
                if stages.has_news or step is steps[-1]:
                    result = await stages.hand_back(step)
                    self._keep(result)
            return cast("Optimized[P, R]", result)
        self._stopped = True
        if stages.has_news:
            # Another scope, as the first one is cancelled: to be stopped again, and then at once.
            with CancelScope() as self._scope:
                result = await stages.hand_back(steps[0])
                self._keep(result)
                if stages.covers(steps[-1]):  # this was all that was left to do
                    return cast("Optimized[P, R]", result)
        return cast("Optimized[P, R]", await stages.unfinished(self._best))

    def _keep(self, fresh: Optimized[..., PyTree]) -> None:
        """Has a drop-in for the best so far, if it is one."""
        report = fresh.report
        assert report is not None, "`_Stages` gives one"
        if report.faster:
            self._best = cast("Optimized[P, R]", fresh)
            self._reporter.improved(report.speedup or 1.0)
            for hear in self._listeners:
                hear(self._best)
        elif not self._stopped:
            # All that was found is in it, and it was raced for longer: what went before has lost.
            self._best = self._reporter.best = None


@dataclass
class _Stages:
    """One call of `optimize` after its trace; `search` and `hand_back` are called for each step."""

    traced: Traced
    cut: CutFunction
    finder: AnswerFinder
    call: AsCalledRace
    platform: str
    tell: Tell
    reporter: ProgressReporter
    started: float
    """By `time.monotonic`, for the report."""
    left_alone: dict[str, None] = field(init=False)
    """Why parts of the function stay as they are, for the report; `tell` hears each when it turns
    up."""
    not_running: set[Subject] = field(default_factory=set, init=False)
    """Programs that are not searched any more."""
    outcomes: dict[Subject, Found] = field(default_factory=dict, init=False)
    """What was found for each program of the function so far."""
    has_news: bool = field(default=False, init=False)
    """Whether something faster was found since the last time that all was handed back."""
    faster: dict[Subject, Answer] = field(default_factory=dict, init=False)
    """The answers that are to stand in the function."""
    loaded: dict[Subject, Replacement | Packed] = field(default_factory=dict, init=False)
    """What each answer of `faster` puts in the place of its program."""
    whole: WholeFunctionResult | str = field(default="", init=False)
    """What the race of the whole function says; empty where it was not needed."""

    order: list[Subject] = field(init=False)
    """The programs, by what they should take of the function's time."""
    costs: dict[Subject, float] = field(init=False)
    """Estimated microseconds of each."""
    deadline: Deadline = field(default=NO_DEADLINE, init=False)
    """When the seconds of a step's effort are over."""
    put_off: tuple[Subject, ...] = field(default=(), init=False)
    """Programs that there was no time for; the next call searches them."""

    def __post_init__(self) -> None:
        self.left_alone = dict.fromkeys(self.cut.left_alone)
        self.costs = {
            subject: estimate(subject.program, subject.constant) for subject in self.cut.subjects
        }
        self.order = by_share(self.cut, self.costs)

    async def look_up(self, last: EffortStep) -> None:
        """Takes what earlier calls found, with whatever effort."""
        for subject in self.cut.subjects:
            earlier = await self.finder.earlier(subject)
            if earlier is not None:
                self.outcomes[subject] = earlier
                self.has_news |= earlier.answer.faster
                enough = named_step(earlier.answer.effort).covers(last)
                self.tell(
                    f"{subject.program.name}: found before{'' if enough else ', with less effort'}"
                )

    def covers(self, step: EffortStep) -> bool:
        """Whether nothing is left to search on a step."""
        return not self._open(step)

    async def search(self, steps: Sequence[EffortStep]) -> None:
        """Finds the answer for each program on the first of these steps; one that does not run is
        left alone."""
        step, *later = steps
        # First what takes most of the function's time: where the seconds end, that counts most.
        still_open = {*self._open(step)}
        subjects = [subject for subject in self.order if subject in still_open]
        # What noise left open comes last: it would take the time of what there was none for.
        subjects.sort(key=lambda subject: subject in self.outcomes)
        self.reporter.comes([step] * len(subjects) + later * len(self.cut.subjects))
        self.deadline, self.put_off = Deadline.after(step.budget.seconds), ()
        single = is_single_program(self.cut)
        searching = self.deadline if single else self.deadline.part(SEARCH_SHARE)
        for place, subject in enumerate(subjects):
            # The first is searched however little that is: without it there would be no answer.
            if place and self.deadline.passed:
                self._put_off(subjects[place:])
                break
            best = self.outcomes.get(subject)
            deadline = searching.part(self._share(subjects[place:]))
            self.reporter.begins()
            try:
                if best is not None and _is_to_be_raced(best, step):
                    outcome = await self.finder.raced_again(subject, step, best.answer, deadline)
                else:
                    outcome = await self.finder.answer(
                        subject, step, best, last=not later, deadline=deadline
                    )
            except OptimizeError as error:
                self.not_running.add(subject)
                self._leave_alone(subject, str(error))
            else:
                self.outcomes[subject] = outcome
                self.has_news |= outcome.answer.faster and outcome is not best
                self._note_gain(outcome)
            self.reporter.ends()

    async def hand_back(self, step: EffortStep) -> Optimized[..., PyTree]:
        """The drop-in with all that was found so far; the function as it is where the drop-in loses
        as its user will call it."""
        self.reporter.doing("loading")
        await self._load()
        await self._race_as_whole(step)
        optimized = await self._assembled()
        if self.faster:
            called = await self.finder.as_called(
                self.call, optimized, self.cut, self.faster, step, self.deadline
            )
            if called is not None and called.faster:
                await self._confirm(called)
                code = await to_thread.run_sync(source, self.cut, self.faster)
                optimized.restate(self._report(optimized.spliced), code.text)
            elif called is not None:
                name = title(self.cut.function, None)
                self.faster, self.whole = {}, describe_slower_as_called(name, called)
                optimized = await self._assembled()
        self.has_news = False
        return optimized

    async def unfinished(self, best: Optimized[..., PyTree] | None) -> Optimized[..., PyTree]:
        """The best so far, whose report says that it was stopped; else the function as it is."""
        if best is None:
            self.faster = {}
            self.whole = self._unraced()
            best = await self._assembled()
        assert best.report is not None, "`_assembled` gives one"
        seconds = time.monotonic() - self.started
        best.report = msgspec.structs.replace(best.report, seconds=seconds, unfinished=True)
        return best

    def _open(self, step: EffortStep) -> list[Subject]:
        """The programs that have no answer with so much effort yet."""
        return [
            subject
            for subject in self.cut.subjects
            if subject not in self.not_running
            and not (
                (outcome := self.outcomes.get(subject)) is not None
                and named_step(outcome.answer.effort).covers(step)
                and not _is_to_be_raced(outcome, step)
            )
        ]

    def _share(self, subjects: Sequence[Subject]) -> float:
        """The share of the seconds that the first of these programs may take: of what they all take
        as written, and at least as much as any other."""
        total = sum(self.costs[subject] for subject in subjects)
        return max(self.costs[subjects[0]] / total if total else 0.0, 1 / len(subjects))

    def _put_off(self, subjects: Sequence[Subject]) -> None:
        """Says that programs are left for the next call."""
        names = ", ".join(subject.program.name for subject in subjects)
        self.tell(f"{names}: the seconds of this effort are over; the next call goes on here")
        self.put_off = tuple(subject for subject in subjects if subject not in self.outcomes)

    def _note_gain(self, outcome: Found) -> None:
        """Says what is faster; of a function that is one program it is the best so far, which
        `hand_back` will have."""
        if outcome.answer.faster:
            self.tell(f"{outcome.answer.name}: {outcome.answer.speedup:.2f} times as fast so far")
            if is_single_program(self.cut):
                self.reporter.improved(outcome.answer.speedup)

    async def _load(self) -> None:
        """Loads what is faster; what another machine found may not run on this one."""
        self.faster, self.whole = {}, ""
        for subject, outcome in self.outcomes.items():
            if not outcome.answer.faster:
                continue
            if why := await to_thread.run_sync(why_unloadable, outcome.answer):
                self._leave_alone(subject, why)
            else:
                self.faster[subject] = outcome.answer
        self.loaded = {subject: load(answer) for subject, answer in self.faster.items()}

    async def _race_as_whole(self, step: EffortStep) -> None:
        """Keeps what is faster in its place too, where the function is more than one program.

        XLA fuses across what was cut apart, so that a part that is faster alone may make the
        function slower; a function that is a single program was raced by `search` already.
        """
        if not self.faster or is_single_program(self.cut):
            return
        self.whole = await self.finder.whole(
            self.cut, self.traced.examples, self.faster, self.loaded, step, self.deadline
        )
        if isinstance(self.whole, WholeFunctionResult):
            self.faster = stored_arrangement(self.whole.answer, self.faster)
        elif self.whole:
            self.faster = {}

    def _unraced(self) -> str:
        """Why what is faster alone does not stand in the function, where that is open."""
        if is_single_program(self.cut) or not self.has_news:
            return ""
        name = title(self.cut.function, None)
        return f"{name} is left as it is, as it was stopped before it could be raced as a whole"

    async def _assembled(self) -> Optimized[..., PyTree]:
        optimized, too_large = await to_thread.run_sync(self._assemble)
        for why in too_large:
            self.tell(why)
        return optimized

    async def _confirm(self, called: Answer) -> None:
        """Gives the function's gain the figures of its calls: as a whole, or of its one program."""
        if isinstance(self.whole, WholeFunctionResult):
            answer = await self.finder.confirm(self.whole.answer, called)
            self.whole = msgspec.structs.replace(self.whole, answer=answer)
            return
        for subject, earlier in self.faster.items():
            answer = await self.finder.confirm(earlier, called)
            self.faster[subject] = answer
            self.outcomes[subject] = msgspec.structs.replace(self.outcomes[subject], answer=answer)

    def _assemble(self) -> tuple[Optimized[..., PyTree], list[str]]:
        """Puts `faster` into the function, with its source and its report; and says what had no
        room. Blocks."""
        spliced = Spliced(self.cut, {subject: self.loaded[subject] for subject in self.faster})
        with use_settings(self.traced.settings):
            # Here, in a thread: else the first call would pack in the event loop.
            spliced.packs(self.cut.held)
        too_large = [*map(_without_memory, spliced.too_large)]
        code = source(self.cut, self.faster)
        optimized: Optimized[..., PyTree] = Optimized(
            spliced,
            source=code.text,
            lacks=code.lacks,
            report=self._report(spliced),
            device=device(self.platform),
        )
        return optimized, too_large

    def _report(self, spliced: Spliced) -> Report:
        return Report(
            tuple(self.outcomes.values()),
            (
                *self.left_alone,
                *map(_without_memory, spliced.too_large),
                *map(_put_off, self.put_off),
            ),
            time.monotonic() - self.started,
            self.whole,
            parts=function_parts(self.cut),
            closed_over=len(self.traced.closed_over),
        )

    def _leave_alone(self, subject: Subject, why: str) -> None:
        text = f"{subject.program.name}: {why}"
        if text not in self.left_alone:
            self.left_alone[text] = None
            self.tell(text)


def _is_to_be_raced(outcome: Found, step: EffortStep) -> bool:
    """Whether an earlier call searched enough, and noise left open which candidate is faster, or by
    how much: that is asked again when the machine is quiet."""
    answer = outcome.answer
    searched = named_step(answer.effort).covers(step)
    if not (searched and outcome.remembered and answer.guesses):
        return False
    return answer.in_doubt or (answer.uncertain and is_quiet())


def _put_off(subject: Subject) -> str:
    name = subject.program.name
    return f"{name}: the seconds of this effort were over before it; the next call searches it"


def _without_memory(subject: Subject) -> str:
    name = subject.program.name
    return f"{name}: there is no memory for what it makes beforehand, and so it makes nothing"


def optimize_sync(function: Callable[P, R], /, *args: PyTree, **options: PyTree) -> Optimized[P, R]:
    """Waits for `optimize`, and takes what it takes; in a running event loop (a notebook) too.

    Ctrl-C raises KeyboardInterrupt as everywhere, and what was found is kept: the same call with
    `seconds=0` then gives the best so far.
    """
    settings = current_settings()

    async def optimized() -> Optimized[P, R]:
        with use_settings(settings):  # a thread begins with those that all have
            return await optimize(function, *args, **options)

    return waited_for(optimized, "aiosearch.optimize")


def load(answer: Answer) -> Replacement | Packed:
    """What an answer's `source` puts in the place of a program.

    The source is ours: it was generated and verified here, or read back from the user's own store.
    """
    namespace: dict[str, object] = {"__name__": f"aiosearch answer {answer.id}"}
    exec(compile(answer.source, f"<{answer.file_name}>", "exec"), namespace)
    module = cast("dict[str, Replacement]", namespace)
    if "pl.pallas_call" in answer.source:
        without_backend_warning()
    plain = module[answer.function]
    packing = answer.packing
    if packing is None:
        return plain
    return Packed(packing.positions, jax.jit(module[packing.pack]), module[packing.run], plain)
