from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from testkit.superoptimizer.kernel_graphs import fusion, leaves
from testkit.superoptimizer.small_gpu import GPU

from aiosearch import Search, SearchStatus
from aiosearch.devices import Device, device
from aiosearch.orders import BestFirst
from aiosearch.superoptimizer.build.mugraph import BuiltKernels
from aiosearch.superoptimizer.enumeration.branch_and_bound import (
    Fastest,
    Priced,
    ProgramDraft,
    ProgramDrafts,
)
from aiosearch.superoptimizer.enumeration.problem import Fusion
from aiosearch.superoptimizer.space import Space
from aiosearch.tensor.files import to_json
from aiosearch.tensor.programs import builtin

A100 = device("A100")
SIZES = {
    "rms_norm": {"row": 4, "feature": 64, "column": 48},
    "gated_mlp": {"row": 4, "feature": 64, "hidden": 64},
    "lora": {"row": 4, "feature": 64, "rank": 4, "column": 48},
    "gqa": {},
}
SPACE = Space(
    block_operators=8,
    kernels=2,
    tile=("exp", "silu", "add", "mul", "div", "matmul", "rms_norm"),
    accumulators=("none", "sum", "rms", "redtox"),
)
"""So narrow that everything is gone through soon."""

RUNNER = """
import asyncio, sys
from aiosearch import Search
from aiosearch.engine import run
from aiosearch.orders import BestFirst
from test_branch_and_bound import fastest

run.REPORT_SECONDS = 0.02

async def main():
    order = BestFirst(prune=True)
    async with Search(fastest("gqa"), workers=2, journal=sys.argv[1], cache=None, order=order) as s:
        await s.wait()

if __name__ == "__main__":
    asyncio.run(main())
"""


def fastest(name: str, where: Device = A100) -> Fastest:
    program = builtin(name, "f16", **SIZES[name])
    return Fastest(to_json(program), where, SPACE)


@dataclass
class Whole:
    """A tree that was gone through without a bound."""

    problem: Fastest
    least: dict[ProgramDraft, float]
    """By draft, what the fastest program takes that it leads to."""

    @property
    def best(self) -> float:
        return self.least[self.problem.root()]

    def walk(self, node: ProgramDraft) -> float:
        if node not in self.least:
            costs = [self.problem.cost(one) for one in self.problem.solutions(node)]
            costs += map(self.walk, self.problem.expand(node))
            self.least[node] = min(costs, default=float("inf"))
        return self.least[node]


@cache
def whole(name: str, where: str = "A100") -> Whole:
    found = Whole(fastest(name, GPU if where == "small" else device(where)), {})
    found.walk(found.problem.root())
    return found


async def search(problem: Fastest, **options: Any) -> Any:
    order = BestFirst(prune=True)
    async with Search(problem, cache=None, order=order, **options) as opened:
        return await opened.wait()


@pytest.mark.parametrize(
    ("name", "where"), [*((name, "A100") for name in SIZES), ("lora", "small")]
)
def test_no_program_takes_less_than_the_bound_of_a_draft(name: str, where: str) -> None:
    """Of all drafts, each beside the fastest of all programs that it leads to."""
    tree = whole(name, where)
    assert 0 < tree.best < float("inf")
    for draft, least in tree.least.items():
        assert tree.problem.bound(draft) <= least * (1 + 1e-12)


def test_kernels_that_are_whole_count_with_the_best_of_their_numbers() -> None:
    """Of two kernels the first then takes more than what it moves."""
    tree = whole("gqa")
    fusion = tree.problem.fusion
    more = 0
    for draft in tree.least:
        if len(draft.graphs) == 2:
            moved = fusion.least.seconds(draft.kernels, (), 0, A100)
            assert tree.problem.bound(draft) >= moved
            more += tree.problem.bound(draft) > 1.5 * moved
    assert more > 50


@pytest.mark.parametrize("name", SIZES)
async def test_the_fastest_is_found_without_looking_at_everything(name: str) -> None:
    """It takes as long as the fastest of all programs, and far fewer drafts are gone through."""
    tree = whole(name)
    result = await search(tree.problem, workers=0)
    assert result.status is SearchStatus.COMPLETE
    assert result.best.seconds == tree.best
    assert result.statistics.nodes < len(tree.least) / 2


@pytest.mark.parametrize("workers", [1, 2])
async def test_any_number_of_workers_finds_the_fastest(workers: int) -> None:
    """However they share the tree."""
    result = await search(fastest("gqa"), workers=workers)
    assert result.status is SearchStatus.COMPLETE
    assert result.best.seconds == whole("gqa").best


