"""The steps of one function on its way to machine code, each as text."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import zip_longest
from typing import TYPE_CHECKING

import msgspec

from ...capture.jax_types import Function, Leaf
from ...codegen.native import (
    EmbeddedProgram,
    InstructionCounts,
    NativeError,
    ProgramOrigin,
    assembly_text,
    instruction_counts,
)
from ...codegen.pallas import DescribedKernel, described_kernels
from ...display.tables import table
from ...documents import Document
from ...tensor import TensorError
from ...tensor.text import parse
from ..inputs.objects import UserObject

if TYPE_CHECKING:
    from ...devices import Device


_TYPE = re.compile(r"(\w+)\[([\d, ]*)\]")


def jaxpr(source: str, name: str, types: Sequence[str]) -> str:
    """What jax makes of it; where it takes something made beforehand, of what is left for a call.

    Runs the module's text, and raises what that or tracing raises.
    """
    import jax

    module: dict[str, UserObject] = {"__name__": name}
    exec(compile(source, f"<{name}>", "exec"), module)
    specs = list(map(_spec, types))
    with jax.enable_x64(any("64" in type_text for type_text in types)):
        run = module.get(f"{name}_packed")
        if run is None:
            return str(jax.make_jaxpr(module[name])(*specs))
        pack, names = module[f"{name}_pack"], _parameters(module[name])
        arguments = dict(zip(names, specs, strict=True))
        packed = jax.eval_shape(
            pack, *(arguments.pop(type_text) for type_text in _parameters(pack))
        )
        return str(jax.make_jaxpr(run)(*arguments.values(), *packed))


def _parameters(function: Function) -> list[str]:
    return list(inspect.signature(function).parameters)


def _spec(text: str) -> Leaf:
    import jax

    match = _TYPE.match(text)
    if match is None:
        raise ValueError(f"{text!r} is no type")
    shape = tuple(int(size) for size in match[2].split(",") if size.strip())
    return jax.ShapeDtypeStruct(shape, match[1])  # type: ignore[no-untyped-call]  # jax's


class Section(StrEnum):
    """What can be shown, in the order in which it is."""

    PROGRAM = "program"
    TILE_IR = "tile-ir"
    SCHEDULE = "schedule"
    REGISTERS = "registers"
    LLVM = "llvm"
    ASSEMBLY = "assembly"
    PALLAS = "pallas"
    SOURCE = "source"
    JAXPR = "jaxpr"
    BESIDE = "beside"
    """The original beside the answer, and why that is faster."""


class AbsentError(Exception):
    """Something that there is not to be seen of a function: says why."""


@dataclass(frozen=True)
class MachineCodeFunction:
    """A function that is machine code."""

    name: str
    carried: EmbeddedProgram
    device: Device
    """What Pallas text is cut for."""
    kind = "kernels"
    usual = (Section.PROGRAM, Section.TILE_IR, Section.SCHEDULE, Section.REGISTERS)
    more = (Section.LLVM, Section.ASSEMBLY, Section.PALLAS)

    @property
    def told(self) -> str:
        phases = len(self.carried.native.phases)
        count = "one kernel" if phases == 1 else f"{phases} kernels"
        return f"{self.name} is machine code for {self.carried.machine.name}: {count}"

    @property
    def program(self) -> str | None:
        origin = self.carried.origin
        return origin.program if origin else None

    def text(self, section: Section) -> str:
        """Raises AbsentError."""
        match section:
            case Section.PROGRAM:
                return self._origin.program.rstrip()
            case Section.TILE_IR:
                return self._origin.tile_ir
            case Section.SCHEDULE:
                return "\n".join(self._origin.schedules)
            case Section.REGISTERS:
                return _table(self._figures)
            case Section.LLVM:
                return self.carried.native.text.rstrip()
            case Section.ASSEMBLY:
                return self._assembly.rstrip()
            case Section.PALLAS:
                return _pallas(self._origin.program, self.device)
        raise AbsentError("there is none: this is machine code, and not JAX")

    def facts(self) -> Document:
        """What is told as data."""
        try:
            counted = msgspec.to_builtins(self._figures)
        except AbsentError:
            counted = None
        return {"machine": self.carried.machine.name, "figures": counted}

    @property
    def _origin(self) -> ProgramOrigin:
        if self.carried.origin is None:
            raise AbsentError("it was made by an earlier version, which did not keep it")
        return self.carried.origin

    @cached_property
    def _assembly(self) -> str:
        carried = self.carried
        try:
            return assembly_text(carried.native, carried.machine, carried.effort)
        except NativeError as error:
            raise AbsentError(f"it cannot be compiled here: {error}") from None

    @property
    def _figures(self) -> tuple[InstructionCounts, ...]:
        return instruction_counts(self._assembly)


@dataclass(frozen=True)
class SourceFunction:
    """A function that is JAX code, whose kernels XLA makes."""

    name: str
    source: str
    types: tuple[str, ...]
    program: str | None = None
    reasons: tuple[str, ...] = ()
    """What was done to the original, and why that is faster."""
    original: str | None = None
    """The program as written, where this is another one."""
    kind = "jax"

    @property
    def usual(self) -> tuple[Section, ...]:
        beside = (Section.BESIDE,) if self.original or self.reasons else ()
        return (*beside, Section.SOURCE, Section.JAXPR)

    @property
    def more(self) -> tuple[Section, ...]:
        return (Section.PROGRAM,) if self.program is not None else ()

    @property
    def told(self) -> str:
        return f"{self.name} is plain JAX: XLA makes its kernels, and no schedule of ours is in it"

    def text(self, section: Section) -> str:
        """Raises AbsentError."""
        match section:
            case Section.PROGRAM if self.program is not None:
                return self.program.rstrip()
            case Section.BESIDE if self.original or self.reasons:
                return "\n".join([*self.reasons, *self._beside()])
            case Section.BESIDE:
                raise AbsentError("there is none: it is as written, or of an earlier version")
            case Section.SOURCE:
                return self.source.strip()
            case Section.JAXPR:
                return self._jaxpr()
        raise AbsentError(self._reason)

    def _beside(self) -> list[str]:
        """The original and the answer as JAX code, line by line, at most as wide as a screen."""
        if self.original is None:
            return []
        from ...optimizer import emit

        columns = [_body(emit(parse(self.original))), _body(self.source)]
        rows = [("as written", "the answer"), *zip_longest(*columns, fillvalue="")]
        width = max(len(left) for left, _ in rows)
        return ["", *(f"{left:{width}}   {right}".rstrip() for left, right in rows)]

    def facts(self) -> Document:
        """What is told as data."""
        return {"machine": None, "figures": None}

    @property
    def _reason(self) -> str:
        return "there is none: this is plain JAX, whose kernels XLA makes"

    def _jaxpr(self) -> str:
        try:
            return jaxpr(self.source, self.name, self.types)
        except Exception as error:
            message = f"{type(error).__name__}: {error}".partition("\n")[0]
            raise AbsentError(f"it cannot be traced: {message}") from error


@dataclass(frozen=True)
class PallasFunction(SourceFunction):
    """A function of Pallas kernels, which are compiled where there is a GPU."""

    kind = "pallas"

    @property
    def usual(self) -> tuple[Section, ...]:
        program = (Section.PROGRAM,) if self.program else ()
        return (*program, Section.TILE_IR, Section.SCHEDULE, Section.PALLAS)

    @property
    def more(self) -> tuple[Section, ...]:
        return (Section.JAXPR,)

    @property
    def told(self) -> str:
        return f"{self.name} is of Pallas kernels, which Triton compiles on a GPU"

    def text(self, section: Section) -> str:
        """Raises AbsentError."""
        match section:
            case Section.PALLAS:
                return super().text(Section.SOURCE)
            case Section.SCHEDULE:
                return "\n".join(kernel.tiling for kernel in self._kernels)
            case Section.TILE_IR:
                return "\n\n".join(kernel.ir for kernel in self._kernels)
        return super().text(section)

    @property
    def _kernels(self) -> list[DescribedKernel]:
        kernels = described_kernels(self.source, self.name)
        if not kernels:
            raise AbsentError("it was made by an earlier version, which did not keep it")
        return kernels

    @property
    def _reason(self) -> str:
        return "there is none: these are Pallas kernels, which Triton compiles on a GPU"


def _body(source: str) -> list[str]:
    """A module's lines from its first function on."""
    lines = source.strip().splitlines()
    first = next((at for at, line in enumerate(lines) if line.startswith("def ")), 0)
    return lines[first:]


def _table(counted: tuple[InstructionCounts, ...]) -> str:
    rows: list[tuple[str, ...]] = [
        ("function", "instructions", "vector registers", "spills", "reloads")
    ]
    for counts in counted:
        numbers = (counts.instructions, counts.vector_registers, counts.spills, counts.reloads)
        rows.append((counts.function, *map(str, numbers)))
    return table(rows, right=frozenset(range(1, 5)))


def _pallas(text: str, device: Device) -> str:
    """The kernels of a program for a GPU, by the plan of the best prediction."""
    from ...codegen import pallas
    from ...codegen.lower.lowering import lower
    from ...codegen.passes.kernel_fusion import fuse_kernels

    try:
        plain = lower(parse(text))
        ways = [
            pallas.plans(module, device, 1)[0]
            for module in dict.fromkeys([fuse_kernels(plain), plain])
        ]
        best = min(ways, key=lambda plan: plan.seconds)
        return pallas.write(best.module, best.schedules).rstrip()
    except (pallas.CannotPrint, TensorError) as error:
        raise AbsentError(f"it cannot be printed for {device.name}: {error}") from None
