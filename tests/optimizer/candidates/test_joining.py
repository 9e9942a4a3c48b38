"""Forms that pay only with weights that lie ready."""

from __future__ import annotations

from aiosearch.equivalence import verify
from aiosearch.optimizer.candidates.weight_packing import merge_weights
from aiosearch.tensor import Program, Term, apply, tensor

X, Y = tensor("x", "f32", (4, 6)), tensor("y", "f32", (4, 6))
Q, K = tensor("q", "f32", (6, 3)), tensor("k", "f32", (6, 5))


def names(program: Program) -> list[str]:
    return [term.operator.name for term in program.terms()]


def program(*outputs: Term) -> Program:
    return Program("f", (X, Y, Q, K), outputs)


def test_products_of_one_array_become_one_with_the_weights_side_by_side() -> None:
    one = program(X @ Q, apply("tanh", X @ K))
    (joined,) = merge_weights(one, (2, 3))
    assert names(joined).count("matmul") == 1
    assert [term.shape for term in joined.outputs] == [(4, 3), (4, 5)]
    assert verify(one, joined, floats=False).status.accepted


def test_products_that_hang_on_each_other_are_joined_each_with_its_own() -> None:
    """Also where what one gives goes into the next."""
    deep = apply("tanh", (X @ Q) @ apply("transpose", Q, axes=(1, 0)))
    one = program(X @ K, deep @ Q, deep @ K)
    (joined,) = merge_weights(one, (2, 3))
    assert names(joined).count("matmul") == 3
    assert verify(one, joined, floats=False).status.accepted


def test_weights_that_change_or_belong_to_other_arrays_are_not_joined() -> None:
    assert merge_weights(program(X @ Q, X @ K), (2,)) == []
    assert merge_weights(program(X @ Q, Y @ K), (2, 3)) == []


def test_half_types_may_be_widened_beforehand() -> None:
    x, w, v = (tensor(name, "bf16", (6, 6)) for name in "xwv")
    one = Program("f", (x, w, v), (apply("tanh", x @ w) @ v,))
    (wide,) = merge_weights(one, (1, 2))
    products = [term for term in wide.terms() if term.operator.name == "matmul"]
    assert [str(term.dtype) for term in products] == ["f32", "f32"]
    assert str(wide.outputs[0].type) == "bf16[6, 6]"
    assert verify(one, wide, floats=False).status.accepted
    assert merge_weights(one, ()) == []
