"""Which sets of parts are tried in a function, and what their times say of each part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from testkit.programs.opaque import unread

from aiosearch.optimizer.outcomes.answer import Answer, Key, Timings
from aiosearch.optimizer.race.arrangements import (
    ArrangementModel,
    Occurrences,
    Parts,
    PredictedSaving,
    arrangement_name,
    by_share,
    occurrences,
    predicted_saving,
)
from aiosearch.optimizer.trace import cut

US = 1e-6


def answer(original: float, fast: float, source: str = "") -> Answer:
    key = Key("p", ("f32[8,8]",), "cpu", "1", "1")
    timings = Timings(original * US, original * US, fast * US, 1.0)
    return Answer(key, "p", "p", source, (), timings, True, "quick")


def model(*savings: float) -> ArrangementModel:
    """Parts that should save so many microseconds, give or take as much."""
    return ArrangementModel([PredictedSaving(us * US, abs(us) * US) for us in savings])


def searched(
    found: ArrangementModel, saved: Callable[[Parts], float], first: list[Parts], steps: int = 6
) -> tuple[Parts, int]:
    """The best set by trials, of which each step has three; and how many were tried."""
    tried = {parts: saved(parts) for parts in first}
    for _ in range(steps):
        for parts, us in tried.items():
            found.learn(parts, us * US, 0.1 * US)
        best = max(tried, key=lambda parts: tried[parts])
        best = best if tried[best] > 0 else frozenset()
        more = found.proposed(best, max(tried[best] if best else 0.0, 0.0) * US, 3)
        if not more:
            break
        tried |= {parts: saved(parts) for parts in more}
    return max(tried, key=lambda parts: tried[parts]), len(tried)


def test_what_two_save_together_says_what_each_may_save() -> None:
    found = model(40, 30)
    both: Parts = frozenset({0, 1})
    found.learn(both, 0.0, 0.1 * US)
    assert found.saving(both) == pytest.approx(0.0, abs=0.1 * US)
    assert found.saving(frozenset({0})) == pytest.approx(-4.8 * US, rel=0.01)
    assert found.saving(frozenset({1})) == pytest.approx(4.8 * US, rel=0.01)
    assert found.proposed(frozenset(), 0.0, 3) == [{1}, {0}]
    found.learn(frozenset({1}), 10 * US, 0.1 * US)
    assert found.saving(frozenset({0})) == pytest.approx(-10 * US, rel=0.03)
    assert found.proposed(frozenset({1}), 10 * US, 3) == [], "a alone cannot save more than b"


def test_five_parts_of_which_two_lose_in_their_places_are_sorted_out() -> None:
    """All gain alone and nothing together: of 31 sets some ten are tried."""
    true = [30.0, -40.0, 25.0, -25.0, 10.0]
    found = model(50, 45, 40, 35, 30)

    def saved(parts: Parts) -> float:
        return sum(true[part] for part in parts)

    first = [found.all_parts, *(frozenset({part}) for part in range(3))]
    assert saved(found.all_parts) == 0
    best, trials = searched(found, saved, first)
    assert best == {0, 2, 4}
    assert trials <= 12


def test_where_nothing_pays_the_search_ends() -> None:
    found = model(50, 45, 40)
    first = [found.all_parts, *(frozenset({part}) for part in range(3))]
    _, trials = searched(found, lambda parts: -20.0 * len(parts), first)
    assert trials == len(first)


def test_where_all_pay_as_predicted_nothing_else_is_tried() -> None:
    found = model(50, 45, 40)
    found.learn(found.all_parts, 135 * US, 0.1 * US)
    for part, us in enumerate((50, 45, 40)):
        found.learn(frozenset({part}), us * US, 0.1 * US)
    assert found.proposed(found.all_parts, 135 * US, 3) == []


def test_no_set_is_proposed_twice() -> None:
    found = model(50, 45, 40)
    found.begun(frozenset({0}))
    seen: list[Parts] = [frozenset({0}), frozenset()]
    while more := found.proposed(frozenset(), 0.0, 2):
        assert not any(parts in seen for parts in more)
        seen += more
        for parts in more:
            found.begun(parts)


@pytest.mark.parametrize(
    ("parts", "name"),
    [
        ({0, 1, 2, 3}, "all that are faster"),
        ({2}, "only h"),
        ({0, 1, 3}, "all but h"),
        ({0, 2}, "f and h"),
    ],
)
def test_arrangements_are_called_by_what_stands_in_them(parts: set[int], name: str) -> None:
    assert arrangement_name(frozenset(parts), ["f", "g", "h", "i"]) == name


def test_a_kernel_pays_for_its_place_and_plain_jax_does_not() -> None:
    """A launch and the traffic of its borders, which XLA would fuse away."""
    occurs = Occurrences(runs=3, border_bytes=60_000)
    plain = predicted_saving(answer(50, 40), occurs)
    kernel = predicted_saving(answer(50, 40, "carried('...')"), occurs)
    assert plain.mean == pytest.approx(30 * US)
    assert kernel.mean == pytest.approx((30 - 6 - 6) * US)
    assert kernel.deviation > plain.deviation


def test_what_a_loop_runs_counts_for_each_turn() -> None:
    def layer(x: Any, w: Any) -> Any:
        return unread(jnp.tanh(x @ w))

    def looped(x: Any, w: Any) -> Any:
        return jax.lax.scan(lambda state, _: (layer(state, w), None), layer(x, w), length=5)[0]

    x = jnp.ones((8, 8))
    made = cut(looped, x, x)
    (counted,) = occurrences(made).values()
    assert counted.runs == 6
    assert counted.border_bytes == 6 * x.nbytes, "what the sort takes, in each turn"


def test_what_takes_most_of_the_functions_time_comes_first() -> None:
    """By what it takes alone and how often it runs."""

    def f(a: Any, b: Any) -> Any:
        rare = unread(jnp.exp(a) + 1)
        return jax.lax.scan(lambda x, _: (unread(jnp.tanh(x @ b)), None), rare, length=5)[0]

    made = cut(f, jnp.ones((8, 8)), jnp.ones((8, 8)))
    first, second = made.subjects
    assert by_share(made, {first: 1.0, second: 1.0}) == [second, first]
    assert by_share(made, {first: 6.0, second: 1.0}) == [first, second]
