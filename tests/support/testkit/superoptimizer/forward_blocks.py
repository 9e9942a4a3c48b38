"""Block graphs made forwards: what a block can compute within a space, and which of it is right.

A tile is told by its values over all index parts. Of the superoptimizer this shares the names of
operators and, where it is asked to prune, the parts of the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import chain, product
from operator import or_
from typing import TypeAlias

import numpy as np
from testkit.superoptimizer.forward_graphs import COMMUTATIVE, Term, leaf, sets, term
from testkit.superoptimizer.labelled_expressions import Expr, draw, worth

from aiosearch.superoptimizer.algebra.normal_form import BITS, GRID, LOOP, WHOLE
from aiosearch.superoptimizer.space import Space

Axis: TypeAlias = tuple[int, ...]
Axes: TypeAlias = tuple[Axis, ...]


@dataclass(frozen=True)
class Source:
    """A tensor: its name and the label of each axis."""

    name: str
    labels: tuple[int, ...]

    @property
    def expr(self) -> Expr:
        return ("input", self.name, reduce(or_, (WHOLE << BITS * one for one in self.labels)))


@dataclass(frozen=True)
class Tile:
    expr: Expr
    axes: Axes
    after: bool = False
    looped: bool = False
    """Whether the loop splits what it is made of."""


@dataclass(frozen=True)
class Way:
    """How the inputs of a block are split: for each the labels of the grid and the loop."""

    grids: tuple[frozenset[int], ...]
    loops: tuple[int | None, ...]

    @property
    def grid(self) -> frozenset[int]:
        return frozenset(chain.from_iterable(self.grids))

    @property
    def loop(self) -> int | None:
        return max((one for one in self.loops if one is not None), default=None)


class Forward:
    """All block graphs over some tensors; each of the savings may be left out."""

    def __init__(
        self,
        sources: Sequence[Source],
        space: Space,
        may_be: Callable[[Expr], bool] = lambda expr: True,
        *,
        dedupe: bool = True,
    ) -> None:
        self._sources = sources
        self._space = space
        self._may_be = may_be
        self._dedupe = dedupe
        generator = np.random.default_rng(0)
        self._inputs = {one.name: draw(one.expr, generator, low=0.1) for one in sources}
        self._seen: dict[Expr, bytes] = {}

    def values(self, expr: Expr) -> bytes:
        """What tells it from others: its values, rounded."""
        found = self._seen.get(expr)
        if found is None:
            values = worth(expr, self._inputs)
            depends = [bit for bit in range(values.ndim) if values.shape[bit] > 1]
            mantissas, exponents = np.frexp(values)
            rounded = np.round(mantissas, 9).tobytes() + exponents.tobytes()
            found = self._seen[expr] = repr(depends).encode() + rounded
        return found

    def equal(self, reference: Expr, axes: tuple[int, ...]) -> Iterator[tuple[Way, Term]]:
        """The graphs that compute a reference whose axes have these labels."""
        wanted = self.values(reference)
        for way in self._ways():
            if not way.grid <= set(axes):
                continue
            stored = tuple(_rest(label, way.grid, None) for label in axes)
            for made, tiles in self._graphs(way):
                last, *others = _sinks(made)
                tile = tiles[last]
                if (
                    not others
                    and tile.after
                    and tile.axes == stored
                    and self.values(tile.expr) == wanted
                ):
                    yield way, last

    def _ways(self) -> Iterator[Way]:
        own = [list(self._splits(source)) for source in self._sources]
        for splits in product(*own):
            way = Way(tuple(grid for grid, _ in splits), tuple(loop for _, loop in splits))
            if len({loop for loop in way.loops if loop is not None}) <= 1:
                yield way

    def _splits(self, source: Source) -> Iterator[tuple[frozenset[int], int | None]]:
        for taken in product((False, True), repeat=len(source.labels)):
            grid = frozenset(label for label, own in zip(source.labels, taken, strict=True) if own)
            if len(grid) <= self._space.grid_axes:
                yield from ((grid, loop) for loop in (None, *source.labels))

    def _graphs(self, way: Way) -> Iterator[tuple[tuple[Term, ...], dict[Term, Tile]]]:
        tiles: dict[Term, Tile] = {}
        for source, grid, loop in zip(self._sources, way.grids, way.loops, strict=True):
            axes = tuple(_rest(label, grid, loop) for label in source.labels)
            tiles[leaf(source.name)] = Tile(source.expr, axes, looped=loop is not None)
        most = self._space.block_operators - len(tiles)
        loads = tuple(tiles)

        def grow(terms: tuple[Term, ...]) -> Iterator[Term]:
            left = most - (len(terms) - len(loads)) - 1
            there = {self._told(tiles[one]) for one in terms} if self._dedupe else set()
            for new, tile in self._next(terms, tiles, way):
                if len(_sinks((*terms, new))) > left + 1 or not self._may_be(tile.expr):
                    continue
                if not self._dedupe or self._told(tile) not in there:
                    tiles[new] = tile
                    yield new

        for made in sets(loads, most, grow):
            yield (*loads, *made), tiles

    def _told(self, tile: Tile) -> tuple[bytes, Axes, bool]:
        return self.values(tile.expr), tile.axes, tile.after

    # One operator more

    def _next(
        self, terms: tuple[Term, ...], tiles: Mapping[Term, Tile], way: Way
    ) -> Iterator[tuple[Term, Tile]]:
        for one in terms:
            yield from self._of_one(one, tiles[one])
            if not tiles[one].after:
                yield from self._accumulated(one, tiles[one], way.loop)
        for one, two in product(terms, repeat=2):
            if tiles[one].after == tiles[two].after:
                yield from self._of_two(one, two, tiles[one], tiles[two])

    def _of_one(self, one: Term, tile: Tile) -> Iterator[tuple[Term, Tile]]:
        for name in self._space.tile:
            if name in ("exp", "sqrt", "silu"):
                yield term(name, one), _with(tile, (name, tile.expr))
            elif name == "square":
                yield term(name, one), _with(tile, ("mul", tile.expr, tile.expr))
            elif name in ("sum", "max", "rms_norm") and tile.axes[-1]:
                (last,) = tile.axes[-1]
                how = "sum" if name == "sum" else "largest"
                expr = _normed(tile.expr, last) if name == "rms_norm" else (how, last, tile.expr)
                axes = tile.axes if name == "rms_norm" else (*tile.axes[:-1], ())
                yield term(name, one), Tile(expr, axes, tile.after, tile.looped)

    def _of_two(self, one: Term, two: Term, left: Tile, right: Tile) -> Iterator[tuple[Term, Tile]]:
        looped = left.looped or right.looped
        joined = _joined(left.axes, right.axes)
        for name in ("add", "sub", "mul", "div") if joined is not None else ():
            swapped = name in COMMUTATIVE and two < one
            if name in self._space.tile and not swapped:
                expr = (name, left.expr, right.expr)
                yield term(name, one, two), Tile(expr, joined or (), left.after, looped)
        across = _across(left.axes, right.axes)
        if across is not None and "matmul" in self._space.tile:
            inner = sum(left.axes[-1])
            product_: Expr = ("mul", left.expr, right.expr)
            expr = ("sum", inner, product_) if inner else product_
            yield term("matmul", one, two), Tile(expr, across, left.after, looped)

    def _accumulated(self, one: Term, tile: Tile, loop: int | None) -> Iterator[tuple[Term, Tile]]:
        walked = LOOP << BITS * loop if loop is not None and tile.looped else 0
        for kind in self._space.accumulators:
            # What the loop does not split would be added up as often as it runs
            if loop is not None and not walked and kind not in ("mean", "rms"):
                continue
            found = _accumulator(kind, tile, walked)
            if found is not None:
                yield term(f"accumulate {kind}", one), found


def _rest(label: int, grid: frozenset[int], loop: int | None) -> Axis:
    """What is left of an axis."""
    kept = WHOLE & ~(GRID if label in grid else 0) & ~(LOOP if label == loop else 0)
    return (kept << BITS * label,)


def _with(tile: Tile, expr: Expr) -> Tile:
    return Tile(expr, tile.axes, tile.after, tile.looped)


def _accumulator(kind: str, tile: Tile, walked: int) -> Tile | None:
    over = walked | (sum(tile.axes[-1]) if kind != "none" else 0)
    axes = tile.axes if kind == "none" else (*tile.axes[:-1], ())
    if kind == "none":
        return Tile(("sum", walked, tile.expr) if walked else tile.expr, axes, after=True)
    if kind not in ("sum", "mean", "rms") or not tile.axes[-1]:
        return None
    if kind == "sum":
        return Tile(("sum", over, tile.expr), axes, after=True)
    if kind == "mean":
        return Tile(_mean(tile.expr, over), axes, after=True)
    squared: Expr = ("mul", tile.expr, tile.expr)
    return Tile(("sqrt", _mean(squared, over)), axes, after=True)


def _mean(expr: Expr, mask: int) -> Expr:
    return ("div", ("sum", mask, expr), ("size", mask))


def _normed(expr: Expr, mask: int) -> Expr:
    return ("div", expr, ("sqrt", _mean(("mul", expr, expr), mask)))


def _joined(one: Axes, two: Axes) -> Axes | None:
    """The axes of two tiles that meet, those of size one along the other's."""
    if len(one) != len(two) or any(a and b and a != b for a, b in zip(one, two, strict=True)):
        return None
    found = tuple(a or b for a, b in zip(one, two, strict=True))
    return found if _once(found) else None


def _across(one: Axes, two: Axes) -> Axes | None:
    if len(one) != len(two) or len(one) < 2 or one[-1] != two[-2]:
        return None
    lead = _joined(one[:-2], two[:-2])
    found = None if lead is None else (*lead, one[-2], two[-1])
    return found if found is not None and _once(found) else None


def _once(axes: Axes) -> bool:
    """No index runs along two axes."""
    used = list(chain.from_iterable(axes))
    return len(set(used)) == len(used)


def _sinks(made: tuple[Term, ...]) -> list[Term]:
    used = {operand for one in made for operand in one[2]}
    return [one for one in made if one not in used]
