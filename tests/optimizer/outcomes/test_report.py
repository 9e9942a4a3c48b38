"""What is said of a function: its own figure first, then its parts."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from answers import answer

from aiosearch.optimizer.outcomes.answer import Timings
from aiosearch.optimizer.outcomes.evidence import Tried
from aiosearch.optimizer.outcomes.report import (
    Found,
    Report,
    WholeFunctionResult,
    arrangement,
)

TRIED = (Tried("as written", 9e-4, 1.0, low=8e-4, high=9.9e-4), Tried("other", None, None, "fails"))
PARTS = tuple(
    Found(answer(number, name=f"f_{number}", evidence={"speedup": 3.05}), False)
    for number in (1, 2)
)


def whole(faster: bool, kept: list[str]) -> WholeFunctionResult:
    evidence: dict[str, Any] = {"speedup": 1.06, "kept": kept}
    return WholeFunctionResult(
        answer(9, name="f (whole)", faster=faster, evidence=evidence), remembered=False
    )


def test_the_whole_comes_first_and_parts_are_named_as_such() -> None:
    """A part that does not stand in the function is no gain."""
    used, _ = PARTS
    report = Report(PARTS, ("sort at f.py:3",), 1.0, whole(True, [used.answer.id]))
    first, second, third, last = str(report).splitlines()
    assert first.startswith("f: 1.06 times as fast as written, with 1 part replaced; noise")
    assert second.startswith("in it, f_1 alone: 3.05 times as fast as written")
    assert third == "in it, f_2: faster alone (3.05x), and not used"
    assert last == "left alone: sort at f.py:3"
    assert (report.faster, report.speedup) == (True, 1.06)
    assert [report.used(one) for one in PARTS] == [True, False]


def test_where_the_whole_is_not_faster_nothing_is_announced() -> None:
    for one in (whole(False, []), "f is left as it is, as it could not be timed as a whole: no"):
        report = Report(PARTS, (), 1.0, one)
        first, *parts = str(report).splitlines()
        assert first.startswith(("f: not faster", "f is left as it is"))
        assert parts == [
            f"in it, f_{number}: faster alone (3.05x), and not used" for number in (1, 2)
        ]
        assert (report.faster, report.speedup) == (False, None)
        assert "times as fast" not in str(report)


def test_arrays_from_outside_are_said_to_stay_as_they_were() -> None:
    report = Report(PARTS[:1], (), 1.0, closed_over=2)
    for told in (str(report), report.table(), report._repr_html_()):
        words = " ".join(told.split())
        assert "reads 2 arrays from outside" in words
        assert "later changes of them are not seen" in words
    assert "from outside" not in str(Report(PARTS[:1], (), 1.0))


def test_a_function_that_is_one_program_has_its_figure() -> None:
    report = Report(PARTS[:1], (), 1.0)
    assert str(report).startswith("f_1: 3.05 times as fast as written, 8.89 times as fast as the")
    assert report.speedup == 3.05
    slow = Found(answer(name="g", faster=False), False)
    assert str(Report((slow,), (), 1.0)).startswith("g: nothing faster was found; noise")


@pytest.mark.parametrize(
    ("noise", "faster", "in_doubt", "told"),
    [
        (0.2, True, False, "noise 20.0%"),
        (
            0.5,
            True,
            False,
            "noise 50.0%: the gain is uncertain, and is measured again on a quieter machine",
        ),
        (0.2, False, False, "noise 20.0%"),
        (
            1.3,
            False,
            False,
            "noise 130.0%, which hides no gain: by their intervals none is above 3%",
        ),
        (
            0.01,
            False,
            True,
            "noise 1.0%, and a gain above 3% may be hidden: it is raced again the next time",
        ),
    ],
)
def test_what_much_noise_means_is_told(
    noise: float, faster: bool, in_doubt: bool, told: str
) -> None:
    timings = Timings(9e-4, 8e-4, 9e-5, 1 + noise)
    one = answer(name="f (whole)", faster=faster, timings=timings, evidence={"kept": []})
    assert str(Found(one, False, in_doubt=in_doubt)).endswith(f"; {told}")
    assert str(WholeFunctionResult(one, False, in_doubt=in_doubt)).endswith(f"; {told}")


def test_numbers_where_the_original_gives_none_are_in_the_headline() -> None:
    """What the usual policy allows is said where it happened."""
    found = Found(answer(evidence={"newly_defined": 993038}), False)
    assert str(found).endswith(
        "; gives numbers at 993,038 elements where the original gives none: strict=True forbids it"
    )
    assert "strict" not in str(Found(answer(evidence={"newly_defined": 0}), False))
    slow = answer(faster=False, evidence={"newly_defined": 3})
    assert "strict" not in str(Found(slow, False))


def test_an_answer_that_was_found_before_still_has_its_table() -> None:
    kept = answer(evidence={"tried": msgspec.to_builtins(TRIED)})
    assert Found.before(kept, kept.name) == Found(kept, True, TRIED)


def test_what_was_found_for_another_function_is_told_of_the_one_asked_for() -> None:
    one = Found.before(answer(name="first"), "second")
    told, _, rest = str(one).partition(": ")
    assert told == "second"
    assert "as the best plain JAX, as found before, for first; noise" in rest
    assert one.answer.names == ("second", "first")
    as_whole = WholeFunctionResult.before(whole(True, []).answer, "g")
    told = str(as_whole)
    assert told.startswith("g: 1.06 times as fast")
    assert ", as found before, for f; noise" in told


def test_what_is_shown_of_it_is_a_line() -> None:
    """Neither the source nor what was tried; `str`, attributes and the table have those."""
    one = answer(1, name="f_1", evidence={"speedup": 3.05, "tried": msgspec.to_builtins(TRIED)})
    found = Found(one, False, TRIED)
    known = f"{found}; proved — for all shapes"
    start = f"<answer {one.id[:8]} for f_1: "
    assert repr(one) == f"{start}3.05 times as fast; proved — for all shapes>"
    assert repr(found) == f"<found: {known}>"
    assert repr(Report((found,), (), 1.0)) == f"<report: {known}>"
    parts = Report(PARTS, ("sort at f.py:3",), 1.0, whole(True, [PARTS[0].answer.id]))
    assert repr(parts.whole) == f"<whole: {str(parts).splitlines()[0]}>"
    assert repr(parts) == f"<report: {str(parts).splitlines()[0]}, and 3 more lines>"
    slow = answer(2, name="g", faster=False)
    assert repr(slow) == f"<answer {slow.id[:8]} for g: nothing faster>"
    assert repr(Report((), ("it sorts",), 1.0)) == "<report: left alone: it sorts>"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("all that are faster", "the faster parts"),
        ("only f_2, 0", "f_2 alone"),
        ("all but f, 0", "the faster parts but f"),
        ("f, 0 and f_3, 2", "f and f_3"),
    ],
)
def test_an_arrangement_is_named_by_what_it_replaces(name: str, told: str) -> None:
    assert arrangement(name) == told
