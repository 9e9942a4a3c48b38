"""A journal is looked into without the code that wrote it."""

from __future__ import annotations

import json
from pathlib import Path

from testkit.hosts.console import Cli

QUEENS = "aiosearch.workloads.queens:Queens"


def test_a_journal_says_what_it_holds(cli: Cli) -> None:
    cli("search", QUEENS, "--workers", "0", "--set", "n=6", "--journal", "j", "--nodes", "100")
    told = cli("journal", "show", "j").out
    assert f"problem    {QUEENS}  Queens(n=6)\n" in told
    assert "nodes      100 in " in told
    assert "% explored, " in told


def test_a_finished_journal_shows_its_last_solutions(cli: Cli) -> None:
    cli("search", QUEENS, "--workers", "0", "--set", "n=6", "--journal", "j")
    facts = json.loads(cli("journal", "show", "j", "--solutions", "2", "--json").out)
    assert (facts["complete"], facts["solutions"], facts["open"]) == (True, 4, 0)
    assert facts["bytes"] == Path("j").stat().st_size
    assert [len(solution) for solution in facts["last_solutions"]] == [6, 6]
    assert "#4     [" in cli("journal", "show", "j", "--solutions", "1").out


def test_the_torn_end_of_a_crash_is_told(cli: Cli) -> None:
    cli("search", QUEENS, "--workers", "0", "--set", "n=6", "--journal", "j")
    with Path("j").open("ab") as file:
        file.write(b"0badf00d {")
    assert "10 B at the end, which a resume cuts off" in cli("journal", "show", "j").out


def test_what_is_no_journal_is_one_sentence(cli: Cli) -> None:
    Path("text").write_text("no journal\n")
    for words, told in (
        (("text",), "text is not a journal"),
        (("nowhere",), "cannot read the journal nowhere"),
        (("text", "--solutions", "-1"), "--solutions must be 0 or more"),
    ):
        outcome = cli("journal", "show", *words)
        assert (outcome.code, outcome.err.count("\n")) == (2, 1)
        assert told in outcome.err
