"""Arithmetic of normal forms: sums, products, powers, exponentials.

Problem: the constructors of `normal_form` hold any tree; two equal expressions get one key only if
every operation returns a normal form again. That is what the functions here guarantee.

Example: `multiply(x + y, x - y)` distributes to x² + x·y - x·y - y², and `collect` adds up like
terms to x² - y². `raised(x·y + x·z, -1)` first takes out the common factor: x^-1·(y + z)^-1, so
that it cancels against x later. `exponential(2·log x + y)` is x²·exp(y), and `summed(x[i]·y, i <
n)` is y·Σ x[i], with `fire` recording each axiom.

Invariant: the terms of a `Poly` have different keys, no number is zero, a positive integer power of
a sum is multiplied out (up to `SPREAD`), and a summation variable occurs in what it sums. Cost: a
product takes as many steps as both sums have terms multiplied, at most `MOST`; beyond that the
proof gives up with `Unprovable`. See docs/why/verdicts.md.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from fractions import Fraction

from ...tensor.sizes import Dim, Size
from .indices import IndexSum, Unprovable, Var
from .normal_form import (
    ONE,
    ZERO_POLY,
    Base,
    FunctionCall,
    Monomial,
    Poly,
    Position,
    Powers,
    SumBase,
    base_nonnegative,
    nonnegative,
)
from .roots import root, separated, sum_or_none
from .rules import Rule, fire
from .sums import equated, fused, joined, picked

SPREAD = 6
"""The highest power of a sum that `raised` multiplies out."""

MOST = 1000
"""The most summands that `multiply` makes; a product of more raises `Unprovable`."""


def collect(terms: Iterable[Monomial]) -> Poly:
    """Adds up like terms, and joins sums over neighbouring ranges.

    `Σ_{i<3} x[i] + Σ_{i<2} x[i+3]`.
    """
    by_key: dict[str, Monomial] = {}
    for term in terms:
        if not term.number:
            continue
        key = term.key({})
        like = by_key.get(key)
        by_key[key] = term if like is None else like.numbered(like.number + term.number)
    nonzero = [term for term in by_key.values() if term.number]
    # Two sums can only be neighbours if one starts where the other ends, so one has an index with a
    # constant. The test keeps `joined`, quadratic in the terms, from most calls.
    if len(nonzero) > 1 and any(term.bound and term.shifted for term in nonzero):
        fewer = joined(nonzero)
        if len(fewer) < len(nonzero):
            # Joining may produce terms that are alike in turn; each round has fewer terms, so this
            # ends.
            return collect(fewer)
    return Poly(nonzero)


def constant(value: Fraction | int) -> Poly:
    """The `Poly` of a rational number."""
    return Poly((Monomial(Fraction(value)),)) if value else ZERO_POLY


def of_base(base: Base, power: Fraction = ONE) -> Poly:
    """The `Poly` of a single base to a power."""
    return Poly((Monomial(ONE, (), ((base, power),)),))


def of_size(size: Dim) -> Poly:
    """The `Poly` of a size: `2*n + 1` is two monomials with `sizes` and no factors."""
    if not isinstance(size, Size):
        return constant(size)
    return collect(
        Monomial(Fraction(factor), tuple((name, Fraction(power)) for name, power in powers))
        for powers, factor in size.terms
    )


def of_index(index: IndexSum) -> Poly:
    """The value of an index as a number: its variables become `Position` bases."""
    total = of_size(index.constant)
    for var, factor in index.terms:
        total = plus(total, multiply(of_size(factor), of_base(Position(var))))
    return total


def plus(a: Poly, b: Poly) -> Poly:
    """The sum of normal forms, collected."""
    if not a.terms:
        return b
    if not b.terms:
        return a
    return collect(a.terms + b.terms)


def negated(a: Poly) -> Poly:
    """`-a`."""
    return Poly([term.numbered(-term.number) for term in a.terms])


def minus(a: Poly, b: Poly) -> Poly:
    """`a - b`."""
    return plus(a, negated(b))


def multiply(a: Poly, b: Poly) -> Poly:
    """The product of normal forms, distributed over their summands."""
    if not a.terms or not b.terms:
        return ZERO_POLY
    if len(a.terms) == len(b.terms) == 1:
        return times(a.terms[0], b.terms[0])
    # Every term of the product is built before like terms are found.
    if len(a.terms) * len(b.terms) > MOST:
        raise Unprovable("too many summands")
    fire(Rule.DISTRIBUTE)
    return collect(
        itertools.chain.from_iterable(
            times(left, right).terms for left in a.terms for right in b.terms
        )
    )


def times(a: Monomial, b: Monomial) -> Poly:
    """The product of two summands; summation variables that clash are `renamed` first."""
    if a.plain and not a.sizes:
        return Poly((b.numbered(a.number * b.number),))
    if b.plain and not b.sizes:
        return Poly((a.numbered(a.number * b.number),))
    if a.bound or b.bound:
        fire(Rule.SUM_PRODUCT)
    # Capture: in (Σ_i x[i])·y[i] the two i are different variables. A product of two sums over one
    # variable object needs it too, as in (Σ_i x[i])².
    if b.bound and (a.vars.intersection(b.bound) or set(a.bound).intersection(b.bound)):
        b = renamed(b)
    if a.bound and b.vars.intersection(a.bound):
        a = renamed(a)
    return product_of(
        a.number * b.number,
        _powers(a.sizes + b.sizes),
        a.factors + b.factors,
        [e for e in (a.exponent, b.exponent) if e is not None],
        a.bound + b.bound,
    )


def renamed(term: Monomial) -> Monomial:
    """The summand with fresh variables to sum over."""
    fresh = {var: Var(var.extent) for var in term.bound}
    values = {var: IndexSum.of(replacement) for var, replacement in fresh.items()}
    return term.mapped(values, list(fresh.values()))


def product_of(
    number: Fraction,
    sizes: Powers,
    factors: Iterable[tuple[Base, Fraction]],
    exponents: Sequence[Poly] = (),
    bound: Sequence[Var] = (),
) -> Poly:
    """Gathers powers of one base; a sum that comes to a positive whole power is multiplied out."""
    gathered: dict[str, tuple[Base, Fraction]] = {}
    for base, power in factors:
        key = base.key({})
        _, before = gathered.get(key, (base, Fraction(0)))
        gathered[key] = (base, before + power)
    whole_factors: list[tuple[Base, Fraction]] = []
    spread: list[tuple[Poly, int]] = []
    for base, power in gathered.values():
        # (x + y)^(3/2) becomes (x + y)·(x + y)^(1/2): the whole part has to be distributed to
        # cancel against other summands.
        if isinstance(base, SumBase) and power > 0 and power >= 1:
            whole = int(power)
            spread.append((base.poly, whole))
            power -= whole
        # |x|² = x² for real x; an odd |x| is left over.
        elif isinstance(base, FunctionCall) and base.name == "abs" and power >= 2:
            pairs = int(power) // 2
            spread.append((base.arguments[0], 2 * pairs))
            power -= 2 * pairs
        # A truth value is 0 or 1, and so its own square.
        elif power > 0 and equated(base) is not None:
            power = ONE
        if power:
            whole_factors.append((base, power))
    exponent: Poly | None = None
    if len(exponents) > 1:
        fire(Rule.EXP_SUM)
    for summand in exponents:
        exponent = summand if exponent is None else plus(exponent, summand)
    # exp(0) is the factor 1, which a normal form does not hold.
    if exponent is not None and not exponent.terms:
        exponent = None
    if not spread:
        return (
            Poly((Monomial(number, sizes, whole_factors, exponent, bound),))
            if number
            else ZERO_POLY
        )
    inner = Poly((Monomial(number, sizes, whole_factors, exponent),))
    for poly, count in spread:
        for _ in range(count):
            inner = multiply(inner, poly)
    # Multiplying out may have removed a summation variable from some summands.
    return summed(inner, bound) if bound else inner


def exponential(a: Poly) -> Poly:
    """`exp(a)`, with logarithms taken out: `exp(n·log x + y) = x^n · exp(y)`."""
    outside: list[tuple[Poly, Fraction]] = []
    inside_exp: list[Monomial] = []
    for term in a.terms:
        only = term.factors[0] if len(term.factors) == 1 else None
        if (
            only is not None
            and isinstance(only[0], FunctionCall)
            and only[0].name == "log"
            and only[1] == 1
            and not term.sizes
            and term.exponent is None
            and not term.bound
            # x^n is a normal form for multiples of one half; exp(log(x)/3) stays an exponential.
            and (term.number * 2).denominator == 1
        ):
            outside.append((only[0].arguments[0], term.number))
        else:
            inside_exp.append(term)
    result = constant(1)
    if inside_exp:
        result = Poly((Monomial(ONE, (), (), Poly(inside_exp)),))
    for inside, power in outside:
        fire(Rule.EXP_LOG)
        result = multiply(result, raised(inside, power))
    return result


def summed(a: Poly, bound: Sequence[Var]) -> Poly:
    """The sum over `bound`.

    A summand that does not depend on a variable is counted as often as it runs.
    """
    sums: list[Poly] = []
    for term in a.terms:
        # A mask i = j removes its variable; the result has to be normalised before the others are
        # summed.
        masked_sum = picked(term, (*term.bound, *bound))
        if masked_sum is not None:
            fire(Rule.SUM_MASK)
            sums.append(summed(_renormalised(masked_sum.unmasked), masked_sum.bound))
            continue
        needed = [var for var in bound if var in term.vars]
        outer = [var for var in bound if var not in term.vars]
        poly = Poly(
            (
                fused(
                    Monomial(
                        term.number,
                        term.sizes,
                        term.factors,
                        term.exponent,
                        term.bound + tuple(needed),
                    )
                ),
            )
        )
        for var in outer:
            # Σ_{i<n} x = n·x, with n a symbolic size.
            fire(Rule.SUM_CONSTANT)
            poly = multiply(poly, of_size(var.extent))
        sums.append(poly)
    return collect(itertools.chain.from_iterable(poly.terms for poly in sums))


def at_one_place(a: Poly, place: Poly, extent: Dim) -> Poly:
    """`a`, where an equality with `place` is summed over all of an axis of which it is a place.

    Exactly one of the equalities holds: Σ over j of [place = j]·x is x, where x does not depend on
    j.
    """
    return collect(_without_equality(term, place, extent) for term in a.terms)


def _without_equality(term: Monomial, place: Poly, extent: Dim) -> Monomial:
    for var in term.bound:
        using = [base for base, _ in term.factors if var in base.vars]
        outside = term.exponent is None or var not in term.exponent.vars
        if var.extent != extent or len(using) != 1 or not outside:
            continue
        difference = equated(using[0])
        if difference is None or difference.key({}) != minus(place, of_base(Position(var))).key({}):
            continue
        fire(Rule.SUM_MASK)
        factors = [(base, power) for base, power in term.factors if base is not using[0]]
        bound = [left for left in term.bound if left is not var]
        return Monomial(term.number, term.sizes, factors, term.exponent, bound)
    return term


def _renormalised(term: Monomial) -> Poly:
    """A product whose factors may have become equal by a substitution."""
    exponents = [] if term.exponent is None else [collect(term.exponent.terms)]
    return product_of(term.number, term.sizes, term.factors, exponents)


def _powers(sizes: Powers) -> Powers:
    """Adds up the powers of each size name."""
    if len(sizes) < 2:
        return sizes
    totals: dict[str, Fraction] = {}
    for name, power in sizes:
        totals[name] = totals.get(name, Fraction(0)) + power
    return tuple(sorted((name, power) for name, power in totals.items() if power))


def scaled(a: Poly, factor: Fraction) -> Poly:
    """`a` times a rational number."""
    return Poly([term.numbered(term.number * factor) for term in a.terms])


def raised(a: Poly, power: Fraction) -> Poly:
    """`a` to a power that is a multiple of one half."""
    if power == 1:
        return a
    if power == 0:
        return constant(1)
    if not a.terms:
        if power < 0:
            raise Unprovable("a division by zero")
        return a
    # A single monomial needs no distribution: its powers are multiplied in `product_to`.
    if power.denominator == 1 and power > 0 and (len(a.terms) > 1 or a.terms[0].bound):
        if power > SPREAD:
            return of_base(SumBase(a), power)
        result = a
        for _ in range(int(power) - 1):
            result = multiply(result, a)
        return result
    if len(a.terms) == 1:
        parts = separated(a.terms[0])
    else:
        content, primitive = taken_out(a, power)
        # A number alone is taken out by arithmetic, without the axiom.
        if content.factors or content.exponent is not None or content.sizes:
            fire(Rule.TAKE_OUT)
        parts = [content, Poly((Monomial(ONE, (), ((SumBase(primitive), ONE),)),)).terms[0]]
    return product_to(parts, power)


def product_to(parts: Sequence[Monomial], power: Fraction) -> Poly:
    """A product to a power; a factor that may be negative stays under the root with the others."""
    number = Fraction(1)
    sizes: list[tuple[str, Fraction]] = []
    if power.denominator > 1 and len(parts) > 1:
        fire(Rule.ROOT_PRODUCT)
    outside: list[tuple[Base, Fraction]] = []
    unsure: list[tuple[Base, Fraction]] = []
    exponents: list[Poly] = []
    for part in parts:
        number *= part.number
        sizes += [(name, own_power * power) for name, own_power in part.sizes]
        if part.exponent is not None:
            exponents.append(scaled(part.exponent, power))
        for base, own_power in part.factors:
            # √(x·y) = √x·√y needs both to be >= 0. A base with a power of denominator 2 is >= 0
            # wherever it is defined.
            if power.denominator == 1 or base_nonnegative(base) or own_power.denominator > 1:
                outside.append((base, own_power * power))
            # √(x²) = |x|: the root of a square does not need x to be >= 0.
            elif own_power % 2 == 0:
                fire(Rule.ROOT_SQUARE)
                outside.append((_absolute(base), own_power * power))
            else:
                # √(x³·y) = |x|·√(x·y): the even part leaves the root, one x stays under it.
                if own_power != 1:
                    outside.append((_absolute(base), (own_power - 1) * power))
                unsure.append((base, ONE))
    if power.denominator == 1:
        factor, roots = number**power.numerator, list[tuple[Base, Fraction]]()
    else:
        factor, roots = root(abs(number), power)
        # √(-x·y): the sign goes under the root, with the factors of unknown sign.
        if number < 0:
            unsure.append((SumBase(constant(-1)), ONE))
    if len(unsure) == 1 and not isinstance(unsure[0][0], SumBase):
        outside.append((unsure[0][0], power))
    elif unsure:
        outside.append((SumBase(product_of(ONE, (), unsure)), power))
    merged = Poly((Monomial(ONE, tuple(sizes)),))
    whole = product_of(factor, (), outside + roots, exponents)
    return multiply(merged, whole) if sizes else whole


def _absolute(base: Base) -> Base:
    """`|base|`, or the base itself where it is an absolute value already."""
    if isinstance(base, FunctionCall) and base.name == "abs":
        return base
    return FunctionCall("abs", [of_base(base)])


def taken_out(a: Poly, power: Fraction) -> tuple[Monomial, Poly]:
    """Writes a sum as a monomial times a sum that nothing more can be taken out of.

    `2·x²·y + 4·x·y` becomes 4·x·y times x/2 + 1: the least power of each base, and the number of
    the first summand by key.
    """
    even = power.denominator > 1
    sizes = _least([dict(term.sizes) for term in a.terms])
    bases: dict[str, Base] = {}
    powers: list[dict[str, Fraction]] = []
    for term in a.terms:
        exponents: dict[str, Fraction] = {}
        for base, exponent in term.factors:
            # A factor inside a summation cannot leave it; under an even root only factors >= 0 may
            # leave.
            if base.vars & set(term.bound) or (even and not base_nonnegative(base)):
                continue
            key = base.key({})
            bases[key] = base
            exponents[key] = exponent
        powers.append(exponents)
    # The least power over all summands, negative ones included: x^-1 + 1 becomes x^-1·(1 + x).
    factors = _least(powers)
    shifts: list[dict[str, Fraction]] = []
    parts: dict[str, Monomial] = {}
    for term in a.terms:
        shift: dict[str, Fraction] = {}
        for summand in () if term.exponent is None else term.exponent.terms:
            if not summand.vars & set(term.bound):
                key = summand.key({})
                parts[key] = summand
                shift[key] = summand.number
        shifts.append(shift)
    common = [parts[key].numbered(number) for key, number in _least(shifts).items()]
    content = Monomial(
        ONE,
        tuple(sorted(sizes.items())),
        [(bases[key], exponents) for key, exponents in factors.items()],
        sum_or_none(common),
    )
    remainder = multiply(a, inverse(content))
    first = min(remainder.terms, key=lambda term: term.key({}))
    number = abs(first.number) if even else first.number
    if even and nonnegative(remainder):
        number = first.number
    return content.numbered(number), scaled(remainder, 1 / number)


def _least(tables: Sequence[dict[str, Fraction]]) -> dict[str, Fraction]:
    """The least exponent of each name, absence counting as zero.

    Names that come to zero are left out.
    """
    names = sorted(set().union(*tables))
    least = {name: min(table.get(name, Fraction(0)) for table in tables) for name in names}
    return {name: number for name, number in least.items() if number}


def inverse(term: Monomial) -> Poly:
    """`1/term` for a product without sums."""
    exponents = [] if term.exponent is None else [scaled(term.exponent, Fraction(-1))]
    sizes = tuple((name, -power) for name, power in term.sizes)
    factors = [(base, -power) for base, power in term.factors]
    return product_of(1 / term.number, sizes, factors, exponents)
