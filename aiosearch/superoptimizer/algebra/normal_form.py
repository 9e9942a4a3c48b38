"""Normal forms: what a tensor's elements are, as sums of products over labelled indices.

Two tensors with one form are equal by the axioms of arithmetic: sums and products in any order,
distribution, fractions, what does not depend on an index pulled out of its sum, exponentials of
sums, roots of products. Nothing is cancelled, so that a form still tells what it was made of. Forms
are numbers; equal ones have the same.

Left as they are: sums of many terms that are multiplied, products of sums below a line or under a
root, a root under a root, and sums over one index that a sum multiplies. Equal values may then have
two forms.

An index is a label; a kernel cuts it into a part for its grid, one for its loop and the rest, and
what a grid left apart, the loop of a later kernel may cut again. Four bits stand for a label.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import reduce
from operator import or_
from typing import Any, TypeAlias

Mask: TypeAlias = int
"""A set of index parts, a bit each."""
Powers: TypeAlias = tuple[tuple[int, int], ...]
"""Units and twice their exponents, in the order of the units: a square root is 1."""
Exact: TypeAlias = Fraction | int
"""A number; whole ones are ints, which are hashed and multiplied in a tenth of the time."""
Monomial: TypeAlias = tuple[Powers, Powers, Exact, Powers]
"""Units above and below the line, a number under a root, and sizes of index parts."""
Unit: TypeAlias = tuple[Any, ...]

BITS = 4
"""Parts of a label: the grid's, as a loop cuts it and the rest of that; the loop's; the rest."""
WHOLE, GRID, LOOP, REST = 0b1111, 0b0011, 0b0100, 0b1000
AGAIN, LEFT = 0b0001, 0b0010
"""What the loop of a later kernel takes of the grid's part, and what it leaves."""

ONE: Exact = 1
MOST_TERMS = 4
"""Products of sums that have more terms are not multiplied out."""


