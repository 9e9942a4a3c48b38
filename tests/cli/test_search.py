from __future__ import annotations

import ast
import json
import shlex
import signal
import subprocess
import sys
import threading
import urllib.request
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from testkit.hosts.console import Cli, Puzzle, Start

from aiosearch import solve
from aiosearch.cli.runs.search import summary
from aiosearch.statistics import WorkerStatistics
from aiosearch.workloads import Queens

QUEENS = "aiosearch.workloads.queens:Queens"
HERE = ("--workers", "0")


def test_result_and_report(cli: Cli) -> None:
    """The best solution goes to stdout, and how it went to stderr."""
    outcome = cli("search", QUEENS, *HERE, "--set", "n=6")
    assert (outcome.code, outcome.out) == (0, "(1, 3, 5, 0, 2, 4)\n")
    assert "Queens(n=6)  DepthFirst, strategy queue, this process\n" in outcome.err
    assert "#4 " in outcome.err
    assert "status     complete: everything is explored\n" in outcome.err
    assert "best       (1, 3, 5, 0, 2, 4)\n" in outcome.err
    assert "solutions  4\n" in outcome.err


def test_no_solution(cli: Cli) -> None:
    """Without a solution, stdout stays empty and the exit code is 0."""
    outcome = cli("search", QUEENS, *HERE, "--set", "n=3")
    assert (outcome.code, outcome.out) == (0, "")


def test_thousands_of_solutions(cli: Cli) -> None:
    """Of many solutions without a cost, ten are shown and then powers of two."""
    outcome = cli("search", QUEENS, *HERE, "--set", "n=8")
    numbers = [int(line[1:].split()[0]) for line in outcome.err.splitlines() if line[0] == "#"]
    assert numbers == [*range(1, 11), 16, 32, 64]


def test_costs(cli: Cli, puzzle: Puzzle) -> None:
    """With costs, the best solution is the cheapest, and its cost is told."""
    outcome = cli("search", puzzle("Sized"), *HERE, "--set", "n=4")
    assert outcome.out == "{'left': 0}\n"
    assert "best 4  worker 0" in outcome.err
    assert "cost       0\n" in outcome.err


def test_workers(cli: Cli) -> None:
    """With several workers, a table says what each one did."""
    outcome = cli("search", QUEENS, "--workers", "2")
    assert outcome.code == 0
    table = outcome.err.splitlines()[-3:]
    assert table[0].split() == ["worker", "nodes", "busy", "waiting", "idle", "tasks"]
    nodes = [int(line.split()[1].replace(",", "")) for line in table[1:]]
    assert sum(nodes) == 2057


def test_the_table_says_what_was_done_before_and_on_which_machine() -> None:
    worker = WorkerStatistics(
        nodes=40, tasks=1, reports=1, messages=1, bytes=0, steals=0, busy=1.0, waiting=0.0, idle=0.0
    )
    result = solve(Queens(4), workers=0)
    workers = (worker, msgspec.structs.replace(worker, host="rack7"))
    figures = msgspec.structs.replace(result.statistics, nodes=100, workers=workers)
    told = summary(replace(result, statistics=figures), solution=False)
    table = [line.split() for line in told.splitlines()[-4:]]
    assert table[0][-1] == "machine"
    assert (table[1][-2:], table[2][-1]) == (["this", "one"], "rack7")
    assert table[3][:2] == ["before", "20"]


def test_file_problem_on_workers(cli: Cli, puzzle: Puzzle) -> None:
    """Worker processes find a problem that was named by its file."""
    outcome = cli("search", puzzle("Count"), "--workers", "1", "--set", "n=5", "--json")
    assert outcome.code == 0
    assert outcome.events[-1]["nodes"] == 6


def test_quiet(cli: Cli) -> None:
    """--quiet leaves the result only."""
    outcome = cli("search", QUEENS, *HERE, "--quiet", "--set", "n=4")
    assert (outcome.out, outcome.err) == ("(1, 3, 0, 2)\n", "")


def test_json(cli: Cli, puzzle: Puzzle) -> None:
    """--json gives every event as a line, solutions included, and nothing else."""
    outcome = cli("search", puzzle("Sized"), *HERE, "--set", "n=2", "--json")
    events = outcome.events
    assert events[0]["type"] == "SearchStarted"
    assert [(event["solution"], event["cost"]) for event in of("Improved", events)] == [
        ({"left": 2}, 2.0),
        ({"left": 1}, 1.0),
        ({"left": 0}, 0.0),
    ]
    assert events[-1]["type"] == "SearchFinished"
    assert events[-1]["best"] == {"left": 0}
    assert outcome.err == ""


def of(kind: str, events: list[dict[str, object]]) -> list[dict[str, object]]:
    return [event for event in events if event["type"] == kind]


