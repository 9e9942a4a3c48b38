"""Maxima of what a loop has seen so far, and sums that are scaled as these grow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from .folds import combined
from .loops import Loops
from .nodes import Node
from .tiles import Tiles
from .values import Value, spread


class Running:
    """The accumulators of one loop, by their names; prints into the loop's scope."""

    def __init__(self, tiles: Tiles, loops: Loops, names: Mapping[Node, str]) -> None:
        self._tiles, self._loops, self._names = tiles, loops, names
        self._pace = {node: loops.running(node) for node in names}
        self._followed = {most for own in self._pace.values() for most in own}
        self._next: dict[Node, Value] = {}

    def add(self, node: Node, part: Value) -> None:
        """Has an iteration's maximum known to what runs along with it.

        While nothing but minus infinity was seen, numerators are exp(-inf) rather than exp(nan).
        """
        if node in self._followed:
            scope, name = self._tiles.scope, self._names[node]
            found = replace(part, text=self._combined(node, name, part))
            most = self._next[node] = scope.bind((node, "most"), f"{name}_next", found)
            finite = replace(most, text=f"jnp.where({most.text} == -jnp.inf, 0.0, {most.text})")
            scope.bind(node, f"{name}_shift", finite)

    def total(self, node: Node, part: Value) -> str:
        """What an accumulator is after an iteration."""
        if node in self._next:
            return self._next[node].text
        name = self._names[node]
        for most, weight in self._pace[node].items():
            name = f"{name} * {spread(self._scale(most, weight), part.axes)}"
        return self._combined(node, name, part)

    def _combined(self, node: Node, total: str, part: Value) -> str:
        return combined(node, total, part, heeded=self._loops.heeds(node))

    def _scale(self, most: Node, weight: float) -> Value:
        """What a sum over smaller places is multiplied by, now that the maximum has grown."""
        scope, name = self._tiles.scope, self._names[most]
        known = scope.known((most, weight))
        if known is not None:
            return known
        shift = self._tiles.known(most)
        grown = f"{name} - {shift.text}"
        text = f"jnp.exp({grown})" if weight == -1 else f"jnp.exp(({grown}) * {-weight})"
        return scope.bind((most, weight), f"{name}_scale", replace(shift, text=text))

    def settled(self, node: Node, part: Value) -> Value:
        """An accumulator behind the loop; no number where its maximum is minus infinity."""
        found = replace(part, text=self._names[node])
        for most in self._pace[node]:
            shift = replace(self._next[most], text=self._names[most])
            lost = f"{spread(shift, part.axes)} == -jnp.inf"
            found = replace(found, text=f"jnp.where({lost}, jnp.nan, {found.text})")
        return found
