"""Programs of a thread block: their operators, their pruning, and what it asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import z3

from aiosearch.lab.mirage import residues
from aiosearch.lab.mirage.abstract_terms import axioms, declarations, is_part
from aiosearch.lab.mirage.blocks import BlockPrefix
from aiosearch.lab.mirage.tasks import TASKS
from aiosearch.lab.recording.format import NodeKind
from aiosearch.recording import load, record
from aiosearch.workloads import RUNGS, Blocks

Walk = Callable[[Any], Iterator[Any]]
NORM = TASKS["rms-norm"]


def part(term: str, task: str = "rms-norm") -> bool:
    """Whether z3 derives that a term is a part of a task's target; no budget ends it."""
    names, target = TASKS[task].names, TASKS[task].target
    solver = z3.Solver()
    solver.set(auto_config=False, mbqi=False)
    goal = is_part(declarations(names), term, task).query
    solver.add(z3.parse_smt2_string(axioms(names, target) + goal.removeprefix(declarations(names))))
    return bool(solver.check() == z3.unsat)


@pytest.mark.parametrize(
    "term",
    [
        "X",
        "(mul W X)",
        "(sum 4 (sum 8 (mul X W)))",
        "(div (sum 12 (mul X W)) (rms 12 X))",
        "(mul (div W (rms 12 X)) X)",
    ],
)
def test_what_the_target_can_be_made_of_is_a_part_of_it(term: str) -> None:
    assert part(term)


@pytest.mark.parametrize(
    "term", ["(exp X)", "(mul W W)", "(add X W)", "(rms 8 X)", "(sum 13 (mul X W))", "(div X X)"]
)
def test_what_it_cannot_be_made_of_is_no_part(term: str) -> None:
    assert not part(term)


def test_a_sum_may_be_split_and_a_product_spread_over_it() -> None:
    assert part("(mul X (add W (sum 4 (mul A B))))", "lora")
    assert part("(add W (sum 4 (mul A B)))", "lora")
    assert not part("(add W (mul A B))", "lora")


@pytest.mark.parametrize(
    ("term", "other"),
    [
        ("(mul X (add W A))", "(add (mul A X) (mul X W))"),
        ("(sum 4 (sum 8 X))", "(sum 12 X)"),
        ("(div (mul X W) A)", "(mul W (div X A))"),
        ("(exp (mul X W))", "(exp (mul W X))"),
    ],
)
def test_terms_that_the_axioms_make_equal_have_equal_residues(term: str, other: str) -> None:
    assert residues.of_term(term) == residues.of_term(other)
    assert residues.of_term(term) != residues.of_term("(add X W)")


def test_more_than_a_term_is_refused() -> None:
    with pytest.raises(ValueError, match="more than one term"):
        residues.of_term("X W")


def test_operators_follow_each_other_in_order_or_in_any(walk: Walk) -> None:
    """Any order has all that the order has, and each program's operators in other orders."""
    ordered, free = (
        {node.code for node in walk(Blocks("rms-norm", 2, 2, ordered))} for ordered in (True, False)
    )
    assert ordered < free
    assert all(code[3:] != code[:3] for code in free if len(code) == 6)


def test_no_block_takes_more_memory_than_there_is(walk: Walk) -> None:
    problem = Blocks("gated-mlp", 1)
    blocks = problem._blocks
    assert 0 < len(blocks) < len(list(NORM.tilings()))
    for node in walk(problem):
        if node.tiling >= 0:
            tensors = blocks[node.tiling].tensors(node.code)
            assert sum(tensor.room for tensor in tensors) <= 96 * 1024


def test_a_solution_computes_the_target_and_is_not_extended() -> None:
    """The norm is taken after the product, and z3 lets every prefix of that live."""
    problem = Blocks("rms-norm", 5, 1)
    code = bytes((8, 0, 0, 0, 0, 1, 6, 3, 3, 5, 4, 2))
    (found,) = problem.solutions(BlockPrefix(0, code))
    assert found.text == "t1 = gather-rms X; t2 = matmul X W; t3 = gather t2; t4 = div t3 t1"
    assert problem.expand(BlockPrefix(0, code)) == ()
    for end in range(3, len(code) + 1, 3):
        question = problem.obligation(BlockPrefix(0, code[:end]))
        assert question is not None
        assert part(question.key.decode())
        assert bool(problem.solutions(BlockPrefix(0, code[:end]))) == (end == len(code))


def test_only_operators_are_asked_about() -> None:
    problem = Blocks()
    assert problem.obligation(problem.root()) is None
    assert all(problem.obligation(node) is None for node in problem.expand(problem.root()))
    question = problem.obligation(BlockPrefix(0, bytes((1, 0, 0))))
    assert question is not None
    assert (question.key, question.axioms) == (b"(exp X)", "rms-norm")


@pytest.mark.parametrize(
    ("task", "length", "reason"),
    [("soft", 2, "no task 'soft'"), ("lora", 0, "1 to 12"), ("lora", 13, "1 to 12")],
)
def test_wrong_fields(task: str, length: int, reason: str) -> None:
    """A field that makes no sense is refused with a sentence."""
    with pytest.raises(ValueError, match=reason):
        Blocks(task, length)


def test_the_lightest_rung_has_the_stated_counts(tmp_path: Any) -> None:
    """Nodes, goals, distinct questions and solutions, as z3 prunes them."""
    rung = RUNGS["blocks-second"]
    footer = record(rung.problem, tmp_path / "a.tree", unknown_lives=rung.on_unknown != "drop")
    recorded = load(tmp_path / "a.tree")
    kinds = [kind & 3 for kind in recorded._kinds]
    goals = sum(kind in (NodeKind.ALIVE, NodeKind.REFUTED) for kind in kinds)
    solutions = sum(kind > 3 for kind in recorded._kinds)
    assert (len(kinds), goals) == (rung.nodes, rung.goals)
    assert (footer.questions, solutions) == (rung.checks, rung.solutions)
