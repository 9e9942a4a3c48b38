"""Executables from source text, built in the process that may die of it."""

from __future__ import annotations

import functools
import io
import math
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import jax
import numpy as np
from jax.experimental import serialize_executable

from ..candidates import ArrayType, PyTree
from ..processor import last_cache
from ..protocol import BuildReply, Text
from ..race import Way
from .inputs import BEYOND

LAPACK = b"lapack_"
"""What the names begin with by which an executable of a CPU calls LAPACK."""

GRAPH: Mapping[str, str] = MappingProxyType(
    {
        "xla_gpu_graph_min_graph_size": "1",
        "xla_gpu_enable_command_buffer": (
            "FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,CUDNN,WHILE,CONDITIONAL"
        ),
        "xla_gpu_command_buffer_scheduling_mode": "SERIALIZE",
    }
)
"""With these XLA makes one graph of a loop, which a GPU replays; by default the host asks the GPU
after each turn whether there is another, and that is timed too. In the graph each kernel waits for
the one before: by default those may run at the same time that share no buffer, as turns on several
copies of the inputs do, since XLA drops the barriers between them before it makes the graph."""

Call: TypeAlias = Callable[..., PyTree]


class TimingLoop(NamedTuple):
    """The runs inside one call of a looped executable, and the copies of inputs they rotate."""

    turns: int
    copies: int


CPU_LOOP = TimingLoop(16, 1)
GPU_TURNS = 128
"""On a GPU a call of a graph takes some 40 microseconds beside its kernels, H100 and jax 0.11.2:
with 128 turns that is a third of a microsecond for each."""
MOST_LOOP_BYTES = 16 << 30
"""What a loop reads at most: where one run reads much, fewer turns tell as well."""
MOST_LOOP_COPIES = 8
"""What the body of the loop is compiled for so many times."""


def timing_loop(inputs: Sequence[ArrayType]) -> TimingLoop:
    """The loop for a function of such inputs, on the backend that jax has here.

    Weights of 32 MiB lie in the 50 MiB cache of an H100 from one turn to the next, and a kernel
    that reads them seems faster than the device's memory. So on a GPU turns rotate copies that no
    cache holds together; of inputs so small that eight copies fit, the cache keeps some.

    >>> timing_loop([ArrayType("bfloat16", (8, 4096)), ArrayType("bfloat16", (4096, 6144))])
    TimingLoop(turns=128, copies=4)
    """
    if jax.default_backend() != "gpu":
        return CPU_LOOP
    size = sum(math.prod(array.shape) * np.dtype(array.dtype).itemsize for array in inputs)
    beyond = BEYOND * last_cache("gpu")
    copies = 1
    while copies < MOST_LOOP_COPIES and size < beyond and (copies - 1) * size < beyond:
        copies *= 2
    turns = GPU_TURNS
    while turns > CPU_LOOP.turns and turns * size > MOST_LOOP_BYTES:
        turns //= 2
    return TimingLoop(turns, copies)


def build(text: Text, ways: tuple[Way, ...]) -> BuildReply:
    """Compiles a function, and its loop where one is to be timed."""
    executable = _serialized(compiled(text))
    loop = timing_loop(text.inputs)
    looped = _serialized(compiled(text, loop)) if Way.LOOPED in ways else b""
    return BuildReply(executable, looped)


def compiled(text: Text, loop: TimingLoop | None = None) -> Call:
    """Compiles a function, or the runs of a loop in one call, which takes all copies in a row."""
    with _under(text):
        function = defined(text)
        specs = [_spec(each) for each in text.inputs]
        if loop is None:
            return jax.jit(function).lower(*specs).compile()
        options = GRAPH if jax.default_backend() == "gpu" else {}
        lowered = jax.jit(repeated(function, *loop)).lower(*specs * loop.copies)
        return lowered.compile(compiler_options={**options})


def loaded(text: Text, executable: bytes, loop: TimingLoop | None = None) -> Call:
    """Gives what was compiled elsewhere; compiles it here where that cannot be loaded."""
    if not executable:
        return compiled(text, loop)
    try:
        with _under(text):
            defined(text)  # jax has to know the kernels that the executable calls
        if LAPACK in executable:
            _find_lapack()
        # Our own compile worker wrote it: nothing here came over a network
        serialized, inputs, outputs = pickle.loads(executable)
        devices = jax.devices()[:1]  # it was compiled for one, of however many
        call: Call = serialize_executable.deserialize_and_load(
            serialized, inputs, outputs, execution_devices=devices
        )
    except Exception:  # jaxlib says in many ways that it lacks something
        return compiled(text, loop)
    return call


@functools.cache
def _find_lapack() -> None:
    """Has jax find LAPACK for this process. It imports SciPy for that, so only where needed.

    jax finds all of it where it lowers a call of any of it, and nowhere else: what is only
    loaded would call what is not there yet.
    """
    jax.jit(jax.lax.linalg.cholesky).lower(_spec(ArrayType("float32", (1, 1))))


@contextmanager
def _under(text: Text) -> Iterator[None]:
    """Sets jax's `x64`, precision and promotion as the text wants them."""
    with (
        jax.enable_x64(text.x64),
        jax.default_matmul_precision(text.precision),
        jax.numpy_dtype_promotion(text.promotion),
    ):
        yield


def defined(text: Text) -> Call:
    """Runs the module and finds the function."""
    scope: dict[str, Any] = {"__name__": "candidate"}
    exec(compile(text.source, "candidate.py", "exec"), scope)
    function = scope.get(text.function)
    if not callable(function):
        raise NameError(f"the source defines no function {text.function}")
    call: Call = function
    return call


def repeated(function: Call, turns: int, copies: int = 1) -> Call:
    """Runs it many times. Each run waits for the one before, and none can be left out.

    What is returned takes `copies` sets of inputs, one set after the other, and gives as many
    results. A turn of XLA's loop has a run for each set, so what the loop itself does, two small
    kernels on a GPU that count and compare, is there once in so many runs:

        repeated(f, 128, 2)(x, w, x2, w2)    # f(x, w), f(x2, w2), f(x, w), ..., 64 times each
    """
    assert turns % copies == 0, (turns, copies)

    def whole(*arguments: PyTree) -> PyTree:
        each = len(arguments) // copies
        sets = tuple(arguments[at * each : (at + 1) * each] for at in range(copies))

        def run(sets: PyTree, results: PyTree) -> PyTree:
            """One of each set; a barrier of its inputs and the result before keeps the order."""
            outputs = []
            before = results
            for inputs in sets:
                inputs, _ = _barrier((inputs, before))
                before = function(*inputs)
                outputs.append(before)
            return tuple(outputs)

        def again(_: PyTree, carry: tuple[PyTree, PyTree]) -> tuple[PyTree, PyTree]:
            sets, results = _barrier(carry)
            return sets, run(sets, results)

        first = sets, run(sets, ())
        return jax.lax.fori_loop(0, turns // copies - 1, again, first)[1]

    return whole


def _spec(type_: ArrayType) -> Any:
    return jax.ShapeDtypeStruct(type_.shape, type_.dtype)  # type: ignore[no-untyped-call]  # jax's


def _barrier(values: tuple[PyTree, PyTree]) -> PyTree:
    return jax.lax.optimization_barrier(values)  # type: ignore[no-untyped-call]  # jax's


def _serialized(call: Any) -> bytes:
    """Gives nothing where it cannot be sent, as when it calls back into Python."""
    try:
        buffer = io.BytesIO()
        pickle.dump(serialize_executable.serialize(call), buffer)
    except Exception:  # jaxlib says in many ways that it cannot
        return b""
    return buffer.getvalue()
