"""A JAX function as a flat list of equations: calls are inlined, loops and branches stay.

`jit`, `custom_jvp`, `remat` and their like only group equations; what rows depend on is the same
without them. Derivatives that a user defined are lost on the way, so a blocked program is
differentiated through the original function (`blocked`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import jax
from jax.extend import core

from ...capture.jax_types import AbstractArray, DType, Function, Leaf, PyTree, aval
from ...capture.jax_types import Atom as JaxprAtom
from ..errors import PlanError

INLINED = {
    "pjit": "jaxpr",
    "jit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vjp_call_jaxpr": "fun_jaxpr",
    "remat2": "jaxpr",
    "checkpoint": "jaxpr",
    "custom_lin": "jaxpr",
}
"""Primitives that only call, and the parameter that holds what they call."""


PrimitiveParams: TypeAlias = dict[str, Any]
"""The parameters of a primitive by name: shapes, axes, jaxprs."""


Primitive: TypeAlias = Any
"""A primitive of jax, whose methods come without types."""


@dataclass(frozen=True)
class FlatValue:
    """A value of the flat program; each is defined once."""

    number: int
    shape: tuple[int, ...]
    dtype: DType


@dataclass(frozen=True)
class Known:
    """A literal or constant, which is there before the program runs."""

    array: Leaf

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(getattr(self.array, "shape", ()))


Atom = FlatValue | Known


@dataclass(frozen=True)
class Equation:
    """What one primitive computes."""

    primitive: Primitive
    params: PrimitiveParams
    inputs: tuple[Atom, ...]
    outputs: tuple[FlatValue, ...]

    @property
    def name(self) -> str:
        return str(self.primitive.name)


@dataclass(frozen=True)
class Flat:
    """Inputs, equations in an order in which they can run, and outputs."""

    inputs: tuple[FlatValue, ...]
    equations: tuple[Equation, ...]
    outputs: tuple[Atom, ...]

    def definitions(self) -> dict[int, tuple[Equation, int]]:
        """By value: the equation that defines it, and as which of its outputs."""
        return {
            value.number: (equation, position)
            for equation in self.equations
            for position, value in enumerate(equation.outputs)
        }


class _Flattener:
    def __init__(self) -> None:
        self.equations: list[Equation] = []
        self._values = 0

    def value(self, array: AbstractArray) -> FlatValue:
        self._values += 1
        return FlatValue(self._values, tuple(array.shape), array.dtype)

    def flatten(self, closed: core.ClosedJaxpr, inputs: Sequence[Atom]) -> list[Atom]:
        jaxpr = closed.jaxpr
        environment: dict[core.Var, Atom] = dict(zip(jaxpr.invars, inputs, strict=True))
        environment.update(
            {var: Known(const) for var, const in zip(jaxpr.constvars, closed.consts, strict=True)}
        )

        def read(atom: JaxprAtom) -> Atom:
            return Known(atom.val) if isinstance(atom, core.Literal) else environment[atom]

        for eqn in jaxpr.eqns:
            operands = [read(atom) for atom in eqn.invars]
            if eqn.effects:
                raise PlanError(f"{eqn.primitive.name} has side effects, so it cannot be blocked")
            inner = eqn.params.get(INLINED.get(eqn.primitive.name, ""))
            if inner is not None:
                results = self.flatten(_closed(inner), operands)
            else:
                values = tuple(self.value(aval(var)) for var in eqn.outvars)
                self.equations.append(Equation(eqn.primitive, eqn.params, tuple(operands), values))
                results = list(values)
            environment.update(zip(eqn.outvars, results, strict=True))
        return [read(atom) for atom in jaxpr.outvars]


def _closed(jaxpr: core.Jaxpr | core.ClosedJaxpr) -> core.ClosedJaxpr:
    if hasattr(jaxpr, "consts"):
        return cast("core.ClosedJaxpr", jaxpr)
    return core.ClosedJaxpr(jaxpr, ())


def flatten_jaxpr(closed: core.ClosedJaxpr) -> Flat:
    """Inlines the calls in a closed jaxpr."""
    flattener = _Flattener()
    inputs = tuple(flattener.value(aval(var)) for var in closed.jaxpr.invars)
    outputs = flattener.flatten(closed, inputs)
    return Flat(inputs, tuple(flattener.equations), tuple(outputs))


@contextmanager
def tracing() -> Iterator[None]:
    """Has a PlanError say what keeps a function from being traced with some arguments."""
    try:
        yield
    except (TypeError, ValueError, jax.errors.JAXTypeError) as error:
        reason = str(error).partition("\n")[0]
        raise PlanError(f"the function cannot be traced with these arguments: {reason}") from error


def trace(function: Function, args: Sequence[Leaf]) -> tuple[Flat, PyTree]:
    """The flat program of a function of these arguments, and the tree of what it gives.

    Raises PlanError where it cannot be traced.
    """
    with tracing():
        closed, shape = jax.make_jaxpr(function, return_shape=True)(*args)
    return flatten_jaxpr(closed), jax.tree_util.tree_structure(shape)
