"""Answers as text."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from answers import answer, key

from aiosearch.optimizer.outcomes.answer import Packing, canonical_digest
from aiosearch.tensor import Program, tensor
from aiosearch.tensor.programs import BUILTINS, builtin


def product(first: str = "x", second: str = "w", size: int = 8, name: str = "product") -> Program:
    x, w = tensor(first, "f32", [size, size]), tensor(second, "f32", [size, size])
    return Program(name, (x, w), (x @ w,))


def test_names_do_not_matter() -> None:
    """A program is the same under another name, with other names and labels of inputs."""
    assert canonical_digest(product()) == canonical_digest(product("a", "b", name="other"))
    x, w = tensor("x", "f32", [8, 8], ["row", "inner"]), tensor("w", "f32", [8, 8])
    assert canonical_digest(product()) == canonical_digest(Program("product", (x, w), (x @ w,)))


def test_everything_else_does() -> None:
    """Sizes, types, the order of inputs and what is done to them tell programs apart."""
    x, w = tensor("x", "f32", [8, 8]), tensor("w", "f32", [8, 8])
    half = tensor("x", "bf16", [8, 8]), tensor("w", "bf16", [8, 8])
    programs = [
        product(),
        product(size=9),
        Program("half", half, (half[0] @ half[1],)),
        Program("turned", (x, w), (w @ x,)),
        Program("square", (x, w), (x @ x,)),
        Program("sum", (x, w), (x + w,)),
        Program("scaled", (x, w), (x @ w * 2,)),
        Program("scaled more", (x, w), (x @ w * 3,)),
        Program("twice", (x, w), (x @ w, x @ w)),
        Program("one more input", (x, w, tensor("y", "f32", [1])), (x @ w,)),
    ]
    assert len({canonical_digest(program) for program in programs}) == len(programs)


def test_builtin_programs() -> None:
    """Each has a digest of its own, the same whenever it is built."""
    digests = {canonical_digest(builtin(name)) for name in BUILTINS}
    assert len(digests) == len(BUILTINS)
    assert digests == {canonical_digest(builtin(name)) for name in BUILTINS}


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
