"""Classification of jaxpr equations: which can be read as tensor operators, and which stay with
JAX, with the reason.

Example: `dot_general` is `EquationKind.MULTILINEAR`; `sort` is `OPAQUE`, as the tensor language has
no such operator; so is a `dot_general` with `precision=HIGHEST` where that means something, as no
rewrite keeps that.

`classify_equations` reads each equation by itself with `JaxprReader`, on inputs of its operands'
types. Whether a group of them can be read together is asked by `pieces`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var
from jax.extend.source_info_util import summarize

from ...capture.constants import ClosedOverConstants
from ...capture.errors import CaptureError
from ...capture.jax_types import Atom, Leaf, aval
from ...capture.jaxprs import JaxprReader, Known
from ...capture.values import TracedValue, element_type, whole
from ...codegen.lower.value_graph import MOST_COMPARED
from ...tensor import tensor, walk
from ...tensor.operator import NUMBERS
from ...tensor.terms import INPUT
from .flat_jaxpr import FlatJaxpr


class EquationKind(IntEnum):
    """What an equation does to its operands, from what is easiest to rearrange to what is left
    alone.

    A call has the kind of its worst equation.
    """

    MOVE = 0
    """Moves, repeats or converts elements, and computes nothing."""
    MULTILINEAR = 1
    """Linear in each operand: sums and products."""
    DIVISION = 2
    EXPONENTIAL = 3
    UNINTERPRETED = 4
    """A function of which only equal operands are known to make equal results."""
    OPAQUE = 5
    """Cannot be read, or has to stay as it is."""


_PRIMITIVES = {
    EquationKind.MOVE: """broadcast_in_dim concatenate convert_element_type copy copy_p
        dynamic_slice dynamic_update_slice expand_dims gather iota name pad platform_index reshape
        rev slice split squeeze stack stop_gradient tile transpose unstack""",
    EquationKind.MULTILINEAR: """add add_any conv_general_dilated dot_general mul neg
        cumsum one_minus_square polynomial reduce_sum reduce_window_sum scatter-add square sub""",
    EquationKind.DIVISION: "div pow rsqrt sqrt",
    EquationKind.EXPONENTIAL: "cosh exp exp2 expm1 log log1p log2 logistic sinh tanh",
}
_KINDS = {name: kind for kind, names in _PRIMITIVES.items() for name in names.split()}
_CONTRACTIONS = frozenset({"conv_general_dilated", "dot_general"})


def equation_kind(equation: JaxprEqn) -> EquationKind:
    """The kind of an equation that can be read."""
    inner = [
        equation_kind(inner_equation) for body in bodies(equation) for inner_equation in body.eqns
    ]
    # What a call does is what its body does.
    if inner:
        return max(inner)
    if equation.primitive.name == "integer_pow":
        return EquationKind.MULTILINEAR if equation.params["y"] >= 0 else EquationKind.DIVISION
    return _KINDS.get(equation.primitive.name, EquationKind.UNINTERPRETED)


def contracts(equation: JaxprEqn) -> bool:
    """Whether it multiplies and adds up, which is where the time goes."""
    return any(part.primitive.name in _CONTRACTIONS for part in nested(equation))


def reduces(equation: JaxprEqn) -> bool:
    """Whether it makes few elements of many: a product, or a reduction."""
    return contracts(equation) or any(
        part.primitive.name.startswith("reduce_") for part in nested(equation)
    )


def nested(equation: JaxprEqn) -> Iterator[JaxprEqn]:
    """The equation, and those of all functions that it calls."""
    yield equation
    for body in bodies(equation):
        for inner in body.eqns:
            yield from nested(inner)


def bodies(equation: JaxprEqn) -> Iterator[Jaxpr]:
    """The jaxprs among its parameters."""
    for body in _called(equation):
        yield body.jaxpr if isinstance(body, ClosedJaxpr) else body


def closed_over(function: ClosedJaxpr | Jaxpr) -> Iterator[Leaf]:
    """The arrays that a function and all that it calls close over, each as often as they do."""
    if isinstance(function, ClosedJaxpr):
        yield from function.consts
        function = function.jaxpr
    for equation in function.eqns:
        for body in _called(equation):
            yield from closed_over(body)


def _called(equation: JaxprEqn) -> Iterator[ClosedJaxpr | Jaxpr]:
    for value in equation.params.values():
        for parameter in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(parameter, (ClosedJaxpr, Jaxpr)):
                yield parameter


_BY_PLACES = frozenset({"cummax", "cummin", "cumsum", "scatter_add", "take"})
"""Operators that a kernel computes by comparing places."""
_PLACEMENT_HINTS = frozenset(
    {
        "device_put",
        "layout_constraint",
        "optimization_barrier",
        "pvary",
        "reshard",
        "sharding_constraint",
    }
)
"""Primitives that compute nothing, and are written to say where, or in which order,
something runs."""
_LOOPS = frozenset({"scan", "while"})
_THIS_PACKAGE = str(Path(__file__).parent)
_DEFAULT_ALGORITHMS = {"bfloat16": "BF16_BF16_F32", "float16": "F16_F16_F32"}
"""The precision with which XLA multiplies these types anyway: asking for it asks for nothing."""
_LEVELS = frozenset({"DEFAULT", "HIGH", "HIGHEST"})
"""The levels of `jax.lax.Precision`, which a CPU has only the highest of for `_FULL_PRODUCTS`."""
_FULL_PRODUCTS = frozenset({"float32", "float64"})
"""Operands that a CPU multiplies as they are, at whatever level."""
_WIDE_INTEGERS = frozenset({"int64", "uint64"})
"""The language's integers have 32 bits."""


