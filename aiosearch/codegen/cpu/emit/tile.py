"""A stage over one tile, and the register tiles in it.

A block of registers: rows and vectors of a tile's elements that are computed at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

from ....tensor.types import HALVES
from ...ir import KernelStage, LoopIndex, ReductionKind
from ...llvm.arithmetic import WORKING
from ...llvm.builder import FunctionBuilder, LlvmValue
from ..reduce.accumulator_init import AccumulatorInit
from ..reduce.amx_unit import AmxUnit
from ..reduce.dot import DotInstruction
from ..reduce.epilogue import Epilogue
from ..reduce.prologue import Prologue
from ..register_layout import RegisterShape
from .access import BufferAccess
from .addressing import IndexPlaces, LaneAddress, TileRange
from .expression import ExpressionEmitter


@dataclass(frozen=True)
class StageTile:
    """A stage, how far its indices run, and how its elements are to lie in registers."""

    stage: KernelStage
    ranges: Mapping[LoopIndex, TileRange]
    shape: RegisterShape
    lanes: int
    """Of a whole vector."""
    elements: ExpressionEmitter
    adds: bool
    """Whether what is there already is folded with the rest."""
    dots: bool
    """Whether the machine adds up products of neighbours."""
    unit: AmxUnit
    ending: Epilogue | None = None
    """What is made of its elements before they are stored."""
    product: DotInstruction | None = None
    """What the matrix unit does of it."""
    beginning: Prologue | None = None
    """What is made of the elements that it folds, before it does."""

    @property
    def writer(self) -> FunctionBuilder:
        return self.elements.arithmetic.vectors.writer

    @property
    def access(self) -> BufferAccess:
        return self.elements.access

    @property
    def lane_folded(self) -> bool:
        """Whether lanes lie along an index that is folded."""
        return self.shape.along in self.stage.folded

    @property
    def sums_floats(self) -> bool:
        return self.stage.fold is ReductionKind.SUM and self.scalar != "i32"

    @property
    def scalar(self) -> str:
        """In what it is folded."""
        return WORKING[self.stage.accumulated]

    def neutral(self) -> LlvmValue:
        """Registers before anything is folded into them."""
        lanes = self.lanes if self.shape.along else 1
        number = neutral(self.stage.fold, self.scalar)
        return self.elements.arithmetic.vectors.constant(number, self.scalar, lanes)

    def changed(self, value: LlvmValue, spot: LaneAddress) -> LlvmValue:
        """What is to be stored of an element of a fold."""
        if self.ending is None:
            return value
        fold, elements = self.ending.fold, self.elements
        dtype = fold.buffer.dtype
        if dtype in HALVES:
            value = elements.arithmetic.rounded(value, dtype)
        known = elements.knowing(fold, value)
        return known.wanted(self.ending.value, self.stage.target.dtype, spot)

    def joined(self, some: list[LlvmValue], others: list[LlvmValue]) -> list[LlvmValue]:
        """Parts of what is folded, register by register."""
        apply, how = self.elements.arithmetic.apply, self.stage.fold.operation
        return [apply(how, pair) for pair in zip(some, others, strict=True)]


def neutral(fold: ReductionKind, scalar: str) -> float:
    """What changes nothing when it is folded with others."""
    least_whole = scalar == "i32" and fold is ReductionKind.MAX
    return -(2**31) if least_whole else fold.neutral


pass


ElementSink: TypeAlias = Callable[[LaneAddress, LlvmValue], object]
"""Does something with what a register holds, and where that belongs."""


class InnermostReduction(Protocol):
    """A fold along the index that runs innermost."""

    def begun(self, starts: AccumulatorInit | None = None) -> list[LlvmValue]:
        """The parts of sums with which it goes on, before anything is folded into them.

        Where there are some, sums of floats start with these.
        """

    def along(self, places: IndexPlaces, values: list[LlvmValue]) -> list[LlvmValue]:
        """The parts, with all elements of the index."""

    def ended(self, values: list[LlvmValue], take: ElementSink) -> None:
        """Hands on the parts of each element, joined."""


@dataclass(frozen=True)
class RegisterTile:
    """Some rows and some vectors, beginning at some places."""

    tile: StageTile
    places: IndexPlaces
    rows: int
    vectors: int
    mask: LlvmValue | None
    """The lanes that count; all, where there is none."""

    @property
    def size(self) -> int:
        return self.rows * self.vectors

    def spots(self, places: IndexPlaces) -> list[LaneAddress]:
        """Where each register's lanes are when the block is at other places, row by row."""
        return [spot for row in range(self.rows) for spot in self.row(places, row)]

    def row(self, places: IndexPlaces, row: int = 0) -> list[LaneAddress]:
        """The same of one row."""
        return [self._spot(places, row, vector) for vector in range(self.vectors)]

    def targets(self) -> list[LaneAddress]:
        """Where each register's result belongs."""
        spots = self.spots(self.places)
        if not self.tile.lane_folded:
            return spots
        return [replace(spot, along=None, lanes=1, mask=None) for spot in spots]

    def hand_on(self, values: Iterable[LlvmValue], take: ElementSink) -> None:
        """One for each register."""
        for spot, value in zip(self.targets(), values, strict=True):
            take(spot, value)

    def _spot(self, places: IndexPlaces, row: int, vector: int) -> LaneAddress:
        shape, lanes, own = self.tile.shape, self.tile.lanes, dict(places)
        if shape.row is not None:
            own[shape.row] = places[shape.row] + row
        if shape.column is not None:
            own[shape.column] = places[shape.column] + vector
        elif shape.along is not None and not self.tile.lane_folded:
            own[shape.along] = places[shape.along] + vector * lanes
        return LaneAddress(own, shape.along, lanes if shape.along else 1, self.mask)
