"""A captured program in torch: under `torch.compile`, or operator by operator by its libraries."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import jax
import numpy as np
import torch
from corpus import Case
from lib.optimizer.paired_timing import repeats, sample
from lib.optimizer.torch_algebra import DTYPES, TorchWords
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.attention import SDPBackend, sdpa_kernel

from aiosearch.capture import capture
from aiosearch.tensor import Program
from aiosearch.tensor.evaluation import evaluate

Tensors: TypeAlias = "tuple[torch.Tensor, ...]"

MODE = "max-autotune"
THREADS = torch.get_num_threads()


class TorchSide:
    """The program of a function, compiled, or one operator after the other.

    Raises CaptureError where it is not one program, and RuntimeError where torch fails.
    """

    def __init__(self, case: Case, values: Sequence[jax.Array], *, compiles: bool = True) -> None:
        captured = capture(case.function, *case.types)
        held = [jax.numpy.asarray(one) for one in captured.constants.values()]
        device = _device(values[0])
        self._inputs = [tensor(one, device) for one in (*values, *held)]
        self._device = device
        torch.set_num_threads(THREADS)
        made = _compiled if compiles else by_libraries
        self._run = made(captured.program, device, self._inputs)
        if device == "cpu":
            torch.set_num_threads(self._best_threads())

    def call(self) -> Tensors:
        """Runs it to the end."""
        with torch.inference_mode():
            found: Tensors = self._run(*self._inputs)
        if self._device == "cuda":
            torch.cuda.synchronize()
        return found

    def results(self) -> list[Any]:
        """What it computes, as NumPy has it."""
        return [one.to(torch.float64).cpu().numpy() for one in self.call()]

    def kernels_us(self, runs: int) -> float | str:
        """Microseconds of all kernels of a call, as the GPU counts them."""
        own = torch.profiler.ProfilerActivity.CUDA
        with torch.profiler.profile(activities=[own]) as seen:
            for _ in range(runs):
                self.call()
        taken = sum(one.self_device_time_total for one in seen.key_averages())
        return round(taken / runs, 2) if taken else "the GPU counted no kernels"

    def in_a_row_us(self, runs: int) -> float:
        """Microseconds of a call, of some that are waited for together."""
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        with torch.inference_mode():
            self._run(*self._inputs)
            begin.record()
            for _ in range(runs):
                self._run(*self._inputs)
            end.record()
        torch.cuda.synchronize()
        return round(begin.elapsed_time(end) / runs * 1e3, 2)

    def _best_threads(self) -> int:
        """All or one: for short work, one alone may be faster."""
        taken = {}
        for threads in (1, THREADS):
            torch.set_num_threads(threads)
            taken[threads] = sample(self.call, repeats(self.call))
        return min(taken, key=taken.__getitem__)


def by_libraries(program: Program, device: str, inputs: Sequence[torch.Tensor]) -> torch.nn.Module:
    """The program as a graph of torch's own operations."""
    words = TorchWords(device)
    dtypes = [DTYPES[str(output.dtype)] for output in program.outputs]

    def run(*arrays: torch.Tensor) -> Tensors:
        found = evaluate(program, words, arrays)
        return tuple(one.to(dtype) for one, dtype in zip(found, dtypes, strict=True))

    with torch.inference_mode():
        graph: torch.nn.Module = make_fx(run)(*inputs)
    return graph


def _compiled(program: Program, device: str, inputs: Sequence[torch.Tensor]) -> Callable[..., Any]:
    """The same graph, compiled."""
    _begin(inputs)
    graph = by_libraries(program, device, inputs)
    with torch.inference_mode(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about hardware that tuning would like to have
        found: Callable[..., Any] = torch.compile(graph, mode=MODE, dynamic=False)
        found(*inputs)
    return found


def _begin(inputs: Sequence[torch.Tensor]) -> None:
    """Forgets what was compiled before, for whichever library, and tells what stays where it is.

    A graph that is replayed would have all others copied into its own memory at each call.
    """
    torch.compiler.reset()
    for one in inputs:
        torch._dynamo.mark_static_address(one)


@contextmanager
def cublaslt() -> Iterator[None]:
    """Products on a GPU are cuBLASLt's meanwhile."""
    before = torch.backends.cuda.preferred_blas_library()
    torch.backends.cuda.preferred_blas_library("cublaslt")
    try:
        yield
    finally:
        torch.backends.cuda.preferred_blas_library(before)


def attention(
    library: str, values: Sequence[jax.Array], scale: float | None, *, normalised: bool
) -> Callable[[], torch.Tensor]:
    """A call of a library's attention; keys come in columns.

    Rows of queries and keys may be divided by the roots of their mean squares first, which torch
    compiles.
    """
    q, k, v = (tensor(one, "cuda")[None] for one in values)
    keys = k.mT.contiguous()

    def whole(queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        if normalised:
            queries, keys = rms(queries), rms(keys)
        attend = torch.nn.functional.scaled_dot_product_attention
        found: torch.Tensor = attend(queries, keys, v, scale=scale)
        return found

    _begin((q, keys, v))
    run = torch.compile(whole, mode=MODE, dynamic=False) if normalised else whole

    def call() -> torch.Tensor:
        with torch.inference_mode(), sdpa_kernel(getattr(SDPBackend, library)):
            found: torch.Tensor = run(q, keys)
        torch.cuda.synchronize()
        return found

    return call


def rms(x: torch.Tensor) -> torch.Tensor:
    wide = x.float()
    return (wide / wide.square().mean(-1, keepdim=True).sqrt()).to(x.dtype)


def tensor(array: jax.Array, device: str) -> torch.Tensor:
    """A copy of an array."""
    wide = array.dtype == jax.numpy.bfloat16
    plain = np.asarray(array.astype("float32") if wide else array).copy()
    found = torch.from_numpy(plain).to(device)
    return found.to(torch.bfloat16) if wide else found


def _device(array: jax.Array) -> str:
    """Where torch has it to be; raises RuntimeError where torch cannot."""
    (device,) = array.devices()
    if device.platform == "gpu" and not torch.cuda.is_available():
        raise RuntimeError("this build has no GPU")
    return "cuda" if device.platform == "gpu" else "cpu"
