"""Functions of a source by other names."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from testkit.programs.random_programs import random_program

from aiosearch.optimizer.candidates.jax_source import (
    block_rows,
    emit,
    emit_blocked,
    emit_pack,
    merged,
    names,
    renamed,
    with_parameters,
)
from aiosearch.optimizer.candidates.spellings import spellings
from aiosearch.tensor import DType, Program, apply, literal, referee, tensor
from aiosearch.tensor.programs import BUILTINS, builtin

PARTS = 5
EACH = 20


def run(source: str, name: str) -> Callable[..., Any]:
    scope: dict[str, Any] = {}
    exec(source, scope)
    return scope[name]  # type: ignore[no-any-return]


def values(program: Program, *given: Any) -> list[np.ndarray[Any, Any]]:
    """What the emitted function gives, on arrays of the declared types."""
    (found,) = all_values([(program, emit(program), given)])
    return found


def all_values(
    calls: Sequence[tuple[Program, str, Sequence[Any]]],
) -> list[list[np.ndarray[Any, Any]]]:
    """The same of many sources, which are compiled together: that takes a third of the time."""
    functions = [run(source, names(program)[0]) for program, source, _ in calls]
    arrays = [
        [
            jax.numpy.asarray(value, dtype=jax_type(term.dtype))
            for value, term in zip(given, program.inputs, strict=True)
        ]
        for program, _, given in calls
    ]
    both = jax.jit(lambda all_: [one(*own) for one, own in zip(functions, all_, strict=True)])
    return [[np.asarray(one) for one in jax.tree.leaves(found)] for found in both(arrays)]


def jax_type(dtype: DType) -> Any:
    long = {"f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16"}
    return jax.numpy.dtype(long.get(dtype, dtype))


@pytest.fixture(autouse=True)
def exact() -> Iterator[None]:
    """Random programs know doubles."""
    with jax.enable_x64(True), np.errstate(all="ignore"):
        yield


@pytest.mark.parametrize("part", range(PARTS))
def test_random_programs_compute_what_the_referee_computes(part: int) -> None:
    """Emitted, compiled and run, a program gives the referee's numbers in the declared types."""
    seeds = range(part * EACH, (part + 1) * EACH)
    programs = [random_program(seed, kernels=False) for seed in seeds]
    given = [quarters(program, seed) for program, seed in zip(programs, seeds, strict=True)]
    found = all_values([*zip(programs, map(emit, programs), given, strict=True)])
    for seed, program, inputs, results in zip(seeds, programs, given, found, strict=True):
        half = any(term.dtype is DType.F16 for term in program.terms())
        near = 3e-2 if half else 1e-4
        wanted = referee.run(program, inputs)
        for term, ours, theirs in zip(program.outputs, results, wanted, strict=True):
            assert ours.shape == term.shape, seed
            if term.dtype is DType.I32 and not np.isfinite(theirs).all():
                continue
            same = np.isclose(ours.astype(float), theirs, rtol=near, atol=near, equal_nan=True)
            assert same.all(), f"seed {seed}\n{program}\n{emit(program)}"


def quarters(program: Program, seed: int) -> list[np.ndarray[Any, Any]]:
    draw = np.random.default_rng(seed)
    return [draw.integers(-8, 9, size=term.shape) / 4 for term in program.inputs]


@pytest.mark.parametrize("name", BUILTINS)
@pytest.mark.parametrize("dtype", ["bf16", "f32"])
def test_every_spelling_of_a_program_gives_the_same(name: str, dtype: str) -> None:
    """Choices change what is rounded when, and nothing else."""
    program = builtin(name, dtype, **sizes(name))
    draw = np.random.default_rng(0)
    inputs = [draw.normal(size=term.shape) for term in program.inputs]
    ways = list(spellings(program))
    sources = [emit(program), *(emit(program, spelling) for spelling in ways)]
    (plain,), *others = all_values([(program, source, inputs) for source in sources])
    assert plain.dtype == jax_type(program.outputs[0].dtype)
    for spelling, (found,) in zip(ways, others, strict=True):
        assert found.dtype == plain.dtype
        near = 0.1 if dtype == "bf16" else 1e-5
        np.testing.assert_allclose(
            found.astype(float), plain.astype(float), rtol=near, atol=near, err_msg=str(spelling)
        )


def sizes(name: str) -> dict[str, int]:
    """Small ones; with one row, where there is more to choose."""
    return {label: 1 if label == "row" else 4 for label in BUILTINS[name].sizes}


