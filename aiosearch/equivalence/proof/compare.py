"""Proves that two programs over symbolic sizes are equal, element by element."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ...tensor.evaluation.evaluate import evaluate
from ...tensor.terms import Program
from . import z3_reals
from .arithmetic import collect, minus, multiply, of_base, raised
from .conditions import NOTHING, Conditions, Need, Scalar
from .elements import ElementAlgebra, IndexedTensor
from .indices import (
    CASES,
    CasesNeeded,
    IndexSum,
    Names,
    SplitNeeded,
    Unprovable,
    Var,
    digits,
    ranges,
)
from .normal_form import ONE, Monomial, Poly, SumBase, assuming
from .rules import Rule, fire, recorded
from .sums import fused, joined

CLEARINGS = 4
SHORT = 5
"""Sums over at most so many places are written out, where a proof fails otherwise."""


@dataclass(frozen=True)
class Proof:
    """Whether a proof was found; if not, what stood in the way."""

    proved: bool
    rules: tuple[Rule, ...] = ()
    obstacle: str = ""

    def __str__(self) -> str:
        if not self.proved:
            return f"none found: {self.obstacle}"
        count = len(self.rules)
        told = f"found, by {count} rule{'s' * (count != 1)}"
        return told + "".join(f"\n      {rule}" for rule in self.rules)

    def to_dict(self) -> dict[str, Any]:
        if not self.proved:
            return {"proved": False, "obstacle": self.obstacle}
        return {"proved": True, "rules": [rule.value for rule in self.rules]}


def prove(a: Program, b: Program, values: Mapping[str, int]) -> Proof:
    """Proves that `b` equals `a`, at all sizes that the names may take.

    Both are read as functions of real numbers, and compared wherever `a` is one. Where floats go
    on after a division by zero, only running them can tell.
    """
    with recorded() as rules:
        try:
            for number in range(len(a.outputs)):
                obstacle = _ProvedOutput(a, b, values, number).obstacle()
                if obstacle:
                    return Proof(False, (), f"output {number}: {obstacle}")
        except Unprovable as error:
            return Proof(False, (), str(error))
        except RecursionError:
            return Proof(False, (), "the program is too deep")
        return Proof(True, tuple(sorted(rules)))


class _ProvedOutput:
    """One output of both programs, element by element."""

    def __init__(self, a: Program, b: Program, values: Mapping[str, int], number: int) -> None:
        self._programs = a, b
        self._values = values
        self._number = number
        self._unrolled = 1

    def obstacle(self) -> str:
        """What stands in the way of a proof; empty where there is one."""
        try:
            obstacle = self._attempt()
        except Unprovable as error:
            obstacle = str(error)
        if obstacle and self._has_short_sums():
            self._unrolled = SHORT
            try:
                return self._attempt() and obstacle
            except Unprovable:
                return obstacle
        return obstacle

    def _has_short_sums(self) -> bool:
        """Whether some axis has few places at all shapes."""
        sizes = {
            size for program in self._programs for term in program.terms() for size in term.shape
        }
        return any(isinstance(size, int) and 1 < size <= SHORT for size in sizes)

    def _attempt(self) -> str:
        ours, theirs = self._read()
        if ours.shape != theirs.shape:
            return f"shapes {list(ours.shape)} and {list(theirs.shape)}"
        if any(size == 0 for size in ours.shape):
            return ""
        free = [Var(size) for size in ours.shape]
        work = [(tuple(IndexSum.of(var) for var in free), tuple(free))]
        for _ in range(CASES):
            if not work:
                return ""
            indices, vars_ = work.pop()
            try:
                obstacle = self._case(ours, theirs, indices, vars_)
                if obstacle:
                    return obstacle
            except SplitNeeded as split:
                work.append(digits(indices, vars_, split))
            except CasesNeeded as cases:
                work += ranges(indices, vars_, cases)
        return "too many cases"

    def _read(self) -> tuple[IndexedTensor, IndexedTensor]:
        """Both outputs as functions of indices."""
        algebra = ElementAlgebra(self._values, self._unrolled)
        a, b = self._programs
        inputs = [algebra.input(term.parameter("name"), term.shape) for term in a.inputs]
        outputs = (evaluate(program, algebra, inputs)[self._number] for program in (a, b))
        return next(outputs), next(outputs)

    def _case(
        self,
        ours: IndexedTensor,
        theirs: IndexedTensor,
        indices: Sequence[IndexSum],
        free: Sequence[Var],
    ) -> str:
        """Compares one element; then once more with what the first is seen to need."""
        first = ours.at(indices)
        obstacle = _elements(first, theirs.at(indices), free)
        needed = _signs(first.sure) if obstacle else frozenset()
        if not needed:
            return obstacle
        with assuming(needed):
            one, two = self._read()
            again = _elements(one.at(indices), two.at(indices), free, first.sure)
        return obstacle if again else ""


def _signs(conditions: Conditions) -> frozenset[str]:
    """The bases that cannot be below zero where these conditions hold."""
    found: set[str] = set()
    for need, poly in conditions.by_key.values():
        if need is Need.NONNEGATIVE and len(poly.terms) == 1:
            term = poly.terms[0]
            if term.number > 0 and len(term.factors) == 1 and term.factors[0][1] == 1:
                found.add(term.factors[0][0].key({}))
    return frozenset(found)


def _elements(
    ours: Scalar, theirs: Scalar, free: Sequence[Var], known_before: Conditions = NOTHING
) -> str:
    known = ours.sure.and_(known_before)
    if not equal_reals(ours.poly, theirs.poly, known):
        names = {var: f"i{number}" for number, var in enumerate(free)}
        return f"{_short(ours.poly, names)} is not seen to be {_short(theirs.poly, names)}"
    unmet = _unmet(known, theirs.demands, free)
    return f"the second needs {unmet}, which the first does not" if unmet else ""


def equal(a: Poly, b: Poly) -> bool:
    """Whether two expressions are the same wherever both are defined."""
    if a.key({}) == b.key({}):
        return True
    rest = minus(a, b)
    for _ in range(CLEARINGS):
        if not rest.terms:
            return True
        below = _denominator(rest)
        if below is None:
            return False
        fire(Rule.COMMON_DENOMINATOR)
        rest = cleared(rest, *below)
    return not rest.terms


def equal_reals(a: Poly, b: Poly, known: Conditions) -> bool:
    """As `equal`, with z3's help where maxima, signs and choices are met."""
    if equal(a, b):
        return True
    if not z3_reals.worth_asking(a, b) or not z3_reals.same(a, b, known):
        return False
    fire(Rule.Z3)
    return True


