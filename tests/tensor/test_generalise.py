from __future__ import annotations

import math

import numpy as np
import pytest
from testkit.programs.random_programs import random_program

from aiosearch.tensor import (
    Block,
    Program,
    ShapeError,
    Size,
    TensorError,
    Term,
    apply,
    literal,
    referee,
    tensor,
)
from aiosearch.tensor.analysis.generalise import generalise, literal_sizes
from aiosearch.tensor.programs import BUILTINS, builtin


def program(output: Term, *inputs: Term) -> Program:
    return Program("program", inputs, (output,))


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


def shape_of(term: Term) -> list[int]:
    return [int(str(size)) for size in term.shape]


@pytest.mark.parametrize("seed", range(150))
def test_random_programs_come_back(seed: int) -> None:
    """At its own values a generalised program is the program; at small ones it runs."""
    original = random_program(seed)
    general = generalise([original])
    assert general.at(general.values) == [original]
    (reduced,) = general.reduced()
    inputs = [np.ones(shape_of(one)) for one in reduced.inputs]
    shapes = [found.shape for found in referee.run(reduced, inputs)]
    assert shapes == [output.shape for output in reduced.outputs]


@pytest.mark.parametrize("name", BUILTINS)
def test_builtin_programs_have_no_fixed_sizes(name: str) -> None:
    """Every axis of a built-in is free, but windows and axes of one."""
    found = generalise([builtin(name)])
    assert found.at(found.values) == [builtin(name)]
    assert all("window" in why or why.startswith("1:") for why in found.fixed.values())
    (reduced,) = found.reduced()
    sizes = [math.prod(shape_of(term)) for term in reduced.terms()]
    assert max(sizes) < 500


def test_kernels_split_their_axes() -> None:
    """Grids and loops of a kernel become factors of the axes that they split, across kernels."""
    reference = builtin("gqa")
    found = generalise([reference, split_attention(reference)])
    assert found.shape_text() == "head=3, row=2·2, feature=3, key=2·2·2, value=3"
    assert not found.fixed
    assert found.at(found.values) == [reference, split_attention(reference)]
    first, second = found.reduced()
    draws = np.random.default_rng(0)
    inputs = [draws.normal(size=shape_of(one)) for one in first.inputs]
    np.testing.assert_allclose(referee.run(first, inputs), referee.run(second, inputs))


def test_equal_programs_stay_equal() -> None:
    """What is one term before is one term after."""
    reference = builtin("gqa")
    a, b = generalise([split_attention(reference), split_attention(reference)]).programs
    assert a == b


def test_inputs_are_matched_by_position() -> None:
    """A program with inputs of its own is put on those of the first."""
    x, y = tensor("X", "f32", (4, 6), ("row", "feature")), tensor("X", "f32", (4, 6))
    found = generalise([program(apply("exp", x), x), program(apply("exp", y), y)])
    assert found.programs[0] == found.programs[1]
    assert found.shape_text({"row": 7, "feature": 8}) == "row=7, feature=8"


def test_programs_with_other_inputs_are_refused() -> None:
    """Sizes and element types of the inputs have to be the same."""
    x, y = tensor("X", "f32", (4,)), tensor("X", "f32", (5,))
    with pytest.raises(TensorError, match="other inputs"):
        generalise([program(-x, x), program(-y, y)])


def test_equal_numbers_are_kept_apart() -> None:
    """A square matrix has two sizes unless an operator says that they are one."""
    w = tensor("W", "f32", (64, 64))
    assert len(generalise([program(apply("exp", w), w)]).values) == 2
    assert len(generalise([program(w @ w, w)]).values) == 1


def test_outputs_of_both_have_one_shape() -> None:
    """A shape that only an output has is that of the other program's output."""
    x = tensor("X", "f32", (4, 1))
    wide = apply("broadcast", x, shape=(4, 9))
    other = apply("broadcast", apply("exp", x), shape=(4, 9))
    a, b = generalise([program(wide, x), program(other, x)]).programs
    assert a.outputs[0].shape == b.outputs[0].shape
    assert isinstance(a.outputs[0].shape[1], Size)


def test_slices_scale_with_their_axis() -> None:
    """Half of an axis is half of it at every size."""
    x = tensor("X", "f32", (2, 4096), ("row", "feature"))
    left = apply("slice", x, axis=1, start=0, stop=2048)
    right = apply("slice", x, axis=1, start=2048, stop=4096)
    found = generalise([program(left * right, x)])
    assert found.shape_text() == "row=3, feature=2·2"
    assert not found.fixed


