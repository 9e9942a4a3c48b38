"""Tensor programs as tunables: lowered to the tile IR, scheduled by modules, printed, compiled.

    norm = tunable_program(lambda x, w: x / jnp.sqrt(jnp.mean(x * x, -1, keepdims=True)) * w)
    await aiosearch.tune(norm, x, w)

A function is captured for the types of a call; its program is lowered with its kernels fused and
apart, and each kernel is scheduled by modules (`tile_modules`). XLA's own kernels are a branch of
the space, and what is tuned is held to the function itself. On a processor a point is printed as
machine code, on a GPU as Pallas, which is interpreted where there is no GPU.

A region that `optimize` has an answer for begins there: the equal program that the answer computes
is a fork beside the one that was written, to be scheduled as well, and the answer's own source is
one of its forms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache, partial
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from ...capture import CaptureError
from ...pool import usable_cores
from ...tensor import TensorError
from ..errors import RequirementFailed, SpaceError, TunerError
from ..kernels import KernelCall, kernel_name, placeholders, source_digest
from ..records import RecordTable
from ..space.spaces import Sampler
from ..space.traces import Trace
from ..tunables import Tunable
from ..types import Configuration, Function, Options, Pytree
from .tile_modules import (
    STANDARD,
    KernelTarget,
    TileModule,
    TileSchedule,
    decisions_of,
    find_tile_module,
    schedule_kernel,
)

if TYPE_CHECKING:
    from ...codegen.cpu import Schedule
    from ...codegen.ir import LoopIndex, Module, TileKernel
    from ...codegen.schedule.plans import ModulePlan, ModulePlans
    from ...codegen.schedule.space import ScheduleChoice
    from ...optimizer import Answer
    from ...tensor import Program

PROGRAM = "program"
"""The fork that says which of several equal programs runs, where there are several."""
AS_WRITTEN = "as written"
FORM = "form"
"""The fork that says what is scheduled: kernels fused, kernels apart, or XLA's own."""
LIBRARY = "library"
JOINED = "joined"
"""Whether kernels that need of each other only the rows they work on run without a barrier."""
ROW_GROUPS = (64, 32, 16, 8)
"""Rows that a thread takes through all of them, as points to begin with have it."""
PROMISING = 24
"""As many points that the code generator predicts best are tried first."""


@dataclass(frozen=True, eq=False)
class LoweredProgram:
    """A program, and its kernels in the tile IR as they may be grouped."""

    program: Program
    forms: Mapping[str, Module]
    sources: Mapping[str, str] = field(default_factory=dict)
    """Further forms: texts of modules that define `_function` of the program's inputs in order."""

    @classmethod
    def of(cls, program: Program) -> LoweredProgram:
        """Lowers a program; raises TunerError where it has no kernels."""
        from ...codegen.lower.lowering import lower
        from ...codegen.passes.kernel_fusion import fuse_kernels

        try:
            plain = lower(program)
        except TensorError as error:
            raise TunerError(f"{program.name} cannot be scheduled: {error}") from None
        fused = fuse_kernels(plain)
        # Fusion may change nothing, and then there is nothing to choose.
        forms = {"fused": fused} if fused == plain else {"fused": fused, "apart": plain}
        return cls(program, forms)

    @classmethod
    def beside(cls, program: Program, sources: Mapping[str, str]) -> LoweredProgram:
        """A program that has these forms as well, and no others of ours where it has no kernels."""
        try:
            return cls(program, cls.of(program).forms, sources)
        except TunerError:
            return cls(program, {}, sources)


EqualPrograms: TypeAlias = Mapping[str, LoweredProgram]
"""Programs that compute the same, by what is said of each; the first is the one that was written.
"""


