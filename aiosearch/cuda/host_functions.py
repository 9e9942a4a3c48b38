"""Host functions: what allocates, copies, loops around launches and swaps pointers between them.

A host function is one thread, so its operations are functions of Python, on numbers of Python, in
a list of what each value is. Its pointers are addresses of the interpreter's memory, so an overrun
in host code is noticed; a launch hands a kernel the machine addresses of the same bytes, and the
kernel runs compiled, on all cores.

    %7 = add %5, 1        values[7] = within(values[5] + values[6]), where values[6] is 1
"""

from __future__ import annotations

import struct
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from .compiled.lowering import Choices, LaunchRegion, joins
from .errors import CudaError, LaunchError
from .interpreter import arithmetic
from .interpreter.findings import FindingKind
from .interpreter.memory import AddressSpace, MemoryBuffer
from .interpreter.threads import formatted
from .ir.operations import (
    NOWHERE,
    Address,
    Alloc,
    CallOperation,
    Compute,
    ConstantOperand,
    For,
    If,
    IrValue,
    Load,
    Operand,
    Operation,
    ParallelFunction,
    Region,
    SourceLocation,
    Store,
    While,
    regions,
    walk,
)
from .ir.types import ScalarType
from .launches import Array, Dims, Symbols, array_of, check_shape, flattened, scalar_of
from .passes.affine import raised
from .passes.coarsening import FusedLaunch, fused

if TYPE_CHECKING:
    from .library_calls import LibraryCalls
    from .library_kernels import LibraryServers

Words: TypeAlias = list[Any]
"""The operands of a call as numbers: addresses, sizes, and what a kernel is passed."""

Number: TypeAlias = int | float | bool
_Step: TypeAlias = "Callable[[list[Number], _Session], None]"
"""Does an operation."""
_FORMATS = {
    ScalarType.BOOL: "?",
    ScalarType.I8: "b",
    ScalarType.U8: "B",
    ScalarType.I16: "h",
    ScalarType.U16: "H",
    ScalarType.I32: "i",
    ScalarType.U32: "I",
    ScalarType.I64: "q",
    ScalarType.U64: "Q",
    ScalarType.F16: "e",
    ScalarType.F32: "f",
    ScalarType.F64: "d",
    ScalarType.PTR: "q",
}
"""What the module `struct` calls the types, in the order of bytes of this machine."""
_MOST_TURNS = 1 << 22
"""Turns of one `while` after which it is taken to be endless."""
_MOST_ATTEMPTS = 16
"""How often two kernels are looked at that are launched with ever new numbers."""
_SUCCESS = 0


@dataclass(frozen=True, slots=True)
class MachineLaunch:
    """A launch on machine addresses and numbers."""

    kernel: FusedLaunch
    grid: Dims
    block: Dims
    shared: int
    buffers: dict[int, int]
    """The number of the piece of memory in which each address lies."""


class Launcher(Protocol):
    """The module of a host function: it has kernels, and runs them."""

    symbols: Symbols
    choices: Choices
    libraries: LibraryServers

    def kernel_function(self, name: str) -> ParallelFunction: ...

    def run_launch(self, launch: MachineLaunch) -> None: ...

    def run_region(self, region: LaunchRegion, values: Sequence[Number]) -> bool: ...


