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

Problem: most of a check is the original's. For a product of 4096 by 6144 in bfloat16, on each of
seventeen distributions: drawing 0.08 s, float64 with noise 0.07 s, either side on the device 0.1 to
0.2 s. So a `Referee` serves all candidates of a program, and its process keeps what it knows of the
original on each distribution (`_Original`). While the device runs the original, the process
computes in float64; while it runs the candidate, it draws the next inputs. Both are the first
thread's work: no other can keep the memory of arrays for those that follow (`keep_freed_memory`),
and new memory takes more time than the arithmetic. A candidate that is wrong ends at the first
trial that says so, and those that tell most often come first: inputs so large that what is computed
in another order overflows.
"""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from types import TracebackType
from typing import Self, TypeAlias

import ml_dtypes
import msgspec
import numpy as np
from msgspec import Struct

from ..._blocking import to_the_end
from ...capture.jax_types import Leaf
from ...equivalence import (
    ENOUGH,
    FLOAT_DISTRIBUTIONS,
    GIVEN,
    ExecutedProgram,
    FloatEvidence,
    FloatStatus,
    NoisyArray,
    Trial,
    compare_outputs,
    in_types,
    overflow_inputs,
    rounded,
    usual_distributions,
)
from ...measure import Draw, ExecutorError, Failure
from ...measure.protocol import Parcel
from ...measure.random_inputs import draw
from ...measure.shared_arrays import SharedArrays, nameless_file
from ...memory import keep_freed_memory
from ...processes.frames import Channel, enter_child
from ...tensor import DType, Program
from ...tensor.files import from_json
from ..array_types import array_types
from ..errors import OptimizeError
from ..worker_process import RequestFailed, WorkerGone, WorkerProcess, serve_requests

EXTRA_DRAWS = 3
"""Draws of the inputs that the race runs on, where the usual distributions say too little."""

Run: TypeAlias = Callable[[int, Sequence[Leaf]], Awaitable[tuple[Leaf, ...] | Failure]]
"""Runs the original (0) or the candidate (1) on the device."""


class JudgeRequest(Struct, frozen=True, tag=True):
    """A program, and how candidates for it are judged."""

    program: bytes
    draws: dict[int, Draw]
    """What its inputs are drawn from when it is timed, by position."""
    seed: int
    strict: bool
    product_unit: float = 0.0
    """By what the device rounds operands of float32 products."""
    given: tuple[Parcel, ...] = ()
    """Inputs that the user's arguments are or come to, in the letterbox; empty where none are."""


class CandidateRequest(Struct, frozen=True, tag=True):
    """Asks for a verdict on a candidate."""

    case: JudgeRequest | None
    """The program, where the process does not know it yet."""
    vast: bool = False
    """Whether vast inputs alone are tried."""
    seconds: float | None = None
    """Seconds after which no further inputs are tried: then there is no verdict."""


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
_Request: TypeAlias = CandidateRequest | OutputsReady
_decode_request: msgspec.msgpack.Decoder[_Request] = msgspec.msgpack.Decoder(_Request)
_decode_reply: msgspec.msgpack.Decoder[OutputsWanted | JudgedOutputs | RequestFailed] = (
    msgspec.msgpack.Decoder(OutputsWanted | JudgedOutputs | RequestFailed)
)


