"""One search at work: coordinator, pool, verification, journal, limits and events put together."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import anyio
import msgspec

from ...checks import CheckRecord, Reason, Verdict, z3_version
from ...documents import Document
from ...errors import WorkerError
from ...events import Hook, SearchStarted
from ...limits import Limits
from ...orders import Order
from ...problem import AnyProblem, Obligation
from ...result import Result, SearchStatus, Solutions
from ...statistics import Statistics
from ...strategies import Plan, Strategy
from ..books.coordinator import Coordinator, Outlets, Transaction
from ..explore.bundles import ROOT, Bundle
from ..explore.capabilities import Capabilities
from ..explore.claims import KeyChunks, LocalClaims, SharedClaims
from ..journal.keeper import JournalKeeper
from ..wire.messages import AddSubtrees, Begin, ToHost, ToWorker
from ..wire.reference import ObjectReference, element_type, refer, return_type
from ..wire.solutions import SolutionSet
from ..worker.session import WorkerSession
from ..worker.work_sharing import MachineBoards
from . import progress
from .hooks import EventEmitter, Hooks
from .obligations import SearchObligations
from .ticker import Pace, SearchStopwatch, Ticker

if TYPE_CHECKING:
    from ...pool import Pool


OnUnknown: TypeAlias = Literal["defer", "keep", "drop"]
OnError: TypeAlias = Literal["raise", "skip"]


@dataclass(frozen=True)
class SearchSettings:
    """What a `Search` was asked for, beside its problem and its order."""

    strategy: str
    limits: Limits
    journal: Path | None
    resume: bool
    seed: int
    on_unknown: OnUnknown
    on_error: OnError
    progress_seconds: float


GRACE_SECONDS = 0.03
"""Seconds for which a search that ends early waits for its workers' last reports."""
REPORT_SECONDS = 0.2


