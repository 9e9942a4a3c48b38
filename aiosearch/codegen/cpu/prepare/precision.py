"""Precision of products and sums: operand types, 16-bit floats widened to f32, values no more
exact than float sums.

Halves that products read again and again: f32 wherever a block, or a copy, writes them down.

Some processors multiply f32 faster than they multiply halves, and most have to widen these first,
each time that they read them.

What is as inexact as a sum of floats is, of which nothing is to be computed more exactly.
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
"""Those that are multiplied as f32."""


def product_operands(stage: KernelStage) -> tuple[BufferLoad, BufferLoad] | None:
    """Both, where a stage's value is their product; it may be folded."""
    match stage.value:
        case Apply(
            operation=Operation.MULTIPLY, arguments=(BufferLoad() as one, BufferLoad() as other)
        ):
            return one, other
    return None


def is_bf16_product(stage: KernelStage) -> bool:
    """Whether it is a product that an instruction for pairs takes."""
    return (
        all(one is DType.BF16 for one in _operand_types(stage))
        and product_operands(stage) is not None
    )


def is_half_product(stage: KernelStage) -> bool:
    return HALVES.issuperset(_operand_types(stage)) and product_operands(stage) is not None


def is_float_product(stage: KernelStage) -> bool:
    return _FLOATS.issuperset(_operand_types(stage)) and product_operands(stage) is not None


def _operand_types(stage: KernelStage) -> list[DType]:
    return [one.buffer.dtype for one in product_operands(stage) or ()]


pass


def widened_buffer(buffer: Buffer) -> Buffer:
    """The same with elements that are no halves."""
    return replace(buffer, dtype=DType.F32) if buffer.dtype in HALVES else buffer


def may_widen(kernel: TileKernel, machine: CpuMachine) -> bool:
    """Whether products may be faster so: where no fast instruction adds up all of them in pairs."""
    products = _products(kernel)
    fast = machine.bf16_dot and not machine.slow_dots
    return bool(products) and not (fast and all(map(is_bf16_product, products)))


def widenable_tiles(kernel: TileKernel) -> frozenset[Buffer]:
    """What a block makes for such products, element by element, and nobody else sees."""
    read = {load.buffer for one in _products(kernel) for load in one.loads}
    return frozenset(_is_widenable(kernel)) & read


def with_widened_tiles(kernel: TileKernel) -> TileKernel:
    """With what is made so in f32: the same numbers, rounded as before."""
    wide = {one: widened_buffer(one) for one in widenable_tiles(kernel)}

    def changed(load: BufferLoad) -> BufferLoad:
        return replace(load, buffer=wide.get(load.buffer, load.buffer))

    stages: list[KernelStage] = []
    for stage in kernel.stages:
        value = map_loads(stage.value, changed)
        if stage.target in wide:
            value = Round(value, stage.target.dtype)
        stages.append(replace(stage, target=wide.get(stage.target, stage.target), value=value))
    return replace(kernel, stages=tuple(stages))


def _products(kernel: TileKernel) -> list[KernelStage]:
    return [one for one in kernel.stages if one.fold is ReductionKind.SUM and is_half_product(one)]


def _is_widenable(kernel: TileKernel) -> Iterator[Buffer]:
    for stage in kernel.stages:
        halves = stage.target.dtype in HALVES and stage.fold is ReductionKind.NONE
        if halves and stage.target not in kernel.outputs:
            yield stage.target


def buffers_of_float_sums(kernel: TileKernel) -> frozenset[Buffer]:
    """What holds sums of floats, or what was made of some."""
    found: set[Buffer] = set()
    for stage in kernel.stages:
        made = stage.fold is ReductionKind.SUM or is_made_of_sums(stage.value, found)
        if made and stage.target.dtype not in EXACT:
            found.add(stage.target)
    return frozenset(found)


def is_made_of_sums(expression: Expression, known: Set[Buffer]) -> bool:
    """Whether a value is one, or made of some; of values to choose from, whichever is chosen."""
    match expression:
        case BufferLoad(buffer):
            return buffer in known
        case Round(value, dtype):
            return dtype not in EXACT and is_made_of_sums(value, known)
        case BoundedValue(value=value, otherwise=otherwise):
            chosen = [value, otherwise]
        case Apply(Operation.SELECT, (_, *others)):
            chosen = others
        case Apply(operation, arguments):
            return operation not in COMPARE and any(
                is_made_of_sums(one, known) for one in arguments
            )
        case _:
            return False
    own = [one for one in chosen if not isinstance(one, Constant)]
    return bool(own) and all(is_made_of_sums(one, known) for one in own)
