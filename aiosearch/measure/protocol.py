"""What the host says to the processes that compile and time, one msgpack message a frame."""

from __future__ import annotations

from typing import TypeAlias

import msgspec
from msgspec import Struct

from .candidates import ArrayType, Cause
from .race import Sample, Way
from .random_inputs import Draw


class ProcessSettings(Struct, frozen=True):
    """What a process gets when it starts, as JSON on its command line."""

    platform: str
    compile_seconds: float
    run_seconds: float
    """Seconds for one sample of a candidate."""
    memory_mb: int
    ways: tuple[Way, ...]
    letterbox: int
    """The descriptor of the file of `SharedArrays`."""
    tuned: str = ""
    """The folder in which XLA keeps what it tuned on a GPU."""


class Text(Struct, frozen=True, array_like=True, tag=0):
    """A function, as it is written."""

    source: str
    function: str
    inputs: tuple[ArrayType, ...]
    x64: bool
    precision: str | None
    promotion: str


class Parcel(Struct, frozen=True, array_like=True, tag=1):
    """An array that lies in the `SharedArrays`."""

    dtype: str
    shape: tuple[int, ...]
    offset: int


class Build(Struct, frozen=True, array_like=True, tag=2):
    """Compile this text within so many seconds; answered by `BuildReply`."""

    text: Text
    seconds: float


class Keep(Struct, frozen=True, array_like=True, tag=3):
    """Take a constant out of the letterbox and keep it under a number."""

    number: int
    parcel: Parcel


class LoadRequest(Struct, frozen=True, array_like=True, tag=4):
    """Keep a candidate under a number; its constants, by position, are there already by `Keep`."""

    number: int
    text: Text
    executable: bytes
    looped: bytes
    constants: dict[int, int]
    draws: dict[int, Draw]


class Forget(Struct, frozen=True, array_like=True, tag=5):
    """Let these candidates go, and these constants."""

    candidates: tuple[int, ...]
    constants: tuple[int, ...]


class RunRequest(Struct, frozen=True, array_like=True, tag=6):
    """Run a candidate on what is drawn from the `seed`, or lies in the `parcels`."""

    number: int
    seed: int
    parcels: tuple[Parcel, ...] | None


class Prepare(Struct, frozen=True, array_like=True, tag=7):
    """Draw inputs for these candidates and warm up."""

    numbers: tuple[int, ...]
    seed: int
    deciding: bool
    """Whether they will run in no way but the one that decides."""


class Turns(Struct, frozen=True, array_like=True, tag=8):
    """Time those that were in `Prepare`, once each, in this order."""

    order: tuple[int, ...]


class ProcessReady(Struct, frozen=True, array_like=True, tag=0):
    """The process has loaded jax and found its device."""

    device: str
    cores: int
    versions: str


class ProcessBroken(Struct, frozen=True, array_like=True, tag=1):
    """The process cannot serve, and ends."""

    reason: str


class Raised(Struct, frozen=True, array_like=True, tag=2):
    """The candidate failed and the process goes on."""

    cause: Cause
    message: str


class BuildReply(Struct, frozen=True, array_like=True, tag=3):
    """It is compiled. What cannot be sent is empty."""

    executable: bytes
    looped: bytes


class Done(Struct, frozen=True, array_like=True, tag=4):
    """What was asked for is done."""


class Outputs(Struct, frozen=True, array_like=True, tag=5):
    """The outputs lie in the letterbox."""

    parcels: tuple[Parcel, ...]


class PrepareReply(Struct, frozen=True, array_like=True, tag=6):
    """The ways in which these can be timed; `Way.COLD` may be impossible."""

    ways: tuple[Way, ...]


class TimingReply(Struct, frozen=True, array_like=True, tag=7):
    """The samples, a row for each `Way`, in the order of the turns."""

    rows: tuple[tuple[Sample, ...], ...]


Request: TypeAlias = Build | Keep | LoadRequest | Forget | RunRequest | Prepare | Turns
Reply: TypeAlias = (
    ProcessReady | ProcessBroken | Raised | BuildReply | Done | Outputs | PrepareReply | TimingReply
)

encode = msgspec.msgpack.Encoder().encode
decode_request = msgspec.msgpack.Decoder(Request).decode
decode_reply = msgspec.msgpack.Decoder(Reply).decode
encode_settings = msgspec.json.Encoder().encode
decode_settings = msgspec.json.Decoder(ProcessSettings).decode
