"""Contractions: products of two arrays summed over axes, how one is scheduled, and its kernel.

A `EinsumSchedule` is data. Modules change it step by step, and `lower` prints what it says as
a kernel of Pallas: a grid of blocks, a loop over the summed axes in steps, an epilogue inside or
after. Every schedule that `lower` takes computes the same; only the order of the sums differs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Self

from ..errors import SpaceError, TunerError
from ..types import Configuration, Function, Pytree


@dataclass(frozen=True)
class EinsumSpec:
    """What is computed: `mk,kn->mn`, extents of its axes, and what is applied to each element."""

    operands: tuple[str, str]
    output: str
    extents: Mapping[str, int]
    dtype: str = "float32"
    epilogue: str = ""
    """A function of `jax.nn` or `jax.numpy` that is applied at the end, by its name."""

    @classmethod
    def of(cls, text: str, first: Pytree, second: Pytree, *, epilogue: str = "") -> Self:
        """Reads the text of an einsum of two arrays, given their types.

        EinsumSpec.of("mk,kn->mn", x, y, epilogue="relu")
        """
        inputs, arrow, output = text.replace(" ", "").partition("->")
        operands = inputs.split(",")
        if not arrow or len(operands) != 2:
            raise TunerError(f"{text!r} is no contraction of two arrays; write it as mk,kn->mn")
        extents: dict[str, int] = {}
        for labels, operand in zip(operands, (first, second), strict=True):
            if len(set(labels)) != len(labels) or len(labels) != len(operand.shape):
                raise TunerError(f"{labels!r} does not name each axis of {operand} once")
            for label, extent in zip(labels, operand.shape, strict=True):
                if extents.setdefault(label, int(extent)) != extent:
                    raise TunerError(f"axis {label} is {extents[label]} and {extent} long")
        if set(output) - set(extents) or len(set(output)) != len(output):
            raise TunerError(
                f"{text!r}: the output has an axis that no operand has, or has it twice"
            )
        return cls((operands[0], operands[1]), output, extents, str(first.dtype), epilogue)

    @property
    def summed(self) -> str:
        """The axes that are summed over, in the order of the operands."""
        labels = dict.fromkeys("".join(self.operands))
        return "".join(label for label in labels if label not in self.output)

    @property
    def text(self) -> str:
        return f"{','.join(self.operands)}->{self.output}"

    def start(self) -> EinsumSchedule:
        """The schedule to begin with: one block, the epilogue after it."""
        return EinsumSchedule(self, {axis: (1, size) for axis, size in self.extents.items()})

    def apply(self, values: Pytree) -> Pytree:
        """The epilogue."""
        import jax
        import jax.numpy as jnp

        if not self.epilogue:
            return values
        function = getattr(jax.nn, self.epilogue, None) or getattr(jnp, self.epilogue)
        return function(values)


@dataclass(frozen=True)
class EinsumSchedule:
    """How a contraction is computed."""

    contraction: EinsumSpec
    tiles: Mapping[str, tuple[int, ...]]
    """Of each axis, its factors: those of the grid, or steps of the sum, and the block's last."""
    order: str = ""
    """The output's axes as the grid goes through them, outermost first; empty for as they are."""
    inlined: bool = False
    """Whether the epilogue runs inside the kernel, on each block that is done."""
    operand_dtype: str = ""
    """What operands are rounded to before they are multiplied, where a unit wants that."""
    splits: int = 1
    """Into how many partial sums, added up afterwards, the summed axes are cut."""
    library: bool = False
    """Whether XLA's own kernel computes it, whatever the rest says."""
    stages: int = 0
    warps: int = 0
    notes: tuple[str, ...] = field(default=())
    """What modules have done, in words."""

    def with_note(self, note: str, **changes: Pytree) -> EinsumSchedule:
        """The same with changes, and a note of what they are."""
        return replace(self, notes=(*self.notes, note), **changes)

    def block(self, axis: str) -> int:
        """How long an axis is in a block."""
        return self.tiles[axis][-1]

    def block_bytes(self) -> int:
        """What the blocks of both operands take."""
        size = 2 if self.operand_dtype else 4
        return size * sum(
            math.prod(self.block(axis) for axis in labels) for labels in self.contraction.operands
        )


def lower(schedule: EinsumSchedule, *, interpret: bool | None = None) -> Function:
    """A function of both operands that computes the contraction as the schedule says.

    Without a GPU, Pallas interprets the kernel.
    """
    import jax

    if schedule.library:
        return partial(_library, schedule.contraction)
    interpret = jax.default_backend() == "cpu" if interpret is None else interpret
    return _Kernel(schedule, interpret)


