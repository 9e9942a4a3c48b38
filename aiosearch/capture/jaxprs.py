"""`JaxprReader`: reads jaxprs, equation by equation, and the jaxprs that they call.

A rule of `primitives` reads one primitive: `add` on two `TracedValue`s is the operator `add` on
their terms. Calls, branches that are decided and short loops are read through. An equation that
cannot be read gives a `CaptureError` for each of its results, which matters only where an output
needs it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var
from jax.extend.source_info_util import summarize

from ..tensor import DType, TensorError
from ..tensor.analysis.integer_overflow import largest
from .constants import ClosedOverConstants
from .errors import CaptureError
from .jax_types import AbstractArray, Atom, Leaf, Parameters, PyTree, aval
from .primitives import contractions as _contractions
from .primitives import data_movement as _layout
from .primitives import indexing as _indexing
from .primitives import pointwise as _pointwise
from .primitives import reductions as _reductions
from .primitives.data_movement import row, stacked
from .primitives.registry import RULES
from .values import TracedValue, known_array, uniform

_INLINED = frozenset(
    {
        "checkpoint",
        "closed_call",
        "composite",
        "core_call",
        "custom_jvp_call",
        "custom_vjp_call",
        "eval_jaxpr",
        "jit",
        "named_call",
        "pjit",
        "remat",
        "remat2",
    }
)
"""Calls that are read as their bodies: what they say of derivatives or of where they run is no
matter of values."""

_BODIES = ("jaxpr", "call_jaxpr", "fun_jaxpr")
"""Parameters under which such a call has its body."""
_HERE = str(Path(__file__).parent)
_COMPUTED = frozenset({"abs", "add", "mul", "neg", "square", "sub"})
"""Operators of integers that may leave 32 bits."""
_STEPS = 32
"""Steps of the longest `scan` that is written out."""

Known: TypeAlias = "TracedValue | CaptureError"
"""What is known of a variable of a jaxpr: its value, or why there is none."""


class JaxprReader:
    """Reads equations in order; what cannot be read only matters where it is used."""

    def __init__(self, constants: ClosedOverConstants) -> None:
        self.constants = constants

    def closed(self, closed: ClosedJaxpr, arguments: Sequence[Known]) -> list[Known]:
        """The results of a jaxpr with its constants, for these arguments."""
        return self.open(closed.jaxpr, [self.constant(array) for array in closed.consts], arguments)

    def open(
        self, jaxpr: Jaxpr, constants: Sequence[Known], arguments: Sequence[Known]
    ) -> list[Known]:
        """The results of a jaxpr, for these constants and arguments."""
        values: dict[Var, Known] = dict(zip(jaxpr.constvars, constants, strict=True))
        values.update(zip(jaxpr.invars, arguments, strict=True))

        def value(atom: Atom) -> Known:
            return (
                self.constant(atom.val, aval(atom)) if isinstance(atom, Literal) else values[atom]
            )

        for equation in jaxpr.eqns:
            results = self.equation(equation, [value(atom) for atom in equation.invars])
            values.update(zip(equation.outvars, results, strict=True))
        return [value(atom) for atom in jaxpr.outvars]

    def constant(self, held: Leaf, aval: AbstractArray | None = None) -> Known:
        """The value of an array or scalar, with the type of `aval` where that is given."""
        try:
            return self.constants.value(held, aval)
        except CaptureError as error:
            return CaptureError("a constant", error.reason)

    def equation(self, equation: JaxprEqn, operands: Sequence[Known]) -> list[Known]:
        """The results of an equation; a `CaptureError` for each where it cannot be read."""
        # An error that came in with an operand keeps its own place; one that arises here gets this
        # equation's.
        before = {id(operand) for operand in operands}
        results: Sequence[TracedValue | TensorError]
        try:
            results = self.read(equation, operands)
        except TensorError as error:
            results = [error] * len(equation.outvars)
        return [_located(value, equation, before) for value in results]

    def read(self, equation: JaxprEqn, operands: Sequence[Known]) -> Sequence[Known]:
        """Reads a call through, or applies the rule of the primitive; raises `TensorError`."""
        primitive, params = equation.primitive.name, equation.params
        if primitive in _INLINED:
            body = next(params[key] for key in _BODIES if key in params)
            closed = body if hasattr(body, "consts") else ClosedJaxpr(body, ())
            return self.closed(closed, operands)
        if primitive == "cond":
            return self.branch(operands, **params)
        if primitive == "scan":
            return self.unrolled(operands, **params)
        return _read(equation, operands)

    def branch(
        self, operands: Sequence[Known], branches: Sequence[ClosedJaxpr], **params: object
    ) -> Sequence[Known]:
        """A `cond` whose choice is known, such as one by platform."""
        (which,) = _readable(operands[:1])
        place = known_array(which)
        if place is None:
            raise CaptureError("", "on what is computed")
        # As `lax.switch` does with an index that is out of bounds.
        chosen = min(max(int(place), 0), len(branches) - 1)
        return self.closed(branches[chosen], operands[1:])

    def unrolled(
        self,
        operands: Sequence[Known],
        jaxpr: ClosedJaxpr,
        length: int,
        reverse: bool,
        **params: object,
    ) -> Sequence[Known]:
        """A `scan` of at most `_STEPS` steps, written out."""
        if not 0 < length <= _STEPS:
            raise CaptureError("", f"of {length} steps")
        # Operands come as constants, carries and the rows of what is scanned.
        constants, carries = scan_operands(params)
        fixed, carried = operands[:constants], operands[constants:][:carries]
        rows = _readable(operands[constants + carries :])
        steps: list[Sequence[Known]] = []
        for step in reversed(range(length)) if reverse else range(length):
            results = self.closed(
                jaxpr, [*fixed, *carried, *(row(operand, step) for operand in rows)]
            )
            carried = results[:carries]
            steps.append(results[carries:])
        # Results are stacked in the order of the rows, whichever end the loop began at.
        steps = steps[::-1] if reverse else steps
        return [*carried, *(stacked(_readable(parts)) for parts in zip(*steps, strict=True))]


def scan_operands(params: Parameters) -> tuple[int, int]:
    """How many operands of a `scan` stay, and how many are carried on; versions of jax say so in
    two ways."""
    if "num_consts" in params:
        return params["num_consts"], params["num_carry"]
    constants, carried, _ = params["ft_in"].unpack()
    return len(list(constants)), len(list(carried))


def _read(equation: JaxprEqn, operands: Sequence[Known]) -> Sequence[TracedValue]:
    """Applies the rule of a primitive; raises `CaptureError` where there is none."""
    primitive, values = equation.primitive.name, _readable(operands)
    rule = RULES.get(primitive)
    if rule is None:
        raise CaptureError("")
    unsigned = any(getattr(atom.aval, "dtype", None) == np.uint32 for atom in equation.invars)
    # uint32 is read as int32: below zero they differ.
    if unsigned and primitive in {"neg", "sub"}:
        raise CaptureError("", "of numbers without a sign")
    read = partial(rule, **_plain(equation.params))
    results = _several(read(*values))
    if not _of_int32(equation):
        return results
    # Read again in int32, where literals might have been computed beyond 32 bits without wrapping.
    if any(map(_may_wrap, results)):
        results = _several(read(*map(_settled, values)))
    return [*map(_wrapped, results)]


def _several(results: TracedValue | Sequence[TracedValue]) -> Sequence[TracedValue]:
    return [results] if isinstance(results, TracedValue) else results


def _of_int32(equation: JaxprEqn) -> bool:
    """Whether an equation makes 32-bit integers of integers alone."""
    kinds = {_dtype(atom).kind for atom in equation.invars}
    return kinds <= {"i", "u"} and all(_dtype(atom) == np.int32 for atom in equation.outvars)


def _dtype(atom: Atom) -> np.dtype[Any]:
    """The element type of an atom; NumPy's `object` for a type that NumPy does not have, such as a
    key's."""
    dtype = getattr(atom.aval, "dtype", None)
    return dtype if isinstance(dtype, np.dtype) else np.dtype(object)


