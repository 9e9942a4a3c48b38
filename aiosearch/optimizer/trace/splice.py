"""A traced function with replacements spliced in for its regions, whose derivatives and batches
stay the original's.

A replacement was verified and measured on the values of one call. So `replace_region` wraps it in
`jax.custom_jvp`, whose rule differentiates the region's own equations, and in `custom_vmap`, which
batches these. A region that has a gradient of its own is wrapped in a `jax.custom_vjp`.

    spliced = Spliced(cut(f, x), {subject: fast})
    spliced(x)                # `fast` where the region was
    jax.grad(spliced)(x)      # the gradient of `f`
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import jax
import jax.numpy as jnp
from jax.extend.core import Literal, Var
from jax.extend.core.primitives import convert_element_type_p

from ...capture.jax_types import Function, Leaf, PyTree, aval
from ...measure.errors import says_out_of_memory
from ...measure.worker.huge_pages import in_huge_pages
from ..errors import SpliceError
from .control_flow import CALLS, Run, functions, run
from .equations import nested
from .pieces import Body, Piece, Subject
from .traced import CutFunction

Replacement: TypeAlias = Function
"""Takes a region's inputs in order; gives its one output, or a sequence of them."""


@dataclass(frozen=True)
class Packed:
    """A replacement that wants some of its inputs in another form, which is made once.

    It is used where those inputs stay the same from call to call, `otherwise` elsewhere.
    """

    positions: tuple[int, ...]
    """Positions among the region's inputs of those that are packed."""
    pack: Callable[..., Sequence[Leaf]]
    """Takes the inputs at `positions`, and gives arrays."""
    run: Replacement
    """Takes the inputs that are not packed, then what `pack` gave."""
    otherwise: Replacement | None = None
    """Takes all inputs, where they may be others than those that were packed; the region itself
    without it."""


def replace_region(piece: Piece, run: Replacement) -> Callable[..., Sequence[Leaf]]:
    """A function of a region's inputs, and of the packed arrays behind them, that `run` computes.

    Derivatives and batches are the region's own: `run` was neither verified nor measured on them.
    """
    count = len(piece.inputs)

    @jax.custom_batching.custom_vmap
    def alone(*inputs: Leaf) -> tuple[Leaf, ...]:
        return _checked_outputs(piece, run(*inputs))

    @alone.def_vmap
    def batched(size: int, mapped: Sequence[bool], *inputs: Leaf) -> tuple[PyTree, PyTree]:
        axes = tuple(0 if is_mapped else None for is_mapped in mapped[:count])
        outputs = jax.vmap(piece.original, axes, axis_size=size)(*inputs[:count])
        return tuple(outputs), (True,) * len(outputs)

    fast = (_with_reverse_rule if _has_reverse_rule(piece) else _with_forward_rule)(piece, alone)

    def function(*inputs: Leaf) -> Sequence[Leaf]:
        return _with_weak_types(piece, fast(*inputs))

    return function


def _with_forward_rule(piece: Piece, run: Run) -> Run:
    """`run` with the derivatives of the region's own equations, forwards and backwards."""
    count = len(piece.inputs)

    @jax.custom_jvp
    def fast(*inputs: Leaf) -> tuple[Leaf, ...]:
        return tuple(run(*inputs))

    @fast.defjvp
    def rule(primals: Sequence[Leaf], tangents: Sequence[Leaf]) -> tuple[PyTree, PyTree]:
        # A `custom_jvp` supports reverse mode and higher derivatives as well; a `custom_vjp` would
        # break forward mode. The packed arrays have no tangents of their own: they are made of
        # inputs.
        return jax.jvp(_original(piece), tuple(primals[:count]), tuple(tangents[:count]))

    return fast


def _with_reverse_rule(piece: Piece, run: Run) -> Run:
    """`run` with the derivatives of a region that has them backwards alone.

    As a `custom_jvp` it could not be batched below a gradient: what jax makes of a `custom_vjp`
    inside of a forward rule has no batches.
    """
    count = len(piece.inputs)

    @jax.custom_vjp
    def fast(*inputs: Leaf) -> tuple[Leaf, ...]:
        return tuple(run(*inputs))

    def forwards(*inputs: Leaf) -> tuple[PyTree, PyTree]:
        outputs, backwards = jax.vjp(_original(piece), *inputs[:count])
        return outputs, (backwards, inputs[count:])

    def backwards(residuals: PyTree, cotangents: PyTree) -> tuple[PyTree, ...]:
        of_inputs, packed = residuals
        return (*of_inputs(cotangents), *map(jnp.zeros_like, packed))

    fast.defvjp(forwards, backwards)
    return fast


def _original(piece: Piece) -> Callable[..., tuple[Leaf, ...]]:
    return lambda *inputs: tuple(piece.original(*inputs))


def _has_reverse_rule(piece: Piece) -> bool:
    """Whether anything in a region has a gradient of its own, which is one for reverse mode."""
    names = (part.primitive.name for equation in piece.jaxpr.eqns for part in nested(equation))
    return "custom_vjp_call" in names


