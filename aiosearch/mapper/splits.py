"""Cuts arrays and calls into the pieces that a mapping places.

A `DataSplit` is a run of rows of an array; a `PatternSplit` is a run of indices of a call, with the
data splits it reads and writes. There is one object for each run of an array, made by a
`DataTable`, so two calls depend on each other exactly where their sets of data splits meet.

Example: 10 rows cut by 4 are rows 0-3, 4-7 and 8-9; a call over indices 3-6 that reads row i + 1
reads the first two of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from .errors import PatternError
from .patterns import Access, Array, PatternCall, PatternKind, PatternProgram, Work


class SplitSizes(Struct, frozen=True):
    """How many indices of a call, and how many rows of an array, make a piece."""

    pattern: int = 128
    data: int = 1024

    def __post_init__(self) -> None:
        if self.pattern < 1 or self.data < 1:
            raise PatternError(f"split sizes must be at least 1, not {self.pattern}/{self.data}")


class DataSplit(Struct, frozen=True, order=True):
    """Rows of an array; of a scalar, and of a part of a reduction, the whole."""

    array: str
    start: int
    rows: int
    bytes: float


class PatternSplit(Struct, frozen=True):
    """A run of indices of a call: the unit that a step places."""

    call: int
    """The position of the call in its program."""
    stage: int
    """0 but for reductions, whose parts are combined in stage 1, and for recurrences."""
    name: str
    kind: PatternKind
    work: Work
    starts: tuple[int, ...]
    lengths: tuple[int, ...]
    inputs: tuple[DataSplit, ...]
    outputs: tuple[DataSplit, ...]

    @property
    def iterations(self) -> int:
        count = 1
        for length in self.lengths:
            count *= length
        return count

    @property
    def is_placed(self) -> bool:
        """Whether a mapping assigns it; what is serial runs on the host between steps."""
        return self.kind is not PatternKind.SERIAL

    @property
    def needs_cpu(self) -> bool:
        return self.kind is PatternKind.IO


Stage = tuple[PatternSplit, ...]
"""The splits of a call that may run at the same time."""


class DataTable:
    """All data splits of a program, one object for each run of rows.

    An array that is touched at `scale * i` is cut into splits of so many times more rows: it is
    that much longer than what is computed from it.
    """

    def __init__(self, program: PatternProgram, rows: int) -> None:
        self._arrays = {array.name: array for array in program.arrays}
        scales = dict.fromkeys(self._arrays, 1)
        for call in program.calls:
            for access in (*call.reads, *call.writes):
                scales[access.array] = max(scales[access.array], abs(access.scale))
        self._rows = {name: rows * scale for name, scale in scales.items()}
        self._splits = {
            array.name: _cut_array(array, self._rows[array.name]) for array in program.arrays
        }

    def whole(self, array: str) -> tuple[DataSplit, ...]:
        return self._splits[array]

    def is_scalar(self, array: str) -> bool:
        return not self._arrays[array].shape

    def touched(self, access: Access, start: int, length: int) -> Iterator[DataSplit]:
        """The splits that an access from a run of indices touches, from its first row to its last.

        None between them is free of touched rows: a split is at least as long as the rows of
        consecutive iterations are apart.
        """
        splits = self._splits[access.array]
        if access.whole or self.is_scalar(access.array):
            yield from splits
            return
        edges = [access.scale * i + access.shift for i in (start, start + length - 1)]
        low, high = min(edges), max(edges)
        rows = self._rows[access.array]
        end = (high // rows + 1) * rows
        for position in dict.fromkeys(row // rows for row in range(low, end, rows)):
            yield splits[position]


def _cut_array(array: Array, rows: int) -> tuple[DataSplit, ...]:
    if not array.shape:
        return (DataSplit(array.name, 0, 1, array.bytes),)
    size = array.shape[0]
    return tuple(
        DataSplit(array.name, start, length := min(rows, size - start), array.bytes / size * length)
        for start in range(0, size, rows)
    )


def cut_call(
    program: PatternProgram, position: int, table: DataTable, size: int, *, faithful: bool
) -> list[Stage]:
    """Cuts a call into stages that run one after another, each of splits that run side by side.

    `faithful` keeps two habits of the published model: what reads a file into an array is charged
    for reading the array, and so is a scalar that a map or stencil writes.
    """
    call = program.calls[position]
    work = program.work()[call.pattern]
    if call.kind in (PatternKind.SERIAL, PatternKind.IO):
        reads = [split for access in call.reads for split in table.whole(access.array)]
        writes = [split for access in call.writes for split in table.whole(access.array)]
        if faithful and call.kind is PatternKind.IO:
            reads += writes
        split = PatternSplit(
            position, 0, call.name, call.kind, work, call.starts, call.lengths,
            _distinct(reads), _distinct(writes),
        )  # fmt: skip
        return [(split,)]
    if call.kind is PatternKind.REDUCE:
        return _cut_reduction(program, call, position, table, size, work)
    return [
        tuple(
            _block(call, position, stage, start, length, work, table, faithful)
            for start, length in _runs(call, size)
        )
        for stage in range(call.steps)
    ]


def _runs(call: PatternCall, size: int) -> list[tuple[int, int]]:
    first, length = call.starts[0], call.lengths[0]
    end = first + length
    return [(start, min(size, end - start)) for start in range(first, end, size)]


def _block(
    call: PatternCall,
    position: int,
    stage: int,
    start: int,
    length: int,
    work: Work,
    table: DataTable,
    faithful: bool,
) -> PatternSplit:
    reads = [
        split
        for access in call.reads
        if access.charged
        for split in table.touched(access, start, length)
    ]
    writes = [split for access in call.writes for split in table.touched(access, start, length)]
    if faithful:
        reads += [split for split in writes if table.is_scalar(split.array)]
    return PatternSplit(
        position, stage, call.name, call.kind, work,
        (start, *call.starts[1:]), (length, *call.lengths[1:]),
        _distinct(reads), _distinct(writes),
    )  # fmt: skip


def _cut_reduction(
    program: PatternProgram,
    call: PatternCall,
    position: int,
    table: DataTable,
    size: int,
    work: Work,
) -> list[Stage]:
    """RowBlocks that reduce to a part each, and a split that combines the parts."""
    result = [split for access in call.writes for split in table.whole(access.array)]
    bytes_of_part = sum(split.bytes for split in result)
    runs = _runs(call, size)
    parts = [
        DataSplit(f"{call.name}#part", number, 1, bytes_of_part) for number in range(len(runs))
    ]
    blocks = tuple(
        PatternSplit(
            position, 0, call.name, call.kind, work,
            (start, *call.starts[1:]), (length, *call.lengths[1:]),
            _distinct(
                [
                    split
                    for access in call.reads
                    if access.charged
                    for split in table.touched(access, start, length)
                ]
            ),
            (part,),
        )
        for (start, length), part in zip(runs, parts, strict=True)
    )  # fmt: skip
    combined = PatternSplit(
        position, 1, call.name, call.kind, work, (0,), (len(parts),), tuple(parts),
        _distinct(result),
    )  # fmt: skip
    return [blocks, (combined,)]


def _distinct(splits: list[DataSplit]) -> tuple[DataSplit, ...]:
    return tuple(dict.fromkeys(splits))
