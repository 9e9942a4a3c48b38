"""JAX functions, and the types of their arguments, by what a command names."""

from __future__ import annotations

import argparse
import functools
import inspect
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from ...arguments import nearest
from ...capture.jax_types import Function, PyTree
from ...optimizer import emit, names
from ...tensor import Program, TensorType
from ..output.streams import UsageError
from . import programs
from .objects import UserObject, load
from .values import is_file


@dataclass(frozen=True)
class FunctionTarget:
    """A function that can be traced."""

    name: str
    function: Function
    types: Sequence[TensorType]
    constant: tuple[int, ...] = ()
    """The arguments that stay the same from call to call."""
    named: Mapping[str, TensorType] = field(default_factory=dict)
    """Of the arguments that are given by name."""
    values: tuple[PyTree, ...] | None = None
    """Arguments themselves, where the module of the function gives examples; then no `types`."""

    @property
    def all_types(self) -> list[TensorType]:
        """Of its arguments, however they are given."""
        return [*self.types, *self.named.values()]


def target(arguments: argparse.Namespace) -> FunctionTarget:
    """What the command line names; a program is taken as JAX code that computes it."""
    name, (texts, statics) = arguments.function, programs.static_values(arguments.arg)
    positional, named = programs.named_types(texts)
    if programs.is_function(name):
        programs.require_no_dtype(name, arguments.dtype)
        function = programs.function(name, statics)
        if not arguments.arg and (example := example_inputs(name)) is not None:
            places = _places(arguments.constant, function, len(example))
            return FunctionTarget(name, function, [], places, values=example)
        positional, named = bound(name, function, positional, named)
        places = _places(arguments.constant, function, len(positional))
        return FunctionTarget(name, function, positional, places, named)
    program = programs.typed_program(name, programs.sizes(arguments.shape), arguments.dtype)
    if arguments.arg:
        raise UsageError(f"--arg is for functions; {name} is a program, whose sizes --shape sets")
    function, types = _function(program), [term.type for term in program.inputs]
    return FunctionTarget(name, function, types, _places(arguments.constant, function, len(types)))


def example_inputs(name: str) -> tuple[PyTree, ...] | None:
    """Arguments that the module of `mymodule:f` gives by a function `f_inputs`, if it has one.

    They may be trees of arrays and keys, which no type on the command line says.
    """
    where, _, function = name.rpartition(":")
    give: UserObject = getattr(load(where), f"{function}_inputs", None)
    if give is None:
        return None
    values: UserObject = give()
    if not isinstance(values, tuple):
        raise UsageError(
            f"{name}_inputs gives {type(values).__name__}, and should give the tuple of the"
            f" arguments of {function}"
        )
    return values


def source_files(target: FunctionTarget) -> list[Path]:
    """Where what a target names is written, as far as that is known."""
    function = inspect.unwrap(target.function)
    while isinstance(function, functools.partial):
        function = inspect.unwrap(function.func)
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    named = target.name if is_file(target.name) else target.name.rpartition(":")[0]
    paths = [named, getattr(module, "__file__", None)]
    with suppress(TypeError):  # it is no function of Python's
        paths.append(inspect.getsourcefile(function))
    return [Path(path) for path in paths if path]


def _places(arguments: Sequence[str], function: Function, count: int) -> tuple[int, ...]:
    """The places of arguments that are called by name or place."""
    try:
        names = list(inspect.signature(function).parameters)[:count]
    except ValueError:
        names = []
    places = {name: at for at, name in enumerate(names)} | {str(at): at for at in range(count)}
    for argument in arguments:
        if argument not in places:
            choices = f"there are {', '.join(names)}" if names else f"it takes {count}"
            raise UsageError(f"--constant {argument}: no such argument; {choices}")
    return tuple(sorted({places[argument] for argument in arguments}))


def _function(program: Program) -> Function:
    module: dict[str, UserObject] = {}
    name, _ = names(program)
    exec(compile(emit(program), f"<{program.name}>", "exec"), module)
    function: Function = module[name]
    return function


def bound(
    name: str,
    function: Function,
    positional: list[TensorType],
    named: dict[str, TensorType],
) -> tuple[list[TensorType], dict[str, TensorType]]:
    """The types as the function takes them: by name only what has to be.

    Says that some are missing, before jax says it in its own way.
    """
    try:
        signature = inspect.signature(function)
        _require_known(name, signature.parameters, named)
        call = signature.bind(*positional, **named)
    except TypeError as error:
        message = (
            f"{error}; give the type of each, as --arg f32[16,4096] or --arg name=f32[16,4096]"
        )
        raise UsageError(f"{name}: {message}") from None
    except ValueError:  # some callables tell nothing of their arguments
        return positional, named
    return list(call.args), call.kwargs


def _require_known(
    name: str, parameters: Mapping[str, inspect.Parameter], named: Iterable[str]
) -> None:
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    for parameter in named:
        if parameter not in parameters:
            close = nearest(parameter, parameters)
            raise UsageError(f"--arg {parameter}=...: {name} takes no argument of that name{close}")
