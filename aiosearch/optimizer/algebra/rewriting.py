"""A search over equal programs: from the original, one rule at a time, the cheapest first."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from msgspec import Struct

from ...tensor import Program, ShapeError, Term
from ...tensor.files import from_json, to_json
from ...tensor.rebuild import substituted
from . import contractions as _contractions
from . import functions as _functions
from . import movement as _movement
from . import rows as _rows
from . import scaling as _scaling
from .estimate import estimate, worth
from .rules import fits, rewritten
from .tidying import Tidier

_DEARER = 1.6
"""Programs dearer than this are no way to anywhere."""
_DEARER_BY_WEIGHTS = 2.2
"""Nor are these where weights may be merged: a product more is on the way to one less."""
_MORE_TERMS = 24
"""Nor are those with more than twice the terms, and these."""


class Step(Struct, frozen=True):
    """A program, and the rules that led to it."""

    program: bytes
    """As JSON."""
    cost: float
    """Estimated microseconds."""
    trail: tuple[str, ...]


@dataclass(frozen=True)
class Rewriting:
    """Programs equal to one by the rules; its answers are those estimated to be cheaper."""

    original: bytes
    """As JSON."""
    constant: tuple[int, ...] = ()
    """The inputs that stay the same: what they alone have a say in costs nothing."""

    def root(self) -> Step:
        """Gives the original in its simplest form."""
        return self._step(self._tidier.program(self._program), ())

    def expand(self, node: Step) -> Iterator[Step]:
        """Gives every program one rule away."""
        program = self._read(node.program)
        seen = {program}
        for name, found in neighbours(program, self._tidier):
            if found not in seen:
                seen.add(found)
                step = self._step(found, (*node.trail, name))
                if self._promising(found, step):
                    yield step

    def solutions(self, node: Step) -> tuple[Step, ...]:
        """Gives the program, where it is cheaper."""
        return (node,) if node.cost <= self._worth else ()

    def cost(self, solution: Step) -> float:
        """Gives its estimated time."""
        return solution.cost

    def priority(self, node: Step) -> float:
        """Gives its estimated time: the cheapest comes first, and of such the nearest."""
        return node.cost * (1 + 0.002 * len(node.trail))

    def key(self, node: Step) -> bytes:
        """Names the program, whatever way led to it."""
        return identity(self._read(node.program))

    def _step(self, program: Program, trail: tuple[str, ...]) -> Step:
        return Step(to_json(program), round(estimate(program, self.constant), 4), trail)

    def _promising(self, program: Program, step: Step) -> bool:
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
