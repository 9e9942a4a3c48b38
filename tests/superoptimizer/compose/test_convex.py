"""What of a program may run as one."""

from __future__ import annotations

from itertools import chain, combinations

import pytest
from testkit.programs.operator_graphs import OperatorGraph, drawn_graph, names, operators, program

from aiosearch.superoptimizer.compose.dependency_graph import dependencies
from aiosearch.superoptimizer.compose.subprograms import convex, convex_sets
from aiosearch.tensor import Block, apply, tensor

X = tensor("X", "f32", (4, 6))


@pytest.mark.parametrize("most", [1, 2, 3, 5, 8])
def test_every_convex_set_is_found_once(most: int) -> None:
    """Those that the definition picks from all sets of operators, for a hundred programs."""
    for seed in range(100):
        whole = drawn_graph(seed)
        graph = OperatorGraph(whole)
        every = chain.from_iterable(
            combinations(graph.operators, size + 1) for size in range(len(graph.operators))
        )
        wanted = {frozenset(one) for one in every if graph.piece(frozenset(one), most)}
        found = [operators(piece) for piece in convex(whole, most)]
        assert len(found) == len(set(found))
        assert set(found) == wanted, seed


def test_what_cannot_be_searched_stands_alone() -> None:
    """And nothing is joined around it."""
    hidden = apply("exp", X)
    whole = program(hidden * apply("tanh", hidden))
    pieces = convex(whole, 3, searchable=lambda term: term.operator.name != "tanh")
    assert names(pieces) == ["exp", "mul", "tanh"]
    assert len(convex(whole, 3)) == 6


def test_a_custom_kernel_stands_alone() -> None:
    """With all of its results, and what is loaded as inputs; equal ones are one program."""
    block = Block((2,))
    sums = []
    for source in (apply("exp", X), apply("tanh", X)):
        tile = block.load(source, (0,))
        parts = (block.accumulate(tile), (0,)), (block.accumulate(tile, "max"), (0,))
        whole, largest = block.results(*parts)
        sums.append(whole + largest)
    pieces = convex(program(sums[0] * sums[1]), 4)
    kernels = [one for one in pieces if one.outputs[0].operator.name == "result"]
    assert [len(piece.outputs) for piece in kernels] == [2, 2]
    assert kernels[0].inputs == (apply("exp", X),)
    assert kernels[0].program is kernels[1].program


def test_limits_on_inputs_and_outputs_hold() -> None:
    """Sets that take or give too much are left out; single operators never are."""
    hidden = apply("exp", X)
    whole = program(hidden * 2, hidden * 3, hidden * tensor("Y", "f32", (4, 6)))
    assert "exp mul mul mul" in names(convex(whole, 4))
    assert names(convex(whole, 4, most_outputs=1)) == ["exp", "mul", "mul", "mul"]
    few = [one for one in convex(whole, 4, most_inputs=1) if len(operators(one)) > 1]
    assert names(few) == ["exp mul", "exp mul", "exp mul mul"]


def test_of_too_many_sets_those_stay_that_keep_most_to_themselves() -> None:
    """The values that no other operator sees; single operators stay in any case."""
    left = apply("exp", tensor("A", "f32", (8, 4)))
    right = apply("tanh", tensor("B", "f32", (4, 8)))
    whole = program(apply("sum", left @ right, axes=(0, 1)))
    graph = dependencies(whole, lambda term: True)
    assert [one.operator.name for (one,) in graph.results] == ["exp", "tanh", "matmul", "sum"]
    assert convex_sets(graph, 3) == (
        [0b1, 0b101, 0b111, 0b1101, 0b10, 0b110, 0b1110, 0b100, 0b1100, 0b1000],
        True,
    )
    few, complete = convex_sets(graph, 3, 1)
    assert 0b1101 in few
    assert 0b111 not in few
    assert not complete
    assert {1, 2, 4, 8} <= set(few)
