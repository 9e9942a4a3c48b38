"""A search is recorded and replayed from the command line."""

from __future__ import annotations

import csv
import json
import signal
from pathlib import Path
from xml.etree import ElementTree

import pytest
from testkit.hosts.console import Cli, Start

TREE = "aiosearch.testing.problems:Random"
PUZZLE = ("aiosearch.workloads.superopt:Superopt", "--set", "length=2", "--set", "width=8")


@pytest.fixture
def recording(cli: Cli) -> str:
    assert cli("search", TREE, "--record-tree", "random.tree").code == 0
    return "random.tree"


def test_a_recording_says_what_it_holds(cli: Cli) -> None:
    told = cli("search", TREE, "--record-tree", "random.tree")
    assert told.code == 0
    assert told.out.startswith("random.tree: the whole tree, ")
    assert "bytes a node" in told.out
    assert Path("random.tree").is_file()


def test_a_recording_with_questions_tells_their_time(cli: Cli) -> None:
    told = cli("search", *PUZZLE, "--record-tree", "so.tree", "--json")
    (line,) = told.events
    assert line["footer"]["questions"] > 0
    private, shared = (
        cli("simulate", "so.tree", "--workers", "4", "--verdicts", how, "--json").events[0]
        for how in ("private", "shared")
    )
    assert shared["runs"][0]["checks"] == line["footer"]["questions"]
    assert private["runs"][0]["checks"] >= shared["runs"][0]["checks"]


def test_every_combination_of_switches_is_a_way(cli: Cli) -> None:
    cli("search", *PUZZLE, "--record-tree", "so.tree")
    switches = ("--verdicts", "shared,private", "--solver", "locked", "--split", "height1,adaptive")
    told = cli("simulate", "so.tree", *switches, "--workers", "2,4", "--json", "--contention", "1")
    (found,) = told.events
    ways = [(run["verdicts"], run["solver"], run["split"]) for run in found["runs"][::2]]
    assert ways == [
        ("shared", "locked", "height1"),
        ("shared", "locked", "adaptive"),
        ("private", "locked", "height1"),
        ("private", "locked", "adaptive"),
    ]
    assert [run["workers"] for run in found["runs"]] == 4 * [2, 4]
    assert found["settings"]["contention"] == 1.0


def test_the_lock_is_told(cli: Cli) -> None:
    cli("search", *PUZZLE, "--record-tree", "so.tree")
    lock = ("--solver", "locked", "--locked", "0.1", "--contention", "0.02")
    told = cli("simulate", "so.tree", *lock, "--workers", "2")
    assert "10.0% of each one by one when locked and 2.0% more for each that waits" in told.err
    assert told.out.splitlines()[1].startswith("queue locked ")


def test_a_recording_has_exactly_as_many_nodes_as_it_may(cli: Cli) -> None:
    for limit, told in (("100", "stopped before the end, 100 nodes"), ("364", "the whole tree")):
        tree = ("aiosearch.testing.problems:Balanced", "--set", "depth=5")
        assert told in cli("search", *tree, "--nodes", limit, "--record-tree", "some.tree").out


def test_more_machines_than_workers_are_not_taken_in_silence(cli: Cli, recording: str) -> None:
    told = cli("simulate", recording, "--workers", "1,2", "--hosts", "99")
    assert "--hosts 99: 2 workers cannot be on more than 2 machines" in told.err


def test_limits_end_a_recording(cli: Cli) -> None:
    tree = "aiosearch.testing.problems:Balanced"
    told = cli("search", tree, "--set", "depth=13", "--nodes", "100", "--record-tree", "some.tree")
    assert told.code == 0
    assert "stopped before the end" in told.out
    assert "stopped before its end" in cli("simulate", "some.tree", "--workers", "1").err


