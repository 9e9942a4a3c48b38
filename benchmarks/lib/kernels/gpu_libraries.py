"""On a GPU: what the best kernels and the others' take alone, and what they are beside torch.

With what a race times there, these are three times of a call: of its kernels (`kernels_alone_us`),
of a turn of a loop in one computation (`looped`), which is one graph that the GPU replays if
`loop_is_one_graph` says so, and of a call that is waited for (`hot`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from types import MappingProxyType
from typing import Any

import jax
import lib.optimizer.builtin_cases as layers
from lib.kernels.kernel_race import Raced
from lib.kernels.rows import LEVEL
from lib.kernels.subprocess_call import ApartError, apart
from lib.optimizer.contest import Pair, first_line, in_torch
from lib.optimizer.paired_timing import Compared, compared
from lib.optimizer.summary import shown
from msgspec import Struct

from aiosearch.codegen.pallas.cubin_process import is_graph
from aiosearch.measure.worker.executables import GPU_TURNS, GRAPH, repeated
from aiosearch.tensor.files import from_json, to_json

SIDE_SECONDS = 180.0
"""What one side may take at most: torch's tuning takes a minute."""
RUNS = 20
"""In which the GPU is asked what each kernel takes."""
SCALES: Mapping[str, float | None] = MappingProxyType(
    {"gqa": 1.0, "qk_norm": 1.0, "attention": None}
)
"""What torch's attention multiplies scores by; none for its own 1 / sqrt(features)."""
LIBRARIES = ("CUDNN_ATTENTION", "FLASH_ATTENTION")
"""As torch calls them."""
NORMALISED = ("qk_norm",)
"""Whose queries and keys are divided by their roots of mean squares first."""


class Side(Struct, frozen=True):
    """What a process is told of a row: its program, its best kernel, and where it runs."""

    name: str
    """Of the built-in program."""
    program: bytes
    source: str
    function: str
    seconds: float
    """For each comparison."""
    platform: str

    def pair(self) -> Pair:
        """Both, with the arguments on the device."""
        case = layers.case(from_json(self.program))
        device = jax.devices(self.platform)[0]
        values = [jax.device_put(value, device) for value in case.values()]
        scope: dict[str, Any] = {}
        exec(compile(self.source, "candidate.py", "exec"), scope)
        ours = scope[self.function]
        return Pair(case, values, jax.jit(case.function), jax.jit(ours))


def beside(one: Raced, seconds: float, platform: str) -> dict[str, Any]:
    """What the best kernel takes alone, and in turns with torch; each side in its own process.

    What a side dies of is said in its place, and the other sides run all the same.
    """
    if not one.kernels:
        return {}
    winner, program = one.entrants[one.ours()], one.row.program
    side = Side(program.name, to_json(program), winner.source, winner.function, seconds, platform)
    told: dict[str, Any] = {}
    for key, work in SIDES.items():
        if key != ALONE and find_spec("torch") is None:
            has_none = key == "over_torch_attention" and side.name not in SCALES
            told[key] = "no attention" if has_none else "torch is not installed"
            continue
        try:
            told |= apart(work, side, seconds=SIDE_SECONDS)
        except ApartError as error:
            told[key] = str(error)
    return told


def alone(side: Side) -> dict[str, Any]:
    """Without torch: what kernels take as the GPU counts them, and whether loops are graphs."""
    pair = side.pair()
    return {
        "kernels_alone_us": _alone(pair.found, pair.values),
        "jit_kernels_alone_us": _alone(pair.naive, pair.values),
        "loop_is_one_graph": _is_one_graph(pair.found, pair.values),
        "jit_loop_is_one_graph": _is_one_graph(pair.naive, pair.values),
    }


def beside_compiled(side: Side) -> dict[str, Any]:
    return _beside_torch(side.pair(), side.seconds)


def beside_eager(side: Side) -> dict[str, Any]:
    return {"over_torch_eager": shown(_over_libraries(side.pair(), side.seconds))}


