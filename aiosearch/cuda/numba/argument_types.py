"""The types of Numba's arithmetic: whole numbers have 64 bits, and floats the wider of two.

A signature, `"void(float32[:], int32)"` or the same made of Numba's types, says what arguments are.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import LaunchError, SourceError
from ..frontend.cursors import Held
from ..interpreter.arithmetic import NUMPY
from ..ir.operations import Operand
from ..ir.types import ScalarType

SCALARS = {dtype: scalar for scalar, dtype in NUMPY.items() if scalar is not ScalarType.PTR}


def scalar_of(dtype: Any) -> ScalarType | None:
    """The scalar that a type of NumPy or Numba is; none for what is none."""
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or dtype
    plain = {"int": "int64", "float": "float64", "bool": "bool", "boolean": "bool"}
    try:
        return SCALARS.get(np.dtype(plain.get(str(name), str(name).rstrip("_"))))
    except TypeError:
        return None


def promoted(first: ScalarType, second: ScalarType) -> ScalarType:
    """The type that holds values of both."""
    return SCALARS[np.promote_types(NUMPY[first], NUMPY[second])]


def computed(first: ScalarType, second: ScalarType) -> ScalarType:
    """The type of a sum: whole numbers become at least 64 bits wide."""
    type = promoted(first, second)
    if type.is_float:
        return type
    return ScalarType.U64 if type in (ScalarType.U64,) else ScalarType.I64


@dataclass(frozen=True, slots=True)
class ArrayArgument:
    """An argument that is a contiguous array."""

    element: ScalarType
    dimensions: int

    def __str__(self) -> str:
        return f"{NUMPY[self.element]}[{', '.join(':' * self.dimensions)}]"


@dataclass(frozen=True, slots=True)
class KernelArray:
    """An array in a kernel: where it begins, and its sizes."""

    base: Operand
    element: ScalarType
    shape: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class ArrayVariable:
    """A name that arrays are assigned to; what it holds is where one begins, and its sizes."""

    place: Held
    type: ArrayArgument


@dataclass(frozen=True, slots=True)
class Attribute:
    """A name such as `cuda.atomic.add`, or an attribute of an array, that is called later."""

    path: str
    owner: KernelArray | None = None


class ScalarName:
    """A type of elements, for code that names `numba.float32` where Numba is not installed.

    `float32[:]` is a type of arrays, `void(float32[:])` a signature, and `float32(2)` a number.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.dtype = None if name == "void" else np.dtype(name)

    def __getitem__(self, index: object) -> ArrayArgument:
        return _array_type(self, index if isinstance(index, tuple) else (index,))

    def __call__(self, *arguments: Any) -> Any:
        # As in Numba: called with types it is a signature, and with a number a conversion.
        types = [item for item in arguments if isinstance(item, ScalarName | ArrayArgument)]
        if self.dtype is None or types:
            return Signature(tuple(map(_argument_type, arguments)), _result_type(self))
        return self.dtype.type(*arguments)


@dataclass(frozen=True, slots=True)
class Signature:
    """The types of a function's arguments, and of its result if one is named."""

    parameters: tuple[ScalarType | ArrayArgument, ...]
    result: ScalarType | None = None

    def misfit(self, names: Sequence[str], arguments: Sequence[object]) -> str:
        """Why arguments are none of this signature's, or nothing."""
        if len(arguments) != len(self.parameters):
            return f"it takes {len(self.parameters)} arguments, not {len(arguments)}"
        for name, type, value in zip(names, self.parameters, arguments, strict=True):
            if isinstance(type, ArrayArgument):
                actual = array_type_of(value)
                if actual is None:
                    return f"{name} is {type}, and the argument no array but {value!r}"
                if actual != type:
                    return f"{name} is {type}, and the argument {actual}: convert it"
            elif getattr(value, "shape", ()):
                return f"{name} is {NUMPY[type]}, and the argument an array"
            elif not _holds(type, value):
                return f"{name} is {NUMPY[type]}, which does not hold {value!r}: convert it"
        return ""


def array_type_of(argument: object) -> ArrayArgument | None:
    """The type of an array; none for what is none. Raises LaunchError for unsupported elements."""
    shape = getattr(argument, "shape", ())
    if not shape:
        return None
    dtype = getattr(argument, "dtype", None)
    element = None if dtype is None else SCALARS.get(np.dtype(dtype))
    if element is None:
        raise LaunchError(f"an array of {dtype} is no argument of a kernel")
    return ArrayArgument(element, len(shape))


