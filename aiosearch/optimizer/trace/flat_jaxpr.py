"""A jaxpr without calls: the bodies of nested `jit` calls are inlined, so that a region may reach
across them.

Calls with derivatives of their own (`custom_jvp`), or that recompute (`remat`), stay whole, as do
those that ask for a placement or draw random numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var
from jax.extend.source_info_util import summarize

from ...capture.jax_types import Atom, Leaf, aval

_CALLS = frozenset({"closed_call", "core_call", "jit", "named_call", "pjit"})
"""Calls that mean nothing but their bodies."""


@dataclass(frozen=True)
class FlatJaxpr:
    """Equations in order, without calls; each variable is set once, and arrays that were closed
    over have variables too.

    Those arrays stay what they were when the function was traced, as under `jax.jit`, even where
    they are NumPy's and change later.
    """

    inputs: tuple[Var, ...]
    constants: dict[Var, Leaf]
    equations: tuple[JaxprEqn, ...]
    outputs: tuple[Atom, ...]
    pattern: Jaxpr
    """The jaxpr it came from: its debug information is that of the jaxprs made by `part`."""

    def part(
        self, inputs: Sequence[Var], equations: Sequence[JaxprEqn], outputs: Sequence[Atom]
    ) -> Jaxpr:
        """A jaxpr of some of the equations; every other value that they need is an input."""
        # A jaxpr says what effects it has; wrong ones would let XLA drop a print.
        effects = frozenset().union(*(equation.effects for equation in equations))
        pattern: Any = self.pattern
        return pattern.replace(  # type: ignore[no-any-return]  # jax says nothing of it
            constvars=[],
            invars=list(inputs),
            outvars=list(outputs),
            eqns=list(equations),
            effects=effects,
        )


def inline_calls(closed: ClosedJaxpr, place: Any = None) -> FlatJaxpr:
    """The function without plain calls; `place` is the source of the equation that runs it, for
    equations that have none in the user's code."""
    inliner = _Inliner(place)
    outputs = inliner.body(closed.jaxpr, closed.consts, closed.jaxpr.invars)
    return FlatJaxpr(
        tuple(closed.jaxpr.invars),
        inliner.constants,
        tuple(_needed(inliner.equations, outputs)),
        tuple(outputs),
        closed.jaxpr,
    )


def _needed(equations: Sequence[JaxprEqn], outputs: Sequence[Atom]) -> list[JaxprEqn]:
    """The equations that outputs depend on, or that have effects: XLA drops all others, as the
    samples that a library draws of a distribution to know their shape."""
    read = {atom for atom in outputs if isinstance(atom, Var)}
    needed: list[JaxprEqn] = []
    for equation in reversed(equations):
        if equation.effects or not read.isdisjoint(equation.outvars):
            read |= {atom for atom in equation.invars if isinstance(atom, Var)}
            needed.append(equation)
    return needed[::-1]


class _Inliner:
    def __init__(self, place: Any) -> None:
        self.equations: list[JaxprEqn] = []
        self.constants: dict[Var, Leaf] = {}
        self._held: dict[int, Var] = {}
        self._place = place

    def body(self, jaxpr: Jaxpr, constants: Sequence[Leaf], operands: Sequence[Atom]) -> list[Atom]:
        atoms: dict[Var, Atom] = dict(zip(jaxpr.invars, operands, strict=True))
        for var, value in zip(jaxpr.constvars, constants, strict=True):
            atoms[var] = self.constant(var, value)

        def atom(inner: Atom) -> Atom:
            return inner if isinstance(inner, Literal) else atoms[inner]

        for equation in jaxpr.eqns:
            equation = self.placed(equation)
            results = self.equation(equation, [atom(inner) for inner in equation.invars])
            atoms.update(zip(equation.outvars, results, strict=True))
        return [atom(inner) for inner in jaxpr.outvars]

    def constant(self, var: Var, value: Leaf) -> Var:
        """One variable for an array, however often it is closed over."""
        variable = self._held.setdefault(id(value), var)
        if variable not in self.constants:
            # NumPy's may change; what is compiled or packed of one must never be of several moments
            self.constants[variable] = np.array(value) if isinstance(value, np.ndarray) else value
        return variable

    def placed(self, equation: JaxprEqn) -> JaxprEqn:
        """The equation, with the place of the call that it was inlined from where its own is in a
        library."""
        # `summarize` leaves out frames of libraries: empty means that no frame is the user's.
        if self._place is None or summarize(equation.source_info):
            return equation
        placed: JaxprEqn = equation.replace(source_info=self._place)
        return placed

    def equation(self, equation: JaxprEqn, operands: Sequence[Atom]) -> Sequence[Atom]:
        if _is_plain_call(equation):
            params = equation.params
            body = params["jaxpr"] if "jaxpr" in params else params["call_jaxpr"]
            inner = getattr(body, "jaxpr", body)
            outside, self._place = self._place, equation.source_info
            outputs = self.body(inner, getattr(body, "consts", ()), operands)
            self._place = outside
            return outputs
        results = [Var(output.aval) for output in equation.outvars]
        self.equations.append(equation.replace(invars=list(operands), outvars=list(results)))
        return results


def _is_plain_call(equation: JaxprEqn) -> bool:
    """Whether it is a call that asks for no placement and no options of its own."""
    params = equation.params
    placed = (*params.get("in_shardings", ()), *params.get("out_shardings", ()))
    layouts = (*params.get("in_layouts", ()), *params.get("out_layouts", ()))
    return (
        equation.primitive.name in _CALLS
        and all(type(sharding).__name__ == "UnspecifiedValue" for sharding in placed)
        and all(layout is None for layout in layouts)
        and not params.get("compiler_options_kvs")
        # Random bits are integer arithmetic that no rewrite improves: as a call they stay whole.
        and not _draws(equation)
    )


def _draws(equation: JaxprEqn) -> bool:
    """Whether it takes keys and scalars alone: random numbers stay as they are drawn."""
    types = [aval(operand) for operand in equation.invars]
    keys = [str(operand.dtype).startswith("key<") for operand in types]
    return any(keys) and all(
        key or not operand.shape for key, operand in zip(keys, types, strict=True)
    )
