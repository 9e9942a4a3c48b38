"""What XLA calls, as LLVM IR: `handler.ll` and its parts, and the constants that tell it about a
program.

The handler reads pointers from XLA's call frame, checks element types and shapes, and runs the
phases of a program, on XLA's own threads where a phase has several blocks. It is LLVM IR, in the
files `handler.ll` (the interface), `workspace.ll` (memory beside the arrays), `spin.ll` (waiting
awake), `cores.ll` (where a thread runs) and `team.ll` (threads, compiled from `team.c`), because no
compiler but LLVM has to be there, and the loader already is.

The hard part is `team.c`: waking a thread takes as long as many a kernel, so threads spin for
`_SPIN_COUNT` nanoseconds between phases and, in slots shared by all kernels, between calls.

Example: a program with one f32 input of shape [8, 4096] has the constants `@aiosearch.inputs = 1`
and `@aiosearch.types = [11, 2, 8, 4096, ...]`: element type 11, rank 2, sizes.

Invariants: a call returns only when all blocks are done; no call waits for a task that XLA has not
begun, so calls that fill the thread pool cannot deadlock; what is shared between threads is on
cache lines of its own. The comments of `team.c` say why each atomic
operation is ordered as it is.

Cost: two atomic operations per claimed range of blocks and one per thread and phase.
`docs/why/kernels.md` says why threads stay awake.
"""

from __future__ import annotations

import functools
import itertools
import re
import sys
import time
from collections.abc import Iterator
from importlib import resources, util
from pathlib import Path

from ...tensor.types import DType
from ..errors import NativeError
from ..ir import Buffer
from .kernel_program import KernelProgram
from .machine import CpuMachine

ENTRY = "aiosearch.handler"
"""The symbol of the function that XLA calls."""
CACHE_LINE_BYTES = 64
"""Bytes that the memory of two threads never shares, and its alignment."""

_ELEMENTS = {
    DType.BOOL: 1,
    DType.I8: 2,
    DType.I32: 4,
    DType.U8: 6,
    DType.F16: 10,
    DType.F32: 11,
    DType.F64: 12,
    DType.BF16: 16,
}
"""XLA's numbers of element types, `XLA_FFI_DataType`."""
_X86 = {"pause": "llvm.x86.sse2.pause", "kind": "", "argument": ""}
"""How a thread tells the processor that it spins: `pause` on x86, `isb` on Arm."""
_ARM = {"pause": "llvm.aarch64.isb", "kind": "i32", "argument": "15"}
_SPIN_COUNT = 100_000
"""Nanoseconds that a thread spins before it sleeps: about what waking it takes on a virtual
machine, so spinning at most doubles the cost. Fitted to `benchmarks/kernels.py`."""
WAITING_SLOTS_SYMBOL, WAITING_SLOTS = "aiosearch.seats", 64
"""The slots where threads wait for the next call, a cache line each, once per process."""
SPARE_SYMBOL = "aiosearch.spare"
"""The workspace that the last call needed, for the next one; once per process."""
_BLOCKS = 1 << 40
"""More blocks than a phase may have: the handler keeps the number of the next block in the low 40
bits of a word, below the phase's number."""
_HEADER = "include/xla/ffi/api/c_api.h"
"""The header of XLA's interface within jaxlib."""
_PREFIX = "aiosearch."
"""The prefix of all symbols."""
_TEXTS = ("handler.ll", "workspace.ll", "spin.ll", "team.ll")
"""The parts of the handler; `team.ll` is compiled from `team.c`."""
_CORES = "cores.ll"
"""One more part, of Linux."""
_NO_CORES = """
define internal i64 @core() {
  ret i64 -1
}
define internal void @leave(i64 %core) {
  ret void
}
"""
"""The same where no thread knows its core."""
_PHASE = "{ ptr, i64 }"
"""The LLVM type of a phase: function and number of blocks."""
_MAJOR = 0
"""The interface version whose structures `handler.ll` lists; minor versions only append fields."""


@functools.cache
def handler_text(machine: CpuMachine) -> str:
    """The text of the handler for a `machine`, the same for all programs."""
    major, minor = interface_version()
    numbers = {"major": major, "minor": minor, "patience": _SPIN_COUNT}
    folder = resources.files(__package__)
    # The parts are one module: they call each other's internal functions, which LLVM inlines.
    names = (*_TEXTS, _CORES) if sys.platform == "linux" else _TEXTS
    text = "\n".join(folder.joinpath(name).read_text(encoding="utf-8") for name in names)
    text += "" if sys.platform == "linux" else _NO_CORES
    return _filled(text, machine, numbers)


