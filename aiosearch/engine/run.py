"""One search at work: coordinator, pool, verification, journal, limits and events put together."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import anyio
import msgspec

from ..checks import CheckRecord, Reason, Verdict, z3_version
from ..errors import WorkerError
from ..events import (
    AnyEvent,
    Checked,
    Hook,
    Improved,
    Progress,
    SearchFinished,
    SearchStarted,
    TaskAssigned,
    Warned,
    WorkerJoined,
    WorkerLost,
    WorkReported,
)
from ..limits import Limits
from ..orders import Order
from ..problem import Obligation
from ..result import Result, SearchStatus, Solutions
from ..statistics import Statistics
from ..strategies import Plan, Strategy
from .bundles import ROOT
from .claims import LocalClaims, SharedClaims
from .coordinator import Coordinator, Outlets, Transaction
from .counts import Counts
from .found import Found
from .hooks import Hooks
from .keeping import Keeper
from .pace import REPORT_SHARE, Pace
from .questions import Questions
from .reference import Reference, element_type, refer, return_type
from .session import Session
from .wire import Begin, ToHost, ToWorker, Work

if TYPE_CHECKING:
    from ..pool import Pool

OnUnknown: TypeAlias = Literal["defer", "keep", "drop"]
OnError: TypeAlias = Literal["raise", "skip"]

TICK_SECONDS = 0.05
MEMORY_SECONDS = 0.25
GRACE_SECONDS = 0.03
"""How long a search that ends early waits for its workers' last reports."""
REPORT_SECONDS = 0.2

log = logging.getLogger("aiosearch")


@dataclass(frozen=True)
class Settings:
    """What a search was asked for, beside its problem."""

    strategy: str
    limits: Limits
    journal: Path | None
    resume: bool
    seed: int
    on_unknown: OnUnknown
    on_error: OnError
    progress_seconds: float


