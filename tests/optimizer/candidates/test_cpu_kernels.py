"""Programs as machine code of ours among the ways to write them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aiosearch.codegen.cpu import Schedule
from aiosearch.codegen.native.machine import host
from aiosearch.codegen.schedule.space import ScheduleChoice, ScheduleSpace, ranked_choices
from aiosearch.measure.worker import expendable
from aiosearch.optimizer.candidates import cpu_kernels
from aiosearch.optimizer.candidates.cpu_kernels import (
    CpuKernels,
    KernelSource,
    RankedSpaces,
    kernel_sources,
)
from aiosearch.tensor import DType, Program, apply, tensor
from aiosearch.tensor.programs import builtin


@pytest.fixture(autouse=True)
def _harmless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels are tried here, rather than in a process each."""
    monkeypatch.setattr(expendable, "_expendable", True)


def run(found: KernelSource, arrays: list[Any]) -> Any:
    """What a source gives, with what it packs packed."""
    space: dict[str, Any] = {}
    exec(found.source, space)
    packed = space[found.pack](*(arrays[at] for at in found.positions)) if found.pack else ()
    others = [one for at, one in enumerate(arrays) if at not in found.positions]
    shapes = [tuple(one.shape) for one in packed]
    assert shapes == [one.shape for one in found.types]
    return jax.jit(space[found.function])(*others, *packed)


def drawn(program: Program) -> list[Any]:
    random = np.random.default_rng(0)
    return [jnp.asarray(random.normal(size=one.shape), jnp.float32) for one in program.inputs]


@pytest.mark.parametrize("constant", [(), (1,)])
@pytest.mark.parametrize(("feature", "column"), [(48, 64), (33, 70)])
def test_sources_compute_the_program(constant: tuple[int, ...], feature: int, column: int) -> None:
    """Also where panels and pairs are not whole, with weights packed and without."""
    program = builtin("rms_norm", "f32", row=5, feature=feature, column=column)
    x, w = drawn(program)
    wanted = (x / jnp.sqrt(jnp.mean(x * x, axis=-1, keepdims=True))) @ w
    found = kernel_sources(program, host(), 2, 4, constant)
    assert found
    assert any(one.positions for one in found) == bool(constant)
    for one in found:
        np.testing.assert_allclose(run(one, [x, w]), wanted, rtol=2e-5, atol=2e-5)


def test_one_kernel_stands_beside_several() -> None:
    """What rules fuse is tried, and so is what they do not."""
    found = kernel_sources(builtin("gated_mlp", "f32", row=4, feature=32, hidden=64), host(), 2, 4)
    assert {one.schedule.count("[") for one in found} == {1, 2}


def test_the_best_predicted_comes_first() -> None:
    program = builtin("rms_norm", "bf16", row=8, feature=512, column=512)
    found = kernel_sources(program, host(), 2, 6, (1,))
    assert [one.seconds for one in found] == sorted(one.seconds for one in found)


def test_several_outputs_come_in_order() -> None:
    x = tensor("x", "f32", (3, 8))
    program = Program("two", (x,), (apply("sum", x, axes=(1,)), apply("exp", x)))
    (one, *_) = kernel_sources(program, host(), 1, 1)
    (given,) = drawn(program)
    total, grown = run(one, [given])
    np.testing.assert_allclose(total, given.sum(1), rtol=1e-5)
    np.testing.assert_allclose(grown, jnp.exp(given), rtol=1e-5)


def test_a_constant_that_two_kernels_read_is_not_packed() -> None:
    x, w = tensor("x", "f32", (64, 64)), tensor("w", "f32", (64, 64))
    program = Program("twice", (x, w), (apply("exp", x @ w) @ w,))
    assert not any(one.positions for one in kernel_sources(program, host(), 2, 8, (1,)))


def test_what_is_given_back_as_it_is_stays_as_it_lies() -> None:
    """A constant that is an output, too, is copied: nobody may have it packed."""
    x, w = tensor("x", DType.F32, (8, 64)), tensor("w", DType.F32, (64, 48))
    product, both = Program("product", (x, w), (x @ w,)), Program("both", (x, w), (x @ w, w))
    assert any(one.positions for one in kernel_sources(product, host(), 2, 8, (1,)))
    found = kernel_sources(both, host(), 2, 8, (1,))
    assert found
    assert not any(one.positions for one in found)


def test_equal_kernels_of_two_programs_are_ranked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ranked: list[object] = []

    def counted(space: ScheduleSpace[Schedule]) -> list[ScheduleChoice[Schedule]]:
        ranked.append(space)
        return ranked_choices(space)

    monkeypatch.setattr(cpu_kernels, "ranked_choices", counted)
    program = builtin("gated_mlp", "f32", row=4, feature=32, hidden=64)
    spaces = RankedSpaces(host(), 2)
    first = CpuKernels(program, host(), 2, (), spaces).first(4)
    count = len(ranked)
    again = CpuKernels(replace(program, name="other"), host(), 2, (), spaces).first(4)
    assert len(ranked) == count
    assert [point.points for point in again] == [point.points for point in first]
    alone = CpuKernels(program, host(), 2).first(4)
    assert alone == first