class HostFunction:
    """A host function; called with arrays and numbers, it gives what the C++ function returns."""

    def __init__(self, function: ParallelFunction, module: Launcher) -> None:
        self.function = function
        self.module = module
        self.fuses: bool | None = None
        """Whether neighbouring launches become one; none means that the module's choices say."""
        self.refusals: dict[tuple[str, str], str] = {}
        """Why two neighbouring kernels were not fused, by their names."""
        self.decisions: tuple[str, ...] = ()
        """What became of the loop nests in the last call that looked at them."""
        self._raised: dict[tuple[object, ...], _Body] = {}
        self._fusions: dict[tuple[object, ...], ParallelFunction | None] = {}
        self._attempts: Counter[tuple[str, str]] = Counter()

    def __repr__(self) -> str:
        return f"<host function {self.function.name}>"

    def __call__(self, *arguments: object) -> Number | None:
        return _Session(self)(arguments)

    def __getitem__(self, shape: object) -> None:
        raise LaunchError(f"{self.function.name} is a host function, which launches: call it")

    def tune(self, *arguments: object, rounds: int = 6) -> bool:
        """Measures whether fused launches are faster; later calls do what is. Arrays are copied."""
        times: dict[bool, list[float]] = {True: [], False: []}
        for turn in range(rounds + 1):
            for fuses in times:
                self.fuses = fuses
                copies = [
                    item.copy() if isinstance(item, np.ndarray) else item for item in arguments
                ]
                start = time.perf_counter()
                self(*copies)
                if turn:  # the first compiles
                    times[fuses].append(time.perf_counter() - start)
        self.fuses = min(times[True]) < min(times[False])
        return self.fuses

    def body(self, values: Sequence[int | float | bool], buffers: Mapping[int, int]) -> _Body:
        """What a call with these arguments does; its loop nests are launches."""
        function = self.function
        key: tuple[object, ...] = ()
        if self.module.choices.raises and any(
            isinstance(item, For) for item in walk(function.body)
        ):
            whole = [
                item.value.type in (ScalarType.PTR, ScalarType.BOOL) or item.value.type.is_integer
                for item in function.parameters
            ]
            key = _pattern(
                [value for value, counts in zip(values, whole, strict=True) if counts], buffers
            )
        if key not in self._raised:
            self._raised[key] = self._looked_at(values, buffers) if key else _Body.of(function, {})
            self.decisions = self._raised[key].decisions
        return self._raised[key]

    def _looked_at(self, values: Sequence[int | float | bool], buffers: Mapping[int, int]) -> _Body:
        numbers: dict[IrValue, ConstantOperand] = {}
        memory: dict[IrValue, int] = {}
        for parameter, value in zip(self.function.parameters, values, strict=True):
            type = parameter.value.type
            if type is ScalarType.PTR and value in buffers:
                memory[parameter.value] = buffers[int(value)]
            elif type.is_integer:
                numbers[parameter.value] = ConstantOperand(value, type)
        for place, operation in enumerate(walk(self.function.body)):
            if isinstance(operation, Alloc):
                memory[operation.result] = -1 - place
        prefix = f"{self.function.name}_nest{len(self._raised)}_"
        affine = self.module.choices.affine
        result = raised(self.function, numbers, memory, prefix, affine=affine)
        return _Body.of(result.function, result.kernels, result.decisions)

    def fused(self, first: MachineLaunch, second: MachineLaunch) -> MachineLaunch | None:
        """Two launches as one, where that is legal; what was found is remembered."""
        if (first.grid, first.block, first.shared, second.shared) != (
            second.grid,
            second.block,
            0,
            0,
        ):
            return None
        buffers = {**first.buffers, **second.buffers}
        names = (first.kernel.function.name, second.kernel.function.name)
        values = (*first.kernel.values, *second.kernel.values)
        key = (names, first.grid, first.block, *_pattern(values, buffers))
        if key not in self._fusions:
            # A number that changes with every launch would have every one analysed.
            self._attempts[names] += 1
            if self._attempts[names] > _MOST_ATTEMPTS:
                return None
            joined = fused(first.kernel, second.kernel, first.grid, first.block, buffers)
            self._fusions[key] = None if isinstance(joined, str) else joined.function
            if isinstance(joined, str):
                self.refusals[names] = joined
        function = self._fusions[key]
        if function is None:
            return None
        return replace(first, kernel=FusedLaunch(function, values), buffers=buffers)


@dataclass(frozen=True, slots=True)
class _Body:
    """What a host function does for some arguments."""

    function: ParallelFunction
    kernels: dict[str, ParallelFunction]
    """Those that its loop nests became."""
    followed: set[int]
    decisions: tuple[str, ...]
    program: _Program

    @staticmethod
    def of(
        function: ParallelFunction,
        kernels: dict[str, ParallelFunction],
        decisions: tuple[str, ...] = (),
    ) -> _Body:
        program = _Program(function, kernels)
        return _Body(function, kernels, _followed(function.body), decisions, program)


