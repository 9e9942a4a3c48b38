"""A training step of ResNet-50 in CUDA text, beside the same network in JAX and in PyTorch."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from .figures import figure, versions

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "support"))
from resnetnetworks import (
    Layout,
    ResNet,
    drawn,
    flat,
    jax_loss,
    jax_step,
    last_channels,
    layout,
    parts,
    torch_step,
)

RATE, MOMENTUM = 0.01, 0.9


def measure(quick: bool, count: int, side: int) -> None:
    """Prints the figures of some images of a size, and ends where gradients are wrong."""
    laid = layout(4, 32, 10, (1, 1), 8) if quick else layout(count, side, 10)
    network = ResNet(laid)
    images, labels = drawn(laid)
    original = network.params.copy()
    begun = parts(laid, original)
    start = time.perf_counter()
    losses = [network.step(images, labels, RATE, MOMENTUM)]
    figure("cuda: resnet, first step with all choices", time.perf_counter() - start, "s")

    # Rounding grows through fifty norms over few numbers, so both are held to float64.
    with jax.enable_x64(True):
        wide = [item.astype(np.float64) for item in begun]
        exact = flat(jax.grad(jax_loss, 1)(laid, wide, images.astype(np.float64), labels))
    ours = _relative(network.slopes, exact)
    narrow = jax.jit(jax.grad(lambda layers: jax_loss(laid, layers, images, labels)))
    theirs = _relative(flat(narrow(begun)), exact)
    figure(
        "cuda: resnet, gradient's error",
        ours * 1e6,
        "millionths of its norm",
        jax=round(theirs * 1e6, 4),
    )
    if not ours <= 4 * theirs + 1e-5:
        raise SystemExit("the gradient of the network is wrong")

    losses += [network.step(images, labels, RATE, MOMENTUM) for _ in range(5)]
    figure("cuda: resnet, loss after five steps", losses[-1], "", before=round(losses[0], 4))
    if not losses[-1] < losses[0]:
        raise SystemExit("the network does not learn")

    runs: dict[str, Callable[[], Any]] = {
        "cuda": lambda: network.step(images, labels, RATE, MOMENTUM),
        "jax": _by_jax(laid, begun, images, labels, last=False),
        "jax_channels_last": _by_jax(laid, last_channels(begun), images, labels, last=True),
    }
    try:
        runs["torch"] = torch_step(laid, original, images, labels, RATE, MOMENTUM)
    except ImportError:
        sys.stderr.write("PyTorch is not here: the network is not compared with it\n")
    times = _times(runs, 3 if quick else 7)
    for place, unit in enumerate(("ms", "CPU ms")):
        first, *others = (round(times[name][place] * 1e3, 3) for name in runs)
        beside = dict(zip(list(runs)[1:], others, strict=True))
        figure("cuda: a training step of ResNet-50", first, unit,
               compared=versions("jax", "torch"), images=count, side=side, **beside)  # fmt: skip
    choices = network.module.library_choices
    served = sum(choice.server == "ours" for choice in choices)
    figure("cuda: resnet, kinds of calls by our kernels", served, "kinds", of=len(choices))
    for choice in choices:
        sys.stderr.write(f"{choice}\n")


def _by_jax(
    laid: Layout, begun: list[Any], images: Any, labels: Any, *, last: bool
) -> Callable[[], None]:
    """Steps of training under `jax.jit`, whose weights are given back to be overwritten."""
    step = jax_step(laid, RATE, MOMENTUM, last=last)
    layers = [jax.numpy.array(item) for item in begun]
    state = [layers, [jax.numpy.zeros_like(item) for item in layers]]

    def run() -> None:
        layers, velocity, _ = step(*state, images, labels)
        state[:] = jax.block_until_ready((layers, velocity))

    return run


def _relative(first: Any, second: Any) -> float:
    return float(np.linalg.norm(first - second) / np.linalg.norm(second))


def _times(runs: dict[str, Callable[[], Any]], rounds: int) -> dict[str, tuple[float, float]]:
    """The least seconds of each, by wall and of CPU, all taking turns behind a first call."""
    listed: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for _ in range(rounds + 1):
        for name, run in runs.items():
            wall, cpu = time.perf_counter(), time.process_time()
            run()
            listed[name].append((time.perf_counter() - wall, time.process_time() - cpu))
    return {
        name: (min(row[0] for row in rows[1:]), min(row[1] for row in rows[1:]))
        for name, rows in listed.items()
    }
