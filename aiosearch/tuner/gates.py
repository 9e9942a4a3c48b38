"""Gates: what a point must pass before its time counts, the cheapest first.

Decoding and requirements are checked where the point is drawn. The rest is here: what the processes
that trace, lower, compile and run a candidate say of it, and whether it computes the right numbers.

The numbers. A kernel that is wrong is often fast, so nothing is believed of one but its outputs.
They are compared on several kinds of inputs, each of which some mistake cannot survive: numbers
far apart, edges that stick out where a mask is missing, zeros, infinities and NaN that must stay in
their rows. Before each run arrays of the outputs' sizes are filled with NaN and freed, and inputs
alternate: so what was never written, or is left of an earlier run, is not right by accident. The
first inputs come again at the end, four times, which shows races and inputs that were overwritten.

How far is too far. The reference errs as well: by its distance from itself computed in float64 or,
where its own casts forbid that or it takes too long, by how far its outputs move when each input
moves by a unit in the last place. A candidate may err sixteen times as far (four times in half
types), as sums in another order do; computing in a shorter type errs thousands of times as far, and
is refused.
"""

from __future__ import annotations

import asyncio
import enum
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from msgspec import Struct

from ..measure import Cause, Compiled, Executor, Failure, Stage
from ..measure.random_inputs import draw
from .errors import RequirementFailed, SpaceError
from .kernels import HALF, KernelCall, candidate, is_array
from .tunables import AnyTunable, Tolerance
from .types import Configuration, Options, Pytree

NumpyArray: TypeAlias = np.ndarray[Any, Any]

SLACK = 16.0
HALF_SLACK = 4.0
"""Half types are rounded once, at the end, by every right kernel alike."""
UNITS = 4.0
"""Units in the last place that are always allowed."""
REPEATS = 4
"""A race that is lost in half of the runs passes one of five hundred times."""
PRECISE_FACTOR = 12
"""In float64 a reference takes so many times as long at least, for all kinds of inputs together."""
REPEATING_SHARE = 1 / 3
"""Of the time in which the reference runs on all kinds of inputs: what repetitions of one candidate
take, after the first of them."""
LARGE_INPUTS = 64 << 20
"""Bytes of inputs above which only two kinds are tried."""


class TuningGate(enum.StrEnum):
    """Where a point was turned away."""

    DECODE = "decode"
    REQUIRE = "require"
    TRACE = "trace"
    SHAPE = "shape"
    LOWER = "lower"
    COMPILE = "compile"
    RUN = "run"
    NUMBERS = "numbers"
    TIME = "time"


class Rejection(Struct, frozen=True):
    """Why a point is out."""

    gate: TuningGate
    reason: str

    def __str__(self) -> str:
        return f"{self.gate}: {self.reason}"


def rejection_of(failure: Failure) -> Rejection:
    """Which gate a failure of an executor means."""
    message = failure.message
    if failure.stage is not Stage.COMPILE:
        return Rejection(
            TuningGate.TIME if failure.stage is Stage.RACE else TuningGate.RUN, str(failure)
        )
    if failure.cause is not Cause.RAISED:
        return Rejection(TuningGate.COMPILE, str(failure))
    for prefix, gate in (("TraceError: ", TuningGate.TRACE), ("ShapeError: ", TuningGate.SHAPE)):
        if message.startswith(prefix):
            return Rejection(gate, message.removeprefix(prefix))
    compiler = "RuntimeError" in message.partition(":")[0]
    return Rejection(TuningGate.COMPILE if compiler else TuningGate.LOWER, message)


@dataclass(frozen=True)
class _Trial:
    """Inputs, what the reference makes of them, and how far from that is too far."""

    kind: str
    inputs: list[NumpyArray]
    outputs: tuple[NumpyArray, ...]
    bounds: tuple[_Bound, ...]


@dataclass(frozen=True)
class _Bound:
    """For one output: the truth, and the errors allowed at any place and on average."""

    truth: NumpyArray
    largest: NumpyArray
    average: float


