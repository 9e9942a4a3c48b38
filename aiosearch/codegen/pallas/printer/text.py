"""Names, scopes and tile expressions of the printed text.

Pieces of text that stand for tiles, and how tiles of different axes meet.

The lines of a body and what they have names for: the body's own scope, and its loops' within.
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
"""What a loop counts in."""
RESERVED_NAMES = frozenset({STEP, "jax", "jnp", "lax", "pl", ALIAS, "interpret", "float", *HELPERS})


class NameAllocator:
    """Hands out names, none of them twice."""

    def __init__(self, taken: frozenset[str] = RESERVED_NAMES) -> None:
        self._taken = set(taken)

    def fresh(self, wanted: str) -> str:
        name = re.sub(r"\W", "_", wanted, flags=re.ASCII) or "_"
        if name[0].isdigit():
            name = f"_{name}"
        found, number = name, 1
        while found in self._taken or keyword.iskeyword(found):
            number += 1
            found = f"{name}_{number}"
        self._taken.add(found)
        return found


def tupled(texts: Sequence[str]) -> str:
    """A tuple of these, as text."""
    return f"({texts[0]},)" if len(texts) == 1 else f"({', '.join(texts)})"


_COMPUTED = dict.fromkeys(HALVES, DType.F32) | dict.fromkeys(NARROW, DType.I32)
"""In what is computed with types that are stored alone."""
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


def cast(value: TileText, dtype: DType) -> TileText:
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


def working_dtype(dtypes: Iterable[DType], least: DType = DType.WEAK) -> DType:
    """The type that values of these are computed with, at least one."""
    found = [_COMPUTED.get(one, one) for one in dtypes]
    return max((least, *found), key=_RANKS.index)


def branch_dtype(one: TileText, other: TileText) -> DType:
    """The type of what is one of two: whole numbers where both are, and one not only as a literal.

    Two literals may be a float's, whatever they are.
    """
    found = working_dtype((one.dtype, other.dtype), DType.I32)
    literals = [each for each in (one, other) if each.dtype is DType.WEAK]
    whole = len(literals) < 2 and all(map(_is_integer_value, literals))
    return found if whole else working_dtype((found,), DType.F32)


def widened_operand(value: TileText, dtype: DType) -> TileText:
    """The value as an operand of arithmetic of a type. A literal takes it from what it meets."""
    if value.dtype is not DType.WEAK:
        return cast(value, dtype)
    whole = dtype is DType.I32 and "jnp" not in value.text
    return replace(value, text=str(int(float(value.text)))) if whole else value


def _is_integer_value(literal: TileText) -> bool:
    """Whether it is one of the whole numbers that there are."""
    if "jnp" in literal.text:
        return False
    number = float(literal.text)
    return number.is_integer() and -(2**31) <= number < 2**31


def literal(number: float) -> TileText:
    """A number that takes the type of what it meets."""
    if math.isfinite(number):
        return TileText(repr(float(number)), DType.WEAK)
    names = {math.inf: "jnp.inf", -math.inf: "-jnp.inf"}
    return TileText(names.get(number, "jnp.nan"), DType.WEAK)


pass
pass


class TextScope:
    """Lines of one indentation; an inner scope knows what the outer one knows."""

    def __init__(self, names: NameAllocator, outer: TextScope | None = None) -> None:
        self.names, self.outer = names, outer
        self.lines: list[str] = []
        self._known: dict[Hashable, TileText] = {}

    def known(self, key: Hashable) -> TileText | None:
        found = self._known.get(key)
        return found if found or self.outer is None else self.outer.known(key)

    def bind(self, key: Hashable, wanted: str, value: TileText) -> TileText:
        """Gives a value a name, by which it is known from here on."""
        name = self.names.fresh(wanted)
        self.lines.append(f"{name} = {value.text}")
        return self.let(key, replace(value, text=name))

    def let(self, key: Hashable, value: TileText) -> TileText:
        self._known[key] = value
        return value
