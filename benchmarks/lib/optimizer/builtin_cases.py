"""The built-in programs as cases: bf16, at their own sizes, written as `aiosearch optimize` does.

And the normalised linear layer at few rows, beside the fastest spellings in plain JAX that were
found for it by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from corpus import DTYPES, Argument, Array, Case, Function

from aiosearch.optimizer.candidates.jax_source import emit, names
from aiosearch.tensor import Program
from aiosearch.tensor.programs import BUILTINS, builtin

FAMILY = "built-in programs"
F32 = jnp.float32


def cases() -> dict[str, Case]:
    """All of them by name."""
    found = [case(BUILTINS[name].program("bf16")) for name in BUILTINS]
    found += [case(few_rows(name, rows)) for name, rows in ROWS.items()]
    return {one.name: one for one in found}


ROWS = {"rms_norm_one_row": 1, "rms_norm_eight_rows": 8}


def few_rows(name: str, rows: int) -> Program:
    """The normalised linear layer with a square weight."""
    program = builtin("rms_norm", "bf16", row=rows, column=4096)
    return Program(name, program.inputs, program.outputs)


def case(program: Program) -> Case:
    """A program as JAX code, and arguments that keep its results of ordinary size."""
    arguments = [
        Argument(
            DTYPES[str(term.dtype)],
            tuple(int(str(size)) for size in term.shape),
            "operand" if place and len(term.shape) > 1 else "normal",
        )
        for place, term in enumerate(program.inputs)
    ]
    return Case(FAMILY, written(program), tuple(arguments))


def written(program: Program) -> Function:
    module: dict[str, Any] = {}
    exec(compile(emit(program), f"<{program.name}>", "exec"), module)
    function: Function = module[names(program)[0]]
    return function


# By hand


def _normalised(x: Array) -> Array:
    return x / jnp.sqrt(jnp.mean(x * x, axis=-1, keepdims=True))


def sums_in_32_bits(x: Array, w: Array) -> Array:
    return jnp.dot(_normalised(x), w, preferred_element_type=F32).astype(x.dtype)


def padded_to_two_rows(x: Array, w: Array) -> Array:
    rows = jnp.pad(_normalised(x), ((0, 1), (0, 0)))
    return jnp.dot(rows, w, preferred_element_type=F32)[:1].astype(x.dtype)


BY_HAND: Mapping[str, Callable[[Array, Array], Array]] = {
    "rms_norm_one_row": padded_to_two_rows,
    "rms_norm_eight_rows": sums_in_32_bits,
}


def target(name: str) -> float | None:
    """How many times as fast as written it is to be with this version of jax, where that is set."""
    old = jax.__version_info__ < (0, 11)
    return {
        "rms_norm_one_row": None if old else 13.0,
        "rms_norm_eight_rows": 10.0 if old else None,
    }.get(name)