class NumbersGate:
    """Compares candidates with a reference, on the device that they run on."""

    def __init__(
        self,
        executor: Executor,
        trials: Sequence[_Trial],
        poison: Compiled | None,
        seconds: float | None = None,
    ) -> None:
        self._executor = executor
        self._trials = trials
        self._poison = poison
        self._repeating = None if seconds is None else REPEATING_SHARE * seconds

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of inputs that candidates are tried on."""
        return tuple(trial.kind for trial in self._trials)

    @classmethod
    async def prepare(
        cls,
        executor: Executor,
        kernel: AnyTunable,
        call: KernelCall,
        reference: Compiled,
        seed: int,
        precise_seconds: float | None = None,
        seconds: float | None = None,
    ) -> NumbersGate | Rejection:
        """Runs the reference on all kinds of inputs; a rejection where it cannot be run at all.

        In float64 it runs for so many seconds at most: no library has a fast convolution there.
        Of what runs long there are as many kinds as fit in `seconds`, and fewer repetitions.
        """
        precise: _PreciseReference | None = None
        trials: list[_Trial] = []
        started = time.monotonic()
        for kind, inputs in input_kinds(call, seed).items():
            if not _is_time_for_more(len(trials), time.monotonic() - started, seconds):
                break
            outputs = await executor.run(reference, inputs)
            if isinstance(outputs, Failure):
                if not trials:
                    return rejection_of(outputs)
                continue
            if precise is None:
                hopeless = await _takes_longer(
                    executor, reference, inputs, started, precise_seconds
                )
                precise = await _PreciseReference.of(
                    executor, kernel, call, 0.0 if hopeless else precise_seconds
                )
            bounds = await _bounds(executor, kernel, call, reference, precise, inputs, outputs)
            if bounds is not None:
                trials.append(_Trial(kind, inputs, outputs, bounds))
        return cls(executor, trials, await _poison(executor, trials[0].outputs), seconds)

    async def glance(self, compiled: Compiled) -> Rejection | None:
        """Tries the first kind of inputs, which most mistakes do not survive."""
        return await self._attempt(compiled, self._trials[0])

    async def admit(self, compiled: Compiled, *, glanced: bool = False) -> Rejection | None:
        """Tries every kind of inputs, and the first again, some times; of what has passed `glance`
        just now, not the first before the others.
        """
        for trial in self._trials[1:] if glanced else self._trials:
            if rejection := await self._attempt(compiled, trial):
                return rejection
        # The first inputs again, right after others: an output that was left as it lay is now that
        # of other inputs; and some times, as a race that was won once is lost some other time.
        started = time.monotonic()
        for _ in range(REPEATS):
            if rejection := await self._attempt(compiled, self._trials[0]):
                return rejection
            if self._repeating is not None and time.monotonic() - started > self._repeating:
                break
        return None

    async def _attempt(self, compiled: Compiled, trial: _Trial) -> Rejection | None:
        # Allocators give out first what was freed last: now arrays of these sizes, full of NaN.
        if self._poison is not None:
            await self._executor.run(self._poison, [])
        outputs = await self._executor.run(compiled, trial.inputs)
        if isinstance(outputs, Failure):
            return rejection_of(outputs)
        if len(outputs) != len(trial.outputs):
            return Rejection(
                TuningGate.SHAPE,
                f"gives {len(outputs)} outputs where the reference has {len(trial.outputs)}",
            )
        for at, (output, expected) in enumerate(zip(outputs, trial.outputs, strict=True)):
            if output.shape != expected.shape or output.dtype != expected.dtype:
                return Rejection(
                    TuningGate.SHAPE,
                    f"output {at} is {output.dtype}{list(output.shape)} where the reference has"
                    f" {expected.dtype}{list(expected.shape)}",
                )
            fault = _fault(output, expected, trial.bounds[at])
            if fault:
                return Rejection(TuningGate.NUMBERS, f"output {at} on {trial.kind} inputs: {fault}")
        return None


async def _takes_longer(
    executor: Executor,
    reference: Compiled,
    inputs: list[NumpyArray],
    begun: float,
    seconds: float | None,
) -> bool:
    """Whether a reference, whose first run began then, is too slow to be run in float64 as well.

    Found out by running into the limit it costs all of these seconds, and the process that runs it.
    """
    if seconds is None or PRECISE_FACTOR * (time.monotonic() - begun) <= seconds:
        return False
    # The first run loads it, which on a loud machine takes a second: the next one tells.
    begun = time.monotonic()
    await executor.run(reference, inputs)
    return PRECISE_FACTOR * (time.monotonic() - begun) > seconds


def _is_time_for_more(kinds: int, spent: float, seconds: float | None) -> bool:
    """Whether there is time for one more kind of inputs, where each takes as long as those before.

    There is for the second, unless it would take all of the time by itself.
    """
    if seconds is None or not kinds:
        return True
    mean = spent / kinds
    return mean <= seconds if kinds == 1 else spent + mean <= seconds


def input_kinds(call: KernelCall, seed: int) -> dict[str, list[NumpyArray]]:
    """Inputs to try a kernel on, by kind. Whole numbers that were given stay as they are.

    They may be places in other arrays, and any others would mean nothing.
    """
    leaves, types = call.leaves, call.types
    drawn = [
        np.asarray(leaf) if _is_concrete(leaf) else _drawn(type_, seed, at)
        for at, (leaf, type_) in enumerate(zip(leaves, types, strict=True))
    ]
    floats = [at for at, array in enumerate(drawn) if _is_floating(array)]
    kinds = {"given" if any(map(_is_concrete, leaves)) else "normal": drawn}
    if not floats:
        return kinds
    random = np.random.default_rng(seed + 1)
    makers = {"edges": _edges, "large": _large, "sparse": _sparse, "special": _special}
    if sum(array.nbytes for array in drawn) > LARGE_INPUTS:
        makers = {"edges": _edges}
    for kind, make in makers.items():
        normal = [
            _drawn(types[at], seed + 7, at) if at in floats else array
            for at, array in enumerate(drawn)
        ]
        kinds[kind] = [
            make(array, random) if at in floats else array for at, array in enumerate(normal)
        ]
    return kinds


def _edges(array: NumpyArray, random: np.random.Generator) -> NumpyArray:
    """The last place of every axis is large: a tail that is left out, or taken twice, shows."""
    array = array.copy()
    for axis in range(array.ndim):
        last = [slice(None)] * array.ndim
        last[axis] = slice(-1, None)
        array[tuple(last)] = array[tuple(last)] * array.dtype.type(8)
    return array


def _large(array: NumpyArray, random: np.random.Generator) -> NumpyArray:
    """Far apart, so that a sum in a short type loses the small ones."""
    exponents = random.integers(-4, 5, array.shape)
    return np.asarray((array.astype(np.float64) * np.exp2(exponents)).astype(array.dtype))


def _sparse(array: NumpyArray, random: np.random.Generator) -> NumpyArray:
    """Half of it zeros, and of the rest nothing below them: what leaks in shows."""
    mask = random.random(array.shape) < 0.5
    return np.where(mask, np.abs(array), array.dtype.type(0))


def _special(array: NumpyArray, random: np.random.Generator) -> NumpyArray:
    """An infinity and a NaN in the first row, which no other row may notice."""
    array = array.copy()
    if array.ndim and array.size > 2:
        flat = array.reshape(-1)
        flat[0], flat[1] = np.inf, np.nan
    return array


class _PreciseReference:
    """The reference in float64, for as long as that takes no more time than it may."""

    def __init__(
        self, executor: Executor, compiled: Compiled | None, seconds: float | None
    ) -> None:
        self._executor = executor
        self._compiled = compiled
        self._left = seconds

    @classmethod
    async def of(
        cls, executor: Executor, kernel: AnyTunable, call: KernelCall, seconds: float | None
    ) -> _PreciseReference:
        """Compiles it, where it has no casts of its own and no tolerance takes its place."""
        function, options = reference_of(kernel, call)
        exact = all(type_.dtype == "float64" for type_ in call.types)
        if exact or kernel.tolerance is not None or seconds == 0:
            return cls(executor, None, seconds)
        try:
            wide = candidate(function, call, options, name="precise", widened=True)
        except Exception:  # a function that is traced here raises what it likes
            return cls(executor, None, seconds)
        compiled = await executor.compile(wide)
        return cls(executor, None if isinstance(compiled, Failure) else compiled, seconds)

    async def outputs(self, inputs: list[NumpyArray]) -> tuple[NumpyArray, ...] | None:
        """What it gives; nothing where it has failed, or has taken all of its time."""
        if self._compiled is None:
            return None
        started = time.monotonic()
        running = self._executor.run(self._compiled, [_widened(array) for array in inputs])
        try:
            outputs = await asyncio.wait_for(running, self._left)
        except TimeoutError:
            outputs = None
        if self._left is not None:
            self._left = max(0.0, self._left - (time.monotonic() - started))
        if outputs is None or isinstance(outputs, Failure):
            self._compiled = None  # on other inputs it would take as long, or fail as well
            return None
        return outputs


def reference_of(kernel: AnyTunable, call: KernelCall) -> tuple[Pytree, Configuration]:
    """What winners are held to, and its options: the reference, or the default point."""
    if kernel.reference is not None:
        return kernel.reference, {}
    space = kernel.search_space(call)
    return kernel.original, kernel.keywords(space, space.default())


async def serves(
    executor: Executor, kernel: AnyTunable, call: KernelCall, decisions: Options, seed: int
) -> Rejection | None:
    """Whether a point that was found for another size computes the same at this one."""
    size = ", ".join(call.text)
    space = kernel.search_space(call)
    try:
        trace = space.replay(decisions)
    except (RequirementFailed, SpaceError) as error:
        return Rejection(TuningGate.REQUIRE, f"at {size}: {error}")
    function, options = reference_of(kernel, call)
    builds = []
    for text in (
        candidate(function, call, options, name="reference"),
        candidate(kernel.original, call, kernel.keywords(space, trace), name=trace.key),
    ):
        build = await executor.compile(text)
        if isinstance(build, Failure):
            return rejection_of(build)
        builds.append(build)
    gate = await NumbersGate.prepare(executor, kernel, call, builds[0], seed)
    rejection = gate if isinstance(gate, Rejection) else await gate.admit(builds[1])
    return (
        None if rejection is None else Rejection(rejection.gate, f"at {size}: {rejection.reason}")
    )


async def _bounds(
    executor: Executor,
    kernel: AnyTunable,
    call: KernelCall,
    reference: Compiled,
    precise: _PreciseReference,
    inputs: list[NumpyArray],
    outputs: tuple[NumpyArray, ...],
) -> tuple[_Bound, ...] | None:
    if kernel.tolerance is not None:
        return tuple(_agreed(output, kernel.tolerance) for output in outputs)
    halves = any(type_.dtype in HALF for type_ in call.types)
    truths = await precise.outputs(inputs)
    if truths is not None and _is_precise(truths, outputs):
        with np.errstate(invalid="ignore"):
            return tuple(
                _bound(output, truth, np.abs(output - truth), halves)
                for output, truth in zip(outputs, truths, strict=True)
            )
    moved = await executor.run(reference, [_nudged(array) for array in inputs])
    if isinstance(moved, Failure):
        return None
    with np.errstate(invalid="ignore"):
        return tuple(
            _bound(output, output, np.abs(output - nudged), halves)
            for output, nudged in zip(outputs, moved, strict=True)
        )


def _is_precise(truths: Sequence[NumpyArray], outputs: Sequence[NumpyArray]) -> bool:
    """Whether a reference in float64 has no casts of its own on the way to its outputs."""
    return len(truths) == len(outputs) and all(
        truth.dtype == np.float64 or not _is_floating(output)
        for truth, output in zip(truths, outputs, strict=False)
    )


def _agreed(output: NumpyArray, tolerance: Tolerance) -> _Bound:
    if not _is_floating(output):
        return _Bound(output, np.zeros(()), 0.0)
    truth = output.astype(np.float64)
    largest = tolerance.absolute + tolerance.relative * np.abs(truth)
    return _Bound(truth, largest, float("inf"))


def _bound(output: NumpyArray, truth: NumpyArray, errors: NumpyArray, halves: bool) -> _Bound:
    """What is allowed, of how far the reference itself is from the truth."""
    if not _is_floating(output):
        return _Bound(output, np.zeros(()), 0.0)
    truth = truth.astype(np.float64)
    finite = np.isfinite(truth) & np.isfinite(errors)
    finite_errors = errors[finite].astype(np.float64)
    slack = HALF_SLACK if halves else SLACK
    # Half types arrive widened to float32, and are rounded as what they were.
    epsilon = 2.0**-8 if halves else float(np.finfo(output.dtype).eps)
    ulps = epsilon * np.abs(np.where(np.isfinite(truth), truth, 0.0))
    worst = float(finite_errors.max(initial=0.0))
    mean = float(np.sqrt(np.mean(finite_errors**2))) if finite_errors.size else 0.0
    typical = float(np.sqrt(np.mean(ulps[finite] ** 2))) if finite_errors.size else 0.0
    return _Bound(truth, slack * worst + UNITS * ulps, slack * mean + UNITS * typical)


def _fault(output: NumpyArray, expected: NumpyArray, bound: _Bound) -> str:
    """What is wrong with an output, in words; nothing where it is right.

    Where the reference is not finite, or not a number, anything may stand.
    """
    if not _is_floating(expected):
        wrong = output != expected
        return f"{int(wrong.sum())} of {wrong.size} values differ" if wrong.any() else ""
    finite = np.isfinite(expected) & np.isfinite(bound.truth)
    broken = finite & ~np.isfinite(output)
    if broken.any():
        return f"{int(broken.sum())} values are not finite where the reference's are"
    with np.errstate(invalid="ignore"):
        errors = np.where(finite, np.abs(output.astype(np.float64) - bound.truth), 0.0)
    # At any place, then on average: a shorter type may stay below the largest error of the
    # reference everywhere, and is found by erring that much in most places.
    over = errors > np.where(finite, bound.largest, np.inf)
    if over.any():
        at = tuple(int(index) for index in np.unravel_index(int(errors.argmax()), errors.shape))
        return (
            f"{int(over.sum())} of {over.size} values are too far off, at {list(at)}"
            f" {float(output[at]):.6g} where the reference has {float(expected[at]):.6g}"
        )
    mean = float(np.sqrt(np.mean(errors[finite] ** 2))) if finite.any() else 0.0
    if mean > bound.average:
        return f"errors are {mean:.3g} on average where {bound.average:.3g} is allowed"
    return ""


async def _poison(executor: Executor, outputs: Sequence[NumpyArray]) -> Compiled | None:
    """A program that fills arrays of the outputs' sizes with NaN, and lets them go."""
    from ..measure import Candidate

    shapes = [(str(output.dtype), output.shape) for output in outputs]
    source = (
        "import jax.numpy as jnp\n"
        f"shapes = {shapes!r}\n"
        "def fill(dtype, shape):\n"
        "    floating = jnp.issubdtype(jnp.dtype(dtype), jnp.inexact)\n"
        "    return jnp.full(shape, jnp.nan if floating else 1, dtype)\n"
        "def poison():\n"
        "    return [fill(*each) for each in shapes for _ in range(2)]\n"
    )
    wide = any(dtype in ("float64", "int64", "uint64", "complex128") for dtype, _ in shapes)
    compiled = await executor.compile(Candidate("poison", source, "poison", (), x64=wide))
    return None if isinstance(compiled, Failure) else compiled


