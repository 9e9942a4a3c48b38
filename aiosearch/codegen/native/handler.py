"""What XLA calls, as LLVM IR: `handler.ll` and its parts, and what it has to know of a program."""

from __future__ import annotations

import functools
import itertools
import re
import time
from collections.abc import Iterator
from importlib import resources, util
from pathlib import Path

from ...tensor.types import DType
from ..ir import Buffer
from .errors import NativeError
from .kernel_program import KernelProgram
from .machine import CpuMachine

ENTRY = "aiosearch.handler"
"""The function for XLA."""
CACHE_LINE_BYTES = 64
"""Bytes that no two threads' memory shares, and to which all of it is aligned."""

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
"""XLA's numbers of element types."""
_X86 = {"pause": "llvm.x86.sse2.pause", "kind": "", "argument": ""}
_ARM = {"pause": "llvm.aarch64.isb", "kind": "i32", "argument": "15"}
"""How a thread says that it only looks."""
_SPIN_COUNT = 100_000
"""For so many nanoseconds it does so before it goes to sleep."""
SEATS_SYMBOL, SEATS = "aiosearch.seats", 64
"""Where threads wait for a call, each on a line of memory; there once in a process."""
SPARE_SYMBOL = "aiosearch.spare"
"""Memory that the last call needed, for the next one; there once in a process, too."""
_BLOCKS = 1 << 40
"""As many as a phase may not have: the handler keeps their number beside the phase's."""
_HEADER = "include/xla/ffi/api/c_api.h"
_PREFIX = "aiosearch."
_TEXTS = ("handler.ll", "workspace.ll", "spin.ll", "team.ll")
"""Parts of the handler; `team.ll` is compiled of `team.c`."""
_PHASE = "{ ptr, i64 }"
_MAJOR = 0
"""Of the interface whose structures `handler.ll` lists. Minor versions only add fields behind."""


@functools.cache
def handler_text(machine: CpuMachine) -> str:
    """Gives the text of the handler, which is the same for all programs."""
    major, minor = interface_version()
    numbers = {
        "major": major,
        "minor": minor,
        "patience": _SPIN_COUNT,
        "monotonic": time.CLOCK_MONOTONIC,
    }
    given = {**(_ARM if machine.is_arm else _X86), **{k: str(v) for k, v in numbers.items()}}
    folder = resources.files(__package__)
    text = "\n".join(folder.joinpath(name).read_text(encoding="utf-8") for name in _TEXTS)
    return re.sub(r"\{(\w+)\}", lambda name: given[name[1]], text)


def table_text(native: KernelProgram) -> str:
    """Gives the text of the constants that tell the handler of a program."""
    return "\n".join(_constants(native))


def aligned_ends(sizes: tuple[int, ...]) -> list[int]:
    """Where arrays of these bytes end that lie behind one another, each on lines of its own."""
    return list(itertools.accumulate(map(round_up_to_line, sizes)))


def round_up_to_line(size: int) -> int:
    """Gives bytes up to the end of a line."""
    return -(-size // CACHE_LINE_BYTES) * CACHE_LINE_BYTES


def _constants(native: KernelProgram) -> Iterator[str]:
    temporaries = aligned_ends(native.temporaries)
    offsets = [0, *temporaries][:-1]
    scratch = max((phase.scratch_bytes for phase in native.phases), default=0)
    yield _constant("inputs", len(native.inputs))
    yield _constant("outputs", len(native.outputs))
    yield _constant("temporaries", len(native.temporaries))
    yield _constant("workspace", temporaries[-1] if temporaries else 0)
    yield _constant("scratch", round_up_to_line(scratch))
    yield _constant("phase_count", len(native.phases))
    yield _list("types", [one for each in (*native.inputs, *native.outputs) for one in _type(each)])
    yield _list("offsets", offsets)
    yield from _phases(native)


def _phases(native: KernelProgram) -> Iterator[str]:
    names = [f'@"{native.symbol(number)}"' for number in range(len(native.phases))]
    yield from (f"declare void {name}(ptr, ptr, i64, i64)" for name in names)
    if any(phase.blocks >= _BLOCKS for phase in native.phases):
        raise NativeError(f"the kernel {native.name} has too many blocks")
    pairs = zip(names, native.phases, strict=True)
    rows = [f"{_PHASE} {{ ptr {name}, i64 {phase.blocks} }}" for name, phase in pairs]
    yield f"@{_PREFIX}phases = constant [{len(rows)} x {_PHASE}] [{', '.join(rows)}]"


def _type(buffer: Buffer) -> list[int]:
    return [_ELEMENTS[buffer.dtype], len(buffer.shape), *buffer.shape]


def _constant(name: str, value: int) -> str:
    return f"@{_PREFIX}{name} = constant i64 {value}"


def _list(name: str, values: list[int]) -> str:
    items = ", ".join(f"i64 {value}" for value in values)
    return f"@{_PREFIX}{name} = constant [{len(values)} x i64] [{items}]"


@functools.cache
def interface_version() -> tuple[int, int]:
    """Reads the version of XLA's interface from the header that comes with jaxlib."""
    found = util.find_spec("jaxlib")
    folders = (found.submodule_search_locations or ()) if found else ()
    for folder in folders:
        text = (Path(folder) / _HEADER).read_text(encoding="utf-8")
        major, minor = (_number(text, f"XLA_FFI_API_{part}") for part in ("MAJOR", "MINOR"))
        if major == _MAJOR:
            return major, minor
        raise NativeError(f"jaxlib calls kernels by interface {major}.{minor}, which is not known")
    raise NativeError("jaxlib is not installed, which runs kernels")


def _number(text: str, name: str) -> int:
    found = re.search(rf"^#define {name} (\d+)$", text, re.MULTILINE)
    if found is None:
        raise NativeError(f"jaxlib's {_HEADER} does not define {name}")
    return int(found[1])
