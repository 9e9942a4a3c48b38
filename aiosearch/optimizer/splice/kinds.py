"""What an equation does to its operands, as far as a search is concerned."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Any

from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn


class Kind(IntEnum):
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
    Kind.MOVE: """broadcast_in_dim concatenate convert_element_type copy copy_p dynamic_slice
        dynamic_update_slice expand_dims gather iota name pad platform_index reshape rev slice
        split squeeze stack stop_gradient tile transpose unstack""",
    Kind.MULTILINEAR: """add add_any conv_general_dilated dot_general mul neg one_minus_square
        polynomial reduce_sum reduce_window_sum square sub""",
    Kind.DIVISION: "div pow rsqrt sqrt",
    Kind.EXPONENTIAL: "cosh exp exp2 expm1 log log1p log2 logistic sinh tanh",
}
_KINDS = {name: kind for kind, names in _PRIMITIVES.items() for name in names.split()}
_GATHERING = frozenset({"conv_general_dilated", "dot_general"})


def kind(equation: JaxprEqn) -> Kind:
    """The kind of an equation that can be read."""
    inner = [kind(one) for body in bodies(equation) for one in body.eqns]
    if inner:
        return max(inner)
    if equation.primitive.name == "integer_pow":
        return Kind.MULTILINEAR if equation.params["y"] >= 0 else Kind.DIVISION
    return _KINDS.get(equation.primitive.name, Kind.UNINTERPRETED)


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