class Referee:
    """The host's end: judges candidates for one program, one after the other.

    Its process begins with the first of them, and is gone when the context ends.
    """

    def __init__(self, case: JudgeRequest, given: Sequence[Leaf] | None = None) -> None:
        self._case = case
        self._given = given or ()
        self._letterbox = SharedArrays(-1)
        self._process: WorkerProcess | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def judge(
        self, run: Run, *, vast: bool = False, seconds: float | None = None
    ) -> FloatEvidence | Failure:
        """Compares both sides; a `Failure` is that of the side that cannot run. Raises
        `OptimizeError`, also where it takes more than so many `seconds`.

        Besides `FLOAT_DISTRIBUTIONS` it draws the inputs that a race is run on, where fewer than
        `ENOUGH` of those say anything, or where they leave out an output; and inputs so large that
        what computes something larger than the original does overflows. Inputs that are given are
        one distribution more. The first trial that speaks against the candidate is the last. Only
        `vast` inputs say soon whether it overflows, and nothing else.
        """
        try:
            return await self._judged(run, vast, seconds)
        except WorkerGone:
            return await self._judged(run, vast, seconds)

    async def _judged(self, run: Run, vast: bool, seconds: float | None) -> FloatEvidence | Failure:
        try:
            verdict = await self._asked(run, vast, seconds)
        except BaseException:
            await self.close()
            raise
        # It still waits for the outputs of what failed; another process begins anew.
        if isinstance(verdict, Failure):
            await self.close()
        return verdict

    async def _asked(self, run: Run, vast: bool, seconds: float | None) -> FloatEvidence | Failure:
        referee, case = self._process, None
        if referee is None:
            referee, case = await self._begin()
        referee.send(_encode(CandidateRequest(case, vast, seconds)))
        # The referee leads: it asks for a run of either side as often as it wants, then gives its
        # verdict.
        while True:
            match _decode_reply.decode(await referee.hear()):
                case OutputsWanted(side, inputs):
                    arrays = await to_the_end(_take, self._letterbox, inputs)
                    outputs = await run(side, arrays)
                    if isinstance(outputs, Failure):
                        return outputs
                    referee.send(_encode(OutputsReady(await self._put(outputs))))
                case JudgedOutputs(evidence):
                    return evidence
                case RequestFailed(reason):
                    raise OptimizeError(reason)

    async def _begin(self) -> tuple[WorkerProcess, JudgeRequest]:
        """Starts a process, and gives what it has to know first."""
        fd = nameless_file("aiosearch-trial")
        self._letterbox = SharedArrays(fd)
        process = WorkerProcess(__name__, "judges it", (fd,), (str(fd),))
        await process.begin()
        self._process = process
        parcels = await self._put(self._given) if self._given else ()
        return process, msgspec.structs.replace(self._case, given=parcels)

    async def _put(self, arrays: Sequence[Leaf]) -> tuple[Parcel, ...]:
        try:
            return await to_the_end(self._letterbox.put, arrays)
        except ExecutorError as error:
            raise OptimizeError(f"it cannot be judged: {error}") from None

    async def close(self) -> None:
        """Ends its process, with all that it knows; safe to call twice."""
        process, self._process = self._process, None
        try:
            if process is not None:
                await process.end()
        finally:
            # The file has no name: with the last descriptor its memory is gone.
            if self._letterbox.fd >= 0:
                os.close(self._letterbox.fd)
                self._letterbox.fd = -1


def _take(letterbox: SharedArrays, parcels: Sequence[Parcel]) -> list[Leaf]:
    return [letterbox.take(parcel) for parcel in parcels]


class _AskedDevice:
    """What runs either side: the host, which is asked for it."""

    def __init__(self, program: Program, channel: Channel, letterbox: SharedArrays) -> None:
        self._types = [term.dtype for term in program.inputs]
        self._channel = channel
        self._letterbox = letterbox

    def asked(self, side: int, inputs: Sequence[Leaf]) -> None:
        """Asks for a run of a side on `stored` inputs; its outputs are `received`."""
        self._channel.send(_encode(OutputsWanted(side, self._letterbox.put(inputs))))

    def stored(self, inputs: Sequence[Leaf]) -> list[Leaf]:
        """Inputs in the types of the program."""
        return list(map(_narrow, inputs, self._types))

    def received(self) -> list[Leaf]:
        # The host sends nothing of its own accord between a request and its answer: one frame is
        # all there is.
        (payload,) = self._channel.receive()
        reply = _decode_request.decode(payload)
        assert isinstance(reply, OutputsReady)
        return _take(self._letterbox, reply.outputs)


_NARROW = {DType.F16: np.dtype(np.float16), DType.BF16: np.dtype(ml_dtypes.bfloat16)}
"""Types that are stored in fewer bytes than they are computed in."""


def _narrow(array: Leaf, dtype: DType) -> Leaf:
    """Values that are rounded to a type, in that type, in which they are half as long to carry."""
    return np.asarray(array).astype(_NARROW[dtype]) if dtype in _NARROW else array


