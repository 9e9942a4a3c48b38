from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from answers import SOURCE, answer, key
from testkit.hosts.console import Cli

from aiosearch.cli.output.units import size
from aiosearch.optimizer.outcomes.results import Results, default_results_path
from aiosearch.optimizer.outcomes.unfinished_work import WorkKind, WorkStore


@pytest.fixture
def kept() -> Path:
    """Three answers in the file that commands take by default."""
    with Results.open() as results:
        results.keep(answer(1))
        results.keep(answer(2, name="softmax", faster=False))
        results.keep(answer(3, name="gelu"))
    return default_results_path()


def test_list(cli: Cli, kept: Path) -> None:
    """Answers are listed, the newest first, as JSON with all that is known."""
    lines = cli("results", "list").out.splitlines()
    assert [line.split()[1] for line in lines] == ["program", "gelu", "softmax", "trace_of_product"]
    assert "10.00x" in lines[1]
    assert " none " in lines[2]
    listed = json.loads(cli("results", "list", "--json").out)
    assert [one["speedup"] for one in listed] == pytest.approx([10, None, 10])
    assert listed[0]["id"].startswith(lines[1].split()[0])
    assert listed[0]["key"]["types"] == ["f32[512, 512]", "f32[512, 512]"]


def test_nothing_to_list(cli: Cli) -> None:
    """Without a file there is nothing to list, and none is made."""
    assert cli("results", "list").out == f"no answers in {default_results_path()}\n"
    assert json.loads(cli("results", "list", "--json").out) == []
    assert not default_results_path().exists()


def test_rows_that_are_no_programs_are_explained(cli: Cli, kept: Path) -> None:
    """Below the list, where there are such."""
    assert len(cli("results", "list").out.splitlines()) == 4
    with Results.open(kept) as results:
        results.keep(answer(4, name="f (as called)", source=""))
    *rows, called = cli("results", "list").out.splitlines()
    assert len(rows) == 5
    assert called.startswith("(as called): the function called in its user's own process")
    with Results.open(kept) as results:
        results.keep(answer(5, name="f (whole)", source=""))
    assert cli("results", "list").out.splitlines()[-2].startswith("(whole): a function of several")
    assert len(json.loads(cli("results", "list", "--json").out)) == 5


def test_a_file_where_a_folder_should_be(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """There are not no answers: there is no place for any."""
    Path("taken").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(Path("taken").resolve()))
    for action in (["list"], ["show", "a"], ["export", "f"], ["forget", "--all"]):
        for file in ([], ["--file", "taken/results.sqlite"]):
            outcome = cli("results", *action, *file)
            assert (outcome.code, outcome.err.count("\n")) == (2, 1)
            assert f"{Path('taken').resolve()} is no folder; --file names another" in outcome.err
            assert "move it away" not in outcome.err
    assert "taken is no folder" in cli("cache", "stats", "--cache", "taken/cache").err


def test_a_user_without_a_home_has_no_answers(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    assert cli("results", "list").out.startswith("no answers in ")


def test_show(cli: Cli, kept: Path) -> None:
    """An answer is shown as a module, by its name or the start of its id."""
    outcome = cli("results", "show", "gelu")
    assert outcome.code == 0
    assert outcome.out.endswith(SOURCE)
    assert outcome.out.startswith("# gelu(f32[512, 512], f32[512, 512]) on cpu")
    facts = json.loads(cli("results", "show", "gelu", "--json").out)
    assert facts["source"] == SOURCE
    assert facts["evidence"] == {"timed_on": "normal inputs"}
    assert cli("results", "show", facts["id"][:10]).out == outcome.out


def test_an_answer_is_found_by_all_its_names(cli: Cli, kept: Path) -> None:
    """Those of other functions that asked the same are listed beside the first."""
    with Results.open(kept) as results:
        results.keep(answer(3, name="gelu").also("second"))
    assert " gelu, second " in cli("results", "list").out
    shown = cli("results", "show", "second")
    assert shown.out.startswith("# gelu(f32")
    assert "# also the answer for second\n" in shown.out
    assert cli("explain", "second").code == 0
    assert "did you mean second?" in cli("results", "show", "secnd").err
    assert cli("results", "forget", "second").out == f"removed 1 answer from {kept}\n"


def test_show_what_is_not_there(cli: Cli, kept: Path) -> None:
    """A name that is unknown, or that several answers have, is told in a sentence."""
    outcome = cli("results", "show", "softmx")
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert "did you mean softmax?" in outcome.err
    with Results.open(kept) as results:
        results.keep(answer(4, name="gelu"))
    outcome = cli("results", "show", "gelu")
    assert outcome.code == 2
    assert "may be any of" in outcome.err
    assert outcome.err.count("(f32[512, 512], f32[512, 512])") == 2


def test_answers_to_other_questions_of_one_name_are_told_apart(cli: Cli, kept: Path) -> None:
    """With kernels of our own allowed or not, under strict or not: wherever they are listed."""
    with Results.open(kept) as results:
        results.keep(answer(5, key=key(5, settings=("plain JAX",), strict=True), name="gelu"))
    plain, other, *_ = cli("results", "list").out.splitlines()[1:]
    assert plain.split()[1:5] == ["gelu", "strict,", "plain", "JAX"]
    assert other.split()[1:3] == ["gelu", "-"]
    for command in (("results", "show"), ("results", "forget"), ("explain",)):
        asked = cli(*command, "gelu")
        assert asked.code == 2
        for one, terms in ((plain, "; strict, plain JAX"), (other, "")):
            assert f"{one.split()[0]} (f32[512, 512], f32[512, 512]{terms})" in asked.err
    shown = cli("results", "show", plain.split()[0])
    assert "# asked for: strict, plain JAX\n" in shown.out
    assert "asked for" not in cli("results", "show", other.split()[0]).out


def test_export(cli: Cli, kept: Path) -> None:
    """Answers are written into a folder, all or those named."""
    assert cli("results", "export", "here").out == "wrote 3 answers to here\n"
    assert len(list(Path("here").glob("*.py"))) == 3
    told = json.loads(cli("results", "export", "there", "gelu", "gelu", "--json").out)
    assert [Path(path).read_text().endswith(SOURCE) for path in told["paths"]] == [True]


def test_export_to_no_folder(cli: Cli, kept: Path) -> None:
    """A folder that cannot be made is told in a sentence."""
    Path("file").touch()
    outcome = cli("results", "export", "file/folder")
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)


