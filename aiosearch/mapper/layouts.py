"""Layouts of arrays over a mesh of devices: how one becomes another, and which ones an equation can
run in.

A layout says for each axis of the mesh which dimension of an array it divides. The layouts in which
an equation runs without talking come from the rules of `rows`: rows of a result along an axis need
rows of these operands, so that the axis may be divided. Products and sums may also be divided along
what they sum over, with a sum over devices at their end.

`LayoutGraph` has all of that for a function: a variable for each value, with a choice for each
layout and what it costs, and an edge for each use, with what moving costs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from msgspec import Struct

from .assignment.elimination import Costs
from .rows.demands import work_of
from .rows.equations import Equation, Flat, FlatValue, flatten_jaxpr
from .rows.rules import ELEMENTWISE, RULES, WHOLE, RowRequirement, Rows
from .rows.rules import requirement as row_requirement

Layout: TypeAlias = tuple[int | None, ...]
"""For each axis of the mesh: the dimension that it divides, or None where every device has all.

An earlier axis of the mesh is the outer one where two divide the same dimension.
"""
PARTIAL = {"reduce_sum": "psum", "reduce_max": "pmax", "reduce_min": "pmin", "dot_general": "psum"}
"""What adds up partial results of what is divided along what it sums over."""
PERMUTE = "collective_permute"
"""What hands an array to the next stage of a pipeline."""
PARTS = (1, 2, 4)
"""How many parts, for each stage, pass through the pipelines that are tried."""


class MeshCosts(Struct, frozen=True, kw_only=True):
    """What a device of the mesh computes and moves in a second; by default those of a large GPU."""

    operations: float = 2e14
    memory: float = 2e12
    """Bytes between a device and its memory."""
    links: float = 1e11
    """Bytes that a device sends to others."""
    host: float = 2e10
    """Bytes between a device and the memory of its host."""
    latency: float = 5e-6
    """Seconds until a collective begins."""

    def collective(self, kind: str, size: float, devices: int) -> float:
        """Seconds of a collective of so many bytes a device, by the usual ring algorithms."""
        if kind == PERMUTE:
            return self.latency + size / self.links
        turns = 2 if kind.startswith("p") else 1
        return self.latency + turns * size * (devices - 1) / devices / self.links


@dataclass(frozen=True)
class LayoutMove:
    """A step from one layout to the next: along which axis of the mesh, from and to which
    dimension.

    Gathering has no `to`, slicing no `source`; an exchange has both.
    """

    axis: int
    source: int | None
    to: int | None


def moves(source: Layout, to: Layout) -> list[LayoutMove]:
    """How an array comes from one layout to another: exchanges, gathers, then slices.

    Example, a mesh of two axes: from (0, 0) to (None, 0), both are gathered, the inner one first,
    and the inner one is sliced again, as what remains divided is another part than before.
    """
    stays = [a == b for a, b in zip(source, to, strict=True)]
    for axis, dimension in enumerate(source):
        # What is divided within something that moves, or would be within something new, moves too.
        if stays[axis] and dimension is not None:
            outer = range(axis)
            if any(not stays[a] and dimension in (source[a], to[a]) for a in outer):
                stays[axis] = False
    steps = []
    current = list(source)
    for axis, dimension in enumerate(to):
        before = current[axis]
        if not stays[axis] and before is not None and dimension is not None and before != dimension:
            others = [d for at, d in enumerate((*source, *to)) if at % len(to) != axis]
            if before not in others and dimension not in others:
                steps.append(LayoutMove(axis, before, dimension))
                current[axis], stays[axis] = dimension, True
    for axis in reversed(range(len(to))):
        if not stays[axis] and current[axis] is not None:
            steps.append(LayoutMove(axis, current[axis], None))
            current[axis] = None
    for axis, dimension in enumerate(to):
        if current[axis] is None and dimension is not None:
            steps.append(LayoutMove(axis, None, dimension))
    return steps


@dataclass(frozen=True)
class EquationLayout:
    """A way to run an equation: layouts of its operands and results, and sums at its end."""

    operands: tuple[Layout, ...]
    result: Layout
    summed: tuple[int, ...] = ()
    """The axes of the mesh over which partial results are added up."""
    divided: int = 1
    """Among how many devices the work is divided."""


class MeshShape:
    """The sizes of the mesh's axes, and what follows from them.

    With `turns` there is an axis behind those of the devices along which nothing is side by side:
    its parts of an array are computed one after another, as those that pass through a pipeline.
    Nothing can be gathered from the parts of other turns, nor summed over them.
    """

    def __init__(self, shape: Sequence[int], costs: MeshCosts, turns: int = 1) -> None:
        self.devices = tuple(shape)
        self.shape = (*shape, turns) if turns > 1 else self.devices
        self.turns = len(shape) if turns > 1 else None
        """The axis of turns, if there is one."""
        self.costs = costs
        self.replicated: Layout = (None,) * len(self.shape)

    def divides(self, layout: Layout, shape: Sequence[int]) -> bool:
        """Whether the dimensions are multiples of the devices that they are divided among."""
        return all(
            size % math.prod(n for n, d in zip(self.shape, layout, strict=True) if d == at) == 0
            for at, size in enumerate(shape)
        )

    def layouts(self, shape: Sequence[int], unused: Collection[int] = ()) -> list[Layout]:
        """Those that are possible, in which some axes of the mesh divide nothing."""
        dimensions = [None, *range(len(shape))]
        every = itertools.product(
            *([None] if axis in unused else dimensions for axis in range(len(self.shape)))
        )
        return [layout for layout in every if self.divides(layout, shape)]

    def local(self, layout: Layout, shape: Sequence[int]) -> tuple[int, ...]:
        sizes = list(shape)
        for devices, dimension in zip(self.shape, layout, strict=True):
            if dimension is not None:
                sizes[dimension] //= devices
        return tuple(sizes)

    def collectives(
        self, source: Layout, to: Layout, shape: Sequence[int], item: int
    ) -> Iterator[tuple[str, int, int]]:
        """The kind, bytes and devices of each collective between two layouts."""
        layout = list(source)
        for move in moves(source, to):
            layout[move.axis] = move.to
            if move.source is not None:
                kind = "all_to_all" if move.to is not None else "all_gather"
                size = math.prod(self.local(tuple(layout), shape)) * item
                yield kind, size, self.shape[move.axis]

    def moving(self, source: Layout, to: Layout, shape: Sequence[int], item: int) -> float:
        """Seconds from one layout to another; infinite where parts of other turns are needed."""
        if self.turns is not None and any(
            move.axis == self.turns and move.source is not None for move in moves(source, to)
        ):
            return math.inf
        return sum(
            self.costs.collective(kind, size, devices)
            for kind, size, devices in self.collectives(source, to, shape, item)
            if devices > 1
        )


def item_size(value: FlatValue) -> int:
    return int(np.dtype(value.dtype).itemsize)


def local_rule(equation: Equation, result: int, axis: int) -> RowRequirement | None:
    """What a result divided along an axis needs; reshapes may divide the outer part of an axis."""
    if equation.name == "reshape" and equation.params.get("dimensions") is None:
        shape, new = equation.inputs[0].shape, equation.outputs[0].shape
        for at in range(len(shape)):
            if math.prod(shape[:at]) == math.prod(new[:axis]) and shape[at] > 1 < new[axis]:
                return RowRequirement((Rows(at),))
        return None
    if equation.name not in RULES:
        return None
    how = row_requirement(equation, result, Rows(axis))
    if how is None or any(demand is not WHOLE and demand.shift for demand in how.operands):
        return None
    return how


class EquationLayouts:
    """The strategies of equations on a mesh."""

    def __init__(self, mesh: MeshShape) -> None:
        self.mesh = mesh

    def of(self, equation: Equation, unused: Collection[int] = ()) -> list[EquationLayout]:
        """Every combination, over the axes of the mesh that are used, of what each may divide."""
        value = equation.outputs[0]
        single = len(equation.outputs) == 1
        choices = [_AxisChoice((None,) * len(equation.inputs), None)]
        for axis in range(len(value.shape) if single else 0):
            how = local_rule(equation, 0, axis)
            if how is not None:
                divided = tuple(None if rows is WHOLE else rows.axis for rows in how.operands)
                choices.append(_AxisChoice(divided, axis))
        whole = choices[:1]
        summed = self._partial(equation)
        by_axis = [
            whole if axis in unused else choices if axis == self.mesh.turns else choices + summed
            for axis in range(len(self.mesh.shape))
        ]
        strategies = []
        for chosen in itertools.product(*by_axis):
            operands = tuple(
                tuple(choice.operands[at] for choice in chosen)
                for at in range(len(equation.inputs))
            )
            result = tuple(choice.result for choice in chosen)
            if self._fits(equation, operands, result):
                sums = tuple(axis for axis, choice in enumerate(chosen) if choice.partial)
                parts = math.prod(
                    devices
                    for devices, choice in zip(self.mesh.shape, chosen, strict=True)
                    if choice is not choices[0]
                )
                strategies.append(EquationLayout(operands, result, sums, parts))
        return strategies

    def _fits(
        self,
        equation: Equation,
        operands: Sequence[Layout],
        result: Layout,
    ) -> bool:
        if not all(
            self.mesh.divides(layout, atom.shape)
            for layout, atom in zip(operands, equation.inputs, strict=True)
        ):
            return False
        return self.mesh.divides(result, equation.outputs[0].shape)

    def _partial(self, equation: Equation) -> list[_AxisChoice]:
        if equation.name == "dot_general":
            (left, right), _ = equation.params["dimension_numbers"]
            return [_AxisChoice((a, b), None, True) for a, b in zip(left, right, strict=True)]
        if equation.name in PARTIAL:
            return [_AxisChoice((axis,), None, True) for axis in equation.params["axes"]]
        return []


@dataclass(frozen=True)
class _AxisChoice:
    """What one axis of the mesh divides: a dimension of each operand, and of the result."""

    operands: tuple[int | None, ...]
    result: int | None
    partial: bool = False


def shifted(layout: Layout, by: int) -> Layout:
    return tuple(None if dimension is None else dimension + by for dimension in layout)


Key: TypeAlias = tuple[int, int]
"""A value: its scope, as bodies number theirs anew, and its number."""


@dataclass
class LayoutVariable:
    """A variable of the graph: its domain, what each choice costs, and what it is a choice of."""

    shape: tuple[int, ...]
    item: int
    results: list[Layout]
    """By choice: the layout of the value."""
    strategies: list[EquationLayout]
    """By choice: how the equation runs; empty for inputs, and for what loops carry."""
    costs: Costs


@dataclass(frozen=True)
class Pipeline:
    """A loop whose turns are stages: devices along an axis of the mesh have some of them each."""

    loop: int
    """Which of the function's equations it is."""
    axis: int
    parts: int
    """How many parts of what the loop carries pass through."""
    order: tuple[int, ...]
    """The devices along the axis, from the first stage to the last."""

    @property
    def ticks(self) -> int:
        """How often each device computes: once for each part, and while the pipeline fills."""
        return self.parts + len(self.order) - 1


