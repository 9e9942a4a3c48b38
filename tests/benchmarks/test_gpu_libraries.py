"""What the best kernels are timed beside on a GPU, as far as that goes without one."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import jax
import lib.kernels.gpu_libraries as gpukernels
import lib.optimizer.builtin_cases as layers
import pytest
from lib.kernels.entrants import entrants
from lib.kernels.gpu_libraries import beside
from lib.kernels.kernel_race import Raced, raced
from lib.kernels.rows import Row
from msgspec.structs import replace

from aiosearch.measure import JaxExecutor
from aiosearch.optimizer.candidates.generation_process import generation_process
from aiosearch.optimizer.effort import Budget
from aiosearch.tensor.programs import builtin

LEAST = Budget(0.2, 1, 2, 7, 2.0, 1, 2, 1, 10.0)
SIZES = {
    "rms_norm": {"row": 1, "feature": 128, "column": 64},
    "gqa": {"head": 2, "row": 8, "feature": 16, "key": 64, "value": 16},
}
without_torch = pytest.mark.skipif(find_spec("torch") is not None, reason="torch is installed")


async def race(name: str) -> Raced:
    """On this processor, of inputs that all may change, as they may on a GPU."""
    row = Row((name, "f32", 1), builtin(name, "f32", **SIZES[name]))
    async with (
        JaxExecutor(compilers=1) as executor,
        generation_process(lambda text: None) as process,
    ):
        found = await entrants(row, LEAST, "cpu", process)
        some = replace(found, jax=found.jax[-1:], kernels=found.kernels[:1])
        return await raced(row, some, executor, LEAST, process)


@without_torch
@pytest.mark.parametrize("name", SIZES)
async def test_what_cannot_be_known_is_said_in_words(name: str) -> None:
    """The kernel runs; there is no GPU that says what it takes, and no torch."""
    one = await race(name)
    assert one.kernels
    found = beside(one, 0.05, "cpu")
    for who in ("", "jit_"):
        alone = found.pop(f"{who}kernels_alone_us")
        assert isinstance(alone, str)
        assert alone
        assert found.pop(f"{who}loop_is_one_graph") == "XLA lists nothing"
    attention = "torch is not installed" if name == "gqa" else "no attention"
    assert found == {
        "over_torch_compile": "torch is not installed",
        "over_torch_eager": "torch is not installed",
        "over_torch_attention": attention,
    }


@pytest.mark.parametrize(
    ("timings", "told"),
    [
        ([[("a", 0.5), ("b", 0.25)], [("a", 1.5), ("b", 0.25)], [("a", 0.75), ("b", 0.25)]], 1000),
        (None, "the GPU counted no kernels"),
    ],
)
def test_kernels_of_a_call_are_added_up(
    timings: Sequence[Any] | None, told: float | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As jax's profiler gives them, in milliseconds; the median of calls counts.

    It stands in for jax's own, which jax 0.10 imports only where absl is.
    """
    measured = SimpleNamespace(measure=lambda *one, **more: lambda *values: (None, timings))
    module = SimpleNamespace(profiler=measured)
    monkeypatch.setitem(sys.modules, "jax.experimental.mosaic.gpu", module)
    case = layers.case(builtin("rms_norm", "f32", **SIZES["rms_norm"]))
    naive = jax.jit(case.function)
    assert gpukernels._alone(naive, []) == told


def dies(side: gpukernels.Side) -> dict[str, Any]:
    os._exit(7)


def raises(side: gpukernels.Side) -> dict[str, Any]:
    raise KeyError(side.name)


def tells(side: gpukernels.Side) -> dict[str, Any]:
    return {"told": side.name}


async def test_a_side_that_dies_or_raises_is_told_and_the_others_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each in a process of its own, whatever torch is here."""
    sides = {"dies": dies, "raises": raises, "tells": tells}
    monkeypatch.setattr(gpukernels, "SIDES", sides)
    monkeypatch.setattr(gpukernels, "find_spec", lambda name: True)
    program = builtin("rms_norm", "f32", **SIZES["rms_norm"])
    contender = SimpleNamespace(source="", function="")
    one: Any = SimpleNamespace(
        kernels=[0], ours=lambda: 0, entrants=[contender], row=SimpleNamespace(program=program)
    )
    assert await asyncio.to_thread(beside, one, 0.05, "cpu") == {
        "dies": "its process died with exit code 7",
        "raises": "KeyError: 'rms_norm'",
        "told": "rms_norm",
    }
