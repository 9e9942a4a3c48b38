"""Tensor programs as immutable values: equal terms are one object.

Interning makes comparison of whole programs a comparison of pointers, and sharing automatic:
`apply("exp", x)` called twice is one term, computed once.
"""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TypeAlias
from weakref import WeakValueDictionary

from .errors import ShapeError, TensorError
from .operator import (
    NUMBERS,
    Dimensions,
    Operator,
    OperatorParameter,
    ParameterKind,
    ParameterValue,
    declare,
    find,
)
from .sizes import Dim, Size, product
from .types import BYTES, NARROW, DType, Place, Shape, TensorType

Number: TypeAlias = "int | float | Fraction | Size"
"""The value of a literal."""

_terms: WeakValueDictionary[tuple[object, ...], Term] = WeakValueDictionary()
"""All terms by operator, arguments and parameters, as long as something holds them."""


class Term:
    """A value of a program.

    An operator applied to other terms, built by `apply` and its relatives.
    """

    __slots__ = ("__weakref__", "_digest", "arguments", "operator", "parameters", "type")

    operator: Operator
    arguments: tuple[Term, ...]
    parameters: tuple[tuple[str, ParameterValue], ...]
    type: TensorType
    _digest: bytes | None

    def __init__(self) -> None:
        raise TypeError("terms are made by aiosearch.tensor.apply, so that equal ones are one")

    @property
    def shape(self) -> Shape:
        return self.type.shape

    @property
    def dtype(self) -> DType:
        return self.type.dtype

    @property
    def place(self) -> Place:
        return self.type.place

    def parameter(self, name: str) -> ParameterValue:
        """The value of a parameter by name; raises KeyError."""
        for key, value in self.parameters:
            if key == name:
                return value
        raise KeyError(name)

    @property
    def digest(self) -> bytes:
        """A hash of the term's content, equal in every process."""
        if self._digest is None:
            # Operands first, in a loop: recursion would exceed the stack on deep programs.
            for term in walk([self]):
                if term._digest is None:
                    term._digest = _digest(term)
        assert self._digest is not None
        return self._digest

    def __add__(self, other: Operand) -> Term:
        return apply("add", self, _term(other))

    def __radd__(self, other: Operand) -> Term:
        return apply("add", _term(other), self)

    def __sub__(self, other: Operand) -> Term:
        return apply("sub", self, _term(other))

    def __rsub__(self, other: Operand) -> Term:
        return apply("sub", _term(other), self)

    def __mul__(self, other: Operand) -> Term:
        return apply("mul", self, _term(other))

    def __rmul__(self, other: Operand) -> Term:
        return apply("mul", _term(other), self)

    def __truediv__(self, other: Operand) -> Term:
        return apply("div", self, _term(other))

    def __rtruediv__(self, other: Operand) -> Term:
        return apply("div", _term(other), self)

    def __neg__(self) -> Term:
        return apply("neg", self)

    def __matmul__(self, other: Term) -> Term:
        return apply("matmul", self, other)

    def __repr__(self) -> str:
        return f"<{self.operator.name} {self.type}>"


Operand: TypeAlias = "Term | int | float"
"""Operands of `Term`'s Python operators: numbers become literals."""


def _term(operand: Operand) -> Term:
    return operand if isinstance(operand, Term) else literal(operand)


def intern(
    operator: Operator,
    arguments: tuple[Term, ...],
    parameters: tuple[tuple[str, ParameterValue], ...],
    type_: TensorType,
) -> Term:
    """The only term of this description."""
    # Arguments are interned, so that their addresses identify them; the term holds them alive.
    key = (operator.name, *map(id, arguments), parameters)
    term = _terms.get(key)
    if term is None:
        term = object.__new__(Term)
        term.operator = operator
        term.arguments = arguments
        term.parameters = parameters
        term.type = type_
        term._digest = None
        term = _terms.setdefault(key, term)
    return term


def apply(
    operator: str | Operator,
    *arguments: Term,
    dims: Dimensions = NUMBERS,
    **keywords: ParameterValue,
) -> Term:
    """Applies an operator; raises ShapeError where the operands do not fit."""
    declared = find(operator) if isinstance(operator, str) else operator
    if declared.arity is not None and len(arguments) != declared.arity:
        raise ShapeError(f"{declared.name} takes {declared.arity} operands, not {len(arguments)}")
    if declared.arity is None and not arguments:
        raise ShapeError(f"{declared.name} takes at least one operand")
    try:
        parameters = _parameters(declared, keywords)
        shape = declared.shape(dims, [argument.shape for argument in arguments], **dict(parameters))
    except ShapeError as error:
        if str(error).startswith(f"{declared.name}("):
            raise
        operands = ", ".join(str(argument.type) for argument in arguments)
        raise ShapeError(f"{declared.name}({operands}): {error}") from None
    type_ = TensorType(
        _dtype(declared, arguments, dict(parameters)), shape, _place(declared, arguments)
    )
    return intern(declared, arguments, parameters, type_)


