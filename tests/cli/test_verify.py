from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import testkit.programs.saved_graphs as saved_graphs
from testkit.hosts.console import Cli, Outcome

from aiosearch.equivalence.inputs.distributions import draw
from aiosearch.tensor import DType, TensorType
from aiosearch.tensor.programs import builtin
from aiosearch.tensor.text import write

DATA = Path(__file__).parents[1] / "data" / "mirage"
SMALL = [f"--shape={size}" for size in ("row=4", "feature=8", "rank=2", "column=6")]
FUNCTIONS = f"{Path(__file__).with_name('functions.py')}:"


@pytest.fixture
def _files() -> None:
    small = builtin("lora", row=4, feature=8, rank=2, column=6)
    Path("plain.txt").write_text(write(small))
    Path("doubled.txt").write_text(write(small).replace("add(a, c)", "add(a, mul(c, 2))"))


def verdict(outcome: Outcome) -> str:
    """The verdict, which the exit code goes with."""
    (found,) = outcome.events
    accepted = found["verdict"] in ("proved", "tested")
    assert outcome.code == (0 if accepted else 1), outcome.err
    return str(found["verdict"])


@pytest.mark.usefixtures("_files")
def test_files(cli: Cli) -> None:
    """Programs of files and built-in ones are compared, as text or JSON."""
    Path("doubled.json").write_text(cli("programs", "show", "doubled.txt", "--json").out)
    assert verdict(cli("verify", "lora", "plain.txt", *SMALL, "--json")) == "proved"
    assert verdict(cli("verify", "plain.txt", "doubled.json", "--json")) == "refuted"


@pytest.mark.usefixtures("_files")
def test_for_people(cli: Cli) -> None:
    """The verdict comes first, then a line for each layer that was asked."""
    outcome = cli("verify", "lora", "plain.txt", *SMALL)
    assert outcome.code == 0
    lines = outcome.out.splitlines()
    assert lines[0].startswith("proved")
    assert [layer for layer in ("fields", "proof", "floats") if layer in outcome.out] == [
        "fields",
        "proof",
        "floats",
    ]
    assert "floats" not in cli("verify", "lora", "plain.txt", *SMALL, "--no-floats").out
    outcome = cli("verify", "lora", "doubled.txt", *SMALL)
    assert outcome.code == 1
    assert outcome.out.startswith("refuted")


def test_labels_are_types(cli: Cli) -> None:
    """A map that pairs a row with a feature is an error in the file, like sizes that do not fit."""
    text = """program wrong(Q: f16[row=8, feature=8], K: f16[feature=8, key=8]) {
  o = kernel(grid=[8, 1, 1], range=1) {
    q = load(Q, map=[0, _, _])
    k = load(K, map=[0, _, _])
    m = mul(q, k)
    a = accumulate(m, kind=none)
    store(a, map=[0, _, _])
  }
  return o
}
"""
    Path("wrong.txt").write_text(text)
    outcome = cli("verify", "wrong.txt", "wrong.txt")
    assert outcome.code == 2
    assert "grid axis x" in outcome.err
    assert "row of Q" in outcome.err


@pytest.mark.usefixtures("_files")
def test_functions(cli: Cli) -> None:
    """Functions are traced with the types given, or with those of the program beside them."""
    mine = FUNCTIONS
    given = [f"--arg=f32[{shape}]" for shape in ("4,8", "8,6", "8,2", "2,6")]
    assert verdict(cli("verify", f"{mine}plain", f"{mine}plain", *given, "--json")) == "proved"
    assert verdict(cli("verify", f"{mine}plain", f"{mine}wrong", *given, "--json")) == "refuted"
    assert verdict(cli("verify", "plain.txt", f"{mine}plain", "--json")) == "proved"
    assert verdict(cli("verify", "lora", f"{mine}wrong", *SMALL, "--json")) == "refuted"


@pytest.mark.parametrize(
    ("dtype", "said"),
    [("f64", "f64"), ("f32", "f32"), ("f16", "float16"), ("bf16", "bfloat16"), ("i32", "int32")],
)
def test_element_types(cli: Cli, dtype: str, said: str) -> None:
    """A function is traced with the element types given, wide ones too, by jax's names or ours."""
    text = f"program p(x: {dtype}[3]) {{\n  a = mul(x, 2)\n  return a\n}}\n"
    Path("doubled.txt").write_text(text)
    targets = ["doubled.txt", f"{FUNCTIONS}doubled"]
    assert verdict(cli("verify", *targets, f"--arg={said}[3]", "--json")) == "proved"


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32"])
def test_element_types_of_built_in_programs(cli: Cli, dtype: str) -> None:
    """Half types of 16 bits are those of Mirage where none is said."""
    shown = cli("programs", "show", "lora", *SMALL).out
    Path("lora.txt").write_text(shown.replace("f16", dtype))
    said = [f"--dtype={dtype}"] if dtype != "f16" else []
    assert verdict(cli("verify", "lora", "lora.txt", *SMALL, *said, "--json")) == "proved"