@dataclass(frozen=True)
class ClassifiedEquation:
    """An equation of a `FlatJaxpr`, and its class."""

    index: int
    """Its place among the equations of the function."""
    equation: JaxprEqn
    kind: EquationKind
    fixed: bool
    """Whether it depends on no argument; then every region that needs it has a copy of it."""
    refusal: str = ""
    """Why it is `OPAQUE`, with its place in the user's code; empty otherwise."""


def classify_equations(
    flat: FlatJaxpr, precision: object = None, on_cpu: bool = False
) -> list[ClassifiedEquation]:
    """Classifies every equation by itself: its operands are inputs, but for constants that are
    numbers.

    `precision` is what products have here that ask for none. With `on_cpu` nothing but a CPU runs
    them, where all levels of precision are one for products of `_FULL_PRODUCTS`.
    """
    classifier = _Classifier(flat, precision, on_cpu)
    return [classifier.step(index, equation) for index, equation in enumerate(flat.equations)]


class _Classifier:
    def __init__(self, flat: FlatJaxpr, precision: object, on_cpu: bool) -> None:
        self.precision = precision
        self.on_cpu = on_cpu
        self.constants = ClosedOverConstants()
        self.reader = JaxprReader(self.constants)
        self.known: dict[Var, TracedValue] = {}
        self.joined: dict[Var, TracedValue] = {}
        """Values of which a part may be known, as one column of the indices of a gather is."""
        for var, array in flat.constants.items():
            self.keep(var, self.reader.constant(array, aval(var)))

    def step(self, index: int, equation: JaxprEqn) -> ClassifiedEquation:
        fixed = all(isinstance(atom, Literal) or atom in self.known for atom in equation.invars)
        results: Sequence[Known] = ()
        refusal = why_unreadable(
            equation, self.precision, self.on_cpu
        ) or self.refuse_wide_integers(equation, fixed)
        if not refusal:
            results = self.reader.equation(equation, [self.value(atom) for atom in equation.invars])
            refusal = self.unread(equation, results) or _left_to_xla(equation, results)
        if refusal:
            return ClassifiedEquation(index, equation, EquationKind.OPAQUE, False, refusal)
        # Its value is known from now on: a ramp or a number that later equations may need, as for
        # an index.
        for var, value in zip(equation.outvars, results, strict=True):
            if fixed:
                self.keep(var, value)
            elif isinstance(value, TracedValue) and value.term.operator.name == "concatenate":
                self.joined[var] = value
        return ClassifiedEquation(index, equation, equation_kind(equation), fixed)

    def keep(self, var: Var, value: Known) -> None:
        if isinstance(value, TracedValue) and is_known(value):
            self.known[var] = value

    def value(self, atom: Atom) -> Known:
        if isinstance(atom, Literal):
            return self.reader.constant(atom.val, aval(atom))
        return self.known.get(atom) or self.joined.get(atom) or unknown(atom, "operand")

    def refuse_wide_integers(self, equation: JaxprEqn, fixed: bool) -> str:
        """Refuses equations on 64-bit integers, but for places that are computed beforehand and fit
        into 32."""
        # A literal that fits is no reason to refuse an equation on 32 bits.
        atoms = [atom for atom in equation.invars if not isinstance(atom, Literal)]
        operands = [*(atom for atom in atoms if atom not in self.known), *equation.outvars]
        if fixed or not any(str(aval(atom).dtype) in _WIDE_INTEGERS for atom in operands):
            return ""
        return _describe_failure(equation, "on integers of 64 bits")

    def unread(self, equation: JaxprEqn, results: Sequence[Known]) -> str:
        """Why the reader could not read it, or an array that it holds; a program has no such
        arrays."""
        errors = [result for result in results if isinstance(result, CaptureError)]
        if errors:
            return _describe_failure(equation, errors[0].reason)
        # A program has no arrays but its inputs: a table that is closed over would have to be one
        # more.
        terms = [value.term for value in results if isinstance(value, TracedValue)]
        return (
            _describe_failure(equation, "it holds an array") if self.constants.used(terms) else ""
        )


