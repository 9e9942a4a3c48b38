"""The virtual clock adds up as a pencil would, and the same input gives the same trace."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pytest

from aiosearch import AiosearchError, ProblemError
from aiosearch.checks import Status, Verdict
from aiosearch.problem import Obligation
from aiosearch.strategies import Joined
from aiosearch.strategies.queue import Queue
from aiosearch.testing import Death, Simulation, expected, simulate
from aiosearch.testing.problems import (
    Awaited,
    Balanced,
    Failing,
    Grid,
    Knapsack,
    Obliged,
    Random,
    Spine,
)

TWINS = Balanced(branching=2, depth=5)
"""A root, and two subtrees of 31 nodes each; no solution, which would be reported at once."""
NODE, LATENCY, REPORT = 1e-3, 0.25e-3, 0.1e-3


def run(strategy: Any = "queue", problem: Any = TWINS, workers: int = 1, **more: Any) -> Simulation:
    settings = {"node_seconds": NODE, "latency": LATENCY, "report_cost": 0.0}
    return simulate(strategy, problem, workers, **{**settings, **more})


def exactly(seconds: float) -> Any:
    return pytest.approx(seconds, abs=1e-9)


def test_one_worker_takes_its_nodes_and_a_message_each_way() -> None:
    found = run()
    assert found.seconds == exactly(63 * NODE + 2 * LATENCY)
    assert found.busy == exactly(63 * NODE)
    assert found.nodes == 63


def test_a_report_takes_its_worker_time() -> None:
    assert run(report_cost=REPORT).seconds == exactly(63 * NODE + 2 * LATENCY + REPORT)


def test_a_report_may_cost_by_what_it_carries() -> None:
    """Interleaved sends two: the root's, with its two subtrees, and the last, with none."""
    found = run("interleaved", report_cost=lambda subtrees: REPORT * (1 + subtrees))
    assert found.seconds == exactly(63 * NODE + 4 * LATENCY + (3 + 1) * REPORT)


def test_nodes_may_take_times_of_their_own() -> None:
    found = run(node_seconds=lambda node: 0.5 if node == (5, 31) else NODE)
    assert found.seconds == exactly(0.5 + 62 * NODE + 2 * LATENCY)


def test_two_workers_share_two_like_subtrees_evenly() -> None:
    found = run("interleaved", workers=2)
    assert found.seconds == exactly((1 + 31) * NODE + 4 * LATENCY)
    assert [worker.nodes for worker in found.workers] == [32, 31]
    assert found.efficiency == pytest.approx(63 / (2 * 33))
    assert found.balance == pytest.approx(31.5 / 32)
    assert found.workers[1].idle == exactly(NODE + 2 * LATENCY)


def test_work_that_can_always_be_divided_is_done_twice_as_fast_by_two() -> None:
    one, two = (run(problem=Balanced(3, 8), workers=workers) for workers in (1, 2))
    assert 1.95 < one.seconds / two.seconds <= 2
    assert two.efficiency > 0.97


def test_latency_is_paid_for_every_message_that_somebody_waits_for() -> None:
    quick, late = (run("interleaved", workers=2, latency=late) for late in (0.0, 1e-3))
    assert late.seconds - quick.seconds == exactly(4e-3)
    assert late.busy == quick.busy


def test_more_latency_makes_a_search_slower_and_less_efficient() -> None:
    found = [run(problem=Random(), workers=8, latency=late) for late in (0.0, 1e-3, 20e-3)]
    assert [each.nodes for each in found] == 3 * [expected(Random()).nodes]
    assert found[0].seconds < found[1].seconds < found[2].seconds
    assert found[0].efficiency > found[1].efficiency > found[2].efficiency


def test_a_worker_that_dies_before_it_reported_is_replaced_and_starts_again() -> None:
    """Its death is heard of a latency later, and the work travels to its successor once more."""
    found = run(faults=[Death(0.02, worker=0, back=0.5)])
    assert found.deaths == 1
    assert found.nodes == 63
    assert found.busy == exactly(63 * NODE)
    assert found.seconds == exactly(0.02 + LATENCY + 0.5 + 63 * NODE + 2 * LATENCY)


