"""CUDA kernels as functions of JAX arrays, inside of `jax.jit` or not, called by XLA.

A kernel writes into its arrays, and JAX's arrays never change: so each array that the kernel may
write to is an input and an output that XLA is told to keep in one place. XLA copies it where the
old value is still used, and does not where it is not.

    scale = aiosearch.cuda.jit(module.scale)
    y = jax.jit(lambda x: scale[4, 256](x, 2.0))(x)

What XLA calls is a program of one phase, whose blocks are those of the grid. Its function builds
the words that the kernel takes, from XLA's pointers and from numbers that are known already:

    void @cuda.scale.0(ptr buffers, ptr scratch, i64 begin, i64 end)
      words = { buffers[0], 2.0, grid }
      @scale(words, scratch, begin, end)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import jax
import numpy as np

from .compiled import backend
from .compiled.lowering import lowered
from .errors import LaunchError
from .interpreter.arithmetic import NUMPY, Array
from .ir.operations import Atomic, CallOperation, ParallelFunction, Parameter, Store, walk
from .ir.types import ScalarType
from .launches import Dims, check_element, flattened, launch_shape, scalar_of, words
from .modules import CudaKernel
from .passes.effects import Definitions

JaxArray: TypeAlias = Any
"""An array of JAX, or a tracer of one."""


class TypedKernel(Protocol):
    """A kernel that may depend on the types of its arguments, as one in Python does."""

    def bound(self, arguments: Sequence[object]) -> tuple[CudaKernel, list[object]]:
        """The kernel for these arguments, and what it is passed for them."""
        ...


def jit(kernel: TypedKernel) -> JaxKernel:
    """A kernel as a function of JAX arrays: `jit(kernel)[grid, block](arguments)`.

    It gives the arrays that the kernel writes to, in their order: one as it is, several as a tuple.
    A `jax.ShapeDtypeStruct` stands for an array of zeros that is only written. Numbers are compiled
    in; a scalar array is passed when the kernel runs. JAX cannot differentiate it, and `jax.vmap`
    runs it once for each element.
    """
    if not hasattr(kernel, "bound"):
        raise LaunchError(
            f"jit takes a kernel, and {kernel!r} is none: write jit(kernel)[grid, block](...)"
        )
    return JaxKernel(kernel)


class JaxKernel:
    """A kernel whose launches take JAX arrays and give new ones."""

    def __init__(self, kernel: TypedKernel) -> None:
        self._kernel = kernel

    def __getitem__(self, shape: Any) -> JaxLaunch:
        return JaxLaunch(self._kernel, *launch_shape(shape, "jit(kernel)"))

    def __call__(self, *arguments: object) -> JaxArray:
        raise LaunchError("a kernel is launched as jit(kernel)[grid, block](...)")


@dataclass(frozen=True, slots=True)
class JaxLaunch:
    """A kernel with a shape, as a function of JAX arrays."""

    kernel: TypedKernel
    grid: Dims
    block: Dims
    shared: int

    def __call__(self, *arguments: object) -> JaxArray | tuple[JaxArray, ...]:
        kernel, values = self.kernel.bound(arguments)
        function = kernel.function
        _check_callable(function)
        symbols = kernel.module.symbols.of(function)
        call = _Arguments(function, flattened(function, values), symbols)
        choices = kernel.tuned.get(self.block, kernel.module.choices)
        low = lowered(function, self.block, choices.for_grid(self.grid))
        grid = (self.grid[0] // low.blocks, *self.grid[1:])
        blocks = grid[0] * grid[1] * grid[2]
        target = backend.registered(
            f"cuda.{low.emitted.name}",
            low.emitted.text,
            call.wrapper(low.emitted.name, grid),
            ([_plain(item) for item in call.operands], [_plain(item) for item in call.written]),
            (blocks, low.emitted.scratch + self.shared),
        )
        results = [
            jax.ShapeDtypeStruct(item.shape, item.dtype)  # type: ignore[no-untyped-call]  # jax's
            for item in map(_as_passed, call.written)
        ]
        places = [_place(call.operands, item) for item in call.written]
        run = jax.ffi.ffi_call(
            target,
            results,
            vmap_method="sequential",
            input_output_aliases={place: number for number, place in enumerate(places)},
        )
        outputs = run(*map(_as_passed, call.operands))
        restored = tuple(
            _as_before(output, item.dtype)
            for output, item in zip(outputs, call.written, strict=True)
        )
        return restored[0] if len(restored) == 1 else restored


class _Arguments:
    """The arguments of a call: which are XLA's operands, and which numbers are compiled in."""

    def __init__(
        self, function: ParallelFunction, values: Sequence[object], symbols: dict[str, Array]
    ) -> None:
        self._function = function
        self.operands: list[JaxArray] = []
        self.written: list[JaxArray] = []
        self._constants: list[int | float | bool] = []
        self._operand_of: dict[int, int] = {}
        """The operand in the place of a word."""
        writes = written_roots(function)
        for place, (parameter, value) in enumerate(zip(function.parameters, values, strict=True)):
            self._constants.append(self._argument(place, parameter, value, writes))
        for place, symbol in enumerate(function.symbols, len(function.parameters)):
            if symbol.value in writes:
                raise LaunchError(
                    f"{function.name} writes to the variable {symbol.name}, which JAX does not"
                    " know: make it an argument"
                )
            self._add(place, jax.numpy.asarray(symbols[symbol.name]))

    def wrapper(self, kernel: str, grid: Dims) -> str:
        """The body of what XLA calls, as LLVM IR."""
        names = {symbol.name: 0 for symbol in self._function.symbols}
        block = words(self._function, self._constants, names, grid, 0)
        return "\n".join(self._lines(kernel, [int(word) for word in block]))

    def _lines(self, kernel: str, constants: list[int]) -> Iterator[str]:
        yield f"  %words = alloca [{len(constants)} x i64], align 64"
        for place, constant in enumerate(constants):
            yield f"  %word.{place} = getelementptr i64, ptr %words, i64 {place}"
            operand = self._operand_of.get(place)
            if operand is None:
                yield f"  store i64 {constant}, ptr %word.{place}"
                continue
            yield f"  %at.{place} = getelementptr ptr, ptr %buffers, i64 {operand}"
            yield f"  %pointer.{place} = load ptr, ptr %at.{place}"
            if place < len(self._function.parameters):
                type = self._function.parameters[place].value.type
                if type is not ScalarType.PTR:
                    bits = f"i{8 * type.size}"
                    yield f"  %bits.{place} = load {bits}, ptr %pointer.{place}"
                    yield f"  store {bits} %bits.{place}, ptr %word.{place}"
                    continue
            yield f"  store ptr %pointer.{place}, ptr %word.{place}"
        yield f"  call void @{kernel}(ptr %words, ptr %scratch, i64 %begin, i64 %end)"

    def _argument(
        self, place: int, parameter: Parameter, value: object, writes: set[object]
    ) -> int | float | bool:
        name, type = self._function.name, parameter.value.type
        if type is not ScalarType.PTR:
            if not isinstance(value, jax.Array):
                return scalar_of(parameter, value, name)
            self._add(place, _scalar(value, parameter, name))
            return 0
        if value is None:
            return 0
        writable = not parameter.const and (parameter.value in writes or None in writes)
        if isinstance(value, jax.ShapeDtypeStruct):
            if not writable:
                raise LaunchError(
                    f"{name}: {parameter.name} is only read, so it takes an array, not {value}"
                )
            value = jax.numpy.zeros(value.shape, value.dtype)
        if not hasattr(value, "__array__"):
            raise LaunchError(
                f"{name}: {parameter.name} is a pointer, so it takes an array, not {value!r}"
            )
        array = jax.numpy.asarray(value)
        check_element(parameter, array.dtype, name)
        self._add(place, array)
        if writable:
            self.written.append(array)
        return 0

    def _add(self, place: int, array: JaxArray) -> None:
        self._operand_of[place] = len(self.operands)
        self.operands.append(array)


