"""Programs in two parts: what is made of constant inputs, and what is left for a call."""

from __future__ import annotations

from functools import partial
from random import Random

import numpy as np
import pytest
from testkit.programs.emitted_sources import beside, drawn, parted

from aiosearch.optimizer.candidates.jax_source import emit, emit_pack
from aiosearch.optimizer.candidates.weight_packing import PackedProgram, packings
from aiosearch.tensor import Program, Term, apply, tensor

X, W = tensor("x", "f32", (4, 6)), tensor("w", "f32", (6, 6))
V, G = tensor("v", "f32", (6, 6)), tensor("g", "f32", (6,))


def swapped(x: Term) -> Term:
    return apply("transpose", x, axes=(1, 0))


def program(*outputs: Term) -> Program:
    return Program("f", (X, W, V, G), outputs)


def ways(one: Program, *constant: int) -> dict[str, PackedProgram]:
    return {packing.how: packing for packing in packings(one, constant)}


def texts(packing: PackedProgram) -> tuple[str, str]:
    """The last lines of both parts."""
    pack, run = emit_pack(packing.pack), emit(packing.run)
    return pack.splitlines()[-1].strip(), run.splitlines()[-1].strip()


def test_weights_lie_as_products_read_them_or_turned_around() -> None:
    found = ways(program(X @ swapped(W)), 1)
    assert [*found] == ["w made beforehand"]
    assert texts(found["w made beforehand"]) == ("return (w.T,)", "return x @ w_packed")
    found = ways(program(X @ W), 1)
    assert [*found] == ["w transposed beforehand"]
    assert texts(found["w transposed beforehand"]) == ("return (w.T,)", "return x @ w_packed.T")


def test_products_of_weights_are_merged() -> None:
    merged = ways(program(X @ (W + W @ V)), 1, 2)["w and v made beforehand"]
    assert merged.positions == (1, 2)
    assert texts(merged) == ("return (w + w @ v,)", "return x @ packed")
    assert [term.parameter("name") for term in merged.run.inputs] == ["x", "g", "packed"]


def test_what_changes_the_shape_alone_is_left_to_the_call() -> None:
    """A vector that meets every row would otherwise take as much memory as all of them."""
    row = apply("broadcast", apply("reshape", G + G, shape=(1, 6)), shape=(4, 6))
    found = ways(program(X * row), 3)["g made beforehand"]
    assert [str(term.type) for term in found.pack.outputs] == ["f32[6]"]


def test_a_weight_that_is_also_read_as_it_is_is_packed_as_it_is() -> None:
    found = ways(program(X @ swapped(W) + X @ W), 1)["w made beforehand"]
    assert found.positions == (1,)
    assert set(found.pack.outputs) == {swapped(W), W}
    one = program(X @ swapped(W) + X @ W)
    wanted, (ours,) = beside(one, [partial(parted, found)], drawn(one))
    np.testing.assert_allclose(ours[0], wanted[0], rtol=1e-5)


@pytest.mark.parametrize(
    ("output", "constant"),
    [(X @ swapped(W), ()), (X @ swapped(W), (2,)), (X * X, (1,)), (swapped(W), (1,))],
    ids=["no constants", "unused", "none of the program", "an output"],
)
def test_where_nothing_can_be_made_beforehand_there_is_no_way(
    output: Term, constant: tuple[int, ...]
) -> None:
    """An output is not: its caller may do with the array what it likes."""
    assert packings(program(output), constant) == []


def test_an_input_may_have_the_name_that_an_array_would_get() -> None:
    taken = tensor("w_packed", "f32", (4, 6))
    (found,) = packings(Program("f", (taken, W), (taken @ swapped(W),)), (1,))
    assert [term.parameter("name") for term in found.run.inputs] == ["w_packed", "w_packed1"]


OPERATORS = ("matmul", "matmul", "matmul", "add", "mul", "tanh", "transpose", "sum", "cast")


def mixed(random: Random) -> Program:
    """Products, sums, functions and turns of four matrices, one upon the other."""
    kinds = ["f32", "bf16"] if random.random() < 0.5 else ["f32"]
    inputs = [tensor(name, random.choice(kinds), (6, 6)) for name in "abcd"]
    pool = list(inputs)
    while len(pool) < 14:
        name = random.choice(OPERATORS)
        x, y = random.choice(pool), random.choice(pool)
        match name:
            case "transpose":
                pool.append(swapped(x))
            case "tanh":
                pool.append(apply("tanh", x))
            case "sum":
                pool.append(x * apply("sum", x, axes=(random.randrange(2),), keep=True))
            case "cast" if len(kinds) > 1:
                pool.append(apply("cast", x, dtype="f32" if str(x.dtype) == "bf16" else "bf16"))
            case "matmul" | "add" | "mul" if x.dtype is y.dtype:
                pool.append(apply("tanh", apply(name, x, y)))
    return Program("mixed", tuple(inputs), tuple(pool[-3:]))


@pytest.mark.parametrize("part", range(4))
def test_both_parts_together_compute_what_the_program_does(part: int) -> None:
    """Of random programs, with any of their inputs constant."""
    count = 0
    for seed in range(part * 10, part * 10 + 10):
        random = Random(seed)
        one = mixed(random)
        constant = tuple(sorted(random.sample(range(4), 2)))
        values = drawn(one, seed)
        near = 0.1 if any(str(term.dtype) == "bf16" for term in one.terms()) else 1e-5
        ways = [partial(parted, packing) for packing in packings(one, constant)]
        outputs, results = beside(one, ways, values)
        for result in results:
            count += 1
            for found, wanted in zip(result, outputs, strict=True):
                assert found.dtype == wanted.dtype
                ours, theirs = (np.asarray(each, np.float64) for each in (found, wanted))
                size = np.max(np.abs(theirs))
                np.testing.assert_allclose(ours, theirs, rtol=0, atol=size * near)
    assert count >= 5
