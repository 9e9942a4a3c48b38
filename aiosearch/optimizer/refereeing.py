"""A process that judges what a device gives, so that the host's event loop does not wait for it.

The process draws the inputs and computes in float64; the host carries arrays between it and the
executor, through a file in memory that both share.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from ..engine.channel import Channel, enter_child
from ..equivalence.distributions import DISTRIBUTIONS
from ..equivalence.floats import ENOUGH, FloatEvidence, Status, compare_on, compare_sides
from ..equivalence.machine import rounded
from ..equivalence.measured import Measured
from ..equivalence.sides import Executed
from ..equivalence.vast import vast
from ..measure import Draw, ExecutorError, Failure
from ..measure.drawing import draw
from ..measure.letterbox import Letterbox, nameless_file
from ..measure.protocol import Parcel
from ..measure.threads import to_the_end
from ..tensor import DType
from ..tensor.files import from_json
from .errors import OptimizeError
from .servants import Died, Failed, Servant, servant, serving
from .types import array_types

MORE = 3
"""Draws of the inputs that it was timed on, where the usual distributions say too little."""

Run: TypeAlias = Callable[[int, Sequence[Any]], Awaitable[tuple[Any, ...] | Failure]]
"""Runs the original (0) or the candidate (1) on the device."""


class Case(Struct, frozen=True, tag=True):
    """A program, and the way in which a candidate for it is judged."""

    program: bytes
    draws: dict[int, Draw]
    """From what its inputs are drawn when it is timed."""
    seed: int
    strict: bool
    product_unit: float = 0.0
    """By what the device rounds operands of float32 products."""


class Wanted(Struct, frozen=True, tag=True):
    """Run this side on the inputs in the letterbox."""

    side: int
    inputs: tuple[Parcel, ...]


class Given(Struct, frozen=True, tag=True):
    """Its outputs are in the letterbox."""

    outputs: tuple[Parcel, ...]


class Judged(Struct, frozen=True, tag=True):
    """What the two gave, compared."""

    evidence: FloatEvidence


_encode = msgspec.msgpack.Encoder().encode
_asked: msgspec.msgpack.Decoder[Case | Given] = msgspec.msgpack.Decoder(Case | Given)
_told: msgspec.msgpack.Decoder[Wanted | Judged | Failed] = msgspec.msgpack.Decoder(
    Wanted | Judged | Failed
)


async def judged(case: Case, run: Run) -> FloatEvidence | Failure:
    """Compares both sides; a failure is that of the one that cannot run. Raises OptimizeError.

    Besides the usual distributions it draws the inputs that a race is run on, where fewer than
    `ENOUGH` of those say anything, or where they leave out an output; and inputs so large that what
    computes something larger than the original does overflows. A referee that dies has one
    successor.
    """
    try:
        return await _judged(case, run)
    except Died:
        return await _judged(case, run)


async def _judged(case: Case, run: Run) -> FloatEvidence | Failure:
    async with _letterbox() as letterbox, _referee(letterbox) as referee:
        referee.send(_encode(case))
        while True:
            match _told.decode(await referee.hear()):
                case Wanted(side, inputs):
                    found = await run(side, await to_the_end(_taken, letterbox, inputs))
                    if isinstance(found, Failure):
                        return found
                    referee.send(_encode(Given(await _put(letterbox, found))))
                case Judged(evidence):
                    return evidence
                case Failed(reason):
                    raise OptimizeError(reason)


@asynccontextmanager
async def _letterbox() -> AsyncIterator[Letterbox]:
    letterbox = Letterbox(nameless_file("aiosearch-trial"))
    try:
        yield letterbox
    finally:
        os.close(letterbox.fd)


async def _put(letterbox: Letterbox, arrays: Sequence[Any]) -> tuple[Parcel, ...]:
    try:
        return await to_the_end(letterbox.put, arrays)
    except ExecutorError as error:
        raise OptimizeError(f"it cannot be judged: {error}") from None


def _referee(letterbox: Letterbox) -> AbstractAsyncContextManager[Servant]:
    return servant(__name__, "judges it", (letterbox.fd,), (str(letterbox.fd),))


def _taken(letterbox: Letterbox, parcels: Sequence[Parcel]) -> list[Any]:
    return [letterbox.take(parcel) for parcel in parcels]


class _Elsewhere:
    """A side that the host has run; the truth is the program's."""

    def __init__(
        self, side: int, program: Executed, channel: Channel, letterbox: Letterbox
    ) -> None:
        self._side = side
        self._truth = program
        self.program = program.program
        self._channel = channel
        self._letterbox = letterbox
        self.inputs = program.inputs
        self.outputs = program.outputs
        self.asks_for = program.asks_for

    def unit(self, dtype: DType) -> float:
        return self._truth.unit(dtype)

    def own(self, inputs: Sequence[Any]) -> list[Any]:
        self._channel.send(_encode(Wanted(self._side, self._letterbox.put(inputs))))
        (payload,) = self._channel.receive()
        given = _asked.decode(payload)
        assert isinstance(given, Given)
        return _taken(self._letterbox, given.outputs)

    def truth(self, inputs: Sequence[Any]) -> list[Measured]:
        return self._truth.truth(inputs)


def compared(case: Case, ours: _Elsewhere, theirs: _Elsewhere) -> FloatEvidence:
    """On the usual distributions, and on more where these do not tell enough.

    What none of them speaks against runs on vast inputs, too, which tell whether it overflows. To
    pass there is no evidence where there is none elsewhere.
    """
    seed, strict = case.seed, case.strict
    found = compare_sides(ours, theirs, seed=seed, strict=strict, distributions=DISTRIBUTIONS)
    if found.outcome == "differ":
        return found
    trials = found.trials
    if found.counted < ENOUGH or found.unseen:
        trials += tuple(
            compare_on(_drawn(case, seed + number), ours, theirs, f"as timed ({number})", strict)
            for number in range(1, MORE + 1)
        )
    far = (
        compare_on(one.inputs(ours.program, seed), ours, theirs, f"vast ({number})", strict)
        for number, one in enumerate(vast(ours.program, seed), 1)
    )
    usual = replace(found, trials=trials)
    telling = {Status.FAILED, *({Status.PASSED} if usual.outcome == "agree" else ())}
    return replace(usual, trials=(*trials, *(one for one in far if one.status in telling)))


def _drawn(case: Case, seed: int) -> list[Any]:
    """Inputs as for a race, in the working types."""
    program = from_json(case.program)
    types = zip(program.inputs, array_types(program), strict=True)
    return [
        rounded(draw(type_, seed, at, case.draws.get(at)), term.dtype)
        for at, (term, type_) in enumerate(types)
    ]


def main() -> None:
    """Judges one case after the other, until the host goes away or kills the process."""
    channel, (fd,) = enter_child()
    letterbox = Letterbox(int(fd))

    def answer(payload: bytes) -> bytes:
        case = _asked.decode(payload)
        assert isinstance(case, Case)
        return _encode(_verdict(case, channel, letterbox))

    serving(channel, answer)


def _verdict(case: Case, channel: Channel, letterbox: Letterbox) -> Judged | Failed:
    try:
        program = Executed(from_json(case.program), case.product_unit)
        ours, theirs = (_Elsewhere(side, program, channel, letterbox) for side in (0, 1))
        return Judged(compared(case, ours, theirs).remarked(program.program))
    except (EOFError, ConnectionError):
        raise
    except ExecutorError as error:
        return Failed(f"it cannot be judged: {error}")
    except Exception as error:  # memory may end, in many places
        return Failed(f"it cannot be judged: {type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
