"""A training step of ResNet-50 in CUDA text, beside the same network in JAX and in PyTorch.

PyTorch runs in a process of its own (`torch_side.py`), under this interpreter where it is installed
or under another that has it. It starts from the same weights; its gradient is compared with the
same one in float64, and its steps are timed in turns with ours, each in the process that its user
would run it in.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jax
import numpy as np

from aiosearch.pool import usable_cores
from lib.figures import figure, versions
from lib.peer_process import TORCH, PeerProcess, peer_process
from lib.torch_side import LAYOUTS

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
)

RATE, MOMENTUM = 0.01, 0.9
SIDE = Path(__file__).parent / "torch_side.py"


@dataclass(frozen=True)
class TorchTraining:
    """PyTorch's step in a process that still runs and is asked for times."""

    process: PeerProcess
    version: str
    slopes: dict[str, Any]
    """For each of its layouts, the gradient of its first step."""

    def seconds(self, layout: str) -> tuple[float, float]:
        """The seconds of a step, by wall and of CPU."""
        wall, cpu = self.process.asked(layout)
        return wall, cpu


@contextmanager
def torch_training(
    python: str, laid: Layout, layers: list[Any], images: Any, labels: Any
) -> Iterator[TorchTraining]:
    """The network in PyTorch, which has done a step; raises `PeerError` where it cannot."""
    with TemporaryDirectory() as scratch:
        network = {
            "units": laid.units,
            "blocks": laid.blocks,
            "layers": len(layers),
            "rate": RATE,
            "momentum": MOMENTUM,
        }
        Path(scratch, "network.json").write_text(json.dumps(network))
        named = {f"layer{place}": layer for place, layer in enumerate(layers)}
        np.savez(Path(scratch, "inputs.npz"), images=images, labels=labels, **named)
        command = [python, str(SIDE), scratch, str(usable_cores())]
        with peer_process(TORCH.name, command, Path(scratch), {}) as process:
            report = process.answer()
            slopes = {name: np.load(Path(scratch, f"{name}.npy")) for name in LAYOUTS}
            yield TorchTraining(process, report["torch"], slopes)


def measure(quick: bool, count: int, side: int, python: str | None) -> None:
    """Prints the figures of some images of a size, and ends where gradients are wrong.

    `python` is an interpreter that has PyTorch; without it, PyTorch is left out.
    """
    with ExitStack() as peers:
        _measure(quick, count, side, python, peers)


def _measure(quick: bool, count: int, side: int, python: str | None, peers: ExitStack) -> None:
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
    errors = {"": ours, "jax": theirs}
    torch: TorchTraining | None = None
    if python is not None:
        torch = peers.enter_context(torch_training(python, laid, begun, images, labels))
        errors |= {
            _torch_arm(name): _relative(slope, exact) for name, slope in torch.slopes.items()
        }
    millionths = {name: round(error * 1e6, 4) for name, error in errors.items()}
    figure(
        "cuda: resnet, gradient's error",
        millionths.pop(""),
        "millionths of its norm",
        **millionths,
    )
    for name, error in errors.items():
        if not error <= 4 * theirs + 1e-5:
            raise SystemExit(f"the gradient of the network is wrong {name and f'in {name}'}")

    losses += [network.step(images, labels, RATE, MOMENTUM) for _ in range(5)]
    figure("cuda: resnet, loss after five steps", losses[-1], "", before=round(losses[0], 4))
    if not losses[-1] < losses[0]:
        raise SystemExit("the network does not learn")

    runs = {
        "cuda": _timed(lambda: network.step(images, labels, RATE, MOMENTUM)),
        "jax": _timed(_by_jax(laid, begun, images, labels, last=False)),
        "jax_channels_last": _timed(_by_jax(laid, last_channels(begun), images, labels, last=True)),
    }
    compared = versions("jax")
    if torch is not None:
        compared["torch"] = torch.version
        runs |= {_torch_arm(name): partial(torch.seconds, name) for name in LAYOUTS}
    times = _times(runs, 3 if quick else 7)
    for place, unit in enumerate(("ms", "CPU ms")):
        first, *others = (round(times[name][place] * 1e3, 3) for name in runs)
        beside = dict(zip(list(runs)[1:], others, strict=True))
        figure("cuda: a training step of ResNet-50", first, unit,
               compared=compared, images=laid.images, side=laid.side, **beside)  # fmt: skip
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


def _torch_arm(layout: str) -> str:
    return "torch_channels_last" if layout == "NHWC" else "torch"


Timed = Callable[[], tuple[float, float]]
"""Does a step, and gives its seconds by wall and of CPU."""


def _timed(work: Callable[[], Any]) -> Timed:
    def run() -> tuple[float, float]:
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        return time.perf_counter() - wall, time.process_time() - cpu

    return run


def _times(runs: dict[str, Timed], rounds: int) -> dict[str, tuple[float, float]]:
    """The least seconds of each, by wall and of CPU, all taking turns behind a first call."""
    listed: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for _ in range(rounds + 1):
        for name, run in runs.items():
            listed[name].append(run())
    return {
        name: (min(row[0] for row in rows[1:]), min(row[1] for row in rows[1:]))
        for name, rows in listed.items()
    }
