from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from testkit.hosts.console import Cli, Start

from aiosearch.cli.runs.optimize.fused_run import FusedRun
from aiosearch.lab.mirage.subterm_questions import SubtermQuestions
from aiosearch.measure import Ceilings, machine_id, store_ceilings
from aiosearch.measure.ceilings import PROTOCOL
from aiosearch.tensor.files import from_json, to_json
from aiosearch.tensor.programs import builtin
from aiosearch.tensor.text import parse, write

FUNCTIONS = f"{Path(__file__).with_name('functions.py')}:"
NORM = ("rms_norm", "--shape=row=4", "--shape=feature=8", "--shape=column=8", "--search-only")
ON = "--device=A100"


def test_the_best_are_told_and_the_best_one_is_shown(cli: Cli) -> None:
    """How it goes on stderr; on stdout figures, a line for each program, and one as text."""
    outcome = cli("optimize", *NORM, ON, "--top=3")
    assert outcome.code == 0, outcome.err
    assert "searching kernel graphs" in outcome.err
    for shown in ("on A100", "search  complete", "no part of the reference", "CPU seconds: "):
        assert shown in outcome.out
    lines = outcome.out.splitlines()
    (head,) = [number for number, line in enumerate(lines) if "predicted" in line]
    assert [line.split()[0] for line in lines[head + 1 : head + 4]] == ["1", "2", "3"]
    assert lines[head + 4] == ""
    assert all("proved — for all shapes" in line for line in lines[head + 1 : head + 4])
    assert "fused[" in outcome.out
    text = outcome.out[outcome.out.index("program rms_norm") :].split("\n\n")[0]
    assert parse(text).inputs == builtin("rms_norm", "bf16", row=4, feature=8, column=8).inputs


def test_the_same_as_json_with_drawings(cli: Cli) -> None:
    """Everything is there; the best are first, are programs, and each has its drawing."""
    outcome = cli("optimize", *NORM, ON, "--top=3", "--json", "--svg=drawn", "--quiet")
    assert outcome.code == 0, outcome.err
    (facts,) = outcome.events
    assert (facts["status"], facts["device"], facts["raise"]) == ("complete", "A100", {})
    assert facts["programs"] > facts["kernel_graphs"] >= len(facts["answers"]) == 3
    assert facts["pruned"]["no part of the reference"] > 0
    assert facts["tables"].keys() == {"classes", "steps"}
    predicted = [answer["predicted"]["seconds"] for answer in facts["answers"]]
    assert predicted == sorted(predicted)
    for answer in facts["answers"]:
        assert answer["evidence"]["verdict"] == "proved"
        assert write(from_json(json.dumps(answer["program"]).encode())) == answer["text"]
        assert answer["predicted"]["launches"] == len(answer["predicted"]["kernels"])
    *parts, whole = facts["cpu_seconds"].values()
    assert whole == pytest.approx(sum(parts))
    assert list(facts["cpu_seconds"])[:3] == ["start-up", "tables", "search"]
    assert facts["drawings"] == [f"drawn/rms_norm-{number}.svg" for number in (1, 2, 3)]
    assert sorted(os.listdir("drawn")) == [f"rms_norm-{number}.svg" for number in (1, 2, 3)]
    for path in facts["drawings"]:
        assert ElementTree.fromstring(Path(path).read_text()).tag.endswith("svg")


def test_with_a_bound_only_the_best_is_searched_for(cli: Cli) -> None:
    """It is the same one, the status says how it is complete, and what was visited is told."""
    outcome = cli("optimize", *NORM, ON, "--bound")
    assert outcome.code == 0, outcome.err
    assert "search   complete under the cost model" in outcome.out
    assert "cannot lead to anything better" in outcome.out
    (whole,) = cli("optimize", *NORM, ON, "--top=1", "--json", "--quiet").events
    (cut,) = cli("optimize", *NORM, ON, "--bound", "--json", "--quiet").events
    assert whole["cut"] is None
    assert cut["cut"]["nodes"] > cut["cut"]["pruned"] > 0
    best, least = (facts["answers"][0]["predicted"]["seconds"] for facts in (whole, cut))
    assert best == pytest.approx(least)


def test_workers_journals_and_other_strategies_find_the_same(cli: Cli) -> None:
    def found(*arguments: str) -> dict[str, object]:
        outcome = cli("optimize", *NORM, ON, "--top=1", "--json", "--quiet", *arguments)
        assert outcome.code == 0, outcome.err
        (facts,) = outcome.events
        return {name: facts[name] for name in ("kernel_graphs", "programs", "status")}

    alone = found("--journal=journal")
    assert found("--journal=journal", "--resume") == alone
    assert found("--workers=2", "--strategy=stealing") == alone


