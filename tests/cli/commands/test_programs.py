from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from testkit.hosts.console import Cli

from aiosearch.tensor.files import from_json
from aiosearch.tensor.programs import BUILTINS, builtin
from aiosearch.tensor.text import parse


def test_list(cli: Cli) -> None:
    """The built-in programs are listed with what they compute, as JSON with their sizes too."""
    outcome = cli("programs")
    assert outcome.code == 0
    assert [line.split()[0] for line in outcome.out.splitlines()[1:]] == list(BUILTINS)
    listed = {one["name"]: one for one in json.loads(cli("programs", "--json").out)}
    assert listed["lora"]["sizes"] == {"row": 16, "feature": 256, "rank": 16, "column": 4096}
    assert listed["lora"]["inputs"]["A"] == ["feature", "rank"]


@pytest.mark.parametrize("name", BUILTINS)
def test_show(cli: Cli, name: str) -> None:
    """A program is shown as text that reads back as the same program."""
    assert parse(cli("programs", "show", name).out) == builtin(name)


def test_show_json(cli: Cli) -> None:
    """The same as JSON."""
    assert from_json(cli("programs", "show", "ntrans", "--json").out) == builtin("ntrans")


def test_show_svg(cli: Cli) -> None:
    """The same as a drawing."""
    drawing = cli("programs", "show", "ntrans", "--svg").out
    assert ElementTree.fromstring(drawing).tag == "{http://www.w3.org/2000/svg}svg"


def test_shape(cli: Cli) -> None:
    """Sizes can be chosen."""
    outcome = cli("programs", "show", "lora", "--shape", "row=3", "--shape", "rank=5")
    assert parse(outcome.out) == builtin("lora", row=3, rank=5)


def test_show_file(cli: Cli) -> None:
    """A file is shown as well, so that text becomes JSON or a drawing."""
    Path("mine.txt").write_text(cli("programs", "show", "lora").out)
    Path("mine.json").write_text(cli("programs", "show", "mine.txt", "--json").out)
    assert parse(cli("programs", "show", "mine.json").out) == builtin("lora")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["show", "rmsnorm"], "did you mean rms_norm?"),
        (["show", "lora", "--shape", "rows=3"], "lora has no size rows"),
        (["show", "lora", "--shape", "row"], "--shape takes name=value"),
        (["show", "lora", "--shape", "row=-3"], "a size is a whole number"),
        (["show", "lora", "--shape", "row=many"], "a size is a whole number"),
        (["show", "broken.txt"], "broken.txt: "),
        (["show", "binary"], "binary is neither text nor JSON"),
        (["show", "broken.json"], "broken.json: "),
        (["show"], "PROGRAM"),
        (["draw"], "draw"),
        (["show", "lora", "--json", "--svg"], "--json"),
    ],
)
def test_wrong_usage(cli: Cli, arguments: list[str], told: str) -> None:
    """What is wrong is said on stderr, with exit code 2."""
    Path("broken.txt").write_text("program p(")
    Path("broken.json").write_text('{"format": "aiosearch.pro')
    Path("binary").write_bytes(b"\x80\x81")
    outcome = cli("programs", *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("aiosearch: ")
    assert "Traceback" not in outcome.err
    assert told in outcome.err
