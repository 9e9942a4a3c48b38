"""The signature of a call: which arguments are arrays, which are static, and the pytree that they
come in.

Example: for `def f(x, params, *, axis)`, the call `f(x, {"w": w}, axis=1)` with
`static_argnames="axis"` has the leaves x and w, the static argument `axis` with the value 1, and
the tree `((*, {"w": *}), {"axis": None})`. A call with other arrays of any shape has an equal
`CallSignature`; `axis=0`, or a list in the place of the dict, makes it another one.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import jax
from jax.tree_util import PyTreeDef

from ...capture.jax_types import Function, Leaf, PyTree
from ...capture.names import input_names
from ..errors import SpliceError

BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
"""Kinds of parameters whose place among the positional arguments is always the same."""
_NUMBERS = (bool, int, float, complex)
_ARRAYS = ("shape", "__jax_array__")
"""Attributes of which an array, or what jax makes one of, has at least one."""


@dataclass(frozen=True)
class CallSignature:
    """One way of calling a function: calls with other values of the arrays have an equal one."""

    function: Function
    signature: inspect.Signature | None
    static: Mapping[int | str, object]
    """The arguments that are no arrays, by position or name, each with its value."""
    count: int
    """How many arguments are given by position."""
    keywords: frozenset[str]
    """The names of the arguments that are given by name."""
    tree: PyTreeDef
    """The structure of `(args, kwargs)`, with `None` in the place of static arguments."""

    def leaves(self, args: Sequence[PyTree], kwargs: Mapping[str, PyTree]) -> list[Leaf] | None:
        """The arrays of a call in order; `None` where it is another way of calling."""
        if not self.usual(args, kwargs):
            # Binding a signature takes microseconds: only where the call is not spelled like the
            # first one.
            canonical = _canonical(self.signature, args, kwargs)
            if (
                canonical is None
                or len(canonical[0]) != self.count
                or canonical[1].keys() != self.keywords
            ):
                return None
            args, kwargs = canonical
        if self.static:
            if not all(
                _same(_argument_at(args, kwargs, at), expected)
                for at, expected in self.static.items()
            ):
                return None
            args, kwargs = _dynamic(args, kwargs, self.static)
        leaves, tree = jax.tree_util.tree_flatten((tuple(args), kwargs))
        return leaves if tree == self.tree else None

    def usual(self, args: Sequence[PyTree], kwargs: Mapping[str, PyTree]) -> bool:
        """Whether as many arguments are given by position, and the same ones by name."""
        named = bool(kwargs or self.keywords)
        return len(args) == self.count and not (named and kwargs.keys() != self.keywords)

    def arguments(self, leaves: Iterable[Leaf]) -> tuple[list[PyTree], dict[str, PyTree]]:
        """The arguments of a call with these arrays, static ones included."""
        args, kwargs = jax.tree_util.tree_unflatten(self.tree, leaves)
        args, kwargs = list(args), dict(kwargs)
        for at, value in self.static.items():
            if isinstance(at, int):
                args[at] = value
            else:
                kwargs[at] = value
        return args, kwargs

    def run(self, leaves: Iterable[Leaf]) -> PyTree:
        """The result of the function for these arrays."""
        args, kwargs = self.arguments(leaves)
        return self.function(*args, **kwargs)

    def names(self) -> list[str]:
        """A name for each array, such as `x`, or `params_w` for `params["w"]`."""
        args, kwargs = jax.tree_util.tree_unflatten(self.tree, range(self.tree.num_leaves))
        names = input_names(self.function, args)
        for path, _ in jax.tree_util.tree_flatten_with_path(kwargs)[0]:
            name = "_".join(re.findall(r"\w+", jax.tree_util.keystr(path)))
            # Two paths may have one text, as `["a_b"]` and `["a"]["b"]`.
            while name in names:
                name += "_"
            names.append(name)
        return names

    def places(self, positions: Iterable[int]) -> frozenset[int]:
        """Where the arrays of the arguments at `positions` are among all leaves."""
        args, _ = jax.tree_util.tree_unflatten(self.tree, range(self.tree.num_leaves))
        return frozenset(jax.tree_util.tree_leaves([args[at] for at in positions]))


def call_signature(
    function: Function,
    args: Sequence[PyTree],
    kwargs: Mapping[str, PyTree],
    static_argnums: int | Iterable[int] = (),
    static_argnames: str | Iterable[str] = (),
) -> tuple[CallSignature, list[Leaf]]:
    """The `CallSignature` of these arguments, and the arrays among them.

    Raises `SpliceError` where a static argument cannot be hashed, or another one is no array. A
    static argument that is not given is none.
    """
    signature = _signature(function)
    args, kwargs = _canonical(signature, args, kwargs) or (tuple(args), dict(kwargs))
    static: dict[int | str, object] = {
        at: args[at] for at in argument_positions(static_argnums, len(args))
    }
    parameters = signature.parameters.items() if signature else ()
    positions = [name for name, parameter in parameters if parameter.kind in BY_POSITION]
    for name in (static_argnames,) if isinstance(static_argnames, str) else static_argnames:
        if name in kwargs:
            static[name] = kwargs[name]
        elif name in positions and positions.index(name) < len(args):
            static[positions.index(name)] = args[positions.index(name)]
    for at, value in static.items():
        _demand_hash(at, value)
    leaves, tree = jax.tree_util.tree_flatten(_dynamic(args, kwargs, static))
    call = CallSignature(function, signature, static, len(args), frozenset(kwargs), tree)
    # After the static ones are set apart: only what is left has to be an array.
    _demand_arrays(call, leaves)
    return call, leaves


def argument_positions(numbers: int | Iterable[int], count: int) -> list[int]:
    """Positions as they are from the front: of 3 arguments -1 is 2; those that are not there are
    left out."""
    several = (numbers,) if isinstance(numbers, int) else numbers
    return [at % count for at in several if -count <= at < count]


def _signature(function: Function) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def _canonical(
    signature: inspect.Signature | None, args: Sequence[PyTree], kwargs: Mapping[str, PyTree]
) -> tuple[tuple[Leaf, ...], dict[str, PyTree]] | None:
    """Arguments by position where they can be, others by name; defaults that are not given stay
    away."""
    try:
        bound = signature.bind(*args, **kwargs) if signature else None
    except TypeError:
        return None
    return (bound.args, bound.kwargs) if bound else None


def _dynamic(
    args: Sequence[PyTree], kwargs: Mapping[str, PyTree], static: Mapping[int | str, object]
) -> tuple[tuple[Leaf, ...], dict[str, PyTree]]:
    """The arguments, with `None` in the place of static ones."""
    return (
        tuple(None if at in static else value for at, value in enumerate(args)),
        {name: None if name in static else value for name, value in kwargs.items()},
    )


def _argument_at(args: Sequence[PyTree], kwargs: Mapping[str, PyTree], at: int | str) -> PyTree:
    return args[at] if isinstance(at, int) else kwargs[at]


def _same(left: object, right: object) -> bool:
    """Whether two static values are equal and of one type: 1, 1.0 and True are not, as a trace with
    one of them differs."""
    return left is right or (type(left) is type(right) and bool(left == right))


def _demand_arrays(call: CallSignature, leaves: Sequence[Leaf]) -> None:
    """Raises `SpliceError` for a leaf that jax does not take for an array."""
    for name, leaf in zip(call.names(), leaves, strict=True):
        if not isinstance(leaf, _NUMBERS) and not any(
            hasattr(leaf, attribute) for attribute in _ARRAYS
        ):
            problem = f"{name} is of the type {type(leaf).__name__} and no array: "
            raise SpliceError(problem + _instead(call.function, name, leaf))


def _instead(function: Function, name: str, leaf: Leaf) -> str:
    """What to do about an argument that is no array, for the end of a message."""
    method = str(getattr(function, "__name__", ""))
    defined = inspect.unwrap(getattr(type(leaf), method, type(leaf)))
    if defined is not inspect.unwrap(function):
        return "where it stays the same from call to call, name the argument in static_argnames"
    return (
        f"optimize the method of one object, as in optimize(obj.{method}, ...), or name {name} in"
        " static_argnames; either way its attributes stay what they were then"
    )


def _demand_hash(at: int | str, value: object) -> None:
    """Raises `SpliceError` for a static value that cannot be a key of jax's caches."""
    try:
        hash(value)
    except TypeError:
        raise SpliceError(
            f"static argument {at} cannot be hashed: it is of the type {type(value).__name__}"
        ) from None
