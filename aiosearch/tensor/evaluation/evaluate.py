"""Evaluates programs in any algebra. A block graph is evaluated for all blocks at once."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import isfinite
from typing import Any

from ..algebra import Algebra, V
from ..mugraph import ACCUMULATE, ACCUMULATORS, LEAD, LOAD, READ, RESULT, WRITE, Kernel
from ..operator import ParameterKind
from ..sizes import Dim, Size, quotient
from ..terms import INPUT, LITERAL, Program, Term, walk
from ..types import Place
from .literal_values import exact


def evaluate(program: Program, algebra: Algebra[V], inputs: Sequence[V]) -> list[V]:
    """The program's outputs, given the values of its inputs in order."""
    values: dict[Term, V] = dict(zip(program.inputs, inputs, strict=True))
    for term in program.terms():
        if term not in values:
            values[term] = step(term, algebra, [values[argument] for argument in term.arguments])
    return [values[output] for output in program.outputs]


def step(term: Term, k: Algebra[V], operands: list[V], *, as_written: bool = False) -> V:
    """The value of one term, given its operands'.

    Parameters mean simple fractions, or are numbers `as_written`, to the last digit.
    """
    operator = term.operator
    if operator is LITERAL:
        value = term.parameter("value")
        if isinstance(value, Size):
            raise ValueError("a size that is not known has no value")
        return k.constant(exact(value) if not _infinite(value) else value)
    if operator is LOAD:
        return _load(term, k, operands[0])
    if operator is ACCUMULATE:
        return _accumulate(term, k, operands[0])
    if operator is RESULT:
        return _result(term, k, operands)
    if operator is READ or operator is WRITE:
        return operands[0]
    if operator is INPUT:
        raise ValueError(f"no value for input {term.parameter('name')}")
    given = parameters_as_written(term) if as_written else dict(term.parameters)
    if term.place in (Place.DEVICE, Place.ANYWHERE):
        return operator.meaning(k, *operands, **given)  # type: ignore[no-any-return]
    operands = _behind_lead(term, k, operands)
    if operator.arity is None:
        operands = _same_lead(k, operands)
    lead = k.shape(operands[0])[:LEAD] if operands else ()
    parameters = {
        parameter.name: _behind(parameter.kind, given[parameter.name], lead)
        for parameter in operator.parameters
    }
    return operator.meaning(k, *operands, **parameters)  # type: ignore[no-any-return]


def parameters_as_written(term: Term) -> dict[str, Any]:
    """Those of a term by name, numbers as fractions that no meaning makes simpler."""
    kinds = {one.name: one.kind for one in term.operator.parameters}
    return {
        name: Fraction(value) if kinds[name] is ParameterKind.NUMBER and isfinite(value) else value
        for name, value in term.parameters
    }


def _infinite(value: Any) -> bool:
    return isinstance(value, float) and value in (float("inf"), -float("inf"))


def _behind(kind: ParameterKind, value: Any, lead: Sequence[Dim]) -> Any:
    """A parameter of a tile's operator, where the tile has axes in front."""
    if kind is ParameterKind.AXIS:
        return value + LEAD
    if kind is ParameterKind.AXES:
        return tuple(axis + LEAD for axis in value)
    if kind is ParameterKind.PERMUTATION:
        return (*range(LEAD), *(axis + LEAD for axis in value))
    if kind is ParameterKind.SHAPE:
        return (*lead, *value)
    return value


def _behind_lead(term: Term, k: Algebra[V], operands: list[V]) -> list[V]:
    """Operands whose axes stand where the tile's do: scalar tiles widened, constants led."""
    widens = term.operator.pointwise or term.operator.name == "broadcast"
    found = []
    for argument, value in zip(term.arguments, operands, strict=True):
        if argument.place is Place.ANYWHERE and (argument.shape or not widens):
            value = k.reshape(value, (*(1,) * LEAD, *argument.shape))
        elif argument.place is not Place.ANYWHERE and not argument.shape and widens:
            value = k.reshape(value, (*k.shape(value), *(1,) * len(term.shape)))
        found.append(value)
    return found


def _same_lead(k: Algebra[V], operands: list[V]) -> list[V]:
    shapes = [k.shape(operand) for operand in operands]
    lead = [next((shape[axis] for shape in shapes if shape[axis] != 1), 1) for axis in range(LEAD)]
    return [
        k.broadcast(operand, (*lead, *shape[LEAD:]))
        for operand, shape in zip(operands, shapes, strict=True)
    ]


def _load(term: Term, k: Algebra[V], source: V) -> V:
    """Splits each mapped axis into block, iteration and tile, and brings the first two in front."""
    maps, loop = term.parameter("map"), term.parameter("loop")
    counts = (*term.parameter("grid"), term.parameter("range"))
    split_by: dict[int, list[int]] = {}
    for lead, axis in enumerate((*maps, loop)):
        if axis is not None and counts[lead] != 1:
            split_by.setdefault(axis, []).append(lead)
    shape: list[Dim] = []
    where: dict[int, int] = {}
    tile: list[int] = []
    for axis, size in enumerate(k.shape(source)):
        rest = size
        for lead in split_by.get(axis, ()):
            where[lead] = len(shape)
            shape.append(counts[lead])
            left = quotient(rest, counts[lead])
            assert left is not None
            rest = left
        tile.append(len(shape))
        shape.append(rest)
    for lead in range(LEAD):
        if lead not in where:
            where[lead] = len(shape)
            shape.append(1)
    split = k.reshape(source, shape)
    return k.transpose(split, [where[lead] for lead in range(LEAD)] + tile)


def _accumulate(term: Term, k: Algebra[V], tile: V) -> V:
    accumulator = ACCUMULATORS[term.parameter("kind")]
    shape, count = list(k.shape(tile)), term.parameter("range")
    loop = LEAD - 1
    if shape[loop] != count:
        shape[loop] = count
        tile = k.broadcast(tile, shape)
    return accumulator.meaning(k, tile, loop, term.parameter("columns"))  # type: ignore[no-any-return]


def _result(term: Term, k: Algebra[V], tiles: list[V]) -> V:
    """Puts the blocks' tiles side by side."""
    kernel: Kernel = term.parameter("kernel")
    index = term.parameter("index")
    _, maps = kernel.outputs[index]
    value = tiles[index]
    shape = list(k.shape(value))
    whole = [size if axis is not None else 1 for size, axis in zip(kernel.grid, maps, strict=True)]
    if shape[: LEAD - 1] != whole:
        value = k.broadcast(value, (*whole, *shape[LEAD - 1 :]))
    order = [LEAD - 1]
    sizes: list[Dim] = []
    for axis, size in enumerate(term.type.shape):
        order += [lead for lead, split in enumerate(maps) if split == axis]
        order.append(LEAD + axis)
        sizes.append(size)
    order += [lead for lead, split in enumerate(maps) if split is None]
    return k.reshape(k.transpose(value, order), sizes)


__all__ = ["evaluate", "step", "walk"]
