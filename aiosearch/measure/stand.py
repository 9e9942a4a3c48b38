"""The device from the host's side: what its process holds, and what it is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from .candidates import Array, Candidate, Cause, Compiled, Failure, Stage
from .executor import Inputs
from .process import Lost, Process
from .protocol import (
    Done,
    Forget,
    Keep,
    Load,
    Outputs,
    Prepare,
    Prepared,
    Raised,
    Reply,
    Request,
    Run,
    Text,
    Timed,
    Turns,
)
from .race import Way
from .racing import Fault, Sample

MOST_RUNS = 32
"""More than a candidate has in a round, or to be prepared for it."""
GRACE = 30.0
"""How much later than the process's own alarm the host gives up."""


class DeviceStand:
    """Loads candidates where they are to run; a process that died is replaced and loaded again."""

    def __init__(self, process: Process, compile_seconds: float, run_seconds: float) -> None:
        self._process = process
        self._compile_seconds = compile_seconds
        self._run_seconds = run_seconds
        self._life = 0
        self._next = 0
        self._loaded: dict[Compiled, int] = {}
        self._kept: dict[int, tuple[int, Array]] = {}
        """By identity: a number, and the array itself, so that the identity stays its own."""
        self._runners: list[Compiled] = []

    async def run(self, compiled: Compiled, inputs: Inputs) -> tuple[Array, ...] | Failure:
        """Runs a candidate once."""
        if failure := await self._admit([compiled]):
            return failure[1]
        number, letterbox = self._loaded[compiled], self._process.letterbox
        if isinstance(inputs, int):
            request = Run(number, inputs, None)
        else:
            request = Run(number, 0, await asyncio.to_thread(letterbox.put, inputs))
        reply = await self._ask(request, self._run_seconds)
        if not isinstance(reply, Outputs):
            await self._distrust(reply)
            return _failure(compiled, Stage.RUN, reply)
        found = [await asyncio.to_thread(letterbox.take, parcel) for parcel in reply.parcels]
        await asyncio.to_thread(letterbox.empty)
        return tuple(found)

    async def prepare(self, runners: Sequence[Compiled], seed: int) -> tuple[Way, ...] | Fault:
        self._runners = list(runners)
        if failure := await self._admit(runners):
            return Fault(*failure)
        numbers = tuple(self._loaded[runner] for runner in runners)
        reply = await self._ask(Prepare(numbers, seed), self._patience(len(runners)))
        return reply.ways if isinstance(reply, Prepared) else await self._fault(reply)

    async def round(self, order: Sequence[int]) -> Sequence[Sequence[Sample]] | Fault:
        reply = await self._ask(Turns(tuple(order)), self._patience(len(order)))
        return reply.rows if isinstance(reply, Timed) else await self._fault(reply)

    def _patience(self, runners: int) -> float:
        return self._run_seconds * runners * MOST_RUNS

    async def _fault(self, reply: Reply | Lost) -> Fault:
        runner = max(self._process.letterbox.announced(), 0)
        await self._distrust(reply)
        return Fault(runner, _failure(self._runners[runner], Stage.RACE, reply))

    async def _distrust(self, reply: Reply | Lost) -> None:
        """Replaces a process that survived an error of the device: it may have lost its context."""
        if isinstance(reply, Raised) and reply.cause is not Cause.MEMORY:
            await self._process.end()

    async def _admit(self, wanted: Sequence[Compiled]) -> tuple[int, Failure] | None:
        """Has exactly these loaded; gives the place of one that cannot be, and why."""
        await self._process.start()
        if self._life != self._process.starts:
            self._life = self._process.starts
            self._loaded.clear()
            self._kept.clear()
        await self._forget_others(wanted)
        for place, compiled in enumerate(wanted):
            if compiled not in self._loaded:
                reply = await self._load(compiled)
                if not isinstance(reply, Done):
                    return place, _failure(compiled, Stage.COMPILE, reply)
        return None

    async def _forget_others(self, wanted: Sequence[Compiled]) -> None:
        needed = {id(array) for each in wanted for array in each.candidate.constants.values()}
        candidates = [each for each in self._loaded if each not in wanted]
        constants = [each for each in self._kept if each not in needed]
        if candidates or constants:
            numbers = tuple(self._loaded.pop(each) for each in candidates)
            await self._ask(
                Forget(numbers, tuple(self._kept.pop(each)[0] for each in constants)), GRACE
            )

    async def _load(self, compiled: Compiled) -> Reply | Lost:
        candidate = compiled.candidate
        constants = {}
        for position, array in candidate.constants.items():
            constants[position] = await self._keep(array)
        number = self._number()
        text, draws = text_of(candidate), dict(candidate.draws)
        load = Load(number, text, compiled.executable, compiled.looped, constants, draws)
        reply = await self._ask(load, self._compile_seconds)
        if isinstance(reply, Done):
            self._loaded[compiled] = number
        return reply

    async def _keep(self, array: Array) -> int:
        if id(array) not in self._kept:
            (parcel,) = await asyncio.to_thread(self._process.letterbox.put, [array])
            number = self._number()
            await self._ask(Keep(number, parcel), GRACE)
            await asyncio.to_thread(self._process.letterbox.empty)
            self._kept[id(array)] = number, array
        return self._kept[id(array)][0]

    def _number(self) -> int:
        self._next += 1
        return self._next

    async def _ask(self, request: Request, seconds: float) -> Reply | Lost:
        return await self._process.ask(request, seconds + GRACE)


def text_of(candidate: Candidate) -> Text:
    """What of a candidate the processes are told."""
    return Text(
        candidate.source,
        candidate.function,
        candidate.inputs,
        candidate.x64,
        candidate.precision,
        candidate.promotion,
    )


def _failure(compiled: Compiled, stage: Stage, reply: Reply | Lost) -> Failure:
    return failure(compiled.candidate, stage, reply)


def failure(candidate: Candidate, stage: Stage, reply: Reply | Lost) -> Failure:
    """Says why a candidate has no result."""
    assert isinstance(reply, Raised | Lost), reply
    return Failure(candidate.name, stage, reply.cause, reply.message)
