"""The benchmark of kernels: who runs, what is right, and what is said of it."""

from __future__ import annotations

import json
import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import jax
import kernels
import lib.optimizer.builtin_cases as layers
import numpy as np
import pytest
from lib.kernels.build_cost import LIMIT, Costs, costs
from lib.kernels.entrants import KNOWN, TEXT, Known, entrants
from lib.kernels.kernel_race import Raced, raced
from lib.kernels.result_table import (
    as_table,
    microseconds,
    read,
    tell,
    tell_all,
    tell_costs,
    traffic,
)
from lib.kernels.rows import ASKED, BY_HAND, Row, cpu_rows, gpu_rows
from lib.optimizer.agreement import Judge
from msgspec.structs import replace

from aiosearch.measure import ArrayType, Ceilings, JaxExecutor, Way
from aiosearch.measure.race import Clock
from aiosearch.optimizer.candidates.generation import CandidateSource, Prepacking
from aiosearch.optimizer.candidates.generation_process import generation_process
from aiosearch.optimizer.effort import BUDGETS, Budget, Effort
from aiosearch.optimizer.errors import OptimizeError
from aiosearch.tensor.programs import builtin

LEAST = Budget(0.2, 1, 2, 7, 2.0, 1, 2, 1, 10.0)
SMALL = {
    "rms_norm": {"row": 1, "feature": 128, "column": 64},
    "gated_mlp": {"row": 1, "feature": 128, "hidden": 64},
    "lora": {"row": 1, "feature": 128, "rank": 4, "column": 64},
    "gqa": {"head": 2, "row": 8, "feature": 16, "key": 64, "value": 16},
    "qk_norm": {"head": 2, "row": 8, "feature": 16, "key": 64, "value": 16},
    "ntrans": {"row": 4, "feature": 128},
}
CONSTANT = {"rms_norm": (1,), "gated_mlp": (1, 2), "lora": (1, 2, 3)}


def small(name: str, dtype: str = "f32") -> Row:
    program = builtin(name, dtype, **SMALL[name])
    return Row((name, dtype, 1), program, CONSTANT.get(name, ()), asked=1e-9, by_hand="2.0")


def judge(row: Row) -> Judge:
    """As strict as a race is."""
    arrays = Judge.drawn(row.program, {}, 0)
    return Judge(row.program, arrays, [jax.jit(layers.written(row.program))(*arrays)])


@pytest.mark.parametrize("name", SMALL)
def test_every_spelling_by_hand_computes_its_program(name: str) -> None:
    """With what it makes beforehand, in 32 bits."""
    row = small(name)
    truthful = judge(row)
    module: dict[str, Any] = {}
    exec(TEXT, module)
    module["SPLITS"] = 2

    def all_of_them(*arrays: Any) -> dict[str, Any]:
        return {one.function: _run(row, one, module, arrays) for one in KNOWN[name]}

    for function, result in jax.jit(all_of_them)(*truthful.arrays).items():
        assert not truthful.objection([np.asarray(result)]), function


def _run(row: Row, one: Known, module: dict[str, Any], arrays: Sequence[Any]) -> Any:
    return module[one.function](*_given(row, one, module, arrays))


def _given(row: Row, one: Known, module: dict[str, Any], arrays: Sequence[Any]) -> list[Any]:
    if not one.pack:
        return list(arrays)
    others = [array for at, array in enumerate(arrays) if at not in row.constant]
    return [*others, *module[one.pack](*(arrays[at] for at in row.constant))]


def test_a_result_that_is_off_is_told_by_how_much() -> None:
    """A hundredth is more than rounding."""
    row = small("rms_norm")
    truthful = judge(row)
    assert not truthful.objection(truthful.truth)
    assert "off by 1.0e-02" in truthful.objection([1.01 * one for one in truthful.truth])


async def test_spellings_for_one_row_are_left_out_where_there_are_more() -> None:
    """They would only lose."""
    one = small("rms_norm")
    more = Row(("rms_norm", "f32", 8), one.program, one.constant)
    async with generation_process(lambda text: None) as process:
        found = [await entrants(row, LEAST, "cpu", process) for row in (one, more)]
    told = [[each.how for each in all_.jax] for all_ in found]
    padded = [[how for how in each if how.startswith("by hand") and "two" in how] for each in told]
    assert padded[0]
    assert not padded[1]


def test_what_is_asked_for_is_measured_and_was_reached_by_hand() -> None:
    """No figure of the study stands without a row."""
    keys = {row.key for row in cpu_rows()}
    assert ASKED.keys() == BY_HAND.keys() <= keys
    assert {row.key[2] for row in gpu_rows()} == {1, 8, 16}


