"""The subterm test, which prunes the search: whether a value can occur on the way to the reference.

Problem: a search that applies every operator to every value drowns in values that never become the
reference. A solver answers *unknown* to nearly all of them; here membership is computed on normal
forms.

Worked example, LoRA: the reference is X·W + (X·A)·B, that is Σ over feature of X·W plus Σ over
feature and rank of X·A·B. `W + A·B` is a part: multiplied by X and summed over feature it is the
reference. `X·A` is a part: multiplied by B and summed over rank it is the second monomial. `sum(X,
axes=[feature])` is none, as W depends on feature too and the sum has left it behind. `X·X` is none,
as no monomial has X twice.

Rule: a form is a part where something can be multiplied to it, summed over it and added to it so
that a form of the reference comes out. Every unit of one monomial of the part is placed in a
monomial of a *host*, a form of the reference or of what its functions take; a sum in the host may
be looked into. An index that the part has summed over already must be of no use to what is left of
that sum. The number of the part has to be the host's, up to the size of an index where a mean may
stand for a sum. The further monomials of the part then have to become further monomials of the same
host, by the same factor.

Invariant: no value on a way to the reference by the stated axioms is refused, which tests check by
rewriting the reference at random; a value that is accepted in vain only costs time.

Cost: a form is decided once. The places of its first unit bound the work, and in each of them
every unit is tried in every sum of the monomial.

See docs/why/superoptimizer.md, "What is pruned".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from functools import reduce
from operator import or_
from typing import NamedTuple, TypeAlias

from .normal_form import (
    ONE,
    CallUnit,
    Exact,
    FactorUnit,
    LargestUnit,
    Mask,
    Monomial,
    NormalForms,
    Powers,
    SumUnit,
    without,
)

Product: TypeAlias = tuple[Powers, Powers]
"""The units above and below the line."""
Spot: TypeAlias = tuple[int, Monomial]
"""A host and one monomial of it, where units of a part may be placed."""


class _Sum(NamedTuple):
    """A sum of the host that is looked into, less the factors that the part has claimed."""

    whole: Mask
    """The set of indices that the sum is over."""
    bound: Mask
    """The indices that are still to be summed over: those that the part has not summed itself."""
    left: Product


class _Remainder(NamedTuple):
    """What a host's monomial has left after some units of a part have found their places."""

    left: Product
    sums: tuple[_Sum, ...] = ()


