"""What a search and a host that serves it say to each other, over any link.

The search runs everything: the host starts processes for it, passes frames on, and keeps the tables
that processes of one machine share. A session with one worker:

    host -> search    HostGreeting(api=1, name="a", workers=1, checkers=0, versions={...})
    search -> host    Spawn(channel=1, kind="worker")
    host -> search    Spawned(channel=1, pid=4711)
    search -> host    FrameToProcess(channel=1, payload=Begin)
    host -> search    FrameFromProcess(channel=1, payload=WorkerReport)
    search -> host    Farewell(reason="it is let go")

Every size is bounded in the types, and unknown fields are refused, so that `decode_for_agent` and
`decode_from_agent` are all the checking that a message needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta, Struct

from ..engine.explore.claims import PART_BYTES

API = 1
"""The version of this protocol."""

Channel: TypeAlias = Annotated[int, Meta(ge=1, le=1 << 40)]
"""A process's number on its link; no number is used again."""
Name: TypeAlias = Annotated[str, Meta(max_length=200)]


class Spawn(Struct, frozen=True, array_like=True, tag=1, forbid_unknown_fields=True):
    """Start a process."""

    channel: Channel
    kind: Annotated[str, Meta(pattern="^(worker|checker)$")]
    limits: tuple[float, int] = (0.0, 0)
    """The limits of a `checker`: seconds for a question, and megabytes."""


class FrameToProcess(Struct, frozen=True, array_like=True, tag=2, forbid_unknown_fields=True):
    """A frame for a process."""

    channel: Channel
    payload: bytes


class Kill(Struct, frozen=True, array_like=True, tag=3, forbid_unknown_fields=True):
    """End a process at once."""

    channel: Channel


class ReleaseClaims(Struct, frozen=True, array_like=True, tag=4, forbid_unknown_fields=True):
    """The claims that an owner made after a report are void."""

    session: int
    owner: int
    committed: int


class Pulse(Struct, frozen=True, array_like=True, tag=5, forbid_unknown_fields=True):
    """Somebody is there."""


class Farewell(Struct, frozen=True, array_like=True, tag=6, forbid_unknown_fields=True):
    """There is no more to do for this host, or nothing that it may do."""

    reason: str
    refused: bool = False


class Probe(Struct, frozen=True, array_like=True, tag=7, forbid_unknown_fields=True):
    """Say whether a process is silent for so many `seconds` after this frame; see `Child.probe`."""

    channel: Channel
    payload: bytes
    seconds: Annotated[float, Meta(gt=0, le=3600)]


class EarlierKeys(Struct, frozen=True, array_like=True, tag=8, forbid_unknown_fields=True):
    """A part of the keys that earlier runs of a session explored, 16 bytes each; see
    `KeyChunks`."""

    session: int
    part: Annotated[int, Meta(ge=0)]
    keys: Annotated[bytes, Meta(max_length=PART_BYTES)]


class HostGreeting(Struct, frozen=True, array_like=True, tag=10, forbid_unknown_fields=True):
    """A host offers its processors; the first thing that it says."""

    api: int
    name: Name
    workers: Annotated[int, Meta(ge=1, le=4096)]
    checkers: Annotated[int, Meta(ge=0, le=4096)]
    versions: Annotated[Mapping[Name, Name], Meta(max_length=32)]


class ProgressQuery(Struct, frozen=True, array_like=True, tag=11, forbid_unknown_fields=True):
    """Somebody only wants to know how the search gets on; said instead of `HostGreeting`."""

    api: int


class Spawned(Struct, frozen=True, array_like=True, tag=12, forbid_unknown_fields=True):
    """A process has started."""

    channel: Channel
    pid: Annotated[int, Meta(ge=1)]


class FrameFromProcess(Struct, frozen=True, array_like=True, tag=13, forbid_unknown_fields=True):
    """A frame from a process."""

    channel: Channel
    payload: bytes


class ProcessGone(Struct, frozen=True, array_like=True, tag=14, forbid_unknown_fields=True):
    """A process has ended, or could not be started; `reason` as in `Child.death`."""

    channel: Channel
    reason: Annotated[str, Meta(max_length=2000)]


class OfferTakers(Struct, frozen=True, array_like=True, tag=20, forbid_unknown_fields=True):
    """What became of the offers of a worker that has ended, in one session: who has taken those
    that somebody has, by their numbers. It comes for each worker that opened the session."""

    session: int
    owner: int
    # No board has more slots for one owner
    takers: Annotated[Mapping[int, int], Meta(max_length=256)]


class HostLeaving(Struct, frozen=True, array_like=True, tag=15, forbid_unknown_fields=True):
    """The host wants to go, and gives back what it has first."""


class SessionRefused(Struct, frozen=True, array_like=True, tag=16, forbid_unknown_fields=True):
    """The host may not, or cannot, run the problem of a session; see `admit`."""

    session: int
    reason: Annotated[str, Meta(max_length=2000)]


class ProcessSilent(Struct, frozen=True, array_like=True, tag=18, forbid_unknown_fields=True):
    """A process has not answered a `Probe` in time."""

    channel: Channel


class KeysAccepted(Struct, frozen=True, array_like=True, tag=19, forbid_unknown_fields=True):
    """The host has a table of a session's keys, and takes this part of what earlier runs knew."""

    session: int
    part: Annotated[int, Meta(ge=0)]


class SearchStateDocument(Struct, frozen=True, array_like=True, tag=17, forbid_unknown_fields=True):
    """How the search gets on, as JSON: the answer to a `ProgressQuery`."""

    document: bytes


ToAgent: TypeAlias = (
    Spawn
    | FrameToProcess
    | Kill
    | ReleaseClaims
    | Pulse
    | Farewell
    | Probe
    | EarlierKeys
    | SearchStateDocument
)
FromAgent: TypeAlias = (
    HostGreeting
    | ProgressQuery
    | Spawned
    | FrameFromProcess
    | ProcessGone
    | OfferTakers
    | HostLeaving
    | SessionRefused
    | ProcessSilent
    | KeysAccepted
    | Pulse
)

encode = msgspec.msgpack.Encoder().encode
decode_for_agent = msgspec.msgpack.Decoder(ToAgent).decode
decode_from_agent = msgspec.msgpack.Decoder(FromAgent).decode
