"""Chooses how every value of a JAX function is laid out over a mesh of equal devices, and runs it.

Problem: on a mesh of n1 x n2 devices each axis of the mesh may divide one dimension of an array or
none. Every equation can run in some layouts of its operands without talking, or with a sum at its
end; between two equations that disagree, arrays are gathered, sliced or exchanged. Which layouts
take the least time?

Method. The layouts in which an equation can run come from the rules of `rows`: rows of a result
along an axis need rows of these operands, so that axis may be divided. Products and sums may also
divide what they sum over; partial sums are then added up. Data, tensor and sequence parallelism are
such choices, and no list of them is in here. Each equation is a variable whose domain are its
layouts (`Layout`), each use of a value an edge with what moving it costs, and the least sum is
found exactly, by eliminating one variable after another (`eliminate`). A `scan` is folded: its body
is in the graph once, with what it carries in one layout, and counts as often as it runs.

Example, a mesh of 4 and `x @ w1 @ w2` with few rows: dividing the columns of w1 and the rows of w2
computes a quarter each, and one sum over all devices is all that moves.

A loop over layers may also be a pipeline: along one axis of the mesh each device has some of the
layers, and parts of what the loop carries pass from device to device. Which dimension the parts
are of is a layout too, over an axis of turns in time (`MeshShape`), along which nothing may be
gathered or summed. Each axis and a few numbers of parts are tried, and the least is taken.

Invariant: the program that runs is made of the same choices as the cost, collective by collective
(`_Executor`), so that the bytes that are predicted are those in the compiled program.

Cost: layouts ** (width of the graph + 1), in numpy. Layers that differ are not folded.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from msgspec import Struct

from ..arguments import is_whole
from ..capture.jax_types import Function, Leaf, PyTree
from .assignment.elimination import GAP, Costs, eliminate_within
from .errors import PlanError
from .layouts import (
    PARTIAL,
    PERMUTE,
    EquationLayout,
    Layout,
    LayoutGraph,
    LayoutNode,
    LoopLayouts,
    MeshCosts,
    MeshShape,
    Pipeline,
    item_size,
    local_rule,
    moves,
    pipelines,
    why_no_pipeline,
)
from .rows.equations import (
    Atom,
    Equation,
    Flat,
    FlatValue,
    Known,
    PrimitiveParams,
    trace,
)
from .rows.evidence import RowEvidence, compare
from .rows.frames import bind


class CollectiveUse(Struct, frozen=True):
    """A collective of a plan: its kind, bytes a device, and how often it runs."""

    kind: str
    bytes: int
    times: int


class ShardingPlan:
    """A function with a layout for each of its values; `run` makes a callable for devices."""

    def __init__(
        self,
        function: Function,
        flat: Flat,
        trees: tuple[PyTree, PyTree],
        graph: LayoutGraph,
        nodes: list[LayoutNode],
        chosen: list[int],
        seconds: float,
        bound: float,
        offloaded: frozenset[int] = frozenset(),
    ) -> None:
        self.function = function
        self.seconds = seconds
        """What it takes by the model."""
        self.bound = bound
        """What no plan goes below, by the model."""
        self.offloaded = offloaded
        """The numbers of stacks that loops leave in the memory of the host for later loops."""
        self._flat, self._trees = flat, trees
        self._graph, self._nodes, self._chosen = graph, nodes, chosen

    @property
    def gap(self) -> float:
        """By how much, relative to the bound, the plan may be above the best."""
        return self.seconds / self.bound - 1 if self.bound else 0.0

    def layout(self, variable: int) -> Layout:
        return self._graph.variables[variable].results[self._chosen[variable]]

    @property
    def arguments(self) -> list[Layout]:
        """The layout of each array that comes in."""
        axes = len(self._graph.mesh.devices)
        return [
            self.layout(self._graph.homes[0, value.number])[:axes] for value in self._flat.inputs
        ]

    @property
    def pipeline(self) -> Pipeline | None:
        """The loop that is a pipeline, if any."""
        return self._graph.pipeline

    def specs(self, names: Sequence[str]) -> list[PyTree]:
        """The layouts of the arguments as `PartitionSpec`s over axes of these names."""
        return [
            partition(layout, len(value.shape), names)
            for layout, value in zip(self.arguments, self._flat.inputs, strict=True)
        ]

    @property
    def argument_bytes(self) -> int:
        """Bytes of the arguments on a device."""
        return sum(
            math.prod(self._graph.mesh.local(layout, value.shape)) * item_size(value)
            for value in self._flat.inputs
            for layout in (self.layout(self._graph.homes[0, value.number]),)
        )

    @cached_property
    def device_bytes(self) -> int:
        """The most that a device holds at once, arguments and results included: an estimate, as XLA
        never stores some of what is counted here."""
        return _Residence(self).most()

    def with_offload(self) -> ShardingPlan | None:
        """The same plan with all stacks that one loop fills and others read in the memory of the
        host; None where there are none. Each goes there once, and back once for each loop."""
        written = {
            value.number
            for node in self._nodes
            if node.body is not None
            for value in node.equation.outputs[node.equation.params["num_carry"] :]
        }
        read: dict[int, int] = {}
        for node in self._nodes:
            params = node.equation.params
            first = params["num_consts"] + params["num_carry"] if node.body is not None else 0
            for at, atom in enumerate(node.equation.inputs):
                if not isinstance(atom, FlatValue) or atom.number not in written:
                    continue
                read[atom.number] = read.get(atom.number, 0) + 1
                # On the host it can be read slice by slice, but not be brought to another layout.
                if node.body is None or at < first or self._is_moved(node, at, atom.number):
                    written.discard(atom.number)
        results = {atom.number for atom in self._flat.outputs if isinstance(atom, FlatValue)}
        kept = frozenset(written & read.keys() - results)
        if not kept or self.pipeline is not None:
            return None
        residence = _Residence(self)
        moved = sum(residence.bytes_of(0, number) * (1 + read[number]) for number in kept)
        seconds = self.seconds + moved / self._graph.mesh.costs.host
        return ShardingPlan(
            self.function, self._flat, self._trees, self._graph, self._nodes, self._chosen, seconds,
            self.bound, kept,
        )  # fmt: skip

    def _is_moved(self, node: LayoutNode, at: int, number: int) -> bool:
        """Whether a loop reads a stack in another layout than the one that it has."""
        assert node.body is not None, "only loops read slice by slice"
        variable = node.body.inputs[at]
        wanted = self._graph.outer(node.body, variable, self._chosen[variable], lead=True)
        return wanted != self.layout(self._graph.homes[0, number])

    @cached_property
    def collectives(self) -> list[CollectiveUse]:
        """Every collective that runs, in order, counted while the program is traced."""
        executor = _Executor(self, [str(n) for n in range(len(self._graph.mesh.devices))])
        executor.dry(self._flat)
        return executor.used

    @property
    def collective_bytes(self) -> int:
        """Bytes that a device takes part in moving, over all turns of all loops."""
        return sum(use.bytes * use.times for use in self.collectives)

    def run(self, devices: Sequence[jax.Device]) -> Function:
        """A jitted function that takes and gives what the original does, on these devices."""
        shape = self._graph.mesh.devices
        if len(devices) != math.prod(shape):
            raise PlanError(
                f"the plan is for a mesh of {' x '.join(map(str, shape))} devices, not for "
                f"{len(devices)}"
            )
        names = tuple(f"mesh{n}" for n in range(len(shape)))
        mesh = jax.sharding.Mesh(np.array(devices).reshape(shape), names)
        executor = _Executor(self, names)
        outputs = [
            partition(executor.layout_of(0, atom)[: len(names)], len(atom.shape), names)
            for atom in self._flat.outputs
        ]
        mapped = jax.shard_map(
            executor.run,
            mesh=mesh,
            in_specs=tuple(self.specs(names)),
            out_specs=tuple(outputs),
            check_vma=False,
        )

        def sharded(*args: PyTree) -> PyTree:
            leaves, tree = jax.tree_util.tree_flatten(args)
            if tree != self._trees[0]:
                raise PlanError("the plan was made for arguments of another structure")
            return jax.tree_util.tree_unflatten(self._trees[1], mapped(*leaves))

        return jax.jit(sharded)

    def evidence(self, devices: Sequence[jax.Device], *args: PyTree, seed: int = 0) -> RowEvidence:
        """Compares it on these devices with the original: on the arguments, random and poisoned."""
        fast, usual = self.run(devices), jax.jit(self.function)

        def flatly(function: Function) -> Callable[[Sequence[Leaf]], list[Leaf]]:
            def run(values: Sequence[Leaf]) -> list[Leaf]:
                tree = jax.tree_util.tree_unflatten(self._trees[0], list(values))
                return jax.tree_util.tree_leaves(function(*tree))

            return run

        leaves = [jnp.asarray(leaf) for leaf in jax.tree_util.tree_leaves(args)]
        return compare(flatly(usual), flatly(fast), leaves, seed=seed)

    def explain(self) -> str:
        """A table: the layout of each argument, then the collectives by kind."""
        names = [f"m{n}" for n in range(len(self._graph.mesh.devices))]
        lines = [
            f"mesh {' x '.join(map(str, self._graph.mesh.devices))}: {self.seconds * 1e3:.3g} ms "
            f"by the model, at most {self.gap:.1%} above the best",
            f"{self.argument_bytes:,} bytes of arguments a device",
        ]
        for value, spec in zip(self._flat.inputs, self.specs(names), strict=True):
            lines.append(f"  argument {list(value.shape)}: {spec}")
        if self.pipeline is not None:
            lines.append(
                f"  a loop in {len(self.pipeline.order)} stages along m{self.pipeline.axis}, "
                f"through which {self.pipeline.parts} parts pass"
            )
        for loop, equation in enumerate(self._flat.equations):
            stages = max(self._graph.mesh.devices)
            if equation.name == "scan" and (why := why_no_pipeline(self._flat, loop, stages)):
                turns = equation.params["length"]
                lines.append(f"  the loop of {turns} turns is no pipeline: {why}")
        for kind in dict.fromkeys(use.kind for use in self.collectives):
            uses = [use for use in self.collectives if use.kind == kind]
            count = sum(use.times for use in uses)
            size = sum(use.times * use.bytes for use in uses)
            lines.append(f"  {kind}: {count} times, {size:,} bytes")
        return "\n".join(lines)


class _Residence:
    """How many bytes a device holds while a plan runs: from where a value is computed to where it
    is read last."""

    def __init__(self, plan: ShardingPlan) -> None:
        self.graph = plan._graph
        self.chosen = plan._chosen
        self.nodes = plan._nodes
        self.flat = plan._flat
        self.offloaded = plan.offloaded

    def most(self) -> int:
        arguments = sum(self.bytes_of(0, value.number) for value in self.flat.inputs)
        return round(arguments + self._most(self.flat, self.nodes, 0))

    def bytes_of(self, scope: int, number: int) -> float:
        home = self.graph.homes[scope, number]
        variable = self.graph.variables[home]
        layout = variable.results[self.chosen[home]]
        return float(math.prod(self.graph.mesh.local(layout, variable.shape)) * variable.item)

    def _most(self, flat: Flat, nodes: Sequence[LayoutNode], scope: int) -> float:
        """The most beside what comes in."""
        last = {
            atom.number: at
            for at, node in enumerate(nodes)
            for atom in node.equation.inputs
            if isinstance(atom, FlatValue)
        }
        results = {atom.number for atom in flat.outputs if isinstance(atom, FlatValue)}
        live: dict[int, float] = {}
        most = 0.0
        for at, node in enumerate(nodes):
            away = self.offloaded if scope == 0 else frozenset()
            for value in node.equation.outputs:
                live[value.number] = (
                    0.0 if value.number in away else self.bytes_of(scope, value.number)
                )
            body = node.body
            within = 0.0
            if body is not None:
                # A turn has slices of its own, and what it carries is there before and after.
                within = sum(self.bytes_of(body.scope, v.number) for v in body.flat.inputs)
                within += self._most(body.flat, body.nodes, body.scope)
            most = max(most, sum(live.values()) + within)
            for number in [n for n in live if n not in results and last.get(n, -1) <= at]:
                del live[number]
        return most


def partition(layout: Layout, rank: int, names: Sequence[str]) -> PyTree:
    """A layout as jax's `PartitionSpec`, the outer axis of the mesh first."""
    by_dimension = [
        tuple(name for name, at in zip(names, layout, strict=True) if at == dimension)
        for dimension in range(rank)
    ]
    spec: Function = jax.sharding.PartitionSpec  # which jax leaves without annotations
    return spec(*(axes or None for axes in by_dimension))


