"""Convolutions in groups, as jax computes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from jax import lax

from aiosearch.capture import capture
from aiosearch.optimizer.candidates.jax_source import emit, names
from aiosearch.tensor.referee import run

GROUPED: dict[str, tuple[Callable[..., Any], tuple[int, ...], tuple[int, ...]]] = {
    "depthwise": (
        lambda x, w: lax.conv_general_dilated(
            x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=6
        ),
        (2, 7, 8, 6),
        (3, 3, 1, 6),
    ),
    "several features of a channel": (
        lambda x, w: lax.conv_general_dilated(
            x, w, (2, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=3
        ),
        (2, 7, 8, 3),
        (3, 2, 1, 12),
    ),
    "channels first": (
        lambda x, w: lax.conv_general_dilated(
            x, w, (1, 2), ((1, 0), (0, 2)), rhs_dilation=(2, 1), feature_group_count=2
        ),
        (2, 6, 7, 8),
        (4, 3, 3, 2),
    ),
    "a signal": (
        lambda x, w: lax.conv_general_dilated(
            x, w, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC"), feature_group_count=4
        ),
        (3, 9, 8),
        (4, 2, 8),
    ),
    "the gradient of a depthwise one": (
        jax.grad(
            lambda x, w: lax.conv_general_dilated(
                x,
                w,
                (1, 1),
                "SAME",
                dimension_numbers=("NHWC", "HWIO", "NHWC"),
                feature_group_count=6,
            ).sum()
        ),
        (2, 7, 8, 6),
        (3, 3, 1, 6),
    ),
}


@pytest.mark.parametrize("name", GROUPED)
def test_a_convolution_in_groups_is_what_jax_computes(name: str) -> None:
    function, image, filters = GROUPED[name]
    random = np.random.default_rng(0)
    arrays = [random.normal(size=shape).astype(np.float32) for shape in (image, filters)]
    program = capture(function, *arrays).program
    wanted = np.asarray(function(*arrays))
    (given,) = run(program, arrays)
    np.testing.assert_allclose(given, wanted, rtol=1e-4, atol=1e-5)
    module: dict[str, Any] = {}
    exec(emit(program), module)
    np.testing.assert_allclose(module[names(program)[0]](*arrays), wanted, rtol=1e-4, atol=1e-5)
