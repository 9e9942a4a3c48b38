from __future__ import annotations

import pytest
from testkit.programs.random_programs import random_program

from aiosearch.tensor import Block, Program, Term, apply, evaluate, tensor
from aiosearch.tensor.abstract import Abstract, Abstracts, Shaped, abstract
from aiosearch.tensor.analysis.generalise import generalise
from aiosearch.tensor.programs import builtin

X = tensor("X", "f32", (4, 6))
W = tensor("W", "f32", (6, 8))


def text(*outputs: Term) -> list[str]:
    return [str(found) for found in abstract(Program("program", (X, W), outputs))]


def test_a_matmul_is_a_sum_of_products() -> None:
    """The size of a sum stays, its axis is forgotten."""
    assert text(X @ W) == ["sum(6, (X·W))"]
    assert text(apply("sum", X, axes=(0,))) == ["sum(4, X)"]


def test_sums_of_sums_are_one_sum() -> None:
    """Sums add up, however they are split; over one element there is nothing to add."""
    whole = apply("sum", X, axes=(0, 1))
    parts = apply("sum", apply("sum", X, axes=(0,), keep=True), axes=(1,))
    assert text(whole) == text(parts) == ["sum(24, X)"]
    row = apply("slice", X, axis=0, start=1, stop=2)
    assert text(apply("sum", row, axes=(0,))) == ["X"]


def test_moving_elements_is_nothing() -> None:
    """Reshapes, transposes, slices and broadcasts leave the term as it is."""
    moved = apply("reshape", apply("transpose", X, axes=(1, 0)), shape=(2, 3, 4))
    part = apply("slice", moved, axis=1, start=0, stop=2)
    assert text(part, apply("cast", X, dtype="f16")) == ["X", "X"]
    assert text(apply("concatenate", X, X, axis=0)) == ["X"]


def test_operators_are_made_of_their_meaning() -> None:
    """What an operator means is what its term says."""
    assert text(apply("rms_norm", X)) == ["(X / sqrt((sum(6, (X·X)) / 6)))"]
    assert text(apply("max", X, axes=(1,)) * 2) == ["(max over(6, X)·2)"]
    assert text(apply("tanh", X) - X) == ["(tanh(X) - X)"]


def test_a_kernel_has_the_term_of_what_it_computes() -> None:
    """Sums over blocks, iterations and tiles come to one sum."""
    reference = builtin("rms_norm")
    x, w = reference.inputs
    block = Block((64,), 16)
    tile = block.load(x, loop=1)
    product = block.accumulate(tile @ block.load(w, (1,), 0))
    out = block.results((product / block.accumulate(tile, "rms"), (1,)))
    found = abstract(Program("fused", (x, w), out))
    assert [str(term) for term in found] == ["(sum(4096, (X·W)) / sqrt((sum(4096, (X·X)) / 4096)))"]


def test_the_wrong_attention_has_the_same_term() -> None:
    """Terms forget which elements meet: equal terms are not equal programs."""
    summed = apply("sum", X, axes=(1,), keep=True)
    rows = apply("slice", W, axis=0, start=0, stop=4)
    first = abstract(Program("wrong", (X, W), (summed * rows,)))
    assert str(first[0]) == "(sum(6, X)·W)"


def test_equal_terms_are_one_object() -> None:
    """Terms are compared by identity."""
    assert Abstract.of("exp", Abstract.of("X")) is Abstract.of("exp", Abstract.of("X"))
    assert Abstract.of("sum", Abstract.of("X"), size=2) is not Abstract.of("X")


def test_sizes_may_be_named() -> None:
    """A program for all shapes has terms in its named sizes."""
    found = generalise([Program("product", (X, W), (X @ W,))])
    assert [str(term) for term in abstract(found.programs[0])] == ["sum(X1, (X·W))"]


@pytest.mark.parametrize("seed", range(150))
def test_terms_have_the_shape_of_their_program(seed: int) -> None:
    """The algebra of terms follows every operator, at every shape."""
    random = random_program(seed)
    inputs = [Shaped(Abstract.of(one.parameter("name")), one.shape) for one in random.inputs]
    found = evaluate(random, Abstracts(), inputs)
    assert [value.shape for value in found] == [one.shape for one in random.outputs]
