"""What each pure operation means, on arrays of NumPy: an element for each thread."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from ..ir.operations import ConstantOperand
from ..ir.types import ScalarType

Array: TypeAlias = np.ndarray[Any, Any]

Number: TypeAlias = int | float | bool

Operation: TypeAlias = Callable[..., Any]
"""A ufunc or a function like one: arrays in, an array out."""

NUMPY: dict[ScalarType, np.dtype] = {
    ScalarType.BOOL: np.dtype(np.bool_),
    ScalarType.I8: np.dtype(np.int8),
    ScalarType.U8: np.dtype(np.uint8),
    ScalarType.I16: np.dtype(np.int16),
    ScalarType.U16: np.dtype(np.uint16),
    ScalarType.I32: np.dtype(np.int32),
    ScalarType.U32: np.dtype(np.uint32),
    ScalarType.I64: np.dtype(np.int64),
    ScalarType.U64: np.dtype(np.uint64),
    ScalarType.F16: np.dtype(np.float16),
    ScalarType.F32: np.dtype(np.float32),
    ScalarType.F64: np.dtype(np.float64),
    ScalarType.PTR: np.dtype(np.int64),
}


def array(constant: ConstantOperand) -> Array:
    """The constant as a scalar of NumPy, wrapped into its type as C does."""
    dtype = NUMPY[constant.type]
    value = constant.value
    if constant.type.is_integer or constant.type is ScalarType.PTR:
        bits = 8 * dtype.itemsize
        whole = int(value) & ((1 << bits) - 1)
        if dtype.kind == "i" and whole >> (bits - 1):
            whole -= 1 << bits
        value = whole
    with np.errstate(all="ignore"):
        return np.asarray(value, dtype)


def apply(name: str, type: ScalarType, operands: Sequence[Array]) -> Array:
    """Computes an operation whose result has a type; raises KeyError for one that there is not."""
    with np.errstate(all="ignore"):
        if name == "cast":
            return cast(operands[0], type)
        if name == "bitcast":
            return np.ascontiguousarray(operands[0]).view(NUMPY[type])
        result = _OPERATIONS[name](*operands)
        return np.asarray(result).astype(NUMPY[type], copy=False)


def cast(value: Array, type: ScalarType) -> Array:
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


def scalar(name: str, type: ScalarType, operands: Sequence[ScalarType]) -> Callable[..., Number]:
    """An operation on numbers of Python, for code of which there is one thread.

    What host code does all the time, whole numbers and comparisons, takes a twentieth of what it
    takes on arrays of one element; everything else is done on those.
    """
    if name in _COMPARISONS:
        return _COMPARISONS[name]
    if name == "select":
        return lambda condition, left, right: left if condition else right
    if type.is_integer or type is ScalarType.PTR:
        if name in _WHOLE and all(item is type or name == "ptradd" for item in operands):
            return _wrapped(_WHOLE[name], type)
        if name == "cast" and not operands[0].is_float:
            return _wrapped(int, type)
    if type is ScalarType.BOOL and name in _LOGICAL:
        return _LOGICAL[name]
    dtypes = [NUMPY[item] for item in operands]

    def on_arrays(*values: Number) -> Number:
        arrays = [np.asarray(value, dtype) for value, dtype in zip(values, dtypes, strict=True)]
        result: Number = apply(name, type, arrays).item()
        return result

    return on_arrays


def _wrapped(function: Callable[..., int], type: ScalarType) -> Callable[..., int]:
    """The function, with results within the type's range as C wraps them."""
    bits = 8 * type.size
    # An address has a sign in memory, as NumPy's int64 has.
    half = 1 << (bits - 1) if type.is_signed or type is ScalarType.PTR else 0
    mask = (1 << bits) - 1

    def within(*values: int) -> int:
        return ((function(*values) + half) & mask) - half

    return within


