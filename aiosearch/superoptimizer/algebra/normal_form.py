"""Normal forms: what a tensor's elements are, as sums of products over labelled indices.

Problem: a search meets one value under many spellings, and has to see at once that `(X·W)/r` and
`(X/r)·W` are one. Comparing programs pair by pair is out of the question.

Every index has a label. With `X[row=2, feature=3]` and `W[feature=3, column=4]`, `matmul(X, W)`
becomes the form Σ over feature of X·W, whose monomials are `((((2, 2),), (), 1, ()), 1)`: unit 2 to
the power 1 (powers are stored twice), nothing below the line, no root, no sizes, and the factor 1.
Unit 2 is `SumUnit(240, ((0, 2), (1, 2)), ())`: over the bits 240, which are label 1, of unit 0 (X)
times unit 1 (W). `mean(X, axes=[1])` is the sum over feature with the factor 1/3; `sqrt(X·X)` is
`absolute(X)`.

Invariant: equal monomials have one form, a number, so equality is a comparison of integers. Two
tensors with one form are equal by the axioms of arithmetic: sums and products in any order,
distribution, fractions, a factor that does not depend on an index pulled out of its sum,
exponentials of sums, roots of products. Nothing is cancelled, so that a form still shows its
inputs; `x - x` has no monomial, but `x/x` stays.

Left as they are: sums of many terms that are multiplied, products of sums below a line or under a
root, a root under a root, and sums over one index that a sum multiplies. Equal values may then have
two forms, which loses programs and never admits a wrong one.

Index parts: a kernel cuts an index into a part for its grid, a part for its loop and the rest; the
grid's part of one kernel may be cut again by the loop of a later one. Four bits stand for a label,
so a set of parts is an integer, and `1111` is a label that is complete.

Cost: an operation is a dictionary look-up where its operands met before, and else linear in the
monomials of the result, or quadratic up to `MOST_TERMS`.

See docs/why/superoptimizer.md, "What stands for a value".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from fractions import Fraction
from functools import reduce
from operator import or_
from typing import TypeAlias

from msgspec import Struct

Mask: TypeAlias = int
"""A set of index parts, a bit each: part `p` of label `n` is the bit `4 * n + p`."""
Powers: TypeAlias = tuple[tuple[int, int], ...]
"""Units and twice their exponents, in the order of the units: in `(unit, 1)` the 1 is a square
root."""
Exact: TypeAlias = Fraction | int
"""A number. Whole ones are `int`, which are hashed and multiplied in a tenth of the time of
`Fraction`."""
Monomial: TypeAlias = tuple[Powers, Powers, Exact, Powers]
"""Units above and below the line, a number under a root, and the sizes of index parts as `Powers`
of their bits."""


class InputUnit(Struct, frozen=True, gc=False):
    """An input, by its name."""

    name: str


class CallUnit(Struct, frozen=True, gc=False):
    """A function of forms, of which no axiom is known but those of exponentials and roots."""

    name: str
    arguments: tuple[int, ...]


class SumUnit(Struct, frozen=True, gc=False):
    """A sum over index parts of one product, from which no factor can be pulled out."""

    bound: Mask
    above: Powers
    below: Powers


class LargestUnit(Struct, frozen=True, gc=False):
    """The largest of a form over index parts."""

    bound: Mask
    form: int


class FactorUnit(Struct, frozen=True, gc=False):
    """A form of several monomials that is a factor, or under a root, and not multiplied out."""

    form: int


Unit: TypeAlias = InputUnit | CallUnit | SumUnit | LargestUnit | FactorUnit
"""What cannot be taken apart."""

BITS = 4
"""Parts of a label: two of the grid (what a later loop takes of it, and what it leaves), the
loop's, and the remainder."""
WHOLE, GRID, LOOP, REST = 0b1111, 0b0011, 0b0100, 0b1000
AGAIN, LEFT = 0b0001, 0b0010
"""What the loop of a later kernel takes of the grid's part, and what it leaves."""

ONE: Exact = 1
MOST_TERMS = 4
"""A product of two sums that has more terms is not multiplied out, so that forms stay small."""


