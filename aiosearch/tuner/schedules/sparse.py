"""Sparse matrices times dense ones, and products sampled at the places of a sparse matrix.

    columns, values = blocked_rows(offsets, columns, values, block=(8, 8))  # of a CSR matrix
    spmm = tunable_spmm()
    await aiosearch.tune(spmm, columns, values, dense)

A sparse matrix is held as rows of blocks: each block row has as many blocks as the longest,
`columns` says where each lies, and -1 that there is none. With blocks of 1 by 1 these are the rows
of CSR, padded. Both operators are contractions whose second operand is looked up, so what schedules
dense contractions schedules these: tiles, order of the grid, sums in parts, matrix units where
blocks fill them. Modules of their own say how XLA looks up, and whether a kernel does so itself.

What is tuned with one matrix is right for any other whose rows of blocks have the same shape, and
fast where those lie alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from ..errors import TunerError
from ..kernels import ArgumentType, KernelCall
from ..records import RecordTable
from ..space.hardware import Hardware
from ..space.spaces import Sampler
from ..tunables import AnyTunable, Tunable
from ..types import Configuration, Function, Pytree
from .contractions import EinsumSchedule, EinsumSpec, lower
from .modules import (
    Branch,
    ScheduleModule,
    auto_inline,
    compose,
    multi_level_tiling,
    pipeline,
    require_grid,
    split_k,
    swizzle_grid,
    use_matrix_unit,
)

if TYPE_CHECKING:
    from typing import Any

    import numpy as np

    Array: TypeAlias = np.ndarray[Any, Any]

SPMM = "bwrc,bwcf->brf"
"""Of block row b the blocks w, r by c each, times the block rows of a dense matrix f wide."""
SDDMM = "brd,bwcd->bwrc"
"""At each place of a sparse matrix the products of d numbers of a row and of a column."""


LIBRARY = "XLA"
COMPRESSED = "compressed rows"
COMPRESSED_TYPES = ("float32", "float64")
"""What the library that jax calls on a processor multiplies; of others jax looks up."""


def library_call(s: Sampler, schedule: EinsumSchedule) -> Iterator[Branch]:
    """XLA's own kernels: looking up everything at once, or some places of each row at a time; on a
    processor the library that jax has for compressed rows; and where places are in the result, all
    products, of which it keeps those.
    """
    contraction = schedule.contraction
    along = contraction.gathered[-1]
    width = contraction.extents[along]
    yield LIBRARY, lambda: schedule.with_note("XLA's own kernel", library=True)
    if _has_library(s.hardware, contraction):
        yield (
            COMPRESSED,
            lambda: schedule.with_note("a library's kernel", library=True, compressed=True),
        )
    if width > 1:

        def chunked() -> EinsumSchedule:
            chunk = s.categorical("chunk", [size for size in range(1, width) if width % size == 0])
            return schedule.with_note(f"XLA, {chunk} places at once", library=True, chunk=chunk)

        yield "XLA in chunks", chunked
    if along in contraction.output:
        yield (
            "XLA, all products",
            lambda: schedule.with_note("all products by XLA", library=True, all_products=True),
        )


def _has_library(hardware: Hardware, contraction: EinsumSpec) -> bool:
    """Whether jax has more than looking up for a matrix of these values."""
    import jax

    on_processor = hardware.kind == "cpu" and jax.default_backend() == "cpu"
    kept = contraction.gathered[-1] in contraction.output
    return on_processor and contraction.dtype in COMPRESSED_TYPES and not kept


def look_up_first(s: Sampler, schedule: EinsumSchedule) -> Iterator[Branch]:
    """Writes down what is looked up before the kernel, which then goes through memory in order."""
    yield (
        "before the kernel",
        lambda: schedule.with_note("looked up before the kernel", gathered_first=True),
    )


STANDARD: tuple[ScheduleModule, ...] = (
    library_call,
    multi_level_tiling(),
    look_up_first,
    auto_inline,
    swizzle_grid,
    split_k,
    use_matrix_unit,
    pipeline,
)
"""What a product with a sparse matrix is scheduled with where nobody says otherwise."""


def tunable_spmm(
    *,
    epilogue: str = "",
    modules: Sequence[ScheduleModule] = STANDARD,
    table: str | None = None,
) -> AnyTunable:
    """A sparse matrix times a dense one: a function of `columns` (b, w), `values` (b, w, r, c) and
    the dense matrix as block rows (n, c, f), which gives block rows (b, r, f).

    A column of -1 is no block. `epilogue` names a function of `jax.nn` that is applied at the end.
    """
    return _tunable_product(SPMM, "spmm", epilogue, modules, table)


def tunable_sddmm(
    *, modules: Sequence[ScheduleModule] = STANDARD, table: str | None = None
) -> AnyTunable:
    """The product of two dense matrices at the places of a sparse one: a function of `columns`
    (b, w), of rows (b, r, d) and of the other matrix's rows (n, c, d), which gives blocks
    (b, w, r, c), of zeros where there is none.
    """
    return _tunable_product(SDDMM, "sddmm", "", modules, table)


def blocked_rows(
    offsets: Array, columns: Array, values: Array, *, block: tuple[int, int] = (1, 1)
) -> tuple[Array, Array]:
    """A CSR matrix as rows of blocks: the column of each block, -1 for none, and its values.

    Row i has `values[offsets[i]:offsets[i + 1]]` at `columns` of the same places. Rows are filled
    up to whole blocks with zeros; values at one place are added up. All block rows are as long as
    the longest, so that a matrix with few long rows takes more room than it did.

        columns, values = blocked_rows([0, 1, 3], [2, 0, 1], [5.0, 6.0, 7.0], block=(1, 2))
        # columns [[1], [0]], values [[[[5, 0]]], [[[6, 7]]]]
    """
    import numpy as np

    height, width = block
    offsets, columns, values = (np.asarray(part) for part in (offsets, columns, values))
    lengths = np.diff(offsets)
    if height < 1 or width < 1 or len(offsets) < 2:
        raise TunerError(f"blocks of {height} by {width} in {len(offsets) - 1} rows are no matrix")
    if offsets[0] or (lengths < 0).any() or not offsets[-1] == len(columns) == len(values):
        raise TunerError(
            f"offsets from {offsets[0]} to {offsets[-1]} do not cut {len(columns)} columns and"
            f" {len(values)} values into rows"
        )
    if (columns < 0).any():
        raise TunerError("a CSR matrix has no columns below 0")
    rows = np.repeat(np.arange(len(lengths)), lengths)
    block_rows = -(-len(lengths) // height)
    # Every block that has an element, by row and column, and which of them each element is in.
    keys = (rows // height) * (int(columns.max(initial=0)) // width + 1) + columns // width
    present, inverse = np.unique(keys, return_inverse=True)
    owners, places = np.divmod(present, int(columns.max(initial=0)) // width + 1)
    counts = np.bincount(owners, minlength=block_rows)
    slots = np.arange(len(present)) - np.repeat(np.cumsum(counts) - counts, counts)
    longest = max(1, int(counts.max()))
    blocks = np.full((block_rows, longest), -1, np.int32)
    blocks[owners, slots] = places
    filled = np.zeros((block_rows, longest, height, width), values.dtype)
    at = (owners[inverse], slots[inverse], rows % height, columns % width)
    np.add.at(filled, at, values)
    return blocks, filled


def _tunable_product(
    text: str, name: str, epilogue: str, modules: Sequence[ScheduleModule], table: str | None
) -> AnyTunable:
    def spec(places: Pytree, first: Pytree, second: Pytree) -> EinsumSpec:
        if len(places.shape) != 2 or "int" not in str(places.dtype):
            raise TunerError(
                f"{name} takes the columns of blocks first, whole numbers of two axes, and not"
                f" {places.dtype}{list(places.shape)}"
            )
        return EinsumSpec.of(text, first, second, places=places, epilogue=epilogue)

    def space(s: Sampler, places: ArgumentType, first: ArgumentType, second: ArgumentType) -> None:
        schedule = compose(modules, s, spec(places, first, second).start())
        if not schedule.library:
            require_grid(s, schedule)

    def reference(places: Pytree, first: Pytree, second: Pytree) -> Pytree:
        schedule = spec(places, first, second).start().with_note("XLA", library=True)
        return lower(schedule)(first, second, places)

    def product(places: Pytree, first: Pytree, second: Pytree, **decisions: Pytree) -> Pytree:
        sampler = Sampler(lambda site: decisions[site.name], kernel.hardware)
        schedule = compose(modules, sampler, spec(places, first, second).start())
        return lower(schedule)(first, second, places)

    title = f"{name}:{epilogue}" if epilogue else name
    kernel = TunableProduct(spec, product, space, reference, RecordTable(table), title)
    return kernel


class TunableProduct(Tunable[..., Pytree]):
    """A product with a sparse matrix; untuned it runs as the library that should be fastest.

    That is the one for compressed rows where blocks are single elements: others it takes apart,
    which takes about as long as it gains.
    """

    def __init__(
        self,
        spec: Function,
        function: Function,
        program: Function,
        reference: Function,
        table: RecordTable,
        name: str,
    ) -> None:
        super().__init__(function, program, reference, table, name)
        self._spec = spec

    def _defaults(self, call: KernelCall) -> Configuration:
        contraction: EinsumSpec = self._spec(*call.typed().arguments)
        elements = math.prod(call.types[1].shape) == math.prod(call.types[0].shape)
        compressed = elements and _has_library(self.hardware, contraction)
        library = COMPRESSED if compressed else LIBRARY
        return {library_call.__name__: library}
