"""What constant inputs alone have a say in."""

from __future__ import annotations

from aiosearch.optimizer.algebra.terms import settled
from aiosearch.tensor import Program, Term, apply, literal, tensor

X, W, G = tensor("x", "f32", (4, 6)), tensor("w", "f32", (6, 6)), tensor("g", "f32", (6, 1))


def found(output: Term, *constant: int) -> frozenset[Term]:
    return settled(Program("one", (X, W, G), (output,)), constant)


def test_it_is_all_that_is_made_of_constant_inputs_and_numbers() -> None:
    turned = apply("transpose", W * literal(2), axes=(1, 0))
    gained = turned * G
    assert found(X @ gained, 1) == {W, W * literal(2), turned}
    assert found(X @ gained, 1, 2) == {W, G, W * literal(2), turned, gained}


def test_numbers_alone_are_not_settled_and_nothing_is_without_constants() -> None:
    mask = apply("broadcast", literal(1), shape=(6, 6))
    assert found(X @ (mask + mask), 1) == {W}
    assert found(X @ W) == frozenset()
