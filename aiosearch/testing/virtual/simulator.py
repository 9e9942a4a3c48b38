"""The event loop of a simulation: the real `Coordinator`, virtual workers, and a trace of events.

The agenda is a heap of actions by time; the clock jumps from one to the next, so a search of hours
on 10,000 workers takes as long as its nodes and messages do. A number beside the time keeps the
order of what is due at the same moment: the same input gives the same trace.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from ...checks.verdict import Verdict
from ...engine.books.coordinator import Coordinator, Outlets, Transaction
from ...engine.explore.bundles import ROOT
from ...engine.wire.messages import AddSubtrees, Begin, ToHost, ToWorker, WorkerReport
from ...engine.wire.reference import ObjectReference
from ...engine.wire.solutions import SolutionSet
from ...errors import AiosearchError, StrategyError
from ...problem import AnyProblem, Obligation
from ...strategies import Plan, Strategy
from .machines import Claims, SimulatedBoards, SimulatedKeyTables
from .verifier import Checkers, Gate
from .worker import Costs, SimulatedClock, VirtualWorker

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...checks.verdict import Status
    from ...engine.worker.work_sharing import WorkSharing
    from ...orders import Order
    from .worker import SimulatedClock


class HostDesk:
    """Handles what arrives in its order; what is sent meanwhile leaves when it has been written."""

    def __init__(
        self, clock: SimulatedClock, cost: int, at: Callable[[int, Callable[[], None]], None]
    ) -> None:
        self.spent = 0
        """Nanoseconds for which the host worked."""
        self._clock = clock
        self._cost = cost
        self._at = at
        self._waiting: deque[Callable[[], None]] = deque()
        self._until = 0
        self._busy = False

    def arrive(self, handle: Callable[[], None]) -> None:
        """Takes a message: at once, or when those before it are done."""
        self._waiting.append(handle)
        if not self._busy:
            self._serve()

    def sent(self) -> int:
        """Spends the time that a message takes; says when it leaves."""
        self._spend()
        return self._until

    def _spend(self) -> None:
        self._until = max(self._until, self._clock.now) + self._cost
        self.spent += self._cost

    def _serve(self) -> None:
        self._busy = True
        while self._waiting:
            if self._until > self._clock.now:
                self._at(self._until, self._serve)
                return
            self._spend()
            self._waiting.popleft()()
        self._busy = False


Trace: TypeAlias = tuple[tuple[float, int, str], ...]
"""Seconds, worker, what happened, as `message_summary` says it."""


def message_summary(message: ToHost | ToWorker) -> str:
    """Describes a message in a few words: enough to tell two runs apart, short enough to read."""
    match message:
        case AddSubtrees(bundles=bundles):
            return f"work {sum(bundle.size for bundle in bundles)}"
        case WorkerReport(counts=counts, given=published, idle=idle):
            gave = sum(bundle.size for bundle in published)
            return f"report {counts.nodes} gives {gave}{' idle' * idle}"
        case _:
            return type(message).__name__.lower()


PATIENCE = 10_000
"""Messages in a row without a node explored, and a hundred more for each seat, that are a stall."""


class Death(Struct, frozen=True):
    """A worker that dies at a time; another one takes its seat a little later."""

    seconds: float
    worker: int
    back: float = 0.05
    """Seconds for which the seat stays empty."""


class SolverService(Struct, frozen=True):
    """The z3 processes of a simulation."""

    count: int
    verdict: Callable[[Obligation], Verdict]
    shared: bool = True
    """Whether workers profit from what others asked; if not, those of another machine have
    verdicts of their own together, and those of the host's own each."""
    locked: float = 0.0
    """The share of every check that only one of them can be at."""
    contention: float = 0.0
    """By what share each that waits for that makes it take longer."""


