"""What every executor has to pass.

    TestMine = executor_suite(lambda: MyExecutor(...))

is all that an author writes to run it with pytest. Candidates misbehave within a second or for
ever, so an executor should be made with short limits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from ...measure import (
    Act,
    ArrayType,
    Candidate,
    Cause,
    Compiled,
    Executor,
    ExecutorError,
    Failure,
    Stage,
)
from ...measure.race import LEAST_ROUNDS, ROBUST_ROUNDS
from ..leaks import no_leaks

# Two minutes: an executor may have to start jax a dozen times on a loaded machine
LONGEST_CHECK = 120.0
"""Seconds after which a check that has not come to an end has failed."""

MakeExecutor: TypeAlias = Callable[[], Executor]

_TYPES = (ArrayType("float32", (256, 256)),) * 2
_HEAD = "import os\nimport jax\nimport jax.numpy as jnp\n"
_BODIES = {
    "adds": "return x + y",
    # Ten products and sines of 256 x 256: far longer than the sum, so the order is beyond doubt
    "toils": "return jax.lax.fori_loop(0, 10, lambda _, z: jnp.sin(z @ y), x)",
    "raises": "return jax.pure_callback(lambda z: 1 // 0, x, x)",
    "aborts": "return jax.pure_callback(lambda z: os.abort(), x, x)",
    "hangs": "return jax.lax.while_loop(lambda z: z[0, 0] > -1e30, lambda z: z * 0, x)",
    # 4 TiB: beyond what any machine gives, whatever it overcommits
    "hoards": "return jnp.zeros((1 << 40,)) + x[0, 0]",
}
_HEADS = {
    "unreadable": "return ]",
    "raises-early": "1 // 0",
    "aborts-early": "os.abort()",
    "hangs-early": "while True: pass",
    "hoards-early": "bytearray(1 << 40)",
}


def _candidates() -> dict[str, Candidate]:
    sources = {name: f"def f(x, y):\n    {body}\n" for name, body in _BODIES.items()}
    sources |= {name: f"{line}\ndef f(x, y):\n    return x\n" for name, line in _HEADS.items()}
    return {name: Candidate(name, _HEAD + text, "f", _TYPES) for name, text in sources.items()}


def _sum(inputs: Sequence[Any]) -> tuple[Any, ...]:
    return (inputs[0] + inputs[1],)


CANDIDATES = _candidates()
"""Candidates that behave as their names say; see `ACTS`."""

ACTS: Mapping[str, Act] = {
    "adds": Act(1e-5, cold_seconds=2e-5, outputs=_sum),
    "toils": Act(1e-2),
    "raises": Act(fails=(Stage.RUN, Cause.RAISED)),
    "aborts": Act(fails=(Stage.RUN, Cause.CRASHED)),
    "hangs": Act(fails=(Stage.RUN, Cause.HUNG)),
    "hoards": Act(fails=(Stage.RUN, Cause.MEMORY)),
    "unreadable": Act(fails=(Stage.COMPILE, Cause.RAISED)),
    "raises-early": Act(fails=(Stage.COMPILE, Cause.RAISED)),
    "aborts-early": Act(fails=(Stage.COMPILE, Cause.CRASHED)),
    "hangs-early": Act(fails=(Stage.COMPILE, Cause.HUNG)),
    "hoards-early": Act(fails=(Stage.COMPILE, Cause.MEMORY)),
}
"""How the `CANDIDATES` behave for a `MockExecutor`."""

_CAUSES = {name: act.fails[1] for name, act in ACTS.items() if act.fails is not None}
_POSSIBLE = {
    name: {cause, Cause.CRASHED} if cause is Cause.MEMORY else {cause}
    for name, cause in _CAUSES.items()
}
"""Causes that are right: a library may abort the process where memory ends, before it can be told
why, so `CRASHED` will do for `MEMORY`."""
# Not "hangs", which takes the whole run limit: it is checked once, in a race
_IN_RUNS = ("hoards", "raises", "aborts")
_IN_RACES = ("hoards", "aborts", "hangs")


class ExecutorCheck(Struct, frozen=True):
    """Some things to check on one executor, whose processes take seconds to start."""

    name: str
    bodies: tuple[Callable[[Executor], Awaitable[None]], ...]

    async def run(self, make: MakeExecutor) -> None:
        """Raises `AssertionError`, or what the executor raised, where it does not pass."""
        try:
            async with no_leaks(), asyncio.timeout(LONGEST_CHECK), make() as executor:
                for body in self.bodies:
                    await _noted(body, executor)
        except TimeoutError:
            raise AssertionError(f"{self.name}: not over after {LONGEST_CHECK:g} s") from None


async def _noted(body: Callable[[Executor], Awaitable[None]], executor: Executor) -> None:
    try:
        await body(executor)
    except Exception as error:
        error.add_note(f"in the check {body.__name__}")
        raise


async def computes(executor: Executor) -> None:
    """Outputs are right on given arrays, and the same again on the same seed."""
    import numpy as np

    adds = await compiled(executor, "adds")
    x, y = (np.full((256, 256), value, np.float32) for value in (1.5, 2.5))
    assert np.array_equal(_outputs(await executor.run(adds, (x, y)))[0], x + y)
    drawn = [_outputs(await executor.run(adds, seed))[0] for seed in (1, 1, 2)]
    assert drawn[0].shape == (256, 256)
    assert np.array_equal(drawn[0], drawn[1])
    # Another seed, or drawing would not depend on it
    assert not np.array_equal(drawn[0], drawn[2])


async def refuses_what_cannot_be_compiled(executor: Executor) -> None:
    """Each candidate that fails to compile is named with its `Cause`, and the next one compiles."""
    for name in _HEADS:
        failure = await executor.compile(CANDIDATES[name])
        assert isinstance(failure, Failure), f"{name} was compiled"
        assert (failure.name, failure.stage) == (name, Stage.COMPILE)
        assert failure.cause in _POSSIBLE[name], str(failure)
        await compiled(executor, "adds")


async def survives_runs(executor: Executor) -> None:
    """Each candidate that fails in a run is named with its `Cause`, and the next one runs."""
    adds = await compiled(executor, "adds")
    for name in _IN_RUNS:
        failure = await executor.run(await compiled(executor, name), 0)
        assert isinstance(failure, Failure), f"{name} has outputs"
        assert (failure.name, failure.stage) == (name, Stage.RUN)
        assert failure.cause in _POSSIBLE[name], str(failure)
        assert len(_outputs(await executor.run(adds, 0))) == 1


async def races_fairly(executor: Executor) -> None:
    """All are timed in every way in every round, and the faster one wins, not the incumbent."""
    race = await executor.race(
        [await compiled(executor, name) for name in ("toils", "adds")], rounds=9
    )
    assert race.rounds == 9
    for lap in (*race.laps, race.again):
        assert lap.failure is None, str(lap.failure)
        for way in race.ways:
            samples = lap.samples[way]
            assert len(samples.wall) == len(samples.cpu) == 9
            assert min(samples.wall) > 0
    for way in race.ways:
        assert race.noise(way=way) is not None
        assert race.wins(1, way=way)
        assert not race.wins(0, way=way)
        assert not race.wins(0, over=1, way=way)


async def survives_races(executor: Executor) -> None:
    """What fails in a race costs itself only."""
    names = ("adds", *_IN_RACES, "toils")
    race = await executor.race([await compiled(executor, name) for name in names], rounds=6)
    assert race.rounds == 6
    for name, lap in zip(names, race.laps, strict=True):
        assert lap.name == name
        if name in _IN_RACES:
            assert lap.failure is not None
            assert lap.failure.cause in _POSSIBLE[name], str(lap.failure)
            assert not lap.samples
        else:
            assert {len(samples.wall) for samples in lap.samples.values()} == {6}


async def goes_without_an_incumbent(executor: Executor) -> None:
    """A race whose incumbent fails is over, and nobody wins it."""
    names = ("raises", "adds")
    race = await executor.race([await compiled(executor, name) for name in names], rounds=6)
    assert race.laps[0].failure is not None
    assert race.noise() is None
    assert not race.wins(1)


async def keeps_to_its_time(executor: Executor) -> None:
    """A race without time runs the `LEAST_ROUNDS` that a ratio needs, or a few more in noise;
    where it is told how many at `least`, those.
    """
    adds = await compiled(executor, "adds")
    race = await executor.race([adds], rounds=1000, seconds=0)
    assert LEAST_ROUNDS <= race.rounds <= ROBUST_ROUNDS
    assert (await executor.race([adds], rounds=1000, seconds=0, least=1)).rounds == 1


async def serves_many_at_once(executor: Executor) -> None:
    """Compilations, runs and races that are asked for together are all answered."""
    adds = await compiled(executor, "adds")
    async with asyncio.TaskGroup() as group:
        races = [group.create_task(executor.race([adds], rounds=6)) for _ in range(2)]
        compiles = [group.create_task(compiled(executor, "toils")) for _ in range(3)]
        runs = [group.create_task(executor.run(adds, 0)) for _ in range(3)]
    assert [task.result().rounds for task in races] == [6, 6]
    assert {task.result().name for task in compiles} == {"toils"}
    assert {len(_outputs(task.result())) for task in runs} == {1}


async def goes_on_after_cancelling(executor: Executor) -> None:
    """Whoever gives up a compilation, a run or a race leaves the executor to others."""
    adds = await compiled(executor, "adds")
    for work in (
        executor.race([adds], rounds=1_000_000),
        executor.run(adds, 0),
        executor.compile(CANDIDATES["toils"]),
    ):
        await _cancelled(asyncio.ensure_future(work))
    assert len(_outputs(await executor.run(adds, 0))) == 1
    await compiled(executor, "toils")


async def ends_what_goes_on(executor: Executor) -> None:
    """Closed in the middle of a race, and twice, it ends the race; nothing works after it."""
    adds = await compiled(executor, "adds")
    race = asyncio.ensure_future(executor.race([adds], rounds=1_000_000))
    await _turns()
    await executor.close()
    await executor.close()
    compilation_and_run = executor.compile(CANDIDATES["adds"]), executor.run(adds, 0)
    for outcome in await asyncio.gather(race, *compilation_and_run, return_exceptions=True):
        assert isinstance(outcome, ExecutorError), f"a closed executor gives {outcome!r}"


async def compiled(executor: Executor, name: str) -> Compiled:
    """Compiles one of the `CANDIDATES`, which must succeed."""
    outcome = await executor.compile(CANDIDATES[name])
    assert isinstance(outcome, Compiled), str(outcome)
    return outcome


async def _cancelled(task: asyncio.Future[Any]) -> None:
    await _turns()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _turns() -> None:
    # Turns of the event loop, enough for a task to get into the middle of its work; no time passes
    # on a virtual clock
    for _ in range(20):
        await asyncio.sleep(0)


def _outputs(outputs: tuple[Any, ...] | Failure) -> tuple[Any, ...]:
    assert not isinstance(outputs, Failure), str(outputs)
    return outputs


EXECUTOR_CHECKS = (
    ExecutorCheck(
        "does-its-work",
        (
            computes,
            races_fairly,
            keeps_to_its_time,
            serves_many_at_once,
            goes_on_after_cancelling,
        ),
    ),
    ExecutorCheck("survives-compilations", (refuses_what_cannot_be_compiled,)),
    ExecutorCheck("survives-runs", (survives_runs,)),
    ExecutorCheck("survives-races", (survives_races, goes_without_an_incumbent)),
    ExecutorCheck("ends", (ends_what_goes_on,)),
)
"""What is checked together, in the order in which it is worth knowing."""


async def check_executor(make: MakeExecutor) -> None:
    """Runs every check on executors that `make` gives.

    Raises an `ExceptionGroup` with what the failing checks raised, and notes that name them.
    """
    failures: list[Exception] = []
    for check in EXECUTOR_CHECKS:
        try:
            await check.run(make)
        except Exception as error:
            failures.append(error)
    if failures:
        raise ExceptionGroup(f"the executor fails {len(failures)} checks", failures)


def executor_suite(make: MakeExecutor) -> type:
    """Makes a class of pytest tests, one for each check. Name it `Test...` in a test module."""
    import pytest  # whoever only simulates does without

    class ExecutorSuite:
        """One test for each of `EXECUTOR_CHECKS`."""

        @pytest.mark.parametrize("check", EXECUTOR_CHECKS, ids=lambda check: check.name)
        def test_conforms(self, check: ExecutorCheck) -> None:
            asyncio.run(check.run(make))

    return ExecutorSuite
