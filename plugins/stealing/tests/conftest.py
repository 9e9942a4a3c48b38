"""What holds for every test: an empty folder, and the console script in this process."""

from __future__ import annotations

from pathlib import Path

import pytest
from testkit.hosts.console import Cli, Outcome

from aiosearch.cli import main


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str]) -> Cli:
    """Runs a command."""

    def run(*arguments: str) -> Outcome:
        capfd.readouterr()
        code = main(arguments)
        return Outcome(code, *capfd.readouterr())

    return run
