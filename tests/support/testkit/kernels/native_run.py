"""Modules printed, compiled and run between forbidden pages."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

from aiosearch.codegen.cpu.emit.kernel import print_module
from aiosearch.codegen.cpu.packing import PackedLayout
from aiosearch.codegen.cpu.panel_encoder import encode_panels
from aiosearch.codegen.cpu.schedule import Schedule
from aiosearch.codegen.ir import Module
from aiosearch.codegen.native.compiler import compile_handler, compile_program, load
from aiosearch.codegen.native.guarded_run import GuardedBytes
from aiosearch.codegen.native.kernel_program import KernelProgram
from aiosearch.codegen.native.machine import CpuMachine, host, masked, portable
from aiosearch.tensor import Program, Term, terms
from aiosearch.tensor.terms import INPUT
from aiosearch.tensor.types import ARRAY_NAMES, DType

Array: TypeAlias = np.ndarray[Any, Any]

MACHINES = {
    "host": host(),
    "without AVX-512": masked(host(), "avx512"),
    "portable": portable(host()),
}
KINDS: dict[DType, Any] = {
    dtype: np.dtype(getattr(ml_dtypes, name, name)) for dtype, name in ARRAY_NAMES.items()
}
_Phase = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


def drawn(module: Module, seed: int = 0) -> list[Array]:
    """Inputs of a module, each number one of its type."""
    random = np.random.default_rng(seed)
    return [_drawn(random, one.dtype, one.shape) for one in module.inputs]


def _drawn(random: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> Array:
    match dtype:
        case DType.BOOL:
            return random.integers(0, 2, shape).astype(np.bool_)
        case DType.I32 | DType.I8 | DType.U8:
            least = 0 if dtype is DType.U8 else -9
            return random.integers(least, 10, shape).astype(KINDS[dtype])
    return np.asarray(random.normal(size=shape)).astype(KINDS[dtype])


def run(
    module: Module,
    inputs: Sequence[Array],
    schedules: Mapping[str, Schedule] | None = None,
    machine: CpuMachine | None = None,
    *,
    joined: int = 0,
) -> list[Array]:
    """What the machine code gives. Touching memory beside the arrays ends this process.

    It is run twice, with those pages behind and before the arrays, and what is in memory before is
    not the same; that the outputs are is an assertion.
    """
    machine = machine or host()
    printed = print_module(module, schedules or {}, machine, joined=joined)
    return run_native(printed, laid_out(module, inputs, schedules or {}), machine)


def run_native(printed: KernelProgram, inputs: Sequence[Array], machine: CpuMachine) -> list[Array]:
    """The same of a program that is printed already, with inputs as it takes them."""
    library = load(printed, compile_program(printed, machine), compile_handler(machine))
    first, second = (
        _once(printed, library.phases, inputs, place) for place in ("behind", "before")
    )
    for buffer, one, other in zip(printed.outputs, first, second, strict=True):
        assert one.tobytes() == other.tobytes(), f"{buffer} differs from run to run"
    return first


def _once(
    printed: KernelProgram, phases: Sequence[int], inputs: Sequence[Array], place: str
) -> list[Array]:
    poison = 0xFF if place == "behind" else 0
    sizes = [math.prod(one.shape) * np.dtype(KINDS[one.dtype]).itemsize for one in printed.outputs]
    scratch = max((phase.scratch_bytes for phase in printed.phases), default=0)
    given = [GuardedBytes(one.nbytes) for one in inputs]
    made = [GuardedBytes(size) for size in sizes]
    spare = [GuardedBytes(-(-size // 64) * 64) for size in (*printed.temporaries, scratch)]
    for fence, one in zip(given, inputs, strict=True):
        fence.move(place == "behind")
        fence.view[:] = np.frombuffer(one.tobytes(), np.uint8)
        fence.protect()
    for fence in (*made, *spare):
        fence.move(place == "behind")
        fence.view[:] = poison
    arrays = [*given, *made, *spare]
    pointers = (ctypes.c_void_p * len(arrays))(*(one.address for one in arrays))
    for address, phase in zip(phases, printed.phases, strict=True):
        for block in reversed(range(phase.blocks)) if place == "before" else [None]:
            begin, end = (0, phase.blocks) if block is None else (block, block + 1)
            _Phase(address)(pointers, spare[-1].address, begin, end)
    return [
        np.frombuffer(fence.view.tobytes(), KINDS[one.dtype]).reshape(one.shape)
        for fence, one in zip(made, printed.outputs, strict=True)
    ]


def laid_out(
    module: Module, inputs: Sequence[Array], schedules: Mapping[str, Schedule]
) -> list[Array]:
    """The inputs, those packed that the schedules want so."""
    layouts = {name: each for one in schedules.values() for name, each in one.layouts.items()}
    return [
        packed(array, layouts[buffer.name]) if buffer.name in layouts else array
        for buffer, array in zip(module.inputs, inputs, strict=True)
    ]


def packed(array: Array, layout: PackedLayout) -> Array:
    """Panels of columns, with zeros where there is nothing."""
    rows_last = np.moveaxis(array, (layout.row, layout.column), (-2, -1))
    *batch, rows, columns = rows_last.shape
    panels, deep = -(-columns // layout.width), rows + (rows % 2 if layout.pairs else 0)
    whole = np.zeros((*batch, deep, panels * layout.width), array.dtype)
    whole[..., :rows, :columns] = rows_last
    cut = np.moveaxis(whole.reshape(*batch, deep, panels, layout.width), -3, -2)
    if not layout.pairs:
        return np.ascontiguousarray(cut)
    pairs = cut.reshape(*batch, panels, deep // 2, 2, layout.width)
    found = np.ascontiguousarray(np.moveaxis(pairs, -2, -1))
    return np.asarray(encode_panels(found)) if layout.coded else found


def program(*outputs: Term) -> Program:
    """Of all inputs that there are, in the order of their names."""
    found = {one for one in terms.walk(outputs) if one.operator is INPUT}
    inputs = sorted(found, key=lambda one: str(one.parameter("name")))
    return Program("program", tuple(inputs), outputs)