def _float32(*shape: int) -> Pytree:
    """The type of an array of sums."""
    import jax

    make: Function = jax.ShapeDtypeStruct
    return make(shape, "float32")


def _library(contraction: EinsumSpec, first: Pytree, second: Pytree) -> Pytree:
    import jax.numpy as jnp

    return contraction.apply(jnp.einsum(contraction.text, first, second))


class _Kernel:
    """The kernel of a schedule: grid, blocks and body.

    The grid has the axes of the output, level by level, then one for the partial sums, and last
    the steps of the sum: so all steps of a block follow each other, and the block adds them up.
    With tiles (2, 4, 16) of m and (8, 32) of n, in the order nm, the grid is n0 m0 m1: 8 x 2 x 4.
    """

    def __init__(self, schedule: EinsumSchedule, interpret: bool) -> None:
        self._schedule = schedule
        self._interpret = interpret
        contraction = schedule.contraction
        for axis, extent in contraction.extents.items():
            if math.prod(schedule.tiles[axis]) != extent:
                raise SpaceError(f"tiles {schedule.tiles[axis]} of axis {axis} are not {extent}")
        order = schedule.order or contraction.output
        depth = max((len(schedule.tiles[axis]) - 1 for axis in order), default=0)
        self._grid: list[tuple[str, int, int]] = []
        """Of each place of the grid: its axis, its level, and how long it is."""
        for level in range(depth):
            for axis in order:
                factors = schedule.tiles[axis][:-1]
                if level < len(factors):
                    self._grid.append((axis, level, factors[level]))
        self._splits_at = len(self._grid)
        steps = [(axis, math.prod(schedule.tiles[axis][:-1])) for axis in contraction.summed]
        total = math.prod(count for _, count in steps)
        if total % schedule.splits:
            raise SpaceError(f"{total} steps cannot be cut into {schedule.splits} parts")
        self._steps = steps
        self._share = total // schedule.splits
        self._sizes = (*(size for *_, size in self._grid), schedule.splits, self._share)

    def __call__(self, first: Pytree, second: Pytree) -> Pytree:
        from jax.experimental import pallas as pl

        schedule, contraction = self._schedule, self._schedule.contraction
        blocks = [
            pl.BlockSpec(self._shape(labels), partial(self._place, labels))
            for labels in contraction.operands
        ]
        shape = tuple(contraction.extents[axis] for axis in contraction.output)
        partial_sums = pl.pallas_call(
            self._body,
            grid=self._sizes,
            in_specs=blocks,
            out_specs=pl.BlockSpec((1, *self._shape(contraction.output)), self._output_place),
            out_shape=_float32(schedule.splits, *shape),
            interpret=self._interpret,
        )(first, second)
        values = partial_sums[0] if schedule.splits == 1 else partial_sums.sum(axis=0)
        values = values if self._applies_inside else contraction.apply(values)
        return values.astype(contraction.dtype)

    @property
    def _applies_inside(self) -> bool:
        """Partial sums are no values yet, so the epilogue waits for all of them."""
        return self._schedule.inlined and self._schedule.splits == 1

    def _body(self, first: Pytree, second: Pytree, out: Pytree) -> None:
        import jax.numpy as jnp
        from jax.experimental import pallas as pl

        step = pl.program_id(self._splits_at + 1)

        @pl.when(step == 0)
        def _() -> None:
            out[...] = jnp.zeros_like(out)

        a, b = first[...], second[...]
        if self._schedule.operand_dtype:
            a, b = (part.astype(self._schedule.operand_dtype) for part in (a, b))
        product = jnp.einsum(
            self._schedule.contraction.text, a, b, preferred_element_type=jnp.float32
        )
        out[...] += product[None]
        if self._applies_inside:

            @pl.when(step == self._share - 1)
            def _() -> None:
                out[...] = self._schedule.contraction.apply(out[...])

    def _shape(self, labels: str) -> tuple[int, ...]:
        return tuple(self._schedule.block(axis) for axis in labels)

    def _place(self, labels: str, *ids: Pytree) -> tuple[Pytree, ...]:
        """Which block of an operand belongs to a place of the grid."""
        step = ids[self._splits_at] * self._share + ids[self._splits_at + 1]
        places: Configuration = {}
        for axis, count in reversed(self._steps):  # the last summed axis runs fastest
            places[axis] = step % count
            step = step // count
        for (axis, _, size), place in zip(self._grid, ids, strict=False):
            places[axis] = places.get(axis, 0) * size + place
        return tuple(places.get(axis, 0) for axis in labels)

    def _output_place(self, *ids: Pytree) -> tuple[Pytree, ...]:
        return (ids[self._splits_at], *self._place(self._schedule.contraction.output, *ids))
