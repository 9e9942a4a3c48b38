"""Names for what Python's types cannot say of jax: trees of arrays, leaves, abstract values.

jax takes and gives whatever it can flatten, and annotates little of it. Each name below says what
is meant where `Any` would say nothing; none of them is checked further than its right-hand side.
Nothing is imported at run time, so that processes without jax can use the names too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

if TYPE_CHECKING:
    import numpy as np
    from jax.extend.core import Literal, Var
    from numpy.typing import NDArray

PyTree: TypeAlias = Any
"""An argument or result: an array, or containers of them, as `jax.tree_util` flattens them."""

Leaf: TypeAlias = Any
"""A leaf of a `PyTree`: an array of jax or NumPy, a number, a tracer, or a `ShapeDtypeStruct`."""

Function: TypeAlias = Callable[..., PyTree]
"""A user's function of `PyTree`s."""

Parameters: TypeAlias = Mapping[str, Any]
"""The parameters of an equation or the options of a call, by name."""

DType: TypeAlias = "np.dtype[Any]"
"""The element type of an array."""

NumpyArray: TypeAlias = "NDArray[Any]"
"""A NumPy array of any element type."""

Atom: TypeAlias = "Var | Literal"
"""An operand of an equation: a variable of its jaxpr, or a scalar that stands in the text."""


class AbstractArray(Protocol):
    """What a trace knows of an array: the part of jax's `ShapedArray` that is read here."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> DType: ...

    @property
    def weak_type(self) -> bool: ...

    @property
    def size(self) -> int: ...

    def str_short(self) -> str: ...


def aval(atom: Atom) -> AbstractArray:
    """The abstract value of an atom; who asks knows that it is an array's, and not a token's."""
    return cast("AbstractArray", atom.aval)
