"""The regions of a function: convex, connected, as large as they can be, and worth a search."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from math import prod

from jax.extend.core import Literal, Var

from .clusters import Clusters
from .inlining import Flat, aval
from .kinds import Kind, bodies, kind, nested, reduces
from .layers import layers
from .steps import Step


def dependencies(steps: Sequence[Step]) -> list[tuple[int, int]]:
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


def regions(flat: Flat, steps: Sequence[Step], largest: int) -> list[list[Step]]:
    """Steps in order, region by region; what is in none is cheap, fixed or left alone."""
    readable = [step for step in steps if step.kind is not Kind.OPAQUE and not step.fixed]
    clusters = Clusters(dependencies(steps), len(steps))
    _join_flow(clusters, steps, readable)
    _join_siblings(clusters, readable)
    groups: dict[int, list[Step]] = defaultdict(list)
    for step in readable:
        groups[clusters.find(step.index)].append(step)
    parts = [part for group in groups.values() for part in layers(group, largest)]
    return [part for part in parts if _is_worth_it(part)]


def _join_flow(clusters: Clusters, steps: Sequence[Step], readable: Sequence[Step]) -> None:
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


def _depths(steps: Sequence[Step]) -> list[int]:
    """How often what is left alone has to be passed before each step.

    A way from one step to another at its depth passes nothing that is left alone, so that joining
    steps at one depth never makes a circle.
    """
    depths = [0] * len(steps)
    for earlier, later in dependencies(steps):
        passed = steps[earlier].kind is Kind.OPAQUE and steps[later].kind is not Kind.OPAQUE
        depths[later] = max(depths[later], depths[earlier] + passed)
    return depths


def _join_siblings(clusters: Clusters, readable: Sequence[Step]) -> None:
    """Steps that take the same array; a shared number says nothing."""
    takers: dict[Var, list[int]] = defaultdict(list)
    for step in readable:
        for atom in step.equation.invars:
            if not isinstance(atom, Literal) and prod(aval(atom).shape) > 1:
                takers[atom].append(step.index)
    for taking in takers.values():
        for one, other in pairwise(taking):
            clusters.join(one, other)


def passed_over(steps: Sequence[Step]) -> str:
    """Why of what could be read nothing is worth a search, where nothing is."""
    if not steps:
        return "it computes nothing"
    computing = [step for step in steps if step.kind not in (Kind.OPAQUE, Kind.MOVE)]
    if not computing:
        readable = any(step.kind is Kind.MOVE for step in steps)
        return "what only moves, repeats or converts elements" if readable else ""
    if not _is_floating(computing):
        return "what computes with whole numbers alone (only floating point is searched)"
    return "operations that stand alone (there is no other way to write one)"


def _is_worth_it(region: Sequence[Step]) -> bool:
    """Whether there is anything in it that could be done in another way."""
    computing = [step for step in region if step.kind is not Kind.MOVE]
    parts = [one for step in computing for one in nested(step.equation) if not any(bodies(one))]
    many = sum(kind(one) is not Kind.MOVE for one in parts) > 1
    again = many or any(reduces(step.equation) for step in computing)
    return again and _is_floating(computing)


def _is_floating(steps: Sequence[Step]) -> bool:
    found = [str(aval(var).dtype) for step in steps for var in step.equation.outvars]
    return any("float" in dtype for dtype in found)
