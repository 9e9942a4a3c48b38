"""The kernels of the Rodinia suite that Pattern-OPT maps, as JAX functions written from their
mathematics: `CASES` has arguments at the sizes of its measurements, and smaller ones by a factor.

Neighbours at an edge are the edge itself, looked up by clamped indices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from jax import lax

Array: TypeAlias = Any
Case: TypeAlias = tuple[Callable[..., Any], tuple[Array, ...]]


def backprop(inputs: Array, hidden: Array, output: Array, target: Array) -> tuple[Array, Array]:
    """A step of training a network of one hidden layer on one example, without momentum."""
    h = jax.nn.sigmoid(inputs @ hidden)
    o = jax.nn.sigmoid(h @ output)
    delta_o = o * (1 - o) * (target - o)
    delta_h = h * (1 - h) * (output @ delta_o)
    return hidden + 0.3 * inputs[:, None] * delta_h, output + 0.3 * h[:, None] * delta_o


def neighbours(field: Array, axis: int) -> tuple[Array, Array]:
    """The values before and behind along an axis."""
    size = field.shape[axis]
    at = jnp.arange(size)
    before, behind = jnp.maximum(at - 1, 0), jnp.minimum(at + 1, size - 1)
    return jnp.take(field, before, axis), jnp.take(field, behind, axis)


def hotspot(temperature: Array, power: Array) -> Array:
    """Heat of a chip: sixteen steps of five points."""

    def step(_: Array, t: Array) -> Array:
        north, south = neighbours(t, 0)
        west, east = neighbours(t, 1)
        flow = 0.1 * (north + south - 2 * t) + 0.1 * (west + east - 2 * t)
        return t + power + flow + 0.01 * (80.0 - t)

    return lax.fori_loop(0, 16, step, temperature)


def hotspot3d(temperature: Array, power: Array) -> Array:
    """The same in three dimensions: eight steps of seven points."""

    def step(_: Array, t: Array) -> Array:
        pairs = [sum(neighbours(t, axis)) - 2 * t for axis in range(3)]
        return t + power + 0.05 * sum(pairs) + 0.01 * (80.0 - t)

    return lax.fori_loop(0, 8, step, temperature)


def kmeans(points: Array, centers: Array) -> tuple[Array, Array]:
    """To which center each point belongs, and how far it is away."""
    square = ((points[:, None, :] - centers[None]) ** 2).sum(-1)
    return jnp.argmin(square, 1), square.min(1)


def lavamd(positions: Array, charges: Array, near: Array) -> tuple[Array, Array]:
    """Particles in boxes: potential and force from those of the boxes nearby."""
    others = positions[near].reshape(len(near), -1, 3)
    charge = charges[near].reshape(len(near), 1, -1)
    apart = positions[:, :, None, :] - others[:, None, :, :]
    decay = charge * jnp.exp(-0.5 * (apart * apart).sum(-1))
    return decay.sum(-1), (decay[..., None] * apart).sum(-2)


def nn(places: Array, at: Array) -> tuple[Array, Array]:
    """The ten records that are nearest to a place."""
    far = jnp.sqrt(((places - at) ** 2).sum(1))
    least, which = lax.top_k(-far, 10)
    return -least, which


def srad(image: Array) -> Array:
    """Speckle-reducing anisotropic diffusion: eight steps."""

    def step(_: Array, j: Array) -> Array:
        spread = j.var() / j.mean() ** 2
        north, south = neighbours(j, 0)
        west, east = neighbours(j, 1)
        parts = (north - j, south - j, west - j, east - j)
        gradient = sum(part * part for part in parts) / (j * j)
        laplacian = sum(parts) / j
        q = (0.5 * gradient - laplacian**2 / 16) / (1 + 0.25 * laplacian) ** 2
        c = jnp.clip(1 / (1 + (q - spread) / (spread * (1 + spread))), 0, 1)
        _, c_south = neighbours(c, 0)
        _, c_east = neighbours(c, 1)
        flow = c * parts[0] + c_south * parts[1] + c * parts[2] + c_east * parts[3]
        return j + 0.125 * flow

    return lax.fori_loop(0, 8, step, image)


def cases(smaller: int = 1) -> dict[str, Case]:
    """Each kernel with arguments, whose sizes are divided by `smaller`."""
    keys = iter(jax.random.split(jax.random.PRNGKey(0), 16))

    def drawn(*shape: int) -> Array:
        return jax.random.uniform(next(keys), shape)

    side = max(2, 6 // smaller)
    boxes = jnp.stack(jnp.meshgrid(*[jnp.arange(side)] * 3, indexing="ij"), -1).reshape(-1, 3)
    steps = jnp.stack(jnp.meshgrid(*[jnp.arange(-1, 2)] * 3, indexing="ij"), -1).reshape(-1, 3)
    # Boxes are a torus here, so that each has as many neighbours.
    near = (boxes[:, None] + steps[None]) % side @ jnp.array([side * side, side, 1])
    inputs = 65536 // smaller
    return {
        "backprop": (backprop, (drawn(inputs), drawn(inputs, 16) - 0.5, drawn(16, 1), drawn(1))),
        "hotspot": (hotspot, (drawn(1024 // smaller, 1024) + 80, drawn(1024 // smaller, 1024))),
        "hotspot3D": (hotspot3d, (drawn(8, 512 // smaller, 512), drawn(8, 512 // smaller, 512))),
        "kmeans": (kmeans, (drawn(494_020 // smaller, 35), drawn(5, 35))),
        "lavaMD": (lavamd, (drawn(side**3, 64, 3), drawn(side**3, 64), near)),
        "nn": (nn, (drawn(42_764 // smaller, 2), drawn(2))),
        "srad": (srad, (drawn(512 // smaller, 512) + 0.5,)),
    }
