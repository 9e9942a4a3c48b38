"""The host's side of a search: the ledger of open subtrees, and the strategy that deals them out.

Does no input or output. Messages from workers come in through `receive`; what is to be sent, asked
or written down goes out through the callables of `Outlets`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from msgspec import Struct

from ..checks.verdict import Status
from ..errors import AiosearchError, ProblemError, StrategyError, WorkerError
from ..problem import Obligation
from ..strategies.contract import (
    Ask as AskCommand,
)
from ..strategies.contract import (
    Assign,
    Event,
    Idle,
    Lost,
    Opened,
    Plan,
    Reported,
    Strategy,
    Task,
)
from . import faults
from .bundles import Bundle
from .channel import MAX_FRAME
from .counts import Counts
from .wire import (
    Ask,
    Beat,
    Begin,
    Failed,
    Judged,
    Publish,
    Report,
    Tell,
    ToHost,
    ToWorker,
    Withdraw,
    Work,
)

UNLIMITED = 1 << 60
SUSPECT_DEATHS = 2
"""A subtree that so many workers died with is opened one level at a time from then on."""
MOST_DEATHS = 5
"""A subtree that this many workers die of, one after the other, is taken to be what kills them."""
MOST_DEATHS_TOGETHER = 25
"""The same where the worker held others too, and any of them may be to blame."""


class Transaction(Struct, frozen=True):
    """What one report changed: the engine's unit of durability."""

    seat: int
    closed: tuple[int, ...]
    opened: tuple[tuple[int, Bundle], ...]
    counts: Counts
    solutions: tuple[bytes, ...]
    costs: tuple[float, ...]
    keys: bytes
    at_ns: int


class Outlets(Struct, frozen=True):
    """Where a coordinator's effects go."""

    send: Callable[[int, ToWorker], None]
    commit: Callable[[Transaction], None]
    fail: Callable[[AiosearchError, str], None]
    """Ends the search with an error and, where there is one, the worker's traceback."""
    ask: Callable[[bytes, Obligation, float], None]
    withdraw: Callable[[bytes], None]
    release_claims: Callable[[int, int], None]
    """Makes an owner's claims void from a report number on."""


