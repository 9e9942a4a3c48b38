from __future__ import annotations

from collections.abc import Callable

import pytest
from testkit.programs.random_programs import random_program

from aiosearch.tensor import Block, LabelError, Program, Term, apply, evaluate, tensor
from aiosearch.tensor.labels import (
    Labelled,
    Labels,
    check_labels,
    explain_labels,
    labels_of,
    new_axis,
)
from aiosearch.tensor.programs import BUILTINS, builtin

X = tensor("X", "f32", (4, 6), ("row", "feature"))
W = tensor("W", "f32", (6, 8), ("feature", "column"))


def program(*outputs: Term, inputs: tuple[Term, ...] = (X, W)) -> Program:
    return Program("program", inputs, outputs)


def output_labels(program: Program) -> tuple[str | None, ...]:
    return labels_of(program)[program.outputs[0]]


def wrong_attention(reference: Program) -> Program:
    """Block y takes rows y of Q and feature y of K, and multiplies one by the sum of the other."""
    q, k, v = reference.inputs
    block = Block((2, 64))
    tiles = [block.load(one, (0, 1)) for one in (q, k, v)]
    rows = block.accumulate(apply("rms_norm", tiles[0]), "sum")
    scores, values = block.results(
        (block.accumulate(tiles[1]) * rows, (0, 1)),
        (block.accumulate(apply("rms_norm", tiles[2])), (0, 1)),
    )
    e = apply("exp", scores)
    last = Block((2, 64))
    bottom = last.accumulate(last.load(e, (0, 1)), "sum")
    top = last.accumulate(last.load(e @ values, (0, 1)))
    return Program("wrong", reference.inputs, last.results((top / bottom, (0, 1))))


def split_attention(reference: Program) -> Program:
    """Keys shared out over blocks and iterations, partial sums added up by a second kernel."""
    q, k, v = reference.inputs
    block = Block((2, 16, 4), 4)
    e = apply("exp", block.load(q, (0, 1, None)) @ block.load(k, (0, None, 2), 2))
    o, s = block.results(
        (block.accumulate(e @ block.load(v, (0, None, 1), 1)), (0, 1, 2)),
        (block.accumulate(e, "sum"), (0, 1, 2)),
    )
    join = Block((2, 16, 1))
    top = join.accumulate(join.load(o, (0, 1)), "redtox", 64)
    bottom = join.accumulate(join.load(s, (0, 1)), "sum")
    return Program("split", reference.inputs, join.results((top / bottom, (0, 1))))


def fused_rms_norm(reference: Program) -> Program:
    x, w = reference.inputs
    block = Block((64,), 16)
    tile = block.load(x, loop=1)
    product = block.accumulate(tile @ block.load(w, (1,), 0))
    out = block.results((product / block.accumulate(tile, "rms"), (1,)))
    return Program("fused", reference.inputs, out)


def joined_lora(reference: Program) -> Program:
    """[X | X·A] by [W ; B]: axes of different kinds put together end to end."""
    x, w, a, b = reference.inputs
    left = apply("concatenate", x, x @ a, axis=1)
    right = apply("concatenate", w, b, axis=0)
    return Program("joined", reference.inputs, (left @ right,))


def merged_lora(reference: Program) -> Program:
    x, w, a, b = reference.inputs
    return Program("merged", reference.inputs, (x @ (w + a @ b),))


@pytest.mark.parametrize(
    ("name", "rewrite"),
    [
        ("gqa", split_attention),
        ("rms_norm", fused_rms_norm),
        ("lora", joined_lora),
        ("lora", merged_lora),
        ("qk_norm_v", lambda reference: reference),
    ],
)
def test_right_rewrites_have_no_clash(name: str, rewrite: Callable[[Program], Program]) -> None:
    """What computes the same pairs the same axes, split and put together as it may be."""
    reference = builtin(name)
    assert explain_labels(reference, rewrite(reference)) is None
    check_labels(rewrite(reference))


def test_attention_over_the_wrong_axis_is_explained() -> None:
    """Rows of Q that meet features of K are named, with the operator and the grid axis."""
    reference = builtin("qk_norm_v")
    found = explain_labels(reference, wrong_attention(reference))
    assert found == "mul: grid axis y pairs feature of K with row of Q"
    with pytest.raises(LabelError, match="grid axis y pairs feature of K with row of Q"):
        check_labels(wrong_attention(reference))


def test_the_explanation_needs_no_declared_labels() -> None:
    """What the reference keeps apart is found from the reference alone."""
    shapes = {"Q": (2, 256, 64), "K": (2, 64, 4096), "V": (2, 4096, 64)}
    q, k, v = (tensor(name, "f16", shape) for name, shape in shapes.items())
    e = apply("exp", apply("rms_norm", q) @ k)
    weights = e / apply("sum", e, axes=(2,), keep=True)
    reference = Program("plain", (q, k, v), (weights @ apply("rms_norm", v),))
    found = explain_labels(reference, wrong_attention(reference))
    assert found == "mul: grid axis y pairs axis 1 of K with axis 1 of Q"


