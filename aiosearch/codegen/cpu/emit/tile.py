"""A stage over one tile, and the register tiles in it: what the printers of `stage` and the
reductions of `codegen.cpu.reduce` share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

from ....tensor.types import HALVES
from ...ir import KernelStage, LoopIndex, ReductionKind
from ...llvm.arithmetic import WORKING
from ...llvm.builder import FunctionBuilder, LlvmValue, constant
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
    """A stage, the ranges of its indices in a tile, and its register layout."""

    stage: KernelStage
    ranges: Mapping[LoopIndex, TileRange]
    shape: RegisterShape
    lanes: int
    """Lanes of a full vector."""
    elements: ExpressionEmitter
    accumulates: bool
    """Whether results are added to what is stored, as those of a serial tile are."""
    dots: bool
    """Whether the machine has a dot instruction for bf16 pairs."""
    unit: AmxUnit
    epilogue: Epilogue | None = None
    """The elementwise function applied to each result before it is stored."""
    product: DotInstruction | None = None
    """The part of the stage that AMX computes; `None` if it computes nothing."""
    prologue: Prologue | None = None
    """The elementwise stage whose elements the reduction takes from registers."""

    @property
    def writer(self) -> FunctionBuilder:
        """The builder of the function."""
        return self.elements.arithmetic.vectors.writer

    @property
    def access(self) -> BufferAccess:
        """Loads and stores of the `stage`."""
        return self.elements.access

    @property
    def lane_reduction(self) -> bool:
        """Whether the `stage` is vectorised over an index that it reduces."""
        return self.shape.along in self.stage.folded

    @property
    def sums_floats(self) -> bool:
        """Whether the `stage` sums floats, whose order of addition may be chosen."""
        return self.stage.reduction is ReductionKind.SUM and self.scalar != "i32"

    @property
    def scalar(self) -> str:
        """The LLVM type of an accumulator."""
        return WORKING[self.stage.accumulated]

    def neutral(self) -> LlvmValue:
        """An accumulator before anything is added."""
        lanes = self.lanes if self.shape.along else 1
        number = neutral(self.stage.reduction, self.scalar)
        return constant(number, self.scalar, lanes)

    def with_epilogue(self, value: LlvmValue, spot: LaneAddress) -> LlvmValue:
        """The `value` to store for a result of the reduction."""
        if self.epilogue is None:
            return value
        reduction, elements = self.epilogue.reduction, self.elements
        dtype = reduction.buffer.dtype
        # The unfused stage would have read a rounded value from memory: fusing must not change
        # results.
        if dtype in HALVES:
            value = elements.arithmetic.rounded(value, dtype)
        loaded = elements.with_loaded(reduction, value)
        return loaded.rounded_value(self.epilogue.value, self.stage.target.dtype, spot)

    def combined(self, left: list[LlvmValue], right: list[LlvmValue]) -> list[LlvmValue]:
        """Partial results combined register by register."""
        apply, how = self.elements.arithmetic.apply, self.stage.reduction.operation
        return [apply(how, pair) for pair in zip(left, right, strict=True)]


def neutral(reduction: ReductionKind, scalar: str) -> float:
    """The neutral element of a reduction; for the maximum of i32 the least integer, as there is no
    infinity."""
    least_whole = scalar == "i32" and reduction is ReductionKind.MAX
    return -(2**31) if least_whole else reduction.neutral


ElementSink: TypeAlias = Callable[[LaneAddress, LlvmValue], object]
"""Takes what a register holds, and where it belongs."""


class InnermostReduction(Protocol):
    """The innermost loop of a reduction, in one register tile."""

    def initial_values(self, starts: AccumulatorInit | None = None) -> list[LlvmValue]:
        """The accumulators before the loop; sums of floats start with `starts` if that is given."""

    def accumulate(self, places: IndexPlaces, values: list[LlvmValue]) -> list[LlvmValue]:
        """Prints the loop over the innermost index and returns the accumulators after it."""

    def finish(self, values: list[LlvmValue], take: ElementSink) -> None:
        """Combines the accumulators of each result and hands it to `take`."""


@dataclass(frozen=True)
class RegisterTile:
    """So many rows and vectors of a stage's results, at one position."""

    tile: StageTile
    places: IndexPlaces
    rows: int
    vectors: int
    mask: LlvmValue | None
    """The lanes that count; `None` for all."""

    @property
    def size(self) -> int:
        """Registers of results."""
        return self.rows * self.vectors

    def spots(self, places: IndexPlaces) -> list[LaneAddress]:
        """The lane address of each register with the tile at `places`, row by row."""
        return [spot for row in range(self.rows) for spot in self.row(places, row)]

    def row(self, places: IndexPlaces, row: int = 0) -> list[LaneAddress]:
        """The lane addresses of one row."""
        return [self._spot(places, row, vector) for vector in range(self.vectors)]

    def targets(self) -> list[LaneAddress]:
        """Where each register's result is stored."""
        spots = self.spots(self.places)
        if not self.tile.lane_reduction:
            return spots
        # Lanes are added up before the store, so a result is a scalar.
        return [replace(spot, along=None, lanes=1, mask=None) for spot in spots]

    def hand_on(self, values: Iterable[LlvmValue], take: ElementSink) -> None:
        """Hands one value per register to `take`."""
        for spot, value in zip(self.targets(), values, strict=True):
            take(spot, value)

    def _spot(self, places: IndexPlaces, row: int, vector: int) -> LaneAddress:
        """The lane address of one register."""
        shape, lanes, moved = self.tile.shape, self.tile.lanes, dict(places)
        if shape.row is not None:
            moved[shape.row] = places[shape.row] + row
        if shape.column is not None:
            moved[shape.column] = places[shape.column] + vector
        elif shape.along is not None and not self.tile.lane_reduction:
            moved[shape.along] = places[shape.along] + vector * lanes
        return LaneAddress(moved, shape.along, lanes if shape.along else 1, self.mask)
