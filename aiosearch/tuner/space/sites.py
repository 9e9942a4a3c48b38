"""Sites: the places of a space at which a value is drawn, and what may be drawn there.

A site is data, so that a trace which travels as JSON says what it was drawn from. Every site can
list its members in one fixed order, draw one, move to a near one, and turn a value that no longer
fits, from an older space or another shape, into the nearest that does.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, TypeAlias

from msgspec import Struct

from ..errors import SpaceError

Value: TypeAlias = Any
"""A truth value, a number, a text, nothing, or a tuple of those: what JSON can carry."""

STEP_CHANCE = 0.7
"""How often a mutation moves a number to its neighbour rather than anywhere."""
MOST_WASTE = 0.25
"""Of a padded extent at most so much, relative to the true one, is computed for nothing."""


class _Site(Struct, frozen=True, kw_only=True, tag_field="kind"):
    """A place of a space, by its name; what it is called decides which record fits it."""

    name: str

    def members(self) -> Sequence[Value]:
        """All values, in the order in which ties are settled."""
        raise NotImplementedError

    @property
    def size(self) -> int:
        return len(self.members())

    def contains(self, value: Value) -> bool:
        """Whether a value is a member; 1 is not True here, which Python's own `in` takes it for."""
        return any(value == member and type(value) is type(member) for member in self.members())

    def first(self) -> Value:
        """The value that a program gets where nobody decides."""
        return self.members()[0]

    def draw(self, random: Random) -> Value:
        return random.choice(self.members())

    def mutate(self, value: Value, random: Random) -> Value:
        """A value that differs from `value`, near it as a rule; the same if it is the only one."""
        members = self.members()
        if len(members) < 2:
            return value
        at = _index(members, value)
        if at is not None and _is_ordered(members) and random.random() < STEP_CHANCE:
            near = [place for place in (at - 1, at + 1) if 0 <= place < len(members)]
            return members[random.choice(near)]
        return random.choice([member for place, member in enumerate(members) if place != at])

    def repair(self, value: Value, previous: _Site | None = None) -> Value | None:
        """The member nearest to a value from elsewhere, or nothing where none is near.

        `previous` is the site that the value was drawn at, whose order may tell what is near.
        """
        if self.contains(value):
            return value
        members = self.members()
        if _is_number(value) and all(map(_is_number, members)):
            return min(members, key=lambda member: abs(_scaled(member) - _scaled(value)))
        return None

    def order(self, value: Value) -> tuple[int, ...]:
        """Where a member stands among the others; what stands earlier wins a tie."""
        at = _index(self.members(), value)
        return (self.size if at is None else at,)

    def positions(self, value: Value) -> tuple[float, ...]:
        """Where a member lies between the first and the last, from 0 to 1; nothing without order.

        >>> IntegerSite(name="warps", low=1, high=16, base=2).positions(4)
        (0.5,)
        """
        members = self.members()
        at = _index(members, value)
        if at is None or not _is_ordered(members):
            return ()
        return (at / max(1, len(members) - 1),)

    def numbers(self, value: Value) -> list[tuple[str, float]]:
        """What a cost model sees of a value: its size where it has one, else which it is."""
        if _is_number(value):
            return [(self.name, _scaled(value))]
        return [(f"{self.name}={member}", float(member == value)) for member in self.members()]

    def call(self, value: Value) -> str:
        """The call that draws here, as Python text, with a value that it is held to."""
        raise NotImplementedError


class CategoricalSite(_Site, frozen=True, kw_only=True, tag="categorical"):
    """Any of a list of values, each as likely unless probabilities are given.

    >>> CategoricalSite(name="block", values=(64, 128)).repair(100)
    128
    """

    values: tuple[Value, ...]
    probabilities: tuple[float, ...] | None = None

    def members(self) -> Sequence[Value]:
        return self.values

    def draw(self, random: Random) -> Value:
        return random.choices(self.values, self.probabilities)[0]

    def call(self, value: Value) -> str:
        odds = "" if self.probabilities is None else f", probabilities={self.probabilities!r}"
        return f"s.categorical({self.name!r}, {self.values!r}{odds}, decision={value!r})"


class IntegerSite(_Site, frozen=True, kw_only=True, tag="integer"):
    """A whole number from `low` to `high`, both included: by steps, or powers of `base` alone.

    >>> list(IntegerSite(name="warps", low=1, high=16, base=2).members())
    [1, 2, 4, 8, 16]
    """

    low: int
    high: int
    step: int = 1
    base: int = 0

    def members(self) -> Sequence[Value]:
        if not self.base:
            return range(self.low, self.high + 1, self.step)
        powers = itertools.takewhile(
            lambda power: power <= self.high,
            (self.base**exponent for exponent in itertools.count()),
        )
        return [power for power in powers if power >= self.low]

    def call(self, value: Value) -> str:
        how = f", base={self.base}" if self.base else f", step={self.step}" * (self.step != 1)
        return f"s.integer({self.name!r}, {self.low}, {self.high}{how}, decision={value!r})"


