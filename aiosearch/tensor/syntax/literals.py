"""Parser of numbers, sizes and lists in the text format.

`parse_size("2·h + 1")` is the polynomial 2h + 1; `parse_number("1/3")` is Fraction(1, 3).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import NoReturn, TypeVar

from ..errors import FormatError
from ..operator import ParameterKind, ParameterValue
from ..sizes import Dim, Powers, Size, simple
from ..terms import Number
from .printer import KEYWORDS
from .tokens import Token, TokenKind, placed, tokens

T = TypeVar("T")
"""The value that a sub-parser returns."""

_LISTS = (ParameterKind.SHAPE, ParameterKind.AXES, ParameterKind.PERMUTATION, ParameterKind.COUNTS)
"""Kinds of parameters that are written as lists of sizes."""


def parse_number(text: str) -> Number:
    """A number as `number_text` writes it.

    Integer, decimal, fraction, infinite, or a named size.
    """
    parser = LiteralParser(text)
    return parser.ended(parser.number())


def parse_size(text: str) -> Dim:
    """A size as `size_text` writes it, such as `16`, `K` or `2·h + 1`."""
    parser = LiteralParser(text)
    return parser.ended(parser.size())


class LiteralParser:
    """Reads tokens one by one, and literals; `parser._Parser` adds programs."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._tokens = tokens(text)
        self._index = 0

    @property
    def token(self) -> Token:
        """The token that is read next."""
        return self._tokens[self._index]

    def fail(self, message: str, token: Token | None = None) -> NoReturn:
        """Raises FormatError with `message` at a token, by default the next one."""
        raise FormatError(placed(self.text, (token or self.token).start, message))

    def at(self, word: str, ahead: int = 0) -> bool:
        """Whether the token `ahead` of the next one is this word or sign, not in quotes."""
        token = self._tokens[min(self._index + ahead, len(self._tokens) - 1)]
        return token.text == word and token.form in (TokenKind.NAME, TokenKind.SIGN)

    def next(self) -> Token:
        """Takes the next token; the end is never passed."""
        token = self.token
        if token.form is not TokenKind.END:
            self._index += 1
        return token

    def accept(self, word: str) -> bool:
        """Takes the next token if it is `word`."""
        if self.at(word):
            self._index += 1
            return True
        return False

    def expect(self, word: str) -> None:
        """Takes the next token, which has to be `word`."""
        if not self.accept(word):
            self.fail(f"expected {word!r}, found {self.token}")

    def ended(self, value: T) -> T:
        """Returns `value` if the text ends here."""
        if self.token.form is not TokenKind.END:
            self.fail(f"expected the end of the text, found {self.token}")
        return value

    def name(self, what: str = "a name") -> str:
        """Takes a name, in quotes or not."""
        if self.token.form not in (TokenKind.NAME, TokenKind.QUOTED):
            self.fail(f"expected {what}, found {self.token}")
        return self.next().text

    def several(self, opening: str, closing: str, element: Callable[[], T]) -> list[T]:
        """A list between brackets, with commas between; a comma may follow the last element."""
        self.expect(opening)
        elements: list[T] = []
        while not self.accept(closing):
            elements.append(element())
            # A missing comma is reported where it is missing, not at the next bracket.
            if not self.accept(",") and not self.at(closing):
                self.fail(f"expected ',' or {closing!r}, found {self.token}")
        return elements

    def plain_number(self) -> Number:
        """A number without names: `-1.5e3`, `1/3`, `inf`."""
        sign = -1 if self.accept("-") else 1
        if self.accept("inf"):
            return sign * math.inf
        token = self.next()
        if token.form is TokenKind.FLOAT:
            return sign * float(token.text)
        if token.form is not TokenKind.WHOLE:
            self.fail(f"expected a number, found {token}", token)
        if not self.accept("/"):
            return sign * int(token.text)
        below = self.next()
        if below.form is not TokenKind.WHOLE or int(below.text) == 0:
            self.fail(f"expected a whole number above 0, found {below}", below)
        return Fraction(sign * int(token.text), int(below.text))

    def number(self) -> Number:
        """A number, or a size where names or operators follow."""
        start = self._index
        # `inf` is a name by its letters, and a number by its meaning.
        if not self.at("-") and self.token.form is TokenKind.NAME and not self.at("inf"):
            return self.size()
        value = self.plain_number()
        # `2·n` begins like the number 2: read again from the start, as a size.
        if any(map(self.at, "·*^+-")):
            self._index = start
            return self.size()
        return value

    def size(self) -> Dim:
        """A sum of products of numbers and names."""
        terms: dict[Powers, int] = {}
        sign = -1 if self.accept("-") else 1
        while True:
            powers, factor = self._product()
            terms[powers] = terms.get(powers, 0) + sign * factor
            if not self.at("+") and not self.at("-"):
                return simple(Size(terms))
            sign = -1 if self.next().text == "-" else 1

    def _product(self) -> tuple[Powers, int]:
        """A product of numbers and powers of names."""
        powers: dict[str, int] = {}
        factor = 1
        while True:
            token = self.next()
            if token.form is TokenKind.WHOLE:
                factor *= int(token.text)
                # A product of long numbers is quadratic in their digits; it ends here.
                if factor >= 1 << 1024:
                    self.fail("a size beyond all memory", token)
            elif token.form is TokenKind.NAME and token.text not in KEYWORDS:
                powers[token.text] = powers.get(token.text, 0) + self._power()
            else:
                self.fail(f"expected a size, found {token}", token)
            if not self.accept("·") and not self.accept("*"):
                return tuple(sorted((name, n) for name, n in powers.items() if n)), factor

    def _power(self) -> int:
        """An exponent after `^`; 1 where there is none."""
        if not self.accept("^"):
            return 1
        token = self.next()
        if token.form is not TokenKind.WHOLE:
            self.fail(f"expected a power, found {token}", token)
        return int(token.text)

    def value(self, kind: ParameterKind) -> ParameterValue:
        """A parameter's value, in the syntax of its kind."""
        if kind is ParameterKind.NUMBER:
            return self.number()
        if kind in (ParameterKind.DTYPE, ParameterKind.FLAG):
            word = self.name()
            return (
                {"true": True, "false": False}.get(word, word)
                if kind is ParameterKind.FLAG
                else word
            )
        if kind is ParameterKind.WORD:
            return self._word()
        if kind in _LISTS:
            return tuple(self.several("[", "]", self.size))
        return self.size()

    def _word(self) -> ParameterValue:
        """A map, an axis or a name: `[0, _]`, `1`, `sum`."""
        if self.at("["):
            return tuple(self.several("[", "]", self._word))
        if self.accept("_"):
            return None
        return self.size() if self.token.form is TokenKind.WHOLE else self.name()
