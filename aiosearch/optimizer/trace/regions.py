"""Regions of a jaxpr to optimize: convex, connected groups of equations, split between the
repeated layers of a network.

Which equations can be taken together, so that what is taken can run as one.

Where a large region is cut: between the repeated layers of a network, or where it is narrow.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import prod

from jax.extend.core import Literal, Var

from .equations import (
    ClassifiedEquation,
    EquationKind,
    bodies,
    contracts,
    equation_kind,
    nested,
    reduces,
)
from .flat_jaxpr import FlatJaxpr, aval


class Clusters:
    """Numbers in an order that respects their edges, joined as long as no circle arises."""

    def __init__(self, edges: Iterable[tuple[int, int]], count: int) -> None:
        self._parent = list(range(count))
        self._size = [1] * count
        self._apart: set[tuple[int, int, int, int]] = set()
        self._after: list[set[int]] = [set() for _ in range(count)]
        for earlier, later in edges:
            self._after[earlier].add(later)

    def find(self, one: int) -> int:
        """The number that stands for a cluster."""
        while self._parent[one] != one:
            self._parent[one] = self._parent[self._parent[one]]
            one = self._parent[one]
        return one

    def join(self, one: int, other: int) -> bool:
        """Makes two clusters one, unless a way from one to the other leads through a third."""
        one, other = self.find(one), self.find(other)
        if one == other:
            return True
        if self._is_apart(one, other):
            return False
        self.merge(one, other)
        return True

    def merge(self, one: int, other: int) -> None:
        """Makes two clusters one, where it is known that nothing is between them."""
        one, other = self.find(one), self.find(other)
        if one == other:
            return
        self._parent[other] = one
        self._size[one] += self._size[other]
        self._after[one] |= self._after[other]
        self._after[other] = set()

    def _is_apart(self, one: int, other: int) -> bool:
        """Whether a third is between them, which only their own growth can change."""
        pair = (one, self._size[one], other, self._size[other])
        if pair not in self._apart:
            if not (self._leads_around(one, other) or self._leads_around(other, one)):
                return False
            self._apart.add(pair)
        return True

    def after(self, one: int) -> set[int]:
        """The clusters that need something of this one."""
        own = self.find(one)
        found = {self.find(later) for later in self._after[own]} - {own}
        self._after[own] = set(found)
        return found

    def _leads_around(self, start: int, end: int) -> bool:
        seen = self.after(start) - {end}
        stack = list(seen)
        while stack:
            new = self.after(stack.pop()) - seen
            if end in new:
                return True
            seen |= new
            stack.extend(new)
        return False


def ordered(groups: Sequence[Sequence[int]], edges: Iterable[tuple[int, int]]) -> list[int]:
    """The groups' places, in an order in which each comes after those that it needs."""
    home = {member: place for place, group in enumerate(groups) for member in group}
    needs: dict[int, set[int]] = {place: set() for place in range(len(groups))}
    for earlier, later in edges:
        if home[earlier] != home[later]:
            needs[home[later]].add(home[earlier])
    firsts = sorted(needs, key=lambda place: min(groups[place]))
    return list(_visited(firsts, needs))


def _visited(places: Iterable[int], needs: Mapping[int, set[int]]) -> Iterator[int]:
    done: set[int] = set()
    for start in places:
        stack = [start]
        while stack:
            missing = sorted(needs[stack[-1]] - done)
            if missing:
                stack.append(missing[0])
                continue
            place = stack.pop()
            if place not in done:
                done.add(place)
                yield place


def split_layers(
    region: Sequence[ClassifiedEquation], largest: int
) -> list[list[ClassifiedEquation]]:
    """The region in pieces, each after those that it needs.

    Layers of one kind become pieces of one kind, and pieces have at most `largest` steps wherever
    some place with one value passing allows.
    """
    parts = _repeats(list(region))
    return [piece for part in parts for piece in _narrowed(part, largest)]


def _repeats(region: list[ClassifiedEquation]) -> list[list[ClassifiedEquation]]:
    """Cuts out the longest chain of equal layers, and goes on with what is left."""
    found = _chain(region)
    if found is None:
        return [region]
    start, period, copies = found
    end = start + period * copies
    chain = [region[at : at + period] for at in range(start, end, period)]
    before, after = region[:start], region[end:]
    return [*(_repeats(before) if before else []), *chain, *(_repeats(after) if after else [])]


