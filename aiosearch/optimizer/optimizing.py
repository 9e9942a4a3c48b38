"""The whole way: a JAX function in, one that is verified and measured faster out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ParamSpec, TypeVar

import jax
from anyio import CancelScope, to_thread

from .._promptly import promptly
from .._waiting import waited_for
from ..measure import Executor
from .answering import Answering
from .answers import Answer
from .devices import platform
from .dropin import Optimized
from .effort import Effort
from .errors import OptimizeError
from .exporting import under
from .made_for import Settings, settings
from .report import Found, Report, Tell, Whole
from .results import Results
from .splice.cutting import trace
from .splice.pieces import Subject
from .splice.replacing import Packed, Replacement
from .splice.splicing import Spliced
from .whole import alone, kept

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
    is going on, in words. Of jax's arrays at `constant_argnums`, and of those that are closed over,
    something may be made beforehand, which `Optimized` keeps. Raises an AiosearchError where the
    function cannot be traced, or the target is absent.
    """
    started = time.monotonic()
    chosen, wanted = _effort(effort), await to_thread.run_sync(platform, target)
    traced = trace(
        function,
        *args,
        static_argnums=static_argnums,
        static_argnames=static_argnames,
        constant_argnums=constant_argnums,
        **kwargs,
    )
    with promptly():
        found = await to_thread.run_sync(traced.cut)
        store = results or Results.open()
        answers: dict[Subject, Found] = {}
        left_alone = list(found.left_alone)
        try:
            async with Answering(chosen, wanted, seed, strict, store, executor, tell) as answering:
                for subject in found.subjects:
                    try:
                        answers[subject] = await answering.answer(subject)
                    except OptimizeError as error:
                        left_alone.append(f"{subject.program.name}: {error}")
                        tell(left_alone[-1])
                faster = {
                    one: found.answer for one, found in answers.items() if found.answer.faster
                }
                loaded = {subject: load(answer) for subject, answer in faster.items()}
                whole: Whole | str = ""
                if faster and not alone(found):
                    whole = await answering.whole(found, faster, loaded)
        finally:
            if results is None:
                with CancelScope(shield=True):
                    await to_thread.run_sync(store.close)
        if whole:
            faster = kept(whole.answer, faster) if isinstance(whole, Whole) else {}
        spliced = Spliced(found, {subject: loaded[subject] for subject in faster})
        await to_thread.run_sync(_pack, spliced, settings())
        seconds = time.monotonic() - started
        return Optimized(
            spliced,
            source="\n\n".join(answer.text() for answer in faster.values()),
            report=Report(tuple(answers.values()), tuple(left_alone), seconds, whole),
        )


def optimize_sync(function: Callable[P, R], *args: Any, **options: Any) -> Optimized[P, R]:
    """Waits for `optimize`, and takes what it takes; in a running event loop (a notebook) too."""
    return waited_for(lambda: optimize(function, *args, **options), "aiosearch.optimize")


def load(answer: Answer) -> Replacement | Packed:
    """What an answer's source puts in the place of a program."""
    module: dict[str, Any] = {"__name__": f"aiosearch answer {answer.id}"}
    exec(compile(answer.source, f"<{answer.file_name}>", "exec"), module)
    plain: Replacement = module[answer.function]
    wanted = answer.packing
    if wanted is None:
        return plain
    pack = jax.jit(module[wanted.pack])
    return Packed(wanted.positions, pack, module[wanted.run], plain)


def _pack(spliced: Spliced, own: Settings) -> None:
    """Packs what stays the same, before the event loop would have to."""
    with under(own):
        for packed in jax.tree_util.tree_leaves(spliced.packs(spliced.cut.held)):
            packed.block_until_ready()


def _effort(wanted: Effort | str) -> Effort:
    try:
        return Effort(wanted)
    except ValueError:
        raise OptimizeError(f"no effort {wanted!r}: there are {', '.join(Effort)}") from None