class Seat:
    """A place for one worker: what it holds, and what it did."""

    __slots__ = (
        "alive",
        "busy",
        "counts",
        "given",
        "granted",
        "held",
        "hungry",
        "idle_ns",
        "idle_since",
        "kept",
        "keys",
        "messages",
        "owner",
        "reports",
        "sequence",
        "solutions",
        "tasks",
        "told",
    )  # fmt: skip

    def __init__(self) -> None:
        self.alive = False
        self.busy = False
        self.held: dict[int, Bundle] = {}
        self.granted = 0
        self.hungry = False
        self.counts = Counts()
        self.reports = 0
        self.messages = 0
        self.tasks = 0
        self.owner = 0
        self.sequence = 0
        self.told = False
        self.idle_since = 0
        self.idle_ns = 0
        self.clear_parts()

    def clear_parts(self) -> None:
        self.kept: list[Bundle] = []
        self.given: list[Bundle] = []
        self.solutions: list[bytes] = []
        self.keys: list[bytes] = []


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
    ) -> None:
        self._strategy = strategy
        self._begin = begin
        self._out = outlets
        self._clock = clock
        self._limit = UNLIMITED if node_limit is None else node_limit
        self._skip_errors = skip_errors
        self.seats = [Seat() for _ in range(plan.seats)]
        self.totals = Counts()
        self._tasks: dict[int, Bundle] = {}
        self._free: set[int] = set()
        self._next_id = 1
        self._owners = 0
        self._deaths: dict[int, int] = {}
        self._asked: dict[bytes, set[int]] = {}
        self._events: deque[Event] = deque()
        self.incumbent = float("inf")
        self.open_subtrees = 0
        self.open_weight = 0.0
        """The share of the tree that is still open, as far as one can tell."""
        self.stopped = False
        try:
            strategy.start(plan)
        except Exception as error:
            raise self._raised(error) from error

    @property
    def finished(self) -> bool:
        """Whether nothing is open anywhere."""
        return not self._tasks

    def unsettled(self) -> list[int]:
        """The seats that owe an answer to `ask_reports`."""
        return [seat for seat, place in enumerate(self.seats) if place.told]

    @property
    def exhausted(self) -> bool:
        """Whether the limit on nodes is reached, to the node."""
        return self.totals.nodes >= self._limit

    @property
    def next_id(self) -> int:
        return self._next_id

    def start(self, tasks: dict[int, Bundle], next_id: int = 1) -> None:
        """Opens the root, or what a journal held."""
        self._next_id = next_id
        self._open(tasks)
        self._free.update(tasks)
        self._tell(Opened(tuple(_task(id, bundle) for id, bundle in tasks.items())))

    def join(self, seat: int) -> None:
        """A worker has taken the seat: opens the session there."""
        place = self.seats[seat]
        self._owners += 1
        place.alive, place.busy, place.owner, place.sequence = True, False, self._owners, 0
        place.idle_since = self._clock()
        self._send(seat, msgspec.structs.replace(self._begin, owner=place.owner))
        if self.incumbent < float("inf"):
            self._send(seat, Beat(self._begin.session, self.incumbent))
        self._tell(Idle(seat))
        self._check_stall()

    def lose(self, seat: int) -> None:
        """A worker died: what it held as of its last report is open again."""
        place = self.seats[seat]
        if not place.alive:
            return
        self._out.release_claims(place.owner, place.sequence)
        place.alive = place.busy = place.hungry = place.told = False
        place.granted = 0
        place.clear_parts()
        for digest in [digest for digest, seats in self._asked.items() if seat in seats]:
            self._forget_question(digest, seat)
        back, place.held = place.held, {}
        self._tell(Lost(seat))
        self._reopen(back, seat)

    def _reopen(self, back: dict[int, Bundle], seat: int) -> None:
        """Opens what a dead worker held again, but for what has killed too many."""
        most = MOST_DEATHS if len(back) == 1 else MOST_DEATHS_TOGETHER
        tasks = []
        for id, bundle in back.items():
            deaths = self._deaths[id] = self._deaths.get(id, 0) + 1
            if deaths < most:
                self._free.add(id)
                tasks.append(_task(id, bundle))
            elif self._skip_errors:
                self._give_up(seat, id, bundle)
            else:
                reason = (
                    f"{deaths} worker processes died one after the other on the same subtree, at "
                    f"depth {bundle.depth}; on_error='skip' would leave it out"
                )
                self._out.fail(WorkerError(reason), "")
                return
        if tasks:
            self._tell(Opened(tuple(tasks), seat))

    def _give_up(self, seat: int, id: int, bundle: Bundle) -> None:
        self._close(id)
        counts = Counts(skipped=bundle.size)
        self.totals.add(counts)
        self._out.commit(Transaction(seat, (id,), (), counts, (), (), b"", self._clock()))

    def receive(self, seat: int, message: ToHost) -> None:
        if self.stopped or not self.seats[seat].alive:
            return
        self.seats[seat].messages += 1
        match message:
            case Report():
                self._report(seat, message)
            case Ask(digest=digest, obligation=obligation, priority=priority):
                seats = self._asked.setdefault(digest, set())
                seats.add(seat)
                if len(seats) == 1:
                    self._out.ask(digest, obligation, priority)
            case Withdraw(digests=digests):
                for digest in digests:
                    self._forget_question(digest, seat)
            case Failed():
                self._out.fail(_error_of(message), message.trace)

    def judge(self, digest: bytes, status: Status) -> None:
        """Passes a verdict on to whoever asked."""
        for seat in self._asked.pop(digest, ()):
            self._send(seat, Judged(self._begin.session, digest, status))

    def beat(self, cost: float) -> None:
        """Tells every worker of a better solution."""
        if cost >= self.incumbent:
            return
        self.incumbent = cost
        for seat, place in enumerate(self.seats):
            if place.alive:
                self._send(seat, Beat(self._begin.session, cost))

    def ask_reports(self, seconds: float) -> None:
        """Asks every busy seat for a report, now and from now on every so many seconds."""
        for seat, place in enumerate(self.seats):
            if place.busy:
                place.told = True
                self._send(seat, Tell(self._begin.session, seconds))

    def set_interval(self, seconds: float) -> None:
        """Sets how often workers that join from now on report."""
        self._begin = msgspec.structs.replace(self._begin, report_seconds=seconds)

    @property
    def settled(self) -> bool:
        """Whether every busy seat has answered `ask_reports`."""
        return not self.unsettled()

    def stop(self) -> None:
        """Takes no more messages: the books stay as they are."""
        self.stopped = True

    def _report(self, seat: int, report: Report) -> None:
        place = self.seats[seat]
        place.kept += report.kept
        place.given += report.given
        place.solutions += report.solutions
        place.keys.append(report.keys)
        if not report.final:
            return
        place.sequence = report.sequence
        place.reports += 1
        place.told = False
        closed = tuple(place.held)
        kept = {self._new_id(): bundle for bundle in place.kept}
        given = {self._new_id(): bundle for bundle in place.given}
        transaction = Transaction(
            seat,
            closed,
            (*kept.items(), *given.items()),
            report.counts,
            tuple(place.solutions),
            report.costs,
            b"".join(place.keys),
            report.at_ns,
        )
        place.clear_parts()
        self._book(seat, closed, kept, given, report)
        faults.point("coordinator.giveback" if given else "coordinator.report")
        self._out.commit(transaction)
        if given:
            self._tell(Opened(tuple(_task(id, bundle) for id, bundle in given.items()), seat))
        if report.idle:
            self._tell(Idle(seat))
        else:
            self._tell(Reported(seat, report.surplus))
        if report.hungry or self._limit < UNLIMITED:
            self._feed()
        self._check_stall()

    def _book(
        self,
        seat: int,
        closed: Iterable[int],
        kept: dict[int, Bundle],
        given: dict[int, Bundle],
        report: Report,
    ) -> None:
        place = self.seats[seat]
        for id in closed:
            self._close(id)
        self._open(kept)
        self._open(given)
        self._free.update(given)
        place.held = kept
        place.counts.add(report.counts)
        place.granted = 0 if report.idle else place.granted - report.counts.nodes
        place.hungry = report.hungry
        self.totals.add(report.counts)
        if report.idle:
            place.busy = False
            place.idle_since = self._clock()

    def _open(self, tasks: dict[int, Bundle]) -> None:
        self._tasks.update(tasks)
        for bundle in tasks.values():
            self.open_subtrees += bundle.size
            self.open_weight += bundle.weight

    def _close(self, id: int) -> None:
        bundle = self._tasks.pop(id)
        self._deaths.pop(id, None)
        self.open_subtrees -= bundle.size
        self.open_weight -= bundle.weight

    def _feed(self) -> None:
        """Grants more nodes to the seats that have used theirs up."""
        for seat, place in enumerate(self.seats):
            if place.hungry and (nodes := self._grant(seat)):
                place.hungry = False
                self._send(seat, Work(self._begin.session, (), 0.0, nodes))

    def _grant(self, seat: int) -> int:
        """How many nodes a seat may explore now, so that all together never pass the limit."""
        if self._limit == UNLIMITED:
            nodes = UNLIMITED
        else:
            left = self._limit - self.totals.nodes - sum(place.granted for place in self.seats)
            busy = max(len(self.seats), 1)
            nodes = left if busy == 1 else min(left, max(left // (2 * busy), 64))
        self.seats[seat].granted += nodes
        return nodes

    def _tell(self, event: Event) -> None:
        """Tells the strategy, one event after the other, also where one command causes another."""
        self._events.append(event)
        if len(self._events) > 1:
            return
        try:
            while self._events and not self.stopped:
                for command in self._strategy.handle(self._events[0]):
                    self._carry_out(command)
                self._events.popleft()
        except AiosearchError as error:
            self._out.fail(error, "")
        except Exception as error:
            wrong = self._raised(error)
            wrong.__cause__ = error
            self._out.fail(wrong, "")

    def _carry_out(self, command: Any) -> None:
        match command:
            case Assign(seat=seat, tasks=tasks):
                self._assign(command, self._seat(seat), tasks)
            case AskCommand(seat=seat):
                if self._seat(seat).busy:
                    self._send(seat, Publish(self._begin.session))
            case _:
                raise self._broken(f"gave {command!r}, which is no command")

    def _assign(self, command: Assign, place: Seat, ids: tuple[int, ...]) -> None:
        for id in ids:
            if id not in self._free:
                raise self._broken(f"assigned task {id}, which is not free")
        if not place.alive:
            raise self._broken(f"assigned to seat {command.seat}, which has no worker")
        suspect = next((id for id in ids if self._deaths.get(id, 0) >= SUSPECT_DEATHS), None)
        if suspect is not None and not place.busy:
            self._assign_alone(command, place, suspect)
        else:
            self._hand_out(command, place, ids)

    def _assign_alone(self, command: Assign, place: Seat, suspect: int) -> None:
        """Lets a suspect travel alone, one level at a time, so that what kills workers is found
        and everything beside it saved."""
        depth = self._tasks[suspect].depth + 1
        self._hand_out(Assign(command.seat, (), depth=depth), place, (suspect,))
        others = tuple(_task(id, self._tasks[id]) for id in command.tasks if id != suspect)
        if others:
            self._tell(Opened(others, command.seat))

    def _hand_out(self, command: Assign, place: Seat, ids: tuple[int, ...]) -> None:
        if not place.busy:
            place.idle_ns += self._clock() - place.idle_since
        place.busy = True
        place.tasks += len(ids)
        self._free.difference_update(ids)
        bundles = {id: self._tasks[id] for id in ids}
        place.held.update(bundles)
        nodes = self._grant(command.seat)
        for batch in _batches(bundles.values()):
            work = Work(self._begin.session, batch, command.seconds, nodes, command.depth)
            self._send(command.seat, work)
            faults.point("coordinator.handout")
            nodes = 0

    def _seat(self, seat: int) -> Seat:
        if not 0 <= seat < len(self.seats):
            raise self._broken(f"named seat {seat}, and there are {len(self.seats)}")
        return self.seats[seat]

    def _raised(self, error: Exception) -> StrategyError:
        return self._broken(f"raised {type(error).__name__}: {error}")

    def _broken(self, what: str) -> StrategyError:
        return StrategyError(f"strategy {type(self._strategy).__qualname__} {what}")

    def _check_stall(self) -> None:
        waiting = self._free and not self.stopped
        if waiting and all(place.alive and not place.busy for place in self.seats):
            what = f"left {len(self._free)} tasks unassigned while every seat is idle"
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

    def _new_id(self) -> int:
        self._next_id += 1
        return self._next_id - 1


def _task(id: int, bundle: Bundle) -> Task:
    return Task(id, bundle.size, bundle.depth, bundle.priority, bundle.rank)


def _batches(bundles: Iterable[Bundle]) -> Iterable[tuple[Bundle, ...]]:
    batch: list[Bundle] = []
    size = 0
    for bundle in bundles:
        if batch and size + len(bundle.blob) + 64 > MAX_FRAME - 1024:
            yield tuple(batch)
            batch, size = [], 0
        batch.append(bundle)
        size += len(bundle.blob) + 64
    if batch:
        yield tuple(batch)


def _error_of(failed: Failed) -> AiosearchError:
    if failed.method:
        return ProblemError(failed.problem, failed.method, failed.reason, failed.path)
    return AiosearchError(f"{failed.problem}: the engine failed: {failed.reason}")
