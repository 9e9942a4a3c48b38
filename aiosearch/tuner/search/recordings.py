"""Recorded spaces: every point of a kernel measured once, so that algorithms race without a device.

A replay asks an algorithm for points and answers from the record. What is compared is the share of
a space's points that it measures until it has one within 5 % of the best: all else about a search,
compilers, noise and the machine, is the same for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

import msgspec
from msgspec import Struct

from ...folders import replace_file
from ..errors import RequirementFailed, TableError
from ..reports import TuningReport
from ..space.sites import AnySite, Value, as_value
from ..space.spaces import Sampler, SearchSpace
from ..space.traces import Trace
from ..types import Configuration
from .models import CostModel
from .proposals import Measurement, find_proposer
from .states import SearchState

NEAR = 1.05
"""How near to the best a point has to be for a replay to be over."""
BATCH = 4


class RecordedPoint(Struct, frozen=True, array_like=True):
    """A point: which layout of sites it has, its values in their order, and what became of it."""

    layout: int
    values: tuple[Value, ...]
    seconds: float | None
    gate: str = ""
    derived: dict[str, float] = {}


class RecordedSpace(Struct, frozen=True, dict=True):
    """All points of one kernel on one kind of arguments."""

    kernel: str
    arguments: tuple[str, ...]
    device: str
    versions: str
    layouts: tuple[tuple[AnySite, ...], ...]
    """The sites that points have: as many layouts as there are ways through the program."""
    points: tuple[RecordedPoint, ...]

    @classmethod
    def of(cls, report: TuningReport) -> RecordedSpace:
        """What an exhaustive search of a space measured."""
        layouts: dict[tuple[AnySite, ...], int] = {}
        points = []
        for entry in report.measurements:
            sites = entry.trace.sites
            values = tuple(entry.trace.decisions[site.name] for site in sites)
            layout = layouts.setdefault(sites, len(layouts))
            points.append(
                RecordedPoint(layout, values, entry.seconds, entry.gate, entry.trace.derived)
            )
        record = report.record
        return cls(
            record.kernel, record.arguments, record.device, record.versions, tuple(layouts),
            tuple(points),
        )  # fmt: skip

    @classmethod
    def load(cls, path: Path) -> RecordedSpace:
        try:
            text = path.read_bytes()
            recorded = msgspec.json.decode(text, type=cls)
        except OSError as error:
            raise TableError(f"cannot read the recorded space {path}: {error.strerror}") from error
        except msgspec.DecodeError as error:
            raise TableError(f"{path} is no recorded space: {error}") from None
        layouts = tuple(tuple(map(_tupled, layout)) for layout in recorded.layouts)
        points = tuple(
            msgspec.structs.replace(point, values=as_value(point.values))
            for point in recorded.points
        )
        return msgspec.structs.replace(recorded, layouts=layouts, points=points)

    def save(self, path: Path) -> None:
        """Writes a line for each point, so that a repository shows what changed."""
        head = msgspec.to_builtins(msgspec.structs.replace(self, points=()))
        text = msgspec.json.encode(head).decode().removesuffix("[]}")
        lines = ",\n".join(msgspec.json.encode(point).decode() for point in self.points)
        replace_file(path, f"{text}[\n{lines}\n]}}\n".encode())

    @cached_property
    def traces(self) -> tuple[Trace, ...]:
        return tuple(
            Trace(
                self.layouts[point.layout],
                {
                    site.name: value
                    for site, value in zip(self.layouts[point.layout], point.values, strict=True)
                },
                derived=point.derived,
            )
            for point in self.points
        )

    @cached_property
    def outcomes(self) -> dict[str, RecordedPoint]:
        """What became of each point, by its key."""
        return {trace.key: point for trace, point in zip(self.traces, self.points, strict=True)}

    @property
    def best(self) -> float:
        """Seconds of the fastest point."""
        return min(point.seconds for point in self.points if point.seconds is not None)

    def space(self) -> SearchSpace:
        """A space that has exactly these points."""
        return SearchSpace(_Replayed(self.traces))


class _Replayed:
    """A program that draws at the sites of recorded points, in their order."""

    def __init__(self, traces: Sequence[Trace]) -> None:
        self._traces = traces

    def __call__(self, sampler: Sampler) -> None:
        matching: Iterable[Trace] = self._traces
        step = 0
        while True:
            matching = list(matching)
            going_on = [trace for trace in matching if len(trace.sites) > step]
            if not going_on:
                return
            site = going_on[0].sites[step]
            value = sampler._at(site, _drawn(sampler, site))
            matching = [trace for trace in going_on if trace.decisions[site.name] == value]
            if not matching:
                raise RequirementFailed("this point was not recorded", tuple(sampler.decisions))
            step += 1


def _drawn(sampler: Sampler, site: AnySite) -> Value:
    return sampler._decide(site)


class SpaceReplay(Struct, frozen=True):
    """How an algorithm went about a recorded space."""

    algorithm: str
    measurements: int
    """Until a point within 5 % of the best."""
    points: int
    trajectory: tuple[float, ...]
    """Seconds of the fastest point so far, after each measurement."""

    @property
    def share(self) -> float:
        return self.measurements / self.points


def replay(
    recorded: RecordedSpace,
    algorithm: str = "evolution",
    *,
    model: str = "auto",
    seed: int = 0,
    batch: int = BATCH,
    most: int | None = None,
) -> SpaceReplay:
    """Runs an algorithm on a recorded space until it is within 5 % of the best.

    Points are measured one after the other and the model fitted between batches, as beside a
    device. With `most`, that many are measured at the least, for the trajectory.
    """
    state = SearchState(
        recorded.space(),
        find_proposer(algorithm),
        model=CostModel(model, seed),
        seed=seed,
        pool=recorded.traces,
    )
    goal, fastest = recorded.best * NEAR, float("inf")
    trajectory: list[float] = []
    reached = 0
    while not reached or len(trajectory) < (most or 0):
        points = state.ask(batch, len(trajectory) / len(recorded.points))
        if not points:
            break
        for trace in points:
            outcome = recorded.outcomes[trace.key]
            state.tell(
                Measurement(trace, outcome.seconds, outcome.gate, predicted=state.predicted(trace))
            )
            fastest = min(fastest, float("inf") if outcome.seconds is None else outcome.seconds)
            trajectory.append(fastest)
            if not reached and fastest <= goal:
                reached = len(trajectory)
            if reached and len(trajectory) >= (most or 0):
                break
        if state.needs_fit():
            state.fit()
    measurements = reached or len(recorded.points)
    return SpaceReplay(algorithm, measurements, len(recorded.points), tuple(trajectory))


def _tupled(site: AnySite) -> AnySite:
    fields: Configuration = {name: as_value(getattr(site, name)) for name in site.__struct_fields__}
    return msgspec.structs.replace(site, **fields)
