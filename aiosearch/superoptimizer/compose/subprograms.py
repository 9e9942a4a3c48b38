"""Convex subprograms: the connected pieces of a program that may run as one kernel, equal ones
shared.

Problem: list the sets of operators that are connected and convex, that is, without a way out of the
set and back in: a kernel cannot wait for what needs its own result.

Method: a set grows from its first operator by one neighbour at a time, together with all operators
between (`before` and `after` of dependency_graph). Worked example: in `exp(x) / sum(exp(x))` the
operators are 0 (exp), 1 (sum) and 2 (div). Joining 2 to {0} takes in 1, which lies between; the
convex sets are {0}, {1}, {2}, {0, 1}, {1, 2} and {0, 1, 2}.

Invariant: each set is found once, from its lowest operator. Pieces that compute one thing share one
`Program` (`Subprograms.key`), so they are searched once.

Cost: the sets of a program can be exponentially many; `convex_sets` keeps `most_each` of one size
and first operator, those that keep most bytes to themselves.

See docs/why/superoptimizer.md.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from ...tensor import Program, Term, tensor, walk
from ...tensor.analysis.cost import moves
from ...tensor.analysis.substitution import replaced
from ...tensor.labels import labels_of
from ...tensor.mugraph import RESULT
from ...tensor.operator import NUMBERS
from ...tensor.terms import INPUT, bytes_of
from ..progress import ShouldContinue, always_continue
from .dependency_graph import Bits, Dependencies, bits, dependencies, numbers, operands_of

Key: TypeAlias = Hashable
"""Equal for pieces that are one program but for names."""


@dataclass(frozen=True)
class Boundary:
    """What a set of operators takes and gives, as values of the whole program, in order."""

    inputs: tuple[Term, ...]
    outputs: tuple[Term, ...]

    @property
    def traffic(self) -> int:
        """The bytes that are read and written at least."""
        return sum(map(_bytes, (*self.inputs, *self.outputs)))


@dataclass(frozen=True)
class Subprogram:
    """A part of a program as a program of its own: one object for parts that are equal.

    The parts differ in what `inputs` and `outputs` stand for in the whole program.
    """

    program: Program
    inputs: tuple[Term, ...]
    outputs: tuple[Term, ...]


class Subprograms:
    """Cuts sets of operators out of a program."""

    def __init__(self, graph: Dependencies) -> None:
        self._graph = graph
        self._labels = labels_of(graph.program)
        self._declared = {
            label for term in graph.program.inputs for label in term.parameter("labels") if label
        }
        self._programs: dict[Key, Program] = {}

    def boundary(self, members: Bits) -> Boundary:
        """What the set `members` takes and gives.

        What is moved on its way in is taken as it is moved, or as it was where that is less.
        """
        outputs = tuple(
            term for number in self._graph.leaving(members) for term in self._graph.results[number]
        )
        cut = _least(self._operands(members))
        inputs = tuple(term for term in walk(outputs, stop=cut) if term in cut)
        return Boundary(inputs, outputs)

    def _operands(self, members: Bits) -> set[Term]:
        """The values from elsewhere that operators of a set take, or what is moved within it."""
        graph = self._graph
        inside = dict.fromkeys(graph.results[number][0] for number in numbers(members))
        stack = [operand for term in inside for operand in operands_of(term)]
        seen: set[Term] = set(inside)
        while stack:
            term = stack.pop()
            if term not in seen:
                seen.add(term)
                # Elements that are moved between two members stay inside; the walk goes on to where
                # they come from.
                if graph.sources[term] & members and moves(term):
                    stack.extend(term.arguments)
        return {term for term in seen if not graph.sources[term] & members} - graph.constant

    def piece(self, boundary: Boundary) -> Subprogram:
        """The program of `boundary`; one that was cut before is not made again."""
        key = self.key(boundary)
        # Searches are cached by program, so equal pieces share everything from here on.
        if key not in self._programs:
            self._programs[key] = self._program(boundary)
        return Subprogram(self._programs[key], boundary.inputs, boundary.outputs)

    def _program(self, boundary: Boundary) -> Program:
        names = _names(boundary.inputs)
        inputs = [
            tensor(name, term.dtype, term.shape, self._labelled(term))
            for name, term in zip(names, boundary.inputs, strict=True)
        ]
        outputs = replaced(boundary.outputs, dict(zip(boundary.inputs, inputs, strict=True)))
        return Program(self._graph.program.name, tuple(inputs), outputs)

    def _labelled(self, term: Term) -> tuple[str | None, ...]:
        """The labels that the program declares; None for an axis that was cut, whose label stands
        twice.
        """
        labels = self._labels[term]
        return tuple(
            label if label in self._declared and labels.count(label) == 1 else None
            for label in labels
        )

    def key(self, boundary: Boundary) -> Key:
        """What is computed there, whatever it is called."""
        places: dict[Term, int] = {}
        lines: list[tuple[Hashable, ...]] = []
        # Labels and terms are numbered in the order in which they come up, so that two cuts of one
        # shape have one key whatever their names are.
        called: dict[str | None, int] = {None: 0}
        for term in boundary.inputs:
            places[term] = len(places)
            labels = [called.setdefault(label, len(called)) for label in self._labelled(term)]
            lines.append((term.type, *labels))
        for term in walk(boundary.outputs, stop=places.keys()):
            if term not in places:
                places[term] = len(places)
                operands = [places[argument] for argument in term.arguments]
                lines.append((term.operator.name, _parameters(term), *operands))
        return (*lines, tuple(places[term] for term in boundary.outputs))


def _least(operands: set[Term]) -> set[Term]:
    """The values of the fewest bytes that `operands` can be moved from, as near to them as that
    allows.
    """
    moved: defaultdict[Term, dict[Term, None]] = defaultdict(dict)
    roots = dict.fromkeys(_chain(operand, moved) for operand in operands)
    return {term for root in roots for term in _cheapest(root, operands, moved)}


def _chain(term: Term, moved: defaultdict[Term, dict[Term, None]]) -> Term:
    """What `term` is moved from at first; notes in `moved` what is moved from what on the way."""
    while len(term.arguments) == 1 and moves(term):
        (source,) = term.arguments
        moved[source][term] = None
        term = source
    return term


def _cheapest(
    term: Term, operands: set[Term], moved: defaultdict[Term, dict[Term, None]]
) -> list[Term]:
    """The values to load for those of `operands` that are moved from `term`: itself, or what is
    below it, by bytes.
    """
    if term in operands:
        return [term]
    below = [
        source for moved_term in moved[term] for source in _cheapest(moved_term, operands, moved)
    ]
    # A broadcast is larger than its source, so the source is loaded; two slices of a large tensor
    # are loaded as slices.
    return [term] if _bytes(term) < sum(map(_bytes, below)) else below


def _bytes(term: Term) -> int:
    return NUMBERS.value(bytes_of(term.type))


def _names(terms: Sequence[Term]) -> Iterable[str]:
    """The names of inputs, and new ones for what the whole program has no name for."""
    names_used = {term.parameter("name") for term in terms if term.operator is INPUT}
    for place, term in enumerate(terms):
        name = term.parameter("name") if term.operator is INPUT else f"part{place}"
        while term.operator is not INPUT and name in names_used:
            name += "_"
        names_used.add(name)
        yield name


def _parameters(term: Term) -> Hashable:
    """The parameters of `term`; of a kernel without its tiles, which are terms of the key
    themselves.
    """
    if term.operator is not RESULT:
        return term.parameters
    kernel = term.parameter("kernel")
    stores = tuple(maps for _, maps in kernel.outputs)
    return kernel.grid, kernel.range, stores, term.parameter("index")


MOST_INPUTS = 8
"""The most values that a piece may take."""
MOST_OUTPUTS = 3
"""The most values that a piece may give."""


def convex(
    program: Program,
    most_operators: int,
    *,
    searchable: Callable[[Term], bool] = lambda term: True,
    most_inputs: int = MOST_INPUTS,
    most_outputs: int = MOST_OUTPUTS,
) -> list[Subprogram]:
    """Every piece within these limits, once; equal pieces share their program.

    An operator that is not `searchable`, or that is a custom kernel already, is a piece of its own.
    Raises LabelError where the labels of the program's inputs contradict each other.
    """
    graph = dependencies(program, searchable)
    pieces = Subprograms(graph)
    sets, _ = convex_sets(graph, most_operators)
    cuts = within(pieces, sets, most_inputs, most_outputs)
    return [pieces.piece(boundary) for _, boundary in cuts]


def within(
    pieces: Subprograms,
    sets: Sequence[Bits],
    most_inputs: int,
    most_outputs: int,
    going: ShouldContinue = always_continue,
) -> Iterator[tuple[Bits, Boundary]]:
    """The sets that have not too many inputs and outputs; single operators in any case."""
    for members in sets:
        going("boundaries of pieces")
        boundary = pieces.boundary(members)
        few = len(boundary.inputs) <= most_inputs and len(boundary.outputs) <= most_outputs
        # A single operator is always offered, or some programs could not be partitioned at all.
        if few or members.bit_count() == 1:
            yield members, boundary


def convex_sets(
    graph: Dependencies,
    most_operators: int,
    most_each: int | None = None,
    going: ShouldContinue = always_continue,
) -> tuple[list[Bits], bool]:
    """Every convex, connected set with at most `most_operators` operators, once; and whether those
    are all.

    Of those of one size whose first operator is the same, at most `most_each` are kept and grown:
    those that keep the most bytes to themselves. A single operator is always a set.
    """
    weights = [_weight(graph, number) for number in range(len(graph.results))]
    members_found: list[Bits] = []
    whole = True
    for first in range(len(graph.results)):
        sets = _Sets(graph, most_operators, first)
        for size in range(1, most_operators + 1):
            going("pieces of a program")
            grown = sets.of_size(size)
            if most_each is not None and len(grown) > most_each:
                grown.sort(
                    key=lambda grown_set: (
                        -_kept(graph, weights, grown_set.members),
                        grown_set.members,
                    )
                )
                del grown[most_each:]
                whole = False
            members_found.extend(grown_set.members for grown_set in grown)
            sets.grow(grown)
    return members_found, whole


class _Grown(NamedTuple):
    """A set, with what all of its members together have to do with others."""

    members: Bits
    before: Bits
    after: Bits
    near: Bits
    """What a member takes the results of, or gives its own to."""


class _Sets:
    """The sets whose first operator is `first`, by size."""

    def __init__(self, graph: Dependencies, most: int, first: int) -> None:
        self._graph = graph
        self._most = most
        joinable = graph.all & ~graph.alone
        # Only larger operators may join, so a set comes up from its smallest operator alone.
        self._later = 0 if graph.alone >> first & 1 else joinable & -(2 << first)
        self._seen: set[Bits] = set()
        self._sizes: list[list[_Grown]] = [[] for _ in range(most + 1)]
        self._sizes[1].append(self._joined(_Grown(0, 0, 0, 0), 1 << first))

    def of_size(self, size: int) -> list[_Grown]:
        return self._sizes[size]

    def grow(self, grown: list[_Grown]) -> None:
        """Joins each set with each of its neighbours, and with all that is between."""
        for base in grown:
            for number in numbers(base.near & self._later & ~base.members):
                self._try(base, number)

    def _try(self, base: _Grown, number: int) -> None:
        graph = self._graph
        # What is before one of both and after one of both lies on a path between them: without it
        # the set would not be convex.
        between = (base.before | graph.before[number]) & (base.after | graph.after[number])
        added = (between | 1 << number) & ~base.members
        members = base.members | added
        # A set comes up from each of its neighbours. If closing it takes in an operator that is
        # smaller than the first, or alone, it is another seed's or none.
        if members in self._seen or added & ~self._later:
            return
        self._seen.add(members)
        size = members.bit_count()
        if size <= self._most:
            self._sizes[size].append(self._joined(base, added))

    def _joined(self, base: _Grown, added: Bits) -> _Grown:
        members, before, after, near = base
        for number in numbers(added):
            before |= self._graph.before[number]
            after |= self._graph.after[number]
            near |= self._graph.needs[number] | self._graph.feeds[number]
        return _Grown(members | added, before, after, near)


def _weight(graph: Dependencies, number: int) -> int:
    return sum(NUMBERS.value(bytes_of(term.type)) for term in graph.results[number])


def _kept(graph: Dependencies, weights: Sequence[int], members: Bits) -> int:
    """The bytes that no other operator ever sees."""
    # What leaves is written to memory, whoever reads it.
    inside = members & ~bits(graph.leaving(members))
    return sum(weights[number] for number in numbers(inside))
