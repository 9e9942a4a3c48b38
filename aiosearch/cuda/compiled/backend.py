"""What the code generator of programs lends to that of kernels; nothing else here imports it."""

from __future__ import annotations

import functools
import hashlib
import itertools
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from ...codegen.errors import NativeError
from ...codegen.ir import Buffer
from ...codegen.ir import Operation as ScalarFunction
from ...codegen.llvm.builder import FunctionText, literal, suffix, typed
from ...codegen.llvm.scalars import ERRORS, library, symbol
from ...codegen.native.compiler import OptimizationEffort, parse_module, target_machine
from ...codegen.native.guarded_run import GuardedBytes
from ...codegen.native.handler import spin_text
from ...codegen.native.kernel_program import KernelPhase, KernelProgram
from ...codegen.native.llvm_library import llvm, llvmlite
from ...codegen.native.machine import CpuMachine, host
from ...codegen.native.object_cache import default_objects_path, object_cache_in
from ...tensor.types import DType
from ..ir.types import ScalarType

ArrayType: TypeAlias = tuple[np.dtype[Any], tuple[int, ...]]
"""Elements and sizes of an array."""
DTYPES = {ScalarType.F32: DType.F32, ScalarType.F64: DType.F64}
FUNCTIONS = {
    "cos": ScalarFunction.COS,
    "erf": ScalarFunction.ERF,
    "erfc": ScalarFunction.ERFC,
    "exp": ScalarFunction.EXP,
    "expm1": ScalarFunction.EXPM1,
    "log": ScalarFunction.LOG,
    "log1p": ScalarFunction.LOG1P,
    "pow": ScalarFunction.POW,
    "sin": ScalarFunction.SIN,
    "tanh": ScalarFunction.TANH,
}
"""Functions on vectors, by our names of them."""
__all__ = [
    "DTYPES",
    "FUNCTIONS",
    "FunctionText",
    "assembly",
    "function_error",
    "function_symbol",
    "function_texts",
    "host",
    "literal",
    "llvm",
    "loaded",
    "suffix",
    "typed",
]

_numbers = itertools.count()
_LAYOUT = 1
"""Goes up when what is compiled from a text changes otherwise than by the text."""


_CARRIERS = {
    "bool": DType.BOOL, "int8": DType.I8, "uint8": DType.U8, "int32": DType.I32,
    "float16": DType.F16, "float32": DType.F32, "float64": DType.F64,
}  # fmt: skip
"""The types of arrays that XLA hands over as they are."""


