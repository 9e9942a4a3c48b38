"""Polygeist's own passes take barriers apart to the same result; `enzyme-ad`, which has them, is
optional: `uv run --group enzyme pytest tests/cuda/test_polygeist.py`."""

from __future__ import annotations

import numpy as np
import polygeist
import pytest
from barrierprograms import program

from aiosearch import cuda

SEEDS = range(24)


def test_polygeist_and_the_interpreter_agree_on_generated_programs() -> None:
    pytest.importorskip("enzyme_ad.jax.enzyme_call")
    assert sum("return;" in program(seed, defined=True).text for seed in SEEDS) > 5
    results = {seed: polygeist.differing(seed, ["distribute"])["distribute"] for seed in SEEDS}
    assert results == dict.fromkeys(SEEDS, "")


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
    split = polygeist.cpuified(polygeist.printed(kernel.function, 1, (8, 1)), "distribute")
    theirs = [7] * 8
    polygeist.run(split, [theirs, [0.0] * 8, 1])
    ours = np.full(8, 7, np.uint32)
    kernel[1, 8].interpret(ours, np.zeros(8, np.float32), 1)
    assert theirs == [1] * 8
    assert ours.tolist() == [0] + [1] * 7
