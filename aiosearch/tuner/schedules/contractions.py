"""Contractions: products of two arrays summed over axes, how one is scheduled, and its kernel.

A `EinsumSchedule` is data. Modules change it step by step, and `lower` prints what it says as
a kernel of Pallas: a grid of blocks, a loop over the summed axes in steps, an epilogue inside or
after. Every schedule that `lower` takes computes the same; only the order of the sums differs.

The second operand may be looked up: `bwrc,bwcf->brf` with places `bw` in an array `ncf` is a
product with a sparse matrix, of which each block row b has blocks of r by c at the block columns
`places[b, w]`. A place below 0 is none: what lies there counts as nothing, whatever it is.
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
    gathered: str = ""
    """The first axes of the second operand, where it is looked up: those of the places."""

    @classmethod
    def of(
        cls, text: str, first: Pytree, second: Pytree, *, places: Pytree = None, epilogue: str = ""
    ) -> Self:
        """Reads the text of an einsum of two arrays, given their types.

        EinsumSpec.of("mk,kn->mn", x, y, epilogue="relu")

        With `places` the second operand is `second[places]`, and the text names its axes.

        EinsumSpec.of("bwrc,bwcf->brf", values, dense, places=columns)
        """
        inputs, arrow, output = text.replace(" ", "").partition("->")
        operands = inputs.split(",")
        if not arrow or len(operands) != 2:
            raise TunerError(f"{text!r} is no contraction of two arrays; write it as mk,kn->mn")
        gathered = "" if places is None else operands[1][: len(places.shape)]
        looked_up = second.shape if places is None else (*places.shape, *second.shape[1:])
        extents: dict[str, int] = {}
        for labels, operand, shape in (
            (operands[0], first, first.shape),
            (operands[1], second, looked_up),
        ):
            if len(set(labels)) != len(labels) or len(labels) != len(shape):
                raise TunerError(f"{labels!r} does not name each axis of {operand} once")
            for label, extent in zip(labels, shape, strict=True):
                if extents.setdefault(label, int(extent)) != extent:
                    raise TunerError(f"axis {label} is {extents[label]} and {extent} long")
        if set(output) - set(extents) or len(set(output)) != len(output):
            raise TunerError(
                f"{text!r}: the output has an axis that no operand has, or has it twice"
            )
        named = (operands[0], operands[1])
        return cls(named, output, extents, str(first.dtype), epilogue, gathered)

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
    gathered_first: bool = False
    """Whether what is looked up is written down before the kernel, which then looks up nothing."""
    chunk: int = 0
    """How many places of a row XLA looks up at once; 0 for all."""
    all_products: bool = False
    """Whether XLA computes the products with every row, and looks up among those."""
    compressed: bool = False
    """Whether jax's library for sparse matrices computes it, from rows of elements."""
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
    """A function of both operands, and of the places where the second is looked up, that computes
    the contraction as the schedule says.

    Without a GPU, Pallas interprets the kernel.
    """
    import jax

    if schedule.library:
        return partial(_library, schedule)
    interpret = jax.default_backend() == "cpu" if interpret is None else interpret
    return _Kernel(schedule, interpret)


def _float32(*shape: int) -> Pytree:
    """The type of an array of sums."""
    import jax

    make: Function = jax.ShapeDtypeStruct
    return make(shape, "float32")


def _library(
    schedule: EinsumSchedule, first: Pytree, second: Pytree, places: Pytree = None
) -> Pytree:
    import jax.numpy as jnp

    contraction = schedule.contraction
    if places is None:
        return contraction.apply(jnp.einsum(contraction.text, first, second))
    if schedule.all_products:
        return contraction.apply(_looked_up_products(contraction, first, second, places))
    if schedule.compressed:
        return contraction.apply(_compressed_product(contraction, first, second, places))
    if schedule.chunk:
        return contraction.apply(_in_chunks(schedule, first, second, places))
    return contraction.apply(_product(contraction, first, second, places))


def _product(contraction: EinsumSpec, first: Pytree, second: Pytree, places: Pytree) -> Pytree:
    """The contraction with what is looked up in the second operand, all at once."""
    import jax.numpy as jnp

    operands = _present(contraction, first, places), _looked_up(second, places)
    values = jnp.einsum(contraction.text, *operands)
    return _present(contraction, values, places, contraction.output)


