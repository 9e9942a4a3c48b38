"""The page of a report: it stands alone, says what the table does, and a browser shows it."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest
from answers import answer
from reports import TRIED, report
from testkit.browser import screenshot

from aiosearch.optimizer.outcomes.evidence import Tried
from aiosearch.optimizer.outcomes.function_parts import FunctionPart, SourcePlace
from aiosearch.optimizer.outcomes.report import Found, Report
from aiosearch.optimizer.outcomes.report_page import report_fragment, report_page

HOSTILE = "<script>alert(1)</script>"


class Reader(HTMLParser):
    """What a page has: its tags, and whatever it would load or run."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.loads += [value or "" for name, value in attrs if name in ("src", "href")]
        assert not any(name.startswith("on") for name, _ in attrs)


def test_a_page_loads_nothing_and_runs_nothing() -> None:
    reader = Reader(report_page(report()))
    assert all(place.startswith("data:image/svg+xml;base64,") for place in reader.loads)
    assert not {"script", "link", "iframe", "object"} & reader.tags


def test_the_page_answers_what_got_faster_and_where() -> None:
    text = html.unescape(re.sub(r"<[^>]+>", " ", report_page(report())))
    text = " ".join(text.split())
    assert "2.00x as fast as written" in text
    assert "gpt model.py:12-31 (block) 12 ~90% -> ~18% 3.00x, used" in text
    assert "gpt_2 model.py:40 (head) 1 ~8% -> ~15% nothing taken: 11.00x, not judged" in text
    assert "stays with JAX: sort" in text
    assert "the faster parts 12 ms 0.83x" in text
    for trial in TRIED:
        assert trial.how in text


def test_the_claim_says_of_what_interval_it_is_the_lower_end() -> None:
    """The medians beside it give a larger ratio, which a reader would take for a mistake."""
    measured = answer()
    evidence = msgspec.structs.replace(measured.evidence, between=(1.5, 1.75))
    faster = msgspec.structs.replace(measured, faster=True, evidence=evidence)
    page = report_page(Report((Found(faster, False, TRIED),), (), 1.0))
    assert "the lower end of what was measured, 1.50 to 1.75 times" in page


def test_the_lines_of_each_part_are_shown_on_the_source(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text(f"import jax\n\n\ndef f(x):\n    return x < 3  # {HOSTILE}\n")
    part = FunctionPart("trace_of_product", 1, (SourcePlace(str(path), "f", 5, 5),))
    page = report_page(Report((Found(answer(), False, TRIED),), (), 1.0, parts=(part,)))
    (line,) = re.findall(r'<span class="line" style="[^"]+"><i> +5</i>.*?</span>', page)
    assert "return x &lt; 3" in line
    assert HOSTILE not in page


def test_names_that_would_be_html_are_text() -> None:
    trial = Tried(HOSTILE, 1e-3, 0.5, HOSTILE, HOSTILE, 1e-3, 1e-3)
    found = Found(answer(name=HOSTILE, source=f"# {HOSTILE}"), False, (*TRIED, trial))
    hostile = Report((found,), (HOSTILE,), 1.0)
    for text in (report_page(hostile), report_fragment(hostile)):
        assert HOSTILE not in text
        assert html.escape(HOSTILE) in text


def test_the_best_so_far_is_drawn_over_time() -> None:
    told = Report(report().found, (), 9.0, report().whole, report().parts, ((1.0, 2.0), (4.0, 3.5)))
    assert "The best so far" in report_page(told)
    assert "The best so far" not in report_page(report())


def test_a_report_is_saved_whole(tmp_path: Path) -> None:
    path = report().save(tmp_path / "out.html")
    assert path.read_text() == report_page(report())
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.html"]


def test_a_notebook_shows_the_headline_and_the_parts() -> None:
    text = report()._repr_html_()
    assert "2.00x" in text
    assert "Which part got faster" in text
    assert "<html" not in text


def test_a_browser_shows_the_page(tmp_path: Path) -> None:
    """Painted all over, and without a word of the browser about what it refused to load."""
    path = report().save(tmp_path / "out.html")
    picture, said = screenshot(path.as_uri(), tmp_path / "page.png")
    assert picture.stat().st_size > 20_000
    assert "Refused" not in said
    assert "Content Security Policy" not in said


@pytest.mark.parametrize("refresh", [None, 2.0])
def test_a_page_that_is_watched_is_loaded_again(refresh: float | None) -> None:
    assert ('http-equiv="refresh"' in report_page(report(), refresh)) == (refresh is not None)
