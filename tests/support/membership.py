"""Whether a µgraph is among what the superoptimizer finds: its canonical form, looked up.

Each tensor and tile of the program becomes a class of the tables, each operator a step between
classes. A value that is computed twice is computed once, grids are as fine as they can be, and
partial sums lie where the tables put them. The kernels are then looked up among the leaves of the
search tree, and each block graph among those of its kernel.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from recipes import Accumulated, Loaded, OutsideError, Recipe, Recipes, Reduced

from aiosearch.superoptimizer.blocks import BlockGraph
from aiosearch.superoptimizer.forms import BITS, GRID, LEFT, LOOP, REST, WHOLE, Mask
from aiosearch.superoptimizer.problem import Fusion
from aiosearch.superoptimizer.skeletons import Kernel, Skeleton
from aiosearch.superoptimizer.space import Space
from aiosearch.superoptimizer.tables import REDUCTIONS, Class, Step, Zone
from aiosearch.tensor import Program, Term
from aiosearch.tensor.files import to_json


class Answer(Enum):
    """What became of a program."""

    FOUND = "found"
    OUTSIDE = "outside"
    MISSED = "missed"


@dataclass(frozen=True)
class Membership:
    answer: Answer
    reason: str = ""


class MissedError(Exception):
    """A step that the tables should have."""


@dataclass(frozen=True)
class _Made:
    """How a tensor of the device comes about: a step of its own, or a block graph's output."""

    step: Step
    graph: BlockGraph | None = None


