"""`improve`: a best-first search over programs equal by rewrite rules, the cheapest first.

A search over equal programs: from the original, one rule at a time, the cheapest first.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from typing import Any

from msgspec import Struct

from ...limits import Limits
from ...orders import BestFirst, Order
from ...problem import Problem
from ...search import solve
from ...tensor import Program, ShapeError, Term
from ...tensor.analysis.substitution import substituted
from ...tensor.files import from_json, to_json
from ...tensor.mugraph import RESULT
from .cost import estimate, worth
from .enumeration import EnumerationSearch, Recomputation
from .rules import functions as _functions
from .rules import movement as _movement
from .rules import products as _contractions
from .rules import rows as _rows
from .rules import scaling as _scaling
from .rules.registry import fits, rewritten
from .rules.simplification import Tidier

_DEARER = 1.6
"""Programs dearer than this are no way to anywhere."""
_DEARER_BY_WEIGHTS = 2.2
"""Nor are these where weights may be merged: a product more is on the way to one less."""
_MORE_TERMS = 24
"""Nor are those with more than twice the terms, and these."""


class RewrittenProgram(Struct, frozen=True):
    """A program, and the rules that led to it."""

    program: bytes
    """As JSON."""
    cost: float
    """Estimated microseconds."""
    trail: tuple[str, ...]


@dataclass(frozen=True)
class RewriteSearch:
    """Programs equal to one by the rules; its answers are those estimated to be cheaper."""

    original: bytes
    """As JSON."""
    constant: tuple[int, ...] = ()
    """The inputs that stay the same: what they alone have a say in costs nothing."""

    def root(self) -> RewrittenProgram:
        """Gives the original in its simplest form."""
        return self._step(self._tidier.program(self._program), ())

    def expand(self, node: RewrittenProgram) -> Iterator[RewrittenProgram]:
        """Gives every program one rule away."""
        program = self._read(node.program)
        seen = {program}
        for name, found in neighbours(program, self._tidier):
            if found not in seen:
                seen.add(found)
                step = self._step(found, (*node.trail, name))
                if self._promising(found, step):
                    yield step

    def solutions(self, node: RewrittenProgram) -> tuple[RewrittenProgram, ...]:
        """Gives the program, where it is cheaper."""
        return (node,) if node.cost <= self._worth else ()

    def cost(self, solution: RewrittenProgram) -> float:
        """Gives its estimated time."""
        return solution.cost

    def priority(self, node: RewrittenProgram) -> float:
        """Gives its estimated time: the cheapest comes first, and of such the nearest."""
        return node.cost * (1 + 0.002 * len(node.trail))

    def key(self, node: RewrittenProgram) -> bytes:
        """Names the program, whatever way led to it."""
        return identity(self._read(node.program))

    def _step(self, program: Program, trail: tuple[str, ...]) -> RewrittenProgram:
        return RewrittenProgram(to_json(program), round(estimate(program, self.constant), 4), trail)

    def _promising(self, program: Program, step: RewrittenProgram) -> bool:
        terms = sum(1 for _ in program.terms())
        return step.cost <= self._dearest and terms <= 2 * self._terms + _MORE_TERMS

    @cached_property
    def _program(self) -> Program:
        return from_json(self.original)

    @cached_property
    def _cost(self) -> float:
        return estimate(self._program, self.constant)

    @cached_property
    def _worth(self) -> float:
        return worth(self._cost, self.constant)

    @cached_property
    def _dearest(self) -> float:
        return (_DEARER_BY_WEIGHTS if self.constant else _DEARER) * self._cost

    @cached_property
    def _terms(self) -> int:
        return sum(1 for _ in self._program.terms())

    @cached_property
    def _tidier(self) -> Tidier:
        return Tidier()

    @cached_property
    def _recent(self) -> dict[bytes, Program]:
        return {}

    def _read(self, document: bytes) -> Program:
        """The program of a node; the one that was asked for last is kept."""
        found = self._recent.get(document)
        if found is None:
            self._recent.clear()
            found = self._recent[document] = from_json(document)
        return found


def neighbours(program: Program, tidier: Tidier) -> Iterator[tuple[str, Program]]:
    """The programs that one rule makes of it, each with the rule's name.

    Where a rule can be applied in several places, also what it makes of all of them.
    """
    places: dict[str, dict[Term, Term]] = {}
    single: list[tuple[str, dict[Term, Term]]] = []
    for term in program.terms():
        for name, found in rewritten(term):
            places.setdefault(name, {}).setdefault(term, found)
            single.append((name, {term: found}))
    several = [(name, changes) for name, changes in places.items() if len(changes) > 1]
    for name, changes in [*several, *single]:
        try:
            changed = tidier.program(substituted(program, changes))
        except ShapeError:
            continue
        if all(map(fits, changed.outputs, program.outputs)):
            yield name, changed


def identity(program: Program) -> bytes:
    """Names a program up to the order of operands that may change places."""
    names: dict[Term, bytes] = {}
    for term in program.terms():
        operands = [names[argument] for argument in term.arguments]
        if term.operator.commutative:
            operands.sort()
        text = repr((term.operator.name, term.parameters)).encode()
        names[term] = hashlib.blake2b(b"".join([text, *operands]), digest_size=16).digest()
    whole = b"".join(names[output] for output in program.outputs)
    return hashlib.blake2b(whole, digest_size=16).digest()


del _contractions, _functions, _movement, _rows, _scaling


pass


CANCELLING = frozenset({"sum_of_square", "distributed", "sum_of_sum", "sub"})
"""Rules and steps whose results may subtract large numbers that are nearly equal."""


def improve(
    program: Program,
    *,
    constant: tuple[int, ...] = (),
    seconds: float = 2.0,
    nodes: int | None = None,
    most: int = 8,
) -> list[Program]:
    """Programs estimated to be faster, the fastest first; yet to be verified.

    What the inputs at the places `constant` alone have a say in costs nothing.
    Searches in this process, until the time is spent, or the nodes by each search. Half of what is
    given came about without the rules and steps that may lose digits.
    """
    if not searchable(program):
        return []
    found = _Answers(program, constant, time.monotonic() + seconds, nodes)
    found.rewrite(found.original, 1 / 2)
    if not found.enumerate(found.best, 1 / 2):
        found.enumerate(found.original, 1)
    elif found.rewrite(found.best, 1 / 2):
        found.enumerate(found.best, 1)
    return found.chosen(most)


class _Answers:
    """What several searches have found, each going on from what those before it did."""

    def __init__(
        self, program: Program, constant: tuple[int, ...], until: float, nodes: int | None
    ) -> None:
        self.original = RewrittenProgram(to_json(program), estimate(program, constant), ())
        self._constant = constant
        self._until = until
        self._nodes = nodes
        self._found: dict[bytes, RewrittenProgram] = {}

    @property
    def best(self) -> RewrittenProgram:
        return min(self._found.values(), key=_order, default=self.original)

    def rewrite(self, start: RewrittenProgram, share: float) -> bool:
        """Searches by rules, for a share of the time that is left; whether anything is better."""
        return self._search(RewriteSearch(start.program, self._constant), BestFirst(), start, share)

    def enumerate(self, start: RewrittenProgram, share: float) -> bool:
        """Searches bottom up, for a share of the time that is left; whether anything is better."""
        problem = EnumerationSearch(start.program, self._constant)
        return self._search(problem, BestFirst(prune=True), start, share)

    def _search(
        self,
        problem: Problem[Any, RewrittenProgram | Recomputation],
        order: Order,
        start: RewrittenProgram,
        share: float,
    ) -> bool:
        left, before = self._until - time.monotonic(), self.best
        if left <= 0:
            return False
        limits = Limits(seconds=left * share, nodes=self._nodes)
        result = solve(problem, order=order, workers=0, limits=limits, cache=None)
        for one in result.solutions:
            self._add(from_json(one.program), (*start.trail, *one.trail))
        return self.best is not before

    def _add(self, program: Program, trail: tuple[str, ...]) -> None:
        tidy = Tidier().program(program)
        step = RewrittenProgram(to_json(tidy), round(estimate(tidy, self._constant), 4), trail)
        known = self._found.setdefault(identity(tidy), step)
        if _order(step) < _order(known):
            self._found[identity(tidy)] = step

    def chosen(self, most: int) -> list[Program]:
        """The fastest, and of those that lose no digits the fastest."""
        best = sorted(self._found.values(), key=_order)
        safe = [step for step in best if CANCELLING.isdisjoint(step.trail)]
        turns = [step for pair in zip_longest(best, safe) for step in pair if step is not None]
        chosen = list(dict.fromkeys(turns))[:most]
        return [from_json(step.program) for step in sorted(chosen, key=_order)]


def _order(step: RewrittenProgram) -> tuple[float, int]:
    return step.cost, len(step.trail)


def searchable(program: Program) -> bool:
    """Whether all sizes are known and nothing is a kernel already."""
    return all(
        term.operator is not RESULT and all(isinstance(size, int) for size in term.shape)
        for term in program.terms()
    )
