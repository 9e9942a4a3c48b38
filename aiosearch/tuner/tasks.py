"""Many kernels within one budget: the next trials go where the whole should gain most.

A model runs some kernels often and others once, some for long and others not. Each is a task with a
weight, which says how often it runs. Problem: spend a wall budget on the sum of weight x seconds.
After a first turn each, the task goes on that should lower the sum most by one more turn:

    gain = weight x (0.2 x what its last turns gained + 0.8 x its seconds / its turns so far)

The first part looks back, as what fell just now may fall on; the second hopes that a task falls as
it did on average, so that one that takes long and was hardly tried comes first. A task has
converged when three turns gained less than one percent together, and is left.

`tune_function` does so for a whole JAX function: its tasks are the regions that `optimize` would
search, each once, weighted by how often the function runs it. `optimize` searches them first, with
little effort: what it finds, equal programs and kernels, is where the tuner begins. Which of the
winners then replace their regions is one more search, of the whole function as it is called.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from .._blocking import waited_for
from ..measure import Executor
from .errors import TunerError
from .kernels import KernelCall, kernel_name
from .pipeline import TuningSession, tune
from .records import RecordTable
from .reports import TuningProgress, TuningReport
from .space.spaces import Sampler
from .timing import TuningBudget, device_executor
from .tunables import AnyTunable, Tunable
from .types import Configuration, Function, Options, Pytree

if TYPE_CHECKING:
    from ..optimizer import CutFunction, Found, Spliced, Subject
    from .schedules.programs import TunableProgram
    from .schedules.tile_modules import KernelTarget, TileModule

BACKWARD = 0.2
WINDOW = 3
CONVERGED = 0.01
TURN = 8
"""Trials of a turn."""
LAST_SHARE = 0.2
"""The share of the budget that is left for the last races of all tasks."""
LEAST_SECONDS = 4.0
"""For the last races of a task, whatever is left."""


@dataclass(frozen=True)
class TuningTask:
    """A kernel with the arguments of one kind of call, and how often the whole runs it."""

    kernel: AnyTunable
    arguments: tuple[Pytree, ...]
    weight: float = 1.0


@dataclass
class TaskHistory:
    """What the turns of a task brought: seconds of its best after each."""

    weight: float
    seconds: list[float] = field(default_factory=list)

    @property
    def converged(self) -> bool:
        """Whether the last turns gained next to nothing."""
        if len(self.seconds) <= WINDOW:
            return False
        return self.seconds[-1 - WINDOW] - self.seconds[-1] < CONVERGED * self.seconds[-1]

    def gain(self) -> float:
        """How much the whole should gain by one more turn, in seconds."""
        last = self.seconds[-1]
        back = min(WINDOW, len(self.seconds) - 1)
        fell = (self.seconds[-1 - back] - last) / back if back else 0.0
        return self.weight * (BACKWARD * fell + (1 - BACKWARD) * last / len(self.seconds))


def next_task(histories: Sequence[TaskHistory]) -> int | None:
    """Whose turn it is: who had none, else who should gain most; nobody where all converged."""
    for at, history in enumerate(histories):
        if not history.seconds:
            return at
    going_on = [at for at, history in enumerate(histories) if not history.converged]
    return max(going_on, key=lambda at: histories[at].gain(), default=None)


async def tune_tasks(
    tasks: Sequence[TuningTask],
    *,
    seconds: float,
    turn: int = TURN,
    seed: int = 0,
    again: bool = False,
    executor: Executor | None = None,
    on_progress: Callable[[TuningProgress], None] | None = None,
) -> list[TuningReport]:
    """Tunes all within one wall budget; equal tasks are tuned once and count together.

    Gives a report for each task, in order. What the table has is taken from it, unless all are to
    be tuned `again`.
    """
    if not tasks:
        raise TunerError("there is no task to tune")
    if executor is None:
        async with device_executor() as device:
            return await tune_tasks(
                tasks, seconds=seconds, turn=turn, seed=seed, again=again, executor=device,
                on_progress=on_progress,
            )  # fmt: skip
    started = time.monotonic()
    distinct: dict[tuple[str, tuple[str, ...]], TuningTask] = {}
    weights: dict[tuple[str, tuple[str, ...]], float] = {}
    for task in tasks:
        key = _key(task)
        distinct.setdefault(key, task)
        weights[key] = weights.get(key, 0.0) + task.weight
    reports: dict[tuple[str, tuple[str, ...]], TuningReport] = {}
    async with AsyncExitStack() as stack:
        searches, histories, keys = [], [], []
        # Each holds its lock until all have ended: whoever else tunes some of them, in whatever
        # order, takes the locks in this order too, so that none waits for what waits for it.
        for key, task in sorted(distinct.items(), key=lambda item: item[0]):
            search = TuningSession(
                task.kernel, KernelCall(task.arguments), executor,
                TuningBudget(seconds / len(distinct)), seed=seed, again=again,
                on_progress=on_progress,
            )  # fmt: skip
            record = await stack.enter_async_context(search.opened())
            if record is not None:
                reports[key] = record
                continue
            searches.append(search)
            histories.append(TaskHistory(weights[key]))
            keys.append(key)
        end = started + (1 - LAST_SHARE) * seconds
        while time.monotonic() < end and (at := next_task(histories)) is not None:
            search = searches[at]
            trials = (len(histories[at].seconds) + 1) * turn
            await search.advance(TuningBudget(trials=trials), until=end)
            histories[at].seconds.append(search.best or search.baseline)
        for at, (key, search) in enumerate(zip(keys, searches, strict=True)):
            # What converged tasks left is for last races as well: with few rounds a loud machine
            # does not tell even twice as fast from as fast.
            left = started + seconds - time.monotonic()
            reports[key] = await search.finish(max(LEAST_SECONDS, left / (len(keys) - at)))
    return [reports[_key(task)] for task in tasks]


def _key(task: TuningTask) -> tuple[str, tuple[str, ...]]:
    return (task.kernel.name, task.kernel.key(KernelCall(task.arguments)))


WHOLE_SHARE = 0.2
"""The share of the budget of a function in which the whole is timed, with regions replaced."""
BEGINNING_SHARE = 0.25
"""The share in which `optimize` searches the regions; what it has begun may take as much again."""


@dataclass(frozen=True)
class TunedRegion:
    """A region of a function, tuned."""

    report: TuningReport
    weight: float
    """How often the function runs it."""
    replaced: bool
    """Whether the whole runs with its kernels, rather than with XLA's."""
    begun: float = 1.0
    """How many times as fast as the original `optimize` had it, where the tuner began."""


