"""Where a program loses what is to be compared, in a sentence: at a value, or beside a large mask.

Problem: floats do not tell, and somebody wants to know where in the program that begins.

Method of `lost_remark`: all values are computed with their noise on typical inputs, in the order of
the program. The first of which half does not tell, although half of each of its operands does, is
the one to name. So of `exp(A + 12582912 - 12582912)` it is the difference, in which rounding
decides; of `sqrt(log(x))` on normal inputs it would be the logarithm, of numbers below zero.

`masking_remark` looks for constants: `add(scores, mul(mask, 1e9))` is 1e9 wherever the mask is 1,
and float32 keeps no digit of a score beside it, so that `FloatEvidence` has nothing to compare.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..tensor.syntax.printer import number_text
from ..tensor.terms import INPUT, LITERAL, Program, Term, walk
from ..tensor.types import Place
from .inputs.typical import TYPICAL, telling, tried_at, typical_inputs, typical_ranges
from .rounding.machine import execute
from .rounding.noise import TYPED, NoisyArray, stored_inputs

_ENOUGH = 0.5
"""The share of a value's elements that have to tell, or it counts as lost."""
_DEEP = 3
"""To which depth operands are written out."""
_NAMED = 4
"""Of so many inputs it is said what they are drawn from."""


def lost_remark(program: Program, outputs: Sequence[int]) -> str:
    """A sentence about the first lost value on the way to these outputs; empty if none is."""
    small = tried_at(program)
    if small is None:
        return ""
    terms = [
        term
        for term in walk([small.outputs[output] for output in outputs])
        if term.place is Place.DEVICE and term.operator not in (INPUT, LITERAL)
    ]
    if not terms:
        return ""
    inputs = typical_inputs(small, TYPICAL[0], 0)
    observed = Program(small.name, small.inputs, tuple(terms))
    values = dict(zip(terms, execute(observed, TYPED, stored_inputs(small, inputs)), strict=True))
    lost = {term for term in terms if telling(values[term], term.dtype) < _ENOUGH}
    first = next((term for term in terms if term in lost and not lost & {*term.arguments}), None)
    return _sentence(small, first, values) if first is not None else ""


def _sentence(program: Program, term: Term, values: dict[Term, NoisyArray]) -> str:
    """What is lost, why, and on which inputs."""
    pairs = list(zip(program.inputs, typical_ranges(program), strict=True))
    drawn = ", ".join(f"{input_.parameter('name')} {range_}" for input_, range_ in pairs[:_NAMED])
    more = ", ..." if len(pairs) > _NAMED else ""
    return f"`{_text(term)}` {_cause(term, values)}, on typical inputs ({drawn}{more})"


def _cause(term: Term, values: dict[Term, NoisyArray]) -> str:
    """Why most elements of a value say nothing."""
    value = values[term].value
    if 2 * np.count_nonzero(np.isfinite(value)) >= value.size:
        return "is decided by rounding"
    operands = [values[argument].value for argument in term.arguments if argument in values]
    if any(not operand.size for operand in operands):
        return "is reduced from nothing, which has no value"
    if np.count_nonzero(np.isnan(value)) * 2 >= value.size:
        return "is no number"
    return "is infinite"


def _text(term: Term, depth: int = 0) -> str:
    """A term and its operands: `sub(add(A, 1), B)`, what is deeper as `...`."""
    if term.operator is INPUT:
        return str(term.parameter("name"))
    if term.operator is LITERAL:
        return number_text(term.parameter("value"))
    if depth == _DEEP:
        return "..."
    operands = ", ".join(_text(argument, depth + 1) for argument in term.arguments)
    return f"{term.operator.name}({operands})"


LEAST_MASKING_CONSTANT = 1e4
"""The least factor that counts as a mask constant; scores seldom exceed some tens."""


def masking_remark(program: Program) -> str:
    """A sentence about the first factor of `program` beside which summands are lost.

    Empty if none.
    """
    factors = (
        float(factor.parameter("value"))
        for term in program.terms()
        if term.operator.name == "mul"
        for factor in term.arguments
        if factor.operator is LITERAL
    )
    large = next((factor for factor in factors if abs(factor) >= LEAST_MASKING_CONSTANT), None)
    if large is None:
        return ""
    return (
        f"it multiplies by {large:g}, beside which what is added is lost wherever the other factor"
        " is not 0; a mask is judged as truth values that are chosen by, or as numbers that are"
        " added"
    )
