"""What the search of a space finds, against what is drawn without it."""

from __future__ import annotations

import itertools
from collections import Counter
from functools import cache
from random import Random

import pytest
from drawn import drawn, equal, small
from right_programs import GRAPHS, SAVED, saved_cases
from testkit.superoptimizer.membership import Answer, Members, Membership
from testkit.superoptimizer.samples import samples

from aiosearch.superoptimizer.space import Space
from aiosearch.tensor import Block, Program, apply

KERNELS = {"rms_norm": 3, "gated_mlp": 3, "lora": 3, "gqa": 3, "qk_norm_v": 2}
"""How many kernels there may be: what can be searched in a second or two."""

DRAWS = 150
SEED = 7


@cache
def members(name: str) -> Members:
    return Members(small(name), Space(kernels=KERNELS[name]))


@cache
def judged(name: str) -> list[Membership]:
    """What becomes of the draws that are equal."""
    programs = itertools.islice(drawn(small(name), SEED), DRAWS)
    right = [program for program in programs if equal(small(name), program, SEED)]
    return [members(name).judge(program) for program in right]


@pytest.mark.parametrize("name", KERNELS)
def test_every_equal_program_of_the_space_is_found(name: str) -> None:
    missed = [one.reason for one in judged(name) if one.answer is Answer.MISSED]
    assert missed == []


@pytest.mark.parametrize("name", ["rms_norm", "gated_mlp", "lora", "gqa"])
def test_many_draws_are_within_the_space(name: str) -> None:
    answers = Counter(one.answer for one in judged(name))
    assert answers[Answer.FOUND] > sum(answers.values()) // 4


@pytest.mark.parametrize("name", KERNELS)
def test_what_is_found_is_right(name: str) -> None:
    """Whatever block graphs and numbers are put in."""
    found = list(samples(members(name), Random(SEED), 40))
    assert len(found) > 30
    assert all(equal(small(name), program, SEED) for program in found)


def normalised(range_: int, *, whole: bool = False) -> Program:
    """A norm and a linear layer in one kernel; X may be loaded as a whole, too."""
    x, w = inputs = small("rms_norm").inputs
    block = Block((2,), range_)
    tile = block.load(x, loop=1)
    size = block.accumulate(block.load(x) if whole else tile, "rms")
    product = block.accumulate(tile @ block.load(w, (1,), loop=0))
    return Program("one kernel", inputs, block.results((product / size, (1,))))


@pytest.mark.parametrize("range_", [1, 2, 4])
def test_numbers_do_not_matter(range_: int) -> None:
    """Neither the iterations of a loop, nor whether there is one."""
    assert members("rms_norm").judge(normalised(range_)) == Membership(Answer.FOUND)


def test_what_is_outside_is_so_for_a_reason() -> None:
    """Two ways to load a tensor, and what algebra does not show to be equal."""
    x, w = inputs = small("rms_norm").inputs
    twice = apply("rms_norm", apply("rms_norm", x)) @ w
    size = apply("sqrt", apply("mean", x * x, axes=(1,), keep=True))
    outside = {
        "a tensor loaded in two ways": normalised(2, whole=True),
        "equal by more than the axioms": Program("twice", inputs, (twice,)),
        "more than 3 kernels": Program("plain", inputs, ((x / size) @ w,)),
    }
    for reason, program in outside.items():
        assert members("rms_norm").judge(program) == Membership(Answer.OUTSIDE, reason)


def test_a_search_that_lacks_something_is_found_out() -> None:
    poor = Members(small("rms_norm"), Space(kernels=1))
    poor.solutions.clear()
    assert poor.judge(normalised(2)).answer is Answer.MISSED


@pytest.mark.parametrize("name", SAVED.values())
def test_every_right_graph_that_mirage_saved_is_found(name: str) -> None:
    saved = [case for own, case in saved_cases(GRAPHS) if own == name]
    assert len(saved) >= 4
    for case in saved:
        assert members_of(case.original).judge(case.right) == Membership(Answer.FOUND)


USED = ("add", "sub", "mul", "div", "matmul", "rms_norm")
"""What the saved graphs are made of; where they are found, they are with more operators, too."""


@cache
def members_of(original: Program) -> Members:
    return Members(original, Space(kernels=2, tile=USED))
