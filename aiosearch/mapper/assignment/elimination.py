"""The least sum of costs of single choices and of pairs of them, exactly: variable elimination.

Problem: each variable takes one of a few values; values cost something, and so do pairs of values
of two variables that have an edge.

Method: a variable goes by being minimised over: what it and its edges cost becomes a table over its
neighbours. Whose table is smallest goes first. Going back, each variable takes what was best for
the values of its neighbours.

Example: of a chain a - b - c, a goes into a table over b, then b into a table over c.

Cost: the product of the sizes of a variable and of its neighbours when it goes. Chains and trees
are cheap; `MAX_TABLE` ends what is too tangled.

`eliminate_within` is the same within a limit on a sum of sizes, by branch and bound.
"""

from __future__ import annotations

import heapq
import itertools
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import PlanError

Costs: TypeAlias = NDArray[np.float64]

MAX_TABLE = 30_000_000
"""Entries of the largest table of an elimination."""
TIE = 1e-21
"""What a unit of size costs where nothing else tells choices apart."""
PRICES = 8
"""How many prices of a unit of size are tried for each part of the search within a limit."""
GAP = 0.005
"""How far above the bound, relative to it, choices within a limit may stay."""


def eliminate(
    unary: Sequence[Costs], edges: Mapping[tuple[int, int], Costs]
) -> tuple[list[int], float]:
    """Choices of the least sum of unary and pairwise costs, exactly: variable elimination.

    The variable whose table stays smallest goes first; going back, each takes what was best for
    the choices of its neighbours. Raises PlanError where a table would have too many entries.

    Example: of a chain a - b - c, a goes into a table over b, then b into one over c.
    """
    sizes = [len(costs) for costs in unary]
    tables: list[tuple[tuple[int, ...], Costs]] = [
        ((n,), np.asarray(c)) for n, c in enumerate(unary)
    ]
    tables += list(edges.items())
    neighbours: dict[int, set[int]] = {n: set() for n in range(len(unary))}
    for a, b in edges:
        neighbours[a].add(b)
        neighbours[b].add(a)
    waiting = set(neighbours)
    decided: list[tuple[int, tuple[int, ...], NDArray[np.intp]]] = []
    total = 0.0
    while waiting:
        best = min(waiting, key=lambda n: (math.prod(sizes[m] for m in neighbours[n]), n))
        scope = tuple(sorted(neighbours[best]))
        entries = math.prod(sizes[m] for m in scope) * sizes[best]
        if entries > MAX_TABLE:
            raise PlanError(
                f"the function is too tangled to shard exactly: a table of {entries:,} entries; "
                "use a mesh of one axis, or shard parts of it"
            )
        axes = (*scope, best)
        joined = np.zeros([sizes[m] for m in axes])
        left = []
        for variables, table in tables:
            if best not in variables:
                left.append((variables, table))
                continue
            order = np.argsort([axes.index(m) for m in variables])
            aligned = np.transpose(table, order)
            shape = [sizes[m] if m in variables else 1 for m in axes]
            joined = joined + aligned.reshape(shape)
        decided.append((best, scope, joined.argmin(axis=-1)))
        least = joined.min(axis=-1)
        if scope:
            left.append((scope, least))
        else:
            total += float(least)
        tables = left
        waiting.remove(best)
        for m in scope:
            neighbours[m] |= set(scope) - {m}
            neighbours[m].discard(best)
    chosen = [0] * len(unary)
    for variable, scope, choice in reversed(decided):
        chosen[variable] = int(choice[tuple(chosen[m] for m in scope)])
    return chosen, total


@dataclass(frozen=True)
class _Limited:
    """A part of the search within a limit: what each limited variable may take at most and at
    least."""

    bound: float
    ranges: tuple[tuple[float, float], ...]
    """By limited variable: the sizes that its choice may have."""
    price: float
    split: tuple[int, float] | None
    """The variable that is to be decided next, and the size that parts its choices."""


