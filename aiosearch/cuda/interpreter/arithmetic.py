"""What each pure operation means, on arrays of NumPy: an element for each thread."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from ..ir.operations import Constant
from ..ir.types import Scalar

Array: TypeAlias = np.ndarray[Any, Any]

NUMPY: dict[Scalar, np.dtype[Any]] = {
    Scalar.BOOL: np.dtype(np.bool_),
    Scalar.I8: np.dtype(np.int8),
    Scalar.U8: np.dtype(np.uint8),
    Scalar.I16: np.dtype(np.int16),
    Scalar.U16: np.dtype(np.uint16),
    Scalar.I32: np.dtype(np.int32),
    Scalar.U32: np.dtype(np.uint32),
    Scalar.I64: np.dtype(np.int64),
    Scalar.U64: np.dtype(np.uint64),
    Scalar.F16: np.dtype(np.float16),
    Scalar.F32: np.dtype(np.float32),
    Scalar.F64: np.dtype(np.float64),
    Scalar.PTR: np.dtype(np.int64),
}


def array(constant: Constant) -> Array:
    """The constant as a scalar of NumPy, wrapped into its type as C does."""
    dtype = NUMPY[constant.type]
    value = constant.value
    if constant.type.is_integer or constant.type is Scalar.PTR:
        bits = 8 * dtype.itemsize
        whole = int(value) & ((1 << bits) - 1)
        if dtype.kind == "i" and whole >> (bits - 1):
            whole -= 1 << bits
        value = whole
    with np.errstate(all="ignore"):
        return np.asarray(value, dtype)


def apply(name: str, type: Scalar, operands: Sequence[Array]) -> Array:
    """Computes an operation whose result has a type; raises KeyError for one that there is not."""
    with np.errstate(all="ignore"):
        if name == "cast":
            return cast(operands[0], type)
        if name == "bitcast":
            return np.ascontiguousarray(operands[0]).view(NUMPY[type])
        result = _OPERATIONS[name](*operands)
        return np.asarray(result).astype(NUMPY[type], copy=False)


def cast(value: Array, type: Scalar) -> Array:
    """Floats become whole numbers towards zero, held within the type's range, as on a GPU."""
    dtype = NUMPY[type]
    if value.dtype.kind == "f" and dtype.kind in "iu":
        info = np.iinfo(dtype)
        wide = np.where(np.isnan(value), 0, value).astype(np.float64)
        inside = np.clip(wide, float(info.min), float(info.max))
        top = float(2**63) if dtype.kind == "i" else float(2**64)
        safe = np.where(inside >= top, 0, inside).astype(dtype)
        return np.where(inside >= float(info.max), info.max, safe).astype(dtype)
    return value.astype(dtype, copy=False)


def _divide(one: Array, other: Array) -> Array:
    """Whole numbers go towards zero; a zero below gives zero, which C leaves open."""
    if one.dtype.kind == "f":
        return np.asarray(one / other)
    divisor = np.where(other == 0, 1, other).astype(other.dtype)
    quotient = np.floor_divide(one, divisor)
    if one.dtype.kind == "i":
        inexact = (quotient * divisor != one) & ((one < 0) ^ (divisor < 0))
        quotient = quotient + inexact.astype(one.dtype)
    return np.where(other == 0, 0, quotient).astype(one.dtype)


def _remainder(one: Array, other: Array) -> Array:
    if one.dtype.kind == "f":
        return np.fmod(one, other)
    return np.asarray(one - _divide(one, other) * other)


def _shifted(shift: Callable[..., Any]) -> Callable[[Array, Array], Array]:
    """Counts are taken modulo the width, which keeps what C leaves open the same everywhere."""

    def apply_shift(one: Array, other: Array) -> Array:
        count = (other.astype(np.int64) & (8 * one.dtype.itemsize - 1)).astype(one.dtype)
        return np.asarray(shift(one, count))

    return apply_shift


def _bits(one: Array) -> Array:
    unsigned = np.dtype(f"u{one.dtype.itemsize}")
    return one.astype(unsigned)


def _population(one: Array) -> Array:
    return np.bitwise_count(_bits(one))


def _leading_zeros(one: Array) -> Array:
    width = 8 * one.dtype.itemsize
    rest, count = _bits(one).astype(np.uint64), np.full(np.shape(one), width, np.int64)
    for _ in range(width):
        count = count - (rest > 0)
        rest = rest >> np.uint64(1)
    return np.asarray(count)


def _lowest_set(one: Array) -> Array:
    """The position of the lowest bit that is set, counted from one; zero where there is none."""
    bits = _bits(one)
    alone = bits & (~bits + bits.dtype.type(1))
    return np.where(bits == 0, 0, 8 * one.dtype.itemsize - _leading_zeros(alone))