def test_the_usual_element_type_is_told_with_its_reason(cli: Cli) -> None:
    """What is written by `programs show` is the same as the built-in program."""
    told = " ".join(cli("verify", "--help").out.split())
    assert "by default f16, as Mirage and `aiosearch programs show` have it" in told
    Path("lora.txt").write_text(cli("programs", "show", "lora", *SMALL).out)
    assert verdict(cli("verify", "lora.txt", "lora", *SMALL, "--json")) == "proved"


def compared(cli: Cli, one: str, two: str, *given: str) -> Outcome:
    return cli("verify", f"{FUNCTIONS}{one}", f"{FUNCTIONS}{two}", *given or ("--arg=f32[8]",))


@pytest.mark.parametrize("dtype", ["f64", "f32", "bf16", "i32"])
def test_functions_that_cannot_be_captured_are_run(cli: Cli, dtype: str) -> None:
    """A primitive that stands in the way is named, and floats alone are compared."""
    outcome = compared(cli, "in_order", "in_order_too", f"--arg={dtype}[8]", "--json")
    assert verdict(outcome) == "tested"
    assert outcome.events[0]["primitive"] == "sort"
    told = compared(cli, "in_order", "in_order_too", f"--arg={dtype}[8]").out.splitlines()[0]
    assert told.endswith("in floats only, at these shapes: sort stands in the way: by several keys")


def test_functions_that_differ_when_they_are_run(cli: Cli) -> None:
    """Where they differ is said so that it can be computed again."""
    outcome = compared(cli, "in_order", "in_reverse", "--json", "--arg=f32[8]")
    assert verdict(outcome) == "refuted"
    (found,) = outcome.events
    trial = found["floats"]["trials"][0]
    (x,) = draw([TensorType(DType.F32, (8,))], trial["distribution"], found["floats"]["seed"])
    index = trial["worst"]["index"][0]
    assert np.sort(x)[index] == trial["worst"]["expected"]
    assert np.sort(x)[::-1][index] == trial["worst"]["found"]
    assert f"output 0 at [{index}] is" in found["reason"]
    assert found["reason"].endswith("on normal inputs of seed 0")


def test_a_function_that_cannot_be_captured_beside_a_program(cli: Cli) -> None:
    """A program runs on this package's machine, and the function as it is."""
    Path("same.txt").write_text("program p(x: f16[8]) { return x }")
    name = f"{FUNCTIONS}in_order"
    outcome = cli("verify", "same.txt", name, "--json")
    assert verdict(outcome) == "refuted"
    Path("same.txt").write_text("program p(x: f16[1]) { return x }")
    assert verdict(cli("verify", "same.txt", name, "--json")) == "tested"
    assert verdict(cli("verify", name, "same.txt", "--json")) == "tested"


@pytest.mark.parametrize(
    ("one", "two", "told"),
    [
        (
            "at_random",
            "at_random",
            "floats do not tell: the original itself is inaccurate on normal,",
        ),
        ("single", "single", "cannot be run in float64: TypeError"),
        ("of_its_sign", "in_order", "it depends on what its arguments hold"),
        ("in_order", "broken", "broken(f32[8]) cannot be run: TypeError"),
    ],
)
def test_functions_of_which_nothing_can_be_said(cli: Cli, one: str, two: str, told: str) -> None:
    """What floats cannot tell, or cannot run, is not judged, in a sentence."""
    outcome = compared(cli, one, two)
    assert (outcome.code, outcome.err) == (1, "")
    assert outcome.out.startswith("cannot judge\n")
    assert told in outcome.out


def test_functions_that_are_run_have_to_give_the_same_types(cli: Cli) -> None:
    outcome = compared(cli, "in_order", "largest")
    assert outcome.code == 1
    assert "the functions have other outputs: f32[8] and f32[1]" in outcome.out


