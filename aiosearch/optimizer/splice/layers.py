"""Where a large region is cut: between the repeated layers of a network, or where it is narrow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

from jax.extend.core import Literal, Var

from .kinds import Kind, contracts
from .steps import Step


def layers(region: Sequence[Step], largest: int) -> list[list[Step]]:
    """The region in pieces, each after those that it needs.

    Layers of one kind become pieces of one kind, and pieces have at most `largest` steps wherever
    some place with one value passing allows.
    """
    parts = _repeats(list(region))
    return [piece for part in parts for piece in _narrowed(part, largest)]


def _repeats(region: list[Step]) -> list[list[Step]]:
    """Cuts out the longest chain of equal layers, and goes on with what is left."""
    found = _chain(region)
    if found is None:
        return [region]
    start, period, copies = found
    end = start + period * copies
    chain = [region[at : at + period] for at in range(start, end, period)]
    before, after = region[:start], region[end:]
    return [*(_repeats(before) if before else []), *chain, *(_repeats(after) if after else [])]


def _chain(region: Sequence[Step]) -> tuple[int, int, int] | None:
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


def _token(step: Step) -> Hashable:
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


def _is_layer(steps: Sequence[Step]) -> bool:
    """Products alone are a chain to be searched as a whole; so are functions alone."""
    bends = any(step.kind > Kind.MULTILINEAR for step in steps)
    return bends and any(contracts(step.equation) for step in steps)


def _uses(region: Sequence[Step]) -> list[list[int]]:
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


def _narrowed(region: Sequence[Step], largest: int) -> list[list[Step]]:
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


def _passing(region: Sequence[Step]) -> list[int]:
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
