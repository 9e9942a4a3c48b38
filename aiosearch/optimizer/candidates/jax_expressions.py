"""The `jnp` and `lax` expression of each tensor operator, and the precedence that decides on
parentheses.

Example: `add(x, mul(y, z))` is `x + y * z`, and `mul(add(x, y), z)` is `(x + y) * z`. Two literals
have no operator between them, as Python would compute it in float64: they are `jnp.add(1.0, 2.0)`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypeAlias

from ...tensor import DType, Term
from ...tensor.sizes import Dim, product
from ...tensor.terms import LITERAL
from ...tensor.types import JAX_NAMES


class Precedence(IntEnum):
    """How tightly an expression binds, as in Python's grammar."""

    COMPARISON = 1
    SUM = 2
    PRODUCT = 3
    MATRICES = 4
    """Python reads `@` like `*`, from the left: right operands of both have parentheses."""
    SIGN = 5
    ATOM = 6


@dataclass(frozen=True, slots=True)
class SourceExpression:
    """The text of an expression, and how tightly it binds."""

    text: str
    binds: Precedence = Precedence.ATOM

    def at(self, binds: Precedence) -> str:
        """The text for a place that takes what binds at least as tightly as `binds`."""
        return self.text if self.binds >= binds else f"({self.text})"

    @property
    def atom(self) -> str:
        """The text for a place before a dot or an index."""
        return self.at(Precedence.ATOM)


def number(value: float, whole: bool) -> SourceExpression:
    """A literal; written with a point unless it is an integer and may be written as
    one (`whole`)."""
    numeric = float(value)
    if math.isinf(numeric):
        return (
            SourceExpression("jnp.inf")
            if numeric > 0
            else SourceExpression("-jnp.inf", Precedence.SIGN)
        )
    text = (
        str(int(numeric))
        if whole and numeric == int(numeric) and abs(numeric) < 2**24
        else repr(numeric)
    )
    return SourceExpression(text, Precedence.SIGN if text.startswith("-") else Precedence.ATOM)


def call(function: str, *arguments: str) -> SourceExpression:
    """The expression of a function call."""
    return SourceExpression(f"{function}({', '.join(arguments)})")


def listed(sizes: Sequence[object]) -> str:
    """Sizes with commas between them."""
    return ", ".join(map(str, sizes))


def sized(sizes: Sequence[object]) -> str:
    """Sizes as a tuple: `(4,)` of one."""
    return f"({listed(sizes)}{',' if len(sizes) == 1 else ''})"


def axis_text(axes: Sequence[int], rank: int) -> str:
    """Axes as people count them: the last one of several is -1."""
    if len(axes) == 1:
        (axis,) = axes
        return str(axis - rank if axis == rank - 1 else axis)
    return sized(axes)


# Pointwise operators


OperatorExpression: TypeAlias = Callable[..., SourceExpression]
"""Takes a term and the expressions of its operands, and gives the term's."""

_CALLS = {
    "abs": "jnp.abs",
    "cos": "jnp.cos",
    "digamma": "jax.scipy.special.digamma",
    "exp": "jnp.exp",
    "lgamma": "jax.scipy.special.gammaln",
    "expm1": "jnp.expm1",
    "floor": "jnp.floor",
    "log": "jnp.log",
    "log1p": "jnp.log1p",
    "maximum": "jnp.maximum",
    "minimum": "jnp.minimum",
    "pow": "jnp.power",
    "rem": "jnp.fmod",
    "reciprocal": "jnp.reciprocal",
    "relu": "jax.nn.relu",
    "round": "jnp.round",
    "select": "jnp.where",
    "sigmoid": "jax.nn.sigmoid",
    "silu": "jax.nn.silu",
    "sin": "jnp.sin",
    "sqrt": "jnp.sqrt",
    "square": "jnp.square",
    "tanh": "jnp.tanh",
}

_INFIX = {
    "add": ("+", Precedence.SUM, "jnp.add"),
    "sub": ("-", Precedence.SUM, "jnp.subtract"),
    "mul": ("*", Precedence.PRODUCT, "jnp.multiply"),
    "div": ("/", Precedence.PRODUCT, "jnp.divide"),
    "less": ("<", Precedence.COMPARISON, "jnp.less"),
    "less_equal": ("<=", Precedence.COMPARISON, "jnp.less_equal"),
    "equal": ("==", Precedence.COMPARISON, "jnp.equal"),
    "not_equal": ("!=", Precedence.COMPARISON, "jnp.not_equal"),
}