def test_what_a_dead_worker_had_reported_is_not_done_again() -> None:
    """Reports come every 0.2 s, after the slice in which they fall due."""
    long = Balanced(2, 8, every=1_000)
    found = run(problem=long, faults=[Death(0.3, worker=0, back=0.0)])
    lost = 0.3 + LATENCY + LATENCY + 511 * NODE + LATENCY - found.seconds
    assert 0.2 <= lost < 0.2 + 2e-3 + NODE + 2 * LATENCY
    assert found.nodes == 511


def test_a_message_that_had_left_before_a_death_arrives() -> None:
    """The last report is under way when its worker dies, and so nothing is done again."""
    end = 63 * NODE + 2 * LATENCY
    found = run(faults=[Death(end - LATENCY / 2, worker=0)])
    assert found.seconds == exactly(end)
    assert found.deaths == 0


def test_claims_of_a_dead_worker_are_void() -> None:
    faults = [Death(0.02 + 0.03 * number, worker=number % 3) for number in range(8)]
    found = run(problem=Grid(), workers=3, faults=faults)
    assert (found.nodes, found.deaths) == (900, 8)


@pytest.mark.parametrize("order", ["depth-first", "breadth-first", "best-first"])
@pytest.mark.parametrize("workers", [1, 7])
def test_everything_is_explored_once(order: str, workers: int) -> None:
    found = run(problem=Random(), workers=workers, order=order)
    assert found.nodes == expected(Random()).nodes == sum(each.nodes for each in found.workers)
    assert frozenset(found.solutions) == expected(Random()).solutions
    assert len(found.solutions) == len(set(found.solutions))
    assert found.messages == sum(each.messages for each in found.workers)
    assert found.tasks == sum(each.tasks for each in found.workers)


def test_busy_and_idle_are_all_there_is_where_messages_and_reports_are_free() -> None:
    found = run(problem=Random(), workers=5, latency=0.0)
    spent = sum(each.busy + each.idle for each in found.workers)
    assert spent == pytest.approx(5 * found.seconds)


@pytest.mark.parametrize("workers", [1, 5])
def test_a_limit_on_nodes_holds_to_the_node(workers: int) -> None:
    found = run(problem=Random(), workers=workers, node_limit=700)
    assert found.nodes == 700
    assert found.seconds < run(problem=Random(), workers=workers).seconds


def test_a_better_solution_is_told_to_everybody() -> None:
    found = run(problem=Knapsack(), workers=3)
    assert found.best_cost == expected(Knapsack()).best_cost
    assert found.nodes < expected(Knapsack()).nodes
    assert {worker for _, worker, what in found.trace if what == "incumbentbroadcast"} == {0, 1, 2}


def test_the_same_input_gives_the_same_trace() -> None:
    faults = [Death(0.05, worker=2), Death(0.1, worker=4)]
    first, again = (run(problem=Random(), workers=5, faults=faults) for _ in range(2))
    assert first.trace == again.trace
    assert first == again


def test_the_trace_does_not_depend_on_the_process() -> None:
    """Not on the seed of its hashes, either."""
    code = (
        "from aiosearch.testing import simulate; from aiosearch.testing.problems import Random;"
        "print(simulate('queue', Random(), 6, order='best-first', node_seconds=1e-4).trace)"
    )
    traces = [
        subprocess.check_output([sys.executable, "-c", code], env={"PYTHONHASHSEED": seed})
        for seed in ("1", "2")
    ]
    assert traces[0] == traces[1]


def test_a_trace_tells_what_the_host_sent_and_heard() -> None:
    found = run(problem=Spine(depth=4))
    assert found.trace == (
        (0.0, 0, "joins"),
        (0.0, 0, "begin"),
        (0.0, 0, "work 1"),
        (exactly(5 * NODE + 2 * LATENCY), 0, "report 5 gives 0 idle"),
    )


def test_a_thousand_workers_are_no_trouble() -> None:
    found = run(problem=Random(depth=11), workers=1024)
    assert found.nodes == expected(Random(depth=11)).nodes
    assert sum(worker.nodes > 0 for worker in found.workers) > 700


def test_a_strategy_can_be_an_object() -> None:
    assert run(Queue()) == run("queue")


def test_the_plan_carries_the_seed() -> None:
    queue = Queue()
    run(queue, workers=3, seed=5)
    assert (queue._plan.seed, queue._plan.workers, queue._plan.ordered) == (5, 3, False)


