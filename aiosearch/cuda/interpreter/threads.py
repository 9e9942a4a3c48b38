"""Runs a kernel's IR: all threads of some blocks in step, one array element for each.

    x = a[i];  if (x > 0) s += x;          x: 256 floats, mask: 256 bools, then s = where(mask, ...)

Threads go through the same operations at the same time; a mask says which take part. A barrier then
needs no waiting: it only has to be reached by all threads of a block or by none, which is checked.
What real threads could do in another order is what `shadow` finds: a kernel without a race gives
the same in every order, so this one order is enough to say what it computes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from ..errors import CudaError
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
    ParallelFunction,
    Region,
    SourceLocation,
    Store,
    Threads,
    Warp,
    While,
    operands,
    walk,
)
from ..launches import Dims
from . import arithmetic
from .arithmetic import NUMPY, Array
from .findings import FindingKind, KernelFaults
from .memory import AddressSpace, MemoryBuffer, gathered, scattered
from .shadow import Accessors, Shadow

_FIELD = re.compile(r"%([-+ #0]*\d*(?:\.\d+)?)(?:hh|h|ll|l|z|j|t)?([diouxXeEfFgGcsp%])")
"""A field of a format of `printf`."""

Element: TypeAlias = Any
"""A number of NumPy's: an element of an array."""

