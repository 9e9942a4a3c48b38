"""Sorts equations: what can be read as a tensor program, and what is left alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jax.extend.core import JaxprEqn, Literal, Var

from ...capture.constants import Constants
from ...capture.errors import CaptureError
from ...capture.jaxprs import Known, Reader
from ...capture.values import Value, element_type, whole
from ...tensor import tensor, walk
from ...tensor.terms import INPUT
from .inlining import Atom, Flat
from .kinds import Kind, kind, nested

_MEANT = frozenset(
    {
        "device_put",
        "layout_constraint",
        "optimization_barrier",
        "pvary",
        "reshard",
        "sharding_constraint",
    }
)
"""They compute nothing, and are written to say where, or in which order, something runs."""
_LOOPS = frozenset({"scan", "while"})
_LONG = frozenset({"int64", "uint64"})


@dataclass(frozen=True)
class Step:
    """An equation, and how it was sorted."""

    index: int
    equation: JaxprEqn
    kind: Kind
    fixed: bool
    """Whether no argument has a say in it; then every region that needs it has its own."""
    refusal: CaptureError | None = None
    """Why it is left alone, where it is."""


def sort(flat: Flat) -> list[Step]:
    """Every equation by itself: its operands are inputs, but for what is known beforehand."""
    sorter = _Sorter(flat)
    return [sorter.step(index, equation) for index, equation in enumerate(flat.equations)]


class _Sorter:
    def __init__(self, flat: Flat) -> None:
        self.constants = Constants()
        self.reader = Reader(self.constants)
        self.known: dict[Var, Value] = {}
        for var, array in flat.constants.items():
            self.keep(var, self.reader.constant(array, var.aval))

    def step(self, index: int, equation: JaxprEqn) -> Step:
        fixed = all(isinstance(one, Literal) or one in self.known for one in equation.invars)
        refusal = left_alone(equation, fixed)
        if refusal is None:
            found = self.reader.equation(equation, [self.value(one) for one in equation.invars])
            refusal = next((one for one in found if isinstance(one, CaptureError)), None)
            refusal = refusal or self.holding(equation, found)
        if refusal is not None:
            return Step(index, equation, Kind.OPAQUE, False, refusal)
        if fixed:
            for var, value in zip(equation.outvars, found, strict=True):
                self.keep(var, value)
        return Step(index, equation, kind(equation), fixed)

    def keep(self, var: Var, value: Known) -> None:
        if isinstance(value, Value) and _is_known(value):
            self.known[var] = value

    def value(self, atom: Atom) -> Known:
        if isinstance(atom, Literal):
            return self.reader.constant(atom.val, atom.aval)
        return self.known.get(atom) or unknown(atom, "operand")

    def holding(self, equation: JaxprEqn, found: Sequence[Known]) -> CaptureError | None:
        """Arrays are a region's inputs, and a call that holds some cannot hand them out."""
        terms = [value.term for value in found if isinstance(value, Value)]
        if not self.constants.used(terms):
            return None
        return CaptureError(equation.primitive.name, "it holds an array of its own")


def unknown(var: Any, name: str) -> Known:
    """An input for a value of which only the type is known."""
    try:
        dtype = element_type(var.aval.dtype)
        return whole(tensor(name, dtype, tuple(var.aval.shape)), dtype)
    except CaptureError as error:
        return error


def left_alone(equation: JaxprEqn, fixed: bool) -> CaptureError | None:
    """Why an equation stays as it is, whatever it computes."""
    for one in nested(equation):
        reason = _reason(one)
        if reason:
            return CaptureError(one.primitive.name, reason)
    atoms = [*equation.invars, *equation.outvars]
    if not fixed and any(str(getattr(one.aval, "dtype", "")) in _LONG for one in atoms):
        return CaptureError(equation.primitive.name, "on integers of 64 bits")
    return None


def _reason(equation: JaxprEqn) -> str:
    name, params = equation.primitive.name, equation.params
    if equation.effects:
        return "it has effects"
    if name in _LOOPS:
        return "it is a loop"
    if name in _MEANT:
        return "it says where or in which order something runs"
    if _precise(params.get("precision")) or params.get("accuracy") is not None:
        return "it asks for a precision"
    context = equation.ctx
    if context.compute_type is not None or context.xla_metadata:
        return "it is to run in a way of its own"
    return ""


def _precise(precision: Any) -> bool:
    several = precision if isinstance(precision, tuple) else (precision,)
    return any(one is not None and getattr(one, "name", one) != "DEFAULT" for one in several)


def _is_known(value: Value) -> bool:
    return not any(term.operator is INPUT for term in walk([value.term]))