def test_json_of_what_json_cannot_say(cli: Cli, puzzle: Puzzle) -> None:
    """A solution that JSON cannot say is written as Python would."""
    outcome = cli("search", puzzle("Keyed"), *HERE, "--json")
    assert outcome.code == 0
    assert outcome.events[-1]["best"] == {"(0, 0)": 1}


@pytest.mark.parametrize("workers", ["0", "1"])
def test_prints_of_the_problem(cli: Cli, puzzle: Puzzle, workers: str) -> None:
    """What a problem prints does not get into the result."""
    outcome = cli("search", puzzle("Count"), "--workers", workers, "--set", "loud=true", "--json")
    assert outcome.events[-1]["status"] == "complete"
    assert "loud\n" in outcome.err


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        (("--nodes", "50"), "50 nodes explored"),
        (("--solutions", "3"), "3 solutions found"),
        (("--seconds", "0.05"), "0.05 seconds are over"),
        (("--memory", "1MB"), "more than 1000000 bytes of memory in use"),
    ],
)
def test_limits(cli: Cli, limit: tuple[str, str], reason: str) -> None:
    """A limit ends the search, with exit code 0."""
    outcome = cli("search", QUEENS, *HERE, "--set", "n=16", *limit)
    assert outcome.code == 0
    assert f"status     limit: {reason}\n" in outcome.err


def test_settings_reach_the_search(cli: Cli, puzzle: Puzzle) -> None:
    """Order, strategy and seed are those of the flags, and the seed also the problem's."""
    flags = ("--order", "breadth-first", "--strategy", "interleaved", "--seed", "7")
    outcome = cli(
        "search", puzzle("Count"), *HERE, *flags, "--strategy-set", "depth=1", "--set", "n=1"
    )
    assert outcome.code == 0
    assert "Count(n=1, seed=7, " in outcome.err
    assert "BreadthFirst, strategy interleaved" in outcome.err


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (("--order", "up"), "--order: unknown order 'up'"),
        (("--order", "bnb"), "--order: branch-and-bound needs Count to have a method bound"),
        (("--strategy", "none"), "--strategy: unknown strategy 'none'"),
        (("--strategy-set", "depth=1"), "strategy 'queue' refuses its options"),
        (("--strategy-set", "depth"), "--strategy-set takes name=value"),
        (("--journal", "no/where"), "no/where: No such file"),
        (("--journal", "no/where", "--resume"), "no/where: No such file"),
        (("--journal", "."), "no ordinary file"),
        (("--workers", "4097"), "4096 workers at most"),
        (("--patience", "nan"), "patience must be above 0 seconds"),
        (("--listen", ""), "--listen takes an address"),
        (("--trace", "no/where"), "cannot write the trace no/where: No such file"),
    ],
)
def test_refusals(cli: Cli, puzzle: Puzzle, flags: tuple[str, ...], told: str) -> None:
    """What cannot be done is refused in a sentence, with exit code 2."""
    outcome = cli("search", puzzle("Count"), *HERE, *flags)
    assert (outcome.code, outcome.out) == (2, "")
    assert told in outcome.err
    assert outcome.err.count("\n") == 1


def test_a_cache_that_is_something_else_is_refused(cli: Cli, puzzle: Puzzle) -> None:
    """Before the search, and it stays as it is."""
    Path("thesis.txt").write_text("mine")
    outcome = cli("search", puzzle("Count"), *HERE, "--cache", "thesis.txt")
    assert outcome.code == 2
    assert "--cache: thesis.txt cannot be used as a verdict cache: it is some" in outcome.err
    assert Path("thesis.txt").read_text() == "mine"


def test_a_problem_that_others_do_not_run_is_told_before_they_join(
    cli: Cli, puzzle: Puzzle
) -> None:
    listening = ("--workers", "1", "--listen", "127.0.0.1:0")
    first, *_ = cli("search", puzzle("Count"), *listening).err.splitlines()
    assert first.startswith("warning: machines that join will do nothing: Count has no entry point")
    queens = cli("search", "aiosearch.workloads.queens:Queens", *listening)
    assert "warning" not in queens.err


def test_no_problem(cli: Cli, puzzle: Puzzle) -> None:
    """A class without the methods of a problem is refused."""
    outcome = cli("search", puzzle("Nothing"), *HERE)
    assert outcome.code == 2
    assert "Nothing is no problem: it lacks root()" in outcome.err


