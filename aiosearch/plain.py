"""Text of others as people may see it: with nothing in it that a terminal would obey."""

from __future__ import annotations


def plain(text: str) -> str:
    """Puts `text` on one line, with whatever cannot be printed escaped as in Python."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else ascii(character)[1:-1] for character in text
    )


def plain_lines(text: str) -> str:
    """Makes each line of `text` plain."""
    return "\n".join(map(plain, text.expandtabs().split("\n")))