def _reversed_bits(one: Array) -> Array:
    width, bits = 8 * one.dtype.itemsize, _bits(one)
    unit, result = bits.dtype.type(1), np.zeros_like(bits)
    for place in range(width):
        low = (bits >> bits.dtype.type(place)) & unit
        result = result | (low << bits.dtype.type(width - 1 - place))
    return result


def _high_product(one: Array, other: Array) -> Array:
    width = 8 * one.dtype.itemsize
    if width == 64:
        wide = [int(a) * int(b) >> 64 for a, b in np.broadcast(one, other)]
        return np.array(wide, dtype=object).reshape(np.broadcast(one, other).shape)
    kind = np.int64 if one.dtype.kind == "i" else np.uint64
    return np.asarray((one.astype(kind) * other.astype(kind)) >> kind(width))


def _fma(one: Array, other: Array, plus: Array) -> Array:
    """Rounded once: exact through the next wider type, but for doubles, which round twice."""
    if one.dtype == np.float64:
        exact = np.longdouble(one) * np.longdouble(other) + np.longdouble(plus)
        return np.asarray(exact).astype(np.float64)
    wide = one.astype(np.float64) * other.astype(np.float64) + plus.astype(np.float64)
    return np.asarray(wide).astype(one.dtype)


def _each(function: Callable[[float], float]) -> Callable[[Array], Array]:
    """A function of Python's, for what NumPy lacks."""

    def safe(value: float) -> float:
        try:
            return function(value)
        except ValueError:
            return math.nan
        except OverflowError:
            return math.inf

    lifted = np.vectorize(safe, otypes=[np.float64])

    def on_arrays(value: Array) -> Array:
        return np.asarray(lifted(value.astype(np.float64))).astype(value.dtype)

    return on_arrays


def _wide(function: Callable[..., Any]) -> Callable[..., Array]:
    """Computed in 64 bits and rounded once, which gives the nearest float almost always."""

    def on_arrays(*values: Array) -> Array:
        return np.asarray(function(*(each.astype(np.float64) for each in values))).astype(
            values[0].dtype
        )

    return on_arrays


def _minimum(one: Array, other: Array) -> Array:
    return np.fmin(one, other) if one.dtype.kind == "f" else np.minimum(one, other)


def _maximum(one: Array, other: Array) -> Array:
    return np.fmax(one, other) if one.dtype.kind == "f" else np.maximum(one, other)


_OPERATIONS: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": _divide,
    "rem": _remainder,
    "neg": np.negative,
    "not": np.invert,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "shl": _shifted(np.left_shift),
    "shr": _shifted(np.right_shift),
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "min": _minimum,
    "max": _maximum,
    "select": np.where,
    "ptradd": np.add,
    "fma": _fma,
    "mulhi": _high_product,
    "popc": _population,
    "clz": _leading_zeros,
    "ffs": _lowest_set,
    "brev": _reversed_bits,
    "abs": np.abs,
    "sqrt": np.sqrt,
    "rsqrt": _wide(lambda x: 1.0 / np.sqrt(x)),
    "cbrt": _wide(np.cbrt),
    "exp": _wide(np.exp),
    "exp2": _wide(np.exp2),
    "exp10": _wide(lambda x: np.power(10.0, x)),
    "expm1": _wide(np.expm1),
    "log": _wide(np.log),
    "log2": _wide(np.log2),
    "log10": _wide(np.log10),
    "log1p": _wide(np.log1p),
    "sin": _wide(np.sin),
    "cos": _wide(np.cos),
    "tan": _wide(np.tan),
    "asin": _wide(np.arcsin),
    "acos": _wide(np.arccos),
    "atan": _wide(np.arctan),
    "atan2": _wide(np.arctan2),
    "sinh": _wide(np.sinh),
    "cosh": _wide(np.cosh),
    "tanh": _wide(np.tanh),
    "asinh": _wide(np.arcsinh),
    "acosh": _wide(np.arccosh),
    "atanh": _wide(np.arctanh),
    "pow": _wide(np.power),
    "hypot": _wide(np.hypot),
    "erf": _each(math.erf),
    "erfc": _each(math.erfc),
    "lgamma": _each(math.lgamma),
    "tgamma": _each(math.gamma),
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "rint": np.rint,
    "round": lambda x: np.trunc(
        x + np.copysign(np.nextafter(x.dtype.type(0.5), x.dtype.type(0)), x)
    ),
    "copysign": np.copysign,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
}
