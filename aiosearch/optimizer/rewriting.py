"""A process that rewrites programs, so that the host's event loop does not wait for it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeAlias

import msgspec
from msgspec import Struct

from ..engine.channel import enter_child
from .contenders import Contender, Contest, Question, Rewriting
from .errors import OptimizeError
from .places import Place
from .report import Tell
from .servants import Died, Failed, Servant, servant, serving


class Told(Struct, frozen=True, tag=True):
    """How it is going."""

    text: str


class Asked(Struct, frozen=True, tag=True):
    """Begins: what can be tried?"""

    question: Question


class Beside(Struct, frozen=True, tag=True):
    """What else lies near a place?"""

    place: Place


class Make(Struct, frozen=True, tag=True):
    """What runs it?"""

    place: Place


class Places(Struct, frozen=True, tag=True):
    places: tuple[Place, ...]


class Made(Struct, frozen=True, tag=True):
    contender: Contender


Request: TypeAlias = Asked | Beside | Make
Message: TypeAlias = Told | Failed | Contest | Places | Made

_encode = msgspec.msgpack.Encoder().encode
_decode_request: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)
_decode_message: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


class Rewriter:
    """The process, from outside: asked one thing after the other, the contest first.

    Every method raises OptimizeError where there is no answer. A process that dies has one
    successor, and after that there are no answers.
    """

    def __init__(self, process: Servant, tell: Tell) -> None:
        self._process, self._tell = process, tell
        self._contest: Asked | None = None
        self._succeeded = False

    async def contest(self, question: Question) -> Contest:
        """All that is to be tried at first."""
        contest = Asked(question)
        found = await self._asked(contest)
        assert isinstance(found, Contest)
        self._contest = contest
        return found

    async def beside(self, place: Place) -> tuple[Place, ...]:
        """The kernels that differ in one choice from others."""
        found = await self._asked(Beside(place))
        assert isinstance(found, Places)
        return found.places

    async def made(self, place: Place) -> Contender:
        """A contender of these kernels."""
        found = await self._asked(Make(place))
        assert isinstance(found, Made)
        return found.contender

    async def _asked(self, request: Request) -> Message:
        try:
            return await self._said(request, self._tell)
        except Died:
            if self._succeeded:
                raise
            self._succeeded = True
            await self._process.begin()
            if self._contest is not None:
                await self._said(self._contest, lambda text: None)
            return await self._said(request, self._tell)

    async def _said(self, request: Request, tell: Tell) -> Message:
        self._process.send(_encode(request))
        while True:
            match _decode_message.decode(await self._process.hear()):
                case Told(text):
                    tell(text)
                case Failed(reason):
                    raise OptimizeError(reason)
                case found:
                    return found


@asynccontextmanager
async def rewriter(tell: Tell) -> AsyncIterator[Rewriter]:
    """A process that is gone afterwards."""
    async with servant(__name__, "rewrites it") as process:
        yield Rewriter(process, tell)


async def contested(question: Question, tell: Tell) -> Contest:
    """What `contest` gives, from a process that is gone afterwards; raises OptimizeError."""
    async with rewriter(tell) as process:
        return await process.contest(question)


def main() -> None:
    """Answers questions until the host goes away or kills the process."""
    channel, _ = enter_child()
    known: list[Rewriting] = []

    def answer(payload: bytes) -> bytes:
        return _encode(_found(_decode_request.decode(payload), known, tell))

    def tell(text: str) -> None:
        channel.send(_encode(Told(text)))

    serving(channel, answer)


def _found(request: Request, known: list[Rewriting], tell: Tell) -> Message:
    try:
        match request:
            case Asked(question):
                known[:] = [Rewriting(question, tell)]
                return known[0].contest()
            case Beside(place):
                return Places(tuple(known[0].beside(place)))
            case Make(place):
                return Made(known[0].made(place))
    except Exception as error:  # a rule may meet what nobody has thought of
        return Failed(f"it cannot be rewritten: {type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