def equal_programs(program: Program, answer: Answer | None) -> EqualPrograms:
    """A program, and the one that an answer of `optimize` for it computes, with the answer's source
    among its forms. Raises TunerError where there is nothing but XLA's own kernels.
    """
    from ...tensor.text import parse

    if answer is None or not answer.faster:
        return {AS_WRITTEN: LoweredProgram.of(program)}
    text = f"{answer.source}\n\n_function = {answer.function}\n"
    # A record that names a branch means this very text and program, also next year.
    sources = {f"optimized {_digest(answer.source)}": text}
    evidence = answer.evidence
    # Of what packs constant inputs, the program that is stored takes others than the function does.
    if evidence.original is None or evidence.program is None or answer.packing is not None:
        return {AS_WRITTEN: LoweredProgram.beside(program, sources)}
    rewritten = parse(evidence.program)
    # What has no kernels as it was written may have some when it is rewritten.
    return {
        AS_WRITTEN: LoweredProgram.beside(program, {}),
        f"rewritten {_digest(evidence.program)}": LoweredProgram.beside(rewritten, sources),
    }


@dataclass(frozen=True, eq=False)
class ProgramSchedule:
    """How a program runs: the kernels of one form, in their order, or XLA's own."""

    lowered: LoweredProgram
    form: str
    kernels: tuple[TileSchedule, ...] = ()
    joined: bool = False
    """Whether neighbours that need only each other's rows run as one; on a processor alone."""

    @property
    def module(self) -> Module:
        """The kernels that run, those of sums in parts in the place of whole ones."""
        kernels = tuple(schedule.kernel for schedule in self.kernels)
        return replace(self.lowered.forms[self.form], kernels=kernels)

    def printed(self) -> str:
        """The text of a module that defines `_function`, of the program's inputs in order."""
        if self.form == LIBRARY:
            return LibraryProgram(self.lowered.program).printed(KernelCall(()), {})
        if self.form in self.lowered.sources:
            return self.lowered.sources[self.form]
        schedules = {schedule.kernel.name: schedule.scheduled() for schedule in self.kernels}
        target = self.kernels[0].target if self.kernels else None
        if target is None or target.machine is None:
            from ...codegen.pallas import name_of, write

            text = write(self.module, schedules)
            return text + _PALLAS.format(name=name_of(self.module))
        from ...codegen.cpu import print_module
        from ...codegen.native import encode_program

        least = target.threads if self.joined else 0
        native = print_module(self.module, schedules, target.machine, joined=least)
        picked = "[0]" if len(self.module.outputs) == 1 else ""
        return _NATIVE.format(lines=encode_program(native, target.machine), picked=picked)


_NATIVE = '''
def _function(*inputs):
    from aiosearch.codegen.native.carrying import carried

    kernels = carried("""
{lines}
""")
    return kernels(*inputs){picked}
'''
_PALLAS = """

def _function(*inputs):
    return {name}(*inputs, interpret=jax.default_backend() == "cpu")
"""


def schedule_program(
    modules: Sequence[TileModule], s: Sampler, programs: EqualPrograms, target: KernelTarget
) -> ProgramSchedule:
    """Draws how a program runs: which of those that are equal, its form, then each kernel's
    schedule by the modules.
    """
    names = tuple(programs)
    lowered = programs[s.fork(PROGRAM, names) if len(names) > 1 else names[0]]
    form = s.fork(FORM, (*lowered.forms, *lowered.sources, LIBRARY))
    if form not in lowered.forms:
        return ProgramSchedule(lowered, form)
    kernels: list[TileSchedule] = []
    for kernel in lowered.forms[form].kernels:
        kernels += s.part(partial(schedule_kernel, modules, s, kernel, target))
    # The code generator's own model is a column for the one that learns.
    seconds = sum(schedule.seconds() for schedule in kernels)
    s.derive("predicted", math.log2(seconds) if 0 < seconds < math.inf else 0.0)
    joined = bool(_rows_in_common(lowered, form, target)) and s.categorical(JOINED, (False, True))
    if joined:
        scheduled = {schedule.kernel.name: schedule.scheduled() for schedule in kernels}
        fits = _joins([schedule.kernel for schedule in kernels], scheduled, target)
        s.require(fits, "kernels that run as one are cut into the same rows", reads=(JOINED,))
    return ProgramSchedule(lowered, form, tuple(kernels), joined)