@dataclass
class LayoutNode:
    """An equation that runs, or a loop with those of its body."""

    equation: Equation
    scope: int
    variable: int | None = None
    body: LoopLayouts | None = None


@dataclass
class LoopLayouts:
    flat: Flat
    scope: int
    inputs: list[int]
    """The variables of what comes in, by position."""
    nodes: list[LayoutNode]
    stacked: list[int]
    """The variables of what is stacked over time."""
    pipeline: Pipeline | None = None


@dataclass
class LayoutGraph:
    """Variables and edges of a function, and the nodes that run."""

    mesh: MeshShape
    pipeline: Pipeline | None = None
    variables: list[LayoutVariable] = field(default_factory=list)
    homes: dict[Key, int] = field(default_factory=dict)
    """By value: the variable whose layout it has."""
    edges: dict[tuple[int, int], Costs] = field(default_factory=dict)
    unused: tuple[int, ...] = ()
    """Axes of the mesh that divide nothing where the graph is being built."""
    _scopes: int = 0

    def __post_init__(self) -> None:
        # Turns are taken inside of the pipeline only.
        self.unused = () if self.mesh.turns is None else (self.mesh.turns,)

    def scope(self) -> int:
        self._scopes += 1
        return self._scopes - 1

    def add(self, variable: LayoutVariable) -> int:
        self.variables.append(variable)
        return len(self.variables) - 1

    def value(self, value: FlatValue, layouts: list[Layout] | None = None) -> int:
        """A variable for a value that comes in."""
        chosen = self.mesh.layouts(value.shape, self.unused) if layouts is None else layouts
        return self.add(
            LayoutVariable(value.shape, item_size(value), chosen, [], np.zeros(len(chosen)))
        )

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

    def build(self, flat: Flat, scope: int, times: int) -> list[LayoutNode]:
        ways = EquationLayouts(self.mesh)
        nodes = []
        for position, equation in enumerate(flat.equations):
            if equation.name == "scan":
                piped = scope == 0 and self.pipeline and self.pipeline.loop == position
                nodes.append(self._loop(equation, scope, times, self.pipeline if piped else None))
                continue
            follows = _follows(equation)
            if follows is not None and (scope, follows.number) in self.homes:
                # One operand, element by element: it stays as that is, and has no choice.
                self.homes[scope, equation.outputs[0].number] = self.homes[scope, follows.number]
                nodes.append(LayoutNode(equation, scope))
                continue
            strategies = ways.of(equation, self.unused)
            costs = np.array([times * self._seconds(equation, strategy) for strategy in strategies])
            if not any(isinstance(atom, FlatValue) for atom in equation.inputs):
                # What follows from numbers is never gathered: each device makes it, or its part.
                strategies = [way for way in strategies if way.result == self.mesh.replicated][:1]
                costs = np.zeros(1)
            value = equation.outputs[0]
            variable = self.add(
                LayoutVariable(
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
            nodes.append(LayoutNode(equation, scope, variable))
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

    def _loop(
        self, equation: Equation, scope: int, times: int, pipeline: Pipeline | None
    ) -> LayoutNode:
        params = equation.params
        constants, carries = params["num_consts"], params["num_carry"]
        turns = max(1, params["length"]) * times
        usual = self.unused
        if pipeline is not None:
            turns = pipeline.ticks * (params["length"] // len(pipeline.order))
            self.unused = (pipeline.axis,)
        body, inner = flatten_jaxpr(params["jaxpr"]), self.scope()
        loop = LoopLayouts(body, inner, [], [], [], pipeline)
        for at, (atom, value) in enumerate(zip(equation.inputs, body.inputs, strict=True)):
            is_carried = constants <= at < constants + carries
            layouts = self.mesh.layouts(value.shape, self.unused)
            if pipeline is not None and is_carried:
                # What passes through a pipeline passes in parts.
                layouts = [layout for layout in layouts if layout[-1] is not None]
            variable = self.value(value, layouts)
            self.homes[inner, value.number] = variable
            loop.inputs.append(variable)
            if isinstance(atom, FlatValue):
                # Slices over time are divided as the stack is, whose axis 0 stays whole.
                lead = at >= constants + carries
                self.connect(
                    self.homes[scope, atom.number],
                    variable,
                    lambda choice, v=variable, lead=lead: self.outer(loop, v, choice, lead),  # type: ignore[misc]  # defaults bind the loop's values
                    times,
                )
        loop.nodes = self.build(body, inner, turns)
        for at, (atom, result) in enumerate(zip(body.outputs, equation.outputs, strict=True)):
            if at < carries:
                variable = loop.inputs[constants + at]
                self.homes[scope, result.number] = (
                    variable if pipeline is None else self._passed(loop, pipeline, variable, result)
                )
            else:
                layouts = self.mesh.layouts(result.shape, self.unused)
                layouts = [layout for layout in layouts if 0 not in layout]
                variable = self.value(result, layouts)
                loop.stacked.append(variable)
                self.homes[scope, result.number] = (
                    variable if pipeline is None else self._stacked(pipeline, variable, result)
                )
            if isinstance(atom, FlatValue):
                self.connect(
                    self.homes[inner, atom.number],
                    variable,
                    lambda choice, v=variable, lead=at >= carries: self.within(v, choice, lead),  # type: ignore[misc]  # defaults bind the loop's values
                    turns,
                )
        self.unused = usual
        return LayoutNode(equation, scope, body=loop)

    def _passed(
        self, loop: LoopLayouts, pipeline: Pipeline, carried: int, result: FlatValue
    ) -> int:
        """A variable for what comes out of a pipeline, as it is carried, but with all parts; every
        part is handed on in every tick, and the last stage gives all to all."""
        mesh, inside = self.mesh, self.variables[carried]
        layouts = mesh.layouts(result.shape, (pipeline.axis, len(mesh.devices)))
        variable = self.value(result, layouts)
        out = self.variables[variable]
        bytes_of = {
            layout: math.prod(mesh.local(layout, result.shape)) * out.item
            for layout in (*layouts, *inside.results)
        }
        stages = len(pipeline.order)
        out.costs = np.array(
            [mesh.costs.collective("psum", bytes_of[layout], stages) for layout in layouts]
        )
        inside.costs = inside.costs + np.array(
            [
                pipeline.ticks * mesh.costs.collective(PERMUTE, bytes_of[layout], stages)
                for layout in inside.results
            ]
        )
        same = [
            [self.outer(loop, carried, choice, False) == layout for layout in layouts]
            for choice in range(len(inside.results))
        ]
        self.edges[carried, variable] = np.where(np.array(same), 0.0, np.inf)
        return variable

    def _stacked(self, pipeline: Pipeline, inside: int, result: FlatValue) -> int:
        """A variable for what stages stack: divided as in a turn, with all parts, and each device
        has the turns of its stage."""
        axes = (pipeline.axis, len(self.mesh.devices))
        outer = [
            tuple(0 if axis == pipeline.axis else at for axis, at in enumerate(layout))
            for layout in self.mesh.layouts(result.shape, axes)
            if 0 not in layout
        ]
        same = [
            [stage[:-1] == (*layout[: pipeline.axis], None, *layout[pipeline.axis + 1 : -1])
             for layout in outer]
            for stage in self.variables[inside].results
        ]  # fmt: skip
        variable = self.value(result, outer)
        self.edges[inside, variable] = np.where(np.array(same), 0.0, np.inf)
        return variable

    def outer(self, loop: LoopLayouts, variable: int, choice: int, lead: bool) -> Layout:
        """The layout outside of a loop of what has a layout within; `lead`: of which it takes a
        slice a turn."""
        layout = shifted(self.variables[variable].results[choice], int(lead))
        if loop.pipeline is None:
            return layout
        # Outside there are no turns, and a device has all slices of its stage.
        axes = list(layout)
        axes[-1] = None
        axes[loop.pipeline.axis] = 0 if lead else None
        return tuple(axes)

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


def pipelines(flat: Flat, mesh: Sequence[int]) -> Iterator[Pipeline]:
    """Pipelines that may pay, of loops of the function itself."""
    for loop, equation in enumerate(flat.equations):
        for axis, stages in enumerate(mesh):
            # Of axes of one length the first will do: what holds for one holds for all.
            if stages == 1 or stages in mesh[:axis] or why_no_pipeline(flat, loop, stages):
                continue
            order = range(stages)
            # The device with the last layers begins where a loop runs from its end.
            if equation.params["reverse"]:
                order = order[::-1]
            for parts in (stages * count for count in PARTS):
                if _has_parts(equation, parts):
                    yield Pipeline(loop, axis, parts, tuple(order))


def why_no_pipeline(flat: Flat, position: int, stages: int) -> str:
    """Why an equation of a function cannot be a pipeline of so many stages; empty where it can."""
    equation = flat.equations[position]
    if equation.name != "scan":
        return f"{equation.name} is no loop over layers (lax.scan)"
    length, carries = equation.params["length"], equation.params["num_carry"]
    if not carries:
        return "its turns hand nothing on"
    if length % stages:
        return f"its {length} turns do not divide among {stages} devices"
    if not any(_has_parts(equation, stages * count) for count in PARTS):
        return f"what it carries has no dimension that divides into {stages} parts"
    loops = [loop for loop in flat.equations if loop.name == "scan" and loop is not equation]
    stacks = {value.number for value in equation.outputs[carries:]}
    stacked = {value.number for loop in loops for value in loop.outputs[loop.params["num_carry"] :]}
    read = {a.number for loop in loops for a in loop.inputs if isinstance(a, FlatValue)}
    reads = {atom.number for atom in equation.inputs if isinstance(atom, FlatValue)}
    if stacks & read or stacked & reads:
        # The way back of a gradient: weights' gradients are sums over the parts of all turns.
        return "what it stacks is handed from loop to loop, of which only one can be a pipeline"
    return ""


def _has_parts(equation: Equation, parts: int) -> bool:
    carried = equation.outputs[: equation.params["num_carry"]]
    return all(any(size % parts == 0 for size in value.shape) for value in carried)
