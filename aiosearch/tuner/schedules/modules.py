"""Modules: steps of a schedule that people write on their own and put together.

A module is a function of a sampler and a schedule. It yields its branches, each a name and what
leads to the changed schedule; there it may draw at sites and require what it likes:

    def swizzle(s, schedule):
        yield "by columns", lambda: schedule.with_note("columns first", order="nm")

`compose` makes a space of several. At each module the point may also leave the schedule as it is:
so a module adds points and takes none away, whatever it does, and whoever wrote it. A plugin names
its module in the entry-point group `aiosearch.schedule_modules`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.metadata import entry_points
from typing import Protocol, TypeAlias

from ...arguments import nearest
from ..errors import SpaceError, TunerError
from ..kernels import ArgumentType
from ..space.spaces import Sampler
from ..tunables import AnyTunable, tunable
from ..types import Configuration, Pytree
from .contractions import EinsumSchedule, EinsumSpec, lower

GROUP = "aiosearch.schedule_modules"
SKIP = "as it is"

Branch: TypeAlias = tuple[str, Callable[[], EinsumSchedule]]
"""A name, and what gives the schedule where the branch is taken."""


class ScheduleModule(Protocol):
    """A step of a schedule."""

    __name__: str

    def __call__(self, s: Sampler, schedule: EinsumSchedule, /) -> Iterable[Branch]: ...


def compose(
    modules: Sequence[ScheduleModule], s: Sampler, schedule: EinsumSchedule
) -> EinsumSchedule:
    """Draws a branch of each module in turn, or none of it, and gives what they lead to.

    With XLA's own kernel a schedule is complete, and later modules are not asked.
    """
    for module in modules:
        if schedule.library:  # of what XLA computes nothing is left to schedule
            break
        branches = dict(module(s, schedule))
        name = module.__name__
        if SKIP in branches:
            raise SpaceError(f"module {name} calls a branch {SKIP!r}, which every module has")
        branch = s.fork(name, (SKIP, *branches))
        if branch != SKIP:
            schedule = branches[branch]()
    return schedule


def auto_inline(s: Sampler, schedule: EinsumSchedule) -> Iterator[Branch]:
    """Applies the epilogue to each block when it is done, while it is still in the cache."""
    if schedule.contraction.epilogue and not schedule.inlined:
        yield "into the kernel", lambda: schedule.with_note("epilogue inside", inlined=True)


def multi_level_tiling(structure: str = "SRSR") -> ScheduleModule:
    """Cuts every axis as a structure says: a level for each S of the output's axes and each R of
    the summed ones. `SRSR` is grid, steps, block; `SSRSR` has a second level of the grid, which
    goes through blocks that lie together before it moves on.
    """
    parts = {"S": structure.count("S"), "R": structure.count("R")}
    if set(structure) != {"S", "R"} or structure[-2:] != "SR":
        raise TunerError(f"{structure!r} is no structure of tiles; one is SRSR, another SSRSR")

    def module(s: Sampler, schedule: EinsumSchedule) -> Iterator[Branch]:
        def tiled() -> EinsumSchedule:
            contraction = schedule.contraction
            tiles = {
                axis: s.tile(
                    f"tile_{axis}",
                    extent,
                    parts=parts["S" if axis in contraction.output else "R"],
                    most_inner=512,
                )
                for axis, extent in contraction.extents.items()
            }
            changed = schedule.with_note(f"tiled {structure}", tiles=tiles)
            s.derive("block_bytes", changed.block_bytes())
            s.derive("blocks", math.prod(math.prod(factors[:-1]) for factors in tiles.values()))
            return changed

        yield structure, tiled

    module.__name__ = "multi_level_tiling"
    return module


def swizzle_grid(s: Sampler, schedule: EinsumSchedule) -> Iterator[Branch]:
    """Goes through the grid in another order of axes, so that other blocks are used again soon."""
    axes = schedule.contraction.output
    if len(axes) > 1:

        def ordered() -> EinsumSchedule:
            order = "".join(s.permutation("grid_order", tuple(axes)))
            return schedule.with_note(f"grid in the order {order}", order=order)

        yield "reordered", ordered


def split_k(s: Sampler, schedule: EinsumSchedule) -> Iterator[Branch]:
    """Cuts the sum into parts that run apart, where the output alone keeps few units busy."""
    steps = math.prod(math.prod(schedule.tiles[axis][:-1]) for axis in schedule.contraction.summed)
    if steps > 1:

        def split() -> EinsumSchedule:
            parts = s.integer("splits", 2, 16, base=2)
            s.require(steps % parts == 0, "the parts of a sum are equal", reads=("splits",))
            return schedule.with_note(f"the sum in {parts} parts", splits=parts)

        yield "in parts", split


def use_matrix_unit(s: Sampler, schedule: EinsumSchedule) -> Iterator[Branch]:
    """Shapes blocks for the units that multiply small matrices, where the hardware has any.

    Types are never changed silently: a unit counts that takes the operands as they are.
    """
    contraction = schedule.contraction
    for unit in s.hardware.matrix_units(contraction.dtype):

        def shaped(unit: Pytree = unit) -> EinsumSchedule:
            # Of an output of one axis that axis is both.
            rows, columns = contraction.output[-2:][0], contraction.output[-1]
            multiples = [(rows, unit.rows), (columns, unit.columns)]
            multiples += [(axis, unit.depth) for axis in contraction.summed[-1:]]
            for axis, multiple in multiples:
                s.require(
                    schedule.block(axis) % multiple == 0,
                    f"{unit.name} multiplies blocks whose {axis} is a multiple of {multiple}",
                    reads=(f"tile_{axis}",),
                )
            return schedule.with_note(f"on {unit.name}", operand_dtype=contraction.dtype)

        yield unit.name, shaped


def pipeline(s: Sampler, schedule: EinsumSchedule) -> Iterator[Branch]:
    """On a GPU, how many steps are in flight and how many warps share a block."""
    if s.hardware.kind == "gpu":

        def staged() -> EinsumSchedule:
            stages = s.integer("stages", 1, 5)
            warps = s.integer("warps", 1, s.hardware.threads // s.hardware.lanes, base=2)
            tiles = tuple(f"tile_{axis}" for axis in schedule.contraction.extents)
            s.require(
                stages * schedule.block_bytes() <= s.hardware.shared_bytes,
                "the stages of both operands fit in shared memory",
                reads=("stages", *tiles),
            )
            return schedule.with_note(f"{stages} stages, {warps} warps", stages=stages, warps=warps)

        yield "staged", staged


def library_call(s: Sampler, schedule: EinsumSchedule) -> Iterator[Branch]:
    """XLA's own kernel, so that no search ends with anything slower."""
    yield "XLA", lambda: schedule.with_note("XLA's own kernel", library=True)


