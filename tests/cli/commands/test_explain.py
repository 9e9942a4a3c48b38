"""`aiosearch explain`: programs, answers and files on their way to machine code."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jax.numpy as jnp
import numpy as np
import pytest
from answers import SOURCE, answer, key
from testkit.hosts.console import Cli
from testkit.kernels.lowered import norm

from aiosearch.codegen.lower.lowering import lower
from aiosearch.codegen.native.embedded_source import embedded_programs, encode_program
from aiosearch.codegen.native.machine import host
from aiosearch.codegen.passes.kernel_fusion import fuse_kernels
from aiosearch.devices import device
from aiosearch.optimizer.candidates.cpu_kernels import kernel_sources
from aiosearch.optimizer.candidates.gpu_kernels import gpu_kernel_sources
from aiosearch.optimizer.outcomes.answer import Answer, Packing
from aiosearch.optimizer.outcomes.results import Results
from aiosearch.tensor import Program, apply, tensor
from aiosearch.tensor.programs import builtin
from aiosearch.tensor.text import parse, write

PACKED = """\
import jax.numpy as jnp


def twice_pack(w):
    return (w + w,)


def twice_packed(x, packed):
    return x @ packed


def twice(x, w):
    return x @ (w + w)
"""
PLAIN = answer(
    key=key(2, types=("float32[8,8]", "float32[8,8]")), evidence={"program": write(norm())}
)


@pytest.fixture
def file() -> str:
    """A program of one custom kernel, in a file."""
    Path("norm.txt").write_text(write(norm()), encoding="utf-8")
    return "norm.txt"


@pytest.fixture
def kernels() -> Answer:
    """An answer that is machine code, in the file that commands take by default."""
    (found,) = kernel_sources(norm(), host(), 2, 1)
    types = ("bfloat16[4,64]", "bfloat16[64,32]")
    made = answer(
        key=key(1, types=types), name="norm", function=found.function, source=found.source
    )
    with Results.open() as results:
        results.keep(made)
    return made


def keep(*answers: Answer) -> None:
    with Results.open() as results:
        for one in answers:
            results.keep(one)


def test_a_program_from_its_text_to_registers(cli: Cli, file: str) -> None:
    """What fits a screen comes by itself, in order; what else there is, is told."""
    told = cli("explain", file, "--constant=W")
    assert told.code == 0, told.err
    heads = [line for line in told.out.splitlines() if line.startswith("-- ")]
    assert heads == ["-- program --", "-- tile-ir --", "-- schedule --", "-- registers --"]
    assert write(norm()).rstrip() in told.out
    assert str(lower(norm())) in told.out
    assert "W packed in panels of " in told.out
    assert told.err == "for more: --show llvm or assembly or pallas or all\n"
    assert max(map(len, told.out.splitlines())) <= 80


def test_one_section_alone_is_written_as_it_is(cli: Cli, file: str) -> None:
    """So that it can go to a file: LLVM IR with nothing around it, Python that can be read."""
    texts = {}
    for section in ("program", "llvm", "assembly", "pallas"):
        told = cli("explain", file, f"--show={section}")
        assert (told.code, told.err) == (0, "")
        texts[section] = told.out
    assert parse(texts["program"]) == norm()
    ((_, carried),) = embedded_programs(kernel_sources(norm(), host(), 1, 1)[0].source)
    assert texts["llvm"].count("define void @norm.0(") == carried.native.text.count("@norm.0(")
    assert "norm.0:" in texts["assembly"]
    compile(texts["pallas"], "pallas", "exec")
    assert "pl.pallas_call(" in texts["pallas"]


def test_the_same_as_json_with_a_drawing(cli: Cli, file: str) -> None:
    """All sections are there, what is counted as numbers, and why something is not there."""
    told = cli("explain", file, "--json", "--svg=drawn")
    assert (told.code, told.err) == (0, "")
    (facts,) = told.events
    assert facts["drawings"] == ["drawn/norm-1.svg"]
    assert ElementTree.fromstring(Path("drawn/norm-1.svg").read_text()).tag.endswith("svg")
    (function,) = facts["functions"]
    assert (function["kind"], function["machine"]) == ("kernels", host().name)
    (counted,) = function["figures"]
    assert counted["instructions"] > counted["vector_registers"] > 0
    assert function["texts"].keys() | function["absent"].keys() == {
        "program", "tile-ir", "schedule", "registers", "llvm", "assembly", "pallas", "source",
        "jaxpr", "beside",
    }  # fmt: skip
    assert function["absent"].keys() == {"source", "jaxpr", "beside"}


def test_sizes_and_types_of_a_built_in_program(cli: Cli) -> None:
    sizes = ("--shape=row=2", "--shape=feature=16", "--shape=column=16")
    told = cli("explain", "rms_norm", *sizes, "--dtype=f32", "--show=program")
    assert "X: f32[row=2, feature=16]" in told.out


def test_a_program_is_explained_where_answers_cannot_be_read(cli: Cli) -> None:
    """What was found for it is said to be missing, on stderr."""
    Path("answers").mkdir()
    told = cli("explain", "rms_norm", "--shape=row=1", "--show=program", "--file=answers")
    assert told.code == 0
    assert told.out
    assert told.err == (
        "rms_norm is the program; what optimize has found for it cannot be told: answers cannot be"
        " read as a store of results: it is a folder; --file names another one\n"
    )


def test_an_answer_says_what_it_was_made_of(cli: Cli, kernels: Answer) -> None:
    """By the start of its id, or its name: the program and the schedule are in its lines."""
    told = cli("explain", kernels.id[:6])
    assert told.code == 0, told.err
    assert told.out.startswith("norm(bfloat16[4,64], bfloat16[64,32]) on cpu")
    assert "proved — for all shapes" in told.out
    assert write(norm()).rstrip() in told.out
    ((_, carried),) = embedded_programs(kernels.source)
    assert carried.origin is not None
    assert carried.origin.schedules[0] in told.out
    assert cli("explain", "norm").out == told.out


def test_a_file_of_an_answer_is_explained_and_runs(
    cli: Cli, kernels: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its comments say what it needs; the same kernels are seen in it as in the store."""
    text = kernels.text()
    Path("faster.py").write_text(text)
    assert f"# machine code for {host().name}" in text
    shown = [cli("explain", name, "--show=llvm") for name in ("faster.py", kernels.id)]
    assert shown[0].out == shown[1].out
    assert cli("explain", "faster.py").out.startswith("norm(bfloat16[4,64], bfloat16[64,32]) on")
    monkeypatch.setattr("aiosearch.measure.worker.expendable._expendable", True)
    module: dict[str, Any] = {}
    exec(compile(text, "faster.py", "exec"), module)
    x, w = jnp.ones((4, 64), jnp.bfloat16), jnp.ones((64, 32), jnp.bfloat16)
    np.testing.assert_array_equal(module["norm"](x, w), 64)