class Simulator:
    """One simulated search. Decides nothing: that is for the strategy, behind the coordinator."""

    def __init__(
        self,
        strategy: Strategy,
        problem: AnyProblem,
        order: Order,
        plan: Plan,
        hosts: tuple[str, ...],
        costs: Costs,
        service: SolverService | None,
        node_limit: int | None,
    ) -> None:
        self.clock = SimulatedClock()
        self.found = SolutionSet()
        self.deaths = 0
        self.trace: list[tuple[float, int, str]] = []
        self._name = type(strategy).__qualname__
        self._problem = problem
        self._order = order
        self._costs = costs
        self._agenda: list[tuple[int, int, Callable[[], None]]] = []
        # Beside the time in the heap, so that equal times keep their order and no action is ever
        # compared
        self._tickets = itertools.count()
        self._hosts = hosts
        self._workers = [self._worker(seat) for seat in range(len(hosts))]
        self.desk = HostDesk(self.clock, costs.host, self._at)
        self.checkers = None if service is None else self._make_checkers(service)
        self._tables = SimulatedKeyTables(keyed=False, shared=False)
        self._boards = SimulatedBoards(hosts)
        self._error: AiosearchError | None = None
        self._nodes = self._quiet = 0
        nobody = ObjectReference("", "")
        begin = Begin(1, nobody, nobody, "defer", False, "")
        self.books = Coordinator(
            strategy,
            plan,
            begin,
            self._outlets(),
            self.clock,
            node_limit,
            private_verdicts=service is not None and not service.shared,
        )

    def run(self, faults: tuple[Death, ...]) -> None:
        """Lets everything happen until the search is over; raises what makes it fail."""
        self._tables = SimulatedKeyTables(hasattr(self._problem, "key"), shared=bool(faults))
        try:
            for fault in faults:
                self._at(int(fault.seconds * 1e9), self._kill, fault)
            self._play()
        finally:
            self._tables.close()
            self._boards.close()
        if self._error is not None:
            raise self._error
        if not self._over:
            raise self._stall(f"with {self.books.ledger.subtrees} subtrees open")

    def _play(self) -> None:
        self.books.start({1: ROOT}, 2)
        for seat in range(len(self._workers)):
            self._join(seat)
        while self._agenda and not self._over:
            self.clock.now, _, action = heapq.heappop(self._agenda)
            action()

    @property
    def now(self) -> int:
        return self.clock.now

    @property
    def _over(self) -> bool:
        return self._error is not None or self.books.finished or self.books.exhausted

    def _at(self, when: int, action: Callable[..., None], *arguments: Any) -> None:
        entry = (when, next(self._tickets), lambda: action(*arguments))
        heapq.heappush(self._agenda, entry)

    def _note(self, seat: int, what: str) -> None:
        self.trace.append((self.now / 1e9, seat, what))

    # Workers

    def _worker(self, seat: int) -> VirtualWorker:
        def send(worker: VirtualWorker, left: int, message: ToHost) -> None:
            when = left + self._costs.latency(seat)
            hear = partial(self._hear, seat, worker, left, message)
            self._at(when, self.desk.arrive, hear)

        return VirtualWorker(self._problem, self._order, self._costs, send)

    def _schedule(self, worker: VirtualWorker, when: int | None) -> None:
        """Makes a worker step at a time, unless it does so before."""
        if when is not None and (worker.due is None or when < worker.due):
            worker.due = when
            self._at(when, self._step, worker)

    def _step(self, worker: VirtualWorker) -> None:
        # An older entry of the agenda: the worker has been scheduled anew, or is dead
        if worker.due != self.now or worker.died is not None:
            return
        worker.due = None
        worker.step(self.now)
        self._schedule(worker, worker.next_step())

    def _join(self, seat: int) -> None:
        self._note(seat, "joins")
        self.books.join(seat, self._hosts[seat])

    def _kill(self, fault: Death) -> None:
        worker = self._workers[fault.worker]
        if self.books.seats[fault.worker].alive and worker.died is None:
            worker.died = self.now
            # Comes after everything that had left the worker by now
            when = self.now + self._costs.latency(fault.worker)
            self._at(when, self.desk.arrive, partial(self._bury, fault))

    def _bury(self, fault: Death) -> None:
        self.deaths += 1
        self._note(fault.worker, "is gone")
        self.books.lose(fault.worker)
        self._workers[fault.worker] = self._worker(fault.worker)
        self._at(self.now + int(fault.back * 1e9), self._join, fault.worker)

    def _wake_one(self, host: str) -> None:
        """Wakes one worker of a machine, of those that wait, as a `Bell` does."""
        for seat, worker in enumerate(self._workers):
            if self._hosts[seat] == host and worker.seeks and worker.due is None:
                self._schedule(worker, self.now + self._costs.wake)
                return

    def _share(self, seat: int, begin: Begin) -> WorkSharing | None:
        """Opens a worker's place on its machine's board."""
        worker, host = self._workers[seat], self._hosts[seat]

        def ring() -> None:
            self._at(max(self.now, worker.clock.now), self._wake_one, host)

        return self._boards.open(seat, begin, ring)

    # Host

    def _outlets(self) -> Outlets:
        return Outlets(
            send=self._send,
            commit=self._commit,
            fail=self._fail,
            ask=self._ask,
            withdraw=self._withdraw,
            release_claims=lambda _, owner, committed: self._tables.release(owner, committed),
            revoke=self._boards.revoke,
        )

    def _send(self, seat: int, message: ToWorker) -> None:
        self._note(seat, message_summary(message))
        worker = self._workers[seat]
        claims = sharing = None
        if isinstance(message, Begin):
            claims = self._tables.open(message.owner)
            sharing = self._share(seat, message)
        when = self.desk.sent() + self._costs.latency(seat)
        self._at(when, self._arrive, worker, message, claims, sharing)

    def _arrive(
        self,
        worker: VirtualWorker,
        message: ToWorker,
        claims: Claims | None,
        sharing: WorkSharing | None,
    ) -> None:
        worker.deliver(message, claims, sharing)
        self._schedule(worker, max(self.now, worker.clock.now))

    def _hear(self, seat: int, worker: VirtualWorker, left: int, message: ToHost) -> None:
        # It left the worker after its death, in the slice that ran ahead
        if worker.died is not None and left > worker.died:
            return
        self._note(seat, message_summary(message))
        self.books.receive(seat, message)
        self._watch_progress()

    def _watch_progress(self) -> None:
        nodes = self.books.totals.nodes
        # A strategy that moves work in circles would keep the clock going for ever
        self._quiet = 0 if nodes > self._nodes else self._quiet + 1
        self._nodes = nodes
        if self._quiet > PATIENCE + 100 * len(self._workers):
            self._fail(self._stall("handing work to and fro without a node explored"))

    # Verdicts

    def _make_checkers(self, service: SolverService) -> Checkers:
        gate = Gate(service.contention, lambda takes, then: self._at(self.now + takes, then))

        def after(takes: int, done: Callable[[], None]) -> None:
            alone = round(takes * service.locked)
            arrive = partial(self.desk.arrive, done)
            # The part that only one can be at comes last, as z3's lock is taken for the solving
            begun = self.desk.sent() + takes - alone
            if alone:
                self._at(begun, gate.enter, alone, arrive)
            else:
                self._at(begun, arrive)

        def judged(digest: bytes, status: Status) -> None:
            self.books.judge(digest, status)
            self.books.answer()

        return Checkers(service.count, service.verdict, after, judged)

    def _ask(self, digest: bytes, obligation: Obligation, priority: float) -> None:
        if self.checkers is not None:
            self.checkers.ask(digest, obligation, priority)

    def _withdraw(self, digest: bytes) -> None:
        if self.checkers is not None:
            self.checkers.withdraw(digest)

    # The outcome

    def _commit(self, transaction: Transaction) -> None:
        costs = transaction.costs or (None,) * len(transaction.solutions)
        for solution, cost in zip(transaction.solutions, costs, strict=True):
            if self.found.add(solution, cost) and cost is not None:
                self.books.beat(cost)

    def _fail(self, error: AiosearchError, trace: str = "") -> None:
        if self._error is None:
            if trace:
                error.add_note(f"in the worker:\n{trace}")
            self._error = error
            self.books.stop()

    def _stall(self, how: str) -> StrategyError:
        return StrategyError(f"strategy {self._name} stalls, {how}")
