"""ResNet-50 trains on a CPU, from the CUDA text that trains it on a GPU.

`resnet50.cu` has the kernels, and the host code that launches them and calls cuDNN and cuBLAS. Here
the network is laid out, and `step` is called a few times on the same images: the loss falls.

    step 1: loss 2.35
    step 2: loss 1.89
    step 3: loss 1.36

Our kernels do what is called of the libraries. With `--libraries measured`, each kind of call goes
to them or to XLA, whichever is faster when it comes first, and `--choices` prints which, and why.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from aiosearch import cuda

TEXT = Path(__file__).with_name("resnet50.cu")
RESNET_50 = (3, 4, 6, 3)


@dataclass
class Layout:
    """Where everything lies: of the layers in one array of weights, of values in one of work."""

    images: int
    side: int
    classes: int
    units: list[tuple[int, ...]]
    blocks: list[tuple[int, ...]]
    ends: tuple[int, ...]
    weights: int
    work: int
    statistics: int


def layout(
    images: int, side: int, classes: int, depths: Sequence[int] = RESNET_50, width: int = 64
) -> Layout:
    """Lays out a network of bottleneck blocks, of which each stage halves the sides."""
    units: list[tuple[int, ...]] = []
    blocks: list[tuple[int, ...]] = []
    weights = work = statistics = 0

    def value(channels: int, side: int) -> int:
        nonlocal work
        work += images * channels * side * side
        return work - images * channels * side * side

    def unit(channels: int, side: int, filters: int, size: int, stride: int, **more: int) -> int:
        nonlocal weights, statistics
        out = (side - 1) // stride + 1
        row = (channels, side, filters, size, stride, out, more.get("clips", 1), more["input"])
        units.append((*row, value(filters, out), value(filters, out), weights, statistics))
        weights += filters * channels * size * size + 2 * filters
        statistics += 2 * filters
        return units[-1][9]

    unit(3, side, width, 7, 2, input=-1)
    side = units[0][5]
    half = (side + 1) // 2
    pooled = current = value(width, half)
    channels, side = width, half
    for stage, depth in enumerate(depths):
        inner = width << stage
        for block in range(depth):
            stride = 2 if stage and not block else 1
            first, out = len(units), (side - 1) // stride + 1
            reduced = unit(channels, side, inner, 1, 1, input=current)
            spatial = unit(inner, side, inner, 3, stride, input=reduced)
            unit(inner, out, 4 * inner, 1, 1, input=spatial, clips=0)
            shortcut = -1
            if stride > 1 or channels != 4 * inner:
                shortcut = len(units)
                unit(channels, side, 4 * inner, 1, stride, input=current, clips=0)
            result = value(4 * inner, out)
            blocks.append((first, shortcut, current, result))
            channels, side, current = 4 * inner, out, result
    features, logits = value(channels, 1), value(classes, 1)
    ends = (pooled, features, logits, weights, channels, side)
    weights += classes * channels + classes
    return Layout(images, units[0][1], classes, units, blocks, ends, weights, work, statistics)


class ResNet:
    """A network with its weights, and what training keeps beside them."""

    def __init__(self, layout: Layout, seed: int = 0, choices: cuda.Choices | None = None) -> None:
        self.layout = layout
        self.module = cuda.load(TEXT, choices=choices)
        self.params = initial(layout, seed)
        self.slopes, self.velocity = (np.zeros_like(self.params) for _ in range(2))
        self.work, self.changes = (np.zeros(layout.work, np.float32) for _ in range(2))
        self.saved, self.running = (np.zeros(layout.statistics, np.float32) for _ in range(2))
        pixels = (layout.units[0][5] + 1) // 2
        self.winners = np.zeros(layout.images * layout.units[0][2] * pixels**2, np.int32)
        self._tables = [
            np.array(table, np.int32) for table in (layout.units, layout.blocks, layout.ends)
        ]

    def step(self, images: Any, labels: Any, rate: float = 0.01, momentum: float = 0.9) -> float:
        """A step of training; gives the loss before it, and leaves the gradients in `slopes`."""
        laid = self.layout
        sizes = (laid.images, laid.classes, len(laid.blocks), laid.weights)
        state = (self.params, self.slopes, self.velocity, self.work, self.changes)
        kept = (self.winners, self.saved, self.running)
        loss = self.module.step(
            *sizes, *self._tables, images, labels, *state, *kept, rate, momentum
        )
        return float(loss)


def initial(layout: Layout, seed: int) -> Any:
    """Weights that keep the size of what goes through; the last norm of a block begins small."""
    draw = np.random.default_rng(seed)
    params = np.zeros(layout.weights, np.float32)
    for channels, _, filters, size, _, _, clips, *_, start, _ in layout.units:
        count = filters * channels * size * size
        spread = np.sqrt(2 / (channels * size * size))
        params[start : start + count] = spread * draw.standard_normal(count, np.float32)
        params[start + count : start + count + filters] = 1 if clips else 0.2
    start, channels = layout.ends[3:5]
    count = layout.classes * channels
    params[start : start + count] = draw.standard_normal(count, np.float32) / np.sqrt(channels)
    return params


def drawn(layout: Layout, seed: int = 1) -> tuple[Any, Any]:
    """Images and labels, at random."""
    draw = np.random.default_rng(seed)
    shape = (layout.images, 3, layout.side, layout.side)
    labels = draw.integers(0, layout.classes, layout.images).astype(np.int32)
    return draw.standard_normal(shape, np.float32), labels


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--images", type=int, default=2, help="at once")
    parser.add_argument("--side", type=int, default=64, help="of an image, in pixels")
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--libraries", choices=[*cuda.LibraryPolicy], default="ours")
    parser.add_argument("--choices", action="store_true", help="say who served the libraries")
    arguments = parser.parse_args()
    choices = cuda.Choices(libraries=cuda.LibraryPolicy(arguments.libraries))
    laid = layout(arguments.images, arguments.side, arguments.classes)
    network = ResNet(laid, choices=choices)
    images, labels = drawn(network.layout)
    for number in range(arguments.steps):
        print(f"step {number + 1}: loss {network.step(images, labels):.2f}")
    if arguments.choices:
        print(*network.module.library_choices, sep="\n")


if __name__ == "__main__":
    main()
