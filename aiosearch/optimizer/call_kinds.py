"""The cache key of a call: the types of its arrays and the values of its static arguments, for
which one answer holds."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import jax

from ..capture.jax_types import Function, Leaf, Parameters, PyTree
from .jax_settings import current_settings
from .trace.call_signature import call_signature
from .trace.traced import is_array


def is_traced(arguments: PyTree) -> bool:
    """Whether a call is one of somebody's trace."""
    leaves = jax.tree_util.tree_leaves(arguments)
    return any(isinstance(leaf, jax.core.Tracer) for leaf in leaves)


def is_gone(leaf: Leaf) -> bool:
    """Whether it is an array of jax that was deleted, or donated to a call."""
    return is_array(leaf) and bool(leaf.is_deleted())


def call_kind(
    function: Function,
    args: Sequence[PyTree],
    kwargs: Mapping[str, PyTree],
    options: Parameters,
) -> Hashable:
    """Equal for calls with arrays and numbers of the same types, and the same static arguments.

    `options` are those of `optimize`. Raises an AiosearchError where a static one has no hash.
    """
    form, leaves = call_signature(
        function,
        args,
        kwargs,
        options.get("static_argnums", ()),
        options.get("static_argnames", ()),
    )
    static = frozenset((at, type(value), value) for at, value in form.static.items())
    return (
        current_settings(),
        static,
        form.count,
        form.keywords,
        form.tree,
        tuple(map(_like, leaves)),
    )


def _like(leaf: Leaf) -> PyTree:
    """The type of an array or a number; nothing else can be traced, whatever its value."""
    try:
        return jax.typeof(leaf)
    except (TypeError, ValueError, OverflowError):
        return type(leaf)
