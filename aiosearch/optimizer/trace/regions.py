"""Regions of a jaxpr to optimize: convex, connected groups of equations, split between the repeated
layers of a network.

Problem: find groups of equations that can each run as one function. Such a group must be convex: a
path that leaves it may not come back, or the group would need a value that is computed from its own
results. And it should be large, as what crosses its border must be stored.

Example, where `sort` cannot be read as a tensor operator:

    0: a = exp x
    1: b = sort a       (left alone)
    2: c = a * 2
    3: d = c + b
    4: e = d * d

`regions` gives [0, 2] and [3, 4]. Equations 2 and 3 are not joined: 3 needs `sort`, which needs 0,
so that {0, 2, 3} would come before and after 1.

Invariant: `Clusters` stays acyclic when its groups are taken for single nodes. Equations at one
depth (`_depths` counts the stretches of equations left alone on the way) are joined without a
search, since a path between them passes nothing that is left alone; all other joins ask
`Clusters.join`.

Cost: nearly linear in the equations for the joins at one depth; a refused join walks the graph of
the clusters once, and is remembered until one of the two grows. `_chain` compares all periods,
which is quadratic in the equations of a region.

docs/reference/optimize.md says what a user sees of it.
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
    """Numbers that are merged into groups as long as the graph between groups stays acyclic.

    A union-find structure over `range(count)` with the successors of each group. Edges lead from a
    smaller number to a larger one.
    """

    def __init__(self, edges: Iterable[tuple[int, int]], count: int) -> None:
        self._parent = list(range(count))
        self._size = [1] * count
        self._refused: set[tuple[int, int, int, int]] = set()
        self._after: list[set[int]] = [set() for _ in range(count)]
        for earlier, later in edges:
            self._after[earlier].add(later)

    def find(self, member: int) -> int:
        """The representative of the group of `member`; halves the path to it on the way."""
        while self._parent[member] != member:
            # Path halving keeps trees flat without a second pass over the path.
            self._parent[member] = self._parent[self._parent[member]]
            member = self._parent[member]
        return member

    def join(self, left: int, right: int) -> bool:
        """Merges two groups and gives True; gives False where a path from one to the other leads
        through a third group, as the merged group would then be its predecessor and its successor.
        """
        left, right = self.find(left), self.find(right)
        if left == right:
            return True
        if self._would_make_a_cycle(left, right):
            return False
        self.merge(left, right)
        return True

    def merge(self, left: int, right: int) -> None:
        """Merges two groups of which the caller knows that no third one is between them."""
        left, right = self.find(left), self.find(right)
        if left == right:
            return
        self._parent[right] = left
        self._size[left] += self._size[right]
        self._after[left] |= self._after[right]
        # Edges into `right` stay as they are: `find` maps their ends to `left`.
        self._after[right] = set()

    def _would_make_a_cycle(self, left: int, right: int) -> bool:
        """Whether a third group is between two groups.

        A refusal is remembered with the sizes of both: paths between them appear only where one of
        the two grows, so that an equal pair of sizes has an equal answer.
        """
        pair = (left, self._size[left], right, self._size[right])
        if pair not in self._refused:
            if not (self._leads_around(left, right) or self._leads_around(right, left)):
                return False
            self._refused.add(pair)
        return True

    def after(self, cluster: int) -> set[int]:
        """The groups that take a result of the group of `cluster`.

        The set is stored with representatives in place of the members, so that later calls are
        shorter.
        """
        root = self.find(cluster)
        following = {self.find(later) for later in self._after[root]} - {root}
        self._after[root] = set(following)
        return following

    def _leads_around(self, start: int, end: int) -> bool:
        """Whether a path from `start` to `end` passes another group: a depth-first search that
        leaves out the direct edge."""
        # The direct edge is no obstacle, it lies inside of the merged group.
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
    """Places of `groups` in a topological order by `edges`; among those that are free, by the
    smallest member, so that the order of the function's own text is kept where it can be.

    Example: groups [[0, 3], [1], [2]] with edges (0, 1), (1, 2) come as [0, 1, 2]. The groups must
    have an order: one that depends on itself, as these do with (1, 3) too, is the caller's mistake.
    """
    home = {member: place for place, group in enumerate(groups) for member in group}
    needs: dict[int, set[int]] = {place: set() for place in range(len(groups))}
    for earlier, later in edges:
        if home[earlier] != home[later]:
            needs[home[later]].add(home[earlier])
    # Roots in the order of the text, which keeps the order of the function among independent
    # groups.
    firsts = sorted(needs, key=lambda place: min(groups[place]))
    return list(_visited(firsts, needs))


def _visited(places: Iterable[int], needs: Mapping[int, set[int]]) -> Iterator[int]:
    """A depth-first post-order with a stack of its own: a function may have more equations than
    Python has frames."""
    done: set[int] = set()
    for start in places:
        stack = [start]
        while stack:
            # One at a time, and the smallest first: the order is the same in every process.
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
    """The equations of a region in pieces, each after those that it needs.

    Equal layers of a network become equal pieces, which are then one program and are searched once.
    Pieces have at most `largest` equations wherever a place with one value passing allows that.
    """
    parts = _repeats(list(region))
    return [piece for part in parts for piece in _narrowed(part, largest)]


def _repeats(region: list[ClassifiedEquation]) -> list[list[ClassifiedEquation]]:
    """Cuts out the longest chain of equal layers that `_chain` finds, then looks at what is before
    and behind it."""
    repetition = _chain(region)
    if repetition is None:
        return [region]
    start, period, copies = repetition
    end = start + period * copies
    chain = [region[at : at + period] for at in range(start, end, period)]
    # What is left on both sides may have chains of its own, of other layers.
    before, after = region[:start], region[end:]
    return [*(_repeats(before) if before else []), *chain, *(_repeats(after) if after else [])]


def _chain(region: Sequence[ClassifiedEquation]) -> tuple[int, int, int] | None:
    """Start, period and number of equal layers that follow each other, where there are any.

    Example: tokens `a b c b c b c d` give (1, 2, 3): three layers `b c` from place 1 on. The chain
    with the most equations wins, and of several the one with the shortest period, which has the
    most layers.
    """
    names: dict[Hashable, int] = {}
    tokens = [names.setdefault(_token(step), len(names)) for step in region]
    uses = _uses(region)
    best: tuple[int, int, int] | None = None
    for period in range(2, len(region) // 2 + 1):
        # A chain of this period or a longer one starts and ends in the region: it cannot have more
        # equations than the best, so none that is left can win.
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
    """A name for what an equation does, whatever it does it to: equal layers have equal sequences
    of tokens.

    Parameters that show an address (`0x...`, as of a custom function) differ from trace to trace,
    and are left out.
    """
    equation = step.equation
    types = tuple(str(atom.aval) for atom in (*equation.invars, *equation.outvars))
    # Two layers that differ in a literal, such as a scale, are different programs.
    numbers = tuple(str(atom) for atom in equation.invars if isinstance(atom, Literal))
    params = [f"{name}={value}" for name, value in equation.params.items()]
    return equation.primitive.name, types, numbers, *(text for text in params if "0x" not in text)


def _runs(tokens: Sequence[int], period: int) -> list[tuple[int, int]]:
    """Maximal stretches `(start, stop)` of `tokens` in which each token equals the one a `period`
    later, at least two periods long."""
    runs, start = [], 0
    for at in range(len(tokens) - period + 1):
        if at == len(tokens) - period or tokens[at] != tokens[at + period]:
            if at - start >= period:
                runs.append((start, at + period))
            start = at + 1
    return runs


def _is_layer(steps: Sequence[ClassifiedEquation]) -> bool:
    """Whether equations have a product and something that is not multilinear.

    A chain of products alone is searched as a whole, since its order is free; so is a chain of
    functions without products.
    """
    bends = any(step.kind > EquationKind.MULTILINEAR for step in steps)
    return bends and any(contracts(step.equation) for step in steps)


def _uses(region: Sequence[ClassifiedEquation]) -> list[list[int]]:
    """For each equation of the region, the places in the region where one of its results is an
    operand."""
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
    """The first place in a run from which layers are closed: each hands all that it computes to the
    next one alone, as `(place, period, layers)`.

    A run of tokens may begin anywhere within a layer, and only few of the `period` possible borders
    are narrow.
    """
    # At least two whole layers have to fit behind the first place.
    for first in range(start, min(start + period, stop - 2 * period + 1)):
        copies = (stop - first) // period
        if all(_hands_on(uses, first + period * copy, period) for copy in range(copies - 1)):
            return first, period, copies
    return None


def _hands_on(uses: Sequence[Sequence[int]], start: int, period: int) -> bool:
    """Whether the results of the layer that begins at `start` are taken by the next layer, and by
    no later one."""
    end = start + period
    takers = [at for producer in range(start, end) for at in uses[producer] if at >= end]
    # A value that skips a layer, as of a residual from afar, would have to pass through a piece
    # that does not use it.
    return bool(takers) and max(takers) < end + period


def _narrowed(region: Sequence[ClassifiedEquation], largest: int) -> list[list[ClassifiedEquation]]:
    """Cuts a piece that has more than `largest` equations where at most one value passes, as late
    as possible.

    Where no such place comes early enough, the next one behind `largest` is taken; where there is
    none at all the piece stays as it is.
    """
    pieces, start = [], 0
    passing = _passing(region)
    while len(region) - start > largest:
        # The last of these is taken: pieces as large as allowed have most to fuse.
        narrow = [at for at in range(start + 1, start + largest + 1) if passing[at] <= 1]
        if not narrow:
            narrow = [at for at in range(start + largest, len(region)) if passing[at] <= 1][:1]
        if not narrow:
            break
        pieces.append(list(region[start : narrow[-1]]))
        start = narrow[-1]
    return [*pieces, list(region[start:])]


def _passing(region: Sequence[ClassifiedEquation]) -> list[int]:
    """How many values are computed before each place of the region and taken behind it: the width
    of a cut there.

    One sweep over the places where values begin and end, in place of a count at each.
    """
    changes: Counter[int] = Counter()
    for producer, takers in enumerate(_uses(region)):
        if takers:
            # It begins behind its producer, and ends behind its last taker.
            changes[producer + 1] += 1
            changes[max(takers) + 1] -= 1
    count, counts = 0, []
    for at in range(len(region) + 1):
        count += changes[at]
        counts.append(count)
    return counts


def dependencies(steps: Sequence[ClassifiedEquation]) -> list[tuple[int, int]]:
    """Edges `(earlier, later)` between equations: one takes the other's result, or both have
    effects, whose order stays as it is written."""
    producers = {var: step.index for step in steps for var in step.equation.outvars}
    edges = {
        (producers[atom], step.index)
        for step in steps
        for atom in step.equation.invars
        if not isinstance(atom, Literal) and atom in producers
    }
    # A print or a callback must not move across another one.
    effects = [step.index for step in steps if step.equation.effects]
    # Sorted: sets of pairs have another order in each process, and the order of joins decides which
    # groups arise.
    return sorted(edges | set(pairwise(effects)))


def regions(
    flat: FlatJaxpr, steps: Sequence[ClassifiedEquation], largest: int
) -> list[list[ClassifiedEquation]]:
    """Groups of readable equations that are worth a search, each in the order of the function.

    Equations that are in no group are cheap, fixed (`ClassifiedEquation.fixed`) or left alone.
    """
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
    """Joins each equation with those whose results it takes: at one depth at once, else as long as
    the groups stay acyclic."""
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
    """For each equation, the largest number of stretches of equations left alone on a path to it.

    A path between two equations of equal depth passes no equation that is left alone, so that
    joining all equations of one depth never makes a cycle.
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
    """Joins equations that take the same array, as two projections of one input do.

    A scalar that several equations share says nothing of them, and joins nothing.
    """
    takers: dict[Var, list[int]] = defaultdict(list)
    for step in readable:
        for atom in step.equation.invars:
            if not isinstance(atom, Literal) and prod(aval(atom).shape) > 1:
                takers[atom].append(step.index)
    for taking in takers.values():
        for left, right in pairwise(taking):
            clusters.join(left, right)


def why_no_region(steps: Sequence[ClassifiedEquation]) -> str:
    """Why nothing that could be read is worth a search; empty where something opaque explains it
    already."""
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
    """Whether a region could be written in another way: it has a reduction or product, or several
    operations that compute, on floating point."""
    computing = [step for step in region if step.kind is not EquationKind.MOVE]
    parts = [part for step in computing for part in nested(step.equation) if not any(bodies(part))]
    many = sum(equation_kind(part) is not EquationKind.MOVE for part in parts) > 1
    # One operation that reduces can be written in several ways; a single pointwise one cannot.
    again = many or any(reduces(step.equation) for step in computing)
    return again and _is_floating(computing)


def _is_floating(steps: Sequence[ClassifiedEquation]) -> bool:
    dtypes = [str(aval(var).dtype) for step in steps for var in step.equation.outvars]
    return any("float" in dtype for dtype in dtypes)
