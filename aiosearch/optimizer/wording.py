"""How each operator of the tensor language is said in jnp and lax."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ..tensor import DType, Term
from ..tensor.sizes import product
from ..tensor.terms import LITERAL
from ..tensor.types import JAX_NAMES
from .pieces import Binds, Piece, axis_text, call, listed, number, sized

Say: TypeAlias = Callable[..., Piece]
"""Given a term and its operands, the expression."""

_CALLS = {
    "abs": "jnp.abs",
    "cos": "jnp.cos",
    "exp": "jnp.exp",
    "expm1": "jnp.expm1",
    "floor": "jnp.floor",
    "log": "jnp.log",
    "log1p": "jnp.log1p",
    "maximum": "jnp.maximum",
    "minimum": "jnp.minimum",
    "pow": "jnp.power",
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
    "add": ("+", Binds.SUM, "jnp.add"),
    "sub": ("-", Binds.SUM, "jnp.subtract"),
    "mul": ("*", Binds.PRODUCT, "jnp.multiply"),
    "div": ("/", Binds.PRODUCT, "jnp.divide"),
    "less": ("<", Binds.COMPARISON, "jnp.less"),
    "less_equal": ("<=", Binds.COMPARISON, "jnp.less_equal"),
    "equal": ("==", Binds.COMPARISON, "jnp.equal"),
    "not_equal": ("!=", Binds.COMPARISON, "jnp.not_equal"),
}


def say(term: Term, operands: Sequence[Piece]) -> Piece:
    """The expression for a term, given those for its operands."""
    name = term.operator.name
    if name in _INFIX:
        return _infix(term, operands)
    if name in _CALLS:
        return call(_CALLS[name], *(operand.text for operand in operands))
    return _OWN[name](term, *operands, **dict(term.parameters))


def _infix(term: Term, operands: Sequence[Piece]) -> Piece:
    sign, binds, function = _INFIX[term.operator.name]
    left, right = operands
    if all(argument.operator is LITERAL for argument in term.arguments):
        return call(function, left.text, right.text)
    here = Binds.SUM if binds is Binds.COMPARISON else binds
    beyond = Binds.SIGN if binds is Binds.PRODUCT else Binds(binds + 1)
    return Piece(f"{left.at(here)} {sign} {right.at(beyond)}", binds)


def _neg(term: Term, x: Piece) -> Piece:
    if term.arguments[0].operator is LITERAL:
        return call("jnp.negative", x.text)
    return Piece(f"-{x.at(Binds.SIGN)}", Binds.SIGN)


def _rsqrt(term: Term, x: Piece) -> Piece:
    if term.dtype is DType.I32:
        return Piece(f"1 / jnp.sqrt({x.text})", Binds.PRODUCT)
    return call("lax.rsqrt", x.text)


def _erf(term: Term, x: Piece) -> Piece:
    home = "jax.scipy.special" if term.dtype is DType.I32 else "lax"
    return call(f"{home}.{term.operator.name}", x.text)


def _gelu(term: Term, x: Piece) -> Piece:
    return call("jax.nn.gelu", x.text, f"approximate={term.operator.name == 'gelu_tanh'}")


def _power(term: Term, x: Piece, exponent: Any) -> Piece:
    power = number(exponent, True)
    if term.arguments[0].operator is LITERAL or term.dtype is DType.I32:
        return call("jnp.power", f"jnp.asarray({x.text}, float)", power.text)
    return Piece(f"{x.atom} ** {power.text}", Binds.SIGN)


def _exponential(term: Term, x: Piece, base: Any) -> Piece:
    written = term.arguments[0].operator is LITERAL
    power = f"jnp.asarray({x.text}, float)" if written else x.text
    return call("jnp.power", number(base, True).text, power)


def _clamp(term: Term, x: Piece, low: Any, high: Any) -> Piece:
    return call("jnp.clip", x.text, number(low, True).text, number(high, True).text)


def _cast(term: Term, x: Piece, dtype: DType) -> Piece:
    if term.arguments[0].operator is LITERAL:
        return call("jnp.asarray", x.text, JAX_NAMES[dtype])
    return Piece(f"{x.atom}.astype({JAX_NAMES[dtype]})")


# Reductions and products


def _reduction(term: Term, x: Piece, axes: tuple[int, ...], keep: bool) -> Piece:
    operand = term.arguments[0]
    given = [x.text]
    if keep or len(axes) != len(operand.shape):
        given.append(f"axis={axis_text(axes, len(operand.shape))}")
    if keep:
        given.append("keepdims=True")
    name = term.operator.name
    if name == "sum" and term.dtype is DType.I32:
        given.append("dtype=jnp.int32")
    if name in ("max", "min") and any(operand.shape[axis] == 0 for axis in axes):
        given.append(f"initial={'-' if name == 'max' else ''}jnp.inf")
    return call(f"jnp.{name}", *given)


def _fold(term: Term, x: Piece, axis: int, size: Any) -> Piece:
    shape = term.arguments[0].shape
    chunks = shape[axis] // size if size else 1
    split = (*shape[:axis], chunks, size, *shape[axis + 1 :])
    return call("jnp.sum", f"{x.atom}.reshape({listed(split)})", f"axis={axis}")


def matmul(left: Piece, right: Piece, wide: bool = False) -> Piece:
    """A product; `wide` adds up in 32 bits and gives that."""
    if wide:
        preferred = "preferred_element_type=jnp.float32"
        return call("jnp.matmul", left.text, right.text, preferred)
    return Piece(f"{left.at(Binds.MATRICES)} @ {right.at(Binds.SIGN)}", Binds.MATRICES)


def _convolution(
    term: Term,
    image: Piece,
    filters: Piece,
    strides: tuple[int, ...],
    low: tuple[int, ...],
    high: tuple[int, ...],
    dilation: tuple[int, ...],
) -> Piece:
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
    )


# Operators that move elements


def _whole(term: Term, x: Piece) -> str:
    """An operand that has the methods of an array."""
    return f"jnp.asarray({x.text})" if term.arguments[0].operator is LITERAL else x.atom


def _broadcast(term: Term, x: Piece, shape: Sequence[Any]) -> Piece:
    if term.arguments[0].operator is LITERAL:
        return call("lax.full", sized(shape), x.text)
    return call("jnp.broadcast_to", x.text, sized(shape))


def _reshape(term: Term, x: Piece, shape: Sequence[Any]) -> Piece:
    old = term.arguments[0].shape
    whole = _whole(term, x)
    if old and tuple(size for size in shape if size != 1) == old and len(shape) <= 4:
        index = ["None" if size == 1 else ":" for size in shape]
        return Piece(f"{whole}[{', '.join(index)}]")
    return Piece(f"{whole}.reshape({listed(shape) or '()'})")


def _transpose(term: Term, x: Piece, axes: tuple[int, ...]) -> Piece:
    rank = len(axes)
    if axes == (1, 0):
        return Piece(f"{_whole(term, x)}.T")
    if axes == (*range(rank - 2), rank - 1, rank - 2):
        return Piece(f"{_whole(term, x)}.mT")
    return Piece(f"{_whole(term, x)}.transpose({listed(axes)})")


def _slice(term: Term, x: Piece, axis: int, start: int, stop: int, step: int) -> Piece:
    size = term.arguments[0].shape[axis]
    cut = f"{start or ''}:{'' if stop == size else stop}{f':{step}' if step > 1 else ''}"
    return Piece(f"{x.atom}[{', '.join([*[':'] * axis, cut])}]")


def _joined(term: Term, *xs: Piece, axis: int) -> Piece:
    inner = ", ".join(x.text for x in xs)
    return call(f"jnp.{term.operator.name}", f"[{inner}]", f"axis={axis}")


def _pad(term: Term, x: Piece, axis: int, low: Any, high: Any, value: Any) -> Piece:
    widths = [(low, high) if own == axis else (0, 0) for own in range(len(term.shape))]
    own = [] if value == 0 else [f"constant_values={number(value, True).text}"]
    return call("jnp.pad", x.text, sized(widths), *own)


def _diagonal(term: Term, x: Piece) -> Piece:
    axes = [] if len(term.shape) == 1 else ["axis1=-2", "axis2=-1"]
    return call("jnp.diagonal", x.text, *axes)


def _iota(term: Term, shape: Sequence[Any], axis: int, dtype: DType) -> Piece:
    own = JAX_NAMES[dtype]
    if product(shape) == shape[axis] and len(shape) == 1:
        return call("jnp.arange", str(shape[0]), f"dtype={own}")
    return call("lax.broadcasted_iota", own, sized(shape), str(axis))


_OWN: dict[str, Say] = {
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
