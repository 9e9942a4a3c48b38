"""How a value differs between the threads that one vector holds.

Neighbouring threads are the lanes of a vector. A value that is the same in all of them needs one
register of one number; one that grows by the same step from lane to lane, such as an index, needs
its first number only, and memory at such an address is read at once. Everything else is a vector.

Several rows of threads (`thread.y`) can go together: then a value that depends on the row exists
once for each, and one that does not is shared by all of them.

    a[row * n + col]      stride 4, by row         b[k * n + col]     stride 4, shared

A step in 32 bits is one in 64 bits only if nothing wraps on the way. For signed numbers C says so.
For unsigned ones it has to be proved from ranges: threads are fewer than their block has, and a
launch of 2^31 or more threads in one dimension is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..ir.operations import (
    Alloc,
    Atomic,
    Block,
    Call,
    Compute,
    Constant,
    For,
    If,
    Load,
    Operand,
    Operation,
    Space,
    Threads,
    Value,
    Warp,
    While,
)
from ..ir.types import Scalar


@dataclass(frozen=True, slots=True)
class Shape:
    stride: int | None
    """From lane to lane; 0 where all are the same, none where there is no one step."""
    rows: bool = False
    """Whether it depends on the row."""

    @property
    def is_uniform(self) -> bool:
        return self.stride == 0 and not self.rows


UNIFORM = Shape(0)
_LINEAR = frozenset({"add", "sub", "neg", "cast", "ptradd", "mul", "shl"})
_MOST_THREADS = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Grouping:
    """Which threads go together: so many lanes, along x or along all threads, and so many rows."""

    lanes: int
    rows: int
    linear: bool
    block: tuple[int, int, int]

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]


class Shapes:
    """The shapes of the values in loops over threads, and what is known of their ranges."""

    def __init__(self, grouping: Grouping) -> None:
        self._grouping = grouping
        self.of: dict[Value, Shape] = {}
        self._ranges: dict[Value, tuple[int, int]] = {}
        self._by_row = grouping.rows > 1

    def __getitem__(self, operand: Operand) -> Shape:
        return UNIFORM if isinstance(operand, Constant) else self.of.get(operand, UNIFORM)

    def block(self, block: Block, *, divergent: bool = False) -> None:
        """Finds the shapes in a block; `divergent` says that only some lanes may be there."""
        for operation in block.operations:
            self._operation(operation, divergent)

    def _operation(self, operation: Operation, divergent: bool) -> None:
        match operation:
            case Compute():
                self._compute(operation)
            case Load(result=result, address=address):
                base, index = self[address.base], self[address.index]
                same = base.stride == 0 and index.stride == 0
                # Under a mask by row, what the rows would share is read for each of them.
                rows = base.rows or index.rows or (divergent and not same and self._by_row)
                self.of[result] = Shape(0 if same else None, rows)
            case Atomic(result=result):
                self.of[result] = Shape(None, self._by_row)
            case Alloc(result=result, space=Space.PRIVATE, size=size):
                self.of[result] = Shape(size, self._by_row)
            case Alloc(result=result):
                self.of[result] = UNIFORM
            case Warp(result=result, name=name):
                self.of[result] = Shape(None) if name.startswith("shfl") else UNIFORM
            case Call(result=result) if result is not None:
                self.of[result] = UNIFORM
            case If():
                self._branch(operation, divergent)
            case For() | While():
                self._loop(operation, divergent)
            case Threads(body=body):
                self.block(body)

    def _branch(self, operation: If, divergent: bool) -> None:
        condition = self[operation.condition]
        split = not condition.is_uniform
        self.block(operation.then, divergent=divergent or split)
        self.block(operation.otherwise, divergent=divergent or split)
        pairs = zip(
            operation.results, operation.then.yields, operation.otherwise.yields, strict=True
        )
        for result, one, other in pairs:
            self.of[result] = _joined(self[one], self[other])
            if split:
                self.of[result] = Shape(None, self._by_row)
            self._merge_ranges(result, one, other)

    def _loop(self, operation: For | While, divergent: bool) -> None:
        """Assumes that what a loop carries stays as it begins, and weakens that until it is so."""
        for one, initial in zip(operation.carried, operation.initial, strict=True):
            self.of[one] = self[initial]
        if isinstance(operation, For):
            self._count(operation)
        while True:
            leaving = self.leaving(operation)
            if leaving is not None:
                for one in operation.carried:
                    self.of[one] = Shape(None, self._by_row)
            self.block(operation.body, divergent=divergent or leaving is not None)
            changed = False
            for one, last in zip(operation.carried, operation.body.yields, strict=True):
                joined = _joined(self.of[one], self[last])
                changed |= joined != self.of[one]
                self.of[one] = joined
            if not changed and leaving == self.leaving(operation):
                break
        for result, one in zip(operation.results, operation.carried, strict=True):
            self.of[result] = self.of[one]

    def leaving(self, operation: For | While) -> Shape | None:
        """How the lanes differ in when they leave a loop; none where all leave it together."""
        if isinstance(operation, While):
            shape = self.of[operation.carried[0]]
            return None if shape.is_uniform else shape
        low, high = self[operation.low], self[operation.high]
        if low.is_uniform and high.is_uniform:
            return None
        return Shape(None, low.rows or high.rows)

    def _count(self, operation: For) -> None:
        low, high = self[operation.low], self[operation.high]
        together = low.is_uniform and high.is_uniform
        self.of[operation.counter] = UNIFORM if together else Shape(None, self._by_row)
        bounds = self.range(operation.low), self.range(operation.high)
        if bounds[0] is not None and bounds[1] is not None and operation.step > 0:
            self._ranges[operation.counter] = (bounds[0][0], max(bounds[1][1] - 1, bounds[0][0]))

    # --- arithmetic

    def _compute(self, operation: Compute) -> None:
        result, name = operation.result, operation.name
        if not operation.operands:
            self.of[result] = self._index(name)
            known = self._index_range(name)
            if known is not None:
                self._ranges[result] = known
            return
        shapes = [self[each] for each in operation.operands]
        rows = any(each.rows for each in shapes)
        self.of[result] = Shape(self._stride(operation, shapes), rows)
        self._follow_range(operation)

    def _index(self, name: str) -> Shape:
        grouping = self._grouping
        flat = grouping.block[1] == grouping.block[2] == 1
        rows = grouping.rows > 1
        match name:
            case "thread.linear":
                return Shape(1, rows)
            case "thread.x":
                return Shape(1) if not grouping.linear or flat else Shape(None)
            case "thread.y" | "thread.z" if grouping.linear:
                return UNIFORM if flat else Shape(None)
            case "thread.y":
                return Shape(0, rows)
            case _:
                return UNIFORM

    def _index_range(self, name: str) -> tuple[int, int] | None:
        kind, _, axis = name.rpartition(".")
        block = self._grouping.block
        if kind == "thread" and axis in "xyz":
            return 0, block["xyz".index(axis)] - 1
        if kind == "block":
            return 0, max(_MOST_THREADS // block["xyz".index(axis)] - 1, 0)
        if kind == "grid.dim":
            return 1, max(_MOST_THREADS // block["xyz".index(axis)], 1)
        return None

    def _stride(self, operation: Compute, shapes: list[Shape]) -> int | None:
        """The step of a result; integers and pointers only have one other than 0."""
        name, type = operation.name, operation.result.type
        strides = [each.stride for each in shapes]
        if all(each == 0 for each in strides):
            return 0
        if None in strides:
            return None
        known = [each for each in strides if each is not None]
        if name == "select":
            return known[1] if known[0] == 0 and known[1] == known[2] else None
        if name not in _LINEAR or type.is_float or type is Scalar.BOOL or type.size < 4:
            return None
        match name:
            case "add" | "ptradd":
                return known[0] + known[1]
            case "sub":
                return known[0] - known[1]
            case "neg":
                return -known[0]
            case "mul" | "shl":
                return _scaled(operation, known)
            case _:
                return known[0] if self._casts(operation.operands[0], type) else None

    def _casts(self, operand: Operand, type: Scalar) -> bool:
        """Whether a step survives a cast."""
        source = operand.type
        if not source.is_integer or source.size < 4:
            return False
        if type.size <= source.size or source.is_signed:
            return True
        known = self.range(operand)
        return known is not None and known[0] >= 0 and known[1] < 1 << 32

    def range(self, operand: Operand) -> tuple[int, int] | None:
        """The least and the greatest that an integer can be, if anything is known."""
        if isinstance(operand, Constant):
            return None if isinstance(operand.value, float) else (int(operand.value),) * 2
        return self._ranges.get(operand)

    def _follow_range(self, operation: Compute) -> None:
        result = operation.result
        if not result.type.is_integer:
            return
        known = [self.range(each) for each in operation.operands]
        found = None
        if operation.name == "select":
            self._merge_ranges(result, operation.operands[1], operation.operands[2])
            return
        if operation.name == "shr" and known[0] is not None and known[0][0] >= 0:
            found = (0, known[0][1])
        elif operation.name == "rem" and known[1] is not None and known[1][0] > 0:
            low = 0 if not result.type.is_signed else 1 - known[1][1]
            found = (low, known[1][1] - 1)
        elif None not in known:
            found = _computed(operation.name, [each for each in known if each is not None])
        if found is not None and _fits(found, result.type):
            self._ranges[result] = found

    def _merge_ranges(self, result: Value, one: Operand, other: Operand) -> None:
        first, second = self.range(one), self.range(other)
        if first is not None and second is not None:
            self._ranges[result] = (min(first[0], second[0]), max(first[1], second[1]))


def _joined(one: Shape, other: Shape) -> Shape:
    return Shape(one.stride if one.stride == other.stride else None, one.rows or other.rows)


def _scaled(operation: Compute, strides: list[int]) -> int | None:
    """A step times a constant."""
    one, other = operation.operands
    if isinstance(other, Constant):
        factor = int(other.value)
        return strides[0] * factor if operation.name == "mul" else strides[0] << factor
    if operation.name == "mul" and isinstance(one, Constant):
        return strides[1] * int(one.value)
    return None


def _computed(name: str, known: list[tuple[int, int]]) -> tuple[int, int] | None:
    if name == "cast":
        return known[0]
    if name == "add":
        return known[0][0] + known[1][0], known[0][1] + known[1][1]
    if name == "sub":
        return known[0][0] - known[1][1], known[0][1] - known[1][0]
    if name == "mul":
        products = [a * b for a in known[0] for b in known[1]]
        return min(products), max(products)
    return None


def _fits(known: tuple[int, int], type: Scalar) -> bool:
    bits = 8 * type.size
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if type.is_signed else (0, (1 << bits) - 1)
    return low <= known[0] and known[1] <= high


def shapes_of(body: Block, grouping: Grouping, outside: Mapping[Value, Shape]) -> Shapes:
    """The shapes in a loop over threads; what the block computes outside of it is uniform."""
    shapes = Shapes(grouping)
    shapes.of.update(outside)
    shapes.block(body)
    return shapes
