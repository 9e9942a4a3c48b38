"""An optimization that is ended early: what it has then, and what the next one makes of it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import jax
import jax.numpy as jnp
import msgspec
import numpy as np
import pytest
import pytest_asyncio
from logged_optimization import TWO_PASSES
from testkit.programs.opaque import unread

from aiosearch.measure import Act, Lap, MockExecutor, Race, Samples
from aiosearch.optimizer.effort import BUDGETS, UNFINISHED, Budget, Effort, effort_name
from aiosearch.optimizer.errors import OptimizeError
from aiosearch.optimizer.optimization import Optimization, optimize, optimize_sync
from aiosearch.optimizer.outcomes.results import Results
from aiosearch.testing import no_leaks

A = jnp.linspace(-1.0, 2.0, 64).reshape(8, 8)
B = jnp.cos(A)
SECOND_LOOK = "traced: rewriting"


def traced(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.trace(a @ b)


def parted_trace(a: jax.Array, b: jax.Array) -> jax.Array:
    """A part that can be searched, and an operation that cannot."""
    return jnp.trace(unread(a) @ b)


def trace(inputs: Any) -> tuple[Any, ...]:
    a, b = (np.asarray(array, np.float64) for array in inputs)
    return (np.float32(np.sum(a * b.T)),)


class FastUnlessWritten(dict[str, Act]):
    """Whatever is not the original is ten times as fast, and right."""

    def get(self, name: str, default: object = None) -> Act:
        return Act(seconds=1e-3 if name == "as written" else 1e-4, outputs=trace)


def acts() -> dict[str, Act]:
    return FastUnlessWritten()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Results]:
    with Results.open(tmp_path / "results.sqlite") as opened:
        yield opened


@pytest_asyncio.fixture
async def fast() -> AsyncIterator[MockExecutor]:
    async with MockExecutor(acts()) as opened:
        yield opened


def options(store: Results, executor: MockExecutor, **changes: Any) -> dict[str, Any]:
    return {
        "effort": TWO_PASSES, "target": "cpu", "kernels": False, "results": store,
        "executor": executor, **changes,
    }  # fmt: skip


class Told(list[str]):
    """What is told, and a call once something was told for so many times."""

    def __init__(self, text: str, count: int, then: Callable[[], object]) -> None:
        self._text, self._count, self._then = text, count, then

    def __call__(self, text: str) -> None:
        self.append(text)
        if text == self._text and self.count(text) == self._count:
            self._then()


async def stopped_in_second_look(store: Results, fast: MockExecutor) -> Any:
    """Ended by `stop` when something verified is there and the second step has begun."""
    listener = Told(SECOND_LOOK, 2, lambda: search.stop())
    search: Any = Optimization(traced, A, B, **options(store, fast, tell=listener))
    return await search.run()


async def test_what_is_stopped_ends_with_the_best_so_far(
    store: Results, fast: MockExecutor
) -> None:
    assert store.all() == []
    async with no_leaks():
        optimized = await stopped_in_second_look(store, fast)
    assert optimized.report.faster
    assert optimized.report.unfinished
    assert optimized.report.speedup == pytest.approx(10, rel=0.1)
    assert "unfinished: stopped after" in str(optimized.report)
    assert optimized(A, B) == pytest.approx(float(traced(A, B)), rel=1e-5)
    (stored,) = store.all()
    assert stored.effort == UNFINISHED


async def test_no_time_at_all_is_enough_for_what_was_found_before(
    store: Results, fast: MockExecutor
) -> None:
    """Nothing is started for it: the executor is not even open."""
    before = await stopped_in_second_look(store, fast)
    again: Any = await optimize(traced, A, B, **options(store, MockExecutor(acts()), seconds=0))
    assert again.report.unfinished
    assert again.report.found[0].answer == before.report.found[0].answer
    assert "def traced(a, b):" in again.source()


async def test_the_next_call_goes_on_and_ends(store: Results, fast: MockExecutor) -> None:
    """The first look is not had again, and what is finished is remembered."""
    await stopped_in_second_look(store, fast)
    messages: list[str] = []
    optimized: Any = await optimize(traced, A, B, **options(store, fast, tell=messages.append))
    assert messages[0] == "traced: found before, with less effort"
    assert messages.count(SECOND_LOOK) == 1
    assert not optimized.report.unfinished
    assert optimized.report.found[0].answer.effort == effort_name(TWO_PASSES)
    again: Any = await optimize(traced, A, B, **options(store, MockExecutor(acts()), seconds=0))
    assert not again.report.unfinished
    assert again.report.found[0].remembered


async def test_a_time_limit_of_its_own_ends_with_the_original_where_nothing_is_there_yet(
    store: Results, fast: MockExecutor
) -> None:
    optimized: Any = await optimize(traced, A, B, **options(store, fast, seconds=0))
    assert optimized.report.unfinished
    assert not optimized.report.faster
    assert optimized(A, B) == traced(A, B)
    assert store.all() == []


async def test_cancelling_raises_and_the_best_so_far_is_there(
    store: Results, fast: MockExecutor
) -> None:
    listener = Told(SECOND_LOOK, 2, lambda: scope.cancel())
    search: Any = Optimization(traced, A, B, **options(store, fast, tell=listener))
    assert store.all() == []
    async with no_leaks():
        with anyio.CancelScope() as scope:
            await search.run()
    assert scope.cancelled_caught
    assert search.best.report.speedup == pytest.approx(10, rel=0.1)
    assert search.best(A, B) == pytest.approx(float(traced(A, B)), rel=1e-5)
    optimized: Any = await optimize(traced, A, B, **options(store, fast, seconds=0))
    assert optimized.report.faster


async def test_a_timeout_of_asyncio_raises_as_everywhere(
    store: Results, fast: MockExecutor
) -> None:
    """And what was found is kept."""

    async def limited() -> None:
        async with asyncio.timeout(None) as limit:
            listener = Told(SECOND_LOOK, 2, lambda: limit.reschedule(0))
            await optimize(traced, A, B, **options(store, fast, tell=listener))

    with pytest.raises(TimeoutError):
        await limited()
    assert [answer.effort for answer in store.all()] == [UNFINISHED]


async def test_an_optimization_that_is_stopped_before_it_runs_ends_at_once(
    store: Results, fast: MockExecutor
) -> None:
    search: Any = Optimization(traced, A, B, **options(store, fast))
    search.stop()
    optimized = await search.run()
    assert optimized.report.unfinished
    assert search.best is None
    with pytest.raises(OptimizeError, match="an Optimization is run once"):
        await search.run()


async def test_answers_are_those_of_the_programs_alone(store: Results, fast: MockExecutor) -> None:
    """How they fare together is for whoever goes on from there: nothing of the whole is kept."""
    search: Any = Optimization(parted_trace, A, B, **options(store, fast))
    cut, answers = await search.answers()
    assert list(answers) == list(cut.subjects)
    assert [found.answer.speedup > 5 for found in answers.values()] == [True]
    assert {answer.name for answer in store.all()} == {
        found.answer.name for found in answers.values()
    }


async def test_answers_end_with_the_seconds_that_they_may_take(
    store: Results, fast: MockExecutor
) -> None:
    search: Any = Optimization(parted_trace, A, B, **options(store, fast, seconds=0))
    cut, answers = await search.answers()
    assert cut.subjects
    assert not answers


class NoisyAfter(MockExecutor):
    """From the moment that `noisy` is set, the original seems faster or slower than itself."""

    noisy = False

    async def race(self, *args: Any, **options: Any) -> Race:
        race = await super().race(*args, **options)
        if not self.noisy:
            return race
        wall = tuple(1e-5 if number % 2 else 1e-1 for number in range(race.rounds))
        again = Lap("as written", dict.fromkeys(race.ways, Samples(wall, wall)))
        return msgspec.structs.replace(race, again=again)


async def test_noise_does_not_take_away_what_was_verified_before(store: Results) -> None:
    """It hides what is faster, and is no evidence against it."""
    async with NoisyAfter(acts()) as executor:
        listener = Told(SECOND_LOOK, 2, lambda: setattr(executor, "noisy", True))
        optimized: Any = await optimize(traced, A, B, **options(store, executor, tell=listener))
    assert optimized.report.speedup == pytest.approx(10, rel=0.1)
    assert [answer.effort for answer in store.all()] == [UNFINISHED]


async def test_a_budget_is_an_effort(store: Results, fast: MockExecutor) -> None:
    """What it found is remembered for whoever spends as much, and is not for who spends more."""
    budget = Budget(0.5, 2, 4, 30, 2.0, 3, 0)
    await optimize(traced, A, B, **options(store, fast, effort=budget))
    (stored,) = store.all()
    assert stored.effort.startswith("search_seconds=0.5 forms=2 contenders=4 rounds=30")
    messages: list[str] = []
    await optimize(traced, A, B, **options(store, fast, effort=budget, tell=messages.append))
    assert messages == ["traced: found before"]
    await optimize(traced, A, B, **options(store, fast, tell=messages.append))
    assert messages[1] == "traced: found before, with less effort"


async def test_programs_that_there_is_no_time_for_are_left_for_the_next_call(
    store: Results, fast: MockExecutor
) -> None:
    """The first is searched, however little time there is."""

    def parts(a: jax.Array, b: jax.Array) -> jax.Array:
        return jnp.trace(unread(jnp.tanh(a @ b) * a) @ b)

    brief = msgspec.structs.replace(BUDGETS[Effort.QUICK], seconds=0.0)
    made: Any = await optimize(parts, A, B, **options(store, fast, effort=brief))
    assert len(made.report.found) == 1
    (text,) = made.report.left_alone[-1:]
    assert text.endswith(
        "the seconds of this effort were over before it; the next call searches it"
    )
    again: Any = await optimize(parts, A, B, **options(store, fast, effort=brief))
    assert len(again.report.found) == 2


async def test_progress_is_told_in_numbers(store: Results, fast: MockExecutor) -> None:
    heard: list[Any] = []
    listener = Told(SECOND_LOOK, 2, lambda: heard.append(search.progress))
    search: Any = Optimization(traced, A, B, **options(store, fast, tell=listener))
    await search.run()
    (standing,) = heard
    assert standing.best == pytest.approx(10, rel=0.1)
    assert standing.left > 0


@pytest.mark.parametrize("count", [1, 2])
async def test_a_part_that_is_faster_is_raced_in_its_place_before_it_ends(
    store: Results, fast: MockExecutor, count: int
) -> None:
    """Stopped a second time meanwhile, it does without, leaves the function and says so."""

    def tell(text: str) -> None:
        if "so far" in text or ("racing the function as a whole" in text and count == 2):
            search.stop()

    search: Any = Optimization(parted_trace, A, B, **options(store, fast, tell=tell))
    optimized = await search.run()
    assert optimized.report.unfinished
    assert optimized.report.found[0].answer.faster
    unraced = "as it was stopped before it could be raced as a whole" in str(optimized.report)
    assert unraced == (count == 2)
    assert optimized(A, B) == pytest.approx(float(parted_trace(A, B)), rel=1e-5)


def test_ctrl_c_raises_and_what_was_found_is_kept(store: Results) -> None:
    """Where nothing is awaited; no time at all then gives the best so far."""
    executor = MockExecutor(acts())
    asyncio.run(executor.__aenter__())
    listener = Told(SECOND_LOOK, 2, lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        optimize_sync(traced, A, B, **options(store, executor, tell=listener))
    optimized = optimize_sync(traced, A, B, **options(store, executor, seconds=0))
    assert optimized.report is not None
    assert optimized.report.speedup == pytest.approx(10, rel=0.1)
