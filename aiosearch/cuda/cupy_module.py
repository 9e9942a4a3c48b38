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
from dataclasses import dataclass
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


_C_TYPES = {
    "bool": "bool", "int8": "signed char", "uint8": "unsigned char", "int16": "short",
    "uint16": "unsigned short", "int32": "int", "uint32": "unsigned", "int64": "long long",
    "uint64": "unsigned long long", "float16": "half", "float32": "float", "float64": "double",
}  # fmt: skip
"""What C++ calls the types of NumPy."""


@dataclass(frozen=True, slots=True)
class _KernelParameter:
    """A parameter such as `raw T x` of a kernel that is written element by element."""

    type: str
    """A type of NumPy, or a letter that stands for whatever type the argument has."""
    name: str
    is_raw: bool

    @staticmethod
    def all_of(text: str) -> tuple[_KernelParameter, ...]:
        """The parameters of a text such as `"T x, raw float32 y"`."""
        listed = []
        for part in filter(None, map(str.strip, text.split(","))):
            words = part.split()
            is_raw = words[0] == "raw"
            if len(words) != 2 + is_raw:
                raise LaunchError(f"the parameter {part!r} is not of the form `[raw] TYPE NAME`")
            listed.append(_KernelParameter(words[-2], words[-1], is_raw))
        return tuple(listed)


class _ParameterTypes:
    """Which types the letters of some parameters stand for."""

    def __init__(self, kernel: str) -> None:
        self._kernel = kernel
        self._of: dict[str, np.dtype[Any]] = {}

    def bind(self, parameter: _KernelParameter, array: Array) -> Array:
        """The argument in the type of its parameter, which is now known."""
        if parameter.type in _C_TYPES:
            return array.astype(parameter.type, copy=False)
        known = self._of.setdefault(parameter.type, array.dtype)
        # A number of Python has no type to insist on.
        if known != array.dtype and array.ndim:
            raise LaunchError(
                f"{self._kernel}: {parameter.name} is {array.dtype}, and {parameter.type} is"
                f" {known} already"
            )
        return array.astype(known, copy=False)

    def dtype(self, parameter: _KernelParameter) -> np.dtype[Any]:
        """The type of an output."""
        if parameter.type in _C_TYPES:
            return np.dtype(parameter.type)
        if parameter.type not in self._of:
            raise LaunchError(f"{self._kernel}: no argument says what the type {parameter.type} is")
        return self._of[parameter.type]

    @property
    def definitions(self) -> str:
        """Lines of C++ that say so, too; names of NumPy's types are those of C++."""
        named = {name: name for name in _C_TYPES if name not in ("bool",)}
        named |= {letter: dtype.name for letter, dtype in self._of.items()}
        return "".join(f"#define {key} {_C_TYPES[value]}\n" for key, value in named.items())


