"""Pieces of text that stand for tiles, and how tiles of different axes meet."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ...tensor.types import HALVES, JAX_NAMES, NARROW, DType
from .. import ir

_COMPUTED = dict.fromkeys(HALVES, DType.F32) | dict.fromkeys(NARROW, DType.I32)
"""In what is computed with types that are stored alone."""
_RANKS = [DType.WEAK, DType.BOOL, DType.I32, DType.F32, DType.F64]


@dataclass(frozen=True)
class Value:
    """An expression of the printed text that binds at least as tightly as a call."""

    text: str
    dtype: DType
    axes: tuple[ir.Index, ...] = ()
    zeros: frozenset[ir.Index] = frozenset()
    """Indices beyond whose sizes the tile holds zeros."""


def spread(value: Value, axes: tuple[ir.Index, ...]) -> str:
    """The text of a tile that has these axes; ones that the value lacks have size one."""
    if value.axes == axes or not value.axes:
        return value.text
    wanted = tuple(one for one in axes if one in value.axes)
    text = value.text
    if wanted != value.axes:
        text = f"{text}.transpose({', '.join(str(value.axes.index(one)) for one in wanted)})"
    if wanted == axes:
        return text
    return f"{text}[{', '.join(':' if one in wanted else 'None' for one in axes)}]"


def cast(value: Value, dtype: DType) -> Value:
    """The value in another element type.

    A literal becomes part of the program: a scalar that jax folds to a constant is one that
    Triton's lowering may not take.
    """
    if value.dtype is dtype:
        return value
    if value.dtype is DType.WEAK and dtype is DType.BOOL:
        return cast(cast(value, DType.I32), dtype)
    if value.dtype is DType.WEAK:
        kept = f"dtype={JAX_NAMES[dtype]}" if dtype is DType.I32 else ""
        text = f"jnp.full((1,), {value.text}, {JAX_NAMES[dtype]}).sum({kept})"
        return replace(value, text=text, dtype=dtype)
    if dtype is DType.BOOL:
        return replace(value, text=f"({value.text} != 0)", dtype=dtype)
    return replace(value, text=f"{value.text}.astype({JAX_NAMES[dtype]})", dtype=dtype)


def working(dtypes: Iterable[DType], least: DType = DType.WEAK) -> DType:
    """The type that values of these are computed with, at least one."""
    found = [_COMPUTED.get(one, one) for one in dtypes]
    return max((least, *found), key=_RANKS.index)


def branches(one: Value, other: Value) -> DType:
    """The type of what is one of two: whole numbers where both are, and one not only as a literal.

    Two literals may be a float's, whatever they are.
    """
    found = working((one.dtype, other.dtype), DType.I32)
    literals = [each for each in (one, other) if each.dtype is DType.WEAK]
    whole = len(literals) < 2 and all(map(_is_whole, literals))
    return found if whole else working((found,), DType.F32)


def wide(value: Value, dtype: DType) -> Value:
    """The value as an operand of arithmetic of a type. A literal takes it from what it meets."""
    if value.dtype is not DType.WEAK:
        return cast(value, dtype)
    whole = dtype is DType.I32 and "jnp" not in value.text
    return replace(value, text=str(int(float(value.text)))) if whole else value


def _is_whole(literal: Value) -> bool:
    """Whether it is one of the whole numbers that there are."""
    if "jnp" in literal.text:
        return False
    number = float(literal.text)
    return number.is_integer() and -(2**31) <= number < 2**31


def literal(number: float) -> Value:
    """A number that takes the type of what it meets."""
    if math.isfinite(number):
        return Value(repr(float(number)), DType.WEAK)
    names = {math.inf: "jnp.inf", -math.inf: "-jnp.inf"}
    return Value(names.get(number, "jnp.nan"), DType.WEAK)
