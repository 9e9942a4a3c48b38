"""Positions and masks, printed as integers for every element of a tile.

With tiles of 64 the index j becomes `pl.program_id(1) * 64 + jnp.arange(64, dtype=jnp.int32)`, and
its mask `(j < 4000)` where tiles reach beyond 4000.
"""

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
        """The text of `position`; a literal where all elements have the same position."""
        low, high = value_bounds(position, self._layout.reach)
        if low == high:
            return TileText(str(low), DType.WEAK)
        match position:
            case ir.Affine():
                terms = [(self._index(part), factor) for part, factor in position.terms]
                return self._total(terms, position.offset)
            case ir.Mixed():
                parts = [(self.value(part), factor) for part, factor in position.terms]
                return self._total([*parts, (self.value(position.rest), 1)], 0)
            case ir.Quotient():
                return self._divided("div", position)
            case ir.Remainder():
                return self._divided("rem", position)

    def _divided(self, how: str, position: ir.Quotient | ir.Remainder) -> TileText:
        """A quotient or remainder. Both round towards zero, so what may be below zero is raised
        above it.
        """
        low, _ = value_bounds(position.position, self._layout.reach)
        shift = max(0, -(low // position.by))
        raised = self._total([(self.value(position.position), 1)], shift * position.by)
        by = f"lax.full_like({raised.text}, {position.by})"  # a literal would have 64 bits if asked
        divided = TileText(f"lax.{how}({raised.text}, {by})", DType.I32, raised.axes)
        return self._total([(divided, 1)], -shift if how == "div" else 0)

    def _total(self, parts: Sequence[tuple[TileText, int]], offset: int) -> TileText:
        offset += sum(int(part.text) * times for part, times in parts if part.dtype is DType.WEAK)
        left = [(part, times) for part, times in parts if part.dtype is not DType.WEAK]
        axes = self._layout.axes(axis for part, _ in left for axis in part.axes)
        texts = [
            f"{broadcast_text(part, axes)}{f' * {times}' if times != 1 else ''}"
            for part, times in left
        ]
        texts += [str(offset)] if offset else []
        text = " + ".join(texts)
        alone = len(texts) == 1 and left[0][1] == 1
        return TileText(text if alone else f"({text})", DType.I32, axes)

    def _index(self, loop_index: ir.LoopIndex) -> TileText:
        bound = self._scope.known(loop_index)
        if bound is not None:
            return bound
        if loop_index != self._layout.loop and self._scope.outer is not None:
            return PositionPrinter(self._layout, self._scope.outer)._index(loop_index)
        tile, axes = self._layout.tile(loop_index), self._layout.axes([loop_index])
        if self._layout.steps(loop_index) == 1:
            text = "0" if tile == 1 else _range(tile)
        else:
            grid = self._layout.grid
            start = (
                STEP
                if loop_index == self._layout.loop
                else f"pl.program_id({grid.index(loop_index)})"
            )
            text = start if tile == 1 else f"{start} * {tile} + {_range(tile)}"
        return self._scope.bind(loop_index, loop_index.name, TileText(text, DType.I32, axes))

    def inside(self, loop_index: ir.LoopIndex) -> TileText:
        """Where the tile of `loop_index` is in a reference that is cut along it."""
        if self._scope.outer is not None:
            return PositionPrinter(self._layout, self._scope.outer).inside(loop_index)
        tile, key = self._layout.tile(loop_index), ("inside", loop_index)
        if tile == 1:
            return TileText("0", DType.WEAK)
        tile_range = TileText(_range(tile), DType.I32, self._layout.axes([loop_index]))
        return self._scope.known(key) or self._scope.bind(
            key, f"{loop_index.name}_inside", tile_range
        )

    def within(self, at: ir.Position, low: int, high: int) -> list[TileText]:
        """The tests by which `at` is inside of `low` and `high`, if any are needed."""
        return self._tests(at, low, high, value_bounds(at, lambda loop_index: loop_index.size))

    def beyond(self, at: Sequence[ir.Position], shape: Sequence[int]) -> list[TileText]:
        """The tests by which an element is inside of an array, where tiles may reach beyond their
        indices.
        """
        places = list(zip(at, shape, strict=True))
        ends = [value_bounds(position, self._layout.reach) for position, _ in places]
        return [
            test
            for (position, size), end in zip(places, ends, strict=True)
            for test in self._tests(position, 0, size, end)
        ]

    def _tests(self, at: ir.Position, low: int, high: int, ends: tuple[int, int]) -> list[TileText]:
        tests = [f">= {low}"] * (ends[0] < low) + [f"< {high}"] * (ends[1] >= high)
        places = [(self.value(at), test) for test in tests]
        return [
            TileText(f"({place.text} {test})", DType.BOOL, place.axes) for place, test in places
        ]

    def below(self, indices: Iterable[ir.LoopIndex]) -> list[TileText]:
        """The tests by which `indices` are below their sizes, of those whose tiles reach beyond."""
        padded = [loop_index for loop_index in indices if self._layout.padded(loop_index)]
        places = [(self.value(ir.index(loop_index)), loop_index.size) for loop_index in padded]
        return [TileText(f"({at.text} < {size})", DType.BOOL, at.axes) for at, size in places]

    def mask(self, tests: Sequence[TileText], axes: tuple[ir.LoopIndex, ...]) -> str:
        """Whether all `tests` hold, over a tile's axes; empty where there are none."""
        texts = list(dict.fromkeys(broadcast_text(test, axes) for test in tests))
        return texts[0] if len(texts) == 1 else " & ".join(texts)

    def axes(self, tests: Sequence[TileText]) -> tuple[ir.LoopIndex, ...]:
        """The axes that `tests` have between them."""
        return self._layout.axes(axis for test in tests for axis in test.axes)


def _range(tile: int) -> str:
    return f"jnp.arange({tile}, dtype=jnp.int32)"
