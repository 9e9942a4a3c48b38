"""What is computed together: stages that fill buffers, kernels of stages, modules of kernels.

A `Module` is what `lower` returns; `str` of it is the text that `aiosearch explain` prints.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from ...tensor.types import DType
from .expressions import Buffer, BufferLoad, Expression, Operation, walk
from .positions import LoopIndex, Position, indices

_WIDER = {DType.BF16: DType.F32, DType.F16: DType.F32, DType.BOOL: DType.I32}
"""Types that are too narrow to add up in, each with the type that is used instead."""


class ReductionKind(StrEnum):
    """How the values of many indices become one element."""

    NONE = "none"
    SUM = "sum"
    MAX = "max"

    @property
    def operation(self) -> Operation:
        """The operation that combines two values of a reduction: `ADD` of a `SUM`."""
        return {ReductionKind.SUM: Operation.ADD, ReductionKind.MAX: Operation.MAXIMUM}[self]

    @property
    def neutral(self) -> float:
        """The result of a reduction over nothing, as a float: minus infinity of a `MAX`."""
        return {ReductionKind.SUM: 0.0, ReductionKind.MAX: -math.inf}[self]


@dataclass(frozen=True, slots=True)
class KernelStage:
    """Fills a buffer: `target[at] = reduction of value over folded`, for all of the other indices.

    The positions `at` of different index values differ, and cover the buffer.
    """

    target: Buffer
    at: tuple[Position, ...]
    value: Expression
    folded: tuple[LoopIndex, ...] = ()
    reduction: ReductionKind = ReductionKind.NONE

    @property
    def free(self) -> tuple[LoopIndex, ...]:
        """The indices of `at`, in the order of the axes."""
        return tuple(dict.fromkeys(loop_index for at in self.at for loop_index in indices(at)))

    @property
    def indices(self) -> tuple[LoopIndex, ...]:
        """All indices that the stage runs along: the `free` ones, and then those that it reduces
        over.
        """
        return (*self.free, *self.folded)

    @property
    def accumulated(self) -> DType:
        """The type in which it is reduced, f32 for a `target` of f16: half types and truth values
        are too narrow for many summands.
        """
        return _WIDER.get(self.target.dtype, self.target.dtype)

    @property
    def work(self) -> int:
        """The number of index values for which `value` is computed."""
        return math.prod(loop_index.size for loop_index in self.indices)

    @property
    def loads(self) -> tuple[BufferLoad, ...]:
        """Each different load, in the order of the expression."""
        return tuple(
            dict.fromkeys(part for part in walk(self.value) if isinstance(part, BufferLoad))
        )

    def __str__(self) -> str:
        places = ", ".join(map(str, self.at))
        return f"{self.target.name}[{places}] = {self._fold_text}{self.value}"

    @property
    def _fold_text(self) -> str:
        if not self.folded:
            return ""
        wider = self.accumulated is not self.target.dtype
        kind = f"{self.reduction} in {self.accumulated}" if wider else str(self.reduction)
        return f"{kind} over {', '.join(map(str, self.folded))} of "


@dataclass(frozen=True, slots=True)
class TileKernel:
    """Stages that run in one launch, operands first; a buffer that they fill and that is not in
    `outputs` is scratch.
    """

    name: str
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    stages: tuple[KernelStage, ...]

    @property
    def indices(self) -> tuple[LoopIndex, ...]:
        """All indices, the free ones of the last stages first."""
        ordered: dict[LoopIndex, None] = {}
        for stage in reversed(self.stages):
            ordered.update(dict.fromkeys(stage.indices))
        return tuple(ordered)

    def __str__(self) -> str:
        inputs, outputs = (", ".join(map(str, buffers)) for buffers in (self.inputs, self.outputs))
        lines = [f"kernel {self.name}({inputs}) -> ({outputs})"]
        lines += [f"    for {loop_index} < {loop_index.size}" for loop_index in self.indices]
        return "\n".join([*lines, *(f"    {stage}" for stage in self.stages)])


@dataclass(frozen=True, slots=True)
class Module:
    """Kernels in the order in which they run; what one fills, later ones read by the same name."""

    name: str
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    """Buffers of kernels or inputs; a buffer may stand here twice."""
    kernels: tuple[TileKernel, ...]

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.kernels))