def _left_to_xla(equation: JaxprEqn, results: Sequence[Known]) -> str:
    """Why XLA is left to choose or add many elements by computed places, or to add up an axis in
    order: a region would lose its kernels to it, and nothing of ours does it faster."""
    terms = [value.term for value in results if isinstance(value, TracedValue)]
    for term in walk(terms):
        name = term.operator.name
        if name not in _BY_PLACES:
            continue
        axis = term.parameter("axis")
        indices = term.arguments[1] if name in ("take", "scatter_add") else term.arguments[0]
        places = term.arguments[0].shape[axis]
        if indices.shape[axis] != 1 and NUMBERS.value(places) > MOST_COMPARED:
            return _describe_failure(equation, f"along an axis of {places}, which XLA does best")
    return ""


def unknown(var: Var, name: str) -> Known:
    """An input for a value of which only the type is known."""
    try:
        dtype = element_type(aval(var).dtype)
        return whole(tensor(name, dtype, tuple(aval(var).shape)), dtype)
    except CaptureError as error:
        return error


def why_unreadable(equation: JaxprEqn, precision: object = None, on_cpu: bool = False) -> str:
    """Why an equation stays as it is, whatever it computes; empty where nothing is against reading
    it."""
    for part in nested(equation):
        reason = _reason(part, precision, on_cpu)
        if reason:
            return _describe_failure(part, reason)
    return ""


def _describe_failure(equation: JaxprEqn, reason: str) -> str:
    """Names the primitive, the reason and the place in the user's code: `sort at model.py:12:4
    (loss)`."""
    why = f" ({reason})" if reason else ""
    place = summarize(equation.source_info)
    where = f" at {place}" if place and _THIS_PACKAGE not in place else ""
    return f"{equation.primitive.name}{why}{where}"


def _reason(equation: JaxprEqn, precision: object, on_cpu: bool) -> str:
    name, params = equation.primitive.name, equation.params
    # A print or a callback: how often and when it happens is a part of what the function does.
    if equation.effects:
        return "it has effects"
    if name in _LOOPS:
        return "a loop that has no part to search"
    if name in _PLACEMENT_HINTS:
        return "it says where or in which order something runs"
    if _is_precise(equation, precision, on_cpu) or params.get("accuracy") is not None:
        return "it asks for a precision"
    context = equation.ctx
    if context.compute_type is not None or context.xla_metadata:
        return "it is to run in a way of its own"
    return ""


def _is_precise(equation: JaxprEqn, default: object, on_cpu: bool) -> bool:
    """Whether a product asks for a precision that is not the one that every product has here."""
    if "precision" not in equation.params:
        return False
    asked = _named(equation.params["precision"])
    dtypes = {str(aval(operand).dtype) for operand in equation.invars}
    # XLA computes these on a CPU in their own type, whatever level is asked for; algorithms, such
    # as one with operands in bfloat16, do mean something there.
    level_counts = not (on_cpu and dtypes <= _FULL_PRODUCTS)
    ignored = frozenset[str]() if level_counts else _LEVELS
    if default is not None:
        return asked - ignored != _named(default) - ignored
    # An algorithm is usual for operands of one type only.
    defaults = {
        "DEFAULT",
        *(_DEFAULT_ALGORITHMS.get(dtype) for dtype in dtypes if len(dtypes) == 1),
    }
    return bool(asked - defaults - ignored)


def _named(precision: object) -> set[str]:
    """The names of a precision, or of one for each operand."""
    several = precision if isinstance(precision, tuple) else (precision,)
    return {str(getattr(choice, "name", choice)) for choice in several if choice is not None}


def is_known(value: TracedValue) -> bool:
    """Whether no input takes part in a value."""
    return not any(term.operator is INPUT for term in walk([value.term]))
