"""Equality of normal forms as a question to z3 about real numbers.

Elements, sums and functions become unknowns; products, quotients, roots, maxima, absolute values,
comparisons and choices keep their meaning. `max(x, y) + min(x, y) = x + y`, for example, becomes a
question about two unknowns. z3's "unsat" to a counterexample is a proof; anything else says
nothing.

Invariant: unknowns only generalise, so that what holds for all their values holds for the program.
Cost: at most `WORK` resource units and `PATIENCE_MS` milliseconds. See docs/why/verdicts.md.
"""

from __future__ import annotations

from fractions import Fraction
from types import ModuleType
from typing import Any, TypeAlias

from .conditions import Conditions, Need
from .normal_form import Base, FunctionCall, Maximum, Monomial, Poly, SumBase, base_positive

WORK = 400_000
"""The resource limit (`rlimit`) of a query; it is deterministic, unlike time."""
PATIENCE_MS = 2000
"""The time limit in milliseconds, for goals whose units are slow."""
KNOWN = frozenset(("abs", "select", "<", "<=", "==", "!="))
"""Names of `FunctionCall` that `_RealsReader` translates."""


def worth_asking(*polys: Poly) -> bool:
    """Whether z3 knows more than normal forms do of something in `polys`."""
    return any(_interesting(poly) for poly in polys)


def _interesting(a: Poly) -> bool:
    """Whether a maximum or a call of `KNOWN` occurs in `a`."""
    for term in a.terms:
        for base, _ in term.factors:
            if isinstance(base, Maximum):
                return True
            if isinstance(base, FunctionCall) and (
                base.name in KNOWN or any(_interesting(argument) for argument in base.arguments)
            ):
                return True
            if isinstance(base, SumBase) and _interesting(base.poly):
                return True
    return False


def same(a: Poly, b: Poly, facts: Conditions) -> bool:
    """Whether z3 proves that no real numbers tell `a` from `b`, where `facts` hold.

    Roots and quotients may be anything where they are not defined: what is in a branch, or a factor
    of zero, need not be defined.
    """
    # Loaded here: z3 takes longer to load than most proofs take.
    import z3

    reader = _RealsReader(z3)
    left, right = reader.poly(a), reader.poly(b)
    for need, poly in facts.by_key.values():
        if need is Need.NONZERO:
            reader.facts.append(reader.poly(poly) != 0)
        elif need is Need.NONNEGATIVE:
            reader.facts.append(reader.poly(poly) >= 0)
    # Nonlinear goals go to the solver for polynomial arithmetic; linear ones are faster by the
    # default one.
    solver = z3.SolverFor("QF_NRA") if reader.products else z3.Solver()
    solver.set("rlimit", WORK)
    solver.set("timeout", PATIENCE_MS)
    solver.add(*reader.facts)
    solver.add(left != right)
    return bool(solver.check() == z3.unsat)


Z3Term: TypeAlias = Any
"""A formula or number of z3, whose binding ships no types."""


class _RealsReader:
    """Writes expressions as z3 terms; what it cannot read is an unknown, one for each text."""

    def __init__(self, z3: ModuleType) -> None:
        self._z3 = z3
        self._known: dict[str, Z3Term] = {}
        self.facts: list[Z3Term] = []
        self.products = False

    def poly(self, a: Poly) -> Z3Term:
        """The z3 term of a sum."""
        total = self._z3.RealVal(0)
        for term in a.terms:
            total = total + self._number(term.number) * self._term(term)
        return total

    def _number(self, number: Fraction) -> Z3Term:
        """The z3 literal of a rational number, exactly."""
        return self._z3.RealVal(f"{number.numerator}/{number.denominator}")

    def _unknown(self, text: str) -> Z3Term:
        """The z3 variable that stands for `text`."""
        if text not in self._known:
            self._known[text] = self._z3.Real(f"u{len(self._known)}")
        return self._known[text]

    def _term(self, term: Monomial) -> Z3Term:
        """The z3 term of a summand; a summation as a whole is an unknown."""
        # The text names bound variables canonically, so that equal sums are one unknown.
        if term.bound:
            return self._unknown(term.key({}))
        result = self._z3.RealVal(1)
        for name, power in term.sizes:
            size = self._unknown(f"size {name}")
            # Sizes are at least one; that is what lets n/n be 1.
            self.facts.append(size >= 1)
            result = result * self._power(size, power, f"size {name}")
        for base, power in term.factors:
            value = self._base(base)
            if base_positive(base):
                self.facts.append(value > 0)
            result = result * self._power(value, power, base.key({}))
        if term.exponent is not None:
            value = self._unknown(f"exp {term.exponent.key({})}")
            self.facts.append(value > 0)
            result = result * value
        self.products = self.products or len(term.factors) > 1
        return result

    def _power(self, value: Z3Term, power: Fraction, text: str) -> Z3Term:
        """`value` to a whole or half power; other powers are unknowns."""
        if power.denominator == 2:
            root = self._unknown(f"root {text}")
            is_root = self._z3.And(root >= 0, root * root == value)
            # The root is an unknown r with r >= 0 and r·r = value. The facts hold only where the
            # radicand is not negative: elsewhere r is arbitrary, not contradictory.
            self.facts.append(self._z3.Implies(value >= 0, is_root))
            self.products = True
            return self._power(root, power * 2, f"root {text}")
        if power.denominator != 1:
            return self._unknown(f"({text})^{power}")
        result = self._z3.RealVal(1)
        for _ in range(abs(power.numerator)):
            result = result * value
        if power > 0:
            return result
        self.products = True
        # Guarded like the root: without the guard, value = 0 would contradict inverse·value = 1,
        # and prove anything.
        inverse = self._unknown(f"1/({text})^{-power}")
        self.facts.append(self._z3.Implies(value != 0, inverse * result == 1))
        return inverse

    def _base(self, base: Base) -> Z3Term:
        """The z3 term of a base; an unknown for elements and for maxima over variables."""
        if isinstance(base, SumBase):
            return self.poly(base.poly)
        if isinstance(base, Maximum) and not any(bound for bound, _ in base.items):
            values = [self.poly(poly) for _, poly in base.items]
            return self._largest(values)
        if isinstance(base, FunctionCall) and base.name in KNOWN:
            return self._call(base)
        return self._unknown(base.key({}))

    def _largest(self, values: list[Z3Term]) -> Z3Term:
        """The maximum of z3 terms, as nested choices."""
        result = values[0]
        for value in values[1:]:
            result = self._z3.If(result >= value, result, value)
        return result

    def _call(self, call: FunctionCall) -> Z3Term:
        """The z3 term of a function in `KNOWN`."""
        values = [self.poly(argument) for argument in call.arguments]
        if call.name == "abs":
            return self._largest([values[0], -values[0]])
        if call.name == "select":
            return self._z3.If(values[0] != 0, values[1], values[2])
        truth = {
            "<": values[0] < 0,
            "<=": values[0] <= 0,
            "==": values[0] == 0,
            "!=": values[0] != 0,
        }[call.name]
        return self._z3.If(truth, self._z3.RealVal(1), self._z3.RealVal(0))
