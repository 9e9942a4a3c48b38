"""The process that compares a candidate's outputs with float64, so that the host's event loop does
not wait for it.

It draws the inputs and computes in float64; the host carries arrays between it and the executor,
through a file in memory that both share (`SharedArrays`):

    host                                       referee
    JudgeRequest  ------------------------>
                  <------------------------  OutputsWanted(side 0, inputs)
    run on the device
    OutputsReady  ------------------------>
                  <------------------------  JudgedOutputs(evidence), or RequestFailed

The messages are small: arrays stand in the letterbox, and a `Parcel` says where. A referee that
dies, as for lack of memory, has one successor.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import TypeAlias

import msgspec
from msgspec import Struct

from ...capture.jax_types import Leaf
from ...equivalence.floats import ENOUGH, FloatEvidence, FloatStatus, compare_on, compare_sides
from ...equivalence.overflow_inputs import overflow_inputs
from ...equivalence.program_inputs import FLOAT_DISTRIBUTIONS
from ...equivalence.rounding.machine import rounded
from ...equivalence.rounding.noise import NoisyArray
from ...equivalence.runnables import ExecutedProgram
from ...measure import Draw, ExecutorError, Failure
from ...measure.host.threads import to_the_end
from ...measure.protocol import Parcel
from ...measure.random_inputs import draw
from ...measure.shared_arrays import SharedArrays, nameless_file
from ...memory import keep_freed_memory
from ...processes.frames import Channel, enter_child
from ...tensor import DType
from ...tensor.files import from_json
from ..array_types import array_types
from ..errors import OptimizeError
from ..worker_process import (
    RequestFailed,
    WorkerGone,
    WorkerProcess,
    serve_requests,
    worker_process,
)

EXTRA_DRAWS = 3
"""Draws of the inputs that the race runs on, where the usual distributions say too little."""

Run: TypeAlias = Callable[[int, Sequence[Leaf]], Awaitable[tuple[Leaf, ...] | Failure]]
"""Runs the original (0) or the candidate (1) on the device."""


class JudgeRequest(Struct, frozen=True, tag=True):
    """A program, and how a candidate for it is judged."""

    program: bytes
    draws: dict[int, Draw]
    """What its inputs are drawn from when it is timed, by position."""
    seed: int
    strict: bool
    product_unit: float = 0.0
    """By what the device rounds operands of float32 products."""
    given: tuple[Parcel, ...] = ()
    """Inputs that the user's arguments are or come to, in the letterbox; empty where none are."""


class OutputsWanted(Struct, frozen=True, tag=True):
    """Asks the host to run a side on the inputs in the letterbox."""

    side: int
    inputs: tuple[Parcel, ...]


class OutputsReady(Struct, frozen=True, tag=True):
    """Says that the outputs are in the letterbox."""

    outputs: tuple[Parcel, ...]


class JudgedOutputs(Struct, frozen=True, tag=True):
    """What the two gave, compared."""

    evidence: FloatEvidence


_encode = msgspec.msgpack.Encoder().encode
_decode_request: msgspec.msgpack.Decoder[JudgeRequest | OutputsReady] = msgspec.msgpack.Decoder(
    JudgeRequest | OutputsReady
)
_decode_reply: msgspec.msgpack.Decoder[OutputsWanted | JudgedOutputs | RequestFailed] = (
    msgspec.msgpack.Decoder(OutputsWanted | JudgedOutputs | RequestFailed)
)


async def judge_outputs(
    case: JudgeRequest, run: Run, given: Sequence[Leaf] | None = None
) -> FloatEvidence | Failure:
    """Compares both sides; a `Failure` is that of the side that cannot run. Raises `OptimizeError`.

    Besides `FLOAT_DISTRIBUTIONS` it draws the inputs that a race is run on, where fewer than
    `ENOUGH` of those say anything, or where they leave out an output; and inputs so large that what
    computes something larger than the original does overflows. Inputs that are `given` are one
    distribution more. A referee that dies has one successor.
    """
    try:
        return await _judged(case, run, given or ())
    except WorkerGone:
        return await _judged(case, run, given or ())


async def _judged(case: JudgeRequest, run: Run, given: Sequence[Leaf]) -> FloatEvidence | Failure:
    async with _letterbox() as letterbox, _referee(letterbox) as referee:
        parcels = await _put(letterbox, given) if given else ()
        referee.send(_encode(msgspec.structs.replace(case, given=parcels)))
        # The referee leads: it asks for a run of either side as often as it wants, then gives its
        # verdict.
        while True:
            match _decode_reply.decode(await referee.hear()):
                case OutputsWanted(side, inputs):
                    outputs = await run(side, await to_the_end(_take_outputs, letterbox, inputs))
                    if isinstance(outputs, Failure):
                        return outputs
                    referee.send(_encode(OutputsReady(await _put(letterbox, outputs))))
                case JudgedOutputs(evidence):
                    return evidence
                case RequestFailed(reason):
                    raise OptimizeError(reason)


@asynccontextmanager
async def _letterbox() -> AsyncIterator[SharedArrays]:
    letterbox = SharedArrays(nameless_file("aiosearch-trial"))
    try:
        yield letterbox
    finally:
        # The file has no name: with the last descriptor its memory is gone.
        os.close(letterbox.fd)


