"""The pipeline of a search: gates, failures, budgets, journals and winners, on a virtual device."""

from __future__ import annotations

import asyncio
import math
import resource
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aiosearch.measure import Act, Cause, Compiled, MockExecutor, Race, Stage
from aiosearch.measure.executor import Inputs
from aiosearch.tuner import (
    RecordTable,
    Sampler,
    TableError,
    Tunable,
    TunerError,
    TuningBudget,
    TuningProgress,
    TuningSession,
    tunable,
    tune,
)
from aiosearch.tuner.gates import NumbersGate
from aiosearch.tuner.kernels import KernelCall, candidate
from aiosearch.tuner.space.traces import point_key

X = jax.ShapeDtypeStruct((8, 16), jnp.float32)
BLOCKS = (1, 2, 4, 8)
FORMS = ("row", "column")


def space(s: Sampler, x: Any) -> None:
    s.categorical("block", BLOCKS)
    s.categorical("form", FORMS)
    s.require(lambda block: x.shape[0] % block == 0, "blocks divide the rows")


def reference(x: jax.Array) -> jax.Array:
    return x * 2


@tunable(space, reference=reference)
def doubled(x: jax.Array, *, block: int = 1, form: str = "row") -> jax.Array:
    return x * 2


def right(inputs: Sequence[Any]) -> tuple[Any, ...]:
    return (inputs[0] * 2,)


def act(seconds: float, outputs: Callable[..., Any] = right, **more: Any) -> Act:
    return Act(seconds=seconds, outputs=outputs, compile_seconds=0.0, **more)


def key(block: int, form: str) -> str:
    return point_key({"block": block, "form": form})


def all_right() -> dict[str, Act]:
    """A block of 4 by columns is the fastest, at 1 ms; each step away takes half as long again."""
    acts = {
        key(block, form): act(1e-3 * 1.5 ** (abs(math.log2(block / 4)) + (form == "row")))
        for block in BLOCKS
        for form in FORMS
    }
    return {**acts, "reference": act(5e-3), "precise": act(5e-3)}


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tunable[..., Any]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    doubled.table = RecordTable(tmp_path / "table.json")
    return doubled


async def tuned(kernel: Tunable[..., Any], acts: Mapping[str, Act], **options: Any) -> Any:
    async with MockExecutor(acts, noise=0.001) as executor:
        return await tune(kernel, X, executor=executor, trials=100, **options)


async def test_the_fastest_point_wins_and_is_in_the_table(kernel: Tunable[..., Any]) -> None:
    report = await tuned(kernel, all_right())
    assert report.configuration == {"block": 4, "form": "column"}
    assert report.trials == len(BLOCKS) * len(FORMS)
    assert report.speedup == pytest.approx(1.5**3, rel=0.02)
    assert report.record.checked == "tested"
    assert kernel.configuration(X) == {"block": 4, "form": "column"}


async def test_a_second_tune_times_nothing(kernel: Tunable[..., Any]) -> None:
    first = await tuned(kernel, all_right())
    second = await tuned(kernel, {})
    assert second.remembered
    assert second.record == first.record


async def test_a_fast_point_with_wrong_numbers_does_not_win(kernel: Tunable[..., Any]) -> None:
    acts = all_right()
    acts[key(8, "row")] = act(1e-5, lambda inputs: (np.zeros_like(inputs[0]),))
    report = await tuned(kernel, acts)
    assert report.configuration == {"block": 4, "form": "column"}
    assert report.rejected == {"numbers": 1}
    assert any("too far off" in entry.reason for entry in report.measurements)


async def test_a_point_that_is_wrong_on_rare_inputs_does_not_win(kernel: Tunable[..., Any]) -> None:
    """A missing mask shows only where the edge is large."""

    def unmasked(inputs: Sequence[Any]) -> tuple[Any, ...]:
        x = inputs[0]
        return (np.where(np.abs(x) > 8, x, x * 2).astype(x.dtype),)

    acts = all_right()
    acts[key(8, "row")] = act(1e-4, unmasked)
    report = await tuned(kernel, acts)
    assert report.configuration == {"block": 4, "form": "column"}
    assert report.rejected == {"numbers": 1}


async def test_a_point_that_is_less_precise_does_not_win(kernel: Tunable[..., Any]) -> None:
    def short(inputs: Sequence[Any]) -> tuple[Any, ...]:
        return ((inputs[0].astype(np.float16) * 2).astype(inputs[0].dtype),)

    acts = all_right()
    acts[key(8, "row")] = act(1e-4, short)
    with np.errstate(over="ignore"):
        report = await tuned(kernel, acts)
    assert report.rejected == {"numbers": 1}


