"""On a GPU: Pallas kernels of a program, and what its best one is beside torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from itertools import islice
from statistics import median
from types import MappingProxyType
from typing import Any

import jax
import layers
from contest import Pair, against_torch
from entrants import Entrants, forms, jax_entrants
from kernelrace import Raced
from kernelrows import Row
from rounds import Compared, compared
from summary import shown

from aiosearch.codegen.ir import Module
from aiosearch.codegen.lowering import lower
from aiosearch.codegen.pallas import CannotPrint, Tiling, choices, write
from aiosearch.devices import Device, DeviceError, device, device_names, this_machine
from aiosearch.optimizer.contenders import Contender
from aiosearch.optimizer.effort import Budget
from aiosearch.tensor import Program
from aiosearch.tensor.errors import TensorError
from aiosearch.tensor.files import to_json

RUNS = 20
"""In which the GPU is asked what each kernel takes."""
SCALES: Mapping[str, float | None] = MappingProxyType({"gqa": 1.0, "attention": None})
"""What torch's attention multiplies scores by; none for its own 1 / sqrt(features)."""


def gpu_entrants(row: Row, budget: Budget) -> Entrants:
    """Kernels of the program as it is, and of what the superoptimizer fuses it to."""
    found = tuple(forms(row.program, budget.search_seconds))
    kernels: list[Contender] = []
    without: list[str] = []
    for number, form in enumerate(found):
        try:
            kernels += islice(pallas(number, form, here()), budget.kernels)
        except (CannotPrint, TensorError) as error:
            without.append(f"no kernels of form {number}: {error}")
    naive, *others = jax_entrants(row, budget)
    return Entrants(naive, tuple(others), tuple(kernels), found, tuple(without))


def here() -> Device:
    """This machine's GPU, as it was measured, as its maker describes it, or the last described."""
    try:
        return this_machine("cuda")
    except DeviceError:
        known = [device(name) for name in device_names()]
        kinds = {one.device_kind for one in jax.devices()}
        return next((one for one in known if one.reported in kinds), known[-1])


def pallas(number: int, form: Program, gpu: Device) -> Iterator[Contender]:
    """The best predicted tilings first; of several kernels, each has its next best in turn."""
    module = lower(form)
    options = [choices(kernel, gpu) for kernel in module.kernels]
    for turn in range(max(map(len, options), default=0)):
        tilings = {
            kernel.name: own[min(turn, len(own) - 1)]
            for kernel, own in zip(module.kernels, options, strict=True)
        }
        yield _contender(number, form, module, tilings)


def _contender(
    number: int, form: Program, module: Module, tilings: Mapping[str, Tiling]
) -> Contender:
    told = "; ".join(map(str, tilings.values()))
    how = f"{'fused' if number else 'as it is'}; Pallas, {told}"
    text = write(module, tilings)
    return Contender(how, number, to_json(form), text, module.name, (), kernels=True)


def beside(one: Raced, seconds: float) -> dict[str, Any]:
    """The best kernel in this process: what its kernels take alone, and in turns with torch."""
    if not one.kernels:
        return {}
    winner, case = one.entrants[one.ours()], layers.case(one.row.program)
    scope: dict[str, Any] = {}
    exec(compile(winner.source, "candidate.py", "exec"), scope)
    gpu = jax.devices("cuda")[0]
    values = [jax.device_put(value, gpu) for value in case.values()]
    pair = Pair(case, values, jax.jit(case.function), jax.jit(scope[winner.function]))
    return {
        "kernels_alone_us": _alone(pair),
        "over_torch_compile": shown(against_torch(pair, seconds)),
        "over_torch_attention": shown(_over_attention(one.row, pair, seconds)),
    }


def _alone(pair: Pair) -> float | str:
    """Microseconds of all kernels of a call, as the GPU counts them."""
    from jax.experimental.mosaic.gpu import profiler

    try:
        _, runs = profiler.measure(pair.found, aggregate=False, iterations=RUNS)(*pair.values)
    except (ImportError, RuntimeError) as error:
        return str(error).partition("\n")[0]
    return round(median(sum(taken for _, taken in run) for run in runs) * 1e3, 2)


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
