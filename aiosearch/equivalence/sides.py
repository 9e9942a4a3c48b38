"""What the float layer runs: an original and a candidate, whatever they are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..tensor.errors import ShapeError
from ..tensor.floats import Array
from ..tensor.terms import Program
from ..tensor.types import TensorType
from .machine import OWN, execute
from .measured import Measured, stored_inputs
from .noise import TYPED


class Side(Protocol):
    """One of the two things that are compared."""

    @property
    def inputs(self) -> Sequence[TensorType]: ...

    @property
    def outputs(self) -> Sequence[TensorType]: ...

    def own(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs in its own element types."""
        ...

    def truth(self, inputs: Sequence[Array]) -> list[Measured]:
        """What the outputs should be, and the noise of rounding in its element types."""
        ...


class Executed:
    """A program on this package's machine."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.inputs = [term.type for term in program.inputs]
        self.outputs = [term.type for term in program.outputs]

    def own(self, inputs: Sequence[Array]) -> list[Array]:
        return execute(self.program, OWN, inputs)

    def truth(self, inputs: Sequence[Array]) -> list[Measured]:
        return execute(self.program, TYPED, stored_inputs(self.program, inputs))


def require_comparable(a: Program, b: Program) -> None:
    """Raises ShapeError unless both take and give the same types."""
    require_alike(Executed(a), Executed(b), "programs")


def require_alike(a: Side, b: Side, what: str) -> None:
    """Raises ShapeError unless both take and give the same types; `what` is what they are."""
    for which, ours, theirs in (
        ("inputs", a.inputs, b.inputs),
        ("outputs", a.outputs, b.outputs),
    ):
        one, two = (", ".join(map(str, types)) for types in (ours, theirs))
        if one != two:
            raise ShapeError(f"the {what} have other {which}: {one} and {two}")
