from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from trees import Unannotated, Words

from aiosearch.engine.wire.reference import (
    ObjectReference,
    element_type,
    refer,
    resolve,
    return_type,
)
from aiosearch.errors import ProblemError

SCRIPT = """
from dataclasses import dataclass
import aiosearch

@dataclass(frozen=True)
class Mine:
    n: int = 3
    def root(self) -> int:
        return 0
    def expand(self, node: int) -> list[int]:
        return [node + 1] if node < self.n else []
    def solutions(self, node: int) -> list[int]:
        return [node]

if {guard}:
    print(len(aiosearch.solve(Mine(5), workers=1).solutions))
"""


@dataclass(frozen=True)
class Opaque:
    what: object = None


def test_a_dataclass_travels_by_name_and_fields() -> None:
    """Nothing is pickled."""
    reference = refer(Words(letters=2, length=5))
    assert reference.name == "trees:Words"
    assert not reference.pickled
    assert resolve(reference) == Words(letters=2, length=5)


def test_a_class_without_state_travels_by_name() -> None:
    """It need not be a dataclass."""
    assert refer(Unannotated()) == ObjectReference("trees", "Unannotated")


def test_without_cloudpickle_a_sentence_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """A class that no worker can import needs help."""
    monkeypatch.setitem(sys.modules, "cloudpickle", None)

    class Local(Words):
        pass

    with pytest.raises(ProblemError, match="module of its own, or install cloudpickle"):
        refer(Local())


def test_a_field_that_cannot_be_encoded_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason is part of the sentence."""
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(ProblemError, match="has a field that cannot be encoded"):
        refer(Opaque(object()))


def test_types_are_read_from_annotations() -> None:
    """root gives the node's type, solutions the solution's."""
    assert return_type(Words(), "root") == tuple[int, ...]
    assert element_type(return_type(Words(), "solutions")) == tuple[int, ...]


@pytest.mark.parametrize("arguments", [["{path}"], ["-m", "mine"]])
def test_a_class_in_the_main_script_works(tmp_path: Path, arguments: list[str]) -> None:
    """The script is run again in the worker, under another name."""
    path = tmp_path / "mine.py"
    path.write_text(SCRIPT.format(guard='__name__ == "__main__"'))
    command = [sys.executable, *(part.format(path=path) for part in arguments)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("6\n", "")


def test_a_script_without_a_guard_is_told_so(tmp_path: Path) -> None:
    """A search that starts while a worker imports the script would start workers for ever."""
    path = tmp_path / "mine.py"
    path.write_text(SCRIPT.format(guard="True"))
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert 'if __name__ == "__main__":' in done.stderr
