"""One more operator on values that are there, chosen at random among what fits."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from random import Random

from aiosearch.tensor import Term, apply

UNARY = ("exp", "square", "sqrt", "silu", "gelu", "relu", "rms_norm", "sum", "max")
BINARY = ("matmul", "add", "mul", "div", "sub")

_MOST_ELEMENTS = 4096
_TRIES = 6


class Operators:
    """Draws applications of some operators."""

    def __init__(self, names: set[str], random: Random) -> None:
        self._unary = [name for name in UNARY if name in names]
        self._binary = [name for name in BINARY if name in names]
        self._random = random

    def more(self, pool: Sequence[Term]) -> Iterator[Term]:
        """One more term, if one comes about."""
        for _ in range(_TRIES if pool else 0):
            first = self.one_of(pool, pool)
            unary = self._unary and (not self._binary or self._random.random() < 0.35)
            made = self._one(first) if unary else self._two(first, pool)
            if made is not None and math.prod(sizes(made)) <= _MOST_ELEMENTS:
                yield made
                return

    def one_of(self, terms: Sequence[Term], pool: Sequence[Term]) -> Term:
        """Mostly one that nothing in the pool uses."""
        used = {argument for term in pool for argument in _operands(term)}
        fresh = [term for term in terms if term not in used]
        return self._random.choice(fresh if fresh and self._random.random() < 0.7 else terms)

    def _one(self, term: Term) -> Term:
        name = self._random.choice(self._unary)
        if name in ("sum", "max"):
            return apply(name, term, axes=(len(term.shape) - 1,), keep=True)
        return apply(name, term)

    def _two(self, first: Term, pool: Sequence[Term]) -> Term | None:
        name = self._random.choice([*self._binary, *self._binary[:1]])
        fit = [other for other in pool if _fits(name, sizes(first), sizes(other))]
        return apply(name, first, self.one_of(fit, pool)) if fit else None


def sizes(term: Term) -> list[int]:
    return [size for size in term.shape if isinstance(size, int)]


def _operands(term: Term) -> Sequence[Term]:
    """What a value is made of directly; of a kernel's result, what the kernel loads."""
    if term.operator.name != "result":
        return term.arguments
    body = term.parameter("kernel").body
    return [one.arguments[0] for one in body if one.operator.name == "load"]


def _fits(name: str, one: Sequence[int], two: Sequence[int]) -> bool:
    if len(one) != len(two):
        return False
    if name == "matmul":
        return len(one) > 1 and one[-1] == two[-2] and one[:-2] == two[:-2]
    return all(a == b or 1 in (a, b) for a, b in zip(one, two, strict=True))
