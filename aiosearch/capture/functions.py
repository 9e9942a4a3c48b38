"""`capture`: traces a JAX function and reads it as a tensor program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import jax
from jax.extend.core import ClosedJaxpr

from ..tensor import Program, Term, tensor
from .constants import ClosedOverConstants
from .errors import CaptureError
from .jax_types import AbstractArray, Function, NumpyArray, PyTree
from .jaxprs import JaxprReader, Known
from .names import input_names, title
from .values import element_type, whole


@dataclass(frozen=True)
class Captured:
    """A program, and the values of those of its inputs that the function closed over.

    They follow the arguments, and are named by what they hold, so that equal arrays of two
    functions are one input.
    """

    program: Program
    constants: Mapping[str, NumpyArray]
    """The arrays by the names of their inputs."""


def capture(function: Function, *args: PyTree, name: str | None = None) -> Captured:
    """Reads a function of arrays as a program; raises `CaptureError` where the language has no
    words for it.

        capture(lambda x, w: x @ w, x, w).program       # one `matmul` of two inputs

    Arguments are arrays or `jax.ShapeDtypeStruct`s, or trees of them, whose leaves become inputs.
    """
    closed = _traced(function, args)
    inputs = [
        tensor(name_of_input, element_type(var.aval.dtype), _sizes(var.aval))
        for name_of_input, var in zip(input_names(function, args), closed.jaxpr.invars, strict=True)
    ]
    constants = ClosedOverConstants()
    reader = JaxprReader(constants)
    arguments = [whole(term, term.dtype) for term in inputs]
    outputs = [_whole(value) for value in reader.closed(closed, arguments)]
    used = constants.used(outputs)
    program = Program(title(function, name), (*inputs, *used), tuple(outputs))
    return Captured(program, {term.parameter("name"): array for term, array in used.items()})


def with_one_set_of_constants(captured: Sequence[Captured]) -> tuple[list[Program], list[str]]:
    """Gives every program the closed-over arrays of all programs as its last inputs.

    The functions take equal arguments. What comes back is the programs, and the names of the
    inputs that were added.
    """
    held = {
        term.parameter("name"): term
        for function in captured
        for term in function.program.inputs
        if term.parameter("name") in function.constants
    }
    programs = [
        Program(
            program.name,
            (*(term for term in program.inputs if term not in held.values()), *held.values()),
            program.outputs,
        )
        for program in (function.program for function in captured)
    ]
    return programs, list(held)


def _traced(function: Function, args: Sequence[PyTree]) -> ClosedJaxpr:
    try:
        return jax.make_jaxpr(function)(*args)
    # Only what a tracer refuses, as a branch on its value: other errors are those of the function's
    # own code.
    except (jax.errors.JAXTypeError, jax.errors.JAXIndexError) as error:
        reason = str(error).partition("\n")[0]
        raise CaptureError("", f"it depends on what its arguments hold: {reason}") from None


def _whole(value: Known) -> Term:
    if isinstance(value, CaptureError):
        raise value
    return value.full()


def _sizes(aval: AbstractArray) -> tuple[int, ...]:
    if not all(isinstance(size, int) for size in aval.shape):
        raise CaptureError("", f"sizes are not known in {aval}")
    return tuple(aval.shape)
