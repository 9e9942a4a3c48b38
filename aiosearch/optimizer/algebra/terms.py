"""Constructors and tests of terms that rewrite rules are written with.

What of a program depends on its constant inputs alone.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from fractions import Fraction
from typing import Any

from ...tensor import Program, Term, apply, literal
from ...tensor.evaluation.literal_values import exact
from ...tensor.terms import INPUT, LITERAL


def named(term: Term, *names: str) -> bool:
    return term.operator.name in names


def sizes(term: Term) -> tuple[int, ...]:
    """The shape, which has to be known."""
    assert all(isinstance(size, int) for size in term.shape)
    return term.shape  # type: ignore[return-value]


def value(term: Term) -> Fraction | None:
    """What a finite literal means."""
    if term.operator is not LITERAL:
        return None
    given = term.parameter("value")
    return exact(given) if math.isfinite(given) else None


def constant(number: Fraction) -> Term:
    return literal(float(number))


def reshaped(x: Term, shape: Sequence[Any]) -> Term:
    return x if x.shape == tuple(shape) else apply("reshape", x, shape=tuple(shape))


def transposed(x: Term, order: Sequence[int]) -> Term:
    if tuple(order) == tuple(range(len(x.shape))):
        return x
    return apply("transpose", x, axes=tuple(order))


def swap_order(rank: int) -> tuple[int, ...]:
    """The last two axes the other way round."""
    return (*range(rank - 2), rank - 1, rank - 2)


def swapped(x: Term) -> Term:
    return transposed(x, swap_order(len(x.shape)))


def rank_swap(x: Term) -> Term | None:
    """What `x` is the transpose of, in its last two axes."""
    if named(x, "transpose") and x.parameter("axes") == swap_order(len(x.shape)):
        return x.arguments[0]
    return None


def total(x: Term, axes: Iterable[int], keep: bool = True) -> Term:
    chosen = tuple(sorted(axes))
    return apply("sum", x, axes=chosen, keep=keep) if chosen or not keep else x


def again(term: Term, *arguments: Term, **changed: Any) -> Term:
    """The same operator on other operands."""
    return apply(term.operator, *arguments, **{**dict(term.parameters), **changed})


def filled(x: Term, number: int) -> Term:
    """A number in the place of a term."""
    one = apply("cast", literal(number), dtype=x.dtype)
    return apply("broadcast", one, shape=x.shape) if x.shape else one


def kept_shape(term: Term) -> tuple[int, ...]:
    """The shape of a reduction, had it kept its axes."""
    axes = term.parameter("axes")
    return tuple(1 if axis in axes else n for axis, n in enumerate(sizes(term.arguments[0])))


def kept_axes(term: Term) -> list[tuple[int, int]] | None:
    """For a reshape that only puts in or leaves out axes of size one: each other axis, and where
    it comes from."""
    source = term.arguments[0]
    here = [axis for axis, size in enumerate(term.shape) if size != 1]
    there = [axis for axis, size in enumerate(source.shape) if size != 1]
    if [term.shape[axis] for axis in here] != [source.shape[axis] for axis in there]:
        return None
    return list(zip(here, there, strict=True))


def settled(program: Program, constant: Collection[int]) -> frozenset[Term]:
    """The inputs at these places, and all that is computed from them, and numbers, alone."""
    given = {program.inputs[at] for at in constant}
    found: set[Term] = set(given)
    numbers: set[Term] = set()
    for term in program.terms():
        if term.operator is INPUT:
            continue
        arguments = set(term.arguments)
        if arguments <= numbers:
            numbers.add(term)
        elif arguments <= found | numbers:
            found.add(term)
    return frozenset(found)