def test_forget(cli: Cli, kept: Path) -> None:
    """Answers are forgotten by name, or all at once, and not by accident."""
    assert cli("results", "forget").code == 2
    assert cli("results", "forget", "gelu", "--all").code == 2
    assert cli("results", "forget", "gelu", "softmax").out == f"removed 2 answers from {kept}\n"
    assert cli("results", "forget", "gelu").code == 2
    assert json.loads(cli("results", "forget", "--all", "--json").out)["removed"] == 1
    assert cli("results", "list").out.startswith("no answers")


def test_old_answers_are_forgotten_by_their_age(cli: Cli, kept: Path) -> None:
    with Results.open() as results:
        old = msgspec.structs.replace(answer(4, name="old"), made=time.time() - 40 * 86_400)
        results.keep(old)
    listed = cli("results", "list")
    assert f"4 answers, {size(kept.stat().st_size)[:1]}" in listed.err
    assert cli("results", "forget", "--older-than", "30d").out == f"removed 1 answer from {kept}\n"
    assert "old" not in cli("results", "list").out
    for words in (("--older-than", "30"), ("--older-than", "1d", "--all"), ()):
        assert cli("results", "forget", *words).code == 2


def test_what_an_ended_search_has_found_is_marked(cli: Cli, kept: Path) -> None:
    assert "so far" not in cli("results", "list").out
    with Results.open() as results:
        results.keep(msgspec.structs.replace(answer(4, name="ended"), effort="unfinished"))
    told = cli("results", "list").out
    (row,) = [line for line in told.splitlines() if " ended " in line]
    assert "x so far" in row
    assert "so far: from a search that was ended" in told


def test_the_newest_answers_may_be_kept_alone(cli: Cli, kept: Path) -> None:
    with Results.open() as results:
        results.keep(msgspec.structs.replace(answer(4, name="newest"), made=time.time() + 9))
    assert cli("results", "forget", "--keep", "1").out == f"removed 3 answers from {kept}\n"
    assert [one["name"] for one in cli("results", "list", "--json").events[0]] == ["newest"]
    assert "whole number" in cli("results", "forget", "--keep", "some").err


def test_all_that_is_forgotten_is_unfinished_work_too(cli: Cli, kept: Path) -> None:
    question = answer(1).key.digest
    with closing(WorkStore(kept)) as work:
        work.put(question, WorkKind.RACE, b"a race", b"its times")
    assert "of work that is not finished" in cli("results", "list").err
    cli("results", "forget", "--all")
    with closing(WorkStore(kept)) as work:
        assert work.get(question, WorkKind.RACE, b"a race") is None


def test_another_file(cli: Cli) -> None:
    """The flag names the file; one that is something else is left as it is, in a sentence."""
    with Results.open(Path("mine.sqlite")) as results:
        results.keep(answer())
    assert len(cli("results", "list", "--file", "mine.sqlite").out.splitlines()) == 2
    Path("text").write_text("hello " * 1000)
    for action in (["list"], ["show", "a"], ["export", "f"], ["forget", "--all"]):
        outcome = cli("results", *action, "--file", "text")
        assert (outcome.code, outcome.err.count("\n")) == (2, 1)
        assert "--file names another one. If this is the store, move it away" in outcome.err
    assert Path("text").read_text() == "hello " * 1000
    assert cli("results", "forget", "--all", "--file", "nowhere").out.startswith("removed 0")
    assert not Path("nowhere").exists()


def test_what_is_damaged_is_left_out_and_told(cli: Cli, kept: Path) -> None:
    """The other answers can still be listed, shown and exported."""
    database = sqlite3.connect(kept)
    database.execute("UPDATE answers SET sum = NULL WHERE id = 2")
    database.commit()
    database.close()
    told = cli("results", "list", "--json")
    assert [one["name"] for one in told.events[0]] == ["gelu", "trace_of_product"]
    assert told.err == f"{kept} is damaged, and 1 answer left out that cannot be read\n"
    assert cli("results", "show", "gelu").code == 0
    assert cli("results", "export", "out").out == "wrote 2 answers to out\n"
