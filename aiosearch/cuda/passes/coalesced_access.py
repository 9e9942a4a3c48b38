"""Fewer accesses: cells that are only copied become others, and loops carry what stays in place.

Fission leaves

    for { ... threads { ...; store a[t], v }   threads { store b[t], load a[t] } }

where b is what the loop carries. If nothing mentions a elsewhere, and nothing between the store and
the copy mentions b, then v can be stored in b at once. Each thread has a cell of its own in either,
so only the order within one thread counts.

A loop that keeps coming back to a place carries what is there:

    for (j..i) x[i] -= a[i][j] * x[j];          r = x[i]; for (j..i) r -= a[i][j] * x[j]; x[i] = r;

A place is carried that does not move, where the loop loads from it before it stores to it, and does
nothing else to it. That x[j] is another place follows from j < i, as nothing between two ends of
an affine form is beyond both. In memory, each turn would wait for the store of the one before it,
which takes longer than the arithmetic. A condition that is the same in all turns hides what a loop
does, so it is asked around the loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

from ..ir.operations import (
    Alloc,
    Compute,
    For,
    If,
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
    results,
    used,
    walk,
    with_regions,
)
from ..ir.types import ScalarType
from .coarsening import NewValues
from .dependences import apart
from .effects import AffineForm, Definitions
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


Fors: TypeAlias = tuple[For, ...]
Touches: TypeAlias = Callable[[Load, Store, Fors, Fors], bool]
"""Whether a load, in loops of a nest, can be from where a store is, in loops that are the first of
those, in the same turns of these."""


class LoopRegisters:
    """Writes loops whose places do not move with new values; `memory` says which piece a pointer
    is in, and different pieces do not overlap."""

    def __init__(
        self, numbers: NewValues, definitions: Definitions, memory: Mapping[IrValue, int]
    ) -> None:
        self._numbers = numbers
        self._definitions = definitions
        self._memory = memory

    def block(self, block: Region) -> Region:
        """What a `For` reads and writes at one place in each iteration is carried by it."""
        lines: list[Operation] = []
        for operation in block.operations:
            if isinstance(operation, For):
                hoisted, operation = _hoisted(operation)
                lines += hoisted
                operation = _unswitched(operation)
            inner = tuple(self.block(item) for item in regions(operation))
            operation = with_regions(operation, inner) if inner else operation
            if isinstance(operation, For):
                hoisted, operation = _hoisted(operation)
                lines += hoisted
                lines += self._in_register(operation)
            else:
                lines.append(operation)
        return Region(tuple(lines), block.yields)

    def _in_register(self, loop: For) -> list[Operation]:
        body = loop.body.operations
        stores = [item for item in body if isinstance(item, Store)]
        if loop.carried or any(map(regions, body)):
            return [loop]
        pairs = [(self._only_load(item, loop), item) for item in stores]
        taken = [(load, store) for load, store in pairs if load is not None]
        if not taken:
            return [loop]
        before, carried, after = (
            tuple(self._numbers.value(store.type) for _, store in taken) for _ in range(3)
        )
        replaced = {load.result: item for (load, _), item in zip(taken, carried, strict=True)}
        moved = {id(item) for pair in taken for item in pair}
        lines = tuple(item for item in body if id(item) not in moved)
        turned = substituted(Region(lines, tuple(store.value for _, store in taken)), replaced)
        whole = replace(loop, carried=carried, initial=before, body=turned, results=after)
        runs = self._numbers.value(ScalarType.BOOL)
        # A loop without iterations touches nothing, so neither may what stands around it now.
        first = (replace(load, result=item) for (load, _), item in zip(taken, before, strict=True))
        last = (replace(store, value=item) for (_, store), item in zip(taken, after, strict=True))
        guarded = Region((*first, whole, *last))
        compare = Compute(runs, "lt" if loop.step > 0 else "gt", (loop.low, loop.high))
        return [compare, If(runs, guarded, Region(), (), loop.at)]

    def _only_load(self, store: Store, loop: For) -> Load | None:
        """The `Load` from where a loop stores all the time, if nothing else in it touches that."""
        inside = {item for operation in walk(loop.body) for item in results(operation)}
        inside |= {loop.counter, *loop.carried}
        if inside & {store.address.base, store.address.index}:
            return None
        lines = [item for item in loop.body.operations if isinstance(item, Load | Store)]
        load = next(
            (item for item in lines if isinstance(item, Load) and item.address == store.address),
            None,
        )
        if load is None or load.result.type is not store.type:
            return None
        if lines.index(load) > lines.index(store):
            return None
        remaining = [item for item in lines if item is not load and item is not store]
        return load if all(self._separate(item, store, loop) for item in remaining) else None

    def _separate(self, access: Load | Store, store: Store, loop: For) -> bool:
        """Whether an access in a loop never is to where one of its stores always is."""
        first, second = self._piece(access), self._piece(store)
        if first is None or second is None:
            return False
        if first != second:
            return True
        places = [self._definitions.form(item.address) for item in (access, store)]
        ends = [self._definitions.affine(item) for item in (loop.low, loop.high)]
        roots = {self._definitions.root(item.address.base) for item in (access, store)}
        if len(roots) > 1 or None in places or None in ends:
            return False
        (place, fixed), (low, high) = ([item for item in two if item] for two in (places, ends))
        step = AffineForm((), 1 if loop.step > 0 else -1)
        bounds = (low, high.plus(step, -1)) if loop.step > 0 else (high.plus(step, -1), low)
        types = [item.type if isinstance(item, Store) else item.result.type
                 for item in (access, store)]  # fmt: skip
        size = max(item.size for item in types)
        return apart(place.plus(fixed, -1), loop.counter, bounds, size)

    def _piece(self, access: Load | Store) -> int | None:
        root = self._definitions.root(access.address.base)
        return None if root is None else self._memory.get(root)


def _hoisted(loop: For) -> tuple[list[Operation], For]:
    """What is computed in a loop from what is outside of it, and the loop without that."""
    inside = {loop.counter, *loop.carried}
    before: list[Operation] = []
    lines: list[Operation] = []
    for operation in loop.body.operations:
        if isinstance(operation, Compute) and not inside & set(operands(operation)):
            before.append(operation)
            continue
        lines.append(operation)
        inside.update(results(operation))
    return before, replace(loop, body=Region(tuple(lines), loop.body.yields))


def _unswitched(loop: For) -> For | If:
    """The `If` around the loop, where all of a loop is in one that each turn takes alike."""
    arithmetic = [item for item in loop.body.operations if isinstance(item, Compute)]
    remaining = [item for item in loop.body.operations if not isinstance(item, Compute)]
    if len(remaining) != 1 or loop.carried:
        return loop
    (branch,) = remaining
    if not isinstance(branch, If) or branch.results or branch.otherwise.operations:
        return loop
    # What is computed outside of the loop has been taken out of it.
    if branch.condition in {loop.counter, *(item.result for item in arithmetic)}:
        return loop
    inside = replace(loop, body=Region((*arithmetic, *branch.then.operations)))
    return replace(branch, then=Region((inside,)))


def in_memory(loop: For, touches: Touches) -> For:
    """The nest with sums of its loops in memory again, where they begin and end at one place.

        w = a[i][j]; for (k..j) w -= a[i][k] * a[k][j]; a[i][j] = w / a[j][j];

    So another order of its statements can be looked for.
    """
    return replace(loop, body=_in_memory(loop.body, (loop,), touches))


def _in_memory(block: Region, around: Fors, touches: Touches) -> Region:
    lines: list[Operation] = []
    stored: list[Operation] = []
    for line in block.operations:
        if line in stored:
            continue  # what the loop has stored is all that it would be
        if isinstance(line, For) and line.carried:
            pair = _ends(line, block, around, touches)
            if pair is not None:
                first, last = pair
                store = replace(last, value=line.body.yields[0])
                begun = replace(first, result=line.carried[0])
                body = Region((begun, *line.body.operations, store))
                lines.remove(first)
                lines.append(replace(line, carried=(), initial=(), results=(), body=body))
                lines.append(replace(first, result=line.results[0]))
                if last.value == line.results[0]:
                    stored.append(last)
                continue
        elif isinstance(line, For):
            line = replace(line, body=_in_memory(line.body, (*around, line), touches))
        lines.append(line)
    return Region(tuple(lines), block.yields)


def _ends(loop: For, block: Region, around: Fors, touches: Touches) -> tuple[Load, Store] | None:
    """Where what a loop carries comes from and goes to, if nobody else looks there meanwhile."""
    lines = block.operations
    place = lines.index(loop)
    loads = [item for item in lines[:place] if isinstance(item, Load)]
    first = next((item for item in loads if loop.initial == (item.result,)), None)
    last = next((item for item in lines[place:] if isinstance(item, Store)), None)
    if first is None or last is None or last.address != first.address:
        return None
    between = [item for item in lines[lines.index(first) + 1 : lines.index(last)] if item != loop]
    body = loop.body.operations
    if not all(isinstance(item, Compute | Load) for item in (*body, *between)):
        return None
    behind = Region(lines[lines.index(last) + 1 :], block.yields)
    if sum(first.result in operands(item) for item in walk(block)) > 1:
        return None
    if {first.result, *loop.results} & used(behind) or last.type is not first.result.type:
        return None
    inside = [(item, (*around, loop)) for item in body] + [(item, around) for item in between]
    reads = [(item, loops) for item, loops in inside if isinstance(item, Load)]
    if any(touches(item, last, loops, around) for item, loops in reads):
        return None
    return first, last
