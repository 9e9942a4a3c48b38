"""The least sum of costs of single choices and of pairs of them, by variable elimination.

Problem: each variable takes one of a few values; values cost something, and so do pairs of values
of two variables that have an edge.

Method: a value that costs no less than another of its variable, whatever the neighbours take, is
left out. Then a variable goes by being minimised over: what it and its edges cost becomes a table
over its neighbours. Whose table is smallest goes first. Going back, each variable takes what was
best for the values of its neighbours.

Example: of a chain a - b - c, a goes into a table over b, then b into a table over c.

Where a table would exceed `MAX_TABLE`, as of the gradient of a transformer over two axes of a mesh,
its parts are minimised apart, as if the variable could take a value for each of them (mini-buckets;
their least values are made equal before, which loses less). What comes out is a bound below all
choices. Choices that are read off it are then improved: a few variables that make tables large keep
their values, so that the best of all others is found exactly, and others keep theirs the next time.

Invariant: the bound is never above the least sum, and the sum is that of the choices; where no
table was parted the two are equal.

Cost: the product of the sizes of a variable and of its neighbours when it goes, `MAX_TABLE` at
most. Chains and trees are cheap.

`eliminate_within` is the same within a limit on a sum of sizes, by branch and bound.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Costs: TypeAlias = NDArray[np.float64]
Table: TypeAlias = tuple[tuple[int, ...], Costs]
"""Costs of values of several variables, which are named in order."""

MAX_TABLE = 1_000_000
"""Entries of the largest table of an elimination."""
SMALLER = 10
"""How many times smaller tables are while choices are improved, so that many rounds are quick."""
PATIENCE = 4
"""Rounds without a better choice after which improving ends."""
TIE = 1e-21
"""What a unit of size costs where nothing else tells choices apart."""
PRICES = 8
"""How many prices of a unit of size are tried for each part of the search within a limit."""
GAP = 0.005
"""How far above the bound, relative to it, choices within a limit may stay."""


def eliminate(
    unary: Sequence[Costs], edges: Mapping[tuple[int, int], Costs], largest: int = MAX_TABLE
) -> tuple[list[int], float, float]:
    """Choices, the sum of their unary and pairwise costs, and a bound that no choices go below.

    Sum and bound are equal, and the choices the best, where no table has more than `largest`
    entries.

    Example: of a chain a - b - c, a goes into a table over b, then b into one over c.
    """
    worth = undominated(unary, edges)
    fewer = [costs[values] for costs, values in zip(unary, worth, strict=True)]
    pairs = {(a, b): table[np.ix_(worth[a], worth[b])] for (a, b), table in edges.items()}
    chosen, bound, is_exact = _minimised(fewer, pairs, largest)
    total = _total(fewer, pairs, chosen)
    if is_exact:
        bound = total
    else:
        chosen, total = _improved(fewer, pairs, chosen, total, largest // SMALLER)
    choices = [int(values[choice]) for values, choice in zip(worth, chosen, strict=True)]
    return choices, total, min(bound, total)


def undominated(
    unary: Sequence[Costs], edges: Mapping[tuple[int, int], Costs]
) -> list[NDArray[np.intp]]:
    """By variable, the values that may be part of the best choices, at least one of each.

    A value goes where another one costs no more whatever the neighbours take: that is so if what
    the two differ by, summed over the edges and each time for the neighbour's worst value, is not
    above 0. Of equal values the first stays. What goes makes neighbours simpler, so these are
    looked at again.
    """
    costs = [np.asarray(member, dtype=np.float64) for member in unary]
    tables = dict(edges)
    worth = [np.arange(len(member)) for member in costs]
    touching: list[list[tuple[int, int]]] = [[] for _ in costs]
    for a, b in edges:
        touching[a].append((a, b))
        touching[b].append((a, b))
    waiting = dict.fromkeys(range(len(costs)))
    while waiting:
        at = next(iter(waiting))
        del waiting[at]
        around = (tables[edge] if edge[0] == at else tables[edge].T for edge in touching[at])
        parts = np.stack([_excess(costs[at][:, None]), *map(_excess, around)])
        # worse[i, j]: how much more i may cost than j, less than all where j cannot be taken.
        impossible = np.isneginf(parts)
        worse = np.where(impossible, 0.0, parts).sum(axis=0)
        worse[impossible.any(axis=0)] = -np.inf
        first = np.arange(len(worse))
        beats = (worse <= 0) & ((worse.T > 0) | (first[:, None] < first))
        stays = ~beats.any(axis=0)
        if stays.all():
            continue
        costs[at], worth[at] = costs[at][stays], worth[at][stays]
        for a, b in touching[at]:
            tables[a, b] = tables[a, b][stays] if a == at else tables[a, b][:, stays]
            waiting[b if a == at else a] = None
    return worth


def _excess(costs: Costs) -> Costs:
    """By two rows: how much more the first costs than the second at most, over the columns."""
    first, second = costs[:, None], costs[None, :]
    with np.errstate(invalid="ignore"):
        excess = first - second
    # What the second cannot take at all never counts against the first.
    largest: Costs = np.where(np.isinf(second), -np.inf, excess).max(axis=-1)
    return largest


def _total(
    unary: Sequence[Costs], edges: Mapping[tuple[int, int], Costs], chosen: Sequence[int]
) -> float:
    alone = sum(float(costs[choice]) for costs, choice in zip(unary, chosen, strict=True))
    return alone + sum(float(table[chosen[a], chosen[b]]) for (a, b), table in edges.items())


class _Tables:
    """The tables that are left, and the variables that each of them is over."""

    def __init__(self, unary: Sequence[Costs], edges: Mapping[tuple[int, int], Costs]) -> None:
        self.sizes = [len(costs) for costs in unary]
        self._tables: dict[int, Table] = {}
        self._of: list[set[int]] = [set() for _ in unary]
        self._numbers = itertools.count()
        for number, costs in enumerate(unary):
            self.add((number,), costs)
        for pair, costs in edges.items():
            self.add(pair, costs)

    def add(self, scope: tuple[int, ...], costs: Costs) -> None:
        number = next(self._numbers)
        self._tables[number] = scope, costs
        for variable in scope:
            self._of[variable].add(number)

    def take(self, variable: int) -> list[Table]:
        """The tables over a variable, which go."""
        tables = []
        for number in sorted(self._of[variable]):
            scope, costs = self._tables.pop(number)
            for member in scope:
                self._of[member].discard(number)
            tables.append((scope, costs))
        return tables

    def neighbours(self, variable: int) -> set[int]:
        joined = {member for number in self._of[variable] for member in self._tables[number][0]}
        return joined - {variable}

    def entries(self, variable: int) -> int:
        """How large the table would be that takes the variable's place, with the variable."""
        sizes = (self.sizes[member] for member in self.neighbours(variable))
        return self.sizes[variable] * math.prod(sizes)

    def fix(self, variable: int, choice: int) -> None:
        """Has a variable take a value."""
        for scope, costs in self.take(variable):
            remaining = tuple(member for member in scope if member != variable)
            if remaining:
                self.add(remaining, np.take(costs, choice, axis=scope.index(variable)))

    def joined(self, tables: Sequence[Table], last: int) -> Table:
        """The sum of tables, over all their variables, of which `last` comes last."""
        scope = sorted({member for variables, _ in tables for member in variables} - {last})
        axes = (*scope, last)
        total = np.zeros([self.sizes[member] for member in axes])
        for variables, costs in tables:
            aligned = np.transpose(costs, np.argsort([axes.index(member) for member in variables]))
            total += aligned.reshape([self.sizes[m] if m in variables else 1 for m in axes])
        return axes, total