class SubtermTest:
    """The parts of a reference, which is described by the forms of all its terms: `form in test`
    answers.
    """

    def __init__(self, forms: NormalForms, terms: Iterable[int]) -> None:
        self._forms = forms
        self._known: dict[int, bool] = {}
        self._beside: dict[Spot, tuple[dict[Product, int], int]] = {}
        """The constants of the host's other monomials, and the constant of this one, by `Spot`."""
        self._hosts: dict[int, bool] = {}
        """The forms that may contain parts, and whether the reference computes them as they are."""
        for term in terms:
            self._hosts[term] = True
        # Hosts found inside hosts are marked False: they occur in some spelling of the reference
        # only, so a constant factor of theirs may differ by a size.
        for term in list(self._hosts):
            self._add_inner(term)
        self._spots_known: dict[int, dict[Spot, None]] = {}
        """The spots where a unit may be placed. A sum may also be where its first factor is: its
        other factors have to be there too."""
        self._places: dict[int, list[Spot]] = {}
        """The monomials that have a unit as a factor."""
        for host in self._hosts:
            for mono, _ in forms.items[host]:
                for unit in dict.fromkeys(self._units_in((mono[0], mono[1]))):
                    self._places.setdefault(unit, []).append((host, mono))
        self.bound: Mask = reduce(or_, (self._bound(unit) for unit in self._places), 0)
        """The indices that the reference sums over or takes the largest of."""
        self.largest = any(isinstance(forms.units[number], LargestUnit) for number in self._places)
        """Whether the reference takes the largest of something."""
        self.negative = any(factor < 0 for host in self._hosts for _, factor in forms.items[host])
        """Whether the reference subtracts."""

    def __contains__(self, form: int) -> bool:
        verdict = self._known.get(form)
        if verdict is None:
            verdict = self._known[form] = self._is_part(form)
        return verdict

    @property
    def known(self) -> dict[int, bool]:
        """The forms that were asked about, each with its answer."""
        return self._known

    # The hosts: forms of the reference, and what can be made of them by a rule of functions

    def _add_host(self, form: int) -> None:
        """Adds a form that some spelling of the reference computes, with all that is inside it."""
        if form not in self._hosts and self._forms.items[form]:
            self._hosts[form] = False
            self._add_inner(form)

    def _add_inner(self, form: int) -> None:
        for (above, below, _, _), _ in self._forms.items[form]:
            self._add_products(above, below)
            if below:
                self._add_host(self._product(below))

    def _add_products(self, above: Powers, below: Powers) -> None:
        """Adds what the two sides of a fraction may be made of: products under a shared root or
        exponential.
        """
        for powers in (above, below):
            for unit, power in powers:
                self._add_unit(unit, power)
        # What stands above and below alike tells of no sum under one exponential
        both = dict(above).keys() & dict(below).keys()
        for powers in (above, below):
            self._add_exponents(tuple(pair for pair in powers if pair[0] not in both))
            # √u·√v is √(u·v): a kernel may multiply before it takes the root.
            roots = tuple((unit, 2) for unit, power in powers if power % 2)
            if len(roots) > 1:
                self._add_host(self._product(roots))

    def _add_unit(self, number: int, power: int) -> None:
        """Adds the forms that one unit is made of."""
        # x² is x·x and √x is made of x, so x by itself may be computed on the way.
        if power > 2 or power % 2:
            self._add_host(self._product(((number, 2),)))
        match self._forms.units[number]:
            case CallUnit(_, arguments):
                for argument in arguments:
                    self._add_host(argument)
            case LargestUnit(bound, form):
                self._add_host(form)
                # A largest may be taken in two steps, over some of the indices in a loop and the
                # remainder behind it.
                for mask in _proper_subsets(bound):
                    self._add_host(self._forms.largest(form, mask))
            case FactorUnit(form):
                self._add_host(form)
            case SumUnit(_, above, below):
                self._add_host(self._product(((number, 2),)))
                self._add_products(above, below)

    def _add_exponents(self, powers: Powers) -> None:
        """Adds the sum whose exponential a product of exponentials is: exp(a)·exp(b) may come from
        exp(a + b).
        """
        forms = self._forms
        inner = [
            forms.multiply(unit.arguments[0], forms.number(Fraction(power, 2)))
            for unit, power in ((forms.units[number], power) for number, power in powers)
            if isinstance(unit, CallUnit) and unit.name == "exp"
        ]
        if len(inner) > 1:
            self._add_host(reduce(forms.add, inner))

    def _product(self, powers: Powers) -> int:
        return self._forms.of_monomial((powers, (), ONE, ()))

    def _units_in(self, product: Product) -> Iterator[int]:
        """The units of a product and, at any depth, of the sums in it."""
        for powers in product:
            for number, _ in powers:
                yield number
                unit = self._forms.units[number]
                if isinstance(unit, SumUnit):
                    yield from self._units_in((unit.above, unit.below))

    def _bound(self, number: int) -> Mask:
        unit = self._forms.units[number]
        return unit.bound if isinstance(unit, SumUnit | LargestUnit) else 0

    # Whether a form is a part of one of them

    def _is_part(self, form: int) -> bool:
        items = self._forms.items[form]
        if not items:
            return False
        first = items[0][0]
        return any(self._fits(form, first, host, mono) for host, mono in self._spots(first))

    def _spots(self, part: Monomial) -> Iterable[Spot]:
        """The monomials that hold every unit of `part`; any monomial where it is a bare number."""
        spots = [self._spots_of(unit) for unit, _ in (*part[0], *part[1])]
        if not spots:
            return [(host, mono) for host in self._hosts for mono, _ in self._forms.items[host]]
        return [
            spot for spot in spots[0] if all(spot in spots_of_unit for spots_of_unit in spots[1:])
        ]

    def _spots_of(self, unit: int) -> dict[Spot, None]:
        spots = self._spots_known.get(unit)
        if spots is None:
            spots = self._spots_known[unit] = dict.fromkeys(self._placements(unit))
        return spots

    def _placements(self, number: int) -> Iterator[Spot]:
        """The spots where a unit is a factor, or, if it is a sum, where its first factor is."""
        yield from self._places.get(number, ())
        unit = self._forms.units[number]
        if isinstance(unit, SumUnit):
            yield from self._placements((*unit.above, *unit.below)[0][0])

    def _fits(self, form: int, first: Monomial, host: int, mono: Monomial) -> bool:
        """Whether `form`, by its first monomial, can become the monomial `mono` of `host`."""
        (_, factor), *further = self._forms.items[form]
        beside = self._beside.get((host, mono))
        if beside is None:
            beside = self._beside[host, mono] = self._numbers_of(host, mono)
        hosted, whole = beside
        # Distinct monomials of a part stay distinct when they are multiplied and summed, as nothing
        # cancels: the host needs as many.
        if len(further) > len(hosted):
            return False
        spelled = self._hosts[host]
        sides = [(first[0], 0), (first[1], 1)]
        units = [(unit, power, side) for powers, side in sides for unit, power in powers]
        ratio = -1  # computed only where there is room, which is rare
        for room in self._assignments(units, _Remainder((mono[0], mono[1]))):
            if ratio < 0:
                ratio = self._forms.divide(self._number(first, factor), whole)
            if ratio in self._ratios(room, () if spelled else (mono[0], mono[1])) and self._agree(
                room, further, hosted, ratio
            ):
                return True
        return False

    def _numbers_of(self, host: int, mono: Monomial) -> tuple[dict[Product, int], int]:
        """The constants of the monomials beside `mono`, and that of `mono`."""
        items = self._forms.items[host]
        beside = {
            (neighbour[0], neighbour[1]): self._number(neighbour, number)
            for neighbour, number in items
            if neighbour != mono
        }
        return beside, self._number(mono, dict(items)[mono])

    def _number(self, mono: Monomial, factor: Exact) -> int:
        """The constants of a monomial, as a form."""
        return self._forms.of_monomial(((), (), mono[2], mono[3]), factor)

    def _ratios(self, room: _Remainder, outside: tuple[Powers, ...]) -> set[int]:
        """The factors by which the constant of a part may be off, as a mean may stand where the
        reference has a sum.
        """
        forms = self._forms
        ratios = {forms.one}
        for side, powers in enumerate((*room.left, *outside)):
            for number, power in powers:
                unit = forms.units[number]
                if isinstance(unit, SumUnit):
                    size = forms.power(forms.size(unit.bound), power if side in (0, 3) else -power)
                    # Each sum outside the part may have been a mean, whose size is then divided out
                    # later: every product of such sizes is a possible ratio. The set doubles with
                    # each sum, of which monomials have few.
                    ratios |= {forms.multiply(ratio, size) for ratio in ratios}
        for inner in room.sums:
            sizes = [forms.size(mask) for mask in {inner.whole, inner.bound} if mask]
            ratios |= {forms.multiply(ratio, size) for ratio in ratios for size in sizes}
        return ratios

    def _agree(
        self,
        room: _Remainder,
        further: Sequence[tuple[Monomial, Exact]],
        hosted: dict[Product, int],
        ratio: int,
    ) -> bool:
        """Whether the further monomials of the part become further monomials of the host by one
        `ratio`.
        """
        claimed: set[Product] = set()
        for mono, factor in further:
            constant = self._number(mono, factor)
            for image in self._within(room, mono):
                if image in claimed or image not in hosted:
                    return False
                if self._forms.divide(constant, hosted[image]) != ratio:
                    return False
                claimed.add(image)
        return True

    def _within(self, room: _Remainder, mono: Monomial) -> set[Product]:
        """What a further monomial of the part becomes when the surroundings of the first are
        applied to it.
        """
        forms = self._forms
        form = forms.of_monomial((mono[0], mono[1], ONE, ()))
        bound = 0
        for inner in room.sums:
            form = forms.multiply(form, forms.of_monomial((*inner.left, ONE, ())))
            bound |= inner.bound
        whole = forms.multiply(
            forms.sum(form, bound & forms.free(form)), forms.of_monomial((*room.left, ONE, ()))
        )
        return {(image[0], image[1]) for image, _ in forms.items[whole]}

    def _assignments(
        self, units: list[tuple[int, int, int]], room: _Remainder
    ) -> Iterator[_Remainder]:
        """Every way to place each of `units`: beside the sums of the monomial, or inside a sum that
        is opened.
        """
        if not units:
            yield room
            return
        (unit, power, side), *unplaced = units
        if _has_power(room.left[side], unit, power):
            left = _without_side(room.left, side, ((unit, power),))
            yield from self._assignments(unplaced, _Remainder(left, room.sums))
        for opened in self._opened(room):
            for number, inner in enumerate(opened.sums):
                reduced = self._removed_from_sum(unit, power, side, inner)
                if reduced is not None:
                    sums = (*opened.sums[:number], reduced, *opened.sums[number + 1 :])
                    yield from self._assignments(unplaced, _Remainder(opened.left, sums))

    def _opened(self, room: _Remainder) -> Iterator[_Remainder]:
        """The remainder as it is, and with one further sum of it opened."""
        if room.sums:
            yield room
        for number, power in room.left[0]:
            unit = self._forms.units[number]
            # A sum squared is a product of two sums over different copies of the index; only a
            # plain sum can be entered.
            if isinstance(unit, SumUnit) and power == 2:
                sums = (*room.sums, _Sum(unit.bound, unit.bound, (unit.above, unit.below)))
                yield _Remainder(_without_side(room.left, 0, ((number, power),)), sums)

    def _removed_from_sum(self, number: int, power: int, side: int, entered: _Sum) -> _Sum | None:
        """The sum without a factor, which is a unit by its number, or without the factors and
        indices of a unit that is a partial sum; None where neither fits.
        """
        if _has_power(entered.left[side], number, power):
            return _Sum(
                entered.whole, entered.bound, _without_side(entered.left, side, ((number, power),))
            )
        unit = self._forms.units[number]
        if not isinstance(unit, SumUnit) or power != 2 or side or unit.bound & ~entered.bound:
            return None
        above, below = unit.above, unit.below
        if not (_has(entered.left[0], above) and _has(entered.left[1], below)):
            return None
        left = (without(entered.left[0], above), without(entered.left[1], below))
        # The legality condition of the whole test: what the part has summed over, nothing that is
        # left may depend on.
        if any(self._forms.frees[remaining] & unit.bound for remaining, _ in (*left[0], *left[1])):
            return None
        return _Sum(entered.whole, entered.bound & ~unit.bound, left)


def _proper_subsets(mask: Mask) -> Iterator[Mask]:
    """Every proper, nonempty subset of a mask, in falling order."""
    part = mask & mask - 1
    while part:
        yield part
        part = part - 1 & mask


def _has(powers: Powers, part: Powers) -> bool:
    """Whether `powers` has all factors of `part`."""
    return all(_has_power(powers, unit, power) for unit, power in part)


def _has_power(powers: Powers, unit: int, power: int) -> bool:
    """Whether a product has `unit` to at least `power`. A root is no factor of what it is the root
    of, so odd powers need odd ones.
    """
    for factor, present in powers:
        if factor == unit:
            return present >= power and power % 2 <= present % 2
    return False


def _without_side(product: Product, side: int, part: Powers) -> Product:
    """A product without `part` on one `side`: 0 is above the line, 1 below."""
    above, below = product
    return (above, without(below, part)) if side else (without(above, part), below)