def _checked_outputs(piece: Piece, result: Leaf | Sequence[Leaf]) -> tuple[Leaf, ...]:
    """The outputs of a replacement; raises `SpliceError` where shapes or element types are not the
    region's."""
    outputs = tuple(result) if isinstance(result, (tuple, list)) else (result,)
    actual = [f"{output.dtype}{list(output.shape)}" for output in outputs]
    expected = [f"{output.dtype}{list(output.shape)}" for output in map(aval, piece.outputs)]
    if actual != expected:
        raise SpliceError(f"a replacement gives {', '.join(actual)}, not {', '.join(expected)}")
    return outputs


def _with_weak_types(piece: Piece, outputs: Sequence[Leaf]) -> list[Leaf]:
    """The outputs, weakly typed where the region's are: no other spelling keeps that."""
    return [
        convert_element_type_p.bind(output, new_dtype=expected.dtype, weak_type=True, sharding=None)
        if expected.weak_type
        else output
        for output, expected in zip(outputs, map(aval, piece.outputs), strict=True)
    ]


Packs: TypeAlias = "tuple[tuple[Leaf, ...] | None, ...]"
"""For each of `Body.all_pieces` the arrays that were packed for it; `None` where nothing is."""


class Spliced:
    """The function, with replacements by `Subject`; a region that has none runs as it is.

    It can be compiled, differentiated and batched like the function.
    """

    def __init__(
        self, cut: CutFunction, replacements: Mapping[Subject, Replacement | Packed] | None = None
    ) -> None:
        self.cut = cut
        self.replacements = dict(replacements or {})
        self.too_large: set[Subject] = set()
        """Subjects for whose packed inputs there was no memory: they run as `Packed.otherwise`."""
        self._ready: dict[Piece, tuple[list[Leaf], tuple[Leaf, ...]]] = {}
        unknown = self.replacements.keys() - set(cut.subjects)
        if unknown:
            names = ", ".join(sorted(subject.program.name for subject in unknown))
            raise SpliceError(f"nothing in the function computes {names}")

    def __call__(self, *args: PyTree, **kwargs: PyTree) -> PyTree:
        """Takes what the function takes, in the way in which it was called when it was traced."""
        leaves = self.cut.call.leaves(args, kwargs)
        if leaves is None:
            raise SpliceError("the function was cut for another way of calling it")
        return self.tree(leaves)

    def tree(self, leaves: Sequence[Leaf], packs: Packs | None = None) -> PyTree:
        """Takes the arrays of a call, in order, and gives its result."""
        return jax.tree_util.tree_unflatten(self.cut.tree, self.flat(leaves, packs))

    def flat(self, leaves: Sequence[Leaf], packs: Packs | None = None) -> list[Leaf]:
        """Takes the arrays of a call, in order, and gives the arrays of its result."""
        packing = zip(self.cut.body.all_pieces(), packs or self.packs({}), strict=True)
        return self._body(self.cut.body, dict(packing), leaves)

    def _body(
        self,
        body: Body,
        packing: Mapping[Piece, tuple[Leaf, ...] | None],
        leaves: Sequence[Leaf],
    ) -> list[Leaf]:
        """The results of a function in pieces, for its arguments."""
        flat = body.flat
        values = {**flat.constants, **dict(zip(flat.inputs, leaves, strict=True))}
        for piece in body.pieces:
            inputs = [values[var] for var in piece.inputs]
            results = (
                self._opened(piece, packing, inputs)
                if self._is_changed(piece)
                else self._run(piece, inputs, packing[piece])
            )
            values.update(zip(piece.outputs, results, strict=True))
        return [atom.val if isinstance(atom, Literal) else values[atom] for atom in flat.outputs]

    def _is_changed(self, piece: Piece) -> bool:
        """Whether a loop or a branch has replacements in what it runs."""
        inner = (part for body in piece.bodies for part in body.all_pieces())
        return any(part.subject in self.replacements for part in inner if part.subject is not None)

    def _opened(
        self,
        piece: Piece,
        packing: Mapping[Piece, tuple[Leaf, ...] | None],
        inputs: Sequence[Leaf],
    ) -> list[Leaf]:
        """A loop or a branch that runs its bodies with their replacements."""
        (equation,) = piece.jaxpr.eqns
        if equation.primitive.name in CALLS:
            return [*replace_region(piece, partial(self._called, piece))(*inputs)]
        variables: Sequence[Var] = piece.jaxpr.invars
        values = dict(zip(variables, (*piece.held, *inputs), strict=True))
        operands = [
            atom.val if isinstance(atom, Literal) else values[atom] for atom in equation.invars
        ]
        bodies = [partial(self._inside, body, packing) for body in piece.bodies]
        results = dict(zip(equation.outvars, run(equation, operands, bodies), strict=True))
        return [results[var] for var in piece.outputs]

    def _called(self, piece: Piece, *inputs: Leaf) -> list[Leaf]:
        """The outputs of a call that says of its derivatives, with replacements in its function.

        Nothing packed is used: a function with derivatives of its own closes over no array.
        """
        (equation,), (body,) = piece.jaxpr.eqns, piece.bodies
        values = dict(zip(piece.jaxpr.invars, (*piece.held, *inputs), strict=True))
        operands = [
            atom.val if isinstance(atom, Literal) else values[atom] for atom in equation.invars
        ]
        results = self._body(body, dict.fromkeys(body.all_pieces()), operands)
        by_variable = dict(zip(equation.outvars, results, strict=True))
        return [by_variable[var] for var in piece.outputs]

    def _inside(
        self, body: Body, packing: Mapping[Piece, tuple[Leaf, ...] | None], *leaves: Leaf
    ) -> list[Leaf]:
        return self._body(body, packing, leaves)

    def packs(self, held: Mapping[int, Leaf]) -> Packs:
        """Packs what stays the same: arrays that were closed over, and those of the call in `held`,
        by position.

        What was packed is kept, and packed again only where other arrays are given.
        """
        flat = self.cut.flat
        values = {flat.inputs[at]: array for at, array in held.items()}
        return tuple(self._packed_parts(self.cut.body, values))

    def _packed_parts(
        self, body: Body, held: Mapping[Var, Leaf]
    ) -> Iterator[tuple[Leaf, ...] | None]:
        """What is packed for each of `Body.all_pieces`; `held` are arguments that stay."""
        values = {**body.flat.constants, **held}
        for piece in body.pieces:
            yield self._packed(piece, values)
        for piece in body.pieces:
            held_inside = _held_inside(piece, values) if piece.bodies else ()
            for inner, inside in zip(piece.bodies, held_inside, strict=True):
                yield from self._packed_parts(inner, inside)

    def _packed(self, piece: Piece, values: Mapping[Var, Leaf]) -> tuple[Leaf, ...] | None:
        replacement, subject = self._replacement(piece), piece.subject
        if not isinstance(replacement, Packed) or subject is None or subject in self.too_large:
            return None
        variables = [piece.inputs[at] for at in replacement.positions]
        if not all(var in values for var in variables):
            return None
        inputs = [values[var] for var in variables]
        earlier, packed = self._ready.get(piece, ((), ()))
        # By identity: an equal array may be another one that changes, and comparing elements would
        # cost more than a call.
        if len(earlier) != len(inputs) or not all(map(operator.is_, earlier, inputs)):
            built = _pack(replacement, inputs)
            if built is None:
                self.too_large.add(subject)
                return None
            packed = built
            self._ready[piece] = inputs, packed
        return packed

    def _replacement(self, piece: Piece) -> Replacement | Packed | None:
        return None if piece.subject is None else self.replacements.get(piece.subject)

    def _run(
        self, piece: Piece, inputs: Sequence[Leaf], packed: tuple[Leaf, ...] | None
    ) -> Sequence[Leaf]:
        replacement = self._replacement(piece)
        if isinstance(replacement, Packed):
            if packed is not None:
                return replace_region(piece, _unpacking(piece, replacement))(*inputs, *packed)
            replacement = replacement.otherwise
        return (
            piece.original(*inputs)
            if replacement is None
            else replace_region(piece, replacement)(*inputs)
        )


