"""The figures of a search."""

from __future__ import annotations

from msgspec import Struct

from .checks import VerifierStatistics


class WorkerStatistics(Struct, frozen=True, kw_only=True):
    """One worker's share of the work."""

    nodes: int
    tasks: int
    """Hand-outs it received."""
    reports: int
    messages: int
    """Messages both ways."""
    bytes: int
    """Bytes of messages on the way to another process; framing is not counted."""
    steals: int
    """How often it gave away work that was asked for, or took what another worker offered."""
    busy: float
    """Seconds spent exploring."""
    waiting: float
    """Seconds with nothing to do but wait for verdicts."""
    idle: float
    """Seconds without any work."""
    host: str = ""
    """The machine that it is on, where that is another one."""


class Statistics(Struct, frozen=True, kw_only=True):
    """The figures of a search so far, as last reported by its workers."""

    seconds: float
    """Wall time since the start, that of the runs before a resume included."""
    nodes: int
    leaves: int
    depth: int
    open: int
    """Subtrees known and not yet explored."""
    pruned: int
    duplicates: int
    reopened: int
    unclaimed: int
    proved: int
    refuted: int
    unknown: int
    skipped: int
    published: int
    solutions: int
    hook_errors: int
    worker_deaths: int
    workers: tuple[WorkerStatistics, ...]
    checks: VerifierStatistics | None
    """Figures of the `Verifier`, shared by all searches of a pool; None where it was not used."""

    @property
    def nodes_per_second(self) -> float:
        return self.nodes / self.seconds if self.seconds > 0 else 0.0

    def __repr__(self) -> str:
        """How far it is, in a line; the fields have the rest."""
        parts = [f"{self.nodes:,} nodes in {self.seconds:.3g} s", f"depth {self.depth}"]
        parts.append(f"{self.open:,} open")
        parts += [f"{self.worker_deaths:,} deaths"] if self.worker_deaths else []
        return f"<statistics: {', '.join(parts)}>"

    def _repr_html_(self) -> str:
        """A table of all figures, for a notebook."""
        from .display import pages  # searches that nobody looks at need none

        names = [name for name in self.__struct_fields__ if name not in ("workers", "checks")]
        rows = [(name.replace("_", " "), _figure(getattr(self, name))) for name in names]
        checks = self.checks
        if checks is not None:
            fields = checks.__struct_fields__
            rows += [(f"checks: {name}", _figure(getattr(checks, name))) for name in fields]
        return pages.fragment(pages.table(("figure", "value"), rows, {1}))

    @property
    def balance(self) -> float:
        """Mean over maximum of the workers' busy time: 1 where all did the same."""
        busy = [worker.busy for worker in self.workers]
        return sum(busy) / len(busy) / max(busy) if busy and max(busy) > 0 else 1.0


def _figure(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3g}"