def test_each_part_of_a_file_is_explained(cli: Cli, kernels: Answer) -> None:
    """A function of several programs has parts, of which some are plain JAX."""
    Path("parts.py").write_text(f"{kernels.text()}\n\n{PLAIN.text()}")
    told = cli("explain", "parts.py").out
    first, second = told.index("norm is machine code"), told.index("trace_of_product is plain JAX")
    assert first < told.index("-- registers --") < second < told.index("-- jaxpr --")
    shown = cli("explain", "parts.py", "--show=program").out
    assert "(there is none: this is plain JAX" in shown.partition("-- program --")[2]


def test_plain_jax_has_its_source_and_what_jax_makes_of_it(cli: Cli) -> None:
    """And a sentence in the place of what is of machine code alone."""
    keep(PLAIN)
    told = cli("explain", "trace_of_product")
    assert told.code == 0, told.err
    assert "is plain JAX: XLA makes its kernels" in told.out
    assert SOURCE.strip() in told.out
    assert "a:f32[8,8]" in told.out.partition("-- jaxpr --")[2]
    assert told.err == "for more: --show program or all\n"
    refused = cli("explain", "trace_of_product", "--show=assembly")
    assert (refused.code, refused.out) == (2, "")
    assert "assembly of trace_of_product: there is none: this is plain JAX" in refused.err
    assert cli("explain", "trace_of_product", "--show=program").out == write(norm())