def test_sources_are_clean(tmp_path: Path) -> None:
    """No unused name, no long line."""
    pytest.importorskip("ruff")
    programs = [random_program(seed, kernels=False) for seed in range(200)]
    programs += [builtin(name, "bf16") for name in BUILTINS]
    for index, program in enumerate(programs):
        for number, spelling in enumerate(spellings(program)):
            path = tmp_path / f"source_{index}_{number}.py"
            path.write_text(emit(program, spelling))
    ruff = [sys.executable, "-m", "ruff", "check", "--isolated", "--line-length", "100"]
    rules = ["--select", "B,E,F,I,PERF,RUF,W", "--ignore", "RUF005", str(tmp_path)]
    found = subprocess.run([*ruff, *rules], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout[-2000:]


def source_of(name: str, *inputs: Any, output: Any) -> str:
    return emit(Program(name, inputs, (output,)))


def test_a_source_reads_as_if_written_by_hand() -> None:
    """Products with vectors need no axes, and what is used once needs no name."""
    a, x = tensor("a", "f32", (3, 4)), tensor("x", "f32", (4,))
    column = apply("reshape", x, shape=(4, 1))
    found = apply("reshape", a @ column, shape=(3,)) * literal(2) + literal(0.5)
    assert source_of("f", a, x, output=found) == "def f(a, x):\n    return a @ x * 2 + 0.5\n"


def test_widened_factors_are_added_up_in_32_bits() -> None:
    """The product of halves that were cast first is what `preferred_element_type` means."""
    a, b = tensor("a", "bf16", (3, 4)), tensor("b", "bf16", (4, 5))
    wide = [apply("cast", one, dtype="f32") for one in (a, b)]
    source = source_of("f", a, b, output=wide[0] @ wide[1])
    assert "jnp.matmul(a, b, preferred_element_type=jnp.float32)" in source


def test_names_that_python_has_are_not_taken() -> None:
    """Inputs may be called anything."""
    given = [tensor(name, "f32", (2,)) for name in ("lambda", "jnp", "x y", "x_y", "sum", "2")]
    found = given[0]
    for one in given[1:]:
        found = found + one
    program = Program("class", tuple(given), (found,))
    (total,) = values(program, *np.ones((6, 2)))
    assert total.tolist() == [6, 6]


def test_brackets_stand_where_they_are_needed() -> None:
    """What is subtracted, divided by and multiplied as a matrix keeps its order."""
    a, b = tensor("a", "f32", (2, 2)), tensor("b", "f32", (2, 2))
    found = (a - (b - a)) / (b / (a * b)) @ (a * (b @ a)) * (a @ b @ a)
    program = Program("f", (a, b), (-(found + found),))
    draw = np.random.default_rng(1)
    inputs = [draw.normal(size=(2, 2)) for _ in range(2)]
    (wanted,) = referee.run(program, inputs)
    np.testing.assert_allclose(values(program, *inputs)[0], wanted, rtol=1e-4)


def test_what_is_packed_comes_as_a_tuple_whatever_is_in_it() -> None:
    w = tensor("w", "f32", (2, 3))
    one = Program("f_pack", (w,), (w * w,))
    two = Program("f_pack", (w,), (w * w, w))
    assert emit_pack(one).endswith("return (w * w,)\n")
    assert emit_pack(two) == emit(two)


def test_functions_of_several_modules_are_merged_into_one() -> None:
    """Each import once, and only what is needed."""
    w = tensor("w", "f32", (2, 3))
    root, plain = apply("sqrt", w), w * w
    sources = [
        emit(Program(name, (w,), (out,)))
        for name, out in zip("abc", (root, root, plain), strict=True)
    ]
    whole = merged(*sources)
    assert whole.count("import jax.numpy as jnp") == 1
    assert [line for line in whole.splitlines() if line.startswith("def ")] == [
        "def a(w):", "def b(w):", "def c(w):",
    ]  # fmt: skip
    assert run(whole, "c")(3) == 9
    assert merged(sources[2]) == sources[2]


SOURCE = """\
def _erf(x):
    return -x


def _h_1(x):
    h = _erf(x)
    return h


def _h(x):
    return _h_1(x) + 5


def h_pack(x):
    return (x,)


def h(x, _h_10=1):
    return launched(_h, name="h"), launched(_h_1, name="h_1"), _h(x) * _h_10
"""


def test_functions_and_what_they_call_have_other_names() -> None:
    """No other name is touched, not even one that begins like them."""
    text = renamed(SOURCE, {"h": "f_2", "h_pack": "f_2_pack"}, "h", "f_2")
    module: dict[str, Any] = {"launched": lambda function, name: (function.__name__, name)}
    exec(text, module)
    names = [one for one in module if one not in ("launched", "__builtins__")]
    assert names == ["_f_2_erf", "_f_2_1", "_f_2_kernel", "f_2_pack", "f_2"]
    lone, first, value = module["f_2"](3, 2)
    assert lone == ("_f_2_kernel", "f_2_kernel")
    assert first == ("_f_2_1", "f_2_1")
    assert value == 2 * (5 - 3)


@pytest.mark.parametrize("name", ["_f_2_erf", "_h", "_erf", "_kernel"])
def test_a_name_may_look_like_that_of_a_helper(name: str) -> None:
    """Which then gets another one: no two functions have the same."""
    text = renamed(SOURCE, {"h": name, "h_pack": f"{name}_pack"}, "h", name)
    defined = re.findall(r"^def (\w+)", text, re.MULTILINE)
    assert len(set(defined)) == len(defined) == 5
    assert name in defined


def test_a_source_by_its_own_name_stays_as_it_is() -> None:
    """Only what is made beforehand may get the usual name."""
    assert renamed(SOURCE, {"h": "h"}, "h", "h") == SOURCE
    text = SOURCE.replace("h_pack", "before")
    assert renamed(text, {"h": "h", "before": "h_pack"}, "h", "h") == SOURCE


CALLED = """\
import math

def other(x, a):
    return x - a


def h(x, w, *, option=0):
    def swift(x, w, *, option=0):
        a = x * 10  # b
        return other(a, w) + option

    b = swift(x, w, option=option)
    return b + math.floor(0.5)
"""


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        (["a", "b"], ["a", "b"]),
        (["w", "x"], ["w", "x"]),
        (["größe", "input"], ["größe", "input"]),
        (["x", "w"], ["x", "w"]),
        (["math", "option"], ["math_", "option_"]),
        (["swift", "other"], ["swift_", "other_"]),
        (["a"], ["a", "w"]),
    ],
)
def test_parameters_are_called_as_is_asked_for(wanted: list[str], names: list[str]) -> None:
    """As far as nothing outside has the name; what has it inside makes room."""
    module: dict[str, Any] = {}
    text = with_parameters(CALLED, "h", wanted)
    exec(text, module)
    assert module["h"](**dict(zip(names, (3, 2), strict=True)), option=5) == 3 * 10 - 2 + 5
    assert module["other"](x=3, a=1) == 2
    assert "# b" in text


