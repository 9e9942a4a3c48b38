"""The tile IR: what a kernel computes, element by element, before anyone says in which order.

A kernel is a list of stages. A stage fills one buffer: each element is an expression over elements
of other buffers, or such an expression folded over some more indices. Stages of one kernel that
share an index run along it together; which indices are cut into tiles, how large, and what goes to
which vector register is a schedule's business (`aiosearch.codegen.schedule`), not said here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from ..tensor.types import DType


@dataclass(frozen=True, slots=True)
class Index:
    """A variable that runs from zero up to a size. Its name is its own within a kernel."""

    name: str
    size: int

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Affine:
    """A sum of indices, each times a factor, and a constant. The factors are not zero."""

    terms: tuple[tuple[Index, int], ...] = ()
    """Each index once, by name."""
    offset: int = 0

    def __str__(self) -> str:
        parts = [str(one) if factor == 1 else f"{factor}{one}" for one, factor in self.terms]
        if self.offset or not parts:
            parts.append(str(self.offset))
        return " + ".join(parts)


@dataclass(frozen=True, slots=True)
class Quotient:
    """A position divided by a number, rounded down."""

    position: Position
    by: int

    def __str__(self) -> str:
        return f"({self.position}) / {self.by}"


@dataclass(frozen=True, slots=True)
class Remainder:
    """What a division leaves; never below zero."""

    position: Position
    by: int

    def __str__(self) -> str:
        return f"({self.position}) % {self.by}"


@dataclass(frozen=True, slots=True)
class Mixed:
    """A sum of positions that are not affine, each times a factor, and an affine rest."""

    terms: tuple[tuple[Quotient | Remainder, int], ...]
    rest: Affine = Affine()

    def __str__(self) -> str:
        parts = [f"{factor}·{one}" for one, factor in self.terms]
        return " + ".join([*parts, str(self.rest)])


Position: TypeAlias = Affine | Quotient | Remainder | Mixed
"""Where along an axis: a whole number that depends on indices."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """An array in row-major order: of the kernel's caller, or only for as long as it runs."""

    name: str
    dtype: DType
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class Constant:
    """A number; a float may be infinite."""

    value: float

    def __str__(self) -> str:
        return f"{self.value:g}"


@dataclass(frozen=True, slots=True)
class Count:
    """A position, as a value."""

    position: Position

    def __str__(self) -> str:
        return f"value({self.position})"


@dataclass(frozen=True, slots=True)
class Load:
    """An element of a buffer, as a value of the buffer's type widened to the working type."""

    buffer: Buffer
    at: tuple[Position, ...]

    def __str__(self) -> str:
        return f"{self.buffer.name}[{', '.join(map(str, self.at))}]"


@dataclass(frozen=True, slots=True)
class Apply:
    """A scalar function of values."""

    operation: Operation
    arguments: tuple[Expression, ...]

    def __str__(self) -> str:
        return f"{self.operation}({', '.join(map(str, self.arguments))})"


@dataclass(frozen=True, slots=True)
class Round:
    """A value rounded to an element type, and widened again: to a half type, to whole numbers."""

    value: Expression
    dtype: DType

    def __str__(self) -> str:
        return f"{self.dtype}({self.value})"


@dataclass(frozen=True, slots=True)
class Within:
    """A value where every position is inside its limits, and another one elsewhere.

    Each is computed only where it counts: what it loads may lie outside of its buffer elsewhere.
    """

    limits: tuple[tuple[Position, int, int], ...]
    """Positions, each with the first place inside and the first one behind."""
    value: Expression
    otherwise: Expression

    def __str__(self) -> str:
        inside = " and ".join(f"{low} <= {at} < {high}" for at, low, high in self.limits)
        return f"({self.value} if {inside} else {self.otherwise})"


class Operation(StrEnum):
    """The scalar functions. Truth values are one and zero."""

    ADD = "add"
    SUBTRACT = "subtract"
    MULTIPLY = "multiply"
    DIVIDE = "divide"
    MAXIMUM = "maximum"
    """Not a number where an operand is none, like jax's."""
    MINIMUM = "minimum"
    NEGATIVE = "negative"
    ABSOLUTE = "absolute"
    SQRT = "sqrt"
    EXP = "exp"
    LOG = "log"
    TANH = "tanh"
    ERF = "erf"
    SIN = "sin"
    COS = "cos"
    FLOOR = "floor"
    ROUND = "round"
    """To the nearest whole number, halves to even."""
    POW = "pow"
    LESS = "less"
    LESS_EQUAL = "less_equal"
    EQUAL = "equal"
    NOT_EQUAL = "not_equal"
    SELECT = "select"
    """The second where the first is not zero, else the third."""


