"""`trace` and `cut`: trace a JAX function, and cut its jaxpr into regions that are tensor programs
and the rest."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Var
from jax.tree_util import PyTreeDef

from ...capture.names import title
from ...capture.user_frames import user_frame
from ..jax_settings import JaxSettings, current_settings
from .call_signature import CallSignature, argument_positions, call_signature
from .equations import ClassifiedEquation, classify_equations, closed_over
from .errors import SpliceError
from .flat_jaxpr import FlatJaxpr, inline_calls
from .pieces import Piece, Subject, pieces
from .regions import regions, why_no_region


@dataclass(frozen=True, eq=False)
class CutFunction:
    """A function, as it runs on arrays of some shapes and types, in pieces."""

    call: CallSignature
    avals: tuple[Any, ...]
    """The abstract values of its arrays."""
    places: tuple[jax.sharding.Sharding | None, ...]
    """Where each lay that it was traced with, as far as it lay anywhere."""
    constant: frozenset[int]
    """The places of those that stay the same from call to call."""
    held: Mapping[int, Any]
    """The arrays that stay the same, by place, as far as they are jax's own: others may change."""
    flat: FlatJaxpr
    steps: tuple[ClassifiedEquation, ...]
    pieces: tuple[Piece, ...]
    tree: PyTreeDef
    """The tree in which the function gives its results."""
    settings: JaxSettings
    """Of jax, under which it was traced."""
    donates: bool = False
    """Whether it gives arrays that it is given away, as `jax.jit(..., donate_argnums=...)` does."""

    @property
    def function(self) -> Callable[..., Any]:
        return self.call.function

    @cached_property
    def regions(self) -> tuple[Piece, ...]:
        """The pieces that are programs."""
        return tuple(piece for piece in self.pieces if piece.program is not None)

    @cached_property
    def subjects(self) -> tuple[Subject, ...]:
        """What is to be searched, each once."""
        found = () if self.donates else (piece.subject for piece in self.pieces)
        return tuple(dict.fromkeys(one for one in found if one is not None))

    @cached_property
    def left_alone(self) -> tuple[str, ...]:
        """What cannot be read, each with its reason and place; and why there is nothing else."""
        if self.donates:
            name = title(self.call.function, None)
            return (f"{name} donates arrays, which nothing that stood in its place would do",)
        found = dict.fromkeys(step.refusal for step in self.steps)
        if not self.regions:
            found[why_no_region(self.steps)] = None
        return tuple(filter(None, found))


@dataclass(frozen=True, eq=False)
class Traced:
    """A function that was traced, and is yet to be cut."""

    call: CallSignature
    examples: tuple[Any, ...]
    """The arrays that it was traced with, or what stood for them."""
    constant: frozenset[int]
    jaxpr: ClosedJaxpr
    tree: PyTreeDef
    settings: JaxSettings
    precision: Any
    """What products have that ask for none."""
    largest: int

    @property
    def places(self) -> tuple[jax.sharding.Sharding | None, ...]:
        """Where those arrays lie, as far as that is known."""
        return tuple(map(array_sharding, self.examples))

    @cached_property
    def closed_over(self) -> tuple[Any, ...]:
        """The arrays that it and what it calls close over, each as often as they do."""
        return tuple(closed_over(self.jaxpr))

    @property
    def shardings(self) -> tuple[jax.sharding.Sharding, ...]:
        """Where all that is given or closed over lies or will lie.

        What is closed over and lies on one device is left out: jax takes it where the rest is.
        """
        given = [array_sharding(one) or _meant(one) for one in self.examples]
        held = [array_sharding(one) for one in self.closed_over]
        spread = [one for one in held if one is not None and len(one.device_set) > 1]
        return (*(one for one in given if one is not None), *spread)

    def cut(self) -> CutFunction:
        """Cuts it. Nothing in here asks jax to trace, so that any thread will do."""
        flat = inline_calls(self.jaxpr)
        steps = classify_equations(flat, self.precision)
        kept = {flat.inputs[at] for at in self.constant} | set(flat.constants)
        found = regions(flat, steps, self.largest)
        told: dict[Var, str] = dict(zip(flat.inputs, self.call.names(), strict=True))
        held = [at for at in sorted(self.constant) if is_array(self.examples[at])]
        made = pieces(flat, steps, found, kept, told, title(self.call.function, None))
        return CutFunction(
            self.call,
            tuple(var.aval for var in flat.inputs),
            self.places,
            self.constant,
            {at: self.examples[at] for at in held},
            flat,
            tuple(steps),
            tuple(made),
            self.tree,
            self.settings,
            any(any(one.params.get("donated_invars", ())) for one in self.jaxpr.eqns),
        )


