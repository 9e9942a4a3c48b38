"""What was walked is written down and read back; what is no recording is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from testkit.hosts.os_limits import full_disk

from aiosearch import AiosearchError, ProblemError
from aiosearch.lab.recording.replay import RecordedWithQuestions
from aiosearch.recording import Recorded, RecordingError, load, record
from aiosearch.testing import expected
from aiosearch.testing.problems import Awaited, Balanced, Failing, Grid, Knapsack, Random, Spine
from aiosearch.workloads.superopt import Superopt


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "search.tree"


def recorded(problem: Any, path: Path, **options: Any) -> Recorded:
    record(problem, path, **options)
    return load(path)


def walked(tree: Recorded) -> list[tuple[int, tuple[int, ...]]]:
    """Every node with its children, in preorder."""
    found, stack = [], [tree.root()]
    while stack:
        node = stack.pop()
        children = tuple(tree.expand(node))
        found.append((node, children))
        stack += reversed(children)
    return found


@pytest.mark.parametrize("problem", [Balanced(3, 5), Random(), Spine(depth=50)])
def test_the_same_tree_comes_back(problem: Any, path: Path) -> None:
    tree = recorded(problem, path)
    stack, mine = [(problem.root(), 0)], 0
    while stack:
        node, number = stack.pop()
        mine += 1
        children, numbers = list(problem.expand(node)), list(tree.expand(number))
        assert len(children) == len(numbers)
        assert bool(tree.solutions(number)) == bool(tuple(problem.solutions(node)))
        stack += zip(children, numbers, strict=True)
    assert mine == tree.footer.nodes == expected(problem).nodes


def test_nodes_are_numbered_in_preorder(path: Path) -> None:
    tree = recorded(Balanced(2, 2), path)
    assert walked(tree) == [
        (0, (1, 4)), (1, (2, 3)), (2, ()), (3, ()), (4, (5, 6)), (5, ()), (6, ()),
    ]  # fmt: skip


def test_equal_keys_are_recorded_once(path: Path) -> None:
    tree = recorded(Grid(), path)
    assert tree.footer.nodes == len(walked(tree)) == 900


def test_what_a_bound_keeps_out_is_not_in_the_recording(path: Path) -> None:
    tree = recorded(Knapsack(), path)
    assert len(walked(tree)) == tree.footer.nodes < expected(Knapsack()).nodes
    assert tree.header.order == "BranchAndBound"


def test_questions_keep_their_verdicts_and_times(path: Path) -> None:
    """Equal questions have one number; what was refuted was not explored."""
    tree = recorded(Superopt(length=2, width=8), path)
    assert isinstance(tree, RecordedWithQuestions)
    asked = [each for node, _ in walked(tree) if (each := tree.obligation(node))]
    verdicts = {each.key: tree.verdict_after(1.0)(each) for each in asked}
    assert len(verdicts) == tree.footer.questions > 0
    assert all(verdict.seconds > 0 for verdict in verdicts.values())
    alive = [each for each in asked if verdicts[each.key].status == "proved"]
    assert tree.footer.nodes == len(walked(tree)) - len(asked) + len(alive)


def test_a_node_takes_what_it_took_and_what_the_engine_adds(path: Path) -> None:
    tree = recorded(Random(), path)
    whole = sum(tree.seconds(node) for node, _ in walked(tree))
    assert whole == pytest.approx(tree.cpu_seconds, rel=0.5)
    assert tree.footer.seconds > 0


@pytest.mark.parametrize("limit", [{"nodes": 1}, {"pulse": lambda nodes: False}])
def test_a_walk_that_was_stopped_is_whole_as_far_as_it_came(
    limit: dict[str, Any], path: Path
) -> None:
    problem = Balanced(2, 13)
    tree = recorded(problem, path, **limit)
    assert not tree.footer.complete
    assert 0 < len(walked(tree)) == tree.footer.nodes < expected(problem).nodes


def test_a_few_bytes_are_enough_for_a_node(path: Path) -> None:
    tree = recorded(Balanced(2, 13), path)
    assert path.stat().st_size < 8 * tree.footer.nodes


@pytest.mark.parametrize("most", [1, 100, 3280])
def test_a_limit_on_nodes_is_met_exactly(most: int, path: Path) -> None:
    tree = recorded(Balanced(3, 7), path, nodes=most)
    assert len(walked(tree)) == tree.footer.nodes == most
    assert tree.footer.complete == (most == expected(Balanced(3, 7)).nodes)


def test_where_a_disk_is_full_no_half_recording_stays(path: Path) -> None:
    with full_disk(100), pytest.raises(RecordingError, match="File too large"):
        record(Balanced(3, 3), path)
    assert not list(path.parent.iterdir())


def test_a_problem_that_raises_leaves_no_file(path: Path) -> None:
    with pytest.raises(ProblemError, match=r"Failing\.expand"):
        record(Failing(), path)
    assert not list(path.parent.iterdir())


@pytest.mark.parametrize(
    ("problem", "options", "complaint"),
    [
        (Random(), {"order": "breadth-first"}, "depth-first"),
        (Awaited(), {}, "no event loop"),
        (Random, {}, "give an instance"),
    ],
)
def test_what_cannot_be_recorded_is_said(
    problem: Any, options: dict[str, Any], complaint: str, path: Path
) -> None:
    with pytest.raises(AiosearchError, match=complaint):
        record(problem, path, **options)


def test_nothing_but_a_recording_is_replaced(path: Path) -> None:
    record(Spine(), path)
    record(Spine(), path)
    path.write_text("a thesis")
    with pytest.raises(RecordingError, match="is no recording; take another name"):
        record(Spine(), path)
    assert path.read_text() == "a thesis"


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda data: b"a thesis", "is no recording"),
        (lambda data: data[:-1], "is damaged"),
        (lambda data: data[:60] + b"?" + data[61:], "is damaged"),
        (lambda data: data[: data.index(b"\n") + 1], "ends too early"),
    ],
)
def test_a_file_that_was_spoiled_is_refused(spoil: Any, complaint: str, path: Path) -> None:
    record(Random(), path)
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(RecordingError, match=complaint):
        load(path)


def test_a_file_that_is_not_there_is_named(path: Path) -> None:
    with pytest.raises(RecordingError, match=r"cannot read the recording .*search\.tree"):
        load(path)
