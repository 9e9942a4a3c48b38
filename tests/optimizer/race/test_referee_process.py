"""What a device gives is judged beside the host."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aiosearch.equivalence import FloatEvidence
from aiosearch.equivalence.rounding.noise import NoisyArray
from aiosearch.equivalence.runnables import ExecutedProgram
from aiosearch.measure import Cause, Draw, ExecutorError, Failure, Stage
from aiosearch.measure.protocol import Parcel
from aiosearch.measure.shared_arrays import SharedArrays
from aiosearch.optimizer.errors import OptimizeError
from aiosearch.optimizer.race import referee_process
from aiosearch.optimizer.race.referee_process import JudgeRequest, Referee, Run
from aiosearch.tensor import apply, tensor
from aiosearch.tensor.files import to_json
from aiosearch.tensor.terms import Program
from aiosearch.testing import no_leaks

X = tensor("x", "f32", (8, 16))
DOUBLED = Program("doubled", (X,), (X * 2,))
LOGARITHM = Program("logarithm", (X,), (apply("log", X),))
HUGE = Program("huge", (X,), (apply("log", X - 1000),))


def case(
    program: Program, draws: dict[int, Draw] | None = None, strict: bool = False
) -> JudgeRequest:
    return JudgeRequest(to_json(program), draws or {}, 0, strict)


async def judged(
    asked: JudgeRequest, run: Run, given: Sequence[Any] | None = None
) -> FloatEvidence | Failure:
    """The verdict of a referee that is asked once."""
    async with Referee(asked, given) as referee:
        return await referee.judge(run)


def running(*sides: Callable[[Any], Any]) -> Run:
    """A device on which the original and the candidate compute this."""

    async def run(side: int, inputs: Sequence[Any]) -> tuple[Any, ...]:
        with np.errstate(all="ignore"):
            return (np.asarray(sides[side](inputs[0]), np.float32),)

    return run


async def evidence(asked: JudgeRequest, *sides: Callable[[Any], Any]) -> FloatEvidence:
    async with no_leaks():
        found = await judged(asked, running(*sides))
    assert isinstance(found, FloatEvidence)
    return found


def double(x: Any) -> Any:
    return x * 2


async def test_what_is_right_agrees_and_what_is_wrong_at_one_element_differs() -> None:
    def wrong(x: Any) -> Any:
        return x * 2 + np.eye(8, 16, dtype=np.float32) * 1e-3

    assert (await evidence(case(DOUBLED), double, double)).outcome == "agree"
    found = await evidence(case(DOUBLED), double, wrong)
    assert found.outcome == "differ"
    assert "normal" in found.failed


async def test_a_second_candidate_finds_the_original_known() -> None:
    """The original runs once on each distribution, whatever the number of candidates."""
    runs = [0, 0]
    double_runs = running(double, double)

    async def run(side: int, inputs: Sequence[Any]) -> tuple[Any, ...] | Failure:
        runs[side] += 1
        return await double_runs(side, inputs)

    async with no_leaks(), Referee(case(DOUBLED)) as referee:
        first = await referee.judge(run)
        assert isinstance(first, FloatEvidence)
        second = await referee.judge(run)
    # Vast inputs on which rounding decides are tried, and are no evidence.
    assert runs[1] == 2 * runs[0] >= 2 * len(first.trials)
    assert first == second


async def test_the_first_trial_against_a_candidate_is_the_last() -> None:
    def wrong(x: Any) -> Any:
        return x * 3

    async with no_leaks(), Referee(case(DOUBLED)) as referee:
        refused = await referee.judge(running(double, wrong))
        assert isinstance(refused, FloatEvidence)
        assert len(refused.failed) == 1
        accepted = await referee.judge(running(double, double))
    assert isinstance(accepted, FloatEvidence)
    assert accepted.outcome == "agree", "what was refused leaves nothing behind"


async def test_a_check_that_takes_too_long_has_no_verdict() -> None:
    async with no_leaks(), Referee(case(DOUBLED)) as referee:
        with pytest.raises(OptimizeError, match="it would take more than 0 s to judge it"):
            await referee.judge(running(double, double), seconds=0.0)
        later = await referee.judge(running(double, double), seconds=1e6)
    assert isinstance(later, FloatEvidence)
    assert later.outcome == "agree"


async def test_a_referee_whose_device_fails_judges_the_next_candidate() -> None:
    failure = Failure("candidate", Stage.RUN, Cause.CRASHED, "gone")

    async def failing(side: int, inputs: Sequence[Any]) -> tuple[Any, ...] | Failure:
        return failure if side else (double(inputs[0]),)

    async with no_leaks(), Referee(case(DOUBLED)) as referee:
        assert await referee.judge(failing) == failure
        accepted = await referee.judge(running(double, double))
    assert isinstance(accepted, FloatEvidence)
    assert accepted.outcome == "agree"


def test_of_an_original_is_kept_what_there_is_room_for() -> None:
    """Inputs are drawn once more, before what both float64 and the device gave is forgotten."""

    def known(room: int) -> tuple[referee_process._Original, int]:
        original = referee_process._Original("normal", list)
        original.inputs, original.outputs = [np.zeros(8)], [np.zeros(2)]
        original.truth = [NoisyArray(np.zeros(2), np.zeros(2))]
        return original, original.keep(room)

    whole, left = known(48 + 64)
    assert whole.inputs is not None
    assert left == 0
    assert whole.keep(left) == 0, "what it takes is not taken twice"
    without_inputs, left = known(48 + 63)
    assert without_inputs.inputs is None
    assert without_inputs.outputs is not None
    assert left == 63
    nothing, left = known(47)
    assert nothing.outputs is None
    assert nothing.truth is None
    assert left == 47


async def test_what_the_device_computes_in_one_step_counts() -> None:
    """A product and a difference that are rounded once leave something of equal numbers."""
    x = tensor("x", "f32", (16, 512))
    mean = apply("mean", x, axes=(1,), keep=True)
    variance = apply("mean", apply("square", x - mean), axes=(1,), keep=True)
    program = Program("norm", (x,), ((x - mean) * apply("rsqrt", variance + 1e-5),))

    def parts(x: Any) -> tuple[Any, Any]:
        mean = jnp.mean(x, axis=1, keepdims=True)
        return mean, jax.lax.rsqrt(jnp.mean((x - mean) ** 2, axis=1, keepdims=True) + 1e-5)

    @jax.jit
    def first(x: Any) -> Any:
        mean, scale = parts(x)
        return (x - mean) * scale

    @jax.jit
    def late(x: Any) -> Any:
        mean, scale = parts(x)
        return scale * x - scale * mean

    assert (await evidence(case(program), first, first)).outcome == "agree"
    assert (await evidence(case(program), first, late)).failed == ("level",)


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
async def test_what_overflows_far_out_alone_is_to_be_watched(dtype: str) -> None:
    """A product of what was not divided yet: no usual inputs are that large."""
    x, w = tensor("x", dtype, (2, 256)), tensor("w", dtype, (256, 32))
    root = apply("sqrt", apply("mean", apply("square", x), axes=(1,), keep=True))
    program = Program("norm", (x, w), ((x / root) @ w,))
    late = ExecutedProgram(Program("late", (x, w), ((x @ w) / root,)))
    sides = ExecutedProgram(program), late

    async def run(side: int, inputs: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(sides[side].own(inputs))

    async def itself(side: int, inputs: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(sides[0].own(inputs))

    found = await judged(case(program), run)
    assert isinstance(found, FloatEvidence)
    assert found.failed == ("vast (1)",)
    assert found.overflows
    same = await judged(case(program), itself)
    assert isinstance(same, FloatEvidence)
    assert same.outcome == "agree"
    assert "vast (1)" in [one.distribution for one in same.trials]


async def test_strict_wants_nan_where_the_original_gives_it() -> None:
    def tame(x: Any) -> Any:
        return np.log(np.abs(x))

    assert (await evidence(case(LOGARITHM), np.log, tame)).outcome == "agree"
    assert (await evidence(case(LOGARITHM, strict=True), np.log, tame)).outcome == "differ"


async def test_where_the_usual_inputs_say_too_little_those_of_the_race_are_added() -> None:
    """The logarithm of what is above a thousand: hardly any usual input is."""

    def log(x: Any) -> Any:
        return np.log(x - np.float32(1000))

    found = await evidence(case(HUGE, {0: Draw(2000.0, 4000.0)}), log, log)
    assert found.outcome == "agree"
    names = [one.distribution for one in found.trials]
    assert names[-3:] == ["as timed (1)", "as timed (2)", "as timed (3)"]
    assert not {"as timed (1)", "as timed (2)", "as timed (3)"} & set(found.skipped)
    assert f"on {found.counted} of {len(found.trials)} distributions" in str(found)


async def test_the_inputs_of_the_race_speak_against_a_candidate() -> None:
    def log(x: Any) -> Any:
        return np.log(x - np.float32(1000))

    def wrong(x: Any) -> Any:
        return np.where(x > 3500, 0, log(x))

    found = await evidence(case(HUGE, {0: Draw(2000.0, 4000.0)}), log, wrong)
    assert found.outcome == "differ"


async def test_what_is_given_speaks_against_a_candidate() -> None:
    """The user's arguments are as no other inputs are, and are handed over in shared memory."""

    def wrong(x: Any) -> Any:
        return np.where(x == 12345, 0, 2 * x)

    given = np.full(X.shape, 12345, np.float32)
    asked = case(DOUBLED)
    found = await judged(asked, running(double, wrong), [given])
    assert isinstance(found, FloatEvidence)
    assert found.failed == ("given",)
    assert (await evidence(asked, double, wrong)).outcome == "agree"