def trace(
    function: Callable[..., Any],
    *args: Any,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Iterable[str] = (),
    constant_argnums: int | Sequence[int] = (),
    largest: int = 128,
    kwargs: Mapping[str, Any] | None = None,
    **named: Any,
) -> Traced:
    """Traces a function that is to be cut; raises SpliceError where it cannot be traced.

    Arguments are arrays or `jax.ShapeDtypeStruct`s, or trees of them; static ones are anything that
    can be hashed. Constant ones are arrays that stay the same from call to call. A region has at
    most `largest` equations where it can be parted. `kwargs` are the function's, beside all others
    that are given by name.
    """
    own = {**(kwargs or {}), **named}
    form, leaves = call_signature(function, args, own, static_argnums, static_argnames)
    closed, tree = _traced(form, leaves)
    constant = form.places(argument_positions(constant_argnums, form.count))
    return Traced(
        form, tuple(leaves), constant, closed, tree, current_settings(), _precision(), largest
    )


def cut(function: Callable[..., Any], *args: Any, **options: Any) -> CutFunction:
    """Traces a function, and cuts it; takes what `trace` takes."""
    return trace(function, *args, **options).cut()


def is_array(leaf: Any) -> bool:
    """Whether something is one of jax's arrays, and no tracer."""
    return isinstance(leaf, jax.Array) and not isinstance(leaf, jax.core.Tracer)


def array_sharding(leaf: Any) -> jax.sharding.Sharding | None:
    """Where an array lies, where that is known: not for tracers, nor for numbers."""
    return leaf.sharding if is_array(leaf) else None


def _meant(leaf: Any) -> jax.sharding.Sharding | None:
    """Where an array that there is not yet is to lie, where that is said."""
    return leaf.sharding if isinstance(leaf, jax.ShapeDtypeStruct) else None


def _precision() -> Any:
    """What a product has under the settings of this thread."""
    config: Any = jax.config
    if config.jax_default_matmul_precision is None:
        return None
    (equation,) = jax.make_jaxpr(jax.lax.dot)(*[np.zeros((1, 1), np.float32)] * 2).eqns
    return equation.params["precision"]


def _traced(form: CallSignature, leaves: Sequence[Any]) -> tuple[ClosedJaxpr, PyTreeDef]:
    """The function of its arrays alone as a jaxpr, and the tree of its results."""
    tree: PyTreeDef | None = None

    def flat(*arrays: Any) -> list[Any]:
        nonlocal tree
        found, tree = jax.tree_util.tree_flatten(form.run(arrays))
        for one in found:
            if not _is_array(one):
                raise TypeError(f"it gives {reprlib.repr(one)}, which is no array")
        return found

    try:
        closed = jax.make_jaxpr(flat)(*leaves)
    except Exception as error:  # whatever the function's own code raises on a tracer
        reason = ": ".join(filter(None, (type(error).__name__, str(error).partition("\n")[0])))
        if _UNHASHABLE in reason:
            reason = _STATIC
        told = f"cannot trace {title(form.function, None)}: {reason}{user_frame(error)}"
        raise SpliceError(told) from error
    assert tree is not None
    return closed, tree


_UNHASHABLE = "Non-hashable static arguments"
"""How jax says that a tracer is given as one."""
_STATIC = (
    "jax.jit was told that an argument is static, and optimize was not: give it the same"
    " static_argnums or static_argnames"
)


def _is_array(given: Any) -> bool:
    """Whether jax takes it for one."""
    plain = (jax.Array, np.ndarray, np.generic, bool, int, float, complex)
    return isinstance(given, plain) or hasattr(given, "__jax_array__")