def test_without_floats_a_function_that_cannot_be_captured_is_not_judged(cli: Cli) -> None:
    given = ("--arg=f32[8]", "--no-floats")
    outcome = compared(cli, "in_order", "in_order", *given, "--json")
    assert verdict(outcome) == "cannot judge"
    assert outcome.events[0]["primitive"] == "sort"
    assert "functions.py" in compared(cli, "in_order", "in_order", *given).out


def test_functions_with_arrays_of_their_own(cli: Cli) -> None:
    """Arrays that functions close over are more inputs; floats see what they hold."""

    def compare(other: str, *more: str) -> str:
        return verdict(compared(cli, "shifted", other, "--arg=f16[8]", "--json", *more))

    assert compare("shifted_too") == "proved"
    assert compare("shifted_backwards") == "tested"
    assert compare("shifted_otherwise") == "refuted"
    assert compare("shifted_otherwise", "--no-floats") == "cannot judge"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "name two programs"),
        (["lora"], "name two programs"),
        (["lora", "lora", "lora"], "name two programs"),
        (["lora", "lora", "--program", "lora"], "name two programs"),
        (["--mugraph", "x.json"], "--program NAME"),
        (["lora", "lora", "--mugraph", "x.json"], "--program NAME"),
        (["--mugraph", "nowhere.json", "--program", "lora"], "cannot read nowhere.json"),
        (["--mugraph", "plain.txt", "--program", "lora"], "not a file of Mirage's graphs"),
        (["--mugraph", "plain.txt", "--program", "laura"], "did you mean lora?"),
        (["lora", "nowhere.txt"], "'nowhere.txt' is no file and no built-in program"),
        (["lora", "x" * 5000], "is no file and no built-in program"),
        (["lora", f"/{'x' * 5000}.py:f"], "there is no file /xxx"),
        (["lora", "rms_norm"], "the programs have other inputs"),
        ([f"{FUNCTIONS}plain", f"{FUNCTIONS}merged"], "--arg f32[16,4096]"),
        (["lora", f"{FUNCTIONS}number"], "number is no function"),
        (["lora", f"{FUNCTIONS}nothing"], "has no 'nothing'"),
        (["lora", f"{FUNCTIONS}broken", "--arg=f32[2,2]"], "cannot be traced"),
        (["lora", "x:y", "--arg", "f12[3]"], "--arg f12[3]: write it as f32[16,4096]"),
        (["lora", "x:y", "--arg", "f32[3"], "--arg f32[3: write it as"),
        (["lora", "lora", "--seed", "x"], "--seed"),
        (["lora", "lora", "--dtype", "f12"], "--dtype f12: there are f64, f32"),
        (["plain.txt", "plain.txt", "--dtype", "f32"], "has types of its own"),
    ],
)
@pytest.mark.usefixtures("_files")
def test_wrong_usage(cli: Cli, arguments: list[str], told: str) -> None:
    """What is wrong is said in a sentence, with exit code 2."""
    outcome = cli("verify", *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("aiosearch: ")
    assert "Traceback" not in outcome.err
    assert told in outcome.err


def saved(cli: Cli, data: bytes, program: str, *more: str) -> tuple[int, list[dict[str, Any]]]:
    Path("saved.json").write_bytes(data)
    outcome = cli("verify", "--mugraph", "saved.json", "--program", program, "--json", *more)
    return outcome.code, outcome.events


def test_saved_graphs(cli: Cli) -> None:
    """Each graph of a file gets a line with the verdict and the order of its inputs."""
    data = (DATA / "norm_transformer_bs1.json").read_bytes()
    code, lines = saved(cli, data, "ntrans", "--no-floats")
    assert code == 0
    assert [line["graph"] for line in lines] == list(range(9))
    assert {line["verdict"] for line in lines} <= {"proved", "tested"}
    assert all(line["inputs"] == {"X": 1, "H": 0, "alpha": 2} for line in lines)


def test_saved_graph_in_floats(cli: Cli) -> None:
    """Floats are compared for the order of the inputs that is right."""
    data = json.dumps(json.loads((DATA / "norm_transformer_bs1.json").read_bytes())[:1]).encode()
    code, (line,) = saved(cli, data, "ntrans")
    assert (code, line["floats"]["outcome"]) == (0, "agree")


def test_wrong_graphs(cli: Cli) -> None:
    """Wrong graphs are refuted."""
    right = json.loads(saved_graphs.gated().json())
    wrong = json.loads(saved_graphs.gated("kn_add_op").json())
    code, lines = saved(cli, json.dumps(right + wrong).encode(), "gated_mlp", "--no-floats")
    assert code == 1
    assert [line["verdict"] for line in lines] == ["proved", "refuted"]


def test_graphs_that_cannot_be_judged(cli: Cli) -> None:
    """An unknown operator, a damaged graph and one of other inputs are not judged, and why."""
    data = saved_graphs.gated().json()
    unknown = json.loads(data.replace(b"tb_silu_op", b"tb_swish_op"))
    damaged = json.loads(data.replace(b'"forloop_range": 4', b'"forloop_range": 5'))
    other = json.loads(saved_graphs.many_heads().json())
    document = json.dumps(unknown + damaged + other).encode()
    code, lines = saved(cli, document, "gated_mlp", "--no-floats")
    assert code == 1
    assert {line["verdict"] for line in lines} == {"cannot judge"}
    assert lines[0]["operator"] == "tb_swish_op"
    assert "5 does not divide 256" in lines[1]["reason"]
    assert "f16[8, 16, 64]" in lines[2]["reason"]


def test_graphs_for_people(cli: Cli) -> None:
    """A line for each graph, and on stderr how many there are of each verdict."""
    Path("saved.json").write_bytes(saved_graphs.gated().json())
    outcome = cli("verify", "--mugraph", "saved.json", "--program", "gated_mlp", "--no-floats")
    assert outcome.code == 0
    assert outcome.out.startswith("graph 0    proved")
    assert outcome.out.count("\n") == 1
    assert "1 graph to compare with gated_mlp" in outcome.err
    assert "1 proved, in " in outcome.err


def test_program_of_a_file(cli: Cli) -> None:
    """The program that the graphs should be may come from a file too, with its own shapes."""
    Path("mine.txt").write_text(write(builtin("gated_mlp", row=8, feature=256, hidden=512)))
    code, (line,) = saved(cli, saved_graphs.gated().json(), "mine.txt", "--no-floats")
    assert (code, line["verdict"]) == (0, "proved")
    code, (line,) = saved(cli, saved_graphs.gated().json(), "gated_mlp", "--shape=row=4")
    assert (code, line["verdict"]) == (1, "cannot judge")


def test_no_graphs(cli: Cli) -> None:
    """A file without graphs has none that are wrong."""
    assert saved(cli, b"[]", "lora") == (0, [])


def test_one_order_for_all_graphs(cli: Cli) -> None:
    """A file's inputs have one order, in which most graphs are right; the others are wrong."""
    swapped = json.loads(saved_graphs.gated(swapped=True).json())
    code, (line,) = saved(cli, json.dumps(swapped).encode(), "gated_mlp", "--no-floats")
    assert (code, line["inputs"]) == (0, {"X": 0, "W1": 2, "W2": 1})
    right = json.loads(saved_graphs.gated().json())
    other = json.loads(saved_graphs.gated(reverse=True).json())
    document = json.dumps(swapped + right + other).encode()
    code, lines = saved(cli, document, "gated_mlp", "--no-floats")
    assert code == 1
    assert [line["verdict"] for line in lines] == ["refuted", "proved", "proved"]
    assert all(line["inputs"] == {"X": 0, "W1": 1, "W2": 2} for line in lines)


def test_arguments_that_are_no_arrays_are_given_by_value(cli: Cli) -> None:
    """Both functions are of their other arguments then."""
    pair = [f"{FUNCTIONS}repeated", f"{FUNCTIONS}repeated", "--arg=f32[4,8]"]
    assert verdict(cli("verify", *pair, "--arg=count=2", "--json")) == "proved"


def test_a_kernel_for_a_gpu_that_is_absent_is_told_how_to_run(cli: Cli) -> None:
    outcome = cli("verify", f"{FUNCTIONS}by_kernel", f"{FUNCTIONS}doubled", "--arg=f32[8]")
    assert outcome.code == 1
    assert "where there is no GPU, pallas_call takes interpret=True" in outcome.out


LOSSES = [f"{FUNCTIONS}loss", f"{FUNCTIONS}one_hot_loss", "--arg=f32[8,16]", "--arg=i32[8]"]


def test_what_is_known_of_inputs_is_said(cli: Cli) -> None:
    """Labels beyond the classes are another thing in each of the two, and never meant."""
    assert verdict(cli("verify", *LOSSES, "--json")) != "tested"
    assert verdict(cli("verify", *LOSSES, "--input", "labels=0..15", "--json")) in TAKEN


def test_inputs_of_a_file_are_tried_first(cli: Cli) -> None:
    values = np.zeros((8, 16), np.float32)
    np.savez("batch.npz", logits=values, labels=np.arange(8, dtype=np.int32))
    outcome = cli("verify", *LOSSES, "--inputs", "batch.npz", "--input=labels=0..15", "--json")
    assert verdict(outcome) in TAKEN
    (facts,) = outcome.events
    assert facts["floats"]["trials"][0]["distribution"] == "given"


TAKEN = ("proved", "tested")


def test_a_tolerance_accepts_what_is_off_by_less(cli: Cli) -> None:
    pair = [f"{FUNCTIONS}gelu", f"{FUNCTIONS}rough_gelu", "--arg=f32[64]"]
    assert verdict(cli("verify", *pair, "--json")) == "refuted"
    outcome = cli("verify", *pair, "--tolerance=0.01")
    assert outcome.out.startswith("tested")
    assert "within a tolerance of 0.01" in outcome.out
    assert "largest error" in outcome.out


def test_other_outputs_are_a_difference_and_no_wrong_usage(cli: Cli) -> None:
    outcome = cli("verify", f"{FUNCTIONS}doubled", f"{FUNCTIONS}traced", "--arg=f32[8,8]")
    assert outcome.code == 2
    pair = (f"{FUNCTIONS}doubled", f"{FUNCTIONS}summed", "--arg=f32[8]")
    outcome = cli("verify", *pair)
    assert outcome.code == 1
    assert outcome.out == ("refuted\n  because the programs have other outputs: f32[8] and f32[]\n")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ("--input=lables=0..15",),
            "no such input (did you mean labels?); there are logits, labels",
        ),
        (("--input=labels=15..0",), "--input labels=15..0: write it as NAME=0..15"),
        (("--input=labels=3",), "write it as NAME=0..15"),
        (("--inputs=nowhere.npz",), "cannot read nowhere.npz"),
        (("--tolerance=0",), "is no number above 0"),
        (("--tolerance=0.1", "--no-floats"), "which --no-floats leaves out"),
    ],
)
def test_what_is_said_wrong_of_inputs_is_one_sentence(
    cli: Cli, words: tuple[str, ...], told: str
) -> None:
    outcome = cli("verify", *LOSSES, *words)
    assert outcome.code == 2
    assert told in outcome.err


