"""The values that a folding kernel's parameters may take."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import TypeAlias

from ...tensor.types import DType
from ..ir import Apply, Buffer, Fold, Kernel, Load, Operation, Stage, alone, used
from ..native.machine import Machine
from ..parameters import Parameter
from .packed import Layout
from .preparing import copied
from .products import of_bf16
from .roles import Roles
from .turned import is_shared

Registers: TypeAlias = tuple[int, int, bool]
"""Rows and vectors of sums, and whether they are a matrix unit's."""
NONE: Registers = (0, 0, False)
"""Where no sums are in registers so, as lanes lie along what is folded."""
TOGETHER = 8
"""Columns whose sums one block makes at least, where lanes lie so."""

Lanes: TypeAlias = tuple[int, int]
"""Rows and columns of sums, where lanes lie along what is folded."""

Serial: TypeAlias = tuple[str | None, int]
"""An index along which a block goes tile by tile, and the tile's length."""

# Sixteen rows by one vector read what the lanes read once, where there are no more rows.
_REGISTERS = ((8, 2), (6, 4), (4, 4), (4, 2), (2, 4), (12, 2), (16, 1), (14, 1), (1, 4), (1, 8))
"""Rows and vectors of sums."""
_MATRIX = ((16, 4), (32, 2), (16, 2), (16, 1), (48, 1))
"""The same for a matrix unit."""
_SERIAL = (16, 64, 128, 256, 512)
SHALLOW = 8
"""The same down rows of memory that lie apart: a first cache keeps a line of each of so many."""
_ROWS = (8, 16, 32, 64, 128, 256)
PANELS = (1, 2, 4, 8, 16, 32, 64)
UNROLLED = (2, 1, 4, 8)
AHEAD = (None, 0.0, 0.5, 1.0, 2.0)
"""Times what is usual."""
_EXACT = 1024
"""So many products may be added one after the other."""
_TILES = 64
"""Into so many tiles, whose sums are added one after the other, other long sums are cut at most."""
_NARROWEST = 16
"""Bytes of the narrowest vectors."""


class Rows(StrEnum):
    """That columns share."""

    AS_THEY_ARE = "as they are"
    COPIED = "copied"
    """Each block copies its own, so that they lie close together."""
    TURNED = "turned"
    """They are laid side by side once, before all blocks."""


def widths(machine: Machine) -> Parameter:
    """Of vectors: the widest, and half of that, of which some processors do more in a cycle."""
    half = (machine.width // 2,) if machine.width > _NARROWEST else ()
    return Parameter("width", (0, *half), fine=True)


def registers_of(own: Roles, machine: Machine) -> Iterator[Registers]:
    """No more rows than there are; vectors that are too many, and as many as there are."""
    most = own.row.size if own.row is not None else 1
    wide = -(-own.along.size // (machine.width // 4)) if own.along is not None else 1
    if machine.bf16_matrix and of_bf16(own.stage):
        yield from dict.fromkeys((min(rows, most), vectors, True) for rows, vectors in _MATRIX)
    seen = set()
    clamped = ((rows, wide) for rows, vectors in _REGISTERS if vectors > wide)
    for rows, vectors in (*_REGISTERS, *clamped):
        kept = min(rows, most)
        if kept * vectors + vectors + 1 <= machine.registers and (kept, vectors) not in seen:
            seen.add((kept, vectors))
            yield kept, vectors, False


def row_tiles(own: Roles) -> list[int]:
    """All rows are one tile where they are not too many, which reads all else once."""
    if own.row is None or own.row not in own.blocked or own.row.size <= _ROWS[0]:
        return [own.row.size if own.row is not None else 1]
    most = min(own.row.size, _ROWS[-1])
    return [*(row for row in _ROWS if row < most), most]


def serials(own: Roles, outputs: Iterable[Buffer]) -> Iterator[Serial]:
    """Long sums are cut where outputs are more exact than one is, and not into too many pieces."""
    exact = any(one.dtype in (DType.F32, DType.F64) for one in outputs)
    long = math.prod(one.size for one in own.stage.folded) > _EXACT
    cut = any(one in own.stage.folded and one.size > _SERIAL[0] for one in own.serial)
    if not (exact and long and cut):
        yield None, 0
    for one in own.serial:
        few = exact and one in own.stage.folded and not _multiplies(own.stage)
        least = -(-one.size // _TILES) if few else 0
        lengths: Sequence[int] = (SHALLOW, *_SERIAL) if one == own.shape.inner else _SERIAL
        if least > _SERIAL[-1]:
            lengths = (1 << (least - 1).bit_length(),)
        yield from ((one.name, length) for length in lengths if least <= length < one.size)


def _multiplies(stage: Stage) -> bool:
    """Whether it adds up products of what is used again and again, as those of matrices are."""
    match stage.value:
        case Apply(Operation.MULTIPLY, arguments):
            everywhere = set(stage.indices)
            return any(set(used(one)) < everywhere for one in arguments)
    return False


def uncut(own: Roles) -> dict[str, int]:
    """What all sums depend on is cut as fine as can be: no block does what another one does.

    But for what registers run along, so that what is read serves several sums.
    """
    sums = [stage for stage in own.shapes if stage.fold is not Fold.NONE]
    held = (own.along, own.row, own.shape.column)
    return {
        one.name: 1
        for one in own.blocked
        if one not in held and all(one in stage.free for stage in sums)
    }


def shared_rows(kernel: Kernel, own: Roles, machine: Machine) -> dict[str, Layout | None]:
    """Rows that several columns share; and panels of them, where they lie far apart."""
    found: dict[str, Layout | None] = {}
    row, inner = own.row, own.shape.inner
    for load in own.stage.loads:
        places = [alone(position) for position in load.at]
        if load.buffer not in kernel.inputs or own.along in places or row is None:
            continue
        if inner in places and copied(load) is not None:
            apart = row in places and places[-1] == inner and _alike(kernel, own.stage, load)
            found[load.buffer.name] = _beside(kernel, own, load, machine) if apart else None
    return found


def _beside(kernel: Kernel, own: Roles, load: Load, machine: Machine) -> Layout:
    """A vector's width of rows; in pairs, where any stage takes them so."""
    row = next(axis for axis, one in enumerate(load.at) if alone(one) == own.row)
    pairs = machine.bf16_dot and any(of_bf16(one) and load in one.loads for one in kernel.stages)
    return Layout(len(load.at) - 1, row, machine.width // 4, pairs)


def _alike(kernel: Kernel, stage: Stage, load: Load) -> bool:
    """Whether all that would be read of a copy is read as this stage does it."""
    others = {
        each
        for one in kernel.stages
        for each in one.loads
        if each.buffer == load.buffer and is_shared(one, each)
    }
    return is_shared(stage, load) and others == {load}
