"""Custom kernels in place of parts of a kernel graph: a grid, a loop, maps and accumulators."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

from testkit.random_mugraphs.algebraic_moves import over_last
from testkit.random_mugraphs.kernel_schedules import LOOP, Schedule
from testkit.random_mugraphs.regions import Axis, Region, Value

from aiosearch.tensor import Block, Place, ShapeError, Term, apply


class ImpossibleError(Exception):
    """A region that cannot be computed on this schedule, as far as its draw got."""


@dataclass(frozen=True)
class Tile:
    """A tile, and the grid axes and the loop over which it has yet to be added up."""

    term: Term
    partial: frozenset[int] = frozenset()


class Lowering:
    """Computes a region's outputs by one block graph, in one of many ways."""

    def __init__(self, own: Region, plan: Schedule, random: Random) -> None:
        self._region, self._plan, self._random = own, plan, random
        self._block = Block(plan.counts[:LOOP], plan.counts[LOOP])
        self._loop: dict[Value, Tile] = {}
        self._after: dict[Value, Tile] = {}

    def changes(self) -> dict[Term, Term]:
        """What stands in place of each output; raises ImpossibleError or ShapeError."""
        outputs = self._region.outputs
        tiles = [self._behind((output, None)) for output in outputs]
        maps = [self._store(*both) for both in zip(outputs, tiles, strict=True)]
        stores = [(tile.term, own) for tile, own in zip(tiles, maps, strict=True)]
        found = {}
        for output, tile, own, result in zip(
            outputs, tiles, maps, self._block.results(*stores), strict=True
        ):
            found[output] = _combined(output, result, {own[slot] for slot in tile.partial})
        return found

    def _store(self, output: Term, tile: Tile) -> list[int | None]:
        """Parts side by side where their axis is split; what has to be added up, anywhere."""
        classes = self._region.classes((output, None))
        maps = [
            classes.index(own) if own is not None and own in classes else None
            for own in self._plan.classes[:LOOP]
        ]
        for slot in sorted(tile.partial):
            free = [axis for axis in range(len(classes)) if axis not in maps]
            if not free:
                raise ImpossibleError
            maps[slot] = self._random.choice(free)
        return maps

    def _in_loop(self, value: Value) -> Tile:
        """The tile of one iteration."""
        if value not in self._loop:
            term = value[0]
            if term.place is Place.ANYWHERE:
                self._loop[value] = Tile(term)
            elif term.operator.name == "fold" and term in self._region.terms:
                self._loop[value] = self._chunk(value)
            elif term in self._region.terms:
                operands = [self._in_loop(one) for one in self._region.operands(term)]
                self._loop[value] = self._applied(term, operands)
            else:
                self._loop[value] = Tile(self._load(value))
        return self._loop[value]

    def _chunk(self, value: Value) -> Tile:
        """Chunks that are to be added up, one of them for each iteration or block."""
        tile, over = self._unfolded(value)
        if tile.term.shape[value[0].parameter("axis")] != value[0].parameter("size"):
            raise ImpossibleError
        return Tile(tile.term, tile.partial | over)

    def _unfolded(self, value: Value) -> tuple[Tile, frozenset[int]]:
        """The operand of a fold, and what splits its chunks from one another."""
        (operand,) = self._region.operands(value[0])
        if self._region.classes(value)[value[0].parameter("axis")] in self._plan.classes:
            raise ImpossibleError
        return self._in_loop(operand), self._slots(self._region.contracted(value[0]))

    def _load(self, value: Value) -> Term:
        classes = self._region.classes(value)
        axes = [
            classes.index(own) if own is not None and own in classes else None
            for own in self._plan.classes
        ]
        return self._block.load(value[0], axes[:LOOP], axes[LOOP])

    def _behind(self, value: Value) -> Tile:
        """The tile behind the loop, by the first way that works."""
        if value[0].place is Place.ANYWHERE:
            return Tile(value[0])
        if value not in self._after:
            ways = [*self._ways(value)]
            self._random.shuffle(ways)
            for way in ways:
                try:
                    self._after[value] = way(value)
                    break
                except (ImpossibleError, ShapeError):
                    continue
            else:
                raise ImpossibleError
        return self._after[value]

    def _ways(self, value: Value) -> Iterator[Callable[[Value], Tile]]:
        term = value[0]
        yield self._accumulated
        if term not in self._region.terms:
            return
        name = term.operator.name
        if name != "fold":
            yield self._worked
        if name in ("sum", "mean") and over_last(term):
            yield self._reduced
        if name == "sum" and over_last(term):
            yield self._folded_sum
        if name == "max" and over_last(term):
            yield self._largest
        if name == "sqrt":
            yield self._root_mean_square
        if name == "fold":
            yield self._folded

    def _worked(self, value: Value) -> Tile:
        operands = [self._behind(one) for one in self._region.operands(value[0])]
        return self._applied(value[0], operands)

    def _accumulated(self, value: Value) -> Tile:
        """Added up over the loop; what no iteration changes is the largest of itself."""
        tile = self._in_loop(value)
        kind = "none"
        if self._plan.counts[LOOP] > 1 and LOOP not in tile.partial:
            column = value[0].shape[-1] == 1
            kind = self._random.choice(("max", "mean")) if column else "max"
        return self._gathered(value, tile.term, kind, tile.partial)

    def _reduced(self, value: Value) -> Tile:
        (operand,) = self._region.operands(value[0])
        tile = self._in_loop(operand)
        name, over = value[0].operator.name, self._slots(self._region.contracted(value[0]))
        if name == "mean":
            if tile.partial or over - {LOOP}:
                raise ImpossibleError
            return self._gathered(value, tile.term, name, frozenset())
        return self._gathered(value, tile.term, name, self._summed(tile, over))

    def _largest(self, value: Value) -> Tile:
        """The largest of a row over iterations and in each, in either order."""
        (operand,) = self._region.operands(value[0])
        tile = self._in_loop(operand)
        if tile.partial or self._slots(self._region.contracted(value[0])) - {LOOP}:
            raise ImpossibleError
        ways = [self._over_row, self._over_loop]
        self._random.shuffle(ways)
        found = tile.term
        for way in ways:
            found = way(found)
        return Tile(found, self._checked(value, frozenset()))

    def _over_row(self, tile: Term) -> Term:
        return apply("max", tile, axes=(len(tile.shape) - 1,), keep=True)

    def _over_loop(self, tile: Term) -> Term:
        return self._block.accumulate(tile, "max")

    def _folded_sum(self, value: Value) -> Tile:
        """The last axis in two steps: chunks first, then their sum."""
        (operand,) = self._region.operands(value[0])
        tile = self._in_loop(operand)
        over = self._slots(self._region.contracted(value[0]))
        width = tile.term.shape[-1]
        assert isinstance(width, int)
        columns = self._random.choice([n for n in range(2, width + 1) if width % n == 0] or [1])
        folded = self._block.accumulate(tile.term, "redtox", columns)
        found = apply("sum", folded, axes=(len(folded.shape) - 1,), keep=True)
        return Tile(found, self._checked(value, self._summed(tile, over)))

    def _summed(self, tile: Tile, over: frozenset[int]) -> frozenset[int]:
        if self._plan.counts[LOOP] > 1 and LOOP not in tile.partial | over:
            raise ImpossibleError
        return tile.partial | over

    def _root_mean_square(self, value: Value) -> Tile:
        """The root of a mean of squares over the last axis."""
        (mean,) = value[0].arguments
        if mean.operator.name != "mean" or mean not in self._region.terms or not over_last(mean):
            raise ImpossibleError
        (square,) = mean.arguments
        name, arguments = square.operator.name, square.arguments
        twice = name == "square" or (name == "mul" and arguments[0] is arguments[1])
        if square not in self._region.terms or not twice:
            raise ImpossibleError
        tile = self._in_loop(self._region.operands(square)[0])
        if tile.partial or self._slots(self._region.contracted(mean)) - {LOOP}:
            raise ImpossibleError
        return self._gathered(value, tile.term, "rms", frozenset())

    def _folded(self, value: Value) -> Tile:
        """Chunks side by side on the last axis, added up by an accumulator."""
        tile, over = self._unfolded(value)
        if value[0].parameter("axis") != len(value[0].shape) - 1:
            raise ImpossibleError
        folded = self._block.accumulate(tile.term, "redtox", value[0].parameter("size"))
        return Tile(folded, self._checked(value, self._summed(tile, over)))

    def _gathered(self, value: Value, tile: Term, kind: str, partial: frozenset[int]) -> Tile:
        return Tile(self._block.accumulate(tile, kind), self._checked(value, partial))

    def _checked(self, value: Value, partial: frozenset[int]) -> frozenset[int]:
        """Behind the loop nothing may be split by it."""
        if LOOP in self._slots(self._region.classes(value)):
            raise ImpossibleError
        return partial - {LOOP}

    def _slots(self, classes: Sequence[Axis | None]) -> frozenset[int]:
        """The grid axes and the loop that split one of these classes."""
        return frozenset(
            slot
            for slot, own in enumerate(self._plan.classes)
            if own is not None and own in classes
        )

    def _applied(self, term: Term, operands: Sequence[Tile]) -> Tile:
        made = apply(term.operator, *(one.term for one in operands), **dict(term.parameters))
        return Tile(made, self._partial(term, [one.partial for one in operands]))

    def _partial(self, term: Term, partials: Sequence[frozenset[int]]) -> frozenset[int]:
        """Over what the result has yet to be added up; raises where that would be wrong."""
        name = term.operator.name
        over = self._slots(self._region.contracted(term))
        found = frozenset().union(*partials)
        if name in ("add", "sub"):
            right = partials[0] == partials[-1]
        elif name in ("mul", "matmul"):
            split = [self._slots(self._region.classes(one)) for one in self._region.operands(term)]
            right = not (partials[0] & (partials[1] | split[1]) or partials[1] & split[0])
        elif name == "div":
            divisor = self._region.operands(term)[1]
            right = not (partials[1] or partials[0] & self._slots(self._region.classes(divisor)))
        elif name == "sum":
            right = True
        elif name == "rms_norm":
            right = not (found or self._slots(self._region.classes((term, None))[-1:]))
        else:
            right = not (found or over)
        if not right:
            raise ImpossibleError
        return found | over


def _combined(output: Term, result: Term, axes: set[int | None]) -> Term:
    """What is left of a sum that the blocks did by parts, as operators on the device."""
    for axis in sorted(axis for axis in axes if axis is not None):
        if output.shape[axis] == 1:
            result = apply("sum", result, axes=(axis,), keep=True)
        else:
            result = apply("fold", result, axis=axis, size=output.shape[axis])
    return result
