"""CPU kernel candidates: the schedules of a program as machine code, each beside the source that
calls it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ...codegen.cpu.cost.kernel_cost import KERNEL_START_SECONDS
from ...codegen.cpu.description import describe_schedule
from ...codegen.cpu.emit.kernel import expand_copies, print_module
from ...codegen.cpu.packing import PackedLayout
from ...codegen.cpu.register_layout import RegisterRequest
from ...codegen.cpu.schedule import Schedule
from ...codegen.cpu.space.choices import dissimilar_schedules, space
from ...codegen.ir import Module
from ...codegen.lower.lowering import lower
from ...codegen.native.embedded_source import ProgramOrigin, encode_program
from ...codegen.native.kernel_program import KernelProgram
from ...codegen.native.machine import CpuMachine
from ...codegen.passes.kernel_fusion import fuse_kernels
from ...codegen.schedule.plans import ModulePlan, ModulePlans
from ...measure import ArrayType
from ...tensor import Program
from ...tensor.text import write
from ...tensor.types import ARRAY_NAMES
from .jax_source import module as module_of
from .jax_source import names
from .schedule_point import KernelSource, PlannedModules, SchedulePoint


class CpuKernels:
    """All ways to run one program; raises TensorError where it cannot be lowered."""

    def __init__(
        self, program: Program, machine: CpuMachine, threads: int, constant: Sequence[int] = ()
    ) -> None:
        self._program, self._machine = program, machine
        function, self._parameters = names(program)
        plain = replace(lower(program), name=function)
        constants = [plain.inputs[at].name for at in constant]
        modules = dict.fromkeys([fuse_kernels(plain), plain])
        plans = [_plans(module, machine, threads, constants) for module in modules]
        self._planned = PlannedModules(plans, dissimilar_schedules)
        self._writers: dict[tuple[object, ...], _KernelSourceWriter] = {}

    def first(self, most: int) -> list[SchedulePoint]:
        """At most so many, best predicted first, and the first of each module at any rate."""
        by_program: dict[KernelProgram, SchedulePoint] = {}
        for point in self._planned.first(most):
            by_program.setdefault(self._writer(point).native, point)
        return list(by_program.values())

    def beside(self, place: SchedulePoint) -> list[SchedulePoint]:
        """The ways that differ in one choice."""
        return self._planned.beside(place)

    def source(self, place: SchedulePoint) -> KernelSource:
        """What runs it; raises IllegalPointError where there is no such place."""
        return self._writer(place).source()

    def _writer(self, place: SchedulePoint) -> _KernelSourceWriter:
        """The same for the same place, which prints once, whatever form it is said to be of."""
        key = place.module, place.points
        if key not in self._writers:
            plan = self._planned.plan(place)
            self._writers[key] = _KernelSourceWriter(
                self._program, plan, self._machine, plan.module.name, self._parameters
            )
        return self._writers[key]


def kernel_sources(
    program: Program, machine: CpuMachine, threads: int, most: int, constant: Sequence[int] = ()
) -> list[KernelSource]:
    """At most so many, best predicted first; raises TensorError where it cannot be lowered."""
    ways = CpuKernels(program, machine, threads, constant)
    return [ways.source(point) for point in ways.first(most)]


def _plans(
    module: Module, machine: CpuMachine, threads: int, constant: Sequence[str]
) -> ModulePlans[Schedule]:
    packable = _packable(module, constant)
    spaces = [space(kernel, machine, threads, packable) for kernel in module.kernels]
    return ModulePlans(module, spaces, KERNEL_START_SECONDS)


def _packable(module: Module, constant: Sequence[str]) -> list[str]:
    """Those that only one kernel reads, which may have them as it likes."""
    uses = Counter(array.name for kernel in module.kernels for array in kernel.inputs)
    uses.update(array.name for array in module.outputs)  # which a kernel copies
    return [name for name in constant if uses[name] == 1]


@dataclass(frozen=True)
class _KernelSourceWriter:
    """One module by one set of schedules."""

    program: Program
    plan: ModulePlan[Schedule]
    machine: CpuMachine
    function: str
    parameters: Sequence[str]

    @cached_property
    def native(self) -> KernelProgram:
        return print_module(self.plan.module, self.plan.schedules, self.machine)

    def source(self) -> KernelSource:
        layouts = self._layouts()
        run = self._run(layouts)
        if not layouts:
            return KernelSource(self._how(), self.plan.seconds, module_of(run), self.function)
        inputs = self.plan.module.inputs
        types = tuple(
            ArrayType(ARRAY_NAMES[packed_type.dtype], packed_type.shape)
            for packed_type in (layout.packed_input(inputs[at]) for at, layout in layouts.items())
        )
        text = module_of(f"{self._pack(layouts)}\n\n{run}")
        function, pack = f"{self.function}_packed", f"{self.function}_pack"
        seconds = self.plan.seconds
        return KernelSource(self._how(), seconds, text, function, tuple(layouts), pack, types)

    def _layouts(self) -> dict[int, PackedLayout]:
        """By the places of the inputs."""
        by_name = {
            name: layout
            for schedule in self.plan.schedules.values()
            for name, layout in schedule.layouts.items()
        }
        return {
            at: by_name[array.name]
            for at, array in enumerate(self.plan.module.inputs)
            if array.name in by_name
        }

    def _run(self, layouts: Mapping[int, PackedLayout]) -> str:
        arguments = [
            f"{name}_packed" if at in layouts else name for at, name in enumerate(self.parameters)
        ]
        parameters = [argument for at, argument in enumerate(arguments) if at not in layouts]
        parameters += [arguments[at] for at in layouts]
        name = f"{self.function}_packed" if layouts else self.function
        lines = encode_program(self.native, self.machine, origin=self._origin())
        picked = "[0]" if len(self.plan.module.outputs) == 1 else ""
        return _FUNCTION.format(
            name=name,
            taken=", ".join(parameters),
            lines=lines,
            given=", ".join(arguments),
            picked=picked,
        )

    def _origin(self) -> ProgramOrigin:
        module, schedules = expand_copies(self.plan.module, self.plan.schedules)
        words = (describe_schedule(kernel, schedules[kernel.name]) for kernel in module.kernels)
        return ProgramOrigin(write(self.program), str(module), tuple(words))

    def _pack(self, layouts: Mapping[int, PackedLayout]) -> str:
        names = [self.parameters[at] for at in layouts]
        packed = [
            _packing(self.parameters[at], layout, self.plan.module.inputs[at].shape)
            for at, layout in layouts.items()
        ]
        body = "".join(f"        {text},\n" for text in packed)
        needs = _CODING if any(layout.coded for layout in layouts.values()) else ""
        return f"def {self.function}_pack({', '.join(names)}):\n{needs}    return (\n{body}    )\n"

    def _how(self) -> str:
        return f"kernels {' '.join(map(_short, self.plan.schedules.values()))}"


def _short(schedule: Schedule) -> str:
    """The tiles, rows and vectors in registers, and what is packed, as short as can be."""
    parts = [f"{name} {size}" for name, size in schedule.tiles.items()]
    if schedule.registers.rows:
        unit = " by matrix unit" if schedule.registers.matrix else ""
        parts.append(f"{schedule.registers.rows}x{schedule.registers.vectors}{unit}")
    parts += ["kept"] * schedule.keeps
    parts += [
        f"{name} {'coded' if layout.coded else 'packed'}"
        for name, layout in schedule.layouts.items()
    ]
    parts += [f"{name} copied" for name in schedule.staged]
    parts += [f"{name} turned" for name in schedule.transposed]
    parts += [f"{name} in panels" for name in schedule.panels]
    parts += ["widened"] * schedule.wide
    parts += [f"{schedule.fastest} first"] * (schedule.fastest is not None)
    usual, request = RegisterRequest(), schedule.registers
    parts += [f"{request.unroll} a turn"] * (request.unroll != usual.unroll)
    near = (
        " across" if request.prefetch_along_lanes else " and near" if request.prefetch_to_l1 else ""
    )
    if request.lanes is not None:
        parts.append("{}x{} along lanes".format(*request.lanes))
    parts += [f"{request.chains} chains"] * (request.chains > 0)
    parts += [f"{request.prefetch_distance} ahead{near}"] * (
        request.prefetch_distance != usual.prefetch_distance
    )
    parts += [f"{schedule.width} bytes a vector"] * (schedule.width > 0)
    return f"[{', '.join(parts)}]"


def _packing(name: str, layout: PackedLayout, sizes: tuple[int, ...]) -> str:
    """A call's text that lays an input out: batch, panels, rows, width, and pairs of rows last."""
    batch = [axis for axis in range(len(sizes)) if axis not in (layout.row, layout.column)]
    rows, columns = sizes[layout.row], sizes[layout.column]
    panels, odd = -(-columns // layout.width), rows % 2 if layout.pairs else 0
    text = name
    if [*batch, layout.row, layout.column] != list(range(len(sizes))):
        text = f"jnp.transpose({text}, {(*batch, layout.row, layout.column)})"
    if odd or panels * layout.width > columns:
        ends = [(0, 0)] * len(batch) + [(0, odd), (0, panels * layout.width - columns)]
        text = f"jnp.pad({text}, {tuple(ends)})"
    lead, first = tuple(sizes[axis] for axis in batch), len(batch)
    batch_axes = tuple(range(first))
    if layout.pairs:
        shape = (*lead, (rows + odd) // 2, 2, panels, layout.width)
        order = (*batch_axes, first + 2, first, first + 3, first + 1)
    else:
        shape = (*lead, rows, panels, layout.width)
        order = (*batch_axes, first + 1, first, first + 2)
    text = f"{text}.reshape({shape}).transpose({order})"
    return f"encoded({text})" if layout.coded else text


_CODING = "    from aiosearch.codegen.cpu.coding import encoded\n\n"

_FUNCTION = '''def {name}({taken}):
    from aiosearch.codegen.native.carrying import carried

    kernels = carried("""
{lines}
""")
    return kernels({given}){picked}
'''
