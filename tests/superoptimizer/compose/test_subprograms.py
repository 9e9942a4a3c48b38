"""Parts of a program as programs of their own."""

from __future__ import annotations

import numpy as np
from testkit.programs.operator_graphs import drawn_graph, names, operators, program
from testkit.programs.random_programs import random_program

from aiosearch.superoptimizer.compose.subprograms import convex
from aiosearch.tensor import LabelError, Program, apply, literal, referee, tensor
from aiosearch.tensor.labels import check_labels

X = tensor("X", "f32", (4, 6))
W = tensor("W", "f32", (6, 6))
V = tensor("V", "f32", (6,))


def test_a_piece_computes_what_it_stands_for() -> None:
    """Its program, on the values of its inputs in the whole, gives the values of its outputs."""
    for seed in range(60):
        whole = drawn_graph(seed)
        draw = np.random.default_rng(seed)
        given = [draw.normal(size=term.shape) / 4 for term in whole.inputs]
        for piece in convex(whole, 4):
            inside = Program("inside", whole.inputs, (*piece.inputs, *piece.outputs))
            values = referee.run(inside, given)
            found = referee.run(piece.program, values[: len(piece.inputs)])
            for ours, theirs in zip(found, values[len(piece.inputs) :], strict=True):
                assert np.array_equal(ours, theirs, equal_nan=True), seed


def test_moves_and_literals_count_nothing() -> None:
    """Between two operators they are within the piece; before and after it they are left out."""
    product = apply("transpose", X, axes=(1, 0)) @ apply("exp", X)
    moved = apply("reshape", apply("transpose", product, axes=(1, 0)), shape=(36,))
    whole = program(apply("reshape", moved * 2, shape=(6, 6)))
    assert names(convex(whole, 2)) == ["exp", "exp matmul", "matmul", "matmul mul", "mul"]
    (largest,) = [one for one in convex(whole, 3) if len(operators(one)) == 3]
    assert largest.outputs == (moved * 2,)


def test_what_comes_in_moved_is_taken_moved() -> None:
    """The search need not see moves that can be left to others."""
    (piece,) = convex(program(W @ apply("transpose", X, axes=(1, 0))), 1)
    assert [term.shape for term in piece.program.inputs] == [(6, 6), (6, 4)]
    assert [term.operator.name for term in piece.program.terms()] == ["input", "input", "matmul"]


def test_what_grows_on_the_way_is_taken_before_it_does() -> None:
    """A row is read once, whatever it is repeated for; a slice is read, not what it is cut from."""
    row = apply("reshape", V, shape=(1, 6))
    wide = apply("broadcast", row, shape=(4, 6))
    (piece,) = convex(program(apply("exp", wide)), 1)
    assert piece.inputs == (row,)
    half = apply("slice", W, axis=0, start=0, stop=3)
    (piece,) = convex(program(apply("exp", half)), 1)
    assert piece.inputs == (half,)


def test_what_is_needed_in_two_ways_is_taken_once() -> None:
    """A matrix and its transpose are one input; two halves are read as such."""
    square = apply("transpose", X, axes=(1, 0))
    (piece,) = convex(program(X @ square), 1)
    assert piece.inputs == (X,)
    halves = [apply("slice", W, axis=0, start=at, stop=at + 3) for at in (0, 3)]
    (piece,) = convex(program(halves[0] * halves[1]), 1)
    assert piece.inputs == tuple(halves)


def test_constants_go_along() -> None:
    """A mask that depends on no input is made in each piece that uses it, and counts nothing."""
    rows, columns = (apply("iota", shape=(4, 6), axis=axis, dtype="i32") for axis in (0, 1))
    mask = apply("less_equal", columns, rows)
    first = apply("select", mask, X, literal(0))
    pieces = convex(program(apply("select", mask, apply("exp", first), X)), 1)
    assert [len(piece.inputs) for piece in pieces] == [1, 1, 2]
    assert names(pieces) == ["exp", *["iota iota less_equal select"] * 2]


def test_labels_of_pieces_never_clash() -> None:
    """Where the whole program's axes can meet, those of each piece can."""
    checked = 0
    for seed in range(400):
        whole = random_program(seed)
        try:
            pieces = convex(whole, 4)
        except LabelError:
            continue
        checked += 1
        for piece in pieces:
            check_labels(piece.program)
    assert checked > 200


def test_equal_pieces_share_their_program() -> None:
    """Two layers of one shape differ in what the inputs stand for; one of another shape differs."""
    layers = [X]
    for name, columns in (("W1", 6), ("W2", 6), ("W3", 8)):
        layers.append(apply("relu", layers[-1] @ tensor(name, "f32", (6, columns))))
    both = [piece for piece in convex(program(layers[-1]), 2) if len(operators(piece)) == 2]
    pieces = {piece.outputs[0]: piece for piece in both}
    first, second, third = (pieces[layer] for layer in layers[1:])
    assert first.program is second.program
    assert first.inputs[0] is X
    assert second.inputs[0] is layers[1]
    assert third.program is not first.program


def test_labels_are_kept() -> None:
    """An input of a piece has the labels that the program declares, but where one is split."""
    x = tensor("X", "f32", (4, 6), ("row", "feature"))
    w = tensor("W", "f32", (6, 8), ("feature", None))
    hidden = apply("reshape", apply("exp", x), shape=(4, 2, 3))
    back = apply("reshape", hidden, shape=(4, 6))
    pieces = {one.outputs[0]: one for one in convex(program(apply("exp", hidden), back @ w), 1)}
    product = pieces[back @ w].program
    assert [one.parameter("labels") for one in product.inputs] == [
        ("row", "feature"),
        ("feature", None),
    ]
    split = pieces[apply("exp", hidden)].program
    assert split.inputs[0].parameter("labels") == ("row", None, None)


def test_labels_tell_pieces_apart() -> None:
    """Where axes that one program tells apart are one label in another, they are two programs."""
    declared = [("row", "b"), ("b", "row"), ("row", None), (None, None)]
    inputs = [tensor(f"X{n}", "f32", (6, 6), labels) for n, labels in enumerate(declared)]
    pieces = convex(program(*(apply("exp", one) for one in inputs)), 1)
    one, other, half, none = (piece.program for piece in pieces)
    assert one is other
    assert len({one, half, none}) == 3


def test_names_of_inputs_are_kept_and_new_ones_are_new() -> None:
    """Even where an input is called as a new one would be."""
    named = tensor("part0", "f32", (4, 6))
    hidden = apply("exp", X)
    (last,) = [one for one in convex(program(hidden * named), 1) if len(one.inputs) == 2]
    assert [one.parameter("name") for one in last.program.inputs] == ["part0_", "part0"]
