"""Answers as text."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from answers import answer, key

from aiosearch.optimizer.answers import Packing

SOURCE = """\
def merged(x, w, v):
    return x @ w @ v


def merged_pack(w, v):
    return (w @ v,)


def merged_packed(x, packed):
    return x @ packed
"""


def test_a_text_says_how_its_functions_go_together() -> None:
    """And stands alone."""
    text = answer(
        key=key(types=("f32[2, 2]",) * 3, constant=(1, 2)),
        name="merged",
        function="merged",
        source=SOURCE,
        packing=Packing((1, 2), "merged_pack", "merged_packed"),
        evidence={"packed_bytes": 16_000_000},
    ).text()
    assert "# merged(f32[2, 2], f32[2, 2] constant, f32[2, 2] constant) on cpu" in text
    assert "stay the same: packed = merged_pack(w, v), which takes 16 MB" in text
    assert "then merged_packed(x, *packed) is the fastest, and merged(x, w, v) otherwise" in text
    scope: dict[str, Any] = {}
    exec(text, scope)
    x = jnp.arange(4.0).reshape(2, 2)
    packed = scope["merged_pack"](x, x)
    np.testing.assert_allclose(scope["merged_packed"](x, *packed), scope["merged"](x, x, x))


def test_without_anything_made_beforehand_nothing_is_said_of_it() -> None:
    assert "packed" not in answer().text()