def _parameters(
    operator: Operator, keywords: Mapping[str, ParameterValue]
) -> tuple[tuple[str, ParameterValue], ...]:
    """Values of all parameters, checked, in the order of their declaration."""
    unknown = keywords.keys() - {parameter.name for parameter in operator.parameters}
    if unknown:
        raise ShapeError(f"{operator.name} has no parameter {', '.join(sorted(unknown))}")
    values = []
    for parameter in operator.parameters:
        if parameter.name in keywords:
            value = checked(parameter, keywords[parameter.name])
        elif parameter.required:
            raise ShapeError(f"{operator.name} needs {parameter.name}=")
        else:
            value = parameter.default
        values.append((parameter.name, value))
    return tuple(values)


def checked(parameter: OperatorParameter, value: ParameterValue) -> ParameterValue:
    """Checks a parameter's type, and makes it hashable and canonical."""
    kind = parameter.kind
    if kind is ParameterKind.SHAPE:
        return tuple(_whole(parameter, item) for item in _several(parameter, value))
    if kind in (ParameterKind.AXES, ParameterKind.PERMUTATION, ParameterKind.COUNTS):
        return tuple(_plain(parameter, item) for item in _several(parameter, value))
    if kind in (ParameterKind.AXIS, ParameterKind.COUNT):
        return _plain(parameter, value)
    if kind is ParameterKind.SIZE:
        return _whole(parameter, value)
    if kind is ParameterKind.NUMBER:
        return number(value)
    if kind is ParameterKind.FLAG:
        if not isinstance(value, bool):
            raise ShapeError(f"{parameter.name} is true or false, not {value!r}")
        return value
    if kind is ParameterKind.DTYPE:
        return dtype(value)
    return value


def _several(parameter: OperatorParameter, value: ParameterValue) -> Iterable[ParameterValue]:
    if isinstance(value, (list, tuple)):
        return value
    raise ShapeError(f"{parameter.name} is a list, not {value!r}")


def _plain(parameter: OperatorParameter, value: ParameterValue) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**31:
        return value
    raise ShapeError(f"{parameter.name} is a whole number, not {value!r}")


SIZES = 2**48
"""Concrete sizes are below this."""


def _whole(parameter: OperatorParameter, value: ParameterValue) -> Dim:
    if isinstance(value, Size):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < SIZES:
        return value
    raise ShapeError(f"{parameter.name} is a size, not {value!r}")


def number(value: ParameterValue) -> Number:
    """A literal's value in canonical form, so that 1 and 1.0 are one literal."""
    if isinstance(value, Size):
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float, Fraction)):
        raise ShapeError(f"{value!r} is no number")
    if isinstance(value, float) and math.isnan(value):
        raise ShapeError("nan is no number to write down")
    if isinstance(value, float) and math.isinf(value):
        return float(value)
    fraction = Fraction(value)
    # Literals become floats at the latest when they run: larger ones would be infinite, longer
    # denominators zero.
    if abs(fraction) > Fraction(sys.float_info.max) or fraction.denominator >= 2**1100:
        raise ShapeError("a number beyond all floats")
    # A fraction that a float holds is that float; one that none holds stays exact.
    if value == float(value):
        value = float(value)
    return int(value) if value == int(value) else value


def dtype(value: ParameterValue) -> DType:
    """The element type of a name; raises ShapeError."""
    try:
        return DType(value)
    except ValueError:
        listing = ", ".join(d for d in DType if d is not DType.WEAK)
        raise ShapeError(f"no element type {value!r}: there are {listing}") from None


def _dtype(
    operator: Operator, arguments: Sequence[Term], parameters: dict[str, ParameterValue]
) -> DType:
    """The element type of a result, by the operator's rule or as the operands' common type."""
    dtypes = [argument.dtype for argument in arguments]
    if operator.dtype is not None:
        result = operator.dtype(dtypes, parameters)
        if result in NARROW and operator is not INPUT:
            raise ShapeError(f"{operator.name} gives no {result}: there are too few numbers of it")
        return result
    result = DType.WEAK
    for operand in dtypes:
        if operand is DType.WEAK:
            continue
        # No implicit conversion: a cast is a rounding, and has to be seen in the program.
        if result is not DType.WEAK and operand is not result:
            raise ShapeError(f"{operator.name} of {result} and {operand}: cast one first")
        result = operand
    if result is DType.BOOL and not operator.truths:
        raise ShapeError(f"{operator.name} of truth values: cast them to a number first")
    # The sum of two 8-bit integers rarely fits 8 bits; moving and choosing them is exact.
    if result in NARROW and (operator.pointwise or not operator.truths):
        raise ShapeError(f"{operator.name} of {result}: cast them to more bits first")
    if result is DType.I32 and operator.fractions:
        raise ShapeError(f"{operator.name} of whole numbers: cast them to floats first")
    return result