async def test_where_no_inputs_say_anything_it_is_unknown() -> None:
    def nothing(x: Any) -> Any:
        return x * np.nan

    found = await evidence(case(DOUBLED), nothing, double)
    assert found.outcome == "unknown"
    assert found.counted == 0
    assert str(found).startswith("unknown on 0 of 16 distributions")


async def test_an_output_that_is_never_seen_is_looked_at_on_the_inputs_of_the_race() -> None:
    both = Program("both", (X,), (X * 2, apply("log", X - 1000)))

    async def run(side: int, inputs: Sequence[Any]) -> tuple[Any, ...]:
        with np.errstate(all="ignore"):
            return inputs[0] * 2, np.log(inputs[0] - np.float32(1000))

    found = await judged(case(both, {0: Draw(2000.0, 4000.0)}), run)
    assert isinstance(found, FloatEvidence)
    assert found.unseen == ()


async def test_what_cannot_run_is_told_as_it_is() -> None:
    failure = Failure("candidate", Stage.RUN, Cause.CRASHED, "gone")

    async def run(side: int, inputs: Sequence[Any]) -> tuple[Any, ...] | Failure:
        return failure if side else (double(inputs[0]),)

    async with no_leaks():
        assert await judged(case(DOUBLED), run) == failure


async def test_outputs_of_another_shape_cannot_be_judged() -> None:
    async with no_leaks():
        with pytest.raises(OptimizeError, match="it cannot be judged"):
            await judged(case(DOUBLED), running(double, lambda x: x[:3, :5]))


async def test_a_judge_that_dies_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(referee_process, "__name__", "aiosearch.optimizer.errors")  # ends at once
    async with no_leaks():
        with pytest.raises(OptimizeError, match="has died"):
            await judged(case(DOUBLED), running(double, double))


async def test_outputs_that_have_no_room_are_not_judged_and_say_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def put(letterbox: SharedArrays, arrays: Sequence[Any]) -> tuple[Parcel, ...]:
        raise ExecutorError("no room is left")

    monkeypatch.setattr(SharedArrays, "put", put)
    async with no_leaks():
        with pytest.raises(OptimizeError, match=r"^it cannot be judged: no room is left$"):
            await judged(case(DOUBLED), running(double, double))


async def test_whoever_gives_up_leaves_nothing_behind() -> None:
    begun = asyncio.Event()

    async def run(side: int, inputs: Sequence[Any]) -> tuple[Any, ...]:
        begun.set()
        await asyncio.Event().wait()
        return ()

    async with no_leaks():
        task = asyncio.create_task(judged(case(DOUBLED), run))
        await begun.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()
