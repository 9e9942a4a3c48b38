"""A kernel's body for Mosaic GPU: what one warpgroup does, as the text of a Python function.

A block copies what does not move with its loop, and then runs the loops that `Loops` orders. In a
loop of `stages` slots, step s waits for slot s modulo stages, computes, and has the tiles of step
s + stages copied into the slot that it is done with. Sums of products stay in the accumulators of
`wgmma`; other sums are added up element by element, and reduced once behind the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ....tensor.types import BYTES, JAX_NAMES, DType
from ... import ir
from ...errors import CannotPrint
from ..contractions import Contraction, ContractionSide
from ..description import documentation
from ..loops import Loops
from ..nodes import TileNode
from ..printer.reductions import combine_parts, neutral_value
from ..printer.text import STEP, NameAllocator, TextScope, TileText, tupled
from .expressions import WarpgroupPrinter, aligned, kept
from .layout import DEPTH, WarpgroupLayout
from .staging import StagedTile, grid_name, require_order, staged_tile

_INDENT = "    "
_SLOT = "slot"
_SHARED_BYTES = 227 * 1024 - 2048
"""The shared memory of a block, but for what Mosaic reduces and waits in."""
_ACCUMULATED = 192
"""The most registers of a thread that may hold sums."""
_THREADS = 128
RESERVED = frozenset({_SLOT, "plgpu", "acc", "block_0", "block_1", "block_2", "block_3"})


@dataclass(frozen=True)
class WarpgroupFunction:
    """The text of a function, and what it is called with."""

    lines: tuple[str, ...]
    inputs: tuple[ir.Buffer, ...]
    outputs: tuple[ir.Buffer, ...]
    scratch: tuple[str, ...]
    """The types of its scratch memory, as text."""


def warpgroup_body(layout: WarpgroupLayout, name: str, names: NameAllocator) -> WarpgroupFunction:
    """The function `name` with which one warpgroup computes a block of a kernel."""
    nodes = layout.nodes
    inputs, outputs = nodes.loaded, [node.stage.target for node in nodes.outputs]
    refs = {buffer: names.fresh(buffer.name) for buffer in (*inputs, *outputs)}
    printer = _WarpgroupBody(layout, names, refs)
    lines = printer.lines()
    head = f"def {name}({', '.join([*refs.values(), *printer.scratch])}):"
    text = (head, *(_INDENT + line if line else "" for line in [*documentation(layout), *lines]))
    return WarpgroupFunction(text, tuple(inputs), tuple(outputs), tuple(printer.scratch.values()))


class _WarpgroupBody:
    def __init__(
        self, layout: WarpgroupLayout, names: NameAllocator, refs: dict[ir.Buffer, str]
    ) -> None:
        self._layout, self._names, self._refs = layout, names, refs
        self._loops = Loops(layout.nodes, layout.loop)
        self._steps = layout.steps(layout.loop) if layout.loop is not None else 1
        self._stages = min(layout.tiling.stages, self._steps)
        self.scratch: dict[str, str] = {}
        """The scratch memory by its names in the text."""
        self._shared_bytes = 0
        self._staged: dict[ir.BufferLoad, StagedTile] = {}
        for node in layout.nodes.all:
            for load in node.taken:
                self._stage(load)
        self._scope = TextScope(names)

    def _stage(self, load: ir.BufferLoad) -> None:
        if load not in self._staged:
            tile = staged_tile(self._layout, load, self._names.fresh(f"{load.buffer.name}_smem"))
            self._staged[load] = tile
            self._claim(
                tile.name,
                tile.scratch(self._stages),
                tile.bytes * (self._stages if tile.streamed else 1),
            )

    def _claim(self, name: str, text: str, size: int) -> None:
        """Adds to the scratch memory; raises CannotPrint where a block has not as much."""
        self.scratch[name] = text
        self._shared_bytes += size
        if self._shared_bytes > _SHARED_BYTES:
            raise CannotPrint(
                f"kernel {self._layout.nodes.kernel.name}: a block would have more than"
                f" {_SHARED_BYTES} bytes of shared memory: choose smaller tiles or fewer stages"
            )

    def lines(self) -> list[str]:
        layout, scope = self._layout, self._scope
        for place, axis in enumerate(layout.grid):
            scope.lines.append(f'{grid_name(layout, axis)} = lax.axis_index("{axis_name(place)}")')
        resident = [tile for tile in self._staged.values() if not tile.streamed]
        if resident:
            arrived = self._barrier(len(resident), 1)
            scope.lines += [self._copy(tile, "0", arrived) for tile in resident]
            scope.lines.append(f"plgpu.barrier_wait({arrived})")
        tiles = self._printer(scope)
        for level in self._loops.count:
            for node in self._loops.between(level):
                self._bind(tiles, node)
            for node in layout.nodes.outputs:
                if self._loops.repeats(node):
                    raise CannotPrint(
                        f"kernel {layout.nodes.kernel.name}: {node.stage.target} is written in the"
                        " loop, and a warpgroup writes its outputs once, behind its loops"
                    )
            totals = self._loops.totals(level)
            if totals:
                self._loop(totals)
        for node in layout.nodes.outputs:
            self._store(tiles, node)
        scope.lines.append("plgpu.wait_smem_to_gmem(0)")
        return scope.lines

    def _printer(self, scope: TextScope) -> WarpgroupPrinter:
        return WarpgroupPrinter(self._layout, scope, self._staged, _SLOT)

    def _barrier(self, arrivals: int, count: int) -> str:
        name = self._names.fresh("arrived")
        self.scratch[name] = f"plgpu.Barrier(num_arrivals={arrivals}, num_barriers={count})"
        return name

    def _copy(self, tile: StagedTile, slot: str, arrived: str) -> str:
        source = f"{self._refs[tile.buffer]}.at[{tile.place}]"
        return f"plgpu.copy_gmem_to_smem({source}, {tile.reference(slot, tile.axes)}, {arrived})"

    def _bind(self, tiles: WarpgroupPrinter, node: TileNode) -> None:
        """Computes `node`, rounded to what its buffer holds, and gives it a name."""
        product = self._layout.dot(node)
        if product is not None:
            value = self._dot(tiles, node, product)
        elif node.folded:
            value = self._reduced(self._element(tiles, node), node)
        else:
            value = tiles.value(node.value, node)
        tiles.scope.bind(node, node.stage.target.name, kept(value, node, self._layout))

    def _element(self, tiles: WarpgroupPrinter, node: TileNode) -> TileText:
        """The tile of what `node` reduces, over all of its axes."""
        value = tiles.working(tiles.value(node.value, node))
        return aligned(value, self._layout.axes(node.all_indices), self._layout)

    def _reduced(self, value: TileText, node: TileNode) -> TileText:
        """A tile without the axes that `node` reduces."""
        over = [axis for axis in value.axes if axis in node.folded]
        if not over:
            return value
        left = tuple(axis for axis in value.axes if axis not in over)
        if not left:
            raise CannotPrint(
                f"kernel {self._layout.nodes.kernel.name}: {node.stage.target.name} is one number"
                " of a block, and warpgroups hold tiles of one or two axes"
            )
        largest = node.reduction is ir.ReductionKind.MAX and self._loops.heeds(node)
        name = "_largest" if largest else f"jnp.{node.reduction}"
        text = f"{name}({value.text}, axis={value.axes.index(over[0])})"
        return TileText(text, value.dtype, left)

    def _loop(self, totals: Sequence[TileNode]) -> None:
        """Runs along the loop's index, adding to `totals`."""
        loops, layout = self._loops, self._layout
        inner = TextScope(self._names, self._scope)
        tiles = self._printer(inner)
        needed = loops.needed(totals, [])
        names = {node: self._names.fresh(node.stage.target.name) for node in totals}
        followed = {most for node in totals for most in loops.running(node)}
        # A product that nothing rescales stays in its accumulator; all other totals are carried.
        held = {
            node: self._names.fresh("acc")
            for node in totals
            if layout.dot(node) is not None and not loops.running(node)
        }
        streams = [
            self._staged[load]
            for load in dict.fromkeys(load for node in needed for load in node.taken)
            if self._staged[load].streamed
        ]
        arrived, fetch = self._fetching(streams)
        carried: dict[TileNode, TileText] = {}
        ends: dict[TileNode, str] = {}
        scales: dict[tuple[TileNode, float], TileText] = {}
        for node in needed:
            if node in held:
                self._multiply(tiles, node, _dot(layout, node), held[node])
            elif node not in names:
                self._bind(tiles, node)
            elif node in followed:
                self._running_maximum(tiles, node, names[node], carried, ends)
            else:
                part = self._part(tiles, node)
                carried[node] = part
                total = names[node]
                for most, weight in loops.running(node).items():
                    scale = self._scale(tiles, most, names[most], weight, scales)
                    total = f"{total} * {aligned(scale, part.axes, layout).text}"
                ends[node] = combine_parts(node, total, part, heeded=loops.heeds(node))
        self._enclose(inner, names, carried, ends, held, (arrived, fetch))
        for node in totals:
            self._settle(node, names[node], carried, followed)

    def _part(self, tiles: WarpgroupPrinter, node: TileNode) -> TileText:
        """What one step adds to a total that is carried."""
        product = self._layout.dot(node)
        if product is not None:
            part = self._dot(tiles, node, product)
        else:
            part = self._element(tiles, node)
            # Scales are of the reduced tile, so what is rescaled is reduced in every step.
            if self._loops.running(node):
                part = self._reduced(part, node)
        return tiles.scope.bind((node, "part"), f"{node.stage.target.name}_part", part)

    def _running_maximum(
        self,
        tiles: WarpgroupPrinter,
        node: TileNode,
        name: str,
        carried: dict[TileNode, TileText],
        ends: dict[TileNode, str],
    ) -> None:
        """The maximum of what was seen, which sums of this step are taken relative to.

        While nothing but minus infinity was seen, numerators are exp(-inf) rather than exp(nan).
        """
        part = self._reduced(self._element(tiles, node), node)
        carried[node] = part
        text = combine_parts(node, name, part, heeded=self._loops.heeds(node))
        most = tiles.scope.bind((node, "most"), f"{name}_next", replace(part, text=text))
        ends[node] = most.text
        finite = f"jnp.where({most.text} == -jnp.inf, 0.0, {most.text})"
        tiles.scope.bind(node, f"{name}_shift", replace(part, text=finite))

    def _scale(
        self,
        tiles: WarpgroupPrinter,
        most: TileNode,
        name: str,
        weight: float,
        scales: dict[tuple[TileNode, float], TileText],
    ) -> TileText:
        """What a total is multiplied by, now that the maximum `most` has grown."""
        if (most, weight) not in scales:
            shift = tiles.tile_of(most)
            text = f"jnp.exp(({name} - {shift.text}) * {-weight})"
            scales[most, weight] = tiles.scope.bind(
                (most, weight), f"{name}_scale", replace(shift, text=text)
            )
        return scales[most, weight]

    def _fetching(self, streams: Sequence[StagedTile]) -> tuple[str, str]:
        """Writes a function that copies the tiles of a step, and its first calls."""
        if not streams:
            return "", ""
        arrived, fetch = self._barrier(len(streams), self._stages), self._names.fresh("fetch")
        self._scope.lines += [
            f"def {fetch}({STEP}, {_SLOT}):",
            *(_INDENT + self._copy(tile, _SLOT, f"{arrived}.at[{_SLOT}]") for tile in streams),
            f"for {_SLOT} in range({self._stages}):",
            f"{_INDENT}{fetch}({_SLOT}, {_SLOT})",
        ]
        return arrived, fetch

    def _enclose(
        self,
        inner: TextScope,
        names: dict[TileNode, str],
        carried: dict[TileNode, TileText],
        ends: dict[TileNode, str],
        held: dict[TileNode, str],
        copies: tuple[str, str],
    ) -> None:
        """Writes the loop around its lines, and the accumulators around the loop."""
        arrived, fetch = copies
        layout, scope, stages, steps = self._layout, self._scope, self._stages, self._steps
        registers = sum(layout.size(node.indices) for node in held) + sum(
            layout.size(frozenset(tile.axes)) for tile in carried.values()
        )
        if registers > _ACCUMULATED * _THREADS:
            raise CannotPrint(
                f"kernel {layout.nodes.kernel.name}: {registers} sums are more than the registers"
                f" of a warpgroup hold, {_ACCUMULATED * _THREADS}: choose smaller tiles"
            )
        carry, loop, run = (self._names.fresh(name) for name in ("carry", "loop", "run"))
        results = [names[node] for node in carried]
        begun = [
            neutral_value(node.reduction, tile.dtype, layout.shape(tile.axes))
            for node, tile in carried.items()
        ]
        body = [f"{tupled(results)} = {carry}"] if results else []
        body.append(f"{_SLOT} = lax.rem({STEP}, {stages})")
        if arrived:
            body.append(f"plgpu.barrier_wait({arrived}.at[{_SLOT}])")
        body += inner.lines
        # All products of the step are over before what they read is overwritten.
        if held:
            body.append("plgpu.wgmma_wait(0)")
        if fetch and steps > stages:
            body += [
                f"@pl.when({STEP} + {stages} < {steps})",
                "def _():",
                f"{_INDENT}{fetch}({STEP} + {stages}, {_SLOT})",
            ]
        ended = [ends[node] for node in carried]
        body.append(f"return {tupled(ended) if ended else '()'}")
        lines = [f"def {loop}({STEP}, {carry}):", *(_INDENT + line for line in body)]
        start = tupled(begun) if begun else "()"
        called = f"lax.fori_loop(0, {steps}, {loop}, {start})"
        if not held:
            scope.lines += [*lines, f"{tupled(results)} = {called}"]
            return
        accumulators = [
            f"plgpu.ACC({layout.shape(layout.axes(node.indices))}, jnp.float32)" for node in held
        ]
        total = [*results, *(f"{name}[...]" for name in held.values())]
        scope.lines += [
            f"def {run}({', '.join(held.values())}):",
            *(_INDENT + line for line in lines),
            f"{_INDENT}{tupled(results) + ' = ' if results else ''}{called}",
            f"{_INDENT}return {tupled(total)}",
            f"{tupled([*results, *(names[node] for node in held)])} ="
            f" pl.run_scoped({run}, {', '.join(accumulators)})",
        ]

    def _settle(
        self,
        node: TileNode,
        name: str,
        carried: dict[TileNode, TileText],
        followed: set[TileNode],
    ) -> None:
        """Makes a total known behind its loop; NaN where its maximum is minus infinity."""
        layout = self._layout
        if node in carried:
            total = replace(carried[node], text=name)
            if node not in followed:
                total = self._reduced(total, node)
        else:
            total = TileText(name, DType.F32, layout.axes(node.indices))
        for most in self._loops.running(node):
            shift = aligned(
                replace(carried[most], text=most_name(self._scope, most)), total.axes, layout
            )
            text = f"jnp.where({shift.text} == -jnp.inf, jnp.nan, {total.text})"
            total = replace(total, text=text)
        stored = kept(total, node, layout)
        if stored.text == name:
            self._scope.let(node, stored)
        else:
            self._scope.bind(node, node.stage.target.name, stored)

    def _dot(self, tiles: WarpgroupPrinter, node: TileNode, product: Contraction) -> TileText:
        """The product of two tiles, in an accumulator of its own."""
        axes = self._layout.axes(node.indices)
        call = self._names.fresh("product")
        lines = tiles.scope.lines
        left, right = self._sides(tiles, node, product)
        lines += [
            f"def {call}(acc):",
            f"{_INDENT}plgpu.wgmma(acc, {left}, {right})",
            f"{_INDENT}return acc[...]",
        ]
        text = f"pl.run_scoped({call}, plgpu.ACC({self._layout.shape(axes)}, jnp.float32))"
        value = TileText(text, DType.F32, axes)
        for factor in product.scale:
            value = tiles.scaled(value, tiles.value(factor, node))
        return value

    def _multiply(
        self, tiles: WarpgroupPrinter, node: TileNode, product: Contraction, accumulator: str
    ) -> None:
        """Adds a product to an accumulator that is held across the loop."""
        if product.scale:
            raise CannotPrint(
                f"kernel {self._layout.nodes.kernel.name}: {node.stage.target.name} scales a"
                " product in its loop, and a warpgroup adds to it unscaled"
            )
        left, right = self._sides(tiles, node, product)
        tiles.scope.lines.append(f"plgpu.wgmma({accumulator}, {left}, {right})")

    def _sides(
        self, tiles: WarpgroupPrinter, node: TileNode, product: Contraction
    ) -> tuple[str, str]:
        """References to the operands: rows by what is summed, and that by columns."""
        rows, columns = self._layout.axes(node.indices)
        sides = (
            (product.left, product.right)
            if rows in product.left.own
            else (product.right, product.left)
        )
        (depth,) = product.left.summed
        return (
            self._operand(tiles, node, sides[0], (rows, depth)),
            self._operand(tiles, node, sides[1], (depth, columns)),
        )

    def _operand(
        self,
        tiles: WarpgroupPrinter,
        node: TileNode,
        side: ContractionSide,
        order: tuple[ir.LoopIndex, ...],
    ) -> str:
        """A reference to one operand with its axes in `order`; what is computed is stored first."""
        (factor,) = side.factors
        if isinstance(factor, ir.BufferLoad) and factor in self._staged:
            tile = self._staged[factor]
            # Shared memory that `wgmma` reads is swizzled in rows of 32 bytes or more.
            if tile.shape[-1] % DEPTH:
                raise CannotPrint(
                    f"kernel {self._layout.nodes.kernel.name}: an operand {factor} has"
                    f" {tile.shape[-1]} elements along its last axis, which are no multiple of"
                    f" {DEPTH}"
                )
            return tile.reference(_SLOT, order)
        value = tiles.value(factor, node)
        (depth,) = side.summed
        # Memory runs along what is summed, as tensor cores read operands best.
        held = tuple(sorted(order, key=lambda axis: axis == depth))
        # Two products of one operand read what was stored once.
        key = ("stored", value.text, held)
        stored = tiles.scope.known(key)
        if stored is None:
            scratch = self._scratch_of(node, value, held)
            target = scratch if value.axes == held else f"{scratch}.T"
            tiles.scope.lines += [f"{target}[...] = {value.text}", "plgpu.commit_smem()"]
            stored = tiles.scope.let(key, replace(value, text=scratch))
        return stored.text if order == held else f"{stored.text}.T"

    def _scratch_of(self, node: TileNode, value: TileText, held: tuple[ir.LoopIndex, ...]) -> str:
        name = self._names.fresh(f"{node.stage.target.name}_smem")
        shape = self._layout.shape(held)
        size = BYTES[value.dtype] * shape[0] * shape[1]
        self._claim(name, f"plgpu.SMEM({shape}, {JAX_NAMES[value.dtype]})", size)
        return name

    def _store(self, tiles: WarpgroupPrinter, node: TileNode) -> None:
        """Writes the output `node` through shared memory."""
        buffer = node.stage.target
        name = self._names.fresh(f"{buffer.name}_smem")
        tile = staged_tile(self._layout, ir.BufferLoad(buffer, node.stage.at), name)
        self._claim(name, tile.scratch(1), tile.bytes)
        value = aligned(tiles.tile_of(node), self._layout.axes(tile.axes), self._layout)
        require_order(self._layout, tile, value.axes)
        self._scope.lines += [
            f"{tile.reference('0', value.axes)}[...] = {value.text}",
            "plgpu.commit_smem()",
            f"plgpu.copy_smem_to_gmem({name}, {self._refs[buffer]}.at[{tile.place}])",
        ]


def axis_name(place: int) -> str:
    """The name of an axis of the grid."""
    return f"block_{place}"


def most_name(scope: TextScope, most: TileNode) -> str:
    """The name of a maximum behind its loop."""
    tile = scope.known(most)
    assert tile is not None, f"{most.stage} is not computed yet"
    return tile.text


def _dot(layout: WarpgroupLayout, node: TileNode) -> Contraction:
    product = layout.dot(node)
    assert product is not None
    return product
