"""Loop nests of plain C as kernels: which iterations are independent becomes a grid of threads.

    for (i..n) { for (j..m) C[i][j] *= b;                 one launch for each of both nests, a
                 for (k..l) for (j..m) C[i][j] += ... }    thread for each (i, j), k within a thread

A host function is looked at when it is called, with its whole numbers put in: a row's length is a
number then, and `C[i * m + j]` an affine form of the counters. Each loop is **distributed** over
the nests in its body; of each nest the loops are chosen whose iterations are independent; they
become the indices of threads, the one along which memory is read in order becoming `thread.x`. So a
loop inside of another becomes an outer one, which is an **interchange**; blocks of threads are
**tiles**; and neighbouring launches may be **fused** by `coarsening`. Loops that
carry something from one iteration to the next stay as they are: outside, they launch; inside, a
thread runs them. A nest of which no loop is independent is a kernel of one thread.

Whether two accesses can meet is asked for a relation of the iterations, such as i < i' and all else
anything; `dependences` answers it. Loops are independent together if one after the other is: for
those chosen before, i = i', for the next i < i', for all the others anything. Then no order of
threads makes a difference.

Where no loop of a nest is independent, it is tried as several: each loop in it is distributed over
single stores, and the outer one over what that leaves. Where that is no help either, the outer loop
may launch what is in it, if most of that is independent; what is between, such as a norm that all
columns are divided by, then becomes kernels of one thread. Then another order of the statements is
tried, which `reordering` writes, and last each loop in three, below, at and above the counter of a
loop around it: what all other iterations read is often what the one in the middle writes.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from ..ir.operations import (
    Alloc,
    Atomic,
    CallOperation,
    Compute,
    ConstantOperand,
    For,
    If,
    IrValue,
    Load,
    Operand,
    Operation,
    ParallelFunction,
    Parameter,
    Region,
    Store,
    While,
    operands,
    regions,
    results,
    used,
    walk,
    with_regions,
)
from ..ir.types import ScalarType
from .coalesced_access import LoopRegisters, in_memory
from .coarsening import NewValues, renumbered
from .dependences import (
    CountedRange,
    NestAccess,
    Relation,
    changing,
    extremes,
    outermost,
    overlap,
    same_iteration,
)
from .effects import AffineForm, Definitions
from .reordering import Rewriting, computed, orders, statements
from .rewriter import substituted
from .simplification import simplified

_FEWEST_ITERATIONS = 100
"""A nest of fewer is interpreted, which takes less than a hundredth of a second."""
_FEWEST_PER_LAUNCH = 4096
"""A loop around launches of fewer iterations each is run within one thread instead."""
_SCATTERED, _SHARED = 4.0, 0.25
"""What an access costs that each lane does elsewhere, and one to a register or by all lanes."""
_TRANSPOSED, _STREAMED = 1.5, 10.0
"""The same where each lane reads on in its own row, turn after turn: rows that several rows of
threads share, which are near, and rows that are read once, of which too many come from far."""
_LITTLE = 16
"""The part of a loop's body that may stand between its launches, as its reciprocal."""
_ALONE = "nothing"
_WIDE, _FLAT = (64, 16), 256
"""Threads of a block in two dimensions, and in one at most."""
_NARROWEST, _ENOUGH_BLOCKS = 32, 16
"""Threads of a block in one dimension at least, and how many blocks are worth fewer threads."""


@dataclass(frozen=True, slots=True)
class RaisedFunction:
    """A host function whose loop nests are launches, and the kernels of those."""

    function: ParallelFunction
    kernels: dict[str, ParallelFunction]
    decisions: tuple[str, ...]
    """What became of each nest, for people."""


