"""On a GPU: what the best kernels take alone, and what they are beside torch.

With what a race times there, these are three times of a call: of its kernels (`kernels_alone_us`),
of a turn of a loop in one computation (`looped`), and of a call that is waited for (`hot`).
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from statistics import median
from types import MappingProxyType
from typing import Any

import jax
import layers
from contest import Pair, against_torch
from kernelrace import Raced
from kernelrows import Row
from rounds import Compared, compared
from summary import shown

RUNS = 20
"""In which the GPU is asked what each kernel takes."""
SCALES: Mapping[str, float | None] = MappingProxyType({"gqa": 1.0, "attention": None})
"""What torch's attention multiplies scores by; none for its own 1 / sqrt(features)."""


def beside(one: Raced, seconds: float, device: jax.Device) -> dict[str, Any]:
    """The best kernel in this process: what its kernels take alone, and in turns with torch."""
    if not one.kernels:
        return {}
    winner, case = one.entrants[one.ours()], layers.case(one.row.program)
    scope: dict[str, Any] = {}
    exec(compile(winner.source, "candidate.py", "exec"), scope)
    values = [jax.device_put(value, device) for value in case.values()]
    pair = Pair(case, values, jax.jit(case.function), jax.jit(scope[winner.function]))
    return {
        "kernels_alone_us": _alone(pair),
        "over_torch_compile": shown(against_torch(pair, seconds)),
        "over_torch_eager": shown(_over_libraries(pair, seconds)),
        "over_torch_attention": shown(_over_attention(one.row, pair, seconds)),
    }


def _alone(pair: Pair) -> float | str:
    """Microseconds of all kernels of a call, as the GPU counts them; or why that is not known."""
    try:
        from jax.experimental.mosaic.gpu import profiler

        _, runs = profiler.measure(pair.found, aggregate=False, iterations=RUNS)(*pair.values)
    except (ImportError, RuntimeError) as error:
        return str(error).partition("\n")[0]
    if runs is None:
        return "the GPU counted no kernels"
    return round(median(sum(taken for _, taken in run) for run in runs) * 1e3, 2)


def _over_libraries(pair: Pair, seconds: float) -> Compared | str:
    """Against torch without its compiler, which calls a library for each product."""
    if find_spec("torch") is None:
        return "torch is not installed"
    from torch_side import cublaslt

    with cublaslt():
        return against_torch(pair, seconds, compiles=False)


def _over_attention(row: Row, pair: Pair, seconds: float) -> Compared | str:
    """Against the attention that torch picks of its libraries, where the program is one."""
    if row.program.name not in SCALES:
        return "no attention"
    if find_spec("torch") is None:
        return "torch is not installed"
    import torch
    from torch_side import tensor

    q, k, v = (tensor(one, "cuda")[None] for one in pair.values)
    keys, scale = k.mT.contiguous(), SCALES[row.program.name]

    def call() -> Any:
        with torch.inference_mode():
            found = torch.nn.functional.scaled_dot_product_attention(q, keys, v, scale=scale)
        torch.cuda.synchronize()
        return found

    if not pair.agrees([call()[0].double().cpu().numpy()]):
        return "torch computes something else"
    return compared(call, pair.ready(pair.found), seconds)
