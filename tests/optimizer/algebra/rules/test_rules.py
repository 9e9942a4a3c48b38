from __future__ import annotations

import numpy as np
import pytest
from testkit.programs.random_programs import random_program

from aiosearch.optimizer.algebra.rules.registry import RULES, rewritten
from aiosearch.optimizer.algebra.rules.simplification import Tidier
from aiosearch.optimizer.algebra.search import neighbours
from aiosearch.tensor import Program, Term, apply, literal, referee, tensor
from aiosearch.tensor.terms import INPUT

A, B = tensor("a", "f32", (3, 4)), tensor("b", "f32", (3, 4))
M, N, K = (tensor(name, "f32", (3, 3)) for name in "mnk")
V, W, S = tensor("v", "f32", (3, 1)), tensor("w", "f32", (1, 4)), tensor("s", "f32", ())


def t(x: Term) -> Term:
    return apply("transpose", x, axes=(1, 0))


def total(x: Term, *axes: int, keep: bool = False) -> Term:
    return apply("sum", x, axes=axes, keep=keep)


def f(name: str, *xs: Term, **given: object) -> Term:
    return apply(name, *xs, **given)


def row(x: Term, at: int) -> Term:
    return f("reshape", f("slice", x, axis=0, start=at, stop=at + 1), shape=(x.shape[1],))


def identity() -> Term:
    return f(
        "equal",
        f("iota", shape=(3, 1), axis=0, dtype="i32"),
        f("iota", shape=(1, 3), axis=1, dtype="i32"),
    )


def repeated(x: Term) -> Term:
    return f("broadcast", x, shape=(3, 4))


EXAMPLES = {
    "common_factor": [A * B + A * V, M @ N + M @ K, A / V - B / V, f("square", A) + A],
    "common_factor_of_many": [f("power", A, exponent=3) + f("square", A) + A, A * B + V + A * W],
    "diagonal_first": [f("diagonal", M * N), f("diagonal", t(M))],
    "diagonal_of_product": [f("diagonal", A @ t(B))],
    "distributed": [A * (B + W)],
    "exp_of_difference": [f("exp", f("log", A) - f("log", B)), f("exp", A + f("log", B))],
    "exp_of_scaled_log": [f("exp", literal(3) * f("log", A))],
    "function_of_repeated": [f("exp", repeated(V)), repeated(V) * A],
    "inverse_root": [f("rsqrt", A)],
    "joined_exponentials": [f("exp", A) * f("exp", B), f("exp", A) / f("exp", V)],
    "joined_logarithms": [f("log", A) + f("log", B), f("log", A) - f("log", V)],
    "log_of_complement": [f("log", literal(1) - f("sigmoid", A))],
    "log_of_one_more": [f("log", literal(1) + A)],
    "log_of_quotient": [
        f("log", one) for one in (A / V, f("sqrt", A), f("power", A, exponent=3))
    ],
    "over_root": [A * f("rsqrt", V), A * (literal(1) / V)],
    "power_by_root": [f("power", A, exponent=2.5), f("power", A, exponent=-3)],
    "product_with_constant": [A @ f("broadcast", literal(2), shape=(4, 5))],
    "product_of_sum": [M @ (A + B), (M - N) @ A],
    "product_with_diagonal": [
        f("select", identity(), V, literal(0)) @ A, f("cast", identity(), dtype="f32") @ A,
    ],
    "product_with_stack": [f("stack", row(M, 0), row(N, 1), row(K, 2), axis=1) @ V],
    "reassociated": [(M @ N) @ A, M @ (N @ A)],
    "reciprocal_first": [A / V, A / 3, (A * B) / S],
    "reduced_function": [f("max", f("exp", A), axes=(1,))],
    "reduction_of_repeated": [total(repeated(V), 1), f("mean", repeated(W), axes=(0, 1))],
    "reduction_of_transpose": [total(t(A), 0), f("max", t(A), axes=(1,), keep=True)],
    "regrouped_factors": [(A * V) * V, S * (S * A)],
    "rows_at_once": [
        f("stack", *(f("tanh", row(A, at)) for at in range(3)), axis=0),
        f("concatenate", *(f("slice", M, axis=0, start=at, stop=at + 1) @ A for at in range(3)),
          axis=0),
        f("stack", *(total(row(A, at) * row(B, at), 0) for at in range(3)), axis=0),
        f("stack", *(f("reshape", t(M) @ f("reshape", row(M, at), shape=(3, 1)), shape=(3,))
                     for at in (0, 2)), axis=1),
    ],
    "scale_across_product": [(M * t(V)) @ A, M @ (A * V)],
    "scale_into_product": [(M @ A) * 2],
    "scale_out_of_product": [(M * V) @ A, M @ (A / W), (-M) @ A],
    "sigmoid": [literal(1) / (literal(1) + f("exp", -A)), f("exp", A) / (f("exp", A) + 1)],
    "slice_first": [
        f("slice", x, axis=0, start=1, stop=2)
        for x in (A * W, M @ A, t(A), repeated(W), f("stack", A, B, axis=0), total(A, 1),
                  f("concatenate", A, B, axis=0), total(A, 1, keep=True))
    ],
    "sum_as_product": [total(A * B, 0, 1), total(A * V, 0), total(f("square", A), 0, 1)],
    "sum_from_product": [V @ W],
    "sum_inside": [total(A * V, 1), f("mean", A / V, axes=(1,))],
    "sum_of_product": [total(M @ A, 0), total(M @ A, 1), f("mean", M @ A, axes=(0, 1))],
    "sum_of_rows": [f("exp", row(A, 0)) + f("exp", row(A, 1)) + f("exp", row(A, 2))],
    "sum_of_square": [total(f("square", V - W), 1)],
    "sum_of_sum": [total(A + V, 1), total(A - W, 0, 1)],
    "transpose_after": [t(A) * 2, t(A) + t(B)],
    "transpose_before": [t(A * W)],
    "transpose_of_product": [t(M @ A)],
    "turned": [t(M) @ A, M @ t(N)],
}  # fmt: skip


