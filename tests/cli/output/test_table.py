from __future__ import annotations

import fcntl
import os
import struct
import termios

import pytest
from testkit.hosts.console import Start

from aiosearch.cli.output import table as tables
from aiosearch.cli.output.table import table

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


def test_a_terminal_is_asked_for_its_width(start: Start) -> None:
    """What is shown there is all that a file would get."""
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 90, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    try:
        assert start("programs", stdout=slave, env=environment).wait(20) == 0
        shown = os.read(master, 1 << 16).decode()
    finally:
        os.close(slave)
        os.close(master)
    written, _ = start("programs", env=environment).communicate(timeout=20)
    assert max(map(len, written.splitlines())) > 90
    assert max(map(len, shown.splitlines())) <= 90
    assert sorted(shown.split()) == sorted(written.split())
