"""Runs a function on several devices that need not be alike: step by step, a program for each
device of a step, and rows that are moved between them.

Problem: one `jit` wants all of its arguments on devices of one kind, in equal shares. Devices of
two kinds, or shares that divide nothing, need a program for each.

Method. The function's patterns (`jaxpr_patterns`) are calls with rows. A plan says, step by step,
which rows of which calls each device computes (`DevicePart`). From that alone follows all else,
before anything runs: which rows a device needs that it does not hold, from where they come
(`Transfer`), and when a value is needed no longer. What a device does in a step is one jitted
function. Steps between which nothing moves are joined, so that XLA sees them as one.

Example, `y = tanh(x @ w); (y * y).sum(0)` on devices of speeds 1 and 3, 1000 rows: rows 0 to 249 of
y on the first, 250 to 999 on the second, each with its part of the sum; then the first device is
sent a part, and adds both.

Invariant: a value's pieces never overlap and cover it once its step is done, so what is put
together from them is what the function computes. `DeviceSteps` refuses a plan of which that is not
true.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from msgspec import Struct

from ..capture.jax_types import Leaf
from .clusters import MEGA, NANO, Cluster, ComputeDevice
from .errors import PlanError
from .jaxpr_patterns import CapturedCall, JaxPatterns
from .patterns import PatternKind
from .rows.blocked import memory_of, team_threads
from .rows.demands import Target, pull
from .rows.equations import Flat, FlatValue, Known
from .rows.frames import Frame, Parts, Whole, bind
from .rows.loops import requirement
from .rows.rules import WHOLE, Rows
from .workers import apportion

ADDED_UP = frozenset({"reduce_and", "reduce_max", "reduce_min", "reduce_or", "reduce_prod",
                      "reduce_sum", "reduce_xor"})  # fmt: skip
"""Reductions whose parts are put together by the same reduction."""


class DevicePart(Struct, frozen=True):
    """Rows of a call that a device computes in a step; no rows put a reduction's parts together."""

    call: str
    device: str
    first: int
    rows: int


Steps: TypeAlias = tuple[tuple[DevicePart, ...], ...]
"""Step by step: what each device computes."""


class Transfer(Struct, frozen=True):
    """Rows of a value that go from a device to another before a step."""

    step: int
    value: str
    first: int
    rows: int
    source: str
    to: str
    bytes: int


@dataclass(frozen=True)
class _HeldRows:
    """Rows of a value on a device; of a reduction, what so many rows amount to."""

    number: int
    first: int
    rows: int
    device: str
    partial: bool = False


@dataclass(frozen=True)
class _Cut:
    """Rows of a piece."""

    piece: _HeldRows
    first: int
    rows: int


@dataclass(frozen=True)
class _Window:
    """Rows of a value that a device has together before a step, and what they are made of."""

    number: int
    first: int
    rows: int
    device: str
    cuts: tuple[_Cut, ...]


class _CallProgram:
    """How rows of a call are computed from rows of what it reads."""

    def __init__(self, captured: CapturedCall, inputs: Sequence[FlatValue]) -> None:
        self.captured = captured
        self.value = captured.value
        *before, self.last = captured.equations
        self.is_reduction = captured.call.kind is PatternKind.REDUCE
        self.count = captured.call.lengths[0]
        equations = before if self.is_reduction else captured.equations
        target: Target
        if self.is_reduction:
            target = (self.last.inputs[0], Rows(0))
        else:
            target = (self.value, Rows(0) if self.count > 1 else WHOLE)
        flat = Flat(tuple(inputs), tuple(equations), ())
        pulled = pull(flat, [target], requirement)
        assert pulled is not None, "a call that was captured was pulled before"
        self.demands = {number: asked for number, asked in pulled.inputs.items() if asked}
        self.frame = Frame(pulled)

    @property
    def divides(self) -> bool:
        """Whether several devices may share its rows."""
        return self.count > 1 and (not self.is_reduction or self.last.name in ADDED_UP)

    def window(self, number: int, extent: int, first: int, rows: int) -> tuple[int, int]:
        """The first and the number of rows of a value that these rows need."""
        asked = self.demands[number]
        if any(demand is WHOLE or demand.axis for demand in asked):
            return 0, extent
        shifts = [demand.shift for demand in asked if demand is not WHOLE]
        return first + min(shifts), rows + max(shifts) - min(shifts)

    def compute(self, arrays: Mapping[int, tuple[int, Leaf]], first: int, rows: int) -> Leaf:
        """Rows of the value, or a reduction's part; `arrays` begin at the row beside them."""
        whole: Whole = {}
        parts: Parts = {}
        for number, asked in self.demands.items():
            offset, array = arrays[number]
            for demand in asked:
                if demand is WHOLE or demand.axis:
                    whole[number] = array
                else:
                    start = first + demand.shift - offset
                    parts[number, demand] = lax.slice_in_dim(array, start, start + rows)
        (result,) = self.frame.compute(self.frame.prepare(whole), parts, first, rows)
        if not self.is_reduction:
            return result
        return bind(self.last, [result], self.last.params)[0]

    def together(self, parts: Sequence[Leaf]) -> Leaf:
        """A reduction of what its parts amount to."""
        return bind(self.last, [jnp.stack(parts)], {**self.last.params, "axes": (0,)})[0]


