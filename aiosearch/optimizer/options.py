"""Validation of the options and arguments of `optimize`, with the messages for wrong ones.

A wrong option is refused before anything is traced, in a sentence that says what it may be; a name
that is the function's and an option's as well is explained.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real

import msgspec

from ..arguments import is_whole, nearest
from ..capture.jax_types import Function, Parameters, PyTree
from ..capture.names import title
from ..measure import Executor
from ..measure.race import LEAST_ROUNDS
from .call_kinds import is_gone, is_traced
from .effort import Budget, Effort
from .errors import OptimizeError
from .outcomes.report import Tell
from .outcomes.results import Results
from .progress import HearProgress
from .trace.call_signature import BY_POSITION

_METHODS = ("compile", "run", "race")
"""Methods by which an object is taken for an `Executor`."""
_SHOWN = 40
"""Characters of a value that a message shows."""


@dataclass(frozen=True)
class Options:
    """What `optimize` was given beside the function and its arguments; that has what each means."""

    effort: Effort | Budget | str = Effort.DEFAULT
    seconds: float | None = None
    target: str = "auto"
    seed: int = 0
    strict: bool = False
    kernels: bool = True
    static_argnums: int | Sequence[int] = ()
    static_argnames: str | Iterable[str] = ()
    constant_argnums: int | Sequence[int] = ()
    results: Results | None = None
    executor: Executor | None = None
    tell: Tell = lambda text: None
    progress: bool | HearProgress | None = None
    kwargs: Mapping[str, PyTree] | None = None

    @property
    def spends(self) -> Effort | Budget:
        """The effort; raises `OptimizeError` where there is none of that name."""
        if isinstance(self.effort, Budget):
            return self.effort
        try:
            return Effort(self.effort)
        except ValueError:
            words = ", ".join(Effort)
            raise OptimizeError(f"no effort {self.effort!r}: there are {words}") from None


def split_options(keywords: Parameters) -> tuple[Parameters, Parameters]:
    """Keywords that are options, and those that are arguments of the function."""
    options = {name: value for name, value in keywords.items() if name in _OPTIONS}
    return options, {name: value for name, value in keywords.items() if name not in _OPTIONS}


def demand(
    function: Function,
    args: Sequence[object],
    named: Mapping[str, object],
    options: Parameters,
) -> None:
    """Raises `OptimizeError` for what is no function, and for an option that cannot be one."""
    _demand_function(function)
    demand_options(function, options, len(args))
    function_kwargs = options.get("kwargs") or {}
    for name in function_kwargs.keys() & named.keys():
        raise OptimizeError(f"{name} is given by name, and in kwargs too")
    _demand_known(function, named)
    for name in _missing(function, args, {**function_kwargs, **named}):
        raise OptimizeError(
            f"{title(function, None)} takes {name}, and optimize has an option of that name"
            + _elsewhere(function, name)
        )


def demand_values(
    function: Function, arguments: Mapping[str, object], held: Sequence[object]
) -> None:
    """Raises `OptimizeError` where an array is a tracer, which has no values yet, or is deleted.

    `arguments` has what the function is called with, by name, and `held` what it closes over.
    """
    if is_traced((arguments, held)):
        raise OptimizeError(
            f"{title(function, None)} is optimized where jax traces, as inside jit, grad or vmap:"
            " call optimize before, with arrays or jax.ShapeDtypeStructs, and what it gives there"
        )
    arrays = [*arguments.items(), *(("an array that it closes over", array) for array in held)]
    for name, array in arrays:
        if is_gone(array):
            raise OptimizeError(
                f"{title(function, None)} cannot be optimized with {name}, which was deleted, or"
                " donated to another call: give an array that is still there"
            )


def demand_options(function: Function, options: Parameters, positional: int | None = None) -> None:
    """Raises `OptimizeError` for an option that there is not, or that cannot be what it is given
    as.

    `positional` is how many arguments are given by position, where that is known.
    """
    for name, value in options.items():
        if name not in _OPTIONS:
            raise OptimizeError(f"no option {name!r}: there are {_listed(_OPTIONS)}")
        expected, may_be = _OPTIONS[name]
        if not may_be(value):
            raise OptimizeError(
                f"{name} is an option of optimize and has to be {expected}, not {_kind(value)}"
                + (_elsewhere(function, name) if _takes(function, name) else "")
            )
    _demand_places(function, options, positional)
    _demand_names(function, options)


def _demand_function(function: Function) -> None:
    if not callable(function):
        raise OptimizeError(f"optimize takes a function first, not {_kind(function)}")
    for kind, is_one in _UNTRACEABLE.items():
        if is_one(function) or is_one(type(function).__call__):
            raise OptimizeError(
                f"{title(function, None)} is {kind}, which jax cannot trace: give the part that"
                " computes with arrays, as a plain function"
            )


def _demand_places(function: Function, options: Parameters, positional: int | None) -> None:
    """Raises `OptimizeError` for a position of an argument that the function does not take."""
    count = _count(function)
    count = positional if count is None else count
    if count is None:
        return
    for option in ("static_argnums", "constant_argnums"):
        for at in _several(options.get(option, ())):
            if not -count <= at < count:
                signature = f"{title(function, None)} takes {count} by position"
                raise OptimizeError(f"{option} has {at}, and {signature}")


def _demand_known(function: Function, named: Iterable[str]) -> None:
    """Raises `OptimizeError` for a name that looks like an option, and is none nor an argument: it
    is misspelt."""
    for name in named:
        suggestion = nearest(name, _OPTIONS)
        if suggestion and _parameters(function) is not None and not _takes(function, name):
            raise OptimizeError(
                f"{title(function, None)} takes no {name}, nor is there such an option{suggestion}"
            )


def _count(function: Function) -> int | None:
    """How many arguments it takes by position; `None` where those may be any number."""
    parameters = _parameters(function)
    if parameters is None or any(
        parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters.values()
    ):
        return None
    return sum(parameter.kind in BY_POSITION for parameter in parameters.values())


def _demand_names(function: Function, options: Parameters) -> None:
    parameters = _parameters(function)
    for name in _several(options.get("static_argnames", ())):
        if parameters is not None and not _takes(function, name):
            signature = f"{title(function, None)} has {_listed(parameters)}"
            raise OptimizeError(f"static_argnames has {name!r}, and {signature}")


def _several(value: PyTree) -> Collection[PyTree]:
    return (value,) if isinstance(value, int | str) else value


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "no arguments"


def _are_places(value: object) -> bool:
    return is_whole(value) or (isinstance(value, Sequence) and all(map(is_whole, value)))


def _are_names(value: object) -> bool:
    names = isinstance(value, Collection) and all(isinstance(name, str) for name in value)
    return isinstance(value, str) or names


def _is_seconds(value: object) -> bool:
    number = isinstance(value, Real) and not isinstance(value, bool)
    return number and float(value) >= 0  # type: ignore[arg-type]  # a Real is taken by float


def _is_budget(value: object) -> bool:
    if not isinstance(value, Budget):
        return False
    figures = msgspec.structs.astuple(value)
    sound = all(isinstance(figure, int | float) and 0 <= figure < math.inf for figure in figures)
    return sound and value.contenders > 0 and value.rounds >= LEAST_ROUNDS


def _is_executor(value: object) -> bool:
    return all(callable(getattr(value, method, None)) for method in _METHODS)


_UNTRACEABLE: Mapping[str, Callable[[object], bool]] = {
    "a coroutine function": inspect.iscoroutinefunction,
    "a generator function": inspect.isgeneratorfunction,
    "an async generator function": inspect.isasyncgenfunction,
}
"""Kinds of functions that jax cannot trace, by how a message names them, and how each is
recognised."""
_OPTIONS: Mapping[str, tuple[str, Callable[[PyTree], bool]]] = {
    "effort": (
        "quick, default or exhaustive, or a Budget with figures from 0, at least one contender and"
        f" {LEAST_ROUNDS} rounds",
        lambda value: isinstance(value, str) or _is_budget(value),
    ),
    "seconds": (
        "a number of seconds from 0, or None for no limit",
        lambda value: value is None or _is_seconds(value),
    ),
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
    "progress": (
        "True, False, a function of an OptimizeProgress, or None for True where a person looks",
        lambda value: value is None or isinstance(value, bool) or callable(value),
    ),
    "kwargs": (
        "a mapping from names to arguments",
        lambda value: value is None or (isinstance(value, Mapping) and _are_names(value)),
    ),
}
"""The options: what a value has to be, in words, and a test for it."""


def _missing(function: Function, args: Sequence[object], kwargs: Mapping[str, object]) -> list[str]:
    """The arguments that the function has to get and does not, and that are called as options."""
    signature = _signature(function)
    try:
        bound = signature.bind_partial(*args, **kwargs).arguments if signature else {}
    except TypeError:  # tracing says what is wrong
        return []
    return [
        name
        for name, parameter in (signature.parameters if signature else {}).items()
        if name in _OPTIONS
        and name not in bound
        and parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    ]


def _takes(function: Function, name: str) -> bool:
    parameters = _parameters(function) or {}
    return name in parameters or any(
        parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()
    )


def _signature(function: Function) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def _parameters(function: Function) -> Mapping[str, inspect.Parameter] | None:
    signature = _signature(function)
    return signature.parameters if signature else None


def _elsewhere(function: Function, name: str) -> str:
    return f"; {title(function, None)}'s own goes into kwargs={{{name!r}: ...}}"


def _kind(value: object) -> str:
    """What a value is, in a few words: never an array's numbers."""
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"an array {value.dtype}{list(value.shape)}"
    if value is None or isinstance(value, str | int | float):
        text = repr(value)
        return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    return f"of the type {type(value).__name__}"
