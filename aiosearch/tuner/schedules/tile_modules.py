"""Modules that schedule kernels of the tile IR, for a processor and for a GPU alike.

The code generator says of each kernel which parameters its schedule has, which values are on offer,
and which go together (`codegen.schedule.space`). Here each of these belongs to a module, so that
the fixed space is one composition of several, and other compositions are other spaces:

    def swizzle_grid(s, schedule):
        if free := schedule.free("fastest"):
            yield "another index first", lambda: schedule.draw(s, *free)

A `TileSchedule` is a kernel with the values that were drawn so far; what no module has drawn has
its default, the first value. A module may also draw values that the code generator does not list,
as `multi_level_tiling` of a third party might: whatever goes together by the constraints is legal,
and everything that is printed computes the same.

Invariant: with `STANDARD` exactly the points of the fixed space can be reached, and leaving a
module out leaves those that have its parameters at their defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeAlias

from ..errors import SpaceError, TunerError
from ..space.sites import AnySite, ForkSite, Value, as_value
from ..space.spaces import Sampler
from ..types import Configuration, Pytree
from .modules import SKIP, named_module

if TYPE_CHECKING:
    from ...codegen.ir import TileKernel
    from ...codegen.native import CpuMachine
    from ...codegen.pallas import SplitSpace
    from ...codegen.schedule.space import ScheduleConstraint, ScheduleParameter, ScheduleSpace
    from ...devices import Device

GROUP = "aiosearch.tile_modules"
MOST_SEEN = 1000

KernelSchedule: TypeAlias = Pytree
"""What a printer takes: a `codegen.cpu.Schedule`, or a `codegen.pallas.Tiling`."""


class KernelTarget:
    """What kernels are printed for: a processor with so many threads, or a GPU.

    `constant` names the inputs whose packed layouts may be made beforehand.
    """

    def __init__(
        self,
        machine: CpuMachine | None = None,
        threads: int = 1,
        *,
        device: Device | None = None,
        constant: Iterable[str] = (),
    ) -> None:
        if (machine is None) == (device is None):
            raise TunerError("a target is a processor (machine=) or a GPU (device=)")
        self.machine = machine
        self.device = device
        self.threads = threads
        self.constant = tuple(constant)
        self._spaces: dict[TileKernel, ScheduleSpace[KernelSchedule]] = {}
        self._seen: dict[int, tuple[TileKernel, ScheduleSpace[KernelSchedule]]] = {}
        """By identity, too: every site of a point asks, and hashing a kernel walks all of it."""
        self._splits: dict[TileKernel, SplitSpace] = {}

    def space(self, kernel: TileKernel) -> ScheduleSpace[KernelSchedule]:
        """The parameters of a kernel's schedule, their values, and which go together."""
        seen = self._seen.get(id(kernel))
        if seen is None or seen[0] is not kernel:
            # Kernels that a point makes for itself, as those of sums in parts, are never met again.
            if len(self._seen) >= MOST_SEEN:
                self._seen.clear()
            seen = self._seen[id(kernel)] = (kernel, self._equal_space(kernel))
        return seen[1]

    def _equal_space(self, kernel: TileKernel) -> ScheduleSpace[KernelSchedule]:
        """The one space of all kernels that are equal to this one."""
        if kernel not in self._spaces:
            if self.machine is not None:
                from ...codegen.cpu import schedule_space

                self._spaces[kernel] = schedule_space(
                    kernel, self.machine, self.threads, self.constant
                )
            else:
                from ...codegen.pallas import TilingSpace

                assert self.device is not None
                self._spaces[kernel] = TilingSpace(kernel, self.device)
        return self._spaces[kernel]

    def splits(self, kernel: TileKernel) -> SplitSpace | None:
        """In how many parts the sums of a kernel may run; nothing on a processor."""
        if self.device is None:
            return None
        if kernel not in self._splits:
            from ...codegen.pallas import SplitSpace

            self._splits[kernel] = SplitSpace(kernel, self.device)
        return self._splits[kernel]

    def levels(self, kernel: TileKernel) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """The levels of a kernel's loops, from the outermost: S over its outputs, R over what is
        summed, each with the parameters that cut it.

        On a processor blocks, the serial loop of a block, and the register tile; on a GPU the grid,
        and the loop of a block.
        """
        if self.machine is not None:
            blocks = ("block", "panels", "row")
            return (("S", blocks), ("R", ("serial",)), ("S", ("registers",)))
        from ...codegen.pallas import IndexTile

        tiles = [tile for tile in self.space(kernel).parameters if isinstance(tile, IndexTile)]
        grid = tuple(tile.name for tile in tiles if not tile.loop)
        return (("S", grid), ("R", tuple(tile.name for tile in tiles if tile.loop)))


