"""PyTorch's training step of the network of `examples/resnet50.py`, in a process of its own.

    python benchmarks/lib/torch_side.py FOLDER THREADS

runs under an interpreter that has torch and NumPy, and need not have anything else. `network.json`
in the folder says what the network consists of, `inputs.npz` has its images, labels and weights.
The step is done once with each layout of the images; the gradients go to `NCHW.npy` and
`NHWC.npy`, and a line of JSON says the versions and the losses. After that, for each line that
names a layout, a step is done, and its seconds by wall and of CPU are answered.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

LAYOUTS = ("NCHW", "NHWC")
"""Torch's default, and the one that its convolutions on CPUs prefer."""


class TorchNetwork:
    """The network with its weights in one layout, and the optimizer that trains it."""

    def __init__(self, network: dict[str, Any], inputs: Any, layout: str) -> None:
        import torch

        order = torch.channels_last if layout == "NHWC" else torch.contiguous_format
        self._network = network
        self._images = torch.tensor(inputs["images"]).to(memory_format=order)
        self._labels = torch.tensor(inputs["labels"], dtype=torch.long)
        self.layers = []
        for place in range(network["layers"]):
            layer = torch.tensor(inputs[f"layer{place}"])
            layer = layer.to(memory_format=order) if layer.ndim == 4 else layer
            self.layers.append(layer.requires_grad_())
        self._optimizer = torch.optim.SGD(
            self.layers, lr=network["rate"], momentum=network["momentum"]
        )

    def _unit(self, place: int, x: Any) -> Any:
        from torch.nn import functional

        _, _, _, size, stride, _, clips, *_ = self._network["units"][place]
        w, scale, bias = self.layers[3 * place : 3 * place + 3]
        y = functional.conv2d(x, w, stride=stride, padding=size // 2)
        y = functional.batch_norm(y, None, None, scale, bias, training=True)
        return functional.relu(y, inplace=True) if clips else y

    def step(self) -> float:
        """A step of training; gives the loss before it."""
        from torch.nn import functional

        self._optimizer.zero_grad()
        unit = self._unit
        x = functional.max_pool2d(unit(0, self._images), 3, 2, 1)
        for first, shortcut, *_ in self._network["blocks"]:
            y = unit(first + 2, unit(first + 1, unit(first, x)))
            x = functional.relu(y + (x if shortcut < 0 else unit(shortcut, x)))
        logits = x.mean((2, 3)) @ self.layers[-2].T + self.layers[-1]
        loss = functional.cross_entropy(logits, self._labels)
        loss.backward()
        self._optimizer.step()
        return float(loss)

    def slopes(self) -> Any:
        """The gradient of the last step, in the order of the weights."""
        return np.concatenate([item.grad.contiguous().numpy().ravel() for item in self.layers])


def _timed(work: Callable[[], Any]) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def main() -> None:
    # The library logs as it likes; answers have a descriptor of their own.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    import torch

    folder = Path(sys.argv[1])
    torch.set_num_threads(int(sys.argv[2]))
    network = json.loads((folder / "network.json").read_text())
    networks, losses = {}, {}
    with np.load(folder / "inputs.npz") as inputs:
        for layout in LAYOUTS:
            networks[layout] = TorchNetwork(network, inputs, layout)
            losses[layout] = networks[layout].step()
            np.save(folder / f"{layout}.npy", networks[layout].slopes())
    report = {"torch": torch.__version__, "threads": torch.get_num_threads(), "losses": losses}
    answers.write(json.dumps(report) + "\n")
    answers.flush()
    for line in sys.stdin:
        answers.write(json.dumps(_timed(networks[line.strip()].step)) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
