"""Spellings: equivalent ways to write the matrix products of a program, which XLA compiles
differently.

Example: a bf16 product of f32 accumulation may be `jnp.matmul(x, w,
preferred_element_type=jnp.float32).astype(jnp.bfloat16)`; of a program with two such products there
are `accumulate 0`, `accumulate 1`, and both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations

from ...tensor import Program, Term
from ...tensor.types import HALVES


class ProductSpelling(StrEnum):
    """How one product of matrices is written."""

    ACCUMULATE = "accumulate"
    """Half types are accumulated in 32 bits and rounded after, where XLA may else convert the whole
    matrix."""
    TWO_ROWS = "two rows"
    """A single row is padded to two, which XLA compiles in another way."""
    TRANSPOSED = "turned"
    """As the transposed product of the transposed factors."""


@dataclass(frozen=True)
class Spelling:
    """The choices made for each product, numbered in the order of `products`."""

    choices: frozenset[tuple[int, ProductSpelling]] = frozenset()

    def of(self, number: int) -> frozenset[ProductSpelling]:
        return frozenset(
            choice for product_number, choice in self.choices if product_number == number
        )

    def __str__(self) -> str:
        texts = [f"{choice} {number}" for number, choice in sorted(self.choices)]
        return ", ".join(texts) or "as it is"


def products(program: Program) -> list[Term]:
    """The program's products of matrices, in the order in which spellings number them."""
    return [term for term in program.terms() if term.operator.name == "matmul"]


def choices(term: Term) -> list[ProductSpelling]:
    """What can be chosen for a product."""
    left, right = (argument.operator.name for argument in term.arguments)
    available = []
    if term.dtype in HALVES:
        available.append(ProductSpelling.ACCUMULATE)
        # One row: XLA compiles a product with a vector in another way than one with a matrix.
        if term.shape[-2] == 1:
            available.append(ProductSpelling.TWO_ROWS)
    if term.shape[-1] == 1 or "transpose" in (left, right):
        available.append(ProductSpelling.TRANSPOSED)
    return available


def spellings(program: Program) -> Iterator[Spelling]:
    """Every spelling that is worth a trial, those of the largest expected effect first.

    A choice is made for all products that have it; then for single ones. The plain spelling is
    among them, before those that only transpose.
    """
    open_ = {
        (number, choice)
        for number, term in enumerate(products(program))
        for choice in choices(term)
    }
    seen: set[Spelling] = set()
    for chosen in _kinds({choice for _, choice in open_}):
        yield from _new(
            Spelling(frozenset(numbered for numbered in open_ if numbered[1] in chosen)), seen
        )
    for numbered in sorted(open_):
        yield from _new(Spelling(frozenset({numbered})), seen)


def _kinds(kinds: set[ProductSpelling]) -> list[tuple[ProductSpelling, ...]]:
    """All sets of choices, those of the largest effect first."""
    counts = range(len(kinds) + 1)
    subsets = [subset for count in counts for subset in combinations(sorted(kinds), count)]
    return sorted(subsets, key=lambda subset: (-_effect(subset), len(subset)))


def _effect(chosen: tuple[ProductSpelling, ...]) -> int:
    """Powers of two of the time saved, where the choice is open at all; only their
    order matters."""
    expected = {
        ProductSpelling.TWO_ROWS: 3,
        ProductSpelling.ACCUMULATE: 1,
        ProductSpelling.TRANSPOSED: -1,
    }
    return sum(expected[choice] for choice in chosen)


def _new(spelling: Spelling, seen: set[Spelling]) -> Iterator[Spelling]:
    if spelling not in seen:
        seen.add(spelling)
        yield spelling