async def _put(letterbox: SharedArrays, arrays: Sequence[Leaf]) -> tuple[Parcel, ...]:
    try:
        return await to_the_end(letterbox.put, arrays)
    except ExecutorError as error:
        raise OptimizeError(f"it cannot be judged: {error}") from None


def _referee(letterbox: SharedArrays) -> AbstractAsyncContextManager[WorkerProcess]:
    return worker_process(__name__, "judges it", (letterbox.fd,), (str(letterbox.fd),))


def _take_outputs(letterbox: SharedArrays, parcels: Sequence[Parcel]) -> list[Leaf]:
    return [letterbox.take(parcel) for parcel in parcels]


class _HostRun:
    """A side that the host runs; float64 and its bounds of error are those of the program."""

    def __init__(
        self, side: int, program: ExecutedProgram, channel: Channel, letterbox: SharedArrays
    ) -> None:
        self._side = side
        self._truth = program
        self.program = program.program
        self._channel = channel
        self._letterbox = letterbox
        self.inputs = program.inputs
        self.outputs = program.outputs
        self.asks_for = program.asks_for
        # Of a candidate nothing is known but what it gives.
        self.points = program.points if side == 0 else ()
        self.facts = program.facts

    def unit(self, dtype: DType) -> float:
        return self._truth.unit(dtype)

    def draw(self, distribution: str, seed: int) -> list[Leaf]:
        return self._truth.draw(distribution, seed)

    def own(self, inputs: Sequence[Leaf]) -> list[Leaf]:
        self._channel.send(_encode(OutputsWanted(self._side, self._letterbox.put(inputs))))
        # The host sends nothing of its own accord between a request and its answer: one frame is
        # all there is.
        (payload,) = self._channel.receive()
        reply = _decode_request.decode(payload)
        assert isinstance(reply, OutputsReady)
        return _take_outputs(self._letterbox, reply.outputs)

    def truth(self, inputs: Sequence[Leaf]) -> list[NoisyArray]:
        return self._truth.truth(inputs)


def compared(
    case: JudgeRequest, ours: _HostRun, theirs: _HostRun, given: Sequence[Leaf] | None = None
) -> FloatEvidence:
    """On the usual distributions, and on more where these do not tell enough.

    What none of them speaks against runs on vast inputs too, which tell whether it overflows. To
    pass on vast inputs is no evidence where there is none elsewhere.
    """
    seed, strict = case.seed, case.strict
    evidence = compare_sides(ours, theirs, seed=seed, strict=strict, given=given)
    if evidence.outcome == "differ":
        return evidence
    trials = evidence.trials
    telling = [trial for trial in trials if trial.status is not FloatStatus.SKIPPED]
    # Chosen points are few: where a program is finite there, that says little of it elsewhere.
    drawn = [trial for trial in telling if trial.distribution in FLOAT_DISTRIBUTIONS]
    if len(drawn) < ENOUGH or evidence.unseen:
        # Some programs are accurate nowhere but on inputs like those of the race: without them
        # nothing is said.
        trials += tuple(
            compare_on(_drawn(case, seed + number), ours, theirs, f"as timed ({number})", strict)
            for number in range(1, EXTRA_DRAWS + 1)
        )
    vast = (
        compare_on(draws.inputs(ours.program, seed), ours, theirs, f"vast ({number})", strict)
        for number, draws in enumerate(overflow_inputs(ours.program, seed), 1)
    )
    usual = replace(evidence, trials=trials)
    # To pass counts only where the usual distributions agree: else vast inputs, on which little can
    # be judged, would be the only evidence.
    counts = {FloatStatus.FAILED, *({FloatStatus.PASSED} if usual.outcome == "agree" else ())}
    return replace(usual, trials=(*trials, *(trial for trial in vast if trial.status in counts)))


def _drawn(case: JudgeRequest, seed: int) -> list[Leaf]:
    """Inputs as for a race, rounded to the types that the program computes in."""
    program = from_json(case.program)
    types = zip(program.inputs, array_types(program), strict=True)
    return [
        rounded(draw(type_, seed, at, case.draws.get(at)), term.dtype)
        for at, (term, type_) in enumerate(types)
    ]


def main() -> None:
    """Judges one case after the other, until the host goes away or kills the process."""
    channel, (fd,) = enter_child()
    # Inputs of one distribution after the other are as large, and each is made in several steps.
    keep_freed_memory()
    letterbox = SharedArrays(int(fd))

    def answer(payload: bytes) -> bytes:
        case = _decode_request.decode(payload)
        assert isinstance(case, JudgeRequest)
        return _encode(_verdict(case, channel, letterbox))

    serve_requests(channel, answer)


def _verdict(
    case: JudgeRequest, channel: Channel, letterbox: SharedArrays
) -> JudgedOutputs | RequestFailed:
    try:
        program = ExecutedProgram(from_json(case.program), case.product_unit)
        # Before anything else is put in their place.
        given = _take_outputs(letterbox, case.given) if case.given else None
        ours, theirs = (_HostRun(side, program, channel, letterbox) for side in (0, 1))
        return JudgedOutputs(compared(case, ours, theirs, given).remarked(program.program))
    # The host is gone: nobody reads an answer, and `serve_requests` ends.
    except (EOFError, ConnectionError):
        raise
    except ExecutorError as error:
        return RequestFailed(f"it cannot be judged: {error}")
    except Exception as error:  # memory may end, in many places
        return RequestFailed(f"it cannot be judged: {type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
