"""Names of what is summed over are no part of a normal form."""

from __future__ import annotations

from fractions import Fraction

from aiosearch.equivalence.proof.arithmetic import renamed
from aiosearch.equivalence.proof.indices import IndexSum, Var
from aiosearch.equivalence.proof.normal_form import ONE, Element, Maximum, Monomial, Poly, SumBase


def element(*vars_: Var) -> Element:
    return Element("x", [IndexSum.of(var) for var in vars_])


def summed(*vars_: Var, over: Var) -> Poly:
    return Poly([Monomial(ONE, (), [(element(*vars_), ONE)], None, [over])])


def test_a_sum_within_keeps_its_own_variable() -> None:
    """One variable bound twice is two: the outer one is renamed, the inner one is not."""
    row, column = Var(3), Var(4)
    within = SumBase(summed(row, column, over=column))
    both = [(element(row, column), ONE), (within, Fraction(-1))]
    term = Monomial(ONE, (), both, None, [row, column])
    other = Var(4)
    apart = [(element(row, column), ONE), (SumBase(summed(row, other, over=other)), Fraction(-1))]
    assert renamed(term).key({}) == term.key({})
    assert renamed(term).key({}) == Monomial(ONE, (), apart, None, [row, column]).key({})


def test_a_maximum_within_keeps_its_own_variable() -> None:
    """What a maximum runs over is not renamed with what a sum around it runs over."""
    row, column = Var(3), Var(4)
    top = Maximum([((column,), Poly([Monomial(ONE, (), [(element(row, column), ONE)])]))])
    term = Monomial(ONE, (), [(element(row, column), ONE), (top, ONE)], None, [row, column])
    assert renamed(term).key({}) == term.key({})


def test_variables_bound_at_three_depths_are_told_apart() -> None:
    """x[j, k] within is not x[k, j], whatever variables are bound further out."""
    row, one, two = Var(3), Var(3), Var(3)

    def nested(*order: Var) -> str:
        inner = SumBase(Poly([Monomial(ONE, (), [(element(row, *order), ONE)], None, [two])]))
        factors = [(element(row, one), ONE), (inner, Fraction(-1))]
        middle = SumBase(Poly([Monomial(ONE, (), factors, None, [one])]))
        outer = [(element(row, one), ONE), (middle, Fraction(-1))]
        return Monomial(ONE, (), outer, None, [row, one]).key({})

    assert nested(one, two) != nested(two, one)
