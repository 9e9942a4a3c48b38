"""Arms on a virtual clock, from a recording of a search that asks z3."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from aiosearch.lab.arms import Arm
from aiosearch.lab.simulated_arms import Replay, SimulationSetting
from aiosearch.recording import Recorded, load, record
from aiosearch.testing.problems import Balanced
from aiosearch.workloads import Superopt, Tiny

ARM = Arm("queue", "depth-first", 4)


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    path = tmp_path_factory.mktemp("recorded") / "asking.tree"
    record(Superopt("P1", 3, 8, tests=1), path)
    return load(path)


def test_the_base_is_one_worker_of_the_queue(asking: Recorded) -> None:
    replay = Replay(asking, SimulationSetting())
    found = replay.run(ARM.base)
    assert (found.speedup, found.efficiency, found.redundant) == (1.0, 1.0, 0)
    assert found.checks == asking.footer.questions


def test_private_verdicts_are_redundant_and_shared_ones_are_not(asking: Recorded) -> None:
    replay = Replay(asking, SimulationSetting())
    shared, private = (replay.run(replace(ARM, verdicts=how)) for how in ("shared", "private"))
    assert shared.redundant == 0 <= private.redundant
    assert private.checks == asking.footer.questions + private.redundant
    assert (private.name, shared.name) == ("queue private", "queue")


def test_a_locked_z3_is_as_one_and_its_lock_may_cost_more(asking: Recorded) -> None:
    """A lock around a part of each check costs less, and one that is fought for costs more."""
    locked = replace(ARM, solver="locked")
    one, whole, part, fought = (
        Replay(asking, replace(setting, host_cost=0.0)).run(arm)
        for arm, setting in (
            (ARM, SimulationSetting(checkers=1)),
            (locked, SimulationSetting()),
            (locked, SimulationSetting(locked=0.1)),
            (locked, SimulationSetting(contention=0.5)),
        )
    )
    assert whole.seconds == pytest.approx(one.seconds, rel=0.02)
    assert part.seconds < whole.seconds < fought.seconds
    waited = [each.contention * each.seconds for each in (part, whole, fought)]
    assert waited[0] < waited[1] < waited[2], "a share of all time may be less: it is waiting"


def test_a_tree_that_is_dealt_once_is_cut_at_depth_one(tmp_path: Path) -> None:
    record(Tiny(4), tmp_path / "tiny.tree")
    dealt = Replay(load(tmp_path / "tiny.tree"), SimulationSetting()).run(
        replace(ARM, split="height1")
    )
    assert dealt.tasks == 1 + 4
    assert 0 <= dealt.least < dealt.balance < 1
    assert dealt.name == "queue height1"


def test_times_are_scaled_and_long_nodes_cut_first(asking: Recorded) -> None:
    usual, long, cut = (
        Replay(asking, setting).alone.seconds
        for setting in (
            SimulationSetting(),
            SimulationSetting(scale=100.0),
            SimulationSetting(scale=100.0, longest=0.0),
        )
    )
    assert long > 50 * usual
    assert cut < long


def test_the_median_of_repeats_counts(asking: Recorded) -> None:
    replay = Replay(asking, SimulationSetting())
    assert replay.run(ARM, repeat=3).seconds == pytest.approx(replay.run(ARM).seconds)


def test_a_strategy_keeps_its_exchange_where_it_is_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What workers pass on among themselves, nobody else hands out."""
    record(Balanced(3, 6), tmp_path / "balanced.tree")
    recorded = load(tmp_path / "balanced.tree")
    monkeypatch.setattr(recorded, "seconds", lambda node: 1e-3)
    found = Replay(recorded, SimulationSetting()).run(replace(ARM, strategy="stealing", workers=2))
    assert found.tasks == 1
    assert found.idle < 0.1
    assert found.balance > 0.9
