"""Kernels that were written by hand in C for AVX-512: compiled when they are wanted, and called.

`hand/` holds the text. What it leaves open is given to the compiler: whether elements are bf16, how
many rows and vectors stay in registers, and how many threads there are.
"""

from __future__ import annotations

import ctypes
import math
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from lib.kernels.rows import Row

from aiosearch.codegen.native.compiler import compile_handler, compile_program, load
from aiosearch.codegen.native.embedded_source import EmbeddedProgram
from aiosearch.codegen.native.handler import CACHE_LINE_BYTES, aligned_ends, round_up_to_line
from aiosearch.codegen.native.machine import host
from aiosearch.measure.worker.huge_pages import in_huge_pages
from aiosearch.tensor.types import ARRAY_NAMES

FOLDER = Path(__file__).parents[2] / "hand"
FLAGS = ("-O3", "-march=native", "-shared", "-fPIC", "-pthread")
LANES = 16
VECTORS: Mapping[int, int] = MappingProxyType({1: 4, 8: 2, 16: 1})
"""By the rows of a product, how many vectors of sums each has in registers."""
LYING: Mapping[int, int] = MappingProxyType({1: 8, 8: 2, 16: 2})
"""The same where weights lie as they are; of bf16 two come at once."""
TILE = 8
"""Rows of an attention that are in registers at once."""


def lacking() -> str:
    """Why there can be no such kernels here; nothing where there can."""
    if shutil.which("cc") is None:
        return "no C compiler (cc)"
    if not host().bf16_dot:
        return f"no AVX-512 with bf16 on {host().name}"
    return ""


def compiler() -> str:
    """Which one, and its version."""
    told = subprocess.run(["cc", "--version"], capture_output=True, text=True, check=True)
    return told.stdout.partition("\n")[0]


@dataclass(frozen=True)
class Workshop:
    """Compiles into a folder; a library is there as long as the process."""

    folder: Path
    threads: int

    def kernel(self, row: Row, arrays: Sequence[Any]) -> Callable[[], Any]:
        """A row's program on these inputs; each call gives the same array, filled anew."""
        name, *_ = row.key
        if name not in BUILT:
            raise ValueError(f"nobody wrote a kernel for {name}")
        return BUILT[name](self, row, list(map(jnp.asarray, arrays)), _empty(row))

    def generated(self, one: EmbeddedProgram, arrays: Sequence[Any]) -> Callable[[], Any]:
        """Machine code of ours on such threads, without XLA; each call fills the same array."""
        native = one.native
        for buffer, array in zip(native.inputs, arrays, strict=True):
            if (array.shape, array.dtype) != (buffer.shape, ARRAY_NAMES[buffer.dtype]):
                raise ValueError(f"{native.name} takes {buffer}, not {array.dtype}{array.shape}")
        code = compile_program(native, one.machine, one.effort)
        loaded = load(native, code, compile_handler(one.machine))
        (output,) = native.outputs
        dtype = jnp.dtype(ARRAY_NAMES[output.dtype])
        written = math.prod(output.shape) * dtype.itemsize
        each = round_up_to_line(max(phase.scratch_bytes for phase in native.phases))
        sizes = (written, *native.temporaries, each * self.threads)
        own = aligned(aligned_ends(sizes)[-1])
        places = [own.ctypes.data + begin for begin in (0, *aligned_ends(sizes)[:-1])]
        inputs = [array.unsafe_buffer_pointer() for array in arrays]
        count = len(native.phases)
        given = (
            ctypes.c_long(count),
            (ctypes.c_void_p * count)(*loaded.phases),
            (ctypes.c_long * count)(*(phase.blocks for phase in native.phases)),
            (ctypes.c_void_p * (len(arrays) + len(sizes) - 1))(*inputs, *places[:-1]),
            ctypes.c_void_p(places[-1]),
            ctypes.c_long(each),
        )
        function = self.library("phases").phases
        function.restype = None
        out = own[:written].view(dtype).reshape(output.shape)
        return _Call(function, given, (loaded, own, *arrays), out)

    def library(self, text: str, **numbers: int) -> ctypes.CDLL:
        """Compiles one of the texts, with names in it set to numbers."""
        own = {"THREADS": self.threads, **numbers}
        named = "_".join(f"{key.lower()}{value}" for key, value in own.items())
        target = self.folder / f"{text}_{named}.so"
        if not target.exists():
            given = [f"-D{key}={value}" for key, value in own.items()]
            texts = [str(FOLDER / f"{one}.c") for one in (text, "pool")]
            command = ["cc", *FLAGS, *given, *texts, "-lm", "-o", str(target)]
            subprocess.run(command, check=True)
        return ctypes.CDLL(str(target))


