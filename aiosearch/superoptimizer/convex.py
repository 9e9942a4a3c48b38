"""The pieces of a program that may run as one: connected, with no way out of them and back in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ..tensor import Program, Term
from ..tensor.operator import NUMBERS
from ..tensor.terms import bytes_of
from .dependencies import Bits, Dependencies, bits, dependencies, numbers
from .pieces import Boundary, Piece, Pieces

MOST_INPUTS = 8
MOST_OUTPUTS = 3


def convex(
    program: Program,
    most_operators: int,
    *,
    searchable: Callable[[Term], bool] = lambda term: True,
    most_inputs: int = MOST_INPUTS,
    most_outputs: int = MOST_OUTPUTS,
) -> list[Piece]:
    """Every piece within these limits, once; equal ones share their program.

    An operator that is not searchable, or that is a custom kernel already, is a piece of its own.
    Raises LabelError where the labels of the program's inputs contradict each other.
    """
    graph = dependencies(program, searchable)
    pieces = Pieces(graph)
    sets, _ = convex_sets(graph, most_operators)
    cuts = within(pieces, sets, most_inputs, most_outputs)
    return [pieces.piece(boundary) for _, boundary in cuts]


def within(
    pieces: Pieces, sets: Sequence[Bits], most_inputs: int, most_outputs: int
) -> Iterator[tuple[Bits, Boundary]]:
    """The sets that have not too many inputs and outputs; single operators in any case."""
    for members in sets:
        boundary = pieces.boundary(members)
        few = len(boundary.inputs) <= most_inputs and len(boundary.outputs) <= most_outputs
        if few or members.bit_count() == 1:
            yield members, boundary


def convex_sets(
    graph: Dependencies, most_operators: int, most_each: int | None = None
) -> tuple[list[Bits], bool]:
    """Every such set with at most so many operators, once; whether those are all.

    Of those of one size whose first operator is the same, at most `most_each` are kept and grown:
    those that keep the most bytes to themselves. A single operator is always a set.
    """
    weights = [_weight(graph, number) for number in range(len(graph.results))]
    found: list[Bits] = []
    whole = True
    for first in range(len(graph.results)):
        sets = _Sets(graph, most_operators, first)
        for size in range(1, most_operators + 1):
            grown = sets.of_size(size)
            if most_each is not None and len(grown) > most_each:
                grown.sort(key=lambda one: (-_kept(graph, weights, one.members), one.members))
                del grown[most_each:]
                whole = False
            found.extend(one.members for one in grown)
            sets.grow(grown)
    return found, whole


class _Grown(NamedTuple):
    """A set, with what all of its members together have to do with others."""

    members: Bits
    before: Bits
    after: Bits
    near: Bits
    """What a member takes the results of, or gives its own to."""


class _Sets:
    """The sets whose first operator is this one, by size."""

    def __init__(self, graph: Dependencies, most: int, first: int) -> None:
        self._graph = graph
        self._most = most
        others = graph.all & ~graph.alone
        self._later = 0 if graph.alone >> first & 1 else others & -(2 << first)
        self._seen: set[Bits] = set()
        self._sizes: list[list[_Grown]] = [[] for _ in range(most + 1)]
        self._sizes[1].append(self._joined(_Grown(0, 0, 0, 0), 1 << first))

    def of_size(self, size: int) -> list[_Grown]:
        return self._sizes[size]

    def grow(self, grown: list[_Grown]) -> None:
        """Joins each with each of its neighbours, and with all that is between."""
        for one in grown:
            for number in numbers(one.near & self._later & ~one.members):
                self._try(one, number)

    def _try(self, one: _Grown, number: int) -> None:
        graph = self._graph
        between = (one.before | graph.before[number]) & (one.after | graph.after[number])
        added = (between | 1 << number) & ~one.members
        members = one.members | added
        if members in self._seen or added & ~self._later:
            return
        self._seen.add(members)
        size = members.bit_count()
        if size <= self._most:
            self._sizes[size].append(self._joined(one, added))

    def _joined(self, one: _Grown, added: Bits) -> _Grown:
        members, before, after, near = one
        for number in numbers(added):
            before |= self._graph.before[number]
            after |= self._graph.after[number]
            near |= self._graph.needs[number] | self._graph.feeds[number]
        return _Grown(members | added, before, after, near)


def _weight(graph: Dependencies, number: int) -> int:
    return sum(NUMBERS.value(bytes_of(term.type)) for term in graph.results[number])


def _kept(graph: Dependencies, weights: Sequence[int], members: Bits) -> int:
    """The bytes that no other operator ever sees."""
    inside = members & ~bits(graph.leaving(members))
    return sum(weights[number] for number in numbers(inside))