@dataclass
class _Original:
    """What the original does on the inputs of one distribution, as far as it is known."""

    distribution: str
    draw: Callable[[], list[Leaf]]
    inputs: list[Leaf] | None = None
    """In the types of the program."""
    outputs: list[Leaf] | None = None
    """What the device gives."""
    truth: list[NoisyArray] | None = None
    drawn: list[Leaf] | None = None
    """The inputs in the types that the program computes in, until `truth` is known."""
    _kept: int = 0
    """Bytes that it takes."""

    def prepare(self, device: _AskedDevice) -> None:
        """Draws inputs, unless they are there."""
        if self.inputs is None:
            self.drawn = self.draw()
            self.inputs = device.stored(self.drawn)

    def keep(self, room: int) -> int:
        """Forgets what has no room in so many bytes, the inputs first; gives the room that is left.

        The room that it took before is its own again.
        """
        room += self._kept
        known = _bytes([*(self.outputs or ()), *_arrays(self.truth or ())])
        inputs = _bytes(self.inputs or ())
        if known + inputs > room:
            self.inputs, inputs = None, 0
        if known > room:
            self.outputs, self.truth, known = None, None, 0
        self._kept = known + inputs
        return room - self._kept


def _arrays(truth: Sequence[NoisyArray]) -> Iterator[Leaf]:
    for output in truth:
        yield from (part for part in (output.value, output.noise, output.top) if part is not None)


def _bytes(arrays: Sequence[Leaf]) -> int:
    return sum(int(np.asarray(array).nbytes) for array in arrays)


