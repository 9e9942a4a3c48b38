"""What every strategy has to pass.

    TestMine = strategy_suite("mine")

is all that a plugin's author writes to run it with pytest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from ...orders import BestFirst, BranchAndBound, BreadthFirst, DepthFirst, Order
from ...pool import Pool
from ...problem import AnyProblem
from ...result import SearchStatus
from ...strategies import Strategy
from ...workloads.shapes import Lopsided, Tiny
from ..leaks import no_leaks
from ..problems import Awaited, Balanced, Grid, Knapsack, Obliged, Random, Slow, Spine
from . import board_offers, disturbances, rehearsals
from .subject import StrategyUnderTest, agree, agree_on_answers, agree_on_end, expected

if TYPE_CHECKING:
    from collections.abc import Iterable


Case = tuple[Any, tuple[Order, ...]]

LAST = (DepthFirst(), BreadthFirst())
SCORED = (DepthFirst(), BreadthFirst(), BestFirst())
TREES: tuple[Case, ...] = (
    (Spine(depth=0), LAST),
    (Balanced(), SCORED),
    (Random(), SCORED),
    (Random(depth=12), (DepthFirst(),)),
    (Slow(Random(depth=8)), (DepthFirst(),)),
    (Spine(), LAST),
    (Lopsided(spine=200, height=16), LAST),
    (Grid(), LAST),
    (Awaited(), LAST),
    (Knapsack(), (*SCORED, BestFirst(prune=True), BranchAndBound())),
    (Obliged(), LAST),
    (Obliged(doubt=True), LAST),
)
"""Every kind of tree, with the orders that it is explored in."""
LOADS: tuple[Case, ...] = (
    (Tiny(10_000), (DepthFirst(),)),
    (Lopsided(spine=2_000, height=28), (DepthFirst(),)),
)

"""Trees of very many tiny subtrees, and a large one where every cut is uneven."""


async def same_answers(subject: StrategyUnderTest, workers: int, cases: Iterable[Case]) -> None:
    """Compares nodes, solutions and best costs with those of a plain walk, see `expected`."""
    async with Pool(workers, checkers=1, cache=None) as pool:
        for problem, orders in cases:
            for order in orders:
                await _check(subject, pool, problem, order)


async def _check(subject: StrategyUnderTest, pool: Pool, problem: AnyProblem, order: Order) -> None:
    what = f"{problem} with {type(order).__name__} on {pool.workers} workers"
    expectation = expected(problem)
    async with subject.search(problem, pool=pool, order=order) as search:
        result = await search.wait()
    agree_on_end(what, result, SearchStatus.COMPLETE)
    agree(f"{what}: the best cost is", result.best_cost, expectation.best_cost)
    if not order.prunes:
        agree_on_answers(what, result, expectation)


LONGEST_CHECK = 60.0
"""Seconds after which a check that has not come to an end has failed."""

Made: TypeAlias = str | Strategy | Callable[..., Strategy]


class Check(Struct, frozen=True):
    """One thing to check, and how."""

    name: str
    body: Callable[[StrategyUnderTest], Awaitable[None]]

    async def run(self, subject: StrategyUnderTest) -> None:
        """Raises `AssertionError`, or what the search raised, where the strategy does not pass."""
        try:
            async with no_leaks(), asyncio.timeout(LONGEST_CHECK):
                await self.body(subject)
        except TimeoutError:
            raise AssertionError(f"{self.name}: not over after {LONGEST_CHECK:g} s") from None


def _checks() -> Iterator[Check]:
    yield Check("simulations-repeat", rehearsals.repeatable)
    yield Check("any-number-of-seats", rehearsals.any_number_of_seats)
    yield Check("everybody-works", rehearsals.everybody_works)
    yield Check("any-latency", rehearsals.any_latency)
    yield Check("any-death", rehearsals.any_death)
    yield Check("any-limit", rehearsals.any_limit)
    yield from _boards()
    for workers in (0, 1, 2, 8):
        trees = partial(same_answers, workers=workers, cases=TREES)
        yield Check(f"same-answers-{workers}-workers", trees)
    for workers in (0, 2, 8):
        loads = partial(same_answers, workers=workers, cases=LOADS)
        yield Check(f"many-and-lopsided-subtrees-{workers}-workers", loads)
    for workers in (0, 2):
        yield from _ends(workers)
    for workers in (1, 2, 8):
        deaths = partial(disturbances.deaths_lose_nothing, workers=workers)
        yield Check(f"killed-workers-lose-nothing-{workers}-workers", deaths)


def _boards() -> Iterator[Check]:
    for name, body in (
        ("a-board-tells-who-has-what", board_offers.tells_who_has_what),
        ("a-board-gives-back-what-is-left", board_offers.gives_back_what_is_left),
        ("a-board-buries-the-dead", board_offers.finalises_dead_workers),
        ("a-board-seats-one-life-after-the-other", board_offers.seats_lives),
        ("a-board-lets-lives-begin-at-rest", board_offers.begins_at_rest),
        ("a-board-keeps-what-fits", board_offers.keeps_what_fits),
        ("a-board-passes-on-what-is-known", board_offers.shares_verdicts),
    ):
        yield Check(name, partial(board_offers.on_its_board, body=body))


def _ends(workers: int) -> Iterator[Check]:
    for name, body in (
        ("leaving-ends-the-search", disturbances.leaving_ends),
        ("cancelling-ends-the-search", disturbances.cancelling_ends),
        ("a-pool-goes-on", disturbances.pool_goes_on),
        ("errors-name-the-node", disturbances.errors_name_the_node),
        ("node-limits-hold", disturbances.limits_hold),
        ("journals-resume", disturbances.journals_resume),
    ):
        yield Check(f"{name}-{workers}-workers", partial(body, workers=workers))


CHECKS: tuple[Check, ...] = tuple(_checks())
"""All checks; those come first that need no processes."""


async def check_strategy(strategy: Made, **options: Any) -> None:
    """Runs every check on a strategy, given by name or as what makes one: half a minute.

    Raises an `ExceptionGroup` with what each failing check raised, and a note that names it.
    """
    subject = StrategyUnderTest(strategy, options)
    failures: list[Exception] = []
    for check in CHECKS:
        try:
            await check.run(subject)
        except Exception as error:
            error.add_note(f"in the check {check.name}")
            failures.append(error)
    if failures:
        first = failures[0]
        raise ExceptionGroup(
            f"strategy {_shown(strategy)} fails {len(failures)} of {len(CHECKS)} checks, first"
            f" {first.__notes__[-1].removeprefix('in the check ')}: {first}",
            failures,
        )


def _shown(strategy: Made) -> str:
    return (
        repr(strategy)
        if isinstance(strategy, str)
        else getattr(strategy, "__qualname__", repr(strategy))
    )


def strategy_suite(strategy: Made, **options: Any) -> type:
    """Makes a class of pytest tests, one for each check. Name it `Test...` in a test module."""
    import pytest  # whoever only simulates does without

    subject = StrategyUnderTest(strategy, options)

    class StrategySuite:
        """One test for each of `CHECKS`."""

        @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
        def test_conforms(self, check: Check) -> None:
            asyncio.run(check.run(subject))

    return StrategySuite