class NormalForms:
    """Makes forms, and remembers every one; `sizes` are those of the labels."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self._sizes = sizes
        self.units: list[Unit] = []
        self.frees: list[Mask] = []
        """The indices that a unit depends on."""
        self.items: list[tuple[tuple[Monomial, Exact], ...]] = []
        """Each form's monomials and their factors."""
        self._unit_of: dict[Unit, int] = {}
        self._form_of: dict[tuple[tuple[Monomial, Exact], ...], int] = {}
        self._free: list[Mask] = []
        self._made: dict[tuple[Any, ...], int] = {}
        self._inputs: dict[int, frozenset[str]] = {}
        self.one = self.number(ONE)

    def free(self, form: int) -> Mask:
        """The indices that a form depends on."""
        return self._free[form]

    def bound(self, form: int) -> Mask:
        """The indices that it sums over or takes the largest of, somewhere."""
        found = self._made.get(("bound", form))
        if found is None:
            found = 0
            for (above, below, _, _), _ in self.items[form]:
                found |= self._bound_in((*above, *below))
            self._made["bound", form] = found
        return found

    def _bound_in(self, powers: Powers) -> Mask:
        found = 0
        for unit, _ in powers:
            key = self.units[unit]
            if key[0] == "sum":
                found |= key[1] | self._bound_in((*key[2], *key[3]))
            elif key[0] == "largest":
                found |= key[1] | self.bound(key[2])
            elif key[0] == "call":
                found |= reduce(or_, map(self.bound, key[2]), 0)
            elif key[0] == "sum of":
                found |= self.bound(key[1])
        return found

    def inputs(self, form: int) -> frozenset[str]:
        """The names of the tensors that it is made of."""
        found = self._inputs.get(form)
        if found is None:
            monomials = [mono for mono, _ in self.items[form]]
            units = {unit for above, below, _, _ in monomials for unit, _ in (*above, *below)}
            found = self._inputs[form] = frozenset().union(*map(self._inputs_in, units))
        return found

    def _inputs_in(self, unit: int) -> frozenset[str]:
        kind, *rest = self.units[unit]
        if kind == "input":
            return frozenset(rest)
        if kind == "sum":
            return frozenset().union(*(self._inputs_in(one) for one, _ in (*rest[1], *rest[2])))
        inner = rest[1] if kind == "call" else rest[-1:]
        return frozenset().union(*map(self.inputs, inner))

    # What forms are made of

    def number(self, value: Fraction | float) -> int:
        return self._form({((), (), ONE, ()): exact(Fraction(value))})

    def tensor(self, name: str, mask: Mask) -> int:
        return self._of_unit(self._unit(("input", name), mask))

    def call(self, name: str, *arguments: int) -> int:
        """A function that algebra knows nothing of."""
        free = reduce(or_, map(self.free, arguments), 0)
        return self._of_unit(self._unit(("call", name, arguments), free))

    def size(self, mask: Mask) -> int:
        """How many values an index takes."""
        return self._once(("size", mask), lambda: self._size(mask))

    def _size(self, mask: Mask) -> int:
        return self._form(dict([self._scaled(ONE, ((), (), ONE, ()), self._count(mask))]))

    # Operations, each made once

    def add(self, a: int, b: int) -> int:
        return self._once(("add", *sorted((a, b))), lambda: self._add(a, b, ONE))

    def subtract(self, a: int, b: int) -> int:
        return self._once(("subtract", a, b), lambda: self._add(a, b, -ONE))

    def multiply(self, a: int, b: int) -> int:
        return self._once(("multiply", *sorted((a, b))), lambda: self._multiply(a, b))

    def divide(self, a: int, b: int) -> int:
        return self._once(("divide", a, b), lambda: self._multiply(a, self.inverse(b)))

    def negative(self, a: int) -> int:
        return self.multiply(a, self.number(-ONE))

    def exp(self, a: int) -> int:
        return self._once(("exp", a), lambda: self._exp(a))

    def sqrt(self, a: int) -> int:
        return self._once(("sqrt", a), lambda: self._sqrt(a))

    def sum(self, a: int, mask: Mask) -> int:
        """Adds up over indices; where a value does not depend on one, as often as that counts."""
        if not mask:
            return a
        return self._once(("sum", a, mask), lambda: self._sum(a, mask))

    def largest(self, a: int, mask: Mask) -> int:
        """The largest over indices."""
        mask &= self.free(a)
        return self._once(("largest", a, mask), lambda: self._largest(a, mask)) if mask else a

    def inverse(self, a: int) -> int:
        return self._once(("inverse", a), lambda: self._inverse(a))

    def _once(self, key: tuple[Any, ...], make: Callable[[], int]) -> int:
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = make()
        return found

    # Tables

    def _unit(self, key: Unit, free: Mask) -> int:
        found = self._unit_of.get(key)
        if found is None:
            found = self._unit_of[key] = len(self.units)
            self.units.append(key)
            self.frees.append(free)
        return found

    def _form(self, monomials: dict[Monomial, Exact]) -> int:
        items = tuple(sorted((mono, factor) for mono, factor in monomials.items() if factor))
        found = self._form_of.get(items)
        if found is None:
            items = tuple((mono, exact(factor)) for mono, factor in items)
            found = self._form_of[items] = len(self.items)
            self.items.append(items)
            powers = [unit for (above, below, _, _), _ in items for unit, _ in (*above, *below)]
            self._free.append(reduce(or_, (self.frees[unit] for unit in powers), 0))
        return found

    def _of_unit(self, unit: int) -> int:
        return self._form({(((unit, 2),), (), ONE, ()): ONE})

    def of_monomial(self, monomial: Monomial, factor: Exact = ONE) -> int:
        """A form of one term."""
        found = self._form_of.get(((monomial, factor),))  # one item is in order; 0 is never kept
        return self._form({monomial: factor}) if found is None else found

    # Arithmetic

    def _add(self, a: int, b: int, sign: Exact) -> int:
        found = dict(self.items[a])
        for mono, factor in self.items[b]:
            found[mono] = found.get(mono, 0) + sign * factor
        return self._form(found)

    def _multiply(self, a: int, b: int) -> int:
        terms = (len(self.items[a]), len(self.items[b]))
        if min(terms) > 1 and terms[0] * terms[1] > MOST_TERMS:
            return self._joint(a, b)
        found: dict[Monomial, Exact] = {}
        expanded: list[int] = []
        for one, left in self.items[a]:
            for two, right in self.items[b]:
                above, below = merged(one[0], two[0]), merged(one[1], two[1])
                mono, factor = self._scaled(
                    left * right, (above, below, one[2] * two[2], one[3]), two[3]
                )
                if self._multiplies_out(above):
                    expanded.append(self._expand(mono, factor))
                else:
                    found[mono] = found.get(mono, 0) + factor
        return reduce(self.add, expanded, self._form(found))

    def _joint(self, a: int, b: int) -> int:
        """The product of two sums that is not multiplied out, beside what their terms share."""
        (content, left), (other, right) = self._parted(a), self._parted(b)
        found: dict[Monomial, Exact] = {}
        for (above, below, root, sizes), factor in self.items[self._multiply(content, other)]:
            for rest in (left, right):
                unit = self._unit(("sum of", rest), self.free(rest))
                above = merged(above, ((unit, 2),))
            found[above, below, root, sizes] = factor
        return self._form(found)

    def _multiplies_out(self, above: Powers) -> bool:
        sums = [(unit, power) for unit, power in above if self.units[unit][0] == "sum of"]
        terms = [len(self.items[self.units[unit][1]]) ** (power // 2) for unit, power in sums]
        whole = [power // 2 for _, power in sums if power >= 2]
        return whole == [1] or 1 < math.prod(terms) <= MOST_TERMS

    def _expand(self, mono: Monomial, factor: Exact) -> int:
        """Multiplies out the sums that stand above the line in whole powers."""
        above, below, root, sizes = mono
        kept, sums = [], []
        for unit, power in above:
            if self.units[unit][0] == "sum of":
                sums += [self.units[unit][1]] * (power // 2)
                power %= 2
            if power:
                kept.append((unit, power))
        rest = self.of_monomial((tuple(kept), below, root, sizes), factor)
        return reduce(self.multiply, sums, rest)

    def _scaled(self, factor: Exact, mono: Monomial, sizes: Powers = ()) -> tuple[Monomial, Exact]:
        """Brings the constants of a monomial into one shape: whole labels are numbers."""
        above, below, root, own = mono
        counts = {leaf: power for leaf, power in merged(own, sizes) if power}
        for label in {leaf // BITS for leaf in counts}:
            leaves = range(label * BITS, label * BITS + BITS)
            powers = {counts.get(leaf, 0) for leaf in leaves}
            if len(powers) == 1:
                (power,) = powers
                factor = exact(factor * Fraction(self._sizes[label]) ** (power // 2))
                root = root * self._sizes[label] if power % 2 else root
                for leaf in leaves:
                    del counts[leaf]
        whole = _root(root)
        if whole is not None:
            factor, root = exact(factor * whole), ONE
        return (above, below, exact(root), tuple(sorted(counts.items()))), factor

    def _count(self, mask: Mask, power: int = 2) -> Powers:
        return tuple((leaf, power) for leaf in _bits(mask))

    def _inverse(self, a: int) -> int:
        if len(self.items[a]) != 1:
            content, rest = self._parted(a)
            if content != self.one:
                return self._multiply(self.inverse(content), self.inverse(rest))
            unit = self._unit(("sum of", a), self.free(a))
            return self._form({((), ((unit, 2),), ONE, ()): ONE})
        (((above, below, root, sizes), factor),) = self.items[a]
        counts = tuple((leaf, -power) for leaf, power in sizes)
        flipped = (below, above, quotient(1, root), counts)
        turned, scaled = self._scaled(quotient(1, factor), flipped)
        if self._multiplies_out(below):
            return self._expand(turned, scaled)
        return self.of_monomial(turned, scaled)

    def _parted(self, a: int) -> tuple[int, int]:
        """What all terms of a sum have in common, and the rest."""
        monos = [mono for mono, _ in self.items[a]]
        above = _common([mono[0] for mono in monos])
        below = _common([mono[1] for mono in monos])
        first = self.items[a][0][1] if self.items[a] else ONE
        found: dict[Monomial, Exact] = {}
        for (up, down, root, sizes), factor in self.items[a]:
            found[(without(up, above), without(down, below), root, sizes)] = quotient(factor, first)
        return self.of_monomial((above, below, ONE, ()), first), self._form(found)

    def _exp(self, a: int) -> int:
        """The exponential of a sum is a product."""
        found = self.one
        for mono, factor in self.items[a]:
            count = int(factor) if factor.denominator == 1 else 1
            inner = self.of_monomial(mono, quotient(factor, count))
            unit = self._unit(("call", "exp", (inner,)), self.free(inner))
            power: Powers = ((unit, 2 * abs(count)),)
            own = (power, (), ONE, ()) if count > 0 else ((), power, ONE, ())
            found = self.multiply(found, self.of_monomial(own))
        return found

    def _sqrt(self, a: int) -> int:
        """The root of a product is a product, of what cannot be negative in even powers."""
        if len(self.items[a]) > 1:
            content, rest = self._parted(a)
            if content != self.one and self.items[content][0][1] > 0:
                return self._multiply(self.sqrt(content), self.sqrt(rest))
        if len(self.items[a]) != 1 or self.items[a][0][1] < 0:
            unit = self._unit(("sum of", a), self.free(a))
            return self.of_monomial((((unit, 1),), (), ONE, ()))
        (((above, below, root, sizes), factor),) = self.items[a]
        if root != ONE or any(power % 2 for _, power in (*above, *below, *sizes)):
            return self.call("sqrt", a)
        halves = [self._halved(side) for side in (above, below)]
        counts = tuple((leaf, power // 2) for leaf, power in sizes)
        mono, scaled = self._scaled(ONE, (halves[0], halves[1], factor, counts))
        return self.of_monomial(mono, scaled)

    def _halved(self, powers: Powers) -> Powers:
        found: Powers = ()
        for unit, power in powers:
            if power % 4 == 0 and not self._positive(unit):
                (((own, _, _, _), _),) = self.items[self.call("absolute", self._of_unit(unit))]
                unit = own[0][0]
            found = merged(found, ((unit, power // 2),))
        return found

    def _positive(self, unit: int) -> bool:
        """Whether it cannot be negative, as far as its form tells."""
        key = self.units[unit]
        if key[0] == "call":
            return key[1] in ("exp", "absolute")
        if key[0] != "sum":
            return False
        return all(power % 4 == 0 or self._positive(inner) for inner, power in (*key[2], *key[3]))

    # Sums over indices

    def _sum(self, a: int, mask: Mask) -> int:
        found: dict[Monomial, Exact] = {}
        for mono, factor in self.items[a]:
            summed, scaled = self._sum_of(mono, factor, mask)
            found[summed] = found.get(summed, 0) + scaled
        return self._form(found)

    def _sum_of(self, mono: Monomial, factor: Exact, mask: Mask) -> tuple[Monomial, Exact]:
        above, below, root, sizes = mono
        groups: list[tuple[Mask, Powers, Powers]] = []
        kept: tuple[Powers, Powers] = ((), ())
        covered = 0
        for side, powers in enumerate((above, below)):
            for unit, power in powers:
                touched = self.frees[unit] & mask
                if not touched:
                    kept = _with(kept, side, unit, power)
                    continue
                covered |= touched
                own = _with(((), ()), side, unit, power)
                joined, groups = _joined((touched, *own), groups)
                groups.append(joined)
        up = kept[0]
        for bound, over, under in groups:
            up = merged(up, ((self._summed(bound, over, under), 2),))
        return self._scaled(factor, (up, kept[1], root, sizes), self._count(mask & ~covered))

    def _summed(self, bound: Mask, above: Powers, below: Powers) -> int:
        """A sum of a product, of which no factor could be pulled out."""
        taken = bound
        for unit, _ in (*above, *below):
            taken |= self.frees[unit]
        up: Powers = ()
        for unit, power in above:
            key = self.units[unit]
            if power == 2 and key[0] == "sum" and not key[1] & taken:
                bound, taken = bound | key[1], taken | key[1]
                up, below = merged(up, key[2]), merged(below, key[3])
            else:
                up = merged(up, ((unit, power),))
        free = reduce(or_, (self.frees[unit] for unit, _ in (*up, *below)), 0) & ~bound
        return self._unit(("sum", bound, up, below), free)

    def _largest(self, a: int, mask: Mask) -> int:
        items = self.items[a]
        if len(items) == 1 and items[0][1] == 1 and items[0][0][1:] == ((), ONE, ()):
            ((unit, power), *more) = items[0][0][0] or ((0, 0),)
            key = self.units[unit]
            if power == 2 and not more and key[0] == "largest":
                a, mask = key[2], mask | key[1]
        return self._of_unit(self._unit(("largest", mask, a), self.free(a) & ~mask))

    def power(self, a: int, power: int) -> int:
        """A form to half a power."""
        whole, half = divmod(abs(power), 2)
        found = self.sqrt(a) if half else self.one
        for _ in range(whole):
            found = self.multiply(found, a)
        return found if power > 0 else self.inverse(found)


def label_of(piece: Mask) -> int:
    """The label that a part of an index belongs to."""
    return (piece.bit_length() - 1) // BITS


def is_whole(piece: Mask) -> bool:
    """Whether it is a label that nothing has cut."""
    return piece >> label_of(piece) * BITS == WHOLE


def merged(one: Powers, two: Powers) -> Powers:
    """The product of products."""
    if not one or not two:
        return one or two
    found = dict(one)
    for unit, power in two:
        found[unit] = found.get(unit, 0) + power
    return tuple(sorted(found.items()))


def without(powers: Powers, part: Powers) -> Powers:
    """A product without some of its factors, which it has."""
    left = dict(powers)
    for unit, power in part:
        left[unit] -= power
    return tuple((unit, power) for unit, power in left.items() if power)


def _common(products: Sequence[Powers]) -> Powers:
    found = dict(products[0]) if products else {}
    for powers in map(dict, products[1:]):
        found = {unit: min(power, powers.get(unit, 0)) for unit, power in found.items()}
    return tuple((unit, power) for unit, power in found.items() if power)


def _with(sides: tuple[Powers, Powers], side: int, unit: int, power: int) -> tuple[Powers, Powers]:
    above, below = sides
    own = ((unit, power),)
    return (above, merged(below, own)) if side else (merged(above, own), below)


def _joined(
    new: tuple[Mask, Powers, Powers], groups: Iterable[tuple[Mask, Powers, Powers]]
) -> tuple[tuple[Mask, Powers, Powers], list[tuple[Mask, Powers, Powers]]]:
    """A group with all that share an index with it, and the others."""
    apart = []
    for other in groups:
        if other[0] & new[0]:
            new = (other[0] | new[0], merged(other[1], new[1]), merged(other[2], new[2]))
        else:
            apart.append(other)
    return new, apart


def _bits(mask: Mask) -> list[int]:
    return [bit for bit in range(mask.bit_length()) if mask >> bit & 1]


def exact(value: Exact) -> Exact:
    """The same number, as an int where it is whole."""
    return value.numerator if value.denominator == 1 else value


def quotient(one: Exact, two: Exact) -> Exact:
    """Divides exactly."""
    return exact(Fraction(one) / two)


def _root(value: Exact) -> Exact | None:
    """A rational square root."""
    if value == 1:
        return value
    over, under = math.isqrt(value.numerator), math.isqrt(value.denominator)
    return exact(Fraction(over, under)) if Fraction(over, under) ** 2 == value else None
