"""What the first, the second, and later calls of a program take after another one has run.

A gated layer of one row in bf16, whose weights are larger than most caches: the fastest of the
kernels that are predicted best, and the best plain JAX, by turns, several calls of each in a row.
Whatever times hot calls makes `before` others first, or fewer once these have taken `before_us`.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import lib.kernels.jax_spellings as knownjax
from lib.figures import figure, versions
from lib.kernels.c_kernel_race import SEED, Own, judge_of
from lib.kernels.entrants import KNOWN, Known
from lib.kernels.rows import Row, row
from msgspec.structs import replace

from aiosearch.measure.worker.timing import SETTLING_CALLS, SETTLING_NS
from aiosearch.optimizer.effort import BUDGETS, Effort

CALLS = 16
TOLD = (1, 2, 3, 4, 6, 8, 12, 16)


class Entrant(NamedTuple):
    what: str
    how: str
    call: Callable[[], Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=100)
    given = parser.parse_args()
    chosen = row("gated_mlp", "bf16", 1)
    arrays = [jnp.asarray(one) for one in judge_of(chosen).arrays]
    ours, plain = _kernel(chosen, arrays), _plain(arrays)
    taken = _by_turns([ours, plain], given.rounds)
    for one, each in zip((ours, plain), taken, strict=True):
        _tell(one, each)
    for number in TOLD:
        ratio = taken[1][number - 1] / taken[0][number - 1]
        compared = versions("jax", "jaxlib")
        figure(f"settling: over plain JAX, call {number}", ratio, "times", compared=compared)


def _kernel(chosen: Row, arrays: Sequence[Any]) -> Entrant:
    """The fastest of those that are predicted best and right."""
    budget = replace(BUDGETS[Effort.DEFAULT], kernels=1, trials=0)
    own = Own(chosen, arrays, judge_of(chosen), budget)
    (found, *_) = own.best() or [None]
    if found is None:
        raise SystemExit(f"no kernel is right: {'; '.join(own.out)}")
    return Entrant("a kernel", found.how, found.call)


def _plain(arrays: Sequence[Any]) -> Entrant:
    found = [_spelled(one, *arrays) for one in KNOWN["gated_mlp"]]
    return min(found, key=lambda one: min(_timed(one) for _ in range(CALLS)))


def _spelled(known: Known, x: Any, *weights: Any) -> Entrant:
    packed = getattr(knownjax, known.pack)(*weights) if known.pack else weights
    called = jax.jit(getattr(knownjax, known.function)).lower(x, *packed).compile()
    return Entrant("plain JAX", known.function, lambda: called(x, *packed).block_until_ready())


def _by_turns(entrants: Sequence[Entrant], rounds: int) -> list[list[float]]:
    """Seconds of each one's first call, its second, and so on, by medians."""
    found = [[[_timed(one) for _ in range(CALLS)] for one in entrants] for _ in range(rounds)]
    return [
        [statistics.median(times) for times in zip(*turns, strict=True)]
        for turns in zip(*found, strict=True)
    ]


def _timed(one: Entrant) -> float:
    begin = time.perf_counter()
    one.call()
    return time.perf_counter() - begin


def _tell(one: Entrant, seconds: Sequence[float]) -> None:
    for number in TOLD:
        more = {"compared": versions("jax", "jaxlib"), "how": one.how, "seed": SEED}
        rule = {"before": SETTLING_CALLS, "before_us": SETTLING_NS / 1e3}
        name = f"settling: call {number} of {one.what}"
        figure(name, seconds[number - 1] * 1e6, "us", **rule, **more)


if __name__ == "__main__":
    main()
