"""The way of a kernel to a function on this machine: passes, choices, LLVM IR, code.

Launches that follow each other, and loops around launches, become a function as well, a *region*,
which every thread runs from its beginning to its end:

    for (t = 0; t < 500; t++) { smooth<<<...>>>(a, b); smooth<<<...>>>(b, a); }

So threads are woken once and not a thousand times. They count the launches alike; in each, they
take chunks of blocks by raising a *ticket*, a word that holds the launch's number and its next
block, until all blocks are done. Whoever finishes the last one makes it the ticket of the next
launch. A thread that comes late finds a higher number and goes on to that launch, so nobody waits
for a thread that the system runs elsewhere, only for blocks that somebody has begun.
"""

from __future__ import annotations

import functools
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from ..errors import CudaError
from ..ir.operations import (
    Barrier,
    CallOperation,
    Compute,
    ConstantOperand,
    For,
    If,
    IrValue,
    Load,
    Operand,
    Operation,
    ParallelFunction,
    Region,
    SourceLocation,
    Store,
    Threads,
    Warp,
    While,
    inner,
    results,
    used,
    walk,
)
from ..ir.types import ScalarType
from ..passes.barriers import without_needless
from ..passes.coalesced_access import coalesced
from ..passes.coarsening import coarsened
from ..passes.fission import split
from ..passes.minimum_cut import Policy
from ..passes.simplification import simplified, specialized
from . import backend
from .arithmetic import VectorArithmetic
from .emitter import Emitted, emitted
from .llvm_text import TYPES, KernelText, literal
from .shapes import Grouping, Shapes

_WARP = 32
_FEWEST_LANES = 4
_MOST_ROWS = 4
_JAMMED = 80
"""Operations of a loop over threads that is done for several rows at once, at most."""
_SUMS = 16
"""Vector registers that hold what a loop carries, at most."""


class LibraryPolicy(StrEnum):
    """Who does what host functions call of cuBLAS and cuDNN."""

    MEASURED = "measured"
    """For each kind of call whoever was faster, in its first call or in another process."""
    OURS = "ours"
    """Our kernels, where we have them."""
    XLA = "XLA"


@dataclass(frozen=True, slots=True)
class Choices:
    """What can be decided about a kernel; none means that a rule decides."""

    policy: Policy = Policy.CUT
    eliminates: bool = True
    """Whether barriers that order nothing are taken out."""
    lanes: int | None = None
    rows: int | None = None
    contract: bool = True
    """Whether products and sums are rounded once, as NVIDIA's compiler does by default."""
    blocks: int = 1
    """How many neighbouring blocks are done as one, where that is legal and the grid divides."""
    fuses: bool = False
    """Whether a host function's neighbouring launches become one, where that is legal; `tune` of a
    host function measures whether it is faster, which it need not be."""
    merges: bool = True
    """Whether a host function's launches, and loops around launches, are run by threads that are
    woken once for all of them."""
    raises: bool = True
    """Whether a host function's loop nests become kernels."""
    affine: bool = True
    """Whether iterations of loop nests are looked for that need no order; one thread runs a nest
    otherwise."""
    libraries: LibraryPolicy = LibraryPolicy.MEASURED
    """Who does a host function's calls of cuBLAS and cuDNN."""

    def for_grid(self, grid: tuple[int, int, int]) -> Choices:
        """The same without what a grid does not allow."""
        return replace(self, blocks=1) if grid[0] % self.blocks else self


