"""The compiler and loader: LLVM IR to object code to functions of this process.

From object code to functions of this process.
"""

from __future__ import annotations

import ctypes
import enum
import functools
import hashlib
import itertools
from dataclasses import dataclass, field
from typing import Any

from .errors import NativeError
from .handler import (
    CACHE_LINE_BYTES,
    ENTRY,
    SEATS,
    SEATS_SYMBOL,
    SPARE_SYMBOL,
    handler_text,
    table_text,
)
from .kernel_program import KernelProgram, encode
from .llvm_library import llvm, llvmlite
from .machine import CpuMachine, host, request_amx_permission

_LAYOUT = 1
"""Of what is hashed and kept; goes up when either changes."""


class OptimizationEffort(enum.IntEnum):
    """What LLVM does to the text before it selects instructions."""

    NONE = 0
    """Nothing: the text is optimized as it stands."""
    SCALAR = 1
    """Tidies up: addresses, common values, what does not change in a loop. No loop is unrolled."""


def digest(
    native: KernelProgram,
    machine: CpuMachine,
    effort: OptimizationEffort = OptimizationEffort.SCALAR,
) -> str:
    """Says from what a program's object code is made; equal ones have equal code."""
    return _digest(machine, str(effort), handler_text(machine), encode(native).decode())


def handler_digest(machine: CpuMachine) -> str:
    """Says the same of the handler's."""
    return _digest(machine, handler_text(machine))


def _digest(machine: CpuMachine, *texts: str) -> str:
    made_by = (str(_LAYOUT), llvmlite.__version__)
    parts = (*made_by, machine.triple, machine.name, machine.features, *texts)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:40]


def compile_program(
    native: KernelProgram,
    machine: CpuMachine,
    effort: OptimizationEffort = OptimizationEffort.SCALAR,
) -> bytes:
    """Compiles a program, equal ones to equal bytes; raises NativeError where the text is wrong."""
    target = target_machine(machine)
    module = prepare_module(native, machine, target, effort)
    code: bytes = target.emit_object(module)
    return code


@functools.cache
def compile_handler(machine: CpuMachine) -> bytes:
    """Compiles the handler, which stands beside every program."""
    target = target_machine(machine)
    module = _with_symbols_placed(
        parse_module(handler_text(machine), llvm.create_context()), machine, target
    )
    optimize(module, target)
    code: bytes = target.emit_object(module)
    return code


def prepare_module(
    native: KernelProgram, machine: CpuMachine, target: Any, effort: OptimizationEffort
) -> Any:
    """Gives the module of a program and its constants, verified, as instructions are chosen for."""
    context = llvm.create_context()
    module = parse_module(native.text, context)
    _require_phases(native, module)
    module.link_in(parse_module(table_text(native), context))
    _with_symbols_placed(module, machine, target)
    if effort is not OptimizationEffort.NONE:
        optimize(module, target)
    return module


def _require_phases(native: KernelProgram, module: Any) -> None:
    defined = {each.name for each in module.functions if not each.is_declaration}
    for number in range(len(native.phases)):
        if native.symbol(number) not in defined:
            raise NativeError(f"the kernel's text defines no function {native.symbol(number)}")


def _with_symbols_placed(module: Any, machine: CpuMachine, target: Any) -> Any:
    module.triple = machine.triple
    module.data_layout = str(target.target_data)
    return module


def optimize(module: Any, target: Any) -> None:
    """Tidies a module up. Which loops are unrolled and what is a vector stays as it is written."""
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = False
    options.slp_vectorization = False
    options.loop_interleaving = False
    options.loop_unrolling = False
    builder = llvm.create_pass_builder(target, options)
    builder.getModulePassManager().run(module, builder)


def target_machine(machine: CpuMachine) -> Any:
    """Gives LLVM's own description of the processor."""
    _initialize_llvm()
    try:
        target = llvm.Target.from_triple(machine.triple)
        return target.create_target_machine(
            cpu=machine.name, features=machine.features, opt=3, reloc="pic", codemodel="small"
        )
    except RuntimeError as error:
        raise NativeError(f"LLVM cannot compile for {machine.name}: {error}") from None


def _initialize_llvm() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()


def parse_module(text: str, context: Any) -> Any:
    """Reads a module and verifies it; raises NativeError."""
    try:
        module = llvm.parse_assembly(text, context)
        module.verify()
    except RuntimeError as error:
        raise NativeError(f"the kernel's text is no LLVM IR: {error}") from None
    return module


_library_numbers = itertools.count()
_TILES = "@llvm.x86.ldtilecfg"
"""Without it, no instruction of the unit does anything."""


@dataclass(frozen=True, slots=True)
class LoadedLibrary:
    """Addresses of a program's functions, which are there as long as this is."""

    handler: int
    """Of what XLA calls."""
    phases: tuple[int, ...]
    memory: Any = field(repr=False)


def load(native: KernelProgram, code: bytes, handler: bytes) -> LoadedLibrary:
    """Loads a program and its handler; raises NativeError where it calls what is not there.

    LLVM writes to the standard error what that is. The system is asked where a matrix unit is used.
    """
    if _TILES in native.text and not request_amx_permission():
        raise NativeError(f"the system does not let this process use AMX, as {native.name} does")
    symbols = [native.symbol(number) for number in range(len(native.phases))]
    builder = llvm.JITLibraryBuilder()
    builder.add_object_img(code).add_object_img(handler).add_current_process()
    builder.import_symbol(SEATS_SYMBOL, _allocate_seats())
    builder.import_symbol(SPARE_SYMBOL, _allocate_seats() + SEATS * CACHE_LINE_BYTES)
    for symbol in (ENTRY, *symbols):
        builder.export_symbol(symbol)
    try:
        memory = builder.link(_loader(), f"{native.name}.{next(_library_numbers)}")
    except RuntimeError as error:
        raise NativeError(f"the kernel {native.name} cannot be loaded: {error}") from None
    return LoadedLibrary(memory[ENTRY], tuple(memory[symbol] for symbol in symbols), memory)


@functools.cache
def _allocate_seats() -> int:
    """The address of the seats, and of one line more, for what is spare.

    All kernels share them, and threads when Python is gone, too.
    """
    address = ctypes.c_void_p()
    libc, size = ctypes.CDLL(None), (SEATS + 1) * CACHE_LINE_BYTES
    if libc.posix_memalign(
        ctypes.byref(address), ctypes.c_size_t(CACHE_LINE_BYTES), ctypes.c_size_t(size)
    ):
        raise MemoryError("no memory for the seats of threads")
    ctypes.memset(address, 0, size)
    assert address.value is not None
    return address.value


@functools.cache
def _loader() -> Any:
    """JITLink keeps code and constants together; LLVM's other linker aborts where they are not."""
    return llvm.create_lljit_compiler(target_machine(host()), use_jit_link=True)