_LANES = 1 << 15
"""How many threads go in step."""
_MOST_TURNS = 1 << 22
"""Turns of one `while` after which it is taken to be endless."""
_WARP = 32
_IN_PLACE: dict[str, np.ufunc] = {
    "add": np.add,
    "sub": np.subtract,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


@dataclass(slots=True)
class Run:
    """One launch of a kernel."""

    function: ParallelFunction
    grid: Dims
    block: Dims
    memory: AddressSpace
    arguments: Sequence[int | float | bool]
    """Scalars, and the addresses of buffers."""
    symbols: Mapping[str, int] = field(default_factory=dict)
    """Addresses."""
    shared_bytes: int = 0
    findings: KernelFaults | None = None
    """Where faults go; without, memory outside of buffers is an error and races go unnoticed."""
    output: Callable[[str], None] = print

    def __call__(self) -> tuple[Array, ...]:
        threads = self.block[0] * self.block[1] * self.block[2]
        blocks = self.grid[0] * self.grid[1] * self.grid[2]
        shadow = None if self.findings is None else Shadow(self.findings, threads)
        at_once = max(_LANES // max(threads, 1), 1)
        results: tuple[Array, ...] = ()
        for first in range(0, blocks, at_once):
            subset = range(first, min(first + at_once, blocks))
            results = _Lanes(self, subset, threads, shadow).run()
        return results


class _Lanes:
    """Some blocks of a launch on their way through the kernel."""

    def __init__(self, run: Run, blocks: range, threads: int, shadow: Shadow | None) -> None:
        self._run = run
        self._shadow = shadow
        self._findings = run.findings
        self._blocks, self._threads = len(blocks), threads
        self._lanes = len(blocks) * threads
        self._values: dict[IrValue, Array] = {}
        self._constants: dict[int, Array] = {}
        """Of the function's operands, by where these are in memory."""
        self._lane = np.arange(self._lanes)
        self._block_of = self._lane // threads
        self._thread = blocks.start * threads + self._lane
        self._barriers = np.zeros(self._blocks, np.int32)
        warps = -(-threads // _WARP)
        self._warp_of = self._block_of * warps + self._lane % threads // _WARP
        self._warps = np.zeros(self._blocks * warps, np.int32)
        self._indices = self._numbered(blocks)
        self._read = {
            item
            for operation in walk(run.function.body)
            for item in (*operands(operation), *_yielded(operation))
            if isinstance(item, IrValue)
        }
        self._own: list[MemoryBuffer] = []
        self._exited = np.zeros(self._lanes, np.bool_)

    def _numbered(self, blocks: range) -> dict[str, Array]:
        grid, block = self._run.grid, self._run.block
        within = (self._lane % self._threads).astype(np.uint32)
        which = (self._block_of + blocks.start).astype(np.uint32)
        indices: dict[str, Array] = {}
        for name, number, dims in (("thread", within, block), ("block", which, grid)):
            indices[f"{name}.x"] = number % np.uint32(dims[0])
            indices[f"{name}.y"] = number // np.uint32(dims[0]) % np.uint32(dims[1])
            indices[f"{name}.z"] = number // np.uint32(dims[0] * dims[1])
        for place, axis in enumerate("xyz"):
            indices[f"block.dim.{axis}"] = np.asarray(block[place], np.uint32)
            indices[f"grid.dim.{axis}"] = np.asarray(grid[place], np.uint32)
        return indices

    def run(self) -> tuple[Array, ...]:
        function = self._run.function
        for parameter, argument in zip(function.parameters, self._run.arguments, strict=True):
            constant = ConstantOperand(argument, parameter.value.type)
            self._values[parameter.value] = arithmetic.array(constant)
        for symbol in function.symbols:
            address = self._run.symbols[symbol.name]
            self._values[symbol.value] = np.asarray(address, np.int64)
        try:
            return self._block(function.body, np.ones(self._lanes, np.bool_))
        finally:
            for buffer in self._own:
                self._run.memory.release(buffer)

    # --- operations

    def _block(self, block: Region, mask: Array) -> tuple[Array, ...]:
        for operation in block.operations:
            self._operation(operation, mask)
        return tuple(self._value(item) for item in block.yields)

    def _value(self, operand: Operand) -> Array:
        if not isinstance(operand, ConstantOperand):
            return self._values[operand]
        # By identity: 0.0 and -0.0 are equal.
        value = self._constants.get(id(operand))
        if value is None:
            value = self._constants[id(operand)] = arithmetic.array(operand)
        return value

    def _operation(self, operation: Operation, mask: Array) -> None:
        match operation:
            case Compute(result=result, name=name, operands=several):
                if name in self._indices:
                    self._values[result] = self._indices[name]
                else:
                    arrays = [self._value(item) for item in several]
                    self._values[result] = arithmetic.apply(name, result.type, arrays)
            case Load():
                self._load(operation, mask)
            case Store():
                self._store(operation, mask)
            case Atomic():
                self._atomic(operation, mask)
            case Alloc():
                self._alloc(operation)
            case If():
                self._if(operation, mask)
            case For():
                self._for(operation, mask)
            case While():
                self._while(operation, mask)
            case Barrier():
                self._barrier(operation, mask)
            case Warp():
                self._warp(operation, mask)
            case CallOperation():
                self._call(operation, mask)
            case Threads():
                raise CudaError("the interpreter runs kernels before they are lowered")

    def _if(self, operation: If, mask: Array) -> None:
        condition = self._value(operation.condition)
        left, right = mask & condition, mask & ~condition
        first = self._block(operation.then, left) if left.any() else None
        second = self._block(operation.otherwise, right) if right.any() else None
        for place, result in enumerate(operation.results):
            # Where one arm was not entered by any thread, its yields were never computed.
            if first is None or second is None:
                either = first or second
                zero = np.zeros((), NUMPY[result.type])
                self._values[result] = either[place] if either is not None else zero
            else:
                self._values[result] = np.where(condition, first[place], second[place])

    def _for(self, operation: For, mask: Array) -> None:
        low, high = self._value(operation.low), self._value(operation.high)
        step = operation.step
        carried = [self._value(item) for item in operation.initial]
        counter = np.broadcast_to(low, mask.shape) if high.ndim else low
        # Counted in 64 bits, so that the last step beyond the end does not wrap.
        wide = counter.astype(np.int64) if counter.dtype != np.uint64 else counter.astype(object)
        limit = high.astype(wide.dtype)
        while True:
            active = mask & np.asarray(wide < limit if step > 0 else wide > limit, np.bool_)
            if not active.any():
                break
            self._values[operation.counter] = np.asarray(wide).astype(counter.dtype)
            self._turn(operation, carried, active)
            wide = np.asarray(wide + step)
        for result, value in zip(operation.results, carried, strict=True):
            self._values[result] = value

    def _while(self, operation: While, mask: Array) -> None:
        carried = [self._value(item) for item in operation.initial]
        active, turns = mask & carried[0], 0
        while active.any():
            self._turn(operation, carried, active)
            active = active & carried[0]
            turns += 1
            if turns > _MOST_TURNS:
                self._fault(
                    FindingKind.ENDLESS,
                    operation.at,
                    f"the loop does not end in {_MOST_TURNS} turns",
                )
                break
        for result, value in zip(operation.results, carried, strict=True):
            self._values[result] = value

    def _turn(self, operation: For | While, carried: list[Array], active: Array) -> None:
        """Runs a loop's body once for the active threads."""
        for inside, value in zip(operation.carried, carried, strict=True):
            self._values[inside] = value
        after = self._block(operation.body, active)
        whole = bool(active.all())
        for place, value in enumerate(after):
            carried[place] = value if whole else np.where(active, value, carried[place])

    # --- memory

    def _alloc(self, operation: Alloc) -> None:
        run = self._run
        size = run.shared_bytes if operation.size is None else operation.size
        shared = operation.space is MemorySpace.SHARED
        segments = self._blocks if shared else self._lanes
        name = operation.result.hint or operation.space.value
        buffer = run.memory.allocate(name, size, segments, is_private=not shared, is_shared=shared)
        self._own.append(buffer)
        self._values[operation.result] = buffer.base(self._block_of if shared else self._lane)

    def _addresses(self, address: Address, mask: Array) -> tuple[Array, Array]:
        """The active lanes, and the address of each."""
        base, index = self._value(address.base), self._value(address.index)
        place = base + index.astype(np.int64) * np.int64(address.scale) + np.int64(address.offset)
        active = np.flatnonzero(mask)
        return active, np.broadcast_to(place, mask.shape)[active]

    def _accesses(
        self, address: Address, mask: Array, size: int, at: SourceLocation, verb: str
    ) -> list[tuple[MemoryBuffer, Array, Array]]:
        """The buffers of an access, the lanes at each, and their positions; faults are left out."""
        active, addresses = self._addresses(address, mask)
        collected = []
        for buffer, places, offsets in self._run.memory.split(addresses):
            lanes = active[places]
            if buffer is None:
                self._fault(
                    FindingKind.OUT_OF_BOUNDS,
                    at,
                    f"{verb} through a pointer to nothing, by {self._named(lanes[0])}",
                    count=lanes.size,
                )
                continue
            positions, inside = buffer.positions(offsets, size)
            if not inside.all():
                self._outside(buffer, offsets, inside, lanes, size, at, verb)
                lanes, positions = lanes[inside], positions[inside]
            crooked = positions % size != 0
            if crooked.any() and self._findings is not None:
                self._fault(
                    FindingKind.MISALIGNED,
                    at,
                    f"{verb} of {size} bytes at byte {positions[crooked][0]} of {buffer.name}",
                    count=int(crooked.sum()),
                )
            if lanes.size:
                collected.append((buffer, lanes, positions))
        return collected

    def _outside(
        self,
        buffer: MemoryBuffer,
        offsets: Array,
        inside: Array,
        lanes: Array,
        size: int,
        at: SourceLocation,
        verb: str,
    ) -> None:
        first = int(np.flatnonzero(~inside)[0])
        offset = int(offsets[first])
        if buffer.segments > 1:
            offset = (offset + buffer.stride // 2) % buffer.stride - buffer.stride // 2
        index, remaining = divmod(offset, size)
        where = f"element {index}" if not remaining else f"byte {offset}"
        self._fault(
            FindingKind.OUT_OF_BOUNDS,
            at,
            f"{verb} of {where} of {buffer.name}, which has {buffer.size // size}, by"
            f" {self._named(lanes[first])}",
            count=int((~inside).sum()),
        )

    def _who(self, lanes: Array) -> Accessors:
        return Accessors(
            self._thread[lanes],
            self._barriers[self._block_of[lanes]],
            self._warps[self._warp_of[lanes]],
        )

    def _load(self, operation: Load, mask: Array) -> None:
        type = operation.result.type
        result = np.zeros(self._lanes, NUMPY[type])
        for buffer, lanes, positions in self._accesses(
            operation.address, mask, type.size, operation.at, "read"
        ):
            result[lanes] = gathered(buffer.data, positions, type)
            if self._findings is None:
                continue
            if buffer.initialized is not None:
                self._check_initialized(buffer, lanes, positions, operation.at)
            if self._shadow is not None and not buffer.is_private:
                self._shadow.read(buffer, positions, type.size, self._who(lanes), operation.at)
        self._values[operation.result] = result

    def _check_initialized(
        self, buffer: MemoryBuffer, lanes: Array, positions: Array, at: SourceLocation
    ) -> None:
        assert buffer.initialized is not None
        unwritten = ~buffer.initialized[positions]
        if unwritten.any():
            first = int(np.flatnonzero(unwritten)[0])
            self._fault(
                FindingKind.UNINITIALIZED,
                at,
                f"read of {buffer.name} where nothing was written, by {self._named(lanes[first])}",
                count=int(unwritten.sum()),
            )

    def _store(self, operation: Store, mask: Array) -> None:
        type = operation.type
        values = np.broadcast_to(self._value(operation.value), mask.shape)
        for buffer, lanes, positions in self._accesses(
            operation.address, mask, type.size, operation.at, "write"
        ):
            scattered(buffer.data, positions, values[lanes].astype(NUMPY[type]), type)
            self._mark(buffer, positions, type.size)
            if self._shadow is not None and not buffer.is_private:
                self._shadow.write(buffer, positions, type.size, self._who(lanes), operation.at)

    @staticmethod
    def _mark(buffer: MemoryBuffer, positions: Array, size: int) -> None:
        if buffer.initialized is not None:
            for byte in range(size):
                buffer.initialized[positions + byte] = True

    def _atomic(self, operation: Atomic, mask: Array) -> None:
        type = operation.result.type
        result = np.zeros(self._lanes, NUMPY[type])
        values = np.broadcast_to(self._value(operation.operand), mask.shape)
        compare = None
        if operation.compare is not None:
            compare = np.broadcast_to(self._value(operation.compare), mask.shape)
        for buffer, lanes, positions in self._accesses(
            operation.address, mask, type.size, operation.at, "atomic"
        ):
            if self._findings is not None and buffer.initialized is not None:
                self._check_initialized(buffer, lanes, positions, operation.at)
            if self._shadow is not None and not buffer.is_private:
                self._shadow.atomic(buffer, positions, type.size, self._who(lanes), operation.at)
            self._mark(buffer, positions, type.size)
            data = buffer.data[: buffer.data.size // type.size * type.size].view(NUMPY[type])
            cells = positions // type.size
            name, simple = operation.name, _IN_PLACE.get(operation.name)
            if simple is not None and operation.result not in self._read:
                simple.at(data, cells, values[lanes])
                continue
            # One after the other, as what each finds depends on those before it.
            for lane, cell in zip(lanes, cells, strict=True):
                before = data[cell]
                result[lane] = before
                expected = None if compare is None else compare[lane]
                data[cell] = _after(name, before, values[lane], expected)
        self._values[operation.result] = result

    # --- threads together

    def _barrier(self, operation: Barrier, mask: Array) -> None:
        if operation.level == "warp":
            self._warps[np.unique(self._warp_of[mask])] += 1
            return
        shape = (self._blocks, self._threads)
        rows, reached = mask.reshape(shape), mask.reshape(shape).any(1)
        expected = mask | ~self._exited
        complete = (rows == expected.reshape(shape)).all(1)
        divergent = np.flatnonzero(reached & ~complete)
        if divergent.size:
            row = rows[divergent[0]]
            missing = int(np.flatnonzero(~row & expected.reshape(shape)[divergent[0]])[0])
            self._fault(
                FindingKind.DIVERGENT_BARRIER,
                operation.at,
                f"{int(row.sum())} of {self._threads} threads of a block reach the barrier; thread"
                f" {missing} does not",
                count=divergent.size,
            )
        self._barriers[reached] += 1

    def _warp(self, operation: Warp, mask: Array) -> None:
        lane = self._lane % self._threads % _WARP
        first = self._lane - lane
        values = [np.broadcast_to(self._value(item), mask.shape) for item in operation.operands]
        if not operation.name.startswith("shfl"):
            self._values[operation.result] = self._vote(operation, mask & values[0], mask, first)
            return
        value, amount, width = values
        width = width.astype(np.int64)
        start = lane // width * width
        target = _source(operation.name, lane, start, amount.astype(np.int64), width)
        moves = (target >= start) & (target < start + width)
        source = np.where(moves, first + target, self._lane)
        last = (self._block_of + 1) * self._threads - 1
        beyond = source > last
        source = np.minimum(source, last)
        absent = mask & moves & (beyond | ~mask[source])
        if absent.any():
            which = int(np.flatnonzero(absent)[0])
            self._fault(
                FindingKind.WARP,
                operation.at,
                f"{self._named(which)} takes a value from lane {int(target[which])} of its warp,"
                " which does not take part",
                count=int(absent.sum()),
            )
        self._values[operation.result] = value[source]

    def _vote(self, operation: Warp, held: Array, mask: Array, first: Array) -> Array:
        lane = self._lane % self._threads % _WARP
        bits = np.zeros(self._warps.size, np.uint32)
        np.bitwise_or.at(bits, self._warp_of[held], np.uint32(1) << lane[held].astype(np.uint32))
        if operation.name == "ballot":
            return np.asarray(bits[self._warp_of])
        present = np.zeros(self._warps.size, np.uint32)
        np.bitwise_or.at(present, self._warp_of[mask], np.uint32(1) << lane[mask].astype(np.uint32))
        collected = bits != 0 if operation.name == "any" else bits == present
        return np.asarray(collected[self._warp_of]).astype(np.int32)

    def _call(self, operation: CallOperation, mask: Array) -> None:
        values = [self._value(item) for item in operation.operands]
        if operation.name == "printf":
            for lane in np.flatnonzero(mask):
                row = [np.broadcast_to(item, mask.shape)[lane] for item in values]
                self._run.output(formatted(operation.text, row))
            return
        if operation.name == "assert":
            failed = mask & ~np.broadcast_to(values[0], mask.shape)
            if failed.any():
                which = self._named(int(np.flatnonzero(failed)[0]))
                self._fault(
                    FindingKind.ASSERTION,
                    operation.at,
                    f"the assertion fails in {which}",
                    int(failed.sum()),
                )
            return
        if operation.name == "exit":
            self._exited |= mask
            return
        if operation.name == "clock" and operation.result is not None:
            self._values[operation.result] = np.zeros((), np.int64)
            return
        raise CudaError(f"{operation.at}: {operation.name} is for host functions")

    # --- faults

    def _fault(self, kind: FindingKind, at: SourceLocation, message: str, count: int = 1) -> None:
        if self._findings is None:
            raise CudaError(f"{at}: {kind}: {message}")
        self._findings.add(kind, at, message, count=count)

    def _named(self, lane: int) -> str:
        thread, block = int(lane) % self._threads, self._thread[int(lane)] // self._threads
        return f"thread {thread} of block {block}"


def _yielded(operation: Operation) -> tuple[Operand, ...]:
    match operation:
        case If(then=then, otherwise=otherwise):
            return (*then.yields, *otherwise.yields)
        case For(body=body) | While(body=body):
            return body.yields
        case _:
            return ()


def _source(name: str, lane: Array, start: Array, amount: Array, width: Array) -> Array:
    """From which lane of the warp each takes its value; outside of its part, from itself."""
    match name:
        case "shfl.idx":
            return np.asarray(start + amount % width)
        case "shfl.up":
            return np.asarray(lane - amount)
        case "shfl.down":
            return np.asarray(lane + amount)
        case _:
            return np.asarray(lane ^ amount)


def _after(name: str, before: Element, value: Element, compare: Element) -> Element:
    """What an atomic operation leaves behind."""
    with np.errstate(all="ignore"):
        match name:
            case "exch":
                return value
            case "cas":
                return value if before == compare else before
            case "inc":
                return 0 if before >= value else before + 1
            case "dec":
                return value if before == 0 or before > value else before - 1
            case _:
                return _IN_PLACE[name](before, value)


def formatted(text: str, values: Sequence[Any]) -> str:
    """Fills in a format as C does: `formatted("%d: %.2f", (3, 0.5))` is `"3: 0.50"`."""
    remaining = list(values)

    def fill(match: re.Match[str]) -> str:
        flags, kind = match.groups()
        if kind == "%":
            return "%"
        if not remaining:
            return match.group()
        value = remaining.pop(0)
        if kind in "diu":
            return f"%{flags}d" % int(value)
        if kind in "oxX":
            whole = int(value)
            return f"%{flags}{kind}" % (whole + (1 << 32) if whole < 0 else whole)
        if kind == "c":
            return chr(int(value) & 0xFF)
        if kind == "p":
            return hex(int(value))
        return f"%{flags}{kind}" % (str(value) if kind == "s" else float(value))

    return _FIELD.sub(fill, text)
