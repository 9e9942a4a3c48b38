"""The host's side of a search: the ledger of open subtrees, and the strategy that deals them out.

The problem: workers come, report and die in any order, a strategy (maybe a plugin's) decides who
explores what, and the books must stay right: every open subtree is exactly one task, in exactly one
worker's hands or in nobody's, and everything that was explored is counted once.

Does no input or output. Messages from workers come in through `receive`; what is to be sent, asked
or written down goes out through the callables of `Outlets`. The same code therefore runs on
processes, sockets and the simulator's virtual clock. With one worker and the root as task 1:

    join(seat=0)                    sends Begin; the strategy hears Joined and Idle
    start({1: ROOT}, next_id=2)     Opened(1); it answers Assign(worker=0, tasks=(1,))
    receive(0, WorkerReport(kept=(a,), given=(b,)))    task 1 is closed, 2 = a is held, 3 = b free
    lose(0)                          2 is free again: Opened(2); 3 never was seat 0's

Invariants: a report is a transaction: `check` first, then the ledger, then `Outlets.commit`, then
the strategy, so that what is told of it is in the books and in the journal's queue; a task's number
is never used again; a worker's claims are void before its work is given away.

Cost: a part of the round trip of a task (benchmarks/roundtrip.py). See docs/why/architecture.md.
"""

from __future__ import annotations

import math
import traceback
from collections import deque
from collections.abc import Callable, Mapping

import msgspec
from msgspec import Struct

from ...checks.verdict import Status
from ...errors import AiosearchError, StrategyError, WorkerError
from ...problem import Obligation
from ...processes import fault_points
from ...strategies.contract import Ask as AskForWork
from ...strategies.contract import (
    Assign,
    Event,
    Idle,
    Joined,
    Lost,
    Opened,
    Plan,
    Reported,
    Strategy,
)
from ..explore.bundles import Bundle
from ..explore.counts import Counts
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
    WorkerFailed,
    WorkerReport,
    error_of,
)
from ..worker.chunks import task_batches
from ..worker.work_sharing import exchange_of
from .ledger import MOST_DEATHS, MOST_DEATHS_TOGETHER, Ledger
from .offers import OfferChanges, Offers
from .worker_state import WorkerState

UNLIMITED = 1 << 60
HOST_SILENCE_SECONDS = 40e-6
"""Seconds, for each seat, for which workers keep to themselves what they may settle without the
host: what two messages cost the host, and a little more."""


class Transaction(Struct, frozen=True):
    """What one report changed: the unit of durability, one `JournalRecord`."""

    seat: int
    closed: tuple[int, ...]
    opened: tuple[tuple[int, Bundle], ...]
    counts: Counts
    solutions: tuple[bytes, ...]
    costs: tuple[float, ...]
    keys: bytes
    depths: Mapping[int, int] = {}
    """See `WorkerReport.depths`."""


class Outlets(Struct, frozen=True):
    """Where a coordinator's effects go: `SearchRun` fills these in, and tests and the simulator
    do."""

    send: Callable[[int, ToWorker], None]
    commit: Callable[[Transaction], None]
    fail: Callable[[AiosearchError, str], None]
    """Ends the search with an error and, where there is one, the worker's traceback."""
    ask: Callable[[bytes, Obligation, float], None]
    withdraw: Callable[[bytes], None]
    release_claims: Callable[[int, int, int], None]
    """Makes the claims of a seat's owner void from a report number on: `SharedClaims.release`."""
    revoke: Callable[[int, int], Mapping[int, int] | None] = lambda seat, owner: {}
    """Takes the offers of a seat's dead owner back; says who has taken which, or None where
    that cannot be said yet."""


