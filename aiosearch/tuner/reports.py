"""What a search of a space found: a table for people, facts for programs, a picture."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from .errors import RequirementFailed, SpaceError
from .kernels import KernelCall
from .records import TuningRecord
from .search.proposals import Measurement
from .types import Configuration

if TYPE_CHECKING:
    from .tunables import AnyTunable


class TuningProgress(Struct, frozen=True):
    """How far a search is; given to `on_progress` after each measurement."""

    kernel: str
    trials: int
    seconds: float
    best: float | None
    """Seconds of the fastest point that is verified."""
    baseline: float
    measurement: Measurement | None = None


@dataclass(frozen=True)
class TuningReport:
    """One kind of call, tuned."""

    record: TuningRecord
    measurements: tuple[Measurement, ...] = ()
    correlations: tuple[float, ...] = ()
    """Of each batch, how well the model had ranked it before it was measured."""
    model: str = ""
    size: int | None = None
    """How many points the space has; None where they are too many to list."""
    seconds: float = 0.0
    remembered: bool = False
    """Whether the table had it, and nothing was timed."""
    finalists: tuple[tuple[Configuration, float], ...] = field(default=())
    """What ran in the last race: configurations and seconds, the winner first."""
    unfit: str = ""
    """Why the space has no point for these arguments, where it has none."""

    @property
    def configuration(self) -> Configuration:
        """What the function is called with from now on."""
        return dict(self.record.configuration)

    @property
    def speedup(self) -> float | None:
        """Over the untuned form."""
        return self.record.speedup[0] if self.record.speedup else None

    @property
    def trials(self) -> int:
        return len(self.measurements)

    @property
    def rejected(self) -> Counter[str]:
        """How many points each gate turned away."""
        return Counter(str(entry.gate) for entry in self.measurements if entry.gate)

    def __str__(self) -> str:
        return "\n".join([_headline(self), *_closing(self)])

    def facts(self) -> Configuration:
        """All of it, as JSON can say it."""
        return {
            "record": msgspec.to_builtins(self.record),
            "remembered": self.remembered,
            "trials": self.trials,
            "seconds": self.seconds,
            "trials_per_second": self.trials / self.seconds if self.seconds else None,
            "space": self.size,
            "unfit": self.unfit,
            "model": self.model,
            "correlations": list(self.correlations),
            "rejected": dict(self.rejected),
            "finalists": [
                {"configuration": options, "seconds": seconds}
                for options, seconds in self.finalists
            ],
            "measurements": [
                {
                    "decisions": entry.trace.decisions,
                    "seconds": entry.seconds,
                    "gate": entry.gate,
                    "reason": entry.reason,
                    "predicted": entry.predicted,
                    "at": entry.at,
                }
                for entry in self.measurements
            ],
        }


def explanation(kernel: AnyTunable, call: KernelCall, record: TuningRecord) -> str:
    """What a record says, site by site: what was drawn, out of how many, what had to hold, and the
    point as a program; and whether the record still fits the kernel.
    """
    space = kernel.search_space(call)
    lines = [_headline(TuningReport(record, remembered=True))]
    if record.evidence:
        lines.append(f"  {record.checked}: {record.evidence}")
    lines.append(f"  on {record.device}, {record.measured} points measured, {record.versions}")
    if record.source != kernel.source:
        lines.append("  the kernel's text has changed since; `again` tunes it anew")
    try:
        trace = space.replay(record.decisions)
    except (RequirementFailed, SpaceError) as error:
        return "\n".join([*lines, f"  it is no point of the space any more: {error}"])
    widest = max((len(site.name) for site in trace.sites), default=0)
    default = space.default().decisions
    for site in trace.sites:
        value = trace.decisions[site.name]
        usual = default.get(site.name, value)
        untuned = "" if usual == value else f", untuned {usual}"
        lines.append(f"  {site.name:<{widest}}  {value}  (one of {site.size}{untuned})")
    lines += [f"  requires: {held.why}" for held in trace.requirements]
    return "\n".join([*lines, "", trace.as_python()])


def _headline(report: TuningReport) -> str:
    record = report.record
    what = f"{record.kernel} on {', '.join(record.arguments)}"
    choice = "the reference" if record.winner == "reference" else _shown(record.configuration)
    if record.speedup is None:
        gain = "not timed against the untuned form"
    else:
        middle, low, high = record.speedup
        gain = f"{middle:.2f}x the untuned form ({low:.2f} to {high:.2f})"
    origin = ", from the table" if report.remembered else ""
    return f"{what}: {choice}, {gain}, {record.checked}{origin}"


def _closing(report: TuningReport) -> list[str]:
    record, lines = report.record, list[str]()
    if report.unfit:
        lines.append(f"  nothing was tried: {report.unfit}")
    if report.finalists:
        widest = max(len(_shown(options)) for options, _ in report.finalists)
        for options, seconds in report.finalists:
            lines.append(f"  {_shown(options):<{widest}}  {seconds_text(seconds):>9}")
    if record.tied:
        lines.append(
            f"  {record.tied} more cannot be told from it; the first in the space's order is taken"
        )
    if record.evidence:
        lines.append(f"  {record.checked}: {record.evidence}")
    if report.trials:
        of = "" if report.size is None else f" of {report.size} points"
        rate = report.trials / report.seconds if report.seconds else 0.0
        lines.append(f"  {report.trials}{of} tried in {report.seconds:.1f} s, {rate:.2f} a second")
    if report.rejected:
        gates = ", ".join(f"{gate} {count}" for gate, count in report.rejected.most_common())
        lines.append(f"  turned away: {gates}")
        for gate in report.rejected:
            reason = next(entry.reason for entry in report.measurements if entry.gate == gate)
            lines.append(f"    {gate}, such as: {reason}")
    if report.correlations:
        ranks = ", ".join(f"{value:.2f}" for value in report.correlations[-6:])
        lines.append(f"  the model ({report.model}) ranked the next batches with {ranks}")
    if not record.confirmed:
        lines.append("  interrupted before the last race: this is the fastest that was verified")
    return lines


def _shown(configuration: Configuration) -> str:
    return " ".join(f"{name}={value}" for name, value in configuration.items()) or "(no options)"


def seconds_text(seconds: float) -> str:
    """Writes 1.5 s, 12.4 ms, 282 us or 90 ns."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"
