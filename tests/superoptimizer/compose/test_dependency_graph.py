"""Which operators of a program need which."""

from __future__ import annotations

from testkit.programs.operator_graphs import OperatorGraph, drawn_graph, model, program
from testkit.programs.random_programs import random_program

from aiosearch.superoptimizer.compose.dependency_graph import (
    Dependencies,
    bits,
    dependencies,
    lowest,
    numbers,
)
from aiosearch.tensor import Block, Program, Term, apply, literal, tensor

X = tensor("X", "f32", (4, 6))


def graph_of(whole: Program) -> Dependencies:
    return dependencies(whole, lambda term: True)


def members(graph: Dependencies, found: int) -> set[Term]:
    return {graph.results[number][0] for number in numbers(found)}


def test_needs_are_those_of_the_definition() -> None:
    """Direct ones and all that follow from them, both ways, and what the program returns."""
    for whole in [*map(drawn_graph, range(100)), model(2)]:
        graph, plain = graph_of(whole), OperatorGraph(whole)
        assert [one for (one,) in graph.results] == plain.operators
        assert members(graph, graph.returned) == plain.returned
        for number, term in enumerate(plain.operators):
            assert members(graph, graph.needs[number]) == plain.needs[term]
            assert members(graph, graph.before[number]) == plain.above(term)
            for other, bit in ((one, 1 << number) for one in range(len(plain.operators))):
                assert bool(graph.feeds[other] & bit) == (graph.needs[number] >> other & 1)
                assert bool(graph.after[other] & bit) == (graph.before[number] >> other & 1)


def test_operators_come_in_an_order_in_which_they_can_run() -> None:
    """Also where there are custom kernels, each one operator with all its results."""
    kernels = 0
    for seed in range(300):
        graph = graph_of(random_program(seed))
        kernels += any(len(results) > 1 for results in graph.results)
        for number, before in enumerate(graph.before):
            assert before < 1 << number
            assert graph.needs[number] & ~before == 0
    assert kernels


def test_what_moves_or_depends_on_nothing_is_no_operator() -> None:
    """It goes along with what uses it; a number's root is as constant as the number."""
    root = apply("sqrt", apply("cast", literal(2), dtype="f32"))
    wide = apply("broadcast", root, shape=(6, 4))
    graph = graph_of(program(apply("transpose", X, axes=(1, 0)) * wide))
    assert [one.operator.name for (one,) in graph.results] == ["mul"]
    assert {root, wide} <= graph.constant


def test_a_custom_kernel_is_an_operator_whatever_it_loads() -> None:
    """Even what depends on no input."""
    block = Block((2,))
    tile = block.load(apply("iota", shape=(4, 6), axis=0, dtype="f32"), (0,))
    whole, largest = block.results(
        (block.accumulate(tile), (0,)), (block.accumulate(tile, "max"), (0,))
    )
    assert graph_of(program(X * largest, X * whole)).results[0] == (largest, whole)


def test_what_leaves_a_set_is_what_others_use() -> None:
    """Or what the program returns."""
    first = apply("exp", X)
    second = apply("tanh", first)
    graph = graph_of(program(second * 2, apply("sin", second), first))
    assert list(graph.leaving(0b0011)) == [0, 1]
    assert list(graph.leaving(0b1110)) == [2, 3]


def test_sets_are_bits() -> None:
    """In order, the lowest first."""
    assert list(numbers(bits([70, 3, 5]))) == [3, 5, 70]
    assert lowest(bits([70, 5])) == 5