class Coordinator:
    """Keeps the books of one search and carries its strategy's commands out."""

    def __init__(
        self,
        strategy: Strategy,
        plan: Plan,
        begin: Begin,
        outlets: Outlets,
        clock: Callable[[], int],
        node_limit: int | None = None,
        skip_errors: bool = False,
        private_verdicts: bool = False,
    ) -> None:
        self._strategy = strategy
        self._begin = begin
        self._out = outlets
        self._clock = clock
        self._limit = UNLIMITED if node_limit is None else node_limit
        self._skip_errors = skip_errors
        self._private_verdicts = private_verdicts
        self.seats = [WorkerState() for _ in range(plan.workers)]
        self.totals = Counts()
        self.ledger = Ledger()
        self._offers = Offers()
        self._unsettled_deaths: list[tuple[int, int]] = []
        """Seats and owners that died, and whose offers somebody may still be taking; see `bury`."""
        self._owners = 0
        self._asked: dict[bytes, set[int]] = {}
        self._verdicts: dict[int, list[tuple[bytes, str]]] = {}
        """Verdicts for the questions of each seat, which `answer` sends."""
        self._events: deque[Event] = deque()
        self.incumbent = float("inf")
        self.stopped = False
        try:
            strategy.start(plan)
        except Exception as error:
            raise self._raised(error, "start") from error
        self.exchange = exchange_of(strategy)
        """The board over which workers of one machine pass work on: `module:Class`, or empty."""
        self._breath: float = getattr(strategy, "breath", 0.0)
        free = UNLIMITED if node_limit is None else 0
        self._begin = msgspec.structs.replace(begin, exchange=self.exchange, free_nodes=free)

    @property
    def finished(self) -> bool:
        """Whether nothing is open anywhere: the search is complete."""
        return not self.ledger

    @property
    def exhausted(self) -> bool:
        """Whether the limit on nodes is reached, to the node."""
        return self.totals.nodes >= self._limit

    def busy(self, seat: int) -> bool:
        """Whether a seat's worker explores, or is about to."""
        return seat < len(self.seats) and self.seats[seat].busy

    def start(self, bundles: dict[int, Bundle], next_id: int) -> None:
        """Opens the root, or what a journal held."""
        self.ledger.restore(bundles, next_id)
        self._notify(Opened(self.ledger.tasks(bundles)))

    def join(self, seat: int, host: str = "") -> None:
        """A worker has taken the `seat`, which may be a new one: opens the session there."""
        while len(self.seats) <= seat:
            self.seats.append(WorkerState())
        # An owner is one life of one worker: a seat's next worker has another number in the claims
        # and on the board
        self._owners += 1
        self.seats[seat].enter(self._owners, self._clock())
        self.seats[seat].host = host
        self._offers.join(self._owners, host)
        asker = (host or f"seat {seat}") if self._private_verdicts else ""
        begin = msgspec.structs.replace(
            self._begin,
            owner=self._owners,
            asker=asker,
            # The host serves all seats from one thread, so its time for each grows with their
            # number
            breath=max(HOST_SILENCE_SECONDS * len(self.seats), self._breath),
        )
        self._send(seat, begin)
        if self.incumbent < float("inf"):
            self._send(seat, IncumbentBroadcast(self._begin.session, self.incumbent))
        self._notify(Joined(seat, host))
        self._notify(Idle(seat))
        self._check_stall()

    def drain(self, seat: int) -> None:
        """A worker is to leave: what it holds comes back, and it gets nothing more."""
        place = self.seats[seat] if seat < len(self.seats) else None
        if place is None or not place.alive or place.leaving:
            return
        # Lost before Drain: the strategy must not assign anything to a worker that is leaving
        place.leaving = True
        self._notify(Lost(seat))
        if place.busy or self._begin.exchange:
            place.wake(self._clock())
            self._send(seat, Drain(self._begin.session))

    def lose(self, seat: int, blame: bool = True, forever: bool = False) -> None:
        """A worker died: what it held as of its last report is open again.

        Its work may be to `blame`, unless the worker was ended on purpose. No other takes a
        seat that is lost `forever`, unless it is said to `join`.
        """
        if seat >= len(self.seats):
            return
        place = self.seats[seat]
        place.closed = forever
        if not place.alive:
            return
        # Before anybody gets its work, or they would meet claims that nobody honours
        self._out.release_claims(seat, place.owner, place.sequence)
        self._verdicts.pop(seat, None)
        for digest in [digest for digest, seats in self._asked.items() if seat in seats]:
            self._forget_question(digest, seat)
        leaving = place.leaving
        held = place.leave()
        ids = self._offers.leave(place.owner)
        takers = self._out.revoke(seat, place.owner)
        if takers is None:
            self._unsettled_deaths.append((seat, place.owner))
        else:
            ids += self._offers.bury(place.owner, takers)
        held.update({id: self.ledger[id] for id in ids})
        if not leaving:
            self._notify(Lost(seat))
        self._reopen(held, seat, blame)

    def bury(self) -> None:
        """Settles deaths that could not be settled at once: asks again what became of the
        offers of the dead, where another worker was in the middle of taking one."""
        waiting, self._unsettled_deaths = self._unsettled_deaths, []
        for seat, owner in waiting:
            takers = self._out.revoke(seat, owner)
            if takers is None:
                self._unsettled_deaths.append((seat, owner))
                continue
            opened = {id: self.ledger[id] for id in self._offers.bury(owner, takers)}
            if opened:
                self._reopen(opened, seat, blame=False)

    def _reopen(self, held: dict[int, Bundle], seat: int, blame: bool) -> None:
        """Opens what a dead worker held again, but for what has killed too many."""
        # Held alone, a task is the likely culprit; held with others, any of them may be
        most = MOST_DEATHS if len(held) == 1 else MOST_DEATHS_TOGETHER
        free = []
        for id, bundle in held.items():
            deaths = self.ledger.count_death(id) if blame else 0
            if deaths < most:
                self.ledger.put_back(id)
                free.append(id)
            elif self._skip_errors:
                self._give_up(seat, id, bundle)
            else:
                reason = (
                    f"{deaths} worker processes died one after the other on the same subtree, at "
                    f"depth {bundle.depth}; on_error='skip' would leave it out"
                )
                self._out.fail(WorkerError(reason), "")
                return
        if free:
            self._notify(Opened(self.ledger.tasks(free), seat))

    def _give_up(self, seat: int, id: int, bundle: Bundle) -> None:
        self.ledger.close(id)
        counts = Counts(skipped=bundle.size)
        self.totals.add(counts)
        self._out.commit(Transaction(seat, (id,), (), counts, (), (), b""))

    def receive(self, seat: int, message: ToHost, size: int = 0) -> None:
        """Takes a worker's message, which was `size` bytes on its way."""
        if self.stopped or seat >= len(self.seats) or not self.seats[seat].alive:
            return
        self.seats[seat].messages += 1
        self.seats[seat].bytes += size
        match message:
            case WorkerReport():
                self._report(seat, message)
            case VerdictRequest(digest=digest, obligation=obligation, priority=priority):
                # Workers may ask the same question: the service hears it once, and all of them the
                # answer
                new = digest not in self._asked
                self._asked.setdefault(digest, set()).add(seat)
                if new:
                    self._out.ask(digest, obligation, priority)
            case Withdraw(digests=digests):
                for digest in digests:
                    self._forget_question(digest, seat)
            case WorkerFailed():
                self._out.fail(error_of(message), message.trace)

    def judge(self, digest: bytes, status: Status) -> None:
        """Takes a verdict for whoever asked; `answer` sends it on."""
        for seat in self._asked.pop(digest, ()):
            self._verdicts.setdefault(seat, []).append((digest, status.value))

    def answer(self) -> None:
        """Sends on the verdicts that have come since, a batch to each worker that asked."""
        verdicts, self._verdicts = self._verdicts, {}
        for seat, batch in verdicts.items():
            if self.seats[seat].alive:
                self._send(seat, VerdictReplies(self._begin.session, tuple(batch)))

    def beat(self, cost: float) -> None:
        """Broadcasts a better solution's `cost` to every worker."""
        if cost >= self.incumbent:
            return
        self.incumbent = cost
        for seat, place in enumerate(self.seats):
            if place.alive:
                self._send(seat, IncumbentBroadcast(self._begin.session, cost))

    def ask_reports(self, seconds: float) -> None:
        """Asks every busy seat for a report, now and from now on every so many `seconds`."""
        for seat, place in enumerate(self.seats):
            if place.busy:
                place.owes_report = True
                self._send(seat, ReportRequest(self._begin.session, seconds))

    def set_interval(self, seconds: float) -> None:
        """Sets how often workers that `join` from now on report."""
        self._begin = msgspec.structs.replace(self._begin, report_seconds=seconds)

    def unsettled(self) -> list[int]:
        """The seats that owe an answer to `ask_reports`."""
        return [seat for seat, place in enumerate(self.seats) if place.owes_report]

    def stop(self) -> None:
        """Takes no more messages: the books stay as they are."""
        self.stopped = True

    def _report(self, seat: int, report: WorkerReport) -> None:
        place = self.seats[seat]
        parts = place.gather(report)
        if parts is None:
            return
        place.check(parts)
        if self.exchange:
            numbers = [number for part in parts for number, _ in part.offered]
            self._offers.check(place.owner, report, numbers)
        # From here on nothing may raise: the books and the worker would disagree
        closed = place.settle(report, self._clock())
        retained = self.ledger.open((bundle for part in parts for bundle in part.kept), free=False)
        published = self.ledger.open((bundle for part in parts for bundle in part.given), free=True)
        opened = (*retained.items(), *published.items())
        orphans: tuple[int, ...] = ()
        if self.exchange:
            offered, settled = self._settle_offers(place, report, parts)
            closed, opened, orphans = closed + settled.closed, opened + offered, settled.orphans
        for id in closed:
            self.ledger.close(id)
        place.held.update(retained)
        place.steals += bool(published) and not report.idle
        self.totals.add(report.counts)
        fault_points.point("coordinator.giveback" if published else "coordinator.report")
        self._out.commit(
            Transaction(
                seat,
                closed,
                opened,
                report.counts,
                tuple(solution for part in parts for solution in part.solutions),
                report.costs,
                b"".join(part.keys for part in parts),
                report.depths,
            )
        )
        # Offers were entered: only now may the worker lay them out
        if len(opened) > len(retained) + len(published):
            self._send(seat, Entered(self._begin.session, report.sequence))
        self._notify_of_report(seat, report, published)
        if orphans:
            self._reopen({id: self.ledger[id] for id in orphans}, seat, blame=True)

    def _settle_offers(
        self, place: WorkerState, report: WorkerReport, parts: list[WorkerReport]
    ) -> tuple[tuple[tuple[int, Bundle], ...], OfferChanges]:
        """Enters what a report offers, and settles what it says of offers before."""
        offers = [offer for part in parts for offer in part.offered]
        opened = self.ledger.open((bundle for _, bundle in offers), free=False)
        numbers = dict(zip((number for number, _ in offers), opened, strict=True))
        return tuple(opened.items()), self._offers.settle(place.owner, report, numbers)

    def _notify_of_report(
        self, seat: int, report: WorkerReport, published: dict[int, Bundle]
    ) -> None:
        if published:
            self._notify(Opened(self.ledger.tasks(published), seat))
        leaving = self.seats[seat].leaving
        if not report.idle:
            if not leaving:
                self._notify(Reported(seat, report.surplus, self._weight(self.seats[seat])))
        elif self.seats[seat].rest(self._clock()) and not leaving:
            self._notify(Idle(seat))
        if report.hungry or self._limit < UNLIMITED:
            self._feed()
        self._check_stall()

    def _weight(self, place: WorkerState) -> float:
        """The share of the tree that is open at a seat, what it offers to others included."""
        weight = place.weight
        if self.exchange:
            weight += sum(self.ledger[id].weight for id in self._offers.tasks(place.owner))
        return weight

    def _feed(self) -> None:
        """Grants more nodes to the seats that have used theirs up."""
        for seat, place in enumerate(self.seats):
            if place.hungry and not place.leaving and (nodes := self._grant(seat)):
                place.hungry = False
                self._send(seat, AddSubtrees(self._begin.session, (), 0.0, nodes))

    def _grant(self, seat: int) -> int:
        """How many nodes a seat may explore now, so that all together never pass the limit."""
        if self._limit == UNLIMITED:
            nodes = UNLIMITED
        else:
            left = self._limit - self.totals.nodes - sum(place.granted for place in self.seats)
            seats = max(sum(place.alive for place in self.seats), 1)
            # Half of the fair share, so that a late worker finds something left; 64 at least, for
            # each grant costs a round trip
            nodes = left if seats == 1 else min(left, max(left // (2 * seats), 64))
        self.seats[seat].granted += nodes
        return nodes

    def _notify(self, event: Event) -> None:
        """Passes an event to the strategy and carries its commands out, one event after the
        other, also where one command causes another."""
        self._events.append(event)
        # The outer call is in the loop below, in the middle of the strategy's `handle`, and will
        # come to it
        if len(self._events) > 1:
            return
        try:
            while self._events and not self.stopped:
                # Popped afterwards, so that `_events` is not empty while its commands are carried
                # out
                for command in self._strategy.handle(self._events[0]):
                    self._carry_out(command)
                self._events.popleft()
        except AiosearchError as error:
            self._out.fail(error, "")
        except Exception as error:
            wrong = self._raised(error, f"handle({type(self._events[0]).__name__})")
            wrong.__cause__ = error
            self._out.fail(wrong, "")

    def _carry_out(self, command: object) -> None:
        match command:
            case Assign(worker=seat):
                self._assign(command, self._seat(seat))
            case AskForWork(worker=seat):
                if self._seat(seat).busy:
                    self._send(seat, Publish(self._begin.session))
            case _:
                raise self._broken(f"gave {command!r}, which is no command")

    def _assign(self, command: Assign, place: WorkerState) -> None:
        if not command.tasks:
            raise self._broken("assigned nothing")
        if not 0 <= command.seconds < math.inf:
            raise self._broken(f"assigned work for {command.seconds} seconds")
        for id in command.tasks:
            if not self.ledger.is_free(id):
                raise self._broken(f"assigned task {id}, which is not free")
        if not place.alive or place.leaving:
            raise self._broken(f"assigned to worker {command.worker}, which is not there")
        suspects = [id for id in command.tasks if self.ledger.is_suspect(id)]
        if suspects and not place.busy:
            self._assign_alone(command, suspects[0])
        else:
            self._hand_out(command, command.tasks, command.depth)

    def _assign_alone(self, command: Assign, suspect: int) -> None:
        """Lets a suspect travel alone, one level at a time, so that what kills workers is
        found and everything beside it saved."""
        bundle = self.ledger[suspect]
        # Several subtrees are only cut apart; a single one is opened
        depth = bundle.depth + 1 if bundle.size == 1 else bundle.depth
        self._hand_out(command, (suspect,), depth)
        remaining = [id for id in command.tasks if id != suspect]
        if remaining:
            self._notify(Opened(self.ledger.tasks(remaining), command.worker))

    def _hand_out(self, command: Assign, ids: tuple[int, ...], depth: int) -> None:
        place = self.seats[command.worker]
        tasks = self.ledger.take(ids)
        place.receive_work(tasks, self._clock())
        nodes = self._grant(command.worker)
        for batch in task_batches(tasks):
            place.sent(batch, nodes)
            bundles = tuple(batch.values())
            work = AddSubtrees(self._begin.session, bundles, command.seconds, nodes, depth)
            self._send(command.worker, work)
            fault_points.point("coordinator.handout")
            # The grant goes with the first message only
            nodes = 0

    def _seat(self, seat: int) -> WorkerState:
        if not 0 <= seat < len(self.seats):
            raise self._broken(f"named worker {seat}, and there are {len(self.seats)}")
        return self.seats[seat]

    def _raised(self, error: Exception, where: str) -> StrategyError:
        """What the strategy's own code raised, with its innermost line."""
        frames = traceback.extract_tb(error.__traceback__)[1:]
        line = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
        return self._broken(f"raised {type(error).__name__} in {where}: {error}{line}")

    def _broken(self, what: str) -> StrategyError:
        return StrategyError(f"strategy {type(self._strategy).__qualname__} {what}")

    def _check_stall(self) -> None:
        # A strategy that forgets a task would otherwise leave the search waiting for ever
        waiting = self.ledger.free and not self.stopped
        seats = [place for place in self.seats if not place.closed and not place.leaving]
        if waiting and seats and all(place.alive and not place.busy for place in seats):
            free = self.ledger.free
            what = f"left {free} task{'s' * (free != 1)} unassigned while every worker is idle"
            self._out.fail(self._broken(what), "")

    def _forget_question(self, digest: bytes, seat: int) -> None:
        seats = self._asked.get(digest)
        if seats is None:
            return
        seats.discard(seat)
        if not seats:
            del self._asked[digest]
            self._out.withdraw(digest)

    def _send(self, seat: int, message: ToWorker) -> None:
        self.seats[seat].messages += 1
        self._out.send(seat, message)
