"""Advice where a space holds no program: which limit to raise."""

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
MORE = 4
"""By how much a limit is raised at most."""
NODES = 2_000
"""How far a larger space is looked into."""


def limits_to_raise(
    problem: Fusion, going: ShouldContinue = always_continue
) -> list[tuple[str, int]]:
    """The limits that alone stand in the way, each with the least that is seen to be enough."""
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
            more: dict[str, Any] = {limit: value}
            if _has_program(tables, replace(problem.space, **more)):
                yield limit, value
                break


def _has_program(tables: DerivationGraph, space: Space) -> bool:
    """Whether one is found soon: classes and steps are the same whatever the limits are."""
    larger = copy(tables)
    larger.space = space
    skeletons = Skeletons(larger)
    open_ = [skeletons.root(tuple(one for one in tables.targets if one is not None))]
    for _ in range(NODES):
        if not open_:
            return False
        node = open_.pop()
        if not node.needed:
            return True
        open_ += sorted(skeletons.expand(node), key=lambda child: -len(child.needed))
    return False
