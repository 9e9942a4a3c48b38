"""What the regions of a function are given where it is called with the user's arguments.

Problem: random inputs may be nothing like those that a program is given: labels that are in range,
weights that were trained, numbers within a density's support. The user's arguments are at hand, but
a region in the middle takes what the steps before it compute of them.

Method: the function runs once more, up to the last region, and gives the inputs of each region
where it first stands. That is one compilation and one run, when a candidate is first checked.

Example: of `exp(log(x) @ w).sort()` the region `exp(log(x) @ w)` is given the user's `x` and `w`.

Invariant: nothing is run that has effects, and nothing for a region in a loop or a branch, whose
inputs are others at each turn; there, and where the function was traced with types alone, there are
none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import jax
from jax.extend.core import Var

from ...capture.jax_types import Leaf, aval
from ...equivalence import in_types
from ..jax_settings import use_settings
from .pieces import Piece, Subject
from .traced import CutFunction

MOST_BYTES = 1 << 26
"""Regions whose inputs take more than this in all are not given any."""


class RegionArguments:
    """The inputs of regions, computed when they are first asked for; each call blocks."""

    def __init__(self, cut: CutFunction, examples: Sequence[Leaf]) -> None:
        self._cut = cut
        self._examples = examples

    def of(self, subject: Subject) -> tuple[Leaf, ...] | None:
        """The inputs of a program, in its working types; `None` where there are none."""
        return self._values.get(subject)

    @cached_property
    def _values(self) -> Mapping[Subject, tuple[Leaf, ...]]:
        pieces = self._first_pieces()
        concrete = not any(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in self._examples)
        if not pieces or not concrete or any(piece.jaxpr.effects for piece in self._cut.pieces):
            return {}
        with use_settings(self._cut.settings):
            try:
                outputs = jax.jit(lambda *leaves: self._run(pieces, leaves))(*self._examples)
                arrays = [jax.device_get(list(each)) for each in outputs]
            except jax.errors.JaxRuntimeError:
                # Mostly for lack of memory: all inputs are held at once. Those drawn have to do.
                return {}
        values = {}
        for (subject, _), each in zip(pieces.items(), arrays, strict=True):
            types = [term.type for term in subject.program.inputs]
            values[subject] = tuple(in_types(types, each))
        return values

    def _first_pieces(self) -> dict[Subject, Piece]:
        """Where each program first stands outside of loops and branches, if its inputs are few."""
        pieces: dict[Subject, Piece] = {}
        for piece in self._cut.pieces:
            if piece.subject is not None and _bytes(piece) <= MOST_BYTES:
                pieces.setdefault(piece.subject, piece)
        return pieces

    def _run(
        self, pieces: Mapping[Subject, Piece], leaves: Sequence[Leaf]
    ) -> list[tuple[Leaf, ...]]:
        """The inputs of `pieces`, in their order."""
        flat = self._cut.flat
        values: dict[Var, Leaf] = {
            **flat.constants,
            **dict(zip(flat.inputs, leaves, strict=True)),
        }
        last = list(pieces.values())[-1]
        for piece in self._cut.pieces:
            if piece is last:
                break
            results = piece.original(*(values[var] for var in piece.inputs))
            values.update(zip(piece.outputs, results, strict=True))
        return [tuple(values[var] for var in piece.inputs) for piece in pieces.values()]


def _bytes(piece: Piece) -> int:
    """How many bytes the inputs of a piece take."""
    avals = map(aval, piece.inputs)
    return sum(value.size * value.dtype.itemsize for value in avals)
