"""Precision of products and sums: operand types, 16-bit floats widened to f32, and values that are
no more exact than float sums.

Two questions are answered here. The first is in which type a product is computed. A bf16 dot
instruction takes pairs of bf16 as they are; without a fast one, each operand is widened to f32
before it is multiplied, again at every read. What is read again and again is better stored as f32:
the rows that a block copies, the panels that it packs, the tiles that it computes. `Schedule.wide`
asks for that, `with_widened_tiles` does it, and values stay the same, as they are rounded to 16
bits before they are stored.

The second is which values inherit the rounding errors of a float sum (`buffers_of_float_sums`), as
nothing derived from them has to be exact to the last bit. Example: in `t0[i] = sum over j of X[i,
j]`, `out[i] = exp(t0[i] / 8)`, the quotient and the exponential may be as inexact as t0; in `out[i]
= exp(X[i, 0] / 8)` they may not.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import replace

from ....tensor.types import EXACT, HALVES, DType
from ...ir import (
    Apply,
    BoundedValue,
    Buffer,
    BufferLoad,
    Constant,
    Expression,
    KernelStage,
    Operation,
    ReductionKind,
    Round,
    TileKernel,
)
from ...ir.simplification import map_loads
from ...llvm.arithmetic import COMPARE
from ...native.machine import CpuMachine

_FLOATS = HALVES | {DType.F32}
"""Types that a product computes with as f32."""


def product_operands(stage: KernelStage) -> tuple[BufferLoad, BufferLoad] | None:
    """Both operands, if a stage's value is the product of two loads, reduced or not; else
    `None`."""
    match stage.value:
        case Apply(
            operation=Operation.MULTIPLY, arguments=(BufferLoad() as left, BufferLoad() as right)
        ):
            return left, right
    return None


def is_bf16_product(stage: KernelStage) -> bool:
    """Whether a stage is a product of two bf16 operands, which the dot instruction and AMX take."""
    return (
        all(operand is DType.BF16 for operand in _operand_types(stage))
        and product_operands(stage) is not None
    )


def is_half_product(stage: KernelStage) -> bool:
    """Whether a `stage` is a product of two 16-bit floats."""
    return HALVES.issuperset(_operand_types(stage)) and product_operands(stage) is not None


def is_float_product(stage: KernelStage) -> bool:
    """Whether a `stage` is a product of two operands that are multiplied as f32."""
    return _FLOATS.issuperset(_operand_types(stage)) and product_operands(stage) is not None


def _operand_types(stage: KernelStage) -> list[DType]:
    """Element types of the operands of a product; empty for any other stage."""
    return [load.buffer.dtype for load in product_operands(stage) or ()]


def widened_buffer(buffer: Buffer) -> Buffer:
    """The `buffer` with f32 elements if its own are 16-bit floats."""
    return replace(buffer, dtype=DType.F32) if buffer.dtype in HALVES else buffer


def may_widen(kernel: TileKernel, machine: CpuMachine) -> bool:
    """Whether storing f32 may make the kernel's products faster: some are of 16-bit floats, and no
    fast dot instruction takes all of them."""
    products = _products(kernel)
    # An Emerald Rapids takes twice as long for its dot instruction as for two multiply-adds of f32
    # (`benchmarks/dots.py`), so there widening pays even for bf16.
    fast = machine.bf16_dot and not machine.slow_dots
    return bool(products) and not (fast and all(map(is_bf16_product, products)))


def widenable_tiles(kernel: TileKernel) -> frozenset[Buffer]:
    """Buffers of 16-bit floats that a block computes element by element, reads in products, and
    that are no outputs."""
    read = {load.buffer for product in _products(kernel) for load in product.loads}
    return frozenset(_is_widenable(kernel)) & read


def with_widened_tiles(kernel: TileKernel) -> TileKernel:
    """The `kernel` with those buffers stored as f32, each element rounded to its 16-bit type first,
    so that values do not change."""
    wide = {tile: widened_buffer(tile) for tile in widenable_tiles(kernel)}

    def changed(load: BufferLoad) -> BufferLoad:
        return replace(load, buffer=wide.get(load.buffer, load.buffer))

    stages: list[KernelStage] = []
    for stage in kernel.stages:
        value = map_loads(stage.value, changed)
        # Without this rounding, widened tiles would be more exact than those of another schedule of
        # the same kernel, and two schedules could disagree.
        if stage.target in wide:
            value = Round(value, stage.target.dtype)
        stages.append(replace(stage, target=wide.get(stage.target, stage.target), value=value))
    return replace(kernel, stages=tuple(stages))


def _products(kernel: TileKernel) -> list[KernelStage]:
    """The stages that sum products of 16-bit floats."""
    return [
        stage
        for stage in kernel.stages
        if stage.reduction is ReductionKind.SUM and is_half_product(stage)
    ]


def _is_widenable(kernel: TileKernel) -> Iterator[Buffer]:
    """Yields the targets of elementwise stages that hold 16-bit floats and that only the block
    sees."""
    for stage in kernel.stages:
        # A reduction's target keeps its type: rounding happens once, at its end.
        halves = stage.target.dtype in HALVES and stage.reduction is ReductionKind.NONE
        if halves and stage.target not in kernel.outputs:
            yield stage.target


def buffers_of_float_sums(kernel: TileKernel) -> frozenset[Buffer]:
    """Buffers that hold sums of floats, or values computed from such sums."""
    inexact: set[Buffer] = set()
    for stage in kernel.stages:
        is_sum = stage.reduction is ReductionKind.SUM or is_made_of_sums(stage.value, inexact)
        if is_sum and stage.target.dtype not in EXACT:
            inexact.add(stage.target)
    return frozenset(inexact)


def is_made_of_sums(expression: Expression, sums: Set[Buffer]) -> bool:
    """Whether a value is one of `sums` or computed from some, so that its last bits are not exact
    anyway.

    A comparison is exact whatever it compares. A selection counts only if every branch does, as the
    chosen one has to: `where(c, t0, X)` may yield X, which is exact.
    """
    match expression:
        case BufferLoad(buffer):
            return buffer in sums
        case Round(value, dtype):
            return dtype not in EXACT and is_made_of_sums(value, sums)
        case BoundedValue(value=value, otherwise=otherwise):
            chosen = [value, otherwise]
        case Apply(Operation.SELECT, (_, *branches)):
            chosen = branches
        case Apply(operation, arguments):
            return operation not in COMPARE and any(
                is_made_of_sums(argument, sums) for argument in arguments
            )
        case _:
            return False
    # A literal on one branch is exact and costs nothing: it does not decide.
    variable = [branch for branch in chosen if not isinstance(branch, Constant)]
    return bool(variable) and all(is_made_of_sums(branch, sums) for branch in variable)
