"""CUDA text as a module of Python: kernels that are launched on arrays, host functions."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from .choices import fastest
from .compiled import threads
from .compiled.lowering import (
    STATE_WORDS,
    Choices,
    Code,
    LaunchRegion,
    Lowered,
    compiled,
    lowered,
)
from .errors import CudaError, LaunchError
from .frontend.sources import CudaSource
from .host_functions import HostFunction, MachineLaunch
from .interpreter.findings import FindingKind, KernelFault, KernelFaults
from .interpreter.memory import AddressSpace
from .interpreter.threads import Run
from .ir.operations import ParallelFunction
from .ir.types import ScalarType
from .launches import (
    Array,
    Dims,
    Symbols,
    WordPacking,
    array_of,
    check_shape,
    flattened,
    launch_shape,
    packed,
    scalar_of,
    word_packing,
    words,
)
from .library_kernels import LibraryChoice, LibraryServers
from .passes.instrumentation import instrumented

_QUICK = 5e-5
"""A region that took less seconds is done by the caller's thread alone the next time."""
_MOST_LAUNCHES = 4096


def load(
    source: str | Path,
    *,
    defines: Sequence[str] = (),
    include: Sequence[str | Path] = (),
    choices: Choices | None = None,
) -> CudaModule:
    """Gives the kernels of a file of CUDA text, or of the text if it has a line break or a brace.

    `defines` are as a compiler's: `["BLOCK=16"]`. Raises SourceError where the text is no C++.

        module = aiosearch.cuda.load("kernels.cu")
        module.scale[n // 256, 256](array, 2.0)
    """
    for name, listed in (("defines", defines), ("include", include)):
        if isinstance(listed, str | Path):
            raise CudaError(f"{name} is a list: {name}=[{str(listed)!r}]")
    if isinstance(source, str) and (not source or "\n" in source or "{" in source):
        return CudaModule(
            CudaSource(source, "<text>.cu", defines=defines, include=include), choices
        )
    path = Path(source)
    try:
        text = path.read_bytes().decode(errors="replace")
    except OSError as error:
        raise CudaError(f"{path} cannot be read: {error.strerror}") from None
    return CudaModule(CudaSource(text, str(path), defines=defines, include=include), choices)