def test_arrays_of_objects_are_not_unpickled(cli: Cli) -> None:
    np.savez("evil.npz", logits=np.array([print], dtype=object))
    outcome = cli("verify", *LOSSES, "--inputs=evil.npz")
    assert outcome.code == 2
    assert "evil.npz is no .npz of plain arrays" in outcome.err


def test_arguments_that_are_trees_come_from_the_module(cli: Cli) -> None:
    Path("layers.py").write_text(
        "import jax.numpy as jnp\n"
        "def plain(p, x): return x @ p['w'] + p['b']\n"
        "def swapped(p, x): return p['b'] + x @ p['w']\n"
        "def wrong(p, x): return x @ p['w'] - p['b']\n"
        "def plain_inputs(): return {'w': jnp.ones((4, 3)), 'b': jnp.ones(3)}, jnp.ones((2, 4))\n"
    )
    assert verdict(cli("verify", "./layers.py:plain", "./layers.py:swapped", "--json")) == "proved"
    assert verdict(cli("verify", "./layers.py:plain", "./layers.py:wrong", "--json")) == "refuted"
    outcome = cli("verify", "./layers.py:plain", "./layers.py:swapped", "--no-floats")
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)


def test_what_only_loses_digits_is_told_the_tolerance_that_accepts_it(cli: Cli) -> None:
    Path("sums.py").write_text(
        "import jax.numpy as jnp\n"
        "def careful(x): return x - x.mean()\n"
        "def rough(x): return (x.astype(jnp.float16) - x.mean().astype(jnp.float16))"
        ".astype(jnp.float32)\n"
    )
    outcome = cli(
        "verify", "./sums.py:careful", "./sums.py:rough", "--arg=f32[64]", "--input=x=1..2"
    )
    assert outcome.code == 1
    assert "b proof: none found" not in outcome.out
    accepted = re.search(
        r"it loses digits, and nothing else: --tolerance (\S+) accepts", outcome.out
    )
    assert accepted is not None
    outcome = cli(
        "verify", "./sums.py:careful", "./sums.py:rough", "--arg=f32[64]", "--input=x=1..2",
        f"--tolerance={accepted[1]}",
    )  # fmt: skip
    assert outcome.code == 0, outcome.out