class CountingExecutor(MockExecutor):
    """Counts the runs of each candidate; that of float64 never ends, or fails as its act says."""

    def __init__(self, acts: Mapping[str, Act], *, endless: bool) -> None:
        super().__init__(acts)
        self.runs: Counter[str] = Counter()
        self._endless = endless

    async def run(self, compiled: Compiled, inputs: Inputs) -> Any:
        self.runs[compiled.candidate.name] += 1
        if self._endless and compiled.candidate.name == "precise":
            await asyncio.Event().wait()
        return await super().run(compiled, inputs)


@pytest.mark.parametrize("endless", [False, True])
async def test_a_reference_that_float64_is_too_slow_for_is_asked_once(
    kernel: Tunable[..., Any], endless: bool
) -> None:
    """Its outputs for inputs that moved by a unit in the last place say how exact it is."""
    acts = {**all_right(), "precise": act(1.0, fails=(Stage.RUN, Cause.HUNG))}
    acts["wrong"] = act(1e-4, lambda inputs: (inputs[0] * np.float32(2.0001),))
    async with CountingExecutor(acts, endless=endless) as executor:
        call = KernelCall((X,))
        builds = {
            name: await executor.compile(candidate(reference, call, {}, name=name))
            for name in ("reference", "wrong")
        }
        right, wrong = builds["reference"], builds["wrong"]
        assert isinstance(right, Compiled)
        assert isinstance(wrong, Compiled)
        gate = await NumbersGate.prepare(
            executor, kernel, call, right, 0, precise_seconds=0.5 if endless else None
        )
        assert isinstance(gate, NumbersGate)
        assert len(gate.kinds) == 5
        assert executor.runs["precise"] == 1
        assert await gate.admit(right) is None
        rejection = await gate.admit(wrong)
    assert rejection is not None
    assert rejection.gate == "numbers"


