"""The benchmark of seconds to an answer: what it proves, and what it says of it."""

from __future__ import annotations

import json

import pytest
from answer_seconds import losses, proved

from aiosearch.optimizer.effort import BUDGETS, Effort


def test_the_gradients_that_once_took_minutes_are_proved(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In fewer steps than the least effort has, whatever the machine."""
    name = "attention_block_gradient"
    proved(name, losses()[name], Effort.QUICK)
    line = json.loads(capsys.readouterr().out)
    assert line["rewritten"] > 0
    assert line["not_proved"] == 0
    assert line["steps"] < BUDGETS[Effort.QUICK].proof_steps / 4