def _chain(region: Sequence[ClassifiedEquation]) -> tuple[int, int, int] | None:
    """Start, length and number of layers that follow each other; the most steps, then layers."""
    names: dict[Hashable, int] = {}
    tokens = [names.setdefault(_token(step), len(names)) for step in region]
    uses = _uses(region)
    best: tuple[int, int, int] | None = None
    for period in range(2, len(region) // 2 + 1):
        if best is not None and best[1] * best[2] > len(region) - period:
            break
        for start, stop in _runs(tokens, period):
            if not _is_layer(region[start : start + period]):
                continue
            found = _aligned(uses, start, stop, period)
            if found and (best is None or found[1] * found[2] > best[1] * best[2]):
                best = found
    return best


def _token(step: ClassifiedEquation) -> Hashable:
    """What a step does, whatever it does it to."""
    equation = step.equation
    types = tuple(str(atom.aval) for atom in (*equation.invars, *equation.outvars))
    numbers = tuple(str(one) for one in equation.invars if isinstance(one, Literal))
    params = [f"{name}={value}" for name, value in equation.params.items()]
    return equation.primitive.name, types, numbers, *(one for one in params if "0x" not in one)


def _runs(tokens: Sequence[int], period: int) -> list[tuple[int, int]]:
    """Stretches that repeat with this period, at least twice."""
    runs, start = [], 0
    for at in range(len(tokens) - period + 1):
        if at == len(tokens) - period or tokens[at] != tokens[at + period]:
            if at - start >= period:
                runs.append((start, at + period))
            start = at + 1
    return runs


def _is_layer(steps: Sequence[ClassifiedEquation]) -> bool:
    """Products alone are a chain to be searched as a whole; so are functions alone."""
    bends = any(step.kind > EquationKind.MULTILINEAR for step in steps)
    return bends and any(contracts(step.equation) for step in steps)


def _uses(region: Sequence[ClassifiedEquation]) -> list[list[int]]:
    """The places in the region where what a step makes is taken."""
    made: dict[Var, int] = {}
    uses: list[list[int]] = [[] for _ in region]
    for at, step in enumerate(region):
        for atom in step.equation.invars:
            if not isinstance(atom, Literal) and atom in made:
                uses[made[atom]].append(at)
        made.update((var, at) for var in step.equation.outvars)
    return uses


def _aligned(
    uses: Sequence[Sequence[int]], start: int, stop: int, period: int
) -> tuple[int, int, int] | None:
    """The first place from which each layer hands all that it makes to the next one."""
    for first in range(start, min(start + period, stop - 2 * period + 1)):
        copies = (stop - first) // period
        if all(_hands_on(uses, first + period * copy, period) for copy in range(copies - 1)):
            return first, period, copies
    return None


def _hands_on(uses: Sequence[Sequence[int]], start: int, period: int) -> bool:
    end = start + period
    taken = [at for made in range(start, end) for at in uses[made] if at >= end]
    return bool(taken) and max(taken) < end + period


def _narrowed(region: Sequence[ClassifiedEquation], largest: int) -> list[list[ClassifiedEquation]]:
    """Cuts a piece that is too long at the last place where one value passes."""
    pieces, start = [], 0
    passing = _passing(region)
    while len(region) - start > largest:
        narrow = [at for at in range(start + 1, start + largest + 1) if passing[at] <= 1]
        if not narrow:
            narrow = [at for at in range(start + largest, len(region)) if passing[at] <= 1][:1]
        if not narrow:
            break
        pieces.append(list(region[start : narrow[-1]]))
        start = narrow[-1]
    return [*pieces, list(region[start:])]


def _passing(region: Sequence[ClassifiedEquation]) -> list[int]:
    """How many values are made before each place and taken from there on."""
    changes: Counter[int] = Counter()
    for made, taken in enumerate(_uses(region)):
        if taken:
            changes[made + 1] += 1
            changes[max(taken) + 1] -= 1
    count, found = 0, []
    for at in range(len(region) + 1):
        count += changes[at]
        found.append(count)
    return found


pass


pass


def dependencies(steps: Sequence[ClassifiedEquation]) -> list[tuple[int, int]]:
    """Which step comes before which: it makes what the other takes, or both have effects."""
    made = {var: step.index for step in steps for var in step.equation.outvars}
    edges = {
        (made[atom], step.index)
        for step in steps
        for atom in step.equation.invars
        if not isinstance(atom, Literal) and atom in made
    }
    effects = [step.index for step in steps if step.equation.effects]
    return sorted(edges | set(pairwise(effects)))


def regions(
    flat: FlatJaxpr, steps: Sequence[ClassifiedEquation], largest: int
) -> list[list[ClassifiedEquation]]:
    """Steps in order, region by region; what is in none is cheap, fixed or left alone."""
    readable = [step for step in steps if step.kind is not EquationKind.OPAQUE and not step.fixed]
    clusters = Clusters(dependencies(steps), len(steps))
    _join_flow(clusters, steps, readable)
    _join_siblings(clusters, readable)
    groups: dict[int, list[ClassifiedEquation]] = defaultdict(list)
    for step in readable:
        groups[clusters.find(step.index)].append(step)
    parts = [part for group in groups.values() for part in split_layers(group, largest)]
    return [part for part in parts if _is_worth_it(part)]


def _join_flow(
    clusters: Clusters, steps: Sequence[ClassifiedEquation], readable: Sequence[ClassifiedEquation]
) -> None:
    """Each step with what it takes: at one depth always, else as long as no circle arises."""
    depth = _depths(steps)
    made = {var: step.index for step in readable for var in step.equation.outvars}
    flow = [
        (made[atom], step.index)
        for step in readable
        for atom in step.equation.invars
        if not isinstance(atom, Literal) and atom in made
    ]
    for earlier, later in flow:
        if depth[earlier] == depth[later]:
            clusters.merge(earlier, later)
    for earlier, later in flow:
        clusters.join(earlier, later)


def _depths(steps: Sequence[ClassifiedEquation]) -> list[int]:
    """How often what is left alone has to be passed before each step.

    A way from one step to another at its depth passes nothing that is left alone, so that joining
    steps at one depth never makes a circle.
    """
    depths = [0] * len(steps)
    for earlier, later in dependencies(steps):
        passed = (
            steps[earlier].kind is EquationKind.OPAQUE
            and steps[later].kind is not EquationKind.OPAQUE
        )
        depths[later] = max(depths[later], depths[earlier] + passed)
    return depths


def _join_siblings(clusters: Clusters, readable: Sequence[ClassifiedEquation]) -> None:
    """Steps that take the same array; a shared number says nothing."""
    takers: dict[Var, list[int]] = defaultdict(list)
    for step in readable:
        for atom in step.equation.invars:
            if not isinstance(atom, Literal) and prod(aval(atom).shape) > 1:
                takers[atom].append(step.index)
    for taking in takers.values():
        for one, other in pairwise(taking):
            clusters.join(one, other)


def why_no_region(steps: Sequence[ClassifiedEquation]) -> str:
    """Why of what could be read nothing is worth a search, where nothing is."""
    if not steps:
        return "it computes nothing"
    computing = [
        step for step in steps if step.kind not in (EquationKind.OPAQUE, EquationKind.MOVE)
    ]
    if not computing:
        readable = any(step.kind is EquationKind.MOVE for step in steps)
        return "what only moves, repeats or converts elements" if readable else ""
    if not _is_floating(computing):
        return "what computes with whole numbers alone (only floating point is searched)"
    return "operations that stand alone (there is no other way to write one)"


def _is_worth_it(region: Sequence[ClassifiedEquation]) -> bool:
    """Whether there is anything in it that could be done in another way."""
    computing = [step for step in region if step.kind is not EquationKind.MOVE]
    parts = [one for step in computing for one in nested(step.equation) if not any(bodies(one))]
    many = sum(equation_kind(one) is not EquationKind.MOVE for one in parts) > 1
    again = many or any(reduces(step.equation) for step in computing)
    return again and _is_floating(computing)


def _is_floating(steps: Sequence[ClassifiedEquation]) -> bool:
    found = [str(aval(var).dtype) for step in steps for var in step.equation.outvars]
    return any("float" in dtype for dtype in found)
