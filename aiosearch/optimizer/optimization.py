"""`optimize`: takes a JAX function and gives one that is verified and measured to be faster.

A call of `optimize` goes through four stages. Tracing needs the settings of the caller's thread and
runs there; searching and racing leave the event loop to others:

    trace      the function becomes a `CutFunction`: programs to search, and what stays with JAX
    search     `AnswerFinder` looks each program up, or rewrites, races and verifies it
    race       the function as a whole against itself, then the drop-in as its user will call it
    hand back  `Spliced` puts the answers that are left in their places, behind an `Optimized`

What is known after each stage is in `_Optimization`. docs/reference/optimize.md has the options,
and says what is timed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ParamSpec, TypeVar, cast

import jax
from anyio import CancelScope, to_thread

from .._blocking import waited_for
from .._switch_interval import short_switch_interval
from ..capture.jax_types import PyTree
from ..codegen.pallas import without_backend_warning
from ..measure import Executor
from .answer_finder import AnswerFinder
from .device_kind import device, platform
from .effort import Effort
from .errors import OptimizeError
from .handback.loadable import refusal
from .handback.optimized import Optimized, original_of
from .handback.source import source
from .jax_settings import current_settings, use_settings
from .options import demand, demand_values
from .outcomes.answer import Answer
from .outcomes.report import Found, Report, Tell, WholeFunctionResult
from .outcomes.results import Results
from .race.as_called import AsCalledRace
from .race.whole_function import is_single_program, stored_arrangement
from .trace.pieces import Subject
from .trace.splice import Packed, Replacement, Spliced
from .trace.traced import CutFunction, Traced, trace

P = ParamSpec("P")
R = TypeVar("R")


async def optimize(
    function: Callable[P, R],
    /,
    *args: PyTree,
    effort: Effort | str = Effort.DEFAULT,
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
    kwargs: Mapping[str, PyTree] | None = None,
    **named: PyTree,
) -> Optimized[P, R]:
    """Finds a faster function that computes the same; gives the original's behaviour otherwise.

        fast = await optimize(attention, q, k, v, effort="quick")
        fast(q, k, v)          # as `attention(q, k, v)`, for arrays of these shapes and types

    Only tracing runs in this thread, before anything else and under jax's settings of that moment,
    which are those that the answer is for. What was found before is not searched again. `tell`
    hears what is going on, in words. Without `kernels` the answer is plain JAX. Of jax's arrays at
    `constant_argnums`, and of those that are closed over, something may be made beforehand, which
    `Optimized` keeps. Keyword arguments of the function that are called as one of these options are
    given in `kwargs`. What was optimized before stands for its original, also as a method or in a
    `functools.partial`; in a `jax.jit` it stays what it is. Raises an AiosearchError: an
    `OptimizeError` where an option is wrong, or the target absent, or arrays lie elsewhere, or on
    several devices, or are deleted; a `SpliceError` where the function cannot be traced.
    """
    started = time.monotonic()
    function = original_of(function)
    demand(
        function,
        args,
        named,
        {
            "effort": effort,
            "target": target,
            "seed": seed,
            "strict": strict,
            "kernels": kernels,
            "static_argnums": static_argnums,
            "static_argnames": static_argnames,
            "constant_argnums": constant_argnums,
            "results": results,
            "executor": executor,
            "tell": tell,
            "kwargs": kwargs,
        },
    )
    chosen = _effort(effort)
    keywords = {**(kwargs or {}), **named}
    # Nothing is awaited before: meanwhile the settings of jax may become another task's.
    traced = trace(
        function,
        *args,
        static_argnums=static_argnums,
        static_argnames=static_argnames,
        constant_argnums=constant_argnums,
        kwargs=keywords,
    )
    arguments = dict(zip(traced.call.names(), traced.examples, strict=True))
    demand_values(function, arguments, traced.closed_over)
    platform_name = await to_thread.run_sync(platform, target, traced.shardings)
    with short_switch_interval():
        cut = await to_thread.run_sync(traced.cut)
        # A virtual executor invents its times, which must not reach the user's own store.
        virtual = executor is not None and executor.virtual
        store = results or (Results.nowhere() if virtual else Results.open())
        try:
            async with AnswerFinder(
                chosen, platform_name, seed, strict, kernels, store, executor, tell, traced.settings
            ) as finder:
                stages = _Optimization(traced, cut, finder, platform_name, tell, started)
                await stages.search()
                await stages.load()
                await stages.race_as_whole()
                call = AsCalledRace(function, args, keywords, traced.examples)
                optimized = await stages.hand_back(call)
        finally:
            if results is None:
                # A cancelled call still writes what it found before it was cancelled.
                with CancelScope(shield=True):
                    await to_thread.run_sync(store.close)
        return cast("Optimized[P, R]", optimized)


@dataclass
class _Optimization:
    """One call of `optimize` after its trace; each method is a stage, and sets what it finds out.

    In this order: `search` sets `outcomes`, `load` sets `faster` and `loaded`, `race_as_whole` sets
    `whole` and removes from `faster` what does not pay in its place, `hand_back` reads all of it.
    """

    traced: Traced
    cut: CutFunction
    finder: AnswerFinder
    platform: str
    tell: Tell
    started: float
    """By `time.monotonic`, for the report."""
    left_alone: list[str] = field(init=False)
    """Why parts of the function stay as they are, for the report; `tell` hears each when it turns
    up."""
    outcomes: dict[Subject, Found] = field(default_factory=dict, init=False)
    """What was found for each program of the function."""
    faster: dict[Subject, Answer] = field(default_factory=dict, init=False)
    """The answers that are to stand in the function."""
    loaded: dict[Subject, Replacement | Packed] = field(default_factory=dict, init=False)
    """What each answer of `faster` puts in the place of its program."""
    whole: WholeFunctionResult | str = field(default="", init=False)
    """What the race of the whole function says; empty where it was not needed."""

    def __post_init__(self) -> None:
        self.left_alone = list(self.cut.left_alone)

    async def search(self) -> None:
        """Finds the answer for each program; one that does not run is left alone."""
        for subject in self.cut.subjects:
            try:
                self.outcomes[subject] = await self.finder.answer(subject)
            except OptimizeError as error:
                self._leave_alone(subject, str(error))

    async def load(self) -> None:
        """Loads what is faster; what another machine found may not run on this one."""
        for subject, outcome in self.outcomes.items():
            if not outcome.answer.faster:
                continue
            if why := await to_thread.run_sync(refusal, outcome.answer):
                self._leave_alone(subject, why)
            else:
                self.faster[subject] = outcome.answer
        self.loaded = {subject: load(answer) for subject, answer in self.faster.items()}

    async def race_as_whole(self) -> None:
        """Keeps what is faster in its place too, where the function is more than one program.

        XLA fuses across what was cut apart, so that a part that is faster alone may make the
        function slower; a function that is a single program was raced by `search` already.
        """
        if not self.faster or is_single_program(self.cut):
            return
        self.whole = await self.finder.whole(
            self.cut, self.traced.examples, self.faster, self.loaded
        )
        if isinstance(self.whole, WholeFunctionResult):
            self.faster = stored_arrangement(self.whole.answer, self.faster)
        elif self.whole:
            self.faster = {}

    async def hand_back(self, call: AsCalledRace) -> Optimized[..., PyTree]:
        """The drop-in; the function as it is where the drop-in loses as its user will call it."""
        optimized = await to_thread.run_sync(self._assemble)
        assert optimized.report is not None, "`_assemble` gives one"
        for why in optimized.report.left_alone[len(self.left_alone) :]:
            self.tell(why)
        if not self.faster:
            return optimized
        lost = await self.finder.lost_as_called(call, optimized, self.cut, self.faster)
        if not lost:
            return optimized
        self.faster, self.whole = {}, lost
        return await to_thread.run_sync(self._assemble)

    def _assemble(self) -> Optimized[..., PyTree]:
        """Puts `faster` into the function, with its source and its report. Blocks."""
        spliced = Spliced(self.cut, {subject: self.loaded[subject] for subject in self.faster})
        with use_settings(self.traced.settings):
            # Here, in a thread: else the first call would pack in the event loop.
            spliced.packs(self.cut.held)
        report = Report(
            tuple(self.outcomes.values()),
            (*self.left_alone, *map(_without_memory, spliced.too_large)),
            time.monotonic() - self.started,
            self.whole,
        )
        code = source(self.cut, self.faster)
        return Optimized(
            spliced,
            source=code.text,
            lacks=code.lacks,
            report=report,
            device=device(self.platform),
        )

    def _leave_alone(self, subject: Subject, why: str) -> None:
        self.left_alone.append(f"{subject.program.name}: {why}")
        self.tell(self.left_alone[-1])


def _without_memory(subject: Subject) -> str:
    name = subject.program.name
    return f"{name}: there is no memory for what it makes beforehand, and so it makes nothing"


def optimize_sync(function: Callable[P, R], /, *args: PyTree, **options: PyTree) -> Optimized[P, R]:
    """Waits for `optimize`, and takes what it takes; in a running event loop (a notebook) too."""
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


def _effort(effort: Effort | str) -> Effort:
    try:
        return Effort(effort)
    except ValueError:
        raise OptimizeError(f"no effort {effort!r}: there are {', '.join(Effort)}") from None
