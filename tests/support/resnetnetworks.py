"""The network of `examples/resnet50.py` in JAX, to compare with."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
from resnet50 import Layout, ResNet, drawn, layout

__all__ = [
    "Layout",
    "ResNet",
    "drawn",
    "flat",
    "jax_loss",
    "jax_step",
    "last_channels",
    "layout",
    "parts",
]


def parts(layout: Layout, params: Any) -> list[Any]:
    """The weights one by one: filters, scale and bias of each unit, then the last layer's."""
    listed = []

    def cut(start: int, *shape: int) -> int:
        size = int(np.prod(shape))
        listed.append(params[start : start + size].reshape(shape))
        return start + size

    for channels, _, filters, size, _, _, _, *_, start, _ in layout.units:
        end = cut(start, filters, channels, size, size)
        cut(cut(end, filters), filters)
    cut(cut(layout.ends[3], layout.classes, layout.ends[4]), layout.classes)
    return listed


def flat(listed: list[Any]) -> Any:
    """The reverse of `parts`."""
    return np.concatenate([np.asarray(item).reshape(-1) for item in listed])


def last_channels(listed: list[Any]) -> list[Any]:
    """The weights as a network takes them whose channels come last, which XLA prefers."""
    return [item.transpose(2, 3, 1, 0) if item.ndim == 4 else item for item in listed]


def jax_loss(
    layout: Layout, layers: list[Any], images: Any, labels: Any, *, last: bool = False
) -> Any:
    """The mean cross entropy; with `last`, channels of images and filters come last."""
    names = ("NHWC", "HWIO", "NHWC") if last else ("NCHW", "OIHW", "NCHW")
    rows, pixels = ((0, 1, 2), (1, 2)) if last else ((0, 2, 3), (2, 3))

    def along(channels: Any) -> Any:
        return channels if last else channels[:, None, None]

    def unit(place: int, x: Any) -> Any:
        _, _, _, size, stride, _, clips, *_ = layout.units[place]
        w, scale, bias = layers[3 * place : 3 * place + 3]
        padding = ((size // 2, size // 2),) * 2
        y = jax.lax.conv_general_dilated(x, w, (stride, stride), padding, dimension_numbers=names)
        mean, spread = (f(rows, keepdims=True) for f in (y.mean, y.var))
        y = (y - mean) * jax.lax.rsqrt(spread + 1e-5)
        y = y * along(scale) + along(bias)
        return jax.nn.relu(y) if clips else y

    def of_pixels(outer: Any, inner: Any) -> Any:
        return (outer, inner, inner, outer) if last else (outer, outer, inner, inner)

    x = unit(0, images.transpose(0, 2, 3, 1) if last else images)
    window, strides, padding = of_pixels(1, 3), of_pixels(1, 2), of_pixels((0, 0), (1, 1))
    x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, window, strides, padding)
    for first, shortcut, *_ in layout.blocks:
        y = unit(first + 2, unit(first + 1, unit(first, x)))
        x = jax.nn.relu(y + (x if shortcut < 0 else unit(shortcut, x)))
    logits = x.mean(pixels) @ layers[-2].T + layers[-1]
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1)
    return -chosen.mean()


def jax_step(
    layout: Layout, rate: float, momentum: float, *, last: bool = False
) -> Callable[..., Any]:
    """A step of training as one function: `layers, velocity, loss = step(layers, velocity, ...)`"""

    def step(layers: list[Any], velocity: list[Any], images: Any, labels: Any) -> Any:
        def loss_of(layers: list[Any]) -> Any:
            return jax_loss(layout, layers, images, labels, last=last)

        loss, slopes = jax.value_and_grad(loss_of)(layers)
        velocity = jax.tree.map(lambda v, g: momentum * v + g, velocity, slopes)
        layers = jax.tree.map(lambda p, v: p - rate * v, layers, velocity)
        return layers, velocity, loss

    return jax.jit(step, donate_argnums=(0, 1))
