"""The types of Numba's arithmetic: whole numbers have 64 bits, and floats the wider of two."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

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
