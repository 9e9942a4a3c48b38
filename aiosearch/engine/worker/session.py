"""A session: one search on one worker. Messages in, messages out, and slices of work between."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import Any

from ...checks.verdict import Status
from ...orders import BreadthFirst, Order
from ...problem import Obligation
from ..explore.bundles import Bundle
from ..explore.claims import LocalClaims, SharedClaims
from ..explore.explorer import Clock, clock
from ..explore.heap_explorer import HeapExplorer
from ..wire.messages import (
    AddSubtrees,
    Begin,
    Drain,
    Entered,
    IncumbentBroadcast,
    Publish,
    ReportRequest,
    ToHost,
    ToWorker,
    VerdictReplies,
    VerdictRequest,
    Withdraw,
    WorkerReport,
    failure_of,
)
from ..wire.solutions import SolutionCodec
from .chunks import ReportChunk, report_chunks
from .explorer_factory import ExplorerFactory
from .work_sharing import WorkSharing

IMPROVEMENT_NS = 2_000_000
SOLUTION_NS = 50_000_000
MOST_FUTILE = 6
"""Each offer that nobody took doubles the pause before the next one, so many times at most."""
REPORT_SHARE = 50
"""Reports are written so rarely that they take one part in this many of the time."""


class WorkerSession:
    """Explores what it is given and reports what it did.

    `send` is called with every message for the host. Between two reports nothing that happened
    here counts: if the process dies, the host takes the work up from the last one.
    """

    def __init__(
        self,
        begin: Begin,
        problem: Any,
        order: Order,
        send: Callable[[ToHost], None],
        claims: LocalClaims | SharedClaims | None = None,
        clock: Clock = clock,
        sharing: WorkSharing | None = None,
    ) -> None:
        self.id = begin.session
        self._begin = begin
        self._problem = problem
        self._order = order
        self._send = send
        self._claims = claims
        self._sharing = sharing or WorkSharing.with_nobody()
        self._known: list[tuple[bytes, Status]] = []
        """Verdicts that another worker of the machine was told before."""
        self._clock = clock
        self._solutions = SolutionCodec(problem)
        self._explorers = ExplorerFactory(begin, problem, order.prunes, claims, self._ask, clock)
        self._explorer = self._explorers.make(order)
        self._incumbent = float("inf")
        self._budget_ns = 0
        self._nodes = 0
        self._publish = False
        self._hungry_told = False
        self._interval_ns = int(begin.report_seconds * 1e9)
        self._last_report = self._last_offer = self._clock()
        self._report_cost = 0
        self._sequence = 1
        self._working = False
        self._loading = False
        self._waiting: list[AddSubtrees] = []
        self._works = 0
        self._waiting_since = 0
        self._dry_since = 0
        """When everything was explored here that could be had; 0 while there is something."""
        self.failed = False

    def _ask(self, digest: bytes, obligation: Obligation, priority: float) -> None:
        if status := self._sharing.verdict(digest):
            self._known.append((digest, status))
        else:
            self._send(VerdictRequest(self.id, digest, obligation, priority))

    @property
    def asynchronous(self) -> bool:
        """Whether slices have to be awaited."""
        return self._explorers.asynchronous

    @property
    def ready(self) -> bool:
        """Whether a slice would do something now."""
        return self._working and not self.failed and not self._explorer.idle and self._nodes > 0

    @property
    def dirty(self) -> bool:
        """Whether there is something that the host has not been told."""
        return self._working and not self.failed and self._explorer.counts.nodes > 0

    def receive(self, message: ToWorker) -> None:
        if self.failed:
            return
        try:
            self._obey(message)
        except Exception as error:
            self._fail(error)

    def _obey(self, message: ToWorker) -> None:
        match message:
            case AddSubtrees():
                self._take(message)
            case Publish():
                self._publish = True
                self._after()
            case VerdictReplies(verdicts=verdicts):
                self._answer([(digest, Status(status)) for digest, status in verdicts])
            case IncumbentBroadcast(cost=cost):
                self._sharing.improve(cost)
                if self._beat(cost):
                    self._after()  # nothing may be left to wait for
            case Drain():
                self._drain()
            case Entered(report=report):
                self._sharing.lay_out(report)
            case ReportRequest(report_seconds=seconds):
                self._interval_ns = int(seconds * 1e9)
                if self._working:
                    self._report()

    def slice(self, deadline: int) -> None:
        """Explores until the deadline, then reports if a report is due."""
        explorer = self._explorer
        self._end_waiting()
        self._catch_up()
        self._guard(lambda: self._account(explorer.run(deadline, self._nodes)))
        self._guard(self._after)

    async def slice_async(self, deadline: int) -> None:
        """The same for a problem with an asynchronous expand."""
        explorer = self._explorer
        if not (isinstance(explorer, HeapExplorer) and self.asynchronous):
            self.slice(deadline)
            return
        self._end_waiting()
        self._catch_up()
        try:
            self._account(await explorer.run_async(deadline, self._nodes))
        except Exception as error:
            self._fail(error)
        self._guard(self._after)

    def close(self) -> None:
        """Ends what is still under way; nobody is told."""
        self.failed = True
        self._explorer.close()
        if isinstance(self._claims, SharedClaims):
            self._claims.close()
        self._sharing.close()

    @property
    def seeking(self) -> bool:
        """Whether it would take what other workers offer."""
        if self._sharing.alone or self._sharing.resting or self.failed:
            return False
        return not self._working or self._dry_since > 0

    def seek(self) -> bool:
        """Takes work that other workers offer, where there is none here; says whether it did."""
        if not self.seeking:
            return False
        bundles = self._sharing.take()
        if bundles and self._working:
            self._guard(lambda: self._go_on_with(bundles))
        elif bundles:
            self._guard(lambda: self._begin_with(bundles))
        return bool(bundles)

    def _go_on_with(self, bundles: list[Bundle]) -> None:
        self._load(bundles)
        self._after()

    def _begin_with(self, bundles: list[Bundle]) -> None:
        if self._explorer.horizon:
            self._swap_explorer(self._order)
        self._start()
        self._nodes = self._sharing.free_nodes
        self._budget_ns = 0
        self._load(bundles)
        self._after()

    def _start(self) -> None:
        self._working = True
        self._hungry_told = False

    def _catch_up(self) -> None:
        """Learns what other workers of the machine have found."""
        if self._order.prunes:
            self._beat(self._sharing.best)

    def _beat(self, cost: float) -> bool:
        """Takes the cost to beat; says whether questions became pointless by it."""
        if cost >= self._incumbent:
            return False
        self._incumbent = cost
        moot = self._explorer.beat(cost)
        if moot:
            self._send(Withdraw(self.id, tuple(moot)))
        return bool(moot)

    def wake(self) -> None:
        """Called now and then while nothing is ready: reports what is not reported yet."""
        if self._dry_since:
            self._guard(self._after)
        if self.dirty and self._clock() - self._last_report > self._interval_ns:
            self._guard(self._report)

    def _account(self, nodes: int) -> None:
        self._nodes -= nodes

    def _take(self, work: AddSubtrees) -> None:
        if work.bundles:
            self._sharing.resting = False
        if not (work.bundles or self._working):
            return  # nodes granted before the host heard that nothing is held here are void
        self._nodes += work.nodes
        self._hungry_told = False
        if work.bundles:
            self._works += 1
            self._waiting.append(work)
        self._load_waiting()
        self._after()

    def _drain(self) -> None:
        """Gives everything back, or says that there is nothing: the host cannot know."""
        self._sharing.resting = True
        self._regain()
        given = [bundle for work in self._waiting for bundle in work.bundles]
        self._waiting.clear()
        if self._working:
            given += self._explorer.drain()
        self._finish(given)

    def _load_waiting(self) -> None:
        """Loads what waits, as long as it goes together: a horizon is for its own work only."""
        while self._waiting:
            work = self._waiting[0]
            if self._working and (work.depth or self._explorer.horizon):
                return
            del self._waiting[0]
            if work.depth or self._explorer.horizon:
                self._swap_explorer(BreadthFirst() if work.depth else self._order, work.depth)
            self._start()
            self._budget_ns = int(work.seconds * 1e9)
            self._load(work.bundles)

    def _load(self, bundles: Iterable[Bundle]) -> None:
        self._sharing.rest(False)
        self._end_resting()
        self._loading = True
        for bundle in bundles:
            self._explorer.load(bundle)
        self._loading = False

    def _swap_explorer(self, order: Order, horizon: int = 0) -> None:
        """Goes over to another order while the explorer holds nothing."""
        counts, found = self._explorer.counts, self._explorer.found
        self._explorer = self._explorers.make(order)
        self._explorer.counts, self._explorer.found = counts, found
        self._explorer.beat(self._incumbent)
        self._explorer.horizon = horizon

    def _answer(self, verdicts: list[tuple[bytes, Status]]) -> None:
        self._end_waiting()
        for asked, status in verdicts:
            self._sharing.judged(asked, status)
            self._answer_now(asked, status)
        self._after()

    def _answer_now(self, asked: bytes, status: Status) -> None:
        if isinstance(self._explorer, HeapExplorer):
            self._explorer.answer(asked, status)

    def _end_waiting(self) -> None:
        if self._waiting_since:
            self._explorer.counts.waiting_ns += self._clock() - self._waiting_since
            self._waiting_since = 0

    def _after(self) -> None:
        """Decides whether a report is due, and which."""
        if not self._working or self.failed:
            return
        explorer = self._explorer
        for asked, status in self._known:
            self._answer_now(asked, status)
        self._known.clear()
        over_budget = self._budget_ns and explorer.counts.busy_ns > self._budget_ns
        if explorer.empty and not self._replenish():
            if not self._lingers():
                self._finish(explorer.take_deferred())
        elif explorer.at_horizon:
            self._finish(explorer.drain_singly())
        elif over_budget:
            self._regain()
            self._finish(explorer.drain())
        elif self._publish and self._can_give():
            self._publish = False
            self._report(given=explorer.split())
        elif self._nodes <= 0 and not self._hungry_told:
            self._hungry_told = True
            self._report()
        elif not self._offer() and self._due():
            self._report()
        if explorer.idle and not explorer.empty and not self._waiting_since:
            self._waiting_since = self._clock()

    def _replenish(self) -> bool:
        """Takes back what was offered or, where that is gone, what others offer."""
        while self._explorer.empty:
            bundles = self._sharing.regain()
            if not (bundles or self._waiting):
                bundles = self._sharing.take()
            if not bundles:
                return False
            self._load(bundles)
        return True

    def _lingers(self) -> bool:
        """Whether to wait for what others of the machine may offer, before the host is troubled."""
        if self._sharing.alone or self._sharing.resting or self._waiting:
            return False
        if not self._dry_since:
            self._dry_since = self._clock()
            self._sharing.rest(True)
        return not self._sharing.quiet and bool(self.lingering)

    @property
    def lingering(self) -> float | None:
        """Seconds for which it still waits before it says that it holds nothing, if it does."""
        if not self._dry_since:
            return None
        return max(self._begin.breath - (self._clock() - self._dry_since) / 1e9, 0.0)

    def _end_resting(self) -> None:
        if self._dry_since:
            self._explorer.counts.resting_ns += self._clock() - self._dry_since
            self._dry_since = 0

    def _regain(self) -> None:
        if bundles := self._sharing.regain():
            self._load(bundles)

    def _can_give(self) -> bool:
        if not self._explorer.surplus:
            self._regain()
        return self._explorer.surplus > 0

    def _offer(self) -> bool:
        """Has work laid out for others, where they may want it; says whether it does."""
        explorer, sharing = self._explorer, self._sharing
        if sharing.alone or sharing.resting or self._waiting or explorer.horizon:
            return False
        since = self._clock() - self._last_offer
        if since < self._begin.breath * 1e9 * (1 << min(sharing.futile, MOST_FUTILE)):
            return False
        calm = since > REPORT_SHARE * self._report_cost
        pieces = sharing.lacking(calm) if explorer.surplus else 0
        if pieces:
            self._report(given=sharing.enter(explorer.split(pieces)))
            self._last_offer = self._last_report
        return pieces > 0

    def _due(self) -> bool:
        explorer = self._explorer
        since = self._clock() - self._last_report
        if explorer.improved:
            return since > IMPROVEMENT_NS
        if since > max(self._interval_ns, REPORT_SHARE * self._report_cost):
            return bool(explorer.counts.nodes or explorer.found)
        return bool(explorer.found) and since > SOLUTION_NS

    def _finish(self, given: list[Bundle]) -> None:
        """Goes on with what waits, or reports that nothing is held here any more."""
        self._working = False
        self._end_resting()
        if self._waiting:
            self._report(given)
            self._load_waiting()
            self._after()
            return
        self._publish = False
        self._nodes = 0
        self._report(given, idle=True)
        self._sharing.rest(True)

    def _report(self, given: list[Bundle] | None = None, idle: bool = False) -> None:
        started = self._clock()
        explorer = self._explorer
        if self._budget_ns:
            self._budget_ns = max(self._budget_ns - explorer.counts.busy_ns, 1)
        kept = [bundle for work in self._waiting for bundle in work.bundles]
        if self._working:
            kept += explorer.snapshot()
        self._sharing.look()
        surplus = explorer.surplus + self._sharing.subtrees
        told = self._sharing.told(self._sequence)
        found = explorer.take_found()
        counts = explorer.take_counts()
        solutions = [self._solutions.encode(solution) for solution, _ in found]
        costs = tuple(cost for _, cost in found if cost is not None)
        keys = explorer.take_keys()
        *others, last = report_chunks(kept, given or [], told.pop("offered"), solutions, keys)
        for part in others:
            self._send(self._message(part, final=False))
        self._send(
            self._message(
                last,
                final=True,
                idle=idle,
                hungry=not idle and self._nodes <= 0,
                surplus=surplus,
                counts=counts,
                costs=costs,
                sequence=self._sequence,
                works=self._works,
                **told,
            )
        )
        self._sequence += 1
        if isinstance(self._claims, SharedClaims):
            self._claims.sequence = self._sequence
        self._last_report = self._clock()
        self._report_cost = self._last_report - started

    def _message(self, part: ReportChunk, final: bool, **rest: Any) -> WorkerReport:
        return WorkerReport(
            self.id,
            final,
            tuple(part.kept),
            tuple(part.given),
            tuple(part.solutions),
            part.keys,
            offered=tuple(part.offered),
            **rest,
        )

    def _guard(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        if self.failed:
            return
        if self._working and not self._loading:
            # What was done before counts, and what failed stays open: it may be mended and resumed
            with contextlib.suppress(Exception):
                self._report()
        self.failed = True
        self._send(failure_of(self.id, type(self._problem).__qualname__, error))
