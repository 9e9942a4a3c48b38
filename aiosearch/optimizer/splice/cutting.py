"""Cuts a JAX function into regions that are tensor programs, and the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
from jax.extend.core import Var
from jax.tree_util import PyTreeDef

from ...capture.names import title
from ...tensor import Program
from .calls import Call, call
from .errors import SpliceError
from .inlining import Flat, inlined
from .pieces import Piece, pieces
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
    def regions(self) -> tuple[Piece, ...]:
        """The pieces that are programs."""
        return tuple(piece for piece in self.pieces if piece.program is not None)

    @cached_property
    def programs(self) -> tuple[Program, ...]:
        """The programs that are to be searched, each once."""
        return tuple(dict.fromkeys(one.program for one in self.regions if one.program is not None))

    @cached_property
    def left_alone(self) -> tuple[str, ...]:
        """What cannot be read, each with its reason and place."""
        return tuple(dict.fromkeys(step.refusal for step in self.steps if step.refusal))


def cut(
    function: Callable[..., Any],
    *args: Any,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Iterable[str] = (),
    constant_argnums: int | Sequence[int] = (),
    largest: int = 128,
    **kwargs: Any,
) -> Cut:
    """Traces a function and cuts it; raises SpliceError where it cannot be traced.

    Arguments are arrays or `jax.ShapeDtypeStruct`s, or trees of them; static ones are anything that
    can be hashed. Constant ones are arrays that stay the same from call to call. A region has at
    most `largest` equations where it can be parted.
    """
    names = (static_argnames,) if isinstance(static_argnames, str) else static_argnames
    form, leaves = call(function, args, kwargs, _several(static_argnums), names)
    closed, tree = _traced(form, leaves)
    flat = inlined(closed)
    steps = sort(flat)
    constant = form.places(at % form.count for at in _several(constant_argnums))
    kept = {flat.inputs[at] for at in constant} | set(flat.constants)
    found = regions(flat, steps, largest)
    told: dict[Var, str] = dict(zip(flat.inputs, form.names(), strict=True))
    made = pieces(flat, steps, found, kept, told, title(function, None))
    avals = tuple(var.aval for var in flat.inputs)
    return Cut(form, tuple(leaves), avals, constant, flat, tuple(steps), tuple(made), tree)


def _several(numbers: int | Sequence[int]) -> Sequence[int]:
    return (numbers,) if isinstance(numbers, int) else numbers


def _traced(form: Call, leaves: Sequence[Any]) -> tuple[Any, PyTreeDef]:
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
