"""Classification of jaxpr equations: which can be read as tensor operators, and which stay with
JAX, with the reason.

What an equation does to its operands, as far as a search is concerned.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var
from jax.extend.source_info_util import summarize

from ...capture.constants import ClosedOverConstants
from ...capture.errors import CaptureError
from ...capture.jaxprs import JaxprReader, Known
from ...capture.values import TracedValue, element_type, whole
from ...tensor import tensor, walk
from ...tensor.terms import INPUT
from .flat_jaxpr import Atom, FlatJaxpr, aval


class EquationKind(IntEnum):
    """From what is easiest to rearrange to what is left alone; a call has its worst part's."""

    MOVE = 0
    """Only moves, repeats or converts elements."""
    MULTILINEAR = 1
    DIVISION = 2
    EXPONENTIAL = 3
    UNINTERPRETED = 4
    """A function that only equal operands make equal."""
    OPAQUE = 5


_PRIMITIVES = {
    EquationKind.MOVE: """broadcast_in_dim concatenate convert_element_type copy copy_p
        dynamic_slice dynamic_update_slice expand_dims gather iota name pad platform_index reshape
        rev slice split squeeze stack stop_gradient tile transpose unstack""",
    EquationKind.MULTILINEAR: """add add_any conv_general_dilated dot_general mul neg
        one_minus_square polynomial reduce_sum reduce_window_sum square sub""",
    EquationKind.DIVISION: "div pow rsqrt sqrt",
    EquationKind.EXPONENTIAL: "cosh exp exp2 expm1 log log1p log2 logistic sinh tanh",
}
_KINDS = {name: kind for kind, names in _PRIMITIVES.items() for name in names.split()}
_GATHERING = frozenset({"conv_general_dilated", "dot_general"})


def equation_kind(equation: JaxprEqn) -> EquationKind:
    """The kind of an equation that can be read."""
    inner = [equation_kind(one) for body in bodies(equation) for one in body.eqns]
    if inner:
        return max(inner)
    if equation.primitive.name == "integer_pow":
        return EquationKind.MULTILINEAR if equation.params["y"] >= 0 else EquationKind.DIVISION
    return _KINDS.get(equation.primitive.name, EquationKind.UNINTERPRETED)


def contracts(equation: JaxprEqn) -> bool:
    """Whether it multiplies and adds up, which is where the time goes."""
    return any(one.primitive.name in _GATHERING for one in nested(equation))


def reduces(equation: JaxprEqn) -> bool:
    """Whether it makes few elements out of many."""
    return contracts(equation) or any(
        one.primitive.name.startswith("reduce_") for one in nested(equation)
    )


def nested(equation: JaxprEqn) -> Iterator[JaxprEqn]:
    """The equation, and those of whatever it calls."""
    yield equation
    for body in bodies(equation):
        for inner in body.eqns:
            yield from nested(inner)


def bodies(equation: JaxprEqn) -> Iterator[Jaxpr]:
    """The jaxprs among its parameters."""
    for one in _called(equation):
        yield one.jaxpr if isinstance(one, ClosedJaxpr) else one


def closed_over(function: ClosedJaxpr | Jaxpr) -> Iterator[Any]:
    """The arrays that it and whatever it calls close over."""
    if isinstance(function, ClosedJaxpr):
        yield from function.consts
        function = function.jaxpr
    for equation in function.eqns:
        for one in _called(equation):
            yield from closed_over(one)


def _called(equation: JaxprEqn) -> Iterator[ClosedJaxpr | Jaxpr]:
    for value in equation.params.values():
        for one in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(one, (ClosedJaxpr, Jaxpr)):
                yield one


pass

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
class ClassifiedEquation:
    """An equation, and how it was sorted."""

    index: int
    equation: JaxprEqn
    kind: EquationKind
    fixed: bool
    """Whether no argument has a say in it; then every region that needs it has its own."""
    refusal: str = ""
    """Why it is left alone, where it is."""


def classify_equations(flat: FlatJaxpr, precision: Any = None) -> list[ClassifiedEquation]:
    """Every equation by itself: its operands are inputs, but for what is known beforehand.

    `precision` is what products have here that ask for none.
    """
    sorter = _Sorter(flat, precision)
    return [sorter.step(index, equation) for index, equation in enumerate(flat.equations)]


class _Sorter:
    def __init__(self, flat: FlatJaxpr, precision: Any) -> None:
        self.precision = precision
        self.constants = ClosedOverConstants()
        self.reader = JaxprReader(self.constants)
        self.known: dict[Var, TracedValue] = {}
        for var, array in flat.constants.items():
            self.keep(var, self.reader.constant(array, var.aval))

    def step(self, index: int, equation: JaxprEqn) -> ClassifiedEquation:
        fixed = all(isinstance(one, Literal) or one in self.known for one in equation.invars)
        found: Sequence[Known] = ()
        refusal = why_unreadable(equation, self.precision) or self.long(equation, fixed)
        if not refusal:
            found = self.reader.equation(equation, [self.value(one) for one in equation.invars])
            refusal = self.unread(equation, found)
        if refusal:
            return ClassifiedEquation(index, equation, EquationKind.OPAQUE, False, refusal)
        if fixed:
            for var, value in zip(equation.outvars, found, strict=True):
                self.keep(var, value)
        return ClassifiedEquation(index, equation, equation_kind(equation), fixed)

    def keep(self, var: Var, value: Known) -> None:
        if isinstance(value, TracedValue) and is_known(value):
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
        return _describe_failure(equation, "on integers of 64 bits")

    def unread(self, equation: JaxprEqn, found: Sequence[Known]) -> str:
        """Why the language has no words for it, or it holds an array that it cannot hand out."""
        errors = [one for one in found if isinstance(one, CaptureError)]
        if errors:
            return _describe_failure(equation, errors[0].reason)
        terms = [value.term for value in found if isinstance(value, TracedValue)]
        return (
            _describe_failure(equation, "it holds an array") if self.constants.used(terms) else ""
        )


def unknown(var: Any, name: str) -> Known:
    """An input for a value of which only the type is known."""
    try:
        dtype = element_type(var.aval.dtype)
        return whole(tensor(name, dtype, tuple(var.aval.shape)), dtype)
    except CaptureError as error:
        return error


def why_unreadable(equation: JaxprEqn, precision: Any = None) -> str:
    """Why an equation stays as it is, whatever it computes."""
    for one in nested(equation):
        reason = _reason(one, precision)
        if reason:
            return _describe_failure(one, reason)
    return ""


def _describe_failure(equation: JaxprEqn, reason: str) -> str:
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


def is_known(value: TracedValue) -> bool:
    """Whether no input has a say in it."""
    return not any(term.operator is INPUT for term in walk([value.term]))
