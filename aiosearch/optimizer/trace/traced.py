"""`trace` and `cut`: trace a JAX function, and cut its jaxpr into regions that are tensor programs
and the rest.

They are two steps since tracing depends on jax's settings of this thread at this moment, and
cutting, which may take seconds for a large network, runs in any thread.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Var
from jax.tree_util import PyTreeDef

from ...capture.errors import tracing_hint
from ...capture.jax_types import AbstractArray, Function, Leaf, PyTree, aval
from ...capture.names import title
from ...capture.user_frames import user_frame
from ..errors import SpliceError
from ..jax_settings import JaxSettings, current_settings
from .call_signature import CallSignature, argument_positions, call_signature
from .equations import ClassifiedEquation, closed_over
from .flat_jaxpr import FlatJaxpr, inline_calls
from .loop_invariants import move_out
from .pieces import Body, Cutter, Piece, Subject
from .regions import why_no_region


@dataclass(frozen=True, eq=False)
class CutFunction:
    """A function in pieces, as it runs on arrays of some shapes and types."""

    call: CallSignature
    avals: tuple[AbstractArray, ...]
    """The abstract values of its arrays."""
    places: tuple[jax.sharding.Sharding | None, ...]
    """The sharding of each array that it was traced with; `None` for one that was on no device."""
    constant: frozenset[int]
    """Positions of the arrays that stay the same from call to call."""
    held: Mapping[int, Leaf]
    """The arrays of jax among them, by position: those of NumPy may change."""
    body: Body
    tree: PyTreeDef
    """The structure of the function's result."""
    settings: JaxSettings
    """The settings of jax under which it was traced."""
    donates: bool = False
    """Whether it donates arguments, as `jax.jit(..., donate_argnums=...)` does."""

    @property
    def function(self) -> Function:
        return self.call.function

    @property
    def flat(self) -> FlatJaxpr:
        return self.body.flat

    @property
    def pieces(self) -> tuple[Piece, ...]:
        return self.body.pieces

    @cached_property
    def regions(self) -> tuple[Piece, ...]:
        """The pieces that are programs, those in loops and branches among them."""
        return tuple(piece for piece in self.body.all_pieces() if piece.program is not None)

    @cached_property
    def steps(self) -> tuple[ClassifiedEquation, ...]:
        """All equations, less loops and branches whose own are among them."""
        opened = {id(piece.jaxpr.eqns[0]) for piece in self.body.all_pieces() if piece.bodies}
        steps = (step for body in self.body.nested() for step in body.steps)
        return tuple(step for step in steps if id(step.equation) not in opened)

    @cached_property
    def subjects(self) -> tuple[Subject, ...]:
        """What is to be searched, each once."""
        candidates = () if self.donates else (piece.subject for piece in self.regions)
        return tuple(dict.fromkeys(subject for subject in candidates if subject is not None))

    @cached_property
    def left_alone(self) -> tuple[str, ...]:
        """What cannot be read, each with its reason and place; and why there is nothing else."""
        if self.donates:
            name = title(self.call.function, None)
            return (f"{name} donates arrays, which nothing that stood in its place would do",)
        reasons = dict.fromkeys(step.refusal for step in self.steps)
        if not self.regions:
            reasons[why_no_region(self.steps)] = None
        return tuple(filter(None, reasons))


@dataclass(frozen=True, eq=False)
class Traced:
    """A function that was traced, and is yet to be cut."""

    call: CallSignature
    examples: tuple[Leaf, ...]
    """The arrays that it was traced with, or `jax.ShapeDtypeStruct`s that stood for them."""
    constant: frozenset[int]
    jaxpr: ClosedJaxpr
    tree: PyTreeDef
    settings: JaxSettings
    precision: object
    """The precision of products that ask for none, under the settings of the trace."""
    platform: str
    """Where jax puts arrays that are on no device yet, under the settings of the trace."""
    largest: int
    """Equations that a region has at most, where it can be parted."""

    @property
    def places(self) -> tuple[jax.sharding.Sharding | None, ...]:
        """The sharding of each example; `None` for one that is on no device yet."""
        return tuple(map(array_sharding, self.examples))

    @cached_property
    def closed_over(self) -> tuple[Leaf, ...]:
        """The arrays that the function and what it calls close over, each as often as they do."""
        return tuple(closed_over(self.jaxpr))

    @property
    def shardings(self) -> tuple[jax.sharding.Sharding, ...]:
        """The shardings of all arrays that are given or closed over.

        An array that is closed over and is on one device is left out: jax moves it to where the
        others are.
        """
        arguments = [array_sharding(leaf) or _requested_sharding(leaf) for leaf in self.examples]
        held = [array_sharding(array) for array in self.closed_over]
        spread = [
            sharding for sharding in held if sharding is not None and len(sharding.device_set) > 1
        ]
        return (*(sharding for sharding in arguments if sharding is not None), *spread)

    @property
    def on_cpu(self) -> bool:
        """Whether nothing but a CPU will run the function."""
        sets: list[set[jax.Device]] = [sharding.device_set for sharding in self.shardings]
        platforms = {device.platform for devices in sets for device in devices}
        return (platforms or {self.platform}) == {"cpu"}

    def cut(self) -> CutFunction:
        """Cuts the function. Nothing in here asks jax to trace, so that any thread will do."""
        flat = move_out(inline_calls(self.jaxpr))
        constants = {flat.inputs[at] for at in self.constant}
        names: dict[Var, str] = dict(zip(flat.inputs, self.call.names(), strict=True))
        held = [at for at in sorted(self.constant) if is_array(self.examples[at])]
        name = title(self.call.function, None)
        cutter = Cutter(name, self.largest, self.precision, self.on_cpu)
        return CutFunction(
            self.call,
            tuple(map(aval, flat.inputs)),
            self.places,
            self.constant,
            {at: self.examples[at] for at in held},
            cutter.body(flat, constants, names),
            self.tree,
            self.settings,
            any(any(equation.params.get("donated_invars", ())) for equation in self.jaxpr.eqns),
        )


