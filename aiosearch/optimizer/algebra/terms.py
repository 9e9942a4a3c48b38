"""Constructors and tests of terms that rewrite rules are written with, and `settled`: what of a
program depends on its constant inputs alone.

Constructors leave out what changes nothing: `reshaped(x, x.shape)` is `x` itself, so that a rule
need not look first.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from fractions import Fraction
from functools import lru_cache

from ...tensor import Program, Term, apply, literal
from ...tensor.evaluation import exact
from ...tensor.sizes import Dim
from ...tensor.terms import INPUT, LITERAL


def named(term: Term, *names: str) -> bool:
    """Whether the operator of `term` has one of these names."""
    return term.operator.name in names


def sizes(term: Term) -> tuple[int, ...]:
    """The shape of a term whose sizes are all known, as integers."""
    assert all(isinstance(size, int) for size in term.shape)
    return term.shape  # type: ignore[return-value]  # asserted above


def value(term: Term) -> Fraction | None:
    """The number that a finite literal means, exactly; `None` for any other term."""
    if term.operator is not LITERAL:
        return None
    number = term.parameter("value")
    return _exact(number) if math.isfinite(number) else None


# Rules ask for the number of each literal again and again, in program after program.
_exact = lru_cache(maxsize=4096)(exact)


def constant(number: Fraction) -> Term:
    """A literal of the float nearest to `number`."""
    return literal(float(number))


def computed(number: Fraction) -> Term | None:
    """A literal of a number that others come to, where it is read back as that number.

    The product of two rounded literals is none that a verifier takes for their product: `exact`
    reads each as the simplest fraction nearby.
    """
    rounded = float(number)
    return literal(rounded) if exact(rounded) == number else None


def reshaped(x: Term, shape: Sequence[Dim]) -> Term:
    """`x` in another shape; `x` itself where it has that shape."""
    return x if x.shape == tuple(shape) else apply("reshape", x, shape=tuple(shape))


def transposed(x: Term, order: Sequence[int]) -> Term:
    """`x` with its axes in this order; `x` itself where that is the order they have."""
    if tuple(order) == tuple(range(len(x.shape))):
        return x
    return apply("transpose", x, axes=tuple(order))


def swap_order(rank: int) -> tuple[int, ...]:
    """The order of axes of a matrix transpose: for rank 3 it is (0, 2, 1)."""
    return (*range(rank - 2), rank - 1, rank - 2)


def swapped(x: Term) -> Term:
    """The matrix transpose of `x`: its last two axes exchanged."""
    return transposed(x, swap_order(len(x.shape)))


def rank_swap(x: Term) -> Term | None:
    """What `x` is the matrix transpose of; `None` where it is none."""
    if named(x, "transpose") and x.parameter("axes") == swap_order(len(x.shape)):
        return x.arguments[0]
    return None


def total(x: Term, axes: Iterable[int], keep: bool = True) -> Term:
    """The sum of `x` over `axes`."""
    chosen = tuple(sorted(axes))
    return apply("sum", x, axes=chosen, keep=keep) if chosen or not keep else x


def again(term: Term, *arguments: Term, **changed: object) -> Term:
    """The operator of `term` on other operands, with its parameters but for those in `changed`."""
    return apply(term.operator, *arguments, **{**dict(term.parameters), **changed})


def filled(x: Term, number: int) -> Term:
    """`number` in the element type and the shape of `x`."""
    scalar = apply("cast", literal(number), dtype=x.dtype)
    return apply("broadcast", scalar, shape=x.shape) if x.shape else scalar


def kept_shape(term: Term) -> tuple[int, ...]:
    """The shape of a reduction, had it kept its axes: f32[4, 6] summed over axis 1 has (4, 1)."""
    axes = term.parameter("axes")
    return tuple(1 if axis in axes else n for axis, n in enumerate(sizes(term.arguments[0])))


def kept_axes(term: Term) -> list[tuple[int, int]] | None:
    """For a reshape that only adds or removes axes of size one: pairs of each other axis, and the
    axis of the operand it comes from; `None` for any other reshape.

    Example: from [4, 1, 6] to [4, 6, 1] it is [(0, 0), (1, 2)].
    """
    source = term.arguments[0]
    here = [axis for axis, size in enumerate(term.shape) if size != 1]
    there = [axis for axis, size in enumerate(source.shape) if size != 1]
    if [term.shape[axis] for axis in here] != [source.shape[axis] for axis in there]:
        return None
    return list(zip(here, there, strict=True))


def settled(program: Program, constant: Collection[int]) -> frozenset[Term]:
    """The inputs at the positions `constant`, and all terms that are computed from them and from
    literals alone."""
    inputs = {program.inputs[at] for at in constant}
    # Literals are kept apart: alone they settle nothing, beside a settled term they do not unsettle
    # it.
    dependent: set[Term] = set(inputs)
    numbers: set[Term] = set()
    for term in program.terms():
        if term.operator is INPUT:
            continue
        arguments = set(term.arguments)
        if arguments <= numbers:
            numbers.add(term)
        # A term of literals alone is not settled: it costs nothing, and nothing would be packed for
        # it.
        elif arguments <= dependent | numbers:
            dependent.add(term)
    return frozenset(dependent)
