"""Where rounding decides whether a program leaves the numbers: roots of what may come out negative.

Problem: a candidate is no number where the original is. Is that wrong, or is the original a number
by luck? A layer norm that takes E[x²] - E[x]² for the variance has the root of a number below zero
where rounding is larger than the variance. If all rows are alike there, one sign decides of all
elements, however many they are.

Example, in float32: 256 numbers near 7e13 that differ by 4e9. Their variance is 1.9e19, and what
E[x²] - E[x]² loses is 1e21: another order of the same sums is NaN or not. E[(x - E[x])²] is a sum
of squares, never below zero: what is NaN there is wrong.

Method: the operands of roots, logarithms and quotients of which `definedness` does not know a sign
are computed with their noise. Where that is as large as the value, rounding decides its sign. A
value of which noise says nothing at all (a softmax of huge scores) is taken as it is, as the
question is what happens from there on.

Cost: a run of the program with noise, which is asked for only where a candidate would be refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..tensor.analysis.abstract_interpretation import run, sizes
from ..tensor.floats import Array
from ..tensor.terms import Program, Term
from ..tensor.types import DType
from .finite_field.definedness import Domains, Sign, ValueRange
from .inputs.singular import vanishing
from .rounding.machine import UNIT, execute
from .rounding.noise import TYPED, NoisyArray, remembered, stored_inputs


def is_left_to_rounding(
    program: Program, inputs: Sequence[Array], until: float | None = None
) -> bool:
    """Whether rounding decides if `program` is a number at these inputs.

    Raises `OutOfTimeError` as `execute` does.
    """
    terms = _of_any_sign(program)
    if not terms:
        return False
    observed = Program(program.name, program.inputs, tuple(terms))
    values = execute(observed, _BEGUN_ANEW, stored_inputs(program, inputs), until)
    return any(_may_be_negative(value) for value in values)


def _of_any_sign(program: Program) -> list[Term]:
    """Operands of roots, logarithms and quotients that may be negative for all that is known."""
    terms = vanishing(program)
    if not terms:
        return []
    observed = Program(program.name, program.inputs, tuple(terms))
    inputs = [ValueRange(sizes(term)) for term in program.inputs]
    facts = run(observed, Domains(), inputs)
    return [term for term, fact in zip(terms, facts, strict=True) if fact.sign is Sign.ANY]


def _may_be_negative(value: NoisyArray) -> bool:
    """Whether the noise of any element, none of which is certain, reaches across zero."""
    size, spread = np.abs(value.value), np.broadcast_to(value.spread, value.value.shape)
    return bool(np.any(np.isfinite(size) & (spread > 0) & (spread >= size)))


def _stored(measured: NoisyArray, dtype: DType) -> NoisyArray:
    """What is known of a value after it was stored; where that is nothing, it is taken as it is."""
    after = remembered(measured, dtype)
    if after.noise is None or np.isfinite(after.noise).all():
        return after
    unit = np.abs(after.value) * UNIT.get(dtype, 0.0)
    return replace(after, noise=np.where(np.isfinite(after.noise), after.noise, unit))


_BEGUN_ANEW = replace(TYPED, store=_stored)
"""`TYPED`, in which noise begins anew where it says nothing of a value."""
