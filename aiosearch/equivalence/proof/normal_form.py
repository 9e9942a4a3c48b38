"""The normal form of expressions over tensor elements, and what is known of signs.

A `Poly` is a sum of monomials. A `Monomial` is a rational number, powers of named sizes, powers of
bases (elements, functions, maxima, sums that had to stay whole), one exponential of a polynomial,
and the index variables that it is summed over. Equal expressions of a large class have equal keys;
that is all a proof is.

Example: Σ over k < n of 2·X[i,k]·exp(Y[k]) is one monomial: number 2, factors X[i,k]^1, exponent
Y[k], bound (k). Its key is `Σ0<n>X[i7,#0]·exp{1·Y[#0]}`, where i7 is a free variable and #0 stands
for the bound one.

What it leaves undone: powers other than multiples of one half, trigonometric and hyperbolic laws,
sums with closed forms (Σi = n(n-1)/2), factoring of polynomials beyond a common monomial. Such
equalities are not proved.

Invariant: objects are immutable, and keys are cached under no names. Names of summation variables
do not count: `canonical` takes the least text over the orders of alike variables, at most `TIES` of
them, beyond which it raises `Unprovable`. See docs/why/verdicts.md.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from fractions import Fraction
from typing import TypeAlias

from .indices import IndexSum, Names, Unprovable, Var
from .work import spend

ONE, HALF = Fraction(1), Fraction(1, 2)
"""The powers that occur most."""
TIES = 720
"""How many orders of alike summation variables `canonical` tries: six alike ones have 720."""

Powers: TypeAlias = tuple[tuple[str, Fraction], ...]
"""Names of sizes, sorted, each with its power."""


class Base:
    """Something that has powers in a `Monomial`; see the subclasses. Immutable."""

    __slots__ = ("_key", "vars")

    vars: frozenset[Var]
    _key: str | None

    def key(self, names: Names) -> str:
        """The text of the base under `names`; cached where no name occurs in it."""
        if not names or not any(var in names for var in self.vars):
            if self._key is None:
                self._key = self.text({})
            return self._key
        return self.text(names)

    def text(self, names: Names) -> str:
        """The text that `key` caches."""
        raise NotImplementedError

    def mapped(self, values: Mapping[Var, IndexSum]) -> Base:
        """The base with indices substituted for variables; different bases stay different."""
        raise NotImplementedError

    def indices(self) -> Iterator[IndexSum | Var]:
        """Every index in it; a bare `Var` is a variable whose value counts."""
        raise NotImplementedError


class Element(Base):
    """An element of an input `tensor`."""

    __slots__ = ("at", "tensor")

    def __init__(self, tensor: str, at: Sequence[IndexSum]) -> None:
        self.tensor = tensor
        self.at = tuple(at)
        self.vars = frozenset(var for index in self.at for var in index.vars)
        self._key = None

    def text(self, names: Names) -> str:
        return f"{self.tensor}[{','.join(index.key(names) for index in self.at)}]"

    def mapped(self, values: Mapping[Var, IndexSum]) -> Base:
        return Element(self.tensor, [index.at(values) for index in self.at])

    def indices(self) -> Iterator[IndexSum | Var]:
        yield from self.at


class CutElement(Element):
    """An element of a value that a proof knows no more of; see `cut_points`."""

    __slots__ = ("nonnegative", "positive")

    def __init__(
        self, tensor: str, at: Sequence[IndexSum], positive: bool, nonnegative: bool
    ) -> None:
        super().__init__(tensor, at)
        self.positive = positive
        self.nonnegative = nonnegative

    def mapped(self, values: Mapping[Var, IndexSum]) -> Base:
        at = [index.at(values) for index in self.at]
        return CutElement(self.tensor, at, self.positive, self.nonnegative)


class Position(Base):
    """The value of an index variable, as a number."""

    __slots__ = ("var",)

    def __init__(self, var: Var) -> None:
        self.var = var
        self.vars = frozenset((var,))
        self._key = None

    def text(self, names: Names) -> str:
        return f"@{names.get(self.var) or f'i{self.var.number}'}"

    def mapped(self, values: Mapping[Var, IndexSum]) -> Base:
        value = values.get(self.var)
        if value is None:
            return self
        # As a number, high·4 + low is no base but a sum; substituting would need a renormalisation
        # that mapped() does not do.
        if len(value.terms) != 1 or value.terms[0][1] != 1 or value.constant != 0:
            raise Unprovable("the value of an index that is cut in parts")
        return Position(value.vars[0])

    def indices(self) -> Iterator[IndexSum | Var]:
        yield self.var


class FunctionCall(Base):
    """A function of polynomials of which nothing but its name is known."""

    __slots__ = ("arguments", "name")

    def __init__(self, name: str, arguments: Sequence[Poly]) -> None:
        self.name = name
        self.arguments = tuple(arguments)
        self.vars = frozenset().union(*(argument.vars for argument in self.arguments))
        self._key = None

    def text(self, names: Names) -> str:
        return f"{self.name}({','.join(argument.key(names) for argument in self.arguments)})"

    def mapped(self, values: Mapping[Var, IndexSum]) -> Base:
        return FunctionCall(self.name, [argument.mapped(values) for argument in self.arguments])

    def indices(self) -> Iterator[IndexSum | Var]:
        for argument in self.arguments:
            yield from argument.indices()


class SumBase(Base):
    """A sum whose power is not a positive integer, such as `(x + y)^-1`."""

    __slots__ = ("poly",)

    def __init__(self, poly: Poly) -> None:
        self.poly = poly
        self.vars = poly.vars
        self._key = None

    def text(self, names: Names) -> str:
        return f"({self.poly.key(names)})"

    def mapped(self, values: Mapping[Var, IndexSum]) -> Base:
        return SumBase(self.poly.mapped(values))

    def indices(self) -> Iterator[IndexSum | Var]:
        return self.poly.indices()


class Maximum(Base):
    """The largest of `items`, each over all values of its own variables."""

    __slots__ = ("items",)

    def __init__(self, items: Iterable[Item]) -> None:
        self.items = tuple(items)
        self.vars = frozenset().union(*(poly.vars - set(bound) for bound, poly in self.items))
        self._key = None

    def text(self, names: Names) -> str:
        return f"max{{{';'.join(sorted({item_key(item, names) for item in self.items}))}}}"

    def mapped(self, values: Mapping[Var, IndexSum]) -> Base:
        return Maximum((bound, poly.mapped(_free(values, bound))) for bound, poly in self.items)

    def indices(self) -> Iterator[IndexSum | Var]:
        for _, poly in self.items:
            yield from poly.indices()


Item: TypeAlias = "tuple[tuple[Var, ...], Poly]"
"""A value of a `Maximum`, and the variables that it runs over."""


def _free(values: Mapping[Var, IndexSum], bound: Sequence[Var]) -> Mapping[Var, IndexSum]:
    """`values` without bound variables: one bound further in is another variable."""
    if not any(var in values for var in bound):
        return values
    return {var: index for var, index in values.items() if var not in bound}


class Monomial:
    """A summand: number, sizes, bases, exponential, and what it is summed over. Immutable."""

    __slots__ = ("_key", "_shifted", "bound", "exponent", "factors", "number", "sizes", "vars")

    def __init__(
        self,
        number: Fraction,
        sizes: Powers = (),
        factors: Sequence[tuple[Base, Fraction]] = (),
        exponent: Poly | None = None,
        bound: Sequence[Var] = (),
    ) -> None:
        spend()
        self.number = number
        self.sizes = sizes
        self.factors = tuple(factors)
        self.exponent = exponent
        self.bound = tuple(bound)
        free: set[Var] = set()
        for base, _ in self.factors:
            free |= base.vars
        if exponent is not None:
            free |= exponent.vars
        self.vars = frozenset(free.difference(self.bound))
        self._key: str | None = None
        self._shifted: bool | None = None

    @property
    def shifted(self) -> bool:
        """Whether some index in it has a constant, as the second half of a cut sum has."""
        if self._shifted is None:
            self._shifted = any(
                isinstance(index, IndexSum) and index.constant != 0 for index in self.indices()
            )
        return self._shifted

    def numbered(self, number: Fraction) -> Monomial:
        """The summand with another number, and the key it has already."""
        copy = Monomial(number, self.sizes, self.factors, self.exponent, self.bound)
        # The key leaves out the number, so that the copy shares it.
        copy._key = self._key
        return copy

    @property
    def plain(self) -> bool:
        """Whether it is a number times sizes."""
        return not self.factors and self.exponent is None and not self.bound

    def key(self, names: Names) -> str:
        """The text of all but its number; bound variables are named by `canonical`."""
        if not names or not any(var in names for var in self.vars):
            if self._key is None:
                self._key = self._canonical({})
            return self._key
        return self._canonical(names)

    def _canonical(self, names: Names) -> str:
        return canonical(self.bound, names, self._text)

    def _text(self, names: Names) -> str:
        spend(1 + len(self.factors))
        parts = sorted(
            base.key(names) + ("" if power == 1 else f"^{power}") for base, power in self.factors
        )
        if self.exponent is not None:
            parts.append(f"exp{{{self.exponent.key(names)}}}")
        parts += [f"{name}^{power}" for name, power in self.sizes]
        return "·".join(parts)

    def mapped(
        self, values: Mapping[Var, IndexSum], bound: Sequence[Var] | None = None
    ) -> Monomial:
        """The summand with indices substituted for variables, and summed over `bound` if given."""
        if bound is None:
            values, bound = _free(values, self.bound), self.bound
        exponent = None if self.exponent is None else self.exponent.mapped(values)
        factors = [(base.mapped(values), power) for base, power in self.factors]
        return Monomial(self.number, self.sizes, factors, exponent, bound)

    def indices(self) -> Iterator[IndexSum | Var]:
        """Every index in its bases and its exponent."""
        for base, _ in self.factors:
            yield from base.indices()
        if self.exponent is not None:
            yield from self.exponent.indices()


class Poly:
    """A sum of monomials with different keys, which `arithmetic.collect` guarantees. Immutable."""

    __slots__ = ("_key", "terms", "vars")

    def __init__(self, terms: Sequence[Monomial]) -> None:
        self.terms = tuple(terms)
        self.vars: frozenset[Var] = frozenset().union(*(term.vars for term in self.terms))
        self._key: str | None = None

    def key(self, names: Names) -> str:
        """The sorted texts of the summands with their numbers: equal keys, equal functions."""
        if not names or not any(var in names for var in self.vars):
            if self._key is None:
                self._key = self._text({})
            return self._key
        return self._text(names)

    def _text(self, names: Names) -> str:
        return " + ".join(sorted(f"{term.number}·{term.key(names)}" for term in self.terms)) or "0"

    def mapped(self, values: Mapping[Var, IndexSum]) -> Poly:
        """The sum with indices substituted for variables."""
        if not any(var in values for var in self.vars):
            return self
        return Poly([term.mapped(values) for term in self.terms])

    def indices(self) -> Iterator[IndexSum | Var]:
        for term in self.terms:
            yield from term.indices()

    @property
    def number(self) -> Fraction | None:
        """Its value, where it is a number."""
        if not self.terms:
            return Fraction(0)
        only = self.terms[0]
        if len(self.terms) == 1 and only.plain and not only.sizes:
            return only.number
        return None

    def __repr__(self) -> str:
        return self.key({})


ZERO_POLY = Poly(())
"""The empty sum."""


def canonical(bound: Sequence[Var], names: Names, text: Callable[[Names], str]) -> str:
    """The text under those names of the `bound` variables that make it least.

    For Σ over i, j of X[i,j]·Y[j], marking one variable at a time tells i from j; only variables
    that look alike are tried in every order.
    """
    if not bound:
        return text(names)
    if any(var in names for var in bound):
        # What is bound here hides what is bound outside; the label stays taken.
        names = {Var(0) if var in bound else var: name for var, name in names.items()}
    start = len(names)
    # Labels count on from those in scope, so that nested sums do not reuse them.
    labels = [f"#{start + place}" for place in range(len(bound))]

    def written(order: Sequence[Var]) -> str:
        inner = {**names, **dict(zip(order, labels, strict=True))}
        extents = ",".join(str(var.extent) for var in order)
        return f"Σ{start}<{extents}>{text(inner)}"

    if len(bound) == 1:
        return written(bound)
    # A signature for each variable: the text in which it alone is marked. Variables of different
    # signatures have only one order, so that permutations are confined to equal ones.
    marked: dict[str, list[Var]] = {}
    for var in bound:
        inner = {**names, **dict.fromkeys(bound, "_"), var: "?"}
        marked.setdefault(f"{var.extent}:{text(inner)}", []).append(var)
    groups = [marked[mark] for mark in sorted(marked)]
    count = 1
    for group in groups:
        for size in range(2, len(group) + 1):
            count *= size
    # Symmetric products of many sums, such as (Σx)^7, have factorially many orders.
    if count > TIES:
        raise Unprovable(f"{len(bound)} sums that look alike")
    orders = itertools.product(*(itertools.permutations(group) for group in groups))
    return min(written([var for group in order for var in group]) for order in orders)


def item_key(item: Item, names: Names) -> str:
    """The key of an `Item`, whose variables are bound."""
    bound, poly = item
    return canonical(bound, names, poly.key)


POSITIVE_CALLS: set[str] = set()
"""Names of functions that are above zero everywhere."""

# A context variable, so that an assumption ends with its `with` block and never leaks into another
# proof.
_assumed: ContextVar[frozenset[str]] = ContextVar("assumed", default=frozenset())


@contextmanager
def assuming(bases: frozenset[str]) -> Iterator[None]:
    """Within, `bases` are not negative; nor are they zero where something divides by them."""
    token = _assumed.set(bases)
    try:
        yield
    finally:
        _assumed.reset(token)


def nonnegative(a: Poly) -> bool:
    """Whether `a` is seen not to be negative wherever it is defined: no summand may be."""
    return all(_term(term, strictly=False) for term in a.terms)


def positive(a: Poly) -> bool:
    """Whether `a` is seen to be above zero: no summand below, and one above."""
    # Extents are at least one, so that a sum of positive summands is positive.
    return nonnegative(a) and any(_term(term, strictly=True) for term in a.terms)


def _term(term: Monomial, strictly: bool) -> bool:
    """Whether a summand is seen not to be negative, or above zero where `strictly`."""
    if term.number <= 0:
        return False
    return all(
        base_positive(base)
        or (not strictly and (power % 2 == 0 or power.denominator > 1 or base_nonnegative(base)))
        for base, power in term.factors
    )


def base_nonnegative(base: Base) -> bool:
    """Whether a base is seen not to be negative wherever it is defined."""
    if (assumed := _assumed.get()) and base.key({}) in assumed:
        return True
    if isinstance(base, FunctionCall):
        return base.name == "abs" or base.name in POSITIVE_CALLS
    if isinstance(base, SumBase):
        return nonnegative(base.poly)
    if isinstance(base, Maximum):
        return any(nonnegative(poly) for _, poly in base.items)
    if isinstance(base, CutElement):
        return base.nonnegative
    return isinstance(base, Position)


def base_positive(base: Base) -> bool:
    """Whether a base is seen to be above zero."""
    if isinstance(base, FunctionCall):
        return base.name in POSITIVE_CALLS
    if isinstance(base, SumBase):
        return positive(base.poly)
    if isinstance(base, Maximum):
        return any(positive(poly) for _, poly in base.items)
    return isinstance(base, CutElement) and base.positive
