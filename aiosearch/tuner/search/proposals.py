"""Search algorithms: which points of a space are measured next. Each is apart from the space.

An algorithm is asked for points and sees all that was measured, and the model if there is one. It
holds no processes and no clock, so that the same code runs beside a device and on recorded spaces.
A plugin names its class in the entry-point group `aiosearch.proposers`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from itertools import islice
from random import Random
from typing import Protocol

from msgspec import Struct

from ...arguments import nearest
from ..errors import TunerError
from ..space.sites import IntegerSite, TileSite
from ..space.spaces import SearchSpace
from ..space.traces import Trace
from .models import CostModel

ENUMERABLE = 4096
"""A space of at most so many points is listed, and all of them are ranked."""
BEGINNING = 8
"""So many points are spread over the space before any is looked for beside another."""
CLOSING = 0.7
"""From this share of the budget on, what lies beside the fastest comes first."""
EXPLORED = 0.1
"""The share of a batch that is drawn at random, whatever the model thinks."""
GROUP = "aiosearch.proposers"
_ABSENT = object()


class Measurement(Struct, frozen=True):
    """What became of a point: its seconds, or the gate that it failed at and why."""

    trace: Trace
    seconds: float | None = None
    gate: str = ""
    reason: str = ""
    predicted: float | None = None
    """The model's logarithm of seconds when the point was proposed."""
    at: float = 0.0
    """Seconds since the search began."""


@dataclass
class SearchView:
    """What an algorithm may look at."""

    space: SearchSpace
    random: Random
    model: CostModel
    measured: Mapping[str, Measurement] = field(default_factory=dict)
    pending: set[str] = field(default_factory=set)
    """The keys of points that are being built or measured."""
    progress: float = 0.0
    """How much of the budget is spent, from 0 to 1."""
    pool: Sequence[Trace] | None = None
    """All points, where they could be listed."""

    def is_new(self, trace: Trace) -> bool:
        return trace.key not in self.measured and trace.key not in self.pending

    def fastest(self, count: int) -> list[Measurement]:
        """The best measured so far, the first first."""
        # Points are proposed in a thread of their own, while others are measured: a list is made
        # in one step, where a loop over the mapping would see it change.
        timed = [entry for entry in list(self.measured.values()) if entry.seconds is not None]
        return sorted(timed, key=lambda entry: (entry.seconds or 0.0, entry.trace.ranks))[:count]


class Proposer(Protocol):
    """An algorithm; it may keep what it likes between calls."""

    def propose(self, count: int, view: SearchView) -> list[Trace]:
        """Up to `count` new points, the most wanted first; none where the space is exhausted."""
        ...


class RandomProposer:
    """Draws points independently of what was measured."""

    def propose(self, count: int, view: SearchView) -> list[Trace]:
        return _fresh(view, count)


class ExhaustiveProposer:
    """Goes through all points in order."""

    def __init__(self) -> None:
        self._points: Iterator[Trace] | None = None

    def propose(self, count: int, view: SearchView) -> list[Trace]:
        if self._points is None:
            self._points = iter(view.pool) if view.pool is not None else view.space.points()
        return list(islice(filter(view.is_new, self._points), count))


class BestFirstProposer:
    """Looks at the neighbours of the fastest point that still has unmeasured ones."""

    def propose(self, count: int, view: SearchView) -> list[Trace]:
        if len(view.measured) + len(view.pending) < BEGINNING:
            return first_points(view, count)
        proposals: dict[str, Trace] = {}
        for entry in view.fastest(64):
            for _ in range(4 * count):
                near = view.space.mutate(entry.trace, view.random)
                if near is not None and view.is_new(near):
                    proposals.setdefault(near.key, near)
            if len(proposals) >= count:
                break
        proposed = list(proposals.values())[:count]
        return proposed or _fresh(view, count)


