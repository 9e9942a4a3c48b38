"""Folders that the user may not look into."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from testkit.hosts.console import Cli
from testkit.hosts.os_limits import powerless

from aiosearch.cli.output.files import require_place, write
from aiosearch.cli.output.streams import UsageError
from aiosearch.cli.runs.doctor import probes
from aiosearch.cli.runs.doctor.probes import FindingState

QUEENS = ("search", "aiosearch.workloads.queens:Queens", "--workers", "0", "--set", "n=4")


@pytest.fixture
def shut() -> Iterator[Path]:
    """What lies in it cannot be seen."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "inner").mkdir()
        folder.chmod(0)
        yield folder
        folder.chmod(0o700)


@pytest.mark.parametrize(
    "words",
    [
        ("cache", "stats", "--cache"),
        ("cache", "clear", "--cache"),
        ("results", "list", "--file"),
        ("results", "forget", "--all", "--file"),
        (*QUEENS, "--trace"),
        (*QUEENS, "--record-tree"),
        (*QUEENS, "--journal"),
    ],
)
def test_a_file_in_it_is_refused_in_a_sentence(cli: Cli, shut: Path, words: tuple[str]) -> None:
    assert cli(*words, "new").code == 0  # and all is imported, also from where only some may read
    with powerless():
        outcome = cli(*words, str(shut / "inner" / "file"))
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert "Permission denied" in outcome.err


@pytest.mark.parametrize("writing", [require_place, lambda path: write(path, str)])
def test_nothing_is_written_there(shut: Path, writing: Callable[[str], None]) -> None:
    with powerless(), pytest.raises(UsageError, match=r"cannot write .*: Permission denied"):
        writing(str(shut / "inner" / "file"))


def test_doctor_names_what_is_in_the_way(shut: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    probes.cache()
    monkeypatch.setenv("XDG_CACHE_HOME", str(shut / "inner"))
    with powerless():
        found = probes.cache()
    assert found.state is FindingState.BROKEN
    assert str(shut) in found.detail


def test_settings_are_not_looked_for_in_it(
    cli: Cli, shut: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where one works below it, those of the defaults hold."""
    monkeypatch.chdir(shut / "inner")
    with powerless():
        outcome = cli("search", "--show-settings")
    assert outcome.code == 0
