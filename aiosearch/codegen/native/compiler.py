"""The compiler and loader: LLVM IR to object code to functions of this process.

Compilation is deterministic: `digest` names everything that object code depends on, and equal
digests have equal bytes. So object code is kept on disk (`object_cache`), and the code that was
tried between guard pages in one process is the very code that another one loads.
"""

from __future__ import annotations

import ctypes
import enum
import functools
import hashlib
import itertools
from dataclasses import dataclass, field

from ..errors import NativeError
from .handler import (
    CACHE_LINE_BYTES,
    ENTRY,
    SPARE_SYMBOL,
    WAITING_SLOTS,
    WAITING_SLOTS_SYMBOL,
    handler_text,
    table_text,
)
from .kernel_program import KernelProgram, encode
from .llvm_library import (
    LlvmContext,
    LlvmLibrary,
    LlvmLoader,
    LlvmModule,
    LlvmTarget,
    llvm,
    llvmlite,
)
from .machine import CpuMachine, host, request_amx_permission

_LAYOUT = 1
"""Version of what is hashed and kept; goes up when either changes."""


class OptimizationEffort(enum.IntEnum):
    """What LLVM does to the text before it selects instructions."""

    NONE = 0
    """Nothing: the text is compiled as it stands."""
    SCALAR = 1
    """Simplifies addresses, common values and loop invariants; no loop is unrolled or
    vectorised."""


def digest(
    native: KernelProgram,
    machine: CpuMachine,
    effort: OptimizationEffort = OptimizationEffort.SCALAR,
) -> str:
    """A name for a program's object code: equal digests have equal code."""
    return _digest(machine, str(effort), handler_text(machine), encode(native).decode())


def handler_digest(machine: CpuMachine) -> str:
    """A name for the object code of `handler_text`."""
    return _digest(machine, handler_text(machine))


def _digest(machine: CpuMachine, *texts: str) -> str:
    # Another version of LLVM selects other instructions, so its code is other code.
    """A hash of the compiler's version, the `machine` and these texts."""
    made_by = (str(_LAYOUT), llvmlite.__version__)
    parts = (*made_by, machine.triple, machine.name, machine.features, *texts)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:40]


def compile_program(
    native: KernelProgram,
    machine: CpuMachine,
    effort: OptimizationEffort = OptimizationEffort.SCALAR,
) -> bytes:
    """The object code of a program. Raises `NativeError` where the text is no valid LLVM IR."""
    target = target_machine(machine)
    module = prepare_module(native, machine, target, effort)
    code: bytes = target.emit_object(module)
    return code


@functools.cache
def compile_handler(machine: CpuMachine) -> bytes:
    """The object code of the handler, which is linked with every program."""
    target = target_machine(machine)
    module = _with_symbols_placed(
        parse_module(handler_text(machine), llvm.create_context()), machine, target
    )
    optimize(module, target)
    code: bytes = target.emit_object(module)
    return code


def prepare_module(
    native: KernelProgram, machine: CpuMachine, target: LlvmTarget, effort: OptimizationEffort
) -> LlvmModule:
    """The verified module of a program and its constants, as instructions are selected for it."""
    context = llvm.create_context()
    module = parse_module(native.text, context)
    _require_phases(native, module)
    module.link_in(parse_module(table_text(native), context))
    _with_symbols_placed(module, machine, target)
    if effort is not OptimizationEffort.NONE:
        optimize(module, target)
    return module


def _require_phases(native: KernelProgram, module: LlvmModule) -> None:
    """Raises `NativeError` unless the module defines a function for each phase."""
    defined = {function.name for function in module.functions if not function.is_declaration}
    for number in range(len(native.phases)):
        if native.symbol(number) not in defined:
            raise NativeError(f"the kernel's text defines no function {native.symbol(number)}")


def _with_symbols_placed(module: LlvmModule, machine: CpuMachine, target: LlvmTarget) -> LlvmModule:
    """The `module` with the target's triple and data layout."""
    module.triple = machine.triple
    module.data_layout = str(target.target_data)
    return module


