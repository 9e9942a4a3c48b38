"""Layered graph layout from top to bottom, without overlapping boxes or lines.

The steps of Sugiyama's method: layers by longest path, long lines cut into one piece for each
layer, rows ordered by the means of their neighbours to reduce crossings, then x coordinates that
straighten lines.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

GAP_X = 22.0
"""Space between boxes of a row, in SVG units."""
GAP_Y = 30.0
"""Space between rows, in SVG units."""

_SWEEPS = 6
"""Passes over the rows, alternately down and up."""
_LONGEST = 60
"""Lines over more layers than this are drawn straight."""


@dataclass(frozen=True)
class Edge:
    """A line from the bottom of a box to the top of another; ports count from their left sides."""

    source: int
    target: int
    source_port: float
    target_port: float


@dataclass
class LayeredLayout:
    """Where each box is (its left upper corner), and the points of each line."""

    places: list[tuple[float, float]] = field(default_factory=list)
    routes: list[list[tuple[float, float]]] = field(default_factory=list)
    zones: list[tuple[float, float]] = field(default_factory=list)
    """From where to where down each zone reaches."""
    width: float = 0.0
    height: float = 0.0


def arrange(
    sizes: Sequence[tuple[float, float]],
    edges: Sequence[Edge],
    zones: Sequence[int],
    gaps: Sequence[float] = (),
    sink: bool = False,
) -> LayeredLayout:
    """Each zone lies below the one before, with a gap; `sink` puts sources just above their use."""
    layers = _layers(len(sizes), edges, zones, sink)
    return _Arrangement(sizes, edges, zones, layers, gaps).layout()


def _layers(count: int, edges: Sequence[Edge], zones: Sequence[int], sink: bool) -> list[int]:
    """The layer of each box, below all that it depends on; boxes come in such an order."""
    before: list[list[int]] = [[] for _ in range(count)]
    after: list[list[int]] = [[] for _ in range(count)]
    for edge in edges:
        before[edge.target].append(edge.source)
        after[edge.source].append(edge.target)
    layers = [0] * count
    floor = 0
    for zone in range(max(zones, default=0) + 1):
        nodes = [node for node in range(count) if zones[node] == zone]
        for node in nodes:
            layers[node] = max([floor, *(layers[neighbour] + 1 for neighbour in before[node])])
        floor = max([floor, *(layers[node] + 1 for node in nodes)])
    for node in range(count):
        if sink and not before[node] and after[node]:
            # A source sinks to just above its first use, which shortens its line.
            layers[node] = min(layers[neighbour] for neighbour in after[node]) - 1
    return layers


@dataclass(eq=False)
class _Spot:
    """A box in its layer, or a place where a long line passes (`box` is None)."""

    width: float
    layer: int
    box: int | None = None
    x: float = 0.0
    order: float = 0.0
    index: int = 0
    above: list[tuple[_Spot, float, float]] = field(default_factory=list)
    """Neighbours, this spot's port towards them, their port towards this spot."""
    below: list[tuple[_Spot, float, float]] = field(default_factory=list)


