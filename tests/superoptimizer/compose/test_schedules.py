"""The orders in which parts of a program can run."""

from __future__ import annotations

from collections.abc import Iterator

from testkit.programs.operator_graphs import OperatorGraph, drawn_graph, model, partitions

from aiosearch.superoptimizer.compose.dependency_graph import Bits, dependencies, numbers
from aiosearch.superoptimizer.compose.partition import (
    OperatorGroup,
    Schedules,
    operator_group,
    schedules,
)
from aiosearch.superoptimizer.compose.subprograms import Subprograms, convex_sets
from aiosearch.tensor import Program

MOST = 4
ROOM = 10_000


def parts_of(whole: Program) -> list[OperatorGroup]:
    """All parts of a program, each with what it moves."""
    graph = dependencies(whole, lambda term: True)
    pieces = Subprograms(graph)
    sets, _ = convex_sets(graph, MOST)
    return [
        operator_group(graph, members, float(pieces.boundary(members).traffic)) for members in sets
    ]


def ways(found: Schedules, parts: list[OperatorGroup], stage: int) -> Iterator[tuple[Bits, ...]]:
    """The parts on each way to a stage."""
    if not stage:
        yield ()
    for start, number in found.steps[stage]:
        for before in ways(found, parts, start):
            yield (*before, parts[number].members)


def count(whole: Program) -> int:
    return len(OperatorGraph(whole).operators)


def test_each_choice_that_can_run_is_a_way() -> None:
    """And each way is such a choice: the blocks of every partition that has an order."""
    for seed in range(120):
        whole = drawn_graph(seed)
        graph = OperatorGraph(whole)
        parts = parts_of(whole)
        known = {frozenset(graph.operators[n] for n in numbers(one.members)) for one in parts}
        wanted = {
            frozenset(blocks)
            for blocks in partitions(graph.operators)
            if known.issuperset(blocks) and graph.runs(blocks)
        }
        found = schedules(parts, count(whole), ROOM)
        assert found.complete
        chosen = {
            frozenset(frozenset(graph.operators[n] for n in numbers(one)) for one in way)
            for way in ways(found, parts, len(found.steps) - 1)
        }
        assert chosen == wanted, seed


def test_each_way_runs_in_its_order() -> None:
    """No part starts before what it needs is done, and none does anything twice."""
    for seed in range(120):
        whole = drawn_graph(seed)
        parts = parts_of(whole)
        needs = {one.members: one.needs for one in parts}
        found = schedules(parts, count(whole), ROOM)
        assert all(len(steps) == len(set(steps)) for steps in found.steps)
        for way in ways(found, parts, len(found.steps) - 1):
            done = 0
            for members in way:
                assert not members & done
                assert not needs[members] & ~done
                done |= members


def test_with_little_room_good_ways_are_kept() -> None:
    """One stage for each count of operators: whatever is left out, little is lost by it."""
    best = found = 0.0
    for seed in range(120):
        whole = drawn_graph(seed, 9)
        parts = parts_of(whole)
        every = schedules(parts, count(whole), ROOM)
        few = schedules(parts, count(whole), 1)
        assert len(few.steps) <= count(whole) + 1
        assert few.complete == (len(few.steps) == len(every.steps))
        best += least(every, parts)
        found += least(few, parts)
    assert best < found < 1.03 * best


def test_the_room_is_for_all_stages_together() -> None:
    """Each count of operators has its share."""
    whole = model(1)
    most = count(whole) + 1
    assert len(schedules(parts_of(whole), count(whole), most).steps) == most
    assert len(schedules(parts_of(whole), count(whole), ROOM).steps) > most


def least(found: Schedules, parts: list[OperatorGroup]) -> float:
    """The bytes that the best way moves."""
    totals = [0.0]
    for steps in found.steps[1:]:
        totals.append(min(totals[start] + parts[number].weight for start, number in steps))
    return totals[-1]
