from __future__ import annotations

from pathlib import Path

import pytest
from testkit.hosts.console import Cli

from aiosearch.cli.inputs.settings import SETTINGS, Chosen, settle
from aiosearch.cli.output.streams import UsageError


def pyproject(text: str, folder: str = ".") -> Path:
    path = Path(folder).resolve() / "pyproject.toml"
    path.write_text(f"[tool.aiosearch]\n{text}\n")
    return path


def refusal(**flags: str) -> str:
    with pytest.raises(UsageError) as raised:
        settle(flags)
    return str(raised.value)


def test_defaults() -> None:
    """Without anything else, every setting is its default."""
    assert {chosen.origin for chosen in settle({}).values()} == {"default"}


def test_order_of_origins(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flag overrides a variable, that the file, and that the default; each says so."""
    path = pyproject("workers = 1\nnodes = 1\nseconds = 1.5")
    monkeypatch.setenv("AIOSEARCH_WORKERS", "2")
    monkeypatch.setenv("AIOSEARCH_NODES", "2")
    settings = settle({"workers": "3"})
    assert settings["workers"] == Chosen(3, "--workers")
    assert settings["nodes"] == Chosen(2, "AIOSEARCH_NODES")
    assert settings["seconds"] == Chosen(1.5, f"seconds in [tool.aiosearch] of {path}")
    assert settings["strategy"] == Chosen("queue", "default")


def test_nearest_pyproject(monkeypatch: pytest.MonkeyPatch) -> None:
    """The nearest pyproject.toml counts, also where it says nothing."""
    pyproject("workers = 1")
    inner = Path("one/two")
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    assert settle({})["workers"].value == 1
    Path("../pyproject.toml").write_text("[project]\n")
    assert settle({})["workers"].value is None


def test_names_with_underscores(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key is written with - or _, and a variable with _."""
    pyproject('on_error = "skip"\non-unknown = "drop"')
    assert settle({})["on-error"].value == "skip"
    assert settle({})["on-unknown"].value == "drop"
    monkeypatch.setenv("AIOSEARCH_ON_UNKNOWN", "keep")
    assert settle({})["on-unknown"].value == "keep"


def test_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache is a path, from the file relative to the file, or off."""
    path = pyproject('cache = "sub/verdicts"')
    Path("inner").mkdir()
    monkeypatch.chdir("inner")
    assert settle({})["cache"].value == path.parent / "sub/verdicts"
    assert settle({"cache": "here"})["cache"].value == Path("here")
    pyproject("cache = false", "..")
    assert settle({})["cache"].value is None
    assert settle({"cache": "default"})["cache"].value == "default"
    monkeypatch.setenv("AIOSEARCH_CACHE", "off")
    assert settle({})["cache"].value is None


def test_empty_and_reserved_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty variable counts as unset, and the engine's own is left alone."""
    monkeypatch.setenv("AIOSEARCH_WORKERS", "")
    monkeypatch.setenv("AIOSEARCH_FAULT", "journal.batch:3")
    assert settle({})["workers"].origin == "default"


def test_unknown_names_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is no setting is refused with its origin and what is like it."""
    path = pyproject("worker = 1")
    told = refusal()
    assert f"[tool.aiosearch] in {path} sets 'worker'" in told
    assert "did you mean workers" in told
    path.unlink()
    monkeypatch.setenv("AIOSEARCH_SECOND", "1")
    assert "AIOSEARCH_SECOND is no setting (did you mean AIOSEARCH_SECONDS" in refusal()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("workers = -1", "workers in [tool.aiosearch] of {} must be a whole number, 0 or more"),
        ("workers = true", "not True"),
        ("nodes = 1.5", "nodes in [tool.aiosearch] of {} must be a whole number, 1 or more"),
        ('seconds = "soon"', "must be a number of seconds above 0, not 'soon'"),
        ("seconds = true", "not True"),
        ("memory = 0", "must be a size such as 2GB or 512MiB, not 0"),
        ("strategy = 3", "must be a strategy's name, not 3"),
        ('on-error = "ignore"', "must be one of raise, skip, not 'ignore'"),
        ("on-error = []", "must be one of raise, skip, not []"),
        ("cache = 3", "must be a path, or `off`, not 3"),
        ("= 3", "cannot read the settings in {}"),
    ],
)
def test_bad_values_in_a_file(text: str, told: str) -> None:
    """A value that does not do is refused with the key and the file."""
    path = pyproject(text)
    assert told.format(path) in refusal()


def test_bad_table() -> None:
    """`tool.aiosearch` has to be a table."""
    Path("pyproject.toml").write_text("[tool]\naiosearch = 3\n")
    assert "must be a table, not 3" in refusal()


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_bad_flags(cli: Cli, setting: object) -> None:
    """Every flag refuses what it cannot be."""
    flag = getattr(setting, "flag")  # noqa: B009
    outcome = cli("search", "aiosearch.workloads.queens:Queens", flag, "")
    assert outcome.code == 2
    assert f"{flag} must be " in outcome.err


def test_show_settings(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """--show-settings lists the settings with their origins, and searches nothing."""
    monkeypatch.setenv("AIOSEARCH_SEED", "4")
    outcome = cli("search", "--show-settings", "--memory", "2GB")
    assert outcome.code == 0
    rows = [line.split() for line in outcome.out.splitlines()]
    assert ["seed", "4", "AIOSEARCH_SEED"] in rows
    assert ["memory", "2000000000", "--memory"] in rows
