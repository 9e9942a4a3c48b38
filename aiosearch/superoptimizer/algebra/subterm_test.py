"""The subterm test, which prunes the search: whether a value can occur on the way to the
reference, by the axioms.

A form is a part where something can be multiplied to it, summed over it and added to it so that a
form of the reference comes out. An index that it sums over already, nothing else there may depend
on. A number has to be the one that it has in the reference, or that a mean in place of a sum would
make of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from functools import reduce
from operator import or_
from typing import NamedTuple, TypeAlias

from .normal_form import ONE, Exact, Mask, Monomial, NormalForms, Powers, without

Product: TypeAlias = tuple[Powers, Powers]
"""The units above and below the line."""
Spot: TypeAlias = tuple[int, Monomial]
"""A host and a term of it."""


class _Sum(NamedTuple):
    """A sum of the host that is looked into: what of it nobody has taken."""

    whole: Mask
    """All indices that it sums over."""
    bound: Mask
    left: Product


class _Remainder(NamedTuple):
    """What a host has left after some units of a part have found their places."""

    left: Product
    sums: tuple[_Sum, ...] = ()


class SubtermTest:
    """The parts of a reference, given by the forms of all its terms."""

    def __init__(self, forms: NormalForms, terms: Iterable[int]) -> None:
        self._forms = forms
        self._known: dict[int, bool] = {}
        self._beside: dict[Spot, tuple[dict[Product, int], int]] = {}
        """Of a host's term, the numbers of the others and its own."""
        self._hosts: dict[int, bool] = {}
        """Forms with parts, and whether the reference has them as they are."""
        for term in terms:
            self._hosts[term] = True
        for term in list(self._hosts):
            self._add_inner(term)
        self._spots_known: dict[int, dict[Spot, None]] = {}
        """Of a unit, where it is; of a sum also where its first factor is, as all others are."""
        self._places: dict[int, list[Spot]] = {}
        """Of a unit, where it is itself."""
        for host in self._hosts:
            for mono, _ in forms.items[host]:
                for unit in dict.fromkeys(self._units_in((mono[0], mono[1]))):
                    self._places.setdefault(unit, []).append((host, mono))
        self.bound: Mask = reduce(or_, (self._bound(unit) for unit in self._places), 0)
        """The indices that the reference sums over or takes the largest of."""
        self.largest = any(forms.units[unit][0] == "largest" for unit in self._places)
        """Whether the reference takes the largest of something."""
        self.negative = any(factor < 0 for host in self._hosts for _, factor in forms.items[host])
        """Whether the reference subtracts."""

    def __contains__(self, form: int) -> bool:
        found = self._known.get(form)
        if found is None:
            found = self._known[form] = self._is_part(form)
        return found

    @property
    def known(self) -> dict[int, bool]:
        """What was asked so far."""
        return self._known

    # The hosts: forms of the reference, and what can be made of them by a rule of functions

    def _add_host(self, form: int) -> None:
        if form not in self._hosts and self._forms.items[form]:
            self._hosts[form] = False
            self._add_inner(form)

    def _add_inner(self, form: int) -> None:
        for (above, below, _, _), _ in self._forms.items[form]:
            self._add_products(above, below)
            if below:
                self._add_host(self._product(below))

    def _add_products(self, above: Powers, below: Powers) -> None:
        for powers in (above, below):
            for unit, power in powers:
                self._add_unit(unit, power)
        # What stands above and below alike tells of no sum under one exponential
        both = dict(above).keys() & dict(below).keys()
        for powers in (above, below):
            self._add_exponents(tuple(pair for pair in powers if pair[0] not in both))
            roots = tuple((unit, 2) for unit, power in powers if power % 2)
            if len(roots) > 1:
                self._add_host(self._product(roots))

    def _add_unit(self, unit: int, power: int) -> None:
        key = self._forms.units[unit]
        if power > 2 or power % 2:
            self._add_host(self._product(((unit, 2),)))
        if key[0] == "call":
            for argument in key[2]:
                self._add_host(argument)
        elif key[0] == "largest":
            self._add_host(key[2])
            for mask in _some_of(key[1]):
                self._add_host(self._forms.largest(key[2], mask))
        elif key[0] == "sum of":
            self._add_host(key[1])
        elif key[0] == "sum":
            self._add_host(self._product(((unit, 2),)))
            self._add_products(key[2], key[3])

    def _add_exponents(self, powers: Powers) -> None:
        """A product of exponentials is one of a sum."""
        forms = self._forms
        inner = [
            forms.multiply(forms.units[unit][2][0], forms.number(Fraction(power, 2)))
            for unit, power in powers
            if forms.units[unit][:2] == ("call", "exp")
        ]
        if len(inner) > 1:
            self._add_host(reduce(forms.add, inner))

    def _product(self, powers: Powers) -> int:
        return self._forms.of_monomial((powers, (), ONE, ()))

    def _units_in(self, product: Product) -> Iterator[int]:
        """The units of a product and of the sums in it."""
        for powers in product:
            for unit, _ in powers:
                yield unit
                key = self._forms.units[unit]
                if key[0] == "sum":
                    yield from self._units_in((key[2], key[3]))

    def _bound(self, unit: int) -> Mask:
        key = self._forms.units[unit]
        return key[1] if key[0] in ("sum", "largest") else 0

    # Whether a form is a part of one of them

    def _is_part(self, form: int) -> bool:
        items = self._forms.items[form]
        if not items:
            return False
        first = items[0][0]
        return any(self._fits(form, first, host, mono) for host, mono in self._spots(first))

    def _spots(self, part: Monomial) -> Iterable[Spot]:
        """Where all its units may be found, if anywhere; a number may be in any term."""
        spots = [self._spots_of(unit) for unit, _ in (*part[0], *part[1])]
        if not spots:
            return [(host, mono) for host in self._hosts for mono, _ in self._forms.items[host]]
        return [one for one in spots[0] if all(one in others for others in spots[1:])]

    def _spots_of(self, unit: int) -> dict[Spot, None]:
        found = self._spots_known.get(unit)
        if found is None:
            found = self._spots_known[unit] = dict.fromkeys(self._found(unit))
        return found

    def _found(self, unit: int) -> Iterator[Spot]:
        """Where a unit is, by itself or as a part of a sum."""
        yield from self._places.get(unit, ())
        key = self._forms.units[unit]
        if key[0] == "sum":
            yield from self._found((*key[2], *key[3])[0][0])

    def _fits(self, form: int, first: Monomial, host: int, mono: Monomial) -> bool:
        (_, factor), *others = self._forms.items[form]
        beside = self._beside.get((host, mono))
        if beside is None:
            beside = self._beside[host, mono] = self._numbers_of(host, mono)
        hosted, whole = beside
        if len(others) > len(hosted):
            return False
        spelled = self._hosts[host]
        wanted = [(first[0], 0), (first[1], 1)]
        units = [(unit, power, side) for powers, side in wanted for unit, power in powers]
        ratio = -1  # wanted only where there is room, which is rare
        for room in self._placed(units, _Remainder((mono[0], mono[1]))):
            if ratio < 0:
                ratio = self._forms.divide(self._number(first, factor), whole)
            if ratio in self._ratios(room, () if spelled else (mono[0], mono[1])) and self._agree(
                room, others, hosted, ratio
            ):
                return True
        return False

    def _numbers_of(self, host: int, mono: Monomial) -> tuple[dict[Product, int], int]:
        """Those of the terms beside one, and its own."""
        items = self._forms.items[host]
        others = {
            (own[0], own[1]): self._number(own, number) for own, number in items if own != mono
        }
        return others, self._number(mono, dict(items)[mono])

    def _number(self, mono: Monomial, factor: Exact) -> int:
        """The constants of a term, as a form."""
        return self._forms.of_monomial(((), (), mono[2], mono[3]), factor)

    def _ratios(self, room: _Remainder, more: tuple[Powers, ...]) -> set[int]:
        """By what a part's number may be off, because of means where the reference has sums."""
        forms = self._forms
        found = {forms.one}
        for side, powers in enumerate((*room.left, *more)):
            for unit, power in powers:
                key = forms.units[unit]
                if key[0] == "sum":
                    size = forms.power(forms.size(key[1]), power if side in (0, 3) else -power)
                    found |= {forms.multiply(one, size) for one in found}
        for one in room.sums:
            sizes = [forms.size(mask) for mask in {one.whole, one.bound} if mask]
            found |= {forms.multiply(own, size) for own in found for size in sizes}
        return found

    def _agree(
        self,
        room: _Remainder,
        others: Sequence[tuple[Monomial, Exact]],
        hosted: dict[Product, int],
        ratio: int,
    ) -> bool:
        """Whether the other terms of the part become other terms of the host."""
        taken: set[Product] = set()
        for mono, factor in others:
            own = self._number(mono, factor)
            for image in self._within(room, mono):
                if image in taken or image not in hosted:
                    return False
                if self._forms.divide(own, hosted[image]) != ratio:
                    return False
                taken.add(image)
        return True

    def _within(self, room: _Remainder, mono: Monomial) -> set[Product]:
        """What becomes of another term of the part in the place of the first."""
        forms = self._forms
        form = forms.of_monomial((mono[0], mono[1], ONE, ()))
        bound = 0
        for one in room.sums:
            form = forms.multiply(form, forms.of_monomial((*one.left, ONE, ())))
            bound |= one.bound
        whole = forms.multiply(
            forms.sum(form, bound & forms.free(form)), forms.of_monomial((*room.left, ONE, ()))
        )
        return {(own[0], own[1]) for own, _ in forms.items[whole]}

    def _placed(self, units: list[tuple[int, int, int]], room: _Remainder) -> Iterator[_Remainder]:
        """Every way to find a place for each unit."""
        if not units:
            yield room
            return
        (unit, power, side), *rest = units
        if _has_power(room.left[side], unit, power):
            taken = _less(room.left, side, ((unit, power),))
            yield from self._placed(rest, _Remainder(taken, room.sums))
        for opened in self._opened(room):
            for number, one in enumerate(opened.sums):
                inner = self._inside(unit, power, side, one)
                if inner is not None:
                    sums = (*opened.sums[:number], inner, *opened.sums[number + 1 :])
                    yield from self._placed(rest, _Remainder(opened.left, sums))

    def _opened(self, room: _Remainder) -> Iterator[_Remainder]:
        """The room as it is, and with one more of its sums looked into."""
        if room.sums:
            yield room
        for unit, power in room.left[0]:
            key = self._forms.units[unit]
            if key[0] == "sum" and power == 2:
                sums = (*room.sums, _Sum(key[1], key[1], (key[2], key[3])))
                yield _Remainder(_less(room.left, 0, ((unit, power),)), sums)

    def _inside(self, unit: int, power: int, side: int, one: _Sum) -> _Sum | None:
        """A sum after a factor of it, or a sum over some of its indices, is taken out."""
        if _has_power(one.left[side], unit, power):
            return _Sum(one.whole, one.bound, _less(one.left, side, ((unit, power),)))
        key = self._forms.units[unit]
        if key[0] != "sum" or power != 2 or side or key[1] & ~one.bound:
            return None
        above, below = key[2], key[3]
        if not (_has(one.left[0], above) and _has(one.left[1], below)):
            return None
        left = (without(one.left[0], above), without(one.left[1], below))
        if any(self._forms.frees[other] & key[1] for other, _ in (*left[0], *left[1])):
            return None
        return _Sum(one.whole, one.bound & ~key[1], left)


def _some_of(mask: Mask) -> Iterator[Mask]:
    """Every part of a set of indices, but none and all."""
    part = mask & mask - 1
    while part:
        yield part
        part = part - 1 & mask


def _has(powers: Powers, part: Powers) -> bool:
    """Whether a product has these factors."""
    return all(_has_power(powers, unit, power) for unit, power in part)


def _has_power(powers: Powers, unit: int, power: int) -> bool:
    """Whether a product has a unit to this power; a root is no part of what it is the root of."""
    for one, found in powers:
        if one == unit:
            return found >= power and power % 2 <= found % 2
    return False


def _less(product: Product, side: int, part: Powers) -> Product:
    above, below = product
    return (above, without(below, part)) if side else (without(above, part), below)
