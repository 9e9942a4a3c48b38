"""Prints a kernel after fission as LLVM IR: blocks in a loop, threads as the lanes of vectors.

The function that comes out runs a range of a grid's blocks on one core:

    void @kernel(ptr arguments, ptr scratch, i64 begin, i64 end)

`arguments` are words of eight bytes: the parameters, the addresses of symbols, the grid's three
sizes, and the address of a word for a failed assertion. `scratch` is the memory of one block: its
shared arrays, then the cells that fission made, then dynamic shared memory.

Where lanes part, at a branch or loop whose condition is not the same in all of them, both sides are
done under a *mask*: memory is touched by the lanes of the mask only, and results are selected. A
side of which no lane is left is jumped over. A branch that all lanes take, such as the usual `if (i
< n)`, is there a second time without a mask, since that is what most of the time is spent in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ..errors import CudaError
from ..ir.operations import (
    Alloc,
    Atomic,
    Barrier,
    CallOperation,
    Compute,
    For,
    If,
    IrValue,
    Load,
    Operand,
    Operation,
    ParallelFunction,
    Region,
    SourceLocation,
    Store,
    Threads,
    Warp,
    While,
    used,
    walk,
)
from ..ir.types import ScalarType
from . import backend
from .accesses import Lanes, memory_type
from .llvm_text import TYPES, ascending, vector
from .shapes import UNIFORM, Grouping, Shape, Shapes
from .strips import Strips, strip_length

_ALIGN = 64
_WARP = 32
_DOUBLED = 400
"""Operations of which a branch is written twice at most."""


@dataclass(frozen=True, slots=True)
class Emitted:
    """A module of LLVM IR, and what its caller has to know."""

    text: str
    name: str
    scratch: int
    """Bytes of scratch memory, dynamic shared memory not included."""
    assertions: tuple[SourceLocation, ...]
    """The lines of assertions; one that fails leaves its place in this list plus one."""


def emitted(function: ParallelFunction, grouping: Grouping, *, contract: bool = True) -> Emitted:
    """The LLVM IR of a kernel after fission, for blocks of one shape."""
    return _Emitter(function, grouping, contract).module()


class _Emitter(Strips):
    def __init__(self, function: ParallelFunction, grouping: Grouping, contract: bool) -> None:
        super().__init__(function, grouping, contract)
        self._group: dict[str, Lanes] = {}
        """The indices of a block and of its threads, by their names."""
        self._assertions: list[SourceLocation] = []
        self._peeled = False

    # --- the function

    def module(self) -> Emitted:
        name = _symbol(self._function.name)
        text = self._text
        self._load_arguments()
        with text.loop("%begin", "%end", 1) as block:
            self._locate(block)
            self._block(self._function.body)
        text.emit("ret void")
        head = (
            f"define void @{name}(ptr noalias %arguments, ptr noalias %scratch, i64 %begin,"
            " i64 %end) {"
        )
        functions = backend.function_texts(sorted(self._arithmetic.required))
        ours = [item for item in sorted(text.declared) if item not in functions]
        whole = [
            *text.globals, *ours, functions, head, *text.text, "}", "",
        ]  # fmt: skip
        return Emitted("\n".join(whole), name, self._scratch, tuple(self._assertions))

    def _load_arguments(self) -> None:
        text, place = self._text, 0
        function = self._function
        values = [item.value for item in function.parameters]
        values += [item.value for item in function.symbols]
        for value in values:
            self._values[value] = Lanes(UNIFORM, (self._argument(place, value.type),), value.type)
            place += 1
        for axis in "xyz":
            wide = self._argument(place, ScalarType.I64)
            self._group[f"wide.{axis}"] = Lanes(UNIFORM, (wide,), ScalarType.I64)
            size = text.line(f"trunc i64 {wide} to i32")
            self._group[f"grid.dim.{axis}"] = Lanes(UNIFORM, (size,), ScalarType.U32)
            place += 1
        self._failure = self._argument(place, ScalarType.PTR)

    def _argument(self, place: int, type: ScalarType) -> str:
        text = self._text
        address = text.line(f"getelementptr i8, ptr %arguments, i64 {8 * place}")
        kind = TYPES[type]
        if type is ScalarType.BOOL:
            byte = text.line(f"load i8, ptr {address}")
            return text.line(f"icmp ne i8 {byte}, 0")
        return text.line(f"load {kind}, ptr {address}, align 8")

    def _locate(self, block: str) -> None:
        """Takes a block's number apart into its three indices."""
        text = self._text
        wide, high = (self._group[f"wide.{axis}"].parts[0] for axis in "xy")
        x = text.line(f"urem i64 {block}, {wide}")
        remaining = text.line(f"udiv i64 {block}, {wide}")
        y = text.line(f"urem i64 {remaining}, {high}")
        z = text.line(f"udiv i64 {remaining}, {high}")
        for axis, number in (("x", x), ("y", y), ("z", z)):
            index = text.line(f"trunc i64 {number} to i32")
            self._group[f"block.{axis}"] = Lanes(UNIFORM, (index,), ScalarType.U32)

    # --- operations

    def _block(self, block: Region) -> list[Lanes]:
        for operation in block.operations:
            self._operation(operation)
        return [self._value(item) for item in block.yields]

    def _operation(self, operation: Operation) -> None:
        match operation:
            case Compute():
                self._values[operation.result] = self._compute(operation)
            case Load():
                self._values[operation.result] = self._load(operation)
            case Store():
                self._store(operation)
            case Atomic():
                self._values[operation.result] = self._atomic(operation)
            case Alloc():
                self._alloc(operation)
            case If():
                self._if(operation)
            case For():
                self._for(operation)
            case While():
                self._while(operation)
            case Threads():
                self._threads(operation)
            case Warp():
                self._values[operation.result] = self._warp(operation)
            case CallOperation():
                self._call(operation)
            case Barrier(level="warp"):
                pass  # the lanes of a warp go in step
            case _:
                raise CudaError(f"{self._function.name} still has a barrier")

    def _compute(self, operation: Compute) -> Lanes:
        result = operation.result
        if not operation.operands:
            return self._group[operation.name]
        shape = self._shapes[result]
        operands = [self._value(item) for item in operation.operands]
        # A step in the result comes from steps in the operands, so first numbers give the first.
        lanes = 1 if shape.stride is not None else self._lanes
        parts = []
        for row in range(self._rows if shape.rows else 1):
            take = self._first if lanes == 1 else self._spread
            texts = [take(item, row) for item in operands]
            parts.append(self._arithmetic.compute(operation, texts, lanes))
        lanes_of = Lanes(shape, tuple(parts), result.type)
        self._presume(operation, lanes_of)
        if result.type is ScalarType.BOOL and lanes > 1:
            self._note_extreme(operation, operands, lanes_of)
        return lanes_of

    # --- control flow

    def _if(self, operation: If) -> None:
        condition = self._value(operation.condition)
        if condition.shape.is_uniform:
            left = self._first(condition, 0)
            results = self._chosen(
                left,
                lambda: self._block(operation.then),
                lambda: self._block(operation.otherwise),
                [self._shapes[item] for item in operation.results],
                [item.type for item in operation.results],
            )
        elif (
            self._mask is None
            and (not self._peeled or any(isinstance(item, For) for item in walk(operation.then)))
            and 4 < _size(operation.then) <= _DOUBLED
            and self._inside
        ):
            results = self._peel(operation, condition)
        else:
            results = self._parted(operation, condition)
        for result, value in zip(operation.results, results, strict=True):
            self._values[result] = value

    def _peel(self, operation: If, condition: Lanes) -> list[Lanes]:
        """The branch without a mask where all lanes take it, and with one elsewhere."""
        shapes = [Shape(None, self._shapes[item].rows) for item in operation.results]
        types = [item.type for item in operation.results]
        # Inside of it, only a loop is worth a third copy, such as that of a triangle's rows.
        outer, self._peeled = self._peeled, True

        def together() -> list[Lanes]:
            return self._block(operation.then)

        def apart() -> list[Lanes]:
            return self._parted(operation, condition)

        # The arm is written twice, and shapes found for one copy must not leak into the other.
        saved = dict(self._shapes.of)
        results = self._chosen(self._all(condition), together, apart, shapes, types)
        self._shapes.of = saved
        self._peeled = outer
        return results

    def _parted(self, operation: If, condition: Lanes) -> list[Lanes]:
        """Both sides under masks; results are selected."""
        outer = self._mask
        inside = self._both(outer, condition)
        outside = self._both(outer, condition, negated=True)
        types = [item.type for item in operation.results]
        first = self._under(inside, operation.then, types)
        second = self._under(outside, operation.otherwise, types)
        self._mask = outer
        results = []
        for result, left, right in zip(operation.results, first, second, strict=True):
            rows = left.shape.rows or right.shape.rows or condition.shape.rows
            parts = []
            for row in range(self._rows if rows else 1):
                kind = vector(TYPES[result.type], self._lanes)
                chosen = self._spread(condition, row)
                a, b = self._spread(left, row), self._spread(right, row)
                parts.append(
                    self._text.line(
                        f"select {vector('i1', self._lanes)} {chosen}, {kind} {a}, {kind} {b}"
                    )
                )
            results.append(Lanes(Shape(None, rows), tuple(parts), result.type))
        return results

    def _under(self, mask: Lanes, block: Region, types: Sequence[ScalarType]) -> list[Lanes]:
        """A block under a mask, jumped over where no lane is left."""
        # Constants need no branch of the machine around them.
        if not block.operations:
            return self._block(block)
        self._mask = mask

        def nothing() -> list[Lanes]:
            return [Lanes(UNIFORM, ("poison",), type) for type in types]

        shapes = [Shape(None, self._rows > 1) for _ in types]
        return self._chosen(
            self._any(mask), lambda: self._block(block), nothing, shapes, list(types)
        )

    def _chosen(
        self,
        condition: str,
        then: Callable[[], list[Lanes]],
        otherwise: Callable[[], list[Lanes]],
        shapes: Sequence[Shape],
        types: Sequence[ScalarType],
    ) -> list[Lanes]:
        """A branch of the machine: values of both ways are brought to one shape and joined."""
        text = self._text
        left, right, end = (text.new_label(item) for item in ("then", "else", "end"))
        mask = self._mask
        text.split(condition, left, right)
        sides = []
        for label, write in ((left, then), (right, otherwise)):
            text.begin(label)
            self._mask = mask
            values = write()
            texts = [self._as(value, shape) for value, shape in zip(values, shapes, strict=True)]
            sides.append((texts, text.label))
            text.jump(end)
        self._mask = mask
        text.begin(end)
        (first, before), (second, between) = sides
        results = []
        for place, (shape, type) in enumerate(zip(shapes, types, strict=True)):
            kind = TYPES[type] if shape.stride is not None else vector(TYPES[type], self._lanes)
            parts = tuple(
                text.line(f"phi {kind} [ {a}, %{before} ], [ {b}, %{between} ]")
                for a, b in zip(first[place], second[place], strict=True)
            )
            results.append(Lanes(shape, parts, type))
        return results

    def _as(self, value: Lanes, shape: Shape) -> list[str]:
        """The texts of a value in a more general shape."""
        take = self._first if shape.stride is not None else self._spread
        return [take(value, row) for row in range(self._rows if shape.rows else 1)]

    def _for(self, operation: For) -> None:
        text = self._text
        low, high = self._value(operation.low), self._value(operation.high)
        if self._shapes.leaving(operation) is not None:
            self._for_apart(operation, low, high)
            return
        kind = TYPES[operation.counter.type]
        signed = operation.counter.type.is_signed
        test = ("slt" if signed else "ult") if operation.step > 0 else ("sgt" if signed else "ugt")
        first, initial = self._first(low, 0), [self._value(item) for item in operation.initial]
        strided = self._strided(operation)
        if strided:
            first = self._for_strips(operation, strided, first, self._first(high, 0), initial)
            initial = [self._values[item] for item in operation.carried]
        counter = text.new_name()

        def going() -> str:
            return text.line(f"icmp {test} {kind} {counter}, {self._first(high, 0)}")

        self._values[operation.counter] = Lanes(UNIFORM, (counter,), operation.counter.type)
        self._looped(
            operation,
            going,
            [(counter, kind, first, lambda: self._stepped(operation, counter, kind))],
            initial,
            lambda: self._block(operation.body),
        )

    def _for_strips(
        self, operation: For, strided: list[Load], low: str, high: str, initial: Sequence[Lanes]
    ) -> str:
        """The turns of a loop that fill strips; gives the counter of the first that does not."""
        turns = self._turns = min(strip_length(item.result.type) for item in strided)
        text, type = self._text, operation.counter.type
        kind, counter = TYPES[type], text.new_name()

        def going() -> str:
            # In 64 bits, as the end of a strip may be past what the counter holds.
            wide, end = (f"sext {kind} {item} to i64" for item in (counter, high))
            if type.size == 8:
                wide, end = (f"add i64 {item}, 0" for item in (counter, high))
            last = text.line(f"add nsw i64 {text.line(wide)}, {turns}")
            return text.line(f"icmp sle i64 {last}, {text.line(end)}")

        def body() -> list[Lanes]:
            self._strips = {item.result: [] for item in strided}
            for self._turn in range(turns):
                number = text.line(f"add nsw {kind} {counter}, {self._turn}")
                self._values[operation.counter] = Lanes(UNIFORM, (number,), type)
                following = self._block(operation.body)
                for item, value in zip(operation.carried, following, strict=True):
                    shape = self._shapes[item]
                    self._values[item] = Lanes(shape, tuple(self._as(value, shape)), item.type)
            self._strips = {}
            return [self._values[item] for item in operation.carried]

        def step() -> str:
            return text.line(f"add nsw {kind} {counter}, {turns}")

        self._looped(operation, going, [(counter, kind, low, step)], initial, body)
        return counter

    def _stepped(self, operation: For, counter: str, kind: str) -> str:
        flag = " nsw" if operation.counter.type.is_signed else ""
        return self._text.line(f"add{flag} {kind} {counter}, {operation.step}")

    def _looped(
        self,
        operation: For | While,
        going: Callable[[], str],
        extra: Sequence[tuple[str, str, str, Callable[[], str]]],
        initial: Sequence[Lanes],
        body_of: Callable[[], list[Lanes]],
    ) -> None:
        """A loop that all lanes of the mask go through together."""
        text = self._text
        before, head, body, end = text.label, *(text.new_label(item) for item in ("h", "b", "e"))
        shapes = [self._shapes[item] for item in operation.carried]
        starts = [self._as(item, shape) for item, shape in zip(initial, shapes, strict=True)]
        names = [[text.new_name() for _ in item] for item in starts]
        before = text.label
        text.jump(head)
        text.begin(head)
        hole = len(text.lines)
        carried = [
            Lanes(shape, tuple(several), value.type)
            for value, shape, several in zip(operation.carried, shapes, names, strict=True)
        ]
        self._values.update(zip(operation.carried, carried, strict=True))
        text.split(going(), body, end)
        text.begin(body)
        mask = self._mask
        last = [self._as(value, shape) for value, shape in zip(body_of(), shapes, strict=True)]
        self._mask = mask
        phis = [(name, kind, start, step()) for name, kind, start, step in extra]
        for value, shape, several, first, after in zip(
            operation.carried, shapes, names, starts, last, strict=True
        ):
            kind = TYPES[value.type]
            if shape.stride is None:
                kind = vector(kind, self._lanes)
            for name, start, end_value in zip(several, first, after, strict=True):
                phis.append((name, kind, start, end_value))
        text.lines[hole:hole] = [
            f"  {name} = phi {kind} [ {start}, %{before} ], [ {after}, %{text.label} ]"
            for name, kind, start, after in phis
        ]
        text.jump(head)
        text.begin(end)
        self._values.update(zip(operation.carried, carried, strict=True))
        self._values.update(zip(operation.results, carried, strict=True))

    def _while(self, operation: While) -> None:
        if self._shapes.leaving(operation) is None:
            going = operation.carried[0]
            self._looped(
                operation,
                lambda: self._first(self._values[going], 0),
                [],
                [self._value(item) for item in operation.initial],
                lambda: self._block(operation.body),
            )
            return
        self._apart(operation, operation.carried, operation.initial, operation.body, None)

    def _for_apart(self, operation: For, low: Lanes, high: Lanes) -> None:
        """A loop whose lanes count to different ends: the counter is carried like other values."""
        self._apart(operation, operation.carried, operation.initial, operation.body, (low, high))

    def _apart(
        self,
        operation: For | While,
        carried: Sequence[IrValue],
        initial: Sequence[Operand],
        body: Region,
        bounds: tuple[Lanes, Lanes] | None,
    ) -> None:
        """A loop that lanes leave at different times: it runs, masked, as long as any is left."""
        if self._rows == 1 and self._shapes.scatters(operation):
            self._in_turn(operation)
            return
        text, outer = self._text, self._mask
        counting = [operation.counter] if isinstance(operation, For) else []
        values = [*counting, *carried]
        starts = [*([bounds[0]] if bounds else []), *(self._value(item) for item in initial)]
        # What keeps its step needs no more than its first number, also when lanes have left.
        wide, running = Shape(None, self._rows > 1), self._shapes.running
        shapes = [wide if item in running else self._shapes[item] for item in values]
        first = [self._as(item, shape) for item, shape in zip(starts, shapes, strict=True)]
        names = [[text.new_name() for _ in item] for item in first]
        masks = [text.new_name() for _ in range(self._rows)]
        ones = "true" if self._lanes == 1 else "splat (i1 true)"
        entered = [ones if outer is None else self._spread(outer, row) for row in range(self._rows)]
        common = {
            value: (text.new_name(), self._first(start, 0))
            for value, start in zip(values, starts, strict=True)
            if value in running
        }
        before, head, inside, end = text.label, *(text.new_label(item) for item in ("h", "b", "e"))
        text.jump(head)
        text.begin(head)
        hole = len(text.lines)
        left = [
            Lanes(shape, tuple(several), value.type)
            for value, shape, several in zip(values, shapes, names, strict=True)
        ]
        self._values.update(zip(values, left, strict=True))
        for value, (name, _) in common.items():
            self._values[value] = Lanes(UNIFORM, (name,), value.type)
        present = Lanes(Shape(None, self._rows > 1), tuple(masks), ScalarType.BOOL)
        active = self._both(present, self._going(operation, bounds))
        # Lanes that have left keep their values until the last one leaves, so results are the
        # carried ones.
        text.split(self._any(active), inside, end)
        text.begin(inside)
        self._mask = active
        last = [
            self._as(item, shape)
            for item, shape in zip(self._block(body), shapes[len(counting) :], strict=True)
        ]
        self._mask = outer
        if isinstance(operation, For):
            last.insert(0, [self._counted(operation, shapes[0], item) for item in names[0]])
        phis = []
        for value, shape, several, start, after in zip(
            values, shapes, names, first, last, strict=True
        ):
            kind = TYPES[value.type]
            if shape.stride is None:
                kind = vector(kind, self._lanes)
            for row, name in enumerate(several):
                chosen = after[row]
                if shape.stride is None:
                    chosen = text.line(
                        f"select {vector('i1', self._lanes)} {self._first(active, row)},"
                        f" {kind} {after[row]}, {kind} {name}"
                    )
                phis.append((name, kind, start[row], chosen))
        for value, (name, begun) in common.items():
            following = self._first(self._value(running[value]), 0)
            phis.append((name, TYPES[value.type], begun, following))
        for row, name in enumerate(masks):
            kind = vector("i1", self._lanes)
            phis.append((name, kind, entered[row], self._first(active, row)))
        text.lines[hole:hole] = [
            f"  {name} = phi {kind} [ {start}, %{before} ], [ {after}, %{text.label} ]"
            for name, kind, start, after in phis
        ]
        text.jump(head)
        text.begin(end)
        for result, lanes in zip(operation.results, left[len(counting) :], strict=True):
            self._values[result] = lanes

    def _in_turn(self, operation: For | While) -> None:
        """A loop that one lane of the mask after another goes through, with its own numbers."""
        text, lanes = self._text, self._lanes
        held = {item: self._values[item] for item in used(Region((operation,)))}
        slots = {
            item: self._slot(value) for item, value in held.items() if value.shape.stride is None
        }
        group = {
            name: self._slot(value)
            for name, value in self._group.items()
            if value.shape.stride is None
        }
        starts = [self._value(item) for item in operation.initial]
        ends = [self._slot(item) for item in starts]
        outer = self._values, self._group, self._shapes, self._grouping, self._mask
        with self._lanes_in_turn() as lane:
            self._values = {
                item: self._of_lane(value, slots.get(item), lane) for item, value in held.items()
            }
            self._group = {
                name: self._of_lane(value, group.get(name), lane)
                for name, value in self._group.items()
            }
            self._grouping = replace(self._grouping, lanes=1)
            self._shapes = Shapes(self._grouping, Region((operation,)))
            self._shapes.block(Region((operation,)))
            self._lanes, self._mask = 1, None
            self._operation(operation)
            for slot, result in zip(ends, operation.results, strict=True):
                last = self._to_memory(self._first(self._values[result], 0), result.type, 1)
                kind = memory_type(result.type)
                place = text.line(f"getelementptr {kind}, ptr {slot}, i64 {lane}")
                text.emit(f"store {kind} {last}, ptr {place}")
        self._values, self._group, self._shapes, self._grouping, self._mask = outer
        self._lanes = lanes
        for slot, result in zip(ends, operation.results, strict=True):
            kind = vector(memory_type(result.type), lanes)
            whole = self._from_memory(text.line(f"load {kind}, ptr {slot}"), result.type, lanes)
            self._values[result] = Lanes(Shape(None), (whole,), result.type)

    def _counted(self, operation: For, shape: Shape, counter: str) -> str:
        """The counter of the next turn, as its `shape` says: one number, or one for each lane."""
        kind = TYPES[operation.counter.type]
        if shape.stride is None and self._lanes > 1:
            whole = vector(kind, self._lanes)
            return self._text.line(f"add {whole} {counter}, splat ({kind} {operation.step})")
        # A row that has left is counted on, past what its type holds at worst.
        if shape.rows:
            return self._text.line(f"add {kind} {counter}, {operation.step}")
        return self._stepped(operation, counter, kind)

    def _going(self, operation: For | While, bounds: tuple[Lanes, Lanes] | None) -> Lanes:
        if isinstance(operation, While):
            return self._values[operation.carried[0]]
        assert bounds is not None
        counter, type = self._values[operation.counter], operation.counter.type
        name = "lt" if operation.step > 0 else "gt"
        compare = Compute(IrValue(0, ScalarType.BOOL), name, (IrValue(0, type), IrValue(0, type)))
        parts = tuple(
            self._arithmetic.compute(
                compare, [self._spread(counter, row), self._spread(bounds[1], row)], self._lanes
            )
            for row in range(self._rows)
        )
        return Lanes(Shape(None, self._rows > 1), parts, ScalarType.BOOL)

    # --- loops over threads

    def _threads(self, operation: Threads) -> None:
        self._inside = True
        outer = dict(self._values)
        if self._grouping.linear:
            self._linear_threads(operation.body)
        else:
            self._rows_of_threads(operation.body)
        self._values = outer
        self._inside = False
        self._mask = None

    def _linear_threads(self, body: Region) -> None:
        text, lanes, threads = self._text, self._lanes, self._grouping.threads
        with text.loop("0", str(threads), lanes) as number:
            self._group["thread.linear"] = Lanes(Shape(1), (number,), ScalarType.I64)
            narrow = text.line(f"trunc i64 {number} to i32")
            flat = Lanes(Shape(1), (narrow,), ScalarType.U32)
            self._group["thread.x"] = flat
            wide, high, deep = self._grouping.block
            if high * deep > 1:
                whole, kind = self._spread(flat, 0), vector("i32", lanes)
                take: Callable[[str, str, int], str] = lambda how, left, size: text.line(  # noqa: E731
                    f"{how} {kind} {left}, {size if lanes == 1 else f'splat (i32 {size})'}"
                )
                remaining = take("udiv", whole, wide)
                for axis, part in (
                    ("x", take("urem", whole, wide)),
                    ("y", take("urem", remaining, high)),
                    ("z", take("udiv", remaining, high)),
                ):
                    self._group[f"thread.{axis}"] = Lanes(Shape(None), (part,), ScalarType.U32)
            else:
                zero = Lanes(UNIFORM, ("0",), ScalarType.U32)
                self._group["thread.y"] = self._group["thread.z"] = zero
            self._masked_body(body, number, threads)

    def _rows_of_threads(self, body: Region) -> None:
        text = self._text
        wide, high, deep = self._grouping.block
        down, along = ("0", str(high), self._rows), ("0", str(wide), self._lanes)
        # Rows go together where they read the same, so what one group has read the next finds near.
        order = (along, down) if self._rows > 1 else (down, along)
        with (
            text.loop("0", str(deep), 1) as z,
            text.loop(*order[0]) as first,
            text.loop(*order[1]) as second,
        ):
            y, x = (second, first) if self._rows > 1 else (first, second)
            self._group["thread.x"] = Lanes(
                Shape(1), (text.line(f"trunc i64 {x} to i32"),), ScalarType.U32
            )
            self._group["thread.z"] = Lanes(
                UNIFORM, (text.line(f"trunc i64 {z} to i32"),), ScalarType.U32
            )
            above = text.line(f"mul i64 {z}, {high}")
            rows, numbers = [], []
            for row in range(self._rows):
                local = text.line(f"add nsw i64 {y}, {row}")
                rows.append(text.line(f"trunc i64 {local} to i32"))
                line = text.line(f"add nsw i64 {above}, {local}")
                start = text.line(f"mul nsw i64 {line}, {wide}")
                numbers.append(text.line(f"add nsw i64 {start}, {x}"))
            by_row = self._rows > 1
            self._group["thread.y"] = Lanes(Shape(0, by_row), tuple(rows), ScalarType.U32)
            self._group["thread.linear"] = Lanes(Shape(1, by_row), tuple(numbers), ScalarType.I64)
            self._masked_body(body, x, wide)

    def _masked_body(self, body: Region, first: str, count: int) -> None:
        """The body for a group of lanes, of which some are beyond the end if they do not divide."""
        self._mask = None
        # Only the last group of a row is cut, but which is last is known when it runs, so all have
        # the mask.
        if count % self._lanes:
            flat = Lanes(Shape(1), (first,), ScalarType.I64)
            kind = vector("i64", self._lanes)
            limit = f"splat (i64 {count})" if self._lanes > 1 else str(count)
            there = self._text.line(f"icmp slt {kind} {self._spread(flat, 0)}, {limit}")
            self._mask = Lanes(Shape(None), (there,), ScalarType.BOOL)
        self._block(body)
        self._mask = None

    # --- threads together, and the outside

    def _warp(self, operation: Warp) -> Lanes:
        """Exchanges within a warp, whose threads are the lanes of one vector."""
        text, lanes = self._text, self._lanes
        if lanes != _WARP or self._rows != 1 or not self._grouping.linear:
            raise CudaError(f"{operation.at}: a warp has to be one vector")
        values = [self._value(item) for item in operation.operands]
        if not operation.name.startswith("shfl"):
            return self._vote(operation, values[0])
        value, amount, width = values
        kind = vector(TYPES[value.type], lanes)
        local = self._spread(value, 0)
        lane = ascending("i32", lanes, 1)
        whole = vector("i32", lanes)
        size, far = self._spread(width, 0), self._spread(amount, 0)
        within = text.line(f"sub {whole} {size}, splat (i32 1)")
        inside = text.line(f"and {whole} {lane}, {within}")
        start = text.line(f"sub {whole} {lane}, {inside}")
        match operation.name:
            case "shfl.idx":
                index = text.line(f"and {whole} {far}, {within}")
                target = text.line(f"add {whole} {start}, {index}")
            case "shfl.up":
                target = text.line(f"sub {whole} {lane}, {far}")
            case "shfl.down":
                target = text.line(f"add {whole} {lane}, {far}")
            case _:
                target = text.line(f"xor {whole} {lane}, {far}")
        offset = text.line(f"sub {whole} {target}, {start}")
        moves = text.line(f"icmp ult {whole} {offset}, {size}")
        shift = {"shfl.up": -1, "shfl.down": 1}.get(operation.name, 0)
        if shift and amount.shape.stride == 0:
            far = self._first(amount, 0)
            result = self._shifted(local, value.type, far, shift)
        else:
            result = self._picked(local, value.type, target)
        chosen = text.line(f"select {vector('i1', lanes)} {moves}, {kind} {result}, {kind} {local}")
        return Lanes(Shape(None), (chosen,), value.type)

    def _call(self, operation: CallOperation) -> None:
        text = self._text
        match operation.name:
            case "assert":
                condition = self._value(operation.operands[0])
                failed = self._both(self._mask, condition, negated=True)
                self._assertions.append(operation.at)
                number = len(self._assertions)
                wrong, after = text.new_label("wrong"), text.new_label("right")
                text.split(self._any(failed), wrong, after)
                text.begin(wrong)
                text.emit(f"store atomic i64 {number}, ptr {self._failure} monotonic, align 8")
                text.jump(after)
                text.begin(after)
            case "exit":
                pass  # who has returned is known by a flag
            case "printf":
                self._printf(operation)
            case "clock" if operation.result is not None:
                now = text.call("@llvm.readcyclecounter", "i64")
                self._values[operation.result] = Lanes(UNIFORM, (now,), ScalarType.I64)
            case _:
                raise CudaError(f"{operation.at}: {operation.name} cannot be called by a kernel")

    def _printf(self, operation: CallOperation) -> None:
        text, lanes = self._text, self._lanes
        data = operation.text.encode() + b"\0"
        name = f"@format{len(text.globals)}"
        bytes_of = "".join(f"\\{byte:02X}" for byte in data)
        text.globals.append(f'{name} = private constant [{len(data)} x i8] c"{bytes_of}"')
        text.declared.add("declare i32 @printf(ptr, ...)")
        values = [self._value(item) for item in operation.operands]
        for row in range(self._rows):
            spread = [self._spread(item, row) for item in values]

            def left(lane: str, spread: list[str] = spread) -> None:
                listed = [f"ptr {name}"]
                for value, whole in zip(values, spread, strict=True):
                    kind = TYPES[value.type]
                    part = whole
                    if lanes > 1:
                        part = text.line(
                            f"extractelement {vector(kind, lanes)} {whole}, i64 {lane}"
                        )
                    listed.append(self._passed(value.type, part))
                text.line(f"call i32 (ptr, ...) @printf({', '.join(listed)})")

            self._each_lane(self._mask_of(row), left)

    def _passed(self, type: ScalarType, part: str) -> str:
        """An argument of a function with any number of them, promoted as C does."""
        text, kind = self._text, TYPES[type]
        if type in (ScalarType.F16, ScalarType.F32):
            return f"double {text.line(f'fpext {kind} {part} to double')}"
        if type.size < 4:
            how = "sext" if type.is_signed else "zext"
            return f"i32 {text.line(f'{how} {kind} {part} to i32')}"
        return f"{kind} {part}"


def _symbol(name: str) -> str:
    return "".join(item if item.isalnum() or item == "_" else "_" for item in name)


def _size(block: Region) -> int:
    return sum(1 for _ in walk(block))