class _Executor:
    """Runs a plan on one device of the mesh, inside of `shard_map`; or counts what it would do."""

    def __init__(self, plan: ShardingPlan, names: Sequence[str]) -> None:
        self.graph = plan._graph
        self.mesh = self.graph.mesh
        self.nodes = plan._nodes
        self.flat = plan._flat
        self.chosen = plan._chosen
        self.offloaded = plan.offloaded
        self.names = names
        self.used: list[CollectiveUse] = []
        self._counting = False
        self._times = 1
        self._turn: Leaf = 0
        """Which part is computed, inside of a pipeline."""

    def layout_of(self, scope: int, atom: Atom) -> Layout:
        if isinstance(atom, Known):
            return self.mesh.replicated
        variable = self.graph.homes[scope, atom.number]
        return self.graph.variables[variable].results[self.chosen[variable]]

    def run(self, *inputs: Leaf) -> tuple[Leaf, ...]:
        values = {
            value.number: array for value, array in zip(self.flat.inputs, inputs, strict=True)
        }
        self._body(self.nodes, 0, values)
        return tuple(
            jnp.asarray(atom.array) if isinstance(atom, Known) else values[atom.number]
            for atom in self.flat.outputs
        )

    def dry(self, flat: Flat) -> None:
        """Counts collectives without running anything."""
        self._counting = True
        self._body(self.nodes, 0, {})

    def _body(self, nodes: Sequence[LayoutNode], scope: int, values: dict[int, Leaf]) -> None:
        # What several equations want in the same layout is brought there once.
        moved: dict[tuple[int, Layout], Leaf] = {}
        for node in nodes:
            equation = node.equation
            if node.body is not None:
                self._loop(node, scope, values, moved)
                continue
            value = equation.outputs[0]
            if node.variable is None:
                layout = self.layout_of(scope, value)
                layouts = tuple(
                    layout if atom.shape else self.mesh.replicated for atom in equation.inputs
                )
                strategy = EquationLayout(layouts, layout)
            else:
                strategy = self.graph.variables[node.variable].strategies[
                    self.chosen[node.variable]
                ]
            operands = [
                self._bring(scope, atom, layout, values, moved)
                for atom, layout in zip(equation.inputs, strategy.operands, strict=True)
            ]
            size = math.prod(self.mesh.local(strategy.result, value.shape)) * item_size(value)
            for axis in strategy.summed:
                self._count(PARTIAL[equation.name], size, self.mesh.shape[axis])
            if self._counting:
                continue
            params = self._local_params(equation, strategy)
            results = bind(equation, operands, params)
            for axis in strategy.summed:
                add = getattr(lax, PARTIAL[equation.name])
                results = [add(result, self.names[axis]) for result in results]
            values.update(zip((each.number for each in equation.outputs), results, strict=True))

    def _local_params(self, equation: Equation, strategy: EquationLayout) -> PrimitiveParams:
        """The parameters for a device's part: shapes among them are of that size."""
        params = dict(equation.params)
        local = self.mesh.local(strategy.result, equation.outputs[0].shape)
        if equation.name == "reshape":
            return {**params, "new_sizes": local}
        for axis in {dimension for dimension in strategy.result if dimension is not None}:
            how = local_rule(equation, 0, axis)
            assert how is not None, "a strategy divides what a rule lets it divide"
            params = how.params(params, local[axis])
        return params

    def _bring(
        self,
        scope: int,
        atom: Atom,
        layout: Layout,
        values: dict[int, Leaf],
        moved: dict[tuple[int, Layout], Leaf],
    ) -> Leaf:
        """A value in another layout than the one that it has."""
        have = self.layout_of(scope, atom)
        if isinstance(atom, Known):
            array = None if self._counting else jnp.asarray(atom.array)
            return self._move(array, have, layout, atom.shape, 0)
        if have == layout:
            return None if self._counting else values[atom.number]
        key = (atom.number, layout)
        if key not in moved:
            array = None if self._counting else values[atom.number]
            moved[key] = self._move(array, have, layout, atom.shape, item_size(atom))
        return moved[key]

    def _move(
        self, array: Leaf, source: Layout, to: Layout, shape: tuple[int, ...], item: int
    ) -> Leaf:
        for kind, size, devices in self.mesh.collectives(source, to, shape, item):
            self._count(kind, size, devices)
        if self._counting:
            return None
        for move in moves(source, to):
            is_turn = move.axis == self.mesh.turns
            name = None if is_turn else self.names[move.axis]
            devices = self.mesh.shape[move.axis]
            if move.source is None:
                assert move.to is not None, "a move comes from or goes to a dimension"
                rows = array.shape[move.to] // devices
                start = (self._turn if name is None else lax.axis_index(name)) * rows
                array = lax.dynamic_slice_in_dim(array, start, rows, move.to)
            elif move.to is None:
                array = lax.all_gather(array, name, axis=move.source, tiled=True)
            else:
                exchange: Function = lax.all_to_all  # which jax leaves without types
                array = exchange(
                    array, name, split_axis=move.to, concat_axis=move.source, tiled=True
                )
        return array

    def _count(self, kind: str, size: int, devices: int) -> None:
        if self._counting and devices > 1:
            self.used.append(CollectiveUse(kind, size, self._times))

    def _loop(
        self,
        node: LayoutNode,
        scope: int,
        values: dict[int, Leaf],
        moved: dict[tuple[int, Layout], Leaf],
    ) -> None:
        body, equation = node.body, node.equation
        assert body is not None, "only loops come here"
        params = equation.params
        constants, carries = params["num_consts"], params["num_carry"]
        operands = []
        for at, atom in enumerate(equation.inputs):
            lead = at >= constants + carries
            variable = body.inputs[at]
            layout = self.graph.outer(body, variable, self.chosen[variable], lead)
            operands.append(self._bring(scope, atom, layout, values, moved))

        layouts = [
            self.graph.within(variable, self.chosen[variable], lead)
            for variable, lead in [
                *((variable, False) for variable in body.inputs[constants : constants + carries]),
                *((variable, True) for variable in body.stacked),
            ]
        ]

        # Numbers are the function's own: bodies of loops number their values anew.
        away = self.offloaded if scope == 0 else frozenset()
        left_away = [value.number in away for value in equation.outputs[carries:]]
        fetched = [
            isinstance(atom, FlatValue) and atom.number in away
            for atom in equation.inputs[constants + carries :]
        ]

        def turn(state: list[Leaf], slices: list[Leaf]) -> tuple[list[Leaf], list[Leaf]]:
            slices = [
                self._to("Device", part) if is_away else part
                for part, is_away in zip(slices, fetched, strict=True)
            ]
            arrays = [
                array if constants <= at < constants + carries else self._part(body, at, array)
                for at, array in enumerate((*operands[:constants], *state, *slices))
            ]
            inner = {
                value.number: array for value, array in zip(body.flat.inputs, arrays, strict=True)
            }
            self._body(body.nodes, body.scope, inner)
            brought: dict[tuple[int, Layout], Leaf] = {}
            results = [
                self._bring(body.scope, atom, layout, inner, brought)
                for atom, layout in zip(body.flat.outputs, layouts, strict=True)
            ]
            stacked = [
                self._to("Host", result) if is_away else result
                for result, is_away in zip(results[carries:], left_away, strict=True)
            ]
            return results[:carries], stacked

        if body.pipeline is not None:
            self._pipeline(node, body.pipeline, operands, turn, values)
            return
        if self._counting:
            times, self._times = self._times, self._times * max(1, params["length"])
            turn([None] * carries, [None] * (len(operands) - constants - carries))
            self._times = times
            return
        final, stacks = lax.scan(
            turn,
            operands[constants : constants + carries],
            operands[constants + carries :],
            length=params["length"],
            reverse=params["reverse"],
            unroll=params["unroll"],
        )
        values.update(
            zip((each.number for each in equation.outputs), [*final, *stacks], strict=True)
        )

    def _to(self, space: str, array: Leaf) -> Leaf:
        """An array in the memory of the device, or of its `Host`."""
        return None if self._counting else jax.device_put(array, getattr(jax.memory.Space, space))

    def _part(self, body: LoopLayouts, at: int, array: Leaf) -> Leaf:
        """Of what comes into a turn of a loop beside what it carries: in a pipeline, the part of it
        that the turn's part needs."""
        variable = body.inputs[at]
        layout = self.graph.variables[variable].results[self.chosen[variable]]
        if body.pipeline is None or layout[-1] is None:
            return array
        return self._move(array, (*layout[:-1], None), layout, body.flat.inputs[at].shape, 0)

    def _pipeline(
        self,
        node: LayoutNode,
        pipeline: Pipeline,
        operands: Sequence[Leaf],
        turn: Callable[[list[Leaf], list[Leaf]], tuple[list[Leaf], list[Leaf]]],
        values: dict[int, Leaf],
    ) -> None:
        """Runs a loop in stages: in each tick a device takes what the stage before has handed on,
        or, as the first, the next part; computes its layers; and hands that on.

        While the pipeline fills and empties, some devices compute what nobody takes: a part that
        they have computed before, or zeros. What is written before a stage's first part comes is
        written over by that part; what a stage computes after its last part is that part again.
        """
        body, equation = node.body, node.equation
        assert body is not None, "only loops are pipelines"
        constants, carries = equation.params["num_consts"], equation.params["num_carry"]
        stages, axis = len(pipeline.order), pipeline.axis
        variables = body.inputs[constants : constants + carries]
        inside = [self.graph.variables[at].results[self.chosen[at]] for at in variables]
        carried = equation.outputs[:carries]
        shapes = [value.shape for value in carried]
        items = [item_size(value) for value in carried]
        # What is stacked has its dimensions one further, behind that of the turns.
        stacked = [self.graph.variables[at].results[self.chosen[at]][-1] for at in body.stacked]
        sizes = [
            math.prod(self.mesh.local(layout, shape)) * item
            for layout, shape, item in zip(inside, shapes, items, strict=True)
        ]
        if self._counting:
            times = self._times
            self._times = times * pipeline.ticks * (equation.params["length"] // stages)
            turn([None] * carries, [None] * (len(operands) - constants - carries))
            self._times = times * pipeline.ticks
            for size in sizes:
                self._count(PERMUTE, size, stages)
            self._times = times
            for size in sizes:
                self._count("psum", size * pipeline.parts, stages)
            return
        permute: Function = lax.ppermute  # which jax leaves without types, as it does `psum`
        add: Function = lax.psum
        name = self.names[axis]
        ranks = jnp.asarray([pipeline.order.index(at) for at in range(stages)])
        rank = ranks[lax.axis_index(name)]
        starts = operands[constants : constants + carries]
        layers = operands[constants + carries :]
        wholes = [self.graph.outer(body, at, self.chosen[at], lead=False) for at in variables]

        def tick(state: tuple[list[Leaf], list[Leaf], list[Leaf]], at: Leaf) -> tuple[PyTree, None]:
            handed, results, stacks = state
            self._turn = jnp.clip(at - rank, 0, pipeline.parts - 1)
            fresh = [
                self._move(array, whole, layout, shape, item)
                for array, whole, layout, shape, item in zip(
                    starts, wholes, inside, shapes, items, strict=True
                )
            ]
            entering = [jnp.where(rank == 0, a, b) for a, b in zip(fresh, handed, strict=True)]
            passed, outputs = lax.scan(
                turn,
                entering,
                list(layers),
                length=equation.params["length"] // stages,
                reverse=equation.params["reverse"],
                unroll=equation.params["unroll"],
            )
            written = [
                self._written(result, part, layout[-1])
                for result, part, layout in zip(results, passed, inside, strict=True)
            ]
            stacks = [
                self._written(stack, part, dimension)
                for stack, part, dimension in zip(stacks, outputs, stacked, strict=True)
            ]
            links = list(zip(pipeline.order, pipeline.order[1:], strict=False))
            return ([permute(part, name, links) for part in passed], written, stacks), None

        parts = [jnp.zeros(self.mesh.local(layout, shape), start.dtype)
                 for layout, shape, start in zip(inside, shapes, starts, strict=True)]  # fmt: skip
        empty = [
            jnp.zeros(self.mesh.local(self.layout_of(0, value), value.shape), value.dtype)
            for value in equation.outputs[carries:]
        ]
        state = (parts, [jnp.zeros_like(start) for start in starts], empty)
        (_, results, stacks), _ = lax.scan(tick, state, jnp.arange(pipeline.ticks))
        last = rank == stages - 1
        given = [add(jnp.where(last, result, 0), name) for result in results]
        values.update(
            zip((value.number for value in equation.outputs), [*given, *stacks], strict=True)
        )

    def _written(self, whole: Leaf, part: Leaf, dimension: int | None) -> Leaf:
        """An array with a turn's part written into it; without a dimension the part is all."""
        if dimension is None:
            return part
        start = self._turn * part.shape[dimension]
        return lax.dynamic_update_slice_in_dim(whole, part, start, dimension)


def shard(
    function: Function,
    *args: PyTree,
    mesh: Sequence[int],
    costs: MeshCosts | None = None,
    memory: int | None = None,
    seconds: float = 8.0,
) -> ShardingPlan:
    """Finds layouts of the least time, by the model, for a function on a mesh of equal devices.

    - `mesh`: how many devices there are along each axis, such as `(8, 8)`.
    - `costs`: what a device computes and moves.
    - `memory`: bytes of arguments that a device may hold.
    - `seconds`: for how long plans within that memory are improved.

    Arguments are arrays or `jax.ShapeDtypeStruct`s. Without a memory limit the plan is the best
    there is by the model; with it, `gap` says how far the best may be below. Raises PlanError where
    no plan fits.
    """
    return plan_layouts(function, args, mesh, costs or MeshCosts(), memory, seconds)


def plan_layouts(
    function: Function,
    args: Sequence[PyTree],
    mesh: Sequence[int],
    costs: MeshCosts,
    memory: int | None,
    seconds: float,
    *,
    results: bool = False,
) -> ShardingPlan:
    """What `shard` does; with `results` the limit is on those as well as on arguments."""
    whole = isinstance(mesh, Sequence) and mesh and all(is_whole(n) and n > 0 for n in mesh)
    if not whole:
        raise PlanError(f"a mesh has axes of at least one device, as (8, 8) has, not {mesh!r}")
    flat, out = trace(function, args)
    _, tree = jax.tree_util.tree_flatten(args)
    deadline = time.monotonic() + seconds
    plans: list[ShardingPlan] = []
    smallest = math.inf
    for pipeline in (None, *pipelines(flat, mesh)):
        turns = pipeline.parts if pipeline else 1
        graph = LayoutGraph(MeshShape(mesh, costs, turns), pipeline)
        scope = graph.scope()
        for value in flat.inputs:
            graph.homes[scope, value.number] = graph.value(value)
        nodes = graph.build(flat, scope, 1)
        unary = [variable.costs for variable in graph.variables]
        sizes = _held_sizes(graph, flat, results)
        least = sum(float(size.min()) for size in sizes.values())
        smallest = min(smallest, least)
        if memory is not None and least > memory:
            continue
        # At once for each, so that it is known what there is to be below.
        chosen, total, bound = eliminate_within(unary, graph.edges, sizes, memory, 0.0)
        if math.isfinite(total):
            plans.append(
                ShardingPlan(function, flat, (tree, out), graph, nodes, chosen, total, bound)
            )
    for plan in sorted(plans, key=lambda plan: plan.seconds):
        below = min(plan.seconds for plan in plans)
        if memory is None or plan.bound >= below * (1 - GAP):
            continue
        graph = plan._graph
        unary = [variable.costs for variable in graph.variables]
        sizes = _held_sizes(graph, flat, results)
        # Of what is left most goes to the first, and then half to each, so that none takes all.
        left = max(0.0, deadline - time.monotonic()) * (0.8 if plan.seconds == below else 0.5)
        chosen, total, bound = eliminate_within(unary, graph.edges, sizes, memory, left, below)
        plan.bound = max(plan.bound, bound)
        if total < plan.seconds:
            plan.seconds, plan._chosen = total, chosen
    if not plans:
        raise PlanError(
            f"the arguments{' and results' * results} take {smallest:,.0f} bytes on each device "
            f"however they are divided, "
            f"and {memory or 0:,} are allowed; use more devices or allow more"
        )
    best = min(plans, key=lambda plan: plan.seconds)
    best.bound = min(plan.bound for plan in plans)
    return best


def _held_sizes(graph: LayoutGraph, flat: Flat, results: bool) -> dict[int, Costs]:
    """By variable of an argument, and of a result: the bytes on a device of each of its layouts."""
    held = list(flat.inputs)
    if results:
        held += [atom for atom in flat.outputs if isinstance(atom, FlatValue)]
    sizes: dict[int, Costs] = {}
    for value in held:
        at = graph.homes[0, value.number]
        layouts = graph.variables[at].results
        taken = np.array(
            [
                float(math.prod(graph.mesh.local(layout, value.shape)) * item_size(value))
                for layout in layouts
            ]
        )
        sizes[at] = sizes.get(at, np.zeros(len(layouts))) + taken
    return sizes
