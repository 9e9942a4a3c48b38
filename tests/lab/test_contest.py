"""All arms take turns, and one that fails does not stop the others."""

from __future__ import annotations

import pytest

from aiosearch.errors import ProblemError, WorkerError
from aiosearch.lab import trial
from aiosearch.lab.arms import Arm
from aiosearch.lab.trial import ArmContest, TrialOutcome
from aiosearch.workloads.shapes import Tiny

ARMS = [Arm(name, "dfs", 1) for name in ("queue", "some", "other")]


def outcome(arm: Arm, round: int) -> TrialOutcome:
    return TrialOutcome(
        arm=arm, round=round, complete=True, seconds=1.0, nodes=1, solutions=0, answer="",
        best_cost=None, memory=0, cpu=1.0, balance=1.0, busy=1.0, idle=0.0, waiting=0.0,
        messages=0, bytes=0, steals=0, checks=0, queue_seconds=0.0,
    )  # fmt: skip


async def run_of(
    problem: object, arm: Arm, round: int, seconds: float | None, on_unknown: str
) -> TrialOutcome:
    if arm.strategy == "some":
        raise WorkerError("it broke")
    return outcome(arm, round)


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "run_once", run_of)


@pytest.mark.usefixtures("pretended")
async def test_each_round_runs_every_arm_in_an_order_of_its_own() -> None:
    made = ArmContest(Tiny(), ARMS[::2], 8)
    await made.run()
    rounds = [made.outcomes[at : at + 2] for at in range(0, 16, 2)]
    assert all({one.arm for one in round} == set(ARMS[::2]) for round in rounds)
    assert len({tuple(one.arm for one in round) for round in rounds}) == 2


@pytest.mark.usefixtures("pretended")
async def test_an_arm_that_fails_is_not_tried_again_and_the_others_go_on() -> None:
    begun: list[Arm] = []
    made = ArmContest(Tiny(), ARMS, 3, begins=begun.append)
    assert made.remaining is None
    await made.run()
    assert made.failures == {ARMS[1]: "it broke"}
    assert begun.count(ARMS[1]) == 1
    assert len(made.outcomes) == 6
    assert made.progress == (9, 9)


async def test_a_problem_that_is_wrong_ends_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run(*_: object) -> TrialOutcome:
        raise ProblemError("Tiny", "expand", "wrong", ())

    monkeypatch.setattr(trial, "run_once", run)
    with pytest.raises(ProblemError):
        await ArmContest(Tiny(), ARMS, 1).run()
