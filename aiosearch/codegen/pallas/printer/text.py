"""Names, scopes and tile expressions of the printed text.

`TileText` is a piece of text with the axes and the type of the tile that it stands for;
`broadcast_text` aligns the axes of two. `TextScope` has the lines of a body, or of a loop in it,
and what they have names for.
"""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace

from ....tensor.types import HALVES, JAX_NAMES, NARROW, DType
from ... import ir
from ..dialect import ALIAS, HELPERS

STEP = "step"
"""The counter of a loop."""
RESERVED_NAMES = frozenset({STEP, "jax", "jnp", "lax", "pl", ALIAS, "interpret", "float", *HELPERS})
"""Names that the printed text uses itself."""


class NameAllocator:
    """Hands out names, none of them twice."""

    def __init__(self, reserved: frozenset[str] = RESERVED_NAMES) -> None:
        self._taken = set(reserved)

    def fresh(self, base: str) -> str:
        """A name like `base` that is no keyword and not in use."""
        name = re.sub(r"\W", "_", base, flags=re.ASCII) or "_"
        if name[0].isdigit():
            name = f"_{name}"
        candidate, number = name, 1
        while candidate in self._taken or keyword.iskeyword(candidate):
            number += 1
            candidate = f"{name}_{number}"
        self._taken.add(candidate)
        return candidate


def tupled(texts: Sequence[str]) -> str:
    """A tuple of `texts`, as text."""
    return f"({texts[0]},)" if len(texts) == 1 else f"({', '.join(texts)})"


_COMPUTED = dict.fromkeys(HALVES, DType.F32) | dict.fromkeys(NARROW, DType.I32)
"""The type in which values of a type are computed that is only stored."""
_RANKS = [DType.WEAK, DType.BOOL, DType.I32, DType.F32, DType.F64]


@dataclass(frozen=True)
class TileText:
    """An expression of the printed text that binds at least as tightly as a call."""

    text: str
    dtype: DType
    axes: tuple[ir.LoopIndex, ...] = ()
    zeros: frozenset[ir.LoopIndex] = frozenset()
    """Indices beyond whose sizes the tile holds zeros."""


def broadcast_text(value: TileText, axes: tuple[ir.LoopIndex, ...]) -> str:
    """The text of a tile that has these `axes`; those that `value` lacks have size one."""
    if value.axes == axes or not value.axes:
        return value.text
    order = tuple(axis for axis in axes if axis in value.axes)
    text = value.text
    if order != value.axes:
        text = f"{text}.transpose({', '.join(str(value.axes.index(axis)) for axis in order)})"
    if order == axes:
        return text
    return f"{text}[{', '.join(':' if axis in order else 'None' for axis in axes)}]"


def cast(value: TileText, dtype: DType) -> TileText:
    """`value` in another element type.

    A literal becomes part of the program: a scalar that jax folds to a constant is one that
    Triton's lowering may not take.
    """
    if value.dtype is dtype:
        return value
    if value.dtype is DType.WEAK and dtype is DType.BOOL:
        return cast(cast(value, DType.I32), dtype)
    if value.dtype is DType.WEAK:
        dtype_argument = f"dtype={JAX_NAMES[dtype]}" if dtype is DType.I32 else ""
        text = f"jnp.full((1,), {value.text}, {JAX_NAMES[dtype]}).sum({dtype_argument})"
        return replace(value, text=text, dtype=dtype)
    if dtype is DType.BOOL:
        return replace(value, text=f"({value.text} != 0)", dtype=dtype)
    return replace(value, text=f"{value.text}.astype({JAX_NAMES[dtype]})", dtype=dtype)


def working_dtype(dtypes: Iterable[DType], least: DType = DType.WEAK) -> DType:
    """The type that values of `dtypes` are computed with, at least `least`."""
    computed = [_COMPUTED.get(dtype, dtype) for dtype in dtypes]
    return max((least, *computed), key=_RANKS.index)


def branch_dtype(left: TileText, right: TileText) -> DType:
    """The type of a choice between `left` and `right`: whole numbers where both are, and one not
    only as a literal.

    Two literals may be floats, whatever they are.
    """
    dtype = working_dtype((left.dtype, right.dtype), DType.I32)
    literals = [value for value in (left, right) if value.dtype is DType.WEAK]
    whole = len(literals) < 2 and all(map(_is_integer_value, literals))
    return dtype if whole else working_dtype((dtype,), DType.F32)


def widened_operand(value: TileText, dtype: DType) -> TileText:
    """`value` as an operand of arithmetic of a type. A literal takes the type of what it meets."""
    if value.dtype is not DType.WEAK:
        return cast(value, dtype)
    whole = dtype is DType.I32 and "jnp" not in value.text
    return replace(value, text=str(int(float(value.text)))) if whole else value


def _is_integer_value(literal: TileText) -> bool:
    """Whether `literal` is a whole number of 32 bits."""
    if "jnp" in literal.text:
        return False
    number = float(literal.text)
    return number.is_integer() and -(2**31) <= number < 2**31


def literal(number: float) -> TileText:
    """`number` as text that takes the type of what it meets."""
    if math.isfinite(number):
        return TileText(repr(float(number)), DType.WEAK)
    names = {math.inf: "jnp.inf", -math.inf: "-jnp.inf"}
    return TileText(names.get(number, "jnp.nan"), DType.WEAK)


class TextScope:
    """Lines of one indentation; an inner scope knows what the outer one knows."""

    def __init__(self, names: NameAllocator, outer: TextScope | None = None) -> None:
        self.names, self.outer = names, outer
        self.lines: list[str] = []
        self._known: dict[Hashable, TileText] = {}

    def known(self, key: Hashable) -> TileText | None:
        """The tile that `key` was bound to, here or in an outer scope."""
        bound = self._known.get(key)
        return bound if bound or self.outer is None else self.outer.known(key)

    def bind(self, key: Hashable, base: str, value: TileText) -> TileText:
        """Writes a line that names `value`, by which `key` is known from here on."""
        name = self.names.fresh(base)
        self.lines.append(f"{name} = {value.text}")
        return self.let(key, replace(value, text=name))

    def let(self, key: Hashable, value: TileText) -> TileText:
        """Makes `key` known as `value`, without a line."""
        self._known[key] = value
        return value
