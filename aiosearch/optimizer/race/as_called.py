"""The last race: the returned object itself, called in this process as its user will call it.

Problem: an executor times what the device does. Of a call that takes some tens of microseconds a
part is the way through Python, which differs between `jax.jit` and `Optimized`, and a kernel that
is 3 µs faster loses to a dispatch that is 5 µs slower.

Example: `AsCalledTimes(original=40e-6, fast=42e-6, ratio=0.95 [0.93, 0.97], …)` hands back the
original.

Both are called in turns, so that a machine that slows down slows both; `paired_ratio` compares
sample by sample. Cost: `ROUNDS` samples of `SAMPLE_SECONDS` each, for both, some 0.2 s, and as much
again where a queue is timed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median

import jax

from ...capture.jax_types import Function, Leaf, PyTree
from ...measure import Ratio
from ...measure.ratios import paired_ratio
from ...measure.worker.timing import settle, wait_for
from ..handback.dispatch import compiled_original
from ..handback.optimized import Optimized
from ..jax_settings import use_settings

ROUNDS = 31
"""Pairs of samples; an odd number has a median."""
SAMPLE_SECONDS = 0.003
"""Seconds for which short calls are repeated to make one sample, after some that do not count.

A function that is called again and again finds the memory that it gave back, and the caches as it
left them; the first few calls after another function's do not.
"""
BRIEF = 0.00005
"""Seconds of a call above which a queue shows how many run at a time, and not what the way through
Python costs."""
LONGEST = 0.002
"""Seconds of a call above which what the way through Python costs cannot be seen."""


@dataclass(frozen=True)
class AsCalledTimes:
    """What a call took, in medians of seconds, and how many times as fast the drop-in was."""

    original: float
    fast: float
    ratio: Ratio
    """How many times as fast, by pairs of samples in which each call waits for its result."""
    queued: Ratio
    """Like `ratio`, where nobody waits for a result before the next call, if calls are brief."""
    on_gpu: bool = False
    """Whether a call only hands its work to another device."""

    @property
    def faster(self) -> bool:
        """Not slower in a queue either, where the way through Python may be all that counts.

        On a GPU most of a call that is waited for is the way there and back, in which a gain that
        the device sees may drown: only what is slower here has lost.
        """
        if self.on_gpu:
            return self.ratio.high > 1 and self.queued.high > 1
        return self.ratio.low > 1 and self.queued.high > 1

    @property
    def in_doubt(self) -> bool:
        """Whether it may be faster or not: the interval of `ratio` has 1 inside."""
        return not self.faster and self.ratio.high > 1 and self.queued.high > 1


@dataclass(frozen=True)
class AsCalledRace:
    """A function, and one call of it."""

    function: Function
    args: Sequence[PyTree]
    kwargs: Mapping[str, PyTree]
    leaves: Sequence[Leaf]
    """All arrays and numbers among the arguments."""

    @property
    def possible(self) -> bool:
        """Whether there are arrays, and not only `jax.ShapeDtypeStruct`s that stand for them."""
        return not any(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in self.leaves)

    def race(self, fast: Optimized[..., PyTree]) -> AsCalledTimes:
        """Calls the function, compiled by `jax.jit`, and `fast` in turns. Blocks."""
        cut = fast.spliced.cut
        with use_settings(cut.settings):
            # What a user has without us: the drop-in keeps static arguments out of the trace too.
            return self._raced(compiled_original(cut), fast)

    def _raced(self, usual: Function, fast: Function) -> AsCalledTimes:
        """The times of both, each first in every second round."""
        for function in (usual, fast):
            self._sample(function, 2)  # compiles it
        count = max(1, round(SAMPLE_SECONDS / max(self._sample(usual, 3), 1e-7)))
        ours, theirs = self._in_turns(usual, fast, partial(self._sample, count=count))
        ratio = queued = paired_ratio(ours, theirs)
        on_gpu = self._on_gpu(usual)
        # On a CPU a queue of long calls only adds up; on a GPU the queue is how a program runs.
        if on_gpu or median(ours) < BRIEF:
            queued = paired_ratio(*self._in_turns(usual, fast, partial(self._queued, count=count)))
        return AsCalledTimes(median(ours), median(theirs), ratio, queued, on_gpu)

    def _on_gpu(self, usual: Callable[..., object]) -> bool:
        """Whether the result of a call is on a GPU."""
        arrays = [one for one in jax.tree.leaves(self._call(usual)) if isinstance(one, jax.Array)]
        return any(place.platform == "gpu" for array in arrays for place in array.devices())

    def _in_turns(
        self, usual: Function, fast: Function, sample: Callable[..., float]
    ) -> tuple[list[float], list[float]]:
        """What both take, each first in every second round."""
        ours, theirs = [], []
        for turn in range(ROUNDS):
            # Whoever comes second finds caches and clock as the first one left them; by turns that
            # cancels.
            first, second = (fast, usual) if turn % 2 else (usual, fast)
            seconds = {first: sample(first)}
            seconds[second] = sample(second)
            ours.append(seconds[usual])
            theirs.append(seconds[fast])
        return ours, theirs

    def _sample(self, function: Function, count: int) -> float:
        """Seconds of a call by `count` calls, each of which is waited for."""
        settle(lambda: wait_for(self._call(function)))
        started = time.perf_counter()
        for _ in range(count):
            wait_for(self._call(function))
        return (time.perf_counter() - started) / count

    def _queued(self, function: Function, count: int) -> float:
        """Seconds of a call by `count` calls, of which only the last one is waited for."""
        settle(lambda: wait_for(self._call(function)))
        started = time.perf_counter()
        for _ in range(count):
            result = self._call(function)
        wait_for(result)
        return (time.perf_counter() - started) / count

    def _call(self, function: Function) -> PyTree:
        return function(*self.args, **self.kwargs)
