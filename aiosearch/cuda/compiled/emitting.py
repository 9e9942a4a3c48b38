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
from dataclasses import dataclass

from ..errors import CudaError
from ..ir.operations import (
    Address,
    Alloc,
    Atomic,
    Barrier,
    Block,
    Call,
    Compute,
    Constant,
    For,
    Function,
    If,
    Load,
    Location,
    Operand,
    Operation,
    Space,
    Store,
    Threads,
    Value,
    Warp,
    While,
    walk,
)
from ..ir.types import Scalar
from . import backend
from .arithmetic import Arithmetic
from .shapes import UNIFORM, Grouping, Shape, Shapes
from .writing import TYPES, Text, ascending, literal, short, vector

_ALIGN = 64
_WARP = 32
_DOUBLED = 400
"""Operations of which a branch is written twice at most."""


@dataclass(frozen=True, slots=True)
class Lanes:
    """A value of a group of threads: its shape, and a text, or one for each row."""

    shape: Shape
    parts: tuple[str, ...]
    type: Scalar


@dataclass(frozen=True, slots=True)
class Emitted:
    """A module of LLVM IR, and what its caller has to know."""

    text: str
    name: str
    scratch: int
    """Bytes of scratch memory, dynamic shared memory not included."""
    assertions: tuple[Location, ...]
    """The lines of assertions; one that fails leaves its place in this list plus one."""


def emitted(function: Function, grouping: Grouping, *, contract: bool = True) -> Emitted:
    """The LLVM IR of a kernel after fission, for blocks of one shape."""
    return _Emitter(function, grouping, contract).module()


