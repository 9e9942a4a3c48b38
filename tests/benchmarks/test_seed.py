"""The seed's experiment: which ways there are, and what stands beside each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import lib.engine.published as published
import lib.engine.replays as replays
import pytest
import seed

from aiosearch.lab.rows import ArmRow, rows
from aiosearch.lab.trial import TrialOutcome
from aiosearch.recording import record
from aiosearch.workloads import RUNGS, Blocks

RUNG = RUNGS["blocks-second"]
PRIVATE = next(way for way in seed.ways() if str(way) == "queue, per process")


def outcome(workers: int, **figures: Any) -> TrialOutcome:
    usual: dict[str, Any] = {
        "arm": seed.replace(PRIVATE.arm, workers=workers), "round": 0, "complete": True,
        "seconds": 8.0, "nodes": 100, "solutions": 3, "answer": "same", "best_cost": None,
        "memory": 1, "cpu": 8.0, "busiest": 6.0, "worker_cpu": (3.0,) * workers, "balance": 1.0,
        "busy": 7.0, "idle": 0.0, "waiting": 2.0, "messages": 10, "bytes": 1, "steals": 0,
        "checks": 50, "queue_seconds": 1.0,
    }  # fmt: skip
    return TrialOutcome(**(usual | figures))


def row(base: TrialOutcome, one: TrialOutcome) -> ArmRow:
    return rows(RUNG.problem, [one.arm], [base, one], {})[0]


def told(capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, Any]]:
    lines = map(json.loads, capsys.readouterr().out.splitlines())
    return {line["figure"].partition(" of ")[0]: line for line in lines}


def test_every_strategy_and_the_seeds_own_split_have_every_cache() -> None:
    ways = seed.ways()
    assert {way.strategy for way in ways} >= {"queue", "stealing", "sockets", "dealt once"}
    assert len({way.arm for way in ways}) == len(ways) == 3 * len({way.strategy for way in ways})
    assert all(way.arm.split == "height1" for way in ways if way.strategy == "dealt once")


def test_four_measures_are_told_by_workers_and_the_studys_stand_beside(
    capsys: pytest.CaptureFixture[str],
) -> None:
    base = outcome(1, arm=seed.BASE)
    four = outcome(
        4, seconds=4.0, cpu=16.0, busiest=2.0, checks=75, worker_cpu=(1.0, 2.0, 2.0, 3.0)
    )
    here = {4: row(base, four)}
    seed.Found(PRIVATE, "a rung", "gqa", row(base, base), here, None).tell()
    found = told(capsys)
    speed, balance = found["speed-up"], found["balance"]
    assert (speed["value"], speed["busiest"], speed["cpu"]) == (2.0, {"4": 3.0}, {"4": 0.5})
    assert speed["seed"]["96"] == published.RANKS["gqa"][-1]
    assert (balance["value"], balance["least_over_most"]) == (0.667, {"4": 0.333})
    assert found["contention"]["value"] == 2.0 / (4 * 4.0)
    assert (found["questions"]["value"], found["questions"]["again"]) == (1.5, {"4": 25.0})
    assert found["questions"]["seed"]["64"] > 5


def test_what_was_left_out_has_no_figure(capsys: pytest.CaptureFixture[str]) -> None:
    seed.Found(PRIVATE, "a rung", "gqa", None, {}, None).tell()
    found = told(capsys)
    assert len(found) == 4
    assert all(one["value"] is None and not one["measured"] for one in found.values())


def test_a_simulation_repeats_questions_only_where_verdicts_are_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And one worker asks each once, in every way."""
    monkeypatch.setattr(replays, "WORKERS", (1, 4))
    record(Blocks("rms-norm", 2, 4), tmp_path / "a.tree", unknown_lives=False)
    recorded = replays.Replays(tmp_path / "a.tree")
    for way in seed.ways():
        if way.strategy in ("queue", "dealt once"):
            curve = recorded.curve(str(way), way.arm)
            one, four = (curve.redundancy(each) for each in curve.rows)
            assert one == 1.0
            assert (four > 1.0) == (way.cache == "per process")
