"""Host functions: what allocates, copies, loops around launches and swaps pointers between them.

The interpreter runs a host function as a grid of one thread. Its pointers are addresses of the
interpreter's memory, so an overrun in host code is noticed; a launch hands a kernel the machine
addresses of the same bytes, and the kernel runs compiled, on all cores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

from .errors import CudaError, LaunchError
from .interpreter.memory import AddressSpace, MemoryBuffer
from .interpreter.threads import Run
from .ir.operations import CallOperation, ParallelFunction
from .ir.types import ScalarType
from .launches import Array, Dims, Symbols, array_of, flattened, scalar_of

Words: TypeAlias = list[Any]
"""The operands of a call as numbers: addresses, sizes, and what a kernel is passed."""

_SUCCESS = np.asarray(0, np.int32)


class Launcher(Protocol):
    """Runs a kernel by name on machine addresses and numbers."""

    def __call__(
        self,
        kernel: str,
        grid: Dims,
        block: Dims,
        shared: int,
        values: Sequence[int | float | bool],
    ) -> None: ...


class HostFunction:
    """A host function; called with arrays and numbers, it gives what the C++ function returns."""

    def __init__(self, function: ParallelFunction, symbols: Symbols, launcher: Launcher) -> None:
        self.function = function
        self._symbols = symbols
        self._launcher = launcher

    def __repr__(self) -> str:
        return f"<host function {self.function.name}>"

    def __call__(self, *arguments: object) -> int | float | bool | None:
        return _Session(self.function, self._symbols, self._launcher)(arguments)


class _Session:
    """One call."""

    def __init__(self, function: ParallelFunction, symbols: Symbols, launcher: Launcher) -> None:
        self._function = function
        self._launcher = launcher
        self._memory = AddressSpace()
        self._symbols = {
            name: int(self._memory.adopt(name, array).base())
            for name, array in symbols.of(function).items()
        }

    def __call__(self, arguments: Sequence[object]) -> int | float | bool | None:
        function = self._function
        values: list[int | float | bool] = []
        bases: dict[int, int] = {}
        for parameter, value in zip(
            function.parameters, flattened(function, arguments), strict=True
        ):
            if parameter.value.type is not ScalarType.PTR:
                values.append(scalar_of(parameter, value, function.name))
            elif value is None:
                values.append(0)
            else:
                array = array_of(parameter, value, function.name)
                start = array.ctypes.data
                if start not in bases:
                    bases[start] = int(self._memory.adopt(parameter.name, array).base())
                values.append(bases[start])
        first = (1, 1, 1)
        results = Run(
            function, first, first, self._memory, values, self._symbols, outside=self._outside
        )()
        return results[0].reshape(-1)[0].item() if results else None

    def _outside(self, call: CallOperation, operands: Sequence[Array]) -> Array | None:
        values = [entry.reshape(-1)[0].item() for entry in operands]
        if call.name == "launch":
            self._launch(call, values)
            return None
        action = _ACTIONS.get(call.name)
        if action is None:
            raise CudaError(f"{call.at}: {call.name} is not supported in a host function")
        return action(self, values)

    def _launch(self, call: CallOperation, values: Words) -> None:
        grid, block = tuple(values[:3]), tuple(values[3:6])
        passed: list[int | float | bool] = []
        for operand, value in zip(call.operands[7:], values[7:], strict=True):
            # The kernel runs on the bytes themselves, so nothing is copied for a launch.
            passed.append(self._machine_address(value) if operand.type is ScalarType.PTR else value)
        try:
            self._launcher(call.text, grid, block, values[6], passed)
        except LaunchError as error:
            raise LaunchError(f"{call.at}: {error}") from None

    def _machine_address(self, address: int) -> int:
        if not address:
            return 0
        try:
            buffer, offset = self._memory.at(address)
        except KeyError:
            raise LaunchError("a pointer that is passed points to nothing") from None
        return int(buffer.data.ctypes.data) + offset

    def _bytes(self, address: int, size: int) -> Array:
        try:
            buffer, offset = self._memory.at(address)
        except KeyError:
            raise CudaError("a copy goes through a pointer to nothing") from None
        if offset < 0 or offset + size > buffer.data.size:
            raise CudaError(
                f"a copy of {size} bytes from byte {offset} on is not within {buffer.name}, which"
                f" has {buffer.data.size}"
            )
        if buffer.initialized is not None:
            buffer.initialized[offset : offset + size] = True
        return buffer.data[offset : offset + size]

    def _new(self, size: int) -> MemoryBuffer:
        return self._memory.allocate("allocated memory", max(size, 1), initialized=True)

    def allocate_device(self, values: Words) -> Array:
        target, size = values
        address = int(self._new(size).base())
        self._bytes(target, 8)[:] = np.array([address], np.int64).view(np.uint8)
        return _SUCCESS

    def allocate(self, values: Words) -> Array:
        return np.asarray(self._new(values[0]).base(), np.int64)

    def copy(self, values: Words) -> Array:
        target, source, size = values[:3]
        self._bytes(target, size)[:] = self._bytes(source, size).copy()
        return _SUCCESS

    def fill(self, values: Words) -> Array:
        target, value, size = values
        self._bytes(target, size)[:] = value & 0xFF
        return _SUCCESS

    def copy_to_symbol(self, values: Words) -> Array:
        symbol, source, size = values[:3]
        offset = values[3] if len(values) > 3 else 0
        self._bytes(symbol + offset, size)[:] = self._bytes(source, size)
        return _SUCCESS

    def copy_from_symbol(self, values: Words) -> Array:
        target, symbol, size = values[:3]
        offset = values[3] if len(values) > 3 else 0
        self._bytes(target, size)[:] = self._bytes(symbol + offset, size)
        return _SUCCESS

    def release(self, values: Words) -> Array:
        if values[0]:
            try:
                self._memory.release(self._memory.at(values[0])[0])
            except KeyError:
                raise CudaError("memory is freed that is not allocated") from None
        return _SUCCESS

    def succeed(self, values: Words) -> Array:
        return _SUCCESS


_ACTIONS: dict[str, Callable[[_Session, Words], Array]] = {
    "cudaMalloc": _Session.allocate_device,
    "malloc": _Session.allocate,
    "cudaMemcpy": _Session.copy,
    "memcpy": _Session.copy,
    "cudaMemset": _Session.fill,
    "memset": _Session.fill,
    "cudaMemcpyToSymbol": _Session.copy_to_symbol,
    "cudaMemcpyFromSymbol": _Session.copy_from_symbol,
    "cudaFree": _Session.release,
    "free": _Session.release,
    "cudaDeviceSynchronize": _Session.succeed,
    "cudaThreadSynchronize": _Session.succeed,
    "cudaGetLastError": _Session.succeed,
    "cudaPeekAtLastError": _Session.succeed,
    "cudaSetDevice": _Session.succeed,
}