@dataclass(frozen=True)
class _DeviceProgram:
    """What a device does in a step: the windows that it takes, its parts, the pieces it gives."""

    step: int
    device: str
    parts: tuple[DevicePart, ...]
    windows: tuple[_Window, ...]
    makes: tuple[_HeldRows, ...]
    """A piece for each part."""
    gives: tuple[_HeldRows, ...]
    """Those that are read behind the step."""


class DeviceSteps:
    """A function's patterns with a plan, on devices by name; called with flat inputs."""

    def __init__(
        self, patterns: JaxPatterns, steps: Steps, devices: Mapping[str, jax.Device]
    ) -> None:
        self.patterns = patterns
        self.steps = steps
        self.devices = devices
        self.home = next(iter(devices))
        """Where arguments come from and results go to."""
        self._values = {value.number: value for value in patterns.flat.inputs}
        self._values |= {each.value.number: each.value for each in patterns.calls}
        self._calls = calls_of(patterns)
        self._check()
        self._programs = self._planned()
        self._compiled: dict[tuple[int, str], jax.stages.Compiled] = {}
        self.moved: list[Transfer] = []
        """What the last call moved."""

    def _check(self) -> None:
        """Raises PlanError unless each row of each call is computed once, by a device there is."""
        seen: dict[str, list[tuple[int, int]]] = {name: [] for name in self._calls}
        for part in (part for step in self.steps for part in step):
            if part.device not in self.devices:
                raise PlanError(
                    f"the plan runs {part.call} on {part.device}; there are "
                    f"{', '.join(self.devices)}"
                )
            if part.call not in seen:
                raise PlanError(f"the plan computes {part.call}, which the function does not have")
            if part.rows:
                seen[part.call].append((part.first, part.rows))
        for name, runs in seen.items():
            count = self._calls[name].count
            ends = [0, *(first + rows for first, rows in sorted(runs))]
            follow = [first for first, _ in sorted(runs)] == ends[:-1] and ends[-1] == count
            if not follow or (len(runs) > 1 and not self._calls[name].divides):
                raise PlanError(
                    f"the plan's parts of {name} are not rows 0 to {count - 1}, each once: {runs}"
                )

    def _extent(self, number: int) -> int:
        shape = self._values[number].shape
        return shape[0] if shape else 1

    def _row_bytes(self, number: int) -> float:
        value = self._values[number]
        size = int(np.prod(value.shape, dtype=np.int64)) * np.dtype(value.dtype).itemsize
        return size / max(1, self._extent(number))

    def _planned(self) -> list[list[_DeviceProgram]]:
        """What every device takes and gives in every step."""
        pieces: dict[int, list[_HeldRows]] = {
            value.number: [_HeldRows(value.number, 0, self._extent(value.number), self.home)]
            for value in self.patterns.flat.inputs
        }
        programs = []
        for number, step in enumerate(self.steps):
            planned = [
                self._program(number, device, [p for p in step if p.device == device], pieces)
                for device in dict.fromkeys(part.device for part in step)
            ]
            # Only now: what a device gives in a step is there for others in the next.
            for program in planned:
                for piece in program.gives:
                    pieces.setdefault(piece.number, []).append(piece)
            programs.append(planned)
        self._results = [
            self._cut(atom.number, 0, self._extent(atom.number), self.home, pieces, "the result")
            for atom in self.patterns.flat.outputs
            if isinstance(atom, FlatValue)
        ]
        windows = [window for step in programs for each in step for window in each.windows]
        used = {cut.piece for window in (*windows, *self._results) for cut in window.cuts}
        # What only the step itself reads stays inside of its program, where XLA may never store it.
        return [
            [replace(p, gives=tuple(piece for piece in p.gives if piece in used)) for p in step]
            for step in programs
        ]

    def _program(
        self,
        step: int,
        device: str,
        parts: Sequence[DevicePart],
        pieces: Mapping[int, Sequence[_HeldRows]],
    ) -> _DeviceProgram:
        windows: dict[_Window, None] = {}
        gives: list[_HeldRows] = []
        for part in parts:
            call = self._calls[part.call]
            number = call.value.number
            if not part.rows:
                inside = any(piece.number == number for piece in gives)
                held = gives if inside else pieces.get(number, ())
                for piece in held if not inside else ():
                    windows[_Window(number, piece.first, piece.rows, device,
                                    (_Cut(piece, piece.first, piece.rows),))] = None  # fmt: skip
                gives.append(_HeldRows(number, 0, self._extent(number), device))
                continue
            for source in call.demands:
                first, rows = call.window(source, self._extent(source), part.first, part.rows)
                here = {source: [piece for piece in gives if piece.number == source]}
                if here[source]:
                    # Made in this very step: there is nothing to fetch, but it must all be here.
                    self._cut(source, first, rows, device, here, part.call)
                else:
                    windows[self._cut(source, first, rows, device, pieces, part.call)] = None
            if call.is_reduction:
                partial = part.rows < call.count
                first, rows = (part.first, part.rows) if partial else (0, self._extent(number))
                gives.append(_HeldRows(number, first, rows, device, partial))
            elif call.count > 1:
                gives.append(_HeldRows(number, part.first, part.rows, device))
            else:
                gives.append(_HeldRows(number, 0, self._extent(number), device))
        makes = tuple(gives)
        return _DeviceProgram(step, device, tuple(parts), tuple(windows), makes, makes)

    def _cut(
        self,
        number: int,
        first: int,
        rows: int,
        device: str,
        pieces: Mapping[int, Sequence[_HeldRows]],
        reader: str,
    ) -> _Window:
        """Rows of a value from the pieces that hold them, those on the device itself first."""
        held = [piece for piece in pieces.get(number, ()) if not piece.partial]
        held.sort(key=lambda piece: piece.device != device)
        cuts: list[_Cut] = []
        at, end = first, first + rows
        while at < end or not cuts:
            piece = next((p for p in held if p.first <= at < p.first + p.rows), None)
            if piece is None:
                raise PlanError(
                    f"{reader} on {device} reads row {at} of {self.patterns.names[number]}, which "
                    "no step before it has computed"
                )
            stop = min(end, piece.first + piece.rows)
            cuts.append(_Cut(piece, at, stop - at))
            at = stop
        return _Window(number, first, rows, device, tuple(cuts))

    @cached_property
    def transfers(self) -> list[Transfer]:
        """What moves between devices, by the plan alone."""
        moved, there = [], set()
        windows = [(p.step, w) for step in self._programs for p in step for w in p.windows]
        windows += [(len(self.steps), window) for window in self._results]
        for step, window in windows:
            if window not in there:
                there.add(window)
                moved += [self._transfer(step, cut, window.device) for cut in window.cuts
                          if cut.piece.device != window.device]  # fmt: skip
        return moved

    def _transfer(self, step: int, cut: _Cut, to: str) -> Transfer:
        number = cut.piece.number
        size = self._row_bytes(number)
        size *= self._extent(number) if cut.piece.partial else cut.rows
        return Transfer(step, self.patterns.names[number], cut.first, cut.rows, cut.piece.device,
                        to, round(size))  # fmt: skip

    def __call__(self, inputs: Sequence[Leaf]) -> list[Leaf]:
        return self._run(inputs, None)

    def laps(self, inputs: Sequence[Leaf]) -> dict[tuple[int, str], float]:
        """Seconds that each device takes in each step, the others of the step beside it."""
        laps: dict[tuple[int, str], float] = {}
        self._run(inputs, laps)
        return laps

    def _run(self, inputs: Sequence[Leaf], laps: dict[tuple[int, str], float] | None) -> list[Leaf]:
        self.moved = []
        held: dict[_HeldRows, Leaf] = {}
        copies: dict[_Window, Leaf] = {}
        for value, array in zip(self.patterns.flat.inputs, inputs, strict=True):
            home = self.devices[self.home]
            piece = _HeldRows(value.number, 0, self._extent(value.number), self.home)
            held[piece] = jax.device_put(jnp.asarray(array), home)
        for number, step in enumerate(self._programs):
            ready = [
                (program, [self._fetch(number, window, held, copies) for window in program.windows])
                for program in step
            ]
            for program, arrays in ready:
                self._prepare(program, arrays)
            (first, its), *others = ready
            # From threads: a single one runs programs with loops on CPU devices one after another.
            waiting = [
                team_threads().submit(self._compute, program, arrays, laps)
                for program, arrays in others
            ]
            outcomes = [self._compute(first, its, laps), *(team.result() for team in waiting)]
            for (program, _), arrays in zip(ready, outcomes, strict=True):
                held.update(zip(program.gives, arrays, strict=True))
            self._drop(number, held, copies)
        results = iter(self._results)
        return [
            jnp.asarray(atom.array)
            if isinstance(atom, Known)
            else self._fetch(len(self.steps), next(results), held, copies)
            for atom in self.patterns.flat.outputs
        ]

    def _fetch(
        self,
        step: int,
        window: _Window,
        held: Mapping[_HeldRows, Leaf],
        copies: dict[_Window, Leaf],
    ) -> Leaf:
        """A window's rows on its device, as one array."""
        if window in copies:
            return copies[window]
        device, arrays = self.devices[window.device], []
        for cut in window.cuts:
            array = held[cut.piece]
            if not cut.piece.partial and cut.rows < cut.piece.rows:
                start = cut.first - cut.piece.first
                array = lax.slice_in_dim(array, start, start + cut.rows)
            if array.devices() != {device}:
                self.moved.append(self._transfer(step, cut, window.device))
                array = jax.device_put(array, device)
            arrays.append(array)
        copies[window] = arrays[0] if len(arrays) == 1 else jnp.concatenate(arrays)
        return copies[window]

    def _prepare(self, program: _DeviceProgram, arrays: Sequence[Leaf]) -> None:
        """Compiles here, as settings of jax are a thread's and those of others may differ."""
        key = program.step, program.device
        if key not in self._compiled:
            with jax.default_device(self.devices[program.device]):
                jitted = jax.jit(lambda *arrays: self._traced(program, arrays))
                self._compiled[key] = jitted.lower(*arrays).compile()

    def _compute(
        self,
        program: _DeviceProgram,
        arrays: Sequence[Leaf],
        laps: dict[tuple[int, str], float] | None,
    ) -> list[Leaf]:
        key = program.step, program.device
        for array in arrays if laps is not None else ():
            array.block_until_ready()
        begun = time.perf_counter()
        results = list(self._compiled[key](*arrays))
        if laps is not None:
            for array in results:
                array.block_until_ready()
            laps[key] = time.perf_counter() - begun
        return results

    def _traced(self, program: _DeviceProgram, arrays: Sequence[Leaf]) -> list[Leaf]:
        """What a device computes in a step: its jitted function."""
        windows = dict(zip(program.windows, arrays, strict=True))
        made: dict[_HeldRows, Leaf] = {}
        for part, piece in zip(program.parts, program.makes, strict=True):
            call = self._calls[part.call]
            number = call.value.number
            if not part.rows:
                inside = [array for each, array in made.items() if each.number == number]
                fetched = [array for window, array in windows.items() if window.number == number]
                made[piece] = call.together(inside or fetched)
                continue
            operands = {}
            for source in call.demands:
                first, rows = call.window(source, self._extent(source), part.first, part.rows)
                here = {source: [each for each in made if each.number == source]}
                if here[source]:
                    window = self._cut(source, first, rows, program.device, here, part.call)
                    operands[source] = (first, _joined(window, made))
                else:
                    operands[source] = next(
                        (window.first, array)
                        for window, array in windows.items()
                        if (window.number, window.first, window.rows) == (source, first, rows)
                    )
            made[piece] = call.compute(operands, part.first, part.rows)
        return [made[piece] for piece in program.gives]

    @cached_property
    def _last_use(self) -> dict[int, int]:
        """By value: the step after which nobody reads it."""
        last = {
            window.number: step
            for step, programs in enumerate(self._programs)
            for program in programs
            for window in program.windows
        }
        return last | {window.number: len(self.steps) for window in self._results}

    def _drop(self, step: int, held: dict[_HeldRows, Leaf], copies: dict[_Window, Leaf]) -> None:
        """Forgets what is needed no longer, so that devices hold no more than they must."""
        for window in [w for w in copies if self._last_use[w.number] <= step]:
            del copies[window]
        for piece in [p for p in held if self._last_use.get(p.number, -1) <= step]:
            del held[piece]

    def device_bytes(self) -> dict[str, int]:
        """The most that each device holds at once: arguments, pieces and copies, by the plan."""
        most = dict.fromkeys(self.devices, 0.0)
        live: dict[_HeldRows | _Window, float] = {}
        for value in self.patterns.flat.inputs:
            piece = _HeldRows(value.number, 0, self._extent(value.number), self.home)
            live[piece] = self._row_bytes(value.number) * piece.rows
        for step, programs in enumerate(self._programs):
            for program in programs:
                for window in program.windows:
                    cut = window.cuts[0]
                    if len(window.cuts) > 1 or cut.piece.device != window.device:
                        live[window] = self._row_bytes(window.number) * window.rows
                for piece in program.gives:
                    rows = self._extent(piece.number) if piece.partial else piece.rows
                    live[piece] = self._row_bytes(piece.number) * rows
            for device in most:
                held = sum(size for each, size in live.items() if each.device == device)
                most[device] = max(most[device], held)
            for each in [e for e in live if self._last_use.get(e.number, -1) <= step]:
                del live[each]
        return {device: round(size) for device, size in most.items()}

    def temporary_bytes(self, inputs: Sequence[Leaf]) -> int:
        """Bytes that a device needs, the one that needs most, beside the arguments and results that
        the first has: what it holds, and what XLA plans in a step."""
        self(inputs)
        ends = sum(
            self._row_bytes(number) * self._extent(number)
            for number in {
                *(value.number for value in self.patterns.flat.inputs),
                *(window.number for window in self._results),
            }
        )
        planned = dict.fromkeys(self.devices, 0)
        for (_, device), compiled in self._compiled.items():
            planned[device] = max(planned[device], memory_of(compiled).temporary)
        held = self.device_bytes()
        held[self.home] = max(0, round(held[self.home] - ends))
        return max(held[device] + planned[device] for device in self.devices)

    def predicted(self, cluster: Cluster) -> dict[tuple[int, str], DevicePrediction]:
        """What the roofline says of each device in each step."""
        described = described_devices(cluster)
        work = self.patterns.program.work()
        predictions = {}
        for program in (program for step in self._programs for program in step):
            device = described[program.device]
            operations = float(
                sum(work[self._calls[part.call].captured.call.pattern].plain * part.rows
                    for part in program.parts)
            )  # fmt: skip
            streamed = sum(self._row_bytes(w.number) * w.rows for w in program.windows)
            streamed += sum(self._row_bytes(piece.number) * piece.rows for piece in program.gives)
            moved = [cut for w in program.windows for cut in w.cuts
                     if cut.piece.device != program.device]  # fmt: skip
            size = sum(self._row_bytes(cut.piece.number) * cut.rows for cut in moved)
            link = link_of(cluster, self.home, program.device)
            compute, memory = operations / rate_of(device), streamed / stream_of(device)
            predictions[program.step, program.device] = DevicePrediction(
                operations, streamed, size,
                max(compute, memory) + (size / link if size else 0.0),
                "compute" if compute >= memory else "memory",
            )  # fmt: skip
        return predictions


