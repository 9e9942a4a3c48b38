"""Programs drawn at random: every operator, with and without custom kernels and threads."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from fractions import Fraction
from random import Random
from typing import Any

from aiosearch.tensor import (
    ACCUMULATORS,
    OPERATORS,
    Block,
    DType,
    Operator,
    Place,
    Program,
    ShapeError,
    Term,
    apply,
    literal,
    read,
    tensor,
    write,
)
from aiosearch.tensor.operator import OperatorParameter, ParameterKind
from aiosearch.tensor.types import EXACT

MOST_ELEMENTS = 64

_SIZES = (1, 1, 2, 2, 3, 4, 4, 6, 8)
_NUMBERS = (-2, -1, -0.5, 0, 0.25, Fraction(1, 3), 0.7, 1, 2, 3, 1e-3)
_SPECIAL = ("input", "literal", "load", "accumulate", "read", "write", "result")
_ARITHMETIC = tuple(op for op in OPERATORS.values() if op.name not in _SPECIAL)
_ON_TILES = tuple(op for op in _ARITHMETIC if op.arity != 0)
_POINTWISE = tuple(op for op in _ARITHMETIC if op.pointwise)
_ON_TRUTH = ("select", "cast", "broadcast", "reshape", "transpose", "slice", "concatenate", "stack")
_TRIES = 40


ALONG_SHORT_AXES = frozenset({"argmax", "argmin", "cummax", "cummin", "cumsum"})
"""Operators that kernels compute along axes of a few places alone."""


def random_program(
    seed: int,
    kernels: bool = True,
    sizes: Sequence[int] = _SIZES,
    most: int = MOST_ELEMENTS,
    without: Collection[str] = (),
) -> Program:
    """The program of this seed: the same at every call. Tensors have `most` elements at most.

    Operators of `without` are not in it.
    """
    return _Draw(Random(seed), kernels, sizes, most, without).program(f"random_{seed}")


class _Draw:
    def __init__(
        self,
        random: Random,
        kernels: bool,
        sizes: Sequence[int],
        most: int,
        without: Collection[str],
    ) -> None:
        self._without = without
        self._random = random
        self._kernels = kernels
        self._sizes = sizes
        self._most = most
        self._dtype = random.choice((DType.F32, DType.F32, DType.F16, DType.F64))
        self._inputs: list[Term] = []

    def program(self, name: str) -> Program:
        random = self._random
        for _ in range(random.randint(1, 2)):
            self._input(self._shape(random.randint(0, 4)))
        pool = list(self._inputs)
        if random.random() < 0.1:
            pool.append(literal(random.choice(_NUMBERS)))
        for _ in range(random.randint(1, 6)):
            if self._kernels and random.random() < 0.35:
                pool.extend(self._kernel(pool))
            else:
                pool.extend(self._operator(pool, _ARITHMETIC))
        made = [term for term in pool if term not in self._inputs]
        outputs = random.sample(made, min(len(made), random.randint(1, 3))) or pool[:1]
        return Program(name, tuple(self._inputs), tuple(dict.fromkeys([*outputs, pool[-1]])))

    def _shape(self, rank: int) -> tuple[int, ...]:
        random = self._random
        while True:
            shape = [random.choice(self._sizes) for _ in range(rank)]
            if rank and random.random() < 0.03:
                shape[random.randrange(rank)] = 0
            if math.prod(shape) <= self._most:
                return tuple(shape)

    def _input(self, shape: Sequence[int]) -> Term:
        random = self._random
        labels = [random.choice((None, None, "row", "feature")) for _ in shape]
        found = tensor(f"X{len(self._inputs)}", self._dtype, shape, labels)
        self._inputs.append(found)
        return found

    def _operator(self, pool: Sequence[Term], operators: Sequence[Operator]) -> Iterator[Term]:
        """One more term of an operator that takes what there is."""
        operators = [operator for operator in operators if operator.name not in self._without]
        for _ in range(_TRIES):
            operator = self._random.choice(operators)
            found = self._attempt(operator, pool)
            if found is not None and _size(found) <= self._most:
                yield found
                return

    def _attempt(self, operator: Operator, pool: Sequence[Term]) -> Term | None:
        for _ in range(_TRIES):
            operands = self._operands(operator, pool)
            if not _sensible(operator, operands):
                continue
            first = operands[0].shape if operands else (2, 3)
            given = {
                parameter.name: self._value(parameter, first)
                for parameter in operator.parameters
                if parameter.required or self._random.random() < 0.5
            }
            try:
                return apply(operator, *operands, **given)
            except ShapeError:
                continue
        return None

    def _operands(self, operator: Operator, pool: Sequence[Term]) -> list[Term]:
        random = self._random
        count = random.randint(1, 3) if operator.arity is None else operator.arity
        if not count:
            return []
        first = random.choice(pool)
        others = [self._partner(operator, first, pool) for _ in range(count - 1)]
        return [first, *others]

    def _partner(self, operator: Operator, first: Term, pool: Sequence[Term]) -> Term:
        """Something that may well go with the first operand."""
        random = self._random
        draw = random.random()
        if operator.pointwise and draw < 0.25:
            return self._constant(first)
        alike = [term for term in pool if len(term.shape) == len(first.shape)]
        if draw < 0.6 and alike:
            return random.choice(alike)
        if len(first.shape) >= 2 and draw < 0.7 and first.place is not Place.LOOP_REGISTER:
            axes = [*range(len(first.shape) - 2), len(first.shape) - 1, len(first.shape) - 2]
            return _moved(first, axes)
        if first.place is Place.DEVICE and len(self._inputs) < 5:
            return self._input(self._fitting(operator, first))
        return random.choice(pool)

    def _constant(self, first: Term) -> Term:
        """A literal; at times one with axes."""
        value = literal(self._random.choice(_NUMBERS))
        if self._random.random() < 0.8:
            return value
        return apply("broadcast", value, shape=first.shape)

    def _fitting(self, operator: Operator, first: Term) -> tuple[int, ...]:
        random = self._random
        shape: list[Any] = [size if random.random() < 0.7 else 1 for size in first.shape]
        if not operator.pointwise and operator.arity == 2 and len(shape) >= 2:
            shape[-2], shape[-1] = first.shape[-1], random.choice((1, 2, 3))
        return tuple(shape) if math.prod(shape) <= self._most else ()

    def _value(self, parameter: OperatorParameter, shape: Sequence[Any]) -> Any:
        random = self._random
        rank = len(shape)
        match parameter.kind:
            case ParameterKind.AXIS:
                return random.randint(0, rank)
            case ParameterKind.AXES:
                return tuple(random.sample(range(rank), random.randint(0, rank)))
            case ParameterKind.PERMUTATION:
                return tuple(random.sample(range(rank), rank))
            case ParameterKind.SHAPE:
                return self._other_shape(shape)
            case ParameterKind.COUNTS:
                return tuple(random.randint(0, 2) for _ in range(max(0, rank - 2)))
            case ParameterKind.COUNT | ParameterKind.SIZE:
                return random.randint(0, 4)
            case ParameterKind.NUMBER:
                return random.choice(_NUMBERS)
            case ParameterKind.FLAG:
                return random.random() < 0.5
            case ParameterKind.DTYPE:
                return random.choice((DType.F32, DType.F64, DType.F16, DType.I32))
        raise ValueError(parameter)

    def _other_shape(self, shape: Sequence[Any]) -> tuple[Any, ...]:
        """The axes merged, split, widened, or with more axes of size one."""
        random = self._random
        found = list(shape)
        for _ in range(random.randint(0, 3)):
            axis = random.randint(0, len(found))
            draw = random.random()
            if draw < 0.3 and len(found) < 5:
                found.insert(axis, 1)
            elif draw < 0.6 and axis + 1 < len(found):
                found[axis : axis + 2] = [found[axis] * found[axis + 1]]
            elif draw < 0.8 and axis < len(found) and found[axis] and found[axis] % 2 == 0:
                found[axis : axis + 1] = random.choice(
                    ([2, found[axis] // 2], [found[axis] // 2, 2])
                )
            elif axis < len(found) and found[axis] == 1:
                found[axis] = random.choice(self._sizes)
        return tuple(found)

    def _kernel(self, pool: Sequence[Term]) -> Sequence[Term]:
        """The results of a custom kernel, if one comes about."""
        random = self._random
        grid = random.choice(((1, 1, 1), (2, 1, 1), (2, 1, 1), (3, 1, 1), (2, 2, 1), (1, 2, 3)))
        block = Block(grid, random.choice((1, 1, 2, 2, 3, 4)))
        sources = [term for term in pool if term.place is Place.DEVICE]
        loop = [tile for _ in range(random.randint(1, 3)) for tile in self._load(block, sources)]
        if not loop:
            return []
        for _ in range(random.randint(0, 3)):
            loop.extend(self._work(loop))
        after = [
            tile for _ in range(random.randint(1, 3)) for tile in self._accumulate(block, loop)
        ]
        for _ in range(random.randint(0, 3) if after else 0):
            after.extend(self._work(after))
        stores = [
            (tile, maps)
            for tile in random.sample(after, min(len(after), random.randint(1, 2)))
            for maps in self._store_maps(grid, tile)
        ]
        return block.results(*stores) if stores else []

    def _load(self, block: Block, sources: Sequence[Term]) -> Iterator[Term]:
        random = self._random
        for _ in range(_TRIES):
            source = random.choice(sources)
            axes = [None, *range(len(source.shape))]
            maps = [random.choice(axes) if size > 1 or random.random() < 0.1 else None
                    for size in block.grid]  # type: ignore[operator]  # fmt: skip
            try:
                yield block.load(source, maps, random.choice(axes))
            except ShapeError:
                continue
            return

    def _accumulate(self, block: Block, loop: Sequence[Term]) -> Iterator[Term]:
        random = self._random
        for _ in range(_TRIES):
            try:
                tile = random.choice(loop)
                if tile.dtype is not DType.BOOL:
                    kind = random.choice(("none", "none", *ACCUMULATORS))
                    yield block.accumulate(tile, kind, random.choice((1, 2, 3)))
                    return
            except ShapeError:
                continue

    def _work(self, tiles: Sequence[Term]) -> Iterator[Term]:
        """One operator on tiles; or a thread that does several on registers."""
        random = self._random
        if random.random() < 0.6:
            yield from self._operator(tiles, _ON_TILES)
            return
        registers = [read(random.choice(tiles)) for _ in range(random.randint(1, 2))]
        for _ in range(random.randint(0, 3)):
            registers.extend(self._operator(registers, _POINTWISE))
        for term in random.sample(registers, min(len(registers), random.randint(1, 2))):
            yield write(term)

    def _store_maps(self, grid: Sequence[int], tile: Term) -> Iterator[list[int | None]]:
        axes = list(range(len(tile.shape)))
        self._random.shuffle(axes)
        split = [index for index, size in enumerate(grid) if size > 1]
        if len(split) > len(axes) or _size(tile) * math.prod(grid) > 2 * self._most:
            return
        maps: list[int | None] = [None, None, None]
        for index, axis in zip(split, axes, strict=False):
            maps[index] = axis
        yield maps


def _size(term: Term) -> int:
    return math.prod(size for size in term.shape if isinstance(size, int))


def _sensible(operator: Operator, operands: Sequence[Term]) -> bool:
    """Truth values are chosen by, cast and moved, never added up; no fraction is beside wholes."""
    truths = [operand.dtype is DType.BOOL for operand in operands]
    if operator.name == "select":
        return truths == [True, False, False]
    if operator.name in ("concatenate", "stack"):
        return len(set(truths)) == 1
    if operator.name == "pad":
        return operands[0].dtype not in EXACT
    return not any(truths) or operator.name in _ON_TRUTH


def _moved(term: Term, axes: Sequence[int]) -> Term:
    try:
        return apply("transpose", term, axes=tuple(axes))
    except ShapeError:
        return term


__all__ = ["MOST_ELEMENTS", "random_program"]