def _place(operator: Operator, arguments: Sequence[Term]) -> Place:
    """The place of a result: that of its operands, which have to agree."""
    result = Place.ANYWHERE
    for argument in arguments:
        place = argument.place
        if place is Place.ANYWHERE or place is result:
            continue
        if result is not Place.ANYWHERE:
            raise ShapeError(f"{operator.name} of a value in {result} and one in {place}")
        result = place
    if result is Place.ANYWHERE and not arguments:
        return Place.DEVICE
    # A thread holds a few elements of a tile: an operator that needs others would have to exchange
    # them.
    if result in (Place.LOOP_REGISTER, Place.AFTER_REGISTER) and not operator.pointwise:
        raise ShapeError(f"{operator.name} in registers: only pointwise operators run there")
    return result


# Leaves

INPUT = declare(
    Operator(
        "input",
        0,
        lambda dims, shapes, name, dtype, shape, labels: shape,
        lambda k, **_: None,
        (
            OperatorParameter("name", ParameterKind.WORD),
            OperatorParameter("dtype", ParameterKind.DTYPE),
            OperatorParameter("shape", ParameterKind.SHAPE),
            OperatorParameter("labels", ParameterKind.WORD),
        ),
    )
)
LITERAL = declare(
    Operator(
        "literal", 0, lambda dims, shapes, value: (), lambda k, value: None,
        (OperatorParameter("value", ParameterKind.NUMBER),),
    )
)  # fmt: skip


def tensor(
    name: str,
    dtype_: str | DType,
    shape: Sequence[Dim],
    labels: Sequence[str | None] | None = None,
) -> Term:
    """An input of a program; `labels` name its axes, where they are to be told apart."""
    element_type = dtype(dtype_)
    sizes = tuple(_whole(INPUT.parameters[2], size) for size in shape)
    named = tuple(labels) if labels is not None else (None,) * len(sizes)
    if len(named) != len(sizes):
        raise ShapeError(f"input {name} has {len(sizes)} axes and {len(named)} labels")
    parameters = (("name", name), ("dtype", element_type), ("shape", sizes), ("labels", named))
    return intern(INPUT, (), parameters, TensorType(element_type, sizes, Place.DEVICE))


def literal(value: Number) -> Term:
    """A number of rank 0, which meets any type and rank."""
    type_ = TensorType(DType.WEAK, (), Place.ANYWHERE)
    return intern(LITERAL, (), (("value", number(value)),), type_)


# Programs


@dataclass(frozen=True, eq=False)
class Program:
    """Inputs in order, and the terms computed from them."""

    name: str
    inputs: tuple[Term, ...]
    outputs: tuple[Term, ...]

    def __post_init__(self) -> None:
        if not self.outputs:
            raise TensorError(f"program {self.name} computes nothing")
        names = [input_.parameter("name") for input_ in self.inputs]
        if len(set(names)) != len(names):
            raise TensorError(f"program {self.name} has two inputs of one name")
        declared = set(self.inputs)
        for term in self.terms():
            if term.operator is INPUT and term not in declared:
                raise TensorError(
                    f"program {self.name} uses {term.parameter('name')}, which it does not take"
                )
        for output in self.outputs:
            if output.place not in (Place.DEVICE, Place.ANYWHERE):
                raise TensorError(f"program {self.name} returns a value in {output.place}")

    def terms(self) -> Iterator[Term]:
        """Every term once, operands first."""
        return iter(self._terms)

    @cached_property
    def _terms(self) -> tuple[Term, ...]:
        # A search asks for the terms of a program a dozen times: to estimate, to rewrite, to name.
        return tuple(walk(self.outputs))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Program)
            and self.inputs == other.inputs
            and self.outputs == other.outputs
        )

    def __hash__(self) -> int:
        return hash((self.inputs, self.outputs))

    def __str__(self) -> str:
        from .text import write

        return write(self)


def walk(roots: Iterable[Term], stop: Container[Term] = ()) -> Iterator[Term]:
    """Every term below `roots` once, operands first; not what only terms of `stop` depend on."""
    seen: set[Term] = set()
    stack: list[tuple[Term, bool]] = [(root, False) for root in reversed(list(roots))]
    while stack:
        term, ready = stack.pop()
        if term in seen:
            continue
        if ready:
            seen.add(term)
            yield term
            continue
        # Second visit, after the operands: iterative post-order.
        stack.append((term, True))
        if term not in stop:
            stack.extend((argument, False) for argument in reversed(term.arguments))


def bytes_of(type_: TensorType) -> Dim:
    """The memory that a tensor takes, in bytes."""
    return product(type_.shape) * BYTES.get(type_.dtype, 1)


def _digest(term: Term) -> bytes:
    """The hash of a term from those of its arguments."""
    parts = [term.operator.name.encode(), repr(term.parameters).encode()]
    parts += [argument.digest for argument in term.arguments]
    return hashlib.blake2b(b"\0".join(parts), digest_size=16).digest()
