"""JAX functions as patterns: kinds and access relations by rule, and the same by poisoning."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import msgspec
import pytest
from jax import lax

from aiosearch.mapper import PatternKind, SplitSizes, capture_patterns, flatten, map_program
from aiosearch.mapper.published import claix

KEY = jax.random.PRNGKey(0)


def normal(*shape: int) -> jax.Array:
    return jax.random.normal(KEY, shape)


def network(x: Any, w: Any, v: Any) -> Any:
    return jnp.tanh(x @ w) @ v


def smoothed(u: Any) -> Any:
    y = (u[:-2] + u[1:-1] + u[2:]) / 3
    return (y * y).sum(0), y


def recurrent(h: Any, xs: Any, w: Any) -> Any:
    return lax.scan(lambda h, x: (jnp.tanh(h @ w + x), None), h, xs)[0]


def jacobi(a: Any, b: Any, x: Any) -> Any:
    return lax.fori_loop(0, 5, lambda turn, x: (b - a @ x) / 4 + x, x)


WHOLE = "whole"
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], list[tuple[PatternKind, Any]]]] = {
    "products": (
        network, (normal(32, 8), normal(8, 8), normal(8, 4)),
        [
            (PatternKind.MAP, [("x0", 0), ("x1", WHOLE)]),
            (PatternKind.MAP, [("dot_general3", 0), ("x2", WHOLE)]),
        ],
    ),
    "stencil and reduction": (
        smoothed, (normal(32, 5),),
        [
            (PatternKind.STENCIL, [("x0", 0), ("x0", 1), ("x0", 2)]),
            (PatternKind.REDUCE, [("div1", 0)]),
        ],
    ),
    "stencil with padded edges": (
        lambda u: (lambda p: p[:-2] + p[1:-1] + p[2:])(jnp.pad(u, ((1, 1), (0, 0)), mode="edge")),
        (normal(32, 5),),
        [
            (PatternKind.MAP, [("x0", WHOLE)]),
            (PatternKind.STENCIL, [("concatenate1", 0), ("concatenate1", 1), ("concatenate1", 2)]),
        ],
    ),
    "recurrence over time": (
        recurrent, (normal(16, 8), normal(5, 16, 8), normal(8, 8)),
        [(PatternKind.RECURRENCE, [("x0", 0), ("x1", WHOLE), ("x2", WHOLE)])],
    ),
    "sweeps that read all of the last": (
        jacobi, (normal(16, 16), normal(16), normal(16)),
        [(PatternKind.RECURRENCE, [("x0", 0), ("x1", 0), ("x2", WHOLE)])],
    ),
    "lookup": (
        lambda table, at: jnp.sin(table[at]), (normal(10, 3), jnp.arange(20) % 10),
        [
            (PatternKind.MAP, [("x0", WHOLE), ("x1", 0)]),
            (PatternKind.MAP, [("gather2", 0)]),
        ],
    ),
    "no rows": (
        lambda x: jnp.abs(jnp.fft.fft(x)), (normal(32),),
        [(PatternKind.MAP, [("x0", WHOLE)]), (PatternKind.MAP, [("fft1", 0)])],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_patterns_and_their_accesses(name: str) -> None:
    """Each kind of primitive gives the pattern that the table names, and poisoning agrees."""
    function, args, expected = CASES[name]
    captured = capture_patterns(function, *args)
    calls = [
        (call.kind, sorted((a.array, WHOLE if a.whole else a.shift) for a in call.reads))
        for call in captured.program.calls
    ]
    assert calls == [(kind, sorted(reads, key=str)) for kind, reads in expected]
    assert captured.poisoned(args) == []


def test_poisoning_refutes_an_access_that_is_missing() -> None:
    """A relation that forgets a neighbour is told from the one that has it."""
    args = (normal(32, 5),)
    captured = capture_patterns(smoothed, *args)
    stencil = captured.calls[0]
    fewer = msgspec.structs.replace(stencil.call, reads=stencil.call.reads[:2])
    wrong = replace(captured, calls=(replace(stencil, call=fewer), *captured.calls[1:]))
    assert any("div1: row" in objection for objection in wrong.poisoned(args, rows=8))


def test_operations_are_counted() -> None:
    """An iteration of a product has two operations for each of its terms, and those before it."""
    captured = capture_patterns(network, normal(32, 8), normal(8, 8), normal(8, 4))
    counted = [pattern.operations for pattern in captured.program.patterns]
    assert counted == [2 * 8 * 8, 2 * 8 * 4 + 8 * 8]  # a tanh counts as eight


async def test_captured_programs_are_mapped() -> None:
    """They are cut, put in levels and mapped as those that are written by hand."""
    captured = capture_patterns(network, normal(4096, 64), normal(64, 64), normal(64, 8))
    assert len(flatten(captured.program, SplitSizes(1024, 1024))) == 2
    mapped = await map_program(captured.program, claix(), SplitSizes(1024, 1024), lookahead=0)
    assert mapped.score > 0
