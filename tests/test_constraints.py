"""The tested versions: pip reads them from a file, uv from pyproject.toml."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

from packaging.requirements import Requirement

HOUSE = Path(__file__).parents[1]
LINES = [
    line
    for line in (HOUSE / "constraints.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
]


def test_pip_and_uv_have_the_same() -> None:
    project = tomllib.loads((HOUSE / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["tool"]["uv"]["constraint-dependencies"] == LINES


def test_every_line_names_one_version_and_no_place() -> None:
    for line in LINES:
        assert re.fullmatch(
            r"[a-z0-9-]+==[0-9a-z.]+(; python_(full_)?version \S+ '3[0-9.]+')?", line
        ), line


def test_what_runs_these_tests_has_the_versions() -> None:
    """So that the file says what was tested, and not what once was."""
    for line in LINES:
        constraint = Requirement(line)
        if constraint.name in ("pytest", "anyio", "msgspec", "z3-solver", "llvmlite", "jax"):
            applies = constraint.marker is None or constraint.marker.evaluate()
            assert not applies or constraint.specifier.contains(version(constraint.name)), line
