"""A launch: what is between a call with arrays and the words that a kernel takes."""

from __future__ import annotations

import functools
import struct
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from .errors import CudaError, LaunchError
from .interpreter.arithmetic import NUMPY, Array
from .ir.operations import ParallelFunction, Parameter
from .ir.types import ScalarType

Dims: TypeAlias = tuple[int, int, int]
_MOST_THREADS = 1024
_MOST_IN_DIMENSION = (1 << 31) - 1
_MOST_SHARED = 1 << 20


def launch_shape(shape: object, name: str) -> tuple[Dims, Dims, int]:
    """Grid, block and bytes of dynamic shared memory of what stands in `kernel[...]`."""
    supplied = shape if isinstance(shape, tuple) else (shape,)
    if len(supplied) not in (2, 3):
        raise LaunchError(
            f"{name} is launched as {name}[grid, block](...), with the bytes of dynamic shared"
            f" memory as a third number and no stream, not with {len(supplied)} numbers"
        )
    shared = supplied[2] if len(supplied) > 2 else 0
    if isinstance(shared, bool) or not isinstance(shared, int | np.integer):
        raise LaunchError(f"the bytes of shared memory have to be a whole number, not {shared!r}")
    grid, block = dims(supplied[0], "the grid"), dims(supplied[1], "the block")
    check_shape(grid, block, int(shared))
    return grid, block, int(shared)


def dims(value: object, name: str) -> Dims:
    """Three sizes, of which the last may be left out."""
    supplied = tuple(value) if isinstance(value, tuple | list | np.ndarray) else (value,)
    sizes = [int(entry) for entry in supplied if isinstance(entry, int | np.integer)]
    if not 1 <= len(sizes) <= 3 or len(sizes) < len(supplied):
        raise LaunchError(f"{name} has to be one to three whole numbers, not {value!r}")
    if any(entry < 1 for entry in sizes):
        raise LaunchError(f"{name} has to be positive, not {value!r}")
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


def check_shape(grid: Dims, block: Dims, shared: int) -> None:
    """Raises LaunchError for a shape that no GPU takes."""
    if block[0] * block[1] * block[2] > _MOST_THREADS:
        raise LaunchError(f"a block has at most {_MOST_THREADS} threads, not {block}")
    for axis, first, second in zip("xyz", grid, block, strict=True):
        if first * second > _MOST_IN_DIMENSION:
            raise LaunchError(f"{first} blocks of {second} threads are too many along {axis}")
    if not 0 <= shared <= _MOST_SHARED:
        raise LaunchError(
            f"dynamic shared memory is of 0 to {_MOST_SHARED} bytes, and cannot be of {shared}"
        )


def flattened(function: ParallelFunction, arguments: Sequence[object]) -> list[object]:
    """One argument for each parameter of the IR: structs, given as tuples, are taken apart."""
    listed: list[object] = []
    for argument in arguments:
        if isinstance(argument, tuple | list):
            listed += argument
        elif isinstance(argument, np.void):
            listed += argument.tolist()
        else:
            listed.append(argument)
    if len(listed) != len(function.parameters):
        names = ", ".join(entry.name for entry in function.parameters)
        apart = ", tuples and lists taken apart as structs" if len(listed) > len(arguments) else ""
        raise LaunchError(
            f"{function.name} takes {len(function.parameters)} arguments ({names}),"
            f" not {len(listed)}{apart}"
        )
    return listed


def array_of(parameter: Parameter, value: object, kernel: str) -> Array:
    """The array that a pointer parameter is given, checked for its type and its layout."""
    if not isinstance(value, np.ndarray) and parameter.const and hasattr(value, "__array__"):
        value = np.asarray(value)  # of JAX, say: without a copy on a CPU, and only to be read
    if not isinstance(value, np.ndarray):
        if hasattr(value, "__array__"):
            raise LaunchError(
                f"{kernel}: the kernel may write to {parameter.name}, so it takes an array of"
                " NumPy; a pointer to const takes others, too"
            )
        raise LaunchError(
            f"{kernel}: {parameter.name} is a pointer, so it takes an array, not {value!r}"
        )
    if not value.flags.c_contiguous:
        raise LaunchError(f"{kernel}: the array {parameter.name} is not contiguous")
    if not parameter.const and not value.flags.writeable:
        raise LaunchError(f"{kernel}: the array {parameter.name} is read-only")
    check_element(parameter, value.dtype, kernel)
    return value


def check_element(parameter: Parameter, dtype: np.dtype[Any], kernel: str) -> None:
    """Raises LaunchError for an array of another type than a pointer's, up to the sign."""
    if parameter.element is None or dtype.names is not None:
        return
    required = NUMPY[parameter.element]
    whole = dtype.kind in "iub" and required.kind in "iub"
    if dtype != required and not (whole and dtype.itemsize == required.itemsize):
        raise LaunchError(
            f"{kernel}: {parameter.name} points to {parameter.element}, and the array is {dtype}"
        )