def test_an_error_of_the_problem_names_the_node() -> None:
    with pytest.raises(ProblemError, match=r"Failing\.expand at node root/.*on purpose"):
        run(problem=Failing())


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"workers": 0}, "at least one worker"),
        ({"problem": Awaited()}, "no event loop"),
        ({"problem": Obliged()}, "no z3"),
        ({"hosts": 0}, "at least one machine"),
        ({"problem": object()}, "is no problem"),
        ({"strategy": "none-such"}, "unknown strategy"),
        ({"faults": [Death(0.0, worker=1)]}, "worker 1 cannot die"),
    ],
)
def test_what_cannot_be_simulated_is_refused(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(AiosearchError, match=complaint):
        run(**change)


def test_messages_to_another_machine_take_longer_than_at_home() -> None:
    """The root is split at home; one half travels, and its result comes back."""
    found = run("queue", Spine(depth=4), workers=2, hosts=2, local_latency=0.0)
    assert found.seconds == exactly(5 * NODE)
    away = {what for _, worker, what in found.trace if worker == 1}
    assert "begin" in away
    near = run(problem=Balanced(3, 8), workers=4, hosts=2, local_latency=0.0)
    far = run(problem=Balanced(3, 8), workers=4, hosts=2, latency=20e-3, local_latency=0.0)
    assert near.seconds < far.seconds
    assert near.nodes == far.nodes == expected(Balanced(3, 8)).nodes


def test_seats_elsewhere_join_with_the_name_of_their_machine() -> None:
    class Noting(Queue):
        def handle(self, event: Any) -> Any:
            if isinstance(event, Joined):
                places.append((event.worker, event.host))
            return super().handle(event)

    places: list[tuple[int, str]] = []
    run(Noting(), workers=4, hosts=2)
    assert places == [(0, ""), (1, ""), (2, "host 1"), (3, "host 1")]


def test_the_host_handles_one_message_at_a_time() -> None:
    """Begin and work leave one after the other, and the report is handled when it is there."""
    found = run(host_seconds=1e-4)
    assert found.seconds == exactly(2e-4 + LATENCY + 63 * NODE + LATENCY)
    assert found.host == exactly(3e-4)


def test_a_host_that_is_slow_holds_everybody_up() -> None:
    quick, slow = (run(problem=Random(), workers=32, host_seconds=cost) for cost in (0.0, 1e-3))
    assert slow.nodes == quick.nodes
    assert slow.seconds > 2 * quick.seconds
    assert slow.host == pytest.approx(slow.seconds, rel=0.5)


def answering(seconds: float, refused: str = "") -> Any:
    def verdict(obligation: Obligation) -> Verdict:
        status = Status.REFUTED if obligation.query == refused else Status.PROVED
        return Verdict(status, seconds=seconds)

    return verdict


@dataclass(frozen=True)
class Doubting(Balanced):
    """Each node at the last level asks one of two questions."""

    def obligation(self, node: tuple[int, int]) -> Obligation | None:
        level, number = node
        return Obligation(f"question {number % 2}") if level == self.depth else None


def test_every_question_is_answered_once_and_takes_a_checker_its_time() -> None:
    found = run(problem=Doubting(2, 3), latency=0.0, verdict=answering(0.5))
    assert found.checks == 2
    assert found.nodes == 15
    assert 1.0 <= found.seconds < 1.0 + 15 * NODE + 0.2
    both = run(problem=Doubting(2, 3), latency=0.0, verdict=answering(0.5), checkers=2)
    assert 0.5 <= both.seconds < 0.5 + 15 * NODE + 0.2


def test_what_is_refuted_is_not_explored() -> None:
    found = run(problem=Doubting(2, 3), verdict=answering(0.1, refused="question 0"))
    assert found.nodes == 7 + 4


def test_verdicts_that_are_not_shared_are_asked_for_by_every_worker() -> None:
    """Those of another machine share theirs."""
    settings: dict[str, Any] = {"verdict": answering(0.001), "shared_verdicts": False}
    problem = Doubting(2, 9)
    assert run(problem=problem, workers=4, **settings).checks == 2 * 4
    assert run(problem=problem, workers=4, hosts=2, **settings).checks == 2 * 3