class DevicePrediction(Struct, frozen=True):
    """Work of a device in a step, and the seconds that its roofs leave it."""

    operations: float
    bytes: float
    moved: float
    seconds: float
    roof: str


def _joined(window: _Window, arrays: Mapping[_HeldRows, Leaf]) -> Leaf:
    """Rows from pieces that are all on a device, as one array."""
    cut_arrays = []
    for cut in window.cuts:
        array = arrays[cut.piece]
        if cut.rows < cut.piece.rows:
            start = cut.first - cut.piece.first
            array = lax.slice_in_dim(array, start, start + cut.rows)
        cut_arrays.append(array)
    return cut_arrays[0] if len(cut_arrays) == 1 else jnp.concatenate(cut_arrays)


def calls_of(patterns: JaxPatterns) -> dict[str, _CallProgram]:
    """How each call of a function is computed, in the order in which they can run."""
    inputs = (*patterns.flat.inputs, *(captured.value for captured in patterns.calls))
    programs = {}
    for captured in patterns.calls:
        defined = {v.number for equation in captured.equations for v in equation.outputs}
        sources = [value for value in inputs if value.number not in defined]
        programs[captured.call.name] = _CallProgram(captured, sources)
    return programs


def shared_out(patterns: JaxPatterns, speeds: Mapping[str, float]) -> Steps:
    """Each call's rows in proportion to the speeds of devices; what has no rows runs on the
    fastest. A call's step is the one behind the last of those that it reads."""
    calls = calls_of(patterns)
    names = {call.value.number: name for name, call in calls.items()}
    fastest = max(speeds, key=lambda device: speeds[device])
    behind: dict[str, int] = {}
    steps: dict[int, list[DevicePart]] = {}
    for name, call in calls.items():
        at = max((behind[names[n]] + 1 for n in call.demands if n in names), default=0)
        shares = [(fastest, call.count)]
        if call.divides and call.count >= len(speeds):
            shares = list(zip(speeds, apportion(call.count, list(speeds.values())), strict=True))
        first = 0
        shares = [(device, rows) for device, rows in shares if rows]
        for device, rows in shares:
            steps.setdefault(at, []).append(DevicePart(name, device, first, rows))
            first += rows
        behind[name] = at
        if call.is_reduction and len(shares) > 1:
            behind[name] = at + 1
            steps.setdefault(at + 1, []).append(DevicePart(name, fastest, 0, 0))
    return joined_steps(patterns, tuple(tuple(steps[at]) for at in sorted(steps)))


