"""The encoder of panels of bf16 into the format of `coded_format`, written with jax.

It runs once, when constant weights are packed, and on whatever device jax uses.
"""

from __future__ import annotations

import math

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
"""The bits of the smallest normal bf16, 2^-126."""


@jax.jit
def encode_panels(panels: jax.Array) -> jax.Array:
    """The coded form, as i32, of bf16 `panels` of shape batch, panels, pairs of rows, width and
    two."""
    codes = CodedPanelFormat(math.prod(panels.shape[:-3]), math.prod(panels.shape[-3:]))
    bits = lax.bitcast_convert_type(panels, jnp.uint16).reshape(codes.panels, codes.elements)
    heads, elements = jax.vmap(lambda panel: _panel(panel, codes.most))(bits)
    return jnp.concatenate([heads.reshape(-1), elements.reshape(-1)])


def _panel(bits: jax.Array, most: int) -> tuple[jax.Array, jax.Array]:
    """The head and the elements of one panel, as i32."""
    first = bits >> 8
    counts = jnp.zeros(256, jnp.int32).at[first].add(1)
    # Zeros are named first, whatever the others are: padding is zero, and both signs decode
    # exactly.
    always = counts.at[jnp.array([0x00, 0x80])].set(bits.size + 1)
    names = lax.top_k(always, NAMED_BYTES)[1].astype(jnp.uint8)
    code_of = (
        jnp.full(256, NAMED_BYTES, jnp.uint8)
        .at[names]
        .set(jnp.arange(NAMED_BYTES, dtype=jnp.uint8))
    )
    is_other = code_of[first] == NAMED_BYTES
    count = is_other.sum(dtype=jnp.int32)
    # A normal number, so that no processor flushes it to zero; its sign is kept so that infinities
    # come out right.
    smallest = (bits & 0x8000) | _SMALLEST
    replaced = jnp.where(is_other, smallest, bits)
    short = _words(
        _interleaved_bytes(replaced & 0xFF), _nibbles(_interleaved_bytes(code_of[replaced >> 8]))
    )
    # Both forms have the same length, as `jax.jit` needs fixed shapes: the shorter one is padded.
    plain = lax.bitcast_convert_type(bits.reshape(-1, 2), jnp.int32)
    short = jnp.pad(short, (0, plain.size - short.size))
    stored_count = jnp.where(count > most, UNCODED_PANEL, count)
    listed = _exception_list(bits, smallest, is_other, most)
    head = jnp.concatenate([_words(names), stored_count[None], jnp.zeros(_REST, jnp.int32), listed])
    return head, jnp.where(count > most, plain, short)


_REST = (EXCEPTION_LIST_OFFSET - EXCEPTION_COUNT_OFFSET) // 4 - 1
"""32-bit words between the count and the list of exceptions."""


def _exception_list(
    bits: jax.Array, smallest: jax.Array, is_other: jax.Array, most: int
) -> jax.Array:
    """Positions of the exceptions, and their differences to what is stored in their place.

    With fewer exceptions than `most`, the list ends in entries without meaning.
    """
    places = lax.top_k(is_other.astype(jnp.float32), most)[1]
    differences = _floats(bits[places]) - _floats(smallest[places])
    both = [places, lax.bitcast_convert_type(differences, jnp.int32)]
    return jnp.stack(both, axis=1).reshape(-1)


def _floats(bits: jax.Array) -> jax.Array:
    """The f32 of bf16 bits."""
    return lax.bitcast_convert_type(bits.astype(jnp.uint32) << 16, jnp.float32)


def _interleaved_bytes(values: jax.Array) -> jax.Array:
    """Bytes in the order in which `emit.access.decode_vectors` interleaves them: of two vectors,
    eight by turns."""
    units = values.astype(jnp.uint8).reshape(-1, 2, CODED_GROUP // 16, 8)
    return units.transpose(0, 2, 1, 3).reshape(-1, CODED_GROUP)


def _nibbles(codes: jax.Array) -> jax.Array:
    """Two codes per byte: the first half of a group in the low bits, the second in the high
    bits."""
    half = CODED_GROUP // 2
    return codes[:, :half] | (codes[:, half:] << 4)


def _words(*parts: jax.Array) -> jax.Array:
    """The bytes of all parts as i32."""
    whole = jnp.concatenate([part.reshape(-1) for part in parts])
    return lax.bitcast_convert_type(whole.reshape(-1, 4), jnp.int32)
