"""The process that generates candidates, so that the host's event loop does not wait for it.

`GenerationProcess` asks it one thing after the other: a `GenerateRequest` first, then what lies
near a kernel and for sources. Rewriting in a process of its own can also be ended at any time,
whatever a rule meets.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeAlias

import msgspec
from msgspec import Struct

from ...processes.frames import enter_child
from ..effort import Deadline
from ..errors import OptimizeError
from ..outcomes.report import Tell
from ..worker_process import (
    RequestFailed,
    WorkerGone,
    WorkerProcess,
    serve_requests,
    worker_process,
)
from .generation import (
    CandidateGenerator,
    CandidateQuestion,
    CandidateSet,
    CandidateSource,
    HearCandidate,
    ignore,
)
from .schedule_point import SchedulePoint


class GenerationProgress(Struct, frozen=True, tag=True):
    """Text for `tell`, while an answer is on its way."""

    text: str


class CandidateReady(Struct, frozen=True, tag=True):
    """A candidate that will be in the answer, which is on its way."""

    source: CandidateSource


class GenerateRequest(Struct, frozen=True, tag=True):
    """Asks what can be tried; the first request of a process."""

    question: CandidateQuestion
    seconds: float = math.inf
    """Seconds after which no further candidate is made."""


class NeighboursRequest(Struct, frozen=True, tag=True):
    """Asks for the kernels that differ from a point in one choice."""

    place: SchedulePoint


class SourceRequest(Struct, frozen=True, tag=True):
    """Asks for the source of a point."""

    place: SchedulePoint


class NeighboursReply(Struct, frozen=True, tag=True):
    """The neighbours of a point."""

    places: tuple[SchedulePoint, ...]


class SourceReply(Struct, frozen=True, tag=True):
    """The source of a point."""

    contender: CandidateSource


Request: TypeAlias = GenerateRequest | NeighboursRequest | SourceRequest
Message: TypeAlias = (
    GenerationProgress
    | CandidateReady
    | RequestFailed
    | CandidateSet
    | NeighboursReply
    | SourceReply
)

_encode = msgspec.msgpack.Encoder().encode
_decode_request: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)
_decode_message: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


class GenerationProcess:
    """The process, from outside: asked one thing after the other, `contest` first.

    Every method raises `OptimizeError` where there is no answer. A process that dies has one
    successor, and after that there are no answers.
    """

    def __init__(self, process: WorkerProcess, tell: Tell) -> None:
        self._process, self._tell = process, tell
        self._contest: GenerateRequest | None = None
        self._knows = False
        """Whether the process has answered `_contest` itself."""
        self._succeeded = False

    async def contest(
        self,
        question: CandidateQuestion,
        seconds: float = math.inf,
        hear: HearCandidate = ignore,
    ) -> CandidateSet:
        """All that is to be tried at first, as far as it is made in so many seconds; `hear` is
        called with each candidate as soon as it is there."""
        contest = GenerateRequest(question, seconds)
        self._succeeded = False  # a death counts against the question that was asked then
        reply = await self._asked(contest, hear)
        assert isinstance(reply, CandidateSet)
        self._contest, self._knows = contest, True
        return reply

    def remember(self, question: CandidateQuestion) -> None:
        """Takes a question for the last that was asked, the answer to which is known: the process
        answers it in silence when it is asked about its kernels."""
        self._contest, self._knows = GenerateRequest(question), False
        self._succeeded = False

    async def neighbours(self, place: SchedulePoint) -> tuple[SchedulePoint, ...]:
        """The points that differ in one choice from `place`."""
        reply = await self._asked(NeighboursRequest(place))
        assert isinstance(reply, NeighboursReply)
        return reply.places

    async def contender(self, place: SchedulePoint) -> CandidateSource:
        """A source with these kernels."""
        reply = await self._asked(SourceRequest(place))
        assert isinstance(reply, SourceReply)
        return reply.contender

    async def _asked(self, request: Request, hear: HearCandidate = ignore) -> Message:
        """The reply to a request; once, of a successor where the process has died."""
        try:
            if not (self._knows or self._contest is None or isinstance(request, GenerateRequest)):
                await self._said(self._contest, lambda text: None)
                self._knows = True
            return await self._said(request, self._tell, hear)
        except WorkerGone:
            if self._succeeded:
                raise
            # One successor: what has killed two processes would kill a third.
            self._succeeded = True
            await self._process.begin()
            if self._contest is not None:
                # The successor knows nothing: it generates the same candidates again, in silence,
                # to know the kernels.
                await self._said(self._contest, lambda text: None)
            return await self._said(request, self._tell, hear)

    async def _said(self, request: Request, tell: Tell, hear: HearCandidate = ignore) -> Message:
        self._process.send(_encode(request))
        while True:
            match _decode_message.decode(await self._process.hear()):
                case GenerationProgress(text):
                    tell(text)
                case CandidateReady(source):
                    hear(source)
                case RequestFailed(reason):
                    raise OptimizeError(reason)
                case reply:
                    return reply


@asynccontextmanager
async def generation_process(tell: Tell) -> AsyncIterator[GenerationProcess]:
    """A process that is gone afterwards."""
    async with worker_process(__name__, "rewrites it") as process:
        yield GenerationProcess(process, tell)


async def generate_in_process(question: CandidateQuestion, tell: Tell) -> CandidateSet:
    """What `GenerationProcess.contest` gives, from a process that is gone afterwards; raises
    `OptimizeError`."""
    async with generation_process(tell) as process:
        return await process.contest(question)


def main() -> None:
    """Answers questions until the host goes away or kills the process."""
    channel, _ = enter_child()
    generators: list[CandidateGenerator] = []

    def answer(payload: bytes) -> bytes:
        return _encode(_reply(_decode_request.decode(payload), generators, tell, hear))

    def tell(text: str) -> None:
        channel.send(_encode(GenerationProgress(text)))

    def hear(source: CandidateSource) -> None:
        channel.send(_encode(CandidateReady(source)))

    serve_requests(channel, answer)


def _reply(
    request: Request, generators: list[CandidateGenerator], tell: Tell, hear: HearCandidate
) -> Message:
    try:
        match request:
            case GenerateRequest(question, seconds):
                # The last question is remembered, with all its kernels: later requests are about
                # these.
                deadline = Deadline.after(seconds)
                generators[:] = [CandidateGenerator(question, tell, deadline, hear)]
                return generators[0].contest()
            case NeighboursRequest(place):
                return NeighboursReply(tuple(generators[0].neighbours(place)))
            case SourceRequest(place):
                return SourceReply(generators[0].contender(place))
    except Exception as error:  # a rule may meet what nobody has thought of
        return RequestFailed(f"it cannot be rewritten: {type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
