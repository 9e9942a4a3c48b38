"""The shared memory that a block needs when dead tiles are reused, in the order of steps that needs
least.

Problem: given the steps of a block and which tiles each reads, find the order in which the most
bytes that live at once are fewest. A tile lives from the step that makes it to the last that reads
it. What a loop keeps lives through all of it: accumulators, and tiles that are loaded once.

Worked example: steps 0 and 1 make tiles of 4 bytes, step 2 reads tile 0 and may write over it, step
3 reads 1 and 2 and makes 2 bytes. `least_live` gives 10: tiles 1, 2 (in place of 0) and 3. Without
reuse they would take 14.

Rules: pointwise operators write over an operand that nothing reads later; an operator whose result
is only accumulated adds it up in place; moved elements and registers take nothing.

Invariant: the search goes over sets of steps that are done, the one with the lowest peak first, so
the first complete set has the least peak. A step that costs nothing is taken at once, as it can
only help.

Cost: exponential in the steps in the worst case, of which a block has at most
`Space.block_operators`. `BlockPhase.bound` is what no order does without, for many choices of sizes
at once.

See docs/why/superoptimizer.md, "Numbers, best first".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TypeAlias

import numpy as np

from ...tensor import Dim, Kernel, Place, Term
from ...tensor.mugraph import ACCUMULATE, LOAD, READ, WRITE
from ...tensor.terms import bytes_of
from .size_values import Figures, number

Set: TypeAlias = int
"""A set of steps, a bit for each."""


@dataclass(frozen=True)
class LivenessStep:
    """Something done once, that makes a tile."""

    size: Dim
    """The bytes of the tile; none where it goes into a tile that is there."""
    reads: tuple[int, ...] = ()
    """The earlier steps whose tiles it reads."""
    over: tuple[int, ...] = ()
    """The steps in `reads` whose tiles it may write over, where nothing else reads them later and
    they are as large."""


def least_live(steps: Sequence[LivenessStep], sizes: Sequence[int], ready: int = 0) -> int:
    """The most bytes that live at once in the order that needs least; the first `ready` steps are
    done.

    Sets of steps done are explored, the one with the lowest peak first.
    """
    orders = _Orders(steps, sizes)
    start = (1 << ready) - 1
    # Of equal peaks the set with more steps done is first, which goes straight to an end.
    heap = [(orders.live(start), -ready, start)]
    seen: set[Set] = set()
    while True:
        peak, _, done = heappop(heap)
        if done == orders.all:
            return peak
        # The heap is ordered by peak, so the first time that a set comes up is with its least peak.
        if done in seen:
            continue
        seen.add(done)
        for most, after in orders.next(done, peak):
            heappush(heap, (most, -after.bit_count(), after))


class _Orders:
    def __init__(self, steps: Sequence[LivenessStep], sizes: Sequence[int]) -> None:
        self.all = (1 << len(steps)) - 1
        self._sizes = sizes
        self._reads = [sum(1 << operand for operand in set(step.reads)) for step in steps]
        self._users = [
            sum(1 << index for index, step in enumerate(steps) if step_index in step.reads)
            for step_index in range(len(steps))
        ]
        self._over = [
            [operand for operand in step.over if sizes[operand] == size]
            for step, size in zip(steps, sizes, strict=True)
        ]

    def live(self, done: Set) -> int:
        """The bytes of tiles that are made and still to be read."""
        return sum(
            size
            for index, size in enumerate(self._sizes)
            if done >> index & 1 and self._users[index] & ~done
        )

    def next(self, done: Set, peak: int) -> Iterator[tuple[int, Set]]:
        """The peaks and sets one step on; a step that costs nothing now is taken, and no other."""
        before = self.live(done)
        options = []
        for index, reads in enumerate(self._reads):
            if done >> index & 1 or reads & ~done:
                continue
            after = done | 1 << index
            most = max(peak, before + self._more(index, after))
            # Such a step raises neither the peak nor what lives after it, so some best order begins
            # with it: the other steps need not be tried.
            if most == peak and self.live(after) <= before:
                return iter([(most, after)])
            options.append((most, after))
        return iter(options)

    def _more(self, index: int, after: Set) -> int:
        """The bytes that the tile of a step adds while the step runs."""
        # An operand's tile may be written over if no step that is still to come reads it.
        in_place = any(not self._users[operand] & ~after for operand in self._over[index])
        return 0 if in_place else self._sizes[index]


Count: TypeAlias = Callable[[Dim], int]
"""The number that a size stands for."""

WHOLE = ("none", "max")
"""Accumulators of the shape of what they take."""
VIEWS = ("broadcast", "reshape", "transpose", "slice", "diagonal")
"""Operators whose result is read where their operand is."""


@dataclass(frozen=True)
class BlockPhase:
    """Steps in any order that their reads allow, beside tiles that live all the time."""

    steps: tuple[LivenessStep, ...]
    held: tuple[Dim, ...] = ()
    ready: int = 0
    """How many of the first steps are done before; their tiles live until they are read."""

    def least(self, count: Count) -> int:
        """The most bytes that live at once, in the best order."""
        sizes = [count(step.size) for step in self.steps]
        return least_live(self.steps, sizes, self.ready) + sum(map(count, self.held))

    def bound(self, count: Callable[[Dim], Figures]) -> Figures:
        """What no order does without: the tiles that are held, and the step that has most at
        hand.
        """
        held = sum(map(count, self.held))
        most: Figures = 0
        for step in self.steps[self.ready :]:
            read_bytes = sum(count(self.steps[operand].size) for operand in step.reads)
            least = (
                np.maximum(read_bytes, count(step.size))
                if step.over
                else read_bytes + count(step.size)
            )
            most = np.maximum(most, least)
        return held + most


def shared_bytes(kernel: Kernel) -> int:
    """The least shared memory that a block of `kernel` can do with, in bytes."""
    looped = number(kernel.range) > 1
    return max(phase.least(number) for phase in phases(kernel, looped))


def summed_bytes(kernel: Kernel) -> int:
    """What Mirage takes a block to need: nothing is reused, but by operators of one tile."""
    return sum(number(bytes_of(term.type)) for term in kernel.body if not _in_place(term))


def _in_place(term: Term) -> bool:
    if term.place not in (Place.LOOP, Place.AFTER) or is_view(term):
        return True
    if term.operator is ACCUMULATE:
        return term.parameter("kind") in WHOLE
    return term.operator.pointwise and len(_tiles(term.arguments)) < 2


def _tiles(terms: Iterable[Term]) -> list[Term]:
    return [term for term in terms if term.place is not Place.ANYWHERE]


def is_view(term: Term) -> bool:
    """Whether `term` is a tile seen another way."""
    return term.operator.name in VIEWS


def phases(kernel: Kernel, looped: bool) -> tuple[BlockPhase, ...]:
    """What a block does: one phase where its loop runs once, else the loop and what follows it."""
    body = kernel.body
    if not looped:
        return (_Layout(body, looped=False).phase(),)
    loop = [term for term in body if term.place in (Place.LOOP, Place.LOOP_REGISTER)]
    sums = [term for term in body if term.operator is ACCUMULATE]
    after = [term for term in body if term not in loop and term not in sums]
    # Accumulators live through the whole loop, and are the first tiles of the phase after it.
    held = [bytes_of(term.type) for term in sums]
    return _Layout([*loop, *sums], held=held).phase(), _Layout(after, ready=sums).phase()


class _Layout:
    """Turns the terms of a phase into `LivenessStep`s."""

    def __init__(
        self,
        terms: Iterable[Term],
        looped: bool = True,
        held: Iterable[Dim] = (),
        ready: Iterable[Term] = (),
    ) -> None:
        self._looped = looped
        self._steps: list[LivenessStep] = []
        self._held = list(held)
        self._homes: dict[Term, tuple[int, ...]] = {}
        """The steps whose tiles the value of a term is in."""
        for term in ready:
            self._add(term, bytes_of(term.type))
        self._given = len(self._steps)
        terms = list(terms)
        self._uses = Counter(argument for term in terms for argument in set(term.arguments))
        self._summed = {
            term.arguments[0]
            for term in terms
            if looped and term.operator is ACCUMULATE and term.parameter("kind") in WHOLE
        }
        for term in _tiles(terms):
            self._place(term)

    def phase(self) -> BlockPhase:
        return BlockPhase(tuple(self._steps), tuple(self._held), self._given)

    def _place(self, term: Term) -> None:
        size = bytes_of(term.type)
        reads = self._reads(term)
        # A tile that is not split by the loop is loaded before it and stays.
        if term.operator is LOAD and self._looped and term.parameter("loop") is None:
            self._held.append(size)
            self._homes[term] = ()
        elif self._needs_no_step(term):
            self._homes[term] = reads
        elif self._accumulates(term):
            self._add(term, 0, reads)
        else:
            self._add(term, size, reads, self._over(term))

    def _accumulates(self, term: Term) -> bool:
        """Whether the value of `term` goes into a tile that the loop keeps."""
        # The product of matrices that is only accumulated adds to the accumulator as it is
        # computed, and has no tile.
        only_summed = term in self._summed and self._uses[term] == 1
        accumulates = self._looped and term.operator is ACCUMULATE
        return accumulates or (only_summed and term.operator is not LOAD)

    def _needs_no_step(self, term: Term) -> bool:
        """Whether `term` needs no step: it is in registers, or where its operands are."""
        if term.place in (Place.LOOP_REGISTER, Place.AFTER_REGISTER):
            return True
        # With one iteration, a plain accumulator is its operand.
        once = term.operator is ACCUMULATE and not self._looped
        return is_view(term) or (once and term.parameter("kind") in WHOLE)

    def _add(
        self, term: Term, size: Dim, reads: tuple[int, ...] = (), over: tuple[int, ...] = ()
    ) -> None:
        self._homes[term] = (len(self._steps),)
        self._steps.append(LivenessStep(size, reads, over))

    def _reads(self, term: Term) -> tuple[int, ...]:
        if term.operator is LOAD:
            return ()
        homes = (self._homes[tile] for tile in _tiles(term.arguments))
        return tuple(dict.fromkeys(home for home_of in homes for home in home_of))

    def _over(self, term: Term) -> tuple[int, ...]:
        """The tiles that threads may write over as they read them, element by element."""
        if term.operator is WRITE:
            return tuple(home for tile in _tiles_read(term) for home in self._own(tile))
        if not term.operator.pointwise:
            return ()
        return tuple(home for tile in _tiles(term.arguments) for home in self._own(tile))

    def _own(self, term: Term) -> tuple[int, ...]:
        """The steps whose tile `term` may be written into: none for a view, whose elements lie
        otherwise.
        """
        return () if is_view(term) else self._homes[term]


def _tiles_read(write: Term) -> list[Term]:
    """The tiles that threads read for what they write."""
    tiles: dict[Term, None] = {}
    stack = list(write.arguments)
    while stack:
        term = stack.pop()
        if term.operator is READ:
            tiles[term.arguments[0]] = None
        else:
            stack.extend(term.arguments)
    return list(tiles)
