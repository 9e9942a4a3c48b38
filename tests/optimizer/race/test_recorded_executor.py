"""What is compiled before anyone waits for it."""

from __future__ import annotations

import asyncio

from aiosearch.measure import Act, ArrayType, Candidate, Cause, Compiled, Failure, Stage
from aiosearch.measure.mock_executor import MockExecutor
from aiosearch.optimizer.outcomes.unfinished_work import WorkRecord
from aiosearch.optimizer.progress import ProgressReporter
from aiosearch.optimizer.race.recorded_executor import RecordedExecutor

ACTS = {"early": Act(compile_seconds=1.0), "broken": Act(fails=(Stage.COMPILE, Cause.RAISED))}


def candidate(name: str, source: str) -> Candidate:
    return Candidate(name, source, "f", (ArrayType("float32", (4,)),))


async def test_what_was_begun_is_compiled_once_whatever_it_is_called_then() -> None:
    async with (
        MockExecutor(ACTS) as executor,
        RecordedExecutor(executor, WorkRecord.nowhere(), ProgressReporter()) as recorded,
    ):
        for _ in range(2):
            recorded.begin(candidate("early", "# f"))
        compiled = await recorded.compile(candidate("late", "# f"))
        assert isinstance(compiled, Compiled)
        assert (compiled.name, compiled.seconds, executor.clock.now) == ("late", 1.0, 1.0)


async def test_a_failure_bears_the_name_under_which_it_is_waited_for() -> None:
    async with (
        MockExecutor(ACTS) as executor,
        RecordedExecutor(executor, WorkRecord.nowhere(), ProgressReporter()) as recorded,
    ):
        recorded.begin(candidate("broken", "# g"))
        failure = await recorded.compile(candidate("late", "# g"))
        assert isinstance(failure, Failure)
        assert failure.name == "late"


async def test_what_nobody_waits_for_ends_with_it() -> None:
    before = asyncio.all_tasks()
    async with MockExecutor(ACTS) as executor:
        async with RecordedExecutor(executor, WorkRecord.nowhere(), ProgressReporter()) as recorded:
            recorded.begin(candidate("early", "# f"))
        assert asyncio.all_tasks() == before
        assert executor.clock.now == 0.0
