"""Values of many lanes, whatever is in them: made of one, put in order, chosen, folded into one."""

from __future__ import annotations

from ..ir import Fold
from ..scalars.writing import literal
from .values import Value, Whole, i64, splat, suffix, typed
from .writer import Writer


class Vectors:
    """What a writer says of lanes."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer

    def constant(self, value: float, scalar: str, lanes: int = 1) -> Value:
        text = literal(value, scalar)
        return Value(text if lanes == 1 else splat(scalar, text, lanes), scalar, lanes)

    def spread(self, value: Value, lanes: int) -> Value:
        """The same in every lane."""
        scalar = value.scalar
        if value.lanes == lanes:
            return value
        if not value.text.startswith("%"):
            return Value(splat(scalar, value.text, lanes), scalar, lanes)
        type_ = typed(scalar, lanes)
        first = self.writer.pure(f"insertelement {type_} poison, {value}, i64 0", scalar, lanes)
        text = f"shufflevector {first}, {type_} poison, <{lanes} x i32> zeroinitializer"
        return self.writer.pure(text, scalar, lanes)

    def steps(self, first: Whole, by: int, lanes: int) -> Value:
        """Whole numbers, each so much more than the one before."""
        start = self.spread(i64(first), lanes)
        return self.writer.pure(f"add {start}, <{_ramp(by, lanes)}>", "i64", lanes)

    def first(self, count: Whole, lanes: int) -> Value:
        """A mask of so many lanes."""
        limit = self.spread(i64(count), lanes)
        text = f"icmp slt <{lanes} x i64> <{_ramp(1, lanes)}>, {limit.text}"
        return self.writer.pure(text, "i1", lanes)

    def two(self, how: str, one: Value, other: Value) -> Value:
        """By an instruction that takes two values of a type and gives another."""
        return self.writer.pure(f"{how} {one}, {other.text}", one.scalar, one.lanes)

    def both(self, one: Value, other: Value) -> Value:
        """Where two truths hold."""
        lanes = max(one.lanes, other.lanes)
        return self.two("and", self.spread(one, lanes), self.spread(other, lanes))

    def some(self, truth: Value) -> Value:
        """Whether it holds in any lane."""
        name = f"llvm.vector.reduce.or.{suffix('i1', truth.lanes)}"
        return self.writer.call(name, "i1", 1, [str(truth)])

    def choose(self, where: Value, one: Value, other: Value) -> Value:
        """By a truth; all of the same lanes."""
        return self.writer.pure(f"select {where}, {one}, {other}", one.scalar, one.lanes)

    def interleaved(self, first: Value, second: Value) -> Value:
        """The lanes of two values by turns."""
        lanes = first.lanes
        order = ", ".join(f"i32 {lane}, i32 {lanes + lane}" for lane in range(lanes))
        text = f"shufflevector {first}, {second}, <{2 * lanes} x i32> <{order}>"
        return self.writer.pure(text, first.scalar, 2 * lanes)

    def by_turns(self, first: Value, second: Value) -> tuple[Value, Value]:
        """The same as two values of as many lanes."""
        lanes = first.lanes
        found = []
        for begin in (0, lanes // 2):
            own = range(begin, begin + lanes // 2)
            order = ", ".join(f"i32 {lane}, i32 {lanes + lane}" for lane in own)
            text = f"shufflevector {first}, {second}, <{lanes} x i32> <{order}>"
            found.append(self.writer.pure(text, first.scalar, lanes))
        return found[0], found[1]

    def every_second(self, pairs: Value, which: int) -> Value:
        """One of two values whose lanes come by turns."""
        lanes = pairs.lanes // 2
        picks = ", ".join(f"i32 {2 * lane + which}" for lane in range(lanes))
        text = f"shufflevector {pairs}, {pairs.type} poison, <{lanes} x i32> <{picks}>"
        return self.writer.pure(text, pairs.scalar, lanes)

    def across(self, value: Value, fold: Fold) -> Value:
        """The lanes folded into one, in any order."""
        kind = suffix(value.scalar, value.lanes)
        floats = value.scalar in ("float", "double")
        if fold is Fold.SUM and floats:
            return self._sum(value, f"llvm.vector.reduce.fadd.{kind}")
        how = "add" if fold is Fold.SUM else "fmaximum" if floats else "smax"
        return self.writer.call(f"llvm.vector.reduce.{how}.{kind}", value.scalar, 1, [str(value)])

    def _sum(self, value: Value, name: str) -> Value:
        self.writer.declared.add(f"declare {value.scalar} @{name}({value.scalar}, {value.type})")
        text = f"call reassoc {value.scalar} @{name}({value.scalar} 0.0, {value})"
        return self.writer.pure(text, value.scalar)


def _ramp(by: int, lanes: int) -> str:
    return ", ".join(f"i64 {lane * by}" for lane in range(lanes))
