"""A jaxpr without calls: the bodies of nested `jit` calls are inlined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var
from jax.extend.source_info_util import summarize

Atom: TypeAlias = "Var | Literal"


def aval(atom: Atom) -> Any:
    """What is known of a value beforehand; jax's own type of it is narrower than what it is."""
    return atom.aval


_CALLS = frozenset({"closed_call", "core_call", "jit", "named_call", "pjit"})
"""Calls that mean nothing but their bodies.

Those with derivatives of their own, or that recompute for them, stay whole.
"""


@dataclass(frozen=True)
class FlatJaxpr:
    """Equations in order; a value is set once. Arrays that were closed over have variables.

    They stay what they were at that time, as jax has it, even where they are NumPy's and change.
    """

    inputs: tuple[Var, ...]
    constants: dict[Var, Any]
    equations: tuple[JaxprEqn, ...]
    outputs: tuple[Atom, ...]
    pattern: Jaxpr
    """The jaxpr it came from, which others are made after."""

    def part(
        self, inputs: Sequence[Var], equations: Sequence[JaxprEqn], outputs: Sequence[Atom]
    ) -> Jaxpr:
        """A jaxpr of some of the equations; every other value that they need is an input."""
        effects = frozenset().union(*(one.effects for one in equations))
        pattern: Any = self.pattern
        return pattern.replace(  # type: ignore[no-any-return]
            constvars=[],
            invars=list(inputs),
            outvars=list(outputs),
            eqns=list(equations),
            effects=effects,
        )


def inline_calls(closed: ClosedJaxpr) -> FlatJaxpr:
    """The same without calls."""
    inliner = _Inliner()
    outputs = inliner.body(closed.jaxpr, closed.consts, closed.jaxpr.invars)
    return FlatJaxpr(
        tuple(closed.jaxpr.invars),
        inliner.constants,
        tuple(inliner.equations),
        tuple(outputs),
        closed.jaxpr,
    )


class _Inliner:
    def __init__(self) -> None:
        self.equations: list[JaxprEqn] = []
        self.constants: dict[Var, Any] = {}
        self._held: dict[int, Var] = {}
        self._place: Any = None

    def body(self, jaxpr: Jaxpr, constants: Sequence[Any], operands: Sequence[Atom]) -> list[Atom]:
        atoms: dict[Var, Atom] = dict(zip(jaxpr.invars, operands, strict=True))
        for var, value in zip(jaxpr.constvars, constants, strict=True):
            atoms[var] = self.constant(var, value)

        def atom(own: Atom) -> Atom:
            return own if isinstance(own, Literal) else atoms[own]

        for equation in jaxpr.eqns:
            equation = self.placed(equation)
            found = self.equation(equation, [atom(one) for one in equation.invars])
            atoms.update(zip(equation.outvars, found, strict=True))
        return [atom(one) for one in jaxpr.outvars]

    def constant(self, var: Var, value: Any) -> Var:
        """One variable for an array, however often it is closed over."""
        own = self._held.setdefault(id(value), var)
        if own not in self.constants:
            # NumPy's may change; what is compiled or packed of one must never be of several moments
            self.constants[own] = np.array(value) if isinstance(value, np.ndarray) else value
        return own

    def placed(self, equation: JaxprEqn) -> JaxprEqn:
        """What a library's function does is done where it was called."""
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
            found = self.body(inner, getattr(body, "consts", ()), operands)
            self._place = outside
            return found
        results = [Var(one.aval) for one in equation.outvars]
        self.equations.append(equation.replace(invars=list(operands), outvars=list(results)))
        return results


def _is_plain_call(equation: JaxprEqn) -> bool:
    """A call that asks for no placement and no options of its own."""
    params = equation.params
    placed = (*params.get("in_shardings", ()), *params.get("out_shardings", ()))
    laid = (*params.get("in_layouts", ()), *params.get("out_layouts", ()))
    return (
        equation.primitive.name in _CALLS
        and all(type(one).__name__ == "UnspecifiedValue" for one in placed)
        and all(one is None for one in laid)
        and not params.get("compiler_options_kvs")
        and not _draws(equation)
    )


def _draws(equation: JaxprEqn) -> bool:
    """Whether it takes keys and numbers alone: random numbers stay as they are drawn."""
    types = [aval(one) for one in equation.invars]
    keys = [str(one.dtype).startswith("key<") for one in types]
    return any(keys) and all(key or not one.shape for key, one in zip(keys, types, strict=True))
