"""Recorded spaces, and algorithms that race on them."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from aiosearch.cli import main
from aiosearch.tuner import (
    Measurement,
    RecordedSpace,
    Sampler,
    SearchSpace,
    TableError,
    TuningRecord,
    TuningReport,
    replay,
)


def program(s: Sampler) -> None:
    s.tile("rows", 64, parts=2)
    if s.fork("form", ("plain", "stages")) == "stages":
        s.integer("depth", 1, 8)
    s.categorical("unroll", (1, 2, 4))


def recorded() -> RecordedSpace:
    """Rows of 16 in 4 stages are the fastest; a block of 64 fails."""
    entries = []
    for trace in SearchSpace(program).points():
        block, depth = trace.decisions["rows"][1], trace.decisions.get("depth", 9)
        slow = abs(math.log2(block / 16)) + abs(depth - 4) + 0.2 * trace.decisions["unroll"]
        seconds = None if block == 64 else 1e-3 * 1.3**slow
        entries.append(Measurement(trace, seconds, "" if seconds else "compile"))
    record = TuningRecord(
        kernel="k", arguments=("f32[64]",), device="d", configuration={}, decisions={}
    )
    return RecordedSpace.of(TuningReport(record, tuple(entries)))


def test_a_recorded_space_survives_its_file(tmp_path: Path) -> None:
    space = recorded()
    space.save(tmp_path / "k.json")
    again = RecordedSpace.load(tmp_path / "k.json")
    assert again == space
    assert again.traces == space.traces
    assert again.best == pytest.approx(1e-3 * 1.3**0.2)


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "k.json").write_text("[]")
    with pytest.raises(TableError, match="is no recorded space"):
        RecordedSpace.load(tmp_path / "k.json")


def test_its_space_has_exactly_the_recorded_points() -> None:
    space = recorded()
    assert {trace.key for trace in space.space().points()} == set(space.outcomes)


def test_evolution_needs_fewer_measurements_than_chance() -> None:
    space = recorded()
    evolved = sorted(
        replay(space, "evolution", model="trees", seed=seed).share for seed in range(7)
    )
    random = sorted(replay(space, "random", model="trees", seed=seed).share for seed in range(7))
    assert evolved[3] < 0.25
    assert evolved[3] < random[3]


def test_an_exhaustive_replay_finds_the_best() -> None:
    run = replay(recorded(), "exhaustive", most=10**6)
    assert min(run.trajectory) == recorded().best
    assert len(run.trajectory) == run.points


def test_replays_of_one_seed_are_equal() -> None:
    assert replay(recorded(), model="trees", seed=5) == replay(recorded(), model="trees", seed=5)


def test_the_console_script_compares_algorithms(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded().save(tmp_path / "k.json")
    given = ["tune", "--replay", str(tmp_path / "k.json"), "--model", "trees", "--json"]
    assert main([*given, "--algorithm", "random", "--algorithm", "best-first"]) == 0
    facts = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["algorithm"] for each in facts] == ["random", "best-first"]
    assert all(len(each["measurements"]) == 10 for each in facts)


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (["tune"], "name a kernel"),
        (["tune", "m:k", "--replay", "x.json"], "takes the place of a kernel"),
        (["tune", "m:k", "--algorithm", "a", "--algorithm", "b"], "are for --replay"),
        (["tune", "m:k", "--seconds", "0"], "no number above 0"),
        (["tune", "--replay", "absent.json"], "cannot read the recorded space"),
        (["tune", "math:sqrt"], "is not tunable"),
        (["tune", "tuned_kernels:chunked", "--arg", "f33[2]"], "no such type"),
        (["tune", "tuned_kernels:chunked"], "give each, as --arg"),
    ],
)
def test_the_console_script_says_what_is_wrong(
    given: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(given) == 2
    error = capsys.readouterr().err
    assert complaint in error
    assert "Traceback" not in error
