"""Programs of kernels: which follow each other, what blocks read and give, and what is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest
from msgspec.structs import replace

from aiosearch import Search
from aiosearch.lab.mirage.kernel_operators import BLOCK, KERNELS, KernelStep, tensors_of
from aiosearch.lab.mirage.kernels import Kernels, Stage
from aiosearch.lab.mirage.tasks import TASKS

Walk = Callable[[Any], Iterator[Any]]
RMS_IN_ONE = bytes((8, 0, 0, 0, 0, 1, 6, 3, 3, 5, 4, 2))
"""gather-rms X; matmul X W; gather; div."""
GATED_BUT_MUL = bytes((0, 0, 1, 0, 0, 2, 6, 3, 3, 6, 4, 4, 2, 5, 5))
"""matmul X A; matmul X B; gather; gather; silu."""
BOTH_GATHERED = bytes((6, 0, 0, 6, 1, 1, 4, 3, 2))
"""gather; gather; mul."""


def grown(problem: Kernels, node: Stage, code: bytes) -> Stage:
    """A block with a program, operator by operator as the search comes to it."""
    assert node.opened is not None
    for end in range(3, len(code) + 1, 3):
        longer = Stage(node.steps, replace(node.opened, code=code[:end]))
        assert longer in problem.expand(
            Stage(node.steps, replace(node.opened, code=code[: end - 3]))
        )
        node = longer
    return node


def begun(problem: Kernels, node: Stage) -> Stage:
    """The first tiling of a block that is begun."""
    return next(each for each in problem.expand(node) if each.opened is not None)


def ended(problem: Kernels, node: Stage) -> Stage:
    """The same without a block that is being written."""
    return next(each for each in problem.expand(node) if each.opened is None)


def may_end(problem: Kernels, node: Stage) -> bool:
    return any(each.opened is None for each in problem.expand(node))


def step(name: str, *inputs: int) -> KernelStep:
    return KernelStep([kernel for kernel, _, _ in KERNELS].index(name), bytes(inputs))


def test_one_block_that_computes_all_is_a_solution_and_is_not_extended() -> None:
    problem = Kernels("rms-norm")
    whole = ended(problem, grown(problem, begun(problem, problem.root()), RMS_IN_ONE))
    (found,) = problem.solutions(whole)
    assert found.text.startswith("t1 = block X W (m 0 k 12 n 4 loop 2): b1 = gather-rms X; ")
    assert problem.expand(whole) == ()


def test_a_block_may_give_two_matrices_and_the_next_kernel_reads_them() -> None:
    problem = Kernels("gated-mlp")
    node = ended(problem, grown(problem, begun(problem, problem.root()), GATED_BUT_MUL))
    whole = Stage((*node.steps, step("mul", 4, 3)))
    assert whole in problem.expand(node)
    (found,) = problem.solutions(whole)
    first, second = found.text.split("\n")
    assert first.startswith("t1, t2 = block X A B ")
    assert second == "t3 = mul t2 t1"


@pytest.mark.parametrize("kernels", [1, 2])
def test_there_are_as_many_blocks_as_may_be(kernels: int) -> None:
    """The second one reads what the first gave, the last two matrices, in one iteration."""
    problem = Kernels("gated-mlp", kernels=kernels)
    node = ended(problem, grown(problem, begun(problem, problem.root()), GATED_BUT_MUL))
    more = [each for each in problem.expand(node) if each.opened is not None]
    assert bool(more) == (kernels == 2)
    for second in more[:1]:
        whole = ended(problem, grown(problem, second, BOTH_GATHERED))
        assert [each.operator for each in whole.steps] == [BLOCK, BLOCK]
        assert problem.solutions(whole)


def test_a_program_without_blocks_is_found_too() -> None:
    problem = Kernels("gated-mlp", operators=7)
    node = problem.root()
    for each in (
        step("matmul", 0, 1), step("matmul", 0, 2), step("silu", 3), step("mul", 4, 5),
    ):  # fmt: skip
        assert problem.solutions(node) == ()
        after = Stage((*node.steps, each))
        assert after in problem.expand(node)
        node = after
    (found,) = problem.solutions(node)
    assert found.text.endswith("t4 = mul t2 t3")


def test_a_block_ends_when_all_is_gathered_and_every_block_has_its_own_part_of_it() -> None:
    """W's columns are spread over blocks: none may give what has none of them."""
    problem = Kernels("rms-norm")
    node = begun(problem, problem.root())
    assert not may_end(problem, node)
    assert not may_end(problem, grown(problem, node, RMS_IN_ONE[:6]))
    assert not may_end(problem, grown(problem, node, RMS_IN_ONE[:9]))
    assert may_end(problem, grown(problem, node, RMS_IN_ONE))


def test_what_a_block_gives_is_whole_again() -> None:
    problem = Kernels("rms-norm")
    sizes = TASKS["rms-norm"].sizes
    for node in problem.expand(problem.root()):
        if node.opened is not None:
            end = Stage((replace(node.opened, code=RMS_IN_ONE),))
            (given,) = tensors_of("rms-norm", end.steps)[2:]
            assert (given.rows, given.columns) == (sizes["m"], sizes["n"])


def test_kernels_come_in_order_or_in_any() -> None:
    """As those of a block: any order has all that the order has."""
    first = Stage((step("matmul", 0, 1),))
    ordered, free = (set(Kernels(ordered=each).expand(first)) for each in (True, False))
    assert ordered < free
    ranks = [each.steps[-1].rank for each in ordered if each.opened is None]
    assert ranks
    assert min(ranks) > first.steps[0].rank


def test_limits_hold_on_every_path(walk: Walk) -> None:
    problem = Kernels("rms-norm", operators=4, block_operators=4, tilings=1)
    seen = list(islice(walk(problem), 20_000))
    assert max(len(node.steps) for node in seen) == 2
    codes = [node.opened.code for node in seen if node.opened is not None]
    assert max(map(len, codes)) == 2 * 3


def test_every_result_is_asked_about_once() -> None:
    problem = Kernels("rms-norm")
    node = begun(problem, problem.root())
    assert problem.obligation(problem.root()) is None
    assert problem.obligation(node) is None
    longer = grown(problem, node, RMS_IN_ONE)
    question = problem.obligation(longer)
    assert question is not None
    assert question.key == b"(div (sum 2 (sum 10 (mul X W))) (rms 12 X))"
    assert problem.obligation(ended(problem, longer)) is None
    question = problem.obligation(Stage((step("exp", 0),)))
    assert question is not None
    assert (question.key, question.axioms) == (b"(exp X)", "rms-norm")


@pytest.mark.parametrize("workers", [0, 2])
async def test_a_search_with_z3_finds_the_one_kernel_in_every_tiling(workers: int) -> None:
    problem = Kernels("rms-norm", operators=3, block_operators=6, tilings=1)
    async with Search(problem, workers=workers, on_unknown="drop", cache=None) as search:
        result = await search.wait()
    programs = {each.text.partition(": ")[2] for each in result.solutions}
    best = "b1 = gather-rms X; b2 = matmul X W; b3 = gather b2; b4 = div b3 b1"
    assert programs == {best}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"task": "soft"}, "no task 'soft'"),
        ({"operators": 2}, "operators is 3 to 8, not 2"),
        ({"block_operators": 17}, "block_operators is 3 to 16, not 17"),
        ({"kernels": -1}, "kernels is 0 or more, not -1"),
    ],
)
def test_wrong_fields(fields: dict[str, Any], reason: str) -> None:
    """A field that makes no sense is refused with a sentence."""
    with pytest.raises(ValueError, match=reason):
        Kernels(**fields)