Expression: TypeAlias = Constant | Count | Load | Apply | Round | Within


class Fold(StrEnum):
    """How what is computed for many indices becomes one element."""

    NONE = "none"
    SUM = "sum"
    MAX = "max"


@dataclass(frozen=True, slots=True)
class Stage:
    """Fills a buffer: `target[at] = fold of value over folded`, for all of the other indices.

    The places `at` of different indices differ, and cover the buffer.
    """

    target: Buffer
    at: tuple[Position, ...]
    value: Expression
    folded: tuple[Index, ...] = ()
    fold: Fold = Fold.NONE

    @property
    def free(self) -> tuple[Index, ...]:
        """The indices of the places, in the order of the axes."""
        return tuple(dict.fromkeys(one for at in self.at for one in indices(at)))

    @property
    def loads(self) -> tuple[Load, ...]:
        """Each different one, in the order of the expression."""
        return tuple(dict.fromkeys(one for one in walk(self.value) if isinstance(one, Load)))

    def __str__(self) -> str:
        places = ", ".join(map(str, self.at))
        over = f"{self.fold} over {', '.join(map(str, self.folded))} of " if self.folded else ""
        return f"{self.target.name}[{places}] = {over}{self.value}"


@dataclass(frozen=True, slots=True)
class Kernel:
    """Stages that run in one launch, operands first. What they fill and is no output is scratch."""

    name: str
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    stages: tuple[Stage, ...]

    @property
    def scratch(self) -> tuple[Buffer, ...]:
        return tuple(one.target for one in self.stages if one.target not in self.outputs)

    @property
    def indices(self) -> tuple[Index, ...]:
        """All of them, the free ones of the last stages first."""
        found: dict[Index, None] = {}
        for stage in reversed(self.stages):
            found.update(dict.fromkeys((*stage.free, *stage.folded)))
        return tuple(found)

    def __str__(self) -> str:
        inputs, outputs = (", ".join(map(str, some)) for some in (self.inputs, self.outputs))
        lines = [f"kernel {self.name}({inputs}) -> ({outputs})"]
        lines += [f"    for {one} < {one.size}" for one in self.indices]
        return "\n".join([*lines, *(f"    {stage}" for stage in self.stages)])


@dataclass(frozen=True, slots=True)
class Module:
    """Kernels in the order in which they run; what one fills, later ones read by the same name."""

    name: str
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    """May be inputs, and one twice."""
    kernels: tuple[Kernel, ...]

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.kernels))


def index(one: Index, factor: int = 1, offset: int = 0) -> Affine:
    """The position of one index alone."""
    return affine({one: factor}, offset)


def affine(terms: Mapping[Index, int], offset: int = 0) -> Affine:
    """In the order by names that equal positions share."""
    kept = [(one, factor) for one, factor in terms.items() if factor]
    return Affine(tuple(sorted(kept, key=lambda term: term[0].name)), offset)


def indices(position: Position) -> Iterator[Index]:
    """Those that a position depends on; some more than once."""
    match position:
        case Affine():
            yield from (one for one, _ in position.terms)
        case Mixed():
            for one, _ in position.terms:
                yield from indices(one)
            yield from indices(position.rest)
        case _:
            yield from indices(position.position)


def alone(position: Position) -> Index | None:
    """The index, where a position is one as it is."""
    match position:
        case Affine(terms=((one, 1),), offset=0):
            return one
    return None


def walk(value: Expression) -> Iterator[Expression]:
    """An expression and all in it, operands after what takes them; shared ones as often as met."""
    yield value
    match value:
        case Apply():
            for argument in value.arguments:
                yield from walk(argument)
        case Round():
            yield from walk(value.value)
        case Within():
            yield from walk(value.value)
            yield from walk(value.otherwise)


def used(value: Expression) -> Iterator[Index]:
    """The indices that a value depends on; some more than once."""
    for one in walk(value):
        match one:
            case Count():
                yield from indices(one.position)
            case Load():
                for at in one.at:
                    yield from indices(at)
            case Within():
                for at, _, _ in one.limits:
                    yield from indices(at)