class Run:
    """The life of one search, from start to close."""

    def __init__(
        self,
        problem: Any,
        pool: Pool,
        order: Order,
        strategy: Strategy,
        settings: Settings,
        hooks: tuple[Hook, ...],
    ) -> None:
        self.id = 0
        self.found = Found(settings.limits.solutions)
        self._problem = problem
        self._pool = pool
        self._order = order
        self._strategy = strategy
        self._settings = settings
        self._hooks = Hooks(hooks)
        self._name = type(problem).__qualname__
        self._cost = getattr(problem, "cost", None)
        solution_type = element_type(return_type(problem, "solutions"))
        self._decode = msgspec.msgpack.Decoder(solution_type).decode
        self._coordinator: Coordinator | None = None
        self._keeper: Keeper | None = None
        self._questions: Questions | None = None
        self._claims: LocalClaims | SharedClaims | None = None
        self._ticker: asyncio.Task[None] | None = None
        self._changed = anyio.Event()
        self._status = SearchStatus.RUNNING
        self._reason = ""
        self._error: Exception | None = None
        self._settling = False
        self.done = False
        self._started: float | None = None
        self._before = 0.0
        self._ended: float | None = None
        self._deaths = 0
        self._unreadable = False
        self._reference: Reference | None = None
        self._pace = Pace()

    # Starting

    async def start(self) -> None:
        """Opens everything that the search needs and lets the strategy begin."""
        self.id = self._pool.new_id()
        order_reference = refer(self._order)
        if self._pool.spreads:
            self._reference = refer(self._problem)
        if hasattr(self._problem, "obligation"):
            verifier = await self._pool.ready_verifier()
            axioms = dict(getattr(self._problem, "axioms", None) or {})
            self._questions = Questions(verifier, axioms, self._judge)
        if hasattr(self._problem, "key"):
            shared = self._pool.spreads
            self._claims = SharedClaims.create() if shared else LocalClaims()
        begin = Begin(
            self.id,
            self._reference or Reference("", ""),
            order_reference,
            self._settings.on_unknown,
            self._settings.on_error == "skip",
            z3_version() if self._questions else "",
            self._claims.path if isinstance(self._claims, SharedClaims) else "",
            report_seconds=REPORT_SECONDS,
            record_keys=self._claims is not None and self._settings.journal is not None,
        )
        self._coordinator = Coordinator(
            self._strategy,
            Plan(self._pool.seats, self._order.greedy or self._order.by_level, self._settings.seed),
            begin,
            self._outlets(),
            time.monotonic_ns,
            self._settings.limits.nodes,
            self._settings.on_error == "skip",
            self._pool.private_verdicts,
        )
        tasks, next_id = {1: ROOT}, 2
        if self._settings.journal is not None:
            tasks, next_id = await self._open_journal(self._settings.journal)
        self._started = time.monotonic()
        self._emit(
            SearchStarted(
                seconds=self.seconds,
                problem=self._name,
                order=type(self._order).__name__,
                strategy=self._settings.strategy,
                workers=self._pool.workers,
                seed=self._settings.seed,
                resumed=self._settings.resume,
                nodes=self._coordinator.totals.nodes,
            )
        )
        self._pace.rate(self.seconds, self._coordinator.totals.nodes)
        self._ticker = asyncio.get_running_loop().create_task(self._tick())
        self._ticker.add_done_callback(self._ticked)
        self._coordinator.start(tasks, next_id)
        if self.found.best_cost is not None:
            self._coordinator.beat(self.found.best_cost)
        if not self.done:
            self._pool.attach(self)
            self._check_end()

    async def _open_journal(self, path: Path) -> tuple[dict[int, Any], int]:
        assert self._coordinator is not None
        self._keeper = keeper = Keeper(path, self.warn)
        header = keeper.header(
            self._problem, self._order, self._settings.strategy, self._settings.seed
        )
        if not self._settings.resume:
            await keeper.create(header)
            return {1: ROOT}, 2
        past = await keeper.resume(header)
        self._coordinator.totals.add(past.counts)
        self._before = past.seconds
        for solution in past.solutions:
            self.found.add(solution, self._cost_of(solution))
            await keeper.breathe()
        if self._claims is not None and not self._order.prunes:
            for keys in past.keys:
                for start in range(0, len(keys), 2048):
                    self._claims.preload(keys[start : start + 2048])
                    await keeper.breathe()
        return past.open, past.next_id

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
        )

    # What the pool tells us

    def joined(self, seat: int, pid: int, host: str) -> None:
        if not self.done:
            self._emit(WorkerJoined(seconds=self.seconds, worker=seat, pid=pid, host=host))
            self._books.join(seat, host)

    def drain(self, seat: int) -> None:
        if not self.done:
            self._books.drain(seat)

    def busy(self, seat: int) -> bool:
        return not self.done and self._books.busy(seat)

    @property
    def asks(self) -> bool:
        return self._questions is not None

    def lost(self, seat: int, reason: str, blame: bool, forever: bool = False) -> None:
        if self.done:
            return
        self._deaths += 1
        self._emit(WorkerLost(seconds=self.seconds, worker=seat, reason=reason))
        self._books.lose(seat, blame, forever)
        self._check_end()

    def receive(self, seat: int, message: ToHost, size: int) -> None:
        if self.done:
            return
        self._books.receive(seat, message, size)
        self._check_end()

    def local_session(self, begin: Begin, send: Callable[[ToHost], None]) -> Session:
        return Session(begin, self._problem, self._order, send, self._claims)

    # What the coordinator wants done

    @property
    def _books(self) -> Coordinator:
        assert self._coordinator is not None
        return self._coordinator

    def _send(self, seat: int, message: ToWorker) -> None:
        if self._hooks and isinstance(message, Work) and message.bundles:
            subtrees = sum(bundle.size for bundle in message.bundles)
            self._emit(TaskAssigned(seconds=self.seconds, worker=seat, subtrees=subtrees))
        self._books.seats[seat].bytes += self._pool.send(seat, message)

    def _commit(self, transaction: Transaction) -> None:
        if self._keeper is not None:
            self._keeper.write(transaction, self.seconds)
        if self._hooks:
            self._emit(_reported(transaction, self.seconds))
        costs = transaction.costs or (None,) * len(transaction.solutions)
        for solution, cost in zip(transaction.solutions, costs, strict=True):
            if self.found.add(solution, cost):
                self._improve(solution, cost, transaction.seat)
        if self.found.full:
            self.stop(SearchStatus.LIMIT, f"{len(self.found.encoded)} solutions found")

    def _improve(self, solution: bytes, cost: float | None, seat: int) -> None:
        if cost is not None:
            self._books.beat(cost)
        seconds, number = self.seconds, len(self.found.improving)
        self._hooks.emit_made(
            lambda: Improved(
                seconds=seconds,
                number=number,
                solution=self.decode_solution(solution),
                cost=cost,
                worker=seat,
            )
        )
        self._wake()

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
                f"z3 cannot read an obligation of {self._name}, so it is unknown: {verdict.reason}"
            )
        self._books.judge(digest, verdict.status)
        self._check_end()

    def _withdraw(self, digest: bytes) -> None:
        if self._questions is not None:
            self._questions.withdraw(digest)

    def _release_claims(self, seat: int, owner: int, committed: int) -> None:
        if isinstance(self._claims, SharedClaims):
            self._claims.release(owner, committed)
            self._pool.release_claims(self, seat, owner, committed)

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
        """Ends the search early: asks for last reports, and closes the books soon after."""
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
                self._status, self._reason = SearchStatus.COMPLETE, "everything is explored"
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
        self._ended = time.monotonic()
        if self._coordinator is not None:
            self._coordinator.stop()
        stuck = [] if self._coordinator is None else self._coordinator.unsettled()
        self._pool.detach(self)
        for seat in stuck:
            self._pool.probe(seat)
        try:
            self._emit_end()
        finally:
            self._wake()

    def _emit_end(self) -> None:
        result = self.result()
        self._emit(
            SearchFinished(
                seconds=self.seconds,
                status=str(self._status),
                reason=self._reason,
                nodes=self._coordinator.totals.nodes if self._coordinator else 0,
                solutions=len(self.found.encoded),
                best=result.best,
                best_cost=result.best_cost,
            )
        )

    async def close(self) -> None:
        """Gives everything back. The search must have been stopped, or be done, or never begun."""
        while self._settling and not self.done:
            await self._changed.wait()
        self.done = True
        if self._ticker is not None:
            self._ticker.cancel()
            await asyncio.gather(self._ticker, return_exceptions=True)
        if self._questions is not None:
            self._questions.withdraw_all()
        if self._keeper is not None:
            await self._keeper.close()
        if isinstance(self._claims, SharedClaims):
            self._claims.close()
        await self._hooks.close(GRACE_SECONDS)

    def raise_failure(self) -> None:
        if self._error is not None:
            raise self._error

    # Watching

    async def _tick(self) -> None:
        """Looks after limits, the reports' rhythm and progress."""
        limits = self._settings.limits
        next_memory = next_progress = 0.0
        interval = REPORT_SECONDS
        while not self.done:
            await asyncio.sleep(TICK_SECONDS)
            now = self.seconds
            if limits.seconds is not None and now >= limits.seconds:
                before = ", those before the resume included" if self._before else ""
                self.stop(SearchStatus.LIMIT, f"{limits.seconds:g} seconds are over{before}")
            if limits.memory is not None and now >= next_memory:
                next_memory = now + MEMORY_SECONDS
                if self._pool.memory() > limits.memory:
                    reason = f"more than {limits.memory} bytes of memory in use"
                    self.stop(SearchStatus.LIMIT, reason)
            if limits.checks and self._questions and self._questions.checks >= limits.checks:
                self.stop(SearchStatus.LIMIT, f"{limits.checks} questions asked of z3")
            if now * REPORT_SHARE > 2 * interval and not self.done:
                interval = now * REPORT_SHARE
                self._books.set_interval(interval)
                self._books.ask_reports(interval)
            if self._hooks and now >= next_progress:
                next_progress = now + self._settings.progress_seconds
                self._emit(self._progress())

    def _ticked(self, ticker: asyncio.Task[None]) -> None:
        """Looking after a search must not fail unseen."""
        error = None if ticker.cancelled() else ticker.exception()
        if isinstance(error, Exception):
            self.fail(error)

    def _progress(self) -> Progress:
        books = self._books
        nodes = books.totals.nodes
        explored = min(max(1.0 - books.ledger.weight, 0.0), 1.0)
        remaining = None
        if explored > 0.01 and not self._order.prunes:
            remaining = self.seconds * (1.0 - explored) / explored
        checks = self._questions.statistics() if self._questions else None
        return Progress(
            seconds=self.seconds,
            nodes=nodes,
            nodes_per_second=self._pace.rate(self.seconds, nodes),
            open=books.ledger.subtrees,
            solutions=len(self.found.encoded),
            best_cost=self.found.best_cost,
            explored=explored,
            remaining=remaining,
            cache_hits=checks.memory_hits + checks.disk_hits if checks else 0,
            checks=checks.checks if checks else 0,
            checks_in_flight=checks.in_flight if checks else 0,
        )

    @property
    def seconds(self) -> float:
        """Search time: what a journal holds, and what has passed since the start."""
        if self._started is None:
            return 0.0
        return self._before + (self._ended or time.monotonic()) - self._started

    def warn(self, message: str) -> None:
        log.warning(message)
        self._emit(Warned(seconds=self.seconds, message=message))

    def checked(self, record: CheckRecord) -> None:
        """Passes z3's answers on to the hooks."""
        offset = self._before - (self._started or 0.0)
        self._emit(
            Checked(
                seconds=record.end + offset,
                process=record.process,
                status=str(record.status),
                started=record.start + offset,
            )
        )

    def state(self) -> dict[str, Any]:
        """How the search gets on, for people elsewhere."""
        books = self._coordinator
        seats = books.seats if books else ()
        return {
            "problem": self._name,
            "strategy": self._settings.strategy,
            "seconds": round(self.seconds, 3),
            "nodes": books.totals.nodes if books else 0,
            "open": books.ledger.subtrees if books else 1,
            "solutions": len(self.found.encoded),
            "best_cost": self.found.best_cost,
            "busy": sum(place.busy for place in seats),
            "seats": sum(place.alive for place in seats),
        }

    async def changed(self) -> None:
        """Waits until there is an improvement or an end."""
        await self._changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    def _emit(self, event: AnyEvent) -> None:
        self._hooks.emit(event)

    def decode_solution(self, solution: bytes) -> Any:
        return self._decode(solution)

    def result(self) -> Result[Any]:
        found = self.found
        return Result(
            self._status,
            self._reason,
            None if found.best is None else self.decode_solution(found.best),
            found.best_cost,
            Solutions(found.encoded, self.decode_solution),
            self.statistics(),
            self._error,
        )

    def statistics(self) -> Statistics:
        books = self._coordinator
        counts = books.totals if books else Counts()
        now = time.monotonic_ns()
        return Statistics(
            seconds=self.seconds,
            nodes=counts.nodes,
            leaves=counts.leaves,
            depth=counts.depth,
            open=books.ledger.subtrees if books else 1,
            pruned=counts.pruned,
            duplicates=counts.duplicates,
            reopened=counts.reopened,
            unclaimed=counts.unclaimed,
            proved=counts.proved,
            refuted=counts.refuted,
            unknown=counts.unknown,
            skipped=counts.skipped,
            published=counts.published,
            solutions=len(self.found.encoded),
            hook_errors=self._hooks.errors,
            worker_deaths=self._deaths,
            workers=tuple(seat.statistics(now) for seat in books.seats) if books else (),
            checks=self._questions.statistics() if self._questions else None,
        )


def _reported(transaction: Transaction, seconds: float) -> WorkReported:
    counts = transaction.counts
    return WorkReported(
        seconds=seconds,
        worker=transaction.seat,
        nodes=counts.nodes,
        busy=counts.busy_ns / 1e9,
        waiting=counts.waiting_ns / 1e9,
        kept=sum(bundle.size for _, bundle in transaction.opened),
        given=counts.published,
    )