def test_what_an_operator_counts_with_stays_a_number() -> None:
    """A slice at an odd place, and the places of strided windows, are fixed, and said to be."""
    x = tensor("X", "f32", (7, 8), ("row", "feature"))
    found = generalise([program(apply("slice", x, axis=0, start=2, stop=5), x)])
    assert found.fixed == {"row": "7: slice: start, stop, size"}
    assert found.values == {"feature": 8}
    image, filters = tensor("I", "f32", (2, 9, 4)), tensor("F", "f32", (3, 4, 5))
    both = {"low": (1,), "high": (1,), "dilation": (1,)}
    strided = apply("convolution", image, filters, strides=(2,), **both)
    assert set(generalise([program(strided, image, filters)]).fixed) == {"I1", "F0"}
    dense = apply("convolution", image, filters, strides=(1,), **both)
    assert set(generalise([program(dense, image, filters)]).fixed) == {"F0"}


def test_a_small_shape_holds_its_windows() -> None:
    """Where twos and threes do not fit, the small shape is as large as it must be."""
    image, filters = tensor("I", "f32", (2, 99, 4)), tensor("F", "f32", (5, 4, 5))
    bare = {"strides": (1,), "low": (0,), "high": (0,), "dilation": (1,)}
    found = generalise([program(apply("convolution", image, filters, **bare), image, filters)])
    (reduced,) = found.reduced()
    assert found.small["I1"] >= 5
    assert reduced.outputs[0].shape[1] == found.small["I1"] - 4


def test_a_loop_that_splits_nothing_keeps_its_count() -> None:
    """Adding up the same tile again and again is a product with a number."""
    x = tensor("X", "f32", (4, 8))
    block = Block((4,), 16)
    (out,) = block.results((block.accumulate(block.load(x, (0,))), (0,)))
    found = generalise([program(out, x)])
    assert found.fixed == {"f": "16: a loop that splits nothing"}
    assert found.programs[0].outputs[0].parameter("kernel").range == 16


def test_kernels_that_share_a_tile_share_their_grid() -> None:
    """One load in two kernels makes their grids one."""
    x = tensor("X", "f32", (8, 8))
    block = Block((4,), 2)
    tile = block.load(x, (0,), 1)
    (a,) = block.results((block.accumulate(tile), (0,)))
    (b,) = block.results((block.accumulate(tile, "max"), (0,)))
    found = generalise([Program("two", (x,), (a, b))])
    assert found.at(found.values) == [Program("two", (x,), (a, b))]
    assert {name for name in found.values if name.startswith("g")} == {"gx"}


def test_sizes_that_a_literal_says_can_be_kept() -> None:
    """A sum over 4096 divided by 4096 is a mean at that size only."""
    x = tensor("X", "f32", (16, 4096), ("row", "feature"))
    total = apply("sum", x, axes=(1,), keep=True)
    by_hand, right = program(total / 4096, x), program(apply("mean", x, axes=(1,), keep=True), x)
    assert literal_sizes([by_hand, right]) == {4096}
    found = generalise([by_hand, right], keep=literal_sizes([by_hand, right]))
    assert found.fixed == {"feature": "4096: a size to keep"}
    assert found.small == {"row": 3}


@pytest.mark.parametrize("number", [64, 1 / 64, 8, 0.125, -0.125])
def test_literals_that_say_a_size(number: float) -> None:
    """A size, its reciprocal, its root and the root's reciprocal all say the size."""
    x = tensor("X", "f32", (3, 64))
    assert literal_sizes([program(x * literal(number), x)]) == {64}


def test_a_shape_that_does_not_fit_is_refused() -> None:
    """Shape rules hold at other values too: nothing is rebuilt blindly."""
    image, filters = tensor("I", "f32", (2, 9, 4)), tensor("F", "f32", (5, 4, 5))
    bare = {"strides": (1,), "low": (0,), "high": (0,), "dilation": (1,)}
    found = generalise([program(apply("convolution", image, filters, **bare), image, filters)])
    with pytest.raises(ShapeError, match="windows of 5 places"):
        found.at({**found.values, "I1": 3})


@pytest.mark.parametrize("size", ["axis", "literal"])
def test_sizes_without_a_number_are_refused(size: str) -> None:
    """There is nothing to generalise where a size is a name already."""
    name = Size.named("n")
    x = tensor("X", "f32", (name if size == "axis" else 2, 4))
    with pytest.raises(TensorError, match="has the size n: give it as a number"):
        generalise([program(x * (literal(name) if size == "literal" else 2), x)])