@dataclass(frozen=True, slots=True)
class Lowered:
    """A kernel for one shape of block, before it is machine code."""

    before: ParallelFunction
    after: ParallelFunction
    """Without barriers: what a block does."""
    removed: tuple[SourceLocation, ...]
    """Where barriers stood that order nothing."""
    stored: tuple[IrValue, ...]
    recomputed: tuple[IrValue, ...]
    grouping: Grouping
    emitted: Emitted
    blocks: int = 1
    """How many blocks of the launch are one."""
    refusal: str = ""
    """Why blocks of the launch stay apart, where it was asked for that they do not."""

    def reasons(self) -> list[str]:
        """The decisions that were taken, each with its reason, for people."""
        lines = [
            f"{at}: the barrier goes, as its neighbours order all it orders" for at in self.removed
        ]
        if self.stored:
            names = ", ".join(_named(item) for item in self.stored)
            size = sum(item.type.size for item in self.stored)
            lines.append(f"stored across barriers: {names} ({size} bytes for each thread)")
        if self.recomputed:
            lines.append(f"computed again behind barriers: {len(self.recomputed)} values")
        if self.blocks > 1:
            lines.append(f"{self.blocks} neighbouring blocks are done as one")
        if self.refusal:
            lines.append(f"blocks are done one by one: {self.refusal}")
        group = self.grouping
        along = "all threads of the block" if group.linear else "threadIdx.x"
        lines.append(f"a vector is {group.lanes} threads along {along}")
        if group.rows > 1:
            lines.append(
                f"{group.rows} rows of threads go together, as a loop reads what they share"
            )
        return lines


def _named(value: IrValue) -> str:
    return f"%{value.number}{'.' + value.hint if value.hint else ''}"


@dataclass(frozen=True, slots=True)
class Code:
    """Machine code of a kernel; the memory lives as long as this does."""

    address: int
    scratch: int
    assertions: tuple[SourceLocation, ...]
    blocks: int
    """How many blocks of the launch are one."""
    memory: Any


def lowered(function: ParallelFunction, block: tuple[int, int, int], choices: Choices) -> Lowered:
    """Takes a kernel through the passes, for blocks of one shape."""
    coarse = coarsened(specialized(function, block), block, choices.blocks)
    before, block = coarse.function, coarse.block
    current, removed = before, tuple[SourceLocation, ...]()
    if choices.eliminates:
        current, removed = without_needless(current, block)
    cut = split(current, block, choices.policy)
    after = coalesced(replace(cut.function, body=simplified(cut.function.body)))
    grouping = _grouping(before, after, block, choices)
    text = emitted(after, grouping, contract=choices.contract)
    return Lowered(
        before,
        after,
        removed,
        cut.stored,
        cut.recomputed,
        grouping,
        text,
        coarse.factor,
        coarse.refusal if choices.blocks > 1 else "",
    )


@functools.lru_cache(maxsize=1024)
def compiled(function: ParallelFunction, block: tuple[int, int, int], choices: Choices) -> Code:
    """Compiles a kernel for blocks of one shape; each once in a process."""
    low = lowered(function, block, choices)
    address, memory = backend.loaded(low.emitted.text, low.emitted.name, alone=block == (1, 1, 1))
    return Code(address, low.emitted.scratch, low.emitted.assertions, low.blocks, memory)


_CHUNKS = 8
"""Of the blocks of a launch, for each thread."""
_NEXT_BITS = 36
"""Of a ticket, for the next block; what is above is the number of the launch."""
_SPINS = 200
"""Looks at a ticket before another thread of the machine is let run."""
DONE_WORD = 16
"""The word of a region's state that counts the blocks done; word 0 is the ticket."""
STATE_WORDS = 32