def operator_expression(term: Term, operands: Sequence[SourceExpression]) -> SourceExpression:
    """The expression of a term, from those of its operands."""
    name = term.operator.name
    if name in _INFIX:
        return _infix(term, operands)
    if name in _CALLS:
        return call(_CALLS[name], *(operand.text for operand in operands))
    return _OWN[name](term, *operands, **dict(term.parameters))


def _infix(term: Term, operands: Sequence[SourceExpression]) -> SourceExpression:
    sign, binds, function = _INFIX[term.operator.name]
    left, right = operands
    # Python would compute it, in float64.
    if all(argument.operator is LITERAL for argument in term.arguments):
        return call(function, left.text, right.text)
    # Python chains comparisons: `a < b < c` is not `(a < b) < c`.
    here = Precedence.SUM if binds is Precedence.COMPARISON else binds
    beyond = Precedence.SIGN if binds is Precedence.PRODUCT else Precedence(binds + 1)
    return SourceExpression(f"{left.at(here)} {sign} {right.at(beyond)}", binds)


def _neg(term: Term, x: SourceExpression) -> SourceExpression:
    if term.arguments[0].operator is LITERAL:
        return call("jnp.negative", x.text)
    return SourceExpression(f"-{x.at(Precedence.SIGN)}", Precedence.SIGN)


def _rsqrt(term: Term, x: SourceExpression) -> SourceExpression:
    if term.dtype is DType.I32:
        return SourceExpression(f"1 / jnp.sqrt({x.text})", Precedence.PRODUCT)
    return call("lax.rsqrt", x.text)


def _erf(term: Term, x: SourceExpression) -> SourceExpression:
    home = "jax.scipy.special" if term.dtype is DType.I32 else "lax"
    return call(f"{home}.{term.operator.name}", x.text)


def _gelu(term: Term, x: SourceExpression) -> SourceExpression:
    return call("jax.nn.gelu", x.text, f"approximate={term.operator.name == 'gelu_tanh'}")


def _power(term: Term, x: SourceExpression, exponent: float) -> SourceExpression:
    power = number(exponent, True)
    if term.arguments[0].operator is LITERAL or term.dtype is DType.I32:
        return call("jnp.power", f"jnp.asarray({x.text}, float)", power.text)
    return SourceExpression(f"{x.atom} ** {power.text}", Precedence.SIGN)


def _exponential(term: Term, x: SourceExpression, base: float) -> SourceExpression:
    written = term.arguments[0].operator is LITERAL
    power = f"jnp.asarray({x.text}, float)" if written else x.text
    return call("jnp.power", number(base, True).text, power)


def _clamp(term: Term, x: SourceExpression, low: float, high: float) -> SourceExpression:
    return call("jnp.clip", x.text, number(low, True).text, number(high, True).text)


def _cast(term: Term, x: SourceExpression, dtype: DType) -> SourceExpression:
    if term.arguments[0].operator is LITERAL:
        return call("jnp.asarray", x.text, JAX_NAMES[dtype])
    return SourceExpression(f"{x.atom}.astype({JAX_NAMES[dtype]})")


# Reductions and products


def _reduction(
    term: Term, x: SourceExpression, axes: tuple[int, ...], keep: bool
) -> SourceExpression:
    operand = term.arguments[0]
    arguments = [x.text]
    # Over all axes `jnp.sum(x)` says it.
    if keep or len(axes) != len(operand.shape):
        arguments.append(f"axis={axis_text(axes, len(operand.shape))}")
    if keep:
        arguments.append("keepdims=True")
    name = term.operator.name
    # jnp sums 32-bit integers in 64 bits where x64 is enabled.
    if name == "sum" and term.dtype is DType.I32:
        arguments.append("dtype=jnp.int32")
    if name in ("max", "min") and any(operand.shape[axis] == 0 for axis in axes):
        arguments.append(f"initial={'-' if name == 'max' else ''}jnp.inf")
    return call(f"jnp.{name}", *arguments)


def _fold(term: Term, x: SourceExpression, axis: int, size: Any) -> SourceExpression:
    shape = term.arguments[0].shape
    chunks = shape[axis] // size if size else 1
    split = (*shape[:axis], chunks, size, *shape[axis + 1 :])
    return call("jnp.sum", f"{x.atom}.reshape({listed(split)})", f"axis={axis}")


