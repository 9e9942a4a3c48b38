"""Inputs of a program from any distribution: those for all programs, and those that suit it."""

from __future__ import annotations

from ...tensor.floats import Array
from ...tensor.terms import Program
from .distributions import DISTRIBUTIONS, TIES, draw_inputs
from .singular import SINGULAR, has_singularities, singular_inputs
from .typical import TYPICAL, tried_at, typical_inputs

FLOAT_DISTRIBUTIONS = (*DISTRIBUTIONS, *TYPICAL)
"""What the float layer draws from, in this order."""


_DECISIONS = frozenset(
    {
        "abs", "argmax", "argmin", "cast", "clamp", "cummax", "cummin", "equal", "floor", "less",
        "less_equal", "max", "maximum", "min", "minimum", "not_equal", "relu", "rem", "round",
        "select",
    }
)  # fmt: skip
"""Operators that decide between values, and do so of equal ones by a rule of their own."""


def chosen_points(program: Program) -> tuple[str, ...]:
    """The distributions of points that matter to `program`: equal numbers, and singularities."""
    decides = any(term.operator.name in _DECISIONS for term in program.terms())
    return (*((TIES,) * decides), *((SINGULAR,) * has_singularities(program)))


def decides_small_values(program: Program) -> bool:
    """Whether a program decides between values that are few enough to be numbered one by one."""
    decides = any(term.operator.name in _DECISIONS for term in program.terms())
    return decides and tried_at(program) is program


def draw_for(program: Program, distribution: str, seed: int) -> list[Array]:
    """A value of each input of `program`, rounded to its element type, in its working type."""
    if distribution in TYPICAL:
        return typical_inputs(program, distribution, seed)
    if distribution == SINGULAR:
        return singular_inputs(program, seed)
    return draw_inputs(program, distribution, seed)