@dataclass(frozen=True, eq=False)
class TunedFunction:
    """A function with tuned kernels in the places of its regions; it is called like the function.

    Derivatives and batches are those of the original. Where nothing was faster as a whole, it is
    the original.
    """

    name: str
    function: Function
    regions: tuple[TunedRegion, ...]
    report: TuningReport | None
    """Of the whole, as it is called; None where no region had a faster kernel."""
    left_alone: tuple[str, ...]
    """What was no region, and why."""
    seconds: float

    def __call__(self, *arguments: Pytree) -> Pytree:
        return self.function(*arguments)

    @property
    def speedup(self) -> float:
        """Of the whole over the original."""
        return 1.0 if self.report is None else self.report.speedup or 1.0

    def facts(self) -> Configuration:
        """All of it, as JSON can say it."""
        return {
            "function": self.name,
            "speedup": self.speedup,
            "seconds": self.seconds,
            "left_alone": list(self.left_alone),
            "whole": None if self.report is None else self.report.facts(),
            "regions": [
                {
                    "weight": region.weight,
                    "replaced": region.replaced,
                    "begun": region.begun,
                    **region.report.facts(),
                }
                for region in self.regions
            ],
        }

    def __str__(self) -> str:
        count = sum(region.replaced for region in self.regions)
        interval = ""
        if self.report is not None and self.report.record.speedup is not None:
            _, low, high = self.report.record.speedup
            interval = f" ({low:.2f} to {high:.2f})"
        lines = [
            f"{self.name}: {self.speedup:.2f}x the original{interval}, {count} of"
            f" {len(self.regions)} distinct regions replaced, in {self.seconds:.0f} s"
        ]
        for region in self.regions:
            gain = region.report.speedup or 1.0
            marked = "replaced" if region.replaced else "XLA's own"
            trials = f"{region.report.trials} tried"
            begun = f" from {region.begun:.2f}x by optimize" if region.begun > 1 else ""
            lines.append(
                f"  {region.weight:g} x {region.report.record.kernel}: {gain:.2f}x alone{begun},"
                f" {trials}, {marked}"
            )
        return "\n".join([*lines, *(f"  left alone: {reason}" for reason in self.left_alone)])