class EvolutionProposer:
    """Evolution under a model, by chains with annealed Metropolis acceptance.

    Problem: of some 10^6 points, find 4 worth measuring, where a model tells in microseconds how
    good each seems. Chains start at the fastest measured points and at random ones. A chain moves
    to a mutation of its point, or to a cross with another chain's: always to a better one, and to
    one that the model takes for slower by d (a logarithm of seconds) with probability exp(-d / T).
    T falls from 0.5 to 0.02 as the budget is spent: with d = 0.1, ten percent slower, a chain goes
    there in 82 % of cases first, and in 0.7 % at last. Every point that a chain has seen may be
    proposed; what is proposed is the best of them, no two alike, and a tenth drawn at random.

    A space that can be listed is ranked whole instead: then nothing is left to chance.
    Cost: `chains` x `steps` runs of the space's program for a batch.
    """

    def __init__(self, chains: int = 24, steps: int = 16, crossing: float = 0.25) -> None:
        self._chains = chains
        self._steps = steps
        self._crossing = crossing

    def propose(self, count: int, view: SearchView) -> list[Trace]:
        if not view.model.ready:
            return self._begun(count, view)
        explored = _rounded(count * EXPLORED, view.random)
        # A tenth stays random: a model that is wrong about a region is never asked there otherwise.
        if view.pool is not None:
            candidates = [trace for trace in view.pool if view.is_new(trace)]
        else:
            candidates = self._evolved(view)
        scores = view.model.predict(candidates)
        order = sorted(range(len(candidates)), key=scores.__getitem__)
        ranked = [candidates[at] for at in order]
        chosen = _beside_best(view)[:count] if view.progress >= CLOSING else []
        if len(chosen) == count:
            return chosen
        keys = {trace.key for trace in chosen}
        ranked = [trace for trace in ranked if trace.key not in keys]
        chosen += diverse(ranked, max(0, count - explored - len(chosen)))
        chosen_keys = {trace.key for trace in chosen}
        chosen += [trace for trace in _fresh(view, explored) if trace.key not in chosen_keys]
        return chosen

    def _begun(self, count: int, view: SearchView) -> list[Trace]:
        """Before there is a model: points far apart, then half of them beside the best of those."""
        if len(view.measured) + len(view.pending) < BEGINNING:
            return first_points(view, count)
        near = BestFirstProposer().propose(count // 2, view)
        keys = {trace.key for trace in near}
        apart = first_points(view, count - len(near))
        return near + [trace for trace in apart if trace.key not in keys]

    def _evolved(self, view: SearchView) -> list[Trace]:
        """All new points that the chains have seen."""
        random, space = view.random, view.space
        # Half of the chains start where it is good, the others anywhere, against getting stuck.
        parents = [entry.trace for entry in view.fastest(self._chains // 2)]
        chains = parents + [space.sample(random) for _ in range(self._chains - len(parents))]
        scores = view.model.predict(chains)
        temperature = 0.5 * (0.02 / 0.5) ** min(1.0, view.progress)
        seen = {trace.key: trace for trace in chains}
        for _ in range(self._steps):
            moves = [self._move(trace, chains, space, random) for trace in chains]
            for at, (move, score) in enumerate(zip(moves, view.model.predict(moves), strict=True)):
                seen[move.key] = move
                worse = score - scores[at]
                if worse <= 0 or random.random() < math.exp(-worse / temperature):
                    chains[at], scores[at] = move, score
        return [trace for trace in seen.values() if view.is_new(trace)]

    def _move(
        self, trace: Trace, chains: Sequence[Trace], space: SearchSpace, random: Random
    ) -> Trace:
        if random.random() < self._crossing:
            moved = space.cross(trace, random.choice(chains), random)
        else:
            moved = space.mutate(trace, random)
        return trace if moved is None else moved


def _beside_best(view: SearchView) -> list[Trace]:
    """New points that differ from the fastest at one site, in the space's order.

    Two searches that come to the same hill end on the same top only if each looks at all of it.
    """
    best = view.fastest(1)
    if not best:
        return []
    centre = best[0].trace
    if view.pool is not None:
        near = [trace for trace in view.pool if trace.distance(centre) == 1]
    else:
        near = list(_neighbours(view.space, centre))
    return sorted(filter(view.is_new, near), key=lambda trace: trace.ranks)


def _neighbours(space: SearchSpace, centre: Trace) -> Iterator[Trace]:
    """Points that differ at one site; of a large site sixteen values are looked at."""
    for site in centre.sites:
        for value in islice(site.members(), 16):
            decisions = {**centre.decisions, site.name: value}
            if value != centre.decisions[site.name] and space.contains(decisions):
                yield space.replay(decisions)


def first_points(view: SearchView, count: int) -> list[Trace]:
    """Points to begin with: the default, then such as suit the hardware and lie far apart.

    Of sixteen times as many draws those are preferred whose sizes fill vectors and matrix units; of
    two that do so alike, the one that lies further (`apart`) from all that is chosen already.
    """
    chosen: list[Trace] = []
    if not view.measured and not view.pending:
        chosen = [trace for trace in [view.space.default(view.random)] if view.is_new(trace)][
            :count
        ]
    draws = _fresh(view, 16 * count)
    near = [entry.trace for entry in list(view.measured.values())]
    distance = {trace.key: _nearest_distance(trace, near + chosen) for trace in draws}
    while draws and len(chosen) < count:
        best = max(draws, key=lambda trace: distance[trace.key] + alignment(trace, view.space))
        draws.remove(best)
        chosen.append(best)
        for trace in draws:
            distance[trace.key] = min(distance[trace.key], apart(trace, best))
    return chosen


def apart(first: Trace, second: Trace) -> float:
    """How far two points lie from each other: half by how many sites differ, half by how much.

    By number alone blocks of 16 and 32 differ as 16 and 256 do, and the corners of a space are left
    to chance; by how much they differ alone, all first points would be in corners.

        of sizes 16, 32, 64, 128, 256:    16 and 32: (1 + 1/4) / 2    16 and 256: (1 + 1) / 2
    """
    total = 0.0
    # In the order of the sites, as the sum of floats is another in each order of a set.
    for name in {**first.decisions, **second.decisions}:
        differs = first.decisions.get(name, _ABSENT) != second.decisions.get(name, _ABSENT)
        pairs = list(
            zip(first.positions.get(name, ()), second.positions.get(name, ()), strict=False)
        )
        by = sum(abs(x - y) for x, y in pairs) / len(pairs) if pairs else float(differs)
        total += (differs + by) / 2
    return total


def alignment(trace: Trace, space: SearchSpace) -> float:
    """The share of sizes that fill whole vectors of four-byte elements, or are powers of two."""
    lanes = space.hardware.lanes_of(4)
    sizes = [
        trace.decisions[site.name][-1] if isinstance(site, TileSite) else trace.decisions[site.name]
        for site in trace.sites
        if isinstance(site, TileSite | IntegerSite)
    ]
    whole = [size for size in sizes if size % lanes == 0 or size & (size - 1) == 0]
    return len(whole) / len(sizes) if sizes else 0.0


def diverse(ranked: Sequence[Trace], count: int) -> list[Trace]:
    """The best `count`, but of points that differ at one site only, at most half of them.

    Neighbours of the best seem as good as it is, and a batch of those alone teaches little.
    """
    chosen: list[Trace] = []
    near = 0
    later: list[Trace] = []
    for trace in ranked:
        if len(chosen) == count:
            break
        if any(trace.distance(point) < 2 for point in chosen):
            if near >= count // 2:
                later.append(trace)
                continue
            near += 1
        chosen.append(trace)
    return chosen + later[: count - len(chosen)]


PROPOSERS: Mapping[str, Callable[[], Proposer]] = {
    "evolution": EvolutionProposer,
    "best-first": BestFirstProposer,
    "random": RandomProposer,
    "exhaustive": ExhaustiveProposer,
}


def find_proposer(name: str) -> Proposer:
    """The algorithm of a name: a built-in one, or a plugin's."""
    if name in PROPOSERS:
        return PROPOSERS[name]()
    plugins = {plugin.name: plugin for plugin in _plugins()}
    if name not in plugins:
        names = [*PROPOSERS, *plugins]
        raise TunerError(
            f"no search algorithm is called {name!r}{nearest(name, names)}; there are"
            f" {', '.join(names)}"
        )
    proposer: Proposer = plugins[name].load()()
    return proposer


@cache
def _plugins() -> tuple[_EntryPoint, ...]:
    return tuple(entry_points(group=GROUP))


class _EntryPoint(Protocol):
    name: str

    def load(self) -> Callable[[], Proposer]: ...


def _fresh(view: SearchView, count: int) -> list[Trace]:
    """Distinct random points that are new; fewer where the space is nearly exhausted."""
    if view.pool is not None:
        left = [trace for trace in view.pool if view.is_new(trace)]
        return view.random.sample(left, min(count, len(left)))
    points: dict[str, Trace] = {}
    for _ in range(8 * count):
        if len(points) == count:
            break
        trace = view.space.sample(view.random)
        if view.is_new(trace):
            points.setdefault(trace.key, trace)
    return list(points.values())


def _nearest_distance(trace: Trace, points: Sequence[Trace]) -> float:
    return min((apart(trace, point) for point in points), default=float(len(trace.sites)))


def _rounded(value: float, random: Random) -> int:
    """Up or down by chance, so that it is right on average: 0.8 is 1 in four of five cases."""
    return int(value) + (random.random() < value % 1)
