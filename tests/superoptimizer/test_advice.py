from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from aiosearch.superoptimizer.advice import limits_to_raise
from aiosearch.superoptimizer.enumeration.problem import Fusion
from aiosearch.superoptimizer.space import Space
from aiosearch.tensor.files import to_json
from aiosearch.tensor.programs import builtin

NORM = to_json(builtin("rms_norm", row=4, feature=8, column=8))
ONE_SMALL = Space(kernels=1, block_operators=4)


def has_program(problem: Fusion) -> bool:
    open_ = [problem.root()]
    while open_:
        node = open_.pop()
        if problem.solutions(node):
            return True
        open_ += problem.expand(node)
    return False


def test_the_limits_that_are_named_are_enough_and_no_less_is() -> None:
    raised = limits_to_raise(Fusion(NORM, ONE_SMALL))
    assert {limit for limit, _ in raised} == {"kernels", "block_operators"}
    for limit, value in raised:
        enough: dict[str, Any] = {limit: value}
        less: dict[str, Any] = {limit: value - 1}
        assert has_program(Fusion(NORM, replace(ONE_SMALL, **enough)))
        assert not has_program(Fusion(NORM, replace(ONE_SMALL, **less)))


def test_nothing_is_named_where_no_limit_stands_in_the_way() -> None:
    """Without division among the operators there is no norm, however many there may be."""
    space = Space(tile=("matmul",), kernel=("matmul",), accumulators=("none",))
    assert limits_to_raise(Fusion(NORM, space)) == []


@pytest.mark.parametrize("looks", [0, 1])
def test_looking_ends_when_there_is_enough(looks: int) -> None:
    told: list[str] = []

    def going(text: str) -> bool:
        told.append(text)
        return len(told) <= looks

    assert len(limits_to_raise(Fusion(NORM, ONE_SMALL), going)) <= looks
    assert len(told) == looks + 1
