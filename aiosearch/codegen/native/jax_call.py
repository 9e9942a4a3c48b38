"""A kernel program as a function of JAX arrays."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any, TypeAlias

import jax

from ...measure.worker.expendable import is_expendable
from ...tensor.types import ARRAY_NAMES
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
from .errors import NativeError
from .guarded_process import KernelTrial, run_in_guarded_process
from .guarded_run import run_guarded
from .kernel_program import KernelProgram
from .machine import CpuMachine, host
from .object_cache import default_objects_path, object_cache_in

Call: TypeAlias = Callable[..., tuple[Any, ...]]

_registered_programs: dict[str, LoadedLibrary] = {}
"""What XLA knows, by name. XLA forgets nothing, so this does not either."""
_lock = threading.Lock()


def jax_function(
    native: KernelProgram,
    machine: CpuMachine | None = None,
    effort: OptimizationEffort = OptimizationEffort.SCALAR,
) -> Call:
    """Gives a function of the inputs, under `jax.jit` or not, to the tuple of the outputs.

    A kernel that was not tried out before is tried out first: here where this process may die of
    it, else in another one. Raises NativeError where it does not pass, or does not run here.
    """
    target = register_program(native, machine or host(), effort)
    results = [jax.ShapeDtypeStruct(one.shape, ARRAY_NAMES[one.dtype]) for one in native.outputs]  # type: ignore[no-untyped-call]  # jax's
    kernel = jax.ffi.ffi_call(target, results, vmap_method="sequential")

    def call(*arrays: Any) -> tuple[Any, ...]:
        _check(native, arrays)
        return tuple(kernel(*arrays))

    call.__name__ = native.name.replace(".", "_")
    return call


def register_program(
    native: KernelProgram,
    machine: CpuMachine,
    effort: OptimizationEffort = OptimizationEffort.SCALAR,
) -> str:
    """Has XLA know a program, and gives the name by which it does: the same in every process."""
    if not host().runs(machine):
        raise NativeError(f"the kernel {native.name} was made for {machine.name}, not for this one")
    key = digest(native, machine, effort)
    name = f"aiosearch_{key}"
    with _lock:
        if name not in _registered_programs:
            library = _library(native, machine, effort, key)
            capsule = jax.ffi.pycapsule(ctypes.c_void_p(library.handler))  # type: ignore[no-untyped-call]  # jax's
            jax.ffi.register_ffi_target(name, capsule, platform="cpu")
            _registered_programs[name] = library
    return name


def _library(
    native: KernelProgram, machine: CpuMachine, effort: OptimizationEffort, key: str
) -> LoadedLibrary:
    kept = object_cache_in(default_objects_path())
    code = kept.get(key, lambda: compile_program(native, machine, effort))
    handler = kept.get(handler_digest(machine), lambda: compile_handler(machine))
    if not kept.trusts(key, code):
        if is_expendable():
            run_guarded(native, load(native, code, handler))
        else:
            run_in_guarded_process(KernelTrial(native, code, handler))
        kept.trust(key, code)
    return load(native, code, handler)


def _check(native: KernelProgram, arrays: tuple[Any, ...]) -> None:
    """XLA's own message would name neither the kernel nor the input."""
    if len(arrays) != len(native.inputs):
        raise NativeError(f"{native.name} takes {len(native.inputs)} arrays, not {len(arrays)}")
    for buffer, array in zip(native.inputs, arrays, strict=True):
        if not _fits(buffer, array):
            found = f"{array.dtype}[{', '.join(map(str, array.shape))}]"
            raise NativeError(f"{native.name} takes {buffer}, and was given {found}")


def _fits(buffer: Buffer, array: Any) -> bool:
    return bool(array.dtype == ARRAY_NAMES[buffer.dtype]) and tuple(array.shape) == buffer.shape
