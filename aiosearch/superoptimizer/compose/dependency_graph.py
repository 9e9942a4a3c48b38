"""The dependency graph of a program's operators; sets of operators are the bits of integers.

Worked example: `exp(x) / sum(exp(x))` has the operators 0 (exp), 1 (sum) and 2 (div), with `needs`
= (0b000, 0b001, 0b011), `feeds` = (0b110, 0b100, 0b000) and `before` = (0b000, 0b001, 0b011).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from ...tensor import Kernel, Place, Program, Term
from ...tensor.analysis.cost import moves
from ...tensor.mugraph import LOAD, RESULT
from ...tensor.terms import INPUT

Bits: TypeAlias = int
"""A set of operators: bit `n` is the operator `n`."""


@dataclass(frozen=True)
class Dependencies:
    """The operators of a program in an order in which they can run, and what each of them needs.

    What moves elements is no operator, and neither is what depends on no input: both go along with
    what uses them. A custom kernel is one operator with several results.
    """

    program: Program
    results: tuple[tuple[Term, ...], ...]
    """The values that each operator gives, as far as the program uses them."""
    needs: tuple[Bits, ...]
    """The operators whose results each operator takes."""
    feeds: tuple[Bits, ...]
    """The operators that take the results of each operator."""
    before: tuple[Bits, ...]
    """All operators that have to run before each operator."""
    after: tuple[Bits, ...]
    """All operators that have to wait for each operator."""
    returned: Bits
    """The operators whose results the program returns, moved or as they are."""
    alone: Bits
    """The operators that may not be joined with others."""
    sources: dict[Term, Bits]
    """The operators whose results a value is or is moved from."""
    constant: frozenset[Term]
    """The values that depend on no input."""

    @property
    def all(self) -> Bits:
        """The set of all operators."""
        return (1 << len(self.results)) - 1

    def leaving(self, members: Bits) -> Iterator[int]:
        """The operators of `members` whose results are used outside the set."""
        for number in numbers(members):
            if self.feeds[number] & ~members or self.returned >> number & 1:
                yield number


def dependencies(program: Program, searchable: Callable[[Term], bool]) -> Dependencies:
    """Finds what needs what; custom kernels stand alone, and so does what is not `searchable`."""
    builder = _DependencyBuilder(program)
    alone = [
        number
        for number, results in enumerate(builder.results)
        if results[0].operator is RESULT or not searchable(results[0])
    ]
    return Dependencies(
        program,
        tuple(map(tuple, builder.results)),
        tuple(builder.needs),
        tuple(_reversed_edges(builder.needs)),
        # Operators are numbered in an order in which they can run, so their needs have smaller
        # numbers: closing in that order, and over `feeds` in the reverse, takes one pass.
        tuple(_transitive_closure(builder.needs, range(len(builder.needs)))),
        tuple(
            _transitive_closure(_reversed_edges(builder.needs), reversed(range(len(builder.needs))))
        ),
        builder.union(program.outputs),
        bits(alone),
        builder.sources,
        frozenset(builder.constant),
    )


class _DependencyBuilder:
    def __init__(self, program: Program) -> None:
        self.results: list[list[Term]] = []
        self.needs: list[Bits] = []
        self.sources: dict[Term, Bits] = {}
        self.constant: set[Term] = set()
        self._kernels: dict[Kernel, int] = {}
        for term in program.terms():
            # Terms inside of kernels belong to these, and are in no graph.
            if term.place in (Place.DEVICE, Place.ANYWHERE):
                self._add(term)

    def _add(self, term: Term) -> None:
        operands = operands_of(term)
        if term.operator is INPUT:
            self.sources[term] = 0
        # A value without operands, such as a literal, is constant too: the empty set is a subset.
        elif term.operator is not RESULT and self.constant.issuperset(operands):
            self.constant.add(term)
            self.sources[term] = 0
        elif moves(term):
            self.sources[term] = self.union(operands)
        else:
            self.sources[term] = 1 << self._number(term, operands)

    def _number(self, term: Term, operands: Iterable[Term]) -> int:
        if term.operator is RESULT:
            # The results of a kernel are terms of their own, but one operator: they are stored
            # together.
            operator = self._kernels.setdefault(term.parameter("kernel"), len(self.results))
            if operator < len(self.results):
                self.results[operator].append(term)
                return operator
        self.results.append([term])
        self.needs.append(self.union(operands))
        return len(self.results) - 1

    def union(self, terms: Iterable[Term]) -> Bits:
        union = 0
        for term in terms:
            union |= self.sources[term]
        return union


def operands_of(term: Term) -> tuple[Term, ...]:
    """The values in the device's memory that `term` is computed from."""
    if term.operator is not RESULT:
        return term.arguments
    body = term.parameter("kernel").body
    return tuple(dict.fromkeys(tile.arguments[0] for tile in body if tile.operator is LOAD))


def _reversed_edges(edges: list[Bits]) -> list[Bits]:
    """The edges in the other direction."""
    reversed_edges = [0] * len(edges)
    for number, needed in enumerate(edges):
        for operand in numbers(needed):
            reversed_edges[operand] |= 1 << number
    return reversed_edges


def _transitive_closure(edges: list[Bits], order: Iterable[int]) -> list[Bits]:
    """What `edges` lead to in any number of steps; in `order`, each operator comes after where it
    leads.
    """
    closure = [0] * len(edges)
    for number in order:
        closure[number] = edges[number]
        for reached in numbers(edges[number]):
            closure[number] |= closure[reached]
    return closure


def numbers(members: Bits) -> Iterator[int]:
    """The members of a set, in ascending order: `list(numbers(0b110))` is `[1, 2]`."""
    while members:
        yield lowest(members)
        members &= members - 1


def lowest(members: Bits) -> int:
    """The first member of a set that is not empty."""
    # A number and its negative share the lowest set bit and nothing above it.
    return (members & -members).bit_length() - 1


def bits(members: Iterable[int]) -> Bits:
    """The set of these members: `bits([1, 2])` is `0b110`."""
    union = 0
    for number in members:
        union |= 1 << number
    return union
