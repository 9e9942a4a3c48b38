"""The runnable original and candidate that the float layer compares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from ..tensor.errors import ShapeError
from ..tensor.floats import Array
from ..tensor.terms import LITERAL, Program, Term, walk
from ..tensor.types import DType, TensorType
from .distributions import NANS, SPECIAL, special
from .rounding.machine import OWN, UNIT, execute
from .rounding.noise import TYPED, TYPED_ROUGHLY, NoisyArray, stored_inputs
from .tensorfloat import has_products

_COMPARISONS = ("less", "less_equal", "equal", "not_equal")


class RunnableSide(Protocol):
    """One of the two things that are compared."""

    @property
    def inputs(self) -> Sequence[TensorType]: ...

    @property
    def outputs(self) -> Sequence[TensorType]: ...

    @property
    def asks_for(self) -> Sequence[str]:
        """Of `SPECIAL`, what it is known to ask for, and so means to be given."""
        ...

    def unit(self, dtype: DType) -> float:
        """The relative error that outputs of an element type have at least, where it rounds."""
        ...

    def own(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs in its own element types."""
        ...

    def truth(self, inputs: Sequence[Array]) -> list[NoisyArray]:
        """What the outputs should be, and the noise of rounding in its element types."""
        ...


class ExecutedProgram:
    """A program on this package's machine.

    What it should be on a device allows for operands of float32 products that are rounded there by
    `product_unit`.
    """

    def __init__(self, program: Program, product_unit: float = 0.0) -> None:
        self.program = program
        self._product_unit = product_unit if has_products(program) else 0.0
        self.inputs = [term.type for term in program.inputs]
        self.outputs = [term.type for term in program.outputs]
        self.asks_for = asked_for(program)

    def unit(self, dtype: DType) -> float:
        own = UNIT.get(dtype, UNIT[DType.F64])
        return max(own, self._product_unit) if dtype is DType.F32 else own

    def own(self, inputs: Sequence[Array]) -> list[Array]:
        return execute(self.program, OWN, inputs)

    def truth(self, inputs: Sequence[Array]) -> list[NoisyArray]:
        machine = TYPED_ROUGHLY if self._product_unit else TYPED
        return execute(self.program, machine, stored_inputs(self.program, inputs))


def asked_for(program: Program) -> tuple[str, ...]:
    """NaN, where it compares something with itself; infinities, too, where with one of them."""
    terms = [term for term in walk(program.outputs) if term.operator.name in _COMPARISONS]
    compared = [term.arguments for term in terms]
    if any(_is_infinite(one) for pair in compared for one in pair):
        return SPECIAL
    return (NANS,) if any(one is other for one, other in compared) else ()


def _is_infinite(term: Term) -> bool:
    return term.operator is LITERAL and term.parameter("value") in (math.inf, -math.inf)


def not_finite(side: RunnableSide, strict: bool) -> tuple[str, ...]:
    """The distributions with elements that are not finite on which there are demands."""
    return special(side.inputs, SPECIAL if strict else side.asks_for)


def require_comparable(a: Program, b: Program) -> None:
    """Raises ShapeError unless both take and give the same types."""
    require_alike(ExecutedProgram(a), ExecutedProgram(b), "programs")


def require_alike(a: RunnableSide, b: RunnableSide, what: str) -> None:
    """Raises ShapeError unless both take and give the same types; `what` is what they are."""
    for which, ours, theirs in (
        ("inputs", a.inputs, b.inputs),
        ("outputs", a.outputs, b.outputs),
    ):
        one, two = (", ".join(map(str, types)) for types in (ours, theirs))
        if one != two:
            raise ShapeError(f"the {what} have other {which}: {one} and {two}")
