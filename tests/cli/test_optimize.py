from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from xml.etree import ElementTree

import pytest
from answers import answer, key
from testkit.hosts.console import Cli, Start

from aiosearch.cli.runs.optimize import faster_function
from aiosearch.measure import Ceilings, machine_id, store_ceilings
from aiosearch.measure.ceilings import PROTOCOL
from aiosearch.measure.processor import cpu_kind
from aiosearch.optimizer.handback.optimized import Optimized
from aiosearch.optimizer.outcomes.evidence import Tried
from aiosearch.optimizer.outcomes.plot import plot
from aiosearch.optimizer.outcomes.report import Found, Report
from aiosearch.optimizer.trace import Spliced, cut

FUNCTIONS = f"{Path(__file__).with_name('functions.py')}:"
LINES = Path(__file__).with_name("functions.py").read_text().splitlines()
SIGN = next(at for at, line in enumerate(LINES, 1) if line.startswith("def of_its_sign"))
TRACED = (
    f"{FUNCTIONS}traced",
    "--arg=f32[64,64]",
    "--arg=f32[64,64]",
    "--effort=quick",
    "--no-kernels",
)


def original_rows(text: str) -> list[str]:
    """The rows of the original in a table, and not the headline, which says what was remembered."""
    lines = text.splitlines()
    return [line for line in lines if "as written" in line and "times as fast" not in line]


def test_a_function_from_source_to_answer(cli: Cli) -> None:
    """Live lines on stderr, a table on stdout, the code and the drawing in files; then kept."""
    first = cli("optimize", *TRACED, "--target=cpu", "--emit=faster.py", "--plot=faster.svg")
    assert first.code == 0, first.err
    assert "traced(float32[64,64], float32[64,64]) on cpu" in first.out
    assert "as written" in first.out
    assert "ceilings are not measured: aiosearch doctor --measure" in first.out
    for told in ("traced: rewriting", "proved", "compiled; racing"):
        assert told in first.err
    if "nothing faster was found" in first.out:
        assert "nothing faster was found to write to faster.py" in first.err
        assert not Path("faster.py").exists()
    else:
        assert "wrote faster.py" in first.err
        assert "def traced(a, b):" in Path("faster.py").read_text()
    assert ElementTree.fromstring(Path("faster.svg").read_text()).tag.endswith("svg")
    if "too noisy" in first.out:
        pytest.skip("the machine is too noisy for an answer to be kept")
    again = cli("optimize", *TRACED, "--json", "--quiet")
    assert (again.code, again.err) == (0, "")
    (told,) = again.events
    assert told["programs"][0]["remembered"]
    assert told["speedup"] == (told["programs"][0]["speedup"] if told["faster"] else None)
    shown = cli("optimize", *TRACED, "--quiet").out
    assert original_rows(first.out) == original_rows(shown)
    assert told["programs"][0]["verdict"]
    assert told["seconds"] < 1
    assert [one["name"] for one in cli("results", "list", "--json").events[0]] == ["traced"]


