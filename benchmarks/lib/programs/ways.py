"""Two functions timed in turns as programs call them: waited for, in flight, between other work.

A race that waits for each call says nothing of a program that has several in flight, or that calls
other computations in between, which leave caches, threads and the allocator as they please. Each
way is timed by rounds of three samples in a drawn order, the base's twice: the base against itself
is the noise.
"""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from lib.optimizer.paired_timing import LEAST, Compared, judged

from aiosearch.measure.worker.timing import cpu_ns, settle, wait_for

Call: TypeAlias = Callable[[], Any]
"""Starts the work, and returns what can be waited for."""

MOST = 121
"""Rounds, of which more teach nothing."""
SAMPLE_SECONDS = 0.003
"""Short calls are repeated until a sample takes so long."""
IN_FLIGHT = 16
"""Calls that are begun before the last of them is waited for."""
OTHER_WIDTH = 384
"""The other computation is a product of square matrices of this width, and its tanh."""
HEAD, TAIL = 0.1, 0.9
"""Shares of calls that are faster than what is told beside the median: the head of the times is
what a call takes where no neighbour interrupts it, the tail is what a user waits now and then."""


class Calling(StrEnum):
    """How a program calls."""

    WAITED_FOR = "waited for"
    IN_FLIGHT = "in flight"
    ALTERNATED = "alternated"


@dataclass(frozen=True)
class Sample:
    """Some calls of one function."""

    calls: list[float]
    """Wall seconds of each; where several are in flight, of a call in the mean."""
    cpu: float
    """Seconds of all threads of this process for a call."""

    @property
    def typical(self) -> float:
        """Seconds of a call by the median, which an interruption of some calls does not move."""
        return statistics.median(self.calls)


@dataclass(frozen=True)
class WayTimes:
    """The base and another function in one way of calling."""

    wall: Compared
    cpu_ratio: float
    """How many times as much CPU the base takes, by medians of rounds."""
    heads: tuple[float, float, float]
    """Seconds that one call of ten stays below: of the base, the other, and the base again."""
    tails: tuple[float, float]
    """Seconds that nine calls of ten stay below, of the base and of the other."""

    def facts(self) -> dict[str, float]:
        """What a figure says of this way."""
        ratio, (base, other) = self.wall.ratio, self.tails
        first, head, again = self.heads
        return {
            "over_jit": round(ratio.median, 4),
            "low": round(ratio.low, 4),
            "high": round(ratio.high, 4),
            "noise": round(self.wall.noise, 4),
            "p90_over_jit": round(base / other, 4),
            "p10_over_jit": round(math.sqrt(first * again) / head, 4),
            "p10_noise": round(max(first / again, again / first) - 1, 4),
            "cpu_over_jit": round(self.cpu_ratio, 4),
            "jit_us": round(self.wall.base * 1e6, 2),
            "us": round(self.wall.other * 1e6, 2),
            "jit_p90_us": round(base * 1e6, 2),
            "p90_us": round(other * 1e6, 2),
            "rounds": self.wall.rounds,
        }


def timed_ways(base: Call, other: Call, seconds: float, seed: int = 0) -> dict[str, WayTimes]:
    """Times both in every way of `Calling`, each for about so many seconds."""
    return {way.value: timed(way, base, other, seconds, seed) for way in Calling}


def timed(way: Calling, base: Call, other: Call, seconds: float, seed: int = 0) -> WayTimes:
    """Times both in one way."""
    samplers = {Calling.WAITED_FOR: waited_for, Calling.IN_FLIGHT: in_flight}
    sampler = samplers.get(way) or alternated()
    calls = [(base, repeats(base)), (other, repeats(other))]
    order, rng = [0, 1, 2], random.Random(seed)
    rounds: list[tuple[Sample, Sample, Sample]] = []
    end = time.perf_counter() + seconds
    while len(rounds) < LEAST or (len(rounds) < MOST and time.perf_counter() < end):
        rng.shuffle(order)
        taken = {turn: sampler(*calls[turn % 2]) for turn in order}
        rounds.append((taken[0], taken[1], taken[2]))
    return summary(rounds)


def summary(rounds: list[tuple[Sample, Sample, Sample]]) -> WayTimes:
    """The statistics of rounds, each of the base, the other, and the base again."""
    wall = judged([(first.typical, other.typical, again.typical) for first, other, again in rounds])
    cpu = [(first.cpu + again.cpu) / 2 / max(other.cpu, 1e-9) for first, other, again in rounds]
    columns = [
        [taken for samples in rounds for taken in samples[place].calls] for place in range(3)
    ]
    first, others, again = columns
    return WayTimes(
        wall,
        statistics.median(cpu),
        (quantile(first, HEAD), quantile(others, HEAD), quantile(again, HEAD)),
        (quantile([*first, *again], TAIL), quantile(others, TAIL)),
    )


def quantile(taken: list[float], share: float) -> float:
    """What this share of times stays below."""
    ordered = sorted(taken)
    return ordered[max(0, min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1))]


def repeats(call: Call) -> int:
    """How many calls make a sample, of one that is compiled and warm after this."""
    wait_for(call())
    return max(1, math.ceil(SAMPLE_SECONDS / min(seconds_of(call) for _ in range(3))))


def seconds_of(call: Call) -> float:
    started = time.perf_counter()
    wait_for(call())
    return time.perf_counter() - started


def waited_for(call: Call, count: int) -> Sample:
    """Each call is waited for before the next one."""
    settle(lambda: wait_for(call()))
    cpu = cpu_ns()
    calls = [seconds_of(call) for _ in range(count)]
    return Sample(calls, (cpu_ns() - cpu) / 1e9 / count)


def in_flight(call: Call, count: int) -> Sample:
    """Some calls are begun, and waited for together."""
    settle(lambda: wait_for(call()))
    flights = math.ceil(count / IN_FLIGHT)
    depth = IN_FLIGHT if count > 1 else IN_FLIGHT // 4
    calls, cpu = [], cpu_ns()
    for _ in range(flights):
        started = time.perf_counter()
        wait_for([call() for _ in range(depth)])
        calls.append((time.perf_counter() - started) / depth)
    return Sample(calls, (cpu_ns() - cpu) / 1e9 / (flights * depth))


def alternated() -> Callable[[Call, int], Sample]:
    """Before each call another computation runs, and is waited for; only the call is timed."""
    other = jax.jit(lambda a: jnp.tanh(a @ a))
    matrix = jnp.full((OTHER_WIDTH, OTHER_WIDTH), 1 / OTHER_WIDTH, jnp.float32)

    def sampler(call: Call, count: int) -> Sample:
        wait_for(call())
        calls, cpu = [], 0
        count = min(count, IN_FLIGHT)
        for _ in range(count):
            wait_for(other(matrix))
            before = cpu_ns()
            calls.append(seconds_of(call))
            cpu += cpu_ns() - before
        return Sample(calls, cpu / 1e9 / count)

    return sampler