@lru_cache(maxsize=64)
def _rows_in_common(
    lowered: LoweredProgram, form: str, target: KernelTarget
) -> Mapping[str, LoopIndex]:
    """By name, the kernels of a form that could run as one if they were cut finely enough, each
    with the row that they have in common.
    """
    if target.machine is None:
        return {}
    from ...codegen.cpu import rows_in_common

    return rows_in_common(lowered.forms[form].kernels, target.threads)


def _joins(
    kernels: Sequence[TileKernel], schedules: Mapping[str, Schedule], target: KernelTarget
) -> bool:
    """Whether some kernels run as one by these schedules."""
    from ...codegen.cpu import phases_by_rows

    return len(phases_by_rows(kernels, schedules, target.threads)) < len(kernels)


def promising_decisions(
    programs: EqualPrograms, modules: Sequence[TileModule], target: KernelTarget, most: int
) -> list[Configuration]:
    """The points that the code generator predicts best, as decisions, those of each form in turn.

    Only what the modules can reach is there.
    """
    from ...codegen.cpu import dissimilar_schedules
    from ...codegen.pallas import different

    select: Function = different if target.machine is None else dissimilar_schedules
    chosen = {name: {PROGRAM: name} if len(programs) > 1 else {} for name in programs}
    decisions: list[Configuration] = []
    # Of several equal programs the later ones come first: somebody preferred them.
    ways = []
    for name, lowered in reversed(list(programs.items())):
        for form, module in lowered.forms.items():
            plans = _plans(module, target)
            ways.append([(name, form, False, plan) for plan in plans.first(most, select)])
            rows = _rows_in_common(lowered, form, target)
            ways.append([(name, form, True, plan) for plan in _plans_by_rows(plans, rows, target)])
    ranked = [point for rank in range(most) for way in ways for point in way[rank : rank + 1]]
    for name, form, joined, plan in ranked[:most]:
        points = {
            kernel.name: {
                parameter.name: parameter.values[at]
                for parameter, at in zip(target.space(kernel).parameters, point, strict=True)
            }
            for kernel, point in zip(plan.module.kernels, plan.points, strict=True)
        }
        # A composition of fewer modules may not reach the point, or not with all constraints.
        with suppress(RequirementFailed, SpaceError, KeyError):
            reached = decisions_of(modules, programs[name].forms[form].kernels, target, points)
            decisions.append({**chosen[name], FORM: form, **reached, JOINED: joined})
    return decisions


def _plans(module: Module, target: KernelTarget) -> ModulePlans[Pytree]:
    """The plans of a module; what its kernels may be is ranked once."""
    from ...codegen.schedule.plans import ModulePlans
    from ...codegen.schedule.space import ranked_choices

    ranked: Callable[[Pytree], Pytree] = cache(ranked_choices)
    spaces = [target.space(kernel) for kernel in module.kernels]
    return ModulePlans(module, spaces, ranking=ranked)


def _plans_by_rows(
    plans: ModulePlans[Pytree], rows: Mapping[str, LoopIndex], target: KernelTarget
) -> list[ModulePlan[Pytree]]:
    """Plans whose kernels can run as one, for groups of so many rows: of each kernel the best
    predicted schedule that cuts its rows so, or the best of all where it has none.
    """
    from ...codegen.schedule.plans import ModulePlan

    by_rows: list[ModulePlan[Pytree]] = []
    for group in ROW_GROUPS if rows else ():
        choices = [
            _cut_by_rows(plans.ranking(space), rows.get(kernel.name), group)
            for kernel, space in zip(plans.module.kernels, plans.spaces, strict=True)
        ]
        fitting = [choice for choice in choices if choice is not None]
        if len(fitting) < len(choices):
            continue
        plan = ModulePlan(plans.module, tuple(fitting))
        if _joins(plans.module.kernels, plan.schedules, target):
            by_rows.append(plan)
    return by_rows


def _cut_by_rows(
    ranked: Sequence[ScheduleChoice[Pytree]], row: LoopIndex | None, group: int
) -> ScheduleChoice[Pytree] | None:
    """The first of the ranked schedules that cuts its rows into parts of a group, else the first of
    all.
    """
    for choice in ranked:
        schedule = choice.schedule
        if row is None or (group % schedule.tile(row) == 0 and not schedule.transposed):
            return choice
    return ranked[0] if ranked else None