def test_bad_variable_is_named(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong strategy from a variable is told with the variable."""
    monkeypatch.setenv("AIOSEARCH_STRATEGY", "none")
    assert "AIOSEARCH_STRATEGY: unknown strategy" in cli("search", QUEENS).err


@pytest.mark.parametrize("workers", ["0", "1"])
def test_failure(cli: Cli, puzzle: Puzzle, workers: str) -> None:
    """A problem that raises ends the search with 1, and is named with method and path."""
    outcome = cli("search", puzzle("Failing"), "--workers", workers)
    assert outcome.code == 1
    assert "Failing.expand at node root/0/0: RuntimeError: two is too many (node: " in outcome.err
    assert "Traceback" not in outcome.err
    assert "-v shows" in outcome.err


def test_failure_in_full(cli: Cli, puzzle: Puzzle) -> None:
    """--verbose shows the worker's traceback."""
    outcome = cli("search", puzzle("Failing"), "--workers", "1", "--verbose")
    assert 'raise RuntimeError("two is too many")' in outcome.err


def test_failure_skipped(cli: Cli, puzzle: Puzzle) -> None:
    """--on-error skip leaves the subtree out, and counts it."""
    outcome = cli("search", puzzle("Failing"), *HERE, "--on-error", "skip")
    assert outcome.code == 0
    assert "1 skipped" in outcome.err


def test_import_failure_in_full(cli: Cli) -> None:
    """--verbose also shows why a module cannot be imported."""
    Path("sad_module.py").write_text("raise ValueError('sad')")
    outcome = cli("search", "sad_module.py:X", "-v")
    assert outcome.code == 2
    assert "sad_module.py" in outcome.err.partition("Traceback")[2]


def test_resume(cli: Cli) -> None:
    """A journal is enough to go on: it knows the problem and how it was searched."""
    begin = ("search", QUEENS, *HERE, "--set", "n=7", "--journal", "j", "--order", "bfs")
    first = cli(*begin, "--nodes", "100", "--seed", "3", "--json")
    assert first.events[-1]["status"] == "limit"
    second = cli("search", "--journal", "j", "--resume", *HERE, "--json")
    started, finished = second.events[0], second.events[-1]
    assert (started["problem"], started["order"], started["seed"]) == ("Queens", "BreadthFirst", 3)
    assert (started["resumed"], started["nodes"]) == (True, 100)
    assert (finished["status"], finished["solutions"]) == ("complete", 40)


def test_flags_override_a_journal(cli: Cli) -> None:
    """A flag counts more than what the journal says, and a variable less."""
    cli("search", QUEENS, *HERE, "--journal", "j", "--nodes", "9", "--order", "bfs")
    again = cli("search", "--journal", "j", "--resume", *HERE, "--order", "dfs", "--json")
    assert again.events[0]["order"] == "DepthFirst"


def test_how_to_go_on(cli: Cli, puzzle: Puzzle) -> None:
    """A search that stops early and has a journal tells the command that goes on."""
    arguments = ("search", puzzle("Count"), *HERE, "--journal", "a b", "--nodes", "2")
    outcome = cli(*arguments)
    told = f"aiosearch search {puzzle('Count')} --workers 0 --journal 'a b' --nodes 4 --resume"
    assert outcome.err.splitlines()[-1].endswith(told)
    assert cli("search", puzzle("Count"), *HERE, "--journal", "c").err.count("aiosearch") == 0


def test_what_is_told_goes_on(cli: Cli) -> None:
    """Each time it is typed, past the limit that stopped the search before, until all is done."""
    begin = ("search", QUEENS, *HERE, "--set", "n=8", "--journal", "j", "--json")
    outcome = cli(*begin, "--nodes", "900")
    nodes = [outcome.events[-1]["nodes"]]
    for _ in range(2):
        told = outcome.err.partition("to go on, with a higher limit: aiosearch ")[2]
        outcome = cli(*shlex.split(told))
        nodes.append(outcome.events[-1]["nodes"])
    assert "to go on" not in outcome.err
    assert nodes == [900, 1800, 2057]


def test_a_limit_of_another_origin_is_raised_too(
    cli: Cli, puzzle: Puzzle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIOSEARCH_NODES", "2")
    outcome = cli("search", puzzle("Count"), *HERE, "--journal", "j")
    assert outcome.err.endswith(" --journal j --nodes 4 --resume\n")


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ((), "name a problem"),
        (("--resume", "--set", "n=3"), "--set changes a problem"),
        ((QUEENS,), "is there already"),
        ((QUEENS, "--resume", "--set", "n=5"), "Queens(n=4), and this search is of"),
    ],
)
def test_wrong_resumes(cli: Cli, flags: tuple[str, ...], told: str) -> None:
    """A journal is neither overwritten nor taken for another problem's."""
    cli("search", QUEENS, *HERE, "--set", "n=4", "--journal", "j", "--nodes", "3")
    outcome = cli("search", "--journal", "j", *flags, *HERE)
    assert outcome.code == 2
    assert told in outcome.err


