from __future__ import annotations

from functools import cache

import pytest
from right_programs import Case, cases
from testkit.programs.rewrites import REWRITES

from aiosearch.equivalence import Status, verify
from aiosearch.equivalence.float_referee import referee_differs

RIGHT = {rewrite.name: Case(rewrite.name, *rewrite.pair()) for rewrite in REWRITES} | {
    case.name: case for case in cases() if "saved" in case.name
}

INACCURATE = {
    "attention: without_maximum": "exp overflows",
    "attention: attention_loop": "exp overflows",
    "ntrans: step_spelled_out": "what cancels is rounded first",
    "moe_gate: plain_softmax": "exp overflows",
    "moe_gate: by_logarithm": "exp overflows",
    "moe_gate: other_shift": "exp overflows",
}
"""What is right for real numbers and loses, in half precision, what the original does not."""


@cache
def status_in_reals(name: str) -> Status:
    case = RIGHT[name]
    return verify(case.original, case.right, floats=False).status


@pytest.mark.parametrize("name", RIGHT)
def test_right_programs_are_accepted(name: str) -> None:
    """What the referee finds equal is accepted as a function of real numbers."""
    case = RIGHT[name]
    assert referee_differs(case.original, case.right) is False
    assert status_in_reals(name).accepted


def test_most_right_programs_are_proved() -> None:
    """Nine in ten are proved for all shapes, not only tested at one."""
    proved = [name for name in RIGHT if status_in_reals(name) is Status.PROVED]
    assert len(proved) >= 0.9 * len(RIGHT)


@pytest.mark.parametrize("name", RIGHT)
def test_right_programs_in_floats(name: str) -> None:
    """Floats refute those only that overflow or round where the original does not."""
    case = RIGHT[name]
    verdict = verify(case.original, case.right)
    assert verdict.status.accepted == (name not in INACCURATE), verdict.summary()
