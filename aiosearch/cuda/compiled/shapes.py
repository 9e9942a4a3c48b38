"""How a value differs between the threads that one vector holds.

Neighbouring threads are the lanes of a vector. A value that is the same in all of them needs one
register of one number; one that grows by the same step from lane to lane, such as an index, needs
its first number only, and memory at such an address is read at once. Everything else is a vector.

Several rows of threads (`thread.y`) can go together: then a value that depends on the row exists
once for each, and one that does not is shared by all of them.

    a[row * n + col]      stride 4, by row         b[k * n + col]     stride 4, shared

A loop whose lanes begin apart, such as `for (j = threadIdx.x; j < n; j += 32)`, is left by them at
different times. All of them step together until then, so what they count keeps its stride; in
lanes that have left it is a number that nobody reads. Its first number has to stay one that fits,
though, so lane 0 must be the last to leave: strides and steps go up, to an end that lanes share.

A step in 32 bits is one in 64 bits only if nothing wraps on the way. For signed numbers C says so.
For unsigned ones it has to be proved from ranges: threads are fewer than their block has, and a
launch of 2^31 or more threads in one dimension is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..ir.operations import (
    Address,
    Alloc,
    Atomic,
    Barrier,
    CallOperation,
    Compute,
    ConstantOperand,
    For,
    If,
    IrValue,
    Load,
    MemorySpace,
    Operand,
    Operation,
    Region,
    Store,
    Threads,
    Warp,
    While,
    operands,
    regions,
    walk,
)
from ..ir.types import ScalarType
from .backend import host


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
_LEAST_SIZE = 4
"""Bytes of the whole numbers that have a step; C counts in no smaller ones."""
# About cycles of one core, of which only the relation of the two ways counts.
_ISSUED = 1 / 3
"""Of an operation on one number, as several are issued at once."""
_LONG = 12.0
"""Of a division or a function."""
_GATHERED, _SCATTERED, _NARROW = 2.0, 4.0, 5.0
"""Of a lane that reads or writes for itself; machines gather nothing below 32 bits."""
_PRESENT = 0.7
"""The share of the lanes that are left in a turn of a loop that lanes leave apart."""
_CHEAP = frozenset(
    [
        "abs",
        "add",
        "and",
        "bitcast",
        "cast",
        "eq",
        "fma",
        "ge",
        "gt",
        "le",
        "lt",
        "max",
        "min",
        "mul",
        "ne",
        "neg",
        "not",
        "or",
        "ptradd",
        "select",
        "shl",
        "shr",
        "sub",
        "xor",
    ]
)


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

    @property
    def is_single(self) -> bool:
        """Whether a group is one thread, so that nothing differs within it."""
        return self.lanes == self.rows == 1


class Shapes:
    """The shapes of the values in loops over threads, and what is known of their ranges."""

    def __init__(self, grouping: Grouping, body: Region) -> None:
        self._grouping = grouping
        self._read = _operands(body)
        self.of: dict[IrValue, Shape] = {}
        self.running: dict[IrValue, Operand] = {}
        """What a loop that lanes leave apart carries as one number, and what it is the next time.

        While a lane goes on, its value is that of all others that do: `x` of

            for (x = 0; x < n; x++) if (a[x] >= limit[thread]) break;

        Lanes that left keep theirs, which are results, and no longer read in the loop.
        """
        self._ranges: dict[IrValue, tuple[int, int]] = {}
        self._by_row = grouping.rows > 1

    def __getitem__(self, operand: Operand) -> Shape:
        return UNIFORM if isinstance(operand, ConstantOperand) else self.of.get(operand, UNIFORM)

    def block(self, block: Region, *, divergent: bool = False) -> None:
        """Finds the shapes in a block; `divergent` says that only some lanes may be there."""
        for operation in block.operations:
            self._operation(operation, divergent)

    def scatters(self, operation: For | While) -> bool:
        """Whether one lane after another is faster in a loop that lanes leave at different times.

        That is so where little is computed for each place in memory that lanes find apart, as in a
        walk along the edges of a graph: such places are read and written one by one in any case,
        and the lanes would wait for the one that stays longest.
        """
        lanes, together, apart = self._grouping.lanes, 0.0, 0.0
        for item in walk(operation.body):
            match item:
                case Alloc() | Warp() | CallOperation() | Barrier():
                    return False
                case Load(result=IrValue(type=type), address=address):
                    together += self._access(address, type, _GATHERED)
                    apart += _ISSUED
                case Store(address=address, type=type):
                    together += self._access(address, type, _SCATTERED)
                    apart += _ISSUED
                case Atomic():
                    together += _SCATTERED * lanes
                    apart += _ISSUED
                case Compute(result=result, name=name, operands=supplied) if supplied:
                    cost = 1.0 if name in _CHEAP else _LONG
                    registers = max(lanes * result.type.size // host().width, 1)
                    together += cost * registers
                    apart += cost * _ISSUED
        return lanes > 1 and apart * lanes * _PRESENT < together

    def _access(self, address: Address, type: ScalarType, scattered: float) -> float:
        """About the cycles of reading or writing what all lanes have at an address."""
        base, index = self[address.base].stride, self[address.index].stride
        apart = base is None or index is None or base + index * address.scale not in (0, type.size)
        if not apart:
            return 1.0
        return self._grouping.lanes * (scattered if type.size >= _LEAST_SIZE else _NARROW)

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
                shape = Shape(None, self._by_row)
                self.of[result] = UNIFORM if self._grouping.is_single else shape
            case Alloc(result=result, space=MemorySpace.PRIVATE, size=size):
                self.of[result] = Shape(size, self._by_row)
            case Alloc(result=result):
                self.of[result] = UNIFORM
            case Warp(result=result, name=name):
                self.of[result] = Shape(None) if name.startswith("shfl") else UNIFORM
            case CallOperation(result=result) if result is not None:
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
        for result, left, right in pairs:
            self.of[result] = _joined(self[left], self[right])
            if split:
                self.of[result] = Shape(None, self._by_row)
            self._merge_ranges(result, left, right)

    def _loop(self, operation: For | While, divergent: bool) -> None:
        """Assumes that what a loop carries stays as it begins, and weakens that until it is so."""
        for left, initial in zip(operation.carried, operation.initial, strict=True):
            self.of[left] = self[initial]
            self.running.pop(left, None)
        running = self._advances(operation)
        if isinstance(operation, For):
            self._count(operation)
        else:
            self.block(operation.body, divergent=divergent)  # for ranges, which no shape changes
        while True:
            leaving = self.leaving(operation)
            # Lanes that leave early keep an old value while others go on, so no step survives.
            if leaving is not None:
                for place, left in enumerate(operation.carried):
                    if left in running:
                        self.of[left] = UNIFORM
                    elif not self._ascends(operation, place):
                        self.of[left] = Shape(None, self._by_row)
            self.block(operation.body, divergent=divergent or leaving is not None)
            changed = False
            for left, last in zip(operation.carried, operation.body.yields, strict=True):
                if leaving is not None and left in running:
                    if not self[running[left]].is_uniform:
                        del running[left]
                        changed = True
                    continue
                joined = _joined(self.of[left], self[last])
                changed |= joined != self.of[left]
                self.of[left] = joined
            if not changed and leaving == self.leaving(operation):
                break
        for result, left in zip(operation.results, operation.carried, strict=True):
            self.of[result] = self.of[left]
            if leaving is not None and left in running:
                self.running[left] = running[left]
                self.of[result] = Shape(None, self._by_row)

    def _advances(self, operation: For | While) -> dict[IrValue, Operand]:
        """What the lanes that go on carry to the next time, for each value that begins the same.

        Where one of a `select` is taken by all lanes that go on, as `x + 1` of `stay ? x + 1 : x`
        by those for which `stay and x + 1 < n` holds, it is that one.
        """
        defined = {
            item.result: item for item in operation.body.operations if isinstance(item, Compute)
        }
        holding: set[Operand] = set()
        failing: set[Operand] = set()
        facts = [operation.body.yields[0]] if isinstance(operation, While) else []
        while facts:
            fact = facts.pop()
            holding.add(fact)
            compute = defined.get(fact) if isinstance(fact, IrValue) else None
            if compute is not None and compute.name == "and":
                facts += compute.operands
            elif compute is not None and compute.name == "not":
                failing.add(compute.operands[0])
        advances = {}
        first = isinstance(operation, While)
        rows = zip(operation.carried, operation.initial, operation.body.yields, strict=True)
        for left, initial, last in list(rows)[first:]:
            while isinstance(last, IrValue) and (compute := defined.get(last)) is not None:
                if compute.name != "select" or compute.operands[0] not in holding | failing:
                    break
                last = compute.operands[1 if compute.operands[0] in holding else 2]
            if self[initial].is_uniform:
                advances[left] = last
        return advances

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
        low, high, type = self[operation.low], self[operation.high], operation.counter.type
        shape = Shape(None, self._by_row)
        if low.is_uniform and high.is_uniform:
            shape = UNIFORM
        elif (
            operation.step > 0
            and high.stride == 0
            and low.stride is not None
            and low.stride >= 0
            and type.size >= _LEAST_SIZE
        ):
            shape = low
        self.of[operation.counter] = shape
        first, end = self.range(operation.low), self.range(operation.high)
        if first is not None and operation.step > 0:
            last = end[1] if end is not None else _limits(type)[1]
            self._ranges[operation.counter] = (first[0], max(last - 1, first[0]))

    def _ascends(self, operation: For | While, place: int) -> bool:
        """Whether what is `carried` at a place keeps its step although lanes leave the loop.

        It has to be what a `while` counts up and compares with its end. Behind the loop nobody may
        read it, as there it is what it was when its lane left.
        """
        left, last = operation.carried[place], operation.body.yields[place]
        stride = self.of[left].stride
        if isinstance(operation, For) or stride is None or stride < 0:
            return False
        if not left.type.is_signed or left.type.size < _LEAST_SIZE:
            return False
        lines = {
            item.result: item for item in operation.body.operations if isinstance(item, Compute)
        }
        going = operation.body.yields[0]
        test = lines.get(going) if isinstance(going, IrValue) else None
        if test is None or test.name not in ("lt", "le") or test.operands[0] != last:
            return False
        # Frontends add unsigned sizes of a grid, so casts stand between the counter and the sum.
        added = _without_casts(last, lines)
        if added is None or added.name != "add" or operation.results[place] in self._read:
            return False
        for first, step in (added.operands, added.operands[::-1]):
            origin = _without_casts(first, lines)
            from_left = first == left or (
                origin is not None and origin.name == "cast" and origin.operands[0] == left
            )
            span = self.range(step)
            if from_left and span is not None and span[0] > 0 and self[step].stride == 0:
                return self[test.operands[1]].stride == 0
        return False

    # --- arithmetic

    def _compute(self, operation: Compute) -> None:
        result, name = operation.result, operation.name
        if not operation.operands:
            self.of[result] = self._index(name)
            existing = self._index_range(name)
            if existing is not None:
                self._ranges[result] = existing
            return
        shapes = [self[item] for item in operation.operands]
        rows = any(item.rows for item in shapes)
        self.of[result] = Shape(self.stride(operation, shapes), rows)
        self._follow_range(operation)

    def _index(self, name: str) -> Shape:
        grouping = self._grouping
        if grouping.is_single:
            return UNIFORM
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

    def stride(self, operation: Compute, shapes: list[Shape]) -> int | None:
        """The step of a result; integers and pointers only have one other than 0."""
        name, type = operation.name, operation.result.type
        strides = [item.stride for item in shapes]
        if all(item == 0 for item in strides):
            return 0
        if None in strides:
            return None
        existing = [item for item in strides if item is not None]
        if name == "select":
            return existing[1] if existing[0] == 0 and existing[1] == existing[2] else None
        if (
            name not in _LINEAR
            or type.is_float
            or type is ScalarType.BOOL
            or type.size < _LEAST_SIZE
        ):
            return None
        match name:
            case "add" | "ptradd":
                return existing[0] + existing[1]
            case "sub":
                return existing[0] - existing[1]
            case "neg":
                return -existing[0]
            case "mul" | "shl":
                return _scaled(operation, existing)
            case _:
                return existing[0] if self._casts(operation.operands[0], type) else None

    def _casts(self, operand: Operand, type: ScalarType) -> bool:
        """Whether a step survives a cast."""
        source = operand.type
        if not source.is_integer or source.size < 4:
            return False
        if type.size <= source.size or source.is_signed:
            return True
        existing = self.range(operand)
        return existing is not None and existing[0] >= 0 and existing[1] < 1 << 32

    def range(self, operand: Operand) -> tuple[int, int] | None:
        """The least and the greatest that an integer can be, if anything is known."""
        if isinstance(operand, ConstantOperand):
            return None if isinstance(operand.value, float) else (int(operand.value),) * 2
        return self._ranges.get(operand)

    def _follow_range(self, operation: Compute) -> None:
        result = operation.result
        if not result.type.is_integer:
            return
        existing = [self.range(item) for item in operation.operands]
        collected = None
        if operation.name == "select":
            self._merge_ranges(result, operation.operands[1], operation.operands[2])
            return
        if operation.name == "shr" and existing[0] is not None and existing[0][0] >= 0:
            collected = (0, existing[0][1])
        elif operation.name == "rem" and existing[1] is not None and existing[1][0] > 0:
            low = 0 if not result.type.is_signed else 1 - existing[1][1]
            collected = (low, existing[1][1] - 1)
        elif None not in existing:
            collected = _computed(operation.name, [item for item in existing if item is not None])
        if collected is not None and _fits(collected, result.type):
            self._ranges[result] = collected

    def _merge_ranges(self, result: IrValue, left: Operand, right: Operand) -> None:
        first, second = self.range(left), self.range(right)
        if first is not None and second is not None:
            self._ranges[result] = (min(first[0], second[0]), max(first[1], second[1]))


def _operands(body: Region) -> set[Operand]:
    """All that a `body` or anything in it reads, or hands to what is around it."""
    collected = set[Operand](body.yields)
    for operation in walk(body):
        collected.update(operands(operation))
        for region in regions(operation):
            collected.update(region.yields)
    return collected


def _without_casts(operand: Operand, lines: Mapping[IrValue, Compute]) -> Compute | None:
    """What computes an operand, casts between whole numbers of one size looked through.

    The last cast, of what none of these lines computes, stays.
    """
    line = lines.get(operand) if isinstance(operand, IrValue) else None
    while line is not None and line.name == "cast":
        (source,) = line.operands
        further = lines.get(source) if isinstance(source, IrValue) else None
        if (
            further is None
            or not source.type.is_integer
            or source.type.size != line.result.type.size
        ):
            break
        line = further
    return line


def _joined(left: Shape, right: Shape) -> Shape:
    return Shape(left.stride if left.stride == right.stride else None, left.rows or right.rows)


def _scaled(operation: Compute, strides: list[int]) -> int | None:
    """A step times a constant."""
    left, right = operation.operands
    if isinstance(right, ConstantOperand):
        factor = int(right.value)
        return strides[0] * factor if operation.name == "mul" else strides[0] << factor
    if operation.name == "mul" and isinstance(left, ConstantOperand):
        return strides[1] * int(left.value)
    return None


def _computed(name: str, existing: list[tuple[int, int]]) -> tuple[int, int] | None:
    if name == "cast":
        return existing[0]
    if name == "add":
        return existing[0][0] + existing[1][0], existing[0][1] + existing[1][1]
    if name == "sub":
        return existing[0][0] - existing[1][1], existing[0][1] - existing[1][0]
    if name == "mul":
        products = [a * b for a in existing[0] for b in existing[1]]
        return min(products), max(products)
    return None


def _limits(type: ScalarType) -> tuple[int, int]:
    bits = 8 * type.size
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if type.is_signed else (0, (1 << bits) - 1)


def _fits(existing: tuple[int, int], type: ScalarType) -> bool:
    low, high = _limits(type)
    return low <= existing[0] and existing[1] <= high
