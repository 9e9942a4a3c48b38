"""A process that rewrites programs, so that the host's event loop does not wait for it."""

from __future__ import annotations

from typing import TypeAlias

import msgspec
from msgspec import Struct

from ..engine.channel import enter_child
from .contenders import Contest, Question, contest
from .errors import OptimizeError
from .report import Tell
from .servants import Failed, servant, serving


class Told(Struct, frozen=True, tag=True):
    """How it is going."""

    text: str


Message: TypeAlias = Told | Failed | Contest

_encode = msgspec.msgpack.Encoder().encode
_decode_question = msgspec.msgpack.Decoder(Question).decode
_decode_message: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


async def contested(question: Question, tell: Tell) -> Contest:
    """What `contest` gives, from a process that is gone afterwards; raises OptimizeError."""
    async with servant(__name__, "rewrites it") as process:
        process.send(_encode(question))
        while True:
            match _decode_message.decode(await process.hear()):
                case Told(text):
                    tell(text)
                case Failed(reason):
                    raise OptimizeError(reason)
                case found:
                    return found


def serve() -> None:
    """Answers questions until the host goes away or kills the process."""
    channel, _ = enter_child()

    def answer(payload: bytes) -> bytes:
        return _encode(_found(_decode_question(payload), tell))

    def tell(text: str) -> None:
        channel.send(_encode(Told(text)))

    serving(channel, answer)


def _found(question: Question, tell: Tell) -> Message:
    try:
        return contest(question, tell)
    except Exception as error:  # a rule may meet what nobody has thought of
        return Failed(f"it cannot be rewritten: {type(error).__name__}: {error}")


if __name__ == "__main__":
    serve()
