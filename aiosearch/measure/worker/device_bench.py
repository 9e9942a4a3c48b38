"""Runs and times candidates on the device that this process owns."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..candidates import Array
from ..protocol import (
    Done,
    Forget,
    Keep,
    LoadRequest,
    Outputs,
    Prepare,
    PrepareReply,
    ProcessSettings,
    Reply,
    Request,
    RunRequest,
    TimingReply,
    Turns,
)
from ..race import Sample, Way, deciding_way
from ..shared_arrays import NOBODY, SharedArrays
from .executables import loaded, timing_loop
from .inputs import CopyTurn, InputStock
from .request_loop import alarm
from .timing import LONG_RUNS, SHORT_SECONDS, WARM_UP_RUNS, Runner, other_work, sample

_HALF = ("float16", "bfloat16")


class DeviceBench:
    """Holds what was loaded, and the runners of the race that goes on."""

    def __init__(self, settings: ProcessSettings) -> None:
        self._settings = settings
        self._letterbox = SharedArrays(settings.letterbox)
        self._stock = InputStock(settings.platform)
        self._loads: dict[int, LoadRequest] = {}
        self._calls: dict[int, tuple[Any, Any]] = {}
        self._runners: list[Runner] = []
        self._ready: dict[tuple[int, int], Runner] = {}
        """Those of the last race, by their candidates' numbers and the seed: who takes part in the
        next one as well is ready for it."""
        self._ways: tuple[Way, ...] = ()
        gc.disable()  # nothing here makes cycles by the thousand, and a sample is no time for it
        # What jax has made by now stays for ever; to look through it, whenever a candidate is
        # forgotten, would take 50 ms each time.
        gc.collect()
        gc.freeze()

    def handle(self, request: Request) -> Reply:
        """Does what a `Request` asks; raises what the candidate raises."""
        match request:
            case Keep():
                self._letterbox.announce(0)
                self._stock.keep(request.number, self._letterbox.take(request.parcel))
            case LoadRequest():
                self._load(request)
            case Forget():
                self._forget(request)
            case RunRequest():
                return self._run(request)
            case Prepare():
                return self._prepare(request)
            case Turns():
                return self._time(request)
        return Done()

    def _load(self, load: LoadRequest) -> None:
        self._letterbox.announce(0)
        with alarm(self._settings.compile_seconds):
            call = loaded(load.text, load.executable)
            timed = Way.LOOPED in self._settings.ways
            loop = timing_loop(load.text.inputs)
            looped = loaded(load.text, load.looped, loop) if timed else None
        self._loads[load.number] = load
        self._calls[load.number] = call, looped

    def _forget(self, request: Forget) -> None:
        self._runners = []
        for number in request.candidates:
            del self._loads[number], self._calls[number]
        self._ready = {key: runner for key, runner in self._ready.items() if key[0] in self._loads}
        self._stock.forget(request.constants)
        gc.collect()

    def _run(self, request: RunRequest) -> Outputs:
        load = self._loads[request.number]
        with self._at_work(0, load.text.x64):
            inputs = self._inputs(load, request)
            results = jax.tree.leaves(self._calls[request.number][0](*inputs))
            outputs = [_widened(np.asarray(result)) for result in results]
        return Outputs(self._letterbox.put(outputs))

    def _inputs(self, load: LoadRequest, request: RunRequest) -> list[Array]:
        if request.parcels is None:
            return self._stock.inputs(load, request.seed).first
        arrays = [self._letterbox.take(parcel) for parcel in request.parcels]
        types = [type_.dtype for type_ in load.text.inputs]
        # Nobody else has them, so that jax need not copy what is of the type already.
        return [jnp.asarray(array, dtype) for array, dtype in zip(arrays, types, strict=True)]

    def _prepare(self, request: Prepare) -> PrepareReply:
        self._runners = []
        keys = {(number, request.seed) for number in request.numbers}
        # The others go now: their arrays would lie beside those that are drawn.
        before = {key: runner for key, runner in self._ready.items() if key in keys}
        self._ready = {}
        self._stock.retain([self._loads[number] for number in request.numbers], request.seed)
        for place, number in enumerate(request.numbers):
            key = number, request.seed
            if key not in self._ready:
                # The incumbent's twin is the same runner, with turns of its own.
                self._ready[key] = before.get(key) or self._warmed_up(
                    place, self._loads[number], request.seed
                )
            self._runners.append(self._ready[key])
        possible = all(self._stock.can_be_cold(runner.inputs) for runner in self._runners)
        ways = tuple(way for way in self._settings.ways if possible or way is not Way.COLD)
        self._ways = (deciding_way(ways),) if request.deciding else ways
        if Way.COLD in self._ways:
            self._make_cold()
        return PrepareReply(self._ways)

    def _warmed_up(self, runner: int, load: LoadRequest, seed: int) -> Runner:
        self._letterbox.announce(runner)
        with jax.enable_x64(load.text.x64):
            inputs = self._stock.inputs(load, seed)
        timed = Runner(
            *self._calls[load.number], inputs, load.text.x64, timing_loop(load.text.inputs)
        )
        with self._at_work(runner, timed.x64):
            timed.begin()
        with self._at_work(runner, timed.x64, WARM_UP_RUNS):
            timed.warm_up()
        if Way.ALTERNATED in self._settings.ways:
            self._letterbox.announce(NOBODY)
            with jax.enable_x64(timed.x64):
                other_work()()  # compiled before it has to be done within a runner's time
        return timed

    def _make_cold(self) -> None:
        """Makes copies of what the runners are called on, as many as their rounds take."""
        turns = [CopyTurn(runner.inputs, runner.calls) for runner in self._runners]
        for index, runner in enumerate(self._runners):
            self._letterbox.announce(index)
            with jax.enable_x64(runner.x64):
                for ring in runner.inputs.rings:
                    self._stock.multiply(ring, turns)
        self._letterbox.announce(NOBODY)

    def _time(self, request: Turns) -> TimingReply:
        return TimingReply(tuple(tuple(self._samples(way, request.order)) for way in self._ways))

    def _samples(self, way: Way, order: tuple[int, ...]) -> Iterator[Sample]:
        for index in order:
            runner = self._runners[index]
            with self._at_work(index, runner.x64, LONG_RUNS[way]):
                timed = sample(runner, way)
            yield timed

    @contextmanager
    def _at_work(self, runner: int, x64: bool, runs: int = 1) -> Iterator[None]:
        """Announces who runs, and has `alarm` see to it that it ends."""
        self._letterbox.announce(runner)
        with alarm(self._settings.run_seconds * runs + SHORT_SECONDS), jax.enable_x64(x64):
            yield
        self._letterbox.announce(NOBODY)


def _widened(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array.astype(np.float32) if array.dtype.name in _HALF else array