def _may_wrap(value: TracedValue) -> bool:
    """Whether literals are computed with that may leave 32 bits, and whose type would not be known
    there."""
    term = value.term
    return term.dtype is DType.WEAK and term.operator.name in _COMPUTED and largest(term) >= 2**31


def _settled(value: TracedValue) -> TracedValue:
    """The value in its own type, unless it is a literal, which takes the type of what it meets."""
    return value if value.number is not None else replace(value, term=value.typed())


def _wrapped(value: TracedValue) -> TracedValue:
    """A number that was computed of integers, modulo 2**32 as the device computes it."""
    number = value.number
    if not isinstance(number, int):
        return value
    return uniform((number + 2**31) % 2**32 - 2**31, value.shape, value.dtype)


def _readable(operands: Iterable[Known]) -> list[TracedValue]:
    values = []
    for operand in operands:
        if isinstance(operand, CaptureError):
            raise operand
        values.append(operand)
    return values


def _plain(params: Parameters) -> dict[str, Any]:
    return {name: _integers(value) for name, value in params.items()}


def _integers(value: PyTree) -> PyTree:
    """Tuples of Python's integers, where NumPy's stood among them: a program's parameters are
    compared and encoded."""
    if type(value) in (tuple, list):
        return tuple(map(_integers, value))
    return int(value) if isinstance(value, np.integer) else value


def _located(
    value: TracedValue | TensorError, equation: JaxprEqn, before: Collection[int]
) -> Known:
    """The error with the primitive and the outermost line that is the user's."""
    if isinstance(value, TracedValue):
        return value
    error = value if isinstance(value, CaptureError) else CaptureError("", str(value))
    if id(error) in before:
        return error
    place = summarize(equation.source_info)
    where = error.where if _HERE in place else place or error.where
    return CaptureError(error.primitive or equation.primitive.name, error.reason, where)


# They are imported for the rules that they register.
del _contractions, _indexing, _layout, _pointwise, _reductions