class _Program:
    """A host function as steps, each of which changes the values or the memory of a session."""

    def __init__(self, function: ParallelFunction, kernels: Mapping[str, ParallelFunction]) -> None:
        self._kernels = kernels
        self._places: dict[IrValue, int] = {}
        self._initial: list[Number] = []
        self._parameters = [self._place(item.value) for item in function.parameters]
        self._symbols = [(self._place(item.value), item.name) for item in function.symbols]
        self._body = self._region(function.body)
        self._results = [self._place(item) for item in function.body.yields]

    def run(
        self, session: _Session, arguments: Sequence[Number], symbols: Mapping[str, int]
    ) -> list[Number]:
        """Gives what the function returns."""
        values = self._initial.copy()
        for place, argument in zip(self._parameters, arguments, strict=True):
            values[place] = argument
        for place, name in self._symbols:
            values[place] = symbols[name]
        _do(self._body, values, session)
        return [values[place] for place in self._results]

    def _place(self, operand: Operand) -> int:
        """Where a value is in the list; constants are there from the beginning."""
        if isinstance(operand, ConstantOperand):
            self._initial.append(arithmetic.array(operand).item())
            return len(self._initial) - 1
        if operand not in self._places:
            self._places[operand] = len(self._initial)
            self._initial.append(0)
        return self._places[operand]

    def _region(self, region: Region) -> tuple[_Step, ...]:
        steps: list[_Step] = []
        together: list[Operation] = []
        for operation in region.operations:
            if joins(operation, self._kernels, ()):
                # Arithmetic between launches is done before them: it uses nothing of theirs.
                if isinstance(operation, Compute):
                    steps.append(self._step(operation))
                else:
                    together.append(operation)
                continue
            steps += self._launches(together)
            together = []
            steps.append(self._step(operation))
        return (*steps, *self._launches(together))

    def _launches(self, operations: Sequence[Operation]) -> list[_Step]:
        """Launches and loops around launches, a `LaunchRegion` if that wakes threads less often."""
        plain = tuple(self._step(item) for item in operations)
        if len(plain) < 2 and not any(isinstance(item, For) for item in operations):
            return list(plain)
        region = LaunchRegion(operations)
        places = [self._place(item) for item in region.inputs]

        def launches(values: list[Number], session: _Session) -> None:
            if not session.run_region(region, [values[place] for place in places]):
                _do(plain, values, session)

        return [launches]

    def _step(self, operation: Operation) -> _Step:
        match operation:
            case Compute():
                return self._compute(operation)
            case Load(result=result, address=address, at=at):
                return self._load(self._place(result), address, result.type, at)
            case Store(address=address, value=value, type=type, at=at):
                return self._store(address, self._place(value), type, at)
            case Alloc():
                return self._alloc(operation)
            case If():
                return self._if(operation)
            case For():
                return self._for(operation)
            case While():
                return self._while(operation)
            case CallOperation():
                return self._call(operation)
            case _:
                at = getattr(operation, "at", NOWHERE)
                kind = operation.__class__.__name__
                raise CudaError(f"{at}: {kind} is for kernels, and not for host functions")

    def _compute(self, operation: Compute) -> _Step:
        result, name = self._place(operation.result), operation.name
        if not operation.operands:
            # Of one thread in one block, all sizes are 1 and all indices 0.
            self._initial[result] = int(".dim." in name)
            return _nothing
        types = [item.type for item in operation.operands]
        function = arithmetic.scalar(name, operation.result.type, types)
        places = [self._place(item) for item in operation.operands]
        if len(places) == 1:
            (only,) = places

            def of_one(values: list[Number], session: _Session) -> None:
                values[result] = function(values[only])

            return of_one
        if len(places) == 2:
            left, right = places

            def of_two(values: list[Number], session: _Session) -> None:
                values[result] = function(values[left], values[right])

            return of_two

        def of_several(values: list[Number], session: _Session) -> None:
            values[result] = function(*[values[place] for place in places])

        return of_several

    # --- memory

    def _address(self, address: Address) -> tuple[int, int, int, int]:
        return self._place(address.base), self._place(address.index), address.scale, address.offset

    def _load(self, result: int, address: Address, type: ScalarType, at: SourceLocation) -> _Step:
        base, index, scale, offset = self._address(address)
        read, size = struct.Struct(_FORMATS[type]).unpack_from, type.size

        def load(values: list[Number], session: _Session) -> None:
            place = int(values[base] + values[index] * scale + offset)
            data, position = session.cell(place, size, at, "read")
            values[result] = read(data, position)[0]

        return load

    def _store(self, address: Address, value: int, type: ScalarType, at: SourceLocation) -> _Step:
        base, index, scale, offset = self._address(address)
        write, size = struct.Struct(_FORMATS[type]).pack_into, type.size

        def store(values: list[Number], session: _Session) -> None:
            place = int(values[base] + values[index] * scale + offset)
            data, position = session.cell(place, size, at, "write")
            write(data, position, values[value])

        return store

    def _alloc(self, operation: Alloc) -> _Step:
        result, name, size = self._place(operation.result), operation.result.hint, operation.size

        def alloc(values: list[Number], session: _Session) -> None:
            values[result] = session.new(size or 0, name or operation.space.value)

        return alloc

    # --- what has regions

    def _moves(self, sources: Sequence[Operand], targets: Sequence[IrValue]) -> _Step:
        """Values from places to places, all at once: a loop may swap two."""
        first = [self._place(item) for item in sources]
        second = [self._place(item) for item in targets]
        if not first:
            return _nothing

        def move(values: list[Number], session: _Session) -> None:
            # Read before anything is written: a turn may give two variables each other's value.
            taken = [values[place] for place in first]
            for place, value in zip(second, taken, strict=True):
                values[place] = value

        return move

    def _if(self, operation: If) -> _Step:
        condition = self._place(operation.condition)
        then, otherwise = (
            (*self._region(region), self._moves(region.yields, operation.results))
            for region in (operation.then, operation.otherwise)
        )

        def branch(values: list[Number], session: _Session) -> None:
            _do(then if values[condition] else otherwise, values, session)

        return branch

    def _for(self, operation: For) -> _Step:
        counter, step = self._place(operation.counter), operation.step
        low, high = self._place(operation.low), self._place(operation.high)
        begin = self._moves(operation.initial, operation.carried)
        body = (
            *self._region(operation.body),
            self._moves(operation.body.yields, operation.carried),
        )
        end = self._moves(operation.carried, operation.results)

        def loop(values: list[Number], session: _Session) -> None:
            # `range` is counted by C code, and its end is looked at once, as in C++ it may not be
            # changed by what the loop carries.
            begin(values, session)
            for count in range(int(values[low]), int(values[high]), step):
                values[counter] = count
                _do(body, values, session)
            end(values, session)

        return loop

    def _while(self, operation: While) -> _Step:
        condition = self._place(operation.carried[0])
        begin = self._moves(operation.initial, operation.carried)
        body = (
            *self._region(operation.body),
            self._moves(operation.body.yields, operation.carried),
        )
        end = self._moves(operation.carried, operation.results)

        def loop(values: list[Number], session: _Session) -> None:
            begin(values, session)
            turns = 0
            while values[condition]:
                _do(body, values, session)
                turns += 1
                if turns > _MOST_TURNS:
                    raise CudaError(
                        f"{operation.at}: endless: the loop does not end in {_MOST_TURNS} turns"
                    )
            end(values, session)

        return loop

    def _call(self, operation: CallOperation) -> _Step:
        places = [self._place(item) for item in operation.operands]
        result = -1 if operation.result is None else self._place(operation.result)

        def call(values: list[Number], session: _Session) -> None:
            answer = session.call(operation, [values[place] for place in places])
            if result >= 0:
                values[result] = answer

        return call


