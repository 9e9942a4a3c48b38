"""A session: one search on one worker. Messages in, messages out, and slices of work between.

The problem: a worker may be killed at any instruction, and nothing may be lost or counted twice. So
a session's life is a sequence of reports. A `WorkerReport` is a transaction: all that was done
since the last one (counts, solutions, claimed keys), all that is still held, and all that is given
away. What happened after the last report never happened: the host opens again what that report
held.

For example, a session that gets a root, explores 1,000 nodes and is asked for work:

    receive(AddSubtrees(bundles=(ROOT,), nodes=1 << 60))
    slice(deadline)                 explores; no report is due
    receive(Publish())             splits at the next look
    send(WorkerReport(sequence=1, kept=(half,), given=(other half,), counts(nodes=1000)))

Invariants: whatever is open here is in the explorer, in `_waiting`, or offered on the board, and a
report names all three; `_sequence` counts reports, and every claim in the shared table carries the
number of the report that will contain it; nothing is offered to others before a report that holds
it is in the host's books (see `WorkSharing`).

`_after` is the one place that decides whether a report is due. Cost: reports take at most one part
in `REPORT_SHARE` of the time, unless somebody waits for them. See docs/why/architecture.md.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable

import msgspec

from ...checks.verdict import Status
from ...orders import BreadthFirst, Order
from ...problem import AnyProblem, Obligation
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

# An improvement is reported at once, but a burst of them (a dive finds many) once in 2 ms; plain
# solutions, which nobody prunes with, once in 50 ms
IMPROVEMENT_NS = 2_000_000
SOLUTION_NS = 50_000_000
MOST_FUTILE = 6
"""Each offer that nobody took doubles the pause before the next one, at most this many times."""
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
        problem: AnyProblem,
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
        self._shared_verdicts: list[tuple[bytes, Status]] = []
        """Verdicts that were on the board already: they are answered without the host, in
        `_after`."""
        self._clock = clock
        self._solutions = SolutionCodec(problem)
        self._explorers = ExplorerFactory(begin, problem, order.prunes, claims, self._ask, clock)
        self._explorer = self._explorers.make(order)
        # Kept here as well: an explorer that is made later has to be told
        self._incumbent = float("inf")
        self._budget_ns = 0
        self._nodes = 0
        self._publish = False
        self._hunger_reported = False
        self._interval_ns = int(begin.report_seconds * 1e9)
        self._last_report = self._last_offer = self._clock()
        self._report_cost = 0
        self._sequence = 1
        self._working = False
        self._loading = False
        self._waiting: list[AddSubtrees] = []
        self._work_messages = 0
        self._waiting_since = 0
        self._dry_since = 0
        """On `clock`, when everything was explored here that could be had; 0 while there is
        something."""
        self.failed = False

    def _ask(self, digest: bytes, obligation: Obligation, priority: float) -> None:
        if status := self._sharing.verdict(digest):
            self._shared_verdicts.append((digest, status))
        else:
            self._send(VerdictRequest(self.id, digest, obligation, priority))

    @property
    def asynchronous(self) -> bool:
        """Whether slices have to be awaited, by `slice_async`."""
        return self._explorers.asynchronous

    @property
    def ready(self) -> bool:
        """Whether a `slice` would do something now."""
        return self._working and not self.failed and not self._explorer.idle and self._nodes > 0

    @property
    def dirty(self) -> bool:
        """Whether there is something that no report has carried yet."""
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
            # Only now is the offer in the books: a taker's report may come before ours
            case Entered(report=report):
                self._sharing.lay_out(report)
            case ReportRequest(report_seconds=seconds):
                self._interval_ns = int(seconds * 1e9)
                if self._working:
                    self._report()

    def slice(self, deadline: int) -> None:
        """Explores until the `deadline`, then reports if a report is due."""
        explorer = self._explorer
        self._end_waiting()
        self._catch_up()
        self._guard(lambda: self._account(explorer.run(deadline, self._nodes)))
        self._guard(self._after)

    async def slice_async(self, deadline: int) -> None:
        """Explores like `slice`, for a problem with an asynchronous `expand`."""
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
        """Ends what is still under way; no message is sent."""
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
        # While it lingers it counts as working, and its grant of nodes goes on
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
        # Without a limit on nodes the host grants what is taken in advance; with one, it is zero
        # and a hungry report asks
        self._nodes = self._sharing.free_nodes
        self._budget_ns = 0
        self._load(bundles)
        self._after()

    def _start(self) -> None:
        self._working = True
        self._hunger_reported = False

    def _catch_up(self) -> None:
        """Learns the best cost that other workers of the machine have on their board."""
        if self._order.prunes:
            self._beat(self._sharing.best)

    def _beat(self, cost: float) -> bool:
        """Takes the cost to beat; says whether questions became pointless by it, which are
        withdrawn."""
        if cost >= self._incumbent:
            return False
        self._incumbent = cost
        moot = self._explorer.beat(cost)
        if moot:
            self._send(Withdraw(self.id, tuple(moot)))
        return bool(moot)

    def wake(self) -> None:
        """Called now and then while nothing is `ready`: reports what is not reported yet."""
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
        self._hunger_reported = False
        if work.bundles:
            self._work_messages += 1
            self._waiting.append(work)
        self._load_waiting()
        self._after()

    def _drain(self) -> None:
        """Answers `Drain`: gives everything back, or says that there is nothing, which the
        host cannot know."""
        # First, or what is given back below might be replaced by what others offer
        self._sharing.resting = True
        self._regain()
        bundles = [bundle for work in self._waiting for bundle in work.bundles]
        self._waiting.clear()
        if self._working:
            bundles += self._explorer.drain()
        self._finish(bundles)

    def _load_waiting(self) -> None:
        """Loads what waits, as long as it goes together: a horizon is for its own work only."""
        while self._waiting:
            work = self._waiting[0]
            # Work of `depth` comes back one subtree a bundle: mixed with other work it could not be
            # told apart
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
        counts, solutions = self._explorer.counts, self._explorer.found
        self._explorer = self._explorers.make(order)
        self._explorer.counts, self._explorer.found = counts, solutions
        # A new explorer knows no incumbent, and would take subtrees that were pruned long ago
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
        """Decides whether a report is due, and which: the end, a hand-over, or a regular one."""
        if not self._working or self.failed:
            return
        explorer = self._explorer
        for asked, status in self._shared_verdicts:
            self._answer_now(asked, status)
        self._shared_verdicts.clear()
        # A budget is time spent exploring, not time passed: other sessions share this process
        over_budget = self._budget_ns and explorer.counts.busy_ns > self._budget_ns
        # The order of these cases matters: the end comes before any hand-over, and a hand-over
        # before a regular report, which it replaces
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
            self._report(published=explorer.split())
        elif self._nodes <= 0 and not self._hunger_reported:
            self._hunger_reported = True
            self._report()
        elif not self._offer() and self._due():
            self._report()
        # Not empty and idle: all that is open is parked, so from here on the time counts as waiting
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
        """Whether to wait for what others of the machine may offer, before the host is asked."""
        if self._sharing.alone or self._sharing.resting or self._waiting:
            return False
        if not self._dry_since:
            self._dry_since = self._clock()
            self._sharing.rest(True)
        # Quiet: everybody waits, so nobody will offer anything, and the host has to know soon
        return not self._sharing.quiet and bool(self.lingering)

    @property
    def lingering(self) -> float | None:
        """Seconds for which it still waits before it says that it holds nothing; None if it
        does not."""
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
        # Offers that nobody takes cost a report and a regain each; the pause doubles with every one
        if since < self._begin.breath * 1e9 * (1 << min(sharing.futile, MOST_FUTILE)):
            return False
        calm = since > REPORT_SHARE * self._report_cost
        pieces = sharing.lacking(calm) if explorer.surplus else 0
        if pieces:
            self._report(published=sharing.enter(explorer.split(pieces)))
            self._last_offer = self._last_report
        return pieces > 0

    def _due(self) -> bool:
        explorer = self._explorer
        since = self._clock() - self._last_report
        if explorer.improved:
            return since > IMPROVEMENT_NS
        # A large frontier takes long to pack: reports then come less often than the host asks for
        if since > max(self._interval_ns, REPORT_SHARE * self._report_cost):
            return bool(explorer.counts.nodes or explorer.found)
        return bool(explorer.found) and since > SOLUTION_NS

    def _finish(self, published: list[Bundle]) -> None:
        """Goes on with what waits in `_waiting`, or reports that nothing is held here any more."""
        self._working = False
        self._end_resting()
        if self._waiting:
            self._report(published)
            self._load_waiting()
            self._after()
            return
        self._publish = False
        self._nodes = 0
        self._report(published, idle=True)
        self._sharing.rest(True)

    def _report(self, published: list[Bundle] | None = None, idle: bool = False) -> None:
        started = self._clock()
        explorer = self._explorer
        # The counts start at zero again with this report, so the time used is taken off the budget;
        # never down to 0, which means no budget
        if self._budget_ns:
            self._budget_ns = max(self._budget_ns - explorer.counts.busy_ns, 1)
        retained = [bundle for work in self._waiting for bundle in work.bundles]
        if self._working:
            retained += explorer.snapshot()
        # Before the snapshot of what is offered: an offer that was taken by now is the taker's
        self._sharing.look()
        surplus = explorer.surplus + self._sharing.subtrees
        exchange = self._sharing.changes(self._sequence)
        solutions_with_costs = explorer.take_found()
        counts, depths = explorer.take_counts(), explorer.take_depths()
        # Encoding may raise ProblemError; what was taken from the explorer is lost then, and the
        # search with it
        solutions = [self._solutions.encode(solution) for solution, _ in solutions_with_costs]
        costs = tuple(cost for _, cost in solutions_with_costs if cost is not None)
        keys = explorer.take_keys()
        *full, last = report_chunks(retained, published or [], exchange.offered, solutions, keys)
        for part in full:
            self._send(self._message(part))
        self._send(
            msgspec.structs.replace(
                self._message(last),
                final=True,
                idle=idle,
                hungry=not idle and self._nodes <= 0,
                surplus=surplus,
                counts=counts,
                costs=costs,
                sequence=self._sequence,
                works=self._work_messages,
                gone=exchange.gone,
                took=exchange.took,
                depths=depths,
            )
        )
        self._sequence += 1
        if isinstance(self._claims, SharedClaims):
            # Claims from here on belong to the next report: see `SharedClaims.release`
            self._claims.sequence = self._sequence
        self._last_report = self._clock()
        self._report_cost = self._last_report - started

    def _message(self, part: ReportChunk) -> WorkerReport:
        return WorkerReport(
            self.id,
            False,
            tuple(part.kept),
            tuple(part.given),
            tuple(part.solutions),
            part.keys,
            offered=tuple(part.offered),
        )

    def _guard(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        if self.failed:
            return
        # In the middle of loading, the explorer holds a part only, and a report would drop the rest
        if self._working and not self._loading:
            # What was done before counts, and what failed stays open: it may be mended and resumed
            with contextlib.suppress(Exception):
                self._report()
        self.failed = True
        self._send(failure_of(self.id, type(self._problem).__qualname__, error))
