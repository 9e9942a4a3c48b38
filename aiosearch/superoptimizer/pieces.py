"""Parts of a program as programs of their own, equal ones as one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..tensor import Program, Term, tensor, walk
from ..tensor.cost import moves
from ..tensor.labels import labels_of
from ..tensor.mugraph import RESULT
from ..tensor.operator import NUMBERS
from ..tensor.rebuild import replaced
from ..tensor.terms import INPUT, bytes_of
from .dependencies import Bits, Dependencies, numbers, operands_of

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
class Piece:
    """A part of a program as a program of its own: one object for parts that are equal.

    The parts differ in what the inputs and outputs stand for in the whole program.
    """

    program: Program
    inputs: tuple[Term, ...]
    outputs: tuple[Term, ...]


class Pieces:
    """Cuts sets of operators out of a program."""

    def __init__(self, graph: Dependencies) -> None:
        self._graph = graph
        self._labels = labels_of(graph.program)
        self._declared = {
            label for one in graph.program.inputs for label in one.parameter("labels") if label
        }
        self._programs: dict[Key, Program] = {}

    def boundary(self, members: Bits) -> Boundary:
        """Where a set is cut off.

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
                if graph.sources[term] & members and moves(term):
                    stack.extend(term.arguments)
        return {term for term in seen if not graph.sources[term] & members} - graph.constant

    def piece(self, boundary: Boundary) -> Piece:
        """Cuts there; a program that was cut before is not made again."""
        key = self.key(boundary)
        if key not in self._programs:
            self._programs[key] = self._program(boundary)
        return Piece(self._programs[key], boundary.inputs, boundary.outputs)

    def _program(self, boundary: Boundary) -> Program:
        names = _names(boundary.inputs)
        inputs = [
            tensor(name, term.dtype, term.shape, self._labelled(term))
            for name, term in zip(names, boundary.inputs, strict=True)
        ]
        outputs = replaced(boundary.outputs, dict(zip(boundary.inputs, inputs, strict=True)))
        return Program(self._graph.program.name, tuple(inputs), outputs)

    def _labelled(self, term: Term) -> tuple[str | None, ...]:
        """The labels that the program declares; not for the parts of an axis that was split."""
        labels = self._labels[term]
        return tuple(
            label if label in self._declared and labels.count(label) == 1 else None
            for label in labels
        )

    def key(self, boundary: Boundary) -> Key:
        """What is computed there, whatever it is called."""
        places: dict[Term, int] = {}
        lines: list[tuple[Any, ...]] = []
        called: dict[str | None, int] = {None: 0}
        for term in boundary.inputs:
            places[term] = len(places)
            labels = [called.setdefault(one, len(called)) for one in self._labelled(term)]
            lines.append((term.type, *labels))
        for term in walk(boundary.outputs, stop=places.keys()):
            if term not in places:
                places[term] = len(places)
                operands = [places[argument] for argument in term.arguments]
                lines.append((term.operator.name, _parameters(term), *operands))
        return (*lines, tuple(places[term] for term in boundary.outputs))


def _least(operands: set[Term]) -> set[Term]:
    """The fewest bytes that the operands can be moved from, as near to them as that allows."""
    moved: defaultdict[Term, dict[Term, None]] = defaultdict(dict)
    roots = dict.fromkeys(_chain(operand, moved) for operand in operands)
    return {term for root in roots for term in _cheapest(root, operands, moved)}


def _chain(term: Term, moved: defaultdict[Term, dict[Term, None]]) -> Term:
    """What a term is moved from at first; notes what is moved from what on the way."""
    while len(term.arguments) == 1 and moves(term):
        (source,) = term.arguments
        moved[source][term] = None
        term = source
    return term


def _cheapest(
    term: Term, operands: set[Term], moved: defaultdict[Term, dict[Term, None]]
) -> list[Term]:
    if term in operands:
        return [term]
    below = [found for one in moved[term] for found in _cheapest(one, operands, moved)]
    return [term] if _bytes(term) < sum(map(_bytes, below)) else below


def _bytes(term: Term) -> int:
    return NUMBERS.value(bytes_of(term.type))


def _names(terms: Sequence[Term]) -> Iterable[str]:
    """The names of inputs, and new ones for what the whole program has no name for."""
    taken = {term.parameter("name") for term in terms if term.operator is INPUT}
    for place, term in enumerate(terms):
        name = term.parameter("name") if term.operator is INPUT else f"part{place}"
        while term.operator is not INPUT and name in taken:
            name += "_"
        taken.add(name)
        yield name


def _parameters(term: Term) -> Any:
    """A kernel's without its tiles, which are told as terms."""
    if term.operator is not RESULT:
        return term.parameters
    kernel = term.parameter("kernel")
    stores = tuple(maps for _, maps in kernel.outputs)
    return kernel.grid, kernel.range, stores, term.parameter("index")