def joined_steps(patterns: JaxPatterns, steps: Steps) -> Steps:
    """Steps of which the later reads nothing from another device of the earlier become one."""
    calls = calls_of(patterns)
    extents = {call.value.number: call for call in calls.values()}
    joined: list[tuple[DevicePart, ...]] = []
    for step in steps:
        if joined and all(_reads_here(part, joined[-1], calls, extents) for part in step):
            joined[-1] = (*joined[-1], *step)
        else:
            joined.append(step)
    return tuple(joined)


def _reads_here(
    part: DevicePart,
    before: Iterable[DevicePart],
    calls: Mapping[str, _CallProgram],
    by_number: Mapping[int, _CallProgram],
) -> bool:
    """Whether all that a part reads of an earlier step is on its device."""
    if not part.rows:
        return all(each.device == part.device for each in before if each.call == part.call)
    call = calls[part.call]
    for number in call.demands:
        source = by_number.get(number)
        runs = [each for each in before if source and calls[each.call] is source]
        if source is None or not runs:
            continue
        here = [each for each in runs if each.device == part.device]
        if source.count == 1 or source.is_reduction:
            # It is whole where it is computed, or where its parts were put together.
            if not here or (source.is_reduction and here[-1].rows not in (0, source.count)):
                return False
            continue
        first, rows = call.window(number, source.count, part.first, part.rows)
        at = first
        for each in sorted(here, key=lambda each: each.first):
            if each.first <= at:
                at = max(at, each.first + each.rows)
        if at < first + rows:
            return False
    return True


