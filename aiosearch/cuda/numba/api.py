"""The names of `numba.cuda`: those that a kernel uses, and those that launch it."""

from __future__ import annotations

import importlib
import sys
import time
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np

from ..compiled.lowering import Choices
from ..cupy_module import cupy_module
from ..errors import LaunchError, SourceError
from ..interpreter.arithmetic import NUMPY
from ..interpreter.findings import KernelFault
from ..ir.types import ScalarType
from ..launches import Array, Dims, Symbols, launch_shape
from ..modules import CudaKernel, KernelLaunch
from .argument_types import (
    SCALARS,
    ArrayArgument,
    ScalarName,
    Signature,
    array_type_of,
    signatures_of,
)
from .translator import translate

_USUAL_BLOCK = 256
Function: TypeAlias = Callable[..., Any]
"""A function of Python's, to be translated."""


class PythonKernel:
    """A Python function as a kernel; `kernel[grid, block]` is a launch, typed when it is called."""

    def __init__(
        self,
        function: Function,
        choices: Choices | None = None,
        signatures: Sequence[Signature] = (),
    ) -> None:
        self.function = function
        self.signatures = _fitting(function, signatures)
        self.symbols = Symbols()
        self.choices = choices or Choices()
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__
        self._kernels: dict[tuple[ScalarType | ArrayArgument, ...], CudaKernel] = {}

    def __getitem__(self, shape: Any) -> PythonLaunch:
        supplied = shape if isinstance(shape, tuple) else (shape,)
        # As in Numba, a stream may stand before the bytes of shared memory.
        shared = (supplied[3] or 0) if len(supplied) > 3 else 0
        grid, block, shared = launch_shape((*supplied[:2], shared), self.__name__)
        return PythonLaunch(self, (grid, block, shared))

    def typed(self, types: tuple[ScalarType | ArrayArgument, ...]) -> CudaKernel:
        """The kernel for arguments of these types; each is translated once."""
        if types not in self._kernels:
            self._kernels[types] = CudaKernel(self, translate(self.function, types))
        return self._kernels[types]

    def bound(self, arguments: Sequence[object]) -> tuple[CudaKernel, list[object]]:
        """The kernel for these arguments, and what it is passed: behind each array its sizes."""
        values: list[object] = []
        for argument in arguments:
            values.append(argument)
            values += getattr(argument, "shape", ())
        return self.typed(self._types(arguments)), values

    def _types(self, arguments: Sequence[object]) -> tuple[ScalarType | ArrayArgument, ...]:
        """Those of the first signature that fits, or those that the arguments have."""
        if not self.signatures:
            return tuple(map(_type_of, arguments))
        names = _names(self.function)
        misfits = []
        for signature in self.signatures:
            misfits.append(signature.misfit(names, arguments))
            if not misfits[-1]:
                return signature.parameters  # the launch converts the numbers to these
        raise LaunchError(f"{self.__name__} has a signature: {'; or '.join(misfits)}")

    def forall(
        self, count: int, tpb: int = 0, stream: object = None, sharedmem: int = 0
    ) -> PythonLaunch:
        """A launch of at least so many threads, in blocks of `tpb`, or of a size that is fine."""
        block = tpb or _USUAL_BLOCK
        return self[max(-(-count // block), 1), block, None, sharedmem]

    def __call__(self, *arguments: object) -> None:
        raise LaunchError(f"{self.__name__} is launched as {self.__name__}[grid, block](...)")


class PythonLaunch:
    """A Python kernel with a shape."""

    def __init__(self, kernel: PythonKernel, shape: tuple[Dims, Dims, int]) -> None:
        self._kernel = kernel
        self._shape = shape

    def __call__(self, *arguments: object) -> None:
        """Runs the kernel on all cores; it writes into the arrays."""
        launch, values = self._bound(arguments)
        launch(*values)

    def interpret(self, *arguments: object) -> None:
        """Does the same by the interpreter."""
        launch, values = self._bound(arguments)
        launch.interpret(*values)

    def check(self, *arguments: object) -> tuple[KernelFault, ...]:
        """Gives every fault that shows with these inputs, with lines of the Python text."""
        launch, values = self._bound(arguments)
        return launch.check(*values)

    def check_compiled(self, *arguments: object) -> tuple[KernelFault, ...]:
        """Gives races and accesses out of bounds, for grids of a real size."""
        launch, values = self._bound(arguments)
        return launch.check_compiled(*values)

    def trial(self, *arguments: object) -> None:
        """Runs it on copies; raises LaunchError where it leaves an array."""
        launch, values = self._bound(arguments)
        launch.trial(*values)

    def _bound(self, arguments: Sequence[object]) -> tuple[KernelLaunch, list[object]]:
        kernel, values = self._kernel.bound(arguments)
        return kernel[self._shape], values


def _names(function: Function) -> tuple[str, ...]:
    code = function.__code__
    return code.co_varnames[: code.co_argcount]


def _fitting(function: Function, signatures: Sequence[Signature]) -> tuple[Signature, ...]:
    """The signatures; raises SourceError for one that takes more or fewer than the function."""
    names = _names(function)
    for signature in signatures:
        if len(signature.parameters) != len(names):
            raise SourceError(
                f"{function.__name__} takes {len(names)} arguments, and its signature"
                f" {len(signature.parameters)}"
            )
    return tuple(signatures)


def _type_of(argument: object) -> ScalarType | ArrayArgument:
    array = array_type_of(argument)
    if array is not None:
        return array
    if isinstance(argument, bool | np.bool_):
        return ScalarType.BOOL
    if isinstance(argument, int):
        return ScalarType.I64
    if isinstance(argument, float):
        return ScalarType.F64
    element = SCALARS.get(getattr(argument, "dtype", np.dtype(object)))
    if element is None:
        raise LaunchError(f"{argument!r} is no argument of a kernel")
    return element


class DeviceFunction:
    """A function that kernels call; it is inlined in them, and converts as its signature says."""

    def __init__(self, function: Function, signatures: Sequence[Signature] = ()) -> None:
        if len(signatures) > 1:
            raise SourceError(f"{function.__name__}: a device function has one signature at most")
        self.device_function = function
        self.device_signature = next(iter(_fitting(function, signatures)), None)
        self.__name__ = function.__name__

    def __call__(self, *arguments: object) -> Any:
        return self.device_function(*arguments)


def jit(*arguments: Any, device: bool = False, **options: object) -> Any:
    """Makes a function a kernel, or a device function; options are not needed.

    With a signature, or a list of them, a kernel takes arrays of these types only, and numbers are
    converted to them where nothing is lost. Without, arguments are of the types that they have.
    """
    # `@jit` is called with the function, and `@jit(...)` with a signature or with nothing.
    functions = [item for item in arguments if isinstance(item, types.FunctionType)]
    supplied = next((item for item in arguments if item not in functions), None)
    supplied = options.get("signature", options.get("func_or_sig", supplied))

    def decorate(function: Function) -> Any:
        signatures = signatures_of(supplied, function.__name__)
        if device:
            return DeviceFunction(function, signatures)
        if any(item.result is not None for item in signatures):
            raise SourceError(f"the kernel {function.__name__} returns nothing: void(...)")
        return PythonKernel(function, None, signatures)

    return decorate(functions[0]) if functions else decorate


class DeviceArray(Array):
    """An array as Numba has them on a GPU: here, a copy in memory."""

    def copy_to_host(self, array: Any = None, stream: object = None) -> Any:
        """A copy, or the elements put into an array that is given."""
        if array is None:
            return np.array(self, subok=False)
        array[...] = self
        return array

    def copy_to_device(self, array: Any, stream: object = None) -> None:
        """Takes over an array's elements."""
        self[...] = array


def to_device(array: Any, stream: object = None, copy: bool = True, to: Any = None) -> DeviceArray:
    """A copy of an array that kernels write to."""
    if to is not None:
        to.copy_to_device(array)
        supplied: DeviceArray = to
        return supplied
    return np.array(array, order="C").view(DeviceArray)


def device_array(shape: Any, dtype: Any = np.float64, **options: object) -> DeviceArray:
    """An array with anything in it."""
    return np.empty(shape, dtype).view(DeviceArray)


def device_array_like(array: Any, stream: object = None) -> DeviceArray:
    """An array of the same shape and type, with anything in it."""
    return np.empty(np.shape(array), array.dtype).view(DeviceArray)


class _Pending:
    """What Numba keeps to free later on a GPU; memory is freed at once here."""

    def clear(self) -> None:
        """Nothing is pending."""


class Device:
    """This processor as the only device: `with cuda.gpus[0]:` selects it, and is its context."""

    id = 0
    name = b"the processor"
    compute_capability = (7, 0)
    deallocations = _Pending()

    def __enter__(self) -> Device:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def synchronize(self) -> None:
        """Launches are done when they return."""


_DEVICES = (Device(),)


def current_device(number: int = 0) -> Device:
    """The device of a number; raises LaunchError for any but 0, as there is one."""
    if number != 0:
        raise LaunchError(f"there is no device {number}: this processor is device 0, the only one")
    return _DEVICES[0]


class NumbaStream:
    """Nothing waits in it, as launches are done when they return."""

    def synchronize(self) -> None:
        """Everything is done."""

    @contextmanager
    def auto_synchronize(self) -> Iterator[NumbaStream]:
        """Everything is done at the end of the block."""
        yield self


_STREAM = NumbaStream()


class NumbaEvent:
    """A moment: what was launched before has ended when it is recorded."""

    def __init__(self, timing: bool = True) -> None:
        self._recorded: float | None = None

    def record(self, stream: object = None) -> None:
        """Takes the time."""
        self._recorded = time.perf_counter()

    def query(self) -> bool:
        """Whether everything before it is done, which it is."""
        return True

    def synchronize(self) -> None:
        """Everything is done."""

    def wait(self, stream: object = None) -> None:
        """Everything is done."""

    def elapsed_time(self, end: NumbaEvent) -> float:
        """Milliseconds from here to another event."""
        if self._recorded is None or end._recorded is None:
            raise LaunchError("an event has to be recorded before time is taken from it")
        return 1e3 * (end._recorded - self._recorded)


def event_elapsed_time(start: NumbaEvent, end: NumbaEvent) -> float:
    """Milliseconds between two events."""
    return start.elapsed_time(end)


@contextmanager
def _nothing(*_: object) -> Iterator[None]:
    yield


def _absent(name: str) -> Any:
    raise AttributeError(
        f"numba.cuda.{name} is not here: aiosearch.cuda.numba has what kernels and those who"
        " launch them use most, as docs/reference/cuda.md lists"
    )


class _InKernel:
    """A name that means something in a kernel only, and what is below it."""

    def __init__(self, path: str, names: str = "") -> None:
        self.cuda_path = path
        for name in names.split():
            setattr(self, name, _InKernel(f"{path}.{name}"))

    def __call__(self, *arguments: object) -> Any:
        raise LaunchError(f"cuda.{self.cuda_path} is for kernels")


def _module() -> Any:
    module: Any = types.ModuleType("numba.cuda", "What kernels and those who launch them name.")
    module.jit = jit
    module.to_device = to_device
    module.device_array = device_array
    module.device_array_like = device_array_like
    module.pinned_array = device_array
    module.synchronize = lambda: None
    module.close = lambda: None
    module.stream = module.default_stream = lambda: _STREAM
    module.event = NumbaEvent
    module.event_elapsed_time = event_elapsed_time
    module.pinned = module.defer_cleanup = _nothing
    module.__getattr__ = _absent
    module.gpus = _DEVICES
    module.list_devices = lambda: _DEVICES
    module.current_context = current_device
    module.get_current_device = current_device
    module.select_device = current_device
    module.is_available = lambda: True
    module.detect = lambda: True
    for name in ("threadIdx", "blockIdx", "blockDim", "gridDim"):
        setattr(module, name, _InKernel(name, "x y z"))
    for name in [
        "grid",
        "gridsize",
        "syncthreads",
        "syncwarp",
        "threadfence",
        "shfl_sync",
        "shfl_up_sync",
        "shfl_down_sync",
        "shfl_xor_sync",
        "ballot_sync",
        "any_sync",
        "all_sync",
        "popc",
        "clz",
        "ffs",
        "brev",
        "fma",
        "laneid",
        "warpsize",
        "threadfence_block",
        "threadfence_system",
    ]:
        setattr(module, name, _InKernel(name))
    module.shared = _InKernel("shared", "array")
    module.local = _InKernel("local", "array")
    names = "add sub max min and_ or_ xor exch inc dec cas compare_and_swap"
    module.atomic = _InKernel("atomic", names)
    return module


cuda = _module()


@contextmanager
def patched() -> Iterator[None]:
    """Has `numba.cuda` and `cupy` be those of here, so that code written for them runs unchanged.

    Where Numba is not installed, `import numba` gives a module with `cuda` and types of elements.
    Modules that were imported before keep the names that they have imported.
    """
    replaced = ("numba", "numba.cuda", "cupy")
    before = {name: sys.modules.get(name) for name in replaced}
    try:
        numba: Any = importlib.import_module("numba")
    except ImportError:
        numba = types.ModuleType("numba")
        numba.__path__ = []
        for dtype in NUMPY.values():
            setattr(numba, dtype.name, ScalarName(dtype.name))
        numba.boolean, numba.void = ScalarName("bool"), ScalarName("void")
        sys.modules["numba"] = numba
    owned = getattr(numba, "cuda", None)
    numba.cuda = cuda
    sys.modules["numba.cuda"] = cuda
    sys.modules["cupy"] = cupy_module()
    try:
        yield
    finally:
        if owned is None:
            del numba.cuda
        else:
            numba.cuda = owned
        for name, module in before.items():
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module
