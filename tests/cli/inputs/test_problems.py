from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from testkit.hosts.console import Puzzle

from aiosearch.cli.inputs.problems import build
from aiosearch.cli.output.streams import UsageError
from aiosearch.lab.ladder import RUNGS
from aiosearch.workloads.queens import Queens
from aiosearch.workloads.uts import TREES


def made(target: str, **given: str) -> Any:
    return build(target, given, None)


def refusal(target: str, **given: str) -> str:
    with pytest.raises(UsageError) as raised:
        build(target, given, None)
    return str(raised.value)


def write(name: str, text: str = "") -> Path:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize(("name", "n"), [("Count", 3), ("count", 2), ("make", 1)])
def test_kinds(puzzle: Puzzle, name: str, n: int) -> None:
    """A class, an instance and a function that gives one are all problems."""
    assert made(puzzle(name)).n == n


@pytest.mark.parametrize(
    ("field", "text", "value"),
    [
        ("n", "12", 12),
        ("names", '["a", "b"]', ("a", "b")),
        ("maybe", "7", 7),
        ("maybe", "null", None),
        ("loud", "true", True),
        ("loud", "0", False),
        ("anything", "[1, {}]", [1, {}]),
        ("anything", "text", "text"),
    ],
)
def test_fields_get_their_types(puzzle: Puzzle, field: str, text: str, value: object) -> None:
    """A field's text becomes a value of the field's type."""
    assert getattr(made(puzzle("Count"), **{field: text}), field) == value


@pytest.mark.parametrize("name", ["count", "make"])
def test_fields_of_an_instance(puzzle: Puzzle, name: str) -> None:
    """--set changes an instance's field too, and leaves the instance alone."""
    assert made(puzzle(name), n="9").n == 9
    assert made(puzzle(name)).n < 9


def test_seed(puzzle: Puzzle) -> None:
    """A seed reaches the field `seed` where there is one that is not set."""
    assert made(puzzle("Count")).seed == 5
    assert build(puzzle("Count"), {}, 8).seed == 8
    assert build(puzzle("Count"), {"seed": "9"}, 8).seed == 9
    assert build(puzzle("Sized"), {"n": "1"}, 8).n == 1


def test_struct_fields(puzzle: Puzzle) -> None:
    """The fields of a msgspec.Struct are set as well."""
    assert made(puzzle("Sized"), n="4").n == 4


def test_unknown_field(puzzle: Puzzle) -> None:
    """An unknown field is answered with the fields, their types and their defaults."""
    told = refusal(puzzle("Count"), seeds="3")
    assert "no field 'seeds' (did you mean seed?)" in told
    assert "n: int = 3, seed: int = 5, names: tuple[str, ...] = (), maybe: int | None" in told


def test_needed_field(puzzle: Puzzle) -> None:
    """A field without a default has to be set."""
    assert "Sized needs --set for n: int" in refusal(puzzle("Sized"))


def test_value_that_does_not_fit(puzzle: Puzzle) -> None:
    """A value of the wrong type is refused with the field's type."""
    told = refusal(puzzle("Count"), n="many")
    assert "--set n=many does not fit the field n: int = 3" in told


def test_refused_by_the_problem(puzzle: Puzzle) -> None:
    """A problem's own objection is passed on."""
    assert "Count(n=-1) cannot be made: ValueError: n must not" in refusal(puzzle("Count"), n="-1")
    assert "cannot be made" in refusal(puzzle("count"), n="-1")


def test_fields_need_a_dataclass(puzzle: Puzzle) -> None:
    """A class without declared fields has nothing to set."""
    assert "Nothing to be a dataclass" in refusal(puzzle("Nothing"), n="1")


def test_factory_with_arguments(puzzle: Puzzle) -> None:
    """A function that needs arguments is no problem."""
    assert "greedy() cannot be made: TypeError" in refusal(puzzle("greedy"))


def test_close_names(puzzle: Puzzle) -> None:
    """A misspelt module or class is answered with what is like it."""
    told = refusal("aiosearch.workloads.queen:Queens")
    assert "no module 'queen' in the package aiosearch.workloads (did you mean queens?)" in told
    told = refusal("aiosearch.workloads.queens:Queen")
    assert "did you mean Queens?" in told