class LaunchRegion:
    """Launches in a row, and each `For` around launches, which threads that are woken once run."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self._operations = operations
        whole = Region(tuple(operations))
        self.inputs = sorted(used(whole), key=lambda item: item.number)
        """What the operations use from outside."""
        self.calls = [item for item in walk(whole) if isinstance(item, CallOperation)]
        sizes = [[_whole(item) for item in call.operands[3:7]] for call in self.calls]
        self.blocks: list[tuple[int, int, int]] = [(x, y, z) for x, y, z, _ in sizes]
        """The block of each launch."""
        self.shared = [item[3] for item in sizes]
        self.functions: list[ParallelFunction] = []
        """The kernel of each launch, once it has run."""
        self.quick = False
        """Whether waking another thread takes longer than all of it."""

    @functools.cached_property
    def _code(self) -> tuple[int, Any]:
        text = _RegionText(self.inputs, self.functions).text(self._operations)
        return backend.loaded(text, "region")

    @property
    def address(self) -> int:
        """That of the code, which the first use compiles for the `functions`."""
        return self._code[0]


def _whole(operand: Operand) -> int:
    assert isinstance(operand, ConstantOperand)
    return int(operand.value)


def joins(operation: Operation, kernels: Container[str], inside: Container[Operand]) -> bool:
    """Whether an operation can be in a region; `inside` are values that the region computes.

    What is no launch and no arithmetic is for the host alone, and so are pointers, whose addresses
    are others in a kernel. A grid that a person's code computes may be none at all, which is looked
    at before a launch.
    """
    match operation:
        case CallOperation(name="launch", operands=operands, text=name):
            fixed = all(isinstance(item, ConstantOperand) for item in operands[3:7])
            outside = [item for item in operands[7:] if item.type is ScalarType.PTR]
            outside += () if name in kernels else operands[:3]
            return fixed and not any(item in inside for item in outside)
        case Compute(result=result, operands=operands):
            pointers = any(item.type is ScalarType.PTR for item in (result, *operands))
            return bool(operands) and not pointers
        case For(counter=counter, step=step, carried=carried, body=body):
            lines = list(walk(body))
            values = {item for line in lines for item in (*results(line), *inner(line))}
            return (
                step > 0
                and not carried
                and (counter.type.is_signed or counter.type.size < 8)
                and any(isinstance(item, CallOperation) for item in lines)
                and all(joins(item, kernels, {counter, *values}) for item in body.operations)
            )
        case _:
            return False


class _RegionText:
    """Prints a `LaunchRegion` as LLVM IR.

    The code takes words: what the operations use from outside, then for each launch the address of
    its kernel, that of a word for a failed assertion, and those of the kernel's symbols.
    """

    def __init__(self, inputs: Sequence[IrValue], kernels: Sequence[ParallelFunction]) -> None:
        self._lines = KernelText()
        self._arithmetic = VectorArithmetic(self._lines)
        self._values: dict[IrValue, str] = {}
        self._inputs, self._kernels = inputs, iter(kernels)
        self._word = 0

    def text(self, operations: Sequence[Operation]) -> str:
        lines = self._lines
        for value in self._inputs:
            self._values[value] = self._argument(value.type)
        self._ticket = lines.line("inttoptr i64 %begin to ptr")
        self._done = lines.line(f"getelementptr i64, ptr {self._ticket}, i64 {DONE_WORD}")
        self._number = lines.stack("i64")
        lines.emit(f"store i64 0, ptr {self._number}")
        self._operations(operations)
        lines.emit("ret void")
        head = "define void @region(ptr %arguments, ptr %scratch, i64 %begin, i64 %end) {"
        functions = backend.function_texts(sorted(self._arithmetic.required))
        declared = [item for item in sorted(lines.declared) if item not in functions]
        return "\n".join([*declared, functions, head, *lines.text, "}", ""])

    def _argument(self, type: ScalarType) -> str:
        """The next word, read as a `type`."""
        lines, kind = self._lines, TYPES[type]
        address = lines.line(f"getelementptr i64, ptr %arguments, i64 {self._word}")
        self._word += 1
        if type is not ScalarType.BOOL:
            return lines.line(f"load {kind}, ptr {address}, align 8")
        byte = lines.line(f"load i8, ptr {address}")
        return lines.line(f"icmp ne i8 {byte}, 0")

    def _operand(self, operand: Operand) -> str:
        return literal(operand) if isinstance(operand, ConstantOperand) else self._values[operand]

    def _operations(self, operations: Sequence[Operation]) -> None:
        for operation in operations:
            match operation:
                case Compute(result=result, operands=operands):
                    texts = [self._operand(item) for item in operands]
                    self._values[result] = self._arithmetic.compute(operation, texts, 1)
                case For():
                    self._for(operation)
                case CallOperation():
                    self._launch(operation, next(self._kernels))
                case _:
                    raise CudaError(f"{operation.__class__.__name__} cannot be in a region")

    def _for(self, operation: For) -> None:
        type = operation.counter.type
        low, high = (self._wide(item) for item in (operation.low, operation.high))
        with self._lines.loop(low, high, operation.step) as counter:
            if type.size < 8:
                counter = self._lines.line(f"trunc i64 {counter} to {TYPES[type]}")
            self._values[operation.counter] = counter
            self._operations(operation.body.operations)

    def _wide(self, operand: Operand) -> str:
        """A whole number as an `i64`."""
        if isinstance(operand, ConstantOperand) or operand.type.size == 8:
            return self._operand(operand)
        how = "sext" if operand.type.is_signed else "zext"
        return self._lines.line(f"{how} {TYPES[operand.type]} {self._operand(operand)} to i64")

    def _launch(self, call: CallOperation, kernel: ParallelFunction) -> None:
        lines = self._lines
        code, failure = (self._argument(ScalarType.PTR) for _ in range(2))
        symbols = [self._argument(ScalarType.PTR) for _ in kernel.symbols]
        grid = [self._wide(item) for item in call.operands[:3]]
        passed = [(TYPES[item.type], self._operand(item)) for item in call.operands[7:]]
        passed = [
            ("i8", lines.line(f"zext i1 {text} to i8")) if kind == "i1" else (kind, text)
            for kind, text in passed
        ]
        passed += [("ptr", item) for item in symbols]
        passed += [("i64", item) for item in grid]
        passed.append(("ptr", failure))
        # Each thread has the arguments on its own stack, as it may be in another launch.
        block = lines.stack(f"[{len(passed)} x i64]")
        for place, (kind, text) in enumerate(passed):
            address = lines.line(f"getelementptr i64, ptr {block}, i64 {place}")
            lines.emit(f"store {kind} {text}, ptr {address}, align 8")
        flat = lines.line(f"mul i64 {grid[0]}, {grid[1]}")
        blocks = lines.line(f"mul i64 {flat}, {grid[2]}")
        parts = lines.line(f"mul i64 %end, {_CHUNKS}")
        least = lines.line(f"udiv i64 {blocks}, {parts}")
        chunk = lines.call("@llvm.umax.i64", "i64", ("i64", least), ("i64", "1"))
        self._chunks(blocks, chunk, f"call void {code}(ptr {block}, ptr %scratch, ")

    def _chunks(self, blocks: str, chunk: str, call: str) -> None:
        """Takes a `chunk` of this launch's blocks after another until all of them are done."""
        lines, ticket = self._lines, self._ticket
        look, present, take, work, last, rest, idle, wait, end = (
            lines.new_label(item) for item in ("l", "p", "t", "w", "d", "r", "i", "y", "e")
        )
        spins = lines.stack("i64")
        number = lines.line(f"load i64, ptr {self._number}")
        lines.emit(f"store i64 0, ptr {spins}")
        lines.jump(look)
        lines.begin(look)
        seen = lines.line(f"load atomic i64, ptr {ticket} acquire, align 8")
        launch = lines.line(f"lshr i64 {seen}, {_NEXT_BITS}")
        lines.split(lines.line(f"icmp eq i64 {launch}, {number}"), present, end)
        lines.begin(present)
        start = lines.line(f"and i64 {seen}, {(1 << _NEXT_BITS) - 1}")
        lines.split(lines.line(f"icmp slt i64 {start}, {blocks}"), take, idle)
        lines.begin(take)
        raised = lines.line(f"add i64 {seen}, {chunk}")
        pair = lines.line(
            f"cmpxchg ptr {ticket}, i64 {seen}, i64 {raised} acq_rel monotonic, align 8"
        )
        lines.split(lines.line(f"extractvalue {{ i64, i1 }} {pair}, 1"), work, look)
        lines.begin(work)
        reached = lines.line(f"add i64 {start}, {chunk}")
        stop = lines.call("@llvm.smin.i64", "i64", ("i64", reached), ("i64", blocks))
        lines.emit(f"{call}i64 {start}, i64 {stop})")
        count = lines.line(f"sub i64 {stop}, {start}")
        before = lines.line(f"atomicrmw add ptr {self._done}, i64 {count} acq_rel, align 8")
        total = lines.line(f"add i64 {before}, {count}")
        lines.split(lines.line(f"icmp eq i64 {total}, {blocks}"), last, rest)
        lines.begin(rest)
        lines.emit(f"store i64 0, ptr {spins}")
        lines.jump(look)
        # Nobody looks at the count of blocks before the next ticket is out.
        lines.begin(last)
        lines.emit(f"store atomic i64 0, ptr {self._done} monotonic, align 8")
        above = lines.line(f"add i64 {number}, 1")
        following = lines.line(f"shl i64 {above}, {_NEXT_BITS}")
        lines.emit(f"store atomic i64 {following}, ptr {ticket} release, align 8")
        lines.jump(end)
        # All blocks are taken, and some are not done: their threads may need this core.
        lines.begin(idle)
        turns = lines.line(f"load i64, ptr {spins}")
        lines.emit(f"store i64 {lines.line(f'add i64 {turns}, 1')}, ptr {spins}")
        lines.split(lines.line(f"icmp slt i64 {turns}, {_SPINS}"), look, wait)
        lines.begin(wait)
        lines.call("@sched_yield", "i32")
        lines.jump(look)
        lines.begin(end)
        lines.emit(f"store i64 {lines.line(f'add i64 {number}, 1')}, ptr {self._number}")