@pytest.mark.parametrize("another", [["gqa"], [*NORM, "--kernels=2"], [*NORM, "--bound"]])
def test_a_journal_of_another_search_is_refused(cli: Cli, another: list[str]) -> None:
    """Whether of another program, in another space or with a bound; both are named."""
    journal = ("--journal=journal", ON, "--search-only", "--quiet")
    assert cli("optimize", *NORM, *journal, "--top=1").code == 0
    refused = cli("optimize", *another, *journal, "--resume")
    assert (refused.code, refused.out) == (2, "")
    for shown in ("journal is of the problem ", ", and this search is of the problem "):
        assert shown in refused.err
    assert "b'" not in refused.err


def test_the_case_of_a_device_makes_no_difference(cli: Cli) -> None:
    outcome = cli("optimize", *NORM, "--device=a100", "--space")
    assert (outcome.code, outcome.err) == (0, "")
    assert "A100" in outcome.out


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_file_is_searched(cli: Cli, form: str) -> None:
    program = builtin("gqa", row=4, feature=4, key=8, value=4)
    data = write(program).encode() if form == "text" else to_json(program)
    Path("mine").write_bytes(data)
    outcome = cli("optimize", "mine", "--search-only", ON, "--top=1", "--json", "--quiet")
    assert outcome.code == 0, outcome.err
    (answer,) = outcome.events[0]["answers"]
    assert from_json(json.dumps(answer["program"]).encode()).inputs == program.inputs


def test_a_function_is_searched(cli: Cli) -> None:
    """It is read as a program, and the answer is of its arguments."""
    types = ("--arg=f32[8,16]", "--arg=f32[16,16]", "--arg=f32[16,2]", "--arg=f32[2,16]")
    outcome = cli("optimize", f"{FUNCTIONS}plain", *types, "--search-only", ON, "--top=1", "--json")
    assert outcome.code == 0, outcome.err
    (answer,) = outcome.events[0]["answers"]
    assert answer["predicted"]["launches"] == 1
    assert [input_["name"] for input_ in answer["program"]["inputs"]] == ["x", "w", "a", "b"]


def test_what_overflows_is_left_out_where_floats_are_compared(cli: Cli) -> None:
    """In real numbers it is the same whether the largest is subtracted or added before exp."""
    program = """
    program softmax(X: f32[row=8, column=16]) {
      a = max(X, axes=[1], keep=true)
      b = sub(X, a)
      c = exp(b)
      d = sum(c, axes=[1], keep=true)
      e = div(c, d)
      return e
    }
    """
    Path("softmax.txt").write_text(program)
    small = ("softmax.txt", "--search-only", ON, "--kernels=2", "--custom-kernels=1", "--json")
    (exact,) = cli("optimize", *small, "--quiet").events
    (floats,) = cli("optimize", *small, "--quiet", "--floats").events
    assert exact["refused"] == []
    assert all("floats" not in answer["evidence"] for answer in exact["answers"])
    assert all("floats" in answer["evidence"] for answer in floats["answers"])
    assert any("in the candidate" in why for why in floats["refused"])
    assert len(floats["answers"]) + len(floats["refused"]) == len(exact["answers"])
    assert floats["cpu_seconds"]["floats"] > 0


def test_the_space_is_declared(cli: Cli) -> None:
    """Limits that are given stand there, and nothing is searched."""
    limits = ("--kernels=5", "--block-operators=11", "--custom-kernels=1")
    outcome = cli("optimize", *NORM, ON, "--space", *limits)
    assert (outcome.code, outcome.err) == (0, "")
    for shown in (
        "2: rms_norm, matmul",
        "row 4, feature 8, column 8",
        "A100",
        "5 at most",
        "11 at",
    ):
        assert shown in outcome.out
    (facts,) = cli("optimize", *NORM, ON, "--space", *limits, "--json").events
    assert facts["axes"] == {"row": 4, "feature": 8, "column": 8}
    assert facts["space"]["kernels"] == 5
    assert "loop ranges" in facts["lines"]


def test_where_nothing_is_found_the_limit_to_raise_is_named(cli: Cli) -> None:
    """And with that limit there is something."""
    small = (*NORM, ON, "--kernels=1", "--block-operators=3")
    outcome = cli("optimize", *small)
    assert outcome.code == 0
    assert "found   0 programs on 0 kernel graphs" in outcome.out
    (raised,) = [line for line in outcome.out.splitlines() if line.startswith("nothing equal")]
    for limit in raised.partition("something with ")[2].split(" or with "):
        flag, value = limit.split()
        (facts,) = cli("optimize", *small, flag, value, "--json", "--quiet").events
        assert facts["answers"], limit


