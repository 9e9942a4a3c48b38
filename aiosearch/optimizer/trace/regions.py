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

from ...capture.jax_types import aval
from .equations import (
    ClassifiedEquation,
    EquationKind,
    bodies,
    contracts,
    equation_kind,
    nested,
    reduces,
)
from .flat_jaxpr import FlatJaxpr


class Clusters:
    """Numbers in an order that respects their edges, joined as long as no circle arises."""

    def __init__(self, edges: Iterable[tuple[int, int]], count: int) -> None:
        self._parent = list(range(count))
        self._size = [1] * count
        self._apart: set[tuple[int, int, int, int]] = set()
        self._after: list[set[int]] = [set() for _ in range(count)]
        for earlier, later in edges:
            self._after[earlier].add(later)

    def find(self, member: int) -> int:
        """The number that stands for a cluster."""
        while self._parent[member] != member:
            self._parent[member] = self._parent[self._parent[member]]
            member = self._parent[member]
        return member

    def join(self, left: int, right: int) -> bool:
        """Makes two clusters one, unless a way from one to the other leads through a third."""
        left, right = self.find(left), self.find(right)
        if left == right:
            return True
        if self._is_apart(left, right):
            return False
        self.merge(left, right)
        return True

    def merge(self, left: int, right: int) -> None:
        """Makes two clusters one, where it is known that nothing is between them."""
        left, right = self.find(left), self.find(right)
        if left == right:
            return
        self._parent[right] = left
        self._size[left] += self._size[right]
        self._after[left] |= self._after[right]
        self._after[right] = set()

    def _is_apart(self, left: int, right: int) -> bool:
        """Whether a third is between them, which only their own growth can change."""
        pair = (left, self._size[left], right, self._size[right])
        if pair not in self._apart:
            if not (self._leads_around(left, right) or self._leads_around(right, left)):
                return False
            self._apart.add(pair)
        return True

    def after(self, cluster: int) -> set[int]:
        """The clusters that need something of this one."""
        root = self.find(cluster)
        following = {self.find(later) for later in self._after[root]} - {root}
        self._after[root] = set(following)
        return following

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
    repetition = _chain(region)
    if repetition is None:
        return [region]
    start, period, copies = repetition
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
            aligned = _aligned(uses, start, stop, period)
            if aligned and (best is None or aligned[1] * aligned[2] > best[1] * best[2]):
                best = aligned
    return best


def _token(step: ClassifiedEquation) -> Hashable:
    """What a step does, whatever it does it to."""
    equation = step.equation
    types = tuple(str(atom.aval) for atom in (*equation.invars, *equation.outvars))
    numbers = tuple(str(atom) for atom in equation.invars if isinstance(atom, Literal))
    params = [f"{name}={value}" for name, value in equation.params.items()]
    return equation.primitive.name, types, numbers, *(text for text in params if "0x" not in text)


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
    producers: dict[Var, int] = {}
    uses: list[list[int]] = [[] for _ in region]
    for at, step in enumerate(region):
        for atom in step.equation.invars:
            if not isinstance(atom, Literal) and atom in producers:
                uses[producers[atom]].append(at)
        producers.update((var, at) for var in step.equation.outvars)
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
    takers = [at for producer in range(start, end) for at in uses[producer] if at >= end]
    return bool(takers) and max(takers) < end + period


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
    for producer, takers in enumerate(_uses(region)):
        if takers:
            changes[producer + 1] += 1
            changes[max(takers) + 1] -= 1
    count, counts = 0, []
    for at in range(len(region) + 1):
        count += changes[at]
        counts.append(count)
    return counts


def dependencies(steps: Sequence[ClassifiedEquation]) -> list[tuple[int, int]]:
    """Which step comes before which: it makes what the other takes, or both have effects."""
    producers = {var: step.index for step in steps for var in step.equation.outvars}
    edges = {
        (producers[atom], step.index)
        for step in steps
        for atom in step.equation.invars
        if not isinstance(atom, Literal) and atom in producers
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
    producers = {var: step.index for step in readable for var in step.equation.outvars}
    flow = [
        (producers[atom], step.index)
        for step in readable
        for atom in step.equation.invars
        if not isinstance(atom, Literal) and atom in producers
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
        for left, right in pairwise(taking):
            clusters.join(left, right)


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
    parts = [part for step in computing for part in nested(step.equation) if not any(bodies(part))]
    many = sum(equation_kind(part) is not EquationKind.MOVE for part in parts) > 1
    again = many or any(reduces(step.equation) for step in computing)
    return again and _is_floating(computing)


def _is_floating(steps: Sequence[ClassifiedEquation]) -> bool:
    dtypes = [str(aval(var).dtype) for step in steps for var in step.equation.outvars]
    return any("float" in dtype for dtype in dtypes)