STANDARD: tuple[ScheduleModule, ...] = (
    library_call,
    multi_level_tiling(),
    auto_inline,
    swizzle_grid,
    split_k,
    use_matrix_unit,
    pipeline,
)
"""What a contraction is scheduled with where nobody says otherwise."""


def tunable_contraction(
    text: str,
    *,
    epilogue: str = "",
    modules: Sequence[ScheduleModule] = STANDARD,
    table: str | None = None,
) -> AnyTunable:
    """A function of two arrays that computes an einsum, whose schedule is drawn by modules.

    matmul = tunable_contraction("mk,kn->mn", epilogue="gelu")
    await aiosearch.tune(matmul, x, y)
    """

    def space(s: Sampler, first: ArgumentType, second: ArgumentType) -> None:
        contraction = EinsumSpec.of(text, first, second, epilogue=epilogue)
        schedule = compose(modules, s, contraction.start())
        if not schedule.library:
            require_grid(s, schedule)

    def reference(first: Pytree, second: Pytree) -> Pytree:
        contraction = EinsumSpec.of(text, first, second, epilogue=epilogue)
        return lower(contraction.start().with_note("XLA", library=True))(first, second)

    def contracted(first: Pytree, second: Pytree, **decisions: Pytree) -> Pytree:
        contraction = EinsumSpec.of(text, first, second, epilogue=epilogue)
        sampler = Sampler(lambda site: decisions[site.name], kernel.hardware)
        return lower(compose(modules, sampler, contraction.start()))(first, second)

    kernel = tunable(
        space, reference=reference, table=table, name=f"contraction:{text}:{epilogue}"
    )(contracted)
    return kernel


MOST_STEPS = 1 << 16


def require_grid(s: Sampler, schedule: EinsumSchedule) -> None:
    """A kernel of very many tiny blocks is never the fastest, and takes minutes to interpret."""
    steps = math.prod(math.prod(factors[:-1]) for factors in schedule.tiles.values())
    reads = tuple(f"tile_{axis}" for axis in schedule.tiles)
    s.require(steps <= MOST_STEPS, f"a kernel has at most {MOST_STEPS} steps", reads=reads)


def find_module(name: str) -> ScheduleModule:
    """A module by its name: one of those here, or a plugin's."""
    module: ScheduleModule = named_module(name, STANDARD, GROUP)
    return module


def named_module(name: str, standard: Sequence[Pytree], group: str) -> Pytree:
    """One of the `standard` modules, or a plugin's of an entry point in `group`."""
    modules: Configuration = {module.__name__: module for module in standard}
    if name in modules:
        return modules[name]
    plugins: Configuration = {plugin.name: plugin for plugin in entry_points(group=group)}
    if name not in plugins:
        names = [*modules, *plugins]
        raise TunerError(
            f"no module is called {name!r}{nearest(name, names)}; there are {', '.join(names)}"
        )
    return plugins[name].load()