def _room() -> int:
    """Bytes that may be kept: a sixteenth of the machine's memory."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 16


class _OutOfTimeError(Exception):
    """There is no verdict in the time that there is for it."""


@dataclass
class _CandidateJudge:
    """Judges candidates for one program."""

    case: JudgeRequest
    program: ExecutedProgram
    device: _AskedDevice
    given: list[Leaf] | None
    room: int = field(default_factory=_room)
    """Bytes that are left for what is known of the original."""
    until: float | None = None
    """When the time for a verdict is over, by `time.monotonic`."""

    def __post_init__(self) -> None:
        program, seed = self.program.program, self.case.seed
        given = self.given
        self._usual = [
            _Original(name, partial(self.program.draw, name, seed))
            for name in usual_distributions(self.program, self.case.strict)
        ]
        if given is not None:
            self._usual.insert(0, _Original(GIVEN, lambda: in_types(self.program.inputs, given)))
        self._vast = [
            _Original(f"vast ({number})", partial(draws.inputs, program, seed))
            for number, draws in enumerate(overflow_inputs(program, seed), 1)
        ]

    def verdict(self, vast_only: bool) -> FloatEvidence:
        """What both give on vast inputs and the usual ones, and on more where these do not tell
        enough."""
        vast = self._trials(self._vast)
        # What overflows is told by the first few trials, most of the others by none.
        if vast_only or _failed(vast):
            return self._evidence([trial for trial in vast if trial.status is FloatStatus.FAILED])
        trials = self._trials(self._usual)
        telling = [trial for trial in trials if trial.status is not FloatStatus.SKIPPED]
        # Chosen points are few: where a program is finite there, that says little of it elsewhere.
        drawn = [trial for trial in telling if trial.distribution in FLOAT_DISTRIBUTIONS]
        usual = self._evidence(trials)
        if not _failed(trials) and (len(drawn) < ENOUGH or usual.unseen):
            # Some programs are accurate nowhere but on inputs like those of the race: without them
            # nothing is said.
            trials += self._trials(self._as_timed)
            usual = self._evidence(trials)
        # To pass counts only where the usual distributions agree: else vast inputs, on which little
        # can be judged, would be the only evidence.
        counted = [trial for trial in vast if trial.status is FloatStatus.PASSED]
        return self._evidence(trials + counted) if usual.outcome == "agree" else usual

    @cached_property
    def _as_timed(self) -> list[_Original]:
        return [
            _Original(f"as timed ({number})", partial(_drawn, self.case, self.case.seed + number))
            for number in range(1, EXTRA_DRAWS + 1)
        ]

    def _trials(self, originals: Sequence[_Original]) -> list[Trial]:
        """A trial on each, until one speaks against the candidate."""
        trials: list[Trial] = []
        for place, original in enumerate(originals):
            if self.until is not None and time.monotonic() > self.until:
                raise _OutOfTimeError
            trials.append(self._trial(original, originals[place + 1 :][:1]))
            self.room = original.keep(self.room)
            if _failed(trials):
                break
        return trials

    def _trial(self, original: _Original, following: Sequence[_Original]) -> Trial:
        """One trial; while the device runs the candidate, the `following` inputs are drawn."""
        original.prepare(self.device)
        assert original.inputs is not None, "they are prepared"
        if original.truth is None:
            assert original.drawn is not None, "what forgets the truth forgets the inputs"
            with self._running(0, original.inputs) as outputs:
                original.truth = self.program.truth(original.drawn)
            original.outputs = outputs
        original.drawn = None
        assert original.outputs is not None, "they are there with the truth"
        with self._running(1, original.inputs) as theirs:
            for later in following:
                later.prepare(self.device)
        return compare_outputs(
            self.program,
            original.draw,
            original.outputs,
            theirs,
            original.truth,
            original.distribution,
            self.case.strict,
        )

    @contextmanager
    def _running(self, side: int, inputs: Sequence[Leaf]) -> Iterator[list[Leaf]]:
        """The device runs a side meanwhile; its outputs are in the list afterwards."""
        outputs: list[Leaf] = []
        self.device.asked(side, inputs)
        try:
            yield outputs
        finally:
            # Also after an error: the host sends them in any case.
            outputs += self.device.received()

    def _evidence(self, trials: Sequence[Trial]) -> FloatEvidence:
        return FloatEvidence(self.case.seed, self.case.strict, tuple(trials))


def _failed(trials: Sequence[Trial]) -> bool:
    return any(trial.status is FloatStatus.FAILED for trial in trials)


def _drawn(case: JudgeRequest, seed: int) -> list[Leaf]:
    """Inputs as for a race, rounded to the types that the program computes in."""
    program = from_json(case.program)
    types = zip(program.inputs, array_types(program), strict=True)
    return [
        rounded(draw(type_, seed, at, case.draws.get(at)), term.dtype)
        for at, (term, type_) in enumerate(types)
    ]


def main() -> None:
    """Judges one candidate after the other, until the host goes away or kills the process."""
    channel, (fd,) = enter_child()
    # Inputs of one distribution after the other are as large, and each is made in several steps.
    keep_freed_memory()
    letterbox = SharedArrays(int(fd))
    judges: list[_CandidateJudge] = []

    def answer(payload: bytes) -> bytes:
        request = _decode_request.decode(payload)
        assert isinstance(request, CandidateRequest)
        return _encode(_verdict(request, judges, partial(_judge, channel, letterbox)))

    serve_requests(channel, answer)


def _judge(channel: Channel, letterbox: SharedArrays, case: JudgeRequest) -> _CandidateJudge:
    # Before anything else is put in their place.
    given = _take(letterbox, case.given) if case.given else None
    program = from_json(case.program)
    executed = ExecutedProgram(program, case.product_unit)
    return _CandidateJudge(case, executed, _AskedDevice(program, channel, letterbox), given)


def _verdict(
    request: CandidateRequest,
    judges: list[_CandidateJudge],
    judge: Callable[[JudgeRequest], _CandidateJudge],
) -> JudgedOutputs | RequestFailed:
    try:
        if request.case is not None:
            judges[:] = [judge(request.case)]
        (known,) = judges
        seconds = request.seconds
        known.until = None if seconds is None else time.monotonic() + seconds
        return JudgedOutputs(known.verdict(request.vast).remarked(known.program.program))
    except _OutOfTimeError:
        return RequestFailed(f"it would take more than {request.seconds:.0f} s to judge it")
    # The host is gone: nobody reads an answer, and `serve_requests` ends.
    except (EOFError, ConnectionError):
        raise
    except ExecutorError as error:
        return RequestFailed(f"it cannot be judged: {error}")
    except Exception as error:  # memory may end, in many places
        return RequestFailed(f"it cannot be judged: {type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