async def test_a_search_that_is_killed_goes_on_to_the_fastest(tmp_path: Path) -> None:
    """The best so far is not lost, and what was cut off stays so."""
    journal = tmp_path / "j"
    script = tmp_path / "runner.py"
    script.write_text(RUNNER)
    here = Path(__file__).parent
    path = os.pathsep.join(map(str, [here, here.parents[1] / "support", *filter(None, sys.path)]))
    process = subprocess.Popen(  # noqa: ASYNC220  # the test has nothing else to do
        [sys.executable, str(script), str(journal)],
        env={**os.environ, "PYTHONPATH": path},
        start_new_session=True,
    )
    while process.poll() is None and not (journal.exists() and journal.stat().st_size > 2_000):
        pass
    assert process.poll() is None
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    result = await search(fastest("gqa"), workers=0, journal=journal, resume=True)
    assert result.status is SearchStatus.COMPLETE
    assert result.best.seconds == whole("gqa").best


def test_what_was_found_is_ranked_with_its_numbers() -> None:
    """A kernel graph is there once, and none gets slower by it."""
    tree = whole("gqa")
    found = [one for draft in tree.least for one in tree.problem.solutions(draft)]
    graphs = {one.kernels: tree.problem.cost(one) for one in sorted(found, key=_seconds)[::-1]}
    ranked = tree.problem.ranked(found, len(found))
    assert len(ranked) == len({one.built.kernels for one in ranked}) == len(graphs) > 3
    assert ranked[0].filling.prediction.seconds == pytest.approx(tree.best, rel=1e-6)
    for one in ranked:
        assert one.filling.prediction.seconds <= graphs[one.built.kernels] * (1 + 1e-6)


def _seconds(priced: Priced) -> float:
    return priced.seconds


async def test_a_program_outside_of_the_space_has_no_answer() -> None:
    """The tree is its root."""
    problem = Fastest(to_json(builtin("gqa")), A100, Space(block_operators=2, kernels=1))
    result = await search(problem, workers=0)
    assert (result.status, result.best, result.statistics.nodes) == (SearchStatus.COMPLETE, None, 1)


NAMES = ("rms_norm", "gated_mlp", "lora", "gqa")
SMALL = Space(block_operators=7, kernels=2)


@cache
def ends(name: str) -> tuple[Fusion, list[ProgramDraft], list[BuiltKernels | None]]:
    """The drafts that no choice is left for, and what each of them is as a program."""
    problem = fusion(builtin(name), SMALL)
    drafts = ProgramDrafts(problem.skeletons)
    found = list(_ends(drafts, drafts.begun(problem.root()), set()))
    return problem, found, [drafts.built(draft) for draft in found]


def _ends(
    drafts: ProgramDrafts, draft: ProgramDraft, seen: set[ProgramDraft]
) -> Iterator[ProgramDraft]:
    more = [one for one in drafts.expand(draft) if one not in seen]
    seen.update(more)
    if not more and not draft.needed:
        yield draft
    for one in more:
        yield from _ends(drafts, one, seen)


@pytest.mark.parametrize("name", NAMES)
def test_every_program_is_drafted_once(name: str) -> None:
    """They are the kernel graphs with every block graph that their kernels have."""
    problem, _, programs = ends(name)
    whole = []
    for one in leaves(problem):
        graphs = [
            [None] if kernel.step >= 0 else list(problem.skeletons.graphs(kernel))
            for kernel in one.kernels
        ]
        assert one.programs == len(list(product(*graphs)))
        whole += [BuiltKernels(one.kernels, chosen) for chosen in product(*graphs)]
    assert len(set(programs)) == len(programs)
    assert set(programs) == set(whole)


@pytest.mark.parametrize("name", NAMES)
def test_no_choice_of_an_operator_leads_nowhere(name: str) -> None:
    """Once all kernels are there, whatever is chosen becomes a program."""
    _, drafts, programs = ends(name)
    assert len(programs) > 15
    assert all(programs)
    assert all(draft.graphs or all(k.step >= 0 for k in draft.kernels) for draft in drafts)


def test_a_draft_that_lacks_something_is_no_program() -> None:
    """Whether a tensor lacks its kernel, a kernel its block graph, or that an operand."""
    problem, found, _ = ends("rms_norm")
    drafts = ProgramDrafts(problem.skeletons)
    whole = next(draft for draft in found if draft.graphs)
    *_, last = whole.graphs
    shorter = type(last)(last.outputs, last.steps[:-1])
    assert drafts.built(ProgramDraft(whole.kernels, (), (*whole.graphs[:-1], shorter))) is None
    assert drafts.built(ProgramDraft(whole.kernels, (), whole.graphs[:-1])) is None
    assert drafts.built(drafts.begun(problem.root())) is None
