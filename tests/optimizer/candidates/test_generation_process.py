"""Programs are rewritten beside the host."""

from __future__ import annotations

import os
import signal

import msgspec
import pytest

from aiosearch.optimizer.candidates import generation_process
from aiosearch.optimizer.candidates.generation_process import (
    CandidateQuestion,
    GenerationProcess,
    generate_in_process,
)
from aiosearch.optimizer.effort import BUDGETS, Effort
from aiosearch.optimizer.errors import OptimizeError
from aiosearch.optimizer.worker_process import worker_process
from aiosearch.tensor import Program, tensor
from aiosearch.tensor.files import to_json
from aiosearch.testing import no_leaks

X = tensor("x", "f32", (4, 4))
QUESTION = CandidateQuestion(
    to_json(Program("twice", (X,), (X * 2 + X * 3,))), BUDGETS[Effort.QUICK], 0, False
)


async def test_ways_come_from_a_process_that_tells_how_it_is_going() -> None:
    told: list[str] = []
    async with no_leaks():
        found = await generate_in_process(QUESTION, told.append)
    assert found.contenders[0].how == "as written"
    assert any(line == "common factor taken out: proved — for all shapes" for line in told)


async def test_candidates_come_before_the_answer() -> None:
    heard: list[str] = []
    async with no_leaks(), worker_process(generation_process.__name__, "rewrites it") as process:
        rewriter = GenerationProcess(process, print)
        found = await rewriter.contest(QUESTION, hear=lambda source: heard.append(source.source))
    assert {*heard} == {one.source for one in found.contenders}


async def test_whoever_cannot_hear_it_is_told_so_himself() -> None:
    """What a user's function raises reaches the user, and the process is not taken for dead."""

    def deaf(text: str) -> None:
        raise ZeroDivisionError(text)

    async with no_leaks():
        with pytest.raises(ZeroDivisionError, match="common factor"):
            await generate_in_process(QUESTION, deaf)


async def test_a_process_that_dies_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        generation_process, "__name__", "aiosearch.optimizer.errors"
    )  # ends at once
    async with no_leaks():
        with pytest.raises(OptimizeError, match="the process that rewrites it has died"):
            await generate_in_process(QUESTION, print)


async def test_a_process_that_is_killed_has_a_successor() -> None:
    """It is told what the first one knew, and tells nobody what that one has told; it has none."""
    told: list[str] = []
    question = msgspec.structs.replace(QUESTION, threads=1)
    async with no_leaks(), worker_process(generation_process.__name__, "rewrites it") as process:
        rewriter = GenerationProcess(process, told.append)
        found = await rewriter.contest(question)
        (place, *_) = [one.place for one in found.contenders if one.place is not None]
        beside = await rewriter.neighbours(place)
        count = len(told)
        os.kill(process.pid, signal.SIGKILL)
        assert await rewriter.neighbours(place) == beside
        assert len(told) == count
        os.kill(process.pid, signal.SIGKILL)
        for _ in range(2):  # at once: nobody is there to be waited for
            with pytest.raises(OptimizeError, match="the process that rewrites it has died"):
                await rewriter.neighbours(place)


async def test_a_program_that_cannot_be_read_is_a_sentence() -> None:
    broken = CandidateQuestion(b"{}", BUDGETS[Effort.QUICK], 0, False)
    async with no_leaks():
        with pytest.raises(OptimizeError, match="it cannot be rewritten: "):
            await generate_in_process(broken, print)
