"""Which barriers order nothing that their neighbours do not order already, and so can go.

A barrier is what it orders: accesses before it with accesses behind it, of different threads, one
of them a write. Let B be a barrier. If every conflicting pair (an access before B, one behind it)
has another barrier between its two accesses, B is not needed. Two sufficient conditions:

    (a)  no access between the previous barrier and B conflicts with any access behind B
    (b)  no access before B conflicts with any access between B and the next barrier

Under (a) a conflicting pair must begin before the previous barrier, which then orders it; under (b)
it must end behind the next one. For example, in

    s[t] = x;  B1;  u = s[t];  B2;  v = s[t + 1]

nothing between B1 and B2 is written, and s[t] meets the read of s[t] in its own thread only: B1 has
(b), and goes. Then B2 is the only one left, and stays.

They are taken out one at a time, since two that each rely on the other cannot both go. A write
behind a read (`u = s[t + 1]; B; s[t] = y`) is a conflict like any other.

What lies in a loop is before and behind itself, so the accesses of the whole body count on both
sides. The cost is quadratic in the number of barriers times the number of pairs of accesses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ..ir.operations import (
    Barrier,
    For,
    Operation,
    ParallelFunction,
    Region,
    SourceLocation,
    While,
    regions,
    walk,
    with_regions,
)
from .effects import Definitions, Effect, conflict, deep_effects


@dataclass(frozen=True, slots=True)
class _Step:
    """One block on the way from the kernel's body to a barrier, and the place in it."""

    block: Region
    place: int
    in_loop: bool
    """Whether the block is the body of a loop."""


def without_needless(
    function: ParallelFunction, block: tuple[int, int, int]
) -> tuple[ParallelFunction, tuple[SourceLocation, ...]]:
    """The kernel without barriers that order nothing, and where those stood."""
    removed: list[SourceLocation] = []
    while True:
        definitions = Definitions(function)
        path = _first_needless(function.body, definitions, block)
        if path is None:
            return function, tuple(removed)
        barrier = path[-1].block.operations[path[-1].place]
        removed.append(barrier.at)
        function = replace(function, body=_without(path))


def _first_needless(
    body: Region, definitions: Definitions, block: tuple[int, int, int]
) -> list[_Step] | None:
    def conflicts(first: Sequence[Effect], second: Sequence[Effect]) -> bool:
        return any(conflict(a, b, definitions, block) for a in first for b in second)

    for path in _barriers(body, [], False):
        near, behind = _before(path, definitions, True), _behind(path, definitions, False)
        if not conflicts(near, behind):
            return path
        before, next_ones = _before(path, definitions, False), _behind(path, definitions, True)
        if not conflicts(before, next_ones):
            return path
    return None


def _barriers(block: Region, outer: list[_Step], in_loop: bool) -> list[list[_Step]]:
    """The ways to all barriers of blocks."""
    collected: list[list[_Step]] = []
    for place, operation in enumerate(block.operations):
        path = [*outer, _Step(block, place, in_loop)]
        if _orders_all(operation):
            collected.append(path)
        for region in regions(operation):
            collected += _barriers(region, path, isinstance(operation, For | While))
    return collected


def _before(path: list[_Step], definitions: Definitions, to_barrier: bool) -> list[Effect]:
    return _collected(
        path, definitions, to_barrier, lambda step: step.block.operations[: step.place][::-1]
    )


def _behind(path: list[_Step], definitions: Definitions, to_barrier: bool) -> list[Effect]:
    return _collected(
        path, definitions, to_barrier, lambda step: step.block.operations[step.place + 1 :]
    )


def _collected(
    path: list[_Step],
    definitions: Definitions,
    to_barrier: bool,
    side: Callable[[_Step], Sequence[Operation]],
) -> list[Effect]:
    """The accesses on one side of a barrier, from the inside out.

    Only a barrier that every way passes ends the search: one in the same block, or in a block that
    encloses it. One inside of a branch or loop may not be reached, so what holds it counts whole.
    """
    collected: list[Effect] = []
    for step in reversed(path):
        for operation in side(step):
            if to_barrier and _orders_all(operation):
                return collected
            collected += deep_effects(operation, definitions)
        # What stands on one side in this turn stands on the other side of the turn before.
        if step.in_loop:
            for operation in step.block.operations:
                collected += deep_effects(operation, definitions)
    return collected


def _orders_all(operation: Operation) -> bool:
    """Whether it is a barrier of all threads of a block."""
    return isinstance(operation, Barrier) and operation.level == "block" and operation.dims == "xyz"


def _without(path: list[_Step]) -> Region:
    """The body without the barrier that the path leads to."""
    last = path[-1]
    block = Region(
        last.block.operations[: last.place] + last.block.operations[last.place + 1 :],
        last.block.yields,
    )
    for step, inner in zip(reversed(path[:-1]), reversed(path[1:]), strict=True):
        operation = step.block.operations[step.place]
        blocks = tuple(block if item is inner.block else item for item in regions(operation))
        lines = list(step.block.operations)
        lines[step.place] = with_regions(operation, blocks)
        block = Region(tuple(lines), step.block.yields)
    return block


def barriers(function: ParallelFunction) -> int:
    """How many barriers of blocks a kernel has."""
    return sum(isinstance(item, Barrier) and item.level == "block" for item in walk(function.body))
