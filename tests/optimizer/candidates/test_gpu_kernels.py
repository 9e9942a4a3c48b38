"""Programs as Pallas kernels among the ways to write them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aiosearch.codegen.pallas import CannotPrint, write
from aiosearch.devices import device
from aiosearch.optimizer.candidates import gpu_kernels
from aiosearch.optimizer.candidates.generation import CandidateQuestion, generate_candidates
from aiosearch.optimizer.candidates.gpu_kernels import GpuKernels, gpu_kernel_sources
from aiosearch.optimizer.candidates.jax_source import merged
from aiosearch.optimizer.effort import BUDGETS, Effort
from aiosearch.tensor import DType, Program, apply, tensor
from aiosearch.tensor.files import to_json
from aiosearch.tensor.programs import builtin


@pytest.fixture
def program() -> Program:
    return builtin("rms_norm", "f32", row=4, feature=32, column=64)


def test_sources_stand_alone_and_compute_the_program(program: Program) -> None:
    x, w = (
        np.asarray(jax.random.normal(jax.random.key(n), s.shape))
        for n, s in enumerate(program.inputs)
    )
    wanted = (x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True))) @ w
    found = gpu_kernel_sources(program, device("H200"), 4)
    assert len(found) > 1
    for one in found:
        space: dict[str, object] = {}
        exec(one.source, space)
        run = space[one.function]
        assert callable(run)
        np.testing.assert_allclose(run(x, w, interpret=True), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["step", "pl", "interpret", "_erf"])
def test_a_function_may_be_called_what_the_text_needs_itself(name: str) -> None:
    """Then it is written under another name, which is told."""
    x, w = tensor("x", "f32", (16, 32)), tensor("w", "f32", (32, 16))
    (one,) = gpu_kernel_sources(Program(name, (x, w), (x @ w,)), device("H200"), 1)
    space: dict[str, object] = {}
    exec(one.source, space)
    run = space[one.function]
    assert callable(run)
    ones = np.ones((16, 32), np.float32)
    np.testing.assert_allclose(run(ones, ones.T, interpret=True), 32 * np.ones((16, 16)))


def test_what_is_written_runs_where_nothing_but_jax_is(program: Program, tmp_path: Path) -> None:
    """In a process that cannot import aiosearch, from the file that `--emit` would write."""
    (one,) = gpu_kernel_sources(program, device("H200"), 1)
    path = tmp_path / "faster.py"
    path.write_text(merged(one.source))
    call = f"""
