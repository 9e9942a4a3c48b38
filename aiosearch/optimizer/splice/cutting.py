"""Cuts a JAX function into regions that are tensor programs, and the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Var
from jax.tree_util import PyTreeDef

from ...capture.names import title
from .calls import Call, call
from .errors import SpliceError
from .inlining import Flat, inlined
from .pieces import Piece, Subject, pieces
from .regions import regions
from .steps import Step, sort


@dataclass(frozen=True, eq=False)
class Cut:
    """A function, as it runs on arrays of some shapes and types, in pieces."""

    call: Call
    examples: tuple[Any, ...]
    """The arrays that it was traced with, or what stood for them."""
    avals: tuple[Any, ...]
    """Their abstract values."""
    constant: frozenset[int]
    """The places of those that stay the same from call to call."""
    flat: Flat
    steps: tuple[Step, ...]
    pieces: tuple[Piece, ...]
    tree: PyTreeDef
    """The tree in which the function gives its results."""

    @property
    def function(self) -> Callable[..., Any]:
        return self.call.function

    @cached_property
    def held(self) -> dict[int, Any]:
        """Those that stay the same, by place, as far as they are jax's own: others may change."""
        return {
            at: self.examples[at] for at in sorted(self.constant) if is_array(self.examples[at])
        }

    @cached_property
    def regions(self) -> tuple[Piece, ...]:
        """The pieces that are programs."""
        return tuple(piece for piece in self.pieces if piece.program is not None)

    @cached_property
    def subjects(self) -> tuple[Subject, ...]:
        """What is to be searched, each once."""
        found = (piece.subject for piece in self.pieces)
        return tuple(dict.fromkeys(one for one in found if one is not None))

    @cached_property
    def left_alone(self) -> tuple[str, ...]:
        """What cannot be read, each with its reason and place."""
        return tuple(dict.fromkeys(step.refusal for step in self.steps if step.refusal))


@dataclass(frozen=True, eq=False)
class Traced:
    """A function that was traced, and is yet to be cut."""

    call: Call
    examples: tuple[Any, ...]
    constant: frozenset[int]
    jaxpr: ClosedJaxpr
    tree: PyTreeDef
    precision: Any
    """What products have that ask for none."""
    largest: int

    def cut(self) -> Cut:
        """Cuts it. Nothing in here asks jax to trace, so that any thread will do."""
        flat = inlined(self.jaxpr)
        steps = sort(flat, self.precision)
        kept = {flat.inputs[at] for at in self.constant} | set(flat.constants)
        found = regions(flat, steps, self.largest)
        told: dict[Var, str] = dict(zip(flat.inputs, self.call.names(), strict=True))
        made = pieces(flat, steps, found, kept, told, title(self.call.function, None))
        return Cut(
            self.call,
            self.examples,
            tuple(var.aval for var in flat.inputs),
            self.constant,
            flat,
            tuple(steps),
            tuple(made),
            self.tree,
        )


def trace(
    function: Callable[..., Any],
    *args: Any,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Iterable[str] = (),
    constant_argnums: int | Sequence[int] = (),
    largest: int = 128,
    **kwargs: Any,
) -> Traced:
    """Traces a function that is to be cut; raises SpliceError where it cannot be traced.

    Arguments are arrays or `jax.ShapeDtypeStruct`s, or trees of them; static ones are anything that
    can be hashed. Constant ones are arrays that stay the same from call to call. A region has at
    most `largest` equations where it can be parted.
    """
    names = (static_argnames,) if isinstance(static_argnames, str) else static_argnames
    form, leaves = call(function, args, kwargs, _several(static_argnums), names)
    closed, tree = _traced(form, leaves)
    constant = form.places(at % form.count for at in _several(constant_argnums))
    return Traced(form, tuple(leaves), constant, closed, tree, _precision(), largest)


def cut(function: Callable[..., Any], *args: Any, **options: Any) -> Cut:
    """Traces a function, and cuts it; takes what `trace` takes."""
    return trace(function, *args, **options).cut()


def is_array(leaf: Any) -> bool:
    """Whether something is one of jax's arrays, and no tracer."""
    return isinstance(leaf, jax.Array) and not isinstance(leaf, jax.core.Tracer)


def _precision() -> Any:
    """What a product has under the settings of this thread."""
    config: Any = jax.config
    if config.jax_default_matmul_precision is None:
        return None
    (equation,) = jax.make_jaxpr(jax.lax.dot)(*[np.zeros((1, 1), np.float32)] * 2).eqns
    return equation.params["precision"]


def _several(numbers: int | Sequence[int]) -> Sequence[int]:
    return (numbers,) if isinstance(numbers, int) else numbers


def _traced(form: Call, leaves: Sequence[Any]) -> tuple[ClosedJaxpr, PyTreeDef]:
    """The function of its arrays alone as a jaxpr, and the tree of its results."""
    tree: PyTreeDef | None = None

    def flat(*arrays: Any) -> list[Any]:
        nonlocal tree
        found, tree = jax.tree_util.tree_flatten(form.run(arrays))
        return found

    try:
        closed = jax.make_jaxpr(flat)(*leaves)
    except (TypeError, ValueError, IndexError, jax.errors.JAXTypeError) as error:
        reason = str(error).partition("\n")[0]
        raise SpliceError(f"cannot trace {title(form.function, None)}: {reason}") from error
    assert tree is not None
    return closed, tree
