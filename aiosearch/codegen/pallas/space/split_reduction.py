"""The split of a reduction among blocks (split-K, split-KV), with a second kernel that combines the
parts.

Problem: a kernel with few outputs and a long reduction has fewer blocks than the GPU has
multiprocessors. Its reduction is shared out: several blocks compute parts of an output, and a
second kernel reduces the parts.

Worked example: `out[i, j] = sum over k of X[i, k]·W[k, j]` with k below 4096 in four parts becomes
`p_out_parts[k_part, i, j] = sum over k of X[i, k + 1024k_part]·W[k + 1024k_part, j]` with k below
1024, and `out[i, j] = sum over k_part of p_out_parts[k_part, i, j]`.

What each part comes to is held as the accumulators are, in f32 for half types, before anything is
rounded to what the outputs hold. What scales with a maximum, as in attention, is added up with the
part's own maximum, and scaled when all parts are known (`rescaling`).

Invariants: parts are equal, so that one kernel computes all; a total may depend on another total
only by scaling with it; nothing that is needed along the split index may need a total.

Cost: a launch, and the parts' traffic; `split_space` decides whether that pays.

See docs/why/kernels.md, "Folds in parts".
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ....tensor.types import HALVES, DType
from ... import ir
from ...errors import CannotPrint
from ...ir.affine_maps import substitute_indices
from ...ir.simplification import map_loads
from ..nodes import TileNode, TileNodes, rewrite_positions
from ..rescaling import online_weight


def split(module: ir.Module, kernel: str, index: str, parts: int) -> ir.Module:
    """`module`, where what `kernel` reduces over `index` is reduced in `parts` blocks at once."""
    kernels: list[ir.TileKernel] = []
    for candidate in module.kernels:
        kernels += (
            split_kernels(candidate, index, parts) if candidate.name == kernel else [candidate]
        )
    if len(kernels) == len(module.kernels):
        raise CannotPrint(f"{module.name} has no kernel {kernel}")
    return ir.Module(module.name, module.inputs, module.outputs, tuple(kernels))


def split_kernels(
    kernel: ir.TileKernel, index: str, parts: int
) -> tuple[ir.TileKernel, ir.TileKernel]:
    """The kernel that reduces `parts` of `index`, and the kernel that combines them; raises
    CannotPrint where a split is impossible.
    """
    whole = next((loop_index for loop_index in kernel.indices if loop_index.name == index), None)
    totals = [stage for stage in kernel.stages if whole in stage.folded]
    if whole is None or not totals:
        raise CannotPrint(f"kernel {kernel.name} folds nothing over {index}")
    if parts < 2 or whole.size % parts:
        raise CannotPrint(
            f"kernel {kernel.name}: {whole.size} of {whole} are not {parts} equal parts"
        )
    # This also checks legality, so it comes before anything is built.
    paces = _rescaling_maxima(TileNodes(kernel), whole)
    part = ir.LoopIndex(f"{index}_part", parts)
    partial = {stage.target: _partial(kernel, stage.target, parts) for stage in totals}
    first = [_partial_stage(stage, whole, part, partial) for stage in kernel.stages]
    second = [
        _combining_stage(stage, part, partial, paces)
        for stage in kernel.stages
        # A stage along the split index belongs to the parts alone; anything that outputs need of it
        # is in a total.
        if whole not in stage.free
    ]
    return (
        _kernel(f"{kernel.name}_parts", kernel.inputs, tuple(partial.values()), first),
        _kernel(kernel.name, (*kernel.inputs, *partial.values()), kernel.outputs, second),
    )


def _partial(kernel: ir.TileKernel, total: ir.Buffer, parts: int) -> ir.Buffer:
    """The buffer of the parts of a total, with the part as its first axis."""
    # Rounding each part to a half type would lose what the accumulator has.
    dtype = DType.F32 if total.dtype in HALVES else total.dtype
    return ir.Buffer(f"{kernel.name}_{total.name}_parts", dtype, (parts, *total.shape))


def _kernel(
    name: str,
    inputs: Iterable[ir.Buffer],
    outputs: tuple[ir.Buffer, ...],
    stages: Sequence[ir.KernelStage],
) -> ir.TileKernel:
    """The kernel of `stages`, with no more stages and inputs than `outputs` need."""
    needed_stages, needed = list[ir.KernelStage](), set(outputs)
    # Stages stand operands first, so one pass from the end finds all that is needed.
    for stage in reversed(stages):
        if stage.target in needed:
            needed_stages.append(stage)
            needed |= {load.buffer for load in stage.loads}
    read = tuple(buffer for buffer in inputs if buffer in needed)
    return ir.TileKernel(name, read, outputs, tuple(reversed(needed_stages)))


def _rescaling_maxima(
    nodes: TileNodes, whole: ir.LoopIndex
) -> dict[ir.Buffer, dict[TileNode, float]]:
    """The maxima that scale each total, and how; raises CannotPrint where it depends on a total
    otherwise.
    """
    totals = [node for node in nodes.all if whole in node.folded]
    weights: dict[ir.Buffer, dict[TileNode, float]] = {node.stage.target: {} for node in totals}
    # An output along the split index could only be written when all parts are known: it would need
    # a third kernel.
    late = any(whole in node.indices for node in nodes.outputs)
    for node in totals:
        for below in dict.fromkeys(_totals_below(node, whole)):
            weight = _weight(node, below)
            late |= weight is None
            weights[node.stage.target] |= {below: weight} if weight else {}
    if late:
        kernel = nodes.kernel.name
        raise CannotPrint(f"kernel {kernel}: what it folds over {whole} is needed along {whole}")
    return weights


def _weight(node: TileNode, maximum: TileNode) -> float | None:
    """How the total `node` scales with `maximum`, where both are read where they are filled;
    else None.
    """
    moved_ = any(total.at != total.stage.at for total in (node, maximum))
    return None if moved_ or not maximum.indices <= node.indices else online_weight(node, maximum)


def _totals_below(node: TileNode, whole: ir.LoopIndex) -> Iterator[TileNode]:
    """The totals that `node` is made of."""
    for operand in node.reads.values():
        if whole in operand.folded:
            yield operand
        yield from _totals_below(operand, whole)


def _partial_stage(
    stage: ir.KernelStage,
    whole: ir.LoopIndex,
    part: ir.LoopIndex,
    partial: Mapping[ir.Buffer, ir.Buffer],
) -> ir.KernelStage:
    """`stage` for one `part` of the index; a total goes to its part of a buffer."""
    part_index = ir.LoopIndex(whole.name, whole.size // part.size)
    # The index in the whole: parts follow each other, so that a block reads contiguous rows.
    places = {whole: ir.affine({part: part_index.size, part_index: 1})}

    def read(load: ir.BufferLoad) -> ir.BufferLoad:
        return _of_part(load, part, partial) if load.buffer in partial else load

    at = tuple(substitute_indices(position, places) for position in stage.at)
    folded = tuple(part_index if position == whole else position for position in stage.folded)
    value = map_loads(rewrite_positions(stage.value, places), read)
    filled = ir.BufferLoad(stage.target, at)
    if stage.target in partial:
        filled = _of_part(filled, part, partial)
    return ir.KernelStage(filled.buffer, filled.at, value, folded, stage.reduction)


def _of_part(
    load: ir.BufferLoad, part: ir.LoopIndex, partial: Mapping[ir.Buffer, ir.Buffer]
) -> ir.BufferLoad:
    """The load of the element of `part` of the buffer that stands for a total."""
    return ir.BufferLoad(partial[load.buffer], (ir.index(part), *load.at))


def _combining_stage(
    stage: ir.KernelStage,
    part: ir.LoopIndex,
    partial: Mapping[ir.Buffer, ir.Buffer],
    paces: Mapping[ir.Buffer, Mapping[TileNode, float]],
) -> ir.KernelStage:
    """A total as the reduction of its parts; any other `stage` as it is."""
    if stage.target not in partial:
        return stage
    value: ir.Expression = _of_part(ir.BufferLoad(stage.target, stage.at), part, partial)
    for maximum, weight in paces.get(stage.target, {}).items():
        whole = ir.BufferLoad(maximum.stage.target, maximum.at)
        value = _scaled(value, _of_part(whole, part, partial), whole, weight)
    return ir.KernelStage(stage.target, stage.at, value, (part,), stage.reduction)


def _scaled(
    total: ir.Expression, part_maximum: ir.BufferLoad, maximum: ir.BufferLoad, weight: float
) -> ir.Expression:
    """The sum of a part, scaled from its own maximum to that of all parts.

    A part that has seen nothing but minus infinity has added up NaN; it counts only where no other
    part has seen more. So it goes unseen if a factor was infinite there.
    """
    over = ir.Apply(ir.Operation.SUBTRACT, (part_maximum, maximum))
    # Of exp(w·maximum), the part has its own maximum and needs that of all: times exp(w·most -
    # w·own), which is exp(-w·(own - most)).
    if weight != -1:
        over = ir.Apply(ir.Operation.MULTIPLY, (over, ir.Constant(-weight)))
    scale = ir.Apply(ir.Operation.EXP, (over,))
    nothing = ir.Apply(ir.Operation.EQUAL, (part_maximum, ir.Constant(-math.inf)))
    # Where the part has the largest maximum the factor is 1; selecting spares infinity minus
    # infinity, which is NaN.
    alike = ir.Apply(ir.Operation.EQUAL, (part_maximum, maximum))
    scaled = ir.Apply(ir.Operation.MULTIPLY, (total, scale))
    otherwise = ir.Apply(ir.Operation.SELECT, (nothing, ir.Constant(0.0), scaled))
    return ir.Apply(ir.Operation.SELECT, (alike, total, otherwise))
