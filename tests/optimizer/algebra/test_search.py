from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from testkit.programs.naive_functions import Cases

from aiosearch.capture import capture
from aiosearch.equivalence import verify
from aiosearch.optimizer.algebra import RewriteSearch, estimate, improve
from aiosearch.optimizer.candidates.jax_source import emit
from aiosearch.search import Search
from aiosearch.tensor import Block, Program, apply, tensor
from aiosearch.tensor.files import from_json, to_json

N = 128


CASES = Cases()
case = CASES.case


@case("jnp.sum(a * b.T)", (N, N), (N, N))
def trace_of_product(a: Any, b: Any) -> Any:
    return jnp.trace(a @ b)


@case("jnp.sum(a * b.T, axis=-1)", (N, N), (N, N))
def diagonal_of_product(a: Any, b: Any) -> Any:
    return jnp.diag(a @ b)


@case("jnp.sum(jnp.square(x))", (N, N))
def frobenius(x: Any) -> Any:
    return jnp.trace(x.T @ x)


@case("jnp.sum(x @ m * x, axis=-1)", (N, N), (N // 4, N))
def mahalanobis(m: Any, x: Any) -> Any:
    return jnp.diag(x @ m @ x.T)


@case("x @ a", (N, N), (N,))
def transposed_matvec(a: Any, x: Any) -> Any:
    return a.T @ x


@case("x @ a", (N, N), (N,))
def columns_weighted(a: Any, x: Any) -> Any:
    return jnp.sum(a * x[:, None], axis=0)


@case("(a @ (b @ x[:, None])).reshape(128)", (N, N), (N, N), (N,))
def chain(a: Any, b: Any, x: Any) -> Any:
    return (a @ b) @ x


@case("jnp.sum(b, axis=-1", (N, N), (N, N))
def row_sums_of_product(a: Any, b: Any) -> Any:
    return (a @ b).sum(axis=1)


@case("jnp.sum(a, axis=0, keepdims=True) @ jnp.sum(b, axis=-1", (N, N), (N, N))
def sum_of_product(a: Any, b: Any) -> Any:
    return jnp.sum(a @ b)


@case("a[:4] @ b", (N, N), (N, N))
def few_rows_of_product(a: Any, b: Any) -> Any:
    return (a @ b)[:4]


@case("return a / b", (N, N), (N, N))
def quotient_by_logarithms(a: Any, b: Any) -> Any:
    return jnp.exp(jnp.log(a) - jnp.log(b))


@case("return jnp.exp(a - b)", (N, N), (N, N))
def quotient_of_exponentials(a: Any, b: Any) -> Any:
    return jnp.exp(a) / jnp.exp(b)


@case("jnp.tanh(a[:4] @ b)", (N, N), (N, N))
def rows_stacked(a: Any, b: Any) -> Any:
    return jnp.stack([jnp.tanh(a[i] @ b) for i in range(4)])


@case("jnp.sum(jnp.tanh(a[:6] @ b), axis=0)", (N, N), (N, N))
def rows_added(a: Any, b: Any) -> Any:
    out = jnp.zeros((N,))
    for i in range(6):
        out = out + jnp.tanh(a[i] @ b)
    return out


@case("a = x[:8]\n", (N, N))
def rows_normalised(x: Any) -> Any:
    return jnp.stack([jax.nn.softmax(x[i]) for i in range(8)])


@case("return 2 * (b @ a)", (N, N), (N, N))
def common_factor(a: Any, b: Any) -> Any:
    return b @ a + (b * 2) @ a / 2


@case("jax.nn.sigmoid(x)", (N, N))
def gate(x: Any) -> Any:
    return x * (jnp.exp(x) / (1 + jnp.exp(x)))


@case("x @ y.T", (N, N // 4), (N, N // 4))
def distances(x: Any, y: Any) -> Any:
    return jnp.sum((x[:, None, :] - y[None, :, :]) ** 2, -1)


@case("x[:, None] * m", (N,), (N, N))
def scaled_rows(x: Any, m: Any) -> Any:
    return jnp.diag(x) @ m


@case("jnp.log(", (N, N))
def log_softmax(x: Any) -> Any:
    return jnp.log(jax.nn.softmax(x))


@case("jnp.sum(b, axis=-1", (N, N), (N, N))
def product_with_ones(a: Any, b: Any) -> Any:
    return jnp.sum(a * (b @ jnp.ones((N, N))))


@case("u @ (w @ x)", (N, 4), (4, N), (N, N))
def low_rank(u: Any, w: Any, x: Any) -> Any:
    return (u @ w) @ x


@case("jnp.sqrt(x)", (N, N))
def half_powers(x: Any) -> Any:
    return x**2.5 + x**1.5


def captured(name: str) -> Program:
    case = CASES[name]
    shapes = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in case.shapes]
    return capture(case.function, *shapes).program


@pytest.mark.parametrize("name", CASES)
def test_the_expected_form_is_found_and_all_are_verified_equal(name: str) -> None:
    """What one would write by hand is among the best; no rule is wrong beside others."""
    program = captured(name)
    found = improve(program, seconds=10, nodes=150)
    assert estimate(found[0]) < estimate(program)
    assert any(CASES[name].body in emit(one) for one in found)
    for one in found:
        verdict = verify(program, one, floats=False)
        assert verdict.status.accepted, verdict.summary()


def test_the_same_nodes_give_the_same_answers() -> None:
    """A search that is limited by nodes is repeatable."""
    program = captured("common_factor")
    assert improve(program, nodes=40) == improve(program, nodes=40)


def test_what_is_best_has_no_answers() -> None:
    """A single product of matrices is what it is."""
    x, w = tensor("x", "f32", (N, N)), tensor("w", "f32", (N, N))
    assert improve(Program("linear", (x, w), (x @ w,))) == []


def test_kernels_are_left_alone() -> None:
    """Programs with custom kernels are not rewritten."""
    x = tensor("x", "f32", (4, 8))
    block = Block((2, 1, 1), 2)
    tile = block.accumulate(block.load(x, (0, None, None), 1), "sum", 0)
    (found,) = block.results((tile, (0, None, None)))
    assert improve(Program("kernel", (x,), (apply("exp", apply("log", found)),))) == []


async def test_the_search_is_a_problem_like_any_other() -> None:
    """In another process too, and every answer carries the rules that led to it."""
    program = captured("trace_of_product")
    problem = RewriteSearch(to_json(program))
    async with Search(problem, order="best-first", workers=1, cache=None) as search:
        result = await search.wait()
    assert result.best is not None
    assert "diagonal_of_product" in result.best.trail
    assert from_json(result.best.program) == improve(program)[0]


def test_half_of_the_answers_lose_no_digits() -> None:
    """Where the fastest subtract what is nearly equal, there are others."""
    x = tensor("x", "f32", (N, N))
    y = apply("reshape", x, shape=(N, 1, N)) - apply("reshape", x, shape=(1, N, N))
    z = apply("sum", apply("square", y), axes=(2,)) @ apply("exp", apply("log", x))
    found = improve(Program("both", (x,), (z,)), nodes=60)
    assert any("x @ x.T" in emit(one) for one in found)
    assert any("x @ x.T" not in emit(one) for one in found)


def test_a_node_that_is_expanded_again_is_not_rewritten_again() -> None:
    """The engine expands the root three times, and each neighbour of a large program is dear."""
    x = tensor("x", "f32", (4, 8))
    problem = RewriteSearch(
        to_json(Program("p", (x,), (apply("sum", x * 2.0 + x * 3.0, axes=(1,)),)))
    )
    root = problem.root()
    children = problem.expand(root)
    assert problem.expand(root) is children
    problem.expand(children[0])
    assert problem.expand(root) == children
