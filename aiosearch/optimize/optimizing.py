"""The whole way: a JAX function in, one that is verified and measured faster out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, ParamSpec, TypeVar, cast

import jax
import jaxlib
from anyio import to_process, to_thread

from ..measure import Executor, JaxExecutor
from ..tensor import Program
from ..tensor.files import to_json
from .answers import Answer, Key, Timings
from .canonical import canonical_digest
from .contenders import Contender, contest
from .devices import device_kind
from .effort import BUDGETS, Effort
from .errors import OptimizeError
from .optimized import Optimized
from .report import Found, Report
from .results import Results
from .selecting import Selection, Selector, Tell
from .splice.cutting import Cut, cut
from .splice.splicing import Spliced
from .types import array_types

P = ParamSpec("P")
R = TypeVar("R")

TARGETS = ("auto", "cpu", "cuda")


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
    is going on, in words.
    """
    started = time.monotonic()
    found = cut(
        function,
        *args,
        static_argnums=static_argnums,
        static_argnames=static_argnames,
        constant_argnums=constant_argnums,
        **kwargs,
    )
    store = results or Results.open()
    job = _Job(Effort(effort), _platform(target), seed, strict, store, executor, tell)
    try:
        async with job:
            answers = {program: await job.answer(program) for program in found.programs}
    finally:
        if results is None:
            await to_thread.run_sync(store.close)
    report = Report(tuple(answers.values()), found.left_alone, time.monotonic() - started)
    return cast("Optimized[P, R]", assembled(found, answers, report))


def assembled(found: Cut, answers: dict[Program, Found], report: Report) -> Optimized[Any, Any]:
    """Puts the answers that are faster in the place of the programs that they answer."""
    replacements = {
        program: load(one.answer) for program, one in answers.items() if one.answer.faster
    }
    sources = [one.answer.text() for one in answers.values() if one.answer.faster]
    return Optimized(Spliced(found, replacements), source="\n\n".join(sources), report=report)


def load(answer: Answer) -> Callable[..., Any]:
    """The function of an answer's source."""
    module: dict[str, Any] = {"__name__": f"aiosearch answer {answer.id}"}
    exec(compile(answer.source, f"<{answer.file_name}>", "exec"), module)
    return cast("Callable[..., Any]", module[answer.function])


def _platform(target: str) -> str:
    if target not in TARGETS:
        raise OptimizeError(f"no target {target!r}: there are {', '.join(TARGETS)}")
    if target == "auto":
        return "cuda" if jax.default_backend() == "gpu" else "cpu"
    if target == "cuda" and not any(device.platform == "gpu" for device in jax.devices()):
        raise OptimizeError("there is no GPU that jax can use here; --target cpu works everywhere")
    return target


@dataclass
class _Job:
    """One call of `optimize`: an executor is started only when something has to be timed."""

    effort: Effort
    platform: str
    seed: int
    strict: bool
    store: Results
    executor: Executor | None
    tell: Tell

    async def __aenter__(self) -> _Job:
        self._stack = await AsyncExitStack().__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._stack.__aexit__(*error)

    async def answer(self, program: Program) -> Found:
        """What is known of a program, or else what can be found out."""
        key = self._key(program)
        known = await to_thread.run_sync(self.store.find, key)
        if known is not None:
            self.tell(f"{program.name}: found before")
            return Found(known, remembered=True)
        self.tell(f"{program.name}: rewriting")
        budget = BUDGETS[self.effort]
        tried = await to_process.run_sync(
            partial(contest, to_json(program), budget, self.seed, self.strict), cancellable=True
        )
        self.tell(f"{program.name}: {len(tried.contenders)} ways to write it")
        selector = Selector(await self._ready(), program, budget, self.seed, self.strict, self.tell)
        selection = await selector.select(tried.contenders)
        answer = self._answered(key, program, selection)
        await to_thread.run_sync(self.store.keep, answer)
        return Found(answer, remembered=False, tried=selection.tried)

    async def _ready(self) -> Executor:
        if self.executor is None:
            self.tell("starting the executor")
            self.executor = await self._stack.enter_async_context(JaxExecutor(self.platform))
        return self.executor

    def _key(self, program: Program) -> Key:
        return Key(
            canonical_digest(program),
            tuple(str(one) for one in array_types(program)),
            device_kind(self.platform),
            jax.__version__,
            jaxlib.__version__,
            self.strict,
        )

    def _answered(self, key: Key, program: Program, selection: Selection) -> Answer:
        winner, original = selection.winner, selection.entrants[0]
        plain = [one for one in selection.entrants if one.form == 0]
        noise = selection.race.noise() or 0.0
        return Answer(
            key,
            program.name,
            winner.function,
            winner.source,
            _verdict(winner, selection),
            Timings(
                selection.seconds(original),
                min(selection.seconds(one) for one in plain),
                selection.seconds(winner),
                noise,
            ),
            winner is not original,
            self.effort.value,
        )


def _verdict(winner: Contender, selection: Selection) -> tuple[str, ...]:
    lines = list(winner.verdict) or ["the original's own operations"]
    if selection.floats is not None:
        lines.append(f"  c floats, on the device: {selection.floats}")
    return tuple(lines)
