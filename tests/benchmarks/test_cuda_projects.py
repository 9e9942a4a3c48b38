"""Launches of other people's programs, replayed by our kernels: what counts as right."""

from __future__ import annotations

import numpy as np
from lib.cuda_projects import RecordedLaunch, compared_launch

from aiosearch import cuda
from aiosearch.cuda.compiled.lowering import Choices

TEXT = """
__global__ void grow(float *x, int n) {
    int i = threadIdx.x;
    float v = x[i];
    if (i == 0)
        for (int k = 0; k < n; k++) v = 4.0f * v * (1.0f - v);
    x[i] = v + 1.0f;
}
"""
"""The first element has forgotten what it was after forty turns, the others have not."""
BASE = 4096


def wrong_with(left: list[float]) -> str:
    """What is said of a program that had 0.3 four times, and left these numbers."""
    module = cuda.load(TEXT, choices=Choices(contract=False))
    launch = RecordedLaunch(
        "grow",
        (1, 1, 1),
        (4, 1, 1),
        [("p", BASE.to_bytes(8, "little")), ("n", (60).to_bytes(4, "little"))],
        {BASE: np.full(4, 0.3, np.float32).tobytes()},
        {BASE: np.asarray(left, np.float32).tobytes()},
    )
    return compared_launch(module, module["grow"], launch)


def test_an_element_that_rounding_decides_tells_nothing() -> None:
    assert not wrong_with([0.5, 1.3, 1.3, 1.3])


def test_a_wrong_element_is_named_beside_one_that_rounding_decides() -> None:
    assert wrong_with([0.5, 1.3, 1.31, 1.3]).startswith("wrong: 1 of 4")
