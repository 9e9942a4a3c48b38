from __future__ import annotations

import pytest

from aiosearch.equivalence import Status
from aiosearch.superoptimizer.clock import Clock
from aiosearch.superoptimizer.going import always
from aiosearch.superoptimizer.verifying import verified
from aiosearch.tensor import Program, Term, apply, tensor

X = tensor("X", "f32", (8, 16), ("row", "column"))
LARGEST = apply("max", X, axes=(1,), keep=True)


def softmax(shifted: Term) -> Program:
    exps = apply("exp", shifted)
    return Program("softmax", (X,), (exps / apply("sum", exps, axes=(1,), keep=True),))


SAFE, RISKY = softmax(X - LARGEST), softmax(X + LARGEST)
WRONG = Program("softmax", (X,), (apply("exp", X),))


async def test_verdicts_are_on_real_numbers_and_doubts_on_floats() -> None:
    """What overflows is right in real numbers, and is told beside the verdict."""
    found = await verified(SAFE, [SAFE, RISKY, WRONG], False, always, Clock())
    assert [verdict.status.accepted for verdict, _ in found] == [True, True, False]
    assert [bool(doubt) for _, doubt in found] == [False, True, False]


async def test_floats_at_full_size_are_in_the_verdict() -> None:
    """Then what overflows is refused."""
    clock = Clock()
    found = await verified(SAFE, [SAFE, RISKY], True, always, clock)
    assert [verdict.status.accepted for verdict, _ in found] == [True, False]
    assert found[1][0].status is Status.REFUTED
    assert [doubt for _, doubt in found] == ["", ""]
    assert set(clock.seconds) == {"verification", "floats"}


@pytest.mark.parametrize("floats", [False, True])
async def test_it_may_be_left_off(floats: bool) -> None:
    """What was verified until then is there."""
    heard: list[str] = []

    def twice(text: str) -> bool:
        heard.append(text)
        return len(heard) < 3

    found = await verified(SAFE, [SAFE, RISKY, WRONG], floats, twice, Clock())
    assert [verdict.status.accepted for verdict, _ in found] == [True, True]
    assert heard[:3] == [f"verifying {number} of 3" for number in (1, 2, 3)]