def written_roots(function: ParallelFunction) -> set[object]:
    """The parameters and variables that a kernel writes to; none among them means any of them."""
    definitions = Definitions(function)
    return {
        definitions.root(operation.address.base)
        for operation in walk(function.body)
        if isinstance(operation, Store | Atomic)
    }


def _check_callable(function: ParallelFunction) -> None:
    """Refuses what has nobody to tell when XLA runs the kernel."""
    for operation in walk(function.body):
        if isinstance(operation, CallOperation) and operation.name == "assert":
            raise LaunchError(
                f"{operation.at}: an assertion cannot fail inside of jax.jit; load the text with"
                ' defines=["NDEBUG"], or launch the kernel on arrays of NumPy'
            )


def _place(operands: Sequence[JaxArray], array: JaxArray) -> int:
    return next(place for place, item in enumerate(operands) if item is array)


def _scalar(value: JaxArray, parameter: Parameter, kernel: str) -> JaxArray:
    """A number that is known when the kernel runs, in the type of its parameter."""
    type = parameter.value.type
    dtype = NUMPY[type]
    if value.shape:
        raise LaunchError(f"{kernel}: {parameter.name} is {type}, and cannot be {value}")
    if np.issubdtype(value.dtype, np.floating) and not type.is_float:
        raise LaunchError(
            f"{kernel}: {parameter.name} is {type}, and cannot be a {value.dtype}: round it first"
        )
    converted = value.astype(dtype)
    if converted.dtype != dtype:
        raise LaunchError(
            f"{kernel}: {parameter.name} is {type}, which JAX has only with jax_enable_x64; without"
            " it, pass a number of Python"
        )
    return converted


def _as_passed(array: JaxArray) -> JaxArray:
    """The same bytes in a type that programs have: other whole numbers as i32, or as bytes."""
    carrier = backend.carrier(array.dtype)
    if carrier == array.dtype:
        return array
    return jax.lax.bitcast_convert_type(array, carrier)


def _as_before(array: JaxArray, dtype: Any) -> JaxArray:
    return array if array.dtype == dtype else jax.lax.bitcast_convert_type(array, dtype)


def _plain(array: JaxArray) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Type and shape of an operand as it is passed."""
    carrier = backend.carrier(array.dtype)
    several = array.dtype.itemsize // carrier.itemsize
    return carrier, (*array.shape, several) if several > 1 else array.shape
