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

Whether two accesses f(I) and g(J) can meet is asked for a relation of the iterations, such as
i < i' and all else anything. The difference f(I) - g(J) is linear, so over a box its least and
greatest values are at corners, and if no number of bytes in which the two overlap is between them,
or has the right remainder by the greatest common divisor of the coefficients, they do not meet. For
example, with rows of 100 elements, 100 i + j and 100 i' + j' for i < i' differ by 1 at least. The
corners of a triangle are taken to be those of the box around it, so a dependence may be seen where
there is none, and never the other way round.

Loops are independent together if one after the other is: for those chosen before, i = i', for the
next i < i', for all the others anything. Then no order of threads makes a difference.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

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
from .coarsening import NewValues
from .effects import AffineForm, Definitions
from .rewriter import substituted
from .simplification import simplified

_FEWEST_ITERATIONS = 100
"""A nest of fewer is interpreted, which takes less than a hundredth of a second."""
_FEWEST_PER_LAUNCH = 4096
"""A loop around launches of fewer iterations each is run within one thread instead."""
_ALONE = "nothing"
_WIDE, _FLAT = (64, 16), (256, 1)
"""Blocks of threads in two dimensions and in one."""


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
) -> RaisedFunction:
    """Makes launches of the nests of a host function.

    `numbers` are the parameters that are whole numbers, and `memory` says which piece of memory a
    pointer is in: different pieces do not overlap.
    """
    body = simplified(substituted(function.body, numbers))
    specialized = replace(function, body=body)
    return _Raising(specialized, memory, prefix).raised()


@dataclass(frozen=True, slots=True)
class _Range:
    """A loop and the least and greatest value of its counter, where they are known."""

    loop: For
    low: int
    high: int

    @property
    def counter(self) -> IrValue:
        return self.loop.counter

    @property
    def trips(self) -> int:
        return max(self.high - self.low + 1, 0) // abs(self.loop.step) or 1


@dataclass(frozen=True, slots=True)
class _NestAccess:
    """An access, with the loops around it from the outside in."""

    root: IrValue | None
    form: AffineForm | None
    writes: bool
    size: int
    loops: tuple[_Range, ...]


