"""Values as lanes, and how lanes read and write memory: at once, one by one, under a mask."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ..ir.operations import (
    Address,
    Alloc,
    Atomic,
    Compute,
    ConstantOperand,
    IrValue,
    Load,
    MemorySpace,
    Operand,
    ParallelFunction,
    Store,
    Warp,
    walk,
)
from ..ir.types import ScalarType
from .arithmetic import VectorArithmetic
from .llvm_text import TYPES, KernelText, ascending, literal, short, vector
from .shapes import UNIFORM, Grouping, Shape, Shapes

_ALIGN = 64
_WARP = 32
_WORD = 64
"""Bits, at least as many as a vector has lanes."""


@dataclass(frozen=True, slots=True)
class Lanes:
    """A value of a group of threads: its shape, and a text, or one for each row."""

    shape: Shape
    parts: tuple[str, ...]
    type: ScalarType


@dataclass(frozen=True, slots=True)
class Presumption:
    """What a value without a step is where an index is not clamped: a value that has one.

    Of `left = x < low ? low : x` in neighbouring threads, all but a few are `x`. So `a[left]` is
    read at once if those few are not among the lanes, which is looked at each time.
    """

    lanes: Lanes
    holds: Lanes
    """In which lanes it is that."""


class Accesses:
    """What is known while a kernel is printed: the values so far, the mask, the scratch memory."""

    def __init__(self, function: ParallelFunction, grouping: Grouping, contract: bool) -> None:
        self._function = function
        self._grouping = grouping
        self._text = KernelText()
        self._arithmetic = VectorArithmetic(self._text, contract)
        self._shapes = Shapes(grouping, function.body)
        self._shapes.block(function.body)
        self._values: dict[IrValue, Lanes] = {}
        self._presumed: dict[IrValue, Presumption] = {}
        self._mask: Lanes | None = None
        """The lanes that take part; all of them without one."""
        self._lanes = grouping.lanes
        self._rows = grouping.rows
        self._inside = False
        """Whether this is a loop over threads."""
        self._shared: set[IrValue] = set()
        self._scratch = 0
        self._nothing = ""
        self._whole: dict[tuple[str, ...], str] = {}
        """Of conditions, whether all lanes meet them, where few numbers say so."""

    def _value(self, operand: Operand) -> Lanes:
        if isinstance(operand, ConstantOperand):
            return Lanes(UNIFORM, (literal(operand),), operand.type)
        return self._values[operand]

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
        if value.type is ScalarType.PTR and stride:
            steps = ascending("i64", lanes, stride)
            return text.line(f"getelementptr i8, ptr {part}, <{lanes} x i64> {steps}")
        whole = vector(kind, lanes)
        first = text.line(f"insertelement {whole} poison, {kind} {part}, i64 0")
        order = f"<{lanes} x i32> zeroinitializer"
        same = text.line(f"shufflevector {whole} {first}, {whole} poison, {order}")
        if not stride:
            return same
        return text.line(f"add {whole} {same}, {ascending(kind, lanes, stride)}")

    # --- memory

    def _alloc(self, operation: Alloc) -> None:
        text = self._text
        if operation.space is MemorySpace.PRIVATE:
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
                ScalarType.PTR,
            )
            return
        if operation.space is MemorySpace.SHARED:
            self._shared.add(operation.result)
        if operation.size is None:
            end = sum(
                _rounded(item.size)
                for item in walk(self._function.body)
                if isinstance(item, Alloc) and item.space is not MemorySpace.PRIVATE and item.size
            )
            base = text.line(f"getelementptr i8, ptr %scratch, i64 {end}")
        else:
            base = text.line(f"getelementptr i8, ptr %scratch, i64 {self._scratch}")
            self._scratch += _rounded(operation.size)
        self._values[operation.result] = Lanes(UNIFORM, (base,), ScalarType.PTR)

    def _pointer(self, address: Address) -> tuple[Lanes, int | None]:
        """The addresses of an access, and their step in bytes if there is one."""
        return self._addressed(address, self._value(address.base), self._value(address.index))

    def _addressed(self, address: Address, base: Lanes, index: Lanes) -> tuple[Lanes, int | None]:
        rows = base.shape.rows or index.shape.rows
        first, second = base.shape.stride, index.shape.stride
        stride = None if first is None or second is None else first + second * address.scale
        parts = [
            self._located(address, base, index, stride is None, row)
            for row in range(self._rows if rows else 1)
        ]
        return Lanes(Shape(stride, rows), tuple(parts), ScalarType.PTR), stride

    def _located(self, address: Address, base: Lanes, index: Lanes, spread: bool, row: int) -> str:
        text = self._text
        lanes = self._lanes if spread else 1
        place = self._first(base, row)
        if address.index == ConstantOperand(0, ScalarType.I64):
            offset = str(address.offset) if lanes == 1 else f"splat (i64 {address.offset})"
        else:
            number = self._spread(index, row) if spread else self._first(index, row)
            kind = vector("i64", lanes)
            factor = str(address.scale) if lanes == 1 else f"splat (i64 {address.scale})"
            offset = text.line(f"mul nsw {kind} {number}, {factor}")
            if address.offset:
                further = str(address.offset) if lanes == 1 else f"splat (i64 {address.offset})"
                offset = text.line(f"add nsw {kind} {offset}, {further}")
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
        presumed = self._presumed_pointer(operation.address, type) if stride is None else None
        if presumed is None:
            parts = [self._loaded(pointer, stride, type, row) for row in range(count)]
        else:
            parts = [self._loaded_at_once(presumed, pointer, type, row) for row in range(count)]
        return Lanes(shape, tuple(parts), type)

    def _presumed_pointer(self, address: Address, type: ScalarType) -> Presumption | None:
        """Addresses of elements side by side, and in which lanes they are those of an access."""
        operands = (address.base, address.index)
        several = [self._presumed.get(item) for item in operands if isinstance(item, IrValue)]
        presumptions = [item for item in several if item is not None]
        base, index = (self._expected(item) for item in operands)
        if not presumptions or None in (base.shape.stride, index.shape.stride):
            return None
        if (base.shape.stride or 0) + (index.shape.stride or 0) * address.scale != type.size:
            return None
        pointer, _ = self._addressed(address, base, index)
        return Presumption(pointer, self._together(presumptions))

    def _expected(self, operand: Operand) -> Lanes:
        """A value, or what it is presumed to be."""
        presumed = self._presumed.get(operand) if isinstance(operand, IrValue) else None
        return self._value(operand) if presumed is None else presumed.lanes

    def _together(self, presumptions: Sequence[Presumption]) -> Lanes:
        """The lanes in which several presumptions hold."""
        held = presumptions[0].holds
        for item in presumptions[1:]:
            held = held if item.holds == held else self._both(held, item.holds)
        return held

    def _at_once(
        self,
        presumed: Presumption,
        pointer: Lanes,
        row: int,
        do: Callable[[Lanes, int | None], str],
    ) -> list[tuple[str, str]]:
        """Does an access side by side if the lanes that take part presume rightly, apart if not.

        Gives what it gave in either case, each with the label where that ends.
        """
        text, holds = self._text, presumed.holds
        if holds.shape.stride == 0:
            right = self._first(holds, row)
        else:
            lost = self._both(self._mask, holds, negated=True)
            subset = Lanes(Shape(None), (self._spread(lost, row),), ScalarType.BOOL)
            right = text.line(f"xor i1 {self._any(subset)}, true")
        side, apart, end = (text.new_label(item) for item in ("side", "apart", "end"))
        text.split(right, side, apart)
        ways = []
        stride = presumed.lanes.shape.stride
        for label, places, step in ((side, presumed.lanes, stride), (apart, pointer, None)):
            text.begin(label)
            ways.append((do(places, step), text.label))
            text.jump(end)
        text.begin(end)
        return ways

    def _loaded_at_once(
        self, presumed: Presumption, pointer: Lanes, type: ScalarType, row: int
    ) -> str:
        ways = self._at_once(
            presumed, pointer, row, lambda places, step: self._loaded(places, step, type, row)
        )
        sides = ", ".join(f"[ {value}, %{label} ]" for value, label in ways)
        return self._text.line(f"phi {vector(TYPES[type], self._lanes)} {sides}")

    def _presume(self, operation: Compute, result: Lanes) -> None:
        """Notes what a result without a step is in most lanes, if that has one."""
        self._presumed.pop(operation.result, None)
        if result.shape.stride is not None or self._lanes == 1:
            return
        if not (result.type.is_integer or result.type is ScalarType.PTR):
            return
        if operation.name in ("select", "min", "max"):
            presumed = self._presumed_arm(operation)
        elif operation.name == "cast":
            presumed = self._presumed_cast(operation)
        else:
            presumed = self._presumed_result(operation)
        if presumed is not None:
            self._presumed[operation.result] = presumed

    def _presumed_arm(self, operation: Compute) -> Presumption | None:
        """Of a choice the arm that has a step other than 0; of two such, the second."""
        arms = operation.operands[-2:]
        for place in (1, 0):
            lanes = self._expected(arms[place])
            if not lanes.shape.stride:
                continue
            if operation.name == "select":
                condition = self._value(operation.operands[0])
                holds = self._both(None, condition, negated=place == 1)
            else:
                other = self._value(arms[1 - place])
                holds = self._ordered(operation.name, self._value(arms[place]), other)
            presumed = self._presumed.get(arm) if isinstance(arm := arms[place], IrValue) else None
            return Presumption(lanes, self._both(presumed.holds if presumed else None, holds))
        return None

    def _ordered(self, name: str, first: Lanes, second: Lanes) -> Lanes:
        """In which lanes the first number is the least, or the greatest."""
        truth, type = IrValue(0, ScalarType.BOOL), first.type
        compare = Compute(
            truth, "le" if name == "min" else "ge", (IrValue(0, type), IrValue(0, type))
        )
        rows = first.shape.rows or second.shape.rows
        parts = tuple(
            self._arithmetic.compute(
                compare, [self._spread(first, row), self._spread(second, row)], self._lanes
            )
            for row in range(self._rows if rows else 1)
        )
        return Lanes(Shape(None, rows), parts, ScalarType.BOOL)

    def _presumed_cast(self, operation: Compute) -> Presumption | None:
        """Of an unsigned number made longer: no lane is where the shorter one begins at 0 again."""
        source = self._expected(operation.operands[0])
        stride, type = source.shape.stride, source.type
        if not stride or not type.is_integer or type.is_signed or type.size < 4:
            return self._presumed_result(operation)
        text, kind = self._text, TYPES[type]
        span = stride * (self._lanes - 1)
        limit = (1 << 8 * type.size) - 1 - span if span > 0 else -span
        rows = self._rows if source.shape.rows else 1
        firsts = [self._first(source, row) for row in range(rows)]
        test = f"icmp {'ule' if span > 0 else 'uge'} {kind}"
        within = tuple(text.line(f"{test} {first}, {limit}") for first in firsts)
        parts = tuple(self._arithmetic.compute(operation, [first], 1) for first in firsts)
        several = [
            self._presumed.get(item) for item in operation.operands if isinstance(item, IrValue)
        ]
        holds = Lanes(Shape(0, source.shape.rows), within, ScalarType.BOOL)
        for item in several:
            holds = holds if item is None else self._both(holds, item.holds)
        shape = Shape(stride, source.shape.rows)
        return Presumption(Lanes(shape, parts, operation.result.type), holds)

    def _presumed_result(self, operation: Compute) -> Presumption | None:
        """What an operation gives of what its operands are presumed to be."""
        several = [
            self._presumed.get(item) for item in operation.operands if isinstance(item, IrValue)
        ]
        presumptions = [item for item in several if item is not None]
        if not presumptions:
            return None
        values = [self._expected(item) for item in operation.operands]
        stride = self._shapes.stride(operation, [item.shape for item in values])
        if stride is None:
            return None
        rows = any(item.shape.rows for item in values)
        parts = tuple(
            self._arithmetic.compute(operation, [self._first(item, row) for item in values], 1)
            for row in range(self._rows if rows else 1)
        )
        return Presumption(
            Lanes(Shape(stride, rows), parts, operation.result.type), self._together(presumptions)
        )

    def _loaded(self, pointer: Lanes, stride: int | None, type: ScalarType, row: int) -> str:
        text, lanes = self._text, self._lanes
        element, size = memory_type(type), type.size
        if stride == 0:
            place = self._first(pointer, row)
            # A row of which no lane takes part may have an address outside of all arrays.
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
            text.first.append(f"store i64 0, ptr {self._nothing}")
        subset = text.call(
            f"@llvm.vector.reduce.or.v{lanes}i1", "i1", (vector("i1", lanes), self._mask_of(row))
        )
        return text.line(f"select i1 {subset}, ptr {place}, ptr {self._nothing}")

    def _pointers(self, pointer: Lanes, row: int) -> str:
        return self._spread(pointer, row)

    def _from_memory(self, value: str, type: ScalarType, lanes: int) -> str:
        if type is not ScalarType.BOOL:
            return value
        zero = "0" if lanes == 1 else "zeroinitializer"
        return self._text.line(f"icmp ne {vector('i8', lanes)} {value}, {zero}")

    def _to_memory(self, value: str, type: ScalarType, lanes: int) -> str:
        if type is not ScalarType.BOOL:
            return value
        return self._text.line(f"zext {vector('i1', lanes)} {value} to {vector('i8', lanes)}")

    def _store(self, operation: Store) -> None:
        type = operation.type
        value = self._value(operation.value)
        pointer, stride = self._pointer(operation.address)
        text, lanes = self._text, self._lanes
        element, size = memory_type(type), type.size
        mask_rows = self._mask is not None and self._mask.shape.rows
        rows = pointer.shape.rows or value.shape.rows or mask_rows
        if not self._inside or (stride == 0 and value.shape.stride == 0 and not rows):
            stored = self._to_memory(self._first(value, 0), type, 1)
            place = self._first(pointer, 0)
            text.emit(f"store {element} {stored}, ptr {place}, align {size}")
            return
        presumed = self._presumed_pointer(operation.address, type) if stride is None else None
        for row in range(self._rows if rows else 1):
            stored = self._to_memory(self._spread(value, row), type, lanes)

            def put(places: Lanes, step: int | None, stored: str = stored, row: int = row) -> str:
                self._stored(places, step, type, stored, row)
                return ""

            if presumed is None:
                put(pointer, stride)
            else:
                self._at_once(presumed, pointer, row, put)

    def _stored(
        self, pointer: Lanes, stride: int | None, type: ScalarType, stored: str, row: int
    ) -> None:
        text, lanes = self._text, self._lanes
        element, size = memory_type(type), type.size
        kind = vector(element, lanes)
        if stride == size and self._mask is None:
            text.emit(f"store {kind} {stored}, ptr {self._first(pointer, row)}, align {size}")
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
        if self._grouping.is_single:
            number = None if compare is None else compare.parts[0]
            numbers = (pointer.parts[0], value.parts[0], number)
            return Lanes(UNIFORM, (self._exchanged(operation, *numbers, exclusive),), type)
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
        text.emit(f"store {kind} zeroinitializer, ptr {slot}")

        def exchange(lane: str) -> None:
            place = text.line(f"extractelement <{lanes} x ptr> {pointers}, i64 {lane}")
            number = text.line(f"extractelement {kind} {values}, i64 {lane}")
            expected = None
            if compares is not None:
                expected = text.line(f"extractelement {kind} {compares}, i64 {lane}")
            before = self._exchanged(operation, place, number, expected, exclusive)
            cell = text.line(f"getelementptr {type}, ptr {slot}, i64 {lane}")
            text.emit(f"store {type} {before}, ptr {cell}")

        self._each_lane(mask, exchange)
        return text.line(f"load {kind}, ptr {slot}")

    def _each_lane(self, mask: str, first: Callable[[str], None]) -> None:
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
            first(lane)
            text.jump(after)
            text.begin(after)

    @contextmanager
    def _lanes_in_turn(self) -> Iterator[str]:
        """A loop over the lanes of the mask, in which nothing is done for the others."""
        text, lanes = self._text, self._lanes
        mask = text.line(f"bitcast {vector('i1', lanes)} {self._mask_of(0)} to i{lanes}")
        bits = mask if lanes == _WORD else text.line(f"zext i{lanes} {mask} to i{_WORD}")
        before, head, body, end = text.label, *(text.new_label(item) for item in "hbe")
        remaining, following = text.new_name(), text.new_name()
        text.jump(head)
        text.begin(head)
        hole = len(text.lines)
        text.lines.append("")
        text.split(text.line(f"icmp ne i{_WORD} {remaining}, 0"), body, end)
        text.begin(body)
        word = f"i{_WORD}"
        lane = text.call(f"@llvm.cttz.{word}", word, (word, remaining), ("i1", "true"))
        below = text.line(f"sub {word} {remaining}, 1")
        text.emit(f"{following} = and {word} {remaining}, {below}")
        yield lane
        text.lines[hole] = (
            f"  {remaining} = phi {word} [ {bits}, %{before} ], [ {following}, %{text.label} ]"
        )
        text.jump(head)
        text.begin(end)

    def _slot(self, value: Lanes) -> str:
        """Memory on the stack that holds a value of each lane."""
        text, kind = self._text, vector(memory_type(value.type), self._lanes)
        slot = text.stack(kind)
        whole = self._to_memory(self._spread(value, 0), value.type, self._lanes)
        text.emit(f"store {kind} {whole}, ptr {slot}")
        return slot

    def _of_lane(self, value: Lanes, slot: str | None, lane: str) -> Lanes:
        """The number of one lane: what its slot holds, or so many steps from the first."""
        text, type, stride = self._text, value.type, value.shape.stride
        first, kind = value.parts[0], TYPES[value.type]
        if slot is not None:
            place = text.line(f"getelementptr {memory_type(type)}, ptr {slot}, i64 {lane}")
            number = text.line(f"load {memory_type(type)}, ptr {place}")
            return Lanes(UNIFORM, (self._from_memory(number, type, 1),), type)
        if not stride:
            return Lanes(UNIFORM, (first,), type)
        distance = text.line(f"mul i64 {lane}, {stride}")
        if type is ScalarType.PTR:
            number = text.line(f"getelementptr i8, ptr {first}, i64 {distance}")
        else:
            if type.size < 8:
                distance = text.line(f"trunc i64 {distance} to {kind}")
            number = text.line(f"add {kind} {first}, {distance}")
        return Lanes(UNIFORM, (number,), type)

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
                text.emit(f"store {kind} {after}, ptr {place}")
                return before
            name = {"inc": "uinc_wrap", "dec": "udec_wrap"}[operation.name]
            return text.line(f"atomicrmw {name} ptr {place}, {kind} {value} monotonic")
        if compare is not None:
            pair = text.line(
                f"cmpxchg ptr {place}, {kind} {compare}, {kind} {value} monotonic monotonic"
            )
            return text.line(f"extractvalue {{ {kind}, i1 }} {pair}, 0")
        # LLVM has the others under names of its own: by sign for whole numbers, by type for floats.
        name = operation.name
        if name == "exch":
            name = "xchg"
        elif type.is_float:
            name = f"f{name}"
        elif name in ("min", "max") and not type.is_signed:
            name = f"u{name}"
        return text.line(f"atomicrmw {name} ptr {place}, {kind} {value} monotonic")

    def _combined(
        self, name: str, type: ScalarType, before: str, value: str, compare: str | None
    ) -> str:
        text, kind = self._text, TYPES[type]
        if name == "exch":
            return value
        if name == "cas":
            same = text.line(f"icmp eq {kind} {before}, {compare}")
            return text.line(f"select i1 {same}, {kind} {value}, {kind} {before}")
        if name == "inc":
            over = text.line(f"icmp uge {kind} {before}, {value}")
            further = text.line(f"add {kind} {before}, 1")
            return text.line(f"select i1 {over}, {kind} 0, {kind} {further}")
        if name == "dec":
            zero = text.line(f"icmp eq {kind} {before}, 0")
            over = text.line(f"icmp ugt {kind} {before}, {value}")
            either = text.line(f"or i1 {zero}, {over}")
            less = text.line(f"sub {kind} {before}, 1")
            return text.line(f"select i1 {either}, {kind} {value}, {kind} {less}")
        result = IrValue(0, type)
        operation = Compute(result, name, (IrValue(0, type), IrValue(0, type)))
        return self._arithmetic.compute(operation, [before, value], 1)

    def _shifted(self, local: str, type: ScalarType, far: str, shift: int) -> str:
        """The lanes so far up or down: the vector is stored, and read from that far beside."""
        text, lanes = self._text, self._lanes
        element, kind = TYPES[type], vector(TYPES[type], lanes)
        slot = text.stack(f"[{3 * lanes} x {element}]")
        middle = text.line(f"getelementptr {element}, ptr {slot}, i64 {lanes}")
        text.emit(f"store {kind} {local}, ptr {middle}")
        least = text.call("@llvm.umin.i32", "i32", ("i32", far), ("i32", str(lanes)))
        wide = text.line(f"zext i32 {least} to i64")
        offset = wide if shift > 0 else text.line(f"sub nsw i64 0, {wide}")
        start = text.line(f"getelementptr {element}, ptr {middle}, i64 {offset}")
        return text.line(f"load {kind}, ptr {start}, align {type.size}")

    def _picked(self, local: str, type: ScalarType, target: str) -> str:
        """For each lane the value of another one; which may be any number, taken modulo."""
        text, lanes = self._text, self._lanes
        element, kind, whole = TYPES[type], vector(TYPES[type], lanes), vector("i32", lanes)
        slot = text.stack(kind)
        text.emit(f"store {kind} {local}, ptr {slot}")
        inside = text.line(f"and {whole} {target}, splat (i32 {lanes - 1})")
        places = text.line(f"getelementptr {element}, ptr {slot}, {whole} {inside}")
        return text.call(
            f"@llvm.masked.gather.{short(element, lanes)}.v{lanes}p0",
            kind,
            (f"<{lanes} x ptr> align {type.size}", places),
            (vector("i1", lanes), "splat (i1 true)"),
            (kind, "poison"),
        )

    def _vote(self, operation: Warp, condition: Lanes) -> Lanes:
        text = self._text
        held = self._both(self._mask, condition).parts[0]
        bits = text.line(f"bitcast <{_WARP} x i1> {held} to i32")
        if operation.name == "ballot":
            return Lanes(UNIFORM, (bits,), ScalarType.U32)
        if operation.name == "any":
            collected = text.line(f"icmp ne i32 {bits}, 0")
        else:
            present = self._mask_of(0)
            whole = text.line(f"bitcast <{_WARP} x i1> {present} to i32")
            collected = text.line(f"icmp eq i32 {bits}, {whole}")
        return Lanes(UNIFORM, (text.line(f"zext i1 {collected} to i32"),), ScalarType.I32)

    def _any(self, mask: Lanes) -> str:
        """Whether a lane of any row is in a mask."""
        return self._reduced("or", mask)

    def _all(self, mask: Lanes) -> str:
        """Whether all lanes of all rows are in a mask."""
        return self._whole.get(mask.parts) or self._reduced("and", mask)

    def _note_extreme(self, operation: Compute, operands: Sequence[Lanes], value: Lanes) -> None:
        """Notes when all lanes meet a condition: of `i + lane < n`, if the last lane does."""
        text = self._text
        if operation.name == "and":
            both = [self._whole.get(item.parts) for item in operands]
            if both[0] and both[1]:
                self._whole[value.parts] = text.line(f"and i1 {both[0]}, {both[1]}")
            return
        left, right = operands if len(operands) == 2 else (value, value)
        first, second, type = left.shape.stride, right.shape.stride, left.type
        if operation.name not in _COMPARISONS or not type.is_integer or not type.is_signed:
            return
        if first is None or second is None or type.size < 4:
            return
        below = operation.name in ("lt", "le")
        lane = self._lanes - 1 if (first > second) == below else 0
        collected = ""
        for row in range(len(value.parts)):
            places = []
            for item, stride in ((left, first), (right, second)):
                wide = self._first(item, row)
                if type.size < 8:
                    wide = text.line(f"sext {TYPES[type]} {wide} to i64")
                places.append(text.line(f"add nsw i64 {wide}, {stride * lane}"))
            test = text.line(f"icmp s{operation.name} i64 {places[0]}, {places[1]}")
            collected = text.line(f"and i1 {collected}, {test}") if collected else test
        self._whole[value.parts] = collected

    def _reduced(self, operator: str, mask: Lanes) -> str:
        text, lanes = self._text, self._lanes
        collected = ""
        for row in range(self._rows if mask.shape.rows else 1):
            if mask.shape.stride == 0 or lanes == 1:
                subset = self._first(mask, row)
            else:
                subset = text.call(
                    f"@llvm.vector.reduce.{operator}.v{lanes}i1",
                    "i1",
                    (vector("i1", lanes), mask.parts[row]),
                )
            collected = text.line(f"{operator} i1 {collected}, {subset}") if collected else subset
        return collected

    def _both(self, first: Lanes | None, second: Lanes, *, negated: bool = False) -> Lanes:
        """The lanes of a mask for which a condition holds, or does not hold."""
        text = self._text
        rows = second.shape.rows or (first is not None and first.shape.rows)
        parts = []
        kind = vector("i1", self._lanes)
        for row in range(self._rows if rows else 1):
            part = self._spread(second, row)
            if negated:
                ones = "true" if self._lanes == 1 else "splat (i1 true)"
                part = text.line(f"xor {kind} {part}, {ones}")
            if first is not None:
                part = text.line(f"and {kind} {part}, {self._spread(first, row)}")
            parts.append(part)
        return Lanes(Shape(None, rows), tuple(parts), ScalarType.BOOL)


_COMPARISONS = frozenset({"lt", "le", "gt", "ge"})


def memory_type(type: ScalarType) -> str:
    """What LLVM calls a type in memory."""
    return "i8" if type is ScalarType.BOOL else TYPES[type]


def _rounded(size: int | None) -> int:
    return -(-(size or 0) // _ALIGN) * _ALIGN
