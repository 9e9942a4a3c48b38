"""A kernel that watches itself: compiled as any other, with checks in front of each access.

The interpreter sees everything and is slow; this finds accesses out of bounds and races in grids of
a real size. For each cell of an array there are two words in an array of *shadows*: the stamp of
who wrote last, and of who read last. A stamp has the block, the number of barriers that it has
passed (its epoch), and the thread. Two accesses race if their blocks differ, or if their epochs are
the same and their threads differ:

    s[t] = x;  y = s[t + 1];      thread 1 has left (block 0, epoch 0, thread 1) at s[1]; thread 0
                                  reads it there, in the same epoch of its own block: a race

Stamps are exchanged one thread after the other, so of two threads in one vector the second sees the
first. A cell that several threads read in one epoch is marked, since each may race with a write by
another. Only the last readers of one block are remembered, so a race may be missed, and none is
made up; atomic operations race with all but each other. What is out of bounds is left out, and a
load gives zero. A barrier becomes two, between which the first thread counts the epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..interpreter.findings import FindingKind
from ..ir.operations import (
    Address,
    Alloc,
    Atomic,
    Barrier,
    Compute,
    ConstantOperand,
    For,
    If,
    IrValue,
    Load,
    MemorySpace,
    Operand,
    Operation,
    ParallelFunction,
    Parameter,
    Region,
    SourceLocation,
    Store,
    regions,
    walk,
    with_regions,
)
from ..ir.types import ScalarType
from .coarsening import NewValues
from .effects import Definitions

I64, BOOL, PTR = ScalarType.I64, ScalarType.BOOL, ScalarType.PTR
_BLOCK, _ATOMIC, _SEVERAL, _EPOCH = 32, 31, 30, 10
"""The lowest bits of the parts of a stamp: block, flags, epoch, and the thread below."""
_MOST_EPOCHS = (1 << _SEVERAL - _EPOCH) - 1
_WORDS = 16
"""Bytes of shadows for each cell."""


@dataclass(frozen=True, slots=True)
class Site:
    """A check: what it finds, where, and in which memory."""

    kind: FindingKind
    at: SourceLocation
    memory: str


@dataclass(frozen=True, slots=True)
class Instrumented:
    """A kernel with checks, and what it is passed behind its own arguments.

    First the address of a flag of four bytes for each site; then, for each of `watched`, the
    address of its shadows and the bytes of its array.
    """

    function: ParallelFunction
    sites: tuple[Site, ...]
    watched: tuple[Parameter, ...]
    granules: tuple[int, ...]
    """The bytes of a cell of each."""
    unseen: tuple[SourceLocation, ...]
    """Accesses through pointers that may be to several arrays, which are not checked."""


def instrumented(
    function: ParallelFunction, block: tuple[int, int, int], shared: int
) -> Instrumented:
    """Puts checks into a kernel, for blocks of one shape with so much dynamic shared memory."""
    return _Instrumentation(function, block, shared).instrumented()


@dataclass(frozen=True, slots=True)
class _Memory:
    """What is known of a piece of memory: where it begins, its size, its shadows."""

    name: str
    size: Operand
    granule: int
    shadows: Operand | None


class _Instrumentation:
    def __init__(
        self, function: ParallelFunction, block: tuple[int, int, int], shared: int
    ) -> None:
        self._function = function
        self._block, self._dynamic = block, shared
        self._definitions = Definitions(function)
        self._numbers = NewValues(function)
        self._sites: list[Site] = []
        self._unseen: list[SourceLocation] = []
        self._memory: dict[IrValue, _Memory] = {}
        self._flags = self._numbers.value(PTR, "flags")
        self._head: list[Operation] = []

    def instrumented(self) -> Instrumented:
        granules = self._granules()
        watched, granule_list, extra = [], [], [Parameter(self._flags, "flags")]
        for parameter in self._function.parameters:
            if parameter.value.type is not PTR:
                continue
            shadows, size = self._numbers.value(PTR, "shadows"), self._numbers.value(I64, "bytes")
            extra += [
                Parameter(shadows, f"{parameter.name}.shadows"),
                Parameter(size, f"{parameter.name}.bytes"),
            ]
            granule = granules.get(parameter.value, 1)
            watched.append(parameter)
            granule_list.append(granule)
            self._memory[parameter.value] = _Memory(parameter.name, size, granule, shadows)
        clear = self._begin(granules)
        body = self._region(self._function.body)
        allocations = [item for item in body.operations if isinstance(item, Alloc)]
        remaining = [item for item in body.operations if not isinstance(item, Alloc)]
        # Allocations stand first in every kernel; what counts epochs comes behind them.
        whole = Region((*allocations, *self._head, *clear, *remaining), body.yields)
        return Instrumented(
            replace(
                self._function,
                name=f"{self._function.name}_checked",
                parameters=(*self._function.parameters, *extra),
                body=whole,
            ),
            tuple(self._sites),
            tuple(watched),
            tuple(granule_list),
            tuple(dict.fromkeys(self._unseen)),
        )

    def _granules(self) -> dict[IrValue, int]:
        """The bytes of the smallest access to each piece of memory."""
        smallest: dict[IrValue, int] = {}
        for operation in walk(self._function.body):
            if not isinstance(operation, Load | Store | Atomic):
                continue
            root = self._definitions.root(operation.address.base)
            if root is not None:
                size = _type_of(operation).size
                smallest[root] = min(smallest.get(root, size), size)
        return smallest

    # --- the beginning of a block

    def _begin(self, granules: dict[IrValue, int]) -> list[Operation]:
        """Who the thread is, the counter of epochs, and shadows of shared memory, set to nobody."""
        lines: list[Operation] = []
        x, y, z = (self._index("thread", axis, lines) for axis in "xyz")
        wide, high, _ = self._block
        self._thread = self._sum(self._sum(x, self._times(y, wide, lines), lines),
                                 self._times(z, wide * high, lines), lines)  # fmt: skip
        bx, by, bz = (self._index("block", axis, lines) for axis in "xyz")
        gx, gy = (self._index("grid.dim", axis, lines) for axis in "xy")
        rows = self._sum(by, self._product(bz, gy, lines), lines)
        number = self._sum(bx, self._product(rows, gx, lines), lines)
        above_zero = self._sum(number, ConstantOperand(1, I64), lines)
        self._stamp = self._sum(self._thread, self._times(above_zero, 1 << _BLOCK, lines), lines)
        self._epoch = self._numbers.value(PTR, "epoch")
        self._head.append(Alloc(self._epoch, MemorySpace.SHARED, 8, I64))
        cleared: list[tuple[IrValue, int]] = [(self._epoch, 1)]
        for operation in self._function.body.operations:
            if not isinstance(operation, Alloc):
                continue
            size = self._dynamic if operation.size is None else operation.size
            shadows = None
            granule = granules.get(operation.result, 1)
            if operation.space is MemorySpace.SHARED and size:
                shadows = self._numbers.value(PTR, "shadows")
                cells = -(-size // granule)
                self._head.append(Alloc(shadows, MemorySpace.SHARED, cells * _WORDS, I64))
                cleared.append((shadows, cells * 2))
            self._memory[operation.result] = _Memory(
                operation.result.hint or operation.space.value,
                ConstantOperand(size, I64),
                granule,
                shadows,
            )
        threads = wide * high * self._block[2]
        for pointer, words in cleared:
            counter = self._numbers.value(I64)
            inner: list[Operation] = []
            place = self._sum(counter, self._thread, inner)
            inside = self._compute("lt", BOOL, (place, ConstantOperand(words, I64)), inner)
            store = Store(Address(pointer, place, 8), ConstantOperand(0, I64), I64)
            inner.append(If(inside, Region((store,)), Region()))
            lines.append(
                For(
                    counter,
                    ConstantOperand(0, I64),
                    ConstantOperand(words, I64),
                    threads,
                    (),
                    (),
                    Region(tuple(inner)),
                )
            )
        lines.append(Barrier())
        return lines

    # --- operations

    def _region(self, block: Region) -> Region:
        lines: list[Operation] = []
        for operation in block.operations:
            match operation:
                case Load() | Store() | Atomic():
                    self._access(operation, lines)
                case Barrier(level="block"):
                    self._barrier(operation, lines)
                case _:
                    inner = tuple(map(self._region, regions(operation)))
                    lines.append(with_regions(operation, inner) if inner else operation)
        return Region(tuple(lines), block.yields)

    def _barrier(self, barrier: Barrier, lines: list[Operation]) -> None:
        first = self._compute("eq", BOOL, (self._thread, ConstantOperand(0, I64)), lines)
        inner: list[Operation] = []
        before = self._numbers.value(I64)
        inner.append(Load(before, Address(self._epoch)))
        further = self._sum(before, ConstantOperand(1, I64), inner)
        # Where epochs run out, two would be one: in the last, nothing is compared.
        most = ConstantOperand(_MOST_EPOCHS, I64)
        least = self._compute("min", I64, (further, most), inner)
        inner.append(Store(Address(self._epoch), least, I64))
        lines += [barrier, If(first, Region(tuple(inner)), Region()), barrier]

    def _access(self, operation: Load | Store | Atomic, lines: list[Operation]) -> None:
        root = self._definitions.root(operation.address.base)
        memory = None if root is None else self._memory.get(root)
        if root is None or memory is None:
            if not any(root == symbol.value for symbol in self._function.symbols):
                self._unseen.append(operation.at)
            lines.append(operation)
            return
        type = _type_of(operation)
        offset = self._offset(operation.address, lines)
        end = self._sum(offset, ConstantOperand(type.size, I64), lines)
        above = self._compute("ge", BOOL, (offset, ConstantOperand(0, I64)), lines)
        below = self._compute("le", BOOL, (end, memory.size), lines)
        inside = self._compute("and", BOOL, (above, below), lines)
        then: list[Operation] = []
        if memory.shadows is not None:
            self._watch(operation, memory, offset, type, then)
        outside = Region((self._flag(FindingKind.OUT_OF_BOUNDS, operation.at, memory.name),))
        if isinstance(operation, Store):
            then.append(operation)
            lines.append(If(inside, Region(tuple(then)), outside, (), operation.at))
            return
        value = self._numbers.value(type)
        then.append(replace(operation, result=value))
        zero = ConstantOperand(0.0 if type.is_float else 0, type)
        lines.append(
            If(
                inside,
                Region(tuple(then), (value,)),
                replace(outside, yields=(zero,)),
                (operation.result,),
                operation.at,
            )
        )

    def _offset(self, address: Address, lines: list[Operation]) -> Operand:
        """The bytes between an address and the beginning of its memory."""
        index = self._wide(address.index, lines)
        total = self._times(index, address.scale, lines)
        if address.offset:
            total = self._sum(total, ConstantOperand(address.offset, I64), lines)
        base = address.base
        while isinstance(base, IrValue):
            operation = self._definitions.of.get(base)
            if not isinstance(operation, Compute) or operation.name != "ptradd":
                break
            total = self._sum(total, self._wide(operation.operands[1], lines), lines)
            base = operation.operands[0]
        return total

    def _watch(
        self,
        operation: Load | Store | Atomic,
        memory: _Memory,
        offset: Operand,
        type: ScalarType,
        lines: list[Operation],
    ) -> None:
        assert memory.shadows is not None
        epoch = self._numbers.value(I64)
        lines.append(Load(epoch, Address(self._epoch)))
        shifted = self._times(epoch, 1 << _EPOCH, lines)
        mine = self._sum(self._stamp, shifted, lines)
        if isinstance(operation, Atomic):
            mine = self._sum(mine, ConstantOperand(1 << _ATOMIC, I64), lines)
        granule = ConstantOperand(memory.granule, I64)
        cell = self._compute("div", I64, (offset, granule), lines)
        for part in range(max(type.size // memory.granule, 1)):
            writer = Address(memory.shadows, cell, _WORDS, part * _WORDS)
            reader = replace(writer, offset=writer.offset + 8)
            if isinstance(operation, Load):
                checks = [self._read(writer, reader, mine, epoch, lines)]
            else:
                checks = self._written(writer, reader, mine, epoch, operation, lines)
            for wrong in checks:
                flag = self._flag(FindingKind.RACE, operation.at, memory.name)
                lines.append(If(wrong, Region((flag,)), Region(), (), operation.at))

    def _read(
        self,
        writer: Address,
        reader: Address,
        mine: Operand,
        epoch: Operand,
        lines: list[Operation],
    ) -> Operand:
        before, earlier, ignored = (self._numbers.value(I64) for _ in range(3))
        lines.append(Load(before, writer))
        lines.append(Atomic(earlier, "exch", reader, mine))
        # Two threads of one epoch have read it now, or more had before: then neither is alone.
        unlike = self._differs(earlier, lines, "thread")
        marked = self._bit(earlier, _SEVERAL, lines)
        either = self._compute("or", BOOL, (unlike, marked), lines)
        together = self._compute(
            "and", BOOL, (self._together(earlier, epoch, lines), either), lines
        )
        several = ConstantOperand(1 << _SEVERAL, I64)
        lines.append(If(together, Region((Atomic(ignored, "or", reader, several),)), Region()))
        return self._races(before, epoch, lines)

    def _written(
        self,
        writer: Address,
        reader: Address,
        mine: Operand,
        epoch: Operand,
        operation: Store | Atomic,
        lines: list[Operation],
    ) -> list[Operand]:
        before, earlier = (self._numbers.value(I64) for _ in range(2))
        lines.append(Atomic(before, "exch", writer, mine))
        lines.append(Load(earlier, reader))
        with_writer = self._races(before, epoch, lines)
        if isinstance(operation, Atomic):
            plain = self._compute("not", BOOL, (self._bit(before, _ATOMIC, lines),), lines)
            with_writer = self._compute("and", BOOL, (with_writer, plain), lines)
        shared_reads = self._compute(
            "and",
            BOOL,
            (self._together(earlier, epoch, lines), self._bit(earlier, _SEVERAL, lines)),
            lines,
        )
        with_reader = self._compute(
            "or", BOOL, (self._races(earlier, epoch, lines), shared_reads), lines
        )
        return [with_writer, with_reader]

    # --- stamps

    def _races(self, stamp: Operand, epoch: Operand, lines: list[Operation]) -> Operand:
        """Whether an access with this stamp is not ordered with one of this thread now."""
        there = self._compute("ne", BOOL, (stamp, ConstantOperand(0, I64)), lines)
        elsewhere = self._differs(stamp, lines, "block")
        beside = self._compute(
            "and",
            BOOL,
            (self._together(stamp, epoch, lines), self._differs(stamp, lines, "thread")),
            lines,
        )
        either = self._compute("or", BOOL, (elsewhere, beside), lines)
        return self._compute("and", BOOL, (there, either), lines)

    def _together(self, stamp: Operand, epoch: Operand, lines: list[Operation]) -> Operand:
        """Whether a stamp is of this block and epoch; of the last epoch that there is, nothing."""
        block = self._compute("not", BOOL, (self._differs(stamp, lines, "block"),), lines)
        shifted = self._compute("shr", I64, (stamp, ConstantOperand(_EPOCH, I64)), lines)
        number = self._compute("and", I64, (shifted, ConstantOperand(_MOST_EPOCHS, I64)), lines)
        same = self._compute("eq", BOOL, (number, epoch), lines)
        counted = self._compute("lt", BOOL, (epoch, ConstantOperand(_MOST_EPOCHS, I64)), lines)
        both = self._compute("and", BOOL, (same, counted), lines)
        return self._compute("and", BOOL, (block, both), lines)

    def _differs(self, stamp: Operand, lines: list[Operation], part: str) -> Operand:
        if part == "thread":
            mask = ConstantOperand((1 << _EPOCH) - 1, I64)
            number = self._compute("and", I64, (stamp, mask), lines)
            return self._compute("ne", BOOL, (number, self._thread), lines)
        shift = ConstantOperand(_BLOCK, I64)
        first, second = (
            self._compute("shr", I64, (item, shift), lines) for item in (stamp, self._stamp)
        )
        return self._compute("ne", BOOL, (first, second), lines)

    def _bit(self, stamp: Operand, bit: int, lines: list[Operation]) -> Operand:
        held = self._compute("and", I64, (stamp, ConstantOperand(1 << bit, I64)), lines)
        return self._compute("ne", BOOL, (held, ConstantOperand(0, I64)), lines)

    def _flag(self, kind: FindingKind, at: SourceLocation, memory: str) -> Store:
        place = 4 * len(self._sites)
        self._sites.append(Site(kind, at, memory))
        return Store(
            Address(self._flags, offset=place), ConstantOperand(1, ScalarType.I32), ScalarType.I32
        )

    # --- arithmetic

    def _compute(
        self, name: str, type: ScalarType, several: Sequence[Operand], lines: list[Operation]
    ) -> Operand:
        result = self._numbers.value(type)
        lines.append(Compute(result, name, tuple(several)))
        return result

    def _index(self, name: str, axis: str, lines: list[Operation]) -> Operand:
        return self._wide(self._compute(f"{name}.{axis}", ScalarType.U32, (), lines), lines)

    def _wide(self, value: Operand, lines: list[Operation]) -> Operand:
        return value if value.type is I64 else self._compute("cast", I64, (value,), lines)

    def _sum(self, first: Operand, second: Operand, lines: list[Operation]) -> Operand:
        return self._compute("add", I64, (first, second), lines)

    def _times(self, value: Operand, factor: int, lines: list[Operation]) -> Operand:
        return self._compute("mul", I64, (value, ConstantOperand(factor, I64)), lines)

    def _product(self, first: Operand, second: Operand, lines: list[Operation]) -> Operand:
        return self._compute("mul", I64, (first, second), lines)


def _type_of(operation: Load | Store | Atomic) -> ScalarType:
    return operation.type if isinstance(operation, Store) else operation.result.type
