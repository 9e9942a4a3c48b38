"""What the host and a z3 process say to each other, one msgpack message a frame."""

from __future__ import annotations

from typing import TypeAlias

import msgspec
from msgspec import Struct

from .verdict import Verdict


class SolverAxioms(Struct, frozen=True, array_like=True, tag=0):
    """Teaches the process an axiom set, once, under a number that only this process knows."""

    number: int
    text: str


class SolverRequest(Struct, frozen=True, array_like=True, tag=1):
    """A question; questions are answered in the order in which they come."""

    query: str
    axioms: int
    """The number of a `SolverAxioms` that was sent before; 0 for none."""
    logic: str
    rlimit: int


class SolverReady(Struct, frozen=True, array_like=True, tag=2):
    """The process has loaded z3 and can be asked."""


class SolverBroken(Struct, frozen=True, array_like=True, tag=3):
    """The process cannot load z3, and ends."""

    reason: str


class SolverReply(Struct, frozen=True, array_like=True, tag=4):
    """The verdict on the oldest `SolverRequest` that has none yet."""

    verdict: Verdict
    retire: bool
    """The process wants to be replaced: it has used up its memory."""


Request: TypeAlias = SolverAxioms | SolverRequest
Reply: TypeAlias = SolverReady | SolverBroken | SolverReply

encode = msgspec.msgpack.Encoder().encode
decode_request = msgspec.msgpack.Decoder(Request).decode
decode_reply = msgspec.msgpack.Decoder(Reply).decode
