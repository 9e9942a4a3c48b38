"""`Space`: the limits and operators that declare which programs are searched, the same for every
reference."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

UNARY = ("exp", "square", "sqrt", "silu", "gelu", "relu")
"""Pointwise operators of one operand."""
BINARY = ("add", "sub", "mul", "div")
"""Pointwise operators of two operands."""
TILE = (*UNARY, *BINARY, "matmul", "rms_norm", "sum", "max", "mean")
"""Operators of a block."""
KERNEL = (*TILE, "fold")
"""Operators that may be a kernel of their own; `fold` adds up what a grid has left in parts."""
ACCUMULATE = ("none", "sum", "mean", "rms", "redtox", "max")
"""Kinds of accumulators."""
RANGES = {
    "block_operators": (1, 64),
    "kernels": (1, 64),
    "custom_kernels": (0, 64),
    "block_inputs": (1, 64),
    "block_outputs": (1, 64),
    "grid_axes": (0, 64),
}
"""The least and the most that each limit of a `Space` may be."""


@dataclass(frozen=True)
class Space:
    """What a program may be made of; inputs of a block count as operators of it, results do not."""

    block_operators: int = 9
    kernels: int = 3
    custom_kernels: int = 2
    block_inputs: int = 4
    block_outputs: int = 2
    grid_axes: int = 3
    tile: tuple[str, ...] = TILE
    kernel: tuple[str, ...] = KERNEL
    accumulators: tuple[str, ...] = ACCUMULATE

    def __post_init__(self) -> None:
        for name, (least, most) in RANGES.items():
            if not least <= getattr(self, name) <= most:
                raise ValueError(f"{name} is {least} to {most}, not {getattr(self, name)}")

    def lines(self) -> Iterator[tuple[str, str]]:
        """Names of the limits and what they are, for people."""
        yield "kernels", f"{self.kernels} at most, of which {self.custom_kernels} are made for it"
        yield "kernel operators", ", ".join(self.kernel)
        yield "block operators", ", ".join(self.tile)
        yield "functions", "the reference's own too, and its numbers as operands"
        yield "accumulators", ", ".join(self.accumulators) + "; max only where the reference has it"
        yield "operators of a block", f"{self.block_operators} at most, loads and accumulators too"
        yield "inputs of a block", f"{self.block_inputs} tensors at most, each loaded in one way"
        yield "outputs of a block", f"{self.block_outputs} at most, each with its own map"
        yield "grids", f"{self.grid_axes} axes at most, of any size that divides what they split"
        yield "input maps", "each axis of each input split by the grid, the loop, both or neither"
        yield "output maps", "a grid axis on the axis that it splits"
        yield "partial sums", "over one index, on an axis of size one, else on the last, unsplit"
        yield "threads", "every chain of pointwise operators of a block in registers"
        yield "loop ranges", "any that divides what the loop splits; none is a range of one"
