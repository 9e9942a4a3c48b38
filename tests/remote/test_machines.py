from __future__ import annotations

from aiosearch.remote.machines import EVERY, MOST, Refusals


def test_a_reason_is_news_once() -> None:
    refusals = Refusals()
    assert refusals.add("a", 1, "old")
    assert not refusals.add("a", 1, "old")
    assert refusals.add("a", 1, "older")
    assert refusals.add("a", 2, "old")


def test_what_holds_for_every_search_holds_for_each() -> None:
    refusals = Refusals()
    refusals.add("a", EVERY, "old")
    refusals.add("b", 1, "unknown")
    assert refusals.of(1) == {"a": "old", "b": "unknown"}
    assert refusals.of(2) == {"a": "old"}


def test_a_machine_that_is_gone_is_forgotten() -> None:
    refusals = Refusals()
    refusals.add("a", EVERY, "old")
    refusals.add("a", 1, "unknown")
    refusals.forget("a")
    assert refusals.of(1) == {}


def test_what_a_terminal_would_obey_is_shown_as_it_is_written() -> None:
    refusals = Refusals()
    refusals.add("a\x1b[2J", 1, "old\nworker 0 died\x9b1A\u202e")
    assert refusals.of(1) == {r"a\x1b[2J": r"old\nworker 0 died\x9b1A\u202e"}
    refusals.forget("a\x1b[2J")
    assert refusals.of(1) == {}


def test_machines_that_make_up_names_fill_no_memory() -> None:
    refusals = Refusals()
    for number in range(2 * MOST):
        refusals.add(str(number), 1, "old")
    assert list(refusals.of(1)) == [str(number) for number in range(MOST, 2 * MOST)]