def test_resume_without_its_module(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the journal's problem cannot be found, the sentence says how to name it."""
    Path("gone_module.py").write_text("from puzzles import *\nclass Mine(Sized): pass")
    monkeypatch.syspath_prepend(Path(__file__).parent)
    assert cli("search", "gone_module:Mine", *HERE, "--set", "n=9", "--journal", "j").code == 0
    Path("gone_module.py").unlink()
    monkeypatch.delitem(sys.modules, "gone_module")
    outcome = cli("search", "--journal", "j", "--resume")
    assert outcome.code == 2
    assert "aiosearch search path/to/file.py:Mine --journal j --resume" in outcome.err


def test_resume_of_no_journal(cli: Cli) -> None:
    """A file that is no journal is said to be none."""
    Path("j").write_text("hello\n")
    outcome = cli("search", "--journal", "j", "--resume")
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert "is not a journal" in outcome.err


def test_trace(cli: Cli) -> None:
    """--trace writes a file for Perfetto."""
    assert cli("search", QUEENS, *HERE, "--trace", "t.json").code == 0
    assert json.loads(Path("t.json").read_text())["traceEvents"]


def test_report(cli: Cli) -> None:
    """--report writes a page, and a place where none can be is told before the search."""
    assert cli("search", QUEENS, *HERE, "--report", "search.html").code == 0
    assert "everything is explored" in Path("search.html").read_text()
    outcome = cli("search", QUEENS, *HERE, "--report", "nowhere/search.html")
    assert (outcome.code, outcome.err) == (
        2,
        "aiosearch: cannot write nowhere/search.html: there is no folder nowhere\n",
    )


def test_a_page_is_served_while_it_runs(start: Start) -> None:
    """On the port that it names, until the search ends."""
    process = start("search", QUEENS, *HERE, "--set", "n=18", "--watch=0")
    assert process.stderr is not None
    said = iter(process.stderr.readline, "")
    address = next(line for line in said if "watch it at" in line).split()[-1]
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(address, timeout=20) as answer:
        assert b"running" in answer.read()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)


def test_no_signal_handlers_remain(cli: Cli) -> None:
    """A search leaves no handler, no thread and no path of its own behind."""
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    cli("search", QUEENS, *HERE, "--json")
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    assert "aiosearch-json" not in {thread.name for thread in threading.enumerate()}


def test_outside_the_main_thread(cli: Cli) -> None:
    """The console script works on a thread, where it can have no signal handlers."""
    outcomes: list[int] = []
    arguments = ("search", QUEENS, *HERE, "--quiet")
    thread = threading.Thread(target=lambda: outcomes.append(cli(*arguments).code))
    thread.start()
    thread.join()
    assert outcomes == [0]


@pytest.mark.parametrize("flag", ["--json", "--quiet"])
def test_closed_stdout(start: Start, flag: str) -> None:
    """When nobody reads stdout any more, the search ends without a word."""
    process = start("search", QUEENS, *HERE, "--set", "n=10", flag)
    assert process.stdout is not None
    if flag == "--json":
        assert process.stdout.readline()
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == ""
    assert process.wait(20) == 0


def test_closed_stderr(start: Start) -> None:
    """When nobody reads stderr any more, the search ends too."""
    process = start("search", QUEENS, *HERE, "--set", "n=18")
    assert process.stderr is not None
    assert process.stderr.readline()
    process.stderr.close()
    assert process.wait(20) == 0


def test_no_stdout() -> None:
    """A stdout that was closed from the start is told in one sentence."""
    command = f"{shlex.quote(sys.executable)} -m aiosearch search {QUEENS} >&-"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


def test_no_stderr() -> None:
    """A stderr that was closed from the start is missed by nobody, workers included."""
    command = f"{shlex.quote(sys.executable)} -m aiosearch search {QUEENS} --quiet --workers 2 2>&-"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert done.returncode == 0
    assert sorted(ast.literal_eval(done.stdout)) == list(range(8)), "any may be first"


def test_a_folder_that_was_deleted(tmp_path: Path) -> None:
    folder = shlex.quote(str(tmp_path / "gone"))
    command = f"{shlex.quote(sys.executable)} -m aiosearch search {QUEENS} --quiet"
    line = f"mkdir {folder}; cd {folder}; rmdir {folder}; {command}"
    done = subprocess.run(line, shell=True, capture_output=True, text=True)
    told = "aiosearch: the current folder was deleted; go to another one\n"
    assert (done.returncode, done.stderr) == (2, told)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("flag", ["--json", "--quiet"])
def test_full_disk(start: Start, flag: str) -> None:
    """A stdout that cannot be written is a failure, told in one sentence."""
    with Path("/dev/full").open("w") as full:
        process = start("search", QUEENS, *HERE, flag, stdout=full)
        _, err = process.communicate(timeout=20)
    assert process.returncode == 1
    assert err == "aiosearch: cannot write to stdout: No space left on device\n"
