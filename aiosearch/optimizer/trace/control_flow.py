"""Loops and branches: the functions that a `scan`, `while` or `cond` runs, and the same equation
with others in their place. What `CALLS` run, as `jax.checkpoint` does, is looked into likewise.

Example: `lax.scan(step, h, xs)` is an equation `scan` with the jaxpr of `step` among its
parameters. `functions` gives that jaxpr, with the operands that each step gets unchanged; `run`
runs the equation with a function of ours as the step.

    (step,) = functions(equation)
    step.jaxpr, step.operands       # operands: `[w, None, None]` for a constant, a carry and a row
    run(equation, [w, h, xs], [faster_step])

`run` goes through jax's public functions, so that a function may close over arrays of an outer
trace, and derivatives and batches are jax's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from jax import lax
from jax.extend.core import ClosedJaxpr, JaxprEqn
from jax.extend.core.primitives import convert_element_type_p

from ...capture.jax_types import AbstractArray, Atom, Leaf, Parameters, aval
from ...capture.jaxprs import scan_operands

CALLS = frozenset({"checkpoint", "custom_jvp_call", "custom_vjp_call", "remat2"})
"""Calls that say of their derivatives, or of what is kept for them; `run` does not run them, as
what replaces their function has no derivatives of its own."""

Run: TypeAlias = Callable[..., Sequence[Leaf]]
"""A function of arrays, in order, that gives arrays in order."""


@dataclass(frozen=True)
class ControlledFunction:
    """A function that a loop or a branch runs."""

    jaxpr: ClosedJaxpr
    operands: tuple[Atom | None, ...]
    """For each of its inputs the operand of the equation that it is in every run; `None` where each
    step of a loop has another."""


def functions(equation: JaxprEqn) -> tuple[ControlledFunction, ...]:
    """What a loop or a branch runs, in the order of its parameters; empty for anything else."""
    params, operands = equation.params, equation.invars
    match equation.primitive.name:
        case "scan":
            constants, _ = scan_operands(params)
            return (_controlled(params["jaxpr"], operands[:constants]),)
        case "while":
            condition, body = _while_operands(params, operands)
            return (
                _controlled(params["cond_jaxpr"], condition),
                _controlled(params["body_jaxpr"], body),
            )
        case "cond":
            return tuple(_controlled(branch, operands[1:]) for branch in params["branches"])
        case name if name in CALLS:
            keys = ("jaxpr", "call_jaxpr", "fun_jaxpr")
            called: Any = next(params[key] for key in keys if key in params)
            closed = called if hasattr(called, "consts") else ClosedJaxpr(called, ())
            # No operand is said to stay the same: nothing that is packed can be handed in.
            return (_controlled(closed, ()),)
    return ()


def _controlled(jaxpr: ClosedJaxpr, fixed: Sequence[Atom]) -> ControlledFunction:
    changing = len(jaxpr.jaxpr.invars) - len(fixed)
    return ControlledFunction(jaxpr, (*fixed, *[None] * changing))


def _while_operands(
    params: Parameters, operands: Sequence[Atom]
) -> tuple[Sequence[Atom], Sequence[Atom]]:
    """The operands that only the condition, and that only the body of a `while` gets."""
    condition = params["cond_nconsts"]
    return operands[:condition], operands[condition:][: params["body_nconsts"]]


def can_be_opened(equation: JaxprEqn) -> bool:
    """Whether what it runs may be run by `run`: not where it has effects, or runs in a way of its
    own, nor where the platform chooses, nor a `while` whose condition is an array."""
    context = equation.ctx
    plain = context.compute_type is None and not context.xla_metadata
    by_platform = equation.params.get("branches_platforms") is not None
    controlled = functions(equation)
    # `jax.vmap` makes a condition for each of the batch, which `lax.while_loop` does not take.
    batched = equation.primitive.name == "while" and bool(controlled[0].jaxpr.out_avals[0].shape)
    return bool(controlled) and plain and not (equation.effects or by_platform or batched)


def run(
    equation: JaxprEqn, operands: Sequence[Leaf], replacements: Sequence[Run]
) -> Sequence[Leaf]:
    """The results of a loop or a branch that runs these functions in the place of its own."""
    params = equation.params
    # A number of Python has another type than the array that it stands for.
    values = [
        _typed(value, aval(atom)) for value, atom in zip(operands, equation.invars, strict=True)
    ]
    match equation.primitive.name:
        case "scan":
            results = _scan(params, values, *replacements)
        case "while":
            results = _while(params, values, *replacements)
        case "cond":
            branches = [_tupled(branch) for branch in replacements]
            results = lax.switch(values[0], branches, *values[1:])
        case name:
            raise ValueError(f"{name} runs no functions")
    return [
        _typed(result, aval(output))
        for result, output in zip(results, equation.outvars, strict=True)
    ]


def _scan(params: Parameters, operands: Sequence[Leaf], body: Run) -> Sequence[Leaf]:
    constants, carries = scan_operands(params)
    fixed, rows = operands[:constants], operands[constants + carries :]

    def step(carried: Sequence[Leaf], row: Sequence[Leaf]) -> tuple[Leaf, Leaf]:
        results = tuple(body(*fixed, *carried, *row))
        return results[:carries], results[carries:]

    carried, stacked = lax.scan(
        step,
        tuple(operands[constants:][:carries]),
        tuple(rows),
        length=params["length"],
        reverse=params["reverse"],
        unroll=params["unroll"],
    )
    return [*carried, *stacked]


def _while(
    params: Parameters, operands: Sequence[Leaf], condition: Run, body: Run
) -> Sequence[Leaf]:
    for_condition, for_body = _while_operands(params, operands)
    start = operands[len(for_condition) + len(for_body) :]
    results: Sequence[Leaf] = lax.while_loop(
        lambda carried: condition(*for_condition, *carried)[0],
        lambda carried: tuple(body(*for_body, *carried)),
        tuple(start),
    )
    return results


def _tupled(branch: Run) -> Callable[..., tuple[Leaf, ...]]:
    return lambda *operands: tuple(branch(*operands))


def _typed(value: Leaf, expected: AbstractArray) -> Leaf:
    """The value with this element type, weak where that is."""
    actual = getattr(value, "aval", None)
    if actual is not None and (actual.dtype, actual.weak_type) == (
        expected.dtype,
        expected.weak_type,
    ):
        return value
    return convert_element_type_p.bind(
        value, new_dtype=expected.dtype, weak_type=expected.weak_type, sharding=None
    )