@dataclass(frozen=True)
class TileSchedule:
    """How one kernel runs, as far as modules have drawn it."""

    kernel: TileKernel
    target: KernelTarget
    values: Mapping[str, Pytree]
    """Of each parameter, in the code generator's own form."""
    sites: Mapping[str, str] = field(default_factory=dict)
    """Where each value was drawn; a parameter that is not here has its default."""
    notes: tuple[str, ...] = ()
    """What modules have done, in words."""

    @classmethod
    def start(cls, kernel: TileKernel, target: KernelTarget) -> TileSchedule:
        """All parameters at their defaults."""
        parameters = target.space(kernel).parameters
        return cls(
            kernel, target, {parameter.name: parameter.values[0] for parameter in parameters}
        )

    def parameter(self, name: str) -> ScheduleParameter | None:
        """A parameter by its name; nothing where the kernel has none of this name."""
        parameters = self.target.space(self.kernel).parameters
        return next((parameter for parameter in parameters if parameter.name == name), None)

    def free(self, *names: str) -> tuple[str, ...]:
        """Those of the named parameters that can still be drawn: with several values, not drawn."""
        parameters = {
            parameter.name: parameter for parameter in self.target.space(self.kernel).parameters
        }
        return tuple(
            name
            for name in names
            if name in parameters and len(parameters[name].values) > 1 and name not in self.sites
        )

    def site(self, name: str) -> str:
        """What the site of a parameter is called."""
        return f"{self.kernel.name}.{name}"

    def draw(
        self, s: Sampler, *names: str, of: Callable[[Pytree], bool] = lambda value: True
    ) -> TileSchedule:
        """The same with values of these parameters drawn, of those that `of` holds for."""
        drawn = self
        for name in names:
            parameter = self.parameter(name)
            assert parameter is not None, f"{self.kernel.name} has no parameter {name}"
            offered = {plain(value): value for value in parameter.values if of(value)}
            label = s.categorical(self.site(name), tuple(offered))
            drawn = drawn.with_value(name, offered[as_value(label)])
        return drawn

    def with_value(self, name: str, value: Pytree) -> TileSchedule:
        """The same with another value, as drawn at this parameter's site: any that goes together
        with the others by the constraints, listed or not.
        """
        sites = {**self.sites, name: self.site(name)}
        note = f"{name} {plain(value)}"
        return replace(
            self, values={**self.values, name: value}, sites=sites, notes=(*self.notes, note)
        )

    def require(self, s: Sampler, forks: Sequence[str]) -> None:
        """Leaves the point where values do not go together; `forks` are drawn again where what
        does not fit is a default.
        """
        for constraint in self.target.space(self.kernel).constraints:
            holds = constraint.holds(*(self.values[name] for name in constraint.of))
            if holds:
                continue
            drawn = [self.sites[name] for name in constraint.of if name in self.sites]
            undrawn = len(drawn) < len(constraint.of)
            s.require(False, _reason(self.kernel, constraint), reads=drawn + [*forks] * undrawn)

    def scheduled(self) -> KernelSchedule:
        """What the printer takes."""
        return self.target.space(self.kernel).schedule(self.values)

    def seconds(self) -> float:
        """What the code generator's own model predicts."""
        return self.target.space(self.kernel).seconds(self.scheduled())


TileBranch: TypeAlias = tuple[str, Callable[[], TileSchedule | Sequence[TileSchedule]]]
"""A name, and what gives the schedule where the branch is taken, or those of the kernels that then
stand for the kernel, in their order."""


class TileModule(Protocol):
    """A step of the schedule of a kernel."""

    __name__: str

    def __call__(self, s: Sampler, schedule: TileSchedule, /) -> Iterable[TileBranch]: ...