def trace(
    function: Function,
    *args: PyTree,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Iterable[str] = (),
    constant_argnums: int | Sequence[int] = (),
    largest: int = 128,
    kwargs: Mapping[str, PyTree] | None = None,
    **named: PyTree,
) -> Traced:
    """Traces a function that is to be cut; raises `SpliceError` where it cannot be traced.

    Arguments are arrays or `jax.ShapeDtypeStruct`s, or trees of them; static ones are anything that
    can be hashed. Constant ones are arrays that stay the same from call to call. A region has at
    most `largest` equations where it can be parted. `kwargs` are the function's, beside all others
    that are given by name.
    """
    keywords = {**(kwargs or {}), **named}
    form, leaves = call_signature(function, args, keywords, static_argnums, static_argnames)
    closed, tree = _traced(form, leaves)
    constant = form.places(argument_positions(constant_argnums, form.count))
    return Traced(
        form,
        tuple(leaves),
        constant,
        closed,
        tree,
        current_settings(),
        _precision(),
        _platform(),
        largest,
    )


def cut(function: Function, *args: PyTree, **options: Any) -> CutFunction:
    """Traces a function, and cuts it; takes what `trace` takes."""
    return trace(function, *args, **options).cut()


def is_array(leaf: Leaf) -> bool:
    """Whether something is a concrete array of jax, and no tracer."""
    return isinstance(leaf, jax.Array) and not isinstance(leaf, jax.core.Tracer)


def array_sharding(leaf: Leaf) -> jax.sharding.Sharding | None:
    """The sharding of a concrete array of jax; `None` for tracers, NumPy's arrays and numbers."""
    return leaf.sharding if is_array(leaf) else None


def _requested_sharding(leaf: Leaf) -> jax.sharding.Sharding | None:
    """The sharding of a `jax.ShapeDtypeStruct`, where it says one."""
    return leaf.sharding if isinstance(leaf, jax.ShapeDtypeStruct) else None


def _precision() -> object:
    """The precision of a product under the settings of this thread, as jax writes it into an
    equation."""
    config: Any = jax.config
    # XLA's own default, which needs no trace.
    if config.jax_default_matmul_precision is None:
        return None
    # jax resolves its setting when it writes an equation: a trace of one product tells what it
    # means here.
    (equation,) = jax.make_jaxpr(jax.lax.dot)(*[np.zeros((1, 1), np.float32)] * 2).eqns
    return equation.params["precision"]


def _platform() -> str:
    """Where jax puts an array that nobody has placed, under the settings of this thread."""
    config: Any = jax.config
    chosen = config.jax_default_device
    return str(getattr(chosen, "platform", chosen or jax.default_backend()))


def _traced(form: CallSignature, leaves: Sequence[Leaf]) -> tuple[ClosedJaxpr, PyTreeDef]:
    """The function of its arrays alone as a jaxpr, and the structure of its result."""
    tree: PyTreeDef | None = None

    def flat(*arrays: Leaf) -> list[Leaf]:
        nonlocal tree
        # The tree of the result is known only inside of the trace.
        results, tree = jax.tree_util.tree_flatten(form.run(arrays))
        for result in results:
            if not _is_array(result):
                raise TypeError(f"it gives {reprlib.repr(result)}, which is no array")
        return results

    try:
        closed = jax.make_jaxpr(flat)(*leaves)
    except Exception as error:  # whatever the function's own code raises on a tracer
        reason = ": ".join(filter(None, (type(error).__name__, str(error).partition("\n")[0])))
        # A `jit` inside names its own argument, which the user does not see.
        if _UNHASHABLE in reason:
            reason = _STATIC
        where, hint = user_frame(error), tracing_hint(error)
        problem = f"cannot trace {title(form.function, None)}: {reason}{where}{hint}"
        raise SpliceError(problem) from error
    assert tree is not None
    return closed, tree


_UNHASHABLE = "Non-hashable static arguments"
"""How jax says that a tracer is given as a static argument."""
_STATIC = (
    "jax.jit was told that an argument is static, and optimize was not: give it the same"
    " static_argnums or static_argnames"
)


def _is_array(leaf: Leaf) -> bool:
    """Whether jax takes it for an array."""
    plain = (jax.Array, np.ndarray, np.generic, bool, int, float, complex)
    return isinstance(leaf, plain) or hasattr(leaf, "__jax_array__")
