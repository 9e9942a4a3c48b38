"""The way of a kernel to a function on this machine: passes, choices, LLVM IR, code."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from ..ir.operations import (
    Barrier,
    For,
    IrValue,
    Load,
    ParallelFunction,
    SourceLocation,
    Store,
    Threads,
    Warp,
    While,
    walk,
)
from ..passes.barriers import without_needless
from ..passes.coalesced_access import coalesced
from ..passes.coarsening import coarsened
from ..passes.fission import split
from ..passes.minimum_cut import Policy
from ..passes.simplification import simplified, specialized
from . import backend
from .emitter import Emitted, emitted
from .shapes import Grouping

_WARP = 32
_FEWEST_LANES = 4
_MOST_ROWS = 4
_JAMMED = 80
"""Operations of a loop over threads that is done for several rows at once, at most."""


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
    raises: bool = True
    """Whether a host function's loop nests become kernels."""
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
    return Grouping(lanes, rows, False, block)


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
