"""Values, operations and functions of the IR: immutable, structured, each value assigned once.

A kernel is the body of two nested parallel loops, over the blocks of a grid and over the threads
of a block. Control flow is structured: `If`, `For` and `While` hold blocks, and what C assigns
inside of them leaves through their results. So there is no variable in memory whose address was
not taken, and what is live across a `Barrier` can be read off.

    kernel @reverse(%0 a: ptr) {
      %1 tile = alloc shared 256 align 4
      %2 = thread.x
      %3 = cast.i64 %2
      %4 = load.f32 %0[%3 * 4]
      store.f32 %1[%3 * 4], %4
      barrier
      ...

Before the lowering, a body is what one thread does. After it there is no `Barrier` left: the body
is what one block does, and each `Threads` in it runs its own body once for every thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeAlias

from .types import ScalarType


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """A line of a file; line 0 is nowhere."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file or "unknown place"


NOWHERE = SourceLocation("", 0)


@dataclass(frozen=True, slots=True)
class IrValue:
    """What one operation gives; its number is unique within the function."""

    number: int
    type: ScalarType
    hint: str = ""
    """The name in the source, for people."""


@dataclass(frozen=True, slots=True)
class ConstantOperand:
    value: int | float | bool
    type: ScalarType


Operand: TypeAlias = IrValue | ConstantOperand


class MemorySpace(StrEnum):
    """Who sees an allocation."""

    SHARED = "shared"
    """All threads of a block."""
    PRIVATE = "private"
    """One thread."""
    EXPANDED = "expanded"
    """One cell per thread of the block, which outlives the barriers that fission cut at."""


@dataclass(frozen=True, slots=True)
class Compute:
    """A pure operation: arithmetic, a comparison, a cast, a function, a thread's index."""

    result: IrValue
    name: str
    operands: tuple[Operand, ...]
    at: SourceLocation = NOWHERE


@dataclass(frozen=True, slots=True)
class Address:
    """`base + index * scale + offset`, in bytes."""

    base: Operand
    index: Operand = ConstantOperand(0, ScalarType.I64)
    scale: int = 1
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Load:
    result: IrValue
    address: Address
    at: SourceLocation = NOWHERE


@dataclass(frozen=True, slots=True)
class Store:
    address: Address
    value: Operand
    type: ScalarType
    at: SourceLocation = NOWHERE


@dataclass(frozen=True, slots=True)
class Atomic:
    """Gives what was there before. `compare` is what `cas` compares with."""

    result: IrValue
    name: str
    address: Address
    operand: Operand
    compare: Operand | None = None
    at: SourceLocation = NOWHERE


@dataclass(frozen=True, slots=True)
class Alloc:
    """Memory of a block or a thread. `size` is in bytes; none means as much as the launch says."""

    result: IrValue
    space: MemorySpace
    size: int | None
    element: ScalarType
    at: SourceLocation = NOWHERE


@dataclass(frozen=True, slots=True)
class Warp:
    """An exchange between the 32 threads of a warp: `shfl.down`, `ballot`, `all`, `any`."""

    result: IrValue
    name: str
    operands: tuple[Operand, ...]
    at: SourceLocation = NOWHERE


@dataclass(frozen=True, slots=True)
class Barrier:
    """Waits for the threads that differ in these dimensions only; all three is the usual one.

    `level` is `block`, or `warp` for `__syncwarp`.
    """

    dims: str = "xyz"
    level: str = "block"
    at: SourceLocation = NOWHERE


@dataclass(frozen=True, slots=True)
class Region:
    """Operations in order, and what leaves the block."""

    operations: tuple[Operation, ...] = ()
    yields: tuple[Operand, ...] = ()


@dataclass(frozen=True, slots=True)
class If:
    condition: Operand
    then: Region
    otherwise: Region
    results: tuple[IrValue, ...] = ()
    at: SourceLocation = NOWHERE


@dataclass(frozen=True, slots=True)
class For:
    """Counts from `low` while below `high` (above it where `step` is negative)."""

    counter: IrValue
    low: Operand
    high: Operand
    step: int
    carried: tuple[IrValue, ...]
    initial: tuple[Operand, ...]
    body: Region
    results: tuple[IrValue, ...] = ()
    at: SourceLocation = NOWHERE


@dataclass(frozen=True, slots=True)
class While:
    """Runs the body as long as the first carried value, a bool, is true; gives the last ones."""

    carried: tuple[IrValue, ...]
    initial: tuple[Operand, ...]
    body: Region
    results: tuple[IrValue, ...]
    at: SourceLocation = NOWHERE