def carrier(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type in which XLA hands over an array: its own, or whole numbers that hold its bytes."""
    if dtype.name in _CARRIERS:
        return dtype
    return np.dtype(np.int8 if dtype.itemsize < 4 else np.int32)


def registered(
    name: str,
    text: str,
    wrapper: str,
    arrays: tuple[Sequence[ArrayType], Sequence[ArrayType]],
    launch: tuple[int, int],
) -> str:
    """Registers a kernel with XLA, and gives its name there.

    `wrapper` is the body of the function that calls it from XLA's pointers, `arrays` are operands
    and results, and a `launch` is a number of blocks and the bytes of scratch memory of each.
    """
    whole = (
        f'{text}\ndefine void @"{name}.0"(ptr %buffers, ptr %scratch, i64 %begin, i64 %end) {{\n'
        f"{wrapper}\n  ret void\n}}\n"
    )
    machine = host()
    inputs, outputs = (
        tuple(
            Buffer(f"{kind}{place}", _CARRIERS[dtype.name], shape)
            for place, (dtype, shape) in enumerate(listed)
        )
        for kind, listed in zip(("in", "out"), arrays, strict=True)
    )
    # As a launch from Python, the text goes through LLVM's passes here, which unroll loops; those
    # that programs go through do not.
    optimized = str(_optimized(whole, machine))
    phase = KernelPhase(*launch)
    program = KernelProgram(name, optimized, inputs, outputs, (phase,))
    # Drawn whole numbers would be indices out of bounds in many right kernels, so none is tried.
    from ...codegen.native.jax_call import register_program  # imports JAX

    return register_program(program, machine, OptimizationEffort.NONE, trial=False)


def function_symbol(name: str, lanes: int, type: ScalarType) -> str:
    """What LLVM IR calls a function on vectors."""
    return symbol(FUNCTIONS[name], lanes, DTYPES[type])


def function_texts(required: Iterable[tuple[str, int, ScalarType]]) -> str:
    """The definitions of such functions."""
    machine = host()
    listed = [(FUNCTIONS[name], lanes, DTYPES[type]) for name, lanes, type in required]
    return library(listed, fused=machine.fma, scaling=machine.scaling)


def function_error(name: str, type: ScalarType) -> float | None:
    """How far a function is off at most, in units of the last place; none where it is not ours."""
    if name not in FUNCTIONS or type not in DTYPES:
        return None
    return ERRORS[FUNCTIONS[name], DTYPES[type]].of(fused=host().fma)


def guarded(size: int) -> GuardedBytes:
    """Bytes between two pages that may not be accessed."""
    return GuardedBytes(size)


def _optimized(text: str, machine: CpuMachine, *, alone: bool = False) -> Any:
    """The module that instructions are chosen for.

    Threads are the lanes of our vectors, so LLVM looks for no others, unless a kernel is for one
    thread, `alone`, as a loop nest is whose iterations need their order: then it looks in loops.
    """
    target = target_machine(machine)
    module = parse_module(text, llvm.create_context())
    module.triple = machine.triple
    module.data_layout = str(target.target_data)
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = alone
    options.slp_vectorization = alone
    options.loop_interleaving = alone
    options.loop_unrolling = True
    builder = llvm.create_pass_builder(target, options)
    builder.getModulePassManager().run(module, builder)
    return module


def assembly(text: str, *, alone: bool = False) -> str:
    """The assembly of a module, for people."""
    machine = host()
    module = _optimized(text, machine, alone=alone)
    listing: str = target_machine(machine).emit_assembly(module)
    return listing


def loaded(text: str, name: str, *, alone: bool = False) -> tuple[int, Any]:
    """Compiles a module, or takes what was compiled of it before; gives its function's address.

    The second value holds the memory of the code: keep it as long as the address.
    """
    (address,), memory = loaded_together(text, (name,), alone=alone)
    return address, memory


def loaded_together(
    text: str, names: Sequence[str], *, alone: bool = False
) -> tuple[tuple[int, ...], Any]:
    """The same of a module with several functions."""
    machine = host()
    target = (machine.triple, machine.name, machine.features)
    parts = (_LAYOUT, llvmlite.__version__, *target, alone, text)
    digest = hashlib.sha256(repr(parts).encode()).hexdigest()[:40]
    objects = object_cache_in(default_objects_path())
    code = objects.get(digest, lambda: _compiled(text, machine, alone))
    builder = llvm.JITLibraryBuilder()
    builder.add_object_img(code).add_current_process()
    for name in names:
        builder.export_symbol(name)
    try:
        memory = builder.link(_linker(), f"cuda.{digest}.{next(_numbers)}")
    except RuntimeError as error:
        raise NativeError(f"{', '.join(names)}: cannot be loaded: {error}") from None
    return tuple(int(memory[name]) for name in names), memory


def spinning(patience: int) -> str:
    """Functions `now` and `pause_since`, by which code waits awake for so many nanoseconds."""
    return spin_text(host(), patience)


def _compiled(text: str, machine: CpuMachine, alone: bool) -> bytes:
    module = _optimized(text, machine, alone=alone)
    code: bytes = target_machine(machine).emit_object(module)
    return code


@functools.cache
def _linker() -> Any:
    return llvm.create_lljit_compiler(target_machine(host()), use_jit_link=True)
