"""A kernel by hand and the best of ours, in turns in one process, by two clocks."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import layers
from handmade import Workshop
from kernelrows import Row
from msgspec import Struct
from msgspec.structs import replace
from rounds import LEAST, MOST, Compared, judged, repeats
from truthful import Judge

from aiosearch.codegen.native.errors import NativeError
from aiosearch.measure.race import Clock
from aiosearch.optimizer.contenders import Contender, Question, contest
from aiosearch.optimizer.effort import BUDGETS, Budget, Effort
from aiosearch.pool import usable_cores
from aiosearch.tensor.files import to_json

BUDGET = replace(BUDGETS[Effort.DEFAULT], kernels=16)
COPIES = 2
"""Of a hand kernel's weights, before and after ours, for it matters where in memory they lie."""
HEAT = 7
"""Samples of each, to find the best."""
REST = 0.001
"""Seconds until all threads sleep."""
SEED = 0


class Kernel(NamedTuple):
    """One that runs: each call gives the results when they are there."""

    how: str
    call: Callable[[], Any]


class Taken(NamedTuple):
    """Seconds of a call."""

    wall: float
    cpu: float


class Paired(Struct, frozen=True):
    """A row: the hand kernel first, and the best of ours that is right."""

    row: Row
    how: str
    """Which of ours it is."""
    entered: int
    out: tuple[str, ...]
    """Who computes something else, or does not run."""
    clocks: dict[Clock, Compared]


def paired(row: Row, shop: Workshop, seconds: float, budget: Budget = BUDGET) -> Paired:
    """Compiles, checks, and times; raises ValueError where one side has nothing that is right."""
    judge = judge_of(row)
    arrays = [jnp.asarray(one) for one in judge.arrays]
    out: list[str] = []
    hands = [_hand(row, shop, arrays) for _ in range(COPIES)]
    own = [one for one in ours(row, arrays, budget, out) if _is_right(one, judge, out)]
    hands += [_hand(row, shop, arrays) for _ in range(COPIES)]
    if not own or not _is_right(hands[0], judge, out):
        raise ValueError(f"{row.name}: {'; '.join(out)}")
    best, (hand, again, *_) = fastest(own)[0], fastest(hands)
    clocks = in_turns((hand, best, again), seconds)
    return Paired(row, best.how, len(own), tuple(out), clocks)


def _hand(row: Row, shop: Workshop, arrays: Sequence[Any]) -> Kernel:
    return Kernel("by hand", shop.kernel(row, arrays))


def judge_of(row: Row) -> Judge:
    """Knows what the program gives on the inputs on which it is timed."""
    arrays = Judge.drawn(row.program, {}, SEED)
    return Judge(row.program, arrays, [jax.jit(layers.written(row.program))(*arrays)])


def _is_right(one: Kernel, judge: Judge, out: list[str]) -> bool:
    wrong = judge.objection([one.call()])
    if wrong:
        out.append(f"{one.how}: {wrong}")
    return not wrong


def ours(row: Row, arrays: Sequence[Any], budget: Budget, out: list[str]) -> Iterator[Kernel]:
    """What `optimize` would try, of the program as written and rewritten, as users call it."""
    text, threads = to_json(row.program), usable_cores()
    question = Question(text, budget, SEED, False, row.constant, threads)
    for one in contest(question, lambda text: None).contenders:
        if one.kernels:
            try:
                yield Kernel(one.how, _called(one, arrays))
            except NativeError as error:
                out.append(f"{one.how}: {error}")


def _called(one: Contender, arrays: Sequence[Any]) -> Callable[[], Any]:
    module: dict[str, Any] = {}
    exec(one.source, module)
    packed = one.beforehand.positions if one.beforehand else ()
    given = [each for at, each in enumerate(arrays) if at not in packed]
    if one.beforehand:
        given += module[one.beforehand.function](*(arrays[at] for at in packed))
    function = jax.jit(module[one.function]).lower(*given).compile()
    return lambda: jax.block_until_ready(function(*given))  # type: ignore[no-untyped-call]


def fastest(kernels: Sequence[Kernel]) -> list[Kernel]:
    """By the least of a heat in which all run by turns: what disturbs only makes times longer."""
    found: dict[int, list[float]] = {at: [] for at in range(len(kernels))}
    counts = [repeats(one.call) for one in kernels]
    for _ in range(HEAT):
        for at, taken in found.items():
            taken.append(sampled(kernels[at], counts[at]).wall)
    return [kernels[at] for at in sorted(found, key=lambda at: min(found[at]))]


def in_turns(three: Sequence[Kernel], seconds: float) -> dict[Clock, Compared]:
    """One, another, and the one again, each round in an order that is drawn.

    The two that are alike have weights of their own: where those lie in memory is noise, too.
    """
    counts, order, rng = [repeats(one.call) for one in three], [0, 1, 2], random.Random(SEED)
    rounds: list[tuple[Taken, ...]] = []
    end = time.perf_counter() + seconds
    while len(rounds) < LEAST or (len(rounds) < MOST and time.perf_counter() < end):
        rng.shuffle(order)
        taken = {turn: sampled(three[turn], counts[turn]) for turn in order}
        rounds.append((taken[0], taken[1], taken[2]))
    return {
        Clock.WALL: judged([(a.wall, b.wall, c.wall) for a, b, c in rounds]),
        Clock.CPU: judged([(a.cpu, b.cpu, c.cpu) for a, b, c in rounds]),
    }


def sampled(one: Kernel, count: int) -> Taken:
    """Of a call, over so many; one goes first whose wall time does not count, for what ran before.

    What a thread has used is only known when it sleeps, or by the tick of the system.
    """
    time.sleep(REST)
    cpu = time.process_time()
    one.call()
    wall = time.perf_counter()
    for _ in range(count):
        one.call()
    wall = time.perf_counter() - wall
    time.sleep(REST)
    return Taken(wall / count, (time.process_time() - cpu) / (count + 1))