def _product(shop: Workshop, row: Row, arrays: Sequence[Any], out: Any) -> Callable[[], Any]:
    name, _, rows = row.key
    x, *weights = arrays
    shape = weights[0].shape
    if row.constant:
        text, vectors = "linear", VECTORS[rows]
        weights = [in_panels(one, LANES * vectors, _half(row)) for one in weights]
    else:
        text, vectors = "lying", LYING[rows]
    library = shop.library(text, HALF=_half(row), ROWS=rows, VECTORS=vectors)
    return _calling(getattr(library, name), shape, [x, *weights], out)


def _attention(shop: Workshop, row: Row, arrays: Sequence[Any], out: Any) -> Callable[[], Any]:
    name, *_ = row.key
    library = shop.library("attention", HALF=_half(row), ROWS=TILE)
    heads, queries, _ = arrays[0].shape
    return _calling(getattr(library, name), (heads, queries, arrays[1].shape[2]), arrays, out)


def _step(shop: Workshop, row: Row, arrays: Sequence[Any], out: Any) -> Callable[[], Any]:
    library = shop.library("ntrans", HALF=_half(row))
    return _calling(library.ntrans, arrays[0].shape, arrays, out)


BUILT = MappingProxyType(
    {
        "rms_norm": _product,
        "gated_mlp": _product,
        "gqa": _attention,
        "qk_norm": _attention,
        "ntrans": _step,
    }
)


def _half(row: Row) -> int:
    _, dtype, _ = row.key
    return int(dtype == "bf16")


def in_panels(weights: Any, width: int, half: int) -> Any:
    """Columns cut into panels, whose rows follow each other, bf16 by twos; where ours are, too."""
    depth, columns = weights.shape
    if half:
        cut = weights.reshape(depth // 2, 2, columns // width, width).transpose(2, 0, 3, 1)
    else:
        cut = weights.reshape(depth, columns // width, width).transpose(1, 0, 2)
    return in_huge_pages(jax.block_until_ready(cut))  # type: ignore[no-untyped-call]


@dataclass(frozen=True)
class _Call:
    function: Any
    given: Sequence[Any]
    kept: Sequence[Any]
    """Stays where it is as long as this is there."""
    out: Any

    def __call__(self) -> Any:
        self.function(*self.given)
        return self.out


def _calling(function: Any, sizes: Sequence[int], arrays: Sequence[Any], out: Any) -> _Call:
    places = (*(one.unsafe_buffer_pointer() for one in arrays), out.ctypes.data)
    given = (*map(ctypes.c_long, sizes), *map(ctypes.c_void_p, places))
    function.restype = None
    return _Call(function, given, arrays, out)


def aligned(size: int) -> Any:
    """So many bytes, the first at the beginning of a line."""
    whole = np.empty(size + CACHE_LINE_BYTES, np.uint8)
    begin = -whole.ctypes.data % CACHE_LINE_BYTES
    return whole[begin : begin + size]


def _empty(row: Row) -> Any:
    (output,) = row.program.outputs
    shape = tuple(int(str(size)) for size in output.shape)
    return np.empty(shape, jnp.dtype(ARRAY_NAMES[output.dtype]))