def _denominator(a: Poly) -> tuple[SumBase, int] | None:
    """A sum that divides some summand, and how often at most."""
    for term in a.terms:
        for base, power in term.factors:
            if isinstance(base, SumBase) and power < 0 and not base.vars.intersection(term.bound):
                key = base.key({})
                most = max(
                    -own
                    for other in a.terms
                    for one, own in other.factors
                    if own < 0 and one.key({}) == key
                )
                return base, -int(-most // 1)
    return None


def cleared(a: Poly, base: SumBase, power: int) -> Poly:
    """Multiplies by a power of a sum, so that it divides no summand any more."""
    divided, spread = of_base(base, Fraction(power)), raised(base.poly, Fraction(power))
    key = base.key({})
    found: list[Monomial] = []
    for term in a.terms:
        below = any(one.key({}) == key for one, _ in term.factors)
        found += multiply(Poly((term,)), divided if below else spread).terms
    return collect(found)


def _unmet(sure: Conditions, demands: Conditions, free: Sequence[Var]) -> str:
    """A demand that is not known to hold; one on a range follows from those on its parts."""
    names = {var: f"i{number}" for number, var in enumerate(free)}
    for need in Need:
        ours, theirs = (
            [fused(_for_all(p, free)) for own, p in conditions.by_key.values() if own is need]
            for conditions in (sure, demands)
        )
        known = {fused(term).key({}) for term in (*ours, *joined(ours))}
        for term in joined([term for term in theirs if term.key({}) not in known]):
            if fused(term).key({}) not in known:
                return f"{_short(Poly((term,)), names)} {need}"
    return ""


def _for_all(poly: Poly, free: Sequence[Var]) -> Monomial:
    """A condition on all values of what is not free: written as a sum, it has a sum's text."""
    forall = [var for var in poly.vars if var not in free]
    return Monomial(ONE, (), ((SumBase(poly), ONE),), None, forall)


def _short(a: Poly, names: Names, limit: int = 160) -> str:
    text = a.key(names)
    return text if len(text) <= limit else f"{text[:limit]}…"
