"""Arithmetic of normal forms: sums, products, powers, exponentials."""

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
from .roots import root, separated, some
from .rules import Rule, fire
from .sums import fused, joined, picked

SPREAD = 6
"""The highest power that is multiplied out."""

MOST = 1000
"""No product is multiplied out that has more summands."""


def collect(terms: Iterable[Monomial]) -> Poly:
    """Adds up like terms."""
    found: dict[str, Monomial] = {}
    for term in terms:
        if not term.number:
            continue
        key = term.key({})
        like = found.get(key)
        found[key] = term if like is None else like.numbered(like.number + term.number)
    kept = [term for term in found.values() if term.number]
    if len(kept) > 1 and any(term.bound and term.shifted for term in kept):
        fewer = joined(kept)
        if len(fewer) < len(kept):
            return collect(fewer)
    return Poly(kept)


def constant(value: Fraction | int) -> Poly:
    return Poly((Monomial(Fraction(value)),)) if value else ZERO_POLY


def of_base(base: Base, power: Fraction = ONE) -> Poly:
    return Poly((Monomial(ONE, (), ((base, power),)),))


def of_size(size: Dim) -> Poly:
    if not isinstance(size, Size):
        return constant(size)
    return collect(
        Monomial(Fraction(factor), tuple((name, Fraction(power)) for name, power in powers))
        for powers, factor in size.terms
    )


def of_index(index: IndexSum) -> Poly:
    total = of_size(index.constant)
    for var, factor in index.terms:
        total = plus(total, multiply(of_size(factor), of_base(Position(var))))
    return total


def plus(a: Poly, b: Poly) -> Poly:
    if not a.terms:
        return b
    if not b.terms:
        return a
    return collect(a.terms + b.terms)


def negated(a: Poly) -> Poly:
    return Poly([term.numbered(-term.number) for term in a.terms])


def minus(a: Poly, b: Poly) -> Poly:
    return plus(a, negated(b))


def multiply(a: Poly, b: Poly) -> Poly:
    if not a.terms or not b.terms:
        return ZERO_POLY
    if len(a.terms) == len(b.terms) == 1:
        return times(a.terms[0], b.terms[0])
    if len(a.terms) * len(b.terms) > MOST:
        raise Unprovable("too many summands")
    fire(Rule.DISTRIBUTE)
    return collect(
        itertools.chain.from_iterable(times(one, two).terms for one in a.terms for two in b.terms)
    )


def times(a: Monomial, b: Monomial) -> Poly:
    """The product of two summands; sums within are renamed apart."""
    if a.plain and not a.sizes:
        return Poly((b.numbered(a.number * b.number),))
    if b.plain and not b.sizes:
        return Poly((a.numbered(a.number * b.number),))
    if a.bound or b.bound:
        fire(Rule.SUM_PRODUCT)
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
    """The same with other variables to sum over."""
    fresh = {var: Var(var.extent) for var in term.bound}
    values = {var: IndexSum.of(other) for var, other in fresh.items()}
    return term.mapped(values, list(fresh.values()))


def product_of(
    number: Fraction,
    sizes: Powers,
    factors: Iterable[tuple[Base, Fraction]],
    exponents: Sequence[Poly] = (),
    bound: Sequence[Var] = (),
) -> Poly:
    """Gathers powers of one base; a sum that comes to a whole positive power is multiplied out."""
    gathered: dict[str, tuple[Base, Fraction]] = {}
    for base, power in factors:
        key = base.key({})
        _, before = gathered.get(key, (base, Fraction(0)))
        gathered[key] = (base, before + power)
    kept: list[tuple[Base, Fraction]] = []
    spread: list[tuple[Poly, int]] = []
    for base, power in gathered.values():
        if isinstance(base, SumBase) and power > 0 and power >= 1:
            whole = int(power)
            spread.append((base.poly, whole))
            power -= whole
        elif isinstance(base, FunctionCall) and base.name == "abs" and power >= 2:
            pairs = int(power) // 2
            spread.append((base.arguments[0], 2 * pairs))
            power -= 2 * pairs
        if power:
            kept.append((base, power))
    exponent: Poly | None = None
    if len(exponents) > 1:
        fire(Rule.EXP_SUM)
    for one in exponents:
        exponent = one if exponent is None else plus(exponent, one)
    if exponent is not None and not exponent.terms:
        exponent = None
    if not spread:
        return Poly((Monomial(number, sizes, kept, exponent, bound),)) if number else ZERO_POLY
    inner = Poly((Monomial(number, sizes, kept, exponent),))
    for poly, count in spread:
        for _ in range(count):
            inner = multiply(inner, poly)
    return summed(inner, bound) if bound else inner


def exponential(a: Poly) -> Poly:
    """`exp(a)`, with logarithms taken out: `exp(n·log x + y) = x^n · exp(y)`."""
    outside: list[tuple[Poly, Fraction]] = []
    rest: list[Monomial] = []
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
            and (term.number * 2).denominator == 1
        ):
            outside.append((only[0].arguments[0], term.number))
        else:
            rest.append(term)
    result = constant(1)
    if rest:
        result = Poly((Monomial(ONE, (), (), Poly(rest)),))
    for inside, power in outside:
        fire(Rule.EXP_LOG)
        result = multiply(result, raised(inside, power))
    return result