class SizeSite(_Site, frozen=True, kw_only=True, tag="size"):
    """How much of an extent is done at once, derived from the extent and the hardware.

    Draws are of a few sizes that suit both: divisors, whole vectors doubled, and the shares of the
    units. Members are many more, all whole vectors, and mutations step to the next of them: so a
    search refines around what is good. Of an extent of 100 with 16 lanes and 4 units:

    >>> SizeSite(name="block", extent=100, lanes=16, units=4).usual()
    (1, 2, 4, 5, 7, 10, 13, 16, 20, 25, 32, 50, 64, 100)
    """

    extent: int
    lanes: int
    units: int
    most: int = 0
    """The largest size; 0 for the whole extent."""

    def usual(self) -> tuple[int, ...]:
        """The sizes that are drawn."""
        doubled = (self.lanes << at for at in range(self.extent.bit_length()))
        shares = (-(-self.extent // (self.units * count)) for count in (1, 2, 4))
        sizes = {*_divisors(self.extent), *doubled, *shares}
        return tuple(size for size in sorted(sizes) if size <= self._limit)

    def members(self) -> Sequence[Value]:
        whole = range(self.lanes, self._limit + 1, self.lanes)
        return sorted({*self.usual(), *whole})

    def draw(self, random: Random) -> Value:
        return random.choice(self.usual())

    def call(self, value: Value) -> str:
        limit = f", most={self.most}" if self.most else ""
        how = f"lanes={self.lanes}, units={self.units}{limit}"
        return f"s.size({self.name!r}, {self.extent}, {how}, decision={value!r})"

    @property
    def _limit(self) -> int:
        return min(self.extent, self.most or self.extent)


class LocationSite(_Site, frozen=True, kw_only=True, tag="location"):
    """Where something is computed: one of the legal places, from the outermost inwards.

    A place that is no longer legal becomes the nearest legal one outside it, as a loop that is gone
    leaves the loops around it.
    """

    places: tuple[str, ...]

    def members(self) -> Sequence[Value]:
        return self.places

    def repair(self, value: Value, previous: _Site | None = None) -> Value | None:
        if self.contains(value):
            return value
        if not isinstance(previous, LocationSite) or value not in previous.places:
            return None
        outside = previous.places[: previous.places.index(value)]
        return next((place for place in reversed(outside) if place in self.places), self.places[0])

    def call(self, value: Value) -> str:
        return f"s.location({self.name!r}, {self.places!r}, decision={value!r})"


class ForkSite(_Site, frozen=True, kw_only=True, tag="fork"):
    """Which of several programs goes on from here: each choice is a sketch of its own."""

    branches: tuple[str, ...]

    def members(self) -> Sequence[Value]:
        return self.branches

    def call(self, value: Value) -> str:
        return f"s.fork({self.name!r}, {self.branches!r}, decision={value!r})"


class PermutationSite(_Site, frozen=True, kw_only=True, tag="permutation"):
    """An order of some items."""

    items: tuple[str, ...]

    def members(self) -> Sequence[Value]:
        return list(itertools.permutations(self.items))

    @property
    def size(self) -> int:
        return math.factorial(len(self.items))

    def contains(self, value: Value) -> bool:
        return isinstance(value, tuple) and sorted(value) == sorted(self.items)

    def first(self) -> Value:
        return self.items

    def draw(self, random: Random) -> Value:
        return tuple(random.sample(self.items, len(self.items)))

    def mutate(self, value: Value, random: Random) -> Value:
        """Swaps two items."""
        order = list(value)
        if len(order) > 1:
            first, second = random.sample(range(len(order)), 2)
            order[first], order[second] = order[second], order[first]
        return tuple(order)

    def repair(self, value: Value, previous: _Site | None = None) -> Value | None:
        """Keeps the order of the items that are still there; new ones go where they stand here."""
        if not isinstance(value, tuple | list):
            return None
        order = [item for item in dict.fromkeys(value) if item in self.items]
        for place, item in enumerate(self.items):
            if item not in order:
                order.insert(place, item)
        return tuple(order)

    def order(self, value: Value) -> tuple[int, ...]:
        return tuple(self.items.index(item) for item in value)

    def positions(self, value: Value) -> tuple[float, ...]:
        return ()

    def numbers(self, value: Value) -> list[tuple[str, float]]:
        return [(f"{self.name}.{item}", float(value.index(item))) for item in self.items]

    def call(self, value: Value) -> str:
        return f"s.permutation({self.name!r}, {self.items!r}, decision={value!r})"


class TileSite(_Site, frozen=True, kw_only=True, tag="tile"):
    """A loop cut into nested parts: factors from the outermost to the innermost.

    Perfect tiles are the ordered factorizations of the extent, each as likely. Of padded tiles the
    inner factors are free and the outermost covers the extent, with at most a quarter wasted: an
    extent of 1009, which is prime, has 2 perfect tiles in two parts and hundreds of padded ones.

    >>> TileSite(name="m", extent=8, parts=2).members()
    [(1, 8), (2, 4), (4, 2), (8, 1)]
    """

    extent: int
    parts: int
    most_inner: int = 0
    """The largest innermost factor; 0 for no limit."""
    padded: bool = False

    def members(self) -> Sequence[Value]:
        return sorted(
            (-(-self.extent // inner), *factors)
            for inner, _ in self._inner()
            for factors in _factorizations(inner, self.parts - 1, self.most_inner)
        )

    @property
    def size(self) -> int:
        return self._inner()[-1][1]

    def contains(self, value: Value) -> bool:
        if (
            not isinstance(value, tuple)
            or len(value) != self.parts
            or not all(map(_is_whole, value))
        ):
            return False
        inner = math.prod(value[1:])
        fits = min(value) > 0 and value[0] == -(-self.extent // inner) and self._allows(inner)
        return fits and (not self.most_inner or self.parts < 2 or value[-1] <= self.most_inner)

    def first(self) -> Value:
        """All in the outermost loop."""
        return (self.extent, *[1] * (self.parts - 1))

    def draw(self, random: Random) -> Value:
        """Draws the product of the inner factors by how many factorizations it has, then those."""
        products = self._inner()
        ticket = random.randrange(products[-1][1])
        inner = products[bisect.bisect_right(products, ticket, key=lambda row: row[1])][0]
        factors = _drawn_factors(inner, self.parts - 1, self.most_inner, random)
        return (-(-self.extent // inner), *factors)

    def mutate(self, value: Value, random: Random) -> Value:
        """Moves a prime factor from a part to another; a padded tile may also gain or lose it."""
        for _ in range(16):
            factors = list(value)
            source, target = random.sample(range(self.parts), 2) if self.parts > 1 else (0, 0)
            prime = random.choice(_primes(factors[source]) or [random.choice((2, 3))])
            if factors[source] % prime == 0:
                factors[source] //= prime
            if target:
                factors[target] *= prime
            factors[0] = -(-self.extent // math.prod(factors[1:]))
            if tuple(factors) != value and self.contains(tuple(factors)):
                return tuple(factors)
        return self.draw(random)

    def repair(self, value: Value, previous: _Site | None = None) -> Value | None:
        """Keeps the inner factors as they are where they fit, the innermost first.

        A record of (8, 4, 32) for an extent of 1024 becomes (3, 4, 8) for one of 96: the innermost
        stays as large as divides, and so on outwards; the outermost takes what is left.
        """
        if self.contains(value):
            return value
        if not isinstance(value, tuple | list) or not value or not all(map(_is_whole, value)):
            return None
        requested = [1] * self.parts + [max(1, factor) for factor in value]
        left, factors = self.extent, list[int]()
        limit = self.most_inner or self.extent
        for factor in reversed(requested[len(requested) - self.parts + 1 :]):
            factor = min(factor, left, limit if not factors else left)
            if not self.padded:
                factor = max(size for size in range(1, factor + 1) if left % size == 0)
            factors.append(factor)
            left = -(-left // factor)
        tile = (-(-self.extent // math.prod(factors)), *reversed(factors))
        return tile if self.contains(tile) else None

    def order(self, value: Value) -> tuple[int, ...]:
        return tuple(value)

    def positions(self, value: Value) -> tuple[float, ...]:
        """Of each inner factor, as a logarithm: the outermost follows."""
        return tuple(math.log2(factor) / math.log2(max(2, self.extent)) for factor in value[1:])

    def numbers(self, value: Value) -> list[tuple[str, float]]:
        """Each factor, and how far the nest reaches from each part inwards."""
        factors = [(f"{self.name}.{at}", math.log2(factor)) for at, factor in enumerate(value)]
        reach = [
            (f"{self.name}.{at}:", math.log2(math.prod(value[at:]))) for at in range(1, self.parts)
        ]
        return factors + reach

    def call(self, value: Value) -> str:
        limit = f", most_inner={self.most_inner}" if self.most_inner else ""
        padded = ", padded=True" if self.padded else ""
        how = f"parts={self.parts}{limit}{padded}"
        return f"s.tile({self.name!r}, {self.extent}, {how}, decision={value!r})"

    def _allows(self, inner: int) -> bool:
        if not self.padded:
            return self.extent % inner == 0
        waste = -(-self.extent // inner) * inner - self.extent
        return waste <= MOST_WASTE * self.extent

    def _inner(self) -> Sequence[tuple[int, int]]:
        return _inner_products(self.extent, self.parts, self.most_inner, self.padded)


AnySite: TypeAlias = (
    CategoricalSite | IntegerSite | SizeSite | LocationSite | ForkSite | PermutationSite | TileSite
)


@functools.lru_cache(maxsize=256)
def _inner_products(
    extent: int, parts: int, most_inner: int, padded: bool
) -> list[tuple[int, int]]:
    """Products that the inner factors may have, each with how many tiles there are up to it.

    For an extent of 4 in two parts: [(1, 1), (2, 2), (4, 3)].
    """
    site = TileSite(name="", extent=extent, parts=parts, most_inner=most_inner, padded=padded)
    candidates = range(1, extent + 1) if parts > 1 else [1]
    products, total = [], 0
    for inner in candidates:
        if site._allows(inner) and (count := _count(inner, parts - 1, most_inner)):
            total += count
            products.append((inner, total))
    if not products:
        raise SpaceError(f"an extent of {extent} has no tile of {parts} parts")
    return products


@functools.lru_cache(maxsize=65536)
def _count(product: int, parts: int, most_inner: int) -> int:
    """How many ordered factorizations there are, the last factor at most `most_inner`.

    Without a limit each prime is dealt to the parts on its own: an exponent of e to k parts in
    C(e + k - 1, k - 1) ways, as stars and bars say.
    """
    if parts == 0:
        return int(product == 1)
    if not most_inner or product <= most_inner:
        exponents = [_primes(product).count(prime) for prime in set(_primes(product))]
        return math.prod(math.comb(exponent + parts - 1, parts - 1) for exponent in exponents)
    return sum(
        _count(product // last, parts - 1, 0) for last in _divisors(product) if last <= most_inner
    )


def _drawn_factors(product: int, parts: int, most_inner: int, random: Random) -> tuple[int, ...]:
    """An ordered factorization, each as likely: the last factor by how many the rest has."""
    if parts <= 1:
        return (product,) * parts
    lasts = [last for last in _divisors(product) if not most_inner or last <= most_inner]
    counts = [_count(product // last, parts - 1, 0) for last in lasts]
    last = random.choices(lasts, counts)[0]
    return (*_drawn_factors(product // last, parts - 1, 0, random), last)


def _factorizations(product: int, parts: int, most_inner: int) -> Iterator[tuple[int, ...]]:
    if parts == 0:
        if product == 1:
            yield ()
        return
    for last in _divisors(product):
        if (not most_inner or last <= most_inner) and (parts > 1 or last == product):
            for before in _factorizations(product // last, parts - 1, 0):
                yield (*before, last)


@functools.lru_cache(maxsize=65536)
def _primes(number: int) -> list[int]:
    """The prime factors, as often as they divide: 12 gives 2, 2, 3."""
    factors, prime = [], 2
    while prime * prime <= number:
        if number % prime:
            prime += 1
        else:
            factors.append(prime)
            number //= prime
    return [*factors, number] if number > 1 else factors


@functools.lru_cache(maxsize=65536)
def _divisors(number: int) -> list[int]:
    small = [size for size in range(1, math.isqrt(number) + 1) if number % size == 0]
    return sorted({*small, *(number // size for size in small)})


def as_value(value: Any) -> Value:
    """A value as it comes from JSON or a user: lists become tuples, at any depth."""
    return tuple(map(as_value, value)) if isinstance(value, list | tuple) else value


def plain_value(value: Any) -> Value:
    """`as_value`, and a scalar of numpy or jax as Python's own number."""
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        return as_value(value.item())
    return as_value(value)


def is_plain(value: Any) -> bool:
    """Whether JSON can hold a value, so that a table and a trace can."""
    if isinstance(value, tuple):
        return all(map(is_plain, value))
    if isinstance(value, dict):
        return all(isinstance(key, str) and is_plain(held) for key, held in value.items())
    return value is None or isinstance(value, str | int | float)


def _index(members: Sequence[Value], value: Value) -> int | None:
    matches = (at for at, member in enumerate(members) if member == value)
    return next(matches, None)


def _is_whole(value: Value) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_ordered(members: Sequence[Value]) -> bool:
    return all(map(_is_number, members))


def _scaled(value: float) -> float:
    """Its logarithm with a sign, as from 64 to 128 is as far as from 128 to 256."""
    return math.copysign(math.log2(1 + abs(value)), value)