class _Emitter:
    def __init__(self, function: Function, grouping: Grouping, contract: bool) -> None:
        self._function = function
        self._grouping = grouping
        self._text = Text()
        self._arithmetic = Arithmetic(self._text, contract)
        self._shapes = Shapes(grouping)
        self._shapes.block(function.body)
        self._values: dict[Value, Lanes] = {}
        self._mask: Lanes | None = None
        self._lanes = grouping.lanes
        self._rows = grouping.rows
        self._inside = False
        self._group: dict[str, Lanes] = {}
        self._assertions: list[Location] = []
        self._shared: set[Value] = set()
        self._scratch = 0
        self._dynamic: list[Value] = []
        self._peeled = False
        self._nothing = ""

    # --- the function

    def module(self) -> Emitted:
        name = _symbol(self._function.name)
        text = self._text
        self._load_arguments()
        with text.loop("%begin", "%end", 1) as block:
            self._locate(block)
            self._block(self._function.body)
        text.do("ret void")
        head = (
            f"define void @{name}(ptr noalias %arguments, ptr noalias %scratch, i64 %begin,"
            " i64 %end) {"
        )
        functions = backend.function_texts(sorted(self._arithmetic.wanted))
        ours = [each for each in sorted(text.declarations) if each not in functions]
        whole = [
            *text.globals, *ours, functions, head, "entry:", *text.entry, *text.lines, "}", "",
        ]  # fmt: skip
        return Emitted("\n".join(whole), name, self._scratch, tuple(self._assertions))

    def _load_arguments(self) -> None:
        text, place = self._text, 0
        function = self._function
        values = [each.value for each in function.parameters]
        values += [each.value for each in function.symbols]
        for value in values:
            self._values[value] = Lanes(UNIFORM, (self._argument(place, value.type),), value.type)
            place += 1
        for axis in "xyz":
            wide = self._argument(place, Scalar.I64)
            self._group[f"wide.{axis}"] = Lanes(UNIFORM, (wide,), Scalar.I64)
            size = text.line(f"trunc i64 {wide} to i32")
            self._group[f"grid.dim.{axis}"] = Lanes(UNIFORM, (size,), Scalar.U32)
            place += 1
        self._failure = self._argument(place, Scalar.PTR)

    def _argument(self, place: int, type: Scalar) -> str:
        text = self._text
        address = text.line(f"getelementptr i8, ptr %arguments, i64 {8 * place}")
        kind = TYPES[type]
        if type is Scalar.BOOL:
            byte = text.line(f"load i8, ptr {address}")
            return text.line(f"icmp ne i8 {byte}, 0")
        return text.line(f"load {kind}, ptr {address}, align 8")

    def _locate(self, block: str) -> None:
        """Takes a block's number apart into its three indices."""
        text = self._text
        wide, high = (self._group[f"wide.{axis}"].parts[0] for axis in "xy")
        x = text.line(f"urem i64 {block}, {wide}")
        rest = text.line(f"udiv i64 {block}, {wide}")
        y = text.line(f"urem i64 {rest}, {high}")
        z = text.line(f"udiv i64 {rest}, {high}")
        for axis, number in (("x", x), ("y", y), ("z", z)):
            index = text.line(f"trunc i64 {number} to i32")
            self._group[f"block.{axis}"] = Lanes(UNIFORM, (index,), Scalar.U32)

    # --- operations

    def _block(self, block: Block) -> list[Lanes]:
        for operation in block.operations:
            self._operation(operation)
        return [self._value(each) for each in block.yields]

    def _value(self, operand: Operand) -> Lanes:
        if isinstance(operand, Constant):
            return Lanes(UNIFORM, (literal(operand),), operand.type)
        return self._values[operand]

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
            case Call():
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
        operands = [self._value(each) for each in operation.operands]
        # A step in the result comes from steps in the operands, so first numbers give the first.
        lanes = 1 if shape.stride is not None else self._lanes
        parts = []
        for row in range(self._rows if shape.rows else 1):
            take = self._first if lanes == 1 else self._spread
            texts = [take(each, row) for each in operands]
            parts.append(self._arithmetic.compute(operation, texts, lanes))
        return Lanes(shape, tuple(parts), result.type)

    @staticmethod
    def _first(value: Lanes, row: int) -> str:
        """The number of the first lane, of a value that has a step."""
        return value.parts[row if value.shape.rows else 0]

    def _spread(self, value: Lanes, row: int) -> str:
        """A value as a vector."""
        part, kind = self._first(value, row), TYPES[value.type]
        stride = value.shape.stride
        if stride is None or self._lanes == 1:
            return part
        text, lanes = self._text, self._lanes
        if not stride and not part.startswith("%"):
            return f"splat ({kind} {part})" if part != "poison" else part
        if value.type is Scalar.PTR and stride:
            steps = ascending("i64", lanes, stride)
            return text.line(f"getelementptr i8, ptr {part}, <{lanes} x i64> {steps}")
        whole = vector(kind, lanes)
        one = text.line(f"insertelement {whole} poison, {kind} {part}, i64 0")
        order = f"<{lanes} x i32> zeroinitializer"
        same = text.line(f"shufflevector {whole} {one}, {whole} poison, {order}")
        if not stride:
            return same
        return text.line(f"add {whole} {same}, {ascending(kind, lanes, stride)}")

    # --- memory

    def _alloc(self, operation: Alloc) -> None:
        text = self._text
        if operation.space is Space.PRIVATE:
            count = self._lanes * self._rows
            assert operation.size is not None
            base = text.stack(f"[{operation.size * count} x i8]")
            stride = operation.size
            self._values[operation.result] = Lanes(
                Shape(stride, self._rows > 1),
                tuple(
                    text.line(f"getelementptr i8, ptr {base}, i64 {row * self._lanes * stride}")
                    for row in range(self._rows)
                ),
                Scalar.PTR,
            )
            return
        if operation.space is Space.SHARED:
            self._shared.add(operation.result)
        if operation.size is None:
            base = f"%dynamic{operation.result.number}"
            self._dynamic.append(operation.result)
            end = sum(
                _rounded(each.size)
                for each in walk(self._function.body)
                if isinstance(each, Alloc) and each.space is not Space.PRIVATE and each.size
            )
            base = text.line(f"getelementptr i8, ptr %scratch, i64 {end}")
        else:
            base = text.line(f"getelementptr i8, ptr %scratch, i64 {self._scratch}")
            self._scratch += _rounded(operation.size)
        self._values[operation.result] = Lanes(UNIFORM, (base,), Scalar.PTR)

    def _pointer(self, address: Address) -> tuple[Lanes, int | None]:
        """The addresses of an access, and their step in bytes if there is one."""
        base, index = self._value(address.base), self._value(address.index)
        rows = base.shape.rows or index.shape.rows
        one, other = base.shape.stride, index.shape.stride
        stride = None if one is None or other is None else one + other * address.scale
        parts = [
            self._located(address, base, index, stride is None, row)
            for row in range(self._rows if rows else 1)
        ]
        return Lanes(Shape(stride, rows), tuple(parts), Scalar.PTR), stride

    def _located(self, address: Address, base: Lanes, index: Lanes, spread: bool, row: int) -> str:
        text = self._text
        lanes = self._lanes if spread else 1
        place = self._first(base, row)
        if address.index == Constant(0, Scalar.I64):
            offset = str(address.offset) if lanes == 1 else f"splat (i64 {address.offset})"
        else:
            number = self._spread(index, row) if spread else self._first(index, row)
            kind = vector("i64", lanes)
            factor = str(address.scale) if lanes == 1 else f"splat (i64 {address.scale})"
            offset = text.line(f"mul nsw {kind} {number}, {factor}")
            if address.offset:
                more = str(address.offset) if lanes == 1 else f"splat (i64 {address.offset})"
                offset = text.line(f"add nsw {kind} {offset}, {more}")
        if not spread:
            return text.line(f"getelementptr i8, ptr {place}, i64 {offset}")
        if base.shape.stride:
            place = self._spread(base, row)
            return text.line(f"getelementptr i8, <{lanes} x ptr> {place}, <{lanes} x i64> {offset}")
        kind = "ptr" if base.shape.stride == 0 else f"<{lanes} x ptr>"
        return text.line(f"getelementptr i8, {kind} {place}, <{lanes} x i64> {offset}")

    def _mask_of(self, row: int) -> str:
        if self._mask is None:
            return "splat (i1 true)"
        return self._spread(self._mask, row)

    def _load(self, operation: Load) -> Lanes:
        type = operation.result.type
        pointer, stride = self._pointer(operation.address)
        shape = Shape(0 if stride == 0 else None, pointer.shape.rows)
        masked = self._mask is not None and self._mask.shape.rows and stride != 0
        count = self._rows if shape.rows or masked else 1
        if masked:
            shape = Shape(None, True)
        parts = [self._loaded(pointer, stride, type, row) for row in range(count)]
        return Lanes(shape, tuple(parts), type)

    def _loaded(self, pointer: Lanes, stride: int | None, type: Scalar, row: int) -> str:
        text, lanes = self._text, self._lanes
        element, size = _memory_type(type), type.size
        if stride == 0:
            place = self._first(pointer, row)
            if self._mask is not None and pointer.shape.rows:
                place = self._harmless(place, row)
            value = text.line(f"load {element}, ptr {place}, align {size}")
            return self._from_memory(value, type, 1)
        kind = vector(element, lanes)
        if stride == size and self._mask is None:
            value = text.line(f"load {kind}, ptr {self._first(pointer, row)}, align {size}")
        elif stride == size:
            value = text.call(
                f"@llvm.masked.load.{short(element, lanes)}.p0",
                kind,
                (f"ptr align {size}", self._first(pointer, row)),
                (vector("i1", lanes), self._mask_of(row)),
                (kind, "zeroinitializer"),
            )
        else:
            value = text.call(
                f"@llvm.masked.gather.{short(element, lanes)}.v{lanes}p0",
                kind,
                (f"<{lanes} x ptr> align {size}", self._pointers(pointer, row)),
                (vector("i1", lanes), self._mask_of(row)),
                (kind, "zeroinitializer"),
            )
        return self._from_memory(value, type, lanes)

    def _harmless(self, place: str, row: int) -> str:
        """The address, or that of a zero where no lane of the row is in the mask."""
        text, lanes = self._text, self._lanes
        if not self._nothing:
            self._nothing = text.stack("i64", 8)
            text.entry.append(f"  store i64 0, ptr {self._nothing}")
        some = text.call(
            f"@llvm.vector.reduce.or.v{lanes}i1", "i1", (vector("i1", lanes), self._mask_of(row))
        )
        return text.line(f"select i1 {some}, ptr {place}, ptr {self._nothing}")

    def _pointers(self, pointer: Lanes, row: int) -> str:
        return self._spread(pointer, row)

    def _from_memory(self, value: str, type: Scalar, lanes: int) -> str:
        if type is not Scalar.BOOL:
            return value
        zero = "0" if lanes == 1 else "zeroinitializer"
        return self._text.line(f"icmp ne {vector('i8', lanes)} {value}, {zero}")

    def _to_memory(self, value: str, type: Scalar, lanes: int) -> str:
        if type is not Scalar.BOOL:
            return value
        return self._text.line(f"zext {vector('i1', lanes)} {value} to {vector('i8', lanes)}")

    def _store(self, operation: Store) -> None:
        type = operation.type
        value = self._value(operation.value)
        pointer, stride = self._pointer(operation.address)
        text, lanes = self._text, self._lanes
        element, size = _memory_type(type), type.size
        mask_rows = self._mask is not None and self._mask.shape.rows
        rows = pointer.shape.rows or value.shape.rows or mask_rows
        if not self._inside or (stride == 0 and value.shape.stride == 0 and not rows):
            stored = self._to_memory(self._first(value, 0), type, 1)
            place = self._first(pointer, 0)
            text.do(f"store {element} {stored}, ptr {place}, align {size}")
            return
        kind = vector(element, lanes)
        for row in range(self._rows if rows else 1):
            stored = self._to_memory(self._spread(value, row), type, lanes)
            if stride == size and self._mask is None:
                place = self._first(pointer, row)
                text.do(f"store {kind} {stored}, ptr {place}, align {size}")
            elif stride == size:
                text.call(
                    f"@llvm.masked.store.{short(element, lanes)}.p0",
                    "void",
                    (kind, stored),
                    (f"ptr align {size}", self._first(pointer, row)),
                    (vector("i1", lanes), self._mask_of(row)),
                )
            else:
                text.call(
                    f"@llvm.masked.scatter.{short(element, lanes)}.v{lanes}p0",
                    "void",
                    (kind, stored),
                    (f"<{lanes} x ptr> align {size}", self._pointers(pointer, row)),
                    (vector("i1", lanes), self._mask_of(row)),
                )

    def _atomic(self, operation: Atomic) -> Lanes:
        """Lane by lane. Shared memory belongs to one core, so nothing there has to be atomic."""
        type = operation.result.type
        pointer, _ = self._pointer(operation.address)
        value = self._value(operation.operand)
        compare = None if operation.compare is None else self._value(operation.compare)
        exclusive = operation.address.base in self._shared
        parts = []
        for row in range(self._rows):
            compares = None if compare is None else self._spread(compare, row)
            operands = (self._pointers(pointer, row), self._spread(value, row), compares)
            parts.append(self._atomic_row(operation, operands, self._mask_of(row), exclusive))
        return Lanes(Shape(None, self._rows > 1), tuple(parts), type)

    def _atomic_row(
        self,
        operation: Atomic,
        operands: tuple[str, str, str | None],
        mask: str,
        exclusive: bool,
    ) -> str:
        """The lanes of one row, one after the other; gives what each found there."""
        text, lanes, type = self._text, self._lanes, TYPES[operation.result.type]
        pointers, values, compares = operands
        kind = vector(type, lanes)
        slot = text.stack(kind)
        text.do(f"store {kind} zeroinitializer, ptr {slot}")

        def exchange(lane: str) -> None:
            place = text.line(f"extractelement <{lanes} x ptr> {pointers}, i64 {lane}")
            number = text.line(f"extractelement {kind} {values}, i64 {lane}")
            expected = None
            if compares is not None:
                expected = text.line(f"extractelement {kind} {compares}, i64 {lane}")
            before = self._exchanged(operation, place, number, expected, exclusive)
            cell = text.line(f"getelementptr {type}, ptr {slot}, i64 {lane}")
            text.do(f"store {type} {before}, ptr {cell}")

        self._each_lane(mask, exchange)
        return text.line(f"load {kind}, ptr {slot}")

    def _each_lane(self, mask: str, one: Callable[[str], None]) -> None:
        """A loop over the lanes of a mask."""
        text, lanes = self._text, self._lanes
        if lanes == 1:
            mask = "true" if mask.startswith("splat") else mask
        truth = vector("i1", lanes)
        with text.loop("0", str(lanes), 1) as lane:
            active = text.line(f"extractelement {truth} {mask}, i64 {lane}")
            do, after = text.new_label("lane"), text.new_label("next")
            text.split(active, do, after)
            text.begin(do)
            one(lane)
            text.jump(after)
            text.begin(after)

    def _exchanged(
        self, operation: Atomic, place: str, value: str, compare: str | None, exclusive: bool
    ) -> str:
        """Does one atomic operation; gives what was there."""
        type, text = operation.result.type, self._text
        kind = TYPES[type]
        if exclusive or operation.name in ("inc", "dec"):
            if exclusive:
                before = text.line(f"load {kind}, ptr {place}")
                after = self._combined(operation.name, type, before, value, compare)
                text.do(f"store {kind} {after}, ptr {place}")
                return before
            name = {"inc": "uinc_wrap", "dec": "udec_wrap"}[operation.name]
            return text.line(f"atomicrmw {name} ptr {place}, {kind} {value} monotonic")
        if compare is not None:
            pair = text.line(
                f"cmpxchg ptr {place}, {kind} {compare}, {kind} {value} monotonic monotonic"
            )
            return text.line(f"extractvalue {{ {kind}, i1 }} {pair}, 0")
        name = operation.name
        if name == "exch":
            name = "xchg"
        elif type.is_float:
            name = f"f{name}"
        elif name in ("min", "max") and not type.is_signed:
            name = f"u{name}"
        return text.line(f"atomicrmw {name} ptr {place}, {kind} {value} monotonic")

    def _combined(
        self, name: str, type: Scalar, before: str, value: str, compare: str | None
    ) -> str:
        text, kind = self._text, TYPES[type]
        if name == "exch":
            return value
        if name == "cas":
            same = text.line(f"icmp eq {kind} {before}, {compare}")
            return text.line(f"select i1 {same}, {kind} {value}, {kind} {before}")
        if name == "inc":
            over = text.line(f"icmp uge {kind} {before}, {value}")
            more = text.line(f"add {kind} {before}, 1")
            return text.line(f"select i1 {over}, {kind} 0, {kind} {more}")
        if name == "dec":
            zero = text.line(f"icmp eq {kind} {before}, 0")
            over = text.line(f"icmp ugt {kind} {before}, {value}")
            either = text.line(f"or i1 {zero}, {over}")
            less = text.line(f"sub {kind} {before}, 1")
            return text.line(f"select i1 {either}, {kind} {value}, {kind} {less}")
        result = Value(0, type)
        operation = Compute(result, name, (Value(0, type), Value(0, type)))
        return self._arithmetic.compute(operation, [before, value], 1)

    # --- control flow

    def _any(self, mask: Lanes) -> str:
        """Whether a lane of any row is in a mask."""
        text, lanes = self._text, self._lanes
        found = ""
        for row in range(self._rows if mask.shape.rows else 1):
            if mask.shape.stride == 0 or lanes == 1:
                some = self._first(mask, row)
            else:
                some = text.call(
                    f"@llvm.vector.reduce.or.v{lanes}i1",
                    "i1",
                    (vector("i1", lanes), mask.parts[row]),
                )
            found = some if not found else text.line(f"or i1 {found}, {some}")
        return found

    def _all(self, mask: Lanes) -> str:
        text, lanes = self._text, self._lanes
        found = ""
        for row in range(self._rows if mask.shape.rows else 1):
            if mask.shape.stride == 0 or lanes == 1:
                every = self._first(mask, row)
            else:
                every = text.call(
                    f"@llvm.vector.reduce.and.v{lanes}i1",
                    "i1",
                    (vector("i1", lanes), mask.parts[row]),
                )
            found = every if not found else text.line(f"and i1 {found}, {every}")
        return found

    def _both(self, one: Lanes | None, other: Lanes, *, negated: bool = False) -> Lanes:
        """The lanes of a mask for which a condition holds, or does not hold."""
        text = self._text
        rows = other.shape.rows or (one is not None and one.shape.rows)
        parts = []
        kind = vector("i1", self._lanes)
        for row in range(self._rows if rows else 1):
            part = self._spread(other, row)
            if negated:
                ones = "true" if self._lanes == 1 else "splat (i1 true)"
                part = text.line(f"xor {kind} {part}, {ones}")
            if one is not None:
                part = text.line(f"and {kind} {part}, {self._spread(one, row)}")
            parts.append(part)
        return Lanes(Shape(None, rows), tuple(parts), Scalar.BOOL)

    def _if(self, operation: If) -> None:
        condition = self._value(operation.condition)
        if condition.shape.is_uniform:
            one = self._first(condition, 0)
            results = self._chosen(
                one,
                lambda: self._block(operation.then),
                lambda: self._block(operation.otherwise),
                [self._shapes[each] for each in operation.results],
                [each.type for each in operation.results],
            )
        elif (
            self._mask is None
            and not self._peeled
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
        shapes = [Shape(None, self._shapes[each].rows) for each in operation.results]
        types = [each.type for each in operation.results]
        self._peeled = True

        def together() -> list[Lanes]:
            return self._block(operation.then)

        def apart() -> list[Lanes]:
            return self._parted(operation, condition)

        saved = dict(self._shapes.of)
        results = self._chosen(self._all(condition), together, apart, shapes, types)
        self._shapes.of = saved
        self._peeled = False
        return results

    def _parted(self, operation: If, condition: Lanes) -> list[Lanes]:
        """Both sides under masks; results are selected."""
        outer = self._mask
        inside = self._both(outer, condition)
        outside = self._both(outer, condition, negated=True)
        types = [each.type for each in operation.results]
        first = self._under(inside, operation.then, types)
        second = self._under(outside, operation.otherwise, types)
        self._mask = outer
        results = []
        for result, one, other in zip(operation.results, first, second, strict=True):
            rows = one.shape.rows or other.shape.rows or condition.shape.rows
            parts = []
            for row in range(self._rows if rows else 1):
                kind = vector(TYPES[result.type], self._lanes)
                chosen = self._spread(condition, row)
                a, b = self._spread(one, row), self._spread(other, row)
                parts.append(
                    self._text.line(
                        f"select {vector('i1', self._lanes)} {chosen}, {kind} {a}, {kind} {b}"
                    )
                )
            results.append(Lanes(Shape(None, rows), tuple(parts), result.type))
        return results

    def _under(self, mask: Lanes, block: Block, types: Sequence[Scalar]) -> list[Lanes]:
        """A block under a mask, jumped over where no lane is left."""
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
        types: Sequence[Scalar],
    ) -> list[Lanes]:
        """A branch of the machine: values of both ways are brought to one shape and joined."""
        text = self._text
        one, other, end = (text.new_label(each) for each in ("then", "else", "end"))
        mask = self._mask
        text.split(condition, one, other)
        sides = []
        for label, write in ((one, then), (other, otherwise)):
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
        counter = text.name()

        def going() -> str:
            return text.line(f"icmp {test} {kind} {counter}, {self._first(high, 0)}")

        self._values[operation.counter] = Lanes(UNIFORM, (counter,), operation.counter.type)
        self._looped(
            operation,
            going,
            [(counter, kind, self._first(low, 0), lambda: self._stepped(operation, counter, kind))],
        )

    def _stepped(self, operation: For, counter: str, kind: str) -> str:
        flag = " nsw" if operation.counter.type.is_signed else ""
        return self._text.line(f"add{flag} {kind} {counter}, {operation.step}")

    def _looped(
        self,
        operation: For | While,
        going: Callable[[], str],
        extra: Sequence[tuple[str, str, str, Callable[[], str]]],
    ) -> None:
        """A loop that all lanes of the mask go through together."""
        text = self._text
        before, head, body, end = text.label, *(text.new_label(each) for each in ("h", "b", "e"))
        shapes = [self._shapes[each] for each in operation.carried]
        starts = [
            self._as(self._value(each), shape)
            for each, shape in zip(operation.initial, shapes, strict=True)
        ]
        names = [[text.name() for _ in each] for each in starts]
        before = text.label
        text.jump(head)
        text.begin(head)
        hole = len(text.lines)
        for value, shape, several in zip(operation.carried, shapes, names, strict=True):
            self._values[value] = Lanes(shape, tuple(several), value.type)
        text.split(going(), body, end)
        text.begin(body)
        mask = self._mask
        last = [
            self._as(value, shape)
            for value, shape in zip(self._block(operation.body), shapes, strict=True)
        ]
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
        for result, value in zip(operation.results, operation.carried, strict=True):
            self._values[result] = self._values[value]

    def _while(self, operation: While) -> None:
        if self._shapes.leaving(operation) is None:
            going = operation.carried[0]
            self._looped(operation, lambda: self._first(self._values[going], 0), [])
            return
        self._apart(operation, operation.carried, operation.initial, operation.body, None)

    def _for_apart(self, operation: For, low: Lanes, high: Lanes) -> None:
        """A loop whose lanes count to different ends: the counter is carried like other values."""
        self._apart(operation, operation.carried, operation.initial, operation.body, (low, high))

    def _apart(
        self,
        operation: For | While,
        carried: Sequence[Value],
        initial: Sequence[Operand],
        body: Block,
        bounds: tuple[Lanes, Lanes] | None,
    ) -> None:
        """A loop that lanes leave at different times: it runs, masked, as long as any is left."""
        text, outer = self._text, self._mask
        counting = [operation.counter] if isinstance(operation, For) else []
        values = [*counting, *carried]
        starts = [*([bounds[0]] if bounds else []), *(self._value(each) for each in initial)]
        wide = Shape(None, self._rows > 1)
        first = [self._as(each, wide) for each in starts]
        names = [[text.name() for _ in each] for each in first]
        masks = [text.name() for _ in range(self._rows)]
        ones = "true" if self._lanes == 1 else "splat (i1 true)"
        entered = [ones if outer is None else self._spread(outer, row) for row in range(self._rows)]
        before, head, inside, end = text.label, *(text.new_label(each) for each in ("h", "b", "e"))
        text.jump(head)
        text.begin(head)
        hole = len(text.lines)
        for value, several in zip(values, names, strict=True):
            self._values[value] = Lanes(wide, tuple(several), value.type)
        present = Lanes(wide, tuple(masks), Scalar.BOOL)
        active = self._both(present, self._going(operation, bounds))
        text.split(self._any(active), inside, end)
        text.begin(inside)
        self._mask = active
        last = [self._as(each, wide) for each in self._block(body)]
        self._mask = outer
        if isinstance(operation, For):
            kind = vector(TYPES[operation.counter.type], self._lanes)
            step = str(operation.step)
            if self._lanes > 1:
                step = f"splat ({TYPES[operation.counter.type]} {step})"
            last.insert(0, [text.line(f"add {kind} {each}, {step}") for each in names[0]])
        phis = []
        for value, several, start, after in zip(values, names, first, last, strict=True):
            kind = vector(TYPES[value.type], self._lanes)
            for row, name in enumerate(several):
                chosen = text.line(
                    f"select {vector('i1', self._lanes)} {self._first(active, row)},"
                    f" {kind} {after[row]}, {kind} {name}"
                )
                phis.append((name, kind, start[row], chosen))
        for row, name in enumerate(masks):
            kind = vector("i1", self._lanes)
            phis.append((name, kind, entered[row], self._first(active, row)))
        text.lines[hole:hole] = [
            f"  {name} = phi {kind} [ {start}, %{before} ], [ {after}, %{text.label} ]"
            for name, kind, start, after in phis
        ]
        text.jump(head)
        text.begin(end)
        for result, value in zip(operation.results, carried, strict=True):
            self._values[result] = self._values[value]

    def _going(self, operation: For | While, bounds: tuple[Lanes, Lanes] | None) -> Lanes:
        if isinstance(operation, While):
            return self._values[operation.carried[0]]
        assert bounds is not None
        counter, type = self._values[operation.counter], operation.counter.type
        name = "lt" if operation.step > 0 else "gt"
        compare = Compute(Value(0, Scalar.BOOL), name, (Value(0, type), Value(0, type)))
        parts = tuple(
            self._arithmetic.compute(
                compare, [self._spread(counter, row), self._spread(bounds[1], row)], self._lanes
            )
            for row in range(self._rows)
        )
        return Lanes(Shape(None, self._rows > 1), parts, Scalar.BOOL)

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

    def _linear_threads(self, body: Block) -> None:
        text, lanes, threads = self._text, self._lanes, self._grouping.threads
        with text.loop("0", str(threads), lanes) as number:
            self._group["thread.linear"] = Lanes(Shape(1), (number,), Scalar.I64)
            narrow = text.line(f"trunc i64 {number} to i32")
            flat = Lanes(Shape(1), (narrow,), Scalar.U32)
            self._group["thread.x"] = flat
            wide, high, deep = self._grouping.block
            if high * deep > 1:
                whole, kind = self._spread(flat, 0), vector("i32", lanes)
                take: Callable[[str, str, int], str] = lambda how, one, size: text.line(  # noqa: E731
                    f"{how} {kind} {one}, {size if lanes == 1 else f'splat (i32 {size})'}"
                )
                rest = take("udiv", whole, wide)
                for axis, part in (
                    ("x", take("urem", whole, wide)),
                    ("y", take("urem", rest, high)),
                    ("z", take("udiv", rest, high)),
                ):
                    self._group[f"thread.{axis}"] = Lanes(Shape(None), (part,), Scalar.U32)
            else:
                zero = Lanes(UNIFORM, ("0",), Scalar.U32)
                self._group["thread.y"] = self._group["thread.z"] = zero
            self._masked_body(body, number, threads)

    def _rows_of_threads(self, body: Block) -> None:
        text = self._text
        wide, high, deep = self._grouping.block
        with (
            text.loop("0", str(deep), 1) as z,
            text.loop("0", str(high), self._rows) as y,
            text.loop("0", str(wide), self._lanes) as x,
        ):
            self._group["thread.x"] = Lanes(
                Shape(1), (text.line(f"trunc i64 {x} to i32"),), Scalar.U32
            )
            self._group["thread.z"] = Lanes(
                UNIFORM, (text.line(f"trunc i64 {z} to i32"),), Scalar.U32
            )
            above = text.line(f"mul i64 {z}, {high}")
            rows, numbers = [], []
            for row in range(self._rows):
                own = text.line(f"add nsw i64 {y}, {row}")
                rows.append(text.line(f"trunc i64 {own} to i32"))
                line = text.line(f"add nsw i64 {above}, {own}")
                start = text.line(f"mul nsw i64 {line}, {wide}")
                numbers.append(text.line(f"add nsw i64 {start}, {x}"))
            by_row = self._rows > 1
            self._group["thread.y"] = Lanes(Shape(0, by_row), tuple(rows), Scalar.U32)
            self._group["thread.linear"] = Lanes(Shape(1, by_row), tuple(numbers), Scalar.I64)
            self._masked_body(body, x, wide)

    def _masked_body(self, body: Block, first: str, count: int) -> None:
        """The body for a group of lanes, of which some are beyond the end if they do not divide."""
        self._mask = None
        if count % self._lanes:
            flat = Lanes(Shape(1), (first,), Scalar.I64)
            kind = vector("i64", self._lanes)
            limit = f"splat (i64 {count})" if self._lanes > 1 else str(count)
            there = self._text.line(f"icmp slt {kind} {self._spread(flat, 0)}, {limit}")
            self._mask = Lanes(Shape(None), (there,), Scalar.BOOL)
        self._block(body)
        self._mask = None

    # --- threads together, and the outside

    def _warp(self, operation: Warp) -> Lanes:
        """Exchanges within a warp, whose threads are the lanes of one vector."""
        text, lanes = self._text, self._lanes
        if lanes != _WARP or self._rows != 1 or not self._grouping.linear:
            raise CudaError(f"{operation.at}: a warp has to be one vector")
        values = [self._value(each) for each in operation.operands]
        if not operation.name.startswith("shfl"):
            return self._vote(operation, values[0])
        value, amount, width = values
        kind, element = vector(TYPES[value.type], lanes), TYPES[value.type]
        slot = text.stack(kind)
        text.do(f"store {kind} {self._spread(value, 0)}, ptr {slot}")
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
        source = text.line(
            f"select {vector('i1', lanes)} {moves}, {whole} {target}, {whole} {lane}"
        )
        places = text.line(f"getelementptr {element}, ptr {slot}, {whole} {source}")
        result = text.call(
            f"@llvm.masked.gather.{short(element, lanes)}.v{lanes}p0",
            kind,
            (f"<{lanes} x ptr> align {value.type.size}", places),
            (vector("i1", lanes), "splat (i1 true)"),
            (kind, "poison"),
        )
        return Lanes(Shape(None), (result,), value.type)

    def _vote(self, operation: Warp, condition: Lanes) -> Lanes:
        text = self._text
        held = self._both(self._mask, condition).parts[0]
        bits = text.line(f"bitcast <{_WARP} x i1> {held} to i32")
        if operation.name == "ballot":
            return Lanes(UNIFORM, (bits,), Scalar.U32)
        if operation.name == "any":
            found = text.line(f"icmp ne i32 {bits}, 0")
        else:
            present = self._mask_of(0)
            whole = text.line(f"bitcast <{_WARP} x i1> {present} to i32")
            found = text.line(f"icmp eq i32 {bits}, {whole}")
        return Lanes(UNIFORM, (text.line(f"zext i1 {found} to i32"),), Scalar.I32)

    def _call(self, operation: Call) -> None:
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
                text.do(f"store atomic i64 {number}, ptr {self._failure} monotonic, align 8")
                text.jump(after)
                text.begin(after)
            case "exit":
                pass  # who has returned is known by a flag
            case "printf":
                self._printf(operation)
            case "clock" if operation.result is not None:
                now = text.call("@llvm.readcyclecounter", "i64")
                self._values[operation.result] = Lanes(UNIFORM, (now,), Scalar.I64)
            case _:
                raise CudaError(f"{operation.at}: {operation.name} cannot be called by a kernel")

    def _printf(self, operation: Call) -> None:
        text, lanes = self._text, self._lanes
        data = operation.text.encode() + b"\0"
        name = f"@format{len(text.globals)}"
        bytes_of = "".join(f"\\{byte:02X}" for byte in data)
        text.globals.append(f'{name} = private constant [{len(data)} x i8] c"{bytes_of}"')
        text.declarations.add("declare i32 @printf(ptr, ...)")
        values = [self._value(each) for each in operation.operands]
        for row in range(self._rows):
            spread = [self._spread(each, row) for each in values]

            def one(lane: str, spread: list[str] = spread) -> None:
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

            self._each_lane(self._mask_of(row), one)

    def _passed(self, type: Scalar, part: str) -> str:
        """An argument of a function with any number of them, promoted as C does."""
        text, kind = self._text, TYPES[type]
        if type in (Scalar.F16, Scalar.F32):
            return f"double {text.line(f'fpext {kind} {part} to double')}"
        if type.size < 4:
            how = "sext" if type.is_signed else "zext"
            return f"i32 {text.line(f'{how} {kind} {part} to i32')}"
        return f"{kind} {part}"


def _symbol(name: str) -> str:
    return "".join(each if each.isalnum() or each == "_" else "_" for each in name)


def _memory_type(type: Scalar) -> str:
    return "i8" if type is Scalar.BOOL else TYPES[type]


def _rounded(size: int | None) -> int:
    return -(-(size or 0) // _ALIGN) * _ALIGN


def _size(block: Block) -> int:
    return sum(1 for _ in walk(block))
