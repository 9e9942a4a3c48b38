"""Validation of the options and arguments of `optimize`, with the messages for wrong ones."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from ..arguments import is_whole, nearest
from ..capture.names import title
from .call_kinds import is_gone, is_traced
from .errors import OptimizeError
from .outcomes.results import Results
from .trace.call_signature import BY_POSITION

_METHODS = ("compile", "run", "race")
_SHOWN = 40


def demand(
    function: Any, args: Sequence[Any], named: Mapping[str, Any], options: Mapping[str, Any]
) -> None:
    """Raises OptimizeError for what is no function, and for an option that cannot be one."""
    _demand_function(function)
    demand_options(function, options, len(args))
    own = options["kwargs"] or {}
    for name in own.keys() & named.keys():
        raise OptimizeError(f"{name} is given by name, and in kwargs too")
    _demand_known(function, named)
    for name in _missing(function, args, {**own, **named}):
        raise OptimizeError(
            f"{title(function, None)} takes {name}, and optimize has an option of that name"
            + _elsewhere(function, name)
        )


def demand_values(function: Any, given: Mapping[str, Any], held: Sequence[Any]) -> None:
    """Raises OptimizeError where one is what jax is tracing, which is no array yet, or is gone.

    `given` has what it is called with, by name, and `held` what it closes over.
    """
    if is_traced((given, held)):
        raise OptimizeError(
            f"{title(function, None)} is optimized where jax traces, as inside jit, grad or vmap:"
            " call optimize before, with arrays or jax.ShapeDtypeStructs, and what it gives there"
        )
    arrays = [*given.items(), *(("an array that it closes over", one) for one in held)]
    for name, one in arrays:
        if is_gone(one):
            raise OptimizeError(
                f"{title(function, None)} cannot be optimized with {name}, which was deleted, or"
                " donated to another call: give an array that is still there"
            )


def demand_options(function: Any, options: Mapping[str, Any], given: int | None = None) -> None:
    """Raises OptimizeError for one that there is not, or that cannot be what it is given as.

    So many arguments are given by position, where that is known.
    """
    for name, value in options.items():
        if name not in _OPTIONS:
            raise OptimizeError(f"no option {name!r}: there are {_listed(_OPTIONS)}")
        told, may_be = _OPTIONS[name]
        if not may_be(value):
            raise OptimizeError(
                f"{name} is an option of optimize and has to be {told}, not {_kind(value)}"
                + (_elsewhere(function, name) if _takes(function, name) else "")
            )
    _demand_places(function, options, given)
    _demand_names(function, options)


def _demand_function(function: Any) -> None:
    if not callable(function):
        raise OptimizeError(f"optimize takes a function first, not {_kind(function)}")
    for kind, is_one in _UNTRACEABLE.items():
        if is_one(function) or is_one(type(function).__call__):
            raise OptimizeError(
                f"{title(function, None)} is {kind}, which jax cannot trace: give the part that"
                " computes with arrays, as a plain function"
            )


def _demand_places(function: Any, options: Mapping[str, Any], given: int | None) -> None:
    """Says which argument is meant that the function does not take."""
    count = _count(function)
    count = given if count is None else count
    if count is None:
        return
    for option in ("static_argnums", "constant_argnums"):
        for at in _several(options.get(option, ())):
            if not -count <= at < count:
                told = f"{title(function, None)} takes {count} by position"
                raise OptimizeError(f"{option} has {at}, and {told}")


def _demand_known(function: Any, named: Iterable[str]) -> None:
    """What looks like an option, and is none nor an argument, is one that is misspelt."""
    for name in named:
        meant = nearest(name, _OPTIONS)
        if meant and _parameters(function) is not None and not _takes(function, name):
            raise OptimizeError(
                f"{title(function, None)} takes no {name}, nor is there such an option{meant}"
            )


def _count(function: Any) -> int | None:
    """How many arguments it takes by position; nothing where those may be any number."""
    parameters = _parameters(function)
    if parameters is None or any(one.kind is one.VAR_POSITIONAL for one in parameters.values()):
        return None
    return sum(one.kind in BY_POSITION for one in parameters.values())


def _demand_names(function: Any, options: Mapping[str, Any]) -> None:
    parameters = _parameters(function)
    for name in _several(options.get("static_argnames", ())):
        if parameters is not None and not _takes(function, name):
            told = f"{title(function, None)} has {_listed(parameters)}"
            raise OptimizeError(f"static_argnames has {name!r}, and {told}")


def _several(given: Any) -> Collection[Any]:
    return (given,) if isinstance(given, int | str) else given


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "no arguments"


def _are_places(value: Any) -> bool:
    return is_whole(value) or (isinstance(value, Sequence) and all(map(is_whole, value)))


def _are_names(value: Any) -> bool:
    names = isinstance(value, Collection) and all(isinstance(one, str) for one in value)
    return isinstance(value, str) or names


def _is_executor(value: Any) -> bool:
    return all(callable(getattr(value, method, None)) for method in _METHODS)


_UNTRACEABLE: Mapping[str, Callable[[Any], bool]] = {
    "a coroutine function": inspect.iscoroutinefunction,
    "a generator function": inspect.isgeneratorfunction,
    "an async generator function": inspect.isasyncgenfunction,
}
_OPTIONS: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "effort": ("quick, default or exhaustive", lambda value: isinstance(value, str)),
    "target": ("auto, cpu or cuda", lambda value: isinstance(value, str)),
    "seed": ("a whole number from 0", lambda value: is_whole(value) and value >= 0),
    "strict": ("True or False", lambda value: isinstance(value, bool)),
    "kernels": ("True or False", lambda value: isinstance(value, bool)),
    "static_argnums": ("the place of an argument, or several", _are_places),
    "static_argnames": ("the name of an argument, or several", _are_names),
    "constant_argnums": ("the place of an argument, or several", _are_places),
    "results": (
        "a store, as aiosearch.optimizer.Results.open(path) gives it",
        lambda value: value is None or isinstance(value, Results),
    ),
    "executor": (
        "an aiosearch.measure.Executor",
        lambda value: value is None or _is_executor(value),
    ),
    "tell": ("a function of one text", callable),
    "kwargs": (
        "a mapping from names to arguments",
        lambda value: value is None or (isinstance(value, Mapping) and _are_names(value)),
    ),
}


def _missing(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[str]:
    """The arguments that the function has to get and does not, and that are called as options."""
    signature = _signature(function)
    try:
        bound = signature.bind_partial(*args, **kwargs).arguments if signature else {}
    except TypeError:  # tracing says what is wrong
        return []
    return [
        name
        for name, one in (signature.parameters if signature else {}).items()
        if name in _OPTIONS
        and name not in bound
        and one.default is one.empty
        and one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)
    ]


def _takes(function: Any, name: str) -> bool:
    parameters = _parameters(function) or {}
    return name in parameters or any(one.kind is one.VAR_KEYWORD for one in parameters.values())


def _signature(function: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def _parameters(function: Any) -> Mapping[str, inspect.Parameter] | None:
    signature = _signature(function)
    return signature.parameters if signature else None


def _elsewhere(function: Any, name: str) -> str:
    return f"; {title(function, None)}'s own goes into kwargs={{{name!r}: ...}}"


def _kind(value: Any) -> str:
    """What a value is, in a few words: never an array's numbers."""
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"an array {value.dtype}{list(value.shape)}"
    if value is None or isinstance(value, str | int | float):
        told = repr(value)
        return told if len(told) <= _SHOWN else f"{told[:_SHOWN]}..."
    return f"of the type {type(value).__name__}"
