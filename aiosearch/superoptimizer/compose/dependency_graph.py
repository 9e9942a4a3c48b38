"""The dependency graph of a program's operators; sets of operators are the bits of integers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from ...tensor import Kernel, Place, Program, Term
from ...tensor.analysis.cost import moves
from ...tensor.mugraph import LOAD, RESULT
from ...tensor.terms import INPUT

Bits: TypeAlias = int
"""A set of operators, by their numbers."""


@dataclass(frozen=True)
class Dependencies:
    """The operators of a program in an order in which they can run, and what each one needs.

    What moves elements is no operator, and neither is what depends on no input: both go along with
    what uses them. A custom kernel is one operator with several results.
    """

    program: Program
    results: tuple[tuple[Term, ...], ...]
    """The values that each operator gives, as far as the program uses them."""
    needs: tuple[Bits, ...]
    """What each operator takes the results of."""
    feeds: tuple[Bits, ...]
    """What takes the results of each operator."""
    before: tuple[Bits, ...]
    """All that has to run before each operator."""
    after: tuple[Bits, ...]
    """All that has to wait for each operator."""
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
        return (1 << len(self.results)) - 1

    def leaving(self, members: Bits) -> Iterator[int]:
        """The members of a set whose results are of use outside."""
        for number in numbers(members):
            if self.feeds[number] & ~members or self.returned >> number & 1:
                yield number


def dependencies(program: Program, searchable: Callable[[Term], bool]) -> Dependencies:
    """Finds what needs what; custom kernels stand alone, and so does what cannot be searched."""
    found = _Found(program)
    alone = [
        number
        for number, results in enumerate(found.results)
        if results[0].operator is RESULT or not searchable(results[0])
    ]
    return Dependencies(
        program,
        tuple(map(tuple, found.results)),
        tuple(found.needs),
        tuple(_turned(found.needs)),
        tuple(_closed(found.needs, range(len(found.needs)))),
        tuple(_closed(_turned(found.needs), reversed(range(len(found.needs))))),
        found.union(program.outputs),
        bits(alone),
        found.sources,
        frozenset(found.constant),
    )


class _Found:
    def __init__(self, program: Program) -> None:
        self.results: list[list[Term]] = []
        self.needs: list[Bits] = []
        self.sources: dict[Term, Bits] = {}
        self.constant: set[Term] = set()
        self._kernels: dict[Kernel, int] = {}
        for term in program.terms():
            if term.place in (Place.DEVICE, Place.ANYWHERE):
                self._add(term)

    def _add(self, term: Term) -> None:
        operands = operands_of(term)
        if term.operator is INPUT:
            self.sources[term] = 0
        elif term.operator is not RESULT and self.constant.issuperset(operands):
            self.constant.add(term)
            self.sources[term] = 0
        elif moves(term):
            self.sources[term] = self.union(operands)
        else:
            self.sources[term] = 1 << self._number(term, operands)

    def _number(self, term: Term, operands: Iterable[Term]) -> int:
        if term.operator is RESULT:
            known = self._kernels.setdefault(term.parameter("kernel"), len(self.results))
            if known < len(self.results):
                self.results[known].append(term)
                return known
        self.results.append([term])
        self.needs.append(self.union(operands))
        return len(self.results) - 1

    def union(self, terms: Iterable[Term]) -> Bits:
        found = 0
        for term in terms:
            found |= self.sources[term]
        return found


def operands_of(term: Term) -> tuple[Term, ...]:
    """The values in the device's memory that a term is computed from."""
    if term.operator is not RESULT:
        return term.arguments
    body = term.parameter("kernel").body
    return tuple(dict.fromkeys(tile.arguments[0] for tile in body if tile.operator is LOAD))


def _turned(edges: list[Bits]) -> list[Bits]:
    found = [0] * len(edges)
    for number, needed in enumerate(edges):
        for other in numbers(needed):
            found[other] |= 1 << number
    return found


def _closed(edges: list[Bits], order: Iterable[int]) -> list[Bits]:
    """What edges lead to in any number of steps; in this order, each comes after where it leads."""
    found = [0] * len(edges)
    for number in order:
        found[number] = edges[number]
        for other in numbers(edges[number]):
            found[number] |= found[other]
    return found


def numbers(found: Bits) -> Iterator[int]:
    """The members of a set, in order."""
    while found:
        yield lowest(found)
        found &= found - 1


def lowest(found: Bits) -> int:
    """The first member of a set that has one."""
    return (found & -found).bit_length() - 1


def bits(members: Iterable[int]) -> Bits:
    found = 0
    for number in members:
        found |= 1 << number
    return found
