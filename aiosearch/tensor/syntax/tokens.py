"""Tokens of the text format, and errors that show the line where a token stands."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import StrEnum

from ..errors import FormatError
from .checked_terms import MOST_BYTES, MOST_DIGITS
from .printer import NAME

_SHOWN = 120


class TokenKind(StrEnum):
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


@dataclass(frozen=True, slots=True)
class Token:
    form: TokenKind
    text: str
    start: int

    def __str__(self) -> str:
        return "the end of the text" if self.form is TokenKind.END else repr(self.text)


def tokens(text: str) -> list[Token]:
    """The text's tokens with an end token behind them; raises FormatError."""
    if len(text) > MOST_BYTES:
        raise FormatError(f"a text of {len(text)} characters: there may be {MOST_BYTES}")
    found: list[Token] = []
    position = 0
    while position < len(text):
        match = _FORMS.match(text, position)
        if match is None or match.lastgroup is None:
            raise FormatError(placed(text, position, f"no word begins with {text[position]!r}"))
        if match.lastgroup != "skip":
            found.append(_token(text, match.lastgroup, match[0], position))
        position = match.end()
    found.append(Token(TokenKind.END, "", len(text)))
    return found


def placed(text: str, position: int, message: str) -> str:
    """A message with line and column, the line itself, and a caret below."""
    return f"{_where(text, position)}: {message}\n{_excerpt(text, position)}"


def shown(text: str, position: int) -> str:
    """Line and column, the line itself, and a caret below."""
    return f"{_where(text, position)}\n{_excerpt(text, position)}"


def _where(text: str, position: int) -> str:
    line = text.count("\n", 0, position) + 1
    return f"line {line}, column {position - _line_start(text, position) + 1}"


def _token(text: str, form: str, found: str, position: int) -> Token:
    if form == TokenKind.QUOTED:
        try:
            return Token(TokenKind.QUOTED, json.loads(found), position)
        except ValueError:
            message = "a quoted name with an unknown escape"
            raise FormatError(placed(text, position, message)) from None
    if form in (TokenKind.WHOLE, TokenKind.FLOAT) and len(found) > MOST_DIGITS:
        raise FormatError(placed(text, position, f"a number of {len(found)} digits"))
    return Token(TokenKind(form), found, position)


def _line_start(text: str, position: int) -> int:
    return text.rfind("\n", 0, position) + 1


def _excerpt(text: str, position: int) -> str:
    start = _line_start(text, position)
    end = text.find("\n", position)
    line = text[start : end if end >= 0 else len(text)].replace("\t", " ")
    column = position - start
    first = max(0, column - _SHOWN // 2)
    return f"  {line[first : first + _SHOWN]}\n  {' ' * (column - first)}^"