_COMPARISONS: dict[str, Callable[..., Number]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


def _whole_quotient(first: int, second: int) -> int:
    """As `_divide` has it: towards zero, where Python goes down."""
    if second == 0:
        return 0
    quotient = abs(first) // abs(second)
    return quotient if (first < 0) == (second < 0) else -quotient


def _whole_remainder(first: int, second: int) -> int:
    return first - _whole_quotient(first, second) * second


_WHOLE: dict[str, Callable[..., int]] = {
    "div": _whole_quotient,
    "rem": _whole_remainder,
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "neg": operator.neg,
    "ptradd": operator.add,
    "min": min,
    "max": max,
}
_LOGICAL: dict[str, Callable[..., Number]] = {
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "not": operator.not_,
}


def _divide(first: Array, second: Array) -> Array:
    """Whole numbers go towards zero; a zero below gives zero, which C leaves open."""
    if first.dtype.kind == "f":
        return np.asarray(first / second)
    divisor = np.where(second == 0, 1, second).astype(second.dtype)
    quotient = np.floor_divide(first, divisor)
    if first.dtype.kind == "i":
        inexact = (quotient * divisor != first) & ((first < 0) ^ (divisor < 0))
        quotient = quotient + inexact.astype(first.dtype)
    return np.where(second == 0, 0, quotient).astype(first.dtype)


def _remainder(first: Array, second: Array) -> Array:
    if first.dtype.kind == "f":
        return np.fmod(first, second)
    return np.asarray(first - _divide(first, second) * second)


def _shifted(shift: Operation) -> Callable[[Array, Array], Array]:
    """Counts are taken modulo the width, which keeps what C leaves open the same everywhere."""

    def apply_shift(first: Array, second: Array) -> Array:
        count = (second.astype(np.int64) & (8 * first.dtype.itemsize - 1)).astype(first.dtype)
        return np.asarray(shift(first, count))

    return apply_shift


def _bits(first: Array) -> Array:
    unsigned = np.dtype(f"u{first.dtype.itemsize}")
    return first.astype(unsigned)


def _population(first: Array) -> Array:
    return np.bitwise_count(_bits(first))


def _leading_zeros(first: Array) -> Array:
    width = 8 * first.dtype.itemsize
    remaining, count = _bits(first).astype(np.uint64), np.full(np.shape(first), width, np.int64)
    for _ in range(width):
        count = count - (remaining > 0)
        remaining = remaining >> np.uint64(1)
    return np.asarray(count)


def _lowest_set(first: Array) -> Array:
    """The position of the lowest bit that is set, counted from one; zero where there is none."""
    bits = _bits(first)
    alone = bits & (~bits + bits.dtype.type(1))
    return np.where(bits == 0, 0, 8 * first.dtype.itemsize - _leading_zeros(alone))


def _reversed_bits(first: Array) -> Array:
    width, bits = 8 * first.dtype.itemsize, _bits(first)
    unit, result = bits.dtype.type(1), np.zeros_like(bits)
    for place in range(width):
        low = (bits >> bits.dtype.type(place)) & unit
        result = result | (low << bits.dtype.type(width - 1 - place))
    return result


def _high_product(first: Array, second: Array) -> Array:
    width = 8 * first.dtype.itemsize
    if width == 64:
        wide = [int(a) * int(b) >> 64 for a, b in np.broadcast(first, second)]
        return np.array(wide, dtype=object).reshape(np.broadcast(first, second).shape)
    kind = np.int64 if first.dtype.kind == "i" else np.uint64
    return np.asarray((first.astype(kind) * second.astype(kind)) >> kind(width))


def _fma(first: Array, second: Array, plus: Array) -> Array:
    """Rounded once: exact through the next wider type, but for doubles, which round twice."""
    if first.dtype == np.float64:
        exact = np.longdouble(first) * np.longdouble(second) + np.longdouble(plus)
        return np.asarray(exact).astype(np.float64)
    wide = first.astype(np.float64) * second.astype(np.float64) + plus.astype(np.float64)
    return np.asarray(wide).astype(first.dtype)


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


def _wide(function: Operation) -> Callable[..., Array]:
    """Computed in 64 bits and rounded once, which gives the nearest float almost always."""

    def on_arrays(*values: Array) -> Array:
        return np.asarray(function(*(item.astype(np.float64) for item in values))).astype(
            values[0].dtype
        )

    return on_arrays


def _minimum(first: Array, second: Array) -> Array:
    return np.fmin(first, second) if first.dtype.kind == "f" else np.minimum(first, second)


def _maximum(first: Array, second: Array) -> Array:
    return np.fmax(first, second) if first.dtype.kind == "f" else np.maximum(first, second)


_OPERATIONS: dict[str, Operation] = {
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
