"""The conformance suite finds what is wrong with a strategy."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterable, Sequence

import pytest
from broken_boards import Names

from aiosearch import AiosearchError
from aiosearch.strategies import (
    Ask,
    Assign,
    Command,
    Event,
    Idle,
    Lost,
    Opened,
    Plan,
    Reported,
    Strategy,
)
from aiosearch.strategies.queue import Queue
from aiosearch.testing import check_strategy, strategy_suite
from aiosearch.testing.suites import conformance
from aiosearch.testing.suites.conformance import CHECKS, Check
from aiosearch.testing.suites.subject import StrategyUnderTest


class Loses(Queue):
    """Never hears of the last task of those that come back together."""

    def handle(self, event: Event) -> Iterable[Command]:
        if isinstance(event, Opened) and event.worker is not None:
            event = Opened(event.tasks[:-1], event.worker)
        return super().handle(event)


class AssignsTwice(Queue):
    """Gives the first task to its seat again."""

    def handle(self, event: Event) -> Iterable[Command]:
        for command in super().handle(event):
            yield command
            if isinstance(command, Assign):
                yield command


class Starves(Queue):
    """Waits for a second task before it deals the first."""

    def handle(self, event: Event) -> Iterable[Command]:
        commands = list(super().handle(event))
        waiting = isinstance(event, Idle) and self._plan.workers > 1
        return [] if waiting else commands


class Raises(Queue):
    """Gets confused as soon as somebody reports."""

    def handle(self, event: Event) -> Iterable[Command]:
        if isinstance(event, Reported):
            raise KeyError("confused")
        return super().handle(event)


class Juggles(Queue):
    """Has every task given back as it is."""

    def start(self, plan: Plan) -> None:
        super().start(plan)
        self._depths: dict[int, int] = {}

    def handle(self, event: Event) -> Iterable[Command]:
        if isinstance(event, Opened):
            self._depths |= {task.id: task.depth for task in event.tasks}
        for command in super().handle(event):
            if isinstance(command, Assign):
                depth = min(self._depths[task] for task in command.tasks)
                yield Assign(command.worker, command.tasks, depth=max(depth, 1))
            else:
                yield command


class DealsToTheDead(Queue):
    """Does not hear of deaths."""

    def handle(self, event: Event) -> Iterable[Command]:
        return () if isinstance(event, Lost) else super().handle(event)


class ForgetsWhatWasPutOff(Queue):
    """Takes rank 1 for not worth exploring."""

    def handle(self, event: Event) -> Iterable[Command]:
        if isinstance(event, Opened):
            event = Opened(tuple(task for task in event.tasks if not task.rank), event.worker)
        return super().handle(event)


class Gambles(Queue):
    """Asks somebody, anybody."""

    def handle(self, event: Event) -> Iterable[Command]:
        yield from super().handle(event)
        yield Ask(random.SystemRandom().randrange(self._plan.workers))


class Invents(Queue):
    """Gives what is no command."""

    def handle(self, event: Event) -> Iterable[Command]:
        yield from super().handle(event)
        yield "please"  # type: ignore[misc]  # that is the point


class CannotStart(Queue):
    """Wants more seats than there are."""

    def start(self, plan: Plan) -> None:
        raise RuntimeError("too few seats")


class Outdated(Queue):
    """Was written for another contract."""

    api = 0


class Silent:
    """Says nothing at all."""

    api = 1

    def start(self, plan: Plan) -> None: ...

    def handle(self, event: Event) -> Iterable[Command]:
        return ()


def run(check: str, strategy: Callable[[], Strategy]) -> None:
    found = next(each for each in CHECKS if each.name == check)
    asyncio.run(found.run(StrategyUnderTest(strategy)))


@pytest.mark.parametrize(
    ("strategy", "check", "complaint"),
    [
        (Loses, "any-number-of-seats", "left . tasks? unassigned while every worker is idle"),
        (AssignsTwice, "any-number-of-seats", "assigned task 1, which is not free"),
        (Starves, "any-number-of-seats", "left 1 task unassigned"),
        (Silent, "any-number-of-seats", "left 1 task unassigned"),
        (
            Raises,
            "any-number-of-seats",
            r"Raises raised KeyError in handle\(Reported\): 'confused'",
        ),
        (
            CannotStart,
            "any-number-of-seats",
            "CannotStart raised RuntimeError in start: too few seats",
        ),
        (Juggles, "any-number-of-seats", "handing work to and fro without a node explored"),
        (Invents, "any-number-of-seats", "gave 'please', which is no command"),
        (Outdated, "any-number-of-seats", "speaks api 0"),
        (DealsToTheDead, "any-death", "which is not there"),
        (Gambles, "simulations-repeat", "the trace of a depth-first search, simulated twice, is"),
        (ForgetsWhatWasPutOff, "same-answers-0-workers", "left . tasks? unassigned"),
    ],
)
def test_a_broken_strategy_is_told_what_is_wrong(
    strategy: type, check: str, complaint: str
) -> None:
    with pytest.raises((AssertionError, AiosearchError), match=complaint):
        run(check, strategy)


@pytest.mark.parametrize(
    ("board", "check", "complaint"),
    [
        ("Stingy", "everybody-works", "worker 1 of 4 explored 0 of 1365 nodes"),
        ("Deaf", "a-board-tells-who-has-what", "who has which offer is, by `taken`, {}"),
        ("NamesPlaces", "a-board-tells-who-has-what", "owners of what was taken are .0., not .41."),
        ("Grasps", "a-board-gives-back-what-is-left", "the offers regained are .1, 2, 3, 4., not"),
        ("Forgets", "a-board-buries-the-dead", "who has what of the dead is, by `revoke`, {}"),
        ("Haunted", "a-board-buries-the-dead", "what can be taken of the dead is .*subtree 3"),
        ("Forgets", "a-board-seats-one-life-after-the-other", "who has what of life 50 is"),
        ("Wakes", "a-board-lets-lives-begin-at-rest", "nothing can come from others is False"),
        ("Cuts", "a-board-keeps-what-fits", "an offer of 100 bytes, taken, is"),
        ("Boasts", "a-board-passes-on-what-is-known", "told of is 2.0, not 3.0"),
        ("CannotBeMade", "everybody-works", "cannot make a board of 4 places: OSError: no room"),
    ],
)
def test_a_broken_board_is_told_what_is_wrong(board: str, check: str, complaint: str) -> None:
    with pytest.raises((AssertionError, AiosearchError), match=complaint):
        run(check, lambda: Names(f"broken_boards:{board}"))


def test_a_strategy_that_leaves_workers_out_is_told() -> None:
    with pytest.raises(AssertionError, match="and there was work for all"):
        run("everybody-works", lambda: Names(None))


BOARDLESS = [check for check in CHECKS if not check.name.startswith("a-board-")]
"""What concerns a strategy that names no board."""


@pytest.mark.parametrize(("strategy", "failing"), [(Silent, BOARDLESS), (CannotStart, CHECKS)])
async def test_all_failures_come_together_and_soon(
    strategy: type, failing: Sequence[Check]
) -> None:
    started = time.monotonic()
    with pytest.raises(ExceptionGroup) as caught:
        await check_strategy(strategy)
    assert len(caught.value.exceptions) == len(failing)
    assert caught.value.exceptions[0].__notes__ == ["in the check simulations-repeat"]
    assert time.monotonic() - started < 60


async def test_a_check_that_does_not_end_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conformance, "LONGEST_CHECK", 0.01)
    check = next(check for check in CHECKS if check.name == "leaving-ends-the-search-0-workers")
    with pytest.raises(AssertionError, match=r"not over after 0\.01 s"):
        await check.run(StrategyUnderTest(Queue))


def test_the_suite_is_a_class_with_a_test_for_each_check() -> None:
    marks = strategy_suite("queue").test_conforms.pytestmark  # type: ignore[attr-defined]
    assert marks[0].args == ("check", CHECKS)
    assert len({check.name for check in CHECKS}) == len(CHECKS)
