"""The least sum of costs of single choices and of pairs of them, exactly: variable elimination.

Problem: each variable takes one of a few values; values cost something, and so do pairs of values
of two variables that have an edge.

Method: a variable goes by being minimised over: what it and its edges cost becomes a table over its
neighbours. Whose table is smallest goes first. Going back, each variable takes what was best for
the values of its neighbours.

Example: of a chain a - b - c, a goes into a table over b, then b into a table over c.

Cost: the product of the sizes of a variable and of its neighbours when it goes. Chains and trees
are cheap; `MAX_TABLE` ends what is too tangled.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import PlanError

Costs: TypeAlias = NDArray[np.float64]

MAX_TABLE = 30_000_000
"""Entries of the largest table of an elimination."""


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
