"""Which arms there are, what they are compared with and how they are called."""

from __future__ import annotations

from aiosearch.lab.arms import Arm, cross


def test_every_combination_comes_once_with_its_bases_first() -> None:
    arms = cross(("queue", "other"), ("dfs", "bfs"), (1, 2))
    assert arms[:2] == [Arm("queue", "dfs", 1), Arm("queue", "bfs", 1)]
    assert len(arms) == len(set(arms)) == 8


def test_a_base_that_nobody_asked_for_is_added() -> None:
    arms = cross(("other",), ("dfs",), (4,), ("private",), ("locked",), ("height1",))
    assert arms == [
        Arm("queue", "dfs", 1),
        Arm("other", "dfs", 4, "private", "locked", "height1"),
    ]


def test_an_arm_names_only_the_switches_that_are_not_as_usual() -> None:
    assert str(Arm("queue", "dfs", 1)) == "queue dfs, 1 worker"
    assert str(Arm("queue", "dfs", 2, "private")) == "queue dfs private, 2 workers"
    assert Arm("queue", "dfs", 2, split="height1").name == "queue height1"