def test_plain_jax_stands_beside_the_original_with_a_word_on_why_it_is_faster(cli: Cli) -> None:
    x, w = tensor("x", "f32", (8, 8)), tensor("w", "f32", (8, 8))
    before = Program("trace", (x, w), (apply("sum", apply("diagonal", x @ w), axes=(0,)),))
    after = Program(
        "trace", (x, w), (apply("sum", x * apply("transpose", w, axes=(1, 0)), axes=(0, 1)),)
    )
    tried = [
        {"how": "as written", "seconds": 1e-3, "speedup": 1.0},
        {"how": "only the diagonal of the product", "seconds": 1e-4, "speedup": 9.0, "won": True},
    ]
    evidence = {"program": write(after), "original": write(before), "tried": tried}
    with Results.open() as results:
        results.keep(answer(evidence=evidence))
    text = cli("explain", "trace_of_product", "--show", "beside").out
    assert text.startswith("what was done: only the diagonal of the product\n")
    assert "times fewer" in text
    (head,) = [line for line in text.splitlines() if line.startswith("as written")]
    place = head.index("the answer")
    assert "x @ w" in "".join(line[:place] for line in text.splitlines())
    assert "a * b.T" in "".join(line[place:] for line in text.splitlines())


def test_of_what_is_packed_the_jaxpr_is_what_is_left_for_a_call(cli: Cli) -> None:
    one = answer(
        key=key(types=("float32[2,3]", "float32[3,4]")),
        name="twice",
        function="twice",
        source=PACKED,
        packing=Packing((1,), "twice_pack", "twice_packed"),
        evidence={"packed_bytes": 48},
    )
    keep(one)
    told = cli("explain", "twice", "--show=jaxpr").out
    assert "dot_general" in told
    assert " add " not in told
    Path("twice.py").write_text(one.text())
    assert cli("explain", "twice.py", "--show=jaxpr").out == told


def test_an_answer_for_a_gpu_is_its_pallas_text(cli: Cli) -> None:
    """It is told from plain JAX, in the store and in a file, and jax can trace it here."""
    (found, *_) = gpu_kernel_sources(norm(), device("H200"), 1)
    types = ("bfloat16[4,64]", "bfloat16[64,32]")
    evidence = {"program": write(norm())}
    made = answer(
        key=key(types=types), name="norm", function="norm", source=found.source, evidence=evidence
    )
    keep(made)
    told = cli("explain", "norm")
    assert "norm is of Pallas kernels" in told.out
    assert write(norm()) in told.out
    assert told.out.endswith(f"-- pallas --\n{found.source.strip()}\n")
    heads = [line for line in told.out.splitlines() if line.startswith("-- ")]
    assert heads == ["-- program --", "-- tile-ir --", "-- schedule --", "-- pallas --"]
    words = told.out.partition("-- schedule --\n")[2]
    assert words.startswith("norm")
    assert " warps\n" in words.partition("-- pallas --")[0]
    ir = told.out.partition("-- tile-ir --\n")[2].partition("\n\n-- schedule")[0]
    assert ir in {str(one) for one in (lower(norm()), fuse_kernels(lower(norm())))}
    Path("gpu.py").write_text(made.text())
    (function,) = cli("explain", "gpu.py", "--json").events[0]["functions"]
    assert function["kind"] == "pallas"
    assert "pallas_call" in function["texts"]["jaxpr"]
    assert "on a GPU" in function["absent"]["assembly"]


def test_a_gpu_s_answer_of_an_earlier_version_has_its_text_alone(cli: Cli) -> None:
    (found, *_) = gpu_kernel_sources(norm(), device("H200"), 1)
    older = re.sub(r'\n    """norm.*?\n    """', "", found.source, flags=re.DOTALL)
    Path("older.py").write_text(answer(name="norm", function="norm", source=older).text())
    (function,) = cli("explain", "older.py", "--json").events[0]["functions"]
    assert "earlier version" in function["absent"]["tile-ir"]
    assert "earlier version" in function["absent"]["schedule"]
    assert "pallas_call" in function["texts"]["pallas"]