def _do(steps: Sequence[_Step], values: list[Number], session: _Session) -> None:
    for step in steps:
        step(values, session)


def _nothing(values: list[Number], session: _Session) -> None:
    """A value that is there from the beginning."""


def _pattern(
    values: Sequence[int | float | bool], buffers: Mapping[int, int]
) -> tuple[object, ...]:
    """Numbers as they are, and addresses by which piece of memory they are in and how far apart."""
    origin: dict[int, tuple[int, int]] = {}
    listed: list[object] = []
    for value in values:
        if not isinstance(value, int) or value not in buffers:
            listed.append(value)
            continue
        place, first = origin.setdefault(buffers[value], (len(origin), value))
        listed.append((place, value - first))
    return tuple(listed)


def _followed(block: Region) -> set[int]:
    """The launches, by their `id`, behind which another one comes with only arithmetic between."""
    collected: set[int] = set()
    last: CallOperation | None = None
    for operation in block.operations:
        if isinstance(operation, CallOperation) and operation.name == "launch":
            if last is not None:
                collected.add(id(last))
            last = operation
        elif not isinstance(operation, Compute):
            last = None
        for region in regions(operation):
            collected |= _followed(region)
    return collected


class _Session:
    """One call."""

    def __init__(self, host: HostFunction) -> None:
        self._function = host.function
        self._host = host
        self._module = host.module
        self._memory = AddressSpace()
        self._symbols = {
            name: int(self._memory.adopt(name, array).base())
            for name, array in host.module.symbols.of(host.function).items()
        }
        self._fuses = host.module.choices.fuses if host.fuses is None else host.fuses
        self._body: _Body
        """What it does, once its arguments are known."""
        self._libraries: LibraryCalls | None = None
        self._output: Callable[[str], None] = print
        self._pending: MachineLaunch | None = None
        """A launch that waits for its neighbour; only arithmetic is done meanwhile."""

    def __call__(self, arguments: Sequence[object]) -> Number | None:
        function = self._function
        values: list[int | float | bool] = []
        bases: dict[int, int] = {}
        adopted: list[Array] = []
        overlapping = False
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
                    # Views of one array overlap, so they count as one piece of memory.
                    overlapping |= any(np.may_share_memory(array, item) for item in adopted)
                    adopted.append(array)
                    bases[start] = int(self._memory.adopt(parameter.name, array).base())
                values.append(bases[start])
        buffers = {base: self._memory.at(base)[0].number for base in bases.values()}
        if overlapping:
            buffers = dict.fromkeys(buffers, 0)
        self._fuses &= not overlapping
        self._body = self._host.body(values, buffers)
        results = self._body.program.run(self, values, self._symbols)
        return results[0] if results else None

    def call(self, call: CallOperation, values: Words) -> Number:
        """Does what the function calls."""
        match call.name:
            case "launch":
                self._launch(call, values)
            case "printf":
                self._output(formatted(call.text, values))
            case "eprintf":
                sys.stderr.write(formatted(call.text, values))
            case "quit":
                code = f"exit({values[0]})" if values else "abort()"
                raise CudaError(f"{call.at}: the host function ends the program: {code}")
            case "assert" if not values[0]:
                raise CudaError(f"{call.at}: assertion: the assertion fails on the host")
            case "assert" | "exit" | "clock":
                pass
            case name if name.startswith(("cublas", "cudnn")):
                self._call_library(call, values)
            case name if name in _ACTIONS:
                return _ACTIONS[name](self, values)
            case name:
                raise CudaError(f"{call.at}: {name} is not supported in a host function")
        return _SUCCESS

    def cell(
        self, address: int, size: int, at: SourceLocation, verb: str
    ) -> tuple[memoryview, int]:
        """The bytes in which an address is, and its place in them."""
        try:
            buffer, offset = self._memory.at(address)
        except KeyError:
            raise CudaError(
                f"{at}: {FindingKind.OUT_OF_BOUNDS}: {verb} through a pointer to nothing"
            ) from None
        if offset < 0 or offset + size > buffer.size:
            index, remaining = divmod(offset, size)
            where = f"byte {offset}" if remaining else f"element {index}"
            raise CudaError(
                f"{at}: {FindingKind.OUT_OF_BOUNDS}: {verb} of {where} of {buffer.name}, which has"
                f" {buffer.size // size}"
            )
        return buffer.data.data, offset

    def new(self, size: int, name: str) -> int:
        """Memory that ends with the call; gives its address."""
        return int(self._memory.allocate(name, size).base())

    def _call_library(self, call: CallOperation, values: Words) -> None:
        from .library_calls import LibraryCalls  # imports JAX

        if self._libraries is None:
            self._libraries = LibraryCalls(self._bytes, self._module.libraries)
        try:
            self._libraries.call(call.name, values)
        except CudaError as error:
            raise CudaError(f"{call.at}: {error}") from None

    def _launch(self, call: CallOperation, values: Words) -> None:
        grid, block = tuple(values[:3]), tuple(values[3:6])
        passed: list[int | float | bool] = []
        buffers: dict[int, int] = {}
        for operand, value in zip(call.operands[7:], values[7:], strict=True):
            if operand.type is not ScalarType.PTR:
                passed.append(value)
                continue
            # The kernel runs on the bytes themselves, so nothing is copied for a launch.
            address, number = self._machine_address(value)
            buffers[address] = number
            passed.append(address)
        kernel = FusedLaunch(self._kernel(call.text), tuple(passed))
        launch = MachineLaunch(kernel, grid, block, values[6], buffers)
        before, self._pending = self._pending, None
        try:
            if before is not None:
                both = self._host.fused(before, launch)
                if both is None:
                    self._module.run_launch(before)
                else:
                    launch = both
            if self._fuses and id(call) in self._body.followed:
                self._pending = launch
            else:
                self._module.run_launch(launch)
        except LaunchError as error:
            raise LaunchError(f"{call.at}: {error}") from None

    def run_region(self, region: LaunchRegion, values: Sequence[Number]) -> bool:
        """Runs launches together, unless they are to be `fused` or decisions are against it."""
        if self._fuses:
            return False
        listed = [
            self._machine_address(int(value))[0] if item.type is ScalarType.PTR else value
            for item, value in zip(region.inputs, values, strict=True)
        ]
        region.functions = region.functions or [self._kernel(item.text) for item in region.calls]
        for call, block, shared in zip(region.calls, region.blocks, region.shared, strict=True):
            try:
                check_shape((1, 1, 1), block, shared)
            except LaunchError as error:
                raise LaunchError(f"{call.at}: {error}") from None
        return self._module.run_region(region, listed)

    def _kernel(self, name: str) -> ParallelFunction:
        return self._body.kernels.get(name) or self._module.kernel_function(name)

    def _machine_address(self, address: int) -> tuple[int, int]:
        """The address in memory, and the number of the piece that it is in."""
        if not address:
            return 0, 0
        try:
            buffer, offset = self._memory.at(address)
        except KeyError:
            raise LaunchError("a pointer that is passed points to nothing") from None
        return int(buffer.data.ctypes.data) + offset, buffer.number

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

    def allocate_device(self, values: Words) -> Number:
        target, size = values[:2]
        address = int(self._new(size).base())
        self._bytes(target, 8)[:] = np.array([address], np.int64).view(np.uint8)
        return _SUCCESS

    def allocate(self, values: Words) -> Number:
        return int(self._new(values[0]).base())

    def copy(self, values: Words) -> Number:
        target, source, size = values[:3]
        self._bytes(target, size)[:] = self._bytes(source, size).copy()
        return _SUCCESS

    def fill(self, values: Words) -> Number:
        target, value, size = values[:3]
        self._bytes(target, size)[:] = value & 0xFF
        return _SUCCESS

    def copy_to_symbol(self, values: Words) -> Number:
        symbol, source, size = values[:3]
        offset = values[3] if len(values) > 3 else 0
        self._bytes(symbol + offset, size)[:] = self._bytes(source, size)
        return _SUCCESS

    def copy_from_symbol(self, values: Words) -> Number:
        target, symbol, size = values[:3]
        offset = values[3] if len(values) > 3 else 0
        self._bytes(target, size)[:] = self._bytes(symbol + offset, size)
        return _SUCCESS

    def release(self, values: Words) -> Number:
        if values[0]:
            try:
                self._memory.release(self._memory.at(values[0])[0])
            except KeyError:
                raise CudaError("memory is freed that is not allocated") from None
        return _SUCCESS

    def succeed(self, values: Words) -> Number:
        return _SUCCESS

    def create(self, values: Words) -> Number:
        """A stream or an event: eight bytes, which have an address."""
        return self.allocate_device([values[0], 8])

    def record(self, values: Words) -> Number:
        """Takes the time of an event; launches before it are done."""
        self._bytes(values[0], 8).view(np.float64)[0] = time.perf_counter()
        return _SUCCESS

    def elapse(self, values: Words) -> Number:
        target, start, end = values
        begun, ended = (self._bytes(item, 8).view(np.float64)[0] for item in (start, end))
        self._bytes(target, 4).view(np.float32)[0] = 1e3 * (ended - begun)
        return _SUCCESS


_ACTIONS: dict[str, Callable[[_Session, Words], Number]] = {
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
    "cudaDeviceReset": _Session.succeed,
    "cudaMallocManaged": _Session.allocate_device,
    "cudaMallocHost": _Session.allocate_device,
    "cudaFreeHost": _Session.release,
    "cudaMemcpyAsync": _Session.copy,
    "cudaMemsetAsync": _Session.fill,
    "cudaStreamCreate": _Session.create,
    "cudaStreamSynchronize": _Session.succeed,
    "cudaStreamDestroy": _Session.release,
    "cudaEventCreate": _Session.create,
    "cudaEventRecord": _Session.record,
    "cudaEventSynchronize": _Session.succeed,
    "cudaEventElapsedTime": _Session.elapse,
    "cudaEventDestroy": _Session.release,
}
