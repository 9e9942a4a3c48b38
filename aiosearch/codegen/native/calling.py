"""A kernel program as a function of JAX arrays."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any, TypeAlias

import jax

from ...measure.expendable import is_expendable
from ...tensor.types import ARRAY_NAMES
from ..ir import Buffer
from .compiling import Effort, compiled, compiled_handler, digest, handler_digest
from .errors import NativeError
from .guarded import try_out
from .loading import Library, load
from .machine import Machine, host
from .native import Native
from .objects import default_objects_path, objects_in
from .trial import Trial, tried_elsewhere

Call: TypeAlias = Callable[..., tuple[Any, ...]]

_entered: dict[str, Library] = {}
"""What XLA knows, by name. XLA forgets nothing, so this does not either."""
_lock = threading.Lock()


def function(
    native: Native, machine: Machine | None = None, effort: Effort = Effort.SCALAR
) -> Call:
    """Gives a function of the inputs, under `jax.jit` or not, to the tuple of the outputs.

    A kernel that was not tried out before is tried out first: here where this process may die of
    it, else in another one. Raises NativeError where it does not pass, or does not run here.
    """
    target = enter(native, machine or host(), effort)
    results = [jax.ShapeDtypeStruct(one.shape, ARRAY_NAMES[one.dtype]) for one in native.outputs]  # type: ignore[no-untyped-call]  # jax's
    kernel = jax.ffi.ffi_call(target, results, vmap_method="sequential")

    def call(*arrays: Any) -> tuple[Any, ...]:
        _check(native, arrays)
        return tuple(kernel(*arrays))

    call.__name__ = native.name.replace(".", "_")
    return call


def enter(native: Native, machine: Machine, effort: Effort = Effort.SCALAR) -> str:
    """Has XLA know a program, and gives the name by which it does: the same in every process."""
    if not host().runs(machine):
        raise NativeError(f"the kernel {native.name} was made for {machine.name}, not for this one")
    key = digest(native, machine, effort)
    name = f"aiosearch_{key}"
    with _lock:
        if name not in _entered:
            library = _library(native, machine, effort, key)
            capsule = jax.ffi.pycapsule(ctypes.c_void_p(library.handler))  # type: ignore[no-untyped-call]  # jax's
            jax.ffi.register_ffi_target(name, capsule, platform="cpu")
            _entered[name] = library
    return name


def _library(native: Native, machine: Machine, effort: Effort, key: str) -> Library:
    kept = objects_in(default_objects_path())
    code = kept.get(key, lambda: compiled(native, machine, effort))
    handler = kept.get(handler_digest(machine), lambda: compiled_handler(machine))
    if not kept.trusts(key, code):
        if is_expendable():
            try_out(native, load(native, code, handler))
        else:
            tried_elsewhere(Trial(native, code, handler))
        kept.trust(key, code)
    return load(native, code, handler)


def _check(native: Native, arrays: tuple[Any, ...]) -> None:
    """XLA's own message would name neither the kernel nor the input."""
    if len(arrays) != len(native.inputs):
        raise NativeError(f"{native.name} takes {len(native.inputs)} arrays, not {len(arrays)}")
    for buffer, array in zip(native.inputs, arrays, strict=True):
        if not _fits(buffer, array):
            found = f"{array.dtype}[{', '.join(map(str, array.shape))}]"
            raise NativeError(f"{native.name} takes {buffer}, and was given {found}")


def _fits(buffer: Buffer, array: Any) -> bool:
    return bool(array.dtype == ARRAY_NAMES[buffer.dtype]) and tuple(array.shape) == buffer.shape
