"""The device from the host's side: what its process holds, and requests to it.

Candidates and constants are numbered when they are loaded into the process; when the process is
replaced, all numbers are void and everything is loaded again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from ..._blocking import to_the_end
from ..candidates import Array, Candidate, Cause, Compiled, Failure, Stage
from ..executor import Inputs
from ..protocol import (
    Done,
    Forget,
    Keep,
    LoadRequest,
    Outputs,
    Prepare,
    PrepareReply,
    Raised,
    Reply,
    Request,
    RunRequest,
    Text,
    TimingReply,
    Turns,
)
from ..race import Fault, Outage, Sample, Way
from ..shared_arrays import NOBODY
from .measuring_process import MeasuringProcess, ProcessLost

MOST_RUNS = 32
"""A bound on the runs of a candidate between one announcement (`SharedArrays.announce`) and the
next."""
GRACE = 30.0
"""Seconds for which the host waits longer than the process's own `alarm`."""
SPARE = 3
"""Candidates without constants that stay loaded beside those that run: what is run between all
others, as a program that fills memory with NaN is and the fastest that others are timed beside,
would else be loaded again each time."""

Answer: TypeAlias = Reply | ProcessLost | Outage


class DeviceClient:
    """Loads candidates where they are to run; a process that died is replaced and loaded again."""

    def __init__(
        self, process: MeasuringProcess, compile_seconds: float, run_seconds: float
    ) -> None:
        self._process = process
        self._compile_seconds = compile_seconds
        self._run_seconds = run_seconds
        self._life = 0
        self._next = 0
        self._loaded: dict[Compiled, int] = {}
        self._kept: dict[int, tuple[int, Array]] = {}
        """By `id` of the array: its number, and the array itself, so that the identity
        stays its own."""
        self._runners: list[Compiled] = []

    async def run(self, compiled: Compiled, inputs: Inputs) -> tuple[Array, ...] | Failure:
        """Runs a candidate once; raises `ExecutorError` where the process dies without it."""
        outages, killed = 0, False
        while isinstance(outcome := await self._run(compiled, inputs), Outage | Fault):
            if isinstance(outcome, Outage):
                outages += 1
                outcome.count(outages)
            elif killed or not outcome.killed:
                return outcome.final
            else:
                killed = True
        return outcome

    async def _run(self, compiled: Compiled, inputs: Inputs) -> tuple[Array, ...] | Fault | Outage:
        if refused := await self._admit([compiled]):
            return refused
        number, letterbox = self._loaded[compiled], self._process.letterbox
        if isinstance(inputs, int):
            request = RunRequest(number, inputs, None)
        else:
            # In a thread: copying gigabytes must not hold up the loop, nor be broken off half-way
            request = RunRequest(number, 0, await to_the_end(letterbox.put, inputs))
        reply = await self._ask(request, self._run_seconds)
        if isinstance(reply, Outage):
            return reply
        if not isinstance(reply, Outputs):
            await self._distrust(reply)
            return _fault(0, compiled, Stage.RUN, reply)
        outputs = [await to_the_end(letterbox.take, parcel) for parcel in reply.parcels]
        await to_the_end(letterbox.empty)
        return tuple(outputs)

    async def prepare(
        self, runners: Sequence[Compiled], seed: int, deciding: bool
    ) -> tuple[Way, ...] | Fault | Outage:
        self._runners = list(runners)
        if refused := await self._admit(runners):
            return refused
        numbers = tuple(self._loaded[runner] for runner in runners)
        reply = await self._ask(Prepare(numbers, seed, deciding), self._run_seconds * MOST_RUNS)
        return reply.ways if isinstance(reply, PrepareReply) else await self._fault(reply)

    async def round(self, order: Sequence[int]) -> Sequence[Sequence[Sample]] | Fault | Outage:
        reply = await self._ask(Turns(tuple(order)), self._run_seconds * MOST_RUNS)
        return reply.rows if isinstance(reply, TimingReply) else await self._fault(reply)

    async def _fault(self, answer: Answer) -> Fault | Outage:
        if isinstance(answer, Outage):
            return answer
        runner = self._process.letterbox.announced()
        await self._distrust(answer)
        failed = _fault(runner, self._runners[runner], Stage.RACE, answer)
        return Outage(failed.failure.message) if runner == NOBODY else failed

    async def _distrust(self, reply: Reply | ProcessLost) -> None:
        """Replaces a process that survived an error of the device: it may have lost its context."""
        if isinstance(reply, Raised) and reply.cause is not Cause.MEMORY:
            await self._process.end()

    async def _admit(self, needed: Sequence[Compiled]) -> Fault | Outage | None:
        """Has these loaded, and of others at most `SPARE`; gives the index of one that cannot be,
        and why, as a `Fault`."""
        await self._process.start()
        # Another process than the last one: it holds nothing
        if self._life != self._process.starts:
            self._life = self._process.starts
            self._loaded.clear()
            self._kept.clear()
        if outage := await self._forget_others(needed):
            return outage
        for place, compiled in enumerate(needed):
            if compiled not in self._loaded:
                answer = await self._load(compiled)
                if isinstance(answer, Outage):
                    return answer
                if not isinstance(answer, Done):
                    return _fault(place, compiled, Stage.COMPILE, answer)
            self._loaded[compiled] = self._loaded.pop(compiled)  # the last ones are the latest used
        return None

    async def _forget_others(self, remaining: Sequence[Compiled]) -> Outage | None:
        needed = {id(array) for entry in remaining for array in entry.candidate.constants.values()}
        others = [entry for entry in self._loaded if entry not in remaining]
        spared = [entry for entry in others if not entry.candidate.constants][-SPARE:]
        candidates = [entry for entry in others if entry not in spared]
        constants = [entry for entry in self._kept if entry not in needed]
        if not candidates and not constants:
            return None
        numbers = tuple(self._loaded.pop(entry) for entry in candidates)
        constant_numbers = tuple(self._kept.pop(entry)[0] for entry in constants)
        answer = await self._ask(Forget(numbers, constant_numbers), GRACE)
        if isinstance(answer, Done):
            return None
        await self._process.end()  # nobody knows what it still holds
        assert isinstance(answer, Raised | ProcessLost | Outage), answer
        return Outage(answer.message)

    async def _load(self, compiled: Compiled) -> Answer:
        candidate = compiled.candidate
        constants = {}
        for position, array in candidate.constants.items():
            answer = await self._keep(array)
            if not isinstance(answer, Done):
                return answer
            constants[position], _ = self._kept[id(array)]
        number = self._number()
        text, draws = text_of(candidate), dict(candidate.draws)
        load = LoadRequest(number, text, compiled.executable, compiled.looped, constants, draws)
        reply = await self._ask(load, self._compile_seconds)
        if isinstance(reply, Done):
            self._loaded[compiled] = number
        return reply

    async def _keep(self, array: Array) -> Answer:
        if id(array) in self._kept:
            return Done()
        letterbox, number = self._process.letterbox, self._number()
        (parcel,) = await to_the_end(letterbox.put, [array])
        answer = await self._ask(Keep(number, parcel), GRACE)
        await to_the_end(letterbox.empty)
        if isinstance(answer, Done):
            self._kept[id(array)] = number, array
        return answer

    def _number(self) -> int:
        self._next += 1
        return self._next

    async def _ask(self, request: Request, seconds: float) -> Answer:
        """Asks the process; who dies without having announced a runner was killed for
        another reason."""
        letterbox = self._process.letterbox
        # Before the request: who is announced when the process dies is to blame
        letterbox.announce(NOBODY)
        answer = await self._process.ask(request, seconds + GRACE)
        if isinstance(answer, ProcessLost) and letterbox.announced() == NOBODY:
            return Outage(answer.message)
        return answer


def text_of(candidate: Candidate) -> Text:
    """What the processes need of a candidate."""
    return Text(
        candidate.source,
        candidate.function,
        candidate.inputs,
        candidate.x64,
        candidate.precision,
        candidate.promotion,
    )


def _fault(place: int, compiled: Compiled, stage: Stage, reply: Reply | ProcessLost) -> Fault:
    return fault(compiled.candidate, stage, reply, place)


def fault(candidate: Candidate, stage: Stage, reply: Reply | ProcessLost, place: int = 0) -> Fault:
    """Says why a candidate has no result, as a `Fault`."""
    assert isinstance(reply, Raised | ProcessLost), reply
    killed = isinstance(reply, ProcessLost) and reply.killed
    return Fault(place, Failure(candidate.name, stage, reply.cause, reply.message), killed)