def beside_attention(side: Side) -> dict[str, Any]:
    return {"over_torch_attention": _over_attention(side.name, side.pair(), side.seconds)}


ALONE = "kernels_alone_us"
SIDES: Mapping[str, Callable[[Side], dict[str, Any]]] = MappingProxyType(
    {
        ALONE: alone,
        "over_torch_compile": beside_compiled,
        "over_torch_eager": beside_eager,
        "over_torch_attention": beside_attention,
    }
)
"""By what a figure calls the most important of it."""


def _alone(function: Callable[..., Any], values: Sequence[jax.Array]) -> float | str:
    """Microseconds of all kernels of a call, as the GPU counts them; or why that is not known."""
    try:
        from jax.experimental.mosaic.gpu import profiler

        _, runs = profiler.measure(function, aggregate=False, iterations=RUNS)(*values)
    except Exception as error:  # of whichever part of jax: there is more to be told
        return first_line(error)
    if runs is None:
        return "the GPU counted no kernels"
    return round(median(sum(taken for _, taken in run) for run in runs) * 1e3, 2)


def _is_one_graph(function: Callable[..., Any], values: Sequence[jax.Array]) -> bool | str:
    """Whether the loop that is timed is, as XLA lists what runs; or why that is not known."""
    with tempfile.TemporaryDirectory() as folder:
        options: dict[str, str | bool] = {**GRAPH, "xla_dump_to": folder}
        loop = jax.jit(repeated(function, GPU_TURNS))
        try:
            loop.lower(*values).compile(compiler_options=options)
        except Exception as error:  # jaxlib says in many ways that it cannot
            return first_line(error)
        found = is_graph(Path(folder))
    return "XLA lists nothing" if found is None else found


def _beside_torch(pair: Pair, seconds: float) -> dict[str, Any]:
    """Against `torch.compile`: in calls, what its kernels take alone, and calls in a row."""
    side = in_torch(pair)
    if isinstance(side, str):
        return {"over_torch_compile": side}
    return {
        "over_torch_compile": shown(compared(side.call, pair.ready(pair.found), seconds)),
        "torch_in_a_row_us": side.in_a_row_us(RUNS),
        "torch_kernels_alone_us": side.kernels_us(RUNS),  # last: a profiler may end graphs
    }


def _over_libraries(pair: Pair, seconds: float) -> Compared | str:
    """Against torch without its compiler, which calls a library for each product."""
    if find_spec("torch") is None:
        return "torch is not installed"
    from lib.optimizer.torch_programs import cublaslt

    try:
        with cublaslt():
            side = in_torch(pair, compiles=False)
            if isinstance(side, str):
                return side
            return compared(side.call, pair.ready(pair.found), seconds)
    except RuntimeError as error:  # torch may be built without it
        return first_line(error)


def _over_attention(name: str, pair: Pair, seconds: float) -> dict[str, Any] | str:
    """Against the attention of each library that torch has, where the program has one.

    What comes before it is compiled around it. The best library is what counts.
    """
    if name not in SCALES:
        return "no attention"
    if find_spec("torch") is None:
        return "torch is not installed"
    told = {library: _over_library(library, name, pair, seconds) for library in LIBRARIES}
    known = [one for one in told.values() if isinstance(one, Compared)]
    asked = LEVEL.get(name)
    return {
        "ratio": round(min(one.ratio.median for one in known), 4) if known else None,
        **({} if asked is None else {"target": asked}),
        **{library: shown(one) for library, one in told.items()},
    }


def _over_library(library: str, name: str, pair: Pair, seconds: float) -> Compared | str:
    """Against one of them; or why it cannot be."""
    from lib.optimizer.torch_programs import attention

    try:
        call = attention(library, pair.values, SCALES[name], normalised=name in NORMALISED)
        theirs = [call()[0].double().cpu().numpy()]
    except RuntimeError as error:
        return first_line(error)
    if not pair.agrees(theirs):
        return "torch computes something else"
    return compared(call, pair.ready(pair.found), seconds)