def matmul(left: SourceExpression, right: SourceExpression, wide: bool = False) -> SourceExpression:
    """The expression of a matrix product; `wide` accumulates halves in 32 bits and
    gives that type."""
    if wide:
        preferred = "preferred_element_type=jnp.float32"
        return call("jnp.matmul", left.text, right.text, preferred)
    return SourceExpression(
        f"{left.at(Precedence.MATRICES)} @ {right.at(Precedence.SIGN)}", Precedence.MATRICES
    )


def _convolution(
    term: Term,
    image: SourceExpression,
    filters: SourceExpression,
    strides: tuple[int, ...],
    low: tuple[int, ...],
    high: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
) -> SourceExpression:
    places = "".join("HWDT"[axis] if axis < 4 else str(axis) for axis in range(len(strides)))
    numbers = (f"N{places}C", f"{places}IO", f"N{places}C")
    return call(
        "lax.conv_general_dilated",
        image.text,
        filters.text,
        sized(strides),
        sized(list(zip(low, high, strict=True))),
        f"rhs_dilation={sized(dilation)}",
        f"dimension_numbers={numbers!r}".replace("'", '"'),
        *([f"feature_group_count={groups}"] if groups > 1 else []),
    )


# Operators that move elements


def _whole(term: Term, x: SourceExpression) -> str:
    """An operand that has the methods of an array: a literal has none."""
    return f"jnp.asarray({x.text})" if term.arguments[0].operator is LITERAL else x.atom


def _broadcast(term: Term, x: SourceExpression, shape: Sequence[Dim]) -> SourceExpression:
    if term.arguments[0].operator is LITERAL:
        return call("lax.full", sized(shape), x.text)
    return call("jnp.broadcast_to", x.text, sized(shape))


def _reshape(term: Term, x: SourceExpression, shape: Sequence[Dim]) -> SourceExpression:
    old = term.arguments[0].shape
    whole = _whole(term, x)
    # `x[:, None]` is how people write it, up to a length that can be read.
    if old and tuple(size for size in shape if size != 1) == old and len(shape) <= 4:
        index = ["None" if size == 1 else ":" for size in shape]
        return SourceExpression(f"{whole}[{', '.join(index)}]")
    return SourceExpression(f"{whole}.reshape({listed(shape) or '()'})")


def _transpose(term: Term, x: SourceExpression, axes: tuple[int, ...]) -> SourceExpression:
    rank = len(axes)
    if axes == (1, 0):
        return SourceExpression(f"{_whole(term, x)}.T")
    if axes == (*range(rank - 2), rank - 1, rank - 2):
        return SourceExpression(f"{_whole(term, x)}.mT")
    return SourceExpression(f"{_whole(term, x)}.transpose({listed(axes)})")


def _slice(
    term: Term, x: SourceExpression, axis: int, start: int, stop: int, step: int
) -> SourceExpression:
    size = term.arguments[0].shape[axis]
    cut = f"{start or ''}:{'' if stop == size else stop}{f':{step}' if step > 1 else ''}"
    return SourceExpression(f"{x.atom}[{', '.join([*[':'] * axis, cut])}]")


def _joined(term: Term, *xs: SourceExpression, axis: int) -> SourceExpression:
    inner = ", ".join(x.text for x in xs)
    return call(f"jnp.{term.operator.name}", f"[{inner}]", f"axis={axis}")


def _pad(
    term: Term, x: SourceExpression, axis: int, low: float, high: float, value: float
) -> SourceExpression:
    widths = [(low, high) if dimension == axis else (0, 0) for dimension in range(len(term.shape))]
    options = [] if value == 0 else [f"constant_values={number(value, True).text}"]
    return call("jnp.pad", x.text, sized(widths), *options)


def _diagonal(term: Term, x: SourceExpression) -> SourceExpression:
    axes = [] if len(term.shape) == 1 else ["axis1=-2", "axis2=-1"]
    return call("jnp.diagonal", x.text, *axes)


def _iota(term: Term, shape: Sequence[Dim], axis: int, dtype: DType) -> SourceExpression:
    dtype_name = JAX_NAMES[dtype]
    if product(shape) == shape[axis] and len(shape) == 1:
        return call("jnp.arange", str(shape[0]), f"dtype={dtype_name}")
    return call("lax.broadcasted_iota", dtype_name, sized(shape), str(axis))


# Operators that choose by places


