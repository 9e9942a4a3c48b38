"""An executor on a virtual clock: for tests of whatever chooses between candidates.

executor = MockExecutor({"slow": Act(seconds=2e-3), "fast": Act(seconds=1e-3)})
async with executor:
    race = await executor.race([slow, fast])   # race.speedup(1).median is about 2
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Self

from msgspec import Struct

from .candidates import Array, Candidate, Cause, Compiled, Failure, Stage
from .errors import ExecutorError
from .executor import ROUNDS, Inputs
from .race import LEAST_ROUNDS, Fault, Race, Sample, Way, run_race
from .random_inputs import draw


class Act(Struct, frozen=True):
    """How a candidate behaves in a `MockExecutor`."""

    seconds: float = 1e-3
    cold_seconds: float | None = None
    """Seconds on inputs that are in no cache; by default it makes no difference."""
    compile_seconds: float = 0.1
    fails: tuple[Stage, Cause] | None = None
    outputs: Callable[[Sequence[Array]], tuple[Array, ...]] | None = None
    """What `run` gives for its inputs; nothing by default."""


_LATER = {Stage.RUN: (Stage.RACE,)}
"""Stages in which a candidate fails as well that fails in this one."""


class VirtualClock:
    """Tells seconds that pass only where something adds to `now`."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class MockExecutor:
    """Candidates behave as `acts` say, by their names; times differ by a seeded `noise`."""

    virtual = True
    platform = "cpu"

    def __init__(self, acts: Mapping[str, Act], *, noise: float = 0.01, seed: int = 0) -> None:
        self.clock = VirtualClock()
        self._acts = acts
        self._noise = noise
        self._random = random.Random(seed)
        self._turn = asyncio.Lock()
        self._open = False

    async def __aenter__(self) -> Self:
        self._open = True
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def compile(self, candidate: Candidate) -> Compiled | Failure:
        """Takes the time of the candidate's `Act` to compile, or fails as it says."""
        await self._pass()
        act = self._act(candidate)
        self.clock.now += act.compile_seconds
        failure = self._failure(candidate, Stage.COMPILE)
        return failure or Compiled(candidate, act.compile_seconds)

    async def run(self, compiled: Compiled, inputs: Inputs) -> tuple[Array, ...] | Failure:
        """Gives the act's outputs."""
        await self._pass()
        act = self._act(compiled.candidate)
        self.clock.now += act.seconds
        if failure := self._failure(compiled.candidate, Stage.RUN):
            return failure
        return act.outputs(_drawn(compiled.candidate, inputs)) if act.outputs is not None else ()

    async def race(
        self,
        contenders: Sequence[Compiled],
        *,
        seed: int = 0,
        rounds: int = ROUNDS,
        seconds: float | None = None,
        deciding: bool = False,
        least: int = LEAST_ROUNDS,
    ) -> Race:
        """Runs the rounds as on a device, in virtual time."""
        await self._pass()
        async with self._turn:
            stand = _MockDevice(self._sample, self._failure, self._pass)
            return await run_race(
                stand, contenders, seed, rounds, seconds, self.clock, deciding, least
            )

    async def close(self) -> None:
        self._open = False

    def _sample(self, candidate: Candidate, way: Way) -> Sample:
        act = self._act(candidate)
        cold = act.seconds if act.cold_seconds is None else act.cold_seconds
        seconds = cold if way is Way.COLD else act.seconds
        seconds *= self._random.lognormvariate(0, self._noise)
        self.clock.now += seconds
        return Sample(seconds * 1e9, seconds * 1e9)

    def _failure(self, candidate: Candidate, stage: Stage) -> Failure | None:
        fails = self._act(candidate).fails
        if fails is None or stage not in (fails[0], *_LATER.get(fails[0], ())):
            return None
        return Failure(candidate.name, stage, fails[1], "as its act says")

    def _act(self, candidate: Candidate) -> Act:
        return self._acts.get(candidate.name, Act())

    async def _pass(self) -> None:
        """Lets others run, as every call of a real executor does."""
        if not self._open:
            raise ExecutorError("the executor is not open")
        await asyncio.sleep(0)


def _drawn(candidate: Candidate, inputs: Inputs) -> Sequence[Array]:
    """The inputs themselves, as the device's process would draw them."""
    if not isinstance(inputs, int):
        return inputs
    constants, draws = candidate.constants, candidate.draws
    return [
        constants[at] if at in constants else draw(type_, inputs, at, draws.get(at))
        for at, type_ in enumerate(candidate.inputs)
    ]


class _MockDevice:
    """A `RaceDevice` whose runners take pretended time."""

    def __init__(
        self,
        sample: Callable[[Candidate, Way], Sample],
        failure: Callable[[Candidate, Stage], Failure | None],
        turn: Callable[[], Awaitable[None]],
    ) -> None:
        self._turn = turn
        self._sample = sample
        self._failure = failure
        self._runners: list[Candidate] = []
        self._ways: tuple[Way, ...] = ()

    async def prepare(
        self, runners: Sequence[Compiled], seed: int, deciding: bool
    ) -> tuple[Way, ...] | Fault:
        self._runners = [runner.candidate for runner in runners]
        self._ways = (Way.HOT,) if deciding else (Way.HOT, Way.COLD)
        return self._ways

    async def round(self, order: Sequence[int]) -> Sequence[Sequence[Sample]] | Fault:
        await self._turn()
        for runner in order:
            if failure := self._failure(self._runners[runner], Stage.RACE):
                return Fault(runner, failure)
        return [
            [self._sample(self._runners[runner], way) for runner in order] for way in self._ways
        ]
