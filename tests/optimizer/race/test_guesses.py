"""What noise may have hidden is raced again by the next call, which searches nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import msgspec
import numpy as np
import pytest

from aiosearch.measure import Act, Lap, MockExecutor, Race, Samples
from aiosearch.optimizer import optimization
from aiosearch.optimizer.optimization import optimize
from aiosearch.optimizer.outcomes.results import Results
from aiosearch.optimizer.race.selection import decoded_guesses

A = jnp.linspace(-1.0, 2.0, 64).reshape(8, 8)


def traced(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.trace(a @ b)


def trace(inputs: Any) -> tuple[Any, ...]:
    a, b = (np.asarray(one, np.float64) for one in inputs)
    return (np.float32(np.sum(a * b.T)),)


class Machine(MockExecutor):
    """Whatever is not the function as it is takes two thirds of its time.

    On a loud machine the original seems so many times faster or slower than itself.
    """

    def __init__(self, loud: float) -> None:
        super().__init__({"as written": Act(1e-4, outputs=trace)})
        self._loud = loud
        self.checked: set[str] = set()
        """Who ran on inputs whose outputs are compared."""

    def _act(self, candidate: Any) -> Act:
        return self._acts.get(candidate.name, Act(1e-4 / 1.5, outputs=trace))

    async def run(self, compiled: Any, inputs: Any) -> Any:
        self.checked.add(compiled.name)
        return await super().run(compiled, inputs)

    async def race(self, *args: Any, **options: Any) -> Race:
        race = await super().race(*args, **options)
        if self._loud == 1:
            return race
        times = 1e-4 / self._loud, 1e-4 * self._loud
        wall = tuple(times[number % 2] for number in range(race.rounds))
        again = Lap("as written", dict.fromkeys(race.ways, Samples(wall, wall)))
        return msgspec.structs.replace(race, again=again)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Results]:
    with Results.open(tmp_path / "results.sqlite") as opened:
        yield opened


async def outcome(store: Results, loud: float) -> tuple[Any, list[str]]:
    report, heard, _ = await checked_outcome(store, loud)
    return report, heard


async def checked_outcome(store: Results, loud: float) -> tuple[Any, list[str], set[str]]:
    heard: list[str] = []
    options: dict[str, Any] = {"effort": "quick", "target": "cpu", "kernels": False}
    async with Machine(loud) as executor:
        fast = await optimize(
            traced, A, A, results=store, executor=executor, tell=heard.append, **options
        )
    return fast.report, heard, executor.checked


async def test_what_is_in_doubt_is_raced_again_and_not_searched(store: Results) -> None:
    first, heard = await outcome(store, loud=100)
    assert first.found[0].in_doubt
    assert not first.faster
    assert any("rewriting" in line for line in heard)
    (kept,) = store.all()
    contenders = decoded_guesses(kept.guesses)
    assert contenders[0].how == "as written"
    assert len(contenders) > 1

    again, heard = await outcome(store, loud=100)
    assert again.found[0].in_doubt
    assert not any("rewriting" in line for line in heard)

    calm, heard = await outcome(store, loud=1)
    assert calm.faster
    assert calm.speedup == pytest.approx(1.5, rel=0.03)
    assert not any("rewriting" in line for line in heard)
    (kept,) = store.all()
    assert not kept.guesses
    names = {tried.how for tried in kept.evidence.tried}
    assert names >= {tried.how for tried in first.found[0].tried}, "what was tried stays known"

    later, heard = await outcome(store, loud=1)
    assert later.found[0].remembered


async def test_a_gain_under_much_noise_is_raced_again_on_a_quiet_machine(
    store: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not before, as nothing would be learned; and what was verified stays if noise is all there is
    against it."""
    quiet = [False]
    monkeypatch.setattr(optimization, "is_quiet", lambda: quiet[0])
    first, _ = await outcome(store, loud=1.3)
    assert first.faster
    assert "the gain is uncertain" in str(first)
    for is_quiet, loud in ((False, 1.3), (True, 100)):
        quiet[0] = is_quiet
        again, heard = await outcome(store, loud=loud)
        assert again.faster
        assert any("racing again" in line for line in heard) is is_quiet
    calm, heard = await outcome(store, loud=1)
    assert not any("rewriting" in line for line in heard)
    assert calm.faster
    assert "uncertain" not in str(calm)
    (kept,) = store.all()
    assert not kept.guesses
    assert not kept.uncertain


async def test_what_was_checked_is_not_checked_again_when_it_is_raced_again(
    store: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A check takes many times as long as a race, and noise does not speak against it."""
    monkeypatch.setattr(optimization, "is_quiet", lambda: True)
    first, _, checked = await checked_outcome(store, loud=1.3)
    (kept,) = store.all()
    assert kept.uncertain
    winners = {tried.how for tried in first.found[0].tried if tried.won}
    assert winners <= checked
    calm, _, checked = await checked_outcome(store, loud=1)
    assert calm.faster
    assert {tried.how for tried in calm.found[0].tried if tried.won} == winners
    assert not winners & checked
