"""A wrong problem gives an error that names problem, method and path, and ends cleanly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from broken_boards import Names
from trees import (
    Cancelled,
    Costless,
    Detour,
    DiesOnce,
    Garbled,
    Keyless,
    Loose,
    Mended,
    Moot,
    Overpriced,
    Trouble,
    Unannotated,
    Unbounded,
    Waiting,
    Words,
)

from aiosearch import (
    AiosearchError,
    Limits,
    ProblemError,
    Search,
    SearchStatus,
    WorkerError,
)
from aiosearch.errors import StrategyError
from aiosearch.events import AnyEvent, Warned
from aiosearch.testing.problems import Balanced


async def run(problem: Any, **options: Any) -> Any:
    async with Search(problem, **options) as search:
        return await search.wait()


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    ("what", "method", "reason"),
    [
        ("none", "expand", "returned None; an iterable of children was expected"),
        ("number", "expand", "returned int; an iterable of children was expected"),
        ("raise", "expand", "ValueError: no such letter"),
        ("solutions", "solutions", "KeyError: 'letters'"),
    ],
)
async def test_an_error_names_method_and_path(
    what: str, method: str, reason: str, workers: int
) -> None:
    """The path is that of the very node at which it happened."""
    with pytest.raises(ProblemError) as caught:
        await run(Trouble(what=what), workers=workers)
    error = caught.value
    assert (error.problem, error.method, error.path) == ("Trouble", method, (1, 0, 2))
    assert reason in str(error)
    assert "(node: " in str(error)
    assert f"Trouble.{method} at node root/1/0/2" in str(error)


@pytest.mark.parametrize("order", ["breadth-first", "depth-first"])
@pytest.mark.parametrize("what", ["none", "number", "raise", "solutions"])
async def test_a_skipped_subtree_is_counted(what: str, order: str) -> None:
    """With on_error="skip" the rest of the tree is explored, and nothing but the subtree lost."""
    problem = Trouble(what=what)
    result = await run(problem, workers=2, order=order, on_error="skip")
    assert result.status is SearchStatus.COMPLETE
    assert result.statistics.skipped == 1
    assert result.reason == "everything is explored but 1 subtree, skipped after errors"
    assert len(result.solutions) == 3**6 - 3**3


async def test_the_workers_traceback_is_a_note_on_the_error() -> None:
    """Where it was raised can be seen, although it was raised in another process."""
    with pytest.raises(ProblemError) as caught:
        await run(Trouble(what="raise"), workers=1)
    assert "trees.py" in "".join(caught.value.__notes__)


@pytest.mark.parametrize("workers", [0, 1])
async def test_children_that_change_are_noticed(workers: int) -> None:
    """expand must give the same children for the same node."""
    with pytest.raises(ProblemError, match=r"Trouble\.expand .*not repeatable"):
        await run(Trouble(what="random"), workers=workers)


@pytest.mark.parametrize("workers", [0, 1])
async def test_a_node_that_cannot_travel_is_named(workers: int) -> None:
    """A node of a type that msgspec cannot encode fails with its path."""
    with pytest.raises(ProblemError, match="cannot be encoded"):
        await run(Trouble(what="unencodable", length=9), workers=workers)


async def test_a_solution_that_cannot_travel_is_named() -> None:
    """Solutions must be encodable too."""
    with pytest.raises(ProblemError, match=r"Trouble\.solutions.*cannot be encoded"):
        await run(Trouble(what="opaque"), workers=1)


async def test_a_missing_annotation_is_explained() -> None:
    """A tuple that would come back as a list is caught at the root."""
    with pytest.raises(ProblemError, match="annotate the return type of root"):
        await run(Unannotated(), workers=1)


@pytest.mark.parametrize("workers", [0, 1])
async def test_a_bound_above_a_cost_is_caught(workers: int) -> None:
    """Such a bound would prune the best solution away."""
    with pytest.raises(ProblemError, match=r"Overpriced\.bound .*above the cost 3"):
        await run(Overpriced(), workers=workers)


@pytest.mark.parametrize("workers", [0, 1])
async def test_an_asynchronous_expand_may_raise_too(workers: int) -> None:
    """Its error has a path like any other."""
    with pytest.raises(ProblemError, match="ConnectionError: far away is closed") as caught:
        await run(Waiting(failing=True), workers=workers)
    assert caught.value.path is not None
    assert len(caught.value.path) == 3


async def test_a_worker_that_dies_loses_nothing(tmp_path: Path) -> None:
    """What it had not reported is explored again, once."""
    problem = DiesOnce(memory=str(tmp_path / "died"))
    result = await run(problem, workers=2)
    assert result.status is SearchStatus.COMPLETE
    assert result.statistics.nodes == Words().nodes
    assert len(result.solutions) == 3**6
    assert result.statistics.worker_deaths == 1


async def test_a_node_that_kills_its_workers_ends_the_search() -> None:
    """After a few deaths on the same subtree the search says so."""
    with pytest.raises(WorkerError, match=r"died one after the other .* depth 3"):
        await run(Trouble(what="die"), workers=1)


async def test_a_node_that_kills_its_workers_can_be_skipped() -> None:
    """The node is found by opening level by level, and everything beside it is explored."""
    result = await run(Trouble(what="die"), workers=1, on_error="skip")
    assert result.statistics.skipped == 1
    assert result.reason == "everything is explored but 1 subtree, skipped after errors"
    assert len(result.solutions) == 3**6 - 3**3


async def test_a_class_that_no_worker_can_import_travels_whole() -> None:
    """With cloudpickle installed, a class made inside a function works with workers too."""

    class Local(Words):
        pass

    result = await run(Local(length=3), workers=1)
    assert len(result.solutions) == 27


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("order", ["depth-first", "breadth-first"])
async def test_what_was_found_before_an_error_is_kept(
    tmp_path: Path, order: str, workers: int
) -> None:
    """A failed search has a result, and goes on from the failed node when it is resumed."""
    journal = tmp_path / "j"
    options = {"workers": workers, "journal": journal, "order": order}
    problem = Mended(memory=str(tmp_path / "mended"))
    async with Search(problem, **options) as search:
        with pytest.raises(ProblemError, match="not mended yet"):
            await search.wait()
    assert search.result.status is SearchStatus.FAILED
    assert search.result.statistics.nodes > 10
    (tmp_path / "mended").touch()
    result = await run(problem, **options, resume=True)
    assert result.statistics.nodes == Words().nodes
    assert len(result.solutions) == 3**6


async def test_solutions_of_an_unknown_type_are_explained() -> None:
    """Tuples that would come back as lists are caught at the first solution."""
    with pytest.raises(ProblemError, match="annotate what solutions returns"):
        await run(Loose(), workers=0)


async def test_a_forgotten_key_is_caught() -> None:
    """Nodes that all have the key None are not all the same."""
    with pytest.raises(ProblemError, match=r"Keyless\.key .*returned None"):
        await run(Keyless(), workers=0)


async def test_a_bound_that_raises_is_skipped_and_counted() -> None:
    """A subtree is never pruned because nobody knows its bound."""
    result = await run(Unbounded(seed=3, depth=8), workers=0, on_error="skip")
    assert result.statistics.skipped > 0


async def test_nan_is_no_cost() -> None:
    """It compares with nothing, so every solution would be lost."""
    with pytest.raises(ProblemError, match=r"Costless\.cost .*nan is no cost"):
        await run(Costless(), workers=0)


@pytest.mark.parametrize("workers", [0, 1])
async def test_an_exit_is_an_error_like_any_other(workers: int) -> None:
    """sys.exit in expand ends neither the host nor its workers."""
    with pytest.raises(ProblemError, match=r"Trouble\.expand at node root/1/0/2: SystemExit: 3"):
        await run(Trouble(what="exit"), workers=workers)


async def test_an_expand_that_is_cancelled_from_inside_is_an_error() -> None:
    """It does not leave the search waiting for ever."""
    with pytest.raises(ProblemError, match="was cancelled from inside"):
        await run(Cancelled(), workers=0)


async def test_an_unreadable_obligation_is_told() -> None:
    """Its verdict is unknown, and the warning quotes z3."""
    heard: list[AnyEvent] = []
    await run(Garbled(length=2), workers=0, on=heard.append, cache=None)
    warnings = [event.message for event in heard if isinstance(event, Warned)]
    assert len(warnings) == 1
    assert "cannot read an obligation of Garbled" in warnings[0]


async def test_all_parked_nodes_becoming_moot_ends_the_search() -> None:
    """Nobody waits for a verdict that nobody needs."""
    result = await run(Moot(), workers=0, cache=None, limits=Limits(seconds=15))
    assert result.status is SearchStatus.COMPLETE
    assert result.best_cost == 1


@pytest.mark.parametrize("depth", [1, 2, 3])
async def test_a_horizon_claims_with_bounds(depth: int) -> None:
    """A cheaper way to the same key is found also where the tree is split first."""
    result = await run(Detour(), workers=1, strategy="interleaved", options={"depth": depth})
    assert result.best_cost == 3


async def test_a_search_must_be_open() -> None:
    """Waiting for one that was never opened would take for ever."""
    with pytest.raises(AiosearchError, match="not open"):
        await Search(Words(), workers=0).wait()
    with pytest.raises(AiosearchError, match="not open"):
        await anext(aiter(Search(Words(), workers=0)))


async def test_a_board_that_workers_cannot_join_is_named() -> None:
    strategy = Names("broken_boards:CannotBeJoined")
    with pytest.raises(StrategyError, match="cannot join the exchange 'broken_boards:CannotBeJo"):
        await run(Balanced(), strategy=strategy, workers=2)