def optimize(module: LlvmModule, target: LlvmTarget) -> None:
    """Runs LLVM's scalar passes. What is unrolled and what is a vector stays as the printer
    decided."""
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    # The schedule has decided vectors and unrolling; LLVM's choices would spill accumulators.
    options.loop_vectorization = False
    options.slp_vectorization = False
    options.loop_interleaving = False
    options.loop_unrolling = False
    builder = llvm.create_pass_builder(target, options)
    builder.getModulePassManager().run(module, builder)


def target_machine(machine: CpuMachine) -> LlvmTarget:
    """LLVM's description of the processor."""
    _initialize_llvm()
    try:
        # Position-independent with near calls: all code of a library is linked within 2 GiB.
        target = llvm.Target.from_triple(machine.triple)
        return target.create_target_machine(
            cpu=machine.name, features=machine.features, opt=3, reloc="pic", codemodel="small"
        )
    except RuntimeError as error:
        raise NativeError(f"LLVM cannot compile for {machine.name}: {error}") from None


def _initialize_llvm() -> None:
    """Registers this processor's code generator with LLVM."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()


def parse_module(text: str, context: LlvmContext) -> LlvmModule:
    """A verified module. Raises `NativeError` where the text is no LLVM IR."""
    try:
        module = llvm.parse_assembly(text, context)
        module.verify()
    except RuntimeError as error:
        raise NativeError(f"the kernel's text is no LLVM IR: {error}") from None
    return module


_library_numbers = itertools.count()
_TILES = "@llvm.x86.ldtilecfg"
"""The instruction that configures AMX tiles; a text without it uses none."""


@dataclass(frozen=True, slots=True)
class LoadedLibrary:
    """Addresses of a program's functions, valid as long as this object lives."""

    handler: int
    """The address of the function that XLA calls."""
    phases: tuple[int, ...]
    """The address of each phase's function."""
    memory: LlvmLibrary = field(repr=False)
    """Keeps the code in memory; an `LlvmLibrary` is unloaded with its last reference."""


def load(native: KernelProgram, code: bytes, handler: bytes) -> LoadedLibrary:
    """Loads a program and its handler. Raises `NativeError` where it calls a function that does not
    exist, which LLVM names on standard error, or where the system refuses AMX."""
    # Without permission the first tile instruction would raise SIGILL.
    if _TILES in native.text and not request_amx_permission():
        raise NativeError(f"the system does not let this process use AMX, as {native.name} does")
    symbols = [native.symbol(number) for number in range(len(native.phases))]
    builder = llvm.JITLibraryBuilder()
    builder.add_object_img(code).add_object_img(handler).add_current_process()
    # The handler is linked once per program, so what programs share comes from outside.
    builder.import_symbol(WAITING_SLOTS_SYMBOL, _allocate_waiting_slots())
    builder.import_symbol(
        SPARE_SYMBOL, _allocate_waiting_slots() + WAITING_SLOTS * CACHE_LINE_BYTES
    )
    for symbol in (ENTRY, *symbols):
        builder.export_symbol(symbol)
    try:
        memory = builder.link(_loader(), f"{native.name}.{next(_library_numbers)}")
    except RuntimeError as error:
        raise NativeError(f"the kernel {native.name} cannot be loaded: {error}") from None
    return LoadedLibrary(memory[ENTRY], tuple(memory[symbol] for symbol in symbols), memory)


@functools.cache
def _allocate_waiting_slots() -> int:
    """The address of the slots where threads wait (`team.c`), with a cache line more for the spare
    workspace (`workspace.ll`).

    All kernels of the process share them. They are never freed, as threads of XLA may use them
    after Python has shut down.
    """
    address = ctypes.c_void_p()
    libc, size = ctypes.CDLL(None), (WAITING_SLOTS + 1) * CACHE_LINE_BYTES
    if libc.posix_memalign(
        ctypes.byref(address), ctypes.c_size_t(CACHE_LINE_BYTES), ctypes.c_size_t(size)
    ):
        raise MemoryError("no memory for the waiting slots of threads")
    ctypes.memset(address, 0, size)
    assert address.value is not None
    return address.value


@functools.cache
def _loader() -> LlvmLoader:
    """The linker. JITLink places code and constants close to each other; LLVM's older linker aborts
    where relocations do not reach."""
    return llvm.create_lljit_compiler(target_machine(host()), use_jit_link=True)
