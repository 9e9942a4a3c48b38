"""Conditions under which infinite values stay defined in a proof.

Infinity is read as a number like any other. What holds for all of them holds in the limit, unless
an operator has none there: those are needs, which only the same operation of the original meets.
"""

from __future__ import annotations

from .arithmetic import negated, of_base
from .conditions import Need, Scalar, needing
from .normal_form import Base, FunctionCall, Maximum, Poly, SumBase, positive

FINITE_CALLS = frozenset(("tanh", "erf"))
OPAQUE = " of infinity"
"""Ends the names of comparisons that nothing else is known of."""


def is_infinite(a: Scalar) -> bool:
    """Whether it may be infinite, or a limit such as exp(-inf) that no real number gives."""
    wanted = any(need is Need.FINITE for need, _ in a.demands.by_key.values())
    return wanted and _endless(a.poly)


def _endless(a: Poly) -> bool:
    return any(
        any(_base(base) for base, _ in term.factors)
        or (term.exponent is not None and _endless(term.exponent))
        for term in a.terms
    )


def _base(base: Base) -> bool:
    if isinstance(base, FunctionCall):
        if base.name in FINITE_CALLS or base.name.endswith(OPAQUE):
            return False
        return base.name == "infinity" or any(map(_endless, base.arguments))
    if isinstance(base, SumBase):
        return _endless(base.poly)
    return isinstance(base, Maximum) and any(_endless(poly) for _, poly in base.items)


def sum_of(found: Scalar, a: Scalar, b: Scalar) -> Scalar:
    """∞ - ∞ has no limit."""
    return _limited(found, "sum", a, b) if is_infinite(a) and is_infinite(b) else found


def product_of(found: Scalar, a: Scalar, b: Scalar) -> Scalar:
    """0·∞ has no limit."""
    if (is_infinite(a) and not _far_from_zero(b)) or (is_infinite(b) and not _far_from_zero(a)):
        return _limited(found, "product", a, b)
    return found


def quotient_of(found: Scalar, a: Scalar, b: Scalar) -> Scalar:
    """∞/∞ has no limit; nor has 0/exp(-∞)."""
    return _limited(found, "quotient", a, b) if is_infinite(b) and not _far_from_zero(a) else found


def total_of(summand: Scalar) -> Scalar:
    """A sum may run over ∞ and -∞."""
    return _limited(summand, "total", summand) if is_infinite(summand) else summand


def function_of(found: Scalar, name: str, *operands: Scalar) -> Scalar:
    """A function of which no limits are known."""
    if name in FINITE_CALLS or not any(map(is_infinite, operands)):
        return found
    return _limited(found, name, *operands)


def _far_from_zero(a: Scalar) -> bool:
    """Whether it is a real number other than zero."""
    return not is_infinite(a) and (positive(a.poly) or positive(negated(a.poly)))


def _limited(found: Scalar, what: str, *operands: Scalar) -> Scalar:
    return needing(found, Need.LIMIT, of_base(FunctionCall(what, [one.poly for one in operands])))