def test_an_interrupted_recording_keeps_what_is_whole(start: Start, tmp_path: Path) -> None:
    endless = ("aiosearch.workloads.uts:UTS", "--set", "depth=40")
    process = start("search", *endless, "--record-tree", "cut.tree", cwd=tmp_path)
    growing = tmp_path / "cut.tree.tmp"
    while process.poll() is None and not (growing.exists() and growing.stat().st_size > 1000):
        continue
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate()
    assert process.returncode == 130
    assert "stopped before the end" in out
    assert [each.name for each in tmp_path.iterdir()] == ["cut.tree"]


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (("--journal", "j"), "leave --journal out"),
        (("--trace", "t"), "leave --trace out"),
        (("--solutions", "1"), "leave --solutions out"),
        (("--order", "breadth-first"), "depth-first"),
    ],
)
def test_what_does_not_go_with_a_recording_is_said(
    cli: Cli, flags: tuple[str, ...], complaint: str
) -> None:
    told = cli("search", TREE, "--record-tree", "random.tree", *flags)
    assert (told.code, told.out) == (2, "")
    assert complaint in told.err
    assert len(told.err.splitlines()) == 1


def test_a_table_has_a_line_for_each_number_of_workers(cli: Cli, recording: str) -> None:
    told = cli("simulate", recording, "--workers", "1..4,6", "--scale", "100")
    assert told.code == 0
    head, *lines = told.out.splitlines()
    assert head.split()[:4] == ["way", "workers", "hosts", "time"]
    assert [line.split()[1] for line in lines] == ["1", "2", "4", "6"]
    assert lines[0].split()[4] == "1.00"
    assert "a message costs the host 16us" in told.err


def test_everything_is_in_json_csv_and_a_drawing(cli: Cli, recording: str) -> None:
    files = ("--csv", "runs.csv", "--plot", "runs.svg")
    strategies = ("--strategy", "queue,sockets", "--strategy", "queue")
    told = cli("simulate", recording, *strategies, "--workers", "1,8", "--json", *files)
    (found,) = told.events
    runs = [(run["strategy"], run["workers"]) for run in found["runs"]]
    assert runs == [("queue", 1), ("queue", 8), ("sockets", 1), ("sockets", 8)]
    assert found["recording"]["header"]["problem"] == TREE
    rows = list(csv.DictReader(Path("runs.csv").read_text().splitlines()))
    assert [row["speedup"] for row in rows] == [str(run["speedup"]) for run in found["runs"]]
    drawn = ElementTree.parse("runs.svg").getroot()
    words = {text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")}
    assert {"queue", "sockets", "efficiency"} <= words


def test_more_latency_and_dearer_messages_cost_time(cli: Cli, recording: str) -> None:
    def seconds(*flags: str) -> float:
        spread = ("--workers", "8", "--hosts", "4", "--scale", "1000")
        told = cli("simulate", recording, *spread, "--json", *flags)
        return float(json.loads(told.out)["runs"][0]["seconds"])

    usual = seconds()
    assert seconds("--latency", "20ms") > usual
    assert seconds("--host-cost", "1ms") > usual


def test_repeats_give_the_median(cli: Cli, recording: str) -> None:
    told = cli("simulate", recording, "--workers", "4", "--repeat", "2", "--json")
    assert len(told.events[0]["runs"]) == 1


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (("--workers", "0"), "--workers takes numbers from 1"),
        (("--workers", "many"), "--workers takes numbers as 1,2,4"),
        (("--latency", "soon"), "--latency takes a time"),
        (("--hosts", "0"), "--hosts is a number above zero"),
        (("--scale", "inf"), "--scale is a number above zero"),
        (("--scale", "1e300"), "more than a century"),
        (("--latency", "1e400"), "--latency is a century at most"),
        (("--plot", "runs.png"), "a plot is SVG"),
        (("--solver", "none"), "--solver is pooled or locked, or both, not 'none'"),
        (("--locked", "2"), "--locked is from 0 to 1"),
        (("--contention", "-1"), "--contention is a number from zero"),
        (("--contention", "inf"), "--contention is a number from zero"),
        (("--strategy", "nobody"), "unknown strategy 'nobody'"),
        (("--order", "best-first"), "priority"),
        (("--csv", "no/such/folder.csv"), "cannot write"),
    ],
)
def test_wrong_usage_is_one_sentence(
    cli: Cli, recording: str, flags: tuple[str, ...], complaint: str
) -> None:
    told = cli("simulate", recording, *(("--workers", "1") if "--csv" in flags else ()), *flags)
    assert (told.code, told.out) == (2, "")
    assert complaint in told.err


def test_what_is_no_recording_is_refused(cli: Cli) -> None:
    Path("thesis.txt").write_text("nothing of the kind")
    told = cli("simulate", "thesis.txt")
    assert (told.code, told.err.count("\n")) == (2, 1)
    assert "is no recording" in told.err