@pytest.mark.parametrize("name", BUILTINS)
def test_builtin_programs_are_well_labelled(name: str) -> None:
    """The programs that come with it check, and their outputs have labels."""
    program = builtin(name)
    found = labels_of(program)
    for output in program.outputs:
        for size, label in zip(output.shape, found[output], strict=True):
            assert (label is None) == (size == 1)


def flipped(x: Term) -> Term:
    return apply("transpose", x, axes=(1, 0))


SQUARE = apply("slice", X, axis=1, start=0, stop=4)
TOP = apply("slice", W, axis=0, start=0, stop=4)


@pytest.mark.parametrize("output", [X @ flipped(X), flipped(X) @ X, SQUARE * SQUARE])
def test_one_tensor_may_play_two_parts(output: Term) -> None:
    """A tensor may meet itself, as long as like meets like."""
    check_labels(program(output))


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (lambda: SQUARE + flipped(SQUARE), "add: axis 0 pairs row of X with feature of X"),
        (lambda: SQUARE @ SQUARE, "matmul: the contracted axis pairs feature of X with row of X"),
        (lambda: apply("diagonal", SQUARE), "diagonal: axis 0 pairs row of X with feature of X"),
        (
            lambda: apply("concatenate", X, TOP, axis=1),
            "concatenate: axis 0 pairs row of X with feature of W",
        ),
        (lambda: apply("select", apply("less", SQUARE, 1 * SQUARE), SQUARE, flipped(SQUARE)),
         "select: axis 0 pairs row of X with feature of X"),
    ],
)  # fmt: skip
def test_different_declared_labels_cannot_meet(output: Callable[[], Term], message: str) -> None:
    """The error names the operator, the axis and both labels."""
    with pytest.raises(LabelError, match=message):
        check_labels(program(output()))


def test_labels_follow_the_axes() -> None:
    """Each axis of a result carries the label of what it came from."""
    found = labels_of(
        program(apply("sum", X, axes=(0,)), X @ W, apply("transpose", W, axes=(1, 0)))
    )
    outputs = [labels for term, labels in found.items() if term not in (X, W)]
    assert outputs == [("feature",), ("row", "column"), ("column", "feature")]


def test_split_axes_keep_their_label_and_merge_back() -> None:
    """A reshape splits a label with its axis; merged axes have both, and come apart again."""
    split = apply("reshape", X, shape=(4, 2, 3))
    assert output_labels(program(split)) == ("row", "feature", "feature")
    assert output_labels(program(apply("reshape", split, shape=(4, 6)))) == ("row", "feature")
    merged = apply("reshape", X, shape=(24,))
    assert output_labels(program(merged)) == ("row·feature",)
    apart = apply("reshape", merged, shape=(2, 2, 6))
    assert output_labels(program(apart)) == ("row", "row", "feature")
    across = apply("reshape", merged, shape=(3, 8))
    assert output_labels(program(across)) == (None, None)


def test_axes_put_end_to_end_come_apart() -> None:
    """A part of an axis that was put together has the part's own label."""
    both = apply("concatenate", X, flipped(W @ flipped(W)), axis=0)
    assert output_labels(program(both)) == ("row + feature", "feature")
    part = apply("slice", both, axis=0, start=4, stop=10)
    assert output_labels(program(part)) == ("feature", "feature")
    odd = apply("slice", both, axis=0, start=3, stop=6)
    assert output_labels(program(odd)) == (None, "feature")


def test_an_axis_without_a_label_takes_that_of_what_it_meets() -> None:
    """Undeclared axes fit with anything, but not with two different things."""
    y = tensor("Y", "f32", (4, 6))
    assert output_labels(program(y + X, inputs=(X, y))) == ("row", "feature")
    z = tensor("Z", "f32", (4, 4))
    twice = (z + SQUARE) + flipped(z)
    where = r"axis 0 of Z \(row of X\) with axis 1 of Z \(feature of X\)"
    with pytest.raises(LabelError, match=where):
        check_labels(program(twice, inputs=(X, z)))


def test_axes_of_one_meet_anything() -> None:
    """What is broadcast has no label to clash with."""
    bias = tensor("bias", "f32", (1, 6), ("batch", "feature"))
    check_labels(program(X + bias, inputs=(X, bias)))


def test_blocks_may_share_out_two_things_that_do_not_meet() -> None:
    """One grid axis may split rows of one input and columns of another for separate outputs."""
    block = Block((2,))
    x, w = block.load(X, (0,)), block.load(W, (1,))
    outputs = block.results((block.accumulate(x), (0,)), (block.accumulate(w), (1,)))
    check_labels(program(*outputs))


@pytest.mark.parametrize("seed", range(150))
def test_labels_have_the_shape_of_their_term(seed: int) -> None:
    """The algebra of labels follows every operator, at every shape."""
    random = random_program(seed)
    inputs: list[Labelled] = [tuple(map(new_axis, one.shape)) for one in random.inputs]
    found = evaluate(random, Labels(), inputs)
    assert [Labels().shape(axes) for axes in found] == [one.shape for one in random.outputs]
    assert explain_labels(random, random) is None
