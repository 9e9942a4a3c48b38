"""Work that each step of a loop does alike, moved out of the loop: loop-invariant code motion.

Example: of

    lax.scan(lambda h, x: (jnp.tanh(x + h @ (w * mask)), h), h, xs)

the product `w * mask` depends on what the loop takes unchanged alone. `move_out` computes it before
the loop, which takes the result in addition. There it is a part of the function like any other: it
joins the regions around the loop, and is prepared once where the weights stay the same.

XLA does so too, but behind a cut: what is searched for a step would hold the product, and be raced
with it.

Invariant: moved equations are pure, and compute what they computed. A loop of no steps computes
them in vain, and nothing sees it. What is larger than all that it is made of stays: the loop would
read from memory what it can make itself; so does what only moves elements.

Cost: one pass over the equations of each loop for every value that turns out to stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal, Var

from ...capture.jax_types import Atom, aval
from .control_flow import can_be_opened
from .equations import EquationKind, equation_kind
from .flat_jaxpr import FlatJaxpr, inline_calls

_COUNTS = {
    "scan": ("jaxpr", "num_consts", ""),
    "while": ("body_jaxpr", "body_nconsts", "cond_nconsts"),
}
"""By loop: the parameters that have its body, how many operands that takes unchanged, and how many
operands come before those."""


def move_out(flat: FlatJaxpr) -> FlatJaxpr:
    """The function with what is alike in each step of a loop before that loop; from loops in loops
    as far out as it goes."""
    equations: list[JaxprEqn] = []
    constants = dict(flat.constants)
    for equation in flat.equations:
        if not _is_known_loop(equation):
            equations.append(equation)
            continue
        parameter, count, _ = _COUNTS[equation.primitive.name]
        body = move_out(inline_calls(equation.params[parameter], equation.source_info))
        moved = _invariant(body, equation.params[count])
        if not moved:
            equations.append(equation)
            continue
        outside = _outside(equation, body, moved)
        constants |= {
            var: body.constants[var] for step in outside for var in step.invars
            if not isinstance(var, Literal) and var in body.constants
        }  # fmt: skip
        equations += [*outside, _taking(equation, body, moved)]
    return replace(flat, constants=constants, equations=tuple(equations))


def _is_known_loop(equation: JaxprEqn) -> bool:
    """Whether it is a loop whose operands are counted as this version of jax is known to."""
    counts = _COUNTS.get(equation.primitive.name)
    return counts is not None and counts[1] in equation.params and can_be_opened(equation)


def _invariant(body: FlatJaxpr, unchanged: int) -> list[JaxprEqn]:
    """The equations of a loop's body that are worth to be computed once, in order."""
    fixed: set[Var] = {*body.inputs[:unchanged], *body.constants}
    candidates: list[JaxprEqn] = []
    for equation in body.equations:
        operands = [atom for atom in equation.invars if not isinstance(atom, Literal)]
        if operands and not equation.effects and fixed.issuperset(operands):
            candidates.append(equation)
            fixed.update(equation.outvars)
    # A value that is not worth it stays in the loop, and then those that only it needed do too.
    while losing := _not_worth_it(body, candidates):
        candidates = [equation for equation in candidates if id(equation) not in losing]
    return candidates


def _not_worth_it(body: FlatJaxpr, moved: Sequence[JaxprEqn]) -> set[int]:
    """The identities of equations that give the loop what it would rather make itself."""
    needed = set(_crossing(body, moved))
    largest: dict[Var, int] = {}
    computes: dict[Var, bool] = {}
    losing = set()
    for equation in moved:
        operands = [atom for atom in equation.invars if not isinstance(atom, Literal)]
        source = max(largest.get(atom, aval(atom).size) for atom in operands)
        computing = equation_kind(equation) is not EquationKind.MOVE or any(
            computes.get(atom, False) for atom in operands
        )
        largest.update(dict.fromkeys(equation.outvars, source))
        computes.update(dict.fromkeys(equation.outvars, computing))
        results = needed.intersection(equation.outvars)
        if any(aval(var).size > source or not computing for var in results):
            losing.add(id(equation))
    return losing


def _crossing(body: FlatJaxpr, moved: Sequence[JaxprEqn]) -> list[Var]:
    """The results of moved equations that what stays in the loop takes, in order."""
    gone = {id(equation) for equation in moved}
    taken: set[Atom] = {atom for atom in body.outputs if not isinstance(atom, Literal)}
    for equation in body.equations:
        if id(equation) not in gone:
            taken.update(atom for atom in equation.invars if not isinstance(atom, Literal))
    return [var for equation in moved for var in equation.outvars if var in taken]


def _outside(equation: JaxprEqn, body: FlatJaxpr, moved: Iterable[JaxprEqn]) -> list[JaxprEqn]:
    """The moved equations on what the loop takes; their results keep their variables, each of which
    is set here alone."""
    _, count, before = _COUNTS[equation.primitive.name]
    first = equation.params[before] if before else 0
    operands = equation.invars[first : first + equation.params[count]]
    atoms: dict[Var, Atom] = dict(zip(body.inputs, operands, strict=False))

    def atom(inner: Atom) -> Atom:
        return inner if isinstance(inner, Literal) else atoms.get(inner, inner)

    return [step.replace(invars=[*map(atom, step.invars)]) for step in moved]


def _taking(equation: JaxprEqn, body: FlatJaxpr, moved: Sequence[JaxprEqn]) -> JaxprEqn:
    """The loop that takes what was moved, behind all else that it takes unchanged."""
    parameter, count, before = _COUNTS[equation.primitive.name]
    unchanged = equation.params[count]
    results = _crossing(body, moved)
    # Variables of their own inside: those outside are set by the moved equations.
    inner = {var: Var(var.aval) for var in results}

    def atom(outer: Atom) -> Atom:
        return outer if isinstance(outer, Literal) else inner.get(outer, outer)

    gone = {id(step) for step in moved}
    steps = [
        step.replace(invars=[*map(atom, step.invars)])
        for step in body.equations
        if id(step) not in gone
    ]
    inputs = [*body.inputs[:unchanged], *inner.values(), *body.inputs[unchanged:]]
    held = list(body.constants)
    jaxpr: Any = body.part(inputs, steps, [*map(atom, body.outputs)])
    closed = ClosedJaxpr(jaxpr.replace(constvars=held), [body.constants[var] for var in held])
    params = {**equation.params, parameter: closed, count: unchanged + len(results)}
    at = (equation.params[before] if before else 0) + unchanged
    operands = [*equation.invars[:at], *results, *equation.invars[at:]]
    taking: JaxprEqn = equation.replace(invars=operands, params=params)
    return taking
