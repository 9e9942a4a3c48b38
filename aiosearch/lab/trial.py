"""One run of an `Arm`, a search on a pool of its own, whose processes have started before, with the
CPU time of all processes that descend from it; and a contest of all arms: each round runs every arm
once, in an order that is drawn.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from random import Random
from statistics import fmean

import msgspec
from msgspec import Struct

from ..checks import VerifierStatistics
from ..checks.solver_process import MODULE as SOLVER
from ..engine.run.run import OnUnknown
from ..engine.worker.slots import MODULE as WORKER
from ..errors import AiosearchError, ProblemError, WorkerError
from ..limits import Limits
from ..pool import Pool, resident_bytes
from ..problem import AnyProblem
from ..result import Result, SearchStatus
from ..search import Search
from ..statistics import WorkerStatistics
from .arms import Arm
from .ready_pool import ready_pool
from .static_split import strategy_of

SAMPLE_SECONDS = 0.1
TICKS = os.sysconf("SC_CLK_TCK")


def descendants(pid: int) -> Iterator[int]:
    """The processes that descend from `pid`; none where the system does not list them."""
    for task in _listed(Path(f"/proc/{pid}/task")):
        with suppress(OSError):
            for child in map(int, (task / "children").read_text().split()):
                # Depth first, and each level read anew: processes come and go meanwhile
                yield child
                yield from descendants(child)


def cpu_seconds(pid: int) -> float:
    """CPU seconds of a process until now; 0 where `pid` is gone or its times cannot be read."""
    with suppress(OSError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS
    return 0.0


def arguments(pid: int) -> list[str]:
    """The command line of a process; empty where `pid` is gone or it cannot be read."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    return []


class Family:
    """Watches the processes that this one has started; `peak` is the most memory that they ever
    occupied."""

    def __init__(self) -> None:
        self.peak = 0
        # Processes that were there before count from now on only
        self._before = {pid: cpu_seconds(pid) for pid in descendants(os.getpid())}

    @property
    def cpu(self) -> float:
        """CPU seconds since the start of watching, of those that still live."""
        return sum(map(self._spent, descendants(os.getpid())))

    def cpu_of(self, module: str) -> tuple[float, ...]:
        """CPU seconds of each process that runs as `python -m MODULE`."""
        mine = (pid for pid in descendants(os.getpid()) if module in arguments(pid))
        return tuple(map(self._spent, mine))

    async def watch(self) -> None:
        """Calls `look` every `SAMPLE_SECONDS`, until it is cancelled."""
        while True:
            self.look()
            await asyncio.sleep(SAMPLE_SECONDS)

    def look(self) -> None:
        self.peak = max(self.peak, sum(map(resident_bytes, descendants(os.getpid()))))

    def _spent(self, pid: int) -> float:
        return cpu_seconds(pid) - self._before.get(pid, 0.0)


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


class TrialOutcome(Struct, frozen=True, kw_only=True):
    """What one run came to. Seconds are those of all workers together, but for `seconds`."""

    arm: Arm
    round: int
    complete: bool
    seconds: float
    nodes: int
    solutions: int
    answer: str
    """A digest, equal for equal sets of solutions."""
    best_cost: float | None
    memory: int
    """Bytes resident in all processes but the host, when they were most."""
    cpu: float
    """CPU seconds of all processes but the host."""
    busiest: float = 0.0
    """CPU seconds of the worker or z3 process that spent most."""
    worker_cpu: tuple[float, ...] = ()
    """CPU seconds of each worker, in no order."""
    balance: float
    """Mean over maximum of the workers' busy time."""
    busy: float
    idle: float
    """Seconds with nothing to do."""
    waiting: float
    """Seconds with nothing to do but wait for verdicts."""
    messages: int
    bytes: int
    steals: int
    checks: int
    """Questions that z3 itself answered."""
    queue_seconds: float
    """Seconds for which those checks had waited for a z3 process."""

    @property
    def idle_share(self) -> float:
        return self.idle / (self.arm.workers * self.seconds)

    @property
    def cpu_balance(self) -> float:
        """Mean over maximum of the workers' CPU seconds."""
        return fmean(self.worker_cpu) / max(self.worker_cpu) if any(self.worker_cpu) else 1.0

    @property
    def cpu_least(self) -> float:
        """Least over most of the workers' CPU seconds, `worker_cpu`."""
        return min(self.worker_cpu) / max(self.worker_cpu) if any(self.worker_cpu) else 1.0

    @property
    def contention(self) -> float:
        """The share of the workers' time in which they waited for the verification service."""
        return self.waiting / (self.arm.workers * self.seconds)


