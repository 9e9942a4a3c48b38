"""Inputs of a program from any distribution: those for all programs, and those that suit it."""

from __future__ import annotations

from ..tensor.floats import Array
from ..tensor.terms import Program
from .distributions import DISTRIBUTIONS, draw_inputs
from .typical_inputs import TYPICAL, typical_inputs

FLOAT_DISTRIBUTIONS = (*DISTRIBUTIONS, *TYPICAL)
"""What the float layer draws from, in this order."""


def draw_for(program: Program, distribution: str, seed: int) -> list[Array]:
    """A value of each input of `program`, rounded to its element type, in its working type."""
    if distribution in TYPICAL:
        return typical_inputs(program, distribution, seed)
    return draw_inputs(program, distribution, seed)
