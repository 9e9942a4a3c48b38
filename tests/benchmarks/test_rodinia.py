"""The kernels of Rodinia that are timed compute what their mathematics says, by other means."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from lib.rodinia import cases

from aiosearch.mapper.rows.blocked import RowBlocks, RowRunner, RowSchedule
from aiosearch.mapper.rows.choice import choose_rows
from aiosearch.mapper.rows.equations import trace
from aiosearch.mapper.rows.evidence import compare

SMALL = cases(64)


def arrays(name: str) -> list[np.ndarray[Any, Any]]:
    return [np.asarray(array, np.float64) for array in SMALL[name][1]]


def results(name: str) -> Any:
    function, args = SMALL[name]
    return function(*args)


def test_backprop_is_a_step_down_the_gradient() -> None:
    """Of half the squared error, with a rate of 0.3."""
    inputs, hidden, output, target = SMALL["backprop"][1]

    def error(hidden: Any, output: Any) -> Any:
        o = jax.nn.sigmoid(jax.nn.sigmoid(inputs @ hidden) @ output)
        return 0.5 * ((target - o) ** 2).sum()

    slopes = jax.grad(error, (0, 1))(hidden, output)
    for after, before, slope in zip(results("backprop"), (hidden, output), slopes, strict=True):
        np.testing.assert_allclose(after, before - 0.3 * slope, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("name", "axes", "rate", "steps"), [
    ("hotspot", 2, 0.1, 16), ("hotspot3D", 3, 0.05, 8),
])  # fmt: skip
def test_heat_flows_from_neighbours(name: str, axes: int, rate: float, steps: int) -> None:
    """Step by step, with the edges repeated around the field."""
    t, power = arrays(name)
    for _ in range(steps):
        wide = np.pad(t, 1, mode="edge")
        inner = [slice(1, -1)] * axes
        flow = np.zeros_like(t)
        for axis in range(axes):
            for part in (slice(None, -2), slice(2, None)):
                flow += wide[(*inner[:axis], part, *inner[axis + 1 :])] - t
        t = t + power + rate * flow + 0.01 * (80.0 - t)
    np.testing.assert_allclose(results(name), t, rtol=1e-5)


def test_points_belong_to_the_nearest_center() -> None:
    """And are as far away as they are."""
    points, centers = arrays("kmeans")
    square = np.array([((points - center) ** 2).sum(1) for center in centers])
    which, least = results("kmeans")
    np.testing.assert_allclose(least, square.min(0), rtol=1e-4)
    np.testing.assert_allclose(square[which, np.arange(len(points))], square.min(0), rtol=1e-4)


def test_particles_feel_those_of_the_boxes_nearby() -> None:
    """Pair by pair, of some particles."""
    positions, charges = arrays("lavaMD")[:2]
    near = np.asarray(SMALL["lavaMD"][1][2])
    potential, force = results("lavaMD")
    for box, particle in ((0, 0), (3, 17), (7, 63)):
        total, push = 0.0, np.zeros(3)
        for other in near[box]:
            apart = positions[box, particle] - positions[other]
            decay = charges[other] * np.exp(-0.5 * (apart**2).sum(1))
            total += decay.sum()
            push += (decay[:, None] * apart).sum(0)
        np.testing.assert_allclose(potential[box, particle], total, rtol=1e-4)
        np.testing.assert_allclose(force[box, particle], push, rtol=1e-3, atol=1e-3)


def test_the_nearest_records_come_first() -> None:
    """Ten of them, by distance."""
    places, at = arrays("nn")
    far = np.sqrt(((places - at) ** 2).sum(1))
    least, which = results("nn")
    np.testing.assert_allclose(least, np.sort(far)[:10], rtol=1e-4)
    np.testing.assert_allclose(far[which], least, rtol=1e-4)


def test_diffusion_smooths_an_image() -> None:
    """Speckle spreads out and the mean stays: what flows out of a pixel flows into others, but
    for the edges."""
    (image,) = arrays("srad")
    smooth = np.asarray(results("srad"), np.float64)
    assert smooth.var() < image.var()
    assert smooth.mean() == pytest.approx(image.mean(), rel=0.05)
    assert jnp.isfinite(smooth).all()


@pytest.mark.parametrize("name", ["backprop", "kmeans", "lavaMD"])
def test_kernels_with_rows_are_the_same_in_blocks(name: str) -> None:
    """Whatever blocks they are cut into, on the arguments, random and poisoned ones."""
    function, args = SMALL[name]
    pulled = choose_rows(trace(function, args)[0])
    assert pulled is not None
    runner = RowRunner(RowBlocks(pulled), RowSchedule(2, 3))
    assert compare(lambda values: list(jax.jit(function)(*values)), runner, list(args)).holds
