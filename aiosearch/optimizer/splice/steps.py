"""Sorts equations: what can be read as a tensor program, and what is left alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jax.extend.core import JaxprEqn, Literal, Var
from jax.extend.source_info_util import summarize

from ...capture.constants import Constants
from ...capture.errors import CaptureError
from ...capture.jaxprs import Known, Reader
from ...capture.values import Value, element_type, whole
from ...tensor import tensor, walk
from ...tensor.terms import INPUT
from .inlining import Atom, Flat, aval
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
_HERE = str(Path(__file__).parent)
_USUAL = {"bfloat16": "BF16_BF16_F32", "float16": "F16_F16_F32"}
_LONG = frozenset({"int64", "uint64"})


@dataclass(frozen=True)
class Step:
    """An equation, and how it was sorted."""

    index: int
    equation: JaxprEqn
    kind: Kind
    fixed: bool
    """Whether no argument has a say in it; then every region that needs it has its own."""
    refusal: str = ""
    """Why it is left alone, where it is."""


def sort(flat: Flat, precision: Any = None) -> list[Step]:
    """Every equation by itself: its operands are inputs, but for what is known beforehand.

    `precision` is what products have here that ask for none.
    """
    sorter = _Sorter(flat, precision)
    return [sorter.step(index, equation) for index, equation in enumerate(flat.equations)]


class _Sorter:
    def __init__(self, flat: Flat, precision: Any) -> None:
        self.precision = precision
        self.constants = Constants()
        self.reader = Reader(self.constants)
        self.known: dict[Var, Value] = {}
        for var, array in flat.constants.items():
            self.keep(var, self.reader.constant(array, var.aval))

    def step(self, index: int, equation: JaxprEqn) -> Step:
        fixed = all(isinstance(one, Literal) or one in self.known for one in equation.invars)
        found: Sequence[Known] = ()
        refusal = left_alone(equation, self.precision) or self.long(equation, fixed)
        if not refusal:
            found = self.reader.equation(equation, [self.value(one) for one in equation.invars])
            refusal = self.unread(equation, found)
        if refusal:
            return Step(index, equation, Kind.OPAQUE, False, refusal)
        if fixed:
            for var, value in zip(equation.outvars, found, strict=True):
                self.keep(var, value)
        return Step(index, equation, kind(equation), fixed)

    def keep(self, var: Var, value: Known) -> None:
        if isinstance(value, Value) and is_known(value):
            self.known[var] = value

    def value(self, atom: Atom) -> Known:
        if isinstance(atom, Literal):
            return self.reader.constant(atom.val, atom.aval)
        return self.known.get(atom) or unknown(atom, "operand")

    def long(self, equation: JaxprEqn, fixed: bool) -> str:
        """The language's integers have 32 bits; places that are known beforehand fit."""
        atoms = [one for one in equation.invars if not isinstance(one, Literal)]
        found = [*(one for one in atoms if one not in self.known), *equation.outvars]
        if fixed or not any(str(aval(one).dtype) in _LONG for one in found):
            return ""
        return _told(equation, "on integers of 64 bits")

    def unread(self, equation: JaxprEqn, found: Sequence[Known]) -> str:
        """Why the language has no words for it, or it holds an array that it cannot hand out."""
        errors = [one for one in found if isinstance(one, CaptureError)]
        if errors:
            return _told(equation, errors[0].reason)
        terms = [value.term for value in found if isinstance(value, Value)]
        return _told(equation, "it holds an array") if self.constants.used(terms) else ""


def unknown(var: Any, name: str) -> Known:
    """An input for a value of which only the type is known."""
    try:
        dtype = element_type(var.aval.dtype)
        return whole(tensor(name, dtype, tuple(var.aval.shape)), dtype)
    except CaptureError as error:
        return error


def left_alone(equation: JaxprEqn, precision: Any = None) -> str:
    """Why an equation stays as it is, whatever it computes."""
    for one in nested(equation):
        reason = _reason(one, precision)
        if reason:
            return _told(one, reason)
    return ""


def _told(equation: JaxprEqn, reason: str) -> str:
    why = f" ({reason})" if reason else ""
    place = summarize(equation.source_info)
    where = f" at {place}" if place and _HERE not in place else ""
    return f"{equation.primitive.name}{why}{where}"


def _reason(equation: JaxprEqn, precision: Any) -> str:
    name, params = equation.primitive.name, equation.params
    if equation.effects:
        return "it has effects"
    if name in _LOOPS:
        return "it is a loop"
    if name == "custom_vjp_call":
        return "it has a gradient of its own"  # which jax cannot find in a batched replacement
    if name in _MEANT:
        return "it says where or in which order something runs"
    if _is_precise(equation, precision) or params.get("accuracy") is not None:
        return "it asks for a precision"
    context = equation.ctx
    if context.compute_type is not None or context.xla_metadata:
        return "it is to run in a way of its own"
    return ""


def _is_precise(equation: JaxprEqn, own: Any) -> bool:
    """Whether products are asked for that are not the ones that every product is here."""
    if "precision" not in equation.params:
        return False
    asked = _named(equation.params["precision"])
    if own is not None:
        return asked != _named(own)
    dtypes = {str(aval(one).dtype) for one in equation.invars}
    usual = {"DEFAULT", *(_USUAL.get(dtype) for dtype in dtypes if len(dtypes) == 1)}
    return bool(asked - usual)


def _named(precision: Any) -> set[str]:
    """A precision, or one for each operand, by name."""
    several = precision if isinstance(precision, tuple) else (precision,)
    return {str(getattr(one, "name", one)) for one in several if one is not None}


def is_known(value: Value) -> bool:
    """Whether no input has a say in it."""
    return not any(term.operator is INPUT for term in walk([value.term]))
