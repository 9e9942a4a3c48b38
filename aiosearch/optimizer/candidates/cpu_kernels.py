"""CPU kernel candidates: the schedules of a program as machine code, each with the source that
calls it.

Example: for `rms_norm` of f32[16, 4096] with a constant W, `CpuKernels(program, host(), 2,
(1,)).first(8)` are at most eight `SchedulePoint`s with the best prediction, and `source` of one is
a module with a function `rms_norm_packed`, which loads machine code from its own text.

The program is lowered twice, with its kernels fused and apart, and the spaces of both are searched.
docs/why/kernels.md goes through all steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ...codegen.cpu import (
    KERNEL_START_SECONDS,
    PackedLayout,
    RegisterRequest,
    Schedule,
    describe_schedule,
    dissimilar_schedules,
    expand_copies,
    print_module,
    schedule_space,
)
from ...codegen.ir import Module, TileKernel
from ...codegen.lower.lowering import lower
from ...codegen.native import CpuMachine, KernelProgram, ProgramOrigin, encode_program
from ...codegen.passes.kernel_fusion import fuse_kernels
from ...codegen.schedule.plans import ModulePlan, ModulePlans
from ...codegen.schedule.space import ScheduleChoice, ScheduleSpace, ranked_choices
from ...measure import ArrayType
from ...tensor import Program
from ...tensor.text import write
from ...tensor.types import ARRAY_NAMES
from .candidate_names import kernels_name
from .jax_source import module as module_of
from .jax_source import names
from .schedule_point import KernelSource, PlannedModules, SchedulePoint


class CpuKernels:
    """All ways to run one program on a processor; raises `TensorError` where it cannot
    be lowered."""

    def __init__(
        self,
        program: Program,
        machine: CpuMachine,
        threads: int,
        constant: Sequence[int] = (),
        spaces: RankedSpaces | None = None,
    ) -> None:
        self._program, self._machine = program, machine
        spaces = spaces or RankedSpaces(machine, threads)
        function, self._parameters = names(program)
        plain = replace(lower(program), name=function)
        constants = [plain.inputs[at].name for at in constant]
        # A `dict`, as fusion may change nothing: then there is one module, and no schedule is timed
        # twice.
        modules = dict.fromkeys([fuse_kernels(plain), plain])
        plans = [_plans(module, spaces, constants) for module in modules]
        self._planned = PlannedModules(plans, dissimilar_schedules)
        self._writers: dict[tuple[object, ...], _KernelSourceWriter] = {}

    def first(self, most: int) -> list[SchedulePoint]:
        """At most `most` points, best predicted first, and the first of each module at any rate."""
        return self._planned.first(most)

    def code(self, place: SchedulePoint) -> KernelProgram:
        """The machine code of a point; different choices may print the same."""
        return self._writer(place).native

    def neighbours(self, place: SchedulePoint) -> list[SchedulePoint]:
        """The points that differ from `place` in one choice."""
        return self._planned.neighbours(place)

    def source(self, place: SchedulePoint) -> KernelSource:
        """What runs a point; raises `IllegalPointError` where there is no such point."""
        return self._writer(place).source()

    def _writer(self, place: SchedulePoint) -> _KernelSourceWriter:
        """The writer of a point, which prints once, whatever form the point is said to be of."""
        # Without the form: equal modules of two forms print the same text.
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
    """At most `most` sources, best predicted first; raises `TensorError` where the program cannot
    be lowered."""
    ways = CpuKernels(program, machine, threads, constant)
    points: dict[KernelProgram, SchedulePoint] = {}
    for point in ways.first(most):
        points.setdefault(ways.code(point), point)
    return [*map(ways.source, points.values())]


class RankedSpaces:
    """The schedule spaces of kernels, each made and ranked once.

    Of the gradient of a transformer block, two modules of three equal programs have 270 kernels, of
    which 85 are different; to rank them is most of what its candidates cost.
    """

    def __init__(self, machine: CpuMachine, threads: int) -> None:
        self._machine, self._threads = machine, threads
        self._spaces: dict[tuple[TileKernel, frozenset[str]], ScheduleSpace[Schedule]] = {}
        self._ranked: dict[ScheduleSpace[Schedule], Sequence[ScheduleChoice[Schedule]]] = {}

    def ranked(self, space: ScheduleSpace[Schedule]) -> Sequence[ScheduleChoice[Schedule]]:
        """The choices of one of these spaces, best first."""
        if space not in self._ranked:
            self._ranked[space] = ranked_choices(space)
        return self._ranked[space]

    def of(self, kernel: TileKernel, packable: Collection[str]) -> ScheduleSpace[Schedule]:
        """The space of a kernel in which these inputs may be packed."""
        # Nothing depends on a kernel's name, which counts those before it.
        unnamed = replace(kernel, name="")
        packed = frozenset(buffer.name for buffer in kernel.inputs).intersection(packable)
        key = unnamed, packed
        if key not in self._spaces:
            inputs = [buffer.name for buffer in kernel.inputs if buffer.name in packed]
            self._spaces[key] = schedule_space(unnamed, self._machine, self._threads, inputs)
        return self._spaces[key]


def _plans(module: Module, spaces: RankedSpaces, constant: Sequence[str]) -> ModulePlans[Schedule]:
    packable = _packable(module, constant)
    each_space = [spaces.of(kernel, packable) for kernel in module.kernels]
    return ModulePlans(module, each_space, KERNEL_START_SECONDS, spaces.ranked)


def _packable(module: Module, constant: Sequence[str]) -> list[str]:
    """Constant inputs that only one kernel reads, which may have them in its own layout."""
    uses = Counter(array.name for kernel in module.kernels for array in kernel.inputs)
    uses.update(array.name for array in module.outputs)  # which a kernel copies
    return [name for name in constant if uses[name] == 1]


@dataclass(frozen=True)
class _KernelSourceWriter:
    """Writes one module by one set of schedules."""

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
            return KernelSource(
                self._how(), self.plan.seconds, module_of(run), self.function,
                schedule=self._schedule(),
            )  # fmt: skip
        inputs = self.plan.module.inputs
        types = tuple(
            ArrayType(ARRAY_NAMES[packed_type.dtype], packed_type.shape)
            for packed_type in (layout.packed_input(inputs[at]) for at, layout in layouts.items())
        )
        text = module_of(f"{self._pack(layouts)}\n\n{run}")
        # Names that `Answer.renamed` gives too, so that an answer can be called after any function.
        function, pack = f"{self.function}_packed", f"{self.function}_pack"
        seconds = self.plan.seconds
        return KernelSource(
            self._how(), seconds, text, function, tuple(layouts), pack, types, self._schedule()
        )

    def _layouts(self) -> dict[int, PackedLayout]:
        """The layouts of packed inputs, by their positions."""
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
        packed = [self.parameters[at] for at in self._layouts()]
        return kernels_name(self.plan.module.kernels, packed)

    def _schedule(self) -> str:
        return " ".join(map(_short, self.plan.schedules.values()))


def _short(schedule: Schedule) -> str:
    """The tiles, rows and vectors in registers, and what is packed, as short as can be: `[m 16, k
    256, 4x2, W packed]`."""
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
    """The text of an expression that packs an input: batch, panels, rows, width, and pairs of rows
    last.

    Example: W f32[4096, 6144] in panels of 32 is `W.reshape((4096, 192, 32)).transpose((1, 0, 2))`.
    """
    batch = [axis for axis in range(len(sizes)) if axis not in (layout.row, layout.column)]
    rows, columns = sizes[layout.row], sizes[layout.column]
    panels, odd = -(-columns // layout.width), rows % 2 if layout.pairs else 0
    text = name
    if [*batch, layout.row, layout.column] != list(range(len(sizes))):
        text = f"jnp.transpose({text}, {(*batch, layout.row, layout.column)})"
    # Panels are full and rows come in pairs: zeros fill up, which add nothing to a sum of products.
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