class _Arrangement:
    """The state of one layout: rows of spots, and the chain of spots of each line."""

    def __init__(
        self,
        sizes: Sequence[tuple[float, float]],
        edges: Sequence[Edge],
        zones: Sequence[int],
        layers: Sequence[int],
        gaps: Sequence[float],
    ) -> None:
        self._sizes, self._edges, self._zones, self._gaps = sizes, edges, zones, gaps
        self._spots = [
            _Spot(width, layer, box)
            for box, ((width, _), layer) in enumerate(zip(sizes, layers, strict=True))
        ]
        self._rows: list[list[_Spot]] = [[] for _ in range(max(layers, default=-1) + 1)]
        for spot in self._spots:
            self._rows[spot.layer].append(spot)
        self._chains = [self._chain(edge) for edge in edges]

    def _chain(self, edge: Edge) -> list[_Spot]:
        """The spots that a line passes, both ends included."""
        first, last = self._spots[edge.source], self._spots[edge.target]
        chain = [first]
        if last.layer - first.layer <= _LONGEST:
            for layer in range(first.layer + 1, last.layer):
                # A long line takes a narrow place in each row that it passes, so that no box is
                # drawn over it.
                spot = _Spot(2.0, layer)
                self._rows[layer].append(spot)
                chain.append(spot)
        chain.append(last)
        ports = [edge.source_port, *[1.0] * (len(chain) - 2), edge.target_port]
        for index in range(len(chain) - 1):
            upper, lower = chain[index], chain[index + 1]
            upper.below.append((lower, ports[index], ports[index + 1]))
            lower.above.append((upper, ports[index + 1], ports[index]))
        return chain

    def layout(self) -> LayeredLayout:
        self._order()
        self._place()
        return self._measured()

    def _order(self) -> None:
        """Sorts each row by where its neighbours stand; keeps what has the fewest crossings."""
        for row in self._rows:
            self._spread(row)
        best, best_orders = self._crossings(), [list(row) for row in self._rows]
        # Barycentre heuristic: each spot moves to the mean of its neighbours in the row before,
        # alternately downwards and upwards.
        for sweep in range(_SWEEPS):
            down = sweep % 2 == 0
            for row in self._rows if down else reversed(self._rows):
                for spot in row:
                    near = spot.above if down else spot.below
                    ends = [neighbour.x + port for neighbour, _, port in near]
                    spot.order = _mean(ends) if ends else spot.x
                row.sort(key=lambda spot: spot.order)
                self._spread(row)
            crossings = self._crossings()
            # Sweeps may make it worse: the best order seen is kept.
            if crossings < best:
                best, best_orders = crossings, [list(row) for row in self._rows]
        self._rows = best_orders
        for row in self._rows:
            self._spread(row)

    def _spread(self, row: Sequence[_Spot]) -> None:
        """Puts a row side by side, around the middle."""
        total = sum(spot.width + GAP_X for spot in row)
        x = -total / 2
        for spot in row:
            spot.x = x
            x += spot.width + GAP_X

    def _crossings(self) -> int:
        """How many pairs of lines cross between neighbouring rows."""
        total = 0
        for row in self._rows:
            ends = [
                neighbour.x + port
                for spot in row
                for neighbour, _, port in sorted(spot.below, key=lambda end: end[1])
            ]
            total += _inversions(ends)
        return total

    def _place(self) -> None:
        """Moves each row, its order kept, to where its lines are straightest."""
        near: Sequence[Callable[[_Spot], list[tuple[_Spot, float, float]]]] = (
            lambda spot: spot.above,
            lambda spot: spot.below,
            lambda spot: spot.above + spot.below,
        )
        for turn in range(2 * _SWEEPS):
            rows = self._rows if turn % 2 == 0 else self._rows[::-1]
            # First towards one side at a time, which lets straight chains form; then towards both.
            neighbours = near[2] if turn >= _SWEEPS else near[turn % 2]
            for row in rows:
                _settle(row, neighbours)

        for row in self._rows:
            for index, spot in enumerate(row):
                spot.index = index
        for edge, chain in zip(self._edges, self._chains, strict=True):
            self._straighten(chain[1:-1], chain[-1].x + edge.target_port - 1)

    def _straighten(self, passed: Sequence[_Spot], x: float) -> None:
        """Puts all of a long line on one vertical, where the boxes beside it leave room."""
        low, high = -math.inf, math.inf
        for spot in passed:
            row, index = self._rows[spot.layer], spot.index
            if index:
                low = max(low, row[index - 1].x + row[index - 1].width + GAP_X)
            if index + 1 < len(row):
                high = min(high, row[index + 1].x - spot.width - GAP_X)
        # Only where a common vertical exists in all rows that the line passes.
        if low <= high:
            for spot in passed:
                spot.x = min(max(low, x), high)

    def _measured(self) -> LayeredLayout:
        """The layout in coordinates from the left upper corner."""
        tops, bottoms = self._heights()
        left = min((spot.x for row in self._rows for spot in row), default=0.0)
        layout = LayeredLayout(height=max(bottoms, default=0.0))
        for spot in self._spots[: len(self._sizes)]:
            layout.places.append((spot.x - left, tops[spot.layer]))
        for row in self._rows:
            for spot in row:
                layout.width = max(layout.width, spot.x + spot.width - left)
        for edge, chain in zip(self._edges, self._chains, strict=True):
            layout.routes.append(self._route(edge, chain, layout, left, tops, bottoms))
        for zone in range(max(self._zones, default=-1) + 1):
            pairs = zip(self._spots, self._zones, strict=True)
            zone_layers = [spot.layer for spot, its in pairs if its == zone]
            layout.zones.append(
                (tops[min(zone_layers)], bottoms[max(zone_layers)]) if zone_layers else (0.0, 0.0)
            )
        return layout

    def _heights(self) -> tuple[list[float], list[float]]:
        """Where each row begins and ends."""
        tops: list[float] = []
        bottoms: list[float] = []
        y, zone = 0.0, 0
        for row in self._rows:
            boxes = [spot.box for spot in row if spot.box is not None]
            here = max([zone, *(self._zones[box] for box in boxes)])
            y += sum(self._gaps[zone:here])
            zone = here
            tops.append(y)
            bottoms.append(y + max([0.0, *(self._sizes[box][1] for box in boxes)]))
            y = bottoms[-1] + GAP_Y
        return tops, bottoms

    def _route(
        self,
        edge: Edge,
        chain: Sequence[_Spot],
        layout: LayeredLayout,
        left: float,
        tops: Sequence[float],
        bottoms: Sequence[float],
    ) -> list[tuple[float, float]]:
        """Down to the end of a row, over to the next, and down through it."""
        x, y = layout.places[edge.source]
        points = [(x + edge.source_port, y + self._sizes[edge.source][1])]
        points.append((points[0][0], bottoms[chain[0].layer]))
        for spot in chain[1:-1]:
            x = spot.x - left + 1
            points += [(x, tops[spot.layer]), (x, bottoms[spot.layer])]
        x, y = layout.places[edge.target]
        points += [(x + edge.target_port, tops[chain[-1].layer]), (x + edge.target_port, y)]
        return points