def test_this_machine_is_taken_where_it_was_measured(cli: Cli) -> None:
    assert "not measured" in cli("optimize", *NORM, "--space").err
    refused = cli("optimize", *NORM, "--space", "--device=this")
    assert (refused.code, refused.out) == (2, "")
    flops = {"float32": 1e11, "bfloat16": 5e10}
    store_ceilings(
        Ceilings(machine_id(), "cpu", "my cpu", 2, "jax", PROTOCOL, "now", 2e10, flops, noise=0.1)
    )
    for device in ([], ["--device=this"]):
        outcome = cli("optimize", *NORM, "--top=1", *device)
        assert outcome.out.splitlines()[0].endswith(" on my cpu")
        assert "not measured" not in outcome.err


def test_the_referee_is_asked(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it proves is counted; where it denies something, the run fails."""
    asked = (*NORM, ON, "--top=1", "--referee")
    outcome = cli("optimize", *asked)
    assert outcome.code == 0, outcome.err
    assert " agree, " in outcome.out
    assert " 0 denied" in outcome.out
    (facts,) = cli("optimize", *asked, "--json").events
    assert facts["referee"]["agree"] > facts["referee"]["unknown"]
    assert "referee" in facts["cpu_seconds"]
    monkeypatch.setattr(SubtermQuestions, "_rules", lambda self: iter(()))
    denied = cli("optimize", *asked)
    assert denied.code == 1
    assert "  denied: X" in denied.out
    assert "z3 denies what the search takes to be a part" in denied.err


def test_the_old_way_asks_z3_of_every_prefix(cli: Cli) -> None:
    """Its counts are told, and what is too small for the program says so."""
    old = ("optimize", "rms_norm", "--search-only", "--prune=z3", "--block-operators=4", "--quiet")
    outcome = cli(*old)
    assert outcome.code == 0, outcome.err
    assert "found    0 programs" in outcome.out
    assert "raise --block-operators to 5 or more" in outcome.out
    (facts,) = cli(*old, "--json", "--workers=2").events
    assert facts["queries"] == facts["proved"] + facts["unknown"]
    assert facts["states"] > facts["queries"] > 0
    assert (facts["status"], facts["operators"]) == ("complete", 2)
    assert f"states   {facts['states']:,}" in outcome.out


def test_no_jax_is_loaded_for_a_program() -> None:
    """What is not timed needs nothing to time it with."""
    code = f"""
import sys
from aiosearch.cli import main
assert main({["optimize", *NORM, ON, "--top=1", "--quiet"]!r}) == 0
assert not {{"jax", "z3", "rich", "ray"}} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_ctrl_c_ends_the_search_with_what_there_is(start: Start) -> None:
    wide = ("--kernels=8", "--custom-kernels=6", "--block-operators=12")
    process = start("optimize", "gqa", "--search-only", ON, "--journal=journal", *wide)
    assert process.stderr is not None
    line = process.stderr.readline()
    while "searching kernel graphs" not in line:
        assert line, "it ended"
        line = process.stderr.readline()
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "search  cancelled" in out
    assert "to go on: aiosearch optimize gqa --search-only" in err
    assert "Traceback" not in err


@pytest.fixture
def stopped_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Lets Ctrl-C come when what begins so is about to be done."""

    def stop(text: str, twice: bool = False) -> None:
        going = FusedRun._going

        def interrupted(following: FusedRun, message: str) -> bool:
            if message.startswith(text):
                following._stop()
                if twice:
                    following._is_off = True
            return going(following, message)

        monkeypatch.setattr(FusedRun, "_going", interrupted)

    return stop


@pytest.mark.parametrize(
    ("text", "stage", "answers"),
    [
        ("ranking 3 ", "ranking 3 of ", 2),
        ("trying more block graphs for 2 ", "trying more block graphs for 2 of 3", 3),
        ("verifying 2 ", "verifying 2 of 3", 1),
    ],
)
def test_ctrl_c_after_the_search_says_what_was_not_done(
    cli: Cli, stopped_at: Callable[[str], None], text: str, stage: str, answers: int
) -> None:
    """The search itself was complete; what comes later is done with what there is."""
    stopped_at(text)
    outcome = cli("optimize", *NORM, ON, "--top=3", "--json", "--quiet")
    assert outcome.code == 130
    (facts,) = outcome.events
    assert (facts["status"], len(facts["answers"])) == ("complete", answers)
    assert [stage_left.startswith(stage) for stage_left in facts["undone"]] == [True]


def test_what_z3_was_not_asked_about_is_counted(
    cli: Cli, stopped_at: Callable[[str], None]
) -> None:
    """What is not done is told as text, too."""
    stopped_at("verifying 2 ")
    stopped_at("asking z3: 2 ")
    outcome = cli("optimize", *NORM, ON, "--top=2", "--referee")
    assert outcome.code == 130
    assert re.search("search +complete\n", outcome.out)
    assert re.search("interrupted +not done: verifying 2 of 2, and those after it\n", outcome.out)
    (left,) = re.findall(r"; interrupted: ([\d,]+) terms of these not asked about", outcome.out)
    assert int(left) > 0


def test_which_limit_to_raise_is_not_said_where_that_was_interrupted(
    cli: Cli, stopped_at: Callable[[str], None]
) -> None:
    stopped_at("looking with kernels 2")
    outcome = cli("optimize", *NORM, ON, "--kernels=1", "--block-operators=3")
    assert outcome.code == 130
    assert "nothing equal is in this space; not all limits were tried higher" in outcome.out


def test_who_breaks_off_hears_at_what(cli: Cli, stopped_at: Callable[..., None]) -> None:
    """Then what was found is not told, and that is what is said."""
    stopped_at("verifying 2 ", twice=True)
    outcome = cli("optimize", *NORM, ON, "--top=3", "--quiet")
    assert (outcome.code, outcome.out) == (130, "")
    assert outcome.err == "interrupted, with nothing to tell yet, while verifying 1 of 3\n"


def test_ctrl_c_ends_the_tables_at_once(start: Start) -> None:
    """Without them nothing can have been found."""
    process = start("optimize", "linear_layernorm", "--search-only")
    assert process.stderr is not None
    assert "not measured" in process.stderr.readline()
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (130, "")
    assert "interrupted" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["rmsnorm", "--search-only"], "did you mean rms_norm?"),
        (["rms_norm", "--search-only", "--arg=f32[3]"], "--arg is for functions"),
        (["rms_norm", "--search-only", "--dtype=f12"], "--dtype f12: there are"),
        (["rms_norm", "--search-only", "--prune=z3", "--dtype=f32"], "--dtype is not for --prune"),
        ([f"{FUNCTIONS}plain", "--search-only", "--dtype=f32"], "--dtype is for built-in programs"),
        (["rms_norm", "--search-only", "--device=H9"], "no device 'H9': there are A100"),
        (["rms_norm", "--search-only", "--effort=quick"], "--effort is about timing"),
        (["rms_norm", "--search-only", "--emit=x.py"], "--emit is about timing"),
        (["rms_norm", "--top=3"], "--top is for fused kernels: give --search-only too"),
        (["rms_norm", "--referee"], "--referee is for fused kernels"),
        (["rms_norm", "--search-only", "--top=0"], "it has to be 1 or more"),
        (["rms_norm", "--search-only", "--kernels=x"], "--kernels: it is 1 to 64, not x"),
        (["rms_norm", "--search-only", "--kernels=-1"], "--kernels: it is 1 to 64, not -1"),
        (["rms_norm", "--space", "--block-operators=65"], "--block-operators: it is 1 to 64"),
        (["rms_norm", "--space", "--custom-kernels=99"], "--custom-kernels: it is 0 to 64"),
        (["rms_norm", "--space", "--prune=z3"], "--space is not for --prune z3"),
        (["rms_norm", "--search-only", "--prune=z3", "--bound"], "--bound is not for --prune z3"),
        (["rms_norm", "--search-only", "--svg=nowhere/x"], "--svg nowhere/x: No such file"),
        (["rms_norm", "--search-only", "--svg=/proc"], "cannot write /proc/drawing.svg"),
        (["rms_norm", "--search-only", "--strategy=luck"], "luck"),
        (["rms_norm", "--search-only", "--resume"], "journal"),
        (["conv_bias_relu", "--search-only"], "conv_bias_relu cannot be searched: padding"),
        ([f"{FUNCTIONS}in_order", "--arg=f32[8]", "--search-only"], "sort stands in the way"),
        ([f"{FUNCTIONS}plain", "--search-only"], "give the type of each, as --arg f32[16,4096]"),
        (["ntrans", "--search-only", "--prune=z3"], "--prune z3 knows rms_norm, gated_mlp, lora"),
        (["lora", "--search-only", "--prune=z3", "--svg=x"], "--svg is not for --prune z3"),
        (
            ["lora", "--search-only", "--prune=z3", "--block-operators=4"],
            "--block-operators is 5 to 16 here, 4 of them the inputs",
        ),
        (["lora", "--search-only", "--prune=luck"], "invalid choice: 'luck'"),
    ],
)
def test_wrong_usage(cli: Cli, arguments: list[str], complaint: str) -> None:
    """What is wrong is said in one sentence, with exit code 2."""
    device = [] if "--prune=z3" in arguments or "--search-only" not in arguments else [ON]
    defaults = [
        flag for flag in device if not any("--device" in argument for argument in arguments)
    ]
    outcome = cli("optimize", *arguments, *defaults, "--quiet")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("aiosearch: ")
    assert complaint in outcome.err
    assert len(outcome.err.splitlines()) == 1
