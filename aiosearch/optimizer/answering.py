"""One call of `optimize`: what is known of each program, or else what can be found out."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from importlib.metadata import version
from types import TracebackType
from typing import Any

import jax
from anyio import to_thread

from ..equivalence.floats import FloatEvidence
from ..measure import Executor, JaxExecutor
from ..tensor import Program
from ..tensor.files import from_json, to_json
from .answers import Answer, Key, Timings
from .canonical import canonical_digest
from .contenders import Contest, Question
from .devices import device_kind
from .effort import BUDGETS, Effort
from .reach import work
from .report import Found, Tell
from .results import Results
from .rewriting import contested
from .selecting import Selection, Selector
from .types import array_types


@dataclass
class Answering:
    """Answers for one program after the other; an executor is started only to time something.

    What was found before with less effort is searched again.
    """

    effort: Effort
    platform: str
    seed: int
    strict: bool
    store: Results
    executor: Executor | None
    tell: Tell
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def __aenter__(self) -> Answering:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    async def answer(self, program: Program) -> Found:
        """Raises OptimizeError where the program itself does not run."""
        key = await to_thread.run_sync(self._key, program)
        known = await to_thread.run_sync(self.store.find, key)
        if known is not None and Effort(known.effort).rank >= self.effort.rank:
            self.tell(f"{program.name}: found before")
            return Found(known, remembered=True)
        budget = BUDGETS[self.effort]
        question = Question(to_json(program), budget, self.seed, self.strict)
        self.tell(f"{program.name}: rewriting")
        executor, tried = await self._begun(question)
        self.tell(f"{program.name}: {len(tried.contenders)} ways to write it")
        selector = Selector(executor, program, budget, self.seed, self.strict, self.tell)
        selection = await selector.select(tried.contenders)
        answer = self._answered(key, program, selection)
        if not selection.in_doubt:
            await to_thread.run_sync(self.store.keep, answer)
        return Found(answer, False, selection.tried, selection.in_doubt)

    async def _begun(self, question: Question) -> tuple[Executor, Contest]:
        """The executor starts while the program is rewritten."""
        try:
            async with asyncio.TaskGroup() as group:
                executor = group.create_task(self._ready())
                tried = group.create_task(contested(question, self.tell))
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return executor.result(), tried.result()

    async def _ready(self) -> Executor:
        if self.executor is None:
            self.executor = await self._stack.enter_async_context(JaxExecutor(self.platform))
        return self.executor

    def _key(self, program: Program) -> Key:
        return Key(
            canonical_digest(program),
            tuple(str(one) for one in array_types(program)),
            device_kind(self.platform),
            jax.__version__,
            version("jaxlib"),
            self.strict,
        )

    def _answered(self, key: Key, program: Program, selection: Selection) -> Answer:
        winner, original = selection.winner, selection.entrants[0]
        return Answer(
            key,
            program.name,
            winner.function,
            winner.source,
            _verdict(winner.verdict, selection.floats),
            Timings(
                selection.seconds(original),
                selection.seconds(selection.plain),
                selection.seconds(winner),
                1 + (selection.race.noise() or 0.0),
            ),
            winner is not original,
            self.effort.value,
            work(from_json(winner.program))
            | _errors(selection.floats)
            | {
                "speedup": selection.speedup(original),
                "speedup_over_plain": selection.speedup(selection.plain),
            },
        )


def _verdict(known: tuple[str, ...], floats: FloatEvidence | None) -> tuple[str, ...]:
    lines = list(known) or ["the original's own operations"]
    if floats is not None:
        lines.append(f"  c floats, on the device: {floats}")
    return tuple(lines)


def _errors(floats: FloatEvidence | None) -> dict[str, Any]:
    """The largest errors on the device, in units in the last place, side by side."""
    if floats is None:
        return {}
    passed = [one for one in floats.trials if one.status == "passed"]
    return {
        "original_error_ulp": max(one.original_error for one in passed),
        "answer_error_ulp": max(one.candidate_error for one in passed),
    }
