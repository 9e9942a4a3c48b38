"""A program of kernels as LLVM IR, and the arrays that it is called with."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from ..ir import Buffer


@dataclass(frozen=True, slots=True)
class KernelPhase:
    """A part of a program, one kernel: its blocks run in any order on any thread, after all blocks
    of the phase before.

    A phase of one block runs on the thread that finished the phase before, and costs no more than a
    call.
    """

    blocks: int
    """The number of blocks, possibly zero."""
    scratch_bytes: int = 0
    """Bytes of memory for each thread, 64-byte aligned, with undefined content."""


@dataclass(frozen=True, slots=True)
class KernelProgram:
    """A program whose `text` defines, for each phase n, a function `void @<name>.<n>(ptr, ptr, i64,
    i64)`.

    The arguments are an array of pointers to inputs, outputs and temporaries, in this order; the
    thread's scratch memory; the first block; and the one behind the last. Temporaries are 64-byte
    aligned. Inputs and outputs need not be, and the pointer of an empty one may be null. Inputs are
    only read.

    Example: `norm` with phases of 64 and 1 blocks defines `@norm.0` and `@norm.1`; a thread that
    runs the first eight blocks calls `@norm.0(buffers, scratch, 0, 8)`.
    """

    name: str
    """Letters, digits, dots and underscores."""
    text: str
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    phases: tuple[KernelPhase, ...]
    temporaries: tuple[int, ...] = ()
    """The bytes of each temporary, which one phase leaves for later ones."""

    def symbol(self, phase: int) -> str:
        """The name of a phase's function."""
        return f"{self.name}.{phase}"


encode = msgspec.json.Encoder(order="deterministic").encode