def scalar_of(parameter: Parameter, value: object, kernel: str) -> int | float | bool:
    """The number that a parameter is given."""
    type = parameter.value.type
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    refusal = f"{kernel}: {parameter.name} is {type}, and cannot be {value!r}"
    if not isinstance(value, int | float | np.bool_ | np.integer | np.floating):
        raise LaunchError(refusal)
    if type.is_float:
        try:
            return float(value)
        except OverflowError:
            raise LaunchError(refusal) from None
    if type is ScalarType.BOOL:
        return bool(value)
    if isinstance(value, float | np.floating) and not value.is_integer():
        raise LaunchError(refusal)
    # A mask may be written without its sign, and -1 stand for the largest number, as in C.
    if not -(1 << 8 * type.size - 1) <= int(value) < 1 << 8 * type.size:
        raise LaunchError(f"{refusal}, which has more than {8 * type.size} bits")
    return int(value)


def word_packing(function: ParallelFunction) -> WordPacking:
    """How a kernel takes its arguments: parameters, symbols, the grid, and where failures go."""
    types = [item.value.type for item in function.parameters]
    types += [ScalarType.PTR] * len(function.symbols) + [ScalarType.I64] * 3 + [ScalarType.PTR]
    return _packing(tuple(types))


def words(
    function: ParallelFunction,
    addresses: Sequence[int | float | bool],
    symbols: Mapping[str, int],
    grid: Dims,
    failure: int,
) -> Array:
    """The arguments as the compiled kernel takes them: eight bytes each."""
    listed = [*addresses, *(symbols[symbol.name] for symbol in function.symbols), *grid, failure]
    return word_packing(function).packed(listed)


def packed(types: Sequence[ScalarType], values: Sequence[int | float | bool]) -> Array:
    """Values of these `types` as compiled code takes them: eight bytes each."""
    return _packing(tuple(types)).packed(values)


class WordPacking:
    """How values of some types become words of eight bytes."""

    def __init__(self, types: Sequence[ScalarType]) -> None:
        formats = (_FORMATS.get(item) or _WHOLE[item.size] for item in types)
        self._struct = struct.Struct("=" + "".join(formats))
        # `struct` refuses numbers that are too large or have a sign where C would convert them.
        self._masks = [
            (place, (1 << 8 * type.size) - 1) for place, type in enumerate(types) if type.is_integer
        ]
        self._floats = [
            (place, NUMPY[type])
            for place, type in enumerate(types)
            if type in (ScalarType.F16, ScalarType.F32)
        ]

    def packed(self, values: Sequence[int | float | bool]) -> Array:
        """The words of these values."""
        array = np.empty(self._struct.size // 8, np.int64)
        self.put(array, list(values))
        return array

    def put(self, array: Array, values: list[int | float | bool]) -> None:
        """Writes the words to where an array begins; the list is used up."""
        for place, mask in self._masks:
            values[place] = int(values[place]) & mask
        for place, dtype in self._floats:
            # What is too large is infinite.
            if not -_LARGE < values[place] < _LARGE:
                values[place] = float(dtype.type(values[place]))
        self._struct.pack_into(array.data, 0, *values)


_FORMATS = {
    ScalarType.BOOL: "?7x", ScalarType.F16: "e6x", ScalarType.F32: "f4x", ScalarType.F64: "d",
    ScalarType.PTR: "Q",
}  # fmt: skip
_WHOLE = {1: "B7x", 2: "H6x", 4: "I4x", 8: "Q"}


_LARGE = 65504.0
"""The largest half; below it, every number has a nearest one in all types."""


@functools.cache
def _packing(types: tuple[ScalarType, ...]) -> WordPacking:
    return WordPacking(types)


class Symbols:
    """The `__constant__` and `__device__` variables of a module, each an array of bytes."""

    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}

    def of(self, function: ParallelFunction) -> dict[str, Array]:
        """Those that a function uses, made where they are not there yet."""
        for symbol in function.symbols:
            if symbol.name not in self.arrays:
                data = np.zeros(-(-symbol.size // 8), np.float64).view(np.uint8)[: symbol.size]
                if symbol.initial is not None:
                    values = np.array(symbol.initial, NUMPY[symbol.element]).view(np.uint8)
                    data[: values.size] = values
                self.arrays[symbol.name] = data
        return {entry.name: self.arrays[entry.name] for entry in function.symbols}


__all__ = [
    "Array",
    "CudaError",
    "Symbols",
    "WordPacking",
    "array_of",
    "check_element",
    "check_shape",
    "dims",
    "flattened",
    "launch_shape",
    "packed",
    "scalar_of",
    "word_packing",
    "words",
]