def _minimised(
    unary: Sequence[Costs],
    edges: Mapping[tuple[int, int], Costs],
    largest: int,
    current: Sequence[int] | None = None,
    rng: random.Random | None = None,
) -> tuple[list[int], float, bool]:
    """Choices, a bound below all choices, and whether it is met, as no table was parted.

    With `current` choices no table is parted: neighbours, drawn at random, keep their value until
    the table is small enough, and the bound is one for what keeps these values.
    """
    tables = _Tables(unary, edges)
    entries = {variable: tables.entries(variable) for variable in range(len(unary))}
    chosen = [-1] * len(unary)
    decided: list[tuple[int, list[Table]]] = []
    bound, is_exact = 0.0, True
    while entries:
        best = min(entries, key=lambda variable: (entries[variable], variable))
        near = tables.neighbours(best)
        while current is not None and tables.entries(best) > largest and near:
            held = (rng or random).choice(sorted(near))
            near |= tables.neighbours(held)
            tables.fix(held, current[held])
            chosen[held] = current[held]
            del entries[held]
            near -= {held, best}
        parts = [tables.joined(part, best) for part in _parted(tables, best, largest)]
        is_exact = is_exact and len(parts) <= 1
        decided.append((best, parts))
        for axes, costs in _levelled(parts):
            least = costs.min(axis=-1)
            if len(axes) > 1:
                tables.add(axes[:-1], least)
            else:
                bound += float(least)
        del entries[best]
        for variable in near & entries.keys():
            entries[variable] = tables.entries(variable)
    for variable, parts in reversed(decided):
        costs = sum(
            (table[tuple(chosen[member] for member in axes[:-1])] for axes, table in parts),
            np.zeros(len(unary[variable])),
        )
        chosen[variable] = int(costs.argmin())
    return chosen, bound, is_exact