@pytest.mark.parametrize("target", ["aiosearch.workloads.queens", "aiosearch.workloads.queens:"])
def test_no_class_named(target: str) -> None:
    """A module alone is answered with the problems that it has."""
    assert "aiosearch.workloads.queens:Queens" in refusal(target)


@pytest.mark.parametrize("target", ["", ":", ":Queens", "two words:X", "..:X", "nowhere_at_all"])
def test_no_target(target: str) -> None:
    """What names no problem is answered with how to name one."""
    assert "path/to/file.py:Problem" in refusal(target)


def test_no_module() -> None:
    """A module that is not there is said to be not there, and where it was looked for."""
    told = refusal("nowhere_at_all:X")
    assert f"there is no module 'nowhere_at_all' in {Path.cwd()}" in told
    assert "there is no file nowhere.py" in refusal("nowhere.py:X")


def test_a_module_of_a_similar_name_in_the_folder_is_offered() -> None:
    """And none of those that are installed, of which there are too many."""
    Path("layers.py").touch()
    assert refusal("layer:X").endswith("or among the installed ones (did you mean layers?)")
    assert refusal("jsonn:X").endswith("or among the installed ones")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("raise ValueError('no')", "ValueError: no"),
        ("def (", "SyntaxError"),
        ("import nowhere_at_all", "ModuleNotFoundError: No module named 'nowhere_at_all'"),
        ("raise SystemExit(3)", "SystemExit: 3"),
    ],
)
def test_module_that_fails(text: str, reason: str, request: pytest.FixtureRequest) -> None:
    """A module that cannot be imported is named with the reason."""
    path = write("failing_module.py", text)
    request.addfinalizer(lambda: sys.modules.pop("failing_module", None))
    told = refusal(f"{path}:X")
    assert "failing_module fails when it is imported" in told
    assert reason in told


def test_file_named_like_a_standard_module() -> None:
    """A file that would hide a module of Python's own is refused."""
    path = write("queue.py")
    assert "rename the file" in refusal(f"{path}:X")


def test_hidden_file() -> None:
    """A file whose name is taken by another module is refused."""
    path = write("pytest.py")
    assert "is hidden by" in refusal(f"{path}:X")


def test_file_in_a_package(puzzle: Puzzle, request: pytest.FixtureRequest) -> None:
    """A file of a package is imported as the package's module, so that it can import relatively."""
    write("parcel_one/__init__.py")
    write("parcel_one/deep/__init__.py")
    write("parcel_one/size.py", "N = 6")
    source = "from ..size import N\nfrom puzzles import Count\nmine = Count(N)"
    path = write("parcel_one/deep/it.py", source)
    made(puzzle("Count"))
    request.addfinalizer(lambda: sys.modules.pop("parcel_one.deep.it", None))
    assert made(f"{path}:mine").n == 6


def test_current_folder_is_searched(request: pytest.FixtureRequest) -> None:
    """A module of the current folder is found, and does not hide Python's own."""
    write("here_only.py", "import graphlib\nfrom aiosearch.workloads.queens import Queens")
    write("graphlib.py", "raise ImportError")
    request.addfinalizer(lambda: sys.modules.pop("here_only", None))
    assert made("here_only:Queens", n="5").n == 5


def test_searches_of_the_ladder_and_installed_problems_go_by_their_name() -> None:
    """`search T1` is what `bench T1` measures; an entry point's name does as its class."""
    assert made("T1") == TREES["T1"].problem
    assert made("second") == RUNGS["second"].problem
    assert made("queens", n="5") == Queens(5)


def test_the_ladder_stays_as_it_is() -> None:
    """A changed search would not have the counts that its name promises."""
    assert "T1 of the ladder stays as it is" in refusal("T1", depth="3")


def test_a_misspelt_problem_is_answered_with_what_is_installed() -> None:
    told = refusal("queen")
    assert "did you mean queens?" in told
    assert "uts" in told
