"""Text tables and their colours."""

from __future__ import annotations

import os
import pty

import pytest

from aiosearch.display import tables
from aiosearch.display.tables import Colour, lined_up, painted, shows_colour, table, time_text


@pytest.mark.parametrize(
    ("variables", "shown"),
    [
        ({"TERM": "xterm"}, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
        ({"TERM": "xterm", "NO_COLOR": ""}, True),
        ({"TERM": "dumb"}, False),
    ],
)
def test_a_terminal_has_colours_unless_they_are_not_wanted(
    variables: dict[str, str], shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    master, slave = pty.openpty()
    try:
        with os.fdopen(slave, "w") as stream:
            assert shows_colour(stream) == shown
    finally:
        os.close(master)


def test_a_file_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    with open(os.devnull, "w") as stream:
        assert not shows_colour(stream)


def test_columns_line_up_and_words_stay_whole() -> None:
    rows = [("name", "took"), ("all rows at once", "3 s")]
    assert lined_up(rows, {1}, 14) == ["name      took", "all rows   3 s\nat once"]


def test_a_text_is_painted_from_end_to_end() -> None:
    assert painted("won", Colour.BOLD, Colour.GREEN) == "\x1b[1;32mwon\x1b[0m"
    assert painted("", Colour.BOLD) == ""


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(8.5e-7, "850 ns"), (1.23e-5, "12.3 us"), (4.56e-3, "4.56 ms"), (2, "2 s")],
)
def test_a_time_has_the_unit_that_people_use(seconds: float, text: str) -> None:
    assert time_text(seconds) == text


ROWS = [("name", "took", "what it does"), ("queue", "3 s", "deals tasks to whoever is idle")]


def at(width: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(tables, "_terminal_width", lambda: width)
    return table(ROWS, right=frozenset({1})).splitlines()


@pytest.mark.parametrize("width", [0, 43, 120])
def test_what_has_room_has_a_line_for_each_row(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As has everything where no terminal reads."""
    assert at(width, monkeypatch) == [
        "name   took  what it does",
        "queue   3 s  deals tasks to whoever is idle",
    ]


def test_what_has_none_goes_on_below(monkeypatch: pytest.MonkeyPatch) -> None:
    """In its own column."""
    assert at(30, monkeypatch) == [
        "name   took  what it does",
        "queue   3 s  deals tasks to",
        "             whoever is idle",
    ]


def test_words_and_figures_are_kept_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a terminal is narrower than these."""
    assert at(5, monkeypatch) == [
        "name   took  what it",
        "             does",
        "queue   3 s  deals",
        "             tasks",
        "             to",
        "             whoever",
        "             is idle",
    ]
