"""Puts something else in the place of a region, with the region's own derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import jax
from jax.extend.core.primitives import convert_element_type_p

from .errors import SpliceError
from .inlining import aval
from .pieces import Piece

Replacement: TypeAlias = Callable[..., Any]
"""Takes a region's inputs in order; gives its one output, or a sequence of them."""


@dataclass(frozen=True)
class Packed:
    """A replacement that wants some of its inputs in another form, which is made once.

    It is used where those inputs stay the same from call to call, `otherwise` elsewhere.
    """

    positions: tuple[int, ...]
    """Which of the region's inputs are packed."""
    pack: Callable[..., Sequence[Any]]
    """Takes them, and gives arrays."""
    run: Replacement
    """Takes the inputs that are not packed, then what `pack` gave."""
    otherwise: Replacement | None = None


def replaced(piece: Piece, run: Replacement) -> Callable[..., Sequence[Any]]:
    """A function of a region's inputs, and of whatever follows them, that `run` computes.

    Derivatives and batches are the region's own: `run` was neither verified nor measured on them.
    """
    count = len(piece.inputs)

    @jax.custom_batching.custom_vmap
    def alone(*inputs: Any) -> tuple[Any, ...]:
        return _fitted(piece, run(*inputs))

    @alone.def_vmap
    def batched(size: int, mapped: Sequence[bool], *inputs: Any) -> tuple[Any, Any]:
        axes = tuple(0 if one else None for one in mapped[:count])
        found = jax.vmap(piece.original, axes, axis_size=size)(*inputs[:count])
        return tuple(found), (True,) * len(found)

    @jax.custom_jvp
    def fast(*inputs: Any) -> tuple[Any, ...]:
        return tuple(alone(*inputs))

    @fast.defjvp
    def rule(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        def original(*inputs: Any) -> tuple[Any, ...]:
            return tuple(piece.original(*inputs))

        return jax.jvp(original, tuple(primals[:count]), tuple(tangents[:count]))

    def function(*inputs: Any) -> Sequence[Any]:
        return _weakened(piece, fast(*inputs))

    return function


def _fitted(piece: Piece, found: Any) -> tuple[Any, ...]:
    """What a replacement gave, where it is what the region gives."""
    outputs = tuple(found) if isinstance(found, (tuple, list)) else (found,)
    given = [f"{one.dtype}{list(one.shape)}" for one in outputs]
    wanted = [f"{one.dtype}{list(one.shape)}" for one in map(aval, piece.outputs)]
    if given != wanted:
        raise SpliceError(f"a replacement gives {', '.join(given)}, not {', '.join(wanted)}")
    return outputs


def _weakened(piece: Piece, outputs: Sequence[Any]) -> list[Any]:
    """Weak types are the region's, which no other spelling keeps."""
    return [
        convert_element_type_p.bind(one, new_dtype=own.dtype, weak_type=True, sharding=None)
        if own.weak_type
        else one
        for one, own in zip(outputs, map(aval, piece.outputs), strict=True)
    ]