def pipelined(patterns: JaxPatterns, stages: Sequence[str], turns: int) -> Steps:
    """A chain of calls cut into stages, one for each device, through which parts of the rows pass.

    Part m is in stage s in step s + m, so that from step `len(stages) - 1` on all devices work.
    Stages have about equal work. Raises PlanError where calls are no chain of rows.
    """
    calls = calls_of(patterns)
    counts = {call.count for call in calls.values()}
    if len(counts) != 1 or not all(call.divides for call in calls.values()):
        raise PlanError("only calls with the same rows can be stages of a pipeline")
    (count,) = counts
    computed = {call.value.number for call in calls.values()}
    for call in calls.values():
        for number in computed & call.demands.keys():
            if call.window(number, count, 0, 1) != (0, 1):
                raise PlanError(
                    f"{call.captured.call.name} reads other rows than its own, so that its rows "
                    "cannot pass through a pipeline in parts"
                )
    work = patterns.program.work()
    costs = [work[call.captured.call.pattern].plain for call in calls.values()]
    total, spent, stage_of = sum(costs), 0.0, {}
    for name, cost in zip(calls, costs, strict=True):
        # By the middle of its work, so that a stage gets what is more than half its own.
        stage_of[name] = min(len(stages) - 1, int((spent + cost / 2) / total * len(stages)))
        spent += cost
    edges = [count * turn // turns for turn in range(turns + 1)]
    steps: list[list[DevicePart]] = [[] for _ in range(len(stages) + turns - 1)]
    for turn in range(turns):
        first, rows = edges[turn], edges[turn + 1] - edges[turn]
        for name in calls if rows else ():
            stage = stage_of[name]
            steps[stage + turn].append(DevicePart(name, stages[stage], first, rows))
    return tuple(tuple(step) for step in steps if step)


def rate_of(device: ComputeDevice) -> float:
    """Operations that all of a device does in a second."""
    return sum(group.rate * group.cores for group in device.groups)


def stream_of(device: ComputeDevice) -> float:
    """Bytes a second between a device and its memory."""
    return device.max_bandwidth * len(device.groups) * MEGA


def device_name(device: ComputeDevice) -> str:
    """The jax device that a description names, such as `cpu:1`; empty where it names none."""
    name = device.identifier.partition(" ")[0]
    platform, _, number = name.partition(":")
    return name if platform and number.isdigit() else ""


def described_devices(cluster: Cluster) -> dict[str, ComputeDevice]:
    """The devices of a cluster that name devices of jax, by that name."""
    return {
        name: device
        for node in cluster.nodes
        for device in node.devices
        if (name := device_name(device))
    }


def jax_devices(names: Iterable[str]) -> dict[str, jax.Device]:
    """The devices of jax of these names; raises PlanError where one is not there."""
    devices = {}
    for name in names:
        platform, _, number = name.partition(":")
        try:
            there = {device.id: device for device in jax.devices(platform)}
        except RuntimeError:
            there = {}
        if not number.isdigit() or int(number) not in there:
            has = ", ".join(f"{platform}:{at}" for at in there) or f"no {platform} at all"
            raise PlanError(
                f"{name} is to compute, and jax has {has} here; correct the name of the device, or "
                "give jax more of them (jax_num_cpu_devices)"
            )
        devices[name] = there[int(number)]
    return devices


def link_of(cluster: Cluster, source: str, to: str) -> float:
    """Bytes a second between two devices of a node, or between their nodes."""
    places = {
        name: (n, d)
        for n, node in enumerate(cluster.nodes)
        for d, device in enumerate(node.devices)
        if (name := device_name(device))
    }
    (a, at), (b, to_at) = places[source], places[to]
    if a != b:
        return cluster.bandwidth[a][b] * MEGA or float("inf")
    return cluster.nodes[a].bandwidth[at][to_at] * MEGA or float("inf")


def predicted_speeds(patterns: JaxPatterns, cluster: Cluster, home: str) -> dict[str, float]:
    """How much of a program each device does in a second, by its roofs and its link from home."""
    calls = list(calls_of(patterns).values())
    work = patterns.program.work()
    arrays = {array.name: array.bytes for array in patterns.program.arrays}
    operations = sum(work[each.captured.call.pattern].plain * each.count for each in calls)
    streamed = sum(
        arrays.get(access.array, 0.0)
        for each in calls
        for access in (*each.captured.call.reads, *each.captured.call.writes)
    )
    outside = [value.number for value in patterns.flat.inputs]
    outside += [atom.number for atom in patterns.flat.outputs if isinstance(atom, FlatValue)]
    ends = sum(arrays.get(patterns.names[number], 0.0) for number in outside)
    speeds = {}
    for name, device in described_devices(cluster).items():
        seconds = max(operations / rate_of(device), streamed / stream_of(device))
        if name != home:
            seconds += ends / link_of(cluster, home, name) + device.latency * NANO
        speeds[name] = 1 / max(seconds, 1e-12)
    return speeds
