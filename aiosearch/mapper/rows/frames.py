"""Computes what was pulled: values that are needed whole, and a run of rows of the targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import jax.numpy as jnp
from jax import lax

from ...capture.jax_types import Leaf
from .demands import Pulled
from .equations import Atom, Equation, Known, PrimitiveParams
from .rules import WHOLE, Demand, Rows

Whole: TypeAlias = dict[int, Leaf]
"""By value: all of it."""
Parts: TypeAlias = dict[tuple[int, Rows], Leaf]
"""By value and rows: these rows of it."""


class Frame:
    """A program, or the body of a loop, whose targets are computed by rows."""

    def __init__(self, pulled: Pulled) -> None:
        self.pulled = pulled
        self.hoisted = pulled.hoisted()
        by_value: dict[int, list[Rows]] = {}
        for number, rows in pulled.requirements:
            by_value.setdefault(number, []).append(rows)
        # Definitions come before uses, so one pass in this order finds every operand computed.
        self._order = [
            (equation, position, rows, pulled.requirements[value.number, rows])
            for equation in pulled.flat.equations
            for position, value in enumerate(equation.outputs)
            for rows in by_value.get(value.number, ())
        ]

    def prepare(self, inputs: Mapping[int, Leaf]) -> Whole:
        """Everything that is needed whole, the inputs that are given included."""
        values = dict(inputs)
        for equation in self.hoisted:
            operands = [
                atom.array if isinstance(atom, Known) else values[atom.number]
                for atom in equation.inputs
            ]
            results = bind(equation, operands, equation.params)
            numbers = [value.number for value in equation.outputs]
            values.update(zip(numbers, results, strict=True))
        return values

    def compute(self, whole: Whole, parts: Parts, start: Leaf, rows: int) -> list[Leaf]:
        """The targets: so many rows from `start`, or all, of each.

        `parts` are rows of inputs that are there already; others are cut from what is whole.
        """
        values = dict(parts)

        def read(atom: Atom, demand: Demand) -> Leaf:
            if isinstance(atom, Known):
                array = atom.array
            elif demand is not WHOLE and (atom.number, demand) in values:
                return values[atom.number, demand]
            else:
                array = whole[atom.number]
            if demand is WHOLE:
                return array
            # Slices clamp at the end, so `start` must leave room: `RowBlocks.run` sees to that.
            first = start + demand.shift
            return lax.dynamic_slice_in_dim(jnp.asarray(array), first, rows, demand.axis)

        for equation, position, demand, how in self._order:
            operands = [
                read(atom, wish) for atom, wish in zip(equation.inputs, how.operands, strict=True)
            ]
            # A loop or branch is traced anew around its body; all else is one primitive.
            if how.emit is not None:
                result = how.emit(operands, rows, start)
            else:
                result = bind(equation, operands, how.params(equation.params, rows))[position]
            values[equation.outputs[position].number, demand] = result
        return [read(atom, demand) for atom, demand in self.pulled.targets]


def bind(equation: Equation, operands: Sequence[Leaf], params: PrimitiveParams) -> list[Leaf]:
    """What a primitive gives, as a list."""
    prepared = equation.primitive.get_bind_params(params)
    # Some versions of jax give functions among the parameters apart from the others.
    functions, named = prepared if isinstance(prepared, tuple) else ((), prepared)
    results = equation.primitive.bind(*functions, *operands, **named)
    return list(results) if equation.primitive.multiple_results else [results]
