"""The benchmark of kernels by hand: what they compute, and what is said of them."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import hand
import jax.numpy as jnp
import pytest
from lib.kernels.c_kernel_race import judge_of
from lib.kernels.c_kernels import Workshop, lacking
from lib.kernels.rows import TYPES, Row, cpu_rows, lying_rows
from testkit.kernels.llvm_texts import copying, keeping, store

from aiosearch.codegen.native.compiler import OptimizationEffort
from aiosearch.codegen.native.embedded_source import EmbeddedProgram
from aiosearch.codegen.native.machine import host
from aiosearch.optimizer.effort import Budget
from aiosearch.tensor.programs import builtin

LEAST = Budget(0.1, 1, 1, 7, 0.1, 1, 1)
SIZES = {
    "rms_norm": {"row": 1, "feature": 128, "column": 128},
    "gated_mlp": {"row": 8, "feature": 128, "hidden": 64},
    "gqa": {"head": 2, "row": 16, "feature": 64, "key": 512, "value": 64},
    "qk_norm": {"head": 2, "row": 136, "feature": 64, "key": 512, "value": 64},
    "ntrans": {"row": 3, "feature": 192},
}
CONSTANT = {"rms_norm": (1,), "gated_mlp": (1, 2)}

compiled = pytest.mark.skipif(bool(lacking()), reason=lacking())


def small(name: str, dtype: str) -> Row:
    sizes = SIZES[name]
    program = builtin(name, dtype, **sizes)
    return Row((name, dtype, sizes["row"]), program, CONSTANT.get(name, ()))


def lying(name: str, dtype: str, rows: int) -> Row:
    """Two shares of columns."""
    column = "column" if name == "rms_norm" else "hidden"
    program = builtin(name, dtype, row=rows, feature=128, **{column: 4096})
    return Row((name, dtype, rows), program)


def is_right(row: Row, folder: Path) -> bool:
    """On two threads, which wait for each other's parts, call after call."""
    judge = judge_of(row)
    kernel = Workshop(folder, 2).kernel(row, judge.arrays)
    return not any(judge.objection([kernel()]) for _ in range(3))


@compiled
@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("gated_mlp", "bf16"),
        ("gqa", "f32"),
        *((name, dtype) for name in ("qk_norm", "ntrans") for dtype in TYPES),
    ],
)
def test_a_kernel_by_hand_computes_its_program(name: str, dtype: str, tmp_path: Path) -> None:
    """Where rows are no whole share, too."""
    assert is_right(small(name, dtype), tmp_path)


@compiled
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("name", "rows"), [("rms_norm", 1), ("gated_mlp", 8), ("rms_norm", 16)])
def test_a_kernel_by_hand_reads_weights_as_they_lie(
    name: str, rows: int, dtype: str, tmp_path: Path
) -> None:
    """Columns of two types come out in their order, of every way to share registers."""
    assert is_right(lying(name, dtype, rows), tmp_path)


def test_rows_are_told_apart_by_their_names() -> None:
    """Nothing is laid out beforehand where weights lie as they are, and a name says so."""
    rows = [*lying_rows()]
    names = [one.name for one in (*cpu_rows(), *rows)]
    assert len(set(names)) == len(names)
    assert not any(one.constant for one in rows)
    assert rows[0].name == "rms_norm, bf16, 1 row, weights as they lie"


@compiled
def test_code_of_ours_has_aligned_scratch_memory_on_each_thread(tmp_path: Path) -> None:
    """As it has when XLA calls it, however many bytes it wants."""
    lines = ["%at = ptrtoint ptr %scratch to i64", "%low = and i64 %at, 63"]
    lines += ["%value = uitofp i64 %low to float", *store("%value", "o", "float")]
    native = copying("aligned", 100_000, lines, scratch=100)
    given = jnp.zeros(100_000, jnp.float32)
    call = Workshop(tmp_path, 2).generated(
        EmbeddedProgram(native, host(), OptimizationEffort.SCALAR), [given]
    )
    for _ in range(50):
        assert not call().any()


@compiled
def test_code_of_ours_is_given_what_it_takes(tmp_path: Path) -> None:
    """Nothing would keep it from reading beyond smaller arrays."""
    code = EmbeddedProgram(keeping(100), host(), OptimizationEffort.SCALAR)
    with pytest.raises(ValueError, match=r"keeping takes a: f32\[100\], not float32\(99,\)"):
        Workshop(tmp_path, 2).generated(code, [jnp.zeros(99, jnp.float32)])


@compiled
def test_a_row_is_timed_and_told(capsys: pytest.CaptureFixture[str]) -> None:
    """By both clocks, with what each gets through, and whether it is as fast as asked."""
    hand.compare([small("rms_norm", "f32")], 0.01, LEAST)
    written = capsys.readouterr()
    row, all_of_them, called = map(json.loads, written.out.splitlines())
    assert row["figure"] == "hand: rms_norm, f32, 1 row, the code"
    assert row["low"] <= row["value"] <= row["high"]
    assert row["cpu"]["low"] <= row["cpu"]["value"] <= row["cpu"]["high"]
    assert min(row["hand"].values()) > 0
    assert (row["called"]["wall"]["value"] < hand.TARGET) == bool(called["below"])
    assert all_of_them["value"] + len(all_of_them["below"]) == all_of_them["target"] == 1
    assert (row["value"] < hand.TARGET) == bool(all_of_them["below"])
    assert written.err.splitlines()[-1].startswith("rms_norm, f32, 1 row")


def test_without_a_compiler_it_says_so_and_does_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is compared has to be there."""
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(sys, "argv", ["hand.py"])
    hand.main()
    assert capsys.readouterr() == ("", "there is nothing to compare with: no C compiler (cc)\n")
