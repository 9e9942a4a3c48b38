from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from testkit.programs.naive_functions import Cases

from aiosearch.capture import capture
from aiosearch.equivalence import verify
from aiosearch.limits import Limits
from aiosearch.optimizer.algebra import estimate
from aiosearch.optimizer.algebra.enumeration import EnumerationSearch, Recomputation
from aiosearch.optimizer.algebra.rules import registry
from aiosearch.optimizer.algebra.rules.simplification import Tidier
from aiosearch.optimizer.candidates.jax_source import emit
from aiosearch.orders import BestFirst
from aiosearch.result import Result
from aiosearch.search import Search, solve
from aiosearch.tensor import Program, apply, tensor
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


@case("jnp.sum(b, axis=-1", (N, N), (N, N))
def row_sums_of_product(a: Any, b: Any) -> Any:
    return (a @ b).sum(axis=1)


@case("(a @ (b @ x[:, None]))", (N, N), (N, N), (N,))
def chain(a: Any, b: Any, x: Any) -> Any:
    return (a @ b) @ x


@case("u @ (w @ x)", (N, 4), (4, N), (N, N))
def low_rank(u: Any, w: Any, x: Any) -> Any:
    return (u @ w) @ x


@case("a[:4] @ b", (N, N), (N, N))
def few_rows_of_product(a: Any, b: Any) -> Any:
    return (a @ b)[:4]


@case("(a + b) @ x", (N, N), (N, N), (N, N))
def common_factor_of_products(a: Any, b: Any, x: Any) -> Any:
    return a @ x + b @ x


@case("a * (b + c)", (N, N), (N, N), (N, N))
def common_factor(a: Any, b: Any, c: Any) -> Any:
    return jnp.tanh(a * b + a * c)


@case("return a / b", (N, N), (N, N))
def quotient_by_logarithms(a: Any, b: Any) -> Any:
    return jnp.exp(jnp.log(a) - jnp.log(b))


@case("return jnp.exp(a - b)", (N, N), (N, N))
def quotient_of_exponentials(a: Any, b: Any) -> Any:
    return jnp.exp(a) / jnp.exp(b)


@case("jax.nn.sigmoid(x)", (N, N))
def gate(x: Any) -> Any:
    return x * (jnp.exp(x) / (1 + jnp.exp(x)))


@case("x[:, None]", (N,), (N, N))
def scaled_rows(x: Any, m: Any) -> Any:
    return jnp.diag(x) @ m


@case("c = a @ b\n", (N, N), (N, N))
def product_twice(a: Any, b: Any) -> Any:
    return jnp.tanh(a @ b) + (b.T @ a.T).T


@case("jnp.sqrt(a)", (N, N))
def mean_of_squares_twice(x: Any) -> Any:
    return jnp.mean(x * x, axis=1), jnp.sqrt(jnp.sum(x**2, axis=1) / N)


def captured(name: str) -> Program:
    case = CASES[name]
    shapes = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in case.shapes]
    return capture(case.function, *shapes).program


def searched(program: Program, prune: bool = True, nodes: int = 250) -> Result[Recomputation]:
    return solve(
        EnumerationSearch(to_json(program)),
        order=BestFirst(prune=prune),
        workers=0,
        limits=Limits(nodes=nodes),
        cache=None,
    )


@pytest.mark.parametrize("name", CASES)
def test_the_expected_form_is_found_without_any_rule_and_all_are_verified_equal(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The best answer is what one would write by hand, and cheaper.

    In no answer a name stands for two values, or a step computes what it does not say.
    """
    monkeypatch.setattr(registry, "RULES", {})
    program = captured(name)
    result = searched(program)
    assert result.best is not None
    found = Tidier().program(from_json(result.best.program))
    assert estimate(found) < estimate(program)
    assert CASES[name].body in emit(found)
    for one in result.solutions:
        verdict = verify(program, from_json(one.program), floats=False)
        assert verdict.status.accepted, verdict.summary()


@pytest.mark.parametrize("name", ["row_sums_of_product", "low_rank", "few_rows_of_product"])
def test_pruning_costs_nothing(name: str) -> None:
    """The best answer of all is found also where subtrees are left out by their bounds."""
    program = captured(name)
    whole, pruned = searched(program, prune=False, nodes=5000), searched(program, nodes=5000)
    assert whole.status == pruned.status == "complete"
    assert pruned.statistics.nodes < whole.statistics.nodes
    assert whole.best is not None
    assert pruned.best == whole.best


@pytest.mark.parametrize("name", ["trace_of_product", "gate"])
def test_a_bound_is_never_above_a_cost(name: str) -> None:
    """Of a way and of what comes of any way that goes on from it."""
    problem = EnumerationSearch(to_json(captured(name)))
    ways, bounds = [problem.root()], {problem.root(): 0.0}
    for way in ways[:60]:
        for further in problem.expand(way):
            assert problem.bound(further) >= bounds[way]
            bounds[further] = problem.bound(further)
            ways.append(further)
            for found in problem.solutions(further):
                assert problem.cost(found) >= problem.bound(further)


def test_the_same_nodes_give_the_same_answers() -> None:
    """In the same order: a search that is limited by nodes is repeatable."""
    program = captured("common_factor_of_products")
    one, other = (searched(program, nodes=200) for _ in range(2))
    assert list(one.solutions) == list(other.solutions)


async def test_it_is_a_problem_like_any_other() -> None:
    """Another process finds the same."""
    program = captured("row_sums_of_product")
    problem = EnumerationSearch(to_json(program))
    order = BestFirst(prune=True)
    async with Search(problem, order=order, workers=1, cache=None) as search:
        result = await search.wait()
    assert result.best == searched(program).best


def test_what_stays_the_same_is_computed_for_nothing() -> None:
    """Merged weights make an answer where they are constant, and none where they are not."""
    x, v, w = tensor("x", "f32", (8, N)), tensor("v", "f32", (N, N)), tensor("w", "f32", (N, N))
    program = to_json(Program("twice", (x, v, w), ((x @ v) @ w,)))
    limits = Limits(nodes=300)
    order = BestFirst(prune=True)
    merged = solve(
        EnumerationSearch(program, (1, 2)), order=order, workers=0, limits=limits, cache=None
    )
    plain = solve(EnumerationSearch(program), order=order, workers=0, limits=limits, cache=None)
    assert merged.best is not None
    assert from_json(merged.best.program).outputs == (x @ (v @ w),)
    assert plain.best is None


def test_what_no_field_can_tell_is_left_alone() -> None:
    """Here a divisor that is zero everywhere; the search is over at once."""
    x = tensor("x", "f32", (N, N))
    program = Program("nowhere", (x,), (apply("exp", x / (x - x)),))
    assert searched(program).best is None


def test_large_sizes_that_cannot_be_small_are_left_alone() -> None:
    """Values of that many elements are not computed in a field."""
    x = tensor("x", "f32", (4096, 4096))
    row = apply("slice", x, axis=0, start=1000, stop=1001)
    column = apply("slice", x, axis=1, start=17, stop=1003)
    program = Program("pieces", (x,), (apply("exp", row), apply("log", column)))
    assert searched(program).best is None
