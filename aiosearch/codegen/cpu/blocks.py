"""Prints a stage over a tile: loops around a block of registers that fold or map many elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ..ir import Apply, Expression, Fold, Index, Load, Operation, Stage, indices
from .arithmetic import WORKING
from .dots import Dot, paired
from .elements import Elements, Spot
from .linear import Linear, linear
from .ranges import Range
from .shape import Shape
from .writer import Value, Whole, Writer

Places = Mapping[Index, Linear]

_PIECE = 256
"""So many terms, and up to twice as many, are added one after the other."""
_FEW = 8
"""So many sums leave room for as many others."""


@dataclass
class StagePrinter:
    """One stage, over one tile."""

    stage: Stage
    ranges: Mapping[Index, Range]
    shape: Shape
    lanes: int
    """Of a whole vector."""
    elements: Elements
    adds: bool
    """Whether what is there already is folded with the rest."""
    dots: bool
    """Whether the machine adds up products of neighbours."""

    @property
    def writer(self) -> Writer:
        return self.elements.writer

    def print(self) -> None:
        blocked = {self.shape.along, self.shape.row, self.shape.column}
        outer = [one for one in self.stage.free if one not in blocked]
        self._free(outer, {})

    def _free(self, left: Sequence[Index], places: Places) -> None:
        if not left:
            self._columns(places)
            return
        one, *rest = left
        own = self.ranges[one]
        self._turns(own.extent, lambda turn: self._free(rest, {**places, one: own.base + turn}))

    def _turns(self, count: Whole, body: Callable[[Linear], None]) -> None:
        def once(turn: Whole, _: list[Value]) -> Sequence[Value]:
            body(linear(turn))
            return ()

        self.writer.loop(0, count, 1, (), once)

    def _columns(self, places: Places) -> None:
        """Whole blocks of vectors, single vectors, and the lanes that are left."""
        along, vectors = self.shape.along, self.shape.vectors
        if along is None or along in self.stage.folded:
            self._blocks(
                self.shape.column,
                vectors,
                places,
                lambda some, count: self._rows(some, count, None),
            )
            return
        own, lanes = self.ranges[along], self.lanes
        wide = lanes * vectors
        whole = self.writer.divide(own.extent, wide)
        self._turns(
            whole,
            lambda turn: self._rows({**places, along: own.base + turn * wide}, vectors, None),
        )
        if not own.rests(wide):
            return
        last = self.writer.divide(own.extent, lanes)

        def single(turn: Whole, _: list[Value]) -> Sequence[Value]:
            self._rows({**places, along: own.base + linear(turn) * lanes}, 1, None)
            return ()

        self._single(own, places, whole, last, single)

    def _single(
        self,
        own: Range,
        places: Places,
        whole: Whole,
        last: Whole,
        single: Callable[[Whole, list[Value]], Sequence[Value]],
    ) -> None:
        lanes, along = self.lanes, self.shape.along
        assert along is not None
        begin = self.writer.multiply(whole, self.shape.vectors)
        if any(rest >= lanes for rest in own.rests(lanes * self.shape.vectors)):
            self.writer.loop(begin, last, 1, (), single)
        if own.rests(lanes):
            left = self.writer.remainder(own.extent, lanes)

            def masked(_: list[Value]) -> Sequence[Value]:
                at = own.base + linear(last) * lanes
                self._rows({**places, along: at}, 1, self.elements.first(left, lanes))
                return ()

            self.writer.when(self.writer.below(0, left), (), masked)

    def _rows(self, places: Places, vectors: int, mask: Value | None) -> None:
        self._blocks(
            self.shape.row,
            self.shape.rows,
            places,
            lambda some, rows: self._core(some, rows, vectors, mask),
        )

    def _blocks(
        self, index: Index | None, most: int, places: Places, body: Callable[[Places, int], None]
    ) -> None:
        """As many at once as wanted, and the rest at once."""
        if index is None:
            body(places, 1)
            return
        own = self.ranges[index]
        whole = self.writer.divide(own.extent, most)
        self._turns(whole, lambda turn: body({**places, index: own.base + turn * most}, most))
        done = own.base + linear(whole) * most
        for rest in own.rests(most):
            left = self.writer.remainder(own.extent, most)

            def some(_: list[Value], rest: int = rest) -> Sequence[Value]:
                body({**places, index: done}, rest)
                return ()

            self.writer.when(self.writer.equal(left, rest), (), some)

    def _core(self, places: Places, rows: int, vectors: int, mask: Value | None) -> None:
        """All elements that are in registers at once."""
        self.elements.known.clear()
        block = _Block(self, places, rows, vectors, mask)
        block.print()
        self.elements.known.clear()


@dataclass
class _Block:
    """Registers for some rows and some vectors."""

    printer: StagePrinter
    places: Places
    rows: int
    vectors: int
    mask: Value | None

    def print(self) -> None:
        stage = self.printer.stage
        if stage.fold is Fold.NONE:
            for spot in self._spots(self.places):
                value = self.printer.elements.value(stage.value, spot)
                self.printer.elements.store(stage.target, stage.at, value, spot)
            return
        for spot, value in zip(self._targets(), self._folded(), strict=True):
            self.printer.elements.store(stage.target, stage.at, value, spot)

    @property
    def _lane_folded(self) -> bool:
        return self.printer.shape.along in self.printer.stage.folded

    def _spots(self, places: Places) -> list[Spot]:
        """Row by row, where the lanes of each register are."""
        shape, lanes = self.printer.shape, self.printer.lanes
        found = []
        for row in range(self.rows):
            for vector in range(self.vectors):
                own = dict(places)
                if shape.row is not None:
                    own[shape.row] = places[shape.row] + row
                if shape.column is not None:
                    own[shape.column] = places[shape.column] + vector
                elif shape.along is not None and not self._lane_folded:
                    own[shape.along] = places[shape.along] + vector * lanes
                found.append(Spot(own, shape.along, lanes if shape.along else 1, self.mask))
        return found

    def _targets(self) -> list[Spot]:
        spots = self._spots(self.places)
        if not self._lane_folded:
            return spots
        return [replace(spot, along=None, lanes=1, mask=None) for spot in spots]

    def _folded(self) -> list[Value]:
        """What the block's elements come to.

        What was there before is added last: a long sum is one of shorter ones, which is more exact.
        """
        stage = self.printer.stage
        folded = [one for one in stage.folded if one is not self.printer.shape.inner]
        found = self._outer(folded, self.places, self._begun())
        if self._lane_folded:
            found = self._across(found)
        return self._with_old(found) if self.printer.adds else found

    def _with_old(self, values: list[Value]) -> list[Value]:
        elements, stage = self.printer.elements, self.printer.stage
        elements.known.clear()
        load = Load(stage.target, stage.at)
        old = [elements.value(load, spot) for spot in self._targets()]
        pairs = zip(old, values, strict=True)
        return [elements.arithmetic.apply(self._how, [a, b]) for a, b in pairs]

    @property
    def _how(self) -> Operation:
        return Operation.ADD if self.printer.stage.fold is Fold.SUM else Operation.MAXIMUM

    def _begun(self) -> list[Value]:
        arithmetic, stage = self.printer.elements.arithmetic, self.printer.stage
        scalar = self._scalar
        lanes = self.printer.lanes if self.printer.shape.along else 1
        start = arithmetic.constant(neutral(stage.fold, scalar), scalar, lanes)
        return [start] * (self.rows * self.vectors * self._chains)

    @property
    def _chains(self) -> int:
        """Sums side by side where there would be one alone, which is slow to add up."""
        return self.printer.shape.unroll if self._lane_folded else 1

    @property
    def _scalar(self) -> str:
        return WORKING[self.printer.stage.target.dtype]

    def _outer(self, left: Sequence[Index], places: Places, values: list[Value]) -> list[Value]:
        if not left:
            return self._inner(places, values)
        one, *rest = left
        own = self.printer.ranges[one]

        def turn(at: Whole, inner: list[Value]) -> Sequence[Value]:
            return self._outer(rest, {**places, one: own.base + linear(at)}, inner)

        return self.printer.writer.loop(0, own.extent, 1, values, turn)

    def _inner(self, places: Places, values: list[Value]) -> list[Value]:
        inner = self.printer.shape.inner
        if inner is None:
            return self._step(places, values, None)
        if self._lane_folded:
            return self._along(inner, places, values)
        dot = paired(self.printer.stage, inner, self.printer.shape.along, self.printer.elements)
        if dot is not None and self.printer.dots and self.printer.ranges[inner].base.divisible(2):
            return self._pairs(dot, inner, places, values)
        return self._unrolled(inner, 1, places, values, self._single)

    def _single(self, places: Places, values: list[Value]) -> list[Value]:
        return self._step(places, values, None)

    def _unrolled(
        self,
        inner: Index,
        width: int,
        places: Places,
        values: list[Value],
        step: Callable[[Places, list[Value]], list[Value]],
    ) -> list[Value]:
        """Steps of `width` along an index, several at a turn; what is left is not done."""
        own, writer = self.printer.ranges[inner], self.printer.writer
        some = self.printer.shape.unroll
        count = writer.divide(own.extent, width)

        def turn(times: int) -> Callable[[Whole, list[Value]], Sequence[Value]]:
            def once(at: Whole, carried: list[Value]) -> Sequence[Value]:
                for number in range(times):
                    place = own.base + (linear(at) * times + number) * width
                    self.printer.elements.known.clear()
                    carried = step({**places, inner: place}, carried)
                return carried

            return once

        whole = writer.divide(count, some)
        values = self._in_pieces(whole, own.largest // (width * some), some, values, turn(some))
        if own.rests(width * some):
            values = writer.loop(writer.multiply(whole, some), count, 1, values, turn(1))
        self.printer.elements.known.clear()
        return values

    def _in_pieces(
        self,
        turns: Whole,
        most: int,
        each: int,
        values: list[Value],
        turn: Callable[[Whole, list[Value]], Sequence[Value]],
    ) -> list[Value]:
        """Runs so many turns; a long sum is one of shorter ones, where registers hold both."""
        writer, arithmetic = self.printer.writer, self.printer.elements.arithmetic
        piece = max(1, _PIECE // each)
        sums = self.printer.stage.fold is Fold.SUM and self._scalar != "i32"
        if not sums or most <= 2 * piece or len(values) > _FEW:
            return writer.loop(0, turns, 1, values, turn)
        zero = arithmetic.constant(0.0, values[0].scalar, values[0].lanes)

        def some(number: Whole, totals: list[Value]) -> Sequence[Value]:
            begin = writer.multiply(number, piece)
            end = writer.least(writer.add(begin, piece), turns)
            found = writer.loop(begin, end, 1, [zero] * len(totals), turn)
            pairs = zip(totals, found, strict=True)
            return [arithmetic.apply(Operation.ADD, [a, b]) for a, b in pairs]

        count = writer.divide(writer.add(turns, piece - 1), piece)
        return writer.loop(0, count, 1, values, some)

    def _step(self, places: Places, values: list[Value], mask: Value | None) -> list[Value]:
        """Folds one more element into each register."""
        stage, elements = self.printer.stage, self.printer.elements
        self._fetch(places)
        found = []
        for spot, old in zip(self._spots(places), values, strict=True):
            own = spot if mask is None else replace(spot, mask=mask)
            found.append(self._fold(old, stage.value, own, elements))
        return found

    def _fold(self, old: Value, value: Expression, spot: Spot, elements: Elements) -> Value:
        stage, arithmetic = self.printer.stage, elements.arithmetic
        fused = stage.fold is Fold.SUM and spot.mask is None and self._scalar != "i32"
        if fused and isinstance(value, Apply) and value.operation is Operation.MULTIPLY:
            factors = [elements.value(one, spot) for one in value.arguments]
            return arithmetic.multiplied(old, factors)
        new = elements.value(value, spot)
        new = arithmetic.spread(arithmetic.convert(new, old.scalar), old.lanes)
        if spot.mask is not None and self._lane_folded:
            none = arithmetic.constant(neutral(stage.fold, old.scalar), old.scalar, old.lanes)
            new = arithmetic.choose(spot.mask, new, none)
        return arithmetic.apply(self._how, [old, new])

    def _along(self, inner: Index, places: Places, values: list[Value]) -> list[Value]:
        """Along the lanes: several vectors a turn, each with a sum of its own."""
        own, writer, lanes = self.printer.ranges[inner], self.printer.writer, self.printer.lanes
        chains, many = self._chains, self.rows * self.vectors

        def turn(times: int) -> Callable[[Whole, list[Value]], Sequence[Value]]:
            def once(at: Whole, carried: list[Value]) -> Sequence[Value]:
                found = list(carried)
                for number in range(times):
                    place = own.base + (linear(at) * times + number) * lanes
                    part = slice(number * many, (number + 1) * many)
                    self.printer.elements.known.clear()
                    found[part] = self._step({**places, inner: place}, found[part], None)
                return found

            return once

        count = writer.divide(own.extent, lanes)
        whole = writer.divide(count, chains)
        values = self._in_pieces(whole, own.largest // (lanes * chains), 1, values, turn(chains))
        if any(rest >= lanes for rest in own.rests(lanes * chains)):
            values = writer.loop(writer.multiply(whole, chains), count, 1, values, turn(1))
        if own.rests(lanes):
            values = self._last_lanes(inner, places, values, count)
        self.printer.elements.known.clear()
        return values

    def _last_lanes(
        self, inner: Index, places: Places, values: list[Value], count: Whole
    ) -> list[Value]:
        own, writer = self.printer.ranges[inner], self.printer.writer
        lanes, many = self.printer.lanes, self.rows * self.vectors
        left = writer.remainder(own.extent, lanes)

        def some(carried: list[Value]) -> Sequence[Value]:
            self.printer.elements.known.clear()
            place = own.base + linear(count) * lanes
            mask = self.printer.elements.first(left, lanes)
            return [*self._step({**places, inner: place}, carried[:many], mask), *carried[many:]]

        return writer.when(writer.below(0, left), values, some)

    def _across(self, values: list[Value]) -> list[Value]:
        """Lanes and chains come to one element each."""
        arithmetic, many = self.printer.elements.arithmetic, self.rows * self.vectors
        found = values[:many]
        for chain in range(1, self._chains):
            part = values[chain * many : (chain + 1) * many]
            found = [arithmetic.apply(self._how, [a, b]) for a, b in zip(found, part, strict=True)]
        return [arithmetic.across(value, self.printer.stage.fold) for value in found]

    def _pairs(self, dot: Dot, inner: Index, places: Places, values: list[Value]) -> list[Value]:
        """Two at a time; what is left of an odd number is paired with zeros."""

        def step(at: Places, carried: list[Value]) -> list[Value]:
            self._fetch(at)
            return dot.step(self._spots(at), carried, whole=True)

        values = self._unrolled(inner, 2, places, values, step)
        own, writer = self.printer.ranges[inner], self.printer.writer
        if own.rests(2):
            done = linear(writer.divide(own.extent, 2)) * 2

            def last(carried: list[Value]) -> Sequence[Value]:
                self.printer.elements.known.clear()
                at = {**places, inner: own.base + done}
                return dot.step(self._spots(at), carried, whole=False)

            values = writer.when(writer.below(0, writer.remainder(own.extent, 2)), values, last)
        return values

    def _fetch(self, places: Places) -> None:
        """Has vectors of a later turn brought near."""
        shape, elements = self.printer.shape, self.printer.elements
        if not shape.ahead or shape.inner is None or self._lane_folded or shape.along is None:
            return
        later = {**places, shape.inner: places[shape.inner] + shape.ahead * 2}
        for load in self.printer.stage.loads:
            uses = {one for position in load.at for one in indices(position)}
            if shape.along in uses and shape.inner in uses:
                for vector in range(self.vectors):
                    elements.fetch(
                        load,
                        Spot(
                            {**later, shape.along: later[shape.along] + vector * self.printer.lanes}
                        ),
                    )


def neutral(fold: Fold, scalar: str) -> float:
    """What a fold begins with."""
    if fold is Fold.SUM:
        return 0.0
    return -math.inf if scalar in ("float", "double") else -(2**31)