def summed(a: Poly, bound: Sequence[Var]) -> Poly:
    """The sum over variables: what does not depend on one is counted as often as it runs."""
    found: list[Poly] = []
    for term in a.terms:
        one = picked(term, (*term.bound, *bound))
        if one is not None:
            fire(Rule.SUM_MASK)
            found.append(summed(multiply(_remade(one.rest), one.masked), one.bound))
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
            fire(Rule.SUM_CONSTANT)
            poly = multiply(poly, of_size(var.extent))
        found.append(poly)
    return collect(itertools.chain.from_iterable(poly.terms for poly in found))


def _remade(term: Monomial) -> Poly:
    """A product whose factors may have come to be alike."""
    exponents = [] if term.exponent is None else [collect(term.exponent.terms)]
    return product_of(term.number, term.sizes, term.factors, exponents)


def _powers(sizes: Powers) -> Powers:
    if len(sizes) < 2:
        return sizes
    found: dict[str, Fraction] = {}
    for name, power in sizes:
        found[name] = found.get(name, Fraction(0)) + power
    return tuple(sorted((name, power) for name, power in found.items() if power))


def scaled(a: Poly, factor: Fraction) -> Poly:
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
        if content.factors or content.exponent is not None or content.sizes:
            fire(Rule.TAKE_OUT)
        parts = [content, Poly((Monomial(ONE, (), ((SumBase(primitive), ONE),)),)).terms[0]]
    return product_to(parts, power)


def product_to(parts: Sequence[Monomial], power: Fraction) -> Poly:
    """A product to a power; what may be below zero stays together under a root."""
    number = Fraction(1)
    sizes: list[tuple[str, Fraction]] = []
    if power.denominator > 1 and len(parts) > 1:
        fire(Rule.ROOT_PRODUCT)
    outside: list[tuple[Base, Fraction]] = []
    unsure: list[tuple[Base, Fraction]] = []
    exponents: list[Poly] = []
    for part in parts:
        number *= part.number
        sizes += [(name, own * power) for name, own in part.sizes]
        if part.exponent is not None:
            exponents.append(scaled(part.exponent, power))
        for base, own in part.factors:
            if power.denominator == 1 or base_nonnegative(base) or own.denominator > 1:
                outside.append((base, own * power))
            elif own % 2 == 0:
                fire(Rule.ROOT_SQUARE)
                outside.append((_absolute(base), own * power))
            else:
                if own != 1:
                    outside.append((_absolute(base), (own - 1) * power))
                unsure.append((base, ONE))
    if power.denominator == 1:
        factor, roots = number**power.numerator, list[tuple[Base, Fraction]]()
    else:
        factor, roots = root(abs(number), power)
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
    if isinstance(base, FunctionCall) and base.name == "abs":
        return base
    return FunctionCall("abs", [of_base(base)])


def taken_out(a: Poly, power: Fraction) -> tuple[Monomial, Poly]:
    """Writes a sum as a monomial times a sum that nothing more can be taken out of."""
    even = power.denominator > 1
    sizes = _least([dict(term.sizes) for term in a.terms])
    bases: dict[str, Base] = {}
    powers: list[dict[str, Fraction]] = []
    for term in a.terms:
        own: dict[str, Fraction] = {}
        for base, exponent in term.factors:
            if base.vars & set(term.bound) or (even and not base_nonnegative(base)):
                continue
            key = base.key({})
            bases[key] = base
            own[key] = exponent
        powers.append(own)
    factors = _least(powers)
    shifts: list[dict[str, Fraction]] = []
    parts: dict[str, Monomial] = {}
    for term in a.terms:
        shift: dict[str, Fraction] = {}
        for one in () if term.exponent is None else term.exponent.terms:
            if not one.vars & set(term.bound):
                key = one.key({})
                parts[key] = one
                shift[key] = one.number
        shifts.append(shift)
    common = [parts[key].numbered(number) for key, number in _least(shifts).items()]
    content = Monomial(
        ONE,
        tuple(sorted(sizes.items())),
        [(bases[key], own) for key, own in factors.items()],
        some(common),
    )
    rest = multiply(a, inverse(content))
    first = min(rest.terms, key=lambda term: term.key({}))
    number = abs(first.number) if even else first.number
    if even and nonnegative(rest):
        number = first.number
    return content.numbered(number), scaled(rest, 1 / number)


def _least(found: Sequence[dict[str, Fraction]]) -> dict[str, Fraction]:
    """For each name the least number, none counting as zero; without those that come to zero."""
    names = sorted(set().union(*found))
    least = {name: min(one.get(name, Fraction(0)) for one in found) for name in names}
    return {name: number for name, number in least.items() if number}


def inverse(term: Monomial) -> Poly:
    """One over a product without sums."""
    exponents = [] if term.exponent is None else [scaled(term.exponent, Fraction(-1))]
    sizes = tuple((name, -power) for name, power in term.sizes)
    factors = [(base, -power) for base, power in term.factors]
    return product_of(1 / term.number, sizes, factors, exponents)
