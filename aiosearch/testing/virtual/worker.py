"""A worker on a virtual clock: the real `WorkerSession`, whose nodes and reports take simulated
time."""

from __future__ import annotations

import functools
from collections import deque
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ...engine.wire.messages import Begin, ToHost, ToWorker, WorkerReport
from ...engine.worker.session import WorkerSession
from ...engine.worker.worker_main import SLICE_NS, WAKE_SECONDS
from ...problem import AnyProblem

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...engine.worker.work_sharing import WorkSharing
    from ...orders import Order
    from .machines import Claims

WAKE_NS = int(WAKE_SECONDS * 1e9)


class Costs(Struct, frozen=True):
    """What takes how many nanoseconds."""

    latency: Callable[[int], int]
    """Between the host and a seat."""
    node: Callable[[Any], int]
    report: Callable[[int], int]
    """By the number of subtrees in it."""
    host: int
    """A message, to the host."""
    steal: int = 0
    """Nanoseconds for taking what another worker offers."""
    wake: int = 0
    """Nanoseconds from an offer until a worker wakes up that waited for one."""


class SimulatedClock:
    """Tells a time that passes only where something adds to `now`."""

    __slots__ = ("now",)

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now


class TimedProblem:
    """A problem whose nodes take time on a clock; in everything else it is the problem itself.

    Both explorers call `solutions` once for each node that they count, so the time passes there.
    """

    def __init__(
        self, problem: AnyProblem, clock: SimulatedClock, cost: Callable[[Any], int]
    ) -> None:
        self._problem = problem

        @functools.wraps(problem.solutions)  # the annotation tells what a solution is
        def solutions(node: Any) -> Any:
            clock.now += max(cost(node), 1)  # a slice has to come to its end
            return problem.solutions(node)

        self.solutions = solutions

    def __getattr__(self, name: str) -> Any:
        return getattr(self._problem, name)


def timed(problem: AnyProblem, clock: SimulatedClock, cost: Callable[[Any], int]) -> TimedProblem:
    """Wraps a problem; errors go on naming the problem's own class."""
    named: type[TimedProblem] = type(type(problem).__qualname__, (TimedProblem,), {})
    return named(problem, clock, cost)


class VirtualWorker:
    """One life of one worker: like the real one, it takes its messages between slices.

    A step runs ahead of the others' time, to the end of its slice; `send` gets each message
    together with the moment at which it leaves.
    """

    def __init__(
        self,
        problem: AnyProblem,
        order: Order,
        costs: Costs,
        send: Callable[[VirtualWorker, int, ToHost], None],
    ) -> None:
        self.clock = SimulatedClock()
        self.due: int | None = None
        """When the step on the agenda comes, on the simulation's clock."""
        self.died: int | None = None
        self._problem = timed(problem, self.clock, costs.node)
        self._order = order
        self._report_cost = costs.report
        self._steal_cost = costs.steal
        self._leave = send
        self._inbox: deque[tuple[ToWorker, Claims | None, WorkSharing | None]] = deque()
        self._session: WorkerSession | None = None

    def deliver(
        self, message: ToWorker, claims: Claims | None = None, sharing: WorkSharing | None = None
    ) -> None:
        """Puts a message in the inbox; the first one, `Begin`, with what is shared."""
        self._inbox.append((message, claims, sharing))

    @property
    def seeks(self) -> bool:
        """Whether it waits for what other workers offer."""
        return self.died is None and self._session is not None and self._session.seeking

    def step(self, at: int) -> None:
        """Takes the messages that are there, then explores for one slice."""
        self.clock.now = max(self.clock.now, at)
        while self._inbox:
            self._take(*self._inbox.popleft())
        if self._session is None:
            return
        # Taking something takes time as well, before the slice that explores it
        if self._session.seek():
            self.clock.now += self._steal_cost
        if self._session.ready:
            self._session.slice(self.clock() + SLICE_NS)
        else:
            self._session.wake()

    def next_step(self) -> int | None:
        """Says when there will be something to do, if no message comes before."""
        session = self._session
        if session is None:
            return None
        if (lingering := session.lingering) is not None:
            return self.clock.now + int(lingering * 1e9) + 1
        if not (session.ready or session.dirty):
            return None
        return self.clock.now + (0 if session.ready else WAKE_NS)

    def _take(self, message: ToWorker, claims: Claims | None, sharing: WorkSharing | None) -> None:
        if isinstance(message, Begin):
            self._session = WorkerSession(
                message, self._problem, self._order, self._send, claims, self.clock, sharing
            )
        elif self._session is not None:
            self._session.receive(message)

    def _send(self, message: ToHost) -> None:
        if isinstance(message, WorkerReport):
            bundles = (*message.kept, *message.given)
            self.clock.now += self._report_cost(sum(bundle.size for bundle in bundles))
        self._leave(self, self.clock.now, message)
