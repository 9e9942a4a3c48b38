"""What is handed back is called here before it is: the device does not see the way to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aiosearch.measure import Act, Lap, MockExecutor, Race, Samples, Way
from aiosearch.optimizer import answer_finder
from aiosearch.optimizer.handback.optimized import Optimized
from aiosearch.optimizer.optimization import optimize
from aiosearch.optimizer.outcomes.results import Results
from aiosearch.optimizer.race.as_called import RERUNS, AsCalledRace, AsCalledTimes
from aiosearch.optimizer.trace import Spliced, cut
from aiosearch.pool import usable_cores

A = jnp.linspace(-1.0, 2.0, 64).reshape(8, 8)
B = jnp.cos(A)
LIKE = jax.ShapeDtypeStruct((8, 8), "float32")


def traced(a: jax.Array, b: jax.Array, times: int = 1) -> jax.Array:
    return jnp.trace(a @ b) * times


def trace(inputs: Any) -> tuple[Any, ...]:
    a, b = (np.asarray(one, np.float64) for one in inputs)
    return (np.float32(np.sum(a * b.T)),)


class Here(MockExecutor):
    """Candidates behave as they are told, and calls in this process count."""

    virtual = False

    def __init__(self) -> None:
        # Not all as fast: each step of a search has the same winner.
        acts = {
            "as written": Act(1e-4, outputs=trace),
            "only the diagonal of the product": Act(1e-5, outputs=trace),
        }
        super().__init__(acts)

    def _act(self, candidate: Any) -> Act:
        return self._acts.get(candidate.name, Act(3e-5, outputs=trace))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Results]:
    with Results.open(tmp_path / "results.sqlite") as opened:
        yield opened


def lost(
    monkeypatch: pytest.MonkeyPatch, ratio: float, off: float = 0.0, queued: float = 1.2
) -> list[Any]:
    """Calls take as long as is said, or so much more or less; gives what was called."""
    calls: list[Any] = []

    def race(self: AsCalledRace, fast: Any, seconds: float) -> AsCalledTimes:
        calls.append(fast)
        hot = [ratio - off, ratio, ratio + off]
        return AsCalledTimes(timed({Way.HOT: hot, Way.QUEUED: [queued]}))

    monkeypatch.setattr(AsCalledRace, "race", race)
    return calls


def timed(
    ratios: Mapping[Way, Sequence[float]],
    noise: float = 0.0,
    slow_calls: Mapping[Way, float] = MappingProxyType({}),
) -> Race:
    """A race in whose rounds the second is so many times as fast, by turns, in each way.

    Every fifth call of the second takes `slow_calls` times as long as the others, where that is
    said; the original differs from itself by up to `noise`, either way.
    """

    def lap(way: Way, seconds: Sequence[float], slow: float = 1.0) -> Samples:
        calls = () if way not in slow_calls else (*seconds, *[seconds[0] * slow] * 3) * 10
        return Samples(tuple(seconds), tuple(seconds), tuple(calls))

    usual, again, fast = {}, {}, {}
    for way, turns in ratios.items():
        usual[way] = lap(way, [1e-4] * 12)
        again[way] = lap(way, [1e-4 * (1 + noise), 1e-4 / (1 + noise)] * 6)
        seconds = [1e-4 / turns[number % len(turns)] for number in range(12)]
        fast[way] = lap(way, seconds, slow_calls.get(way, 1.0))
    laps = Lap("as written", usual), Lap("as called", fast)
    return Race(laps, Lap("as written", again), tuple(ratios), 12)


async def found(store: Results, executor: MockExecutor | None, *args: Any, **more: Any) -> Any:
    options = {"effort": "quick", "target": "cpu", "results": store, "kernels": False, **more}
    return await optimize(traced, *args, executor=executor, **options)


async def test_what_is_slower_when_it_is_called_is_taken_out_and_that_is_remembered(
    store: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = lost(monkeypatch, 0.8)
    async with Here() as executor:
        made = await found(store, executor, A, B)
    count = len(calls)
    again = await found(store, Here(), A, B)
    assert 1 <= count == len(calls)
    for one in (made, again):
        assert one.spliced.replacements == {}
        assert not one.report.faster
        assert (
            "called here, what is faster on the device was slower: 0.80 times as fast called on"
            " inputs in the caches"
        ) in str(one.report)
        np.testing.assert_allclose(one(A, B), traced(A, B), rtol=1e-5)


async def test_what_is_slower_where_nobody_waits_is_taken_out(
    store: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many calls in a row, of which only the last one's result is waited for."""
    calls = lost(monkeypatch, 1.5, queued=0.9)
    async with Here() as executor:
        made = await found(store, executor, A, B)
    count = len(calls)
    again = await found(store, Here(), A, B)
    assert 1 <= count == len(calls)
    for one in (made, again):
        assert not one.report.faster
        assert "slower: 0.90 times as fast with several calls in flight" in str(one.report)


