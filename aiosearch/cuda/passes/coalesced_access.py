"""Cells that are only copied into others, as at the end of a loop's body, become those.

Fission leaves

    for { ... threads { ...; store a[t], v }   threads { store b[t], load a[t] } }

where b is what the loop carries. If nothing mentions a elsewhere, and nothing between the store and
the copy mentions b, then v can be stored in b at once. Each thread has a cell of its own in either,
so only the order within one thread counts.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from ..ir.operations import (
    Alloc,
    Compute,
    IrValue,
    Load,
    MemorySpace,
    Operation,
    ParallelFunction,
    Region,
    Store,
    Threads,
    operands,
    regions,
    walk,
    with_regions,
)
from .rewriter import substituted


def coalesced(function: ParallelFunction) -> ParallelFunction:
    """The kernel after fission, with copies between cells taken out where that is possible."""
    cells = {
        item.result
        for item in walk(function.body)
        if isinstance(item, Alloc) and item.space is MemorySpace.EXPANDED
    }
    uses = Counter(
        value
        for operation in walk(function.body)
        for value in operands(operation)
        if isinstance(value, IrValue) and value in cells
    )
    merged: dict[IrValue, IrValue] = {}
    body = _block(function.body, uses, merged)
    if not merged:
        return function
    body = substituted(body, merged)
    lines = tuple(
        item for item in body.operations if not (isinstance(item, Alloc) and item.result in merged)
    )
    return replace(function, body=Region(lines, body.yields))


def _block(block: Region, uses: Counter[IrValue], merged: dict[IrValue, IrValue]) -> Region:
    lines: list[Operation] = []
    for operation in block.operations:
        if isinstance(operation, Threads):
            operation = _shortened(operation, lines, uses, merged)
            if any(isinstance(item, Compute | Load) is False for item in operation.body.operations):
                lines.append(operation)
            continue
        blocks = tuple(_block(item, uses, merged) for item in regions(operation))
        lines.append(with_regions(operation, blocks))
    return Region(tuple(lines), block.yields)


def _shortened(
    threads: Threads,
    before: list[Operation],
    uses: Counter[IrValue],
    merged: dict[IrValue, IrValue],
) -> Threads:
    """Without copies that an earlier loop over threads can do instead."""
    loads = {item.result: item for item in threads.body.operations if isinstance(item, Load)}
    lines = []
    for operation in threads.body.operations:
        if isinstance(operation, Store) and operation.value in loads:
            target, load = operation.address.base, loads[operation.value]
            source = load.address.base
            if (
                isinstance(source, IrValue)
                and isinstance(target, IrValue)
                and source != target
                and source not in merged
                and target not in merged.values()
                and uses[source] == 2
                and uses[target]
                and _is_cell(load, operation)
                and _is_last(source, target, before)
                and _mentions(threads, target) == 1
            ):
                # From here on the earlier store goes to the target, and the copy is not written.
                merged[source] = target
                continue
        lines.append(operation)
    return Threads(Region(tuple(lines)), threads.at)


def _is_cell(load: Load, store: Store) -> bool:
    """Whether both are a thread's own cell."""
    first, second = load.address, store.address
    return (first.index, first.scale, first.offset) == (
        second.index,
        second.scale,
        second.offset,
    ) and (first.scale == store.type.size)


def _is_last(source: IrValue, target: IrValue, before: list[Operation]) -> bool:
    """Whether the source is stored by a loop over threads since which nobody uses the target."""
    for operation in reversed(before):
        if isinstance(operation, Threads):
            stores = [
                place
                for place, item in enumerate(operation.body.operations)
                if isinstance(item, Store) and item.address.base == source
            ]
            if stores:
                behind = Threads(Region(operation.body.operations[stores[-1] :]))
                return not _mentions(behind, target)
        if _mentions(operation, target):
            return False
    return False


def _mentions(operation: Operation, value: IrValue) -> int:
    return sum(value in operands(item) for item in walk(Region((operation,))))