async def run_once(
    problem: AnyProblem,
    arm: Arm,
    round: int = 0,
    seconds: float | None = None,
    on_unknown: OnUnknown = "defer",
) -> TrialOutcome:
    """Runs an arm from cold, for so many `seconds` at most.

    Raises `WorkerError` where its workers cannot be had, or one of them is lost.
    """
    async with ready_pool(problem, arm) as pool:
        # What warming up asked is not this run's
        before = _checked(pool)
        family = Family()
        watching = asyncio.create_task(family.watch())
        try:
            async with Search(
                problem,
                pool=pool,
                strategy=strategy_of(arm),
                order=arm.order,
                limits=Limits(seconds=seconds),
                seed=round,
                on_unknown=on_unknown,
            ) as search:
                result = await search.wait()
                # Before the pool ends its processes, whose CPU time would be gone with them
                family.look()
                measured = family.peak, family.cpu, family.cpu_of(WORKER), family.cpu_of(SOLVER)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        _require_all(arm, result)
        return _outcome(arm, round, result, before, _checked(pool), *measured)


def _require_all(arm: Arm, result: Result[object]) -> None:
    """A run counts with all its workers, and with no others."""
    statistics = result.statistics
    if statistics.worker_deaths:
        raise WorkerError(f"workers died: {statistics.worker_deaths}")
    if len(statistics.workers) != arm.workers:
        raise WorkerError(f"workers: {len(statistics.workers)} served, not {arm.workers}")


def _checked(pool: Pool) -> tuple[int, float]:
    """Checks and seconds in the queue until now."""
    if pool.verifier is None:
        return 0, 0.0
    verifier: VerifierStatistics = pool.verifier.statistics()
    return verifier.checks, verifier.queue_seconds


def _outcome(
    arm: Arm,
    round: int,
    result: Result[object],
    before: tuple[int, float],
    after: tuple[int, float],
    memory: int,
    cpu: float,
    worker_cpu: tuple[float, ...],
    solver_cpu: tuple[float, ...],
) -> TrialOutcome:
    statistics = result.statistics
    workers: tuple[WorkerStatistics, ...] = statistics.workers
    return TrialOutcome(
        arm=arm,
        round=round,
        complete=result.status is SearchStatus.COMPLETE,
        seconds=statistics.seconds,
        nodes=statistics.nodes,
        solutions=statistics.solutions,
        answer=_digest(result),
        best_cost=result.best_cost,
        memory=memory,
        cpu=cpu,
        busiest=max(worker_cpu + solver_cpu, default=0.0),
        worker_cpu=worker_cpu,
        balance=statistics.balance,
        busy=sum(worker.busy for worker in workers),
        idle=sum(worker.idle for worker in workers),
        waiting=sum(worker.waiting for worker in workers),
        messages=sum(worker.messages for worker in workers),
        bytes=sum(worker.bytes for worker in workers),
        steals=sum(worker.steals for worker in workers),
        checks=after[0] - before[0],
        queue_seconds=after[1] - before[1],
    )


def _digest(result: Result[object]) -> str:
    # Sorted: workers find solutions in any order
    state = blake2b(digest_size=16)
    for encoded in sorted(map(msgspec.msgpack.encode, result.solutions)):
        state.update(len(encoded).to_bytes(8, "little") + encoded)
    return state.hexdigest()


class ArmContest:
    """Runs arms with `run_once`, and keeps what they came to; what is there is whole at any
    time."""

    def __init__(
        self,
        problem: AnyProblem,
        arms: Sequence[Arm],
        repeat: int,
        seconds: float | None = None,
        seed: int = 0,
        begins: Callable[[Arm], None] = lambda arm: None,
        ended: Callable[[TrialOutcome], None] = lambda outcome: None,
        on_unknown: OnUnknown = "defer",
    ) -> None:
        self.arms = tuple(arms)
        self.outcomes: list[TrialOutcome] = []
        self.failures: dict[Arm, str] = {}
        """Arms that could not be run, and why; an `Arm` of these is not tried again."""
        self._problem = problem
        self._repeat = repeat
        self._seconds = seconds
        self._seed = seed
        self._on_unknown = on_unknown
        self._begins, self._ended = begins, ended
        self._done = 0
        self._started = time.monotonic()

    async def run(self) -> None:
        """Runs all rounds; raises `ProblemError` where it is the problem that fails."""
        for round in range(self._repeat):
            arms = list(self.arms)
            # Drawn anew in every round, as in `run_race`: no arm always runs after the same
            # neighbour
            Random(f"{self._seed} {round}").shuffle(arms)
            for arm in arms:
                if arm not in self.failures:
                    self._begins(arm)
                    await self._run(arm, round)
                self._done += 1

    async def _run(self, arm: Arm, round: int) -> None:
        try:
            outcome = await run_once(self._problem, arm, round, self._seconds, self._on_unknown)
        except ProblemError:
            raise
        # A strategy that cannot run here is a row that says so, not the end of the contest
        except AiosearchError as error:
            self.failures[arm] = str(error)
        else:
            self.outcomes.append(outcome)
            self._ended(outcome)

    @property
    def progress(self) -> tuple[int, int]:
        """Runs that are done, and runs in all."""
        return self._done, len(self.arms) * self._repeat

    @property
    def remaining(self) -> float | None:
        """Seconds to go, if what is left takes as long as what is done; None before that."""
        done, all = self.progress
        if not done:
            return None
        return (time.monotonic() - self._started) * (all - done) / done
