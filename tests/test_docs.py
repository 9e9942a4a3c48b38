"""Every example, and every block of the documentation that is marked runnable, runs.

A fence after `<!-- runnable -->` is run: Python as a script, under its `title` where it has one,
and the lines of a console block that begin with `$`. What a fence after `<!-- prints -->` shows is
what the block before it prints; `...` stands for anything. A fence after `<!-- file -->` is a file
of its `title`. The blocks of a page share a folder.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from aiosearch.tensor.mirage import MirageGraph, load_mugraphs, pairs
from aiosearch.tensor.programs import BUILTINS
from aiosearch.tensor.text import parse

HOUSE = Path(__file__).parents[1]
EXAMPLES = [*sorted((HOUSE / "examples").glob("*.py")), HOUSE / "examples/strategy_plugin/demo.py"]
FENCE = re.compile(
    r"^<!-- (?P<mark>runnable|prints|file) -->\s*\n"
    r'^```(?P<language>\w+)(?: title="(?P<title>[^"]+)")?\n(?P<text>.*?)^```$',
    re.MULTILINE | re.DOTALL,
)
SECONDS = 120
"""Of one block, after which it hangs; a page may have many, on a machine that does other things."""


@dataclass(frozen=True)
class Block:
    """Something to run, and what it should print; None for whatever it likes."""

    mark: str
    language: str
    title: str
    text: str
    prints: str | None

    def command(self, folder: Path) -> str:
        if self.mark == "file" or self.language == "python":
            (folder / self.title).write_text(self.text, encoding="utf-8")
        if self.mark == "file":
            return "true"
        if self.language == "python":
            return shlex.join([sys.executable, "-W", "error", self.title])
        lines = [line[2:] for line in self.text.splitlines() if line.startswith("$ ")]
        return " && ".join(lines)


def blocks(page: Path) -> Iterator[Block]:
    fences = [match.groupdict() for match in FENCE.finditer(page.read_text(encoding="utf-8"))]
    for number, fence in enumerate(fences):
        if fence["mark"] != "prints":
            after = fences[number + 1] if number + 1 < len(fences) else {"mark": ""}
            prints = after["text"] if after["mark"] == "prints" else None
            title = fence["title"] or f"block{number}.py"
            yield Block(fence["mark"], fence["language"], title, fence["text"], prints)


PAGES = {
    str(page.relative_to(HOUSE)): found
    for page in [HOUSE / "README.md", *sorted((HOUSE / "docs").rglob("*.md"))]
    if (found := list(blocks(page)))
}


def run(command: str, folder: Path, home: Path) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AIOSEARCH_")}
    path = os.pathsep.join([str(Path(sys.executable).parent), kept.get("PATH", "")])
    outcome = subprocess.run(
        command,
        shell=True,
        cwd=folder,
        env=kept | {"PATH": path, "XDG_CACHE_HOME": str(home), "PYTHONUNBUFFERED": "1"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert outcome.returncode == 0, outcome.stderr
    return outcome.stdout


def check_printed(printed: str, expected: str) -> None:
    pattern = ".*?".join(re.escape(part) for part in expected.strip().split("..."))
    assert re.fullmatch(pattern, printed.strip(), re.DOTALL), (
        f"expected\n{expected}\ngot\n{printed}"
    )


@pytest.mark.timeout(4 * SECONDS)
@pytest.mark.parametrize("page", PAGES)
def test_the_runnable_blocks_of_a_page_run(page: str, tmp_path: Path) -> None:
    """They end well, and print what the page says."""
    (folder := tmp_path / "page").mkdir()
    for block in PAGES[page]:
        printed = run(block.command(folder), folder, tmp_path)
        if block.prints is not None:
            check_printed(printed, block.prints)


@pytest.mark.timeout(2 * SECONDS)
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_prints_what_its_docstring_says(example: Path, tmp_path: Path) -> None:
    """The indented part of an example's docstring is its output."""
    docstring = example.read_text(encoding="utf-8").split('"""')[1]
    said = [line[4:] for line in docstring.splitlines() if line.startswith("    ")]
    assert said, "the docstring shows no output"
    printed = run(shlex.join([sys.executable, "-W", "error", str(example)]), tmp_path, tmp_path)
    check_printed(printed, "\n".join(said))


def test_the_whole_documentation_is_found() -> None:
    """Pages without a runnable block are few and known; a typo in a mark would add to them."""
    assert {"README.md", "docs/index.md", "docs/tutorial/first-search.md"} <= PAGES.keys()
    marks = sum(
        page.read_text(encoding="utf-8").count(mark)
        for page in [HOUSE / "README.md", *(HOUSE / "docs").rglob("*.md")]
        for mark in ("<!-- runnable -->", "<!-- file -->")
    )
    assert marks == sum(map(len, PAGES.values()))


def test_the_graph_that_is_taken_apart_is_the_saved_one() -> None:
    """The page has it as text; the first of its file is the same program."""
    told = next(block for block in PAGES["docs/why/not-attention.md"] if block.mark == "file")
    path = HOUSE / "tests/data/mirage/qknorm_gqa_bs1_three_wrong.json"
    saved = load_mugraphs(path.read_bytes())[0]
    assert isinstance(saved, MirageGraph)
    assert parse(told.text) in [pair.graph for pair in pairs(saved, BUILTINS["qk_norm_v"])]


def test_the_readme_is_a_page_that_says_how_to_begin() -> None:
    """From a clone, and with the tutorial that its first example is of."""
    text = (HOUSE / "README.md").read_text(encoding="utf-8")
    assert text.count("\n") < 150
    plugins = ("./plugins/interleaved", "./plugins/stealing", "./plugins/sockets")
    assert f"pip install . {' '.join(plugins)}" in " ".join(text.split())
    for folder in plugins:
        assert (HOUSE / folder / "pyproject.toml").exists()
    tutorials = re.findall(r"tutorial/([\w-]+)\.md", (HOUSE / "mkdocs.yml").read_text())
    first_linked = re.search(r"tutorial/([\w-]+)\.md", text)
    assert first_linked is not None
    assert next(name for name in tutorials if name != "index") == first_linked[1]


def test_the_version_stands_once() -> None:
    """In the module: the distribution reads it there."""
    described = tomllib.loads((HOUSE / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" not in described["project"]
    assert "version" in described["project"]["dynamic"]


def test_files_that_pages_name_are_there() -> None:
    """Links into the checkout, and paths in the glossary."""
    missing, count = [], 0
    for page in (HOUSE / "docs").rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        paths = [page.parent / link for link in re.findall(r"\]\(((?:\.\./)+[\w./-]+)\)", text)]
        if page.name == "glossary.md":
            paths += [HOUSE / "aiosearch" / path for path in re.findall(r"`(\w+/[\w./]+)`", text)]
        count += len(paths)
        missing += [f"{page.name}: {path}" for path in paths if not path.exists()]
    assert count > 100
    assert not missing