class Members:
    """The programs that a search of a reference finds."""

    def __init__(self, reference: Program, space: Space) -> None:
        self.fusion = Fusion(to_json(reference), space)
        self.tables = self.fusion.tables
        self.skeletons = self.fusion.skeletons
        self._graphs: dict[Kernel, frozenset[object]] = {}
        self._made: dict[tuple[str, tuple[int, ...], str], list[int]] = {}
        for number, steps in enumerate(self.tables.steps):
            for step in steps:
                self._made.setdefault(_key(step), []).append(number)

    @cached_property
    def leaves(self) -> frozenset[frozenset[Kernel]]:
        """All kernel graphs that the search comes to."""
        found: set[frozenset[Kernel]] = set()
        stack: list[Skeleton] = [self.fusion.root()]
        while stack:
            node = stack.pop()
            stack.extend(self.fusion.expand(node))
            found |= {
                frozenset(one.kernels) for one in self.fusion.solutions(node)
            }
        return frozenset(found)

    def judge(self, program: Program) -> Membership:
        """Looks a program up that has the reference's inputs and equals it."""
        try:
            made, outputs = _Reading(self).read(program)
            return self._found(made, outputs)
        except OutsideError as outside:
            return Membership(Answer.OUTSIDE, str(outside))
        except MissedError as missed:
            return Membership(Answer.MISSED, str(missed))

    def _found(self, made: Mapping[int, _Made], outputs: Iterable[int]) -> Membership:
        if [*outputs] != self.tables.targets:
            raise OutsideError("outputs whose forms differ")
        kernels = self._kernels(made)
        space = self.fusion.space
        if len(kernels) > space.kernels:
            raise OutsideError(f"more than {space.kernels} kernels")
        for kernel, graph in kernels.items():
            if graph is not None and len(graph.steps) > space.block_operators:
                raise OutsideError(f"more than {space.block_operators} operators of a block")
            if len(kernel.loads) > space.block_inputs and graph is not None:
                raise OutsideError(f"more than {space.block_inputs} inputs of a block")
        if frozenset(kernels) not in self.leaves:
            raise MissedError(f"kernel graph {[*kernels]}")
        for kernel, graph in kernels.items():
            if graph is not None and _spelled(graph) not in self._graphs_of(kernel):
                raise MissedError(f"block graph {graph}")
        return Membership(Answer.FOUND)

    def _graphs_of(self, kernel: Kernel) -> frozenset[object]:
        found = self._graphs.get(kernel)
        if found is None:
            graphs = self.skeletons.graphs(kernel)
            found = self._graphs[kernel] = frozenset(map(_spelled, graphs))
        return found

    def _kernels(self, made: Mapping[int, _Made]) -> dict[Kernel, BlockGraph | None]:
        """What the outputs need, each kernel with its outputs in order."""
        open_ = [one for one in self.tables.targets if one is not None]
        wanted: dict[int, _Made] = {}
        while open_:
            tensor = open_.pop()
            if tensor in wanted or tensor in self.tables.given:
                continue
            own = wanted[tensor] = made[tensor]
            open_ += own.graph.loads if own.graph else own.step.operands
        found: dict[Kernel, BlockGraph | None] = {}
        together: dict[int, list[int]] = {}
        for tensor, own in sorted(wanted.items()):
            if own.graph is None:
                number = [_key(step) for step in self.tables.steps[tensor]].index(_key(own.step))
                loads = tuple(sorted(set(own.step.operands)))
                found[Kernel((tensor,), loads, number)] = None
            else:
                together.setdefault(id(own.graph), []).append(tensor)
        for tensors in together.values():
            whole = made[tensors[0]].graph
            assert whole is not None
            tiles = tuple(made[tensor].step.operands[0] for tensor in tensors)
            graph = _cut(whole, tiles)
            found[Kernel(tuple(sorted(tensors)), graph.loads)] = graph
        return found

    def step(self, operator: str, operands: tuple[int, ...], detail: str = "") -> Step:
        """A step as the tables spell it."""
        return Step(operator, operands, detail)

    def after(self, step: Step) -> list[int]:
        """The classes that a step of the tables leads to."""
        return self._made.get(_key(step), [])

    def missing(self, step: Step) -> Exception:
        """Why the tables have no such step."""
        tile = self.tables.classes[step.operands[0]]
        within = tile.zone is not Zone.DEVICE
        if within and step.operator in REDUCTIONS and int(step.detail) != len(tile.axes) - 1:
            return OutsideError("a reduction in a block over another axis than the last")
        if "max" in (step.operator, step.detail) and not self.tables.parts.largest:
            return OutsideError("a maximum, which the reference has not")
        if self._unadded(step):
            return OutsideError("partial sums used before they are added up")
        if step.operator in ("add", "sub") and self._cancels(step):
            return OutsideError("terms that cancel or become one")
        if step.operator == "div" and not step.detail and self._divides(step.operands):
            return OutsideError("a quotient that only divides")
        operands = " and ".join(self.show(one) for one in step.operands)
        return MissedError(f"{step.operator} {step.detail} of {operands}")

    def _unadded(self, step: Step) -> bool:
        """Whether it takes partial sums as if they were whole."""
        tiles = [self.tables.classes[one] for one in step.operands]
        pieces = [piece for tile in tiles for axis in tile.axes for piece in axis]
        cut = [piece >> (piece.bit_length() - 1) // BITS * BITS for piece in pieces]
        within = tiles[0].zone is not Zone.DEVICE
        return within and step.operator != "accumulate" and any(not part & REST for part in cut)

    def _cancels(self, step: Step) -> bool:
        forms = self.tables.forms
        one, two = (self.tables.classes[number].form for number in step.operands)
        found = forms.add(one, two) if step.operator == "add" else forms.subtract(one, two)
        return len(forms.items[found]) < len(forms.items[one]) + len(forms.items[two])

    def _divides(self, operands: tuple[int, ...]) -> bool:
        """Whether a quotient is of use below a line only."""
        above, below = (self.tables.classes[one].form for one in operands)
        return self.tables.forms.divide(below, above) in self.tables.parts

    def show(self, number: int) -> str:
        own = self.tables.classes[number]
        axes = [[hex(piece) for piece in axis] for axis in own.axes]
        return f"{number} {own.zone.name} {self.written(own.form)} {axes}"

    def written(self, form: int) -> str:
        forms = self.tables.forms

        def product(powers: Iterable[tuple[int, int]]) -> str:
            return "*".join(f"{unit(one)}^{power / 2:g}" for one, power in powers)

        def unit(number: int) -> str:
            key = forms.units[number]
            if key[0] == "input":
                return str(key[1])
            if key[0] == "sum":
                return f"S{key[1]:x}({product(key[2])}/{product(key[3])})"
            if key[0] == "call":
                return f"{key[1]}({', '.join(map(self.written, key[2]))})"
            return f"{key[0]}({self.written(key[-1])})"

        return " + ".join(
            f"{factor} {mono[2]} {mono[3]} {product(mono[0])}/{product(mono[1])}"
            for mono, factor in forms.items[form]
        )


class _Reading:
    """Finds the classes of a program."""

    def __init__(self, members: Members) -> None:
        self._members = members
        self._tables = members.tables
        self._made: dict[int, _Made] = {}
        self._classes: dict[Term, int] = {}

    def read(self, program: Program) -> tuple[Mapping[int, _Made], list[int]]:
        recipes = Recipes(program, self._tables.reference, self._members.fusion.space)
        inputs = zip(program.inputs, self._tables.inputs, strict=True)
        self._classes = dict(inputs)
        device = [*recipes.device()]
        wanted = [value.form for value in self._tables.reference.outputs]
        if [recipes.forms[term] for term in program.outputs] != wanted:
            raise OutsideError("equal by more than the axioms")
        for term, recipe in device:
            if isinstance(recipe, Recipe):
                self._kernel(recipe)
            else:
                self._operator(term, recipe)
        return self._made, [self._classes[term] for term in program.outputs]

    def _operator(self, term: Term, recipe: Reduced) -> None:
        operands = tuple(self._classes[one] for one in recipe.operands if one in self._classes)
        if recipe.nothing:
            (self._classes[term],) = operands
            return
        step = self._step(recipe, operands)
        (found,) = self._after(step)
        self._classes[term] = found
        if found not in self._tables.given:
            self._made.setdefault(found, _Made(step))

    def _after(self, step: Step) -> list[int]:
        found = self._members.after(step)
        if not found:
            raise self._members.missing(step)
        return found

    def _step(self, recipe: Reduced, operands: tuple[int, ...]) -> Step:
        """An operator with its axis, where it reduces one."""
        if not recipe.mask:
            return Step(recipe.operator, operands, self._number(recipe))
        adds = recipe.operator in ("sum", "fold")
        axes = self._tables.classes[operands[0]].axes
        for at, axis in enumerate(axes):
            if sum(axis) == recipe.mask:
                return Step("sum" if adds else recipe.operator, operands, str(at))
            if axis and axis[0] == recipe.mask and adds:
                return Step("fold", operands, str(at))
        raise OutsideError("a reduction of something between")

    def _number(self, recipe: Reduced) -> str:
        """Which number of the reference it takes, and on which side."""
        for place, (number, _) in enumerate(self._tables.numbers):
            if number in recipe.operands:
                left = number is recipe.operands[0] and recipe.operator in ("sub", "div")
                return f"{'left' if left else 'right'} {place}"
        return ""

    def _kernel(self, recipe: Recipe) -> None:
        grid = recipe.grid
        for label in self._behind(recipe, grid):
            grid = [own for own in grid if own != label]
        while True:
            tiles, steps = self._block(recipe, grid)
            outputs = [tiles[tile] for tile, _ in recipe.outputs]
            graph = _cut(BlockGraph(tuple(outputs), tuple(steps.items())), outputs)
            finer = self._finer(graph)
            if not finer:
                break
            grid = [*grid, finer]
        self._check(graph)
        for (_, term), tile in zip(recipe.outputs, outputs, strict=True):
            step = Step("store", (tile,))
            (found,) = self._after(step)
            self._classes[term] = found
            if found not in self._tables.given:
                self._made.setdefault(found, _Made(step, graph))

    def _check(self, graph: BlockGraph) -> None:
        loads = [step.operands[0] for _, step in graph.steps if step.operator == "load"]
        if len(set(loads)) < len(loads):
            raise OutsideError("a tensor loaded in two ways")

    def _behind(self, recipe: Recipe, grid: list[int]) -> list[int]:
        """The labels of a grid that some tensor has behind another on an axis."""
        found = []
        for label in grid:
            for load in recipe.loads:
                axes = self._tables.classes[self._classes[load.source]].axes
                if label in load.cuts and not any(
                    axis and axis[0] == WHOLE << BITS * label for axis in axes
                ):
                    found.append(label)
        if any(label in recipe.partial for label in found):
            raise OutsideError("partial sums of a part of what lies behind partial sums")
        return found

    def _finer(self, graph: BlockGraph) -> int | None:
        """One more label that the grid could split."""
        skeletons = self._members.skeletons
        own = skeletons._finer(graph.outputs)
        labels = [bit for bit in range(own.bit_length()) if own >> BITS * bit & WHOLE]
        for label in labels:
            if self._splits(graph, label):
                return label + 100
        return None

    def _splits(self, graph: BlockGraph, label: int) -> bool:
        classes = self._tables.classes
        finer = WHOLE << BITS * label
        for number, step in graph.steps:
            local = {piece for axis in classes[number].axes for piece in axis}
            for operand in step.operands:
                for axis in classes[operand].axes:
                    if finer in axis and finer not in local:
                        return False
                    if step.operator == "load" and finer in axis[1:]:
                        return False
        return True

    def _block(
        self, recipe: Recipe, grid: list[int]
    ) -> tuple[dict[Term, int], dict[int, Step]]:
        tiles: dict[Term, int] = {}
        steps: dict[int, Step] = {}
        for term, own in recipe.body:
            if isinstance(own, Loaded):
                source = self._classes[own.source]
                step = Step("load", (source,))
                number = self._loaded(source, own, grid)
            elif isinstance(own, Accumulated):
                step = self._accumulated(own, tiles[own.operand])
                number = self._zoned(self._after(step), recipe)
            else:
                operands = tuple(tiles[one] for one in own.operands if one in tiles)
                if own.nothing:
                    (tiles[term],) = operands
                    continue
                step = self._step(own, operands)
                if step.operator == "fold":
                    raise OutsideError("a fold within a block")
                (number,) = self._after(step)
            tiles[term] = number
            steps.setdefault(number, step)
        return tiles, steps

    def _zoned(self, found: list[int], recipe: Recipe) -> int:
        wanted = Zone.AFTER if recipe.loops else Zone.STILL
        for number in found:
            if self._tables.classes[number].zone is wanted:
                return number
        raise OutsideError("behind a loop, what the loop does not split")

    def _accumulated(self, own: Accumulated, tile: int) -> Step:
        inner = own.mask
        last = self._tables.classes[tile].axes[-1:]
        whole = sum(last[0]) if last else 0
        if own.kind != "none":
            if own.kind != "max" and inner != whole:
                raise OutsideError("partial sums on another axis")
            return Step("accumulate", (tile,), own.kind)
        if not inner:
            return Step("accumulate", (tile,), "none")
        if inner == whole:
            return Step("accumulate", (tile,), "sum")
        if last and last[0] and last[0][0] == inner:
            return Step("accumulate", (tile,), "redtox")
        raise OutsideError("partial sums on another axis")

    def _loaded(self, source: int, own: Loaded, grid: list[int]) -> int:
        """The class of a tile."""
        of = self._tables.classes[source]
        axes = []
        walked = loop = 0
        cut = [label % 100 for label in grid if label >= 100 or label in own.cuts]
        for axis in of.axes:
            if not axis:
                axes.append(axis)
                continue
            first, rest = axis[0], axis[1:]
            shift = (first.bit_length() - 1) // BITS * BITS
            part = first >> shift
            if part == WHOLE and shift // BITS in cut:
                part &= ~GRID
                walked |= GRID << shift
            if own.loop and own.loop >> shift in (LOOP, GRID ^ LEFT):
                taken = LOOP if part & LOOP else GRID ^ LEFT
                part &= ~taken
                loop = taken << shift
            axes.append((part << shift, *rest))
        found = Class(of.form, tuple(axes), Zone.LOOP, walked, loop)
        number = self._tables._known.get(found)
        if number is None:
            raise MissedError(f"load {found} of {self._members.show(source)}")
        if bool(own.loop) != bool(loop):
            raise OutsideError("a loop over what lies behind partial sums")
        return number


def _key(step: Step) -> tuple[str, tuple[int, ...], str]:
    operands = step.operands
    if step.operator in ("add", "mul"):
        operands = tuple(sorted(operands))
    return step.operator, operands, step.detail


def _spelled(graph: BlockGraph) -> object:
    """A block graph whatever the order of its steps and outputs."""
    steps = frozenset((number, _key(step)) for number, step in graph.steps)
    return frozenset(graph.outputs), steps


def _cut(graph: BlockGraph, outputs: Iterable[int]) -> BlockGraph:
    """The part of a block graph that some tiles need."""
    steps = dict(graph.steps)
    open_, seen = [*outputs], set()
    while open_:
        number = open_.pop()
        if number not in seen:
            seen.add(number)
            step = steps[number]
            open_ += step.operands if step.operator != "load" else ()
    kept = tuple((number, step) for number, step in graph.steps if number in seen)
    return BlockGraph(tuple(outputs), kept)
