"""Polygeist's own passes take barriers apart to the same result; `enzyme-ad`, which has them, is
optional: `uv run --group enzyme pytest tests/cuda/test_polygeist.py`."""

from __future__ import annotations

import multiprocessing
from typing import Any

import numpy as np
import polygeist
import pytest
from barrierprograms import Program, program

from aiosearch import cuda

SEEDS = range(24)
"""With `distribute`; the rewriting of `distribute.mincut` does not end for 1, 3 and 7 of the first
nine, where that of the others takes less than a tenth of a second."""
PATIENCE = 60


def _cpuified(texts: list[str], method: str, results: Any) -> None:
    for text in texts:
        results.put(polygeist.cpuified(text, method))


def _split(texts: list[str], method: str, seconds: float = PATIENCE) -> list[str]:
    """What Polygeist makes of them, in a process that can be ended, as its rewriting need not.

    Raises queue.Empty where it does not end in time.
    """
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    process = context.Process(target=_cpuified, args=(texts, method, results))
    process.start()
    try:
        return [results.get(timeout=PATIENCE + seconds if not place else seconds)
                for place in range(len(texts))]  # fmt: skip
    finally:
        process.kill()
        process.join()


def _printed(generated: Program) -> str:
    function = cuda.load(generated.text)["generated"].function
    return polygeist.printed(function, generated.grid, generated.block)


def _number(generated: Program) -> int:
    """An `n` with which the threads of a block return early together, as Polygeist assumes."""
    threads = generated.block[0] * generated.block[1]
    return threads if threads % 8 else threads // 4


def test_polygeist_and_the_interpreter_agree_on_generated_programs() -> None:
    pytest.importorskip("enzyme_ad.jax.enzyme_call")
    programs = [program(seed, defined=True) for seed in SEEDS]
    returning = sum("return;" in item.text for item in programs)
    assert returning > 5
    differing = []
    for seed, generated, split in zip(
        SEEDS, programs, _split([_printed(item) for item in programs], "distribute"), strict=True
    ):
        draw = np.random.default_rng(seed)
        array = draw.integers(0, 1000, generated.elements).astype(np.uint32)
        numbers = draw.integers(0, 16, generated.elements).astype(np.float32)
        theirs = array.tolist(), list(numbers)
        polygeist.run(split, [*theirs, _number(generated)])
        kernel = cuda.load(generated.text)["generated"]
        kernel[generated.grid, generated.block].interpret(array, numbers, _number(generated))
        same = np.array_equal(np.array(theirs[0], np.uint32), array)
        if not same or not np.array_equal(np.array(theirs[1], np.float32), numbers):
            differing.append(seed)
    assert differing == []


ZERO = """__global__ void generated(unsigned *a, float *f, unsigned n) {
  unsigned t = threadIdx.x;
  __syncthreads();
  a[t] = t / t;
}
"""


def test_a_quotient_of_equal_numbers_is_folded_by_polygeist_even_where_both_are_zero() -> None:
    """That is why generated programs for it divide by no zero: C++ leaves open what 0 / 0 is."""
    pytest.importorskip("enzyme_ad.jax.enzyme_call")
    kernel = cuda.load(ZERO)["generated"]
    (split,) = _split([polygeist.printed(kernel.function, 1, (8, 1))], "distribute")
    theirs = [7] * 8
    polygeist.run(split, [theirs, [0.0] * 8, 1])
    ours = np.full(8, 7, np.uint32)
    kernel[1, 8].interpret(ours, np.zeros(8, np.float32), 1)
    assert theirs == [1] * 8
    assert ours.tolist() == [0] + [1] * 7
