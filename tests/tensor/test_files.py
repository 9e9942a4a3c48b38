"""Programs as JSON: the document, its version, and what becomes of a broken one."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from fractions import Fraction
from random import Random
from typing import Any

import pytest
from testkit.programs.random_programs import random_program

from aiosearch.tensor import (
    Block,
    FormatError,
    Program,
    Size,
    UnknownOperator,
    apply,
    literal,
    read,
    tensor,
    write,
)
from aiosearch.tensor.files import from_dict, from_json, to_dict, to_json

X = tensor("X", "f16", (4, 6), ("row", None))


def _fused() -> Program:
    block = Block((2, 1, 1), 3)
    tile = block.load(X, (0,), 1)
    total = block.accumulate(write(apply("exp", read(tile)) * 0.5))
    one, two = block.results((total, (0,)), (total + block.accumulate(tile, "max"), (0,)))
    return Program("fused", (X,), (two, one * Fraction(1, 3)))


def test_a_document_looks_like_this() -> None:
    """Inputs come first, then nodes that name earlier ones by number."""
    program = Program("p", (X,), (apply("sum", X * Fraction(1, 3), axes=(1,)),))
    assert to_dict(program) == {
        "format": "aiosearch.program",
        "version": 1,
        "name": "p",
        "inputs": [{"name": "X", "dtype": "f16", "shape": [4, 6], "labels": ["row", None]}],
        "nodes": [
            {"op": "literal", "params": {"value": "1/3"}},
            {"op": "mul", "args": [0, 1]},
            {"op": "sum", "args": [2], "params": {"axes": [1], "keep": False}},
        ],
        "outputs": [3],
    }


def test_a_kernel_nests_its_block_graph() -> None:
    """Within it, only a load names a node outside."""
    kernel = to_dict(_fused())["nodes"][0]
    assert kernel["params"] == {"grid": [2, 1, 1], "range": 3}
    load = {"op": "load", "args": [0], "params": {"map": [0, None, None], "loop": 1}}
    assert kernel["block"][0] == load
    assert kernel["block"][1] == {"op": "read", "args": [0]}
    assert [store["map"] for store in kernel["stores"]] == [[0, None, None]] * 2


@pytest.mark.parametrize(
    "read_back", [lambda p: from_json(to_json(p)), lambda p: from_dict(to_dict(p))]
)
def test_what_was_written_is_read(read_back: Callable[[Program], Program]) -> None:
    """The same terms, whichever way."""
    size = Size.named("h") * 2 + 1
    named = tensor("A", "f32", (size, 4))
    constant = apply("broadcast", literal(2), shape=(3,))
    numbers = [literal(value) for value in (0.1, 1 << 70, float("inf"), Fraction(2, 7), size)]
    for program in (
        _fused(),
        Program("symbolic", (named,), (named * named,)),
        Program("numbers", (X,), (X, constant, *numbers)),
    ):
        found = read_back(program)
        assert found == program
        assert found.name == program.name


def test_a_newer_version_is_refused_by_name() -> None:
    """Whatever else it holds: an older reader cannot know."""
    document = {"format": "aiosearch.program", "version": 2, "news": []}
    with pytest.raises(FormatError, match=r"version 2 of aiosearch\.program: .* up to 1"):
        from_json(json.dumps(document))


def test_an_unknown_operator_is_named_with_its_place() -> None:
    """It may be known to another version; nothing can be said of the program."""
    document = to_dict(_fused())
    document["nodes"][0]["block"][2]["op"] = "foo"
    with pytest.raises(UnknownOperator, match=r"'foo' in node 1 \(kernel\), block node 2 \(foo\)"):
        from_dict(document)


def _set(*path: Any) -> Callable[[dict[str, Any]], None]:
    """Puts the last of a path at the place that the others name."""

    def change(document: Any) -> None:
        *way, last, value = path
        for step in way:
            document = document[step]
        document[last] = value

    return change


BLOCK = ("nodes", 0, "block")
MISTAKES = {
    "another format": (_set("format", "onnx"), "the format is 'onnx'"),
    "version zero": (_set("version", 0), "version 0"),
    "a name that is none": (_set("name", 7), r"at `\$\.name`"),
    "a field too many": (_set("author", "me"), "author"),
    "no outputs": (_set("outputs", []), "computes nothing"),
    "an output that is not there": (_set("outputs", [99]), "99 is none of the"),
    "a kernel as a value": (_set("outputs", [1]), "1 is a kernel"),
    "a negative number": (_set("outputs", [-1]), "-1 is none"),
    "a node that names a later one": (_set("nodes", 4, "args", [5, 5]), r"node 5 \(mul\): 5 is"),
    "an input's type": (_set("inputs", 0, "dtype", "f99"), "input 0: no element type 'f99'"),
    "an input's size": (_set("inputs", 0, "shape", [-1, 6]), "input 0: .*size"),
    "an input's labels": (_set("inputs", 0, "labels", []), "2 axes and 0 labels"),
    "a size in bad form": (_set("inputs", 0, "shape", ["h^", 6]), "expected a power"),
    "a grid of nothing": (_set("nodes", 0, "params", "grid", [None]), "grid is a size"),
    "a grid that is no list": (_set("nodes", 0, "params", "grid", 4), "grid is a list"),
    "a range below one": (_set("nodes", 0, "params", "range", 0), "range 0"),
    "no range": (_set("nodes", 0, "params", {"grid": [1]}), "a kernel has grid and range"),
    "a map of words": (_set(*BLOCK, 0, "params", {"map": ["a"]}), "a map names axes"),
    "a map that is no list": (_set(*BLOCK, 0, "params", {"map": 0}), "a map is a list"),
    "a loop of words": (_set(*BLOCK, 0, "params", {"loop": "x"}), "axis 'x'"),
    "an accumulator": (_set(*BLOCK, 6, "params", {"kind": "min"}), "no accumulator 'min'"),
    "columns below one": (
        _set(*BLOCK, 6, "params", {"kind": "redtox", "columns": -2}), "columns is a size"
    ),
    "a literal of words": (_set("nodes", 3, "params", {"value": "many + 1/2"}), "expected"),
    "a literal of two": (_set("nodes", 3, "params", {"value": [1, 2]}), "is no number"),
    "an operator with too little": (_set("nodes", 4, "args", []), "mul takes 2 operands, not 0"),
    "a kernel in a kernel": (_set(*BLOCK, 1, "op", "kernel"), "unknown operator 'kernel'"),
    "a store of nothing": (_set("nodes", 0, "stores", 0, "tile", 77), "77 is none of the"),
    "no stores": (_set("nodes", 0, "stores", []), "a kernel stores something"),
    "a result of nothing": (_set("nodes", 1, "params", {"index": 9}), "9 is none of the 2"),
    "a result of a tensor": (_set("nodes", 1, "args", [0]), "a result has a kernel"),
    "a block in no kernel": (_set("nodes", 4, "stores", [{"tile": 0, "map": []}]), "only a kernel"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named_with_its_place(mistake: str) -> None:
    """Always FormatError, whatever is wrong."""
    change, message = MISTAKES[mistake]
    document = to_dict(_fused())
    change(document)
    for read_back in (lambda: from_dict(document), lambda: from_json(json.dumps(document))):
        with pytest.raises(FormatError, match=message):
            read_back()


HOSTILE = {
    "nothing": b"",
    "no object": b"[1]",
    "no text": b"\xff\xfe",
    "deep lists": b"[" * 200_000,
    "deep objects": b'{"x":' * 200_000,
    "deep within": b'{"format":"aiosearch.program","version":1,"nodes":' + b"[" * 200_000,
    "a huge number": b'{"format":"aiosearch.program","version":' + b"9" * 5000 + b"}",
    "nul": b"\0" * 100,
}


@pytest.mark.parametrize("what", HOSTILE)
def test_no_bytes_hang_or_crash_the_reader(what: str) -> None:
    """Depth, length and numbers beyond reason are mistakes like others."""
    with pytest.raises(FormatError):
        from_json(HOSTILE[what])


@pytest.mark.parametrize("what", [None, 7, [], "text", {"format": 1}, object(), {1: 2}])
def test_no_object_crashes_the_reader(what: Any) -> None:
    """What is no document is a mistake, not a traceback."""
    with pytest.raises(FormatError):
        from_dict(what)


def test_sizes_that_grow_without_end_are_refused() -> None:
    """Each concatenation doubles an axis: soon no machine holds it, and the reader says so."""
    nodes = [{"op": "concatenate", "args": [n, n], "params": {"axis": 0}} for n in range(500)]
    document = to_dict(Program("p", (X,), (X,))) | {"nodes": nodes}
    with pytest.raises(FormatError, match=r"node \d+ \(concatenate\): an axis beyond all memory"):
        from_dict(document)


def test_products_of_many_sums_are_refused() -> None:
    """Multiplied out they would fill the memory."""
    sums = [f"a{n} + 1" for n in range(30)]
    document = to_dict(Program("p", (X,), (X,)))
    document["inputs"][0] |= {"shape": sums, "labels": [None] * 30}
    with pytest.raises(FormatError, match="too many sums"):
        from_dict(document)


@pytest.mark.parametrize("cut", range(0, 100, 7))
def test_a_truncated_file_is_an_error(cut: int) -> None:
    """Wherever it ends."""
    data = to_json(_fused())
    with pytest.raises(FormatError):
        from_json(data[: len(data) * cut // 100])


def test_changed_bytes_give_a_program_or_a_clear_error() -> None:
    """Random changes of random files: never another exception."""
    for seed in range(1500):
        random = Random(seed)
        data = bytearray(to_json(random_program(seed % 300)))
        for _ in range(random.randint(1, 3)):
            data[random.randrange(len(data))] = random.choice(b'0123456789-"[]{},:.eaxn\\\xc3')
        _tolerant(lambda data=data: from_json(bytes(data)))  # type: ignore[misc]


def test_changed_values_give_a_program_or_a_clear_error() -> None:
    """Every value of a document replaced by one of another type, or dropped."""
    for seed in range(300):
        random = Random(seed)
        document = json.loads(to_json(random_program(seed)))
        for _ in range(5):
            _mutate(document, random)
            _tolerant(lambda document=document: from_dict(document))  # type: ignore[misc]


STRANGE = (
    *(None, True, -1, 0, 3, 1 << 60, 1 << 80, 0.5, 1e308, "", "h", "1/0", "h^99", "inf"),
    *([], {}, [None], [0, 0], ["x"], [[1]], {"axis": 0}),
)


def _mutate(document: Any, random: Random) -> None:
    """Replaces or drops a value somewhere within."""
    while True:
        keys = list(document) if isinstance(document, dict) else list(range(len(document)))
        if not keys:
            return
        key = random.choice(keys)
        if isinstance(document[key], (dict, list)) and random.random() < 0.8:
            document = document[key]
        elif random.random() < 0.2:
            del document[key]
            return
        else:
            document[key] = random.choice(STRANGE)
            return


def _tolerant(read_back: Callable[[], Program]) -> None:
    """A program or FormatError; anything else is raised."""
    with contextlib.suppress(FormatError):
        assert isinstance(read_back(), Program)