def _held_inside(piece: Piece, values: Mapping[Var, Leaf]) -> Iterator[dict[Var, Leaf]]:
    """For each body of a loop or a branch, those of its arguments that stay the same."""
    (equation,) = piece.jaxpr.eqns
    known = {**dict(zip(piece.jaxpr.invars, piece.held, strict=False)), **values}
    for body, function in zip(piece.bodies, functions(equation), strict=True):
        yield {
            inner: known[atom]
            for inner, atom in zip(body.flat.inputs, function.operands, strict=True)
            if isinstance(atom, Var) and atom in known
        }


def _pack(replacement: Packed, inputs: Sequence[Leaf]) -> tuple[Leaf, ...] | None:
    """What a replacement packs; `None` where there is no memory for it."""
    try:
        with jax.ensure_compile_time_eval():  # also where a caller's trace comes first
            packed = tuple(replacement.pack(*inputs))
            jax.block_until_ready(packed)  # type: ignore[no-untyped-call]  # jax's
            return tuple(map(in_huge_pages, packed))
    except (MemoryError, jax.errors.JaxRuntimeError) as error:
        if isinstance(error, MemoryError) or says_out_of_memory(str(error)):
            return None
        raise


def _unpacking(piece: Piece, packed: Packed) -> Replacement:
    """The replacement as a function of all inputs and the packed arrays: those that come packed are
    dropped, which derivatives alone need."""
    unpacked = [at for at in range(len(piece.inputs)) if at not in packed.positions]

    def run(*inputs: Leaf) -> PyTree:
        return packed.run(*(inputs[at] for at in unpacked), *inputs[len(piece.inputs) :])

    return run
