"""What a reader of a report's table sees: the winner, its parts, and why others are out."""

from __future__ import annotations

import re

import pytest
from answers import answer
from reports import TRIED, report

from aiosearch.optimizer.outcomes.candidate_rows import CandidateState, candidate_rows, plain_reason
from aiosearch.optimizer.outcomes.evidence import Tried
from aiosearch.optimizer.outcomes.function_parts import FunctionPart
from aiosearch.optimizer.outcomes.report import Found, Report
from aiosearch.optimizer.outcomes.report_table import became


def test_the_winner_is_marked_first_and_says_what_the_headline_does() -> None:
    evidence = {"answer_error_ulp": 0.5, "original_error_ulp": 0.75, "speedup": 10.0}
    found = Found(answer(evidence=evidence), False, TRIED)
    lines = Report((found,), (), 1.0).table().splitlines()
    at = next(number for number, line in enumerate(lines) if "candidate" in line)
    winner, better, original = lines[at + 1 : at + 4]
    assert re.fullmatch(r">  scale after the product +90 us +10% +10\.00x  proved", winner)
    assert "one fused kernel, W packed (not taken)" in better
    assert original.split() == ["as", "written", "900", "us", "12%", "1.00x"]
    assert "  largest error 0.50 ulp, of the original 0.75" in lines


def test_what_was_faster_and_not_taken_is_explained_in_plain_words() -> None:
    text = report().table()
    reason = "11.00x, not judged: rounding decides on these inputs"
    assert f"not taken: one fused kernel, W packed: {reason}" in " ".join(text.split())
    assert "not taken: 2 fused kernels: 2 fused kernels crashed" in " ".join(text.split())


@pytest.mark.parametrize("width", [80, 100])
def test_every_line_fits(width: int) -> None:
    assert max(map(len, report().table(width).splitlines())) <= width


def test_it_says_which_part_got_faster_and_where() -> None:
    """Twelve blocks of 900 us are 90 % of 12 ms, and 18 % of 6 ms when each takes 90 us."""
    text = report().table(100)
    assert re.search(r"gpt +model\.py:12-31 \(block\) +12 +~90% -> ~18% +3\.00x, used", text)
    assert re.search(r"gpt_2 +model\.py:40 \(head\) +1 +~8% -> ~15% +nothing taken: 11\.00x", text)
    assert re.search(r"outside +model\.py:40 \(head\) .*stays with JAX: sort", text)


def test_a_whole_that_is_not_faster_says_how_fast_it_was_with_its_parts() -> None:
    text = " ".join(report(faster=False).table().split())
    assert "left as it is: with the faster parts replaced it runs at 0.83 times" in text
    assert "in it, gpt: faster alone (3.00x), and not used" in text
    assert "3.00x alone, not used" in text


def test_colours_mark_the_winner_and_take_no_room() -> None:
    plain, coloured = report().table(), report().table(colour=True)
    assert "\x1b[" not in plain
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain
    (marked,) = [line for line in coloured.splitlines() if "scale after" in line]
    assert marked.startswith("\x1b[1;32m>")


def test_candidates_are_sorted_and_on_one_clock() -> None:
    rows = candidate_rows(Found(answer(evidence={"speedup": 10.0}), False, TRIED))
    assert [row.state for row in rows] == [
        CandidateState.WINNER,
        CandidateState.NOT_TAKEN,
        CandidateState.FAILED,
        CandidateState.ORIGINAL,
    ]
    assert rows[1].seconds == pytest.approx(9e-4 / 11)


def test_what_the_noise_hides_is_called_uncertain_and_not_slower() -> None:
    trials = (
        TRIED[0],
        Tried("maybe faster", 5e-4, 1.5, "", "proved", 1e-4, 2e-3),
        Tried("slower", 9e-4, 0.9, "", "proved", 8e-4, 1e-3),
    )
    for in_doubt, state, part in (
        (True, CandidateState.UNCERTAIN, "nothing faster for certain"),
        (False, CandidateState.LEVEL, "nothing faster"),
    ):
        found = Found(answer(faster=False), False, trials, in_doubt=in_doubt)
        states = [row.state for row in candidate_rows(found)]
        assert states == [state, CandidateState.SLOWER, CandidateState.ORIGINAL]
        parts = (FunctionPart(found.answer.name, 1, ()),)
        assert became(Report((found,), (), 1.0, parts=parts), parts[0]) == part


def test_an_answer_that_keeps_no_candidates_has_two_rows() -> None:
    rows = candidate_rows(Found(answer(), True))
    assert [row.name for row in rows] == ["the answer", "as written"]


def test_of_what_was_slower_anyway_nothing_is_explained() -> None:
    slower = Tried("simplified", None, None, "0.94 times in the first race")
    faster = Tried("all rows at once", None, None, "1.78 times in the first race")
    text = Report((Found(answer(), False, (*TRIED[:2], slower, faster)),), (), 1.0).table()
    assert "not taken: simplified" not in text
    assert "all rows at once: 1.78x in the first race, where others were faster" in text
    assert "not taken either: 1 that --report names" in text


def test_a_note_in_plain_words() -> None:
    assert plain_reason("not as accurate: differ; more") == "less accurate than the original"
    assert plain_reason("not confirmed: 1.01 times in a race of its own; x").endswith("its own")
    assert plain_reason("") == ""


def test_the_times_of_each_way_of_calling_are_told() -> None:
    facts = {
        "original": 9e-4, "answer": 9e-5, "speedup": 10.0, "low": 9.0, "high": 11.0,
        "original_cpu": 1.8e-3, "answer_cpu": 2.7e-4,
    }  # fmt: skip
    ways = {"hot": facts, "cold": {**facts, "speedup": 4.0}}
    found = Found(answer(evidence={"ways": ways}), False, TRIED)
    lines = Report((found,), (), 1.0).table(120).splitlines()
    (hot,) = [line.split() for line in lines if line.startswith("called on inputs in the caches")]
    assert " ".join(hot[6:]) == "900 us 90 us 10.00x 1.8 ms 270 us"
    assert any(
        line.startswith("called on inputs in no cache") and "4.00x" in line for line in lines
    )
