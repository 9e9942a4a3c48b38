"""Tuning one kernel for one kind of call: stages that overlap, around one device.

    propose --> build (killable processes) --> check and time (one owner) --> learn
       ^                                                                       |
       +-----------------------------------------------------------------------+

Proposals are made while others are built, and the model is fitted while others are timed; queues
between the stages hold a batch, so that no stage runs far ahead on an old model. What fails is a
measurement too: it is written down with its gate and reason, learned from, and not tried again.
Whenever a point is the fastest so far it passes the whole numbers gate at once. So there is always
a winner that is verified, whenever the search is told to end.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress

from msgspec.structs import replace

from .._blocking import waited_for
from ..measure import Compiled, Executor, Failure, Race
from ..measure.race import LEAST_ROUNDS
from .errors import RequirementFailed, SpaceError, TunerError
from .final_race import (
    TIE,
    UNSETTLED,
    Contender,
    Decision,
    affordable,
    close_contenders,
    decide,
    finalists,
    least_rounds,
    reserved,
)
from .gates import NumbersGate, Rejection, TuningGate, reference_of, rejection_of, serves
from .journals import MeasurementJournal, SearchName
from .kernels import KernelCall, candidate, output_types, reference_candidate
from .proofs import verified
from .records import TuningRecord, locked
from .reports import TuningProgress, TuningReport
from .search.models import CostModel
from .search.proposals import Measurement, find_proposer
from .search.states import SearchState
from .space.spaces import SearchSpace
from .space.traces import Trace
from .timing import (
    CHECKING_SHARE,
    LEAST_CHECKING,
    POINT_SHARE,
    PRECISE_SHARE,
    ROUNDS,
    Baseline,
    PointTimer,
    TuningBudget,
    device_executor,
)
from .tunables import AnyTunable, Tunable, device_name, frozen_record, versions
from .types import Configuration, Options, Pytree

BATCH = 4
SECONDS = 60.0
MOST_TIMED = 256
"""Of more that were timed, the slower ones have no part in the last race anyway."""
FINAL_ROUNDS = 41
CONFIRMING_ROUNDS = 125
"""Of those that may tie with the fastest, as far as the time goes."""
RACE_ROUNDS = 9
GRACE = 3.0
"""Seconds in which the point that is timed may end when a search of no given length does."""
COARSE = 4.0
"""A point that one run shows to be so many times slower than the best is not timed further."""


async def tune(
    kernel: AnyTunable,
    /,
    *arguments: Pytree,
    seconds: float | None = None,
    trials: int | None = None,
    algorithm: str = "evolution",
    model: str = "auto",
    seed: int = 0,
    again: bool = False,
    frozen: bool = False,
    executor: Executor | None = None,
    seeds: Sequence[Options] = (),
    on_progress: Callable[[TuningProgress], None] | None = None,
    **keywords: Pytree,
) -> TuningReport:
    """Finds the fastest verified configuration for calls like this one, and writes it to the table.

    Arrays may be given, or their types alone (`jax.ShapeDtypeStruct`). Where the table has a record
    already, that is the answer, unless it is to be tuned `again`; with `frozen` nothing is ever
    timed, and a missing record raises TableError. `algorithm` and `model` name how points are
    chosen. `seeds` are configurations that are tried first, such as another tool's table has; so
    are those of similar calls in the table. Cancelled, it writes the fastest verified point first.

        report = await aiosearch.tune(kernel, x, y, seconds=30)
        print(report)
    """
    run = TuningRun(
        kernel,
        KernelCall(arguments, keywords),
        seconds=seconds,
        trials=trials,
        algorithm=algorithm,
        model=model,
        seed=seed,
        again=again,
        frozen=frozen,
        executor=executor,
        seeds=seeds,
        on_progress=on_progress,
    )
    return await run.run()


class TuningRun:
    """What `tune` does, with a way to end it early: `stop` races what it has."""

    def __init__(
        self,
        kernel: AnyTunable,
        call: KernelCall,
        *,
        seconds: float | None = None,
        trials: int | None = None,
        again: bool = False,
        frozen: bool = False,
        executor: Executor | None = None,
        **options: Pytree,
    ) -> None:
        if not isinstance(kernel, Tunable):
            raise TunerError(
                f"{kernel!r} is not tunable: decorate it with @aiosearch.tunable(space)"
            )
        self._kernel = kernel
        self._call = call
        self._budget = TuningBudget(
            SECONDS if seconds is None and trials is None else seconds, trials
        )
        self._again = again
        self._frozen = frozen
        self._executor = executor
        self._options = options
        self._tuning: TuningSession | None = None
        self._stopped = False

    def stop(self) -> None:
        """Has it end soon, with a last race among what is measured. Safe at any time."""
        self._stopped = True
        if self._tuning is not None:
            self._tuning.stop()

    async def run(self) -> TuningReport:
        """Looks the call up, or tunes it."""
        kernel, call = self._kernel, self._call
        if self._frozen:
            return TuningReport(frozen_record(kernel, call), remembered=True)
        record = None if self._again else kernel.recorded(call)
        if record is not None and record.confirmed:
            return TuningReport(record, remembered=True)
        async with AsyncExitStack() as stack:
            executor = self._executor
            if executor is None:
                executor = await stack.enter_async_context(device_executor())
            self._tuning = TuningSession(
                kernel, call, executor, self._budget, again=self._again, **self._options
            )
            if self._stopped:
                self._tuning.stop()
            return await self._tuning.run()


def tune_sync(kernel: AnyTunable, /, *arguments: Pytree, **options: Pytree) -> TuningReport:
    """`tune` where nothing can be awaited; Ctrl-C keeps the fastest verified point, as there."""
    return waited_for(lambda: tune(kernel, *arguments, **options), "aiosearch-tune")


class TuningSession:
    """One search: made, run once, and asked how it is going meanwhile."""

    def __init__(
        self,
        kernel: AnyTunable,
        call: KernelCall,
        executor: Executor,
        budget: TuningBudget,
        *,
        algorithm: str = "evolution",
        model: str = "auto",
        seed: int = 0,
        again: bool = False,
        rounds: int = ROUNDS,
        seeds: Sequence[Options] = (),
        on_progress: Callable[[TuningProgress], None] | None = None,
    ) -> None:
        self._timer = PointTimer(executor, rounds, seed, budget.share(POINT_SHARE))
        self._kernel = kernel
        self._call = call
        self._executor = executor
        self._budget = budget
        self._seed = seed
        self._again = again
        self._on_progress = on_progress or (lambda progress: None)
        favourites = kernel.favourites(call, seeds)
        self._state = SearchState(
            kernel.search_space(call),
            find_proposer(algorithm),
            model=CostModel(model, seed),
            seed=seed,
            seeds=[*favourites, *kernel.seeds(call)],
        )
        self._favourites = frozenset(trace.key for trace in favourites)
        self._started = time.monotonic()
        self._asked = 0
        self._reference: Compiled | None = None
        self._numbers: NumbersGate | None = None
        self._overhead = 0.0
        """Seconds that a run takes beside the kernel itself: the way there and back."""
        self._expected: list[tuple[str, tuple[int, ...]]] | None = None
        self._over = asyncio.Event()
        self._unfit = ""
        """Why the space has no point, where it has none."""

    async def run(self) -> TuningReport:
        """Searches until the budget is spent, races the best, and writes the winner down."""
        async with self.opened() as record:
            if record is not None:
                return record
            await self.advance(self._budget)
            return await self.finish()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[TuningReport | None]:
        """Holds the lock and the journal of the search, with the baseline timed.

        Gives what another process has found meanwhile: two that tune the same thing take turns.
        Where the body is left by an error, the fastest verified point is written down first.
        """
        kernel = self._kernel
        search = SearchName.of(kernel, self._call)
        with ExitStack() as stack:
            # In a thread: another process may hold the lock for as long as it tunes.
            await asyncio.to_thread(stack.enter_context, locked(search.path))
            record = kernel.recorded(self._call)
            if record is not None and record.confirmed and not self._again and self._has(record):
                yield TuningReport(record, remembered=True)
                return
            self._started = time.monotonic()
            self._journal = stack.enter_context(MeasurementJournal(search))
            if self._again:
                self._journal.forget_ended()
            try:
                await self._prepare()
                yield None
            except BaseException:
                self._keep_best()
                raise

    def _has(self, record: TuningRecord) -> bool:
        """Whether the point of a record is one: a region begins where `optimize` ended, and what
        that has found may be another today.
        """
        return record.winner == "reference" or self.space.contains(record.decisions)

    async def advance(self, budget: TuningBudget, until: float | None = None) -> None:
        """Searches on; seconds count from the beginning, as trials do.

        `until` is a moment of `time.monotonic` at which it ends in any case, with none of the time
        left for a last race.
        """
        self._budget = budget
        await self._search(until)

    async def finish(self, seconds: float | None = None) -> TuningReport:
        """Races the best, and writes the winner to the table; what was measured stays.

        The races take so many `seconds` at most, or what is left of the budget.
        """
        report = await self._decided(seconds)
        self._kernel.table.put(report.record)
        self._journal.end()
        return report

    @property
    def best(self) -> float | None:
        """Seconds of the fastest point that is verified."""
        fastest = self._timer.fastest
        return None if fastest is None else fastest.seconds

    @property
    def baseline(self) -> float:
        """Seconds of the untuned form, or of the reference where that does not run."""
        assert self._timer.baseline is not None
        return self._timer.baseline.seconds

    def fastest(self) -> list[Measurement]:
        """What was timed, from the fastest on."""
        return self._state.fastest(MOST_TIMED)

    @property
    def space(self) -> SearchSpace:
        return self._state.space

    @property
    def evidence(self) -> str:
        """What the numbers of each winner were compared with, and on what."""
        kinds = ", ".join(self._numbers.kinds if self._numbers else ())
        against = "its untuned form" if self._kernel.reference is None else "the reference"
        return f"against {against} on {kinds} inputs, in arrays full of NaN before"

    def keywords(self, trace: Trace) -> Configuration:
        """The keyword arguments that a point stands for."""
        return self._kernel.keywords(self.space, trace)

    def stop(self) -> None:
        """Has the search end soon, with a last race among what it has."""
        self._over.set()

    async def race(self, traces: Mapping[str, Trace]) -> dict[str, float]:
        """Seconds of points that pass every gate, timed in turns after the search has ended."""
        names, race = await self.raced(traces, RACE_ROUNDS)
        if race is None:
            return {}
        return {
            name: lap.samples[race.deciding].median()
            for name, lap in zip(names, race.laps, strict=True)
            if lap.failure is None
        }

    async def raced(
        self, traces: Mapping[str, Trace], rounds: int
    ) -> tuple[list[str], Race | None]:
        """The points that pass every gate, and their race after the search has ended; no race where
        there is none.
        """
        names, contenders = [], []
        for name, trace in traces.items():
            compiled = await self._verified_build(Measurement(trace))
            if compiled is not None:
                names.append(name)
                contenders.append(compiled)
        if not contenders:
            return [], None
        return names, await self._executor.race(contenders, rounds=rounds, seed=self._seed)

    async def _prepare(self) -> None:
        """Compiles the reference and the untuned form, and times what others are compared with.

        That is the untuned form. Where it breaks a requirement, or a gate, it is the reference.
        """
        kernel, call = self._kernel, self._call
        default, compiled = await self._default()
        self._reference = await self._compiled_reference(compiled)
        gate = await NumbersGate.prepare(
            self._executor, kernel, call, self._reference, self._seed,
            self._budget.share(PRECISE_SHARE), self._budget.share(CHECKING_SHARE, LEAST_CHECKING),
        )  # fmt: skip
        if isinstance(gate, Rejection):
            raise TunerError(f"the reference of {kernel.name} does not run: {gate}")
        self._numbers = gate
        self._recall()  # before the baseline is noted, which would hide that it was measured
        if default is not None and isinstance(compiled, Compiled):
            rejection = await gate.admit(compiled) if kernel.reference is not None else None
            outcome = rejection or _rejected(await self._timer.timed(compiled))
            if not isinstance(outcome, Rejection):
                await self._start_from(default, compiled, outcome)
                return
            compiled = outcome
        if kernel.reference is None:
            raise TunerError(f"the untuned form of {kernel.name} cannot be timed: {compiled}")
        seconds = _rejected(await self._timer.timed(self._reference))
        if isinstance(seconds, Rejection):
            raise TunerError(f"the reference of {kernel.name} cannot be timed: {seconds}")
        await self._start_from(None, self._reference, seconds)
        if default is not None and isinstance(compiled, Rejection):
            self._note(self._measurement(default, compiled))

    async def _default(self) -> tuple[Trace | None, Compiled | Rejection]:
        try:
            default = self._state.space.default()
        except SpaceError as error:
            if self._kernel.reference is None:
                raise
            self._unfit = str(error)
            return None, Rejection(TuningGate.REQUIRE, str(error))
        return default, await self._compiled(default, expected=None)

    async def _compiled_reference(self, default: Compiled | Rejection) -> Compiled:
        kernel, call = self._kernel, self._call
        if kernel.reference is None:
            if isinstance(default, Rejection):
                raise TunerError(f"the untuned form of {kernel.name} does not compile: {default}")
            function, options = reference_of(kernel, call)
            self._expected = await asyncio.to_thread(output_types, function, call, options)
            return default
        self._expected = await asyncio.to_thread(output_types, kernel.reference, call, {})
        text = reference_candidate(kernel.reference, call, kernel.name)
        reference = await self._executor.compile(text)
        if isinstance(reference, Failure):
            raise TunerError(f"the reference of {kernel.name} does not compile: {reference}")
        return reference

    async def _start_from(self, trace: Trace | None, compiled: Compiled, seconds: float) -> None:
        """Makes this the baseline, and measures how long the way to the device and back takes."""
        assert self._numbers is not None
        if seconds < UNSETTLED:  # the way is nothing beside what runs longer
            started = time.perf_counter()
            await self._numbers.glance(compiled)
            self._overhead = max(0.0, time.perf_counter() - started - seconds)
        earlier = None if trace is None else self._state.measured.get(trace.key)
        if earlier is not None and earlier.seconds is not None:
            # What an earlier search measured is told in the seconds of its day, as all from now on.
            seconds = earlier.seconds
        self._timer.baseline = Baseline(trace, compiled, seconds)
        if trace is not None:
            measurement = Measurement(trace, seconds)
            self._timer.verified[trace.key] = (measurement, compiled)
            self._asked += trace.key not in self._state.measured
            self._note(measurement)

    def _recall(self) -> None:
        """Takes what an earlier search measured: it counts as tried, and is not measured again."""
        for line in self._journal.lines():
            with suppress(RequirementFailed, SpaceError):  # the space was edited meanwhile
                trace = self._state.space.replay(line.decisions)
                self._state.tell(
                    Measurement(
                        trace, line.seconds, line.gate, line.reason, line.predicted, line.at
                    )
                )
        self._asked = len(self._state.measured)

    async def _search(self, until: float | None = None) -> None:
        """Runs the stages until the budget or the space is exhausted, or `stop` is called."""
        built: asyncio.Queue[tuple[Trace, Compiled | Rejection]] = asyncio.Queue(BATCH)
        proposed: asyncio.Queue[Trace | None] = asyncio.Queue(BATCH)
        left = None if self._budget.seconds is None else self._budget.seconds - self._elapsed()
        ending = asyncio.create_task(self._over.wait())
        builders = 2
        self._building, self._point = 0, asyncio.Lock()
        self._may_build = asyncio.Event()
        self._may_build.set()
        work = asyncio.create_task(self._stages(proposed, built, builders))
        try:
            timeouts = [] if left is None else [left - reserved(left, self.baseline)]
            if until is not None:
                timeouts.append(until - time.monotonic())
            timeout = max(0.0, min(timeouts)) if timeouts else None
            await asyncio.wait({ending, work}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                try:
                    work.result()
                except ExceptionGroup as errors:
                    # One stage failed, and the others were cancelled: whoever waits is told why.
                    raise errors.exceptions[0] from None
            # What is broken off while it runs takes the device's process with it, and all that is
            # loaded there: a point that has begun may end.
            with suppress(TimeoutError):
                async with asyncio.timeout(self._budget.share(2 * POINT_SHARE) or GRACE):
                    await self._point.acquire()
        finally:
            for task in (ending, work):
                task.cancel()
            await asyncio.gather(ending, work, return_exceptions=True)

    async def _stages(
        self,
        proposed: asyncio.Queue[Trace | None],
        built: asyncio.Queue[tuple[Trace, Compiled | Rejection]],
        builders: int,
    ) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._propose(proposed, builders))
            building = [group.create_task(self._build(proposed, built)) for _ in range(builders)]
            measuring = group.create_task(self._measure(built))
            # Measuring never ends by itself: it is done when all that was built is.
            await asyncio.wait(building)
            await built.join()
            measuring.cancel()

    async def _propose(self, proposed: asyncio.Queue[Trace | None], builders: int) -> None:
        """Keeps the queue full; ends it where the space or the number of trials is exhausted."""
        while True:
            count = BATCH
            if self._budget.trials is not None:
                count = min(count, self._budget.trials - self._asked)
            progress = self._budget.spent(self._elapsed(), self._asked)
            points = await asyncio.to_thread(self._state.ask, count, progress) if count else []
            if not points:
                break
            self._asked += len(points)
            for trace in points:
                await proposed.put(trace)
        for _ in range(builders):  # each of them ends at one of these
            await proposed.put(None)

    async def _build(
        self,
        proposed: asyncio.Queue[Trace | None],
        built: asyncio.Queue[tuple[Trace, Compiled | Rejection]],
    ) -> None:
        while (trace := await proposed.get()) is not None:
            await self._may_build.wait()
            self._building += 1
            await built.put((trace, await self._compiled(trace, self._expected)))
            self._building -= 1

    async def _measure(self, built: asyncio.Queue[tuple[Trace, Compiled | Rejection]]) -> None:
        while True:
            points = [await built.get()]
            if self._executor.platform == "cpu":
                # A race waits for whoever compiles, and all that compile later for the race: by
                # turns, one point each, all cores but one would rest. So points take turns that are
                # compiled at the same time.
                self._may_build.clear()
                while self._building:
                    points.append(await built.get())
            for trace, compiled in points:
                outcome: Compiled | float | Rejection = compiled
                async with self._point:
                    if isinstance(compiled, Compiled):
                        outcome = await self._checked_and_timed(trace, compiled)
                    self._note(self._measurement(trace, outcome))
                if self._state.needs_fit():
                    await asyncio.to_thread(self._state.fit)
                built.task_done()
            self._may_build.set()

    async def _checked_and_timed(self, trace: Trace, compiled: Compiled) -> float | Rejection:
        assert self._numbers is not None
        # Numbers come before time: a wrong kernel is often fast, and would lead the search astray.
        best, coarse = self.best, await self._glanced(compiled)
        if best is not None and isinstance(coarse, float) and coarse > COARSE * best + 0.2:
            # The first run loads it, which on a loud machine takes a second: the next one tells.
            coarse = await self._glanced(compiled)
            if isinstance(coarse, Rejection) or coarse > COARSE * best + 0.2:
                return coarse
        if isinstance(coarse, Rejection):
            return coarse
        seconds = await self._timer.timed(compiled)
        if isinstance(seconds, Failure):
            return rejection_of(seconds)
        before = self._timer.fastest
        if before is not None and best is not None and seconds < best / (1 + TIE[0]):
            seconds = await self._timer.contested(compiled, seconds)
            if isinstance(seconds, Failure):
                return rejection_of(seconds)
            self._correct(self._timer.verified[before.trace.key][0])
            best = self.best
        # What is faster is verified now, so that there is a winner at any moment; what ties with
        # it only where it gets into the last race, as most of a hundred that are alike do not.
        if best is None or seconds < best / (1 + TIE[0]):
            if rejection := await self._numbers.admit(compiled, glanced=True):
                return rejection
            self._timer.verified[trace.key] = (Measurement(trace, seconds), compiled)
        elif seconds < best * (1 + TIE[1]):
            self._timer.unverified[trace.key] = compiled
        return seconds

    async def _glanced(self, compiled: Compiled) -> float | Rejection:
        """Seconds of one run that is checked, less the way there and back: an upper bound.

        It is rough, so that only what is far behind goes without a race; its rough time is learned
        from like any other.
        """
        assert self._numbers is not None
        started = time.perf_counter()
        rejection = await self._numbers.glance(compiled)
        return rejection or time.perf_counter() - started - self._overhead

    def _correct(self, entry: Measurement) -> None:
        """Takes the seconds of a point that was timed again."""
        noted = self._state.measured.get(entry.trace.key, entry)
        self._state.tell(replace(noted, seconds=entry.seconds))

    async def _compiled(
        self, trace: Trace, expected: Sequence[tuple[str, tuple[int, ...]]] | None
    ) -> Compiled | Rejection:
        kernel = self._kernel
        options = kernel.keywords(self._state.space, trace)
        try:
            text = candidate(
                kernel.original, self._call, options, name=trace.key, expected=expected
            )
        except TunerError:
            raise
        except Exception as error:  # a function that is traced here raises what it likes
            return Rejection(TuningGate.TRACE, f"{type(error).__name__}: {error}".splitlines()[0])
        compiled = await self._executor.compile(text)
        return rejection_of(compiled) if isinstance(compiled, Failure) else compiled

    def _measurement(self, trace: Trace, outcome: float | Rejection | Compiled) -> Measurement:
        predicted, at = self._state.predicted(trace), self._elapsed()
        if isinstance(outcome, Rejection):
            return Measurement(trace, None, outcome.gate.value, outcome.reason, predicted, at)
        assert isinstance(outcome, float)
        return Measurement(trace, outcome, predicted=predicted, at=at)

    def _note(self, measurement: Measurement) -> None:
        self._state.tell(measurement)
        self._journal.write(measurement)
        assert self._timer.baseline is not None
        self._on_progress(
            TuningProgress(
                self._kernel.name, len(self._state.measured), self._elapsed(), self.best,
                self._timer.baseline.seconds, measurement,
            )
        )  # fmt: skip

    async def _decided(self, seconds: float | None) -> TuningReport:
        """Races the best with the untuned form and the reference, and picks by the fixed rule."""
        assert self._timer.baseline is not None
        assert self._reference is not None
        default = self._timer.baseline.trace
        # The race runs its first contender twice: what differs between the two is noise.
        contenders = [Contender(default, self._timer.baseline.compiled, self.baseline)]
        entries = finalists(self.fastest(), self._favourites)
        entries = [entry for entry in entries if default is None or entry.trace.key != default.key]
        left = self._left() if seconds is None else seconds
        for entry in affordable(entries, self.baseline, left):
            build = await self._verified_build(entry)
            if build is not None:
                contenders.append(Contender(entry.trace, build, entry.seconds or 0.0))
        if self._kernel.reference is not None and default is not None:
            reference = Contender(None, self._reference, self.baseline)
            if least_rounds([*contenders, reference], left / 2) == LEAST_ROUNDS:
                contenders.append(reference)
        if seconds is not None:
            # Who is not verified yet was compiled and checked meanwhile, which on a loud machine
            # would leave next to no rounds.
            self._budget = TuningBudget(seconds=self._elapsed() + seconds)
        race = await self._last_race(contenders, FINAL_ROUNDS, 0.5)
        decision = decide(race, contenders)
        times = self._times(race, contenders, decision)
        close = [contenders[at] for at in close_contenders(race)]
        if len(close) > 1 and least_rounds(close, self._left()) >= LEAST_ROUNDS:
            # Who may tie with the fastest is told apart by more rounds; the others are out.
            contenders = close
            race = await self._last_race(contenders, CONFIRMING_ROUNDS, 0.9)
            decision = decide(race, contenders)
            confirmed = self._times(race, contenders, decision)
            named = [options for options, _ in confirmed]
            times = [*confirmed, *(entry for entry in times if entry[0] not in named)]
        decision = await self._serving(decision, contenders)
        record = self._record(contenders[decision.winner].trace, race, decision)
        return self._report(await self._judged(record), times)

    async def _serving(self, decision: Decision, contenders: Sequence[Contender]) -> Decision:
        """The decision for the first contender that is right at other sizes of its range as well.

        The reference is right at all. Raises TunerError where nobody is.
        """
        kernel = self._kernel
        for winner in decision.order if kernel.ranges else (decision.winner,):
            trace, rejection = contenders[winner].trace, None
            for call in kernel.probing_calls(self._call) if trace is not None else ():
                assert trace is not None
                rejection = await serves(self._executor, kernel, call, trace.decisions, self._seed)
                if rejection is not None:
                    self._state.tell(self._measurement(trace, rejection))
                    break
            if rejection is None:
                return dataclasses.replace(decision, winner=winner)
        raise TunerError(f"nothing in the last race of {kernel.name} serves its range: {rejection}")

    async def _last_race(self, contenders: Sequence[Contender], rounds: int, share: float) -> Race:
        """A race that takes this share of the time that is left."""
        left = self._left()
        return await self._executor.race(
            [contender.compiled for contender in contenders],
            rounds=rounds,
            seed=self._seed,
            seconds=max(1.0, share * left),
            least=least_rounds(contenders, share * left),
        )

    def _left(self) -> float:
        """Seconds for last races."""
        return 4.0 if self._budget.seconds is None else self._budget.seconds - self._elapsed()

    def _times(
        self, race: Race, contenders: Sequence[Contender], decision: Decision
    ) -> list[tuple[Configuration, float]]:
        """Configurations with their seconds, the winner first."""
        return [
            (self._named(contenders[at].trace), race.laps[at].samples[race.deciding].median())
            for at in decision.order
        ]

    async def _verified_build(self, entry: Measurement) -> Compiled | None:
        """A point compiled and through the whole numbers gate; nothing where it does not pass."""
        assert self._numbers is not None
        if entry.trace.key in self._timer.verified:
            return self._timer.verified[entry.trace.key][1]
        compiled = self._timer.unverified.pop(entry.trace.key, None) or await self._compiled(
            entry.trace, self._expected
        )
        rejection: Rejection | None
        if isinstance(compiled, Rejection):
            rejection = compiled
        else:
            rejection = await self._numbers.admit(compiled)
            if rejection is None:
                self._timer.verified[entry.trace.key] = (entry, compiled)
                return compiled
        self._state.tell(self._measurement(entry.trace, rejection))
        return None

    def _record(self, trace: Trace | None, race: Race, decision: Decision) -> TuningRecord:
        speedup = race.speedup(decision.winner)
        seconds = race.laps[decision.winner].samples[race.deciding].median()
        baseline = race.laps[0].samples[race.deciding].median()
        record = self._plain_record(trace, seconds, baseline)
        return replace(
            record,
            winner="reference" if trace is None else "tuned",
            speedup=(speedup.median, speedup.low, speedup.high) if speedup else None,
            tied=decision.tied,
        )

    async def _judged(self, record: TuningRecord) -> TuningRecord:
        """Says that a winner is proved, where it is; the reference is so of itself."""
        kernel = self._kernel
        if record.winner == "reference":
            return replace(record, checked="proved", evidence="it is the reference")
        function, _ = reference_of(kernel, self._call)
        if kernel.reference is None or self._executor.virtual:
            return record
        verdict = await verified(function, kernel.original, self._call, record.configuration)
        if verdict is None or verdict.status != "proved":
            return record
        evidence = f"equal {verdict.scope}; and {record.checked} {record.evidence}"
        return replace(record, checked="proved", evidence=evidence)

    def _plain_record(self, trace: Trace | None, seconds: float, baseline: float) -> TuningRecord:
        kernel = self._kernel
        # Where the reference won, the point beside it is for shapes that it may not win on.
        start = self._timer.baseline
        point = trace if trace is not None or start is None else start.trace
        return TuningRecord(
            kernel=kernel.name,
            arguments=kernel.key(self._call),
            device=device_name(),
            configuration={} if point is None else kernel.keywords(self._state.space, point),
            decisions={} if point is None else point.decisions,
            checked="tested",
            evidence=self.evidence,
            seconds=seconds,
            baseline_seconds=baseline,
            measured=len(self._state.measured),
            source=kernel.source,
            versions=versions(),
        )

    def _named(self, trace: Trace | None) -> Configuration:
        if trace is None:
            return {"reference": True}
        return self._kernel.keywords(self._state.space, trace)

    def _report(
        self, record: TuningRecord, finalists: Sequence[tuple[Configuration, float]] = ()
    ) -> TuningReport:
        return TuningReport(
            record,
            tuple(self._state.measured.values()),
            tuple(self._state.correlations),
            self._state.model_kind,
            self._state.size,
            self._elapsed(),
            finalists=tuple(finalists),
            unfit=self._unfit,
        )

    def _keep_best(self) -> None:
        """Writes the fastest verified point down where the search is broken off."""
        if self._timer.baseline is None or not self._timer.verified:
            return
        entry, _ = min(self._timer.verified.values(), key=lambda pair: pair[0].seconds or 0.0)
        seconds, baseline = entry.seconds or 0.0, self._timer.baseline.seconds
        if seconds * (1 + TIE[0]) < baseline:
            record = self._plain_record(entry.trace, seconds, baseline)
            self._kernel.table.put(replace(record, confirmed=False))

    def _elapsed(self) -> float:
        return time.monotonic() - self._started


def _rejected(outcome: float | Failure) -> float | Rejection:
    return rejection_of(outcome) if isinstance(outcome, Failure) else outcome
