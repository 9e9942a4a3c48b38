"""A builder of one LLVM function as text: typed values, loops, branches, value numbering.

The problem: printers describe what to compute, often the same address or constant in several
places, and LLVM takes long over text that says everything twice. `FunctionBuilder.pure` remembers
each instruction by its text and returns the value that it gave before, if that value dominates the
place where it is asked for again. Integer arithmetic on Python integers is done at once and prints
nothing.

Example: `builder.add(builder.multiply(i, 16), 3)` with i = `%v15` prints `%v20 = mul nsw i64 %v15,
16` and `%v21 = add nsw i64 %v20, 3`, and returns `%v21`; asked again in the same loop, it prints
nothing and returns `%v21`; asked with i = 2, it returns 35.

Invariants: a value is visible in the block that computed it and in blocks nested in it, never
behind them (`_scope`), which is the dominance that LLVM requires, conservatively. `new` is for
instructions whose result may change from place to place, such as loads. Loops are bottom-tested
behind one test of the entry, so bodies run at least once and values carried by `phi` are defined.

Cost: linear in the text; a look-up per open scope for each pure instruction.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class LlvmValue:
    """The result of an instruction: its name, and its type as element and lanes."""

    text: str
    scalar: str
    lanes: int = 1

    @property
    def type(self) -> str:
        """The LLVM type, such as `<16 x float>`."""
        return typed(self.scalar, self.lanes)

    @property
    def is_float(self) -> bool:
        """Whether the elements are floats that are computed in."""
        return self.scalar in ("float", "double")

    def __str__(self) -> str:
        return f"{self.type} {self.text}"


LlvmInteger: TypeAlias = LlvmValue | int
"""An integer: a Python one known now, or an `i64` known at run time."""


def typed(scalar: str, lanes: int) -> str:
    """The LLVM type of so many lanes of a scalar type, such as `<16 x float>`."""
    return scalar if lanes == 1 else f"<{lanes} x {scalar}>"


def suffix(scalar: str, lanes: int) -> str:
    """The type as it stands in names of intrinsics, such as `v16f32`."""
    short = {"half": "f16", "float": "f32", "double": "f64", "ptr": "p0"}.get(scalar, scalar)
    return short if lanes == 1 else f"v{lanes}{short}"


def splat(scalar: str, text: str, lanes: int) -> str:
    """A constant with the same text in every lane."""
    return text if lanes == 1 else f"splat ({scalar} {text})"


def literal(value: float, scalar: str) -> str:
    """A number as LLVM reads it; floats as their bits, rounded to their type first."""
    if scalar == "i1":
        return "true" if value else "false"
    if scalar == "half":
        return f"0xH{struct.pack('>e', _rounded(value, '<e')).hex().upper()}"
    if scalar not in ("float", "double"):
        return str(int(value))
    # LLVM reads a float literal as the bits of a double, exactly representable or refused, so f32
    # is rounded first.
    near = _rounded(value, "<f") if scalar == "float" else float(value)
    return f"0x{struct.pack('>d', near).hex().upper()}"


def _rounded(value: float, form: str) -> float:
    """The nearest number of a `struct` format of floats; infinity beyond the largest."""
    try:
        return float(struct.unpack(form, struct.pack(form, value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def constant(value: float, scalar: str, lanes: int = 1) -> LlvmValue:
    """A number in all lanes."""
    return LlvmValue(splat(scalar, literal(value, scalar), lanes), scalar, lanes)


def i64(value: LlvmInteger) -> LlvmValue:
    """An integer as a `value`."""
    return value if isinstance(value, LlvmValue) else LlvmValue(str(value), "i64")


_STACK_SLOT = "%{name} = alloca [{size} x i8], align 64"
_MOST_VISIBLE_NESTING = 2
"""Loops enclosing at least this many nested loops hide their counter from LLVM, see
`_opaque_counter`."""


class FunctionText:
    """The lines of one function: fresh names and labels, basic blocks, and what it declares."""

    def __init__(self, begin: str = "entry") -> None:
        self.lines: list[str] = [f"{begin}:"]
        self.declared: set[str] = set()
        """Declarations of intrinsics that the text needs."""
        self.first: list[str] = []
        """Instructions before all others."""
        self.label = begin
        """The block that lines go to."""
        self._stack_sizes: dict[str, int] = {}
        self._count = 0

    @property
    def text(self) -> list[str]:
        """All lines, with stack memory and entry instructions first."""
        first, *body = self.lines
        rooms = self._stack_sizes.items()
        begin = [*(_STACK_SLOT.format(name=name, size=size) for name, size in rooms), *self.first]
        return [first, *(f"  {line}" for line in begin), *body]

    def stack_memory(self, name: str, size: int) -> LlvmValue:
        """Stack memory of this name, of at least `size` bytes, aligned to a cache line; one area
        per name and function."""
        self._stack_sizes[name] = max(size, self._stack_sizes.get(name, 0))
        return LlvmValue(f"%{name}", "ptr")

    def emit(self, line: str) -> None:
        """Appends an instruction without a result."""
        self.lines.append(f"  {line}")

    def new_name(self) -> str:
        """A fresh name of a value."""
        self._count += 1
        return f"%v{self._count}"

    def new_label(self, kind: str) -> str:
        """A fresh label."""
        self._count += 1
        return f"{kind}{self._count}"

    def begin(self, label: str) -> None:
        """Starts a basic block."""
        self.label = label
        self.lines.append(f"{label}:")


class FunctionBuilder(FunctionText):
    """Builds the body of a function, instruction by instruction.

    Without value `numbering`, `pure` prints an instruction as often as it is asked for.
    """

    def __init__(self, begin: str = "entry", *, numbering: bool = True) -> None:
        super().__init__(begin)
        self._numbering = numbering
        self._depth = 0
        """How many loops deep what was written of the open loop is."""
        self._scopes: list[dict[tuple[str, str, int], LlvmValue]] = [{}]

    def new(self, text: str, scalar: str, lanes: int = 1) -> LlvmValue:
        """Appends an instruction whose result depends on where it runs, such as a load."""
        value = LlvmValue(self.new_name(), scalar, lanes)
        self.emit(f"{value.text} = {text}")
        return value

    def pure(self, text: str, scalar: str, lanes: int = 1) -> LlvmValue:
        """The result of an instruction that gives the same wherever it runs, appended unless it is
        visible already."""
        if not self._numbering:
            return self.new(text, scalar, lanes)
        key = (text, scalar, lanes)
        # Innermost first: most repetitions are in the same block.
        for scope in reversed(self._scopes):
            if key in scope:
                return scope[key]
        value = self._scopes[-1][key] = self.new(text, scalar, lanes)
        return value

    def call(self, name: str, scalar: str, lanes: int, arguments: Sequence[str]) -> LlvmValue:
        """The result of a pure intrinsic, which is declared with it."""
        types = ", ".join(_type_of(argument) for argument in arguments)
        result = typed(scalar, lanes)
        self.declared.add(f"declare {result} @{name}({types})")
        return self.pure(f"call {result} @{name}({', '.join(arguments)})", scalar, lanes)

    def call_void(self, name: str, arguments: Sequence[str]) -> None:
        """Calls an intrinsic without a result, which is declared with it."""
        types = ", ".join(_type_of(argument) for argument in arguments)
        self.declared.add(f"declare void @{name}({types})")
        self.emit(f"call void @{name}({', '.join(arguments)})")

    def add(self, a: LlvmInteger, b: LlvmInteger) -> LlvmInteger:
        """The sum of two integers."""
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if isinstance(a, int):
            a, b = b, a
        if b == 0:
            return a
        return self.pure(f"add nsw i64 {_text(a)}, {_text(b)}", "i64")

    def subtract(self, a: LlvmInteger, b: LlvmInteger) -> LlvmInteger:
        """The difference of two integers."""
        if isinstance(b, int):
            return self.add(a, -b)
        return self.pure(f"sub nsw i64 {_text(a)}, {_text(b)}", "i64")

    def multiply(self, a: LlvmInteger, b: int) -> LlvmInteger:
        """The product of an integer and a constant."""
        if isinstance(a, int):
            return a * b
        if b == 0:
            return 0
        return a if b == 1 else self.pure(f"mul nsw i64 {_text(a)}, {b}", "i64")

    def divide(self, a: LlvmInteger, b: int) -> LlvmInteger:
        """The quotient of a non-negative integer and a constant."""
        if isinstance(a, int):
            return a // b
        return a if b == 1 else self.pure(f"udiv i64 {_text(a)}, {b}", "i64")

    def remainder(self, a: LlvmInteger, b: int) -> LlvmInteger:
        """The remainder of a non-negative integer and a constant."""
        if isinstance(a, int):
            return a % b
        return 0 if b == 1 else self.pure(f"urem i64 {_text(a)}, {b}", "i64")

    def minimum(self, a: LlvmInteger, b: LlvmInteger) -> LlvmInteger:
        """The smaller of two integers."""
        if isinstance(a, int) and isinstance(b, int):
            return min(a, b)
        return self.call("llvm.smin.i64", "i64", 1, [f"i64 {_text(a)}", f"i64 {_text(b)}"])

    def below(self, a: LlvmInteger, b: LlvmInteger) -> LlvmValue | bool:
        """Whether `a` is less than `b`."""
        if isinstance(a, int) and isinstance(b, int):
            return a < b
        return self.pure(f"icmp slt i64 {_text(a)}, {_text(b)}", "i1")

    def equal(self, a: LlvmInteger, b: LlvmInteger) -> LlvmValue | bool:
        """Whether two integers are equal."""
        if isinstance(a, int) and isinstance(b, int):
            return a == b
        return self.pure(f"icmp eq i64 {_text(a)}, {_text(b)}", "i1")

    def select(self, condition: LlvmValue | bool, a: LlvmInteger, b: LlvmInteger) -> LlvmInteger:
        """`a` where the condition holds, else `b`."""
        if isinstance(condition, bool) or a == b:
            return a if condition else b
        return self.pure(f"select i1 {condition.text}, i64 {_text(a)}, i64 {_text(b)}", "i64")

    def both(self, a: LlvmValue | bool, b: LlvmValue | bool) -> LlvmValue | bool:
        """Whether both conditions hold."""
        if isinstance(a, bool):
            return b if a else False
        if isinstance(b, bool):
            return a if b else False
        return self.pure(f"and i1 {a.text}, {b.text}", "i1")

    def when(
        self,
        condition: LlvmValue | bool,
        values: Sequence[LlvmValue],
        then: Callable[[list[LlvmValue]], Sequence[LlvmValue]],
    ) -> list[LlvmValue]:
        """The `values` as `then` changes them where the condition holds, else unchanged."""
        if isinstance(condition, bool):
            return list(then(list(values))) if condition else list(values)
        # The phi nodes behind the branch name the blocks that control comes from, which `then` may
        # change by branches of its own.
        inside, behind, before = self.new_label("then"), self.new_label("after"), self.label
        self.emit(f"br i1 {condition.text}, label %{inside}, label %{behind}")
        with self._scope(inside):
            changed = then(list(values))
            last = self.label
            self.emit(f"br label %{behind}")
        self.begin(behind)
        return [
            self.new(
                f"phi {value.type} [ {new.text}, %{last} ], [ {value.text}, %{before} ]",
                *_kind(value),
            )
            for value, new in zip(values, changed, strict=True)
        ]

    def loop(
        self,
        begin: LlvmInteger,
        end: LlvmInteger,
        step: int,
        values: Sequence[LlvmValue],
        body: Callable[[LlvmInteger, list[LlvmValue]], Sequence[LlvmValue]],
    ) -> list[LlvmValue]:
        """Runs `body` for begin, begin + step, ... below end, with `values` carried from iteration
        to iteration.

        A loop that is known to have one iteration or none prints no loop.
        """
        # Without a loop there is no phi, so values computed in the body stay visible behind it.
        if isinstance(begin, int) and isinstance(end, int) and begin + step >= end:
            return list(body(begin, list(values))) if begin < end else list(values)
        return self.when(
            self.below(begin, end),
            values,
            lambda inner: self._loop_body(begin, end, step, inner, body),
        )

    def repeat(
        self, begin: LlvmInteger, end: LlvmInteger, body: Callable[[LlvmInteger], None]
    ) -> None:
        """A loop by ones that carries no values."""

        def turn(at: LlvmInteger, _: list[LlvmValue]) -> Sequence[LlvmValue]:
            body(at)
            return ()

        self.loop(begin, end, 1, (), turn)

    def only_when(self, condition: LlvmValue | bool, body: Callable[[], None]) -> None:
        """Runs `body` where the condition holds."""

        def then(_: list[LlvmValue]) -> Sequence[LlvmValue]:
            body()
            return ()

        self.when(condition, (), then)

    def _loop_body(
        self,
        begin: LlvmInteger,
        end: LlvmInteger,
        step: int,
        values: Sequence[LlvmValue],
        body: Callable[[LlvmInteger, list[LlvmValue]], Sequence[LlvmValue]],
    ) -> list[LlvmValue]:
        """Prints a loop that has at least one iteration."""
        before, head, behind = self.label, self.new_label("loop"), self.new_label("done")
        self.emit(f"br label %{head}")
        with self._scope(head):
            # The phi nodes stand at the head of the loop but name values of its end, so they are
            # inserted there afterwards.
            phis = len(self.lines)
            turn = LlvmValue(self.new_name(), "i64")
            carried = [LlvmValue(self.new_name(), *_kind(value)) for value in values]
            # The depth is that of loops nested in the open one; it is known only after the body.
            beside, self._depth = self._depth, 0
            changed = body(turn, carried)
            phi, seen = (
                self._opaque_counter(turn) if self._depth >= _MOST_VISIBLE_NESTING else (turn, [])
            )
            self._depth = max(beside, self._depth + 1)
            # The counter stays below `end`, so it cannot wrap; the flags let LLVM assume that.
            following = self.new(f"add nuw nsw i64 {phi.text}, {step}", "i64")
            again = self.new(f"icmp slt i64 {following.text}, {_text(end)}", "i1")
            last = self.label
            self.emit(f"br i1 {again.text}, label %{head}, label %{behind}")
        starts = [
            f"  {phi.text} = phi i64 [ {_text(begin)}, %{before} ], [ {following.text}, %{last} ]"
        ]
        for phi_value, old, new in zip(carried, values, changed, strict=True):
            head_phi = f"{phi_value.text} = phi {phi_value.type}"
            starts.append(f"  {head_phi} [ {old.text}, %{before} ], [ {new.text}, %{last} ]")
        self.lines[phis:phis] = [*starts, *seen]
        self.begin(behind)
        return list(changed)

    def _opaque_counter(self, turn: LlvmValue) -> tuple[LlvmValue, list[str]]:
        """The real loop counter, and the line that copies it to the one the body sees, through an
        assembly statement that LLVM cannot look into.

        LLVM would otherwise rewrite addresses in the innermost loops as sums of strides of all
        loops around them (loop strength reduction), in every possible way. For outer loops nothing
        was seen to be gained by that, and it takes LLVM long.
        """
        phi = LlvmValue(self.new_name(), "i64")
        return phi, [f"  {turn.text} = {opaque_copy(phi, 'r')}"]

    @contextmanager
    def _scope(self, label: str) -> Iterator[None]:
        """A block whose values are not visible behind it."""
        self.begin(label)
        self._scopes.append({})
        yield
        self._scopes.pop()


def opaque_copy(value: LlvmValue, register_class: str) -> str:
    """An instruction that copies a `value` through a register of the class ("r" or "v") by an empty
    assembly statement, so that LLVM cannot reason about where it came from."""
    return (
        f'call {value.type} asm "", "={register_class},0"({value}) nounwind willreturn memory(none)'
    )


def _text(value: LlvmInteger) -> str:
    """The operand as it is printed."""
    return str(value) if isinstance(value, int) else value.text


def _kind(value: LlvmValue) -> tuple[str, int]:
    """Element type and lanes."""
    return value.scalar, value.lanes


def _type_of(argument: str) -> str:
    """The type of a typed operand: `<4 x float>` of `<4 x float> %x`."""
    end = argument.index(">") + 1 if argument.startswith("<") else argument.index(" ")
    return argument[:end]