def _grouping(
    before: ParallelFunction, after: ParallelFunction, block: tuple[int, int, int], choices: Choices
) -> Grouping:
    """Which threads go together. Where warps exchange values, a vector has to be a warp."""
    if any(
        isinstance(item, Warp) or (isinstance(item, Barrier) and item.level == "warp")
        for item in walk(before.body)
    ):
        return Grouping(_WARP, 1, True, block)
    widest = choices.lanes or backend.host().width // 4
    wide, high, deep = block
    if wide * 2 <= widest and wide * high * deep >= widest:
        return Grouping(widest, 1, True, block)
    lanes = max(min(widest, 1 << (wide - 1).bit_length()), _FEWEST_LANES)
    rows = choices.rows or _rows(after, high)
    while high % rows:
        rows //= 2
    grouping = Grouping(lanes, rows, False, block)
    return grouping if choices.lanes else _widened(after, grouping)


def _widened(after: ParallelFunction, grouping: Grouping) -> Grouping:
    """More lanes where loops read along them, as many as sums of a loop have registers.

    Down the columns of a matrix each turn is on another page of memory, in which no more is read at
    once than there are lanes. Lanes that read elsewhere, or part, are better off as few.
    """
    shapes = Shapes(grouping, after.body)
    shapes.block(after.body)
    size = 0
    for loop in walk(after.body):
        if not isinstance(loop, For):
            continue
        lines = [item for item in walk(loop.body) if not isinstance(item, For)]
        if shapes.leaving(loop) is not None:
            return grouping
        branches = [item for item in lines if isinstance(item, If)]
        if not all(isinstance(item, Compute | Load | Store | If) for item in lines):
            return grouping
        if not all(shapes[item.condition].is_uniform for item in branches):
            return grouping
        accesses = [item for item in lines if isinstance(item, Load | Store)]
        along = 0
        for access in accesses:
            address, width = access.address, _type_of(access).size
            base, index = (shapes[item].stride for item in (address.base, address.index))
            stride = None if base is None or index is None else base + index * address.scale
            if stride not in (0, width):
                return grouping
            along += stride
        sums = sum(item.type.size for item in loop.carried)
        # What is stored again in each turn is in registers only on the way.
        stores = any(isinstance(item, Store) for item in accesses)
        size = max(size, sums + along if stores else sums if along else 0)
    lanes = grouping.lanes
    most = _SUMS * backend.host().width
    while size and lanes * 2 <= grouping.block[0] and 2 * lanes * grouping.rows * size <= most:
        lanes *= 2
    return replace(grouping, lanes=lanes)


def _type_of(access: Load | Store) -> ScalarType:
    return access.result.type if isinstance(access, Load) else access.type


def _rows(after: ParallelFunction, high: int) -> int:
    """Several rows at once where a loop reads for each row what all of them share.

    In a product of matrices, each row of threads reads the same elements of one matrix: with four
    rows at once they are read once.
    """
    if high < 2:
        return 1
    for threads in walk(after.body):
        if not isinstance(threads, Threads):
            continue
        inner = list(walk(threads.body))
        loops = [item for item in inner if isinstance(item, For | While) and item.carried]
        reads = any(isinstance(item, Load) for loop in loops for item in walk(loop.body))
        writes = any(isinstance(item, Store) for loop in loops for item in walk(loop.body))
        if loops and reads and not writes and len(inner) <= _JAMMED:
            return _MOST_ROWS
    return 1