async def test_what_noise_hides_when_it_is_called_is_called_again_and_not_remembered(
    store: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where all else is remembered, so that no executor starts."""
    calls = lost(monkeypatch, 1.1, 0.2)
    async with Here() as executor:
        first = await found(store, executor, A, B)
    again = await found(store, None, A, B)
    assert len(calls) == 2 * (1 + RERUNS)
    for made in (first, again):
        assert not made.report.faster
        assert "was 0.90 to 1.30 times as fast, which a noise of 0.0% hides" in str(made.report)


async def test_what_is_faster_when_it_is_called_stays(
    store: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = lost(monkeypatch, 1.5)
    async with Here() as executor:
        made = await found(store, executor, A, B)
    count = len(calls)
    again = await found(store, Here(), A, B)
    assert 1 <= count == len(calls)
    assert made.report.faster
    assert again.report.faster


async def test_without_arrays_there_is_nothing_to_call_it_with(
    store: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = lost(monkeypatch, 0.5)
    async with Here() as executor:
        made = await found(store, executor, LIKE, LIKE)
    assert calls == []
    assert made.report.faster


@pytest.mark.parametrize("times", [1, 3])
def test_both_are_called_as_the_user_calls_them(times: int) -> None:
    made = cut(traced, A, B, times, static_argnums=2)
    fast: Optimized[..., Any] = Optimized(
        Spliced(made, {one.subject: one.original for one in made.regions})  # type: ignore[misc]
    )
    called = AsCalledRace(traced, (A, B, times), {}, [A, B]).race(fast)
    assert called.original > 0
    assert called.fast > 0
    busy = (Way.BUSY,) if usable_cores() > 1 else ()
    assert called.race.ways == (Way.HOT, Way.QUEUED, Way.CHAINED, Way.ALTERNATED, *busy)
    for way in called.race.ways:
        ratio = called.race.speedup(1, way=way)
        assert ratio is not None
        assert 0 < ratio.low <= ratio.median <= ratio.high
    for way in {Way.HOT, *busy}:
        for lap in called.race.laps:
            assert len(lap.samples[way].calls) >= len(lap.samples[way].wall), "call by call"


class Layer:
    """A function that is an object without a hash, as dataclasses and trees of arrays are."""

    __hash__ = None  # type: ignore[assignment]

    def __call__(self, a: jax.Array, b: jax.Array) -> jax.Array:
        return traced(a, b)


def test_a_function_without_a_hash_is_called_too() -> None:
    layer = Layer()
    fast: Optimized[..., Any] = Optimized(Spliced(cut(layer, A, B)))
    assert AsCalledRace(layer, (A, B), {}, (A, B)).race(fast).original > 0


async def test_what_has_effects_is_not_called_for_a_trial(store: Results) -> None:
    """Whoever listens would hear thousands of calls."""
    heard: list[int] = []

    def told(a: jax.Array, b: jax.Array) -> jax.Array:
        jax.debug.callback(lambda: heard.append(1))
        return jnp.trace(a @ b)

    async with Here() as executor:
        fast = await optimize(told, A, B, results=store, executor=executor, effort="quick")
    assert fast.spliced.replacements
    jax.effects_barrier()
    assert not heard


WINNING = dict.fromkeys((Way.HOT, Way.QUEUED, Way.CHAINED, Way.ALTERNATED, Way.BUSY), (1.5,))


def test_what_is_faster_in_each_way_of_calling_is_taken() -> None:
    called = AsCalledTimes(timed(WINNING, noise=0.02))
    assert called.faster
    assert called.slower == ""


@pytest.mark.parametrize(
    ("way", "words"),
    [
        (Way.HOT, "called on inputs in the caches"),
        (Way.QUEUED, "with several calls in flight"),
        (Way.CHAINED, "in a chain of calls"),
        (Way.ALTERNATED, "by turns with other work of XLA"),
        (Way.BUSY, "beside a busy core"),
    ],
)
def test_what_loses_in_any_way_of_calling_is_not_taken(way: Way, words: str) -> None:
    """Whatever it gains in the others; and the way is said in words."""
    called = AsCalledTimes(timed({**WINNING, way: (0.9,)}, noise=0.02))
    assert not called.faster
    assert not called.in_doubt, "more rounds would change nothing"
    assert called.slower == f"0.90 times as fast {words}"


def test_a_loss_within_the_noise_is_none() -> None:
    assert AsCalledTimes(timed({**WINNING, Way.QUEUED: (0.9,)}, noise=0.2)).faster


def test_what_gains_in_no_way_but_loses_in_none_is_not_taken_either() -> None:
    called = AsCalledTimes(timed(dict.fromkeys(WINNING, (1.0,)), noise=0.02))
    assert not called.faster
    assert not called.in_doubt


def test_what_is_faster_by_the_median_and_slower_in_the_tail_is_not_taken() -> None:
    """One call in five waits for a thread that does not run: the median does not see it."""
    called = AsCalledTimes(timed(WINNING, slow_calls={Way.BUSY: 1.0, Way.HOT: 1.0}))
    assert called.faster
    slow = AsCalledTimes(timed(WINNING, slow_calls={Way.BUSY: 9.0, Way.HOT: 1.0}))
    assert slow.ratio.median == pytest.approx(1.5)
    assert not slow.faster
    assert slow.slower.endswith(
        "times as fast beside a busy core in the slowest tenth of the calls"
    )


@pytest.mark.parametrize(
    ("hot", "queued", "on_gpu", "faster"),
    [
        ((0.98, 1.05), 1.02, False, False),
        ((0.98, 1.05), 1.02, True, True),
        ((0.90, 0.98), 1.02, True, False),
        ((0.98, 1.05), 0.95, True, False),
    ],
)
def test_on_a_gpu_only_what_is_slower_as_called_has_lost(
    hot: tuple[float, float], queued: float, on_gpu: bool, faster: bool
) -> None:
    """There the way to the device hides what it gains; on a processor it is all there is."""
    race = timed({Way.HOT: hot, Way.QUEUED: (queued,)})
    assert AsCalledTimes(race, on_gpu).faster is faster


async def test_a_gain_has_the_figure_of_its_calls_wherever_it_stands(
    store: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The executor's race said ten times as fast: who calls it gets 1.4 to 1.6."""
    lost(monkeypatch, 1.5, 0.1)
    async with Here() as executor:
        made = await found(store, executor, A, B)
    again = await found(store, Here(), A, B)
    for one in (made, again):
        (outcome,) = one.report.found
        assert one.report.speedup == outcome.answer.speedup == pytest.approx(1.4)
        assert outcome.answer.median_speedup == pytest.approx(1.5)
        assert outcome.answer.evidence.between == pytest.approx((1.4, 1.6))
        assert "1.40 times as fast as written" in str(one.report)
        assert outcome.over_plain <= outcome.answer.speedup
    kept = [answer for answer in store.all() if answer.faster]
    assert {round(answer.speedup, 6) for answer in kept} == {1.4}


async def test_a_claim_of_a_noisy_machine_is_measured_again_on_a_quiet_one(
    store: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    races = [timed({Way.HOT: (3.0,)}, noise=0.4), timed({Way.HOT: (1.5,)}, noise=0.01)]
    monkeypatch.setattr(
        AsCalledRace, "race", lambda self, fast, seconds: AsCalledTimes(races.pop(0))
    )
    quiet = [False, True, True]
    monkeypatch.setattr(answer_finder, "is_quiet", lambda: quiet.pop(0))
    async with Here() as executor:
        first = await found(store, executor, A, B)
    assert "the gain is uncertain" in str(first.report)
    for claim in (3.0, 1.5, 1.5):
        made = await found(store, Here(), A, B)
        assert made.report.speedup == pytest.approx(claim)
    assert len(quiet) == 1, "what was measured on a quiet machine is not asked about again"


def test_where_a_call_gives_its_result_is_seen() -> None:
    assert not AsCalledRace(traced, (A, B), {}, (A, B))._on_gpu(traced)