def test_rows_in_blocks_compute_what_the_whole_does() -> None:
    """A network and a norm with two results: each block reads its rows, and all of the weights."""
    x, w, b = tensor("x", "f32", (960, 8)), tensor("w", "f32", (8, 8)), tensor("b", "f32", (8,))
    bias = apply("reshape", b, shape=(1, 8))
    network = Program("network", (x, w, b), (apply("tanh", x @ w + bias),))
    pair = Program("pair", (x, w), (x @ w, apply("sum", x * x, axes=(1,), keep=False)))
    rng = np.random.default_rng(0)
    for program in (network, pair):
        source = emit_blocked(program, 160)
        assert source is not None
        assert "lax.map(block, x.reshape(6, 160, 8))" in source
        arrays = [rng.standard_normal(term.shape) for term in program.inputs]
        calls = [(program, text, arrays) for text in (source, emit(program))]
        for blocked, whole in zip(*all_values(calls), strict=True):
            np.testing.assert_allclose(blocked, whole, rtol=1e-5)


def test_rows_that_need_others_are_not_cut_into_blocks() -> None:
    """A product whose rows meet, blocks that do not come out even, results of two lengths."""
    x, w = tensor("x", "f32", (96, 96)), tensor("w", "f32", (96, 8))
    meeting = Program("meeting", (x, w), (apply("transpose", x, axes=(1, 0)) @ w,))
    assert emit_blocked(meeting, 16) is None
    plain = Program("plain", (x, w), (x @ w,))
    assert emit_blocked(plain, 50) is None
    assert emit_blocked(plain, 96) is None
    lengths = Program("lengths", (x, w), (x @ w, apply("transpose", w, axes=(1, 0)) @ w))
    assert emit_blocked(lengths, 16) is None


def test_blocks_are_for_what_leaves_the_cache() -> None:
    """None for a small program; 512 KB of the widest value and four times as much for a large."""

    def network(rows: int) -> Program:
        x, w = tensor("x", "f32", (rows, 64)), tensor("w", "f32", (64, 64))
        return Program("network", (x, w), (apply("tanh", x @ w),))

    assert block_rows(network(4096)) == []
    assert block_rows(network(262_144)) == [2048, 8192]


def test_weights_are_no_reason_for_blocks_of_rows() -> None:
    """They are as large in each block, and would be read once more for each."""
    x, w = tensor("x", "bf16", (16, 4096)), tensor("w", "bf16", (4096, 6144))
    assert block_rows(Program("product", (x, w), (x @ w,))) == []
