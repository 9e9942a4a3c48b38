from __future__ import annotations

import pytest

from aiosearch.plain import plain, plain_lines


@pytest.mark.parametrize("text", ["", "a machine", "Zoë's, 日本 µs — “so”"])
def test_what_can_be_printed_stays_as_it_is(text: str) -> None:
    assert plain(text) == plain_lines(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", r"\x1b[31mred"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("\x9b2J", r"\x9b2J"),
        ("over\rwritten\b\x7f", r"over\rwritten\x08\x7f"),
        ("\u202eback\u2028wards", r"\u202eback\u2028wards"),
        ("half \ud800", r"half \ud800"),
    ],
)
def test_what_a_terminal_would_obey_is_escaped(text: str, shown: str) -> None:
    assert plain(text) == plain_lines(text) == shown


def test_lines_stay_where_there_may_be_some() -> None:
    assert plain("one\n\ttwo") == r"one\n\ttwo"
    assert plain_lines("one\n\ttwo\x1b") == "one\n        two\\x1b"