def value(term: Term) -> np.ndarray:  # type: ignore[type-arg]
    program = Program("one", (A, B, M, N, K, V, W, S), (term,))
    draw = np.random.default_rng(0)
    inputs = [draw.uniform(0.3, 2, size=one.shape) for one in program.inputs]
    return referee.run(program, inputs)[0]


def test_every_rule_has_an_example() -> None:
    """Rules are declared by their names."""
    assert EXAMPLES.keys() == {rule.name for rules in RULES.values() for rule in rules}


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_rule_gives_what_is_equal(name: str) -> None:
    """Every example is rewritten, to terms of its type and value."""
    for term in EXAMPLES[name]:
        found = [other for rule, other in rewritten(term) if rule == name]
        assert found, term
        for other in found:
            assert str(other.type) == str(term.type)
            np.testing.assert_allclose(value(other), value(term), rtol=1e-9)


def test_random_programs_stay_what_they_are() -> None:
    """Tidied, and rewritten by any one rule: equal wherever the original is finite."""
    for seed in range(400):
        program = random_program(seed, kernels=False)
        draw = np.random.default_rng(seed)
        inputs = [draw.uniform(0.3, 2, size=term.shape) for term in program.inputs]
        wanted = referee.run(program, inputs)
        tidier = Tidier()
        tidy = tidier.program(program)
        for other in [tidy, *(found for _, found in neighbours(tidy, tidier))]:
            for ours, theirs in zip(referee.run(other, inputs), wanted, strict=True):
                finite = np.isfinite(theirs)
                np.testing.assert_allclose(ours[finite], theirs[finite], rtol=1e-6, atol=1e-6)


def test_tidied_programs_are_tidy() -> None:
    """Tidying again changes nothing."""
    for seed in range(400):
        tidy = Tidier().program(random_program(seed, kernels=False))
        assert Tidier().program(tidy) == tidy


@pytest.mark.parametrize(
    ("term", "simple"),
    [
        (f("exp", f("log", A)), A),
        (t(t(A)), A),
        ((A + B) - B, A),
        ((A * B) / B, A),
        ((A / B) * B, A),
        (A * 1 + 0, A),
        (f("maximum", A, A), A),
        (total(total(A, 1), 0), total(A, 0, 1)),
        (f("sqrt", f("square", A)), f("abs", A)),
        (literal(2) * (literal(3) * A), literal(6) * A),
        (A / 4, A * 0.25),
        (f("concatenate", f("slice", A, axis=0, start=0, stop=1),
           f("slice", A, axis=0, start=1, stop=3), axis=0), A),
        (f("reshape", t(f("reshape", V, shape=(1, 3))), shape=(3,)), f("reshape", V, shape=(3,))),
    ],
)  # fmt: skip
def test_simple_forms(term: Term, simple: Term) -> None:
    """What cancels is gone before any search."""
    assert Tidier().term(term) is simple


def test_inputs_are_left_alone() -> None:
    """A program of nothing but inputs has no neighbours."""
    program = Program("same", (A,), (A,))
    assert A.operator is INPUT
    assert list(neighbours(Tidier().program(program), Tidier())) == []
