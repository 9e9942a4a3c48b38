"""Advice where a space holds no program: which limit of a `Space` to raise."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from typing import Any

from .derive.derivations import DerivationGraph
from .enumeration.kernel_graphs import Skeletons
from .enumeration.problem import Fusion
from .progress import ShouldContinue, always_continue
from .space import Space

LIMITS = ("kernels", "custom_kernels", "block_operators", "block_inputs", "block_outputs")
"""The limits that are tried, in this order."""
MORE = 4
"""The most by which a limit is raised."""
NODES = 2_000
"""How many nodes of a larger space are visited."""


def limits_to_raise(
    problem: Fusion, going: ShouldContinue = always_continue
) -> list[tuple[str, int]]:
    """The limits that alone stand in the way, each with the least value that is seen to be enough.

    `[("custom_kernels", 2)]` means that two custom kernels would do, with all else as it is.
    """
    return list(_raised(problem, going))


def _raised(problem: Fusion, going: ShouldContinue) -> Iterator[tuple[str, int]]:
    tables = problem.tables
    if None in tables.targets:
        return
    for limit in LIMITS:
        now = getattr(problem.space, limit)
        for value in range(now + 1, now + MORE + 1):
            if not going(f"looking with {limit.replace('_', ' ')} {value}"):
                return
            changes: dict[str, Any] = {limit: value}
            if _has_program(tables, replace(problem.space, **changes)):
                yield limit, value
                break


def _has_program(tables: DerivationGraph, space: Space) -> bool:
    """Whether a program is found within `NODES` nodes."""
    # Classes and derivations do not depend on these limits, so the derivation graph is not computed
    # again; only the limits that the enumeration reads differ.
    larger = copy(tables)
    larger.space = space
    skeletons = Skeletons(larger)
    open_ = [skeletons.root(tuple(target for target in tables.targets if target is not None))]
    for _ in range(NODES):
        if not open_:
            return False
        node = open_.pop()
        if not node.needed:
            return True
        # The node that needs the fewest tensors is popped first: it is nearest to a program.
        open_ += sorted(skeletons.expand(node), key=lambda child: -len(child.needed))
    return False
