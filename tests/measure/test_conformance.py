"""The executors pass what every executor has to, and the suite finds what is wrong with one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from aiosearch.measure import Allowance, Compiled, JaxExecutor, MockExecutor, Race
from aiosearch.testing.suites.executors import ACTS, check_executor, executor_suite


def real() -> JaxExecutor:
    """One whose candidates may not take long."""
    return JaxExecutor(
        allowance=Allowance(compile_seconds=4, run_seconds=2, memory_mb=4096), compilers=1
    )


TestMock = executor_suite(lambda: MockExecutor(ACTS))
TestJax = executor_suite(real)


class Forgetful(MockExecutor):
    """Runs one round, whatever was asked."""

    async def race(self, contenders: Sequence[Compiled], **options: Any) -> Race:
        return await super().race(contenders, **{**options, "rounds": 1})


async def test_the_suite_finds_faults() -> None:
    """An executor that breaks its contract fails the checks that are about it, by name."""
    with pytest.raises(ExceptionGroup) as caught:
        await check_executor(lambda: Forgetful(ACTS))
    notes = " ".join(note for error in caught.value.exceptions for note in error.__notes__)
    assert set(re.findall(r"check (\w+)", notes)) == {
        "races_fairly",
        "survives_races",
        "ends_what_goes_on",
    }