@pytest.mark.parametrize(("lacks", "told"), [("", []), ("sort has no text", ["sort has no text"])])
def test_what_is_not_the_function_itself_is_said(
    lacks: str, told: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Of parts alone, and why; whatever it is, it is written."""
    faster_function._emit("x.py", Optimized(Spliced(cut(abs, 1.0)), source="y = 1\n", lacks=lacks))
    assert Path("x.py").read_text() == "y = 1\n"
    first, *others = capsys.readouterr().err.splitlines()
    assert first == "wrote x.py"
    start = "x.py has the parts that are replaced, and not abs itself: "
    assert others == [f"{start}{one}" for one in told]


def test_weights_that_stay_the_same_are_told_by_name_or_place(cli: Cli) -> None:
    """Ways that make something of them beforehand are tried, and the answer knows of them."""
    told = cli("optimize", *TRACED, "--constant=a", "--target=cpu", "--json", "--quiet")
    assert told.code == 0, told.err
    (program,) = told.events[0]["programs"]
    assert program["key"]["constant"] == [0]
    assert any("a transposed beforehand" in one["how"] for one in program["tried"])
    again = cli("optimize", *TRACED, "--constant=0", "--json", "--quiet").events[0]["programs"][0]
    assert again["remembered"] or program["in_doubt"]


def test_arguments_are_given_by_name(cli: Cli) -> None:
    """In any order, those by place too, and those that cannot be given otherwise."""
    given = ("--arg=scale=f32[64]", "--arg=x=f32[32,64]")
    told = cli("optimize", f"{FUNCTIONS}by_name", *given, *TRACED[3:], "--json", "--quiet")
    assert told.code == 0, told.err
    (program,) = told.events[0]["programs"]
    assert program["key"]["types"] == ["float32[32,64]", "float32[64]"]


def test_two_processes_optimize_the_same_function_at_once(start: Start) -> None:
    """Neither disturbs the other, and one answer is kept at most."""
    both = [start("optimize", *TRACED, "--json", "--quiet", "--file=mine") for _ in range(2)]
    for process in both:
        out, err = process.communicate(timeout=100)
        assert process.returncode == 0, err
        assert json.loads(out)["programs"][0]["name"] == "traced"
    listed = start("results", "list", "--json", "--file=mine").communicate()[0]
    assert len(json.loads(listed)) <= 1


def test_ctrl_c_ends_it(start: Start) -> None:
    process = start("optimize", *TRACED)
    assert process.stderr is not None
    line = process.stderr.readline()
    while "rewriting" not in line:
        assert line, "it ended"
        line = process.stderr.readline()
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    told = "interrupted before anything faster was verified; the same command goes on\n"
    assert err.endswith(told)
    assert "Traceback" not in err


def test_ctrl_c_after_the_first_verified_gain_ends_with_it(start: Start) -> None:
    """The code is written, and the next command goes on and ends."""
    process = start("optimize", *TRACED, "--emit=faster.py", "--file=mine")
    assert process.stderr is not None
    line = process.stderr.readline()
    while "times as fast so far" not in line:
        if not line:
            pytest.skip("the machine is too noisy for a gain to be verified")
        line = process.stderr.readline()
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=100)
    assert process.returncode == 0, err
    assert "Traceback" not in err
    if "unfinished: stopped after" not in out:
        pytest.skip("it had ended before the signal came")
    assert "wrote faster.py" in err
    assert "def traced(a, b):" in Path("faster.py").read_text()
    again = start("optimize", *TRACED, "--seconds=0", "--json", "--quiet", "--file=mine")
    told = json.loads(again.communicate(timeout=100)[0])
    assert told["unfinished"]
    assert told["faster"]


def test_a_limit_of_seconds_ends_it_with_nothing_where_nothing_is_there_yet(cli: Cli) -> None:
    told = cli("optimize", *TRACED, "--seconds=0", "--emit=x.py")
    assert told.code == 0, told.err
    assert "unfinished: stopped after" in told.out
    assert "nothing faster was found to write to x.py" in told.err


def test_what_is_kept_of_what_was_interrupted_is_named() -> None:
    assert (
        faster_function.interrupted(["f_1", "f_2"])
        == "interrupted before anything faster was verified; what was found for f_1, f_2 is kept;"
        " the same command goes on"
    )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "TARGET"),
        (["rmsnorm"], "did you mean rms_norm?"),
        (["rms_norm", "--arg=f32[3]"], "--arg is for functions"),
        (["rms_norm", "--dtype=f12"], "--dtype f12: there are"),
        (["rms_norm", f"--shape=row={2**48}"], f"--shape row={2**48}: {2**48} is too large"),
        ([FUNCTIONS[:-1], "--arg=f32[3]"], "functions.py is a file of Python; name the function"),
        (["rms_norm", "--zzz"], "unrecognized arguments: --zzz; `aiosearch optimize --help`"),
        (["rms_norm", "--search-only", "--resume"], "--resume needs the journal to resume from: -"),
        ([f"{FUNCTIONS}traced", "--dtype=f32"], "--dtype is for built-in programs; "),
        (["rms_norm", "--shape=rows=3"], "rms_norm has no size rows"),
        (["rms_norm", "--constant=Z"], "--constant Z: no such argument; there are X, W"),
        (["rms_norm", "--effort=much"], "no effort 'much': there are quick, default, exhaustive"),
        (["rms_norm", "--seconds=-1"], "argument --seconds: '-1' is no number of seconds from 0"),
        (["rms_norm", "--search-only", "--seconds=9"], "--seconds is about timing"),
        (["rms_norm", "--target=tpu"], "no target 'tpu': there are auto, cpu, cuda"),
        (["rms_norm", "--target=cuda"], "jax has no GPU here"),
        (["rms_norm", "--emit=nowhere/x.py"], "there is no folder nowhere"),
        (["rms_norm", "--plot=nowhere/x.svg"], "there is no folder nowhere"),
        (["rms_norm", "--plot=x.png"], "--plot x.png: it is drawn as SVG"),
        (["rms_norm", "--emit=/proc/x.py"], "cannot write /proc/x.py"),
        (["rms_norm", "--emit=."], "cannot write .: Is a directory"),
        (["rms_norm", "--seed=-3"], "argument --seed: '-3' is no whole number from 0"),
        (["rms_norm", "--seed=x"], "argument --seed: 'x' is no whole number from 0"),
        ([f"{FUNCTIONS}traced"], "missing a required argument: 'a'; give the type of each"),
        ([f"{FUNCTIONS}traced", "--arg=f32[2,2]"], "missing a required argument: 'b'"),
        ([f"{FUNCTIONS}traced", "--arg=f12[2]"], "--arg f12[2]: write it as f32[16,4096]"),
        ([f"{FUNCTIONS}traced", "--arg=i64[2,2]"], "; there is no element type i64"),
        ([f"{FUNCTIONS}repeated", "--arg=f32[4]", "--arg=f32[]"], "--arg n=3"),
        (
            [f"{FUNCTIONS}traced", f"--arg=f32[2,{10**23}]"],
            f"--arg f32[2,{10**23}]: {10**23} is too large for a size",
        ),
        ([f"{FUNCTIONS}traced", "--arg=a=f32"], "--arg a=f32: write a type, as f32[16,4096]"),
        ([f"{FUNCTIONS}traced", "--arg=f32[8x512]"], "; f32[8,512] is meant?"),
        ([f"{FUNCTIONS}repeated", "--arg=f32[4]", "--arg=count=3", "--arg=count=4"], "count twice"),
        ([f"{FUNCTIONS}repeated", "--arg=f32[4]", "--arg=n=3"], "takes no argument of that name"),
        ([f"{FUNCTIONS}repeated", "--arg=f32[4]", "--arg=i32[]"], "--arg n=3"),
        ([f"{FUNCTIONS}with_numpy", "--arg=f32[4]"], "write jnp there"),
        ([f"{FUNCTIONS}misled"], "misled_inputs gives int, and should give the tuple"),
        ([f"{FUNCTIONS}traced", "--arg=a=f32[2]", "--arg=a=f32[2]"], "--arg gives a twice"),
        ([f"{FUNCTIONS}by_name", "--arg=f32[2]"], "'scale'; give the type of each, as --arg f32"),
        ([f"{FUNCTIONS}by_name", "--arg=sale=f32[2]"], "of that name (did you mean scale?)"),
        (
            [f"{FUNCTIONS}by_name", "--arg=f32[2]", "--arg=scale=f32[2]", "--search-only"],
            "by_name takes scale by name alone",
        ),
        ([f"{FUNCTIONS}number", "--arg=f32[2]"], "number is no function"),
        ([f"{FUNCTIONS}nothing", "--arg=f32[2]"], "has no 'nothing'; it has functions:plain, f"),
        ([f"{FUNCTIONS}broken", "--arg=f32[2,2]"], "cannot trace broken"),
        ([f"{FUNCTIONS}of_its_sign", "--arg=f32[2]"], "cannot trace of_its_sign"),
        ([f"{FUNCTIONS}of_its_sign", "--arg=f32[2]"], f"tests/cli/functions.py:{SIGN + 1})"),
        ([f"{FUNCTIONS}in_order", "--arg=f32[8]"], "can be searched: sort"),
    ],
)
def test_wrong_usage(cli: Cli, arguments: list[str], told: str) -> None:
    """What is wrong is said in one sentence, with exit code 2."""
    outcome = cli("optimize", *arguments, "--quiet")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("aiosearch: ")
    assert "Traceback" not in outcome.err
    assert told in outcome.err
    assert len(outcome.err.splitlines()) == 1


@pytest.mark.parametrize("words", [("repeated", "--arg=f32[64,64]", "--arg=count=3"), ("noisy",)])
def test_arguments_that_no_type_says_are_values_or_examples(
    cli: Cli, words: tuple[str, ...]
) -> None:
    """A number is given by name; trees and keys are what the module's `noisy_inputs` gives."""
    name, *arguments = words
    outcome = cli("optimize", f"{FUNCTIONS}{name}", *arguments, "--effort=quick", "--json")
    assert outcome.code == 0, outcome.err
    assert json.loads(outcome.out)["programs"]


@pytest.mark.parametrize(
    ("target", "name"), [("mine.py:f", "./link.py"), ("mine:f", "mine.py"), ("mine:g", "./link.py")]
)
def test_the_source_is_not_written_over(start: Start, target: str, name: str) -> None:
    """Not by whatever name, nor where a decorator stands before the function."""
    text = "import functools, jax\nf = jax.jit(lambda x: x + 1)\ng = functools.partial(f)\n"
    Path("mine.py").write_text(text)
    Path("link.py").symlink_to("mine.py")
    process = start("optimize", target, "--arg=f32[8]", f"--emit={name}", "--quiet")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    told = f"aiosearch: --emit {name} would write over the source of {target}; name another file\n"
    assert err == told
    assert Path("mine.py").read_text() == text


def test_a_file_that_is_no_store_is_refused(cli: Cli) -> None:
    """Before anything is searched, and it stays as it is."""
    Path("thesis.txt").write_text("mine")
    outcome = cli("optimize", *TRACED, "--file=thesis.txt")
    assert outcome.code == 2
    assert outcome.err == (
        "aiosearch: --file thesis.txt cannot be read as a store of results: it is something else,"
        " not a store of results, and is left as it is; name another one\n"
    )
    assert Path("thesis.txt").read_text() == "mine"
    assert not list(Path().glob("thesis.txt?*"))


def test_a_folder_is_no_store(cli: Cli) -> None:
    Path("answers").mkdir()
    outcome = cli("optimize", *TRACED, "--file=answers")
    assert outcome.code == 2
    assert outcome.err == (
        "aiosearch: --file answers cannot be read as a store of results: it is a folder; name"
        " another one\n"
    )


TRIED = (
    Tried("as written", 9e-4, 1.0, low=8e-4, high=9.9e-4),
    Tried("rewritten 1", 9e-5, 10.0, "", "proved — for all shapes", 8e-5, 1e-4, won=True),
    Tried("rewritten 2", 8e-5, 11.0, "not as accurate: differ", "proved", 7e-5, 9e-5),
    Tried("rewritten 3", None, None, "rewritten 3 crashed its process (compile): signal 6"),
)


def test_the_plot_has_every_way_and_the_roof() -> None:
    """The roofline is there once the ceilings are measured, and the table says what is reached."""
    evidence = {"flops": 10**6, "bytes": 900_000, "kinds": ["float32"]}
    found = Found(answer(key=key(device=cpu_kind()), evidence=evidence), False, TRIED)
    report = Report((found,), (), 1.0)
    assert "no roofline" in plot(report)
    flops = {"float32": 1e11, "bfloat16": 5e10}
    known = Ceilings(machine_id(), "cpu", "cpu", 2, "jax", PROTOCOL, "now", 2e10, flops, noise=0.1)
    store_ceilings(known)
    drawing = plot(report)
    ElementTree.fromstring(drawing)
    for told in ("rewritten 1", "rewritten 2", "as written", "roofline", "100 GFLOP/s"):
        assert told in drawing
    assert "rewritten 3" not in drawing
    assert "  reaches 50% of what the device can do" in report.table().splitlines()
    more = answer(key=found.answer.key, evidence={**evidence, "bytes": 2_880_000})
    told = Report((Found(more, False, TRIED),), (), 1.0).table(200)
    assert (
        "  reaches 160% of what was measured of the device: its arrays lie in a cache, or" in told
    )