class CudaModule:
    """A file of CUDA text. Its kernels are attributes; templates are `module["scale<float>"]`."""

    def __init__(self, source: CudaSource, choices: Choices | None = None) -> None:
        self.source = source
        self.symbols = Symbols()
        self.choices = choices or Choices()
        self.libraries = LibraryServers(self.choices.libraries)
        self._kernels: dict[str, CudaKernel] = {}
        self._hosts: dict[str, HostFunction] = {}
        self._nests: dict[int, CudaKernel] = {}
        """Kernels that loop nests and fused launches became."""
        self._launches: dict[tuple[int, Dims, Dims, int], KernelLaunch] = {}
        """Those of host functions, which come again with other arguments."""

    def __repr__(self) -> str:
        return f"<module {self.source.name}, with the kernels {', '.join(self.kernels) or 'none'}>"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self.host(name) if name in self.source.hosts else self[name]

    def __getitem__(self, name: str) -> CudaKernel:
        if name not in self._kernels:
            function = self.source.function(name)
            if not function.is_kernel:
                raise LaunchError(f"{name} is a host function: call it")
            self._kernels[name] = CudaKernel(self, function)
        return self._kernels[name]

    def host(self, name: str) -> HostFunction:
        """A function that runs on the host, and launches kernels."""
        if name not in self._hosts:
            self._hosts[name] = HostFunction(self.source.function(name), self)
        return self._hosts[name]

    def kernel_function(self, name: str) -> ParallelFunction:
        """The IR of a kernel."""
        return self[name].function

    def run_launch(self, launch: MachineLaunch) -> None:
        """Runs a kernel, or several that were fused, on machine addresses and numbers."""
        function = launch.kernel.function
        # By its identity, as the hash of a whole kernel takes longer than many launches. What is
        # kept holds the function, so the number stays its own.
        key = (id(function), launch.grid, launch.block, launch.shared)
        prepared = self._launches.get(key)
        if prepared is None:
            kernel = self._kernel_of(function)
            prepared = kernel[launch.grid, launch.block, launch.shared]
            if len(self._launches) >= _MOST_LAUNCHES:
                self._launches.clear()
            self._launches[key] = prepared
        prepared.run(launch.kernel.values)

    def run_region(self, region: LaunchRegion, values: Sequence[int | float | bool]) -> bool:
        """Runs launches by threads that are woken once; says whether `choices` allow that."""
        kernels = [self._kernel_of(item) for item in region.functions]
        chosen = [
            kernel.tuned.get(block, self.choices)
            for kernel, block in zip(kernels, region.blocks, strict=True)
        ]
        if not self.choices.merges or any(item.blocks > 1 for item in chosen):
            return False
        codes = [
            kernel.code(block, choices)
            for kernel, block, choices in zip(kernels, region.blocks, chosen, strict=True)
        ]
        failures = np.zeros(len(codes), np.int64)
        listed = list(values)
        types = [item.type for item in region.inputs]
        for place, (code, function) in enumerate(zip(codes, region.functions, strict=True)):
            symbols = self.symbols.of(function)
            listed += [code.address, failures.ctypes.data + 8 * place]
            listed += [array.ctypes.data for array in symbols.values()]
            types += [ScalarType.PTR] * (2 + len(symbols))
        words = packed(types, listed)
        scratch = max(
            code.scratch + shared for code, shared in zip(codes, region.shared, strict=True)
        )
        # As with a single launch, what takes no time is not worth another thread next time.
        start = time.perf_counter()
        threads.run_region(
            region.address, words.ctypes.data, scratch, STATE_WORDS, 1 if region.quick else None
        )
        region.quick = time.perf_counter() - start < _QUICK
        for code, failure in zip(codes, failures, strict=True):
            if failure:
                raise CudaError(f"{code.assertions[int(failure) - 1]}: an assertion fails")
        return True

    def _kernel_of(self, function: ParallelFunction) -> CudaKernel:
        """The kernel of a `function`: of the text, or what loops or several launches became."""
        kernel = self._kernels.get(function.name)
        if kernel is None or kernel.function is not function:
            kernel = self._nests.setdefault(id(function), CudaKernel(self, function))
        return kernel

    @property
    def library_choices(self) -> tuple[LibraryChoice, ...]:
        """Who did the calls of cuBLAS and cuDNN so far, for each kind of call, and why."""
        return tuple(self.libraries.choices.values())

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.source.kernels, *self.source.hosts]

    @property
    def kernels(self) -> tuple[str, ...]:
        """The names of the kernels, in the order of the text."""
        return self.source.kernels


class Owner(Protocol):
    """What kernels of one text share."""

    symbols: Symbols
    choices: Choices


class CudaKernel:
    """A kernel; `kernel[grid, block]` or `kernel[grid, block, shared_bytes]` is a launch of it."""

    def __init__(self, module: Owner, function: ParallelFunction) -> None:
        self.module = module
        self.function = function
        self.tuned: dict[Dims, Choices] = {}
        """What `Launch.tune` decided, for each shape of block."""
        self._codes: dict[tuple[Dims, Choices], Code] = {}
        self.paces: dict[tuple[Dims, Choices], threads.BlockPace] = {}
        """How long a block takes, by its shape and the decisions."""

    def __getitem__(self, shape: Any) -> KernelLaunch:
        return KernelLaunch(self, *launch_shape(shape, self.function.name))

    def __call__(self, *arguments: object) -> None:
        name = self.function.name
        raise LaunchError(f"{name} is a kernel, which is launched as {name}[grid, block](...)")

    def code(self, block: Dims, choices: Choices) -> Code:
        """The machine code for blocks of a shape."""
        # A key without the function: the hash of a large one takes longer than a small launch.
        if (block, choices) not in self._codes:
            self._codes[block, choices] = compiled(self.function, block, choices)
        return self._codes[block, choices]

    def bound(self, arguments: Sequence[object]) -> tuple[CudaKernel, list[object]]:
        """The kernel for these arguments, and what it is passed: of C++, always the same."""
        return self, list(arguments)

    def __repr__(self) -> str:
        return f"<kernel {self.function.name}>"


