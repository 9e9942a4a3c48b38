"""Runs a strategy on a virtual clock: the engine's own code, pretended time and no processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct
from msgspec.msgpack import Decoder

from ...engine.explore.capabilities import is_async
from ...engine.wire.reference import element_type, return_type
from ...errors import AiosearchError
from ...orders import Order, find_order
from ...search import check_problem
from ...statistics import WorkerStatistics
from ...strategies import Plan, Strategy, find_strategy
from .simulator import Death, Simulator, SolverService
from .worker import Costs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ...checks.verdict import Verdict
    from ...problem import AnyProblem, Obligation
    from .simulator import Trace

ValueT = TypeVar("ValueT")


class Simulation(Struct, frozen=True, kw_only=True):
    """What a simulated search came to. Two simulations are equal where the same things happened."""

    seconds: float
    """From the start until the host has heard that nothing is open, or the limit is reached."""
    solutions: tuple[Any, ...]
    """Distinct solutions, in the order in which the host heard of them."""
    best_cost: float | None
    nodes: int
    tasks: int
    """Hand-outs to workers."""
    messages: int
    """Messages both ways."""
    checks: int
    """Questions that a z3 process answered."""
    host: float
    """Seconds for which the host worked."""
    deaths: int
    workers: tuple[WorkerStatistics, ...]
    trace: Trace
    """What the host sent and heard, in its own order: seconds, worker, what."""

    @property
    def busy(self) -> float:
        """Seconds of exploring that counted, of all workers together."""
        return sum(worker.busy for worker in self.workers)

    @property
    def contention(self) -> float:
        """The share of the workers' time in which they had nothing to do but wait for verdicts."""
        whole = len(self.workers) * self.seconds
        return sum(worker.waiting for worker in self.workers) / whole if whole else 0.0

    @property
    def efficiency(self) -> float:
        """The share of the workers' time that they explored."""
        whole = len(self.workers) * self.seconds
        return self.busy / whole if whole else 1.0

    @property
    def balance(self) -> float:
        """Mean over maximum of the workers' busy time: 1 where all did the same."""
        most = max(worker.busy for worker in self.workers)
        return self.busy / len(self.workers) / most if most else 1.0


def report_seconds(subtrees: int) -> float:
    """Estimates the seconds that writing a report costs its worker, by how many subtrees it
    carries."""
    return 20e-6 + 1e-6 * subtrees


STEAL_SECONDS = 30e-6
"""Seconds for taking what another worker offers, with what it costs to load it."""
RING_SECONDS = 20e-6
"""Seconds from an offer until a worker wakes up that waited for one."""


def simulate(
    strategy: str | Strategy | type[Strategy],
    problem: AnyProblem,
    workers: int = 4,
    *,
    order: str | Order | None = None,
    hosts: int = 1,
    latency: float = 100e-6,
    local_latency: float | None = None,
    node_seconds: float | Callable[[Any], float] = 1e-6,
    report_cost: float | Callable[[int], float] = report_seconds,
    host_seconds: float = 0.0,
    checkers: int = 1,
    verdict: Callable[[Obligation], Verdict] | None = None,
    shared_verdicts: bool = True,
    locked: float = 0.0,
    contention: float = 0.0,
    seed: int = 0,
    node_limit: int | None = None,
    faults: Iterable[Death] = (),
) -> Simulation:
    """Searches with the engine's own code on a virtual clock; the same input gives the same trace.

    A node takes its worker `node_seconds` (a number, or a function of the node), a report
    `report_cost` (a number, or a function of how many subtrees it carries), and a message
    `latency` on its way, and `host_seconds` of the host, which handles one at a time. Workers are
    spread evenly over `hosts` machines; on the first, which is the host's own, messages take
    `local_latency` (by default no less). `node_limit` ends the search early. Where the problem has
    obligations, `verdict` says what z3 answers and how long that takes one of the `checkers`; of
    verdicts that are not shared, each machine asks for its own, and on the first each worker. Only
    one checker at a time can be at the last part of its check, a share of `locked`, and each that
    waits for that makes it take `contention` longer, as a share of what it takes alone.
    Raises what the search would raise, and StrategyError where nothing more happens. Simulates no
    asynchronous expand, and one table of keys for all machines.
    """
    deaths = tuple(faults)
    _check(problem, workers, hosts, checkers, deaths)
    if hasattr(problem, "obligation") and verdict is None:
        raise AiosearchError("a simulation has no z3; say what it would answer with `verdict`")
    # Spread evenly, in runs: with 4 workers on 2 machines the places are 0, 0, 1, 1
    places = [seat * hosts // workers for seat in range(workers)]
    near = _ns(latency if local_latency is None else local_latency)
    far = _ns(latency)
    costs = Costs(
        lambda seat: far if places[seat] else near,
        _in_ns(node_seconds),
        _in_ns(report_cost),
        _ns(host_seconds),
        _ns(STEAL_SECONDS),
        _ns(RING_SECONDS),
    )
    found_order = find_order(order, problem)
    # A plan counts the host's own workers; the others join
    plan = Plan(places.count(0), found_order.greedy or found_order.by_level, seed)
    chosen_strategy = find_strategy(strategy)
    names = tuple(f"host {place}" if place else "" for place in places)
    service = (
        None
        if verdict is None
        else SolverService(checkers, verdict, shared_verdicts, locked, contention)
    )
    simulator = Simulator(
        chosen_strategy, problem, found_order, plan, names, costs, service, node_limit
    )
    simulator.run(deaths)
    return _summary(simulator, problem)


def _check(
    problem: AnyProblem, workers: int, hosts: int, checkers: int, deaths: tuple[Death, ...]
) -> None:
    check_problem(problem)
    if workers < 1:
        raise AiosearchError(f"a simulation needs at least one worker, not {workers}")
    if hosts < 1 or checkers < 1:
        raise AiosearchError("a simulation needs at least one machine and one z3 process")
    if is_async(problem):
        raise AiosearchError("a simulation has no event loop; give a plain expand")
    if strangers := [death.worker for death in deaths if not 0 <= death.worker < workers]:
        raise AiosearchError(f"worker {strangers[0]} cannot die: there are {workers} of them")


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)


def _in_ns(seconds: float | Callable[[ValueT], float]) -> Callable[[ValueT], int]:
    if callable(seconds):
        return lambda value: _ns(seconds(value))
    fixed = _ns(seconds)
    return lambda value: fixed


def _summary(simulator: Simulator, problem: AnyProblem) -> Simulation:
    decode = Decoder(element_type(return_type(problem, "solutions"))).decode
    seats = simulator.books.seats
    return Simulation(
        seconds=simulator.now / 1e9,
        solutions=tuple(map(decode, simulator.found.encoded)),
        best_cost=simulator.found.best_cost,
        nodes=simulator.books.totals.nodes,
        tasks=sum(seat.tasks for seat in seats),
        messages=sum(seat.messages for seat in seats),
        checks=simulator.checkers.checks if simulator.checkers else 0,
        host=simulator.desk.spent / 1e9,
        deaths=simulator.deaths,
        workers=tuple(seat.statistics(simulator.now) for seat in seats),
        trace=tuple(simulator.trace),
    )
