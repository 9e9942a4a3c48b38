"""The encoder of panels of bf16 into the coded format, written with jax."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from .coded_format import (
    CODED_GROUP,
    EXCEPTION_COUNT_OFFSET,
    EXCEPTION_LIST_OFFSET,
    NAMED_BYTES,
    UNCODED_PANEL,
    CodedPanelFormat,
)

_SMALLEST = 0x0080
"""The bits of the smallest normal number."""


@jax.jit
def encode_panels(panels: Any) -> Any:
    """Takes panels as they lie in memory: batch, panels, pairs of rows, width, and two."""
    codes = CodedPanelFormat(math.prod(panels.shape[:-3]), math.prod(panels.shape[-3:]))
    bits = lax.bitcast_convert_type(panels, jnp.uint16).reshape(codes.panels, codes.elements)
    heads, elements = jax.vmap(lambda one: _panel(one, codes.most))(bits)
    return jnp.concatenate([heads.reshape(-1), elements.reshape(-1)])


def _panel(bits: Any, most: int) -> tuple[Any, Any]:
    """The head and the elements of one, as whole numbers of 32 bits."""
    first = bits >> 8
    counts = jnp.zeros(256, jnp.int32).at[first].add(1)
    always = counts.at[jnp.array([0x00, 0x80])].set(bits.size + 1)
    names = lax.top_k(always, NAMED_BYTES)[1].astype(jnp.uint8)
    code_of = (
        jnp.full(256, NAMED_BYTES, jnp.uint8)
        .at[names]
        .set(jnp.arange(NAMED_BYTES, dtype=jnp.uint8))
    )
    is_other = code_of[first] == NAMED_BYTES
    count = is_other.sum(dtype=jnp.int32)
    smallest = (bits & 0x8000) | _SMALLEST
    known = jnp.where(is_other, smallest, bits)
    short = _words(
        _interleaved_bytes(known & 0xFF), _nibbles(_interleaved_bytes(code_of[known >> 8]))
    )
    plain = lax.bitcast_convert_type(bits.reshape(-1, 2), jnp.int32)
    short = jnp.pad(short, (0, plain.size - short.size))
    told = jnp.where(count > most, UNCODED_PANEL, count)
    listed = _exception_list(bits, smallest, is_other, most)
    head = jnp.concatenate([_words(names), told[None], jnp.zeros(_REST, jnp.int32), listed])
    return head, jnp.where(count > most, plain, short)


_REST = (EXCEPTION_LIST_OFFSET - EXCEPTION_COUNT_OFFSET) // 4 - 1
"""Words between the count and the list."""


def _exception_list(bits: Any, smallest: Any, is_other: Any, most: int) -> Any:
    """Where the exceptions are, and by how much they are more than what stands there.

    What is behind them, if they are fewer, means nothing.
    """
    places = lax.top_k(is_other.astype(jnp.float32), most)[1]
    more = _floats(bits[places]) - _floats(smallest[places])
    both = [places, lax.bitcast_convert_type(more, jnp.int32)]
    return jnp.stack(both, axis=1).reshape(-1)


def _floats(bits: Any) -> Any:
    return lax.bitcast_convert_type(bits.astype(jnp.uint32) << 16, jnp.float32)


def _interleaved_bytes(values: Any) -> Any:
    """Bytes in the order in which registers mix them: of two vectors, eight by turns."""
    units = values.astype(jnp.uint8).reshape(-1, 2, CODED_GROUP // 16, 8)
    return units.transpose(0, 2, 1, 3).reshape(-1, CODED_GROUP)


def _nibbles(codes: Any) -> Any:
    """Two in a byte: the first half of what belongs together, and above it the second."""
    half = CODED_GROUP // 2
    return codes[:, :half] | (codes[:, half:] << 4)


def _words(*parts: Any) -> Any:
    whole = jnp.concatenate([one.reshape(-1) for one in parts])
    return lax.bitcast_convert_type(whole.reshape(-1, 4), jnp.int32)
