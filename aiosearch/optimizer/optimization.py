"""`optimize`: takes a JAX function and gives one that is verified and measured to be faster."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar, cast

import jax
from anyio import CancelScope, to_thread

from .._blocking import waited_for
from .._switch_interval import short_switch_interval
from ..codegen.pallas.dialect import without_backend_warning
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
from .trace.traced import trace

P = ParamSpec("P")
R = TypeVar("R")


async def optimize(
    function: Callable[P, R],
    /,
    *args: Any,
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
    kwargs: Mapping[str, Any] | None = None,
    **named: Any,
) -> Optimized[P, R]:
    """Finds a faster function that computes the same; gives the original's behaviour otherwise.

    Only tracing runs in this thread, before anything else and under jax's settings of that moment,
    which are those that the answer is for. What was found before is not searched again. `tell`
    hears what is going on, in words. Without `kernels` the answer is plain JAX. Of jax's arrays at
    `constant_argnums`, and of those that are closed over, something may be made beforehand, which
    `Optimized` keeps. Keyword arguments of the function that are called as one of these options are
    given in `kwargs`. What was optimized before stands for its original, also as a method or in a
    `functools.partial`; in a `jax.jit` it stays what it is. Raises an AiosearchError: an
    OptimizeError where an option is wrong, or the target absent, or arrays lie elsewhere, or on
    several devices, or are deleted; a SpliceError where the function cannot be traced.
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
    # Nothing is awaited before: meanwhile the settings of jax may become another task's.
    traced = trace(
        function,
        *args,
        static_argnums=static_argnums,
        static_argnames=static_argnames,
        constant_argnums=constant_argnums,
        kwargs={**(kwargs or {}), **named},
    )
    given = dict(zip(traced.call.names(), traced.examples, strict=True))
    demand_values(function, given, traced.closed_over)
    wanted = await to_thread.run_sync(platform, target, traced.shardings)
    with short_switch_interval():
        found = await to_thread.run_sync(traced.cut)
        made_up = executor is not None and executor.virtual
        store = results or (Results.nowhere() if made_up else Results.open())
        answers: dict[Subject, Found] = {}
        left_alone = list(found.left_alone)
        try:
            async with AnswerFinder(
                chosen, wanted, seed, strict, kernels, store, executor, tell, traced.settings
            ) as answering:
                for subject in found.subjects:
                    try:
                        answers[subject] = await answering.answer(subject)
                    except OptimizeError as error:
                        left_alone.append(f"{subject.program.name}: {error}")
                        tell(left_alone[-1])
                faster = {
                    one: found.answer for one, found in answers.items() if found.answer.faster
                }
                for subject, answer in [*faster.items()]:
                    if why := await to_thread.run_sync(refusal, answer):
                        left_alone.append(f"{subject.program.name}: {why}")
                        tell(left_alone[-1])
                        del faster[subject]
                loaded = {subject: load(answer) for subject, answer in faster.items()}
                whole: WholeFunctionResult | str = ""
                if faster and not is_single_program(found):
                    whole = await answering.whole(found, traced.examples, faster, loaded)
                if whole:
                    faster = (
                        stored_arrangement(whole.answer, faster)
                        if isinstance(whole, WholeFunctionResult)
                        else {}
                    )

                def handed(
                    faster: Mapping[Subject, Answer], whole: WholeFunctionResult | str
                ) -> Any:
                    spliced = Spliced(found, {subject: loaded[subject] for subject in faster})
                    with use_settings(traced.settings):
                        spliced.packs(found.held)  # before the event loop would have to
                    told = (*left_alone, *map(_without_memory, spliced.too_large))
                    seconds = time.monotonic() - started
                    report = Report(tuple(answers.values()), told, seconds, whole)
                    code = source(found, faster)
                    where = device(wanted)
                    return Optimized(
                        spliced, source=code.text, lacks=code.lacks, report=report, device=where
                    )

                made = await to_thread.run_sync(handed, faster, whole)
                for why in made.report.left_alone[len(left_alone) :]:
                    tell(why)
                if faster:
                    call = AsCalledRace(
                        function, args, {**(kwargs or {}), **named}, traced.examples
                    )
                    lost = await answering.lost_as_called(call, made, found, faster)
                    made = await to_thread.run_sync(handed, {}, lost) if lost else made
        finally:
            if results is None:
                with CancelScope(shield=True):
                    await to_thread.run_sync(store.close)
        return cast("Optimized[P, R]", made)


def _without_memory(subject: Subject) -> str:
    name = subject.program.name
    return f"{name}: there is no memory for what it makes beforehand, and so it makes nothing"


def optimize_sync(function: Callable[P, R], /, *args: Any, **options: Any) -> Optimized[P, R]:
    """Waits for `optimize`, and takes what it takes; in a running event loop (a notebook) too."""
    own = current_settings()

    async def optimized() -> Optimized[P, R]:
        with use_settings(own):  # a thread begins with those that all have
            return await optimize(function, *args, **options)

    return waited_for(optimized, "aiosearch.optimize")


def load(answer: Answer) -> Replacement | Packed:
    """What an answer's source puts in the place of a program."""
    module: dict[str, Any] = {"__name__": f"aiosearch answer {answer.id}"}
    exec(compile(answer.source, f"<{answer.file_name}>", "exec"), module)
    if "pl.pallas_call" in answer.source:
        without_backend_warning()
    plain: Replacement = module[answer.function]
    wanted = answer.packing
    if wanted is None:
        return plain
    pack = jax.jit(module[wanted.pack])
    return Packed(wanted.positions, pack, module[wanted.run], plain)


def _effort(wanted: Effort | str) -> Effort:
    try:
        return Effort(wanted)
    except ValueError:
        raise OptimizeError(f"no effort {wanted!r}: there are {', '.join(Effort)}") from None
