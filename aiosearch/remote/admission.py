"""What a host runs for a search that it serves: installed problems, by name, and nothing else."""

from __future__ import annotations

from importlib.metadata import entry_points

import msgspec

from ..engine.wire import Begin, End

GROUP = "aiosearch.problems"
ORDERS = "aiosearch.orders"

_BEGIN, _END = 1, 7
_decode_begin = msgspec.msgpack.Decoder(Begin).decode
_decode_end = msgspec.msgpack.Decoder(End).decode


class RefusalError(Exception):
    """What was asked for is not run here."""


def opened(frame: bytes) -> Begin | None:
    """The session that a frame opens, if that is what it does."""
    return _decode_begin(frame) if _kind(frame) == _BEGIN else None


def ended(frame: bytes) -> int | None:
    """The session that a frame ends, if that is what it does."""
    return _decode_end(frame).session if _kind(frame) == _END else None


def _kind(frame: bytes) -> int | None:
    """A message is an array that begins with the number of its kind."""
    return frame[1] if len(frame) > 1 and 0x90 <= frame[0] <= 0x9F else None


def admit(begin: Begin) -> None:
    """Raises RefusalError unless problem and order are installed here under these names."""
    problem, order = begin.problem, begin.order
    for reference in (problem, order):
        if reference.pickled or reference.script:
            raise RefusalError(f"{reference.name} is no installed class, and code is not accepted")
    if order.module != ORDERS or "." in order.qualname:
        raise RefusalError(f"the order {order.name} is not one of {ORDERS}")
    if not installed(problem.name):
        raise RefusalError(
            f"{problem.name} is not installed here: a problem that runs on other hosts has an entry"
            f" point in the group {GROUP}"
        )


def installed(problem: str) -> bool:
    """Whether hosts run it for others; `problem` is `module:Class`."""
    return any(point.value == problem for point in entry_points(group=GROUP))
