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
    "transposed": (
        lambda x, w: lax.conv_general_dilated(
            x,
            w,
            (1, 1),
            [(2, 2), (2, 2)],
            lhs_dilation=(2, 2),
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        ),
        (1, 4, 4, 6),
        (4, 4, 6, 5),
    ),
    "transposed in groups, cropped and in strides": (
        lambda x, w: lax.conv_general_dilated(
            x,
            w,
            (2, 1),
            [(1, 0), (-1, 3)],
            lhs_dilation=(2, 3),
            rhs_dilation=(1, 2),
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
            feature_group_count=2,
        ),
        (2, 3, 4, 4),
        (3, 2, 2, 6),
    ),
    "transposed, with taps that lie outside": (
        lambda x, w: lax.conv_general_dilated(x, w, (1,), [(7, 2)], lhs_dilation=(3,)),
        (2, 3, 1),
        (4, 3, 2),
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


@pytest.mark.parametrize("name", [name for name in GROUPED if name.startswith("transposed")])
def test_an_infinity_among_the_filters_leaves_holes_and_padding_alone(name: str) -> None:
    """Wherever jax's result is finite, the program's is the same."""
    function, image, filters = GROUPED[name]
    random = np.random.default_rng(0)
    arrays = [random.normal(size=shape).astype(np.float32) for shape in (image, filters)]
    arrays[1].flat[0] = np.inf
    with np.errstate(invalid="ignore"):
        (given,) = run(capture(function, *arrays).program, arrays)
    wanted = np.asarray(function(*arrays))
    finite = np.isfinite(wanted)
    assert finite.any()
    assert not finite.all()
    np.testing.assert_allclose(given[finite], wanted[finite], rtol=1e-4, atol=1e-5)