class NormalForms:
    """Makes forms, and remembers each; `sizes` are those of the labels.

    A form is a number: `forms.add(a, b) == forms.add(b, a)`, and so on by every axiom of the
    module.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        # Three tables grow together. A unit's number and a form's number are positions in these
        # lists, and never change: other modules keep them in their own tables.
        self._sizes = sizes
        self.units: list[Unit] = []
        self.frees: list[Mask] = []
        """The index parts that each unit depends on."""
        self.items: list[tuple[tuple[Monomial, Exact], ...]] = []
        """The monomials of each form and their factors, sorted; the form of zero has none."""
        self._unit_of: dict[Unit, int] = {}
        self._form_of: dict[tuple[tuple[Monomial, Exact], ...], int] = {}
        self._free: list[Mask] = []
        self._results: dict[Hashable, int] = {}
        self._inputs: dict[int, frozenset[str]] = {}
        self.one = self.number(ONE)

    def free(self, form: int) -> Mask:
        """The index parts that `form` depends on."""
        return self._free[form]

    def bound(self, form: int) -> Mask:
        """The index parts that `form` sums over or takes the largest of, at any depth."""
        mask = self._results.get(("bound", form))
        if mask is None:
            mask = 0
            for (above, below, _, _), _ in self.items[form]:
                mask |= self._bound_in((*above, *below))
            self._results["bound", form] = mask
        return mask

    def _bound_in(self, powers: Powers) -> Mask:
        mask = 0
        for unit, _ in powers:
            match self.units[unit]:
                case SumUnit(bound, above, below):
                    mask |= bound | self._bound_in((*above, *below))
                case LargestUnit(bound, form):
                    mask |= bound | self.bound(form)
                case CallUnit(_, arguments):
                    mask |= reduce(or_, map(self.bound, arguments), 0)
                case FactorUnit(form):
                    mask |= self.bound(form)
        return mask

    def inputs(self, form: int) -> frozenset[str]:
        """The names of the tensors that `form` is made of."""
        names = self._inputs.get(form)
        if names is None:
            monomials = [mono for mono, _ in self.items[form]]
            units = {unit for above, below, _, _ in monomials for unit, _ in (*above, *below)}
            names = self._inputs[form] = frozenset().union(*map(self._inputs_in, units))
        return names

    def _inputs_in(self, unit: int) -> frozenset[str]:
        match self.units[unit]:
            case InputUnit(name):
                return frozenset((name,))
            case SumUnit(_, above, below):
                factors = (self._inputs_in(factor) for factor, _ in (*above, *below))
                return frozenset().union(*factors)
            case CallUnit(_, arguments):
                return frozenset().union(*map(self.inputs, arguments))
            case LargestUnit(_, form) | FactorUnit(form):
                return self.inputs(form)

    # What forms are made of

    def number(self, value: Fraction | float) -> int:
        """The form of a constant."""
        return self._form({((), (), ONE, ()): exact(Fraction(value))})

    def tensor(self, name: str, mask: Mask) -> int:
        """The form of the input `name`, whose elements depend on the parts in `mask`."""
        return self._of_unit(self._unit(InputUnit(name), mask))

    def call(self, name: str, *arguments: int) -> int:
        """A function `name` of which no axiom is known: equal arguments give equal forms, and that
        is all.
        """
        free = reduce(or_, map(self.free, arguments), 0)
        return self._of_unit(self._unit(CallUnit(name, arguments), free))

    def size(self, mask: Mask) -> int:
        """How many values the index parts in `mask` take together."""
        return self._remembered(("size", mask), lambda: self._size(mask))

    def _size(self, mask: Mask) -> int:
        return self._form(dict([self._scaled(ONE, ((), (), ONE, ()), self._count(mask))]))

    # Operations, each made once

    def add(self, a: int, b: int) -> int:
        # Sorted operands share one key, so that a commuted sum costs a look-up.
        return self._remembered(("add", *sorted((a, b))), lambda: self._add(a, b, ONE))

    def subtract(self, a: int, b: int) -> int:
        return self._remembered(("subtract", a, b), lambda: self._add(a, b, -ONE))

    def multiply(self, a: int, b: int) -> int:
        return self._remembered(("multiply", *sorted((a, b))), lambda: self._multiply(a, b))

    def divide(self, a: int, b: int) -> int:
        return self._remembered(("divide", a, b), lambda: self._multiply(a, self.inverse(b)))

    def negative(self, a: int) -> int:
        return self.multiply(a, self.number(-ONE))

    def exp(self, a: int) -> int:
        return self._remembered(("exp", a), lambda: self._exp(a))

    def sqrt(self, a: int) -> int:
        return self._remembered(("sqrt", a), lambda: self._sqrt(a))

    def sum(self, a: int, mask: Mask) -> int:
        """Adds up over the parts in `mask`; a monomial that does not depend on a part is multiplied
        by its size instead.
        """
        if not mask:
            return a
        return self._remembered(("sum", a, mask), lambda: self._sum(a, mask))

    def largest(self, a: int, mask: Mask) -> int:
        """The largest over the parts in `mask`; parts that `a` does not depend on change
        nothing.
        """
        mask &= self.free(a)
        return self._remembered(("largest", a, mask), lambda: self._largest(a, mask)) if mask else a

    def inverse(self, a: int) -> int:
        return self._remembered(("inverse", a), lambda: self._inverse(a))

    def _remembered(self, key: Hashable, make: Callable[[], int]) -> int:
        """Remembers the form of `key`, which is an operation with its operands."""
        form = self._results.get(key)
        if form is None:
            form = self._results[key] = make()
        return form

    # Tables

    def _unit(self, key: Unit, free: Mask) -> int:
        unit = self._unit_of.get(key)
        if unit is None:
            unit = self._unit_of[key] = len(self.units)
            self.units.append(key)
            self.frees.append(free)
        return unit

    def _form(self, monomials: dict[Monomial, Exact]) -> int:
        # A factor of zero drops its monomial: this is the one cancellation there is, and zero is
        # the form without monomials.
        items = tuple(sorted((mono, factor) for mono, factor in monomials.items() if factor))
        form = self._form_of.get(items)
        if form is None:
            # Fraction(2) and 2 are equal and hash alike, so the key above matches either; what is
            # stored is the fast one.
            items = tuple((mono, exact(factor)) for mono, factor in items)
            form = self._form_of[items] = len(self.items)
            self.items.append(items)
            powers = [unit for (above, below, _, _), _ in items for unit, _ in (*above, *below)]
            self._free.append(reduce(or_, (self.frees[unit] for unit in powers), 0))
        return form

    def _of_unit(self, unit: int) -> int:
        return self._form({(((unit, 2),), (), ONE, ()): ONE})

    def of_monomial(self, monomial: Monomial, factor: Exact = ONE) -> int:
        """The form of a single monomial."""
        form = self._form_of.get(
            ((monomial, factor),)
        )  # one item is in order; a factor of 0 is never stored
        return self._form({monomial: factor}) if form is None else form

    # Arithmetic

    def _add(self, a: int, b: int, sign: Exact) -> int:
        total = dict(self.items[a])
        for mono, factor in self.items[b]:
            total[mono] = total.get(mono, 0) + sign * factor
        return self._form(total)

    def _multiply(self, a: int, b: int) -> int:
        terms = (len(self.items[a]), len(self.items[b]))
        # (a+b)(c+d) has four terms and is multiplied out, (a+b+c)(d+e) has six and is not. Two
        # programs that differ by such a distribution get two forms: a loss of completeness, never
        # of soundness.
        if min(terms) > 1 and terms[0] * terms[1] > MOST_TERMS:
            return self._unexpanded_product(a, b)
        total: dict[Monomial, Exact] = {}
        expanded: list[int] = []
        for left_mono, left in self.items[a]:
            for right_mono, right in self.items[b]:
                above, below = (
                    merged(left_mono[0], right_mono[0]),
                    merged(left_mono[1], right_mono[1]),
                )
                mono, factor = self._scaled(
                    left * right,
                    (above, below, left_mono[2] * right_mono[2], left_mono[3]),
                    right_mono[3],
                )
                # A merged product may hold a sum that stood below a line before, or twice under a
                # root: now that it is above the line in a whole power it has to be distributed, or
                # one value would have two forms.
                if self._multiplies_out(above):
                    expanded.append(self._expand(mono, factor))
                else:
                    total[mono] = total.get(mono, 0) + factor
        return reduce(self.add, expanded, self._form(total))

    def _unexpanded_product(self, a: int, b: int) -> int:
        """The product of two sums that is not multiplied out, with what the terms of each sum share
        pulled out.

        So `(2x + 2y + 2z)·(u + v)` and `2·(x + y + z)·(u + v)` have one form.
        """
        (content, left), (right_content, right) = self._factored(a), self._factored(b)
        total: dict[Monomial, Exact] = {}
        for (above, below, root, sizes), factor in self.items[
            self._multiply(content, right_content)
        ]:
            for factor_sum in (left, right):
                unit = self._unit(FactorUnit(factor_sum), self.free(factor_sum))
                above = merged(above, ((unit, 2),))
            total[above, below, root, sizes] = factor
        return self._form(total)

    def _multiplies_out(self, above: Powers) -> bool:
        """Whether the sums in `above` may be distributed: a single one always, several while their
        product has at most `MOST_TERMS` terms.
        """
        sums = [
            (unit.form, power)
            for unit, power in ((self.units[number], power) for number, power in above)
            if isinstance(unit, FactorUnit)
        ]
        terms = [len(self.items[form]) ** (power // 2) for form, power in sums]
        whole = [power // 2 for _, power in sums if power >= 2]
        return whole == [1] or 1 < math.prod(terms) <= MOST_TERMS

    def _expand(self, mono: Monomial, factor: Exact) -> int:
        """Distributes over the sums that stand above the line in whole powers; a root of a sum
        stays a unit.
        """
        above, below, root, sizes = mono
        factors, sums = [], []
        for number, power in above:
            unit = self.units[number]
            if isinstance(unit, FactorUnit):
                sums += [unit.form] * (power // 2)
                power %= 2
            if power:
                factors.append((number, power))
        outer = self.of_monomial((tuple(factors), below, root, sizes), factor)
        return reduce(self.multiply, sums, outer)

    def _scaled(self, factor: Exact, mono: Monomial, sizes: Powers = ()) -> tuple[Monomial, Exact]:
        """Brings the constants of a monomial into one shape: the size of a complete label becomes a
        number.

        A mean over a grid's part and a mean over the remainder divide by two symbols. Only their
        product is known, so the symbols stay until all four bits of a label have one power.
        """
        above, below, root, own_sizes = mono
        counts = {leaf: power for leaf, power in merged(own_sizes, sizes) if power}
        for label in {leaf // BITS for leaf in counts}:
            leaves = range(label * BITS, label * BITS + BITS)
            powers = {counts.get(leaf, 0) for leaf in leaves}
            if len(powers) == 1:
                (power,) = powers
                factor = exact(factor * Fraction(self._sizes[label]) ** (power // 2))
                # Sizes are stored with doubled exponents, as units are: an odd power is a square
                # root.
                root = root * self._sizes[label] if power % 2 else root
                for leaf in leaves:
                    del counts[leaf]
        # The root of a square number is rational and joins the factor; other roots stay apart,
        # exactly.
        whole = _root(root)
        if whole is not None:
            factor, root = exact(factor * whole), ONE
        return (above, below, exact(root), tuple(sorted(counts.items()))), factor

    def _count(self, mask: Mask, power: int = 2) -> Powers:
        return tuple((leaf, power) for leaf in _bits(mask))

    def _inverse(self, a: int) -> int:
        if len(self.items[a]) != 1:
            content, inner = self._factored(a)
            # 1/(2x + 2y) and (1/2)·1/(x + y) have to agree: what the terms share is inverted by
            # itself.
            if content != self.one:
                return self._multiply(self.inverse(content), self.inverse(inner))
            unit = self._unit(FactorUnit(a), self.free(a))
            return self._form({((), ((unit, 2),), ONE, ()): ONE})
        (((above, below, root, sizes), factor),) = self.items[a]
        counts = tuple((leaf, -power) for leaf, power in sizes)
        flipped = (below, above, quotient(1, root), counts)
        # 1/(f·√r·above/below) is (1/f)·√(1/r)·below/above: sizes change their sign, the rest
        # changes its side.
        inverted, scaled = self._scaled(quotient(1, factor), flipped)
        if self._multiplies_out(below):
            return self._expand(inverted, scaled)
        return self.of_monomial(inverted, scaled)

    def _factored(self, a: int) -> tuple[int, int]:
        """What all terms of a sum have in common, and the sum without it: `2xy + 4xz` is `2x` and
        `y + 2z`.
        """
        monos = [mono for mono, _ in self.items[a]]
        above = _common([mono[0] for mono in monos])
        below = _common([mono[1] for mono in monos])
        first = self.items[a][0][1] if self.items[a] else ONE
        remainder: dict[Monomial, Exact] = {}
        for (up, down, root, sizes), factor in self.items[a]:
            remainder[(without(up, above), without(down, below), root, sizes)] = quotient(
                factor, first
            )
        return self.of_monomial((above, below, ONE, ()), first), self._form(remainder)

    def _exp(self, a: int) -> int:
        """The exponential of a sum as a product of exponentials; a whole factor becomes a power of
        its unit.
        """
        product = self.one
        for mono, factor in self.items[a]:
            # exp(3x) is exp(x) cubed, so that exp(x)·exp(2x) meets it. exp(x/2) stays a unit of its
            # own, which is why "exp of a half squared" keeps two forms.
            count = int(factor) if factor.denominator == 1 else 1
            inner = self.of_monomial(mono, quotient(factor, count))
            unit = self._unit(CallUnit("exp", (inner,)), self.free(inner))
            power: Powers = ((unit, 2 * abs(count)),)
            mono_of_power = (power, (), ONE, ()) if count > 0 else ((), power, ONE, ())
            product = self.multiply(product, self.of_monomial(mono_of_power))
        return product

    def _sqrt(self, a: int) -> int:
        """The root of a product as a product of roots, where no factor can be negative or all
        powers are even.
        """
        if len(self.items[a]) > 1:
            content, inner = self._factored(a)
            if content != self.one and self.items[content][0][1] > 0:
                return self._multiply(self.sqrt(content), self.sqrt(inner))
        # The root of a proper sum is a unit to the power one half; squaring it gives the sum back
        # exactly.
        if len(self.items[a]) != 1 or self.items[a][0][1] < 0:
            unit = self._unit(FactorUnit(a), self.free(a))
            return self.of_monomial((((unit, 1),), (), ONE, ()))
        (((above, below, root, sizes), factor),) = self.items[a]
        # A root under a root would need quarter powers, which the doubled exponents cannot say.
        if root != ONE or any(power % 2 for _, power in (*above, *below, *sizes)):
            return self.call("sqrt", a)
        halves = [self._halved(side) for side in (above, below)]
        counts = tuple((leaf, power // 2) for leaf, power in sizes)
        mono, scaled = self._scaled(ONE, (halves[0], halves[1], factor, counts))
        return self.of_monomial(mono, scaled)

    def _halved(self, powers: Powers) -> Powers:
        """Halves all exponents: √(u²) is |u|, unless `u` cannot be negative."""
        product: Powers = ()
        for unit, power in powers:
            if power % 4 == 0 and not self._positive(unit):
                (((absolute, _, _, _), _),) = self.items[self.call("absolute", self._of_unit(unit))]
                unit = absolute[0][0]
            product = merged(product, ((unit, power // 2),))
        return product

    def _positive(self, unit: int) -> bool:
        """Whether a unit cannot be negative, as far as its form shows: an exponential, an absolute
        value, a sum of products of such or of even powers.
        """
        match self.units[unit]:
            case CallUnit(name, _):
                return name in ("exp", "absolute")
            case SumUnit(_, above, below):
                return all(
                    power % 4 == 0 or self._positive(inner) for inner, power in (*above, *below)
                )
        return False

    # Sums over indices

    def _sum(self, a: int, mask: Mask) -> int:
        total: dict[Monomial, Exact] = {}
        for mono, factor in self.items[a]:
            summed, scaled = self._sum_of(mono, factor, mask)
            total[summed] = total.get(summed, 0) + scaled
        return self._form(total)

    def _sum_of(self, mono: Monomial, factor: Exact, mask: Mask) -> tuple[Monomial, Exact]:
        above, below, root, sizes = mono
        groups: list[tuple[Mask, Powers, Powers]] = []
        outside: tuple[Powers, Powers] = ((), ())
        covered = 0
        # Factors that share an index have to stay in one sum; factors that share none are sums
        # apart, and are multiplied. Σ over i and j of x_i·y_j·z is z·(Σx)·(Σy).
        for side, powers in enumerate((above, below)):
            for unit, power in powers:
                touched = self.frees[unit] & mask
                if not touched:
                    outside = _with(outside, side, unit, power)
                    continue
                covered |= touched
                sides = _with(((), ()), side, unit, power)
                joined, groups = _merged_groups((touched, *sides), groups)
                groups.append(joined)
        up = outside[0]
        for bound, over, under in groups:
            up = merged(up, ((self._summed(bound, over, under), 2),))
        return self._scaled(factor, (up, outside[1], root, sizes), self._count(mask & ~covered))

    def _summed(self, bound: Mask, above: Powers, below: Powers) -> int:
        """The unit of a sum of a product from which no factor can be pulled out any more."""
        used = bound
        for number, _ in (*above, *below):
            used |= self.frees[number]
        up: Powers = ()
        for number, power in above:
            unit = self.units[number]
            # A sum within a sum is one sum over both sets of indices, unless their bound indices
            # collide: Σ_i x_i · Σ_i y_i is not Σ_i x_i·y_i.
            if power == 2 and isinstance(unit, SumUnit) and not unit.bound & used:
                bound, used = bound | unit.bound, used | unit.bound
                up, below = merged(up, unit.above), merged(below, unit.below)
            else:
                up = merged(up, ((number, power),))
        free = reduce(or_, (self.frees[number] for number, _ in (*up, *below)), 0) & ~bound
        return self._unit(SumUnit(bound, up, below), free)

    def _largest(self, a: int, mask: Mask) -> int:
        """A largest of a largest is one over both sets of indices; other forms under it are left
        whole.
        """
        items = self.items[a]
        if len(items) == 1 and items[0][1] == 1 and items[0][0][1:] == ((), ONE, ()):
            ((number, power), *further) = items[0][0][0] or ((0, 0),)
            unit = self.units[number]
            if power == 2 and not further and isinstance(unit, LargestUnit):
                a, mask = unit.form, mask | unit.bound
        return self._of_unit(self._unit(LargestUnit(mask, a), self.free(a) & ~mask))

    def power(self, a: int, power: int) -> int:
        """`a` to half of `power`: an odd `power` takes a square root."""
        whole, half = divmod(abs(power), 2)
        product = self.sqrt(a) if half else self.one
        for _ in range(whole):
            product = self.multiply(product, a)
        return product if power > 0 else self.inverse(product)


def label_of(piece: Mask) -> int:
    """The label that a part of an index belongs to."""
    return (piece.bit_length() - 1) // BITS


def is_whole(piece: Mask) -> bool:
    """Whether `piece` is a label that no grid and no loop has cut."""
    return piece >> label_of(piece) * BITS == WHOLE


def merged(left: Powers, right: Powers) -> Powers:
    """The product of two products: exponents of one unit are added."""
    if not left or not right:
        return left or right
    powers = dict(left)
    for unit, power in right:
        powers[unit] = powers.get(unit, 0) + power
    return tuple(sorted(powers.items()))


def without(powers: Powers, part: Powers) -> Powers:
    """A product without the factors in `part`, all of which it has."""
    left = dict(powers)
    for unit, power in part:
        left[unit] -= power
    return tuple((unit, power) for unit, power in left.items() if power)


def _common(products: Sequence[Powers]) -> Powers:
    """The highest power of each unit that every one of `products` has."""
    shared = dict(products[0]) if products else {}
    for powers in map(dict, products[1:]):
        shared = {unit: min(power, powers.get(unit, 0)) for unit, power in shared.items()}
    return tuple((unit, power) for unit, power in shared.items() if power)


def _with(sides: tuple[Powers, Powers], side: int, unit: int, power: int) -> tuple[Powers, Powers]:
    above, below = sides
    factor = ((unit, power),)
    return (above, merged(below, factor)) if side else (merged(above, factor), below)


def _merged_groups(
    new: tuple[Mask, Powers, Powers], groups: Iterable[tuple[Mask, Powers, Powers]]
) -> tuple[tuple[Mask, Powers, Powers], list[tuple[Mask, Powers, Powers]]]:
    """Merges `new` with every group that shares an index with it; returns the merged group and the
    other groups.
    """
    separate = []
    for group in groups:
        if group[0] & new[0]:
            new = (group[0] | new[0], merged(group[1], new[1]), merged(group[2], new[2]))
        else:
            separate.append(group)
    return new, separate


def _bits(mask: Mask) -> list[int]:
    return [bit for bit in range(mask.bit_length()) if mask >> bit & 1]


def exact(value: Exact) -> Exact:
    """An equal number, as an `int` where it is whole."""
    return value.numerator if value.denominator == 1 else value


def quotient(numerator: Exact, denominator: Exact) -> Exact:
    """Divides exactly."""
    return exact(Fraction(numerator) / denominator)


def _root(value: Exact) -> Exact | None:
    """The rational square root of `value`, or None."""
    if value == 1:
        return value
    over, under = math.isqrt(value.numerator), math.isqrt(value.denominator)
    return exact(Fraction(over, under)) if Fraction(over, under) ** 2 == value else None
