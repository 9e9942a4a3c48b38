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
from .errors import OptimizeError


async def check(
    executor: Executor,
    program: Program,
    original: Compiled,
    candidate: Compiled,
    *,
    seed: int,
    strict: bool,
) -> FloatEvidence:
    """Runs both on every distribution of inputs; raises OptimizeError where one cannot be run."""
    ours = _OnDevice(executor, program, original)
    theirs = _OnDevice(executor, program, candidate)
    return await to_thread.run_sync(
        partial(compare_sides, ours, theirs, seed=seed, strict=strict, distributions=DISTRIBUTIONS)
    )


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
            raise OptimizeError(str(found))
        return list(found)

    def truth(self, inputs: Sequence[Any]) -> list[Measured]:
        return self._referee.truth(inputs)