def schedule_kernel(
    modules: Sequence[TileModule], s: Sampler, kernel: TileKernel, target: KernelTarget
) -> list[TileSchedule]:
    """Draws a branch of each module in turn, or none of it; gives the kernels that then stand for
    this one, each with its schedule.
    """
    schedules, forks = [TileSchedule.start(kernel, target)], dict[str, list[str]]()
    for module in modules:
        after: list[TileSchedule] = []
        for schedule in schedules:
            branches = dict(module(s, schedule))
            if SKIP in branches:
                raise SpaceError(
                    f"module {module.__name__} calls a branch {SKIP!r}, which every module has"
                )
            if not branches:
                after.append(schedule)
                continue
            name = f"{schedule.kernel.name}.{module.__name__}"
            branch = s.fork(name, (SKIP, *branches))
            result = schedule if branch == SKIP else branches[branch]()
            parts = [result] if isinstance(result, TileSchedule) else list(result)
            for part in parts:
                forks.setdefault(part.kernel.name, []).append(name)
            after += parts
        schedules = after
    for schedule in schedules:
        schedule.require(s, forks.get(schedule.kernel.name, ()))
    return schedules


def multi_level_tiling(structure: str = "SRS") -> TileModule:
    """Cuts loops level by level, as a structure says: S a level over the outputs, R one over what
    is summed, from the outermost.

    `SRS` is all that a processor has: blocks, the serial loop of a block, the register tile. With
    `S` only blocks are cut. A level that the target does not have is left out.
    """
    if not structure or set(structure) - {"S", "R"}:
        raise TunerError(f"{structure!r} is no structure of tiles; SRS is one, and S another")

    def module(s: Sampler, schedule: TileSchedule) -> Iterator[TileBranch]:
        levels, names = list(schedule.target.levels(schedule.kernel)), list[str]()
        for letter in structure:
            # The next level of this letter that is further inside; those between stay uncut.
            depth = next((at for at, (kind, _) in enumerate(levels) if kind == letter), None)
            if depth is not None:
                names += levels[depth][1]
                del levels[: depth + 1]
        if free := schedule.free(*names):
            # A matrix unit's register tiles are `use_matrix_unit`'s to draw.
            vectors = partial(_is_of_unit, False)
            yield structure, lambda: schedule.draw(s, *free, of=vectors)

    module.__name__ = "multi_level_tiling"
    return module


def use_matrix_unit(s: Sampler, schedule: TileSchedule) -> Iterator[TileBranch]:
    """Sums in the tiles of a matrix unit, where the machine has one and the types are its own.

    A GPU's printer multiplies by its unit whenever tiles fill it, so there is no choice there.
    """
    registers = schedule.parameter("registers")
    units = partial(_is_of_unit, True)
    if registers is not None and any(map(units, registers.values)):
        yield "matrix unit", lambda: schedule.draw(s, "registers", of=units)


def packing(s: Sampler, schedule: TileSchedule) -> Iterator[TileBranch]:
    """Lays operands out in panels: beforehand, coded or not, or in each block; and widens them."""
    if free := schedule.free("packed", "coded", "laid", "wide"):
        yield "in panels", lambda: schedule.draw(s, *free)


def cache_read(s: Sampler, schedule: TileSchedule) -> Iterator[TileBranch]:
    """Copies or transposes the rows that all columns of a block share."""
    if free := schedule.free("shared"):
        yield "rows", lambda: schedule.draw(s, *free)


def compute_location(s: Sampler, schedule: TileSchedule) -> Iterator[TileBranch]:
    """Where a tile that later passes read is computed: once, and kept, or again by each."""
    if free := schedule.free("keeps"):
        yield "kept", lambda: schedule.draw(s, *free)


def cross_lane_reduction(s: Sampler, schedule: TileSchedule) -> Iterator[TileBranch]:
    """How many sums run at once where lanes of a vector lie along what is summed."""
    if free := schedule.free("lanes", "chains"):
        yield "sums", lambda: schedule.draw(s, *free)


def vectorize_unroll(s: Sampler, schedule: TileSchedule) -> Iterator[TileBranch]:
    """The width of vectors, and steps of the innermost loop; on a GPU the warps of a block."""
    if free := schedule.free("width", "unrolled", "warps"):
        yield "by hand", lambda: schedule.draw(s, *free)


def pipeline(s: Sampler, schedule: TileSchedule) -> Iterator[TileBranch]:
    """How far ahead operands are fetched, and to where; on a GPU how many steps are in flight."""
    if free := schedule.free("ahead", "nearest", "down", "stages"):
        yield "ahead", lambda: schedule.draw(s, *free)


