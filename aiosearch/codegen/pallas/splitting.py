"""A kernel's sums shared out among more blocks: each adds up a part, a second kernel the parts.

This is split-K of a product and split-KV of an attention. What each part comes to is kept as the
accumulators are, before anything is rounded to what the outputs hold.
"""

from __future__ import annotations

from .. import ir
from .errors import CannotPrint
from .nodes import Node, Nodes, rewritten
from .places import moved


def split(module: ir.Module, kernel: str, index: str, parts: int) -> ir.Module:
    """The module, where what a kernel folds over an index is folded in so many parts at once."""
    kernels: list[ir.Kernel] = []
    for one in module.kernels:
        kernels += _halves(one, index, parts) if one.name == kernel else [one]
    if len(kernels) == len(module.kernels):
        raise CannotPrint(f"{module.name} has no kernel {kernel}")
    return ir.Module(module.name, module.inputs, module.outputs, tuple(kernels))


def _halves(kernel: ir.Kernel, name: str, parts: int) -> list[ir.Kernel]:
    nodes = Nodes(kernel)
    whole = next((one for one in kernel.indices if one.name == name), None)
    totals = [stage for stage in kernel.stages if whole in stage.folded]
    if whole is None or not totals:
        raise CannotPrint(f"kernel {kernel.name} folds nothing over {name}")
    _check(nodes, whole, parts)
    part = ir.Index(f"{name}_part", parts)
    partial = {
        stage.target: ir.Buffer(
            f"{kernel.name}_{stage.target.name}_parts",
            stage.target.dtype,
            (parts, *stage.target.shape),
        )
        for stage in totals
    }
    first = [_cut(stage, whole, part, partial) for stage in kernel.stages]
    filled = tuple(partial.values())
    second = [_joined(stage, part, partial) for stage in kernel.stages if whole not in stage.free]
    return [
        ir.Kernel(f"{kernel.name}_parts", kernel.inputs, filled, tuple(first)),
        ir.Kernel(kernel.name, (*kernel.inputs, *filled), kernel.outputs, tuple(second)),
    ]


def _check(nodes: Nodes, whole: ir.Index, parts: int) -> None:
    """Parts have to be equal, and what is folded has to be known from the inputs alone."""
    kernel = nodes.kernel.name
    if parts < 2 or whole.size % parts:
        raise CannotPrint(f"kernel {kernel}: {whole.size} of {whole} are not {parts} equal parts")
    late = [node for node in nodes.all if whole in node.folded and _totals(node, whole)]
    if late or any(whole in node.indices for node in nodes.outputs):
        raise CannotPrint(f"kernel {kernel}: what it folds over {whole} is needed along {whole}")


def _totals(node: Node, whole: ir.Index) -> bool:
    """Whether a node is made of what is folded over an index."""
    return any(whole in one.folded or _totals(one, whole) for one in node.reads.values())


def _cut(
    stage: ir.Stage, whole: ir.Index, part: ir.Index, partial: dict[ir.Buffer, ir.Buffer]
) -> ir.Stage:
    """A stage for one part of the index; a total goes to its part of a buffer."""
    own = ir.Index(whole.name, whole.size // part.size)
    places = {whole: ir.affine({part: own.size, own: 1})}
    at = tuple(moved(one, places) for one in stage.at)
    folded = tuple(own if one == whole else one for one in stage.folded)
    value = rewritten(stage.value, places)
    if stage.target not in partial:
        return ir.Stage(stage.target, at, value, folded, stage.fold)
    return ir.Stage(partial[stage.target], (ir.index(part), *at), value, folded, stage.fold)


def _joined(stage: ir.Stage, part: ir.Index, partial: dict[ir.Buffer, ir.Buffer]) -> ir.Stage:
    """A total as the fold of its parts; any other stage as it is."""
    if stage.target not in partial:
        return stage
    load = ir.Load(partial[stage.target], (ir.index(part), *stage.at))
    return ir.Stage(stage.target, stage.at, load, (part,), stage.fold)