class SearchRun:
    """The life of one search, from `start` to `close`."""

    def __init__(
        self,
        problem: AnyProblem,
        pool: Pool,
        order: Order,
        strategy: Strategy,
        settings: SearchSettings,
        hooks: tuple[Hook, ...],
    ) -> None:
        self.id = 0
        self.found = SolutionSet(settings.limits.solutions)
        self._problem = problem
        self._pool = pool
        self._order = order
        self._strategy = strategy
        self._settings = settings
        self._hooks = Hooks(hooks)
        self._stopwatch = SearchStopwatch()
        self._events = EventEmitter(self._hooks, self._stopwatch)
        self._capabilities = Capabilities.of(problem)
        self.name = self._capabilities.name
        self._cost = self._capabilities.cost
        # What a journal holds may have been scored by another order.
        self._scored_by_bound = (
            self._cost is not None
            and self._capabilities.bound is not None
            and order.score(problem) == self._capabilities.bound
            and not settings.resume
        )
        solution_type = element_type(return_type(problem, "solutions"))
        self._decode = msgspec.msgpack.Decoder(solution_type).decode
        self._coordinator: Coordinator | None = None
        self._keeper: JournalKeeper | None = None
        self._questions: SearchObligations | None = None
        self._claims: LocalClaims | SharedClaims | None = None
        self._earlier_keys = KeyChunks()
        self._boards: MachineBoards | None = None
        self._answering = False
        self._ticker: Ticker | None = None
        self._changed = anyio.Event()
        self._status = SearchStatus.RUNNING
        self._reason = ""
        self._error: Exception | None = None
        self._settling = False
        self.done = False
        self._deaths = 0
        self._unreadable = False
        self._reference: ObjectReference | None = None
        self._pace = Pace()

    # Starting

    async def start(self) -> None:
        """Opens everything that the search needs and lets the strategy begin."""
        self.id = self._pool.new_id()
        # First, for it may raise: nothing has to be given back yet
        order = refer(self._order)
        if self._pool.spreads:
            self._reference = refer(self._problem)
        if self._capabilities.obligation is not None:
            await self._open_questions()
        if self._capabilities.key is not None:
            self._claims = SharedClaims.create() if self._pool.spreads else LocalClaims()
        self._coordinator = books = self._open_books(self._begin(order))
        if books.exchange and self._pool.workers > 1:
            # Twice the workers: a dead one's place is free only when its offers are settled
            self._boards = MachineBoards(2 * self._pool.workers)
            self._boards.open(self.id, books.exchange)
        tasks, next_id = {1: ROOT}, 2
        if self._settings.journal is not None:
            tasks, next_id = await self._open_journal(self._settings.journal)
        self._stopwatch.start()
        self._events.emit(self._event_of_start())
        self._pace.rate(self.seconds, books.totals.nodes)
        self._ticker = self._start_ticker()
        # Before the pool attaches: workers that join find the root open
        books.start(tasks, next_id)
        if self.found.best_cost is not None:
            books.beat(self.found.best_cost)
        if not self.done:
            self._pool.attach(self)
            self._check_end()

    async def _open_questions(self) -> None:
        verifier = await self._pool.ready_verifier()
        self._questions = SearchObligations(verifier, self._capabilities.axioms, self._judge)

    def _begin(self, order: ObjectReference) -> Begin:
        return Begin(
            self.id,
            self._reference or ObjectReference("", ""),
            order,
            self._settings.on_unknown,
            self._settings.on_error == "skip",
            z3_version() if self._questions else "",
            self._claims.path if isinstance(self._claims, SharedClaims) else "",
            report_seconds=REPORT_SECONDS,
            record_keys=self._claims is not None and self._settings.journal is not None,
        )

    def _open_books(self, begin: Begin) -> Coordinator:
        by_level = self._order.greedy or self._order.by_level
        return Coordinator(
            self._strategy,
            Plan(self._pool.seats, by_level, self._settings.seed),
            begin,
            self._outlets(),
            time.monotonic_ns,
            self._settings.limits.nodes,
            self._settings.on_error == "skip",
            self._pool.private_verdicts,
        )

    def _event_of_start(self) -> SearchStarted:
        return SearchStarted(
            seconds=self.seconds,
            problem=self.name,
            order=type(self._order).__name__,
            strategy=self._settings.strategy,
            workers=self._pool.workers,
            seed=self._settings.seed,
            resumed=self._settings.resume,
            nodes=self._books.totals.nodes,
            machines=self._pool.machines is not None,
        )

    def _start_ticker(self) -> Ticker:
        settings = self._settings
        progress_seconds = settings.progress_seconds if self._events else None
        return Ticker(self, self._stopwatch, settings.limits, REPORT_SECONDS, progress_seconds)

    async def _open_journal(self, path: Path) -> tuple[dict[int, Bundle], int]:
        self._keeper = keeper = JournalKeeper(path, self.warn)
        header = keeper.header(
            self._problem, self._order, self._settings.strategy, self._settings.seed
        )
        if not self._settings.resume:
            await keeper.create(header)
            return {1: ROOT}, 2
        past = await keeper.resume(header)
        self._books.totals.add(past.counts)
        self._stopwatch.before = past.seconds
        for solution in past.solutions:
            self.found.add(solution, self._cost_of(solution))
            await keeper.breathe()
        if self._claims is not None and not self._order.prunes:
            async for keys in keeper.keys(past):
                self._remember(self._claims, keys)
        return past.open, past.next_id

    def _remember(self, claims: LocalClaims | SharedClaims, keys: bytes) -> None:
        claims.preload(keys)
        if self._pool.machines is not None:
            self._earlier_keys.add(keys)

    def _cost_of(self, solution: bytes) -> float | None:
        return None if self._cost is None else float(self._cost(self.decode_solution(solution)))

    def _outlets(self) -> Outlets:
        return Outlets(
            send=self._send,
            commit=self._commit,
            fail=self.fail,
            ask=self._ask,
            withdraw=self._withdraw,
            release_claims=self._release_claims,
            revoke=self._revoke,
        )

    # What the pool tells us

    def joined(self, seat: int, pid: int, host: str) -> None:
        if not self.done:
            self._events.joined(seat, pid, host)
            self._books.join(seat, host)

    def drain(self, seat: int) -> None:
        if not self.done:
            self._books.drain(seat)

    def busy(self, seat: int) -> bool:
        return not self.done and self._books.busy(seat)

    @property
    def asks(self) -> bool:
        return self._questions is not None

    def known_keys(self, part: int) -> bytes:
        return self._earlier_keys.part(part)

    def lost(self, seat: int, reason: str, blame: bool, forever: bool = False) -> None:
        if self.done:
            return
        died = not forever or self._books.busy(seat)
        self._deaths += died
        if died or self._serves(seat):
            self._events.lost(seat, reason, died)
        self._books.lose(seat, blame, forever)
        self._check_end()

    def refused(self, seat: int, reason: str) -> None:
        if self.done:
            return
        if self._serves(seat):
            self._events.lost(seat, reason, died=False)
        self._books.lose(seat, blame=False, forever=True)
        self._check_end()

    def _serves(self, seat: int) -> bool:
        seats = self._books.seats
        return seat < len(seats) and seats[seat].alive

    def receive(self, seat: int, message: ToHost, size: int) -> None:
        if self.done:
            return
        self._books.receive(seat, message, size)
        self._check_end()

    def local_session(self, begin: Begin, send: Callable[[ToHost], None]) -> WorkerSession:
        return WorkerSession(begin, self._problem, self._order, send, self._claims)

    # What the coordinator wants done

    @property
    def _books(self) -> Coordinator:
        assert self._coordinator is not None
        return self._coordinator

    def _send(self, seat: int, message: ToWorker) -> None:
        if self._events and isinstance(message, AddSubtrees) and message.bundles:
            self._events.assigned(seat, message)
        if isinstance(message, Begin) and self._boards is not None and self._pool.is_here(seat):
            message = self._boards.seat(message, message.owner)
        self._books.seats[seat].bytes += self._pool.send(seat, message)

    def _commit(self, transaction: Transaction) -> None:
        if self._keeper is not None:
            self._keeper.write(transaction, self.seconds)
        if self._events:
            self._events.reported(transaction)
        costs = transaction.costs or (None,) * len(transaction.solutions)
        improved = len(self.found.improving)
        for solution, cost in zip(transaction.solutions, costs, strict=True):
            if self.found.add(solution, cost):
                self._improve(solution, cost, transaction.seat)
        # Once for a report, not for each of its solutions
        if len(self.found.improving) > improved:
            self._wake()
        if transaction.solutions:
            self._pool.note(self)
        if self.found.full:
            self.stop(SearchStatus.LIMIT, f"{len(self.found.encoded)} solutions found")

    def _improve(self, solution: bytes, cost: float | None, seat: int) -> None:
        if cost is not None:
            self._books.beat(cost)
        number = len(self.found.improving)
        self._events.improved(number, lambda: self.decode_solution(solution), cost, seat)

    def _ask(self, digest: bytes, obligation: Obligation, priority: float) -> None:
        assert self._questions is not None
        try:
            self._questions.ask(digest, obligation, priority)
        except WorkerError as error:
            self.fail(error)

    def _judge(self, digest: bytes, verdict: Verdict) -> None:
        if self.done:
            return
        if verdict.reason.startswith(Reason.ERROR) and not self._unreadable:
            self._unreadable = True
            self.warn(
                f"z3 cannot read an obligation of {self.name}, so it is unknown: {verdict.reason}"
            )
        self._books.judge(digest, verdict.status)
        if not self._answering:  # what else is known in this turn of the loop goes along
            self._answering = True
            asyncio.get_running_loop().call_soon(self._answer)

    def _answer(self) -> None:
        self._answering = False
        if not self.done:
            self._books.answer()
            self._check_end()

    def _withdraw(self, digest: bytes) -> None:
        if self._questions is not None:
            self._questions.withdraw(digest)

    def _release_claims(self, seat: int, owner: int, committed: int) -> None:
        if isinstance(self._claims, SharedClaims):
            self._claims.release(owner, committed)
            self._pool.release_claims(self, seat, owner, committed)

    def _revoke(self, seat: int, owner: int) -> Mapping[int, int] | None:
        if not self._pool.is_here(seat):
            return self._pool.takers(self, seat, owner)
        return {} if self._boards is None else self._boards.revoke(self.id, owner)

    # Ending

    def fail(self, error: Exception, trace: str = "") -> None:
        """Ends the search with an error."""
        if self.done or self._settling:
            return
        if trace:
            error.add_note(f"in the worker:\n{trace}")
        self._error = error
        self.stop(SearchStatus.FAILED, str(error))

    def stop(self, status: SearchStatus, reason: str) -> None:
        """Ends the search early: asks for last reports, and closes the books
        `GRACE_SECONDS` later."""
        if self.done or self._settling:
            return
        self._status, self._reason = status, reason
        books = self._coordinator
        if books is None:
            self._finish()
            return
        books.ask_reports(REPORT_SECONDS)
        if not books.unsettled():
            self._finish()
            return
        self._settling = True
        asyncio.get_running_loop().call_later(GRACE_SECONDS, self._finish)

    def _check_end(self) -> None:
        books = self._books
        if self.done:
            return
        if books.finished and not books.stopped:
            if not self._settling:
                self._status = SearchStatus.COMPLETE
                self._reason = progress.explored(books.totals.skipped)
            self._finish()
        elif self._settling:
            if not books.unsettled():
                self._finish()
        elif books.exhausted:
            limit = self._settings.limits.nodes
            self.stop(SearchStatus.LIMIT, f"{limit} nodes explored")

    def _finish(self) -> None:
        if self.done:
            return
        self.done = True
        self._stopwatch.stop()
        books = self._coordinator
        if books is not None:
            books.stop()
        # Read before detaching, which ends the sessions that owe a report
        stuck = books.unsettled() if books else []
        self._pool.detach(self)
        for seat in stuck:
            self._pool.probe(seat)
        try:
            self._events.finished(self.result(), books.totals.nodes if books else 0)
        finally:
            self._wake()

    async def close(self) -> None:
        """Gives everything back. The search must have been stopped, or be `done`, or never
        begun."""
        while self._settling and not self.done:
            await self._changed.wait()
        self.done = True
        if self._ticker is not None:
            await self._ticker.close()
        if self._questions is not None:
            self._questions.withdraw_all()
        if self._keeper is not None:
            await self._keeper.close()
        if isinstance(self._claims, SharedClaims):
            self._claims.close()
        if self._boards is not None:
            self._boards.close()
        await self._hooks.close(GRACE_SECONDS)

    def raise_failure(self) -> None:
        if self._error is not None:
            raise self._error

    # What the ticker asks

    @property
    def checks(self) -> int:
        return self._questions.checks if self._questions else 0

    def memory(self) -> int:
        return self._pool.memory()

    def settle(self) -> None:
        if not self.done:
            self._books.bury()

    def space_reports(self, seconds: float) -> None:
        self._books.set_interval(seconds)
        self._books.ask_reports(seconds)

    def emit_progress(self) -> None:
        seconds, books = self.seconds, self._books
        rate = self._pace.rate(seconds, books.totals.nodes)
        prunes, refused = self._order.prunes, self._pool.refusals(self)
        standing = progress.progress(
            books,
            self.found,
            self._questions,
            seconds,
            rate,
            prunes=prunes,
            scored_by_bound=self._scored_by_bound,
            refused=refused,
        )
        self._events.emit(standing)

    # Watching

    @property
    def seconds(self) -> float:
        """Search time: what a journal holds, and what has passed since the start."""
        return self._stopwatch.seconds

    def warn(self, message: str) -> None:
        self._events.warn(message)

    def checked(self, record: CheckRecord) -> None:
        """Passes z3's answers on to the hooks as `Checked` events."""
        self._events.checked(record)

    def state(self) -> Document:
        """How the search gets on, for `aiosearch status` elsewhere."""
        books, seconds = self._coordinator, self.seconds
        rate = self._pace.rate(seconds, books.totals.nodes) if books else 0.0
        return {
            "problem": self.name,
            "strategy": self._settings.strategy,
            **progress.state(books, self.found, seconds, rate, self._order.prunes),
        }

    async def changed(self) -> None:
        """Waits until there is an improvement or the end."""
        await self._changed.wait()

    def _wake(self) -> None:
        # Everybody who waits is woken and waits on a new event next time: no wake-up is missed, for
        # a waiter looks at the state before it waits
        self._changed.set()
        self._changed = anyio.Event()

    def decode_solution(self, solution: bytes) -> Any:
        return self._decode(solution)

    def result(self) -> Result[Any]:
        solutions = self.found
        return Result(
            self._status,
            self._reason,
            None if solutions.best is None else self.decode_solution(solutions.best),
            solutions.best_cost,
            Solutions(solutions.encoded, self.decode_solution),
            self.statistics(),
            self._error,
        )

    def statistics(self) -> Statistics:
        return progress.statistics(
            self._coordinator,
            self.found,
            self._questions,
            self.seconds,
            self._hooks.errors,
            self._deaths,
        )
