"""Questions to z3 about terms without labels: which are equal, and which is a subterm of which.

These are the axioms of Mirage's paper, with those that its first version left out: fractions of
fractions, products of exponentials and of roots. There is no cancelling. A sum has the logarithm of
its size; a division by a number is left out, so that a mean is a sum.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ...tensor.abstract import Abstract
from ...tensor.sizes import Size
from .abstract_terms import EQUAL, EQUAL_BOTH_WAYS, ORDER, PARTS, axiom_text

_NAMES = {"multiply": "mul", "divide": "div", "max over": "largest"}
_SIZED = ("sum", "largest")
_FUNCTIONS = """\
(declare-sort T 0)
(declare-fun add (T T) T) (declare-fun mul (T T) T) (declare-fun div (T T) T)
(declare-fun exp (T) T) (declare-fun sqrt (T) T)
(declare-fun sum (Int T) T) (declare-fun largest (Int T) T) (declare-fun both (T T) T)
(declare-fun part (T T) Bool) (declare-const target T)
"""
_INTERPRETED = {"add", "mul", "div", "exp", "sqrt", "sum", "largest", "both"}
_EQUAL_BOTH_WAYS = (
    *EQUAL_BOTH_WAYS,
    ("x y z", "(div (div x y) z)", "(div x (mul y z))"),
    ("x y", "(mul (exp x) (exp y))", "(exp (add x y))"),
    ("x y", "(mul (sqrt x) (sqrt y))", "(sqrt (mul x y))"),
)
_PARTS = (
    *PARTS,
    ("x y", "(both x y)", "x"),
    ("x y", "(both x y)", "y"),
    ("x", "(sqrt x)", "x"),
    ("i x", "(largest i x)", "x"),
)


class SubtermQuestions:
    """Questions whether terms are parts of what a program gives."""

    def __init__(self, targets: Sequence[Abstract], terms: Sequence[Abstract]) -> None:
        self._texts: dict[Abstract, str] = {}
        self._arities: dict[str, int] = {}
        """The program's names, numbers and functions, which the axioms do not know, and their
        arities."""
        whole = self._text(targets[0])
        for target in targets[1:]:
            whole = f"(both {whole} {self._text(target)})"
        for term in terms:
            self._text(term)
        # Terms are written before this line, as writing them collects the symbols to declare.
        self.declarations = _FUNCTIONS + "".join(self._declared())
        """Every symbol that a question may use."""
        rules = "".join(self._rules())
        self.axioms = f"{self.declarations}{rules}(assert (= target {whole}))\n"

    def query(self, term: Abstract) -> str:
        """What is unsatisfiable if `term` is a part."""
        return f"{self.declarations}(assert (not (part {self._text(term)} target)))"

    def key(self, term: Abstract) -> bytes:
        """Equal for terms that are written alike."""
        return self._text(term).encode()

    def _text(self, term: Abstract) -> str:
        text = self._texts.get(term)
        if text is None:
            text = self._texts[term] = self._written(term)
        return text

    def _written(self, term: Abstract) -> str:
        if term.symbol == "divide" and _is_number(term.arguments[1]):
            return self._text(term.arguments[0])
        inner = [self._text(argument) for argument in term.arguments]
        if term.symbol == "subtract":
            return f"(add {inner[0]} (mul {self._symbol('-1', 0)} {inner[1]}))"
        if term.symbol == "negative":
            return f"(mul {self._symbol('-1', 0)} {inner[0]})"
        if not inner:
            return self._symbol(str(term), 0)
        name = _NAMES.get(term.symbol, term.symbol)
        if name not in _INTERPRETED:
            name = self._symbol(term.symbol, len(inner))
        size = [str(logarithm(term.size))] if name in _SIZED else []
        return f"({name} {' '.join([*size, *inner])})"

    def _symbol(self, name: str, arity: int) -> str:
        """A name that z3 takes, whatever the program calls it."""
        self._arities.setdefault(f"{name}/{arity}", arity)
        return f"s{list(self._arities).index(f'{name}/{arity}')}"

    def _declared(self) -> Iterator[str]:
        for place, arity in enumerate(self._arities.values()):
            yield f"(declare-fun s{place} ({' '.join(['T'] * arity)}) T)\n"

    def _rules(self) -> Iterator[str]:
        reversed_rules = [(names, after, before) for names, before, after in _EQUAL_BOTH_WAYS]
        for names, before, after in (*EQUAL, *_EQUAL_BOTH_WAYS, *reversed_rules):
            yield axiom_text(names, before, f"(= {before} {after})")
        for names, whole, part in (*_PARTS, *self._argument_parts()):
            yield axiom_text(names, whole, f"(part {part} {whole})")
        for rule in ORDER:
            yield axiom_text(*rule)

    def _argument_parts(self) -> Iterator[tuple[str, str, str]]:
        for place, arity in enumerate(self._arities.values()):
            names = "xyz"[:arity]
            for name in names:
                yield " ".join(names), f"(s{place} {' '.join(names)})", name


def logarithm(size: object) -> int:
    """A logarithm of a size that is exact: that of a product is the sum.

    Each prime has a rounded integer, `logarithm(2)` is 1000: real logarithms would not add up
    exactly.
    """
    if not isinstance(size, int):
        raise TypeError(f"a size that is no number: {size}")
    total, prime = 0, 2
    while size > 1:
        while size % prime == 0:
            total, size = total + round(1000 * math.log2(prime)), size // prime
        prime += 1
    return total


def _is_number(term: Abstract) -> bool:
    return term.symbol == "constant" and isinstance(term.size, (int, Size))
