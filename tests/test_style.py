"""How the code reads, in figures that may only get better: `python tests/test_style.py`.

Filler names say nothing of what they hold; in anyio, trio, httpx, optuna and tinygrad they are 0.1
to 0.5 % of all bindings. Comments that say why are 4 to 33 in 100 lines of code there.
"""

from __future__ import annotations

import ast
import collections
import io
import sys
import tokenize
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "aiosearch"

FILLER = {
    "each", "found", "given", "it", "kept", "known", "made", "more", "one", "other", "others",
    "own", "rest", "some", "taken", "that", "thing", "this", "told", "wanted",
}  # fmt: skip


@dataclass(frozen=True)
class Style:
    """What `measure` counts in the modules below a folder."""

    modules: int
    fullest_folder: int
    longest_file: int
    filler_percent: float
    classes_named_twice: int
    comments_per_100_lines: float
    docs_that_name_code_percent: float
    any_uses: int
    ignores_without_a_reason: int


MOST = {
    "modules": 755,
    "fullest_folder": 24,
    "longest_file": 800,
    "filler_percent": 0.3,
    "classes_named_twice": 10,
    "any_uses": 400,
    "ignores_without_a_reason": 0,
}
LEAST = {"comments_per_100_lines": 3.2, "docs_that_name_code_percent": 35.0}


def measure(folder: Path) -> Style:
    """Reads every module below `folder`; nothing is imported."""
    names: collections.Counter[str] = collections.Counter()
    classes: collections.Counter[str] = collections.Counter()
    folders: collections.Counter[Path] = collections.Counter()
    docs = naming = code = comments = any_uses = bare = modules = longest = 0
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text()
        tree = ast.parse(text)
        modules += 1
        folders[path.parent] += 1
        longest = max(longest, text.count("\n"))
        strings: set[int] = set()
        for node in ast.walk(tree):
            match node:
                case ast.Name(id=name, ctx=ast.Store()):
                    names[name] += 1
                case ast.Name(id="Any"):
                    any_uses += 1
                case ast.arg(arg=name) if name not in ("self", "cls"):
                    names[name] += 1
                case ast.ClassDef(name=name):
                    classes[name] += 1
            for doc in _docs(node):
                docs += 1
                naming += "`" in str(doc.value)
                strings.update(range(doc.lineno, (doc.end_lineno or doc.lineno) + 1))
        lines: set[int] = set()
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                comments += "type: ignore" not in token.string and "noqa" not in token.string
                bare += _is_bare(token.string)
            elif token.type not in _BLANK:
                lines.update(range(token.start[0], token.end[0] + 1))
        code += len(lines - strings)
    return Style(
        modules=modules,
        fullest_folder=max(folders.values()),
        longest_file=longest,
        filler_percent=100 * sum(names[name] for name in FILLER) / sum(names.values()),
        classes_named_twice=sum(count > 1 for count in classes.values()),
        comments_per_100_lines=100 * comments / code,
        docs_that_name_code_percent=100 * naming / docs,
        any_uses=any_uses,
        ignores_without_a_reason=bare,
    )


_BLANK = frozenset(
    (
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    )
)


def _docs(node: ast.AST) -> list[ast.Constant]:
    """The texts that stand alone in a body: docstrings, and those below attributes."""
    body = getattr(node, "body", None)
    return [
        item.value
        for item in (body if isinstance(body, list) else ())
        if isinstance(item, ast.Expr)
        and isinstance(item.value, ast.Constant)
        and isinstance(item.value.value, str)
    ]


def _is_bare(comment: str) -> bool:
    """Whether a `type: ignore` gives no reason behind its code."""
    return "type: ignore" in comment and not comment.split("]", 1)[-1].strip()


@pytest.fixture(scope="module")
def style() -> Style:
    return measure(PACKAGE)


@pytest.mark.parametrize("figure", sorted(MOST))
def test_a_figure_of_style_stays_below_its_ceiling(style: Style, figure: str) -> None:
    assert getattr(style, figure) <= MOST[figure]


@pytest.mark.parametrize("figure", sorted(LEAST))
def test_a_figure_of_style_stays_above_its_floor(style: Style, figure: str) -> None:
    assert getattr(style, figure) >= LEAST[figure]


if __name__ == "__main__":
    for name, value in vars(measure(PACKAGE)).items():
        sys.stdout.write(f"{name.replace('_', ' '):30s} {round(value, 1)}\n")
