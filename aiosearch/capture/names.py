"""Names of a captured program and of its inputs."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Sequence

import jax

from .jax_types import Function, PyTree


def title(function: Function, name: str | None) -> str:
    """The program's name: the one given, or the function's; a partial has that of its function.

    What is called and has no name of its own has that of its class.
    """
    while isinstance(function, functools.partial):
        function = function.func
    text = name if name is not None else str(getattr(function, "__name__", type(function).__name__))
    return re.sub(r"\W", "_", text).strip("_") or "captured"


def shown(function: Function) -> str:
    """What a message calls a function: never its arguments, as the text of a partial does."""
    if isinstance(function, functools.partial):
        return f"partial of {shown(function.func)}"
    return str(getattr(function, "__qualname__", type(function).__qualname__))


def input_names(function: Function, args: Sequence[PyTree]) -> list[str]:
    """A name for each leaf: the parameter's, and the way to the leaf in its tree."""
    names: list[str] = []
    for position, argument in enumerate(args):
        stem = parameter(function, position)
        for path, _ in jax.tree_util.tree_flatten_with_path(argument)[0]:
            steps = re.findall(r"\w+", jax.tree_util.keystr(path))
            names.append(_free("_".join([stem, *steps]), names))
    return names


def parameter(function: Function, position: int) -> str:
    """The name of the parameter that takes what is given at a position."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return f"x{position}"
    for index, parameter in enumerate(signature.parameters.values()):
        if parameter.kind is parameter.VAR_POSITIONAL:
            return f"{parameter.name}{position - index}"
        if index == position:
            return parameter.name
    return f"x{position}"


def _free(name: str, used: Sequence[str]) -> str:
    free, count = name, 1
    while free in used:
        count += 1
        free = f"{name}_{count}"
    return free
