"""A process that rewrites programs, so that the host's event loop does not wait for it."""

from __future__ import annotations

import asyncio
from typing import TypeAlias

import anyio
import msgspec
from msgspec import Struct

from ..engine.channel import enter_child
from ..engine.child import Child
from .contenders import Contest, Question, contest
from .errors import OptimizeError
from .report import Tell


class Told(Struct, frozen=True, tag=True):
    """How it is going."""

    text: str


class Failed(Struct, frozen=True, tag=True):
    """A program that cannot be rewritten, and why."""

    reason: str


Message: TypeAlias = Told | Failed | Contest

_encode = msgspec.msgpack.Encoder().encode
_decode_question = msgspec.msgpack.Decoder(Question).decode
_decode_message: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


async def contested(question: Question, tell: Tell) -> Contest:
    """What `contest` gives, from a process that is gone afterwards; raises OptimizeError."""
    end: asyncio.Future[Failed | Contest] = asyncio.get_running_loop().create_future()

    def heard(payload: bytes) -> None:
        message = _decode_message.decode(payload)
        if isinstance(message, Told):
            tell(message.text)
        else:
            finish(message)

    def finish(message: Failed | Contest) -> None:
        if not end.done():
            end.set_result(message)

    child = await Child.spawn(
        __name__, heard, lambda: finish(Failed("the process that rewrites it has died"))
    )
    try:
        child.send(_encode(question))
        found = await end
    finally:
        child.kill()
        with anyio.CancelScope(shield=True):
            await child.reap()
    if isinstance(found, Failed):
        raise OptimizeError(found.reason)
    return found


def serve() -> None:
    """Answers questions until the host goes away or kills the process."""
    channel, _ = enter_child()

    def answer(question: Question) -> Message:
        try:
            return contest(question, lambda text: channel.send(_encode(Told(text))))
        except Exception as error:  # a rule may meet what nobody has thought of
            return Failed(f"it cannot be rewritten: {type(error).__name__}: {error}")

    try:
        while True:
            for payload in channel.receive():
                channel.send(_encode(answer(_decode_question(payload))))
    except (EOFError, ConnectionError):
        return


if __name__ == "__main__":
    serve()