import sys
sys.modules["aiosearch"] = None
import jax.numpy as jnp, numpy as np, faster
x = np.linspace(-1, 2, 128, dtype=np.float32).reshape(4, 32)
w = np.cos(np.arange(2048, dtype=np.float32)).reshape(32, 64)
wanted = x / np.sqrt((x * x).mean(-1, keepdims=True)) @ w
found = faster.{one.function}(jnp.asarray(x), jnp.asarray(w), interpret=True)
np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
"""
    subprocess.run([sys.executable, "-c", call], cwd=tmp_path, check=True, timeout=100)


def test_beside_a_way_are_others_that_can_be_written(program: Program) -> None:
    kernels = GpuKernels(program, device("H200"))
    (first,) = kernels.first(1)
    near = kernels.neighbours(first)
    assert len({one.key for one in near} - {first.key}) == len(near) > 4
    for one in near:
        source = kernels.source(one)
        assert source.source != kernels.source(first).source
        assert source.seconds >= first.seconds


def test_beside_a_way_a_fold_has_other_parts_and_whoever_is_asked_makes_them() -> None:
    """From the kernel as it is to one that is split, and back, also in another process."""
    x, w = tensor("X", DType.F32, (8, 4096)), tensor("W", DType.F32, (4096, 256))
    program = Program("scores", (x, w), (x @ w,))
    kernels, others = (GpuKernels(program, device("H200")) for _ in range(2))
    place = kernels.first(1)[0]
    near = {one.parting: one for one in kernels.neighbours(place) if one.parting != place.parting}
    assert len(near) == 2
    given = [
        np.asarray(jax.random.normal(jax.random.key(n), one.shape)) for n, one in enumerate((x, w))
    ]
    for one in [place, *near.values()]:
        source = others.source(one)
        assert ("_parts" in source.source) == (len(one.points) == 2)
        assert source.seconds == one.seconds
        space: dict[str, Any] = {}
        exec(source.source, space)
        found = space[source.function](*given, interpret=True)
        np.testing.assert_allclose(found, given[0] @ given[1], rtol=1e-3, atol=1e-3)
        back = {other.parting: other.key for other in others.neighbours(one)}
        assert {*back} == {place.parting, *near}


def test_a_gpu_that_is_described_gets_kernels_and_another_none(program: Program) -> None:
    packed, budget = to_json(program), BUDGETS[Effort.QUICK]
    asked = CandidateQuestion(packed, budget, 0, False, gpu="H200")
    kernels = [one for one in generate_candidates(asked, print).contenders if one.kernels]
    assert kernels
    assert all("pl.pallas_call" in one.source for one in kernels)
    other = CandidateQuestion(packed, budget, 0, False)
    assert not any(one.kernels for one in generate_candidates(other, print).contenders)


def test_kernels_are_for_the_multiprocessors_that_the_gpu_itself_has() -> None:
    """With few of them other tilings come first; without their number, those of the GPU named."""
    x, w = tensor("X", DType.BF16, (64, 4096)), tensor("W", DType.BF16, (4096, 4096))
    program = to_json(Program("product", (x, w), (x @ w,)))

    def schedules(units: int) -> list[str]:
        budget = BUDGETS[Effort.QUICK]
        asked = CandidateQuestion(program, budget, 0, False, gpu="H200", gpu_units=units)
        return [one.schedule for one in generate_candidates(asked, print).contenders if one.kernels]

    assert schedules(0) == schedules(132) != schedules(8)


def test_why_a_program_gets_no_kernels_is_told_once() -> None:
    """Triton has no erf of 64 bits; what else was made of the program lacks it as well."""
    x = tensor("X", DType.F64, (64,))
    program = Program("error", (x,), (apply("erf", x),))
    told: list[str] = []
    asked = CandidateQuestion(to_json(program), BUDGETS[Effort.QUICK], 0, False, gpu="H200")
    assert not any(one.kernels for one in generate_candidates(asked, told.append).contenders)
    (reason,) = [text for text in told if "kernels" in text]
    assert reason.startswith("kernels are left out: Triton has no erf")


@pytest.mark.parametrize("refused", ["the first plan", "all of a module"])
def test_what_cannot_be_printed_is_left_out_and_nothing_else(
    refused: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether that is one plan, or everything that a fold in parts is made of."""
    x, w = tensor("X", DType.BF16, (8, 4096)), tensor("W", DType.BF16, (4096, 16))
    program = Program("scores", (x, w), (x @ w,))
    (first, *others) = gpu_kernel_sources(program, device("H200"), 4)
    assert "_parts" in first.source

    def is_refused(text: str) -> bool:
        return text == first.source if refused == "the first plan" else "_parts" in text

    def refusing(*given: Any) -> str:
        text = write(*given)
        if is_refused(text):
            raise CannotPrint("this one has no text")
        return text

    monkeypatch.setattr(gpu_kernels, "write", refusing)
    told: list[str] = []
    kernels = GpuKernels(program, device("H200"), told.append)
    left = [one for one in others if not is_refused(one.source)]
    assert left
    found = [one.source for one in gpu_kernel_sources(program, device("H200"), 4)]
    assert {one.source for one in left} <= {*found}
    assert first.source not in found
    if refused == "all of a module":
        assert told == ["kernels are left out: this one has no text"]
    else:
        assert told == []
    assert kernels.first(4)


def test_merged_sources_keep_what_they_import(program: Program) -> None:
    one = gpu_kernel_sources(program, device("H200"), 1)[0]
    space: dict[str, object] = {}
    exec(
        merged("import jax.numpy as jnp\n\ndef other(x):\n    return jnp.abs(x)\n", one.source),
        space,
    )
    run = space[one.function]
    assert callable(run)
    shapes = [jax.ShapeDtypeStruct(s.shape, jnp.float32) for s in program.inputs]
    assert jax.eval_shape(lambda x, w: run(x, w, interpret=True), *shapes).shape == (4, 64)
