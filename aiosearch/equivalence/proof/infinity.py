"""Conditions under which infinite values stay defined in a proof.

Infinity is read as a number like any other, a symbol. What holds for all numbers holds in the
limit, unless an operator has no limit there, as ∞ - ∞ or 0·∞: those are needs (`Need.LIMIT`), which
only the same operation of the original meets. So `exp(select(m, x, -inf))` may be rewritten
wherever a rule holds for every number in the place of -inf.
"""

from __future__ import annotations

from .arithmetic import negated, of_base
from .conditions import Need, Scalar, needing
from .normal_form import Base, FunctionCall, Maximum, Poly, SumBase, positive

FINITE_CALLS = frozenset(("tanh", "erf"))
"""Functions whose limit at infinity is a number: tanh(∞) = 1."""
OPAQUE = " of infinity"
"""Ends the names of comparisons that nothing else is known of."""


def is_infinite(a: Scalar) -> bool:
    """Whether `a` may be infinite, or a limit such as exp(-∞) that no real number gives."""
    # A cheap test first: without the mark in its demands, no infinity went into the value.
    has_infinity = any(need is Need.FINITE for need, _ in a.demands.by_key.values())
    return has_infinity and _mentions_infinity(a.poly)


def infinite_sign(a: Poly) -> int:
    """1 or -1 where `a` is infinity itself or its negative; 0 for all else."""
    only = a.terms[0] if len(a.terms) == 1 else None
    if only is None or len(only.factors) != 1 or only.bound or only.sizes:
        return 0
    base, power = only.factors[0]
    plain = isinstance(base, FunctionCall) and base.name == "infinity" and not base.arguments
    return int(only.number) if plain and power == 1 and abs(only.number) == 1 else 0


def _mentions_infinity(a: Poly) -> bool:
    """Whether the symbol of infinity occurs in `a`, outside of functions that are finite there."""
    return any(
        any(_base_mentions_infinity(base) for base, _ in term.factors)
        or (term.exponent is not None and _mentions_infinity(term.exponent))
        for term in a.terms
    )


def _base_mentions_infinity(base: Base) -> bool:
    """Whether infinity occurs in a base; see `_mentions_infinity`."""
    if isinstance(base, FunctionCall):
        if base.name in FINITE_CALLS or base.name.endswith(OPAQUE):
            return False
        return base.name == "infinity" or any(map(_mentions_infinity, base.arguments))
    if isinstance(base, SumBase):
        return _mentions_infinity(base.poly)
    return isinstance(base, Maximum) and any(_mentions_infinity(poly) for _, poly in base.items)


def sum_of(scalar: Scalar, a: Scalar, b: Scalar) -> Scalar:
    """`scalar`, the sum of `a` and `b`: ∞ - ∞ has no limit."""
    return _limited(scalar, "sum", a, b) if is_infinite(a) and is_infinite(b) else scalar


def product_of(scalar: Scalar, a: Scalar, b: Scalar) -> Scalar:
    """`scalar`, the product of `a` and `b`: 0·∞ has no limit."""
    if (is_infinite(a) and not _far_from_zero(b)) or (is_infinite(b) and not _far_from_zero(a)):
        return _limited(scalar, "product", a, b)
    return scalar


def quotient_of(scalar: Scalar, a: Scalar, b: Scalar) -> Scalar:
    """`scalar`, the quotient of `a` and `b`: ∞/∞ has no limit, nor has 0/exp(-∞)."""
    return (
        _limited(scalar, "quotient", a, b) if is_infinite(b) and not _far_from_zero(a) else scalar
    )


def total_of(summand: Scalar) -> Scalar:
    """`summand` of a sum that may run over ∞ and -∞."""
    return _limited(summand, "total", summand) if is_infinite(summand) else summand


def function_of(scalar: Scalar, name: str, *operands: Scalar) -> Scalar:
    """`scalar`, a function of `operands` whose limits are not known."""
    if name in FINITE_CALLS or not any(map(is_infinite, operands)):
        return scalar
    return _limited(scalar, name, *operands)


def _far_from_zero(a: Scalar) -> bool:
    """Whether `a` is a real number other than zero for certain."""
    return not is_infinite(a) and (positive(a.poly) or positive(negated(a.poly)))


def _limited(scalar: Scalar, what: str, *operands: Scalar) -> Scalar:
    """`scalar`, under the need that operation `what` has a limit at these `operands`."""
    return needing(
        scalar, Need.LIMIT, of_base(FunctionCall(what, [operand.poly for operand in operands]))
    )