def _settle(
    row: Sequence[_Spot], near: Callable[[_Spot], list[tuple[_Spot, float, float]]]
) -> None:
    """The places nearest to the desired ones that keep order and distance."""
    offset = 0.0
    pools: list[tuple[float, float, int]] = []
    offsets = []
    for spot in row:
        offsets.append(offset)
        desired = [neighbour.x + port - own_port for neighbour, own_port, port in near(spot)]
        # Passing points weigh four times as much, so that long lines stay straight; the small term
        # keeps boxes without lines in place.
        weight = 0.01 + len(desired) * (4.0 if spot.box is None else 1.0)
        target = (_mean(desired) if desired else spot.x) - offset
        pools.append((target, weight, 1))
        # Isotonic regression by pooling adjacent violators: neighbours that want to overlap move as
        # one, to their weighted mean.
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (a, m, i), (b, n, j) = pools[-2], pools[-1]
            pools[-2:] = [((a * m + b * n) / (m + n), m + n, i + j)]
        offset += spot.width + GAP_X
    index = 0
    for place, _, count in pools:
        for spot in row[index : index + count]:
            spot.x = place + offsets[index]
            index += 1


def _mean(values: Iterable[float]) -> float:
    numbers = list(values)
    return sum(numbers) / len(numbers)


def _inversions(values: list[float]) -> int:
    """How many pairs of `values` are out of order, by merge sort."""
    if len(values) < 2:
        return 0
    middle = len(values) // 2
    left, right = values[:middle], values[middle:]
    total = _inversions(left) + _inversions(right)
    left, right = sorted(left), sorted(right)
    index = 0
    for value in right:
        while index < len(left) and left[index] <= value:
            index += 1
        total += len(left) - index
    return total
