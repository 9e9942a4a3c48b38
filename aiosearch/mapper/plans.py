"""Plans: a function placed on this machine, as something that runs, explains itself, and is written
down.

A plan is called as the function is. Arguments of the kinds that it was made for run by its
schedule; all others, and every derivative, run the original. `to_json` gives what can be edited by
hand (teams, block, fence) and read again with `read_plan`, which refuses a plan of another program.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from html import escape
from typing import Any, Generic, ParamSpec, TypeVar

import jax
import msgspec
import numpy as np
from msgspec import Struct

from ..capture.jax_types import Function, Leaf, PyTree
from .clusters import MEGA, Cluster
from .device_steps import DeviceSteps, Steps, jax_devices
from .errors import PlanError
from .jaxpr_patterns import patterns_of
from .rows.blocked import RowBlocks, RowRunner, RowSchedule, memory_of
from .rows.choice import choose_rows, rows_of
from .rows.demands import Pulled
from .rows.equations import trace
from .rows.rules import WHOLE
from .rows.schedule_race import Choice, wait_for

P = ParamSpec("P")
R = TypeVar("R")

TRANSCENDENTAL = 8
"""Operations that an exponential, logarithm or their like counts as."""
VERSION = 1


class PlanArgument(Struct, frozen=True):
    """Shape and element type of an argument."""

    shape: tuple[int, ...]
    dtype: str


class RowTeam(Struct, frozen=True, kw_only=True):
    """What a team does: its rows, and seconds predicted and measured, the latter 0 before.

    Where it is a device, `blocks` is how many parts of calls it computes in a step.
    """

    name: str
    step: int = 0
    first: int
    rows: int
    blocks: int
    bytes: float
    operations: float
    roof: str
    """Which roof binds: `compute` or `memory`."""
    predicted: float
    measured: float = 0.0


class Description(Struct, frozen=True, kw_only=True):
    """A plan as data."""

    version: int = VERSION
    function: str
    arguments: tuple[PlanArgument, ...]
    rows: int
    """How many rows the program has; 0 where it is not run by rows."""
    axes: tuple[int | None, ...]
    """By result: the axis along which its rows are; None for what is computed whole."""
    schedule: RowSchedule | None
    original_seconds: float
    seconds: float
    gain: float
    evidence: str
    reason: str
    """Why the original runs instead, if it does."""
    teams: tuple[RowTeam, ...]
    steps: Steps = ()
    """Which device computes what in which step; empty where one device runs all."""
    devices: tuple[str, ...] = ()
    """The devices of jax that steps name; arguments and results are on the first."""


class PlacementPlan(Generic[P, R]):
    """A placed function; see the module."""

    def __init__(
        self,
        function: Callable[P, R],
        description: Description,
        blocks: RowBlocks | None,
        trees: tuple[PyTree, PyTree],
        choice: Choice | None = None,
        device_steps: DeviceSteps | None = None,
    ) -> None:
        self.function = function
        self.description = description
        self.choice = choice
        self.device_steps = device_steps
        """The programs of devices, where several run the plan."""
        self._in, self._out = trees
        self._original = jax.jit(function)
        self._kinds = description.arguments
        self._pulled = blocks.pulled if blocks else None
        self._runner = (
            RowRunner(blocks, description.schedule)
            if blocks is not None and description.schedule is not None
            else None
        )

    @property
    def is_original(self) -> bool:
        """Whether it runs the function as it was."""
        return self._runner is None and self.device_steps is None

    def takes(self, *args: P.args, **kwargs: P.kwargs) -> bool:
        """Whether a call is of the kind that the plan was made for."""
        leaves, tree = jax.tree_util.tree_flatten(args)
        return not kwargs and tree == self._in and kinds_of(leaves) == self._kinds

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        leaves, tree = jax.tree_util.tree_flatten(args)
        runner = self._runner
        fits = not kwargs and tree == self._in and kinds_of(leaves) == self._kinds
        traced = any(isinstance(leaf, jax.core.Tracer) for leaf in leaves)
        # Programs of several devices cannot be part of one that is being traced.
        if self.device_steps is not None and fits and not traced:
            across: R = jax.tree_util.tree_unflatten(self._out, self.device_steps(leaves))
            return across
        # Blocks are compiled for the first CPU device; what lies elsewhere runs where it is.
        if runner is None or not fits or not all(map(on_first_cpu, leaves)):
            original: R = self._original(*args, **kwargs)
            return original
        results = self._within(leaves) if traced else runner(leaves)
        outcome: R = jax.tree_util.tree_unflatten(self._out, results)
        return outcome

    def _within(self, leaves: Sequence[Leaf]) -> list[Leaf]:
        """Inside of another transformation: derivatives are those of the original."""
        runner = self._runner
        assert runner is not None, "a plan of the original does not come here"
        function: Function = self.function

        def flat(*values: Leaf) -> list[Leaf]:
            result = function(*jax.tree_util.tree_unflatten(self._in, values))
            return jax.tree_util.tree_leaves(result)

        @jax.custom_jvp
        def by_rows(*values: Leaf) -> list[Leaf]:
            return runner.traced(values)

        @by_rows.defjvp
        def differentiate(primals: PyTree, tangents: PyTree) -> PyTree:
            return jax.jvp(flat, primals, tangents)

        return list(by_rows(*leaves))

    def measure(self, *args: PyTree, runs: int = 5) -> PlacementPlan[P, R]:
        """Times each team by itself on these arguments, and gives the plan with these times."""
        runner = self._runner
        leaves = jax.tree_util.tree_leaves(args)
        if self.device_steps is not None:
            return self._with_laps(self.device_steps, leaves, runs)
        if runner is None:
            return self
        whole = runner.prepared(leaves)
        wait_for(list(whole.values()))
        teams = []
        for team, (start, count) in zip(self.description.teams, runner.runs, strict=True):
            laps = []
            for _ in range(runs + 1):
                begun = time.perf_counter()
                wait_for(runner.part(whole, start, count))
                laps.append(time.perf_counter() - begun)
            teams.append(msgspec.structs.replace(team, measured=min(laps[1:])))
        description = msgspec.structs.replace(self.description, teams=tuple(teams))
        return PlacementPlan(
            self.function, description, runner.blocks, (self._in, self._out), self.choice
        )

    def _with_laps(
        self, device_steps: DeviceSteps, leaves: Sequence[Leaf], runs: int
    ) -> PlacementPlan[P, R]:
        device_steps(leaves)  # compiles
        laps = [device_steps.laps(leaves) for _ in range(runs)]
        teams = tuple(
            msgspec.structs.replace(team, measured=min(lap[team.step, team.name] for lap in laps))
            for team in self.description.teams
        )
        description = msgspec.structs.replace(self.description, teams=teams)
        trees = (self._in, self._out)
        return PlacementPlan(self.function, description, None, trees, self.choice, device_steps)

    def temporary_bytes(self, *args: PyTree) -> int:
        """Bytes that it needs beside arguments and results, as XLA plans them."""
        leaves = jax.tree_util.tree_leaves(args)
        if self.device_steps is not None:
            return self.device_steps.temporary_bytes(leaves)
        if self._runner is None:
            return memory_of(self._original.lower(*args).compile()).temporary
        return self._runner.temporary_bytes(leaves)

    def shardings(self, devices: Sequence[jax.Device], axis: str = "rows") -> PyTree:
        """How the arguments lie on devices of one kind, for a normal `jax.jit(in_shardings=...)`.

        Rows that results need by rows are shared out evenly, what is needed whole is on every
        device. Gives a tree like the arguments; raises PlanError where rows cannot be divided so.

        Example: `jax.jit(f, in_shardings=plan.shardings(jax.devices("cpu")))(x, w)`.
        """
        if self._pulled is None:
            raise PlanError(f"{self.description.function} has no rows to share out")
        mesh = jax.sharding.Mesh(np.array(devices), (axis,))
        spec: Any = jax.sharding.PartitionSpec  # which jax leaves without annotations
        specs = []
        for number, value in enumerate(self._pulled.flat.inputs):
            demands = self._pulled.inputs[value.number]
            axes = {demand.axis for demand in demands if demand is not WHOLE}
            # Rows along two axes, or rows and the whole, are better everywhere than moved about.
            if len(axes) != 1 or WHOLE in demands:
                specs.append(spec())
                continue
            (position,) = axes
            if value.shape[position] % len(devices):
                raise PlanError(
                    f"argument {number} has {value.shape[position]} rows, which {len(devices)} "
                    "devices cannot share evenly; use a number of devices that divides them"
                )
            specs.append(spec(*([None] * position), axis))
        shardings = [jax.sharding.NamedSharding(mesh, partition) for partition in specs]
        return jax.tree_util.tree_unflatten(self._in, shardings)

    def explain(self) -> str:
        """A table: what runs where, bytes and operations, seconds predicted and measured."""
        description = self.description
        if self.is_original:
            return f"{description.function} runs as it is: {description.reason}"
        how = (
            f"{len(description.steps)} steps"
            if description.steps
            else (f"{description.rows:,} rows")
        )
        lines = [
            f"{description.function}: {how}, "
            f"{description.gain:.2f} times as fast as jax.jit in paired rounds (least times "
            f"{description.original_seconds * 1e3:.3g} and {description.seconds * 1e3:.3g} ms)",
            f"equal: {description.evidence}",
            "",
            f"{'team':<8}{'rows':>12}{'blocks':>8}{'MB':>9}{'Mop':>9}  {'roof':<8}"
            f"{'predicted':>12}{'measured':>12}",
        ]
        for team in description.teams:
            measured = f"{team.measured * 1e3:.3g} ms" if team.measured else "-"
            name = f"{team.step} {team.name}" if description.steps else team.name
            lines.append(
                f"{name:<8}{team.rows:>12,}{team.blocks:>8,}{team.bytes / MEGA:>9.1f}"
                f"{team.operations / MEGA:>9.0f}  {team.roof:<8}"
                f"{team.predicted * 1e3:>9.3g} ms{measured:>12}"
            )
        if self.device_steps is not None:
            lines += [
                f"before step {move.step}: rows {move.first} to {move.first + move.rows - 1} of "
                f"{move.value} from {move.source} to {move.to}, {move.bytes / MEGA:.1f} MB"
                for move in self.device_steps.transfers
            ]
        return "\n".join(lines)

    def timeline(self) -> str:
        """An SVG of the teams in time, predicted and measured."""
        bars, begins = [], 0.0
        for step in sorted({team.step for team in self.description.teams}):
            teams = [team for team in self.description.teams if team.step == step]
            bars += [
                Bar(team.name, f"rows {team.first} to {team.first + team.rows - 1}", begins,
                    team.measured or self.description.seconds, team.predicted)
                for team in teams
            ]  # fmt: skip
            begins += max(max(team.measured, team.predicted) for team in teams)
        if self.is_original:
            bars = [Bar("jax.jit", "as it is", 0.0, self.description.original_seconds, 0.0)]
        return draw_timeline(bars, self.description.function)

    def to_json(self) -> str:
        """The plan as text that `read_plan` takes, to keep or to edit."""
        return msgspec.json.format(msgspec.json.encode(self.description), indent=2).decode()

    def __repr__(self) -> str:
        return f"<plan of {self.description.function}: {self.description.schedule or 'as it is'}>"


def on_first_cpu(leaf: Leaf) -> bool:
    """Whether a value is, or will be put, on the CPU device that plans run on."""
    if not isinstance(leaf, jax.Array) or isinstance(leaf, jax.core.Tracer):
        return True
    return leaf.devices() == {jax.devices("cpu")[0]}


def kinds_of(leaves: Sequence[Leaf]) -> tuple[PlanArgument, ...]:
    return tuple(
        PlanArgument(tuple(jax.numpy.shape(leaf)), str(jax.numpy.result_type(leaf)))
        for leaf in leaves
    )


def read_plan(text: str | bytes, function: Callable[P, R], *args: PyTree) -> PlacementPlan[P, R]:
    """Makes a plan again from its JSON, for the same function and arguments of the same kinds.

    Raises PlanError where it is a plan of another program or for other shapes, or its schedule does
    not fit. What was measured is laps as written; only tracing runs.
    """
    try:
        description = msgspec.json.decode(text, type=Description)
    except msgspec.DecodeError as error:
        raise PlanError(f"this is no plan: {error}") from None
    if description.version != VERSION:
        raise PlanError(f"the plan has version {description.version}, and this reads {VERSION}")
    leaves, tree = jax.tree_util.tree_flatten(args)
    actual = kinds_of(leaves)
    if actual != description.arguments:
        raise PlanError(
            f"the plan is for arguments {_shown(description.arguments)}, not {_shown(actual)}; "
            "make a plan for these with place"
        )
    flat, out = trace(function, args)
    if description.steps:
        patterns = patterns_of(flat, function_name(function), recurrences=False)
        devices = jax_devices(description.devices)
        across = DeviceSteps(patterns, description.steps, devices)
        return PlacementPlan(function, description, None, (tree, out), None, across)
    if description.schedule is None:
        return PlacementPlan(function, description, None, (tree, out))
    schedule = description.schedule
    if schedule.teams < 1 or not 1 <= schedule.block <= max(1, description.rows):
        raise PlanError(
            f"the plan asks for {schedule.teams} teams and blocks of {schedule.block} rows; there "
            f"are {description.rows} rows"
        )
    pulled = choose_rows(flat)
    if pulled is None or axes_of(pulled) != description.axes or rows_of(pulled) != description.rows:
        raise PlanError(
            f"{function_name(function)} no longer has the rows that the plan is made of; make "
            "another with place"
        )
    description = msgspec.structs.replace(
        description, teams=edited(description.teams, schedule, description.rows)
    )
    return PlacementPlan(function, description, RowBlocks(pulled), (tree, out))


def edited(teams: tuple[RowTeam, ...], schedule: RowSchedule, rows: int) -> tuple[RowTeam, ...]:
    """The teams of a schedule, with work in proportion to their rows; unmeasured where changed."""
    runs = schedule.runs(rows)
    if [(team.first, team.rows) for team in teams] == runs:
        return teams
    operations = sum(team.operations for team in teams) / rows
    size = sum(team.bytes for team in teams) / rows
    seconds = sum(team.predicted for team in teams) / rows
    roof = teams[0].roof if teams else "memory"
    return tuple(
        RowTeam(
            name=f"team {number}", first=first, rows=count, blocks=-(-count // schedule.block),
            bytes=size * count, operations=operations * count, roof=roof,
            predicted=seconds * count,
        )
        for number, (first, count) in enumerate(runs)
    )  # fmt: skip


def axes_of(pulled: Pulled) -> tuple[int | None, ...]:
    return tuple(None if rows is None else rows.axis for rows in pulled.results)


def function_name(function: Function) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def predict_teams(
    cluster: Cluster,
    schedule: RowSchedule,
    rows: int,
    operations: float,
    size: float,
) -> tuple[RowTeam, ...]:
    """What the roofline of the CPU says of each team: the longer of computing and streaming.

    What lies between arguments and results stays in the cache, so only these are streamed; a stream
    is a core's, or a share of the machine's where teams use more than that.
    """
    cpu = next(device for device in cluster.nodes[0].devices if device.kind.value == "CPU")
    runs = schedule.runs(rows)
    machine = cpu.max_bandwidth * len(cpu.groups) * MEGA
    stream = min(cpu.bandwidth * MEGA, machine / len(runs))
    rate = cpu.groups[0].rate
    teams = []
    for number, (first, count) in enumerate(runs):
        compute, memory = operations * count / rows / rate, size * count / rows / stream
        teams.append(
            RowTeam(
                name=f"team {number}", first=first, rows=count,
                blocks=-(-count // schedule.block), bytes=size * count / rows,
                operations=operations * count / rows,
                roof="compute" if compute >= memory else "memory",
                predicted=max(compute, memory),
            )
        )  # fmt: skip
    return tuple(teams)


def predict_devices(cluster: Cluster, across: DeviceSteps) -> tuple[RowTeam, ...]:
    """What the roofline says of each device in each step."""
    teams = []
    for (step, device), predicted in across.predicted(cluster).items():
        parts = [part for part in across.steps[step] if part.device == device]
        largest = max(parts, key=lambda part: part.rows)
        teams.append(
            RowTeam(
                name=device, step=step, first=largest.first, rows=largest.rows, blocks=len(parts),
                bytes=predicted.bytes, operations=predicted.operations, roof=predicted.roof,
                predicted=predicted.seconds,
            )
        )  # fmt: skip
    return tuple(teams)


def describe_plan(
    function: Function,
    leaves: Sequence[Leaf],
    pulled: Pulled | None,
    schedule: RowSchedule | None,
    *,
    choice: Choice | None = None,
    evidence: str = "the original itself",
    reason: str = "",
    teams: tuple[RowTeam, ...] = (),
    across: DeviceSteps | None = None,
) -> Description:
    return Description(
        function=function_name(function),
        arguments=kinds_of(leaves),
        rows=rows_of(pulled) if pulled else 0,
        axes=axes_of(pulled) if pulled else (),
        schedule=schedule,
        original_seconds=choice.original_seconds if choice else 0.0,
        seconds=choice.seconds if choice else 0.0,
        gain=choice.gain if choice else 1.0,
        evidence=evidence,
        reason=reason,
        teams=teams,
        steps=across.steps if across else (),
        devices=tuple(across.devices) if across else (),
    )


def _shown(kinds: tuple[PlanArgument, ...]) -> str:
    return ", ".join(f"{kind.dtype}[{','.join(map(str, kind.shape))}]" for kind in kinds)


WIDTH, LANE, MARGIN, BAR = 720, 44, 96, 15
PREDICTED, MEASURED = "#c9d6ea", "#3465a4"


class Bar(Struct, frozen=True):
    """A piece of work of a lane: when it begins and how long it takes, in seconds."""

    lane: str
    label: str
    start: float
    seconds: float
    predicted: float
    """Seconds that the model predicted; drawn paler, above."""


def draw_timeline(bars: Sequence[Bar], title: str) -> str:
    """Gives the text of an SVG file."""
    lanes = list(dict.fromkeys(bar.lane for bar in bars))
    end = max((bar.start + max(bar.seconds, bar.predicted) for bar in bars), default=0.0) or 1.0
    scale = (WIDTH - MARGIN - 16) / end
    height = 56 + LANE * len(lanes)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'font-family="sans-serif" font-size="11">',
        f'<text x="8" y="18" font-size="13">{escape(title)}</text>',
    ]
    for number, lane in enumerate(lanes):
        top = 32 + LANE * number
        parts.append(f'<text x="8" y="{top + 24}">{escape(lane)}</text>')
        parts.append(
            f'<line x1="{MARGIN}" x2="{WIDTH - 16}" y1="{top + 38}" y2="{top + 38}" stroke="#ddd"/>'
        )
    for bar in bars:
        top, left = 32 + LANE * lanes.index(bar.lane), MARGIN + bar.start * scale
        for row, (seconds, color) in enumerate(
            ((bar.predicted, PREDICTED), (bar.seconds, MEASURED))
        ):
            width = max(1.0, seconds * scale)
            parts.append(
                f'<rect x="{left:.1f}" y="{top + 4 + row * (BAR + 2)}" width="{width:.1f}" '
                f'height="{BAR}" fill="{color}"><title>{escape(bar.label)}: '
                f"{seconds * 1e3:.3g} ms {'measured' if row else 'predicted'}</title></rect>"
            )
    legend = f"0 to {end * 1e3:.3g} ms; pale: predicted, dark: measured"
    parts.append(f'<text x="{MARGIN}" y="{height - 8}" fill="#666">{legend}</text></svg>\n')
    return "\n".join(parts)