def eliminate_within(
    unary: Sequence[Costs],
    edges: Mapping[tuple[int, int], Costs],
    sizes: Mapping[int, Costs],
    limit: float | None,
    seconds: float,
    below: float = math.inf,
) -> tuple[list[int], float, float]:
    """The choices, their sum, and a bound below which no choices go whose sizes fit the limit.

    `sizes` has what each choice of some variables takes of the limit; the least sizes must fit. A
    price on each unit of size makes the limited problem an unlimited one; whatever the price, its
    optimum less the price of the limit is such a bound. Where the best choices that fit are above
    it, those of a variable are parted by their sizes, and both parts are bounded anew: branch and
    bound, the lowest bound first, until the gap is closed or the seconds are over. What cannot be
    below `below` is not looked for. The sum is infinite where choices exclude each other.
    """
    limited = list(sizes)
    every = [sizes.get(at, np.zeros(len(costs))) for at, costs in enumerate(unary)]

    def solve(
        price: float, ranges: Sequence[tuple[float, float]] | None = None
    ) -> tuple[list[int], float, float]:
        priced = [costs + price * size for costs, size in zip(unary, every, strict=True)]
        for at, (low, high) in zip(limited, ranges or (), strict=ranges is not None):
            outside = (every[at] < low) | (every[at] > high)
            priced[at] = np.where(outside, np.inf, priced[at])
        chosen, total = eliminate(priced, edges)
        used = sum(size[choice] for size, choice in zip(every, chosen, strict=True))
        return chosen, total - price * used, float(used)

    # Of choices that cost the same, those that take less: by a price that decides nothing else.
    chosen, least, used = solve(TIE)
    slack = TIE * sum(float(size.max()) for size in every)
    if limit is None or used <= limit or math.isinf(least):
        return chosen, least, least + TIE * used - slack
    best: tuple[list[int], float] = ([], math.inf)
    # At a price that outweighs all costs, the least size is taken: that fits.
    most = max(least, 1e-9) * 1e3 / max(1.0, limit)

    def examined(ranges: tuple[tuple[float, float], ...], price: float) -> _Limited:
        """The best bound over some prices, and where the answers below and above the limit part."""
        nonlocal best
        bound, found_price = 0.0, price
        low, high = 0.0, most
        sides: list[list[int] | None] = [None, None]
        for _ in range(PRICES):
            chosen, taken, used = solve(price, ranges)
            if math.isinf(taken):
                return _Limited(math.inf, ranges, price, None)
            value = taken + price * (used - limit)
            if value > bound:
                bound, found_price = value, price
            fits = used <= limit
            sides[fits] = chosen
            if fits:
                high = price
                if taken < best[1]:
                    best = chosen, taken
                if price == 0.0:
                    bound = max(bound, taken)
                    break
            else:
                low = price
            price = (low + high) / 2 if low else high / 8
        over, under = sides
        split = None
        if over is not None and under is not None:
            widest = max(
                range(len(limited)),
                key=lambda n: abs(
                    every[limited[n]][over[limited[n]]] - every[limited[n]][under[limited[n]]]
                ),
            )
            at = limited[widest]
            a, b = float(every[at][over[at]]), float(every[at][under[at]])
            split = (widest, (a + b) / 2) if a != b else None
        return _Limited(bound, ranges, found_price, split)

    whole = tuple((0.0, math.inf) for _ in limited)
    chosen, taken, used = solve(0.0, tuple((0.0, float(every[at].min())) for at in limited))
    best = chosen, taken
    deadline = time.monotonic() + seconds
    first = examined(whole, most / 8)
    waiting, order = [(first.bound, 0, first)], itertools.count(1)
    closed = math.inf
    while waiting:
        bound, _, part = heapq.heappop(waiting)
        if bound >= min(best[1], below) * (1 - GAP) or time.monotonic() > deadline:
            closed = min(closed, bound)
            break
        if part.split is None:
            # Nothing to part: this much of the gap stays.
            closed = min(closed, bound)
            continue
        number, middle = part.split
        low, high = part.ranges[number]
        for side in ((low, middle), (middle, high)):
            ranges = (*part.ranges[:number], side, *part.ranges[number + 1 :])
            child = examined(ranges, part.price)
            bound = max(child.bound, part.bound)
            if bound < min(best[1], below) * (1 - GAP):
                heapq.heappush(waiting, (bound, next(order), child))
            else:
                closed = min(closed, bound)
    return best[0], best[1], min(best[1], closed)
