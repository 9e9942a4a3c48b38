"""Inputs at which programs leave the numbers: where a divisor, a logarithm or a root is zero.

Problem: `(x*x - 1) / (x - 1)` is `x + 1` but for `x = 1`, which no random draw hits.

Method: such places are mostly made of the program's own literals. Each element is drawn from points
made of them (`points`): their quotients, sums, roots and neighbours. Of some draws the one is taken
at which most divisors and arguments of logarithms and roots are zero.

Invariant: the values depend on program and seed alone. They find what is singular at such points
alone, and prove nothing. Cost: a few runs of the program up to its divisors, fewer for large ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from ...tensor.floats import Array
from ...tensor.terms import LITERAL, Program, Term, apply, literal
from ...tensor.types import EXACT, DType, Place
from ..rounding.machine import OWN, execute, rounded
from .distributions import draw_inputs, input_draw

SINGULAR = "singular"
"""The name of the distribution."""

_ROOTS = ("log", "sqrt", "rsqrt", "reciprocal")
"""Operators that are singular where their operand is zero."""
_USUAL = (0.0, 0.5, 1.0, 2.0, 3.0)
_MOST_LITERALS = 8
_LARGEST = {DType.F16: 1.0}
"""The largest point of a type in which squares and exponentials of sums of larger ones overflow."""
_MOST_POINTS = 96
_DRAWS = 24
_MOST_ELEMENTS = 1 << 20
"""Elements that all draws have together, if one does not have as many."""


def has_singularities(program: Program) -> bool:
    """Whether a program divides, or takes logarithms or roots, outside of kernels."""
    return bool(vanishing(program))


def singular_inputs(program: Program, seed: int) -> list[Array]:
    """Values of the inputs at which most of what may vanish in `program` does."""
    chosen = np.asarray(points(program))
    operands = vanishing(program)
    size = sum(term.operator is not LITERAL for term in program.inputs)
    size = max(size, sum(math.prod(map(int, map(str, term.shape))) for term in program.inputs))
    draws = max(1, min(_DRAWS, _MOST_ELEMENTS // max(size, 1)))
    tried = [_drawn(program, chosen, seed + number * _DRAWS) for number in range(draws)]
    if draws == 1 or not operands:
        return tried[0]
    observed = Program(program.name, program.inputs, tuple(operands))
    return max(tried, key=lambda inputs: _zeros(execute(observed, OWN, inputs)))


def points(program: Program) -> list[float]:
    """Numbers that the literals of a program make, the simplest first."""
    values = dict.fromkeys(
        abs(float(term.parameter("value"))) for term in program.terms() if term.operator is LITERAL
    )
    literals = sorted(value for value in values if 1e-4 < value < 1e4)[:_MOST_LITERALS]
    numbers = dict.fromkeys([*_USUAL, *literals])
    numbers.update(dict.fromkeys(_combined(literals)))
    signed = [sign * value for value in numbers for sign in (1.0, -1.0) if value or sign > 0]
    return signed[:_MOST_POINTS]


def _combined(literals: Sequence[float]) -> Iterator[float]:
    """Numbers at which sums, products and powers with these literals may vanish."""
    for number in literals:
        yield from (1 / number, math.sqrt(number), number + 1, abs(number - 1))
        yield from (2 * number, number / 2)
    for number in literals:
        for other in literals:
            if other != number:
                yield from (number / other, abs(number - other), number + other)


def vanishing(program: Program) -> list[Term]:
    """Divisors, and what logarithms and roots are taken of, where it is in memory."""
    wanted: dict[Term, None] = {}
    for term in program.terms():
        name = term.operator.name
        if name == "div":
            wanted[term.arguments[1]] = None
        elif name in _ROOTS or (name == "power" and _is_partial(term)):
            wanted[term.arguments[0]] = None
        elif name == "log1p":
            wanted[apply("add", term.arguments[0], literal(1))] = None
    return [term for term in wanted if term.place is Place.DEVICE and term.operator is not LITERAL]


def _is_partial(term: Term) -> bool:
    """Whether a power is one of numbers above zero alone, or a quotient."""
    exponent = float(term.parameter("exponent"))
    return exponent < 0 or not exponent.is_integer()


def _drawn(program: Program, chosen: Array, seed: int) -> list[Array]:
    """Each element of a float input one of the points, others as small numbers are drawn."""
    usual = draw_inputs(program, "integers", seed)
    values = []
    for at, term in enumerate(program.inputs):
        if term.dtype in EXACT:
            values.append(usual[at])
            continue
        draw = input_draw(term.type, SINGULAR, seed, at)
        # Simple points come first, and are taken more often.
        places = (draw.random.random(draw.shape) ** 2 * len(chosen)).astype(np.int64)
        most = _LARGEST.get(term.dtype, math.inf)
        held = np.where(np.abs(chosen) <= most, chosen, 0.0)
        values.append(rounded(held[places].astype(usual[at].dtype), term.dtype))
    return values


def _zeros(values: Sequence[Array]) -> tuple[int, int]:
    """How many of the values vanish somewhere, and at how many elements."""
    counts = [int(np.count_nonzero(value == 0)) for value in values]
    return sum(count > 0 for count in counts), sum(counts)
