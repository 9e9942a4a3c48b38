"""The whole way: a JAX function in, one that is verified and measured faster out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar, cast

from anyio import to_thread

from .._waiting import waited_for
from ..measure import Executor
from ..tensor import Program
from .answering import Answering
from .answers import Answer
from .devices import platform
from .dropin import Optimized
from .effort import Effort
from .errors import OptimizeError
from .report import Found, Report, Tell
from .results import Results
from .splice.cutting import Cut, cut
from .splice.splicing import Spliced

P = ParamSpec("P")
R = TypeVar("R")


async def optimize(
    function: Callable[P, R],
    *args: Any,
    effort: Effort | str = Effort.DEFAULT,
    target: str = "auto",
    seed: int = 0,
    strict: bool = False,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Iterable[str] = (),
    constant_argnums: int | Sequence[int] = (),
    results: Results | None = None,
    executor: Executor | None = None,
    tell: Tell = lambda text: None,
    **kwargs: Any,
) -> Optimized[P, R]:
    """Finds a faster function that computes the same; gives the original's behaviour otherwise.

    Only tracing runs in this thread. What was found before is not searched again. `tell` hears what
    is going on, in words. Raises an AiosearchError where the function cannot be traced, or the
    target is absent.
    """
    started = time.monotonic()
    chosen, wanted = _effort(effort), await to_thread.run_sync(platform, target)
    found = cut(
        function,
        *args,
        static_argnums=static_argnums,
        static_argnames=static_argnames,
        constant_argnums=constant_argnums,
        **kwargs,
    )
    store = results or Results.open()
    answers: dict[Program, Found] = {}
    left_alone = list(found.left_alone)
    try:
        async with Answering(chosen, wanted, seed, strict, store, executor, tell) as answering:
            for program in found.programs:
                try:
                    answers[program] = await answering.answer(program)
                except OptimizeError as error:
                    left_alone.append(f"{program.name}: {error}")
                    tell(left_alone[-1])
    finally:
        if results is None:
            await to_thread.run_sync(store.close)
    report = Report(tuple(answers.values()), tuple(left_alone), time.monotonic() - started)
    return cast("Optimized[P, R]", assembled(found, answers, report))


def optimize_sync(function: Callable[P, R], *args: Any, **options: Any) -> Optimized[P, R]:
    """Waits for `optimize`, and takes what it takes; in a running event loop (a notebook) too."""
    return waited_for(lambda: optimize(function, *args, **options), "aiosearch.optimize")


def assembled(found: Cut, answers: Mapping[Program, Found], report: Report) -> Optimized[Any, Any]:
    """Puts the answers that are faster in the place of the programs that they answer."""
    faster = {program: one.answer for program, one in answers.items() if one.answer.faster}
    replacements = {program: load(answer) for program, answer in faster.items()}
    source = "\n\n".join(answer.text() for answer in faster.values())
    return Optimized(Spliced(found, replacements), source=source, report=report)


def load(answer: Answer) -> Callable[..., Any]:
    """The function of an answer's source."""
    module: dict[str, Any] = {"__name__": f"aiosearch answer {answer.id}"}
    exec(compile(answer.source, f"<{answer.file_name}>", "exec"), module)
    return cast("Callable[..., Any]", module[answer.function])


def _effort(wanted: Effort | str) -> Effort:
    try:
        return Effort(wanted)
    except ValueError:
        raise OptimizeError(f"no effort {wanted!r}: there are {', '.join(Effort)}") from None
