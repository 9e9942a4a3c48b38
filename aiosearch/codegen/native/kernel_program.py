"""A program of kernels as LLVM IR, and the arrays that it is called with."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from ..ir import Buffer


@dataclass(frozen=True, slots=True)
class KernelPhase:
    """A part of a program: its blocks run in any order, on any thread, after the part before.

    One block runs in a thread that is there anyway, and costs no more than a call.
    """

    blocks: int
    """May be none."""
    scratch_bytes: int = 0
    """Of memory that each thread has for itself, 64-byte aligned, with anything in it."""


@dataclass(frozen=True, slots=True)
class KernelProgram:
    """The text defines, for each phase `n`, `void @<name>.<n>(ptr, ptr, i64, i64)`.

    It is given the array of pointers to the inputs, outputs and temporaries, its thread's scratch
    memory, the first block to run and the one behind the last. Temporaries are 64-byte aligned;
    inputs and outputs need not be, and an empty one may be nowhere. Inputs are only read.
    """

    name: str
    """Of letters, digits, dots and underscores."""
    text: str
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    phases: tuple[KernelPhase, ...]
    temporaries: tuple[int, ...] = ()
    """The bytes of each: what one phase leaves for later ones."""

    def symbol(self, phase: int) -> str:
        """What the text calls a phase."""
        return f"{self.name}.{phase}"


encode = msgspec.json.Encoder(order="deterministic").encode