def swizzle_grid(s: Sampler, schedule: TileSchedule) -> Iterator[TileBranch]:
    """Along which index consecutive blocks follow each other."""
    if free := schedule.free("fastest"):
        yield "another index first", lambda: schedule.draw(s, *free)


def split_k(s: Sampler, schedule: TileSchedule) -> Iterator[TileBranch]:
    """Cuts a sum into parts that run apart, and a kernel that adds them up, where blocks are few.

    Both kernels go on through the modules that follow, each with sites of its own.
    """
    splits = None if schedule.sites else schedule.target.splits(schedule.kernel)
    offered = (
        []
        if splits is None
        else [parameter for parameter in splits.parameters if parameter.values[1:]]
    )
    if splits is None or not offered:
        return

    def split() -> list[TileSchedule]:
        name = s.categorical(
            schedule.site("split_index"), [parameter.name for parameter in offered]
        )
        counts = next(parameter.values[1:] for parameter in offered if parameter.name == name)
        parts = s.categorical(schedule.site("split_parts"), counts)
        chosen = {
            parameter.name: parts if parameter.name == name else 1
            for parameter in splits.parameters
        }
        sites = [schedule.site("split_index"), schedule.site("split_parts")]
        for constraint in splits.constraints:
            holds = constraint.holds(*(chosen[index] for index in constraint.of))
            s.require(holds, _reason(schedule.kernel, constraint), reads=sites)
        halves = splits.schedule(chosen)
        return [TileSchedule.start(half.kernel, schedule.target) for half in halves]

    yield "in parts", split


STANDARD: tuple[TileModule, ...] = (
    split_k,
    use_matrix_unit,
    packing,
    multi_level_tiling(),
    cache_read,
    compute_location,
    cross_lane_reduction,
    vectorize_unroll,
    pipeline,
    swizzle_grid,
)
"""What kernels of the tile IR are scheduled with where nobody says otherwise."""


def find_tile_module(name: str) -> TileModule:
    """A module by its name: one of those here, or a plugin's of `aiosearch.tile_modules`."""
    module: TileModule = named_module(name, STANDARD, GROUP)
    return module


def plain(value: Pytree) -> Value:
    """A value of the code generator as a site has it: what JSON can carry."""
    if isinstance(value, Enum):
        return value.value
    return tuple(map(plain, value)) if isinstance(value, tuple | list) else value


def decisions_of(
    modules: Sequence[TileModule],
    kernels: Sequence[TileKernel],
    target: KernelTarget,
    points: Mapping[str, Configuration],
    partings: Mapping[str, tuple[str, int]] = {},
) -> Configuration:
    """The decisions that lead to values of the code generator, given by kernel and parameter, as
    {"product": {"registers": (8, 2, False), ...}}.

    `partings` says of kernels whose sums run in parts along which index and in how many; then
    `points` are of both kernels that stand for one.
    """

    def decide(site: AnySite) -> Value:
        kernel, _, name = site.name.rpartition(".")
        if name in ("split_index", "split_parts"):
            return partings[kernel][int(name == "split_parts")]
        if not isinstance(site, ForkSite):
            return plain(points[kernel][name])
        branches = True
        if name == use_matrix_unit.__name__:
            branches = _is_of_unit(True, points[kernel]["registers"])
        elif name == split_k.__name__:
            branches = kernel in partings
        return site.branches[-1] if branches else SKIP

    sampler = Sampler(decide)
    for kernel in kernels:
        schedule_kernel(modules, sampler, kernel, target)
    return sampler.decisions


def _is_of_unit(matrix: bool, value: Pytree) -> bool:
    """Whether a register tile lies in a matrix unit, or not; of other values nothing is wanted."""
    is_registers = isinstance(value, tuple) and len(value) == 3 and isinstance(value[2], bool)
    return value[2] == matrix if is_registers else not matrix


def _reason(kernel: TileKernel, constraint: ScheduleConstraint) -> str:
    """What a constraint protects, in the words of the function that states it."""
    function = constraint.holds
    while isinstance(function, partial):
        function = function.func
    words = (function.__doc__ or "").strip().split(".")[0].replace("\n", " ")
    words = " ".join(words.split()).replace("`", "") or function.__name__.strip("_<>")
    return f"{kernel.name}: {words} ({', '.join(constraint.of)})"