def _drawn(type_: Pytree, seed: int, position: int) -> NumpyArray:
    from ..measure import ArrayType

    return draw(ArrayType(type_.dtype, type_.shape), seed, position)


def _is_concrete(leaf: Pytree) -> bool:
    import jax

    return (
        is_array(leaf)
        and isinstance(leaf, np.ndarray | jax.Array)
        and not isinstance(leaf, jax.core.Tracer)
    )


def _is_floating(array: NumpyArray) -> bool:
    """Also of the half types, which NumPy itself does not know."""
    import ml_dtypes

    kind = array.dtype
    return bool(kind.kind == "f" or kind == np.dtype(ml_dtypes.bfloat16))


def _widened(array: NumpyArray) -> NumpyArray:
    return array.astype(np.float64) if _is_floating(array) else array


def _nudged(array: NumpyArray) -> NumpyArray:
    """Each number moved by a unit in the last place, away from zero or towards it at random."""
    if not _is_floating(array):
        return array
    import ml_dtypes

    limits: Pytree = ml_dtypes.finfo
    epsilon = float(limits(array.dtype).eps)
    signs = np.random.default_rng(11).choice((-1.0, 1.0), array.shape)
    with np.errstate(invalid="ignore"):
        moved = array.astype(np.float64) * (1 + signs * epsilon)
        return np.asarray(moved.astype(array.dtype))


def summary(rejections: Mapping[str, int]) -> str:
    """How many points each gate turned away, in few words."""
    return ", ".join(f"{gate} {count}" for gate, count in rejections.items() if count)
