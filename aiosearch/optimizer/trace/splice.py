"""A traced function with replacements spliced in for its regions, whose derivatives stay the
original's.

Puts something else in the place of a region, with the region's own derivatives.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import jax
from jax.extend.core import Literal
from jax.extend.core.primitives import convert_element_type_p

from ...measure.errors import says_out_of_memory
from ...measure.worker.huge_pages import in_huge_pages
from .errors import SpliceError
from .flat_jaxpr import aval
from .pieces import Piece, Subject
from .traced import CutFunction

Replacement: TypeAlias = Callable[..., Any]
"""Takes a region's inputs in order; gives its one output, or a sequence of them."""


@dataclass(frozen=True)
class Packed:
    """A replacement that wants some of its inputs in another form, which is made once.

    It is used where those inputs stay the same from call to call, `otherwise` elsewhere.
    """

    positions: tuple[int, ...]
    """Which of the region's inputs are packed."""
    pack: Callable[..., Sequence[Any]]
    """Takes them, and gives arrays."""
    run: Replacement
    """Takes the inputs that are not packed, then what `pack` gave."""
    otherwise: Replacement | None = None


def replace_region(piece: Piece, run: Replacement) -> Callable[..., Sequence[Any]]:
    """A function of a region's inputs, and of whatever follows them, that `run` computes.

    Derivatives and batches are the region's own: `run` was neither verified nor measured on them.
    """
    count = len(piece.inputs)

    @jax.custom_batching.custom_vmap
    def alone(*inputs: Any) -> tuple[Any, ...]:
        return _fitted(piece, run(*inputs))

    @alone.def_vmap
    def batched(size: int, mapped: Sequence[bool], *inputs: Any) -> tuple[Any, Any]:
        axes = tuple(0 if one else None for one in mapped[:count])
        found = jax.vmap(piece.original, axes, axis_size=size)(*inputs[:count])
        return tuple(found), (True,) * len(found)

    @jax.custom_jvp
    def fast(*inputs: Any) -> tuple[Any, ...]:
        return tuple(alone(*inputs))

    @fast.defjvp
    def rule(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        def original(*inputs: Any) -> tuple[Any, ...]:
            return tuple(piece.original(*inputs))

        return jax.jvp(original, tuple(primals[:count]), tuple(tangents[:count]))

    def function(*inputs: Any) -> Sequence[Any]:
        return _weakened(piece, fast(*inputs))

    return function


def _fitted(piece: Piece, found: Any) -> tuple[Any, ...]:
    """What a replacement gave, where it is what the region gives."""
    outputs = tuple(found) if isinstance(found, (tuple, list)) else (found,)
    given = [f"{one.dtype}{list(one.shape)}" for one in outputs]
    wanted = [f"{one.dtype}{list(one.shape)}" for one in map(aval, piece.outputs)]
    if given != wanted:
        raise SpliceError(f"a replacement gives {', '.join(given)}, not {', '.join(wanted)}")
    return outputs


def _weakened(piece: Piece, outputs: Sequence[Any]) -> list[Any]:
    """Weak types are the region's, which no other spelling keeps."""
    return [
        convert_element_type_p.bind(one, new_dtype=own.dtype, weak_type=True, sharding=None)
        if own.weak_type
        else one
        for one, own in zip(outputs, map(aval, piece.outputs), strict=True)
    ]


pass

Packs: TypeAlias = "tuple[tuple[Any, ...] | None, ...]"
"""For each piece the arrays that were packed for it, where they were."""


class Spliced:
    """The function, with replacements by subject; a region that has none runs as it is.

    It can be compiled, differentiated and batched like the function.
    """

    def __init__(
        self, cut: CutFunction, replacements: Mapping[Subject, Replacement | Packed] | None = None
    ) -> None:
        self.cut = cut
        self.replacements = dict(replacements or {})
        self.too_large: set[Subject] = set()
        """Those for which there was no memory to pack what they want: they run as `otherwise`."""
        self._ready: dict[Piece, tuple[list[Any], tuple[Any, ...]]] = {}
        unknown = self.replacements.keys() - set(cut.subjects)
        if unknown:
            names = ", ".join(sorted(one.program.name for one in unknown))
            raise SpliceError(f"nothing in the function computes {names}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Takes what the function takes, in the way in which it was called when it was cut."""
        leaves = self.cut.call.leaves(args, kwargs)
        if leaves is None:
            raise SpliceError("the function was cut for another way of calling it")
        return self.tree(leaves)

    def tree(self, leaves: Sequence[Any], packs: Packs | None = None) -> Any:
        """Takes the arrays of a call, in order, and gives its result."""
        return jax.tree_util.tree_unflatten(self.cut.tree, self.flat(leaves, packs))

    def flat(self, leaves: Sequence[Any], packs: Packs | None = None) -> list[Any]:
        """Takes the arrays of a call alone, in order, and gives those of its results."""
        flat = self.cut.flat
        values = {**flat.constants, **dict(zip(flat.inputs, leaves, strict=True))}
        for piece, packed in zip(self.cut.pieces, packs or self.packs({}), strict=True):
            found = self._run(piece, [values[var] for var in piece.inputs], packed)
            values.update(zip(piece.outputs, found, strict=True))
        return [one.val if isinstance(one, Literal) else values[one] for one in flat.outputs]

    def packs(self, held: Mapping[int, Any]) -> Packs:
        """Packs what stays the same: what was closed over, and these of the call's arrays.

        It is kept, and made again only where other arrays are given.
        """
        flat = self.cut.flat
        values = {**flat.constants, **{flat.inputs[at]: array for at, array in held.items()}}
        return tuple(self._packed(piece, values) for piece in self.cut.pieces)

    def _packed(self, piece: Piece, values: Mapping[Any, Any]) -> tuple[Any, ...] | None:
        wanted, subject = self._replacement(piece), piece.subject
        if not isinstance(wanted, Packed) or subject is None or subject in self.too_large:
            return None
        wanted_inputs = [piece.inputs[at] for at in wanted.positions]
        if not all(var in values for var in wanted_inputs):
            return None
        inputs = [values[var] for var in wanted_inputs]
        known, packed = self._ready.get(piece, ((), ()))
        if len(known) != len(inputs) or not all(map(operator.is_, known, inputs)):
            made = _made(wanted, inputs)
            if made is None:
                self.too_large.add(subject)
                return None
            packed = made
            self._ready[piece] = inputs, packed
        return packed

    def _replacement(self, piece: Piece) -> Replacement | Packed | None:
        return None if piece.subject is None else self.replacements.get(piece.subject)

    def _run(
        self, piece: Piece, inputs: Sequence[Any], packed: tuple[Any, ...] | None
    ) -> Sequence[Any]:
        wanted = self._replacement(piece)
        if isinstance(wanted, Packed):
            if packed is not None:
                return replace_region(piece, _unpacking(piece, wanted))(*inputs, *packed)
            wanted = wanted.otherwise
        return piece.original(*inputs) if wanted is None else replace_region(piece, wanted)(*inputs)


def _made(wanted: Packed, inputs: Sequence[Any]) -> tuple[Any, ...] | None:
    """What is packed, where there is memory for it."""
    try:
        with jax.ensure_compile_time_eval():  # also where a caller's trace comes first
            packed = tuple(wanted.pack(*inputs))
            jax.block_until_ready(packed)  # type: ignore[no-untyped-call]  # jax's
            return tuple(map(in_huge_pages, packed))
    except (MemoryError, jax.errors.JaxRuntimeError) as error:
        if isinstance(error, MemoryError) or says_out_of_memory(str(error)):
            return None
        raise


def _unpacking(piece: Piece, packed: Packed) -> Replacement:
    """Drops the inputs that come packed, which derivatives alone need."""
    kept = [at for at in range(len(piece.inputs)) if at not in packed.positions]

    def run(*inputs: Any) -> Any:
        return packed.run(*(inputs[at] for at in kept), *inputs[len(piece.inputs) :])

    return run
