"""Evaluates programs in any `Algebra`; a block graph is evaluated for all blocks at once.

Problem: custom kernels are loops over blocks and iterations. Interpreting them block by block would
need control flow in every algebra, symbolic ones included.

Method: inside a kernel every tile has `LEAD` = 4 more axes in front: three grid axes and the loop.
`load` reshapes and transposes a tensor so that these come first; each operator works behind them
(`_behind` shifts its axis parameters); `accumulate` reduces the loop's axis; a result transposes
the grid axes back to where its map says.

Example: grid (2, 1, 1), range 4, X of shape [8, 16] loaded with map (0, _, _) and loop 1: the
tile's value has shape [2, 1, 1, 4, 4, 4], that is 2 blocks of rows, 4 iterations, and tiles of 4
rows by 4 columns.

`exact` reads literals: 0.33333334 is 1/3, since programs write a rounded third and mean a third.

Invariant: axes of the lead have size one where they split nothing, and broadcast. Cost: one
operation of the algebra for each term, plus reshapes; all blocks' tiles exist at once. See
docs/why/kernels.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from math import isfinite

from .algebra import Algebra, V
from .mugraph import ACCUMULATE, ACCUMULATORS, LEAD, LOAD, READ, RESULT, WRITE, Kernel
from .operator import ParameterKind, ParameterValue
from .sizes import Dim, Size, quotient
from .terms import INPUT, LITERAL, Program, Term, walk
from .types import Place


def exact(number: float | int | Fraction) -> Fraction:
    """The simplest fraction that rounds to `number` in single precision.

    Programs write 0.33333334 and mean a third; both sides of a comparison are read alike.
    """
    if isinstance(number, (int, Fraction)):
        return Fraction(number)
    if not math.isfinite(number):
        raise ValueError(f"{number} is no number to compute with")
    value = Fraction(number)
    if value.denominator == 1:
        return value
    # Half a unit in the last place of float32's 24 bits.
    margin = abs(value) / 2**25
    return simplest(value - margin, value + margin)


def simplest(low: Fraction, high: Fraction) -> Fraction:
    """The fraction with the smallest denominator in an interval: `simplest(0.33, 0.34)` is 1/3."""
    if low < 0 < high:
        return Fraction(0)
    if high <= 0:
        return -simplest(-high, -low)
    whole = math.floor(low)
    if whole == low or whole + 1 <= high:
        return Fraction(whole if whole == low else whole + 1)
    # One step of the continued fraction: the integer part is common to all numbers of the interval,
    # the rest is inverted.
    return whole + 1 / simplest(1 / (high - whole), 1 / (low - whole))


def evaluate(program: Program, algebra: Algebra[V], inputs: Sequence[V]) -> list[V]:
    """The outputs of `program` in an algebra, given the values of its inputs in order."""
    values: dict[Term, V] = dict(zip(program.inputs, inputs, strict=True))
    for term in program.terms():
        if term not in values:
            values[term] = step(term, algebra, [values[argument] for argument in term.arguments])
    return [values[output] for output in program.outputs]


def step(term: Term, k: Algebra[V], operands: list[V], *, as_written: bool = False) -> V:
    """The value of one term, given those of its operands.

    Number parameters are read as simple fractions (`exact`), or `as_written`, to the last digit.
    """
    operator = term.operator
    if operator is LITERAL:
        value = term.parameter("value")
        if isinstance(value, Size):
            raise ValueError("a size that is not known has no value")
        # 0.1 means 1/10 to every exact algebra; infinity has no fraction.
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
    keywords = parameters_as_written(term) if as_written else dict(term.parameters)
    if term.place in (Place.DEVICE, Place.ANYWHERE):
        return operator.meaning(k, *operands, **keywords)  # type: ignore[no-any-return]  # a `Meaning` gives V
    operands = _behind_lead(term, k, operands)
    # Concatenation and stacking have no broadcasting in an algebra.
    if operator.arity is None:
        operands = _same_lead(k, operands)
    lead = k.shape(operands[0])[:LEAD] if operands else ()
    parameters = {
        parameter.name: _behind(parameter.kind, keywords[parameter.name], lead)
        for parameter in operator.parameters
    }
    return operator.meaning(k, *operands, **parameters)  # type: ignore[no-any-return]  # a `Meaning` gives V


def parameters_as_written(term: Term) -> dict[str, ParameterValue]:
    """The parameters of `term` by name, numbers as fractions that nothing simplifies."""
    # Fraction(value) is exactly the float that was written, where `exact` would read 0.1 as 1/10.
    kinds = {parameter.name: parameter.kind for parameter in term.operator.parameters}
    return {
        name: Fraction(value) if kinds[name] is ParameterKind.NUMBER and isfinite(value) else value
        for name, value in term.parameters
    }


def _infinite(value: ParameterValue) -> bool:
    """Whether `value` is an infinity."""
    return isinstance(value, float) and value in (float("inf"), -float("inf"))


def _behind(kind: ParameterKind, value: ParameterValue, lead: Sequence[Dim]) -> ParameterValue:
    """A parameter of a tile's operator, shifted to where the tile's axes are behind the lead."""
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
    """Operands whose axes line up behind the lead: scalar tiles widened, constants given a lead."""
    # A scalar tile has the rank of the lead alone; pointwise operators need equal ranks.
    widens = term.operator.pointwise or term.operator.name == "broadcast"
    aligned = []
    for argument, value in zip(term.arguments, operands, strict=True):
        if argument.place is Place.ANYWHERE and (argument.shape or not widens):
            value = k.reshape(value, (*(1,) * LEAD, *argument.shape))
        elif argument.place is not Place.ANYWHERE and not argument.shape and widens:
            value = k.reshape(value, (*k.shape(value), *(1,) * len(term.shape)))
        aligned.append(value)
    return aligned


def _same_lead(k: Algebra[V], operands: list[V]) -> list[V]:
    """Operands broadcast to one lead, which concatenation needs."""
    shapes = [k.shape(operand) for operand in operands]
    lead = [next((shape[axis] for shape in shapes if shape[axis] != 1), 1) for axis in range(LEAD)]
    return [
        k.broadcast(operand, (*lead, *shape[LEAD:]))
        for operand, shape in zip(operands, shapes, strict=True)
    ]


def _load(term: Term, k: Algebra[V], source: V) -> V:
    """Splits each mapped axis into block, iteration and tile, and moves the first two in front."""
    maps, loop = term.parameter("map"), term.parameter("loop")
    counts = (*term.parameter("grid"), term.parameter("range"))
    split_by: dict[int, list[int]] = {}
    for lead, axis in enumerate((*maps, loop)):
        # A count of one splits nothing; leaving it out saves a reshape axis.
        if axis is not None and counts[lead] != 1:
            split_by.setdefault(axis, []).append(lead)
    shape: list[Dim] = []
    where: dict[int, int] = {}
    tile: list[int] = []
    for axis, size in enumerate(k.shape(source)):
        tile_size = size
        # Grid axes come before the loop in (*maps, loop), so that a block's part is contiguous and
        # the loop walks within it.
        for lead in split_by.get(axis, ()):
            where[lead] = len(shape)
            shape.append(counts[lead])
            left = quotient(tile_size, counts[lead])
            assert left is not None
            tile_size = left
        tile.append(len(shape))
        shape.append(tile_size)
    for lead in range(LEAD):
        if lead not in where:
            where[lead] = len(shape)
            shape.append(1)
    split = k.reshape(source, shape)
    return k.transpose(split, [where[lead] for lead in range(LEAD)] + tile)


def _accumulate(term: Term, k: Algebra[V], tile: V) -> V:
    """Reduces the loop's axis of a tile, as the accumulator says."""
    accumulator = ACCUMULATORS[term.parameter("kind")]
    shape, count = list(k.shape(tile)), term.parameter("range")
    loop = LEAD - 1
    # A tile that no load varies over the loop has size one there; it is summed as often as the loop
    # runs.
    if shape[loop] != count:
        shape[loop] = count
        tile = k.broadcast(tile, shape)
    return accumulator.meaning(k, tile, loop, term.parameter("columns"))  # type: ignore[no-any-return]  # a `Meaning` gives V


def _result(term: Term, k: Algebra[V], tiles: list[V]) -> V:
    """Puts the blocks' tiles side by side, along the axes that the map names."""
    kernel: Kernel = term.parameter("kernel")
    index = term.parameter("index")
    _, maps = kernel.outputs[index]
    value = tiles[index]
    shape = list(k.shape(value))
    whole = [size if axis is not None else 1 for size, axis in zip(kernel.grid, maps, strict=True)]
    # A tile that does not depend on a grid axis is stored by each of its blocks.
    if shape[: LEAD - 1] != whole:
        value = k.broadcast(value, (*whole, *shape[LEAD - 1 :]))
    # The loop's axis has size one by now; in front it vanishes in the reshape.
    order = [LEAD - 1]
    sizes: list[Dim] = []
    for axis, size in enumerate(term.type.shape):
        # The block's number is the outer digit of the stored axis.
        order += [lead for lead, split in enumerate(maps) if split == axis]
        order.append(LEAD + axis)
        sizes.append(size)
    order += [lead for lead, split in enumerate(maps) if split is None]
    return k.reshape(k.transpose(value, order), sizes)


__all__ = ["evaluate", "step", "walk"]