def _parted(tables: _Tables, variable: int, largest: int) -> list[list[Table]]:
    """The tables over a variable, in as few groups as the sizes of their sums allow."""
    groups: list[tuple[set[int], list[Table]]] = []
    for scope, costs in sorted(tables.take(variable), key=lambda table: -table[1].size):
        for joined, members in groups:
            if math.prod(tables.sizes[member] for member in joined | set(scope)) <= largest:
                joined |= set(scope)
                members.append((scope, costs))
                break
        else:
            groups.append((set(scope), [(scope, costs)]))
    return [members for _, members in groups]


def _levelled(parts: Sequence[Table]) -> list[Table]:
    """Tables over a variable, the last of each, with the same least cost for each of its values.

    What is taken from some is given to others, so that their sum stays.
    """
    if len(parts) == 1:
        return list(parts)
    least = np.stack([costs.reshape(-1, costs.shape[-1]).min(axis=0) for _, costs in parts])
    # What some table excludes is excluded in any case.
    finite = np.isfinite(least).all(axis=0)
    shifts = np.where(finite, np.where(finite, least, 0.0).mean(axis=0) - least, 0.0)
    return [(axes, costs + shift) for (axes, costs), shift in zip(parts, shifts, strict=True)]


def _improved(
    unary: Sequence[Costs],
    edges: Mapping[tuple[int, int], Costs],
    chosen: list[int],
    total: float,
    largest: int,
) -> tuple[list[int], float]:
    """Choices that cost no more, found round by round as some variables keep their values."""
    rng = random.Random(0)
    idle = 0
    while idle < PATIENCE:
        better, _, _ = _minimised(unary, edges, largest, chosen, rng)
        cost = _total(unary, edges, better)
        idle = 0 if cost < total else idle + 1
        if cost < total:
            chosen, total = better, cost
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
    ) -> tuple[list[int], float, float, float]:
        priced = [costs + price * size for costs, size in zip(unary, every, strict=True)]
        for at, (low, high) in zip(limited, ranges or (), strict=ranges is not None):
            outside = (every[at] < low) | (every[at] > high)
            priced[at] = np.where(outside, np.inf, priced[at])
        chosen, total, bound = eliminate(priced, edges)
        used = sum(size[choice] for size, choice in zip(every, chosen, strict=True))
        return chosen, total - price * used, float(used), bound

    # Of choices that cost the same, those that take less: by a price that decides nothing else.
    chosen, least, used, under = solve(TIE)
    slack = TIE * sum(float(size.max()) for size in every)
    if limit is None or used <= limit or math.isinf(least):
        return chosen, least, max(0.0, under - slack)
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
            chosen, taken, used, under = solve(price, ranges)
            if math.isinf(taken):
                return _Limited(math.inf, ranges, price, None)
            value = under - price * limit
            if value > bound:
                bound, found_price = value, price
            fits = used <= limit
            sides[fits] = chosen
            if fits:
                high = price
                if taken < best[1]:
                    best = chosen, taken
                if price == 0.0:
                    break
            else:
                low = price
            price = (low + high) / 2 if low else high / 8
        above, within = sides
        split = None
        if above is not None and within is not None:
            widest = max(
                range(len(limited)),
                key=lambda n: abs(
                    every[limited[n]][above[limited[n]]] - every[limited[n]][within[limited[n]]]
                ),
            )
            at = limited[widest]
            a, b = float(every[at][above[at]]), float(every[at][within[at]])
            split = (widest, (a + b) / 2) if a != b else None
        return _Limited(bound, ranges, found_price, split)

    whole = tuple((0.0, math.inf) for _ in limited)
    chosen, taken, used, _ = solve(0.0, tuple((0.0, float(every[at].min())) for at in limited))
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
