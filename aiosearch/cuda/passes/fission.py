"""From what one thread does to what one block does: parallel loops that are cut at barriers.

    A;  barrier;  B        becomes      threads { A }  threads { B }
    for { A; barrier; B }  becomes      for { threads { A }  threads { B } }

A barrier is then where one loop over the threads ends and the next begins. For control flow around
a barrier this exchanges the loops, which is right since by CUDA's rules its bounds and conditions
are the same in all threads of the block: where uniformity is proved (`uniformity`), the block
computes them once; elsewhere thread 0's value is taken, through memory.

What crosses from one piece to another:

- what is the same in all threads is computed by the block, outside of the loops over threads;
- a value of a thread is stored in its cell of an array, or computed again (`cutting` says which);
- what a loop around a barrier carries, and what leaves it or a branch, has a cell of its own, which
  is written where the piece before ends. Cells are read before any is written, so that values may
  change places;
- threads that have returned are not waited for, so in a kernel that has barriers behind a `return`
  conditions around them are only the same in the threads that are left. There each loop over
  threads inside of such a branch or loop is under a mask, a cell that says which threads take part,
  and the block goes on while any does;
- memory of one thread that several pieces use is laid out for all threads of the block, elements of
  one index side by side, so that neighbouring threads find theirs in neighbouring places.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from ..ir.operations import (
    NOWHERE,
    Address,
    Alloc,
    Atomic,
    Barrier,
    CallOperation,
    Compute,
    ConstantOperand,
    For,
    If,
    IrValue,
    Load,
    MemorySpace,
    Operand,
    Operation,
    ParallelFunction,
    Region,
    SourceLocation,
    Store,
    Threads,
    While,
    has_barrier,
    operands,
    regions,
    results,
    used,
    walk,
)
from ..ir.types import ScalarType
from .effects import Definitions
from .minimum_cut import Policy, minimum_cut
from .rewriter import substituted
from .uniformity import uniform_values


@dataclass(frozen=True, slots=True)
class Split:
    """A kernel after fission: what a block does."""

    function: ParallelFunction
    stored: tuple[IrValue, ...]
    """The values that cross a barrier in memory."""
    recomputed: tuple[IrValue, ...]


def split(
    function: ParallelFunction, block: tuple[int, int, int], policy: Policy = Policy.CUT
) -> Split:
    """Cuts a kernel at its barriers, for blocks of one shape."""
    return _Fission(function, block, policy).split()


@dataclass(slots=True)
class _FissionPiece:
    """What goes into one loop over threads, or an operation of the block around such loops."""

    lines: list[Operation] = field(default_factory=list)
    around: Operation | None = None


class _Fission:
    def __init__(
        self, function: ParallelFunction, block: tuple[int, int, int], policy: Policy
    ) -> None:
        self._function = function
        self._threads = block[0] * block[1] * block[2]
        self._policy = policy
        self._definitions = Definitions(function)
        self._uniform = uniform_values(function)
        self._number = max(_numbers(function), default=0)
        self._allocations: list[Alloc] = []
        self._cells: dict[IrValue, IrValue] = {}
        """Where a value of a thread is stored: an array with a cell for each."""
        self._piece_of: dict[IrValue, int] = {}
        self._pieces = 0
        self._needed: set[IrValue] = set()
        """Values of threads that are used in another piece than their own."""
        self._carriers: set[IrValue] = set()
        """Values whose cell is written by a loop or branch around a barrier."""
        self._expanded: dict[IrValue, IrValue] = {}
        self._recomputed: set[IrValue] = set()
        self._lines: dict[IrValue, Operation] = {}
        self._exits = any(
            isinstance(item, CallOperation) and item.name == "exit" for item in walk(function.body)
        )
        self._present: IrValue | None = None
        """The cells that say which threads take part, where not all do."""
        self._shares: dict[IrValue, IrValue] = {}
        """What leaves a loop is in the cell of what the loop carries."""

    def split(self) -> Split:
        body = self._function.body
        self._number_pieces(body)
        self._find_needed(body)
        # Only now is it known which values cross; what is stored gets its array before anything is
        # written.
        stored = self._choose()
        for value in sorted(stored | self._carriers, key=lambda item: item.number):
            if value not in self._shares:
                self._cells[value] = self._cell(value)
        for value, carried in self._shares.items():
            self._cells[value] = self._cells[carried]
        # A pointer into memory of one thread has to stay valid in all pieces, so the layout comes
        # before them.
        self._expand(body)
        lines = self._block(body)
        shared = [
            item
            for item in body.operations
            if isinstance(item, Alloc) and item.space is MemorySpace.SHARED
        ]
        whole = Region((*shared, *self._allocations, *lines))
        return Split(
            replace(self._function, body=whole),
            tuple(sorted(self._cells, key=lambda item: item.number)),
            tuple(sorted(self._recomputed, key=lambda item: item.number)),
        )

    # --- analysis

    def _fresh(self, type: ScalarType, hint: str = "") -> IrValue:
        self._number += 1
        return IrValue(self._number, type, hint)

    def _is_uniform(self, operand: Operand) -> bool:
        return isinstance(operand, ConstantOperand) or operand in self._uniform

    def _hoists(self, operation: Operation) -> bool:
        """Whether the block computes it once, outside of the loops over threads."""
        defined = results(operation)
        return (
            bool(defined)
            and isinstance(operation, Compute | If | For | While)
            and all(item in self._uniform for item in defined)
        )

    def _split_up(self, block: Region) -> list[_FissionPiece]:
        """The pieces of a block: between barriers, and operations with barriers inside."""
        pieces = [_FissionPiece()]
        for operation in block.operations:
            if isinstance(operation, Barrier) and operation.level == "block":
                pieces.append(_FissionPiece())
            elif any(map(has_barrier, regions(operation))):
                pieces += [_FissionPiece(around=operation), _FissionPiece()]
            else:
                pieces[-1].lines.append(operation)
        return pieces

    def _number_pieces(self, block: Region) -> None:
        """Notes for each value of a thread in which piece it is computed."""
        for piece in self._split_up(block):
            self._pieces += 1
            for operation in piece.lines:
                for value in results(operation):
                    self._piece_of[value] = self._pieces
                    self._lines[value] = operation
            if piece.around is not None:
                self._note_carriers(piece.around)
                for region in regions(piece.around):
                    self._number_pieces(region)

    def _note_carriers(self, operation: Operation) -> None:
        """What a loop or branch around a barrier hands on has cells, unless it is uniform."""
        values = list(results(operation))
        if isinstance(operation, For | While):
            values += operation.carried
            for result, carried in zip(operation.results, operation.carried, strict=True):
                if result not in self._uniform and carried not in self._uniform:
                    self._shares[result] = carried
        self._carriers |= {item for item in values if item not in self._uniform}

    def _find_needed(self, block: Region) -> None:
        """Notes which values a piece takes from others."""
        pieces = self._split_up(block)
        for piece in pieces:
            self._need(used(Region(tuple(piece.lines))), _own(piece.lines))
            if piece.around is not None:
                # Bounds and conditions are read by the block: thread 0's cell.
                self._need(set(_values(operands(piece.around))), set())
                for region in regions(piece.around):
                    self._find_needed(region)
        final = pieces[-1]
        self._need(set(_values(block.yields)), _own(final.lines))

    def _need(self, values: Iterable[IrValue], local: set[IrValue]) -> None:
        for value in values:
            if value in local or value in self._uniform or value in self._carriers:
                continue
            if isinstance(self._lines.get(value), Alloc) or value not in self._piece_of:
                continue
            self._needed.add(value)

    def _choose(self) -> set[IrValue]:
        """The values to store."""
        # Indices of threads are free everywhere, so not even this policy stores them.
        if self._policy is Policy.STORE:
            trivial = {item for item in self._needed if self._is_index(item)}
            self._recomputed = set(trivial)
            return self._needed - trivial
        graph: dict[IrValue, list[IrValue]] = {}
        sources: set[IrValue] = set()
        pending = list(self._needed)
        while pending:
            value = pending.pop()
            if value in graph:
                continue
            graph[value] = []
            if not self._recomputable(value):
                sources.add(value)
                continue
            for operand in _values(operands(self._lines[value])):
                if operand not in self._uniform and operand in self._piece_of:
                    graph[value].append(operand)
                    pending.append(operand)
        # What a loop carries has cells anyway and uniform values are the block's, so neither is in
        # the graph.
        stored = minimum_cut(graph, sources, self._needed)
        self._recomputed = self._reached_without(stored)
        return stored

    def _reached_without(self, stored: set[IrValue]) -> set[IrValue]:
        collected: set[IrValue] = set()
        pending = [item for item in self._needed if item not in stored]
        while pending:
            value = pending.pop()
            if value in collected or value in stored or value not in self._piece_of:
                continue
            if value in self._uniform or isinstance(self._lines[value], Alloc):
                continue
            collected.add(value)
            pending += _values(operands(self._lines[value]))
        return collected

    def _is_index(self, value: IrValue) -> bool:
        operation = self._lines.get(value)
        return isinstance(operation, Compute) and not operation.operands

    def _recomputable(self, value: IrValue) -> bool:
        operation = self._lines[value]
        if isinstance(operation, Compute | Alloc):
            # What a loop carries is in its cell until the body ends, so it may be used again, too.
            return True
        return (
            self._policy is Policy.RELOAD
            and isinstance(operation, Load)
            and self._definitions.is_read_only(operation.address)
        )

    # --- memory of one thread

    def _expand(self, body: Region) -> None:
        """Lays out memory of a thread that several pieces use for all threads of the block."""
        allocations = {
            item.result: item
            for item in walk(body)
            if isinstance(item, Alloc) and item.space is MemorySpace.PRIVATE
        }
        uses: dict[IrValue, set[int]] = {item: set() for item in allocations}
        self._gather_uses(body, uses)
        for pointer, operation in allocations.items():
            if len(uses[pointer]) <= 1:
                continue
            assert operation.size is not None
            array = self._fresh(ScalarType.PTR, pointer.hint)
            size = operation.size * self._threads
            self._allocations.append(
                Alloc(array, MemorySpace.EXPANDED, size, operation.element, operation.at)
            )
            self._expanded[pointer] = array

    def _gather_uses(self, block: Region, uses: dict[IrValue, set[int]]) -> None:
        for piece in self._split_up(block):
            self._pieces += 1
            for value in _mentioned(Region(tuple(piece.lines))):
                if value in uses:
                    uses[value].add(self._pieces)
            for operation in piece.lines:
                # A pointer derived from it may be computed again in any piece.
                derived = any(item in self._needed for item in results(operation))
                for value in _mentioned(Region((operation,))) if derived else ():
                    if value in uses:
                        uses[value].add(-1)
            if piece.around is not None:
                for region in regions(piece.around):
                    self._gather_uses(region, uses)

    # --- writing

    def _cell(self, value: IrValue) -> IrValue:
        array = self._fresh(ScalarType.PTR, value.hint or "cell")
        size = value.type.size * self._threads
        self._allocations.append(Alloc(array, MemorySpace.EXPANDED, size, value.type))
        return array

    def _block(
        self, block: Region, yields: Sequence[tuple[IrValue, Operand]] = ()
    ) -> list[Operation]:
        """What a block of CUDA does for a block of operations; at the end, cells are written."""
        lines: list[Operation] = []
        pieces = self._split_up(block)
        for piece in pieces:
            last = piece is pieces[-1]
            lines += self._piece(piece.lines, yields if last else ())
            if piece.around is not None:
                lines += self._around(piece.around)
        return lines

    def _piece(
        self, operations: Sequence[Operation], yields: Sequence[tuple[IrValue, Operand]]
    ) -> list[Operation]:
        outside = [item for item in operations if self._hoists(item)]
        inside = [
            item
            for item in operations
            if not self._hoists(item)
            and not isinstance(item, Alloc)
            and not (isinstance(item, CallOperation) and item.name == "exit")
        ]
        writer = _Writer(self, inside)
        body = writer.body(yields)
        if not any(isinstance(item, Store | Atomic | CallOperation) for item in walk(body)):
            return outside
        return [*outside, Threads(body, _place(inside))]

    def _first(self, operand: Operand, lines: list[Operation]) -> Operand:
        """A condition or bound as the block sees it: uniform, or what thread 0 has stored."""
        if self._is_uniform(operand):
            return operand
        assert isinstance(operand, IrValue)
        cell = self._cells.get(operand)
        if cell is None:  # computed again by one thread that stores it
            cell = self._cell(operand)
            writer = _Writer(self, [])
            lines.append(Threads(writer.body([(operand, operand)], {operand: cell})))
        result = self._fresh(operand.type)
        lines.append(Load(result, Address(cell)))
        return result

    def _around(self, operation: Operation) -> list[Operation]:
        lines: list[Operation] = []
        match operation:
            case If() if self._parts(operation.condition):
                lines += self._branch_apart(operation)
            case If():
                condition = self._first(operation.condition, lines)
                arms = []
                uniform = [item for item in operation.results if item in self._uniform]
                for arm in (operation.then, operation.otherwise):
                    pairs = list(zip(operation.results, arm.yields, strict=True))
                    body = self._block(arm, [item for item in pairs if item[0] in self._cells])
                    retained = tuple(last for first, last in pairs if first in self._uniform)
                    arms.append(Region(tuple(body), retained))
                lines.append(If(condition, arms[0], arms[1], tuple(uniform), operation.at))
            case For() | While():
                lines += self._loop(operation)
        return lines

    # --- where threads have returned

    def _parts(self, condition: Operand) -> bool:
        """Whether a condition may differ between threads that have returned and those left."""
        return self._exits and not self._is_uniform(condition)

    def _mask(
        self, condition: Operand, *, negated: bool = False
    ) -> tuple[IrValue, list[Operation]]:
        """Cells that say for which present threads a condition holds, and who writes them."""
        truth = self._fresh(ScalarType.BOOL, "present")
        cell = self._cell(truth)
        lines: list[Operation] = []
        # Threads outside of the mask around this one never write the new cell, and must not be in
        # it.
        if self._present is not None:
            clear = _Writer(self, [], masked=False)
            no = ConstantOperand(False, ScalarType.BOOL)
            lines.append(Threads(clear.body([(truth, no)], {truth: cell})))
        result: Operand = condition
        inside: list[Operation] = []
        if negated:
            opposite = self._fresh(ScalarType.BOOL)
            inside.append(Compute(opposite, "not", (condition,)))
            result = opposite
        writer = _Writer(self, inside)
        lines.append(Threads(writer.body([(truth, result)], {truth: cell})))
        return cell, lines

    def _any(self, cell: IrValue, lines: list[Operation]) -> IrValue:
        """Whether any cell of the block is true."""
        counter, collected = self._fresh(ScalarType.I64, "t"), self._fresh(ScalarType.BOOL)
        first, after, result = (self._fresh(ScalarType.BOOL) for _ in range(3))
        body = Region(
            (Load(first, Address(cell, counter, 1)), Compute(after, "or", (collected, first))),
            (after,),
        )
        low, high = (
            ConstantOperand(0, ScalarType.I64),
            ConstantOperand(self._threads, ScalarType.I64),
        )
        start = (ConstantOperand(False, ScalarType.BOOL),)
        lines.append(For(counter, low, high, 1, (collected,), start, body, (result,)))
        return result

    def _branch_apart(self, operation: If) -> list[Operation]:
        """Both arms one after the other, each for the threads that take it.

        What is uniform leaves with the threads of the first arm, if there are any: the others have
        returned, and nothing of theirs is used again.
        """
        outer = self._present
        lines: list[Operation] = []
        uniform = [item for item in operation.results if item in self._uniform]
        masks = []
        for negated in (False, True):
            cell, writes = self._mask(operation.condition, negated=negated)
            lines += writes
            masks.append((cell, self._any(cell, lines)))
        merged: list[list[Operand]] = []
        for arm, (cell, subset) in zip(
            (operation.otherwise, operation.then), reversed(masks), strict=True
        ):
            self._present = cell
            pairs = list(zip(operation.results, arm.yields, strict=True))
            body = self._block(arm, [item for item in pairs if item[0] in self._cells])
            retained = tuple(last for first, last in pairs if first in self._uniform)
            before = merged[-1] if merged else [ConstantOperand(0, item.type) for item in retained]
            last = not merged
            results = tuple(
                self._fresh(item.type) if last else first
                for item, first in zip(retained, uniform, strict=True)
            )
            lines.append(
                If(subset, Region(tuple(body), retained), Region((), tuple(before)), results)
            )
            merged.append(list(results))
        self._present = outer
        return lines

    def _loop_apart(self, operation: While) -> list[Operation]:
        """A loop that goes on while any thread is left in it."""
        outer = self._present
        lines: list[Operation] = []
        pairs = list(zip(operation.carried, operation.initial, strict=True))
        celled = [(first, start) for first, start in pairs if first not in self._uniform]
        lines.append(Threads(_Writer(self, []).body(celled), operation.at))
        going = operation.carried[0]
        cell, writes = self._mask(going)
        lines += writes
        start = self._any(cell, lines)
        self._present = cell
        ends = zip(operation.carried, operation.body.yields, strict=True)
        body = self._block(operation.body, [item for item in ends if item[0] not in self._uniform])
        again = _Writer(self, [])
        body.append(
            Threads(again.body([(going, going)], {going: cell}, brings={going: self._cells[going]}))
        )
        end = self._any(cell, body)
        self._present = outer
        uniform = [place for place, (first, _) in enumerate(pairs) if first in self._uniform]
        carried = (self._fresh(ScalarType.BOOL), *(operation.carried[place] for place in uniform))
        initial = (start, *(operation.initial[place] for place in uniform))
        last = (end, *(operation.body.yields[place] for place in uniform))
        after = (self._fresh(ScalarType.BOOL), *(operation.results[place] for place in uniform))
        lines.append(While(carried, initial, Region(tuple(body), last), after, operation.at))
        return lines

    def _loop(self, operation: For | While) -> list[Operation]:
        if isinstance(operation, While) and self._parts(operation.carried[0]):
            return self._loop_apart(operation)
        lines: list[Operation] = []
        pairs = list(zip(operation.carried, operation.initial, strict=True))
        celled = [(first, start) for first, start in pairs if first not in self._uniform]
        if celled:
            writer = _Writer(self, [])
            lines.append(Threads(writer.body(celled), operation.at))
        ends = zip(operation.carried, operation.body.yields, strict=True)
        body = self._block(operation.body, [item for item in ends if item[0] not in self._uniform])
        uniform = [place for place, (first, _) in enumerate(pairs) if first in self._uniform]
        carried = [operation.carried[place] for place in uniform]
        initial = [operation.initial[place] for place in uniform]
        last = [operation.body.yields[place] for place in uniform]
        after = [operation.results[place] for place in uniform]
        if isinstance(operation, For):
            low, high = (self._first(item, lines) for item in (operation.low, operation.high))
            lines.append(
                For(
                    operation.counter,
                    low,
                    high,
                    operation.step,
                    tuple(carried),
                    tuple(initial),
                    Region(tuple(body), tuple(last)),
                    tuple(after),
                    operation.at,
                )
            )
            return lines
        # The body ends with its cells written, so the next turn is decided by what thread 0 has
        # just stored.
        if operation.carried[0] not in self._uniform:
            # Thread 0's cell says whether the block goes on.
            going = self._fresh(ScalarType.BOOL)
            lines.append(
                Load(start := self._fresh(ScalarType.BOOL), self._zeroth(operation.carried[0]))
            )
            body.append(
                Load(end := self._fresh(ScalarType.BOOL), self._zeroth(operation.carried[0]))
            )
            carried, initial, last = [going, *carried], [start, *initial], [end, *last]
            after = [self._fresh(ScalarType.BOOL), *after]
        lines.append(
            While(
                tuple(carried),
                tuple(initial),
                Region(tuple(body), tuple(last)),
                tuple(after),
                operation.at,
            )
        )
        return lines

    def _zeroth(self, value: IrValue) -> Address:
        return Address(self._cells[value])


class _Writer:
    """Writes the body of one loop over threads: reads cells, computes again, writes cells."""

    def __init__(
        self, fission: _Fission, operations: Sequence[Operation], *, masked: bool = True
    ) -> None:
        self._fission = fission
        self._present = fission._present if masked else None
        self._operations = operations
        self._own = _own(operations)
        self._head: list[Operation] = []
        self._values: dict[IrValue, Operand] = {}
        self._linear: IrValue | None = None

    def body(
        self,
        yields: Sequence[tuple[IrValue, Operand]],
        extra: dict[IrValue, IrValue] | None = None,
        brings: dict[IrValue, IrValue] | None = None,
    ) -> Region:
        """`extra` has cells to write to in place of those that values have; `brings`, to read."""
        fission = self._fission
        cells = {**fission._cells, **(extra or {})}
        for value, cell in (brings or {}).items():
            result = fission._fresh(value.type, value.hint)
            self._head.append(Load(result, self._own_cell(cell, value.type)))
            self._values[value] = result
        for value in sorted(
            used(Region(tuple(self._operations), tuple(last for _, last in yields))),
            key=lambda item: item.number,
        ):
            self._bring(value)
        middle = list(self._operations)
        tail: list[Operation] = [
            self._stored(value, value, cells[value])
            for operation in self._operations
            for value in results(operation)
            if value in cells and value not in fission._carriers
        ]
        tail += [self._stored(first, last, cells[first]) for first, last in yields]
        whole = Region((*middle, *tail))
        whole = substituted(whole, self._values)
        whole = self._expanded(whole)
        return self._under_mask(Region((*self._head, *whole.operations)))

    def _under_mask(self, whole: Region) -> Region:
        """All of it, for the threads that are present."""
        if self._present is None:
            return whole
        thread, there = (
            self._fission._fresh(ScalarType.I64, "t"),
            self._fission._fresh(ScalarType.BOOL),
        )
        return Region(
            (
                Compute(thread, "thread.linear", ()),
                Load(there, Address(self._present, thread, 1)),
                If(there, whole, Region()),
            )
        )

    def _stored(self, cell_of: IrValue, value: Operand, cell: IrValue) -> Store:
        return Store(self._own_cell(cell, cell_of.type), value, cell_of.type)

    def _own_cell(self, cell: IrValue, type: ScalarType) -> Address:
        return Address(cell, self._thread(), type.size)

    def _thread(self) -> IrValue:
        """The number of the thread in its block."""
        if self._linear is None:
            self._linear = self._fission._fresh(ScalarType.I64, "t")
            self._head.insert(0, Compute(self._linear, "thread.linear", ()))
        return self._linear

    def _bring(self, value: IrValue) -> Operand:
        """The value in this piece: its own, the block's, from its cell, or computed again."""
        fission = self._fission
        if value in self._own or value in fission._uniform or value in self._values:
            return self._values.get(value, value)
        if value in fission._cells:
            address = self._own_cell(fission._cells[value], value.type)
            result = fission._fresh(value.type, value.hint)
            self._head.append(Load(result, address))
            self._values[value] = result
            return result
        operation = fission._lines.get(value)
        if operation is None or isinstance(operation, Alloc):
            self._private(value)
            return value
        brought = {item: self._bring(item) for item in _values(operands(operation))}
        inner = {first: second for first, second in brought.items() if first != second}
        (copy,) = substituted(Region((operation,)), inner).operations
        result = fission._fresh(value.type, value.hint)
        assert isinstance(copy, Compute | Load)
        self._head.append(replace(copy, result=result))
        self._values[value] = result
        return result

    def _private(self, value: IrValue) -> None:
        """Memory of the thread that only this piece uses is allocated in it."""
        operation = self._fission._lines.get(value)
        if (
            isinstance(operation, Alloc)
            and operation.space is MemorySpace.PRIVATE
            and value not in self._fission._expanded
            and operation not in self._head
        ):
            self._head.insert(0, operation)

    def _expanded(self, block: Region) -> Region:
        """Points what used a thread's own memory to its part of the block's."""
        moved: dict[IrValue, Operand] = {}
        uses = used(block) | {item for line in self._head for item in _values(operands(line))}
        for pointer, array in self._fission._expanded.items():
            if pointer not in uses and pointer not in self._own:
                continue
            operation = self._fission._lines[pointer]
            assert isinstance(operation, Alloc)
            assert operation.size is not None
            offset = self._fission._fresh(ScalarType.I64)
            base = self._fission._fresh(ScalarType.PTR, pointer.hint)
            size = ConstantOperand(operation.size, ScalarType.I64)
            thread = self._thread()
            place = self._head.index(next(item for item in self._head if thread in results(item)))
            self._head[place + 1 : place + 1] = [
                Compute(offset, "mul", (thread, size)),
                Compute(base, "ptradd", (array, offset)),
            ]
            moved[pointer] = base
        if not moved:
            return block
        self._head = list(substituted(Region(tuple(self._head)), moved).operations)
        lines = tuple(
            item
            for item in block.operations
            if not (isinstance(item, Alloc) and item.result in moved)
        )
        return substituted(Region(lines, block.yields), moved)


def _numbers(function: ParallelFunction) -> Iterable[int]:
    yield from (item.value.number for item in function.parameters)
    yield from (item.value.number for item in function.symbols)
    for operation in walk(function.body):
        for value in results(operation):
            yield value.number
        if isinstance(operation, For):
            yield operation.counter.number
        if isinstance(operation, For | While):
            for value in operation.carried:
                yield value.number


def _own(operations: Sequence[Operation]) -> set[IrValue]:
    """What operations define on their own level."""
    return {value for operation in operations for value in results(operation)}


def _values(operands: Iterable[Operand]) -> list[IrValue]:
    return [item for item in operands if isinstance(item, IrValue)]


def _mentioned(block: Region) -> set[IrValue]:
    """All values that a block or what is in it uses, where they are defined left aside."""
    collected = set(_values(block.yields))
    for operation in block.operations:
        collected.update(_values(operands(operation)))
        for region in regions(operation):
            collected |= _mentioned(region)
    return collected


def _place(operations: Sequence[Operation]) -> SourceLocation:
    for operation in operations:
        at: SourceLocation = getattr(operation, "at", NOWHERE)
        if at.line:
            return at
    return NOWHERE
