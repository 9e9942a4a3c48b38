"""A worker slot as the host sees it: what its worker holds, and what it did."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from msgspec import Struct

from ...statistics import WorkerStatistics
from ..explore.bundles import Bundle
from ..explore.counts import Counts
from ..wire.messages import WorkerReport

MAX_REPORT_CHUNKS = 1 << 16


class SentWork(Struct, frozen=True):
    """A message with work that the worker had not confirmed when it last reported."""

    number: int
    tasks: tuple[int, ...]
    nodes: int


class WorkerState:
    """A seat for one worker. Workers may come and go; the seat keeps its figures."""

    def __init__(self) -> None:
        self.alive = False
        self.busy = False
        self.hungry = False
        """The worker has explored all the nodes that it was granted."""
        self.owes_report = False
        """It was asked for a report by `ReportRequest`, and owes it."""
        self.leaving = False
        """It was sent a `Drain`: it gives back what it has, and gets nothing more."""
        self.closed = False
        """The worker is gone, and no other has to come."""
        self.held: dict[int, Bundle] = {}
        """What is open there: as of its last report, and what was sent since."""
        self.granted = 0
        self.owner = 0
        self.sequence = 0
        """The number of the last report that is in the books."""
        self.counts = Counts()
        self.host = ""
        self.reports = self.messages = self.bytes = self.tasks = self.steals = 0
        self.idle_ns = 0
        self.idle_since = 0
        self._sent: deque[SentWork] = deque()
        self._work_messages = 0
        self._parts: list[WorkerReport] = []

    def enter(self, owner: int, now: int) -> None:
        """A new worker sits down."""
        self.alive, self.busy, self.owner, self.sequence = True, False, owner, 0
        self.leaving = self.closed = False
        self.idle_since = now
        self._work_messages = 0

    @property
    def weight(self) -> float:
        """The share of the tree that is open there, from 0 to 1."""
        return sum(bundle.weight for bundle in self.held.values())

    def statistics(self, now: int) -> WorkerStatistics:
        """What its workers did until now, in seconds and counts."""
        idle = (
            self.idle_ns
            + self.counts.resting_ns
            + (now - self.idle_since if self.alive and not self.busy else 0)
        )
        return WorkerStatistics(
            nodes=self.counts.nodes,
            tasks=self.tasks,
            reports=self.reports,
            messages=self.messages,
            bytes=self.bytes,
            steals=self.steals,
            busy=self.counts.busy_ns / 1e9,
            waiting=self.counts.waiting_ns / 1e9,
            idle=idle / 1e9,
            host=self.host,
        )

    def leave(self) -> dict[int, Bundle]:
        """Records that the worker died, and gives what it held."""
        self.alive = self.busy = self.hungry = self.owes_report = self.leaving = False
        self.granted = 0
        self._parts.clear()
        self._sent.clear()
        held, self.held = self.held, {}
        return held

    def receive_work(self, bundles: dict[int, Bundle], now: int) -> None:
        """Tasks are on their way."""
        self.wake(now)
        self.tasks += len(bundles)
        self.held.update(bundles)

    def sent(self, tasks: Iterable[int], nodes: int) -> None:
        """Notes one message with work."""
        self._work_messages += 1
        self._sent.append(SentWork(self._work_messages, tuple(tasks), nodes))

    def gather(self, part: WorkerReport) -> list[WorkerReport] | None:
        """Takes one part of a report; gives all parts when it was the last, the one with
        `final`."""
        self._parts.append(part)
        if len(self._parts) > MAX_REPORT_CHUNKS:
            raise ValueError("a report does not come to its end")
        if not part.final:
            return None
        parts, self._parts = self._parts, []
        return parts

    def check(self, parts: list[WorkerReport]) -> None:
        """Raises `ValueError` where a report cannot be true; nothing has changed then."""
        last = parts[-1]
        solutions = sum(len(part.solutions) for part in parts)
        if last.sequence != self.sequence + 1:
            raise ValueError(f"report {last.sequence} follows report {self.sequence}")
        if last.costs and len(last.costs) != solutions:
            raise ValueError(f"a report has {solutions} solutions, and {len(last.costs)} costs")

    def wake(self, since: int) -> None:
        """It is not idle any more, since then."""
        if not self.busy:
            self.idle_ns += max(since - self.idle_since, 0)
        self.busy = True

    def settle(self, report: WorkerReport, now: int) -> tuple[int, ...]:
        """Enters the end of a report; gives the tasks that are finished or replaced by it.

        Work that was on its way when the report was written is still the worker's:
        `report.works` says how many messages it had received. One that was idle has taken
        what another worker offered.
        """
        # It woke by itself, at about the time that its counts tell
        if report.took:
            self.wake(now - report.counts.busy_ns - report.counts.waiting_ns)
        while self._sent and self._sent[0].number <= report.works:
            self._sent.popleft()
        # Whatever it held before and that is not on its way is gone: the report's own bundles
        # replace it
        coming = {id for sent in self._sent for id in sent.tasks}
        closed = tuple(id for id in self.held if id not in coming)
        for id in closed:
            del self.held[id]
        self.sequence = report.sequence
        self.reports += 1
        self.owes_report = False
        self.hungry = report.hungry
        self.counts.add(report.counts)
        self.steals += len(report.took)
        self.granted -= report.counts.nodes
        if report.idle:  # it forgets what is left of its grant
            self.granted = sum(sent.nodes for sent in self._sent)
        return closed

    def rest(self, now: int) -> bool:
        """It says that it is idle; it is, unless work is on its way."""
        if self._sent:
            return False
        self.busy = False
        self.idle_since = now
        return True
