"""Ways of running one search, compared from the command line."""

from __future__ import annotations

import csv
import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from testkit.hosts.console import Cli, Puzzle, Start

from aiosearch.workloads import RUNGS

TREE = ("aiosearch.workloads.shapes:Lopsided", "--set", "spine=200", "--set", "height=16")
BENCH = ("bench", "strategies")


def arms(text: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(text)["arms"]
    return found


def test_every_way_is_measured_and_the_base_is_added(cli: Cli, tmp_path: Path) -> None:
    done = cli(
        *BENCH, *TREE, "--strategy", "queue", "--workers", "2", "--split", "adaptive,height1",
        "--repeat", "1", "--csv", "out.csv", "--plot", "out.svg",
    )  # fmt: skip
    assert done.code == 0, done.err
    ways = re.findall(r"^queue.*?workers?", done.out, re.MULTILINE)
    assert ways == [
        "queue depth-first, 1 worker",
        "queue depth-first, 2 workers",
        "queue depth-first height1, 2 workers",
    ]
    assert "one round has no interval" in done.err
    head, row, *_ = done.out.splitlines()
    assert head.split()[:5] == ["way", "time", "speed-up", "nodes", "solutions"]
    nodes, _solutions = re.findall(r" ([\d,]+)(?= )", row.partition("worker")[2])[:2]
    assert int(nodes.replace(",", "")) > 1_000
    with (tmp_path / "out.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 3
    assert (tmp_path / "out.svg").read_text().startswith("<svg")


def test_json_holds_every_figure_with_its_interval(cli: Cli) -> None:
    done = cli(*BENCH, *TREE, "--strategy", "queue", "--workers", "1", "--repeat", "2", "--json")
    assert done.code == 0, done.err
    (base,) = arms(done.out)
    assert base["speedup"] == base["speedup_low"] == pytest.approx(1.0)
    assert base["seconds_low"] <= base["seconds"] <= base["seconds_high"]
    assert base["runs"] == 2
    assert base["nodes"] > 1_000


def test_all_strategies_run_in_the_orders_asked_for(cli: Cli) -> None:
    done = cli(*BENCH, *TREE, "--workers", "1", "--order", "dfs,bfs", "--repeat", "1", "--json")
    assert done.code == 0, done.err
    found = {(arm["strategy"], arm["order"]) for arm in arms(done.out)}
    assert {(name, order) for name in ("queue", "sockets") for order in ("dfs", "bfs")} <= found


def test_a_run_beyond_the_limit_is_told_and_no_failure(cli: Cli) -> None:
    done = cli(
        *BENCH, *TREE[:1], "--set", "height=60", "--strategy", "queue", "--workers", "1",
        "--repeat", "1", "--seconds", "0.2",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert "stopped at the limit" in done.out


def test_a_problem_that_others_may_not_run_is_left_to_this_machine(
    cli: Cli, puzzle: Puzzle
) -> None:
    count = (puzzle("Count"), "--workers", "1", "--repeat", "1")
    done = cli(*BENCH, *count, "--json")
    assert done.code == 0, done.err
    assert "left out: sockets: Count has no entry point" in done.err
    assert "sockets" not in {arm["strategy"] for arm in arms(done.out)}
    assert cli(*BENCH, *count, "--strategy", "sockets").code == 2


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("nothing",), "'nothing' does not name a problem"),
        (("T1", "--set", "depth=3"), "stays as it is"),
        (("small", "--workers", "0"), "--workers takes numbers from 1"),
        (("small", "--workers", "two"), "--workers takes numbers from 1"),
        (("small", "--repeat", "0"), "--repeat must be 1 or more"),
        (("small", "--seconds", "0"), "--seconds must be above 0"),
        (("small", "--verdicts", "hidden"), "--verdicts is shared or private"),
        (("small", "--strategy", "nobody"), "unknown strategy 'nobody'"),
        (("small", "--order", "best"), "needs UTS to have a method"),
        (("small", "--order", "sideways"), "unknown order 'sideways'"),
        (("small", "--seconds", "nan"), "--seconds must be above 0"),
        (("small", "--workers", "4097"), "--workers takes numbers from 1 to 4096"),
        (("small", "--plot", "out.png"), "a plot is SVG"),
        (("small", "--plot", "no/such/folder/out.svg"), "there is no folder"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(cli: Cli, words: tuple[str, ...], told: str) -> None:
    done = cli(*BENCH, *words)
    assert done.code == 2
    assert told in done.err
    assert len(done.err.strip().splitlines()) == 1
    assert "Traceback" not in done.err


def test_ctrl_c_shows_what_was_there(start: Start) -> None:
    process = start(
        *BENCH, *TREE, "--strategy", "queue", "--workers", "1", "--repeat", "100000", "--json"
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("round 1"):
            break
    process.send_signal(signal.SIGINT)
    out, told = process.communicate()
    assert process.returncode == 130
    assert "interrupted" in told
    assert arms(out)[0]["runs"] > 0


def test_a_rung_says_what_becomes_of_what_z3_does_not_know(cli: Cli) -> None:
    """Its counts hold with that; asked otherwise, such nodes are explored."""
    one = ("--strategy", "queue", "--workers", "1", "--repeat", "1", "--json")
    done = cli(*BENCH, "blocks-second", *one)
    assert done.code == 0, done.err
    (base,) = arms(done.out)
    rung = RUNGS["blocks-second"]
    assert (base["checks"], base["solutions"]) == (rung.checks, rung.solutions)
    blocks = "aiosearch.workloads.blocks:Blocks"
    few = (blocks, "--set", "length=2", "--set", "tilings=1", *one)
    nodes = [
        arms(cli(*BENCH, *few, "--on-unknown", how).out)[0]["nodes"] for how in ("drop", "keep")
    ]
    assert nodes[0] < nodes[1]
