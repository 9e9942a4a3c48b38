"""Bit-vector superoptimization."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations_with_replacement, product
from random import Random
from typing import Any

import pytest
import z3

from aiosearch.workloads import RUNGS, TASKS, Superopt
from aiosearch.workloads.bitvectors.instructions import OPERATORS
from aiosearch.workloads.bitvectors.programs import Instruction, StraightLineProgram, read_program

Proving = Callable[[Superopt], Any]
Walk = Callable[[Any], Iterator[Any]]


def every_program(task: str, length: int) -> Iterator[StraightLineProgram]:
    """All programs of a length, without any of the rules that leave some out."""
    inputs, constants = TASKS[task].inputs, TASKS[task].program(8).constants
    given = len(inputs) + len(constants)
    steps = [
        [
            Instruction(name, operands)
            for name in TASKS[task].operators
            for operands in product(range(given + done), repeat=OPERATORS[name].arity)
        ]
        for done in range(length)
    ]
    for code in product(*steps):
        yield StraightLineProgram(inputs, constants, code)


def right(program: StraightLineProgram, task: str) -> bool:
    """Whether a program of one input is right on all 256 bytes."""
    reference = TASKS[task].program(8)
    return all(program.run(8, (x,)) == reference.run(8, (x,)) for x in range(256))


@pytest.mark.parametrize("task", ["P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8"])
def test_finds_the_reference(task: str, proving: Proving) -> None:
    """A search of the reference program's length finds it."""
    reference = TASKS[task].program(32).normalised()
    found = proving(Superopt(task, len(reference.code))).found
    assert reference.text() in found


def test_finds_another_form(proving: Proving) -> None:
    """The absolute value is also found in its other well-known form."""
    found = proving(Superopt("P9", 3, tests=3, seed=2)).found
    assert "t1 = ashr x 31; t2 = add t1 x; t3 = xor t2 t1" in found


def test_a_reference_can_be_shortened() -> None:
    """Five instructions test for a power of two, and are met, where the reference has six."""
    problem = Superopt("P18", 5, tests=6)
    shorter = read_program("sub x 1; and x t1; some x; some t2; xor t3 t4", ("x",), 32).code
    assert len(shorter) < len(TASKS["P18"].program(32).code)
    node = problem.root()
    for length in range(1, 6):
        children = problem.expand(node)
        node = next(c for c in children if problem.program(c).code == shorter[:length])
    solver, goal = z3.SimpleSolver(), problem.obligation(node)
    assert goal is not None
    solver.add(z3.parse_smt2_string(goal.query))
    assert solver.check() == z3.unsat


@pytest.mark.parametrize("task", ["P1", "P3", "P6"])
def test_complete(task: str, proving: Proving) -> None:
    """The search finds what an enumeration of everything finds, checked on all inputs."""
    probe = TASKS[task].program(8).run(8, (0xB4,))
    expected = {
        program.normalised().text()
        for program in every_program(task, 3)
        if program.run(8, (0xB4,)) == probe
        and len(program.normalised().code) == 3
        and right(program, task)
    }
    assert proving(Superopt(task, 3, width=8)).found == expected


def test_verdicts_are_true(proving: Proving) -> None:
    """A program is proved exactly when it is right on all inputs."""
    verdicts = proving(Superopt("P5", 3, width=8, tests=1)).verdicts
    assert {"sat", "unsat"} == set(verdicts.values())
    for key, verdict in verdicts.items():
        program = read_program(key.decode().partition(": ")[2], ("x",), 8)
        assert right(program, "P5") == (verdict == "unsat")


def test_tests_do_not_change_the_solutions(proving: Proving) -> None:
    """Other test vectors mean other questions, and the same solutions."""
    few, more = proving(Superopt("P7", 3, 8, tests=1)), proving(Superopt("P7", 3, 8, 3, seed=9))
    assert len(few.verdicts) > len(more.verdicts) >= len(more.found)
    assert few.found == more.found


def test_solutions_read_back(proving: Proving) -> None:
    """The text of a solution reads back as a program that computes what the task says."""
    random, reference = Random(1), TASKS["P10"].program(32)
    found = proving(Superopt("P10", 3)).found
    assert found
    for text in found:
        program = read_program(text, ("x", "y"), 32)
        for _ in range(20):
            values = random.getrandbits(32), random.getrandbits(random.randint(1, 32))
            assert program.run(32, values) == reference.run(32, values)


def test_equal_keys_are_equal_questions(walk: Walk) -> None:
    """Equal keys come with equal queries, and unequal keys with unequal ones."""
    problem = Superopt("P7", 4, width=8)
    goals = [goal for node in walk(problem) if (goal := problem.obligation(node))]
    keys = {goal.key for goal in goals}
    assert len(keys) == len({goal.query for goal in goals}) < len(goals)
    assert len(keys) == len({(goal.key, goal.query) for goal in goals})
    assert all(key.startswith(b"P7/8: t1 = ") for key in keys)


def test_only_complete_programs_are_asked(walk: Walk) -> None:
    """A prefix has no obligation, no solution and only longer children; a program has both."""
    problem = Superopt("P1", 3, width=8)
    for node in walk(problem):
        complete = len(problem.program(node).code) == 3
        assert (problem.obligation(node) is not None) == complete
        assert len(problem.solutions(node)) == complete
        assert not complete or not problem.expand(node)


def test_operands_of_commutative_operators_are_ordered(walk: Walk) -> None:
    """No program has the operands of a commutative operator in both orders."""
    problem = Superopt("P1", 1, width=8, tests=0)
    pairs = [
        step.operands
        for node in walk(problem)
        for step in problem.program(node).code
        if step.operator == "add"
    ]
    assert sorted(pairs) == list(combinations_with_replacement(range(2), 2))


def test_distinct_drops_repeated_values(walk: Walk) -> None:
    """With `distinct` no instruction of a prefix repeats a value on all test vectors."""
    problem = Superopt("P1", 4, width=8, tests=2, distinct=True)
    nodes = list(walk(problem))
    for node in nodes:
        columns = list(zip(*node.rows, strict=True))
        assert len(columns) == len(set(columns))
    assert len(nodes) < RUNGS["second"].nodes / 2


@pytest.mark.parametrize(
    ("task", "length", "width", "reason"),
    [("P26", 2, 8, "no task 'P26'"), ("P1", 0, 8, "one instruction"), ("P1", 2, 7, "not 7")],
)
def test_wrong_fields(task: str, length: int, width: int, reason: str) -> None:
    """A field that makes no sense is refused with a sentence."""
    with pytest.raises(ValueError, match=reason):
        Superopt(task, length, width)


@pytest.mark.parametrize("name", ["second", "seconds"])
def test_rungs_that_are_proved(name: str, proving: Proving) -> None:
    """A light rung has the stated nodes, goals, checks and solutions."""
    rung = RUNGS[name]
    outcome = proving(rung.problem)
    assert (outcome.nodes, outcome.goals) == (rung.nodes, rung.goals)
    assert (len(outcome.verdicts), len(outcome.found)) == (rung.checks, rung.solutions)


@pytest.mark.parametrize("name", ["refuted", "divisions"])
def test_rungs_that_are_counted(name: str, walk: Walk) -> None:
    """A heavier rung has the stated nodes, goals and distinct questions."""
    rung = RUNGS[name]
    nodes, goals = 0, []
    for node in walk(rung.problem):
        nodes += 1
        if goal := rung.problem.obligation(node):
            goals.append(goal.key)
    assert (nodes, len(goals), len(set(goals))) == (rung.nodes, rung.goals, rung.checks)