def region_weights(cut: CutFunction) -> dict[Subject, float]:
    """How often a call runs each distinct region: a loop's as often as it goes round, where that is
    known.
    """
    from ..optimizer import occurrences

    counts = occurrences(cut)
    return {subject: counts[subject].runs for subject in cut.subjects}


async def tune_function(
    function: Function,
    /,
    *arguments: Pytree,
    seconds: float = 600.0,
    modules: Sequence[TileModule | str] | None = None,
    target: KernelTarget | None = None,
    table: str | Path | None = None,
    seed: int = 0,
    again: bool = False,
    executor: Executor | None = None,
    on_progress: Callable[[TuningProgress], None] | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> TunedFunction:
    """Tunes the kernels of a whole JAX function within one wall budget.

    It is cut as `optimize` cuts it, and what that finds in a quarter of the time, or has found
    before, is where the search of each region begins. Equal regions are one task, and the next
    trials go to the task that should gain most for the whole. Then the whole is timed with regions
    replaced, all and each alone, and what is faster beyond a tie is kept. `tell` hears in words
    what `optimize` does. Raises TunerError where nothing in it is a region.

        fast = await tune_function(model, params, x, seconds=600)
        fast(params, x)
    """
    from .schedules.tile_modules import STANDARD

    started = time.monotonic()
    cut, answers = await _begun(function, arguments, BEGINNING_SHARE * seconds, executor, tell)
    async with AsyncExitStack() as stack:
        # Only now: the processes of `optimize` are gone, and a device has one owner.
        if executor is None:
            executor = await stack.enter_async_context(device_executor())
        tuning = _FunctionTuning(
            function, cut, answers, executor, started + seconds, seed, again, table, on_progress
        )
        return await tuning.run(arguments, modules or STANDARD, target, started)


async def _begun(
    function: Function,
    arguments: Sequence[Pytree],
    seconds: float,
    executor: Executor | None,
    tell: Callable[[str], None],
) -> tuple[CutFunction, dict[Subject, Found]]:
    """A function in pieces, and what `optimize` finds for each of its regions in so many seconds.

    Its effort is the least: kernels are what the tuner goes on with.
    """
    from ..optimizer import Effort, Optimization, budget_of

    effort = msgspec.structs.replace(budget_of(Effort.QUICK), seconds=seconds)
    search = Optimization(
        function, *arguments, effort=effort, seconds=2 * seconds, executor=executor, tell=tell,
        progress=False,
    )  # fmt: skip
    return await search.answers()


@dataclass
class _FunctionTuning:
    """One call of `tune_function`, after the function was cut and its regions were begun."""

    function: Function
    cut: CutFunction
    answers: Mapping[Subject, Found]
    executor: Executor
    end: float
    """By `time.monotonic`."""
    seed: int
    again: bool
    table: str | Path | None
    on_progress: Callable[[TuningProgress], None] | None

    async def run(
        self,
        arguments: Sequence[Pytree],
        modules: Sequence[TileModule | str],
        target: KernelTarget | None,
        started: float,
    ) -> TunedFunction:
        """Tunes the regions, then the whole."""
        name = kernel_name(self.function)
        kernels, left_alone = self._kernels(modules, target)
        if not kernels:
            raise TunerError(f"nothing in {name} can be tuned: {left_alone[0]}")
        weights = region_weights(self.cut)
        tasks = [
            TuningTask(kernel, _types(subject), weights[subject])
            for subject, kernel in kernels.items()
        ]
        # Of all the time, and not of what `optimize` has left: the whole takes as long to time.
        for_whole = WHOLE_SHARE * (self.end - started)
        reports = await tune_tasks(
            tasks, seconds=self.end - for_whole - time.monotonic(), seed=self.seed,
            again=self.again, executor=self.executor, on_progress=self.on_progress,
        )  # fmt: skip
        whole = SplicedFunction(
            self.cut,
            {
                subject: partial(kernels[subject].original, **report.configuration)
                for subject, report in zip(kernels, reports, strict=True)
                if _is_ours(report)
            },
        )
        report = await self._whole(whole, arguments) if whole.sites else None
        won = report is not None and report.record.winner == "tuned"
        configuration = report.configuration if report is not None and won else {}
        replaced = whole.replaced(configuration)
        regions = tuple(
            TunedRegion(tuned, weights[subject], subject in replaced, self._gain(subject))
            for subject, tuned in zip(kernels, reports, strict=True)
        )
        return TunedFunction(
            name,
            partial(whole, **configuration) if replaced else self.function,
            regions,
            report,
            tuple(left_alone),
            time.monotonic() - started,
        )

    def _kernels(
        self, modules: Sequence[TileModule | str], target: KernelTarget | None
    ) -> tuple[dict[Subject, TunableProgram], list[str]]:
        """Each region that has anything to tune, and why others have not."""
        from .schedules.programs import tunable_region

        kernels: dict[Subject, TunableProgram] = {}
        left_alone = list(self.cut.left_alone)
        for subject in self.cut.subjects:
            begun = self.answers.get(subject)
            kernel = tunable_region(
                subject.program, None if begun is None else begun.answer, modules=modules,
                target=target, table=self.table,
            )  # fmt: skip
            try:
                kernel.search_space(KernelCall(_types(subject))).default()
            except TunerError as error:
                left_alone.append(str(error))
            else:
                kernels[subject] = kernel
        return kernels, left_alone

    async def _whole(self, whole: SplicedFunction, arguments: Sequence[Pytree]) -> TuningReport:
        """Times the function with its regions replaced, all and each alone."""
        name = f"whole of {kernel_name(self.function)}"
        called = Tunable(whole, whole.space, self.function, RecordTable(self.table), name)
        return await tune(
            called, *arguments, seconds=max(5.0, self.end - time.monotonic()),
            trials=len(whole.sites) + 2, seed=self.seed, again=True, executor=self.executor,
            on_progress=self.on_progress, seeds=whole.promising,
        )  # fmt: skip

    def _gain(self, subject: Subject) -> float:
        begun = self.answers.get(subject)
        return begun.answer.speedup if begun is not None and begun.answer.faster else 1.0


def tune_function_sync(
    function: Function, /, *arguments: Pytree, **options: Pytree
) -> TunedFunction:
    """`tune_function` where nothing can be awaited."""
    return waited_for(lambda: tune_function(function, *arguments, **options), "aiosearch-tune")


class SplicedFunction:
    """A function that was cut, with a site for each region that has a kernel in its place."""

    def __init__(self, cut: CutFunction, faster: dict[Subject, Function]) -> None:
        self._cut = cut
        self._faster = faster
        self.sites = {f"region_{at}": subject for at, subject in enumerate(faster)}
        self.__name__ = self.__qualname__ = "whole"

    @property
    def promising(self) -> list[Configuration]:
        """All regions replaced, then each alone."""
        alone = [{name: name == alone for name in self.sites} for alone in self.sites]
        return [dict.fromkeys(self.sites, True), *alone]

    def space(self, s: Sampler, *arguments: Pytree) -> None:
        """Of each region, whether it is replaced."""
        for name in self.sites:
            s.categorical(name, (False, True))

    def replaced(self, configuration: Options) -> set[Subject]:
        """The regions that a configuration replaces."""
        return {subject for name, subject in self.sites.items() if configuration.get(name)}

    def printed(self, call: KernelCall, configuration: Options) -> str:
        """The text of a module that defines `_function`, of the call's leaves in order."""
        from ..measure import Failure
        from ..optimizer import exported

        text = exported(self._spliced(configuration), self._cut.settings)
        if isinstance(text, Failure):
            # A rejection of this point, as of any function that cannot be traced.
            raise ValueError(str(text))
        return f"{text.source}\n_function = {text.function}\n"

    def __call__(self, *arguments: Pytree, **configuration: Pytree) -> Pytree:
        return self._spliced(configuration)(*arguments)

    def _spliced(self, configuration: Options) -> Spliced:
        from ..optimizer import Spliced

        chosen = self.replaced(configuration)
        return Spliced(self._cut, {subject: self._faster[subject] for subject in chosen})


def _is_ours(report: TuningReport) -> bool:
    """Whether something of ours won, rather than what XLA makes of the region as it was written."""
    from .schedules.programs import AS_WRITTEN, FORM, LIBRARY

    record = report.record
    untuned = {FORM: LIBRARY}
    chosen = {name: value for name, value in record.configuration.items() if value != AS_WRITTEN}
    return record.winner == "tuned" and chosen != untuned


def _types(subject: Subject) -> tuple[Pytree, ...]:
    """The types of the inputs of a region, for jax."""
    return tuple(map(_struct, subject.program.inputs))


def _struct(term: Pytree) -> Pytree:
    """The type of an input of a program, for jax."""
    import jax

    from ..tensor.types import ARRAY_NAMES

    make: Function = jax.ShapeDtypeStruct
    return make(tuple(map(int, term.shape)), ARRAY_NAMES[term.dtype])