class _Raising:
    def __init__(
        self, function: ParallelFunction, memory: Mapping[IrValue, int], prefix: str
    ) -> None:
        self._function = function
        self._memory = memory
        self._prefix = prefix
        self._definitions = Definitions(function)
        self._numbers = NewValues(function)
        self._read = _read(function.body)
        self._kernels: dict[str, ParallelFunction] = {}
        self._decisions: list[str] = []

    def raised(self) -> RaisedFunction:
        body = self._block(self._function.body, ())
        # A counter that became a constant in a kernel may leave arithmetic that nobody uses.
        function = replace(self._function, body=body)
        return RaisedFunction(function, self._kernels, tuple(self._decisions))

    # --- which loops become what

    def _block(self, block: Region, outer: tuple[_Range, ...]) -> Region:
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

    def _loop(self, loop: For, outer: tuple[_Range, ...]) -> list[Operation]:
        bounds = self._range(loop, outer)
        if bounds is None or not _fits_a_kernel(loop) or self._read & set(loop.results):
            return [self._around(loop, outer if bounds is None else (*outer, bounds))]
        if self._iterations(loop, outer) < _FEWEST_ITERATIONS:
            return [loop]
        if loop.carried:  # a number from turn to turn, which nobody reads behind the loop
            return [self._launched(loop, outer, ())]
        parts = self._distributed(loop, outer)
        if len(parts) > 1:
            return [line for part in parts for line in self._loop(part, outer)]
        independent = self._independent(loop, outer)
        if independent:
            return [self._launched(loop, outer, independent)]
        launches = self._launches(loop, outer, bounds)
        if launches is not None:
            return [launches]
        return [self._launched(loop, outer, ())]

    def _launches(self, loop: For, outer: tuple[_Range, ...], bounds: _Range) -> For | None:
        """The loop around launches of what is in it, if that is independent and much each time."""
        if self._iterations(loop, outer) // bounds.trips < _FEWEST_PER_LAUNCH:
            return None
        kernels, decisions = dict(self._kernels), list(self._decisions)
        body = self._block(loop.body, (*outer, bounds))
        alone = any(item.endswith(_ALONE) for item in self._decisions[len(decisions) :])
        if alone or any(isinstance(item, Load | Store) for item in walk(body)):
            self._kernels, self._decisions = kernels, decisions
            return None
        self._decisions.append(f"{loop.at}: iterations depend on earlier ones: launches")
        return replace(loop, body=body)

    def _around(self, loop: For, outer: tuple[_Range, ...]) -> For:
        return replace(loop, body=self._block(loop.body, outer))

    def _range(self, loop: For, outer: Sequence[_Range]) -> _Range | None:
        """Bounds of the counter over all iterations of the loops around it."""
        ends = []
        for bound, greatest in ((loop.low, False), (loop.high, True)):
            form = self._definitions.affine(bound)
            if form is None:
                return None
            span = _extremes(form, {item.counter: item for item in outer})
            if span is None:
                return None
            ends.append((span, greatest))
        (low, _), (high, _) = ends
        if loop.step > 0:
            return _Range(loop, low[0], high[1] - 1)
        return _Range(loop, high[0] + 1, low[1])

    def _iterations(self, loop: For, outer: Sequence[_Range]) -> int:
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

    def _distributed(self, loop: For, outer: tuple[_Range, ...]) -> list[For]:
        """The loop once for each nest in its body, if no later nest is needed by an earlier one."""
        groups: list[list[Operation]] = []
        for operation in loop.body.operations:
            if isinstance(operation, Compute):
                continue
            if isinstance(operation, For) or not groups or isinstance(groups[-1][-1], For):
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
        for place, earlier in enumerate(accesses):
            for later in accesses[place + 1 :]:
                relations = {**_same(outer), loop.counter: "<"}
                if self._any_meet(later, earlier, relations):
                    return [loop]
        return [replace(loop, body=part) for part in parts]

    # --- dependences

    def _accesses(self, block: Region, loops: tuple[_Range, ...]) -> list[_NestAccess]:
        listed: list[_NestAccess] = []
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
        self, operation: Load | Store, type: ScalarType, writes: bool, loops: tuple[_Range, ...]
    ) -> _NestAccess:
        root = self._definitions.root(operation.address.base)
        form = self._definitions.form(operation.address)
        return _NestAccess(root, form, writes, type.size, loops)

    def _any_meet(
        self,
        first: Sequence[_NestAccess],
        second: Sequence[_NestAccess],
        relations: Mapping[IrValue, str],
    ) -> bool:
        return any(self._meet(a, b, relations) for a in first for b in second)

    def _meet(self, a: _NestAccess, b: _NestAccess, relations: Mapping[IrValue, str]) -> bool:
        """Whether two accesses can touch the same, with their counters in these relations."""
        if not (a.writes or b.writes):
            return False
        if a.root is None or b.root is None:
            return True
        places = [self._memory.get(item.root) if item.root else None for item in (a, b)]
        if None not in places and places[0] != places[1]:
            return False
        if a.root != b.root or a.form is None or b.form is None:
            return True
        ranges = {item.counter: item for item in (*a.loops, *b.loops)}
        left, right = dict(a.form.terms), dict(b.form.terms)
        spans: list[_Span] = []
        for value in {*left, *right, *relations}:
            bounds = ranges.get(value)
            if bounds is None:
                # The same in both, if it is not computed by the nest.
                if left.get(value, 0) != right.get(value, 0) or value in self._definitions.of:
                    return True
                continue
            listed = _spans(
                left.get(value, 0), right.get(value, 0), bounds, relations.get(value, "*")
            )
            if listed is None:
                return False
            spans += listed
        return _reaches(spans, a.form.constant - b.form.constant, a.size, b.size)

    def _independent(self, loop: For, outer: tuple[_Range, ...]) -> tuple[_Range, ...]:
        """Loops of a nest whose iterations need no order, together."""
        bounds = self._range(loop, outer)
        assert bounds is not None
        chain = self._chain(bounds, outer)
        accesses = self._accesses(loop.body, (*outer, bounds))
        chosen: list[_Range] = []
        remaining = [item for item in chain if item.loop.step == 1 and not item.loop.carried]
        while True:
            for item in remaining:
                relations = {**_same(outer), **_same(chosen), item.counter: "<"}
                if not self._any_meet(accesses, accesses, relations):
                    chosen.append(item)
                    remaining.remove(item)
                    break
            else:
                return tuple(chosen)

    def _chain(self, bounds: _Range, outer: tuple[_Range, ...]) -> list[_Range]:
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
        self, loop: For, outer: tuple[_Range, ...], independent: tuple[_Range, ...]
    ) -> CallOperation:
        """The launch of a nest, whose kernel is written on the way."""
        across = self._across(loop, outer, independent)
        down = next((item for item in independent if item is not across), None)
        mapped = [item for item in (across, down) if item is not None]
        names = {item.counter: axis for item, axis in zip(mapped, "xy", strict=False)}
        block = _WIDE if down is not None else _FLAT if across is not None else (1, 1)
        grid = [-(-item.trips // size) for item, size in zip(mapped, block, strict=False)] + [1, 1]
        kernel = self._kernel(loop, mapped, names)
        self._kernels[kernel.name] = kernel
        which = " and ".join(item.counter.hint for item in mapped) or _ALONE
        self._decisions.append(f"{loop.at}: threads along {which}")
        shape = [*grid[:2], 1, *block, 1]
        return CallOperation(
            "launch",
            (
                *(ConstantOperand(size, ScalarType.U32) for size in shape),
                ConstantOperand(0, ScalarType.U64),
                *(item.value for item in kernel.parameters),
            ),
            kernel.name,
            None,
            loop.at,
        )

    def _across(
        self, loop: For, outer: tuple[_Range, ...], independent: Sequence[_Range]
    ) -> _Range | None:
        """The independent loop along which most accesses are to neighbours, or to one place."""
        bounds = self._range(loop, outer)
        assert bounds is not None
        accesses = self._accesses(loop.body, (*outer, bounds))

        def score(item: _Range) -> int:
            total = 0
            for access in accesses:
                factor = None
                if access.form is not None:
                    factor = dict(access.form.terms).get(item.counter, 0)
                total += {0: 1, access.size: 2}.get(-1 if factor is None else factor, -2)
            return total

        return max(independent, key=score, default=None)

    def _kernel(
        self, loop: For, mapped: Sequence[_Range], names: Mapping[IrValue, str]
    ) -> ParallelFunction:
        lines: list[Operation] = []
        counters: dict[IrValue, Operand] = {}
        sizes = {item.counter: item for item in mapped}
        for item in mapped:
            counters[item.counter] = self._index(names[item.counter], item, lines)
        body = substituted(self._threads(Region((loop,)), sizes, counters), counters)
        # Bounds that are numbers are looked at once, in front of all loops.
        for item in mapped:
            if isinstance(item.loop.high, ConstantOperand):
                inside = self._numbers.value(ScalarType.BOOL)
                compare = Compute(inside, "lt", (counters[item.counter], item.loop.high))
                body = Region((compare, If(inside, body, Region(), (), loop.at)))
        whole = simplified(Region((*lines, *body.operations)))
        parameter_of = {item.value: item for item in self._function.parameters}
        outside = sorted(used(whole), key=lambda item: item.number)
        parameters = tuple(
            parameter_of.get(item, Parameter(item, item.hint or f"v{item.number}"))
            for item in outside
        )
        name = f"{self._prefix}{len(self._kernels)}"
        function = ParallelFunction(name, parameters, whole, (), True, loop.at)
        return replace(function, body=simplified(self._with_registers(whole)))

    def _index(self, axis: str, item: _Range, lines: list[Operation]) -> Operand:
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
        lines.append(Compute(value, "add", (wide, ConstantOperand(item.low, type))))
        return value

    def _threads(
        self, block: Region, mapped: Mapping[IrValue, _Range], counters: Mapping[IrValue, Operand]
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

    # --- memory that a loop keeps coming back to

    def _with_registers(self, block: Region) -> Region:
        """What a loop reads and writes at one place in each iteration is carried by the loop."""
        lines: list[Operation] = []
        for operation in block.operations:
            inner = tuple(self._with_registers(item) for item in regions(operation))
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
        inside = {item for operation in walk(loop.body) for item in results(operation)}
        inside |= {loop.counter, *loop.carried}
        stores = [item for item in body if isinstance(item, Store)]
        if loop.carried or len(stores) != 1 or any(map(regions, body)):
            return [loop]
        (store,) = stores
        loads = [item for item in body if isinstance(item, Load)]
        same = [item for item in loads if item.address == store.address]
        if len(same) != 1 or any(
            item in inside for item in (store.address.base, store.address.index)
        ):
            return [loop]
        memory = self._piece(store)
        if memory is None or any(
            self._piece(item) in (memory, None) for item in loads if item is not same[0]
        ):
            return [loop]
        (load,) = same
        if body.index(load) > body.index(store) or load.result.type is not store.type:
            return [loop]
        carried, result = (self._numbers.value(store.type) for _ in range(2))
        before = self._numbers.value(store.type)
        lines = tuple(item for item in body if item is not load and item is not store)
        final = carried if store.value == load.result else store.value
        turned = substituted(Region(lines, (final,)), {load.result: carried})
        whole = replace(loop, carried=(carried,), initial=(before,), body=turned, results=(result,))
        runs = self._numbers.value(ScalarType.BOOL)
        # A loop without iterations touches nothing, so neither may what stands around it now.
        guarded = Region(
            (
                replace(load, result=before),
                whole,
                replace(store, value=result),
            )
        )
        compare = Compute(runs, "lt" if loop.step > 0 else "gt", (loop.low, loop.high))
        return [compare, If(runs, guarded, Region(), (), loop.at)]

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


def _read(block: Region) -> set[Operand]:
    """All that operations of a block use, or that leaves its branches and loops."""
    lines = list(walk(block))
    inner = [item.yields for line in lines for item in regions(line)]
    return set().union(block.yields, *map(operands, lines), *inner)


def _fits_a_kernel(loop: For) -> bool:
    """Whether a thread can run it, and all that it touches is seen."""
    return not any(
        isinstance(item, CallOperation | Atomic | Alloc | While) for item in walk(loop.body)
    )


def _same(loops: Sequence[_Range]) -> dict[IrValue, str]:
    return {item.counter: "=" for item in loops}


def _extremes(form: AffineForm, ranges: Mapping[IrValue, _Range]) -> tuple[int, int] | None:
    """The least and the greatest value of a form."""
    low = high = form.constant
    for value, factor in form.terms:
        bounds = ranges.get(value)
        if bounds is None:
            return None
        ends = sorted((factor * bounds.low, factor * bounds.high))
        low, high = low + ends[0], high + ends[1]
    return low, high


@dataclass(frozen=True, slots=True)
class _Span:
    """A part of a difference of addresses: multiples of a number, between two of them."""

    divisor: int
    low: int
    high: int


def _spans(first: int, second: int, bounds: _Range, relation: str) -> list[_Span] | None:
    """The parts of `first * i - second * j` for i and j in a relation; none if no two are."""
    low, high = bounds.low, bounds.high
    if high < low or (relation == "<" and high == low):
        return None
    if relation == "=":
        return _multiples(first - second, low, high)
    if first == second:
        return _multiples(first, low - high, -1 if relation == "<" else high - low)
    if relation == "*":
        return [*_multiples(first, low, high), *_multiples(-second, low, high)]
    corners = [(low, low + 1), (low, high), (high - 1, high)]
    values = [first * i - second * j for i, j in corners]
    return [_Span(math.gcd(first, second), min(values), max(values))]


def _multiples(factor: int, low: int, high: int) -> list[_Span]:
    if not factor:
        return []
    first, last = sorted((factor * low, factor * high))
    return [_Span(abs(factor), first, last)]


def _reaches(spans: Sequence[_Span], constant: int, size: int, second: int) -> bool:
    """Whether a sum of spans and a constant can be a distance at which two accesses overlap.

    Where rows of 800 bytes meet columns of 8, a distance of less than a row is made of columns
    alone, if these stay below a row together: 800 (i - i') + 8 (j - j') is 0 only if both are. So
    the spans are taken by their size, the largest first.
    """
    low = constant + sum(item.low for item in spans)
    high = constant + sum(item.high for item in spans)
    if high <= -size or low >= second:
        return False
    largest = max((item.divisor for item in spans), default=0)
    rows = [item for item in spans if item.divisor % largest == 0]
    columns = [item for item in spans if item.divisor % largest]
    if columns:
        whole = round(constant / largest) * largest
        inner = constant - whole
        first, last = (
            inner + sum(item.low for item in columns),
            inner + sum(item.high for item in columns),
        )
        if first >= max(size, second) - largest and last <= largest - max(size, second):
            apart = whole + sum(item.low for item in rows), whole + sum(item.high for item in rows)
            return apart[0] <= 0 <= apart[1] and _reaches(columns, inner, size, second)
    divisor = math.gcd(*(item.divisor for item in spans))
    return any(
        (apart - constant) % divisor == 0 if divisor else apart == constant
        for apart in range(max(low, 1 - size), min(high, second - 1) + 1)
    )
