"""The signature of a call: which arguments are arrays, which are static, and the pytree that they
come in."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax.tree_util import PyTreeDef

from ...capture.names import input_names
from .errors import SpliceError

BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
"""The kinds of parameters whose place among the arguments is always the same."""
_NUMBERS = (bool, int, float, complex)
_ARRAYS = ("shape", "__jax_array__")
"""What one of them has, or what jax makes one of."""


@dataclass(frozen=True)
class CallSignature:
    """One way of calling a function: other values of the arrays make the same call."""

    function: Callable[..., Any]
    signature: inspect.Signature | None
    static: Mapping[int | str, Any]
    """The arguments that are no arrays, by position or name; each of them has its own value."""
    count: int
    """How many arguments are given by position."""
    keywords: frozenset[str]
    """The arguments that are given by name."""
    tree: PyTreeDef

    def leaves(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any] | None:
        """The arrays of a call in order, or nothing where it is another one."""
        if not self.usual(args, kwargs):
            told = _canonical(self.signature, args, kwargs)
            if told is None or len(told[0]) != self.count or told[1].keys() != self.keywords:
                return None
            args, kwargs = told
        if self.static:
            if not all(_same(_given(args, kwargs, at), own) for at, own in self.static.items()):
                return None
            args, kwargs = _dynamic(args, kwargs, self.static)
        leaves, tree = jax.tree_util.tree_flatten((tuple(args), kwargs))
        return leaves if tree == self.tree else None

    def usual(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """Whether the same arguments are given by position, and the same by name."""
        named = bool(kwargs or self.keywords)
        return len(args) == self.count and not (named and kwargs.keys() != self.keywords)

    def arguments(self, leaves: Iterable[Any]) -> tuple[list[Any], dict[str, Any]]:
        """The arguments, made of such arrays."""
        args, kwargs = jax.tree_util.tree_unflatten(self.tree, leaves)
        args, kwargs = list(args), dict(kwargs)
        for at, value in self.static.items():
            if isinstance(at, int):
                args[at] = value
            else:
                kwargs[at] = value
        return args, kwargs

    def run(self, leaves: Iterable[Any]) -> Any:
        """What the function gives for such arrays."""
        args, kwargs = self.arguments(leaves)
        return self.function(*args, **kwargs)

    def names(self) -> list[str]:
        """A name for each array."""
        args, kwargs = jax.tree_util.tree_unflatten(self.tree, range(self.tree.num_leaves))
        names = input_names(self.function, args)
        for path, _ in jax.tree_util.tree_flatten_with_path(kwargs)[0]:
            name = "_".join(re.findall(r"\w+", jax.tree_util.keystr(path)))
            while name in names:
                name += "_"
            names.append(name)
        return names

    def places(self, positions: Iterable[int]) -> frozenset[int]:
        """Where the arrays of these arguments are among all of them."""
        args, _ = jax.tree_util.tree_unflatten(self.tree, range(self.tree.num_leaves))
        return frozenset(jax.tree_util.tree_leaves([args[at] for at in positions]))


def call_signature(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    static_argnums: int | Iterable[int] = (),
    static_argnames: str | Iterable[str] = (),
) -> tuple[CallSignature, list[Any]]:
    """How these arguments are given, and the arrays among them.

    Raises SpliceError where a static one cannot be hashed, or another one is no array. A static one
    that is not given is none.
    """
    signature = _signature(function)
    args, kwargs = _canonical(signature, args, kwargs) or (tuple(args), dict(kwargs))
    static: dict[int | str, Any] = {
        at: args[at] for at in argument_positions(static_argnums, len(args))
    }
    parameters = signature.parameters.items() if signature else ()
    positions = [name for name, one in parameters if one.kind in BY_POSITION]
    for name in (static_argnames,) if isinstance(static_argnames, str) else static_argnames:
        if name in kwargs:
            static[name] = kwargs[name]
        elif name in positions and positions.index(name) < len(args):
            static[positions.index(name)] = args[positions.index(name)]
    for at, value in static.items():
        _demand_hash(at, value)
    leaves, tree = jax.tree_util.tree_flatten(_dynamic(args, kwargs, static))
    made = CallSignature(function, signature, static, len(args), frozenset(kwargs), tree)
    _demand_arrays(made, leaves)
    return made, leaves


def argument_positions(numbers: int | Iterable[int], count: int) -> list[int]:
    """The places that are meant among so many arguments, the last of which is -1 too."""
    several = (numbers,) if isinstance(numbers, int) else numbers
    return [at % count for at in several if -count <= at < count]


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def _canonical(
    signature: inspect.Signature | None, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """By position what can be; defaults stay away."""
    try:
        bound = signature.bind(*args, **kwargs) if signature else None
    except TypeError:
        return None
    return (bound.args, bound.kwargs) if bound else None


def _dynamic(
    args: Sequence[Any], kwargs: Mapping[str, Any], static: Mapping[int | str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments, with nothing where those are that are no arrays."""
    return (
        tuple(None if at in static else value for at, value in enumerate(args)),
        {name: None if name in static else value for name, value in kwargs.items()},
    )


def _given(args: Sequence[Any], kwargs: Mapping[str, Any], at: int | str) -> Any:
    return args[at] if isinstance(at, int) else kwargs[at]


def _same(one: Any, other: Any) -> bool:
    return one is other or (type(one) is type(other) and bool(one == other))


def _demand_arrays(made: CallSignature, leaves: Sequence[Any]) -> None:
    for name, leaf in zip(made.names(), leaves, strict=True):
        if not isinstance(leaf, _NUMBERS) and not any(hasattr(leaf, one) for one in _ARRAYS):
            told = f"{name} is of the type {type(leaf).__name__} and no array: "
            raise SpliceError(told + _instead(made.function, name, leaf))


def _instead(function: Callable[..., Any], name: str, leaf: Any) -> str:
    """What to do about what is no array."""
    method = str(getattr(function, "__name__", ""))
    own = inspect.unwrap(getattr(type(leaf), method, type(leaf)))
    if own is not inspect.unwrap(function):
        return "where it stays the same from call to call, name the argument in static_argnames"
    return (
        f"optimize the method of one object, as in optimize(obj.{method}, ...), or name {name} in"
        " static_argnames; either way its attributes stay what they were then"
    )


def _demand_hash(at: int | str, value: Any) -> None:
    try:
        hash(value)
    except TypeError:
        raise SpliceError(
            f"static argument {at} cannot be hashed: it is of the type {type(value).__name__}"
        ) from None