@pytest.mark.parametrize(("seconds", "asked"), [(13.0, 1), (11.0, 0)])
async def test_a_reference_that_runs_long_is_not_tried_in_float64(
    kernel: Tunable[..., Any], seconds: float, asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    acts = {**all_right(), "reference": act(1.0), "precise": act(99.0)}
    async with CountingExecutor(acts, endless=False) as executor:
        monkeypatch.setattr("aiosearch.tuner.gates.time.monotonic", executor.clock)
        call = KernelCall((X,))
        build = await executor.compile(candidate(reference, call, {}, name="reference"))
        assert isinstance(build, Compiled)
        await NumbersGate.prepare(executor, kernel, call, build, 0, precise_seconds=seconds)
    assert min(1, executor.runs["precise"]) == asked


@pytest.mark.parametrize(("seconds", "kinds"), [(60.0, 5), (2.5, 2), (0.5, 1)])
async def test_of_a_reference_that_runs_long_fewer_kinds_of_inputs_are_tried(
    kernel: Tunable[..., Any], seconds: float, kinds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a candidate is run fewer times again: the first inputs once, at least."""
    acts = {**all_right(), "reference": act(1.0), "precise": act(0.0)}
    async with CountingExecutor(acts, endless=False) as executor:
        monkeypatch.setattr("aiosearch.tuner.gates.time.monotonic", executor.clock)
        call = KernelCall((X,))
        build = await executor.compile(candidate(reference, call, {}, name="reference"))
        assert isinstance(build, Compiled)
        gate = await NumbersGate.prepare(executor, kernel, call, build, 0, seconds=seconds)
        assert isinstance(gate, NumbersGate)
        assert len(gate.kinds) == kinds
        before = executor.runs["reference"]
        assert await gate.admit(build) is None
    assert executor.runs["reference"] - before == kinds + (4 if seconds == 60.0 else 1)


@pytest.mark.parametrize("stage", list(Stage))
@pytest.mark.parametrize("cause", list(Cause))
async def test_a_point_that_fails_costs_only_itself(
    kernel: Tunable[..., Any], stage: Stage, cause: Cause
) -> None:
    acts = all_right()
    acts[key(4, "column")] = act(1e-3, fails=(stage, cause))
    report = await tuned(kernel, acts)
    assert report.trials == 8
    assert sum(report.rejected.values()) == 1
    assert report.configuration in (
        {"block": 2, "form": "column"},
        {"block": 8, "form": "column"},
        {"block": 4, "form": "row"},
    )


async def test_where_every_point_fails_the_reference_runs(kernel: Tunable[..., Any]) -> None:
    acts = {name: act(1e-3, fails=(Stage.COMPILE, Cause.CRASHED)) for name in all_right()}
    acts |= {"reference": act(5e-3), "precise": act(5e-3)}
    report = await tuned(kernel, acts)
    assert report.record.winner == "reference"
    assert jnp.array_equal(kernel(jnp.ones((8, 16))), 2 * jnp.ones((8, 16)))


async def test_a_reference_that_is_faster_than_all_is_called(kernel: Tunable[..., Any]) -> None:
    report = await tuned(kernel, {**all_right(), "reference": act(1e-4)})
    assert report.record.winner == "reference"
    assert report.record.checked == "proved"


async def test_a_machine_that_becomes_faster_makes_no_point_faster(
    kernel: Tunable[..., Any],
) -> None:
    """Others leave the machine after three points: what is reported are gains over the untuned
    form, whenever either was timed.
    """
    acts, seen = all_right(), list[float]()

    def note(progress: TuningProgress) -> None:
        if progress.trials == 3:
            acts.update({name: act(entry.seconds / 3) for name, entry in all_right().items()})
        assert progress.best is not None
        seen.append(progress.baseline / progress.best)

    await tuned(kernel, acts, on_progress=note)
    assert max(seen) == pytest.approx(1.5**3, rel=0.02)


async def test_points_that_tie_leave_the_untuned_form(kernel: Tunable[..., Any]) -> None:
    acts = {name: act(1e-3) for name in all_right()}
    acts["reference"] = act(5e-3)
    report = await tuned(kernel, acts)
    assert report.configuration == {"block": 1, "form": "row"}
    assert report.record.tied >= 5


async def test_two_searches_with_other_seeds_have_one_winner(kernel: Tunable[..., Any]) -> None:
    """Three points within one percent: whichever is ahead, the first in order is taken."""
    acts = all_right()
    for block in (2, 4, 8):
        acts[key(block, "column")] = act(1e-3 * (1 + block / 1000))
    winners = [
        (await tuned(kernel, acts, again=True, seed=seed)).configuration for seed in range(6)
    ]
    assert winners == [{"block": 2, "form": "column"}] * 6


async def test_frozen_times_nothing_and_fails_on_a_missing_record(
    kernel: Tunable[..., Any],
) -> None:
    with pytest.raises(TableError, match="has no record of"):
        await tune(kernel, X, frozen=True)
    report = await tuned(kernel, all_right())
    assert (await tune(kernel, X, frozen=True)).record == report.record


async def test_a_search_that_was_broken_off_goes_on_where_it_was(
    kernel: Tunable[..., Any],
) -> None:
    """What was measured before a crash is not measured again: one point less, the interrupted."""
    seen: list[str] = []

    class Crash(Exception):
        pass

    def crash(progress: TuningProgress) -> None:
        if progress.trials == 5:
            raise Crash

    with pytest.raises((Crash, ExceptionGroup)):
        await tuned(kernel, all_right(), on_progress=crash)

    def note(progress: TuningProgress) -> None:
        assert progress.measurement is not None
        seen.append(progress.measurement.trace.key)

    kernel.table = RecordTable(kernel.table.path.with_name("other.json"))
    report = await tuned(kernel, all_right(), on_progress=note)
    assert report.trials == 8
    assert len(seen) - 1 == 8 - 5  # and the untuned form, with which each search begins
    assert report.configuration == {"block": 4, "form": "column"}


async def test_another_table_begins_with_all_that_was_measured(
    kernel: Tunable[..., Any],
) -> None:
    """The untuned form and the last race alone are run again; `again` measures anew."""
    seen: list[str] = []

    def note(progress: TuningProgress) -> None:
        assert progress.measurement is not None
        seen.append(progress.measurement.trace.key)

    await tuned(kernel, all_right())
    kernel.table = RecordTable(kernel.table.path.with_name("other.json"))
    report = await tuned(kernel, all_right(), on_progress=note)
    assert (report.trials, len(seen)) == (8, 1)
    assert report.configuration == {"block": 4, "form": "column"}
    report = await tuned(kernel, all_right(), on_progress=note, again=True)
    assert (report.trials, len(seen)) == (8, 1 + 8)


async def test_what_was_measured_before_counts_as_tried(kernel: Tunable[..., Any]) -> None:
    for trials, name in ((3, "first.json"), (5, "second.json")):
        kernel.table = RecordTable(kernel.table.path.with_name(name))
        async with MockExecutor(all_right(), noise=0.001) as executor:
            report = await tune(kernel, X, executor=executor, trials=trials)
        assert report.trials == trials


async def test_a_cancelled_search_keeps_the_fastest_verified_point(
    kernel: Tunable[..., Any],
) -> None:
    enough = asyncio.Event()

    def note(progress: TuningProgress) -> None:
        if progress.trials >= 6:
            enough.set()

    task = asyncio.create_task(tuned(kernel, all_right(), on_progress=note))
    await enough.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (record,) = kernel.table.records
    assert not record.confirmed
    assert record.seconds is not None
    assert record.baseline_seconds is not None
    assert record.seconds < record.baseline_seconds


async def test_a_search_that_is_stopped_races_what_it_has(kernel: Tunable[..., Any]) -> None:
    async with MockExecutor(all_right(), noise=0.001) as executor:
        tuning = TuningSession(kernel, KernelCall((X,)), executor, TuningBudget(trials=100))
        tuning.stop()
        report = await tuning.run()
    assert report.record.confirmed
    assert report.trials < 8


class HeldExecutor(MockExecutor):
    """Whose first race of two goes on until it is released."""

    def __init__(self, acts: Mapping[str, Act]) -> None:
        super().__init__(acts, noise=0.001)
        self.begun, self.released = asyncio.Event(), asyncio.Event()

    async def race(self, contenders: Sequence[Compiled], **options: Any) -> Race:
        if len(contenders) > 1:
            self.begun.set()
            await self.released.wait()
        return await super().race(contenders, **options)


async def test_the_point_that_is_timed_when_a_search_ends_is_measured(
    kernel: Tunable[..., Any],
) -> None:
    """To break it off would take the device's process along, and all that is loaded there."""
    async with HeldExecutor(all_right()) as executor:
        tuning = TuningSession(kernel, KernelCall((X,)), executor, TuningBudget(trials=100))
        search = asyncio.create_task(tuning.run())
        await executor.begun.wait()
        tuning.stop()
        executor.released.set()
        report = await search
    assert report.trials == 2


async def test_a_limit_on_trials_is_met_exactly(kernel: Tunable[..., Any]) -> None:
    async with MockExecutor(all_right(), noise=0.001) as executor:
        report = await tune(kernel, X, executor=executor, trials=5)
    assert report.trials == 5


async def test_a_table_is_shared_by_searches_at_once(kernel: Tunable[..., Any]) -> None:
    """Both tune the same thing: the second waits, and takes what the first has found."""
    first, second = await asyncio.gather(tuned(kernel, all_right()), tuned(kernel, all_right()))
    assert first.record == second.record
    assert first.remembered != second.remembered


async def test_seeds_are_tried_first(kernel: Tunable[..., Any]) -> None:
    """Of a configuration from elsewhere what does not fit becomes the nearest: 5 is 4 here."""
    seen: list[dict[str, Any]] = []

    def note(progress: TuningProgress) -> None:
        assert progress.measurement is not None
        seen.append(progress.measurement.trace.decisions)

    async with MockExecutor(all_right(), noise=0.001) as executor:
        seeds = [{"block": 5, "form": "column", "warps": 9}]
        await tune(kernel, X, executor=executor, trials=2, seeds=seeds, on_progress=note)
    assert seen[1] == {"block": 4, "form": "column"}


async def test_what_is_good_for_a_similar_call_is_tried_first(kernel: Tunable[..., Any]) -> None:
    await tuned(kernel, all_right())
    seen: list[dict[str, Any]] = []

    def note(progress: TuningProgress) -> None:
        assert progress.measurement is not None
        seen.append(progress.measurement.trace.decisions)

    similar = jax.ShapeDtypeStruct((16, 16), jnp.float32)
    async with MockExecutor(all_right(), noise=0.001) as executor:
        await tune(kernel, similar, executor=executor, trials=2, on_progress=note)
    assert seen[1] == {"block": 4, "form": "column"}


async def test_what_is_not_tunable_is_refused() -> None:
    with pytest.raises(TunerError, match=r"decorate it with @aiosearch\.tunable"):
        await tune(reference, X)  # type: ignore[arg-type]  # that is the point


async def test_a_space_without_a_point_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reference runs, and the report names the requirement that nothing meets."""

    def never(s: Sampler, x: Any) -> None:
        s.integer("block", 1, 4)
        s.require(lambda block: block > 9, "blocks are large")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    unmet = tunable(never, reference=reference, table=tmp_path / "t.json", name="doubled")(
        doubled.original
    )
    report = await tuned(unmet, {"reference": act(1e-3)})
    assert report.record.winner == "reference"
    assert "nothing was tried" in str(report)
    assert "blocks are large" in report.facts()["unfit"]


async def test_a_reference_that_cannot_be_traced_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a lambda, which no other process can import, too."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    other = tunable(space, reference=lambda x, y: x, table=tmp_path / "t.json")(doubled.original)
    with pytest.raises(TunerError, match=r"reference of .* cannot be traced .*'y'"):
        await tuned(other, {})


async def test_a_disk_that_fills_ends_a_search_in_a_sentence(
    kernel: Tunable[..., Any], tmp_path: Path
) -> None:
    """It is an error of the table, as one at the beginning is, and names the file."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def full(progress: TuningProgress) -> None:
        if progress.trials == 3:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1024, before[1]))

    try:
        with pytest.raises(TableError, match=r"cannot keep measurements in .*tuning.sqlite"):
            await tuned(kernel, all_right(), on_progress=full)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
