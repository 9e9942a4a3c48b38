"""Vector values: splat, shuffle, select, ramp and horizontal reduction."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir import ReductionKind
from .builder import FunctionBuilder, LlvmInteger, LlvmValue, i64, splat, suffix, typed


class Vectors:
    """Prints vector instructions with a `FunctionBuilder`."""

    def __init__(self, writer: FunctionBuilder) -> None:
        self.writer = writer

    def broadcast(self, value: LlvmValue, lanes: int) -> LlvmValue:
        """The `value` of one lane in every lane."""
        scalar = value.scalar
        if value.lanes == lanes:
            return value
        # A constant becomes a constant vector, which LLVM folds into instructions.
        if not value.text.startswith("%"):
            return LlvmValue(splat(scalar, value.text, lanes), scalar, lanes)
        type_ = typed(scalar, lanes)
        first = self.writer.pure(f"insertelement {type_} poison, {value}, i64 0", scalar, lanes)
        text = f"shufflevector {first}, {type_} poison, <{lanes} x i32> zeroinitializer"
        return self.writer.pure(text, scalar, lanes)

    def steps(self, first: LlvmInteger, by: int, lanes: int) -> LlvmValue:
        """Integers from `first` on, `by` apart."""
        start = self.broadcast(i64(first), lanes)
        return self.writer.pure(f"add {start}, <{_ramp(by, lanes)}>", "i64", lanes)

    def first(self, count: LlvmInteger, lanes: int) -> LlvmValue:
        """A mask of the first `count` lanes."""
        limit = self.broadcast(i64(count), lanes)
        text = f"icmp slt <{lanes} x i64> <{_ramp(1, lanes)}>, {limit.text}"
        return self.writer.pure(text, "i1", lanes)

    def binary(self, how: str, left: LlvmValue, right: LlvmValue) -> LlvmValue:
        """The result of an instruction on two values of one type."""
        return self.writer.pure(f"{how} {left}, {right.text}", left.scalar, left.lanes)

    def compare(self, how: str, left: LlvmValue, right: LlvmValue) -> LlvmValue:
        """Whether a comparison such as `fcmp olt` holds, lane by lane."""
        return self.writer.pure(f"{how} {left}, {right.text}", "i1", left.lanes)

    def negate(self, value: LlvmValue) -> LlvmValue:
        """A float with the opposite sign."""
        return self.writer.pure(f"fneg {value}", value.scalar, value.lanes)

    def cast(self, how: str, value: LlvmValue, scalar: str) -> LlvmValue:
        """The `value` in another type, by a cast instruction such as `bitcast` or `fpext`."""
        text = f"{how} {value} to {typed(scalar, value.lanes)}"
        return self.writer.pure(text, scalar, value.lanes)

    def intrinsic(self, name: str, *same: LlvmValue, flags: Sequence[str] = ()) -> LlvmValue:
        """A call of an LLVM intrinsic, such as `fma`, whose result has the type of its operands."""
        scalar, lanes = same[0].scalar, same[0].lanes
        arguments = [*map(str, same), *flags]
        return self.writer.call(f"llvm.{name}.{suffix(scalar, lanes)}", scalar, lanes, arguments)

    def both(self, left: LlvmValue, right: LlvmValue) -> LlvmValue:
        """Whether both conditions hold, lane by lane."""
        lanes = max(left.lanes, right.lanes)
        return self.binary("and", self.broadcast(left, lanes), self.broadcast(right, lanes))

    def any_lane(self, truth: LlvmValue) -> LlvmValue:
        """Whether a condition holds in some lane."""
        if truth.lanes == 1:
            return truth
        name = f"llvm.vector.reduce.or.{suffix('i1', truth.lanes)}"
        return self.writer.call(name, "i1", 1, [str(truth)])

    def select(self, where: LlvmValue, left: LlvmValue, right: LlvmValue) -> LlvmValue:
        """`left` in lanes where the condition holds, else `right`."""
        return self.writer.pure(f"select {where}, {left}, {right}", left.scalar, left.lanes)

    def interleaved(self, first: LlvmValue, second: LlvmValue) -> LlvmValue:
        """The lanes of two values by turns, in one value of twice as many lanes."""
        lanes = first.lanes
        order = ", ".join(f"i32 {lane}, i32 {lanes + lane}" for lane in range(lanes))
        text = f"shufflevector {first}, {second}, <{2 * lanes} x i32> <{order}>"
        return self.writer.pure(text, first.scalar, 2 * lanes)

    def interleaved_pair(self, first: LlvmValue, second: LlvmValue) -> tuple[LlvmValue, LlvmValue]:
        """The lanes of two values by turns, as two values: their lower and their upper half."""
        lanes = first.lanes
        halves = []
        for begin in (0, lanes // 2):
            positions = range(begin, begin + lanes // 2)
            order = ", ".join(f"i32 {lane}, i32 {lanes + lane}" for lane in positions)
            text = f"shufflevector {first}, {second}, <{lanes} x i32> <{order}>"
            halves.append(self.writer.pure(text, first.scalar, lanes))
        return halves[0], halves[1]

    def deinterleaved(self, pairs: LlvmValue, which: int) -> LlvmValue:
        """The first or second of two interleaved values."""
        lanes = pairs.lanes // 2
        picks = ", ".join(f"i32 {2 * lane + which}" for lane in range(lanes))
        text = f"shufflevector {pairs}, {pairs.type} poison, <{lanes} x i32> <{picks}>"
        return self.writer.pure(text, pairs.scalar, lanes)

    def reduced_lanes(self, value: LlvmValue, reduction: ReductionKind) -> LlvmValue:
        """All lanes combined to one by a reduction's operation, in any order."""
        kind = suffix(value.scalar, value.lanes)
        if reduction is ReductionKind.SUM and value.is_float:
            return self._sum(value, f"llvm.vector.reduce.fadd.{kind}")
        how = "add" if reduction is ReductionKind.SUM else "fmaximum" if value.is_float else "smax"
        return self.writer.call(f"llvm.vector.reduce.{how}.{kind}", value.scalar, 1, [str(value)])

    def _sum(self, value: LlvmValue, name: str) -> LlvmValue:
        """The sum of all lanes."""
        self.writer.declared.add(f"declare {value.scalar} @{name}({value.scalar}, {value.type})")
        # `reassoc` lets LLVM add in a tree; without it the lanes would be added one after the
        # other.
        text = f"call reassoc {value.scalar} @{name}({value.scalar} 0.0, {value})"
        return self.writer.pure(text, value.scalar)


def _ramp(by: int, lanes: int) -> str:
    """The constants 0, by, 2 by, ... of a vector of i64."""
    return ", ".join(f"i64 {lane * by}" for lane in range(lanes))
