"""Text of others as people may see it: with nothing in it that a terminal would obey."""

from __future__ import annotations


def plain(text: str) -> str:
    """Puts it on one line, with whatever cannot be printed escaped as in Python."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def plain_lines(text: str) -> str:
    """Does the same line by line."""
    return "\n".join(map(plain, text.expandtabs().split("\n")))
