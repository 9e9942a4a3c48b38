"""Positions and masks, printed as integers for every element of a tile."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ....tensor.types import DType
from ... import ir
from ...ir.affine_maps import value_bounds
from ..layout import TileLayout
from .text import STEP, TextScope, TileText, broadcast_text


class PositionPrinter:
    """Prints into one scope; indices get their names where they are first met."""

    def __init__(self, layout: TileLayout, scope: TextScope) -> None:
        self._layout, self._scope = layout, scope

    def value(self, position: ir.Position) -> TileText:
        """A literal where all elements have the same position."""
        low, high = value_bounds(position, self._layout.reach)
        if low == high:
            return TileText(str(low), DType.WEAK)
        match position:
            case ir.Affine():
                terms = [(self._index(one), factor) for one, factor in position.terms]
                return self._total(terms, position.offset)
            case ir.Mixed():
                parts = [(self.value(one), factor) for one, factor in position.terms]
                return self._total([*parts, (self.value(position.rest), 1)], 0)
            case ir.Quotient():
                return self._divided("div", position)
            case ir.Remainder():
                return self._divided("rem", position)

    def _divided(self, how: str, position: ir.Quotient | ir.Remainder) -> TileText:
        """Both round towards zero, so what may be below zero is raised above it."""
        low, _ = value_bounds(position.position, self._layout.reach)
        shift = max(0, -(low // position.by))
        raised = self._total([(self.value(position.position), 1)], shift * position.by)
        by = f"lax.full_like({raised.text}, {position.by})"  # a literal would have 64 bits if asked
        found = TileText(f"lax.{how}({raised.text}, {by})", DType.I32, raised.axes)
        return self._total([(found, 1)], -shift if how == "div" else 0)

    def _total(self, parts: Sequence[tuple[TileText, int]], offset: int) -> TileText:
        offset += sum(int(one.text) * times for one, times in parts if one.dtype is DType.WEAK)
        left = [(one, times) for one, times in parts if one.dtype is not DType.WEAK]
        axes = self._layout.axes(axis for one, _ in left for axis in one.axes)
        texts = [
            f"{broadcast_text(one, axes)}{f' * {times}' if times != 1 else ''}"
            for one, times in left
        ]
        texts += [str(offset)] if offset else []
        text = " + ".join(texts)
        alone = len(texts) == 1 and left[0][1] == 1
        return TileText(text if alone else f"({text})", DType.I32, axes)

    def _index(self, one: ir.LoopIndex) -> TileText:
        known = self._scope.known(one)
        if known is not None:
            return known
        if one != self._layout.loop and self._scope.outer is not None:
            return PositionPrinter(self._layout, self._scope.outer)._index(one)
        tile, axes = self._layout.tile(one), self._layout.axes([one])
        if self._layout.steps(one) == 1:
            text = "0" if tile == 1 else _range(tile)
        else:
            grid = self._layout.grid
            start = STEP if one == self._layout.loop else f"pl.program_id({grid.index(one)})"
            text = start if tile == 1 else f"{start} * {tile} + {_range(tile)}"
        return self._scope.bind(one, one.name, TileText(text, DType.I32, axes))

    def inside(self, one: ir.LoopIndex) -> TileText:
        """Where an index's tile is in a reference that is cut along it."""
        if self._scope.outer is not None:
            return PositionPrinter(self._layout, self._scope.outer).inside(one)
        tile, key = self._layout.tile(one), ("inside", one)
        if tile == 1:
            return TileText("0", DType.WEAK)
        found = TileText(_range(tile), DType.I32, self._layout.axes([one]))
        return self._scope.known(key) or self._scope.bind(key, f"{one.name}_inside", found)

    def within(self, at: ir.Position, low: int, high: int) -> list[TileText]:
        """What has to be asked of a position for it to be inside, if anything."""
        return self._tests(at, low, high, value_bounds(at, lambda one: one.size))

    def beyond(self, at: Sequence[ir.Position], shape: Sequence[int]) -> list[TileText]:
        """The same of an element of an array, where tiles may reach beyond their indices."""
        places = list(zip(at, shape, strict=True))
        ends = [value_bounds(one, self._layout.reach) for one, _ in places]
        return [
            test
            for (one, size), end in zip(places, ends, strict=True)
            for test in self._tests(one, 0, size, end)
        ]

    def _tests(self, at: ir.Position, low: int, high: int, ends: tuple[int, int]) -> list[TileText]:
        tests = [f">= {low}"] * (ends[0] < low) + [f"< {high}"] * (ends[1] >= high)
        places = [(self.value(at), test) for test in tests]
        return [
            TileText(f"({place.text} {test})", DType.BOOL, place.axes) for place, test in places
        ]

    def below(self, indices: Iterable[ir.LoopIndex]) -> list[TileText]:
        """Whether indices are below their sizes, of those whose tiles reach beyond."""
        padded = [one for one in indices if self._layout.padded(one)]
        places = [(self.value(ir.index(one)), one.size) for one in padded]
        return [TileText(f"({at.text} < {size})", DType.BOOL, at.axes) for at, size in places]

    def mask(self, tests: Sequence[TileText], axes: tuple[ir.LoopIndex, ...]) -> str:
        """Whether all of them hold, over a tile's axes; empty where nothing has to be asked."""
        texts = list(dict.fromkeys(broadcast_text(test, axes) for test in tests))
        return texts[0] if len(texts) == 1 else " & ".join(texts)

    def axes(self, tests: Sequence[TileText]) -> tuple[ir.LoopIndex, ...]:
        """Those that the tests have between them."""
        return self._layout.axes(one for test in tests for one in test.axes)


def _range(tile: int) -> str:
    return f"jnp.arange({tile}, dtype=jnp.int32)"
