"""What stands in Mirage's files, field by field."""

from __future__ import annotations

from msgspec import Raw, Struct

from .errors import FormatError
from .types import DType

_DTYPES = {
    921: DType.F16,  # in files until 2024; its neighbours mean something else since
    940: DType.BF16,
    941: DType.F16,
    950: DType.F32,
    960: DType.F64,
}


class Axes(Struct):
    """A map (the data axis for each grid axis, -1 for none), or a grid's sizes."""

    x: int
    y: int
    z: int

    def map(self, grid: Axes) -> list[int | None]:
        """The map; along a grid axis of size one nothing is split."""
        pairs = ((self.x, grid.x), (self.y, grid.y), (self.z, grid.z))
        return [None if axis == -1 or size == 1 else axis for axis, size in pairs]


class Recorded(Struct):
    guid: int
    dim: list[int]
    num_dims: int
    data_type: int
    after_accum: bool | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes, which the file pads with zeros."""
        if not 0 <= self.num_dims <= len(self.dim):
            raise FormatError(f"tensor {self.guid} has {self.num_dims} axes of {len(self.dim)}")
        return tuple(self.dim[: self.num_dims])

    @property
    def dtype(self) -> DType:
        found = _DTYPES.get(self.data_type)
        if found is None:
            raise FormatError(f"tensor {self.guid} has the unknown element type {self.data_type}")
        return found


class Node(Struct):
    op_type: str
    input_tensors: list[Recorded]
    output_tensors: list[Recorded]
    bgraph: BlockGraph | None = None
    dtensor: Recorded | None = None
    input_map: Axes | None = None
    output_map: Axes | None = None
    forloop_dim: int = -1
    min_val: float | None = None
    max_val: float | None = None


class BlockGraph(Struct):
    grid_dim: Axes
    forloop_range: int
    operators: list[Node]
    reduction_dimx: int = 64


class Checkpoint(Struct):
    generated_graphs: list[Raw]
