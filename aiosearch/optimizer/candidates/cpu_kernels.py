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
        found: dict[KernelProgram, SchedulePoint] = {}
        for one in self._planned.first(most):
            found.setdefault(self._writer(one).native, one)
        return list(found.values())

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
    return [ways.source(one) for one in ways.first(most)]


def _plans(
    module: Module, machine: CpuMachine, threads: int, constant: Sequence[str]
) -> ModulePlans[Schedule]:
    packable = _packable(module, constant)
    spaces = [space(kernel, machine, threads, packable) for kernel in module.kernels]
    return ModulePlans(module, spaces, KERNEL_START_SECONDS)


def _packable(module: Module, constant: Sequence[str]) -> list[str]:
    """Those that only one kernel reads, which may have them as it likes."""
    uses = Counter(one.name for kernel in module.kernels for one in kernel.inputs)
    uses.update(one.name for one in module.outputs)  # which a kernel copies
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
            ArrayType(ARRAY_NAMES[given.dtype], given.shape)
            for given in (one.given(inputs[at]) for at, one in layouts.items())
        )
        text = module_of(f"{self._pack(layouts)}\n\n{run}")
        function, pack = f"{self.function}_packed", f"{self.function}_pack"
        seconds = self.plan.seconds
        return KernelSource(self._how(), seconds, text, function, tuple(layouts), pack, types)

    def _layouts(self) -> dict[int, PackedLayout]:
        """By the places of the inputs."""
        by_name = {
            name: layout
            for one in self.plan.schedules.values()
            for name, layout in one.layouts.items()
        }
        return {
            at: by_name[one.name]
            for at, one in enumerate(self.plan.module.inputs)
            if one.name in by_name
        }

    def _run(self, layouts: Mapping[int, PackedLayout]) -> str:
        given = [
            f"{name}_packed" if at in layouts else name for at, name in enumerate(self.parameters)
        ]
        taken = [one for at, one in enumerate(given) if at not in layouts]
        taken += [given[at] for at in layouts]
        name = f"{self.function}_packed" if layouts else self.function
        lines = encode_program(self.native, self.machine, origin=self._origin())
        picked = "[0]" if len(self.plan.module.outputs) == 1 else ""
        return _FUNCTION.format(
            name=name, taken=", ".join(taken), lines=lines, given=", ".join(given), picked=picked
        )

    def _origin(self) -> ProgramOrigin:
        module, schedules = expand_copies(self.plan.module, self.plan.schedules)
        words = (describe_schedule(one, schedules[one.name]) for one in module.kernels)
        return ProgramOrigin(write(self.program), str(module), tuple(words))

    def _pack(self, layouts: Mapping[int, PackedLayout]) -> str:
        names = [self.parameters[at] for at in layouts]
        packed = [
            _packing(self.parameters[at], one, self.plan.module.inputs[at].shape)
            for at, one in layouts.items()
        ]
        body = "".join(f"        {one},\n" for one in packed)
        needs = _CODING if any(one.coded for one in layouts.values()) else ""
        return f"def {self.function}_pack({', '.join(names)}):\n{needs}    return (\n{body}    )\n"

    def _how(self) -> str:
        return f"kernels {' '.join(map(_short, self.plan.schedules.values()))}"


def _short(schedule: Schedule) -> str:
    """The tiles, rows and vectors in registers, and what is packed, as short as can be."""
    parts = [f"{name} {size}" for name, size in schedule.tiles.items()]
    if schedule.wishes.rows:
        unit = " by matrix unit" if schedule.wishes.matrix else ""
        parts.append(f"{schedule.wishes.rows}x{schedule.wishes.vectors}{unit}")
    parts += ["kept"] * schedule.keeps
    parts += [
        f"{name} {'coded' if layout.coded else 'packed'}"
        for name, layout in schedule.layouts.items()
    ]
    parts += [f"{name} copied" for name in schedule.staged]
    parts += [f"{name} turned" for name in schedule.turned]
    parts += [f"{name} in panels" for name in schedule.panels]
    parts += ["widened"] * schedule.wide
    parts += [f"{schedule.fastest} first"] * (schedule.fastest is not None)
    usual, wishes = RegisterRequest(), schedule.wishes
    parts += [f"{wishes.unroll} a turn"] * (wishes.unroll != usual.unroll)
    near = " across" if wishes.across else " and near" if wishes.nearest else ""
    if wishes.lanes is not None:
        parts.append("{}x{} along lanes".format(*wishes.lanes))
    parts += [f"{wishes.chains} chains"] * (wishes.chains > 0)
    parts += [f"{wishes.ahead} ahead{near}"] * (wishes.ahead != usual.ahead)
    parts += [f"{schedule.width} bytes a vector"] * (schedule.width > 0)
    return f"[{', '.join(parts)}]"


def _packing(name: str, layout: PackedLayout, sizes: tuple[int, ...]) -> str:
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
    found = f"{found}.reshape({shape}).transpose({order})"
    return f"encoded({found})" if layout.coded else found


_CODING = "    from aiosearch.codegen.cpu.panel_encoder import encoded\n\n"

_FUNCTION = '''def {name}({taken}):
    from aiosearch.codegen.native.carrying import carried

    kernels = carried("""
{lines}
""")
    return kernels({given}){picked}
'''
