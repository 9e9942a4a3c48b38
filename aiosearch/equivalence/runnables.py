"""The runnable original and candidate that the float layer compares, and their common contract."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from ..tensor.errors import ShapeError
from ..tensor.floats import Array
from ..tensor.terms import INPUT, LITERAL, Program, Term, walk
from ..tensor.types import EXACT, DType, Place, TensorType
from .inputs.distributions import NANS, SPECIAL, special
from .inputs.draws import chosen_points, draw_for
from .never_finite import never_finite
from .open_domains import is_left_to_rounding
from .rounding.machine import OWN, UNIT, execute, has_products
from .rounding.noise import TYPED, TYPED_ROUGHLY, NoisyArray, stored_inputs
from .rounding.ties import TIED, tied_inputs

_COMPARISONS = ("less", "less_equal", "equal", "not_equal")


@dataclass(frozen=True)
class OutputFacts:
    """What is known of an output without running it."""

    coarsest: float
    """The largest unit among the types that it is computed from."""
    never_finite: bool = False
    """Whether it is finite on no input."""
    constant: bool = False
    """Whether no input has a part in it, so that a single run shows all of it."""


class RunnableSide(Protocol):
    """An original or a candidate, as `compare_sides` runs it."""

    @property
    def inputs(self) -> Sequence[TensorType]: ...

    @property
    def outputs(self) -> Sequence[TensorType]: ...

    @property
    def asks_for(self) -> Sequence[str]:
        """The names in `SPECIAL` that it tests for, and so expects among its inputs."""
        ...

    @property
    def points(self) -> Sequence[str]:
        """The distributions of chosen points, such as equal numbers, that matter to it."""
        ...

    @property
    def facts(self) -> Sequence[OutputFacts]:
        """What is known of each output without running it."""
        ...

    def unit(self, dtype: DType) -> float:
        """The relative error that outputs of `dtype` have at least, where it rounds."""
        ...

    def draw(self, distribution: str, seed: int) -> list[Array]:
        """Inputs from a distribution of this name, which may suit the side."""
        ...

    def own(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs in its own element types."""
        ...

    def truth(self, inputs: Sequence[Array]) -> list[NoisyArray]:
        """What the outputs should be, and the noise of rounding in its element types."""
        ...

    def is_left_to_rounding(self, inputs: Sequence[Array]) -> bool:
        """Whether rounding decides if it gives numbers at all, as far as that can be told."""
        ...


class ExecutedProgram:
    """A program executed by `rounding.machine`.

    Its `truth` on a device allows for operands of float32 products that are rounded there by
    `product_unit`. With `ties` elements that are computed alike are equal for certain. What is not
    done when the monotonic clock has passed `until` raises
    `OutOfTimeError`.
    """

    def __init__(
        self,
        program: Program,
        product_unit: float = 0.0,
        until: float | None = None,
        ties: bool = False,
    ) -> None:
        self._ties = ties
        self.program = program
        self._until = until
        self._product_unit = product_unit if has_products(program) else 0.0
        self.inputs = [term.type for term in program.inputs]
        self.outputs = [term.type for term in program.outputs]
        self.asks_for = asked_for(program)
        self.points = chosen_points(program)

    @cached_property
    def facts(self) -> tuple[OutputFacts, ...]:
        pairs = zip(self.program.outputs, never_finite(self.program), strict=True)
        return tuple(_facts(output, never) for output, never in pairs)

    def unit(self, dtype: DType) -> float:
        """The unit of `dtype`, or that of the matrix unit for float32."""
        unit = UNIT.get(dtype, UNIT[DType.F64])
        return max(unit, self._product_unit) if dtype is DType.F32 else unit

    def draw(self, distribution: str, seed: int) -> list[Array]:
        return draw_for(self.program, distribution, seed)

    def own(self, inputs: Sequence[Array]) -> list[Array]:
        return execute(self.program, OWN, inputs, self._until)

    def truth(self, inputs: Sequence[Array]) -> list[NoisyArray]:
        if self._ties:
            tied = execute(self.program, TIED, tied_inputs(self.program, inputs), self._until)
            return [output.noisy for output in tied]
        machine = TYPED_ROUGHLY if self._product_unit else TYPED
        stored = stored_inputs(self.program, inputs)
        return execute(self.program, machine, stored, self._until)

    def is_left_to_rounding(self, inputs: Sequence[Array]) -> bool:
        return is_left_to_rounding(self.program, inputs, self._until)


def _facts(output: Term, never: bool) -> OutputFacts:
    """What the terms behind an output say of it."""
    terms = walk([output])
    constant = not any(term.operator is INPUT for term in terms)
    return OutputFacts(max(map(_rounding, terms), default=0.0), never, constant)


def _rounding(term: Term) -> float:
    """The unit that a value is rounded by, in memory or in a register."""
    if term.dtype in EXACT or term.dtype is DType.WEAK:
        return 0.0
    if term.place is Place.DEVICE:
        return UNIT[term.dtype]
    # Inside of a kernel halves are computed in single precision.
    return UNIT[DType.F64 if term.dtype is DType.F64 else DType.F32]


def asked_for(program: Program) -> tuple[str, ...]:
    """NaN, where `program` compares a value with itself; infinities too, where with one of them."""
    # x != x is the idiom for NaN, x == inf that for infinities: a program that tests for them
    # handles them on purpose.
    terms = [term for term in walk(program.outputs) if term.operator.name in _COMPARISONS]
    compared = [term.arguments for term in terms]
    if any(_is_infinite(left) for pair in compared for left in pair):
        return SPECIAL
    return (NANS,) if any(left is right for left, right in compared) else ()


def _is_infinite(term: Term) -> bool:
    """Whether `term` is a literal infinity."""
    return term.operator is LITERAL and term.parameter("value") in (math.inf, -math.inf)


def not_finite(side: RunnableSide, strict: bool) -> tuple[str, ...]:
    """The distributions with elements that are not finite under which `side` is held to account."""
    return special(side.inputs, SPECIAL if strict else side.asks_for)


class OutputTypesError(ShapeError):
    """Programs of the same inputs whose outputs are others in number, shape or type."""


def require_comparable(a: Program, b: Program) -> None:
    """Raises ShapeError unless both programs take and give the same types."""
    require_alike(ExecutedProgram(a), ExecutedProgram(b), "programs")


def require_alike(a: RunnableSide, b: RunnableSide, what: str) -> None:
    """Raises ShapeError unless both sides have the same types; `what` names them in the message."""
    for which, ours, theirs in (
        ("inputs", a.inputs, b.inputs),
        ("outputs", a.outputs, b.outputs),
    ):
        our_types, their_types = (", ".join(map(str, types)) for types in (ours, theirs))
        if our_types != their_types:
            error = ShapeError if which == "inputs" else OutputTypesError
            raise error(f"the {what} have other {which}: {our_types} and {their_types}")
