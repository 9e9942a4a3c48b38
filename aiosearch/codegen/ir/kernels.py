"""What is computed together: stages that fill buffers, kernels of stages, modules of kernels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from ...tensor.types import DType
from .expressions import Buffer, BufferLoad, Expression, Operation, walk
from .positions import LoopIndex, Position, indices

_WIDER = {DType.BF16: DType.F32, DType.F16: DType.F32, DType.BOOL: DType.I32}


class ReductionKind(StrEnum):
    """How what is computed for many indices becomes one element."""

    NONE = "none"
    SUM = "sum"
    MAX = "max"

    @property
    def operation(self) -> Operation:
        """What makes one of two, of a fold that is one."""
        return {ReductionKind.SUM: Operation.ADD, ReductionKind.MAX: Operation.MAXIMUM}[self]

    @property
    def neutral(self) -> float:
        """What a fold over nothing comes to, in floats."""
        return {ReductionKind.SUM: 0.0, ReductionKind.MAX: -math.inf}[self]


@dataclass(frozen=True, slots=True)
class KernelStage:
    """Fills a buffer: `target[at] = fold of value over folded`, for all of the other indices.

    The places `at` of different indices differ, and cover the buffer.
    """

    target: Buffer
    at: tuple[Position, ...]
    value: Expression
    folded: tuple[LoopIndex, ...] = ()
    fold: ReductionKind = ReductionKind.NONE

    @property
    def free(self) -> tuple[LoopIndex, ...]:
        """The indices of the places, in the order of the axes."""
        return tuple(dict.fromkeys(one for at in self.at for one in indices(at)))

    @property
    def indices(self) -> tuple[LoopIndex, ...]:
        """All that it runs along: the free ones, and then those that it folds over."""
        return (*self.free, *self.folded)

    @property
    def accumulated(self) -> DType:
        """The type in which it is folded: half types and truths are too narrow for many of them."""
        return _WIDER.get(self.target.dtype, self.target.dtype)

    @property
    def work(self) -> int:
        """For how many elements the value is computed."""
        return math.prod(one.size for one in self.indices)

    @property
    def loads(self) -> tuple[BufferLoad, ...]:
        """Each different one, in the order of the expression."""
        return tuple(dict.fromkeys(one for one in walk(self.value) if isinstance(one, BufferLoad)))

    def __str__(self) -> str:
        places = ", ".join(map(str, self.at))
        return f"{self.target.name}[{places}] = {self._fold_text}{self.value}"

    @property
    def _fold_text(self) -> str:
        if not self.folded:
            return ""
        wider = self.accumulated is not self.target.dtype
        kind = f"{self.fold} in {self.accumulated}" if wider else str(self.fold)
        return f"{kind} over {', '.join(map(str, self.folded))} of "


@dataclass(frozen=True, slots=True)
class TileKernel:
    """Stages that run in one launch, operands first. What they fill and is no output is scratch."""

    name: str
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    stages: tuple[KernelStage, ...]

    @property
    def indices(self) -> tuple[LoopIndex, ...]:
        """All of them, the free ones of the last stages first."""
        found: dict[LoopIndex, None] = {}
        for stage in reversed(self.stages):
            found.update(dict.fromkeys(stage.indices))
        return tuple(found)

    def __str__(self) -> str:
        inputs, outputs = (", ".join(map(str, some)) for some in (self.inputs, self.outputs))
        lines = [f"kernel {self.name}({inputs}) -> ({outputs})"]
        lines += [f"    for {one} < {one.size}" for one in self.indices]
        return "\n".join([*lines, *(f"    {stage}" for stage in self.stages)])


@dataclass(frozen=True, slots=True)
class Module:
    """Kernels in the order in which they run; what one fills, later ones read by the same name."""

    name: str
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    """May be inputs, and one twice."""
    kernels: tuple[TileKernel, ...]

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.kernels))
