from __future__ import annotations

import pytest

from aiosearch.optimizer.algebra import estimate
from aiosearch.tensor import Program, Term, apply, tensor

A, B = tensor("a", "f32", (512, 512)), tensor("b", "f32", (512, 512))
X = tensor("x", "f32", (512, 1))


def cost(*outputs: Term) -> float:
    return estimate(Program("one", (A, B, X), outputs))


def test_what_constant_inputs_alone_have_a_say_in_costs_nothing() -> None:
    """Beside being read, in the order in which it is wanted."""
    merged = Program("merged", (A, B, X), ((A @ B) @ X,))
    turned = Program("turned", (A, B, X), (apply("square", swapped(A)) @ X,))
    plain = Program("plain", (A, B, X), (A @ X,))
    assert estimate(merged, (0, 1)) == estimate(turned, (0,)) == estimate(plain)
    assert estimate(merged, (0,)) == estimate(merged)


def total(x: Term, *axes: int) -> Term:
    return apply("sum", x, axes=axes, keep=False)


def swapped(x: Term) -> Term:
    return apply("transpose", x, axes=(1, 0))


@pytest.mark.parametrize(
    ("cheap", "dear"),
    [
        (A @ (B @ X), (A @ B) @ X),
        (total(A * B, 0, 1), total(A @ B, 0, 1)),
        (A + B, A @ B),
        (A / B, apply("exp", apply("log", A) - apply("log", B))),
        (apply("transpose", X, axes=(1, 0)) @ A, apply("transpose", swapped(A) @ X, axes=(1, 0))),
        (apply("exp", A + B), apply("sin", A + B)),
        (apply("square", A) * A, apply("power", A, exponent=2.5)),
    ],
)
def test_estimates_are_in_the_order_that_was_measured(cheap: Term, dear: Term) -> None:
    """Products and slow functions are dear, what is fused is cheap."""
    assert cost(cheap) < cost(dear)


def test_what_is_shared_is_counted_once() -> None:
    """Two outputs of one product cost less than two products."""
    shared = A @ B
    assert cost(apply("exp", shared), apply("log", shared)) < 1.5 * cost(shared)


def test_fused_operators_store_nothing() -> None:
    """A chain of cheap functions costs little more than one."""
    chain = A
    for _ in range(5):
        chain = chain * B + A
    assert cost(chain) < 1.5 * cost(A * B)
