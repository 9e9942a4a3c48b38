"""The cache key of a call: the types of its arrays and the values of its static arguments, for
which one answer holds.

Example: `f(f32[8, 16])` and `f(f32[8, 32])` have different kinds, two calls with other values have
one.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import jax

from ..capture.jax_types import Function, Leaf, Parameters, PyTree
from .jax_settings import current_settings
from .trace.call_signature import call_signature
from .trace.traced import is_array


def is_traced(arguments: PyTree) -> bool:
    """Whether a call is inside a trace of jax: one of its arguments is a tracer."""
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
    """Equal for calls with arrays and numbers of equal types, and equal static arguments.

    `options` are those of `optimize`. Raises an AiosearchError where a static argument has no hash.
    """
    form, leaves = call_signature(
        function,
        args,
        kwargs,
        options.get("static_argnums", ()),
        options.get("static_argnames", ()),
    )
    # The type too: 1, 1.0 and True are equal and hash alike, and a function may tell them apart.
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
    """The type of an array or a number; of anything else its class, whatever its value: it cannot
    be traced."""
    try:
        return jax.typeof(leaf)
    except (TypeError, ValueError, OverflowError):
        return type(leaf)