class ProgramKernel:
    """The function of a scheduled program: what a `Tunable` calls, with decisions as keywords.

    It travels as the text that it prints, since no other process could import it.
    """

    def __init__(
        self,
        read: Callable[[KernelCall], EqualPrograms],
        modules: Sequence[TileModule],
        target: KernelTarget,
        name: str,
        function: Function | None = None,
    ) -> None:
        """Takes what reads the programs for a call, and the `function` whose result they give.

        Without one the result is an array, or a tuple of arrays.
        """
        self.modules = tuple(modules)
        self.target = target
        self.__name__ = self.__qualname__ = name
        self.__module__ = __name__
        self._read = read
        self._function = function
        self._programs: dict[tuple[str, ...], EqualPrograms] = {}

    def programs(self, call: KernelCall) -> EqualPrograms:
        """The programs for a kind of arguments, lowered once."""
        if call.text not in self._programs:
            self._programs[call.text] = self._read(call)
        return self._programs[call.text]

    def schedule(self, call: KernelCall, decisions: Options) -> ProgramSchedule:
        """The schedule of decisions that are a point of the space."""
        # A record of before has no value for a site that came since.
        sampler = Sampler(lambda site: decisions.get(site.name, site.first()))
        return schedule_program(self.modules, sampler, self.programs(call), self.target)

    def printed(self, call: KernelCall, decisions: Options) -> str:
        """The text of a module that defines `_function`, of the call's leaves in order."""
        return self.schedule(call, decisions).printed()

    def __call__(self, *arguments: Pytree, **decisions: Pytree) -> Pytree:
        import jax

        call = KernelCall(arguments)
        run = _loaded(self.printed(call, decisions))
        results = run(*call.leaves)
        flat = list(results) if isinstance(results, tuple | list) else [results]
        return jax.tree.unflatten(self._structure(call), flat)

    def _structure(self, call: KernelCall) -> Pytree:
        import jax

        if self._function is not None:
            specs = call.with_leaves(placeholders(call.types)).arguments
            return jax.tree.structure(jax.eval_shape(self._function, *specs))
        outputs = next(iter(self.programs(call).values())).program.outputs
        return jax.tree.structure(0 if len(outputs) == 1 else (0,) * len(outputs))


@lru_cache(maxsize=64)
def _loaded(text: str) -> Function:
    """The function in a text that was printed here."""
    scope: Configuration = {"__name__": "aiosearch_scheduled_program"}
    exec(compile(text, "scheduled_program.py", "exec"), scope)
    function: Function = scope["_function"]
    return function


class TunableProgram(Tunable[..., Pytree]):
    """A tensor program whose kernels are scheduled by modules."""

    def __init__(
        self, kernel: ProgramKernel, reference: Function, table: RecordTable, name: str
    ) -> None:
        super().__init__(kernel, self._space, reference, table, name)
        self._kernel = kernel

    @property
    def source(self) -> str:
        """Changes with the function, and with what the modules do."""
        return source_digest(self.reference, *self._kernel.modules)

    def favourites(self, call: KernelCall, configurations: Sequence[Options] = ()) -> list[Trace]:
        """What was written for the program elsewhere, too."""
        space, programs = self.search_space(call), self._kernel.programs(call.typed())
        known = [
            space.replay({PROGRAM: name, FORM: form})
            for name, lowered in programs.items()
            for form in (*lowered.sources, *([LIBRARY] if lowered.sources else []))
        ]
        return [*super().favourites(call, configurations), *known]

    def seeds(self, call: KernelCall) -> list[Trace]:
        """What the code generator predicts best."""
        kernel, space = self._kernel, self.search_space(call)
        promising = promising_decisions(
            kernel.programs(call.typed()), kernel.modules, kernel.target, PROMISING
        )
        traces = map(space.replay, promising)
        return list({trace.key: trace for trace in traces}.values())

    def _defaults(self, call: KernelCall) -> Configuration:
        """Untuned, it runs as XLA compiles it: what a point gains is over that."""
        return {FORM: LIBRARY}

    def schedule(self, *arguments: Pytree, **decisions: Pytree) -> ProgramSchedule:
        """How a call runs with these decisions, or with those of its record."""
        return self._kernel.schedule(
            KernelCall(arguments), decisions or self.configuration(*arguments)
        )

    def _space(self, s: Sampler, *arguments: Pytree) -> None:
        programs = self._kernel.programs(KernelCall(arguments))
        schedule_program(self._kernel.modules, s, programs, self._kernel.target)