def raised(
    function: ParallelFunction,
    numbers: Mapping[IrValue, ConstantOperand],
    memory: Mapping[IrValue, int],
    prefix: str,
    *,
    affine: bool = True,
) -> RaisedFunction:
    """Makes launches of the nests of a host function.

    `numbers` are the parameters that are whole numbers, and `memory` says which piece of memory a
    pointer is in: different pieces do not overlap. Without `affine`, each nest is one thread's.
    """
    body = simplified(substituted(function.body, numbers))
    specialized = replace(function, body=body)
    return _Raising(specialized, memory, prefix, affine).raised()


class _Raising:
    def __init__(
        self,
        function: ParallelFunction,
        memory: Mapping[IrValue, int],
        prefix: str,
        affine: bool,
    ) -> None:
        self._function = function
        self._affine = affine
        self._memory = memory
        self._prefix = prefix
        self._definitions = Definitions(function)
        self._numbers = NewValues(function)
        self._registers = LoopRegisters(self._numbers, self._definitions, memory)
        self._read = _read(function.body)
        self._kernels: dict[str, ParallelFunction] = {}
        self._decisions: list[str] = []
        self._cost = 0.0
        """Of the launches since it was 0."""
        self._between = False
        """Whether what is looked at stands between launches."""
        self._splits = False
        """Whether what is looked at is a part of a loop."""

    def raised(self) -> RaisedFunction:
        body = self._block(self._function.body, ())
        # A counter that became a constant in a kernel may leave arithmetic that nobody uses.
        function = replace(self._function, body=body)
        return RaisedFunction(function, self._kernels, tuple(self._decisions))

    # --- which loops become what

    def _block(self, block: Region, outer: tuple[CountedRange, ...]) -> Region:
        lines: list[Operation] = []
        for operation in block.operations:
            if isinstance(operation, For):
                lines += self._loop(operation, outer)
            elif regions(operation):
                inner = tuple(self._block(item, ()) for item in regions(operation))
                lines.append(with_regions(operation, inner))
            else:
                lines.append(operation)
        return Region(tuple(lines), block.yields)

    def _loop(self, loop: For, outer: tuple[CountedRange, ...]) -> list[Operation]:
        bounds = self._range(loop, outer)
        if bounds is None or not _fits_a_kernel(loop) or self._read & set(loop.results):
            around = outer if bounds is None else (*outer, bounds)
            return [replace(loop, body=self._block(loop.body, around))]
        if self._iterations(loop, outer) < _FEWEST_ITERATIONS:
            return [loop]
        # What a loop carries is a number from turn to turn, which nobody reads behind it.
        if loop.carried or not self._affine:
            return self._alone(loop, outer)
        parts = self._distributed(loop, outer)
        if len(parts) > 1:
            return [line for part in parts for line in self._loop(part, outer)]
        independent = self._independent(loop, outer)
        if independent:
            return self._launched((loop,), outer, independent)
        lines = self._in_parts(loop, outer) or self._launches(loop, outer, bounds)
        lines = lines or self._reordered(loop, outer, bounds) or self._split(loop, outer)
        return lines or self._alone(loop, outer)

    def _alone(self, loop: For, outer: tuple[CountedRange, ...]) -> list[Operation]:
        """A nest in one thread; `_between` launches it becomes that with its neighbours."""
        return [loop] if self._between else self._launched((loop,), outer, ())

    def _in_parts(self, loop: For, outer: tuple[CountedRange, ...]) -> list[Operation]:
        """The nest as several, one for each `Store`, if any of that is independent."""
        bounds = self._range(loop, outer)
        assert bounds is not None
        whole = Region((replace(loop, body=self._single(loop.body, (*outer, bounds))),))
        (finer,) = simplified(whole).operations
        assert isinstance(finer, For)
        parts = self._distributed(finer, outer, single=True)
        if len(parts) < 2:
            return []
        before = dict(self._kernels), list(self._decisions)
        lines = [line for part in parts for line in self._loop(part, outer)]
        # Parts of which none is independent would only read memory once more.
        if all(item.endswith(_ALONE) for item in self._decisions[len(before[1]) :]):
            self._kernels, self._decisions = before
            return []
        return lines

    def _single(self, block: Region, outer: tuple[CountedRange, ...]) -> Region:
        """A block in which each `For` is distributed over single stores wherever that is legal."""
        lines: list[Operation] = []
        for operation in block.operations:
            bounds = self._range(operation, outer) if isinstance(operation, For) else None
            if not isinstance(operation, For) or bounds is None or operation.carried:
                lines.append(operation)
                continue
            inner = replace(operation, body=self._single(operation.body, (*outer, bounds)))
            lines += self._distributed(inner, outer, single=True)
        return Region(tuple(lines), block.yields)

    def _launches(
        self, loop: For, outer: tuple[CountedRange, ...], bounds: CountedRange
    ) -> list[Operation]:
        """The loop around launches of what is in it, if that is independent and much each time."""
        # Waking a thread takes as long as thousands of iterations.
        each = self._iterations(loop, outer) // bounds.trips
        if each < _FEWEST_PER_LAUNCH:
            return []
        before = dict(self._kernels), list(self._decisions)
        between, self._between = self._between, True
        body = self._block(loop.body, (*outer, bounds))
        self._between = between
        # A body of which nothing is launched is better off as one kernel with its loop.
        launches = len(self._kernels) > len(before[0])
        whole = self._sequences(body, (*outer, bounds), each) if launches else None
        if whole is None:
            self._kernels, self._decisions = before
            return []
        self._decisions.append(f"{loop.at}: iterations depend on earlier ones: launches")
        return [replace(loop, body=whole)]

    def _reordered(
        self, loop: For, outer: tuple[CountedRange, ...], bounds: CountedRange
    ) -> list[Operation]:
        """The nest with its statements in the cheapest of all `orders` that can be launched."""
        if self._iterations(loop, outer) // bounds.trips < _FEWEST_PER_LAUNCH:
            return []
        inside = changing(loop)

        def meets(
            a: NestAccess,
            b: NestAccess,
            relations: Mapping[IrValue, Relation],
            clock: tuple[IrValue, IrValue, Relation],
        ) -> bool:
            return self._meet(a, b, relations, inside, clock)

        def touches(
            load: Load, store: Store, loops: tuple[For, ...], around: tuple[For, ...]
        ) -> bool:
            here = outer
            for item in loops:
                span = self._range(item, here)
                if span is None:
                    return True
                here = (*here, span)
            place = self._access(load, load.result.type, False, here)
            fixed = self._access(store, store.type, True, here[: len(outer) + len(around)])
            return self._meet(place, fixed, same_iteration(here), inside)

        whole = in_memory(loop, touches)
        self._define(whole)
        listed = statements(whole, outer, self._range, self._accesses)
        before = dict(self._kernels), list(self._decisions)
        least, best, kept = math.inf, list[Operation](), before
        for order, times in orders(listed, outer, meets):
            nest = Rewriting(self._numbers, self._definitions).rewritten(listed, order, times)
            span = None if nest is None else self._range(nest, outer)
            if nest is None or span is None:
                continue
            # Each is written to the end, as only then it shows which lanes read from where.
            self._cost = 0.0
            lines = self._launches(nest, outer, span)
            if lines and self._cost < least:
                least, best, kept = self._cost, lines, (self._kernels, self._decisions)
            self._kernels, self._decisions = dict(before[0]), list(before[1])
        self._kernels, self._decisions = kept
        return best

    def _split(self, loop: For, outer: tuple[CountedRange, ...]) -> list[Operation]:
        """The nest with its loops in three, below, at and above the counter of a loop around it."""
        if self._splits or self._iterations(loop, outer) < _FEWEST_PER_LAUNCH:
            return []
        for item in reversed(outer):
            above = self._numbers.value(item.counter.type)
            following = Compute(above, "add", (item.counter, ConstantOperand(1, above.type)))
            self._definitions.of[above] = following
            parts = self._in_three(loop, item.counter, above, outer)
            if len(parts) < 2:
                continue
            before = dict(self._kernels), list(self._decisions)
            self._splits = True
            lines = [line for part in parts for line in self._loop(part, outer)]
            self._splits = False
            alone = [item for item in self._decisions[len(before[1]) :] if item.endswith(_ALONE)]
            if not alone and not any(isinstance(line, For) for line in lines):
                return [following, *lines]
            self._kernels, self._decisions = before
        return []

    def _in_three(
        self, loop: For, place: IrValue, above: IrValue, outer: tuple[CountedRange, ...]
    ) -> list[For]:
        """A loop up to, at and from behind a `place` that is in its range for certain."""
        bounds = self._range(loop, outer)
        if bounds is None or loop.step != 1 or loop.carried or loop.counter.type is not place.type:
            return [loop]
        form, ranges = AffineForm(((place, 1),), 0), {item.counter: item for item in outer}
        for distance in (form.plus(bounds.least, -1), bounds.greatest.plus(form, -1)):
            span = extremes(distance, ranges)
            if span is None or span[0] < 0:
                return [loop]
        lines: list[Operation] = []
        for line in loop.body.operations:
            around = (*outer, bounds)
            lines += self._in_three(line, place, above, around) if isinstance(line, For) else [line]
        whole = replace(loop, body=Region(tuple(lines)))
        ends = ((loop.low, place), (place, above), (above, loop.high))
        return [self._copied(replace(whole, low=low, high=high)) for low, high in ends]

    def _copied(self, loop: For) -> For:
        """The same `For` with values of its own."""
        alone = ParallelFunction("", (), Region((loop,)))
        (copy,) = renumbered(alone, self._numbers).body.operations
        assert isinstance(copy, For)
        self._define(copy)
        return copy

    def _define(self, nest: For) -> None:
        for line in walk(nest.body):
            if isinstance(line, Compute | Load):
                self._definitions.of[line.result] = line

    def _sequences(self, body: Region, outer: tuple[CountedRange, ...], each: int) -> Region | None:
        """A body in which all that touches memory is launched; none if what stands alone is much,
        beside the iterations of `each` turn."""
        lines: list[Operation] = []
        sequence: list[Operation] = []
        inside: set[Operand] = set()
        """What is computed from memory, which only the sequence itself can read."""

        def launched() -> bool:
            loops = [item for item in sequence if isinstance(item, For)]
            if sum(self._iterations(item, outer) for item in loops) * _LITTLE > each:
                return False
            if any(not isinstance(item, Compute) for item in sequence):
                lines.extend(self._launched(tuple(sequence), outer, ()))
            sequence.clear()
            return not inside & set(used(Region(tuple(lines))))

        for operation in body.operations:
            if any(isinstance(item, CallOperation) for item in walk(Region((operation,)))):
                # What the host would read between launches of a loop, it would read slowly.
                reads = any(isinstance(item, Load | Store) for item in walk(Region((operation,))))
                if reads or not launched():
                    return None
                lines.append(operation)
                continue
            sequence.append(operation)
            if isinstance(operation, Compute) and not inside & set(operation.operands):
                lines.append(operation)
            else:
                inside.update(results(operation))
        return Region(tuple(lines), body.yields) if launched() else None

    def _range(self, loop: For, outer: Sequence[CountedRange]) -> CountedRange | None:
        """Bounds of the counter over all iterations of the loops around it."""
        ends = []
        for bound, greatest in ((loop.low, False), (loop.high, True)):
            form = self._definitions.affine(bound)
            if form is None:
                return None
            span = extremes(form, {item.counter: item for item in outer})
            if span is None:
                return None
            ends.append((span, greatest, form))
        (low, _, least), (high, _, end) = ends
        if loop.step > 0:
            last = replace(end, constant=end.constant - 1)
            return CountedRange(loop, low[0], high[1] - 1, least, last)
        last = replace(end, constant=end.constant + 1)
        return CountedRange(loop, high[0] + 1, low[1], last, least)

    def _iterations(self, loop: For, outer: Sequence[CountedRange]) -> int:
        """How often the innermost bodies of a nest run at most."""
        bounds = self._range(loop, outer)
        if bounds is None:
            return _FEWEST_ITERATIONS
        inner = [
            self._iterations(item, (*outer, bounds))
            for item in walk(loop.body)
            if isinstance(item, For)
        ]
        return bounds.trips * max(inner, default=1)

    # --- distribution

    def _distributed(
        self, loop: For, outer: tuple[CountedRange, ...], *, single: bool = False
    ) -> list[For]:
        """The loop once for each nest in its body, if no later nest is needed by an earlier one.

        What is between nests stays together, unless each `single` store is to have a loop.
        """
        groups: list[list[Operation]] = []
        for operation in loop.body.operations:
            if isinstance(operation, Compute):
                continue
            ended = groups and isinstance(groups[-1][-1], For | Store if single else For)
            if isinstance(operation, For) or not groups or ended:
                groups.append([operation])
            else:
                groups[-1].append(operation)
        if len(groups) < 2:
            return [loop]
        parts = []
        for group in groups:
            # Arithmetic goes with every part that needs it.
            lines = [
                item
                for item in loop.body.operations
                if isinstance(item, Compute) or any(item is first for first in group)
            ]
            parts.append(simplified(Region(tuple(lines))))
        defined = [{item for line in group for item in results(line)} for group in groups]
        for place, part in enumerate(parts):
            elsewhere = set().union(*defined[:place], *defined[place + 1 :])
            if used(part) & elsewhere:
                return [loop]  # a number that one part reads from memory is used in another
        bounds = self._range(loop, outer)
        assert bounds is not None
        accesses = [self._accesses(Region(tuple(group)), (*outer, bounds)) for group in groups]
        computed = changing(loop)
        for place, earlier in enumerate(accesses):
            for later in accesses[place + 1 :]:
                relations = {**same_iteration(outer), loop.counter: bounds.later}
                pairs = product(later, earlier)
                if any(self._meet(*pair, relations, computed) for pair in pairs):
                    return [loop]
        return [replace(loop, body=part) for part in parts]

    # --- dependences

    def _accesses(self, block: Region, loops: tuple[CountedRange, ...]) -> list[NestAccess]:
        listed: list[NestAccess] = []
        for operation in block.operations:
            match operation:
                case Load(result=result):
                    listed.append(self._access(operation, result.type, False, loops))
                case Store(type=type):
                    listed.append(self._access(operation, type, True, loops))
                case For():
                    bounds = self._range(operation, loops)
                    # A loop of unknown length has an unknown counter, so its accesses are anywhere.
                    inner = loops if bounds is None else (*loops, bounds)
                    listed += self._accesses(operation.body, inner)
                case _:
                    for region in regions(operation):
                        listed += self._accesses(region, loops)
        return listed

    def _access(
        self,
        operation: Load | Store,
        type: ScalarType,
        writes: bool,
        loops: tuple[CountedRange, ...],
    ) -> NestAccess:
        root = self._definitions.root(operation.address.base)
        form = self._definitions.form(operation.address)
        return NestAccess(root, form, writes, type.size, loops)

    def _meet(
        self,
        a: NestAccess,
        b: NestAccess,
        relations: Mapping[IrValue, Relation],
        computed: Collection[IrValue],
        clock: tuple[IrValue, IrValue, Relation] | None = None,
    ) -> bool:
        """Whether two accesses can touch the same, with their counters in these relations."""
        if not (a.writes or b.writes):
            return False
        if a.root is None or b.root is None:
            return True
        places = [self._memory.get(item.root) if item.root else None for item in (a, b)]
        if None not in places and places[0] != places[1]:
            return False
        if a.root != b.root:
            return True
        return overlap(a, b, relations, computed, clock)

    def _independent(self, loop: For, outer: tuple[CountedRange, ...]) -> tuple[CountedRange, ...]:
        """Loops of a nest whose iterations need no order, together."""
        bounds = self._range(loop, outer)
        assert bounds is not None
        chain = self._chain(bounds, outer)
        accesses = self._accesses(loop.body, (*outer, bounds))
        computed = changing(loop)
        chosen: list[CountedRange] = []
        remaining = [item for item in chain if item.loop.step == 1 and not item.loop.carried]
        while True:
            for item in remaining:
                relations = {
                    **same_iteration(outer),
                    **same_iteration(chosen),
                    item.counter: Relation.LESS,
                }
                pairs = product(accesses, accesses)
                if not any(self._meet(*pair, relations, computed) for pair in pairs):
                    chosen.append(item)
                    remaining.remove(item)
                    break
            else:
                return tuple(chosen)

    def _chain(self, bounds: CountedRange, outer: tuple[CountedRange, ...]) -> list[CountedRange]:
        """The loops from the outside in, as long as one has nothing in it but the next."""
        chain, around = [bounds], (*outer, bounds)
        while True:
            body = chain[-1].loop.body
            inner = [item for item in body.operations if not isinstance(item, Compute)]
            if len(inner) != 1 or not isinstance(inner[0], For) or inner[0].carried:
                return chain
            following = self._range(inner[0], around)
            if following is None:
                return chain
            chain.append(following)
            around = (*around, following)

    # --- kernels

    def _launched(
        self,
        nest: Sequence[Operation],
        outer: tuple[CountedRange, ...],
        independent: tuple[CountedRange, ...],
    ) -> list[Operation]:
        """The launch of a nest, whose kernel is written on the way, behind what its grid takes.

        Where loops begin and end by counters of the host, so does the grid: of a triangle, each
        launch has no more than its own part.
        """
        first = next(item for item in nest if not isinstance(item, Compute))
        at = getattr(first, "at", self._function.at)
        across = self._across(first, outer, independent) if isinstance(first, For) else None
        # Rows beside each other are near in memory along the innermost of the other loops.
        further = [item for item in reversed(independent) if item is not across]
        mapped = [item for item in (across, *further) if item is not None][:3]
        names = {item.counter: axis for item, axis in zip(mapped, "xyz", strict=False)}
        block = (*self._shape(nest, outer, mapped), 1)
        lines: list[Operation] = []
        grid: list[Operand] = []
        lows: list[Operand] = []
        for item, size in zip(mapped, block, strict=False):
            low, count = self._extent(item, outer, independent, size, lines)
            lows.append(low)
            grid.append(count)
        grid += [ConstantOperand(1, ScalarType.U32)] * (3 - len(grid))
        kernel = self._kernel(nest, mapped, lows, names)
        self._kernels[kernel.name] = kernel
        which = " and ".join(item.counter.hint for item in mapped) or _ALONE
        self._decisions.append(f"{at}: threads along {which}")
        self._cost += self._reached(nest, outer, across, names)
        shape = [ConstantOperand(size, ScalarType.U32) for size in block]
        call = CallOperation(
            "launch",
            (
                *grid,
                *shape,
                ConstantOperand(0, ScalarType.U64),
                *(item.value for item in kernel.parameters),
            ),
            kernel.name,
            None,
            at,
        )
        return [*lines, call]

    def _shape(
        self,
        nest: Sequence[Operation],
        outer: tuple[CountedRange, ...],
        mapped: Sequence[CountedRange],
    ) -> tuple[int, int]:
        """The threads of a block: tiles where rows share what they read, long rows elsewhere."""
        if len(mapped) < 2:
            return _flat(mapped), 1
        counters = {item.counter for item in mapped}
        loops = [item for item in walk(Region(tuple(nest))) if isinstance(item, For)]
        if any(item.counter not in counters for item in loops):
            return _WIDE
        across, down = (item.counter for item in mapped[:2])
        for access in self._accesses(Region(tuple(nest)), outer):
            factors = {} if access.form is None else dict(access.form.terms)
            step = factors.get(across, 0)
            if (
                access.form is None
                or step not in (0, access.size)
                or (step and down not in factors)
            ):
                return _WIDE
        wide, high = _WIDE
        while high > 1 and wide < mapped[0].trips:
            wide, high = 2 * wide, high // 2
        return wide, high

    def _reached(
        self,
        nest: Sequence[Operation],
        outer: tuple[CountedRange, ...],
        across: CountedRange | None,
        mapped: Collection[IrValue],
    ) -> float:
        """What a launch costs in the innermost loops, by how lanes reach memory, in loads."""
        accesses = self._accesses(Region(tuple(nest)), outer)
        deepest = max((len(item.loops) for item in accesses), default=0)
        total = 0.0
        for access in accesses:
            if len(access.loops) < deepest:
                continue
            factors = dict(access.form.terms) if access.form is not None else {}
            step = factors.get(across.counter, 0) if across is not None else 0
            inner = access.loops[-1].counter if access.loops else None
            # What no turn of the innermost loop moves is carried by it in a register.
            still = across is not None and inner is not across.counter and inner not in factors
            if access.form is None:
                total += _SCATTERED
            elif still or not step:
                total += _SHARED
            elif inner and inner not in mapped and factors.get(inner) == access.size:
                total += _TRANSPOSED if len(mapped) > 1 else _STREAMED
            else:
                total += 1 if step == access.size else _SCATTERED
        longest = max((item.loops for item in accesses), key=len, default=())
        return total * math.prod(item.trips for item in longest)

    def _extent(
        self,
        item: CountedRange,
        outer: tuple[CountedRange, ...],
        independent: tuple[CountedRange, ...],
        size: int,
        lines: list[Operation],
    ) -> tuple[Operand, Operand]:
        """The first value of a counter in a launch, and how many blocks of a `size` it fills."""
        type = item.counter.type
        least = outermost(item.least, independent, outer, least=True)
        greatest = outermost(item.greatest, independent, outer, least=False)
        if least is None or greatest is None or not (least.terms or greatest.terms):
            fixed = ConstantOperand(-(-item.trips // size), ScalarType.U32)
            return ConstantOperand(item.low, type), fixed
        low, high = (computed(form, type, self._numbers, lines) for form in (least, greatest))
        # An empty range has one block, whose threads find that they have nothing to do.
        apart, above, blocks, whole = (self._numbers.value(type) for _ in range(4))
        count = self._numbers.value(ScalarType.U32)
        enough = self._numbers.value(ScalarType.BOOL)
        lines += [
            Compute(apart, "sub", (high, low)),
            Compute(above, "add", (apart, ConstantOperand(size, type))),
            Compute(blocks, "div", (above, ConstantOperand(size, type))),
            Compute(enough, "ge", (apart, ConstantOperand(0, type))),
            Compute(whole, "select", (enough, blocks, ConstantOperand(1, type))),
            Compute(count, "cast", (whole,)),
        ]
        return low, count

    def _across(
        self, loop: For, outer: tuple[CountedRange, ...], independent: Sequence[CountedRange]
    ) -> CountedRange | None:
        """The independent loop along which most accesses are to neighbours, or to one place."""
        bounds = self._range(loop, outer)
        assert bounds is not None
        accesses = self._accesses(loop.body, (*outer, bounds))

        def score(item: CountedRange) -> int:
            total = 0
            for access in accesses:
                factor = None
                if access.form is not None:
                    factor = dict(access.form.terms).get(item.counter, 0)
                total += {0: 1, access.size: 2}.get(-1 if factor is None else factor, -2)
            return total

        return max(independent, key=score, default=None)

    def _kernel(
        self,
        nest: Sequence[Operation],
        mapped: Sequence[CountedRange],
        lows: Sequence[Operand],
        names: Mapping[IrValue, str],
    ) -> ParallelFunction:
        lines: list[Operation] = []
        counters: dict[IrValue, Operand] = {}
        sizes = {item.counter: item for item in mapped}
        for item, low in zip(mapped, lows, strict=True):
            counters[item.counter] = self._index(names[item.counter], item, low, lines)
        body = substituted(self._threads(Region(tuple(nest)), sizes, counters), counters)
        # Bounds that are numbers are looked at once, in front of all loops.
        for item in mapped:
            if isinstance(item.loop.high, ConstantOperand):
                inside = self._numbers.value(ScalarType.BOOL)
                compare = Compute(inside, "lt", (counters[item.counter], item.loop.high))
                body = Region((compare, If(inside, body, Region(), (), item.loop.at)))
        whole = simplified(Region((*lines, *body.operations)))
        parameter_of = {item.value: item for item in self._function.parameters}
        outside = sorted(used(whole), key=lambda item: item.number)
        parameters = tuple(
            parameter_of.get(item, Parameter(item, item.hint or f"v{item.number}"))
            for item in outside
        )
        name = f"{self._prefix}{len(self._kernels)}"
        at = mapped[0].loop.at if mapped else self._function.at
        function = ParallelFunction(name, parameters, whole, (), True, at)
        return replace(function, body=simplified(self._registers.block(whole)))

    def _index(
        self, axis: str, item: CountedRange, low: Operand, lines: list[Operation]
    ) -> Operand:
        """The counter's value in a thread, from the indices of thread and block."""
        type = item.counter.type
        thread, block, size, start, flat = (self._numbers.value(ScalarType.U32) for _ in range(5))
        lines += [
            Compute(thread, f"thread.{axis}", ()),
            Compute(block, f"block.{axis}", ()),
            Compute(size, f"block.dim.{axis}", ()),
            Compute(start, "mul", (block, size)),
            Compute(flat, "add", (start, thread)),
        ]
        wide, value = self._numbers.value(type), self._numbers.value(type, item.counter.hint)
        lines.append(Compute(wide, "cast", (flat,)))
        lines.append(Compute(value, "add", (wide, low)))
        return value

    def _threads(
        self,
        block: Region,
        mapped: Mapping[IrValue, CountedRange],
        counters: Mapping[IrValue, Operand],
    ) -> Region:
        """A nest in which the mapped loops are conditions: whether this thread has an iteration."""
        lines: list[Operation] = []
        for operation in block.operations:
            if not isinstance(operation, For) or operation.counter not in mapped:
                inner = tuple(self._threads(item, mapped, counters) for item in regions(operation))
                lines.append(with_regions(operation, inner) if inner else operation)
                continue
            inner_body = self._threads(operation.body, mapped, counters)
            conditions: list[Operand] = []
            for name, bound in (("ge", operation.low), ("lt", operation.high)):
                if not isinstance(bound, ConstantOperand):
                    holds = self._numbers.value(ScalarType.BOOL)
                    lines.append(Compute(holds, name, (counters[operation.counter], bound)))
                    conditions.append(holds)
            if not conditions:
                lines += inner_body.operations
                continue
            inside = conditions[0]
            if len(conditions) > 1:
                both = self._numbers.value(ScalarType.BOOL)
                lines.append(Compute(both, "and", tuple(conditions)))
                inside = both
            lines.append(If(inside, inner_body, Region(), (), operation.at))
        return Region(tuple(lines), block.yields)


def _read(block: Region) -> set[Operand]:
    """All that operations of a block use, or that leaves its branches and loops."""
    lines = list(walk(block))
    inner = [item.yields for line in lines for item in regions(line)]
    return set().union(block.yields, *map(operands, lines), *inner)


def _flat(mapped: Sequence[CountedRange]) -> int:
    """Threads of a block in one dimension: `_FLAT`, or as many as leave all cores several."""
    size = _FLAT if mapped else 1
    while size > _NARROWEST and mapped[0].trips < size * _ENOUGH_BLOCKS:
        size //= 2
    return size


def _fits_a_kernel(loop: For) -> bool:
    """Whether a thread can run it, and all that it touches is seen."""
    return not any(
        isinstance(item, CallOperation | Atomic | Alloc | While) for item in walk(loop.body)
    )