def test_lines_of_an_earlier_version_have_machine_code_alone(cli: Cli, kernels: Answer) -> None:
    """What they do not hold is not made up."""
    ((_, carried),) = embedded_programs(kernels.source)
    own = encode_program(carried.native, carried.machine, origin=carried.origin)
    older = kernels.source.replace(own, encode_program(carried.native, carried.machine))
    Path("older.py").write_text(answer(name="norm", function="norm", source=older).text())
    told = cli("explain", "older.py", "--json").events[0]["functions"][0]
    assert "earlier version" in told["absent"]["program"]
    assert told["texts"]["llvm"] == carried.native.text.rstrip()


def test_a_name_is_first_that_of_a_program(cli: Cli) -> None:
    """What was found for it is told of by its id, and by what tells it from others."""
    plain = answer(4, key=key(4, settings=("plain JAX",)), name="rms_norm")
    keep(answer(3, name="rms_norm"), plain)
    told = cli("explain", "rms_norm", "--shape=row=2", "--show=program")
    assert "X: bf16[row=2, " in told.out
    types = "f32[512, 512], f32[512, 512]"
    (line,) = [line for line in told.err.splitlines() if "goes by its id: " in line]
    assert f"{plain.id[:8]} ({types}; plain JAX)" in line
    assert f"{answer(3).id[:8]} ({types})" in line


def test_nothing_of_jax_is_loaded_for_a_program(cli: Cli, file: str) -> None:
    """Machine code is made without it."""
    code = f"""
import sys
from aiosearch.cli import main
assert main(["explain", {file!r}, "--show=schedule"]) == 0
assert not {{"jax", "z3", "rich"}} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "TARGET"),
        (["rmsnorm"], "did you mean rms_norm?"),
        (["rms_norm", "--show=asembly"], "did you mean assembly?"),
        (["rms_norm", "--show="], "--show '' names nothing: there are program, tile-ir, schedule"),
        (["rms_norm", "--show", ","], "--show ',' names nothing: there are program, tile-ir"),
        (["rms_norm", "--constant=Z"], "--constant Z: no such input; there are X, W"),
        (["rms_norm", "--device=H9"], "no device 'H9': there are A100"),
        (["rms_norm", "--dtype=f12"], "--dtype f12: there are"),
        (["rms_norm", "--shape=row=0"], "rms_norm has no kernels"),
        (["rms_norm", "--svg=nowhere/x"], "--svg nowhere/x: No such file"),
        (["trace_of_product"], "may be any of"),
        (["rms_norm.py", "--shape=row=2"], "--shape is for programs; rms_norm.py is an answer"),
        (["rms_norm.py", "--dtype=f32"], "--dtype is for programs; rms_norm.py is an answer"),
        (
            ["program.txt", "--dtype=f32"],
            "--dtype is for built-in programs; program.txt has types of its own",
        ),
        (["whole (whole)", "--constant=W"], "--constant is for programs; whole (whole) is an"),
        (["zeros.py"], "zeros.py: "),
        (["empty.py"], "there is no answer in empty.py"),
        (["damaged.py"], "damaged.py: the lines of a kernel are damaged"),
        (["wrong.py"], "wrong.py: "),
        (["whole (whole)"], "whole (whole) stands for a function of several programs: abc"),
        (["f (as called)"], "f (as called) says how a call of the function fared; what was found"),
    ],
)
def test_wrong_usage(cli: Cli, arguments: list[str], told: str) -> None:
    """What is wrong is said in one sentence, with exit code 2."""
    whole = answer(4, name="whole (whole)", source="", evidence={"kept": ["abc"]})
    keep(answer(1), answer(2), whole, answer(5, name="f (as called)", source="", evidence={}))
    Path("empty.py").write_text("x = 1\n")
    Path("rms_norm.py").write_text(PLAIN.text())
    Path("zeros.py").write_bytes(bytes(9))
    Path("damaged.py").write_text('def f(x):\n    return carried("""\nabc\n""")(x)\n')
    Path("wrong.py").write_text("def f(:\n")
    Path("program.txt").write_text(write(builtin("rms_norm", row=4, feature=8, column=8)))
    outcome = cli("explain", *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("aiosearch: ")
    assert told in outcome.err
    assert len(outcome.err.splitlines()) == 1
