"""The named actor, in this process: what is written can be read, and looked at."""

from __future__ import annotations

from itertools import chain

import msgspec
import pytest
from aiosearch_ray import notes
from aiosearch_ray.notes import KeptVerdicts, Notes, decided, encode, parts

from aiosearch.checks import Status, Verdict
from aiosearch.remote.notebooks import PART, Known, Standing

PROVED = Verdict(Status.PROVED)
REFUTED = Verdict(Status.REFUTED, seconds=0.25)
UNKNOWN = Verdict(Status.UNKNOWN, "resource limit", rlimit=1000)


def known(count: int, verdict: Verdict = PROVED) -> list[Known]:
    return [(number.to_bytes(16, "big"), verdict) for number in range(count)]


class Near:
    """Read as from afar."""

    def __init__(self, actor: Notes) -> None:
        self._actor = actor

    async def read(self, start: int) -> bytes:
        return self._actor.read(start)


async def test_verdicts_are_read_as_they_were_written_in_parts() -> None:
    actor, written = Notes(), [*known(2 * PART), (b"r" * 16, REFUTED), (b"u" * 16, UNKNOWN)]
    actor.write(encode(written), encode({}))
    read = [part async for part in parts(Near(actor))]
    assert [len(part) for part in read] == [PART, PART, 2]
    assert list(chain(*read)) == written


def test_an_answer_stays_where_a_smaller_budget_led_to_none_and_takes_the_place_of_none() -> None:
    kept = KeptVerdicts()
    kept.add([(b"1", PROVED), (b"2", UNKNOWN)])
    kept.add([(b"1", UNKNOWN), (b"2", REFUTED)])
    assert kept.all() == [(b"1", PROVED), (b"2", REFUTED)]


def test_where_there_are_too_many_the_oldest_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notes, "MOST_VERDICTS", 2 * PART)
    kept = KeptVerdicts()
    kept.add(known(2 * PART + 1))
    assert kept.all() == known(2 * PART + 1)[PART + 1 :]


def test_what_has_changed_meanwhile_is_not_removed() -> None:
    kept = KeptVerdicts()
    kept.add([(b"1", UNKNOWN), (b"2", UNKNOWN)])
    part = kept.part()
    kept.add([(b"1", PROVED)])
    kept.remove(part)
    assert kept.all() == [(b"1", PROVED)]


def test_hosts_are_told_answers_only() -> None:
    assert decided([(b"1", PROVED), (b"2", UNKNOWN), (b"3", REFUTED)]) == (
        (b"1", "proved"),
        (b"3", "refuted"),
    )


def test_whoever_looks_sees_what_each_search_has_found_in_plain_values() -> None:
    actor = Notes()
    best = msgspec.msgpack.encode((1, 2))
    actor.write(encode(known(3)), encode({"a-1": Standing("Knapsack", 1, 7.5, best)}))
    actor.write(encode([]), encode({"a-2": Standing("Queens", 0, None, None)}))
    actor.write(encode([]), encode({"a-1": Standing("Knapsack", 2, 5.0, best)}))
    assert actor.standing() == {
        "verdicts": 3,
        "searches": {
            "a-1": {"problem": "Knapsack", "solutions": 2, "best_cost": 5.0, "best": best},
            "a-2": {"problem": "Queens", "solutions": 0, "best_cost": None, "best": None},
        },
    }


def test_it_remembers_the_latest_hundred_searches() -> None:
    actor = Notes()
    for number in range(101):
        actor.write(encode([]), encode({f"a-{number}": Standing("Queens", 0, None, None)}))
    assert list(actor.standing()["searches"]) == [f"a-{number}" for number in range(1, 101)]
