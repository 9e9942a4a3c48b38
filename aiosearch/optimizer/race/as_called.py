"""The last race: the returned object itself, called in this process as its user will call it.

A device's process times what the device does. Of a call that takes some tens of microseconds a part
is the way through Python, which differs between `jax.jit` and a drop-in.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from statistics import median
from typing import Any

import jax

from ...measure import Ratio
from ...measure.ratios import paired_ratio
from ...measure.worker.timing import settle, wait_for
from ..handback.optimized import Optimized
from ..jax_settings import use_settings

ROUNDS = 31
SAMPLE_SECONDS = 0.003
"""Short calls are repeated until a sample takes so long, after some that do not count.

A function that is called again and again finds the memory that it gave back, and the caches as it
left them; the first few calls after another one's do not.
"""
BRIEF = 0.00005
"""Of calls that take longer, a queue shows how many run at a time, not what the way costs."""
LONGEST = 0.002
"""Of calls that take longer, what the way costs cannot be seen."""


@dataclass(frozen=True)
class AsCalledTimes:
    """What a call took, in medians of seconds, and how many times as fast the other one was."""

    original: float
    fast: float
    ratio: Ratio
    queued: Ratio
    """The same where nobody waits for a result before the next call, if calls are brief."""

    @property
    def faster(self) -> bool:
        """Not slower in a queue either, where the way through Python may be all that counts."""
        return self.ratio.low > 1 and self.queued.high > 1

    @property
    def in_doubt(self) -> bool:
        """Whether it may be faster or not."""
        return not self.faster and self.ratio.high > 1 and self.queued.high > 1


@dataclass(frozen=True)
class AsCalledRace:
    """A function, and one call of it."""

    function: Callable[..., Any]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    leaves: Sequence[Any]
    """All arrays and numbers among the arguments."""

    @property
    def possible(self) -> bool:
        """Whether there are arrays, and not only what stands for them."""
        return not any(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in self.leaves)

    def race(self, fast: Optimized[..., Any]) -> AsCalledTimes:
        """Calls the function, compiled, and the other in turns. Blocks."""
        cut = fast.spliced.cut
        static = cut.call.static
        places = [at for at in static if isinstance(at, int)]
        names = [name for name in static if isinstance(name, str)]
        with use_settings(cut.settings):
            function = _hashable(self.function)
            usual = jax.jit(function, static_argnums=places, static_argnames=names)
            return self._raced(usual, fast)

    def _raced(self, usual: Callable[..., Any], fast: Callable[..., Any]) -> AsCalledTimes:
        for function in (usual, fast):
            self._sample(function, 2)  # compiles it
        count = max(1, round(SAMPLE_SECONDS / max(self._sample(usual, 3), 1e-7)))
        ours, theirs = self._in_turns(usual, fast, partial(self._sample, count=count))
        ratio = queued = paired_ratio(ours, theirs)
        if median(ours) < BRIEF:
            queued = paired_ratio(*self._in_turns(usual, fast, partial(self._queued, count=count)))
        return AsCalledTimes(median(ours), median(theirs), ratio, queued)

    def _in_turns(
        self, usual: Callable[..., Any], fast: Callable[..., Any], sample: Callable[..., float]
    ) -> tuple[list[float], list[float]]:
        """What both take, each first in every second round."""
        ours, theirs = [], []
        for turn in range(ROUNDS):
            first, second = (fast, usual) if turn % 2 else (usual, fast)
            found = {first: sample(first)}
            found[second] = sample(second)
            ours.append(found[usual])
            theirs.append(found[fast])
        return ours, theirs

    def _sample(self, function: Callable[..., Any], count: int) -> float:
        settle(lambda: wait_for(self._call(function)))
        started = time.perf_counter()
        for _ in range(count):
            wait_for(self._call(function))
        return (time.perf_counter() - started) / count

    def _queued(self, function: Callable[..., Any], count: int) -> float:
        settle(lambda: wait_for(self._call(function)))
        started = time.perf_counter()
        for _ in range(count):
            found = self._call(function)
        wait_for(found)
        return (time.perf_counter() - started) / count

    def _call(self, function: Callable[..., Any]) -> Any:
        return function(*self.args, **self.kwargs)


def _hashable(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same as a function, if it has no hash, as jax asks for: an object need not have one."""
    try:
        hash(function)
    except TypeError:
        pass
    else:
        return function

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return called
