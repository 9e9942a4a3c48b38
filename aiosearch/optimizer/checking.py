"""The third layer of verification on the real thing: what the device gives, against float64."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from anyio import from_thread, to_thread

from ..equivalence.distributions import DISTRIBUTIONS
from ..equivalence.floats import FloatEvidence, compare_sides
from ..equivalence.measured import Measured
from ..equivalence.sides import Executed
from ..measure import Compiled, Executor, Failure
from ..tensor import Program


async def check(
    executor: Executor,
    program: Program,
    original: Compiled,
    candidate: Compiled,
    *,
    seed: int,
    strict: bool,
) -> FloatEvidence | Failure:
    """Runs both on every distribution of inputs; a failure is that of the one that cannot run."""
    ours = _OnDevice(executor, program, original)
    theirs = _OnDevice(executor, program, candidate)
    work = partial(
        compare_sides, ours, theirs, seed=seed, strict=strict, distributions=DISTRIBUTIONS
    )
    try:
        return await to_thread.run_sync(work)
    except _CannotRunError as error:
        return error.failure


class _CannotRunError(Exception):
    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure))
        self.failure = failure


class _OnDevice:
    """A compiled program, run by the executor from another thread."""

    def __init__(self, executor: Executor, program: Program, compiled: Compiled) -> None:
        self._executor = executor
        self._compiled = compiled
        self._referee = Executed(program)
        self.inputs = self._referee.inputs
        self.outputs = self._referee.outputs

    def own(self, inputs: Sequence[Any]) -> list[Any]:
        found = from_thread.run(self._executor.run, self._compiled, inputs)
        if isinstance(found, Failure):
            raise _CannotRunError(found)
        return list(found)

    def truth(self, inputs: Sequence[Any]) -> list[Measured]:
        return self._referee.truth(inputs)
