"""From what a command names to a JAX function and the types of its arguments."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..optimizer.emit import emit, names
from ..tensor import DType, Program, TensorType
from ..tensor.programs import BUILTINS
from . import targets
from .usage import UsageError


@dataclass(frozen=True)
class Target:
    """A function that can be traced."""

    name: str
    function: Callable[..., Any]
    types: Sequence[TensorType]


def target(arguments: argparse.Namespace) -> Target:
    """What the command line names; a program is taken as JAX code that computes it."""
    name, given = arguments.function, targets.types(arguments.arg)
    if targets.is_function(name):
        function = targets.function(name)
        _require_arguments(name, function, given)
        return Target(name, function, given)
    if given:
        raise UsageError(f"--arg is for functions; {name} is a program, whose sizes --shape sets")
    program = _program(name, arguments)
    return Target(name, _function(program), [term.type for term in program.inputs])


def _program(name: str, arguments: argparse.Namespace) -> Program:
    sizes = targets.sizes(arguments.shape)
    if name not in BUILTINS:
        return targets.find_program(name, sizes)
    if arguments.dtype not in (found.value for found in DType if found is not DType.WEAK):
        raise UsageError(f"--dtype {arguments.dtype}: there are f64, f32, f16, bf16")
    return BUILTINS[name].program(arguments.dtype, **sizes)


def _function(program: Program) -> Callable[..., Any]:
    module: dict[str, Any] = {}
    name, _ = names(program)
    exec(compile(emit(program), f"<{program.name}>", "exec"), module)
    function: Callable[..., Any] = module[name]
    return function


def _require_arguments(
    name: str, function: Callable[..., Any], given: Sequence[TensorType]
) -> None:
    """Says that types are missing, before jax says it in its own way."""
    try:
        inspect.signature(function).bind(*given)
    except TypeError as error:
        told = f"{error}; give the type of each, as --arg f32[16,4096]"
        raise UsageError(f"{name}: {told}") from None
    except ValueError:  # some callables tell nothing of their arguments
        return