def _take(
    term: Term, x: SourceExpression, indices: SourceExpression, axis: int
) -> SourceExpression:
    array, places = term.arguments
    table = _array(places, indices)
    # One list of rows for all: jax copies whole rows then, and single elements otherwise.
    if product(places.shape) == places.shape[axis]:
        return call("jnp.take", x.text, f"{table}.reshape(-1)", f"axis={axis}", 'mode="clip"')
    remaining = [dimension for dimension in range(len(term.shape)) if dimension != axis]
    windows = tuple(dimension for dimension in remaining if places.shape[dimension] == 1)
    walked = tuple(dimension for dimension in remaining if dimension not in windows)
    whole = tuple(
        size if dimension == axis or dimension in windows else places.shape[dimension]
        for dimension, size in enumerate(array.shape)
    )
    sizes = [size if dimension in windows else 1 for dimension, size in enumerate(whole)]
    counted = [dimension for dimension in range(len(term.shape)) if dimension not in windows]
    batch = tuple(counted.index(dimension) for dimension in walked)
    numbers = f"{windows!r}, ({axis},), ({axis},), {walked!r}, {batch!r}"
    shape = [places.shape[dimension] for dimension in counted]
    # `jnp.take_along_axis` would count indices below zero from the end.
    return call(
        "lax.gather",
        x.text if whole == array.shape else f"jnp.broadcast_to({x.text}, {sized(whole)})",
        f"{table}.reshape({listed([*shape, 1])})",
        f"lax.GatherDimensionNumbers({numbers})",
        sized(sizes),
        'mode="clip"',
    )


def _array(term: Term, x: SourceExpression) -> str:
    return f"jnp.asarray({x.text})" if term.operator is LITERAL else x.atom


def _scatter_add(
    term: Term,
    x: SourceExpression,
    indices: SourceExpression,
    updates: SourceExpression,
    axis: int,
) -> SourceExpression:
    target, places, _ = term.arguments
    remaining = tuple(dimension for dimension in range(len(term.shape)) if dimension != axis)
    shared = product(places.shape) == places.shape[axis]
    count = places.shape[axis]
    if shared:
        table = f"{indices.atom}.reshape({count}, 1)"
        # The places of an update come first, and windows of all other axes behind them.
        moved = (axis, *remaining)
        windows = tuple(range(1, len(term.shape)))
        numbers = f"lax.ScatterDimensionNumbers({windows!r}, ({axis},), ({axis},))"
    else:
        whole = tuple(count if at == axis else size for at, size in enumerate(term.shape))
        table = f"jnp.broadcast_to({indices.text}, {sized(whole)})[..., None]"
        moved = tuple(range(len(term.shape)))
        numbers = (
            f"lax.ScatterDimensionNumbers((), ({axis},), ({axis},), {remaining!r}, {remaining!r})"
        )
    full = tuple(count if at == axis else size for at, size in enumerate(term.shape))
    new = f"jnp.broadcast_to({updates.text}, {sized(full)})"
    if moved != tuple(range(len(term.shape))):
        new += f".transpose({listed(moved)})"
    return call("lax.scatter_add", _array(target, x), table, new, numbers, 'mode="drop"')


def _argmax(term: Term, x: SourceExpression, axis: int) -> SourceExpression:
    name = term.operator.name
    return call(f"lax.{name}", x.text, str(axis), "jnp.int32")


def _cumulative(term: Term, x: SourceExpression, axis: int, reverse: bool) -> SourceExpression:
    options = [f"axis={axis}", *(["reverse=True"] if reverse else [])]
    return call(f"lax.{term.operator.name}", x.text, *options)


_OWN: dict[str, OperatorExpression] = {
    "argmax": _argmax,
    "argmin": _argmax,
    "cummax": _cumulative,
    "cummin": _cumulative,
    "cumsum": _cumulative,
    "scatter_add": _scatter_add,
    "take": _take,
    "broadcast": _broadcast,
    "cast": _cast,
    "clamp": _clamp,
    "concatenate": _joined,
    "convolution": _convolution,
    "diagonal": _diagonal,
    "erf": _erf,
    "erfc": _erf,
    "exponential": _exponential,
    "fold": _fold,
    "gelu": _gelu,
    "gelu_tanh": _gelu,
    "iota": _iota,
    "matmul": lambda term, left, right: matmul(left, right),
    "max": _reduction,
    "mean": _reduction,
    "min": _reduction,
    "neg": _neg,
    "pad": _pad,
    "power": _power,
    "reshape": _reshape,
    "rsqrt": _rsqrt,
    "slice": _slice,
    "stack": _joined,
    "sum": _reduction,
    "transpose": _transpose,
}
