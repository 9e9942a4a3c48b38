"""Tokens of the text format, and errors that show the line where a token stands.

`tokens("y = exp(X)")` are the name y, the sign =, the name exp, the signs and name of the call, and
an end token.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import StrEnum

from ..errors import FormatError
from .checked_terms import MOST_BYTES, MOST_DIGITS
from .printer import NAME

_SHOWN = 120
"""Columns of a line that an error shows."""


class TokenKind(StrEnum):
    """The kind of a `Token`."""

    NAME = "name"
    QUOTED = "quoted"
    FLOAT = "float"
    WHOLE = "whole"
    SIGN = "sign"
    END = "end"


_FORMS = re.compile(
    rf"""(?P<skip>[\s;]+|\#[^\n]*)
    |(?P<name>{NAME})
    |(?P<quoted>"(?:[^"\\\n]|\\.)*")
    |(?P<float>[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)
    |(?P<whole>[0-9]+)
    |(?P<sign>[{{}}()\[\],=:·*^/+-])""",
    re.VERBOSE,
)
"""The pattern of every token; spaces, `;` and comments are skipped."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token with its text, and its `start` in the source."""

    form: TokenKind
    text: str
    start: int

    def __str__(self) -> str:
        return "the end of the text" if self.form is TokenKind.END else repr(self.text)


def tokens(text: str) -> list[Token]:
    """The tokens of a text with an end token behind them; raises FormatError."""
    if len(text) > MOST_BYTES:
        raise FormatError(f"a text of {len(text)} characters: there may be {MOST_BYTES}")
    result: list[Token] = []
    position = 0
    while position < len(text):
        match = _FORMS.match(text, position)
        # Every alternative of the pattern is a named group, so that lastgroup is the kind of the
        # token.
        if match is None or match.lastgroup is None:
            raise FormatError(placed(text, position, f"no word begins with {text[position]!r}"))
        if match.lastgroup != "skip":
            result.append(_token(text, match.lastgroup, match[0], position))
        position = match.end()
    result.append(Token(TokenKind.END, "", len(text)))
    return result


def placed(text: str, position: int, message: str) -> str:
    """A message with line and column, the line itself, and a caret below."""
    return f"{_where(text, position)}: {message}\n{_excerpt(text, position)}"


def shown(text: str, position: int) -> str:
    """Line and column of `position`, the line itself, and a caret below."""
    return f"{_where(text, position)}\n{_excerpt(text, position)}"


def _where(text: str, position: int) -> str:
    """Line and column of `position`, both from 1."""
    line = text.count("\n", 0, position) + 1
    return f"line {line}, column {position - _line_start(text, position) + 1}"


def _token(text: str, form: str, matched: str, position: int) -> Token:
    """The token that was `matched`; raises FormatError for a bad escape or too long a number."""
    if form == TokenKind.QUOTED:
        try:
            return Token(TokenKind.QUOTED, json.loads(matched), position)
        except ValueError:
            message = "a quoted name with an unknown escape"
            raise FormatError(placed(text, position, message)) from None
    # int() of very long text is quadratic, and refused by Python beyond 4300 digits.
    if form in (TokenKind.WHOLE, TokenKind.FLOAT) and len(matched) > MOST_DIGITS:
        raise FormatError(placed(text, position, f"a number of {len(matched)} digits"))
    return Token(TokenKind(form), matched, position)


def _line_start(text: str, position: int) -> int:
    """The position at which the line begins."""
    return text.rfind("\n", 0, position) + 1


def _excerpt(text: str, position: int) -> str:
    """The line around `position`, cut to `_SHOWN` columns, and a caret."""
    start = _line_start(text, position)
    end = text.find("\n", position)
    # A tab counts as one column, as the caret does.
    line = text[start : end if end >= 0 else len(text)].replace("\t", " ")
    column = position - start
    first = max(0, column - _SHOWN // 2)
    return f"  {line[first : first + _SHOWN]}\n  {' ' * (column - first)}^"
