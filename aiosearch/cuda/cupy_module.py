"""The names of CuPy that code with raw kernels uses, so that it runs unchanged on a CPU.

    with aiosearch.cuda.patched():
        import cupy as cp

        add = cp.RawKernel(text, "add")
        add((4,), (256,), (x, y, np.int32(1024)))

Arrays are NumPy's in a class that has CuPy's `get` and `set`; a function that CuPy shares with
NumPy is NumPy's, and gives such arrays. What CuPy has and NumPy has not is not there.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np

from .errors import LaunchError
from .interpreter.arithmetic import Array
from .modules import CudaKernel, CudaModule, load

_HARMLESS = ("--std=", "-std=", "--use_fast_math", "-use_fast_math", "--gpu-architecture", "-arch")
"""Options of NVIDIA's compiler that change nothing of what is computed here."""


NumpyName: TypeAlias = Any
"""What a name of NumPy is: a function, a type, a module."""


class CupyArray(Array):
    """An array of a device: here, memory like any other."""

    def get(self, stream: object = None, order: str = "C", out: Array | None = None) -> Array:
        """A copy as NumPy's array, or the elements put into one."""
        if out is None:
            return self.view(np.ndarray).copy("F" if order == "F" else "C")
        out[...] = self
        return out

    def set(self, array: Array, stream: object = None) -> None:
        """Takes over an array's elements."""
        self[...] = array


class RawKernel:
    """A kernel of a text; `kernel(grid, block, arguments)` launches it."""

    def __init__(
        self,
        code: str,
        name: str,
        options: Sequence[str] = (),
        backend: str = "nvrtc",
        **ignored: object,
    ) -> None:
        self.name = name
        self._kernel = _module(code, tuple(options))[name]

    def __call__(
        self,
        grid: Sequence[int],
        block: Sequence[int],
        args: Sequence[object],
        *,
        shared_mem: int = 0,
        stream: object = None,
    ) -> None:
        self._kernel[grid, block, shared_mem](*args)

    @property
    def kernel(self) -> CudaKernel:
        """The kernel itself, which can be checked, explained and tuned."""
        return self._kernel


class RawModule:
    """The kernels of a text or a file; templates by their `name_expressions`."""

    def __init__(
        self,
        *,
        code: str | None = None,
        path: str | None = None,
        options: Sequence[str] = (),
        backend: str = "nvrtc",
        name_expressions: Sequence[str] | None = None,
        **ignored: object,
    ) -> None:
        if code is None:
            raise LaunchError(
                f"a RawModule of the file {path} is machine code of a GPU; pass code= instead"
            )
        self._code, self._options = code, tuple(options)

    def get_function(self, name: str) -> RawKernel:
        """A kernel by its name, or by an expression such as `scale<float>`."""
        return RawKernel(self._code, name, self._options)

    def get_global(self, name: str) -> Array:
        """The bytes of a `__constant__` or `__device__` variable that a kernel has used."""
        arrays = _module(self._code, self._options).symbols.arrays
        if name not in arrays:
            raise LaunchError(f"no kernel of the module has used a variable {name} yet")
        return arrays[name]


@functools.cache
def _module(code: str, options: tuple[str, ...]) -> CudaModule:
    """A text with its options; each once, as kernels of a module share its variables."""
    defines, include = [], []
    for option in options:
        if option.startswith("-D"):
            defines.append(option[2:].strip())
        elif option.startswith("-I"):
            include.append(option[2:].strip())
        elif not option.startswith(_HARMLESS):
            raise LaunchError(
                f"the option {option} is not supported: -D and -I are, and {', '.join(_HARMLESS)}"
                " change nothing"
            )
    return load(f"{code}\n", defines=defines, include=include)


class _Processor:
    """The only device: the processor."""

    def __init__(self, number: int = 0) -> None:
        self.id = number

    def __enter__(self) -> _Processor:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def synchronize(self) -> None:
        """Launches are done when they return, so there is nothing to wait for."""

    use = synchronize


class _NumpyNames(types.ModuleType):
    """A module whose names are those of a module of NumPy, giving arrays of a device."""

    def __init__(self, name: str, numpy: NumpyName, local: Mapping[str, object]) -> None:
        super().__init__(name)
        self._numpy = numpy
        self.__dict__.update(local)

    def __getattr__(self, name: str) -> NumpyName:
        if name.startswith("__"):
            raise AttributeError(name)
        value = getattr(self._numpy, name)
        if isinstance(value, types.ModuleType):
            return _NumpyNames(f"{self.__name__}.{name}", value, {})
        if callable(value) and not isinstance(value, type):
            return _of_a_device(value)
        return value


def _of_a_device(function: NumpyName) -> NumpyName:
    @functools.wraps(function)
    def call(*arguments: object, **options: object) -> NumpyName:
        result = function(*arguments, **options)
        return result.view(CupyArray) if type(result) is np.ndarray else result

    return call


def _asnumpy(
    array: Array, stream: object = None, order: str = "C", out: Array | None = None
) -> Array:
    if out is not None:
        out[...] = array
        return out
    return np.array(array, subok=False)


@contextmanager
def _nothing(*arguments: object) -> Iterator[None]:
    yield


def cupy_module() -> types.ModuleType:
    """What `import cupy` gives while CuPy is patched."""
    stream = _Processor
    runtime = types.SimpleNamespace(
        getDeviceCount=lambda: 1, deviceSynchronize=lambda: None, getDevice=lambda: 0
    )
    cuda = types.SimpleNamespace(
        Device=_Processor,
        Stream=type("Stream", (stream,), {"null": stream()}),
        get_current_stream=stream,
        runtime=runtime,
        is_available=lambda: True,
        using_allocator=_nothing,
    )
    local = {
        "RawKernel": RawKernel,
        "RawModule": RawModule,
        "asnumpy": _asnumpy,
        "cuda": cuda,
        "ndarray": CupyArray,
    }
    module = _NumpyNames("cupy", np, local)
    module.__dict__["get_array_module"] = lambda *arrays: module
    return module