def _holds(type: ScalarType, value: object) -> bool:
    """Whether a number can be passed as a type: floats take all, whole numbers those in range."""
    # Python's numbers, those of NumPy and arrays without axes are all asked in the same way.
    kind = np.asarray(value).dtype.kind
    if type.is_float:
        return kind in "fiub"
    if kind not in "iub":
        return False
    if type is ScalarType.BOOL:
        return kind == "b"
    limits = np.iinfo(NUMPY[type])
    return bool(limits.min <= int(np.asarray(value).item()) <= limits.max)


def signatures_of(supplied: object, name: str) -> tuple[Signature, ...]:
    """The signatures that `jit` of a function of this name was given; none for none.

    Raises SourceError for what is no signature.
    """
    # A tuple is one signature without a result; only a list is several.
    listed = supplied if isinstance(supplied, list) else [] if supplied is None else [supplied]
    try:
        return tuple(map(_signature, listed))
    except (SourceError, SyntaxError) as error:
        raise SourceError(
            f"the signature {supplied!r} of {name} is not understood: {error}"
        ) from None


def _signature(supplied: Any) -> Signature:
    if isinstance(supplied, Signature):
        return supplied
    if isinstance(supplied, str):
        return _parsed(ast.parse(supplied.strip(), mode="eval").body)
    if isinstance(supplied, tuple):
        return Signature(tuple(map(_argument_type, supplied)))
    # Numba's own, where it is installed: known by what they have, so that it need not be imported.
    if hasattr(supplied, "args") and hasattr(supplied, "return_type"):
        return Signature(
            tuple(map(_argument_type, supplied.args)), _result_type(supplied.return_type)
        )
    raise SourceError('it has to be text such as "void(float32[:], int32)", or such types')


def _parsed(tree: ast.expr) -> Signature:
    match tree:
        case ast.Call(func=ast.Name(id=result), args=arguments, keywords=[]):
            types = tuple(map(_parsed_type, arguments))
            return Signature(types, None if result in ("void", "none") else _scalar(result))
        case ast.Tuple(elts=arguments):
            return Signature(tuple(map(_parsed_type, arguments)))
        case _:
            return Signature((_parsed_type(tree),))


def _parsed_type(tree: ast.expr) -> ScalarType | ArrayArgument:
    match tree:
        case ast.Name(id=name):
            return _scalar(name)
        case ast.Subscript(value=ast.Name(id=name), slice=index):
            items = index.elts if isinstance(index, ast.Tuple) else [index]
            return _array_type(name, [_slice(item) for item in items])
        case _:
            raise SourceError(f"{ast.unparse(tree)} is no type of an argument")


def _slice(tree: ast.expr) -> object:
    """A slice as Python has it, of text such as `:` or `::1`; what is none as it is."""
    if not isinstance(tree, ast.Slice):
        return tree
    step = tree.step.value if isinstance(tree.step, ast.Constant) else tree.step
    return slice(tree.lower, tree.upper, step)


def _array_type(element: object, indices: Sequence[object]) -> ArrayArgument:
    """`float32[:, ::1]`: an index for each dimension, of which the last may say contiguous."""
    *outer, last = indices
    if any(item != slice(None) for item in outer) or last not in (
        slice(None),
        slice(None, None, 1),
    ):
        raise SourceError("arrays are contiguous, row by row: [:], [:, :] or [:, ::1]")
    return ArrayArgument(_scalar(element), len(indices))


def _argument_type(value: Any) -> ScalarType | ArrayArgument:
    """A type of Numba's, or of our own in its place."""
    if isinstance(value, ArrayArgument):
        return value
    if getattr(value, "ndim", 0):
        # `float32[:]` of Numba's has the layout A, any: it is asked when an array is passed.
        if getattr(value, "layout", "C") == "F":
            raise SourceError("arrays are contiguous, row by row")
        return ArrayArgument(_scalar(value.dtype), value.ndim)
    return _scalar(value)


def _result_type(value: Any) -> ScalarType | None:
    return None if getattr(value, "name", "none") in ("none", "void") else _scalar(value)


def _scalar(value: object) -> ScalarType:
    type = scalar_of(value)
    if type is None:
        raise SourceError(f"{value} is no type of numbers that kernels have")
    return type
