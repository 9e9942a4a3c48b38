"""Programs that run by rows give what they gave, whatever the blocks; others are left alone."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax import lax

from aiosearch.mapper.rows.blocked import RowBlocks, RowRunner, RowSchedule
from aiosearch.mapper.rows.choice import choose_rows, rows_of
from aiosearch.mapper.rows.equations import flatten_jaxpr, trace
from aiosearch.mapper.rows.evidence import UNITS, compare, difference
from aiosearch.mapper.rows.frames import bind
from aiosearch.mapper.rows.proof import prove_rows
from aiosearch.mapper.rows.rules import RULES, Rows, requirement
from aiosearch.mapper.rows.schedule_race import VECTOR, choose_schedule

KEY = jax.random.PRNGKey(0)


def normal(*shape: int) -> jax.Array:
    return jax.random.normal(KEY, shape)


def network(x: Any, layers: Any) -> Any:
    for weight, bias in layers:
        x = jnp.tanh(x @ weight + bias)
    return x


def normalized(x: Any, gain: Any) -> Any:
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return jax.nn.softmax((x - mean) / jnp.sqrt(variance + 1e-5) * gain), mean


def recurrence(state: Any, inputs: Any, weight: Any) -> Any:
    def turn(state: Any, x: Any) -> Any:
        state = jnp.tanh(state @ weight + x)
        return state, state.sum(-1)

    return lax.scan(turn, state, inputs)


def relaxed(u: Any) -> Any:
    return lax.fori_loop(0, 5, lambda turn, u: u * 0.9 + jnp.sin(u) * turn, u)


def branching(x: Any, sign: Any) -> Any:
    return lax.cond(sign > 0, lambda x: x * 2, jnp.sin, x)


def five_points(u: Any) -> Any:
    return (u[1:-1, 1:-1] + u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]) / 5


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "network": (network, (normal(101, 8), [(normal(8, 8), normal(8)), (normal(8, 3), normal(3))])),
    "norm": (normalized, (normal(101, 16), normal(16))),
    "stencil": (five_points, (normal(50, 20),)),
    "lookup": (
        lambda t, i: jax.nn.relu(t[i]) * jnp.arange(6), (normal(30, 6), jnp.arange(99) % 30)
    ),
    "attention": (
        lambda q, k, v: jax.nn.softmax(jnp.einsum("bqd,bkd->bqk", q, k)) @ v,
        (normal(20, 5, 4), normal(20, 6, 4), normal(20, 6, 4)),
    ),
    "convolution": (
        lambda x, w: lax.conv(x, w, (1, 1), "SAME"), (normal(32, 3, 8, 8), normal(4, 3, 3, 3))
    ),
    "largest": (lambda x: lax.top_k(x, 3), (normal(100, 9),)),
    "scan": (recurrence, (normal(101, 8), normal(6, 101, 8), normal(8, 8))),
    "loop": (relaxed, (normal(100, 4),)),
    "branch": (branching, (normal(100, 4), jnp.int32(1))),
    "checkpoint": (
        lambda x, w: jax.checkpoint(lambda x: jax.nn.gelu(x @ w))(x), (normal(100, 4), normal(4, 4))
    ),
}  # fmt: skip
SCHEDULES = (RowSchedule(1, 7), RowSchedule(2, 16, fence=True))


def close(actual: Any, expected: Any) -> None:
    for a, b in zip(actual, jax.tree_util.tree_leaves(expected), strict=True):
        assert difference(np.asarray(b), np.asarray(a)) < UNITS


@pytest.mark.parametrize("name", PROGRAMS)
def test_blocks_give_what_the_whole_gives(name: str) -> None:
    """Uneven blocks, fences, several teams, and inside of another jit."""
    function, args = PROGRAMS[name]
    flat, _ = trace(function, args)
    pulled = choose_rows(flat)
    assert pulled is not None
    assert pulled.share > 0.8
    leaves = [jnp.asarray(leaf) for leaf in jax.tree_util.tree_leaves(args)]
    expected = jax.jit(function)(*args)
    for schedule in SCHEDULES:
        runner = RowRunner(RowBlocks(pulled), schedule)
        close(runner(leaves), expected)
    close(jax.jit(lambda *values: runner.traced(values))(*leaves), expected)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: lax.while_loop(lambda x: x.max() > 1, lambda x: x * 0.5, x),
        lambda x: jnp.fft.fft(x),
    ],
)
def test_rows_that_depend_on_each_other_are_left_alone(function: Callable[..., Any]) -> None:
    """A loop that ends when all rows agree, and a transform of a vector, have no rows."""
    assert choose_rows(trace(function, (normal(64),))[0]) is None


def test_what_needs_all_rows_is_computed_once() -> None:
    """A mean over the batch stays whole; what is done with it goes by rows."""

    def function(x: Any, w: Any) -> Any:
        return jnp.tanh((x - x.mean()) @ w) @ w.T

    flat, _ = trace(function, (normal(300, 8), normal(8, 8)))
    pulled = choose_rows(flat)
    assert pulled is not None
    assert [equation.name for equation in pulled.hoisted()].count("reduce_sum") == 1
    assert rows_of(pulled) == 300


def test_poisoned_rows_spoil_what_they_did() -> None:
    """A candidate that mixes neighbouring rows is refuted, though it is nearly right."""

    def original(values: Any) -> list[Any]:
        return [values[0] * 2]

    def leaking(values: Any) -> list[Any]:
        x = values[0]
        return [x * 2 + 0 * jnp.roll(x, 1, axis=0)]

    assert compare(original, original, [normal(50, 3)]).holds
    assert "poisoned" in compare(original, leaking, [normal(50, 3)]).failure


@pytest.mark.parametrize(
    "mutate",
    [
        lambda results: [jnp.zeros_like(results[0])],
        lambda results: [results[0].at[-1].set(0)],
        lambda results: [jnp.roll(results[0], 1, axis=0)],
        lambda results: [results[0].astype(jnp.bfloat16).astype(jnp.float32)],
        lambda results: [results[0][:-1]],
    ],
    ids=["zeros", "last row unwritten", "rows shifted", "lower precision", "a row short"],
)
def test_wrong_results_are_refuted(mutate: Callable[[Any], Any]) -> None:
    """Zeros, a block that is not written, swapped rows, half precision, another shape."""

    def original(values: Any) -> list[Any]:
        return [jnp.tanh(values[0])]

    assert not compare(original, lambda values: mutate(original(values)), [normal(64, 5)]).holds


@given(st.integers(1, 200), st.integers(1, 60), st.integers(1, 9))
def test_teams_cover_all_rows(rows: int, block: int, teams: int) -> None:
    """Each row belongs to one team, in order, and no team has none."""
    runs = RowSchedule(teams, block).runs(rows)
    assert [row for first, count in runs for row in range(first, first + count)] == [*range(rows)]
    assert all(count > 0 for _, count in runs)
    assert len(runs) <= teams


RULED: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "broadcast_in_dim": (lambda x: jnp.broadcast_to(x[:, None], (12, 7)), (normal(12),)),
    "concatenate": (lambda x, y: jnp.concatenate([x, y], 1), (normal(12, 3), normal(12, 2))),
    "conv_general_dilated": (
        lambda x, w: lax.conv(x, w, (1, 1), "SAME"), (normal(12, 2, 5, 5), normal(3, 2, 3, 3))
    ),
    "cumsum": (lambda x: jnp.cumsum(x, 1), (normal(12, 4),)),
    "dot_general": (
        lambda x, y: jnp.einsum("bij,bjk->bik", x, y), (normal(12, 3, 4), normal(12, 4, 2))
    ),
    "dynamic_slice": (lambda x: lax.dynamic_slice(x, (0, 1), (12, 2)), (normal(12, 5),)),
    "dynamic_update_slice": (
        lambda x, y: lax.dynamic_update_slice(x, y, (0, 1)), (normal(12, 5), normal(12, 2))
    ),
    "gather": (lambda t, i: t[i], (normal(9, 4), jnp.arange(12) % 9)),
    "pad": (lambda x: jnp.pad(x, ((0, 0), (1, 2))), (normal(12, 4),)),
    "reduce_max": (lambda x: x.max(1), (normal(12, 4),)),
    "argmax": (lambda x: x.argmax(1), (normal(12, 4),)),
    "reshape": (lambda x: x.reshape(12, 6), (normal(12, 2, 3),)),
    "rev": (lambda x: lax.rev(x, (1,)), (normal(12, 4),)),
    "slice": (lambda x: x[1:, :3], (normal(13, 4),)),
    "sort": (lambda x: jnp.sort(x, 1), (normal(12, 4),)),
    "squeeze": (lambda x: jnp.squeeze(x, 1), (normal(12, 1, 3),)),
    "top_k": (lambda x: lax.top_k(x, 2), (normal(12, 4),)),
    "transpose": (lambda x: x.T, (normal(4, 12),)),
    "select_n": (lambda p, x, y: jnp.where(p, x, y), (normal(12) > 0, normal(12), normal(12))),
    "clamp": (lambda x: lax.clamp(-0.5, x, 0.5), (normal(12, 2),)),
}  # fmt: skip


@pytest.mark.parametrize("name", RULED)
def test_a_rule_gives_the_rows_that_it_says(name: str) -> None:
    """On the parts that a rule asks for, a primitive gives those rows of its result."""
    function, args = RULED[name]
    flat, _ = trace(function, args)
    values: dict[int, Any] = dict(zip((value.number for value in flat.inputs), args, strict=True))
    checked = 0
    for equation in flat.equations:
        operands = [
            getattr(atom, "array", None) if not hasattr(atom, "number") else values[atom.number]
            for atom in equation.inputs
        ]
        results = bind(equation, operands, equation.params)
        values.update(zip((value.number for value in equation.outputs), results, strict=True))
        for position, result in enumerate(results):
            for axis, size in enumerate(result.shape):
                how = requirement(equation, position, Rows(axis))
                if how is None or size < 4:
                    continue
                for start, count in ((0, 3), (size - 2, 2)):
                    parts = [
                        operand
                        if demand is None
                        else lax.dynamic_slice_in_dim(
                            operand, start + demand.shift, count, demand.axis
                        )
                        for operand, demand in zip(operands, how.operands, strict=True)
                    ]
                    part = bind(equation, parts, how.params(equation.params, count))[position]
                    expected = lax.dynamic_slice_in_dim(result, start, count, axis)
                    np.testing.assert_allclose(part, expected, rtol=1e-6)
                    checked += equation.name == name
    assert checked
    assert name in RULES


def test_blocks_that_are_tried_have_whole_vectors() -> None:
    """Of 300,003 numbers, which 16 does not divide, only what a team has in all may be odd."""
    x = normal(300_003)
    function = jax.jit(lambda x: jnp.sin(x) * x)
    pulled = choose_rows(trace(function, (x,))[0])
    assert pulled is not None
    choice = choose_schedule(
        lambda values: [function(*values)], RowBlocks(pulled), [x], teams=2, seconds=60.0
    )
    blocks = {lap.schedule.block for lap in choice.tried}
    assert len(blocks) > 3
    assert {block for block in blocks if block % VECTOR} <= {150_002}


def test_calls_are_inlined() -> None:
    """Functions within functions are one list of equations."""

    def function(x: Any) -> Any:
        return jax.jit(jax.nn.silu)(jax.nn.relu(x))

    flat = flatten_jaxpr(jax.make_jaxpr(function)(normal(3)))
    assert not {"jit", "pjit", "custom_jvp_call"} & {equation.name for equation in flat.equations}


def test_teams_run_in_a_forked_child(tmp_path: Path) -> None:
    """A child has none of its parent's threads, and makes its own."""
    script = tmp_path / "forked.py"
    script.write_text(
        "import os, sys, threading\n"
        "from aiosearch.mapper.rows.blocked import team_threads\n"
        "assert team_threads().submit(threading.get_ident).result()\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    os._exit(0 if team_threads().submit(lambda: 7).result(60) == 7 else 1)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    subprocess.run([sys.executable, str(script)], check=True, timeout=120)


def test_plans_by_rows_are_proved_equal() -> None:
    """For all shapes, of functions row by row; rows of a neighbour are refuted."""
    layers = [(normal(8, 8), normal(8)), (normal(8, 8), normal(8))]
    for function, args in (
        (network, (normal(12, 8), layers)),
        (normalized, (normal(11, 8), normal(8))),
    ):
        pulled = choose_rows(trace(function, args)[0])
        assert pulled is not None
        assert prove_rows(function, args, pulled).startswith("proved for all shapes")
    pulled = choose_rows(trace(jnp.sin, (normal(8, 2),))[0])
    assert pulled is not None
    (key, how), *_ = pulled.requirements.items()
    (rows,) = how.operands
    assert rows is not None
    shifted = replace(how, operands=(Rows(rows.axis, rows.shift + 1),))
    wrong = replace(pulled, requirements={key: shifted})
    assert prove_rows(jnp.sin, (normal(8, 2),), wrong).startswith("refuted")


def test_a_counterexample_is_looked_for_among_few_numbers() -> None:
    """Of 2^26 numbers a value would take half a gigabyte, and polynomials of polynomials have no
    proof: that says so, whatever the sizes."""

    def series(x: Any, w: Any) -> Any:
        for _ in range(5):
            y = x @ w
            x = y - y**3 / 3 + 2 * y**5 / 15
        return x

    args = (np.broadcast_to(np.float32(0.5), (1 << 20, 64)), np.ones((64, 64), np.float32))
    pulled = choose_rows(trace(series, args)[0])
    assert pulled is not None
    assert prove_rows(series, args, pulled).startswith("not proved: ")


def test_what_cannot_be_proved_says_why() -> None:
    """A function that the tensor language does not have."""
    args = (normal(8, 4), normal(4, 4))

    def solved(x: Any, a: Any) -> Any:
        return jnp.tanh(x @ jnp.linalg.qr(a)[0])

    pulled = choose_rows(trace(solved, args)[0])
    assert pulled is not None
    assert prove_rows(solved, args, pulled).startswith("not proved: ")