@dataclass(frozen=True, slots=True)
class Threads:
    """A parallel loop over the threads of the block. Nothing leaves it but what it stores."""

    body: Region
    at: SourceLocation = NOWHERE


@dataclass(frozen=True, slots=True)
class CallOperation:
    """What only the outside can do: `printf`, `assert`, a launch, what a host calls."""

    name: str
    operands: tuple[Operand, ...]
    text: str = ""
    result: IrValue | None = None
    at: SourceLocation = NOWHERE


Operation: TypeAlias = (
    Compute
    | Load
    | Store
    | Atomic
    | Alloc
    | Warp
    | Barrier
    | If
    | For
    | While
    | Threads
    | CallOperation
)


@dataclass(frozen=True, slots=True)
class Parameter:
    """An argument: a pointer to elements, or a scalar. A struct comes as one per leaf."""

    value: IrValue
    name: str
    element: ScalarType | None = None
    """Of a pointer: what it points to, where that is one scalar type."""
    const: bool = False
    """Whether the function promises not to write through it."""
    stride: int = 0
    """Bytes of what a pointer points to."""


@dataclass(frozen=True, slots=True)
class Symbol:
    """A `__constant__` or `__device__` variable, or a constant table: memory that kernels share."""

    value: IrValue
    name: str
    size: int
    element: ScalarType
    initial: tuple[int | float, ...] | None = None


@dataclass(frozen=True, slots=True)
class ParallelFunction:
    """A kernel, with everything that it calls inside, or a host function."""

    name: str
    parameters: tuple[Parameter, ...]
    body: Region
    symbols: tuple[Symbol, ...] = ()
    is_kernel: bool = True
    at: SourceLocation = NOWHERE


def regions(operation: Operation) -> tuple[Region, ...]:
    """The blocks inside of an operation."""
    match operation:
        case If(then=then, otherwise=otherwise):
            return (then, otherwise)
        case For(body=body) | While(body=body) | Threads(body=body):
            return (body,)
        case _:
            return ()


def with_regions(operation: Operation, blocks: tuple[Region, ...]) -> Operation:
    """The same operation around other blocks."""
    match operation:
        case If():
            return replace(operation, then=blocks[0], otherwise=blocks[1])
        case For() | While() | Threads():
            return replace(operation, body=blocks[0])
        case _:
            return operation


def results(operation: Operation) -> tuple[IrValue, ...]:
    """What an operation defines for those behind it."""
    match operation:
        case Compute(result=result) | Load(result=result) | Atomic(result=result):
            return (result,)
        case Alloc(result=result) | Warp(result=result):
            return (result,)
        case If(results=several) | For(results=several) | While(results=several):
            return several
        case CallOperation(result=result) if result is not None:
            return (result,)
        case _:
            return ()


def inner(operation: Operation) -> tuple[IrValue, ...]:
    """What an operation defines for its own blocks."""
    match operation:
        case For(counter=counter, carried=carried):
            return (counter, *carried)
        case While(carried=carried):
            return carried
        case _:
            return ()


def operands(operation: Operation) -> tuple[Operand, ...]:
    """What an operation itself uses, its blocks left out."""
    match operation:
        case Compute(operands=several) | Warp(operands=several) | CallOperation(operands=several):
            return several
        case Load(address=address):
            return (address.base, address.index)
        case Store(address=address, value=value):
            return (address.base, address.index, value)
        case Atomic(address=address, operand=operand, compare=compare):
            extra = () if compare is None else (compare,)
            return (address.base, address.index, operand, *extra)
        case If(condition=condition):
            return (condition,)
        case For(low=low, high=high, initial=initial):
            return (low, high, *initial)
        case While(initial=initial):
            return initial
        case _:
            return ()


def walk(block: Region) -> Iterator[Operation]:
    """All operations of a block and of the blocks in it, an outer one before its inner ones."""
    for operation in block.operations:
        yield operation
        for region in regions(operation):
            yield from walk(region)


def used(block: Region) -> set[IrValue]:
    """The values that a block or anything in it uses and does not define itself."""
    uses: set[IrValue] = set()
    defined: set[IrValue] = set()
    _uses(block, uses, defined)
    return uses - defined


def _uses(block: Region, uses: set[IrValue], defined: set[IrValue]) -> None:
    for operation in block.operations:
        uses.update(item for item in operands(operation) if isinstance(item, IrValue))
        defined.update(results(operation))
        defined.update(inner(operation))
        for region in regions(operation):
            _uses(region, uses, defined)
    uses.update(item for item in block.yields if isinstance(item, IrValue))


def has_barrier(block: Region) -> bool:
    """Whether threads of a block wait for each other somewhere in it."""
    return any(isinstance(item, Barrier) and item.level == "block" for item in walk(block))
