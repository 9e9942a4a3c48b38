"""Ways to run a program as machine code of our own, each as a source beside those in JAX."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from ..codegen.cpu.choices import choices, different
from ..codegen.cpu.packed import Layout
from ..codegen.cpu.printer import native
from ..codegen.cpu.schedule import Schedule
from ..codegen.ir import Kernel, Module
from ..codegen.lowering import lower
from ..codegen.native.carrying import text_of
from ..codegen.native.machine import Machine
from ..measure import ArrayType
from ..tensor import Program
from .emit import module as module_of
from .emit import names
from .types import NUMPY


@dataclass(frozen=True)
class KernelSource:
    """A source that calls kernels, and what it wants to be made beforehand."""

    how: str
    """In words."""
    source: str
    function: str
    positions: tuple[int, ...] = ()
    """The inputs that are packed."""
    pack: str = ""
    """The function in the source that packs them."""
    types: tuple[ArrayType, ...] = ()
    """Of what it makes."""


def kernel_sources(
    program: Program, machine: Machine, threads: int, most: int, constant: Sequence[int] = ()
) -> list[KernelSource]:
    """At most so many, best predicted first; raises TensorError where it cannot be lowered."""
    function, parameters = names(program)
    lowered = replace(lower(program), name=function)
    packable = _packable(lowered, [lowered.inputs[at].name for at in constant])
    options = [
        different(choices(kernel, machine, threads, packable), most) for kernel in lowered.kernels
    ]
    found: dict[str, KernelSource] = {}
    for schedules in islice(_combined(lowered.kernels, options), most):
        one = _Writer(lowered, schedules, machine, function, parameters).source()
        found.setdefault(one.source, one)
    return list(found.values())


def _packable(module: Module, constant: Sequence[str]) -> list[str]:
    """Those that only one kernel reads, which may have them as it likes."""
    uses = Counter(one.name for kernel in module.kernels for one in kernel.inputs)
    return [name for name in constant if uses[name] == 1]


def _combined(
    kernels: Sequence[Kernel], options: Sequence[Sequence[Schedule]]
) -> Iterator[dict[str, Schedule]]:
    """The best of each kernel, then one kernel's next best after the other's."""
    for turn in range(max(map(len, options), default=0)):
        yield {
            kernel.name: own[min(turn, len(own) - 1)]
            for kernel, own in zip(kernels, options, strict=True)
        }


@dataclass(frozen=True)
class _Writer:
    """One module by one set of schedules."""

    module: Module
    schedules: Mapping[str, Schedule]
    machine: Machine
    function: str
    parameters: Sequence[str]

    def source(self) -> KernelSource:
        layouts = self._layouts()
        run = self._run(layouts)
        if not layouts:
            return KernelSource(self._how(), module_of(run), self.function)
        inputs = self.module.inputs
        types = tuple(
            ArrayType(NUMPY[inputs[at].dtype], one.shape(inputs[at].shape))
            for at, one in layouts.items()
        )
        text = module_of(f"{self._pack(layouts)}\n\n{run}")
        pack = f"{self.function}_pack"
        return KernelSource(
            self._how(), text, f"{self.function}_packed", tuple(layouts), pack, types
        )

    def _layouts(self) -> dict[int, Layout]:
        """By the places of the inputs."""
        by_name = {
            name: layout for one in self.schedules.values() for name, layout in one.layouts.items()
        }
        return {
            at: by_name[one.name]
            for at, one in enumerate(self.module.inputs)
            if one.name in by_name
        }

    def _run(self, layouts: Mapping[int, Layout]) -> str:
        given = [
            f"{name}_packed" if at in layouts else name for at, name in enumerate(self.parameters)
        ]
        taken = [one for at, one in enumerate(given) if at not in layouts]
        taken += [given[at] for at in layouts]
        name = f"{self.function}_packed" if layouts else self.function
        lines = text_of(native(self.module, self.schedules, self.machine), self.machine)
        picked = "[0]" if len(self.module.outputs) == 1 else ""
        return _FUNCTION.format(
            name=name, taken=", ".join(taken), lines=lines, given=", ".join(given), picked=picked
        )

    def _pack(self, layouts: Mapping[int, Layout]) -> str:
        names = [self.parameters[at] for at in layouts]
        packed = [
            _packing(self.parameters[at], one, self.module.inputs[at].shape)
            for at, one in layouts.items()
        ]
        body = "".join(f"        {one},\n" for one in packed)
        return f"def {self.function}_pack({', '.join(names)}):\n    return (\n{body}    )\n"

    def _how(self) -> str:
        told = [_told(one) for one in self.schedules.values() if one.tiles or one.serial]
        return f"kernels for {self.machine.name}, {'; '.join(told) or 'as they are'}"


def _told(schedule: Schedule) -> str:
    tiles = ", ".join(f"{name} by {size}" for name, size in schedule.tiles.items())
    wishes = schedule.wishes
    packed = f", {' and '.join(schedule.layouts)} packed" if schedule.layouts else ""
    return f"{tiles}, {wishes.rows}x{wishes.vectors} in registers{packed}"


def _packing(name: str, layout: Layout, sizes: tuple[int, ...]) -> str:
    """A call's text that lays an input out: batch, panels, rows, width, and pairs of rows last."""
    batch = [axis for axis in range(len(sizes)) if axis not in (layout.row, layout.column)]
    rows, columns = sizes[layout.row], sizes[layout.column]
    panels, odd = -(-columns // layout.width), rows % 2 if layout.pairs else 0
    found = name
    if [*batch, layout.row, layout.column] != list(range(len(sizes))):
        found = f"jnp.transpose({found}, {(*batch, layout.row, layout.column)})"
    if odd or panels * layout.width > columns:
        ends = [(0, 0)] * len(batch) + [(0, odd), (0, panels * layout.width - columns)]
        found = f"jnp.pad({found}, {tuple(ends)})"
    lead, first = tuple(sizes[axis] for axis in batch), len(batch)
    own = tuple(range(first))
    if layout.pairs:
        shape = (*lead, (rows + odd) // 2, 2, panels, layout.width)
        order = (*own, first + 2, first, first + 3, first + 1)
    else:
        shape = (*lead, rows, panels, layout.width)
        order = (*own, first + 1, first, first + 2)
    return f"{found}.reshape({shape}).transpose({order})"


_FUNCTION = '''def {name}({taken}):
    from aiosearch.codegen.native.carrying import carried

    kernels = carried("""
{lines}
""")
    return kernels({given}){picked}
'''
