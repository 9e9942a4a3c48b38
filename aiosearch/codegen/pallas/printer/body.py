"""A kernel's body: what one block does, as the text of a Python function over references."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ... import ir
from ..description import documentation
from ..layout import TileLayout
from ..loops import Loops
from ..nodes import TileNode
from .block_specs import ArrayBlocks
from .expressions import TilePrinter
from .reductions import OnlineReduction, neutral_value, reduce_tile
from .text import STEP, NameAllocator, TextScope, TileText, broadcast_text, cast, tupled

_INDENT = "    "


@dataclass(frozen=True)
class FunctionText:
    """The text of a function, and what it is called with."""

    lines: tuple[str, ...]
    inputs: tuple[ir.Buffer, ...]
    outputs: tuple[ir.Buffer, ...]
    blocks: ArrayBlocks


def body(layout: TileLayout, name: str) -> FunctionText:
    """The function `name` that computes one block of a kernel."""
    nodes = layout.nodes
    inputs, outputs = nodes.loaded, [node.stage.target for node in nodes.outputs]
    names = NameAllocator()
    refs = {buffer: names.fresh(buffer.name) for buffer in (*inputs, *outputs)}
    blocks = ArrayBlocks(layout)
    lines = _BodyPrinter(layout, blocks, names, refs).lines()
    head = f"def {name}({', '.join(refs.values())}):"
    text = (head, *(_INDENT + line if line else "" for line in [*documentation(layout), *lines]))
    return FunctionText(text, tuple(inputs), tuple(outputs), blocks)


class _BodyPrinter:
    def __init__(
        self,
        layout: TileLayout,
        blocks: ArrayBlocks,
        names: NameAllocator,
        refs: dict[ir.Buffer, str],
    ) -> None:
        self._layout, self._blocks, self._names, self._refs = layout, blocks, names, refs
        # The order of lines follows `Loops`: what is computed between two loops, then the stores
        # that need no loop, then the next loop.
        self._loops = Loops(layout.nodes, layout.loop)
        self._scope = TextScope(names)
        self._tiles = TilePrinter(layout, blocks, self._scope, refs)

    def lines(self) -> list[str]:
        stored = self._layout.nodes.outputs
        for level in self._loops.count:
            for node in self._loops.between(level):
                self._bind(self._tiles, node)
            for node in stored:
                if self._loops.done(node) == level and not self._loops.repeats(node):
                    self._tiles.store(node)
            inner = [
                output
                for output in stored
                if self._loops.repeats(output) and self._loops.level(output) == level
            ]
            totals = self._loops.totals(level)
            if inner or totals:
                self._loop(totals, inner)
        return self._scope.lines

    def _bind(self, tiles: TilePrinter, node: TileNode) -> None:
        """Computes `node`, rounded to what its buffer holds, and gives it a name."""
        value = self._folded(tiles, node) if node.folded else tiles.value(node.value, node)
        tiles.scope.bind(node, node.stage.target.name, self._kept(value, node))

    def _kept(self, value: TileText, node: TileNode) -> TileText:
        axes = self._layout.axes(node.indices)
        return cast(
            replace(value, text=broadcast_text(value, axes), axes=axes), node.stage.target.dtype
        )

    def _loop(self, totals: Sequence[TileNode], stored: Sequence[TileNode]) -> None:
        """Runs along the loop's index, adding to `totals` and storing the outputs in `stored`."""
        inner = TextScope(self._names, self._scope)
        tiles = TilePrinter(self._layout, self._blocks, inner, self._refs)
        names = {node: self._names.fresh(node.stage.target.name) for node in totals}
        running = OnlineReduction(tiles, self._loops, names)
        parts: dict[TileNode, TileText] = {}
        for node in self._loops.needed(totals, stored):
            if node in names:
                parts[node] = self._part(tiles, node)
                # Maxima come before the sums that are scaled with them, as nodes stand operands
                # first.
                running.add(node, parts[node])
            else:
                self._bind(tiles, node)
        for node in stored:
            tiles.store(node)
        self._enclose(inner, names, parts, [running.total(node, parts[node]) for node in totals])
        for node, name in names.items():
            self._known(node, running.settled(node, parts[node]), name)

    def _part(self, tiles: TilePrinter, node: TileNode) -> TileText:
        """What one iteration adds to the accumulator `node`, in the type that it is added up in."""
        part, axes = self._folded(tiles, node), self._layout.axes(node.indices)
        return TileText(broadcast_text(part, axes), part.dtype, axes)

    def _folded(self, tiles: TilePrinter, node: TileNode) -> TileText:
        return reduce_tile(tiles, node, heeded=self._loops.heeds(node))

    def _enclose(
        self,
        inner: TextScope,
        named: dict[TileNode, str],
        parts: dict[TileNode, TileText],
        added: Sequence[str],
    ) -> None:
        """Writes a `lax.fori_loop` around the lines of the loop's body, with the accumulators as
        carry.
        """
        assert self._layout.loop is not None
        names = list(named.values())
        carry, loop = self._names.fresh("carry"), self._names.fresh("loop")
        begun = [
            neutral_value(node.reduction, parts[node].dtype, self._layout.shape(parts[node].axes))
            for node in named
        ]
        unpacked = [f"{tupled(names)} = {carry}"] if names else []
        body = [*unpacked, *inner.lines, f"return {tupled(added)}"]
        steps = self._layout.steps(self._layout.loop)
        run = f"lax.fori_loop(0, {steps}, {loop}, {tupled(begun)})"
        self._scope.lines += [
            f"def {loop}({STEP}, {carry}):",
            *(_INDENT + line for line in body),
            f"{tupled(names)} = {run}" if names else run,
        ]

    def _known(self, node: TileNode, total: TileText, name: str) -> None:
        stored = self._kept(total, node)
        if stored.text == name:
            self._scope.let(node, stored)
        else:
            self._scope.bind(node, node.stage.target.name, stored)
