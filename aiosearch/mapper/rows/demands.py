"""What must be computed whole and what can be computed by rows, from the results back.

Problem: blocks of rows of a program's results are wanted. Find, for every value, whether it is
needed by rows, whole, or both; what is whole is computed once, before the first block.

Method: demands are pulled from the results back to the inputs, equation by equation, by `rules`. A
demand for rows that no rule requirements becomes a demand for the whole value, of which rows are
cut. The axis of each result, and the number of rows, are chosen so that as little as possible stays
whole.

Example, `relu(x @ w) @ v` with 262,144 rows: rows of the result need rows of `relu(...)`, these
need rows of x and all of w and v. Nothing is whole but the two weights, and no array between has
more than a block.

Invariant: each (value, demand) is visited once, so the cost is equations x distinct demands. A
stencil that is applied k times asks for 2k + 1 shifts of its input; `MAX_DEMANDS` ends that where
it explodes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .equations import Atom, Equation, Flat, Known, Value
from .rules import WHOLE, Demand, Requirement, Rows, requirement

MAX_DEMANDS = 20_000


@dataclass(frozen=True)
class Pulled:
    """How a program is run by rows."""

    flat: Flat
    results: tuple[Demand, ...]
    """By result: the rows that a block gives, or all of it, which is computed once."""
    rows: int
    requirements: dict[tuple[int, Rows], Requirement]
    """By value and rows: how its equation computes them; where it is missing they are cut out."""
    whole: frozenset[int]
    """Values that are computed, or come in, whole."""
    inside: int
    """Elements that are computed by rows."""
    outside: int
    """Elements that are computed whole."""

    @property
    def share(self) -> float:
        """How much of what is computed is computed by rows: 1 is all of it."""
        total = self.inside + self.outside
        return self.inside / total if total else 0.0

    def hoisted(self) -> list[Equation]:
        """The equations that run once, before the first block."""
        return [
            equation
            for equation in self.flat.equations
            if any(value.number in self.whole for value in equation.outputs)
        ]


def pull(flat: Flat, results: Sequence[Demand], rows: int) -> Pulled | None:
    """Pulls demands on the results back; None where there are too many of them."""
    definitions = flat.definitions()
    requirements: dict[tuple[int, Rows], Requirement] = {}
    seen: set[tuple[int, Demand]] = set()
    whole: set[int] = set()
    inside = outside = 0
    waiting: list[tuple[Atom, Demand]] = list(zip(flat.outputs, results, strict=True))
    hoisted: set[int] = set()
    while waiting:
        atom, demand = waiting.pop()
        if isinstance(atom, Known) or (atom.number, demand) in seen:
            continue
        seen.add((atom.number, demand))
        if len(seen) > MAX_DEMANDS:
            return None
        defined = definitions.get(atom.number)
        if demand is WHOLE:
            whole.add(atom.number)
            if defined and id(defined[0]) not in hoisted:
                equation = defined[0]
                hoisted.add(id(equation))
                outside += sum(_work(equation, value) for value in equation.outputs)
                waiting.extend((operand, WHOLE) for operand in equation.inputs)
            continue
        if defined is None:
            continue
        equation, position = defined
        how = requirement(equation, position, demand)
        if how is None:
            waiting.append((atom, WHOLE))
            continue
        requirements[atom.number, demand] = how
        inside += _work(equation, atom)
        waiting.extend(zip(equation.inputs, how.operands, strict=True))
    return Pulled(flat, tuple(results), rows, requirements, frozenset(whole), inside, outside)


def _work(equation: Equation, value: Value) -> int:
    """Elements that are computed; of a product or sum, those that go in."""
    if equation.name == "dot_general":
        (summed, _), _ = equation.params["dimension_numbers"]
        terms: int = math.prod(equation.inputs[0].shape[axis] for axis in summed)
        return math.prod(value.shape) * terms
    return max((math.prod(atom.shape) for atom in (value, *equation.inputs)), default=1)


def choose_rows(flat: Flat, least: int = 2) -> Pulled | None:
    """The way to run a program by rows in which most is computed so; None where nothing is.

    Each axis of the largest result is tried. Other results that have as many rows, along the same
    axis or else along their first such, come by rows too; the rest is computed whole.
    """
    shapes = [atom.shape for atom in flat.outputs]
    if not shapes:
        return None
    largest = max(shapes, key=math.prod)
    best: Pulled | None = None
    for axis, rows in enumerate(largest):
        if rows < least:
            continue
        demands = [_along(shape, axis, rows) for shape in shapes]
        pulled = pull(flat, demands, rows)
        if pulled is None or not pulled.inside:
            continue
        # A hundredth more inside is worth less than many rows to share out.
        if best is None or (round(pulled.share, 2), rows) > (round(best.share, 2), best.rows):
            best = pulled
    return best


def _along(shape: tuple[int, ...], axis: int, rows: int) -> Demand:
    if len(shape) > axis and shape[axis] == rows:
        return Rows(axis)
    return Rows(shape.index(rows)) if rows in shape else WHOLE
