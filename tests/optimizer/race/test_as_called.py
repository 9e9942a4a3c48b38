"""What is handed back is called here before it is: the device does not see the way to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aiosearch.measure import Act, MockExecutor, Ratio
from aiosearch.optimizer.handback.optimized import Optimized
from aiosearch.optimizer.optimization import optimize
from aiosearch.optimizer.outcomes.results import Results
from aiosearch.optimizer.race.as_called import AsCalledRace, AsCalledTimes
from aiosearch.optimizer.race.selection import RACE_RERUNS
from aiosearch.optimizer.trace import Spliced, cut

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
        fast = Act(seconds=1e-5, outputs=trace)
        diagonal = "only the diagonal of the product"
        rules = ("", ", transpose later", ", transpose later, 1 more step")
        forms = [f"{diagonal}{further}" for further in rules]
        super().__init__({"as written": Act(1e-4, outputs=trace), **dict.fromkeys(forms, fast)})


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Results]:
    with Results.open(tmp_path / "results.sqlite") as opened:
        yield opened


def lost(
    monkeypatch: pytest.MonkeyPatch, ratio: float, off: float = 0.0, queued: float = 1.2
) -> list[Any]:
    """Calls take as long as is said, or so much more or less; gives what was called."""
    calls: list[Any] = []

    def race(self: AsCalledRace, fast: Any) -> AsCalledTimes:
        calls.append(fast)
        found = Ratio(ratio, ratio - off, ratio + off, 0.95)
        return AsCalledTimes(1e-4 * ratio, 1e-4, found, Ratio(queued, queued, queued, 0.95))

    monkeypatch.setattr(AsCalledRace, "race", race)
    return calls


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
        assert "called here, what is faster on the device was slower, 0.80 times as fast" in str(
            one.report
        )
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
        assert "slower where no result is waited for, 0.90 times as fast" in str(one.report)


async def test_what_noise_hides_when_it_is_called_is_called_again_and_not_remembered(
    store: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where all else is remembered, so that no executor starts."""
    calls = lost(monkeypatch, 1.1, 0.2)
    async with Here() as executor:
        first = await found(store, executor, A, B)
    again = await found(store, None, A, B)
    assert len(calls) == 3 * (1 + RACE_RERUNS), "after the brief look, after all, and once more"
    for made in (first, again):
        assert not made.report.faster
        assert "was 0.90 to 1.30 times as fast, as the machine is too noisy" in str(made.report)


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
    for ratio in (called.ratio, called.queued):
        assert 0 < ratio.low <= ratio.median <= ratio.high


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


@pytest.mark.parametrize(
    ("between", "queued", "on_gpu", "faster"),
    [
        ((0.98, 1.05), 1.02, False, False),
        ((0.98, 1.05), 1.02, True, True),
        ((0.90, 0.98), 1.02, True, False),
        ((0.98, 1.05), 0.95, True, False),
    ],
)
def test_on_a_gpu_only_what_is_slower_as_called_has_lost(
    between: tuple[float, float], queued: float, on_gpu: bool, faster: bool
) -> None:
    """There the way to the device hides what it gains; on a processor it is all there is."""
    waited, row = Ratio(sum(between) / 2, *between, 0.95), Ratio(queued, queued, queued, 0.95)
    assert AsCalledTimes(1e-4, 1e-4, waited, row, on_gpu).faster is faster


def test_where_a_call_gives_its_result_is_seen() -> None:
    assert not AsCalledRace(traced, (A, B), {}, (A, B))._on_gpu(traced)