class ElementwiseKernel:
    """A kernel that is written for one element.

        square = ElementwiseKernel("T x", "T y", "y = x * x", "square")
        square(x)

    Arguments are broadcast; a `raw` one is an array, and `i` is the number of the element.
    """

    def __init__(
        self,
        in_params: str,
        out_params: str,
        operation: str,
        name: str = "kernel",
        preamble: str = "",
        **ignored: object,
    ) -> None:
        self.name = name
        self._inputs = _KernelParameter.all_of(in_params)
        self._outputs = _KernelParameter.all_of(out_params)
        self._operation, self._preamble = operation, preamble

    def __call__(self, *arguments: Any, size: int | None = None) -> Any:
        """Gives the outputs, of which arrays may be passed behind the inputs."""
        inputs, passed = _divided(self.name, arguments, self._inputs, self._outputs)
        types = _ParameterTypes(self.name)
        # Arrays say what the letters are before numbers do.
        order = sorted(range(len(inputs)), key=lambda place: np.ndim(inputs[place]) == 0)
        bound = dict.fromkeys(range(len(inputs)), np.zeros(0))
        for place in order:
            bound[place] = types.bind(self._inputs[place], np.asarray(inputs[place]))
        raw = {place for place, item in enumerate(self._inputs) if item.is_raw}
        shapes = [bound[place].shape for place in bound if place not in raw]
        shape = np.broadcast_shapes(*shapes, *(item.shape for item in passed))
        if size is not None:
            shape = (size,)
        elif not shapes and not passed:
            raise LaunchError(f"{self.name}: all arguments are raw, so size= has to be passed")
        values = [
            np.ascontiguousarray(item if place in raw else np.broadcast_to(item, shape))
            for place, item in bound.items()
        ]
        outputs = list(passed) or [
            np.empty(shape, types.dtype(item)).view(CupyArray) for item in self._outputs
        ]
        for parameter, array in zip(self._outputs, outputs, strict=True):
            types.bind(parameter, array)
        count = int(np.prod(shape))
        if count:
            kernel = _module(self._text(types), ())[self.name]
            kernel[-(-count // 256), 256](count, *values, *outputs)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _text(self, types: _ParameterTypes) -> str:
        parameters, lines = ["long long _n"], []
        for item in self._inputs:
            pointer = item.name if item.is_raw else f"_in_{item.name}"
            parameters.append(f"const {item.type} *{pointer}")
            if not item.is_raw:
                lines.append(f"const {item.type} {item.name} = {pointer}[i];")
        for item in self._outputs:
            pointer = item.name if item.is_raw else f"_out_{item.name}"
            parameters.append(f"{item.type} *{pointer}")
            if not item.is_raw:
                lines.append(f"{item.type} &{item.name} = {pointer}[i];")
        return (
            f"{types.definitions}{self._preamble}\n"
            f'extern "C" __global__ void {self.name}({", ".join(parameters)}) {{\n'
            "  long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
            f"  if (i < _n) {{ {' '.join(lines)}\n{self._operation};\n  }}\n}}\n"
        )


class ReductionKernel:
    """A kernel that maps elements, reduces them, and maps what is left.

    norm = ReductionKernel("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "norm")
    norm(x, axis=1)
    """

    def __init__(
        self,
        in_params: str,
        out_params: str,
        map_expr: str,
        reduce_expr: str,
        post_map_expr: str,
        identity: object,
        name: str = "reduce_kernel",
        reduce_type: str | None = None,
        preamble: str = "",
        **ignored: object,
    ) -> None:
        self.name = name
        self._inputs = _KernelParameter.all_of(in_params)
        (self._output,) = _KernelParameter.all_of(out_params)
        self._expressions = (map_expr, reduce_expr, post_map_expr)
        self._identity, self._preamble = identity, preamble
        self._type = reduce_type or self._output.type

    def __call__(
        self,
        *arguments: Any,
        out: Any = None,
        axis: int | Sequence[int] | None = None,
        keepdims: bool = False,
    ) -> Any:
        """Reduces over some axes, by default over all."""
        inputs, _ = _divided(self.name, arguments, self._inputs, ())
        types = _ParameterTypes(self.name)
        order = sorted(range(len(inputs)), key=lambda place: np.ndim(inputs[place]) == 0)
        bound = {
            place: types.bind(self._inputs[place], np.asarray(inputs[place])) for place in order
        }
        shape = np.broadcast_shapes(*(item.shape for item in bound.values()))
        listed = range(len(shape)) if axis is None else np.atleast_1d(axis)
        axes = sorted({int(item) % max(len(shape), 1) for item in listed})
        left = [item for item in range(len(shape)) if item not in axes]
        # What is reduced lies together, so that neighbouring threads read neighbours.
        values = [
            np.ascontiguousarray(np.broadcast_to(bound[place], shape).transpose(*left, *axes))
            for place in range(len(inputs))
        ]
        rows = int(np.prod([shape[item] for item in left]))
        deep = int(np.prod([shape[item] for item in axes]))
        result = np.empty(rows, types.dtype(self._output))
        if rows:
            kernel = _module(self._text(types), ())[self.name]
            kernel[rows, 256](deep, *values, result)
        kept = [1 if item in axes else extent for item, extent in enumerate(shape)]
        result = result.reshape(kept if keepdims else [shape[item] for item in left])
        if out is None:
            return result.view(CupyArray)
        out[...] = result
        return out

    def _text(self, types: _ParameterTypes) -> str:
        mapped, reduced, finished = self._expressions
        inputs = [f"const {item.type} *_in_{item.name}" for item in self._inputs]
        reads = " ".join(
            f"const {item.type} {item.name} = _in_{item.name}[(long long)blockIdx.x * _n + i];"
            for item in self._inputs
        )
        output, type = self._output, self._type
        return (
            f"{types.definitions}{self._preamble}\n"
            f"__device__ {type} _reduced({type} a, {type} b) {{ return {reduced}; }}\n"
            f'extern "C" __global__ void {self.name}(long long _n, {", ".join(inputs)},'
            f" {output.type} *_out) {{\n"
            f"  __shared__ {type} _s[256];\n"
            f"  {type} _sum = {type}({self._identity});\n"
            "  for (long long _begin = 0; _begin < _n; _begin += 256) {\n"
            "    long long i = _begin + threadIdx.x;\n"
            f"    if (i < _n) {{ {reads} _sum = _reduced(_sum, {mapped}); }}\n  }}\n"
            "  _s[threadIdx.x] = _sum;\n  __syncthreads();\n"
            "  for (int _k = 128; _k > 0; _k >>= 1) {\n"
            "    if (threadIdx.x < _k)"
            " _s[threadIdx.x] = _reduced(_s[threadIdx.x], _s[threadIdx.x + _k]);\n"
            "    __syncthreads();\n  }\n"
            "  if (threadIdx.x == 0) {\n"
            f"    {type} a = _s[0]; {output.type} &{output.name} = _out[blockIdx.x];\n"
            f"{finished};\n  }}\n}}\n"
        )


def _divided(
    kernel: str,
    arguments: Sequence[Any],
    inputs: Sequence[_KernelParameter],
    outputs: Sequence[_KernelParameter],
) -> tuple[Sequence[Any], Sequence[Any]]:
    """The inputs, and the outputs if they are passed."""
    if len(arguments) not in (len(inputs), len(inputs) + len(outputs)):
        raise LaunchError(
            f"{kernel} takes {len(inputs)} inputs, and may be passed {len(outputs)} outputs, but"
            f" got {len(arguments)} arguments"
        )
    return arguments[: len(inputs)], arguments[len(inputs) :]


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
        "ElementwiseKernel": ElementwiseKernel,
        "RawKernel": RawKernel,
        "RawModule": RawModule,
        "ReductionKernel": ReductionKernel,
        "asnumpy": _asnumpy,
        "cuda": cuda,
        "ndarray": CupyArray,
    }
    module = _NumpyNames("cupy", np, local)
    module.__dict__["get_array_module"] = lambda *arrays: module
    return module
