"""Traces a JAX function and reads its jaxpr as a tensor program."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal
from jax.extend.source_info_util import summarize

from ..tensor import Program, TensorError, Term, tensor
from . import contractions as _contractions
from . import indexing as _indexing
from . import layout as _layout
from . import pointwise as _pointwise
from . import reductions as _reductions
from .constants import Constants
from .errors import CaptureError
from .layout import row, stacked
from .names import input_names, title
from .rules import RULES
from .values import Value, element_type, known, whole

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

_STEPS = 32
"""The longest loop that is written out."""

_Known: TypeAlias = "Value | CaptureError"


@dataclass(frozen=True)
class Captured:
    """A program, and the values of those of its inputs that the function closed over.

    They follow the arguments, and are named by what they hold, so that equal ones of two
    functions are one input.
    """

    program: Program
    constants: Mapping[str, np.ndarray[Any, Any]]


def capture(function: Callable[..., Any], *args: Any, name: str | None = None) -> Captured:
    """Reads a function of arrays as a program; raises CaptureError where it has no words for it.

    Arguments are arrays or `jax.ShapeDtypeStruct`s, or trees of them, whose leaves become inputs.
    """
    closed = _traced(function, args)
    inputs = [
        tensor(own, element_type(var.aval.dtype), _sizes(var.aval))
        for own, var in zip(input_names(function, args), closed.jaxpr.invars, strict=True)
    ]
    constants = Constants()
    reader = _Reader(constants)
    arguments = [whole(term, term.dtype) for term in inputs]
    outputs = [_whole(value) for value in reader.closed(closed, arguments)]
    used = constants.used(outputs)
    program = Program(title(function, name), (*inputs, *used), tuple(outputs))
    return Captured(program, {term.parameter("name"): array for term, array in used.items()})


def _traced(function: Callable[..., Any], args: Sequence[Any]) -> ClosedJaxpr:
    try:
        return jax.make_jaxpr(function)(*args)
    except (jax.errors.JAXTypeError, jax.errors.JAXIndexError) as error:
        reason = str(error).partition("\n")[0]
        raise CaptureError("", f"it depends on what its arguments hold: {reason}") from None


def _whole(value: _Known) -> Term:
    if isinstance(value, CaptureError):
        raise value
    return value.full()


def _sizes(aval: Any) -> tuple[int, ...]:
    if not all(isinstance(size, int) for size in aval.shape):
        raise CaptureError("", f"sizes are not known in {aval}")
    return tuple(aval.shape)


class _Reader:
    """Reads equations in order; what cannot be read only matters where it is used."""

    def __init__(self, constants: Constants) -> None:
        self.constants = constants

    def closed(self, closed: ClosedJaxpr, arguments: Sequence[_Known]) -> list[_Known]:
        return self.open(closed.jaxpr, [self.constant(one) for one in closed.consts], arguments)

    def open(
        self, jaxpr: Jaxpr, constants: Sequence[_Known], arguments: Sequence[_Known]
    ) -> list[_Known]:
        values: dict[Any, _Known] = dict(zip(jaxpr.constvars, constants, strict=True))
        values.update(zip(jaxpr.invars, arguments, strict=True))

        def value(atom: Any) -> _Known:
            return self.constant(atom.val, atom.aval) if isinstance(atom, Literal) else values[atom]

        for equation in jaxpr.eqns:
            found = self.equation(equation, [value(atom) for atom in equation.invars])
            values.update(zip(equation.outvars, found, strict=True))
        return [value(atom) for atom in jaxpr.outvars]

    def constant(self, held: Any, aval: Any = None) -> _Known:
        try:
            return self.constants.value(held, aval)
        except TensorError as error:
            return _named(error, "a constant", "")

    def equation(self, equation: JaxprEqn, operands: Sequence[_Known]) -> Sequence[_Known]:
        primitive = equation.primitive.name
        if primitive in _INLINED:
            return self.inlined(equation, operands)
        try:
            if primitive == "cond":
                return self.branch(equation, operands)
            if primitive == "scan":
                return self.unrolled(operands, **equation.params)
            return _read(equation, operands)
        except TensorError as error:
            return [_named(error, primitive, _where(equation))] * len(equation.outvars)

    def inlined(self, equation: JaxprEqn, operands: Sequence[_Known]) -> Sequence[_Known]:
        params = equation.params
        body = next(params[key] for key in ("jaxpr", "call_jaxpr", "fun_jaxpr") if key in params)
        if isinstance(body, Jaxpr):
            body = ClosedJaxpr(body, ())
        place, before = _where(equation), {id(operand) for operand in operands}
        found = self.closed(body, operands)
        return [value if id(value) in before else _seen_from(value, place) for value in found]

    def branch(self, equation: JaxprEqn, operands: Sequence[_Known]) -> Sequence[_Known]:
        """A choice that is made beforehand, such as one by platform."""
        (which,) = _readable(operands[:1])
        place = known(which)
        if place is None:
            raise CaptureError("", "on what is computed")
        branches = equation.params["branches"]
        chosen = min(max(int(place), 0), len(branches) - 1)
        return self.closed(branches[chosen], operands[1:])


def _seen_from(value: _Known, place: str) -> _Known:
    """Names the line of the call: a traced body is kept, with the lines of its first call."""
    if isinstance(value, CaptureError) and place:
        return CaptureError(value.primitive, value.reason, place)
    return value

    def unrolled(
        self,
        operands: Sequence[_Known],
        jaxpr: ClosedJaxpr,
        length: int,
        reverse: bool,
        num_consts: int,
        num_carry: int,
        **params: Any,
    ) -> Sequence[_Known]:
        """A loop of few steps, written out."""
        if length > _STEPS:
            raise CaptureError("", f"of {length} steps")
        fixed, carried = list(operands[:num_consts]), operands[num_consts:][:num_carry]
        rows = _readable(operands[num_consts + num_carry :])
        steps: list[Sequence[_Known]] = []
        for step in reversed(range(length)) if reverse else range(length):
            found = self.closed(jaxpr, [*fixed, *carried, *(row(one, step) for one in rows)])
            carried = found[:num_carry]
            steps.append(found[num_carry:])
        steps = steps[::-1] if reverse else steps
        return [*carried, *(stacked(_readable(parts)) for parts in zip(*steps, strict=True))]


def _read(equation: JaxprEqn, operands: Sequence[_Known]) -> Sequence[Value]:
    primitive, values = equation.primitive.name, _readable(operands)
    rule = RULES.get(primitive)
    if rule is None:
        raise CaptureError("")
    unsigned = any(getattr(atom.aval, "dtype", None) == np.uint32 for atom in equation.invars)
    if unsigned and primitive in {"neg", "sub"}:
        raise CaptureError("", "of numbers without a sign")
    found = rule(*values, **_plain(equation.params))
    return [found] if isinstance(found, Value) else found


def _readable(operands: Iterable[_Known]) -> list[Value]:
    found = []
    for operand in operands:
        if isinstance(operand, CaptureError):
            raise operand
        found.append(operand)
    return found


def _plain(params: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _integers(value) for name, value in params.items()}


def _integers(value: Any) -> Any:
    """Tuples of integers, where NumPy's integers stood among them."""
    if type(value) in (tuple, list):
        return tuple(map(_integers, value))
    return int(value) if isinstance(value, np.integer) else value


def _named(error: TensorError, primitive: str, where: str) -> CaptureError:
    known = error if isinstance(error, CaptureError) else CaptureError("", str(error))
    return known.at(primitive, where)


def _where(equation: JaxprEqn) -> str:
    """The line of the function that the equation comes from."""
    place = summarize(equation.source_info)
    return "" if __file__ in place else place


__all__ = ["Captured", "capture"]

del _contractions, _indexing, _layout, _pointwise, _reductions
