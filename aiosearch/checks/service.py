"""The verification service: every question is answered once, from memory, from disk or by z3."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Literal, Protocol, Self

from ..errors import AiosearchError, WorkerError
from .cache import DEFAULT_CACHE, FLEETING, Cache, default_cache_path, serves
from .questions import PendingQuestion, Ticket, z3_version
from .questions import digest as digest_of
from .solver_pool import SolverPool
from .solver_process import SolverLimits
from .verdict import CheckRecord, Status, Verdict, VerifierStatistics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path
    from types import TracebackType

    from ..problem import Obligation
    from ..processes.child import Handle

logger = logging.getLogger("aiosearch")


class Lender(Protocol):
    """Another machine, on which z3 processes can be started."""

    @property
    def checkers(self) -> int:
        """How many."""
        ...

    async def checker(
        self,
        limits: tuple[float, int],
        on_frame: Callable[[bytes], None],
        on_gone: Callable[[], None],
        /,
    ) -> Handle:
        """Starts one, with seconds for a question and megabytes of memory as `limits`."""
        ...


class Verifier:
    """Answers obligations with z3, in processes that can be killed, behind a cache.

        async with Verifier() as verifier:
            verdict = await verifier.check(Obligation("(declare-const x Int) (assert (< x x))"))

    Serves any number of searches at once; processes start with the first question that needs one.
    A check ends when it has spent its `rlimit`, which is deterministic, or `seconds`; a process
    that does not stop then, crashes or needs more than `memory_mb` is replaced, and its question
    is tried once more before it is `unknown`.

    `warn` is told, in a sentence, when the cache file cannot be used; without it, the sentence is
    logged. `on_check` hears of every answered check, `on_failure` once if z3 cannot be started.
    """

    def __init__(
        self,
        processes: int = 1,
        cache: Path | Literal["default"] | None = DEFAULT_CACHE,
        axioms: Mapping[str, str] | None = None,
        rlimit: int = 80_000,
        seconds: float = 10.0,
        memory_mb: int = 1024,
        warn: Callable[[str], None] | None = None,
        on_check: Callable[[CheckRecord], None] | None = None,
        on_failure: Callable[[WorkerError], None] | None = None,
    ) -> None:
        if processes < 1 or rlimit < 1 or seconds <= 0 or memory_mb < 1:
            raise ValueError("a verifier needs processes, rlimit, seconds and memory_mb above zero")
        self._path = default_cache_path() if cache == DEFAULT_CACHE else cache
        self._warn = warn or logger.warning
        self._axioms = dict(axioms or {})
        self._rlimit = rlimit
        self._on_failure = on_failure
        self._limits = SolverLimits(rlimit, seconds, memory_mb)
        self._pool = SolverPool(processes, self._limits, self._answered, self._failed, on_check)
        self._cache: Cache | None = None
        self._closed = False
        self._failure: WorkerError | None = None
        self._open: dict[bytes, PendingQuestion] = {}
        self._futures: set[asyncio.Future[Verdict]] = set()
        self._asked = self._memory_hits = self._disk_hits = self._joined = 0
        self._counts = dict.fromkeys(Status, 0)
        self._lent: dict[Lender, tuple[int, ...]] = {}
        self._note: Callable[[bytes, Verdict], None] | None = None

    async def __aenter__(self) -> Self:
        if self._cache is not None or self._closed:
            raise RuntimeError("a verifier is opened once")
        self._cache = Cache(self._path, self._warn)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Kills the processes and writes what is not written. Safe to call twice.

        Nobody is called back any more; a `check` that waits raises `WorkerError`.
        """
        if self._closed:
            return
        self._closed = True
        self._forget_all(WorkerError("the verifier was closed"))
        await self._pool.close()
        if self._cache is not None:
            await self._cache.close()

    @property
    def z3_version(self) -> str:
        """What `digest` needs; raises `WorkerError` when z3 is not installed."""
        return z3_version()

    @property
    def pids(self) -> tuple[int, ...]:
        """The z3 processes there are at this moment."""
        return self._pool.pids

    def ask(
        self,
        digest: bytes,
        obligation: Obligation,
        done: Callable[[Verdict], None],
        axioms: str = "",
        priority: float = 0.0,
    ) -> Verdict | Ticket:
        """Gives the verdict if it is remembered, else a ticket; `done` is called back only
        then.

        `digest` is that of the obligation with the axioms' text and `z3_version`. The
        lowest `priority` is asked first. `done` may ask and drop; it is not called after
        `drop` or `close`. Raises `WorkerError` when z3 could not be started.
        """
        cache = self._usable()
        self._asked += 1
        rlimit = obligation.rlimit or self._rlimit
        verdict = cache.recall(digest, rlimit)
        if verdict is not None:
            self._memory_hits += 1
            return verdict
        if self._failure is not None:
            raise WorkerError(*self._failure.args)
        question = self._open.get(digest)
        if question is not None:
            ticket = Ticket(question, done, rlimit)
            self._join(question, rlimit, priority)
            question.tickets.append(ticket)
            return ticket
        question = self._open[digest] = PendingQuestion(
            digest, obligation, axioms, rlimit, priority
        )
        ticket = Ticket(question, done, rlimit)
        question.tickets.append(ticket)
        # The file first: a read of it shares one turn of its thread with others, a check costs a
        # process
        if cache.may_hold(digest):
            cache.fetch(digest, lambda verdict: self._looked_up(question, verdict))
        else:
            self._pool.submit(question)
        return ticket

    def drop(self, ticket: Ticket) -> None:
        """Takes a `Ticket` back; a question that nobody claims is not asked, if it is not
        too late."""
        if not ticket.live:
            return
        ticket.live = False
        question = ticket.question
        question.tickets.remove(ticket)
        # What a process has already is answered anyway, and the cache will know it
        if not question.tickets and question.queued:
            self._pool.backlog.discard(question)
            del self._open[question.digest]

    async def warm_up(self) -> None:
        """Starts every process at once, and returns when they have loaded z3."""
        self._usable()
        await self._pool.warm_up()

    async def check(self, obligation: Obligation, priority: float = 0.0) -> Verdict:
        """Answers one obligation. Cancelling the call drops the question."""
        axioms = self._axiom_text(obligation.axioms)
        digest = digest_of(obligation, axioms, self.z3_version)
        future: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        answer = self.ask(digest, obligation, future.set_result, axioms, priority)
        if isinstance(answer, Verdict):
            return answer
        self._futures.add(future)
        try:
            return await future
        finally:
            self._futures.discard(future)
            self.drop(answer)

    def add(self, host: Lender) -> None:
        """Has the processes of another machine answer too; their verdicts are not kept on disk."""
        limits = self._limits.seconds, self._limits.memory_mb
        self._lent[host] = self._pool.add(host.checkers, partial(host.checker, limits))

    def remove(self, host: Lender) -> None:
        """Another machine's processes are gone."""
        self._pool.remove(self._lent.pop(host, ()))

    def share(
        self, verdicts: Iterable[tuple[bytes, Verdict]], note: Callable[[bytes, Verdict], None]
    ) -> None:
        """Takes verdicts from elsewhere, which are not kept on disk; `note` is called with
        each new one, but for `FLEETING` ones."""
        for digest, verdict in verdicts:
            self._usable().put(digest, verdict, keep=False)
        self._note = note

    def statistics(self) -> VerifierStatistics:
        return VerifierStatistics(
            asked=self._asked,
            checks=self._pool.checks,
            memory_hits=self._memory_hits,
            disk_hits=self._disk_hits,
            joined=self._joined,
            proved=self._counts[Status.PROVED],
            refuted=self._counts[Status.REFUTED],
            unknown=self._counts[Status.UNKNOWN],
            restarts=self._pool.restarts,
            cpu_seconds=self._pool.cpu_seconds,
            queue_seconds=self._pool.queue_seconds,
            in_flight=self._pool.in_flight,
            queued=len(self._pool.backlog),
        )

    def _usable(self) -> Cache:
        if self._cache is None or self._closed:
            raise RuntimeError("a verifier answers inside its `async with` block")
        return self._cache

    def _axiom_text(self, name: str) -> str:
        if not name:
            return ""
        try:
            return self._axioms[name]
        except KeyError:
            names = ", ".join(sorted(self._axioms)) or "none"
            raise AiosearchError(f"no axiom set is named {name!r}; there are: {names}") from None

    def _join(self, question: PendingQuestion, rlimit: int, priority: float) -> None:
        self._joined += 1
        if question.sent:
            return
        # One check for all askers, with the largest budget among them
        question.rlimit = max(question.rlimit, rlimit)
        if priority < question.priority:
            question.priority = priority
            if question.queued:
                self._pool.submit(question)

    def _looked_up(self, question: PendingQuestion, verdict: Verdict | None) -> None:
        if self._closed or self._failure is not None:
            return
        if verdict is not None and serves(verdict, question.rlimit):
            self._disk_hits += 1
            self._settle(question, verdict)
        elif question.tickets:
            self._pool.submit(question)
        else:
            del self._open[question.digest]

    def _answered(self, question: PendingQuestion, verdict: Verdict, local: bool) -> None:
        self._counts[verdict.status] += 1
        self._usable().put(question.digest, verdict, keep=local)
        self._settle(question, verdict)

    def _settle(self, question: PendingQuestion, verdict: Verdict) -> None:
        """Calls back who can be served, and asks again for those that allow a larger budget."""
        del self._open[question.digest]
        if self._note is not None and verdict.reason not in FLEETING:
            self._note(question.digest, verdict)
        served = [ticket for ticket in question.tickets if serves(verdict, ticket.rlimit)]
        unserved = [ticket for ticket in question.tickets if not serves(verdict, ticket.rlimit)]
        if unserved:
            self._ask_again(question, unserved)
        for ticket in served:
            # A callback before this one may have dropped this ticket, or closed the verifier
            if ticket.live and not self._closed:
                ticket.live = False
                self._call(ticket, verdict)

    def _ask_again(self, old: PendingQuestion, tickets: list[Ticket]) -> None:
        rlimit = max(ticket.rlimit for ticket in tickets)
        question = PendingQuestion(old.digest, old.obligation, old.axioms, rlimit, old.priority)
        question.tickets = tickets
        for ticket in tickets:
            ticket.question = question
        self._open[question.digest] = question
        self._pool.submit(question)

    def _call(self, ticket: Ticket, verdict: Verdict) -> None:
        try:
            ticket.done(verdict)
        except Exception as error:  # one asker's fault must not cost the others their answers
            context = {"message": "an asker failed at its verdict", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)

    def _failed(self, error: WorkerError) -> None:
        self._failure = error
        self._forget_all(error)
        if self._on_failure is not None:
            self._on_failure(error)

    def _forget_all(self, error: WorkerError) -> None:
        for question in self._open.values():
            for ticket in question.tickets:
                ticket.live = False
        self._open.clear()
        for future in self._futures:
            if not future.done():
                future.set_exception(error)
