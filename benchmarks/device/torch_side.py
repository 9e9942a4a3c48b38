"""A built-in program in torch on a GPU: its own libraries, their attention, and torch's compiler.

    python torch_side.py NAME FILE [--dry]      # a program's JSON; torch is never beside jax's GPU

Prints `{"step": "prepared"}` once all is there that needs no GPU, waits for a line on its standard
input, so that nothing else runs on the device meanwhile, and prints a JSON line for each way as
soon as it is known. `kernel_us` is the GPU's own count with inputs that take turns past its cache,
`graph_us` a turn of a CUDA graph that does the same, `call_us` a call that is waited for.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
COPIES, CALLS, GRAPH_TURNS = 8, 60, 64
BEYOND = 2 * (64 << 20)
"""Bytes of inputs that no cache of a GPU holds."""


class TorchWay(NamedTuple):
    """A way to run the program in torch."""

    name: str
    build: Callable[[], Callable[..., Any]]
    """Makes a function of the inputs; the first calls may compile and tune."""
    setting: Callable[[], AbstractContextManager[Any]]
    """What has to hold while it runs."""


def line(**fields: Any) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def main() -> int:
    sys.path.append(str(Path(__file__).parent.parent))
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("name")
    parser.add_argument("file", type=Path)
    parser.add_argument("--dry", action="store_true", help="on a CPU")
    parser.add_argument("--no-compiler", action="store_true")
    options = parser.parse_args()
    if find_spec("torch") is None:
        line(step="prepared")
        sys.stdin.readline()
        line(way="torch", why="torch is not installed")
        return 0
    side = TorchProgram(options.name, options.file.read_bytes(), options.dry)
    line(step="prepared")
    sys.stdin.readline()
    for way in side.ways(compiler=not options.no_compiler):
        began = time.monotonic()
        try:
            result = side.measured(way)
        except Exception as error:  # of whichever library: the other ways are measured all the same
            reason = " ".join(str(error).split())[:200]
            result = {"right": False, "why": f"{type(error).__name__}: {reason}"}
        line(way=way.name, **result, seconds=round(time.monotonic() - began, 1))
    return 0


class TorchProgram:
    """The program's inputs, truth and ways."""

    def __init__(self, name: str, data: bytes, dry: bool) -> None:
        import jax
        import jax.numpy as jnp
        import lib.kernels.gpu_libraries  # here, while others have the device
        import lib.optimizer.torch_programs  # noqa: F401
        import numpy as np
        import torch
        from lib.optimizer.agreement import Judge
        from lib.optimizer.builtin_cases import written

        from aiosearch.optimizer.array_types import array_types
        from aiosearch.tensor.files import from_json

        self._name, self._dry, self._torch = name, dry, torch
        self._device = "cpu" if dry else "cuda"
        self._program = from_json(data)
        self._types = array_types(self._program)
        arrays = Judge.drawn(self._program, {}, 0)
        inputs = [
            jnp.asarray(array, array_type.dtype)
            for array, array_type in zip(arrays, self._types, strict=True)
        ]
        results = jax.tree.leaves(jax.jit(written(self._program))(*inputs))
        outputs = [np.asarray(output) for output in results]
        self._judge = Judge(self._program, arrays, outputs)
        self._drawn = inputs

    def _sets(self) -> list[list[Any]]:
        """Copies of the inputs on the device, as many as its cache does not hold."""
        from lib.optimizer.torch_programs import tensor

        first = [tensor(array, self._device) for array in self._drawn]
        size = sum(array.numel() * array.element_size() for array in first)
        count = 1 if self._dry else min(COPIES, 1 + -(-BEYOND // size))
        return [first, *([array.clone() for array in first] for _ in range(count - 1))]

    def ways(self, *, compiler: bool) -> Iterator[TorchWay]:
        import torch
        from lib.kernels.gpu_libraries import LIBRARIES, NORMALISED, SCALES
        from lib.optimizer.torch_programs import by_libraries, cublaslt, rms
        from torch.nn.attention import SDPBackend, sdpa_kernel

        self._inputs = self._sets()
        graph = by_libraries(self._program, self._device, self._inputs[0])
        setting = nullcontext if self._dry else cublaslt
        yield TorchWay("torch, its libraries", lambda: graph, setting)
        if self._name in SCALES:
            for library in LIBRARIES:

                def attend(q: Any, k: Any, v: Any) -> Any:
                    """Keys come in columns, and are turned beforehand: not timed."""
                    if self._name in NORMALISED:
                        q, k = rms(q), rms(k)
                    attention = torch.nn.functional.scaled_dot_product_attention
                    return attention(q[None], k[None], v[None], scale=SCALES[self._name])[0]

                yield TorchWay(
                    f"torch, {library}",
                    lambda attend=attend: _columns_turned(attend),
                    lambda library=library: sdpa_kernel(getattr(SDPBackend, library)),
                )
        if compiler:
            tuned: dict[str, str] = {"mode": "max-autotune-no-cudagraphs"}
            how = {"backend": "eager"} if self._dry else tuned
            yield TorchWay(
                "torch.compile, max-autotune",
                lambda: torch.compile(graph, dynamic=False, **how),
                nullcontext,
            )

    def measured(self, way: TorchWay) -> dict[str, Any]:
        """Whether it computes the program, and its times."""
        import torch

        with torch.inference_mode(), way.setting():
            began = time.monotonic()
            run = way.build()
            sets = self._inputs
            if getattr(run, "turned", False):
                sets = [[q, k.mT.contiguous(), v] for q, k, v in sets]
            result = run(*sets[0])
            outputs = list(result) if isinstance(result, (tuple, list)) else [result]
            self._wait()
            compiled = time.monotonic() - began
            objection = self._judge.objection([output.float().cpu().numpy() for output in outputs])
            if objection:
                return {"right": False, "why": objection}
            return {"right": True, "compiled_s": round(compiled, 1), **self._timed(run, sets)}

    def _timed(self, run: Callable[..., Any], sets: Sequence[Sequence[Any]]) -> dict[str, Any]:
        count = 2 if self._dry else CALLS
        for at in range(count):
            run(*sets[at % len(sets)])
        self._wait()
        waited = []
        for at in range(count):
            began = time.perf_counter()
            run(*sets[at % len(sets)])
            self._wait()
            waited.append(time.perf_counter() - began)
        began = time.perf_counter()
        for at in range(count):
            run(*sets[at % len(sets)])
        self._wait()
        row = (time.perf_counter() - began) / count
        figures = {
            "call_us": round(statistics.median(waited) * 1e6, 2),
            "in_a_row_us": round(row * 1e6, 2),
        }
        if self._dry:
            return {**figures, "copies": len(sets)}
        figures |= self._graph(run, sets)
        return {**figures, **self._kernels(run, sets), "copies": len(sets)}  # CUPTI last

    def _graph(self, run: Callable[..., Any], sets: Sequence[Sequence[Any]]) -> dict[str, Any]:
        """A CUDA graph of many turns, and a call of one turn as a graph that is waited for."""
        torch = self._torch
        try:
            graph, single = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                for at in range(GRAPH_TURNS):
                    run(*sets[at % len(sets)])
            with torch.cuda.graph(single):
                run(*sets[0])
            graph_seconds, alone = [], []
            for turn, seconds in ((graph, graph_seconds), (single, alone)):
                for _ in range(12):
                    began = time.perf_counter()
                    turn.replay()
                    torch.cuda.synchronize()
                    seconds.append(time.perf_counter() - began)
        except RuntimeError as error:
            return {"graph_us": None, "graph_why": str(error).partition("\n")[0][:120]}
        return {
            "graph_us": round(statistics.median(graph_seconds) / GRAPH_TURNS * 1e6, 2),
            "graph_call_us": round(statistics.median(alone) * 1e6, 2),
        }

    def _kernels(self, run: Callable[..., Any], sets: Sequence[Sequence[Any]]) -> dict[str, Any]:
        """Microseconds of all kernels of a call, as the GPU counts them, and their names."""
        torch = self._torch
        turns = 24
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
            for at in range(turns):
                run(*sets[at % len(sets)])
            torch.cuda.synchronize()
        events = [event for event in seen.key_averages() if event.self_device_time_total > 0]
        total = sum(event.self_device_time_total for event in events)
        kernels = [
            [event.key[:48], round(event.self_device_time_total / turns, 2)] for event in events
        ]
        return {"kernel_us": round(total / turns, 2) if total else None, "kernels": kernels}

    def _wait(self) -> None:
        if not self._dry:
            self._torch.cuda.synchronize()


def _columns_turned(run: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a function that takes keys in rows."""
    run.turned = True  # type: ignore[attr-defined]  # of a function of ours
    return run


if __name__ == "__main__":
    sys.exit(main())
