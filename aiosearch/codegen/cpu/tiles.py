"""One stage over one tile: what its printers have to know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...tensor.types import HALVES
from ..ir import Fold, Index, Stage
from .access import Access
from .arithmetic import WORKING
from .beginnings import Beginning
from .dots import Dot
from .elements import Elements
from .endings import Ending
from .matrixunit import MatrixUnit
from .ranges import Range
from .shape import Shape
from .spots import Spot
from .values import Value
from .writer import Writer


@dataclass(frozen=True)
class Tile:
    """A stage, how far its indices run, and how its elements are to lie in registers."""

    stage: Stage
    ranges: Mapping[Index, Range]
    shape: Shape
    lanes: int
    """Of a whole vector."""
    elements: Elements
    adds: bool
    """Whether what is there already is folded with the rest."""
    dots: bool
    """Whether the machine adds up products of neighbours."""
    unit: MatrixUnit
    ending: Ending | None = None
    """What is made of its elements before they are stored."""
    product: Dot | None = None
    """What the matrix unit does of it."""
    beginning: Beginning | None = None
    """What is made of the elements that it folds, before it does."""

    @property
    def writer(self) -> Writer:
        return self.elements.arithmetic.vectors.writer

    @property
    def access(self) -> Access:
        return self.elements.access

    @property
    def lane_folded(self) -> bool:
        """Whether lanes lie along an index that is folded."""
        return self.shape.along in self.stage.folded

    @property
    def sums_floats(self) -> bool:
        return self.stage.fold is Fold.SUM and self.scalar != "i32"

    @property
    def scalar(self) -> str:
        """In what it is folded."""
        return WORKING[self.stage.accumulated]

    def neutral(self) -> Value:
        """Registers before anything is folded into them."""
        lanes = self.lanes if self.shape.along else 1
        number = neutral(self.stage.fold, self.scalar)
        return self.elements.arithmetic.vectors.constant(number, self.scalar, lanes)

    def changed(self, value: Value, spot: Spot) -> Value:
        """What is to be stored of an element of a fold."""
        if self.ending is None:
            return value
        fold, elements = self.ending.fold, self.elements
        dtype = fold.buffer.dtype
        if dtype in HALVES:
            value = elements.arithmetic.rounded(value, dtype)
        known = elements.knowing(fold, value)
        return known.wanted(self.ending.value, self.stage.target.dtype, spot)

    def joined(self, some: list[Value], others: list[Value]) -> list[Value]:
        """Parts of what is folded, register by register."""
        apply, how = self.elements.arithmetic.apply, self.stage.fold.operation
        return [apply(how, pair) for pair in zip(some, others, strict=True)]


def neutral(fold: Fold, scalar: str) -> float:
    """What changes nothing when it is folded with others."""
    least_whole = scalar == "i32" and fold is Fold.MAX
    return -(2**31) if least_whole else fold.neutral
