"""The types of Numba's arithmetic: whole numbers have 64 bits, and floats the wider of two."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..interpreter.arithmetic import NUMPY
from ..ir.types import Scalar

SCALARS = {dtype: scalar for scalar, dtype in NUMPY.items() if scalar is not Scalar.PTR}


def scalar_of(dtype: Any) -> Scalar | None:
    """The scalar that a type of NumPy or Numba is; none for what is none."""
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or dtype
    plain = {"int": "int64", "float": "float64", "bool": "bool", "boolean": "bool"}
    try:
        return SCALARS.get(np.dtype(plain.get(str(name), str(name).rstrip("_"))))
    except TypeError:
        return None


def promoted(one: Scalar, other: Scalar) -> Scalar:
    """The type that holds values of both."""
    return SCALARS[np.promote_types(NUMPY[one], NUMPY[other])]


def computed(one: Scalar, other: Scalar) -> Scalar:
    """The type of a sum: whole numbers become at least 64 bits wide."""
    type = promoted(one, other)
    if type.is_float:
        return type
    return Scalar.U64 if type in (Scalar.U64,) else Scalar.I64
