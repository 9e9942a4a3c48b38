from __future__ import annotations

import json
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from testkit.hosts.console import Cli

from aiosearch.mapper import read_cluster
from aiosearch.mapper.calibration import keep_cluster, this_machine

SOURCE = """\
import jax.numpy as jnp

def layers(x, w):
    return jnp.tanh(jnp.tanh(x @ w) @ w)
"""
ARGS = ("--arg", "f32[256,16]", "--arg", "f32[16,16]")


@pytest.fixture(autouse=True)
def _with_a_function(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    Path("mine.py").write_text(SOURCE)


def test_a_function_is_placed(cli: Cli) -> None:
    """What it gains is told, drawn and written down."""
    outcome = cli(
        "place", "mine.py:layers", *ARGS, "--seconds", "1", "--svg", "t.svg", "--plan", "p.json"
    )
    assert outcome.code == 0
    assert outcome.out.startswith("layers")
    assert ElementTree.fromstring(Path("t.svg").read_text()).tag.endswith("svg")
    assert json.loads(Path("p.json").read_text())["function"] == "layers"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("mine.py:nothing", *ARGS), "mine has no 'nothing'"),
        (("mine.py:layers", "--arg", "f32[2,3]"), "missing a required argument: 'w'"),
        (("mine.py:layers", "--arg", "f32[2,3]", "--arg", "f32[4,4]"), "cannot be traced"),
        (("mine.py:layers", *ARGS, "--memory", "much"), "--memory"),
        (("mine.py:layers", *ARGS, "--teams", "0"), "teams must be a whole number above 0"),
        (("mine.py:layers", *ARGS, "--cluster", "no.json"), "cannot read the cluster file"),
        (("mine.py:layers", *ARGS, "--svg", "t.png"), "a plot is SVG"),
    ],
)
def test_mistakes_are_a_sentence(cli: Cli, arguments: tuple[str, ...], message: str) -> None:
    """A name, a type, a size, a file: each is said, and nothing is placed."""
    outcome = cli("place", *arguments)
    assert outcome.code == 2
    assert message in outcome.err
    assert outcome.err.count("\n") == 1


def test_this_machine_is_described(cli: Cli) -> None:
    """A description can be written, read again, and kept for later plans."""
    outcome = cli("cluster", "detect", "--file", "here.json")
    assert outcome.code == 0
    assert "cpu" in outcome.out
    cluster = read_cluster("here.json")
    assert this_machine() == cluster
    keep_cluster(cluster)
    assert this_machine() == cluster
    assert json.loads(cli("cluster", "detect", "--json").out)["nodes"]
