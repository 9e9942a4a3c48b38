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

Invariant: the program that runs is made of the same choices as the cost, collective by collective
(`_Executor`), so that the bytes that are predicted are those in the compiled program.

Cost: layouts ** (width of the graph + 1), in numpy. Layers that differ are not folded.
"""

from __future__ import annotations

import heapq
import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from msgspec import Struct

from ..capture.jax_types import Function, Leaf, PyTree
from .assignment.elimination import Costs, eliminate
from .errors import PlanError
from .layouts import (
    PARTIAL,
    EquationLayout,
    EquationLayouts,
    Layout,
    MeshCosts,
    MeshShape,
    item_size,
    local_rule,
    moves,
    shifted,
)
from .rows.demands import work_of
from .rows.equations import (
    Atom,
    Equation,
    Flat,
    FlatValue,
    Known,
    PrimitiveParams,
    flatten_jaxpr,
    trace,
)
from .rows.evidence import RowEvidence, compare
from .rows.frames import bind
from .rows.rules import ELEMENTWISE

TIE = 1e-21
"""Seconds for a byte of arguments where nothing else tells plans apart."""
PRICES = 8
"""How many prices of a byte are tried for each part of the search within memory."""
GAP = 0.005
"""How far above the bound, relative to it, a plan within memory may stay."""


Key: TypeAlias = tuple[int, int]
"""A value: its scope, as bodies number theirs anew, and its number."""


@dataclass
class _Variable:
    """A variable of the graph: its domain, what each choice costs, and what it is a choice of."""

    shape: tuple[int, ...]
    item: int
    results: list[Layout]
    """By choice: the layout of the value."""
    strategies: list[EquationLayout]
    """By choice: how the equation runs; empty for inputs, and for what loops carry."""
    costs: Costs


@dataclass
class _Node:
    """An equation that runs, or a loop with those of its body."""

    equation: Equation
    scope: int
    variable: int | None = None
    body: _LoopBody | None = None


@dataclass
class _LoopBody:
    flat: Flat
    scope: int
    inputs: list[int]
    """The variables of what comes in, by position."""
    nodes: list[_Node]
    stacked: list[int]
    """The variables of what is stacked over time."""


@dataclass
class _LayoutGraph:
    """Variables and edges of a function, and the nodes that run."""

    mesh: MeshShape
    variables: list[_Variable] = field(default_factory=list)
    homes: dict[Key, int] = field(default_factory=dict)
    """By value: the variable whose layout it has."""
    edges: dict[tuple[int, int], Costs] = field(default_factory=dict)
    _scopes: int = 0

    def scope(self) -> int:
        self._scopes += 1
        return self._scopes - 1

    def add(self, variable: _Variable) -> int:
        self.variables.append(variable)
        return len(self.variables) - 1

    def value(self, value: FlatValue, layouts: list[Layout] | None = None) -> int:
        """A variable for a value that comes in."""
        chosen = self.mesh.layouts(value.shape) if layouts is None else layouts
        return self.add(_Variable(value.shape, item_size(value), chosen, [], np.zeros(len(chosen))))

    def connect(
        self, source: int, to: int, layouts: Callable[[int], Layout], times: int = 1
    ) -> None:
        """An edge: what it takes to bring a value into the layout that each choice wants."""
        a, b = self.variables[source], self.variables[to]
        needed = [layouts(choice) for choice in range(len(b.results))]
        distinct = list(dict.fromkeys(needed))
        table = np.array(
            [
                [self.mesh.moving(have, want, a.shape, a.item) for want in distinct]
                for have in a.results
            ]
        ).reshape(len(a.results), len(distinct))
        costs = times * table[:, [distinct.index(want) for want in needed]]
        if source == to:
            a.costs = a.costs + np.diagonal(costs)
            return
        key, costs = ((source, to), costs) if source < to else ((to, source), costs.T)
        self.edges[key] = self.edges.get(key, 0) + costs

    def build(self, flat: Flat, scope: int, times: int) -> list[_Node]:
        ways = EquationLayouts(self.mesh)
        nodes = []
        for equation in flat.equations:
            if equation.name == "scan":
                nodes.append(self._loop(equation, scope, times))
                continue
            follows = _follows(equation)
            if follows is not None and (scope, follows.number) in self.homes:
                # One operand, element by element: it stays as that is, and has no choice.
                self.homes[scope, equation.outputs[0].number] = self.homes[scope, follows.number]
                nodes.append(_Node(equation, scope))
                continue
            strategies = ways.of(equation)
            costs = np.array([times * self._seconds(equation, strategy) for strategy in strategies])
            value = equation.outputs[0]
            variable = self.add(
                _Variable(
                    value.shape,
                    item_size(value),
                    [strategy.result for strategy in strategies],
                    strategies,
                    costs,
                )
            )
            for result in equation.outputs:
                self.homes[scope, result.number] = variable
            for at, atom in enumerate(equation.inputs):
                if isinstance(atom, FlatValue):
                    self.connect(
                        self.homes[scope, atom.number],
                        variable,
                        lambda choice, at=at, ways=strategies: ways[choice].operands[at],  # type: ignore[misc]  # defaults bind the loop's values
                        times,
                    )
            nodes.append(_Node(equation, scope, variable))
        return nodes

    def _seconds(self, equation: Equation, strategy: EquationLayout) -> float:
        """The longer of computing and of passing through memory, and the sums behind it."""
        mesh, costs = self.mesh, self.mesh.costs
        value = equation.outputs[0]
        work = work_of(equation, value) * (2 if equation.name == "dot_general" else 1)
        size = sum(
            math.prod(mesh.local(layout, atom.shape)) * item_size(atom)
            for layout, atom in zip(strategy.operands, equation.inputs, strict=True)
            if isinstance(atom, FlatValue)
        )
        result = math.prod(mesh.local(strategy.result, value.shape)) * item_size(value)
        seconds = max(work / strategy.divided / costs.operations, (size + result) / costs.memory)
        return seconds + sum(
            costs.collective("psum", result, mesh.shape[axis])
            for axis in strategy.summed
            if mesh.shape[axis] > 1
        )

    def _loop(self, equation: Equation, scope: int, times: int) -> _Node:
        params = equation.params
        constants, carries = params["num_consts"], params["num_carry"]
        turns = max(1, params["length"]) * times
        body, inner = flatten_jaxpr(params["jaxpr"]), self.scope()
        inputs = []
        for at, (atom, value) in enumerate(zip(equation.inputs, body.inputs, strict=True)):
            variable = self.value(value)
            self.homes[inner, value.number] = variable
            inputs.append(variable)
            if isinstance(atom, FlatValue):
                # Slices over time are divided as the stack is, whose axis 0 stays whole.
                lead = at >= constants + carries
                self.connect(
                    self.homes[scope, atom.number],
                    variable,
                    lambda choice, v=variable, lead=lead: self.outer(v, choice, lead),  # type: ignore[misc]  # defaults bind the loop's values
                    times,
                )
        nodes = self.build(body, inner, turns)
        stacked = []
        for at, (atom, result) in enumerate(zip(body.outputs, equation.outputs, strict=True)):
            if at < carries:
                variable = inputs[constants + at]
                self.homes[scope, result.number] = variable
            else:
                layouts = [layout for layout in self.mesh.layouts(result.shape) if 0 not in layout]
                variable = self.value(result, layouts)
                self.homes[scope, result.number] = variable
                stacked.append(variable)
            if isinstance(atom, FlatValue):
                self.connect(
                    self.homes[inner, atom.number],
                    variable,
                    lambda choice, v=variable, lead=at >= carries: self.within(v, choice, lead),  # type: ignore[misc]  # defaults bind the loop's values
                    turns,
                )
        return _Node(equation, scope, body=_LoopBody(body, inner, inputs, nodes, stacked))

    def outer(self, variable: int, choice: int, lead: bool) -> Layout:
        return shifted(self.variables[variable].results[choice], int(lead))

    def within(self, variable: int, choice: int, lead: bool) -> Layout:
        return shifted(self.variables[variable].results[choice], -int(lead))


def _follows(equation: Equation) -> FlatValue | None:
    """The one operand of a function element by element, all others being numbers."""
    if equation.name not in ELEMENTWISE or len(equation.outputs) != 1:
        return None
    arrays = [atom for atom in equation.inputs if atom.shape]
    if len(arrays) != 1 or not isinstance(arrays[0], FlatValue):
        return None
    numbers = [atom for atom in equation.inputs if not atom.shape]
    if any(isinstance(atom, FlatValue) for atom in numbers):
        return None
    return arrays[0] if arrays[0].shape == equation.outputs[0].shape else None


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
        graph: _LayoutGraph,
        nodes: list[_Node],
        chosen: list[int],
        seconds: float,
        bound: float,
    ) -> None:
        self.function = function
        self.seconds = seconds
        """What it takes by the model."""
        self.bound = bound
        """What no plan goes below, by the model."""
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
        return [self.layout(self._graph.homes[0, value.number]) for value in self._flat.inputs]

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
            for layout, value in zip(self.arguments, self._flat.inputs, strict=True)
        )

    @cached_property
    def collectives(self) -> list[CollectiveUse]:
        """Every collective that runs, in order, counted while the program is traced."""
        executor = _Executor(self, [str(n) for n in range(len(self._graph.mesh.shape))])
        executor.dry(self._flat)
        return executor.used

    @property
    def collective_bytes(self) -> int:
        """Bytes that a device takes part in moving, over all turns of all loops."""
        return sum(use.bytes * use.times for use in self.collectives)

    def run(self, devices: Sequence[jax.Device]) -> Function:
        """A jitted function that takes and gives what the original does, on these devices."""
        shape = self._graph.mesh.shape
        if len(devices) != math.prod(shape):
            raise PlanError(
                f"the plan is for a mesh of {' x '.join(map(str, shape))} devices, not for "
                f"{len(devices)}"
            )
        names = tuple(f"mesh{n}" for n in range(len(shape)))
        mesh = jax.sharding.Mesh(np.array(devices).reshape(shape), names)
        executor = _Executor(self, names)
        outputs = [
            partition(executor.layout_of(0, atom), len(atom.shape), names)
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
        names = [f"m{n}" for n in range(len(self._graph.mesh.shape))]
        lines = [
            f"mesh {' x '.join(map(str, self._graph.mesh.shape))}: {self.seconds * 1e3:.3g} ms by "
            f"the model, at most {self.gap:.1%} above the best",
            f"{self.argument_bytes:,} bytes of arguments a device",
        ]
        for value, spec in zip(self._flat.inputs, self.specs(names), strict=True):
            lines.append(f"  argument {list(value.shape)}: {spec}")
        for kind in dict.fromkeys(use.kind for use in self.collectives):
            uses = [use for use in self.collectives if use.kind == kind]
            count = sum(use.times for use in uses)
            size = sum(use.times * use.bytes for use in uses)
            lines.append(f"  {kind}: {count} times, {size:,} bytes")
        return "\n".join(lines)


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
        self.names = names
        self.used: list[CollectiveUse] = []
        self._counting = False
        self._times = 1

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

    def _body(self, nodes: Sequence[_Node], scope: int, values: dict[int, Leaf]) -> None:
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
            name, devices = self.names[move.axis], self.mesh.shape[move.axis]
            if move.source is None:
                assert move.to is not None, "a move comes from or goes to a dimension"
                rows = array.shape[move.to] // devices
                start = lax.axis_index(name) * rows
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
        node: _Node,
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
            layout = self.graph.outer(body.inputs[at], self.chosen[body.inputs[at]], lead)
            operands.append(self._bring(scope, atom, layout, values, moved))

        layouts = [
            self.graph.within(variable, self.chosen[variable], lead)
            for variable, lead in [
                *((variable, False) for variable in body.inputs[constants : constants + carries]),
                *((variable, True) for variable in body.stacked),
            ]
        ]

        def turn(state: list[Leaf], slices: list[Leaf]) -> tuple[list[Leaf], list[Leaf]]:
            arrays = [*operands[:constants], *state, *slices]
            inner = {
                value.number: array for value, array in zip(body.flat.inputs, arrays, strict=True)
            }
            self._body(body.nodes, body.scope, inner)
            brought: dict[tuple[int, Layout], Leaf] = {}
            results = [
                self._bring(body.scope, atom, layout, inner, brought)
                for atom, layout in zip(body.flat.outputs, layouts, strict=True)
            ]
            return results[:carries], results[carries:]

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
    if not mesh or any(devices < 1 for devices in mesh):
        raise PlanError(f"a mesh has axes of at least one device, not {tuple(mesh)}")
    flat, out = trace(function, args)
    _, tree = jax.tree_util.tree_flatten(args)
    graph = _LayoutGraph(MeshShape(mesh, costs or MeshCosts()))
    scope = graph.scope()
    for value in flat.inputs:
        graph.homes[scope, value.number] = graph.value(value)
    nodes = graph.build(flat, scope, 1)
    chosen, seconds, bound = _within_memory(graph, flat, memory, seconds)
    return ShardingPlan(function, flat, (tree, out), graph, nodes, chosen, seconds, bound)


@dataclass(frozen=True)
class _Limited:
    """A part of the search within memory: what each argument may take at most and at least."""

    bound: float
    ranges: tuple[tuple[float, float], ...]
    """By argument: bytes on a device that its layout may have."""
    price: float
    split: tuple[int, float] | None
    """The argument that is to be decided next, and the bytes that part its layouts."""


def _within_memory(
    graph: _LayoutGraph, flat: Flat, memory: int | None, seconds: float
) -> tuple[list[int], float, float]:
    """The choices, their seconds, and a bound below which no plan goes that fits.

    A price on each byte of arguments makes the limited problem an unlimited one; whatever the
    price, its optimum less the price of the limit is such a bound. Where the best plan that fits is
    above it, layouts of an argument are parted by their bytes, and both parts are bounded anew:
    branch and bound, the lowest bound first, until the gap is closed or the seconds are over.
    """
    unary = [variable.costs for variable in graph.variables]
    sizes = [np.zeros(len(costs)) for costs in unary]
    arguments = [graph.homes[0, value.number] for value in flat.inputs]
    for value, at in zip(flat.inputs, arguments, strict=True):
        for choice, layout in enumerate(graph.variables[at].results):
            sizes[at][choice] = math.prod(graph.mesh.local(layout, value.shape)) * item_size(value)

    def solve(
        price: float, ranges: Sequence[tuple[float, float]] | None = None
    ) -> tuple[list[int], float, float]:
        priced = [costs + price * size for costs, size in zip(unary, sizes, strict=True)]
        for at, (low, high) in zip(arguments, ranges or (), strict=ranges is not None):
            outside = (sizes[at] < low) | (sizes[at] > high)
            priced[at] = np.where(outside, np.inf, priced[at])
        chosen, total = eliminate(priced, graph.edges)
        used = sum(size[choice] for size, choice in zip(sizes, chosen, strict=True))
        return chosen, total - price * used, float(used)

    # Of plans that take equally long, that which holds less: by a price that decides nothing else.
    chosen, least, used = solve(TIE)
    slack = TIE * sum(float(size.max()) for size in sizes)
    if memory is None or used <= memory:
        return chosen, least, least + TIE * used - slack
    smallest = sum(float(size.min()) for size in sizes)
    if smallest > memory:
        raise PlanError(
            f"the arguments take {smallest:,.0f} bytes on each device however they are divided, "
            f"and {memory:,} are allowed; use more devices or allow more"
        )
    best: tuple[list[int], float] = ([], math.inf)
    # At a price that outweighs all time, the least memory is taken: that fits.
    most = max(least, 1e-9) * 1e3 / max(1.0, memory)

    def examined(ranges: tuple[tuple[float, float], ...], price: float) -> _Limited:
        """The best bound over some prices, and where the answers below and above the limit part."""
        nonlocal best
        bound, found_price = 0.0, price
        low, high = 0.0, most
        sides: list[list[int] | None] = [None, None]
        for _ in range(PRICES):
            chosen, taken, used = solve(price, ranges)
            if math.isinf(taken):
                return _Limited(math.inf, ranges, price, None)
            value = taken + price * (used - memory)
            if value > bound:
                bound, found_price = value, price
            fits = used <= memory
            sides[fits] = chosen
            if fits:
                high = price
                if taken < best[1]:
                    best = chosen, taken
                if price == 0.0:
                    bound = max(bound, taken)
                    break
            else:
                low = price
            price = (low + high) / 2 if low else high / 8
        over, under = sides
        split = None
        if over is not None and under is not None:
            widest = max(
                range(len(arguments)),
                key=lambda n: abs(
                    sizes[arguments[n]][over[arguments[n]]]
                    - sizes[arguments[n]][under[arguments[n]]]
                ),
            )
            at = arguments[widest]
            a, b = float(sizes[at][over[at]]), float(sizes[at][under[at]])
            split = (widest, (a + b) / 2) if a != b else None
        return _Limited(bound, ranges, found_price, split)

    whole = tuple((0.0, math.inf) for _ in arguments)
    solve_smallest = tuple((0.0, float(sizes[at].min())) for at in arguments)
    chosen, taken, used = solve(0.0, solve_smallest)
    best = chosen, taken
    deadline = time.monotonic() + seconds
    first = examined(whole, most / 8)
    waiting, order = [(first.bound, 0, first)], itertools.count(1)
    closed = math.inf
    while waiting:
        bound, _, part = heapq.heappop(waiting)
        if bound >= best[1] * (1 - GAP) or time.monotonic() > deadline:
            closed = min(closed, bound)
            break
        if part.split is None:
            # Nothing to part: this much of the gap stays.
            closed = min(closed, bound)
            continue
        number, middle = part.split
        low, high = part.ranges[number]
        for each in ((low, middle), (middle, high)):
            ranges = (*part.ranges[:number], each, *part.ranges[number + 1 :])
            child = examined(ranges, part.price)
            bound = max(child.bound, part.bound)
            if bound < best[1] * (1 - GAP):
                heapq.heappush(waiting, (bound, next(order), child))
            else:
                closed = min(closed, bound)
    return best[0], best[1], min(best[1], closed)