def test_a_gpu_that_is_absent_is_said_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is timed."""
    monkeypatch.setattr(jax, "devices", lambda: [])
    monkeypatch.setattr(sys, "argv", ["kernels.py", "--target", "cuda"])
    monkeypatch.setitem(os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    with pytest.raises(SystemExit, match=r"^jax has no GPU here"):
        kernels.main()


def test_what_candidates_cost_is_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    """Compiling, which has a limit; that with a share of the writing; and what the first takes."""
    found = Costs(small("rms_norm"), first=0.5, writing=0.8, compiling=(0.1, 0.1, 0.2, 0.4))
    tell_costs([found])
    lines = list(map(json.loads, capsys.readouterr().out.splitlines()))
    assert [line["value"] for line in lines] == [0.15, 0.4, 0.35, 0.6, 0.5, 0.5]
    assert [line.get("target") for line in lines] == [LIMIT] * 2 + [None] * 4
    assert lines[2]["kernels"] == BUDGETS[Effort.DEFAULT].kernels


def test_candidates_are_made_to_see_what_they_cost() -> None:
    """As many as are asked for; the first is made by itself, too."""
    row = small("rms_norm")
    found = costs(row, row.program, 2)
    assert len(found.compiling) == 2
    assert min(found.first, found.writing, *found.compiling) > 0


async def race(*, rewritten: bool = False) -> Raced:
    """Kernels of the program as it is, or as it can be rewritten."""
    row = small("rms_norm")
    async with (
        JaxExecutor(compilers=1) as executor,
        generation_process(lambda text: None) as process,
    ):
        budget = replace(LEAST, search_seconds=10.0) if rewritten else LEAST
        all_ = await entrants(row, budget, "cpu", process)
        kernels = tuple(one for one in all_.kernels if (one.form > 0) is rewritten)
        some = replace(all_, jax=all_.jax[-2:], kernels=kernels)
        return await raced(row, some, executor, LEAST, process)


async def test_a_row_that_cannot_be_raced_is_missed_and_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where no other row is there that could be."""

    async def entrants(*given: Any) -> None:
        raise OptimizeError("the original fails")

    monkeypatch.setattr(kernels, "entrants", entrants)
    row, free = small("rms_norm"), replace(small("ntrans"), asked=None)
    await kernels.compare(Namespace(target="cpu", quick=True, table=[row, free]))
    first, second, reached = map(json.loads, capsys.readouterr().out.splitlines())
    for line, one in ((first, row), (second, free)):
        assert line["figure"] == f"kernels: {one.name}"
        assert line["value"] is None
        assert line["cannot_be_raced"] == "the original fails"
    assert (reached["value"], reached["target"], reached["missed"]) == (0, 1, [row.name])


async def test_another_error_than_its_own_ends_a_row_and_not_the_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of two rows the first has a defect, and the second is tried all the same."""
    tried: list[str] = []

    async def entrants(row: Row, *given: Any) -> None:
        tried.append(row.name)
        raise (ValueError("a defect") if len(tried) == 1 else OptimizeError("no defect"))

    monkeypatch.setattr(kernels, "entrants", entrants)
    table = [small("rms_norm"), small("ntrans")]
    await kernels.compare(Namespace(target="cpu", quick=True, table=table))
    assert tried == [one.name for one in table]
    printed = capsys.readouterr()
    first, second, _ = map(json.loads, printed.out.splitlines())
    assert first["cannot_be_raced"] == "ValueError: a defect"
    assert second["cannot_be_raced"] == "no defect"
    assert "Traceback" in printed.err


@pytest.mark.parametrize(("seconds", "shown"), [(4.234e-6, 4.23), (8e-6, 8.0), (1.5, 1.5e6)])
def test_microseconds_have_decimals(seconds: float, shown: float) -> None:
    assert microseconds(seconds) == shown


async def test_what_only_overflows_is_raced_watched() -> None:
    """The norm comes last in the rewritten one: vast inputs overflow before it."""
    one = await race(rewritten=True)
    assert one.kernels
    assert all(one.entrants[at].watched for at in one.kernels)
    assert all("is inf and should be" in why for why in one.out)


@pytest.mark.parametrize(("made", "share"), [("int32", 0.75), ("bfloat16", 1.0)])
def test_of_coded_weights_three_quarters_are_read(made: str, share: float) -> None:
    """What is only packed has all its bytes; those of X and O count beside them."""
    row = small("rms_norm", "bf16")
    packed = Prepacking((1,), "pack", (ArrayType(made, (128 * 64,)),))
    winner = CandidateSource("", 0, b"", "", "", (), packed)
    one: Any = SimpleNamespace(row=row, entrants=[winner], ours=lambda: 0)
    assert traffic(row) == 2 * (128 + 128 * 64 + 64)
    assert read(one) == 2 * (128 + share * 128 * 64 + 64)


async def test_a_row_is_raced_and_told(capsys: pytest.CaptureFixture[str]) -> None:
    """The best plain JAX is timed twice; the naive and kernels stand beside it."""
    one = await race()
    assert one.race.again.name == one.entrants[0].how
    assert not one.entrants[0].kernels
    assert one.kernels
    assert one.naive in one.jax
    assert not one.out
    flops = {"float32": 1e11}
    high = Ceilings("here", "cpu", "cpu", 2, "jax", 1, "now", 1e15, flops, noise=0.1)
    tell(one, high)
    tell_all([one], high)
    lines = list(map(json.loads, capsys.readouterr().out.splitlines()))
    names = [line["figure"].removeprefix("kernels: ") for line in lines]
    cold = Way.COLD in one.race.ways
    assert (lines[0]["of_the_ceiling_cold"] is not None) == cold, "caches may hold all of it"
    if cold:
        assert names.pop(1) == "at 80% of the ceiling, inputs cold"
        del lines[1]
    assert names[:2] == ["rms_norm, f32, 1 row", "as fast as asked"]
    assert lines[0]["of_the_ceiling"] > 0
    assert lines[0]["read_gigabytes_per_second"] == lines[0]["gigabytes_per_second"]
    assert lines[0]["low"] <= lines[0]["value"] <= lines[0]["high"]
    assert lines[0]["value"] == lines[0]["ways"]["hot"]["over_jax_wall"]
    assert lines[1]["value"] == lines[1]["target"] == 1
    head, row = as_table([one], None).splitlines()
    assert head.split()[0] == "program"
    assert row.startswith("rms_norm, f32, 1 row")
    bar = one.best(one.jax, Way.HOT, Clock.CPU)
    assert all(
        one.seconds(at, Way.HOT, Clock.CPU) >= one.seconds(bar, Way.HOT, Clock.CPU)
        for at in one.jax
    )
