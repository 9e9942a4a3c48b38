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
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .equations import Atom, Equation, Flat, FlatValue, Known
from .rules import WHOLE, Demand, RowRequirement, Rows

MAX_DEMANDS = 20_000


Target = tuple[Atom, Demand]
Requirements = Callable[[Equation, int, Rows], RowRequirement | None]


@dataclass(frozen=True)
class Pulled:
    """How the targets of a program are computed by rows."""

    flat: Flat
    targets: tuple[Target, ...]
    """What was asked for: rows of a value, or all of it, which is computed once."""
    requirements: dict[tuple[int, Rows], RowRequirement]
    """By value and rows: how its equation computes them; where it is missing they are cut out."""
    inputs: dict[int, frozenset[Demand]]
    """What is asked of each input."""
    whole: frozenset[int]
    """Values that are computed, or come in, whole."""
    inside: int
    """Elements that are computed by rows."""
    outside: int
    """Elements that are computed whole."""

    @property
    def results(self) -> tuple[Demand, ...]:
        return tuple(demand for _, demand in self.targets)

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


def pull(flat: Flat, targets: Sequence[Target], rules: Requirements) -> Pulled | None:
    """Pulls demands on targets back to the inputs; None where there are too many of them."""
    definitions = flat.definitions()
    requirements: dict[tuple[int, Rows], RowRequirement] = {}
    inputs: dict[int, set[Demand]] = {value.number: set() for value in flat.inputs}
    seen: set[tuple[int, Demand]] = set()
    whole: set[int] = set()
    inside = outside = 0
    waiting = list(targets)
    hoisted: set[int] = set()
    while waiting:
        atom, demand = waiting.pop()
        if isinstance(atom, Known) or (atom.number, demand) in seen:
            continue
        seen.add((atom.number, demand))
        # Shifts of shifts are demands of their own, and may double with each equation.
        if len(seen) > MAX_DEMANDS:
            return None
        if demand is WHOLE:
            whole.add(atom.number)
        if atom.number not in definitions:
            inputs[atom.number].add(demand)
            continue
        equation, position = definitions[atom.number]
        if demand is WHOLE:
            # An equation with several results runs once for all of them.
            if id(equation) not in hoisted:
                hoisted.add(id(equation))
                outside += sum(work_of(equation, value) for value in equation.outputs)
                waiting.extend((operand, WHOLE) for operand in equation.inputs)
            continue
        how = rules(equation, position, demand)
        if how is None:
            # The same value comes up again, whole; its rows are cut from that.
            waiting.append((atom, WHOLE))
            continue
        requirements[atom.number, demand] = how
        inside += work_of(equation, atom)
        waiting.extend(zip(equation.inputs, how.operands, strict=True))
    return Pulled(
        flat=flat,
        targets=tuple(targets),
        requirements=requirements,
        inputs={number: frozenset(demands) for number, demands in inputs.items()},
        whole=frozenset(whole),
        inside=inside,
        outside=outside,
    )


def work_of(equation: Equation, value: FlatValue) -> int:
    """Elements that are computed; of a product or sum, those that go in; of a loop, all turns."""
    # Elements of a result say little of a product: a row of `x @ w` costs as many as w has.
    if equation.name == "dot_general":
        (summed, _), _ = equation.params["dimension_numbers"]
        terms: int = math.prod(equation.inputs[0].shape[axis] for axis in summed)
        return math.prod(value.shape) * terms
    if equation.name == "scan":
        inner = equation.params["jaxpr"].jaxpr.eqns
        elements: int = sum(math.prod(var.aval.shape) for eqn in inner for var in eqn.outvars)
        turns: int = equation.params["length"]
        return turns * elements
    return max((math.prod(atom.shape) for atom in (value, *equation.inputs)), default=1)