def _looked_up(table: Pytree, places: Pytree) -> Pytree:
    """The rows of a table at places, zeros where there is no place."""
    import jax.numpy as jnp

    rows = table[jnp.maximum(places, 0)]
    return jnp.where(places.reshape(*places.shape, *[1] * (table.ndim - 1)) >= 0, rows, 0)


def _present(
    contraction: EinsumSpec, values: Pytree, places: Pytree, labels: str | None = None
) -> Pytree:
    """An array with these axes, by default the first operand, with zeros where it belongs to no
    place: an infinity there times a zero would be something.
    """
    import jax.numpy as jnp

    labels = contraction.operands[0] if labels is None else labels
    if not set(contraction.gathered) <= set(labels):
        return values
    return jnp.where(_aligned(places, contraction.gathered, labels) >= 0, values, 0)


def _aligned(values: Pytree, labels: str, among: str) -> Pytree:
    """An array with the axes of `labels` as one with those of `among`, 1 long where it has none."""
    held = [label for label in among if label in labels]
    sizes = {label: values.shape[labels.index(label)] for label in held}
    ordered = values.transpose([labels.index(label) for label in held])
    return ordered.reshape([sizes.get(label, 1) for label in among])


def _looked_up_products(
    contraction: EinsumSpec, first: Pytree, second: Pytree, places: Pytree
) -> Pytree:
    """The products with all rows of the second operand, and of those the ones at the places."""
    import jax.numpy as jnp

    gathered, output = contraction.gathered, contraction.output
    along, tail = gathered[-1], contraction.operands[1][len(gathered) :]
    # The axis of places stands for the axis that they are places in.
    text = f"{contraction.operands[0]},{along}{tail}->{output}"
    at = _aligned(places, gathered, output)
    products = jnp.einsum(text, first, second)
    values = jnp.take_along_axis(products, jnp.maximum(at, 0), axis=output.index(along))
    return _present(contraction, values, places, output)


def _compressed_product(
    contraction: EinsumSpec, first: Pytree, second: Pytree, places: Pytree
) -> Pytree:
    """The product of a matrix in compressed rows, which jax gives to a library on a processor.

    Rows of blocks become rows of elements, all equally long: the matrix [[5, 0, 6, 7]] in blocks of
    1 by 2, with places [[0, 1, -1]], has the columns 0, 1, 2, 3, 4 and 4. Where there is no place,
    zeros meet a row of zeros that is put behind the second operand: the library knows no gaps.
    """
    import jax.numpy as jnp
    from jax.experimental.sparse import BCSR

    gathered, extents = contraction.gathered, contraction.extents
    left, tail = contraction.operands[0], contraction.operands[1][len(gathered) :]
    rows = "".join(label for label in left if label in contraction.output)
    inner = "".join(label for label in tail if label not in contraction.output)
    width = "".join(label for label in tail if label in contraction.output)
    along = f"{gathered[-1]}{inner}"
    sizes = {label: extents[label] for label in f"{rows}{along}{width}"}
    count, depth = second.shape[0], math.prod(sizes[label] for label in inner)

    def flat(*groups: str) -> tuple[int, ...]:
        return tuple(math.prod(sizes[label] for label in group) for group in groups)

    order = [left.index(label) for label in f"{rows}{along}"]
    values = _present(contraction, first, places).transpose(order)
    # A place beyond the last is taken for the last, as jax has it.
    blocks = jnp.where(places < 0, count, jnp.minimum(places, count - 1))
    blocks = _aligned(blocks, gathered, f"{rows}{gathered[-1]}")[..., None] * depth
    columns = jnp.broadcast_to(
        blocks + jnp.arange(depth), (*(sizes[label] for label in f"{rows}{along[0]}"), depth)
    )
    height, length = flat(rows, along)
    offsets = jnp.arange(height + 1, dtype="int32") * length
    table = second.transpose([0, *(1 + tail.index(label) for label in f"{inner}{width}")])
    table = jnp.pad(table.reshape(count * depth, *flat(width)), ((0, depth), (0, 0)))
    matrix = BCSR(
        (values.reshape(-1), columns.reshape(-1).astype("int32"), offsets),
        shape=(height, table.shape[0]),
    )
    product = (matrix @ table).reshape([sizes[label] for label in f"{rows}{width}"])
    return product.transpose([f"{rows}{width}".index(label) for label in contraction.output])


