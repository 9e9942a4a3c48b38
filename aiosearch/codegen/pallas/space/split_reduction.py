"""The split of a reduction among blocks (split-K, split-KV), with a second kernel that combines
the parts.

This is split-K of a product and split-KV of an attention. What each part comes to is kept as the
accumulators are, before anything is rounded to what the outputs hold. What scales with a maximum is
added up with the part's own one, and scaled when all parts are known.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ....tensor.types import HALVES, DType
from ... import ir
from ...ir.affine_maps import substitute_indices
from ...ir.simplification import map_loads
from ..errors import CannotPrint
from ..nodes import TileNode, TileNodes, rewrite_positions
from ..rescaling import online_weight


def split(module: ir.Module, kernel: str, index: str, parts: int) -> ir.Module:
    """The module, where what a kernel folds over an index is folded in so many parts at once."""
    kernels: list[ir.TileKernel] = []
    for one in module.kernels:
        kernels += split_kernels(one, index, parts) if one.name == kernel else [one]
    if len(kernels) == len(module.kernels):
        raise CannotPrint(f"{module.name} has no kernel {kernel}")
    return ir.Module(module.name, module.inputs, module.outputs, tuple(kernels))


def split_kernels(
    kernel: ir.TileKernel, index: str, parts: int
) -> tuple[ir.TileKernel, ir.TileKernel]:
    """The kernel that folds the parts, and the one that folds what these come to."""
    whole = next((one for one in kernel.indices if one.name == index), None)
    totals = [stage for stage in kernel.stages if whole in stage.folded]
    if whole is None or not totals:
        raise CannotPrint(f"kernel {kernel.name} folds nothing over {index}")
    if parts < 2 or whole.size % parts:
        raise CannotPrint(
            f"kernel {kernel.name}: {whole.size} of {whole} are not {parts} equal parts"
        )
    paces = _rescaling_maxima(TileNodes(kernel), whole)
    part = ir.LoopIndex(f"{index}_part", parts)
    partial = {stage.target: _partial(kernel, stage.target, parts) for stage in totals}
    first = [_partial_stage(stage, whole, part, partial) for stage in kernel.stages]
    second = [
        _combining_stage(stage, part, partial, paces)
        for stage in kernel.stages
        if whole not in stage.free
    ]
    return (
        _kernel(f"{kernel.name}_parts", kernel.inputs, tuple(partial.values()), first),
        _kernel(kernel.name, (*kernel.inputs, *partial.values()), kernel.outputs, second),
    )


def _partial(kernel: ir.TileKernel, total: ir.Buffer, parts: int) -> ir.Buffer:
    dtype = DType.F32 if total.dtype in HALVES else total.dtype
    return ir.Buffer(f"{kernel.name}_{total.name}_parts", dtype, (parts, *total.shape))


def _kernel(
    name: str,
    inputs: Iterable[ir.Buffer],
    outputs: tuple[ir.Buffer, ...],
    stages: Sequence[ir.KernelStage],
) -> ir.TileKernel:
    """With no more stages and inputs than the outputs need."""
    kept, needed = list[ir.KernelStage](), set(outputs)
    for stage in reversed(stages):
        if stage.target in needed:
            kept.append(stage)
            needed |= {load.buffer for load in stage.loads}
    read = tuple(one for one in inputs if one in needed)
    return ir.TileKernel(name, read, outputs, tuple(reversed(kept)))


def _rescaling_maxima(
    nodes: TileNodes, whole: ir.LoopIndex
) -> dict[ir.Buffer, dict[TileNode, float]]:
    """By total the maxima that scale it, and how; all else has to be known from the inputs."""
    totals = [node for node in nodes.all if whole in node.folded]
    found: dict[ir.Buffer, dict[TileNode, float]] = {node.stage.target: {} for node in totals}
    late = any(whole in node.indices for node in nodes.outputs)
    for node in totals:
        for below in dict.fromkeys(_totals_below(node, whole)):
            weight = _weight(node, below)
            late |= weight is None
            found[node.stage.target] |= {below: weight} if weight else {}
    if late:
        kernel = nodes.kernel.name
        raise CannotPrint(f"kernel {kernel}: what it folds over {whole} is needed along {whole}")
    return found


def _weight(node: TileNode, most: TileNode) -> float | None:
    """How a total scales with another one, where both are read at the places that they fill."""
    moved_ = any(one.at != one.stage.at for one in (node, most))
    return None if moved_ or not most.indices <= node.indices else online_weight(node, most)


def _totals_below(node: TileNode, whole: ir.LoopIndex) -> Iterator[TileNode]:
    """The totals that a node is made of."""
    for one in node.reads.values():
        if whole in one.folded:
            yield one
        yield from _totals_below(one, whole)


def _partial_stage(
    stage: ir.KernelStage,
    whole: ir.LoopIndex,
    part: ir.LoopIndex,
    partial: Mapping[ir.Buffer, ir.Buffer],
) -> ir.KernelStage:
    """A stage for one part of the index; a total goes to its part of a buffer."""
    own = ir.LoopIndex(whole.name, whole.size // part.size)
    places = {whole: ir.affine({part: own.size, own: 1})}

    def read(load: ir.BufferLoad) -> ir.BufferLoad:
        return _of_part(load, part, partial) if load.buffer in partial else load

    at = tuple(substitute_indices(one, places) for one in stage.at)
    folded = tuple(own if one == whole else one for one in stage.folded)
    value = map_loads(rewrite_positions(stage.value, places), read)
    found = ir.BufferLoad(stage.target, at)
    if stage.target in partial:
        found = _of_part(found, part, partial)
    return ir.KernelStage(found.buffer, found.at, value, folded, stage.fold)


def _of_part(
    load: ir.BufferLoad, part: ir.LoopIndex, partial: Mapping[ir.Buffer, ir.Buffer]
) -> ir.BufferLoad:
    return ir.BufferLoad(partial[load.buffer], (ir.index(part), *load.at))


def _combining_stage(
    stage: ir.KernelStage,
    part: ir.LoopIndex,
    partial: Mapping[ir.Buffer, ir.Buffer],
    paces: Mapping[ir.Buffer, Mapping[TileNode, float]],
) -> ir.KernelStage:
    """A total as the fold of its parts; any other stage as it is."""
    if stage.target not in partial:
        return stage
    found: ir.Expression = _of_part(ir.BufferLoad(stage.target, stage.at), part, partial)
    for most, weight in paces.get(stage.target, {}).items():
        whole = ir.BufferLoad(most.stage.target, most.at)
        found = _scaled(found, _of_part(whole, part, partial), whole, weight)
    return ir.KernelStage(stage.target, stage.at, found, (part,), stage.fold)


def _scaled(
    total: ir.Expression, own: ir.BufferLoad, most: ir.BufferLoad, weight: float
) -> ir.Expression:
    """A part's sum, scaled from its own maximum to that of all parts.

    One that has seen nothing but minus infinity has added up what is no number; it counts only
    where no other part has seen more. So it goes unseen if a factor was infinite there.
    """
    over = ir.Apply(ir.Operation.SUBTRACT, (own, most))
    if weight != -1:
        over = ir.Apply(ir.Operation.MULTIPLY, (over, ir.Constant(-weight)))
    scale = ir.Apply(ir.Operation.EXP, (over,))
    nothing = ir.Apply(ir.Operation.EQUAL, (own, ir.Constant(-math.inf)))
    alike = ir.Apply(ir.Operation.EQUAL, (own, most))
    scaled = ir.Apply(ir.Operation.MULTIPLY, (total, scale))
    others = ir.Apply(ir.Operation.SELECT, (nothing, ir.Constant(0.0), scaled))
    return ir.Apply(ir.Operation.SELECT, (alike, total, others))