def spin_text(machine: CpuMachine, patience: int) -> str:
    """The text of `spin.ll`: a thread waits awake for up to so many nanoseconds."""
    text = resources.files(__package__).joinpath("spin.ll").read_text(encoding="utf-8")
    return _filled(text, machine, {"patience": patience})


def _filled(text: str, machine: CpuMachine, numbers: dict[str, int]) -> str:
    """A text with its placeholders replaced: by numbers, and by what a machine's pause is."""
    words = _ARM if machine.is_arm else _X86
    numbers = {**numbers, "monotonic": time.CLOCK_MONOTONIC}
    placeholders = {**words, **{name: str(number) for name, number in numbers.items()}}
    return re.sub(r"\{(\w+)\}", lambda name: placeholders[name[1]], text)


def table_text(native: KernelProgram) -> str:
    """The constants that tell the handler about a program."""
    return "\n".join(_constants(native))


def aligned_ends(sizes: tuple[int, ...]) -> list[int]:
    """The end of each array, of arrays of these `sizes` that follow each other on cache lines of
    their own."""
    return list(itertools.accumulate(map(round_up_to_line, sizes)))


def round_up_to_line(size: int) -> int:
    """A number of bytes rounded up to whole cache lines."""
    return -(-size // CACHE_LINE_BYTES) * CACHE_LINE_BYTES


def _constants(native: KernelProgram) -> Iterator[str]:
    """Yields the constants of a program, a line each."""
    # Two temporaries on one cache line would be shared between threads that write different ones.
    temporaries = aligned_ends(native.temporaries)
    offsets = [0, *temporaries][:-1]
    scratch = max((phase.scratch_bytes for phase in native.phases), default=0)
    yield _constant("inputs", len(native.inputs))
    yield _constant("outputs", len(native.outputs))
    yield _constant("temporaries", len(native.temporaries))
    yield _constant("workspace", temporaries[-1] if temporaries else 0)
    yield _constant("scratch", round_up_to_line(scratch))
    yield _constant("phase_count", len(native.phases))
    yield _list(
        "types",
        [number for buffer in (*native.inputs, *native.outputs) for number in _type(buffer)],
    )
    yield _list("offsets", offsets)
    yield from _phases(native)


def _phases(native: KernelProgram) -> Iterator[str]:
    """Yields the table of phases. Raises `NativeError` for too many blocks."""
    names = [f'@"{native.symbol(number)}"' for number in range(len(native.phases))]
    yield from (f"declare void {name}(ptr, ptr, i64, i64)" for name in names)
    if any(phase.blocks >= _BLOCKS for phase in native.phases):
        raise NativeError(f"the kernel {native.name} has too many blocks")
    pairs = zip(names, native.phases, strict=True)
    rows = [f"{_PHASE} {{ ptr {name}, i64 {phase.blocks} }}" for name, phase in pairs]
    yield f"@{_PREFIX}phases = constant [{len(rows)} x {_PHASE}] [{', '.join(rows)}]"


def _type(buffer: Buffer) -> list[int]:
    """An array's element type, rank and sizes."""
    return [_ELEMENTS[buffer.dtype], len(buffer.shape), *buffer.shape]


def _constant(name: str, value: int) -> str:
    """The line of an integer constant."""
    return f"@{_PREFIX}{name} = constant i64 {value}"


def _list(name: str, values: list[int]) -> str:
    """The line of an array of integers."""
    items = ", ".join(f"i64 {value}" for value in values)
    return f"@{_PREFIX}{name} = constant [{len(values)} x i64] [{items}]"


@functools.cache
def interface_version() -> tuple[int, int]:
    """The version of XLA's interface, from the header in jaxlib. Raises `NativeError` if this
    package does not know it."""
    spec = util.find_spec("jaxlib")
    folders = (spec.submodule_search_locations or ()) if spec else ()
    for folder in folders:
        text = (Path(folder) / _HEADER).read_text(encoding="utf-8")
        major, minor = (_number(text, f"XLA_FFI_API_{part}") for part in ("MAJOR", "MINOR"))
        # Another major version may move fields, and the handler would read wrong pointers: refusing
        # is the only safe answer.
        if major == _MAJOR:
            return major, minor
        raise NativeError(f"jaxlib calls kernels by interface {major}.{minor}, which is not known")
    raise NativeError("jaxlib is not installed, which runs kernels")


def _number(text: str, name: str) -> int:
    """The value of a macro in a header."""
    match = re.search(rf"^#define {name} (\d+)$", text, re.MULTILINE)
    if match is None:
        raise NativeError(f"jaxlib's {_HEADER} does not define {name}")
    return int(match[1])