def tunable_program(
    function: Function,
    *,
    modules: Sequence[TileModule | str] = STANDARD,
    target: KernelTarget | None = None,
    table: str | Path | None = None,
    name: str = "",
) -> TunableProgram:
    """A JAX function whose kernels are ours to schedule; itself is what they are held to.

    `modules` are functions, or names of those here and of plugins. Raises TunerError, for the types
    of a call, where the function is no tensor program.
    """

    def read(call: KernelCall) -> EqualPrograms:
        from ...capture import capture

        specs = call.with_leaves(placeholders(call.types)).arguments
        try:
            captured = capture(function, *specs)
        except CaptureError as error:
            raise TunerError(f"{kernel_name(function)} is no tensor program: {error}") from None
        if captured.constants:
            raise TunerError(
                f"{kernel_name(function)} closes over arrays; give them as arguments, so that its"
                " kernels can take them"
            )
        return {AS_WRITTEN: LoweredProgram.of(captured.program)}

    title = name or f"program of {kernel_name(function)}"
    kernel = ProgramKernel(read, _found(modules), target or host_target(), title, function)
    return TunableProgram(kernel, function, RecordTable(table), title)


def tunable_region(
    program: Program,
    answer: Answer | None = None,
    *,
    modules: Sequence[TileModule | str] = STANDARD,
    target: KernelTarget | None = None,
    table: str | Path | None = None,
) -> TunableProgram:
    """A program that was cut out of a function; it is held to what XLA makes of it.

    The search begins with the `answer` that `optimize` has for it.
    """
    title = f"region {program_digest(program)} of {program.name}"
    read = partial(_read_region, program, answer)
    kernel = ProgramKernel(read, _found(modules), target or host_target(), title)
    return TunableProgram(kernel, LibraryProgram(program), RecordTable(table), title)


def _read_region(program: Program, answer: Answer | None, call: KernelCall) -> EqualPrograms:
    return equal_programs(program, answer)


def program_digest(program: Program) -> str:
    """Equal for equal programs, on every machine."""
    from ...tensor.text import write

    return _digest(write(program))


def _digest(text: str) -> str:
    return blake2b(text.encode(), digest_size=6).hexdigest()


class LibraryProgram:
    """A program as XLA compiles it: a function of its inputs that writes itself down."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self.__name__ = self.__qualname__ = program.name

    def printed(self, call: KernelCall, configuration: Options) -> str:
        """The text of a module that defines `_function`."""
        from ...optimizer import emit, names

        function, _ = names(self._program)
        return f"{emit(self._program)}\n\n_function = {function}\n"

    def __call__(self, *inputs: Pytree) -> Pytree:
        return _loaded(self.printed(KernelCall(inputs), {}))(*inputs)


def host_target() -> KernelTarget:
    """The device that jax runs on by default: this processor, or a GPU that is described."""
    import jax

    device = jax.devices()[0]
    if device.platform == "cpu":
        from ...codegen.native import host

        return KernelTarget(host(), usable_cores())
    from ... import devices

    capability = str(getattr(device, "compute_capability", ""))
    described = devices.described_as(str(device.device_kind), capability)
    if not described:
        raise TunerError(devices.undescribed(str(device.device_kind), capability))
    return KernelTarget(device=devices.device(described))


def _found(modules: Sequence[TileModule | str]) -> list[TileModule]:
    return [find_tile_module(name) if isinstance(name, str) else name for name in modules]