def _in_chunks(schedule: EinsumSchedule, first: Pytree, second: Pytree, places: Pytree) -> Pytree:
    """Looks up some places of each row at a time, so that what is looked up stays in the caches."""
    import jax.numpy as jnp
    from jax import lax

    contraction, chunk = schedule.contraction, schedule.chunk
    along = contraction.gathered[-1]

    def cut(array: Pytree, labels: str) -> Pytree:
        axis = labels.index(along)
        shape = (*array.shape[:axis], -1, chunk, *array.shape[axis + 1 :])
        return jnp.moveaxis(array.reshape(shape), axis, 0)

    shared = along not in contraction.operands[0]
    pieces = None if shared else cut(first, contraction.operands[0])
    shape = [contraction.extents[axis] for axis in contraction.output]
    start = 0 if along in contraction.output else jnp.zeros(shape, first.dtype)

    def step(total: Pytree, piece: Pytree) -> tuple[Pytree, Pytree]:
        part, at = piece
        values = _product(contraction, first if shared else part, second, at)
        return (total, values) if along in contraction.output else (total + values, None)

    total, values = lax.scan(step, start, (pieces, cut(places, contraction.gathered)))
    if along not in contraction.output:
        return total
    return jnp.moveaxis(values, 0, contraction.output.index(along)).reshape(shape)


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

    def __call__(self, first: Pytree, second: Pytree, places: Pytree = None) -> Pytree:
        from jax.experimental import pallas as pl

        schedule, contraction = self._schedule, self._schedule.contraction
        looks_up = places is not None and not schedule.gathered_first
        if places is not None and schedule.gathered_first:
            first, second = _present(contraction, first, places), _looked_up(second, places)
        arrays, labels = [first, second], list(contraction.operands)
        if looks_up:
            arrays, labels = [*arrays, places], [*labels, contraction.gathered]
        blocks = [pl.BlockSpec(self._shape(part), partial(self._place, part)) for part in labels]
        if looks_up:
            tail = contraction.operands[1][len(contraction.gathered) :]
            whole = (second.shape[0], *self._shape(tail))
            blocks[1] = pl.BlockSpec(whole, lambda *ids: (0, *self._place(tail, *ids)))
        shape = tuple(contraction.extents[axis] for axis in contraction.output)
        partial_sums = pl.pallas_call(
            self._body,
            grid=self._sizes,
            in_specs=blocks,
            out_specs=pl.BlockSpec((1, *self._shape(contraction.output)), self._output_place),
            out_shape=_float32(schedule.splits, *shape),
            interpret=self._interpret,
        )(*arrays)
        values = partial_sums[0] if schedule.splits == 1 else partial_sums.sum(axis=0)
        if places is not None:
            values = _present(contraction, values, places, contraction.output)
        values = values if self._applies_inside else contraction.apply(values)
        return values.astype(contraction.dtype)

    @property
    def _applies_inside(self) -> bool:
        """Partial sums are no values yet, so the epilogue waits for all of them; and where results
        belong to places, for those that belong to none.
        """
        contraction = self._schedule.contraction
        placed = contraction.gathered and set(contraction.gathered) <= set(contraction.output)
        return self._schedule.inlined and self._schedule.splits == 1 and not placed

    def _body(self, first: Pytree, second: Pytree, *further: Pytree) -> None:
        import jax.numpy as jnp
        from jax.experimental import pallas as pl

        *places, out = further
        step = pl.program_id(self._splits_at + 1)

        @pl.when(step == 0)
        def _() -> None:
            out[...] = jnp.zeros_like(out)

        a = first[...]
        if places:
            at = places[0][...]
            # Of the rows in memory only those at the places are read.
            rows = second[jnp.maximum(at, 0).reshape(-1)].reshape(*at.shape, *second.shape[1:])
            b = jnp.where(at.reshape(*at.shape, *[1] * (rows.ndim - at.ndim)) >= 0, rows, 0)
            a = _present(self._schedule.contraction, a, at)
        else:
            b = second[...]
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
