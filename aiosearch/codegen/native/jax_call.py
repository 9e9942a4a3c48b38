"""A kernel program as a function of JAX arrays, through XLA's foreign function interface."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import TypeAlias

import jax

from ...measure.worker.expendable import is_expendable
from ...tensor.types import ARRAY_NAMES
from ..errors import NativeError
from ..ir import Buffer
from .compiler import (
    LoadedLibrary,
    OptimizationEffort,
    compile_handler,
    compile_program,
    digest,
    handler_digest,
    load,
)
from .guarded_process import KernelTrial, run_in_guarded_process
from .guarded_run import run_guarded
from .kernel_program import KernelProgram
from .machine import CpuMachine, host
from .object_cache import default_objects_path, object_cache_in

Call: TypeAlias = Callable[..., tuple[jax.Array, ...]]
"""A function from input arrays to output arrays."""

_registered_programs: dict[str, LoadedLibrary] = {}
"""The library behind each name that XLA knows; XLA cannot unregister a name, so libraries are
kept."""
_lock = threading.Lock()


def jax_function(
    native: KernelProgram,
    machine: CpuMachine | None = None,
    effort: OptimizationEffort = OptimizationEffort.SCALAR,
) -> Call:
    """A function of the inputs, under `jax.jit` or not, that returns the tuple of outputs.

    A kernel that has not passed a guarded run on this machine is tried out first: here if this
    process is expendable, else in one of its own. Raises `NativeError` where it does not pass, or
    cannot run here.
    """
    target = register_program(native, machine or host(), effort)
    results = [_shape_of(buffer) for buffer in native.outputs]
    kernel = jax.ffi.ffi_call(target, results, vmap_method="sequential")

    def call(*arrays: jax.Array) -> tuple[jax.Array, ...]:
        _check(native, arrays)
        return tuple(kernel(*arrays))

    call.__name__ = native.name.replace(".", "_")
    return call


def register_program(
    native: KernelProgram,
    machine: CpuMachine,
    effort: OptimizationEffort = OptimizationEffort.SCALAR,
    *,
    trial: bool = True,
) -> str:
    """Registers a program with XLA, and returns its name there, which is the same in every
    process. Without `trial` it is not tried out before: drawn numbers need not be right inputs of a
    program that a user wrote."""
    if not host().runs(machine):
        raise NativeError(f"the kernel {native.name} was made for {machine.name}, not for this one")
    key = digest(native, machine, effort)
    name = f"aiosearch_{key}"
    # Two threads that register the same program would load it twice, and XLA refuses the second
    # registration.
    with _lock:
        if name not in _registered_programs:
            library = _library(native, machine, effort, key, trial)
            capsule = jax.ffi.pycapsule(ctypes.c_void_p(library.handler))  # type: ignore[no-untyped-call]  # jax's
            jax.ffi.register_ffi_target(name, capsule, platform="cpu")
            _registered_programs[name] = library
    return name


def _library(
    native: KernelProgram, machine: CpuMachine, effort: OptimizationEffort, key: str, trial: bool
) -> LoadedLibrary:
    """The loaded library of a program, compiled and tried out as needed."""
    objects = object_cache_in(default_objects_path())
    code = objects.get(key, lambda: compile_program(native, machine, effort))
    handler = objects.get(handler_digest(machine), lambda: compile_handler(machine))
    # Trust is by content: other bytes under the same digest are tried again.
    if trial and not objects.trusts(key, code):
        if is_expendable():
            run_guarded(native, load(native, code, handler))
        else:
            run_in_guarded_process(KernelTrial(native, code, handler))
        objects.trust(key, code)
    return load(native, code, handler)


def _check(native: KernelProgram, arrays: tuple[jax.Array, ...]) -> None:
    """Raises `NativeError` for wrong arrays, as XLA's own message would name neither kernel nor
    input."""
    if len(arrays) != len(native.inputs):
        raise NativeError(f"{native.name} takes {len(native.inputs)} arrays, not {len(arrays)}")
    for buffer, array in zip(native.inputs, arrays, strict=True):
        if not _fits(buffer, array):
            actual = f"{array.dtype}[{', '.join(map(str, array.shape))}]"
            raise NativeError(f"{native.name} takes {buffer}, and was given {actual}")


def _shape_of(buffer: Buffer) -> jax.ShapeDtypeStruct:
    """What XLA is promised as an output."""
    dtype = ARRAY_NAMES[buffer.dtype]
    return jax.ShapeDtypeStruct(buffer.shape, dtype)  # type: ignore[no-untyped-call]  # jax's


def _fits(buffer: Buffer, array: jax.Array) -> bool:
    """Whether an `array` has the type and shape of a buffer."""
    return bool(array.dtype == ARRAY_NAMES[buffer.dtype]) and tuple(array.shape) == buffer.shape
