"""Executables from source text, built in the process that may die of it."""

from __future__ import annotations

import functools
import io
import pickle
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, TypeAlias

import jax
from jax.experimental import serialize_executable

from ..candidates import ArrayType
from ..protocol import BuildReply, Text
from ..race import Way

LOOPS = 16
"""Runs inside one call of a looped executable."""

LAPACK = b"lapack_"
"""What the names begin with by which an executable of a CPU calls LAPACK."""

GRAPH: Mapping[str, str] = MappingProxyType(
    {
        "xla_gpu_graph_min_graph_size": "1",
        "xla_gpu_enable_command_buffer": (
            "FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,CUDNN,WHILE,CONDITIONAL"
        ),
    }
)
"""With these XLA makes one graph of a loop, which a GPU replays; by default the host asks the GPU
after each turn whether there is another, and that is timed too."""

Call: TypeAlias = Callable[..., Any]


def build(text: Text, ways: tuple[Way, ...]) -> BuildReply:
    """Compiles a function, and its loop where one is to be timed."""
    executable = _serialized(compiled(text))
    looped = _serialized(compiled(text, LOOPS)) if Way.LOOPED in ways else b""
    return BuildReply(executable, looped)


def compiled(text: Text, loops: int = 0) -> Call:
    """Compiles a function, or `loops` runs of it in one call."""
    with _under(text):
        function = _defined(text)
        specs = [_spec(type_) for type_ in text.inputs]
        if not loops:
            return jax.jit(function).lower(*specs).compile()
        options = GRAPH if jax.default_backend() == "gpu" else {}
        loop = jax.jit(repeated(function, loops)).lower(*specs)
        return loop.compile(compiler_options={**options})


def loaded(text: Text, executable: bytes, loops: int = 0) -> Call:
    """Gives what was compiled elsewhere; compiles it here where that cannot be loaded."""
    if not executable:
        return compiled(text, loops)
    try:
        with _under(text):
            _defined(text)  # jax has to know the kernels that the executable calls
        if LAPACK in executable:
            _find_lapack()
        # Our own compile worker wrote it: nothing here came over a network
        serialized, inputs, outputs = pickle.loads(executable)
        devices = jax.devices()[:1]  # it was compiled for one, of however many
        call: Call = serialize_executable.deserialize_and_load(
            serialized, inputs, outputs, execution_devices=devices
        )
    except Exception:  # jaxlib says in many ways that it lacks something
        return compiled(text, loops)
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


def _defined(text: Text) -> Call:
    """Runs the module and finds the function."""
    scope: dict[str, Any] = {"__name__": "candidate"}
    exec(compile(text.source, "candidate.py", "exec"), scope)
    function = scope.get(text.function)
    if not callable(function):
        raise NameError(f"the source defines no function {text.function}")
    call: Call = function
    return call


def repeated(function: Call, loops: int) -> Call:
    """Runs `function` many times. Each run waits for the one before, and none can be left out."""

    def whole(*arguments: Any) -> Any:
        def again(_: Any, carry: tuple[Any, Any]) -> tuple[Any, Any]:
            # The barrier ties the inputs to the last result, or XLA would hoist the call out of the
            # loop
            inputs, _ = _barrier(carry)
            return inputs, function(*inputs)

        first = arguments, function(*arguments)
        return jax.lax.fori_loop(0, loops - 1, again, first)[1]

    return whole


def _spec(type_: ArrayType) -> Any:
    return jax.ShapeDtypeStruct(type_.shape, type_.dtype)  # type: ignore[no-untyped-call]  # jax's


def _barrier(values: tuple[Any, Any]) -> Any:
    return jax.lax.optimization_barrier(values)  # type: ignore[no-untyped-call]  # jax's


def _serialized(call: Any) -> bytes:
    """Gives nothing where it cannot be sent, as when it calls back into Python."""
    try:
        buffer = io.BytesIO()
        pickle.dump(serialize_executable.serialize(call), buffer)
    except Exception:  # jaxlib says in many ways that it cannot
        return b""
    return buffer.getvalue()
