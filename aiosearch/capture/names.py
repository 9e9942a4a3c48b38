"""Names of a captured program and of its inputs."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Sequence

import jax

from .jax_types import Function, PyTree


def title(function: Function, name: str | None) -> str:
    """The program's name: `name`, or the function's; a partial has that of its function.

    A callable object without a name of its own has that of its class.
    """
    # A partial has no name, and its text has the arguments, which may be large.
    while isinstance(function, functools.partial):
        function = function.func
    text = name if name is not None else str(getattr(function, "__name__", type(function).__name__))
    return re.sub(r"\W", "_", text).strip("_") or "captured"


def shown(function: Function) -> str:
    """The name of a function in a message: never its arguments, as the text of a
    partial has them."""
    if isinstance(function, functools.partial):
        return f"partial of {shown(function.func)}"
    return str(getattr(function, "__qualname__", type(function).__qualname__))


def input_names(function: Function, args: Sequence[PyTree]) -> list[str]:
    """A name for each leaf: the parameter's, and the path to the leaf in its tree, as `params_w`
    for `params["w"]`."""
    names: list[str] = []
    for position, argument in enumerate(args):
        stem = parameter(function, position)
        for path, _ in jax.tree_util.tree_flatten_with_path(argument)[0]:
            steps = re.findall(r"\w+", jax.tree_util.keystr(path))
            names.append(_free("_".join([stem, *steps]), names))
    return names


def parameter(function: Function, position: int) -> str:
    """The name of the parameter that takes what is given at `position`; `x2` where the signature is
    not known."""
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
