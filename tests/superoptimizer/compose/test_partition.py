"""Larger programs as the cheapest pieces, and put together again."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import numpy as np
import pytest
from testkit.programs.operator_graphs import (
    OperatorGraph,
    called,
    drawn_graph,
    model,
    operators,
    partitions,
    program,
    traffic,
)
from testkit.programs.random_programs import random_program

from aiosearch.superoptimizer.compose.partition import PartitionError, partition, reassembled
from aiosearch.tensor import Program, Term, apply, referee, tensor
from aiosearch.tensor.analysis.substitution import replaced
from aiosearch.tensor.programs import BUILTINS, builtin

X = tensor("X", "f32", (4, 6))
MOST = 4


def by_chance(names: list[str], seed: int) -> float | None:
    """A price for these operators that follows no rule; some cannot be had."""
    random = Random(f"{seed} {sorted(names)}")
    if len(names) > 1 and random.random() < 0.2:
        return None
    return 1 + random.random() * len(names)


@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("share", [0.0, 0.7, 1.0])
def test_no_partition_is_cheaper(part: int, share: float) -> None:
    """Of all ways to put the operators into blocks, with a bound that says little or everything."""
    for seed in range(part * 25, part * 25 + 25):
        whole = drawn_graph(seed)
        graph = OperatorGraph(whole)
        totals = [
            sum(by_chance([one.operator.name for one in block], seed) or math.inf for block in way)
            for way in partitions(graph.operators)
            if all(graph.piece(block, MOST) for block in way) and graph.runs(way)
        ]

        def price(piece: Program, seed: int = seed) -> float | None:
            return by_chance(called(piece), seed)

        def least(piece: Program, seed: int = seed) -> float:
            return share * (by_chance(called(piece), seed) or 0)

        plan = partition(whole, price, MOST, least=least)
        assert plan.total == pytest.approx(min(totals)), seed
        assert plan.exact


def test_pieces_run_in_their_order() -> None:
    """Each operator is in one piece, and each piece finds what it takes among those before."""
    for seed in range(100):
        whole = drawn_graph(seed)
        graph = OperatorGraph(whole)
        plan = partition(whole, lambda piece, seed=seed: by_chance(called(piece), seed), MOST)
        done: set[Term] = set()
        for members in map(operators, plan.pieces):
            assert not members & done
            assert all(graph.needs[one] <= members | done for one in members)
            done |= members
        assert done == set(graph.operators)


def test_pieces_replaced_by_themselves_are_the_program() -> None:
    """The very same terms, with custom kernels, moves, constants, several outputs and all."""
    for whole in [*map(unlabelled, range(300)), *map(builtin, BUILTINS)]:
        plan = partition(whole, traffic, MOST, least=traffic)
        assert reassembled(plan, [piece.program for piece in plan.pieces]) == whole


def unlabelled(seed: int) -> Program:
    """A random program whose labels are no matter."""
    whole = random_program(seed)
    inputs = [tensor(t.parameter("name"), t.dtype, t.shape) for t in whole.inputs]
    outputs = replaced(whole.outputs, dict(zip(whole.inputs, inputs, strict=True)))
    return Program(whole.name, tuple(inputs), outputs)


def test_pieces_replaced_by_equal_ones_are_an_equal_program() -> None:
    """The referee gives the same numbers, where every piece is another one."""
    for seed in range(150):
        whole = unlabelled(seed)
        plan = partition(whole, traffic, MOST, least=traffic)
        found = reassembled(plan, [copied(piece.program) for piece in plan.pieces])
        assert copies(found) == sum(len(piece.outputs) for piece in plan.pieces) + copies(whole)
        draw = np.random.default_rng(seed)
        given = [draw.integers(-8, 9, size=term.shape) / 4 for term in whole.inputs]
        for ours, theirs in zip(referee.run(found, given), referee.run(whole, given), strict=True):
            assert np.array_equal(ours, theirs, equal_nan=True), seed


def copied(piece: Program) -> Program:
    """Gives the same with one more axis at first, which is then taken away."""
    outputs = (
        apply("reshape", apply("stack", output, axis=0), shape=output.shape)
        for output in piece.outputs
    )
    return Program("copied", piece.inputs, tuple(outputs))


def copies(whole: Program) -> int:
    return sum(term.operator.name == "stack" for term in whole.terms())


def test_equal_pieces_are_priced_once() -> None:
    """Sixty layers ask for no more prices than six do."""
    counts = []
    for layers in (6, 60):
        asked: list[Program] = []
        plan = partition(chained(layers), lambda one, to=asked: to.append(one) or traffic(one), 3)
        assert plan.exact
        assert len(asked) == len(set(asked))
        counts.append(len(asked))
    assert counts[0] == counts[1]


def chained(layers: int) -> Program:
    found = X
    for number in range(layers):
        found = apply("relu", found @ tensor(f"W{number}", "f32", (6, 6)))
    return program(found)


def test_two_hundred_operators_are_no_matter() -> None:
    """All ways to cut ten layers are looked at; it takes the prices of few pieces."""
    two, ten = (partition(model(layers), traffic, MOST, least=traffic) for layers in (2, 10))
    assert sum(map(len, map(operators, ten.pieces))) == 200
    assert ten.exact
    assert ten.total <= 5 * two.total
    assert len({piece.program for piece in ten.pieces}) < 10


def test_what_is_too_wide_is_cut_short_and_says_so() -> None:
    """Many branches that meet: the plan is one, though perhaps not the best."""
    hidden = apply("exp", X)
    branches = [
        apply("tanh", apply("relu", hidden @ tensor(f"W{number}", "f32", (6, 6))))
        for number in range(24)
    ]
    total = branches[0]
    for branch in branches[1:]:
        total = total + branch
    whole = program(total)
    plan = partition(whole, traffic, 6, least=traffic)
    assert not plan.exact
    assert reassembled(plan, [piece.program for piece in plan.pieces]) == whole
    single = partition(whole, traffic, 1, least=traffic)
    assert single.exact
    assert plan.total < single.total / 3


@pytest.mark.parametrize("room", ["MOST_EACH", "MOST_STAGES"])
def test_a_plan_says_whether_anything_was_left_out(room: str, monkeypatch: Any) -> None:
    """Pieces, or ways to choose from them."""
    whole = model(1)
    assert partition(whole, traffic, MOST).exact
    monkeypatch.setattr(f"aiosearch.superoptimizer.compose.partition.{room}", 1)
    assert not partition(whole, traffic, MOST).exact


def test_a_piece_may_give_several_values() -> None:
    """What two others use is computed once, and given beside another value."""
    hidden = apply("exp", X)
    whole = program(apply("tanh", hidden) * 2, apply("sum", hidden, axes=(1,)))
    plan = partition(whole, lambda piece: None if called(piece) == ["exp"] else 1.0, 2)
    assert [len(piece.outputs) for piece in plan.pieces] == [2, 1]
    assert plan.total == 2


def test_pieces_that_need_each_other_are_no_plan() -> None:
    """The two cheapest would wait for each other: each takes what the other gives."""
    first, second = apply("exp", X), apply("tanh", X)
    prices = {"exp add": 1.0, "tanh sub": 1.0}

    def price(piece: Program) -> float | None:
        names = called(piece)
        return 2.0 if len(names) == 1 else prices.get(" ".join(names))

    plan = partition(program(first + second, second - first), price, 3)
    assert plan.total == 5
    assert [len(operators(piece)) for piece in plan.pieces] in ([1, 2, 1], [1, 1, 2])


def test_a_program_of_one_operator_is_one_piece() -> None:
    """Its moves are left outside, and put back."""
    whole = program(apply("transpose", apply("exp", X), axes=(1, 0)))
    plan = partition(whole, lambda piece: 3.0, MOST)
    assert plan.total == 3
    (piece,) = plan.pieces
    assert piece.outputs == (apply("exp", X),)
    assert reassembled(plan, [piece.program]) == whole


def test_what_computes_nothing_has_no_pieces() -> None:
    """An output that is an input, moved or not, or a constant."""
    constant = apply("iota", shape=(3,), axis=0, dtype="i32")
    whole = program(X, apply("transpose", X, axes=(1, 0)), constant)
    plan = partition(whole, lambda piece: 1.0, MOST)
    assert (plan.pieces, plan.total, plan.exact) == ((), 0, True)
    assert reassembled(plan, []) == whole


def test_an_output_may_be_an_input() -> None:
    """Beside others that are computed."""
    whole = program(X, apply("exp", X))
    plan = partition(whole, lambda piece: 1.0, MOST)
    assert len(plan.pieces) == 1
    assert reassembled(plan, [copied(plan.pieces[0].program)]).outputs[0] is X


def test_a_replacement_has_the_types_of_its_piece() -> None:
    """What would be silently broadcast is refused."""
    plan = partition(program(apply("exp", X)), lambda piece: 1.0, 2)
    (own,) = plan.pieces[0].program.inputs
    smaller = Program("smaller", (own,), (apply("sum", own, axes=(1,), keep=True),))
    with pytest.raises(
        PartitionError, match=r"smaller gives f32\[4, 1\], and its piece f32\[4, 6\]"
    ):
        reassembled(plan, [smaller])
    with pytest.raises(PartitionError, match="other takes"):
        reassembled(plan, [program_of_two()])


def program_of_two() -> Program:
    y = tensor("Y", "f32", (4, 6))
    return Program("other", (X, y), (X * y,))