@dataclass(frozen=True, slots=True)
class _PreparedLaunch:
    """What is the same in all runs of a launch under the same decisions."""

    asked: Choices
    code: Code
    packing: WordPacking
    listed: tuple[int, ...]
    """The words behind the arguments: the addresses of symbols, and the grid."""
    blocks: threads.GridBlocks
    scratch: int


class KernelLaunch:
    """A kernel with a shape. Called with arrays and numbers, it runs and writes into the arrays."""

    def __init__(
        self,
        kernel: CudaKernel,
        grid: Dims,
        block: Dims,
        shared: int,
        choices: Choices | None = None,
    ) -> None:
        check_shape(grid, block, shared)
        self._kernel = kernel
        self._function = kernel.function
        self._choices = choices
        self.grid, self.block, self.shared = grid, block, shared
        self._prepared: _PreparedLaunch | None = None

    def __repr__(self) -> str:
        shape = ", ".join(str(item) for item in (self.grid, self.block, self.shared) if item)
        return f"<launch {self._function.name}[{shape}]>"

    @property
    def function(self) -> ParallelFunction:
        """The kernel's IR, before anything was done to it."""
        return self._function

    @property
    def choices(self) -> Choices:
        """The decisions of the lowering: given, tuned, or those of the module."""
        if self._choices is not None:
            return self._choices
        return self._kernel.tuned.get(self.block, self._kernel.module.choices)

    def with_choices(self, choices: Choices) -> KernelLaunch:
        """The same launch under other decisions of the lowering."""
        return KernelLaunch(self._kernel, self.grid, self.block, self.shared, choices)

    def tune(self, *arguments: object, rounds: int = 6) -> Choices:
        """Measures which decisions are fastest here; later launches with this block take them.

        The arrays are copied, not written to.
        """
        choices = fastest(self, arguments, rounds)
        self._kernel.tuned[self.block] = choices
        return choices

    def __call__(self, *arguments: object) -> None:
        """Runs the kernel on all cores, and is back when it is done."""
        values, held = self._bound(arguments)
        self.run(values)
        del held  # the arrays behind the addresses were needed until here

    def _bound(
        self, arguments: Sequence[object]
    ) -> tuple[list[int | float | bool], dict[int, Array]]:
        """Numbers and addresses for the parameters, and the arrays behind those by their places."""
        function, name = self._function, self._function.name
        held: dict[int, Array] = {}
        values: list[int | float | bool] = []
        for place, (parameter, value) in enumerate(
            zip(function.parameters, flattened(function, arguments), strict=True)
        ):
            if parameter.value.type is not ScalarType.PTR:
                values.append(scalar_of(parameter, value, name))
            elif value is None:
                values.append(0)
            else:
                held[place] = array_of(parameter, value, name)
                values.append(held[place].ctypes.data)
        return values, held

    def run(self, values: Sequence[int | float | bool]) -> None:
        """Runs the kernel with addresses in place of arrays."""
        choices, prepared = self.choices, self._prepared
        if prepared is None or prepared.asked is not choices:
            prepared = self._prepared = self._prepare(choices)
        size = len(values) + len(prepared.listed) + 1
        block = np.zeros(size + 1, np.int64)  # the last word is for a failed assertion
        address = block.ctypes.data
        prepared.packing.put(block, [*values, *prepared.listed, address + 8 * size])
        prepared.blocks.run(address, prepared.scratch)
        if block[size]:
            place = prepared.code.assertions[int(block[size]) - 1]
            raise CudaError(f"{place}: an assertion fails")

    def _prepare(self, asked: Choices) -> _PreparedLaunch:
        function, choices = self._function, asked.for_grid(self.grid)
        code = self._kernel.code(self.block, choices)
        grid = (self.grid[0] // code.blocks, *self.grid[1:])
        symbols = self._kernel.module.symbols.of(function)
        pace = self._kernel.paces.setdefault((self.block, choices), threads.BlockPace())
        return _PreparedLaunch(
            asked,
            code,
            word_packing(function),
            (*(array.ctypes.data for array in symbols.values()), *grid),
            threads.GridBlocks(code.address, grid[0] * grid[1] * grid[2], pace),
            code.scratch + self.shared,
        )

    def interpret(self, *arguments: object) -> None:
        """Does what a call does by the interpreter: slowly, and the same as the text says."""
        self._interpreted(arguments, None)

    def check(self, *arguments: object) -> tuple[KernelFault, ...]:
        """Runs the kernel in the interpreter, and gives every fault that shows with these inputs.

        Arrays are written to as by a call.
        """
        findings = KernelFaults(self._function.name)
        self._interpreted(arguments, findings)
        return findings.listed()

    def trial(self, *arguments: object) -> None:
        """Runs the kernel on copies of the arrays, in a process of its own, between guard pages.

        Raises LaunchError where it reads or writes outside of an array, which in a call may end
        the process or change other memory. A GPU forgives some of that; a CPU may not.
        """
        function = self._function
        values, held = self._bound(arguments)
        low = lowered(function, self.block, self.choices.for_grid(self.grid))
        grid = (self.grid[0] // low.blocks, *self.grid[1:])
        symbols = self._kernel.module.symbols.of(function)
        listed = words(function, values, dict.fromkeys(symbols, 0), grid, 0)
        memory = {place: array.tobytes() for place, array in held.items()}
        for place, name in enumerate(symbols, len(function.parameters)):
            memory[place] = symbols[name].tobytes()
        memory[listed.size - 1] = bytes(8)  # where an assertion leaves its number
        threads.try_out(
            threads.LaunchTrial(
                low.emitted.text,
                low.emitted.name,
                low.emitted.scratch + self.shared,
                tuple(map(int, listed)),
                memory,
                grid[0] * grid[1] * grid[2],
            )
        )

    def check_compiled(self, *arguments: object) -> tuple[KernelFault, ...]:
        """Runs the kernel compiled, with checks at each access: for grids of a real size.

        Finds accesses out of bounds and races, in the lines where they happen. It sees less than
        `check`: neither what is read uninitialised nor divergent barriers, and of a race that needs
        more than the last readers of a cell, nothing. Arrays are written to as by a call.
        """
        function = self._function
        checked = instrumented(function, self.block, self.shared)
        values, held = self._bound(arguments)
        flags = np.zeros(max(len(checked.sites), 1), np.int32)
        extra: list[int | float | bool] = [flags.ctypes.data]
        shadows: dict[int, Array] = {}
        places = {item.value: place for place, item in enumerate(function.parameters)}
        for parameter, granule in zip(checked.watched, checked.granules, strict=True):
            array = held.get(places[parameter.value])
            size = 0 if array is None else array.nbytes
            start = 0 if array is None else array.ctypes.data
            # One array that two parameters point to has one shadow, if both see the same cells.
            key = start * 16 + granule
            if key not in shadows:
                shadows[key] = np.zeros(max(-(-size // granule), 1) * 2, np.int64)
            extra += [shadows[key].ctypes.data, size]
        kernel = CudaKernel(self._kernel.module, checked.function)
        kernel[self.grid, self.block, self.shared].run([*values, *extra])
        findings = KernelFaults(function.name)
        for site, flag in zip(checked.sites, flags, strict=False):
            if flag:
                verb = "accesses of two threads" if site.kind is FindingKind.RACE else "an access"
                findings.add(site.kind, site.at, f"{verb} to {site.memory}")
        return findings.listed()

    def lower(self) -> Lowered:
        """What the kernel becomes for this shape of block, for people to look at."""
        return lowered(self._function, self.block, self.choices.for_grid(self.grid))

    def _interpreted(self, arguments: Sequence[object], findings: KernelFaults | None) -> None:
        function, name, memory = self._function, self._function.name, AddressSpace()
        values: list[int | float | bool] = []
        bases: dict[tuple[int, int], int] = {}
        for parameter, value in zip(
            function.parameters, flattened(function, arguments), strict=True
        ):
            if parameter.value.type is not ScalarType.PTR:
                values.append(scalar_of(parameter, value, name))
            elif value is None:
                values.append(0)
            else:
                array = array_of(parameter, value, name)
                key = (array.ctypes.data, array.nbytes)
                if key not in bases:
                    bases[key] = int(memory.adopt(parameter.name, array).base())
                values.append(bases[key])
        symbols = {
            name: int(memory.adopt(name, array).base())
            for name, array in self._kernel.module.symbols.of(function).items()
        }
        Run(
            function,
            self.grid,
            self.block,
            memory,
            values,
            symbols,
            self.shared,
            findings,
        )()
