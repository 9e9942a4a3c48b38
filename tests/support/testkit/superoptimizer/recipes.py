"""What a µgraph does to the indices of its tensors: which of them each operator cuts and adds up.

Sizes are needed here and nowhere later: an axis is a list of index parts, each with its size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from testkit.superoptimizer.index_layout import (
    Laid,
    OutsideError,
    Piece,
    label_of,
    less,
    mask_of,
    parted,
    together,
    union,
    unlike,
)

from aiosearch.superoptimizer.algebra.normal_form import BITS, GRID, LEFT, LOOP, REST, WHOLE, Mask
from aiosearch.superoptimizer.algebra.program_reader import (
    FormalAlgebra,
    LabelledTensor,
    NormalFormProgram,
)
from aiosearch.superoptimizer.space import Space
from aiosearch.tensor import Kernel, Place, Program, Term


@dataclass(frozen=True)
class Loaded:
    """A tile of a tensor: the labels that the grid cuts, and what the loop walks."""

    source: Term
    cuts: frozenset[int]
    loop: Mask


@dataclass(frozen=True)
class Accumulated:
    """What is reduced beside the loop, by the kind `none` where that only adds up."""

    operand: Term
    kind: str
    mask: Mask


@dataclass(frozen=True)
class Reduced:
    """An operator, and what it reduces if it does."""

    operator: str
    operands: tuple[Term, ...]
    mask: Mask = 0
    nothing: bool = False
    """Whether the result is the operand."""


@dataclass
class Recipe:
    """A custom kernel."""

    grid: list[int]
    """The labels that it cuts."""
    loops: bool
    partial: set[int] = field(default_factory=set)
    """The labels over which it leaves partial sums."""
    body: list[tuple[Term, Loaded | Accumulated | Reduced]] = field(default_factory=list)
    outputs: list[tuple[Term, Term]] = field(default_factory=list)
    """Each tile that is stored, and the tensor."""

    @property
    def loads(self) -> list[Loaded]:
        return [own for _, own in self.body if isinstance(own, Loaded)]


class Recipes:
    """Reads a program over a reference's inputs."""

    def __init__(self, program: Program, reference: NormalFormProgram, space: Space) -> None:
        self._program = program
        self._space = space
        self._reference = reference
        self._algebra = FormalAlgebra(reference.forms, reference.sizes)
        self.forms: dict[Term, int] = {}
        """What each term is, by the axioms."""
        self._laid: dict[Term, Laid] = {}
        self._loop: dict[Term, Mask] = {}
        given = reference.program.inputs
        for own, theirs in zip(program.inputs, given, strict=True):
            axes = reference.values[theirs].axes
            self.forms[own] = reference.values[theirs].form
            self._laid[own] = tuple(
                tuple((piece, reference.sizes[label_of(piece)]) for piece in axis) for axis in axes
            )

    def device(self) -> Iterator[tuple[Term, Recipe | Reduced]]:
        """Every operator and kernel, operands first."""
        seen: set[Kernel] = set()
        for term in self._program.terms():
            if term.place is not Place.DEVICE or term.operator.name == "input":
                continue
            if term.operator.name != "result":
                yield term, self._operated(term, self._space.kernel)
                continue
            kernel: Kernel = term.parameter("kernel")
            if kernel not in seen:
                seen.add(kernel)
                yield term, self._custom(kernel)

    # Operators

    def _operated(self, term: Term, known: Sequence[str]) -> Reduced:
        name = term.operator.name
        if name not in known:
            raise OutsideError(f"the operator {name}")
        for one in term.arguments:
            if one.place is Place.ANYWHERE:
                self._numbered(one)
        axes = [self._laid[one] for one in term.arguments]
        found = self._applied(term, axes)
        self.forms[term] = self._form(term, axes)
        return found

    def _applied(self, term: Term, axes: Sequence[Laid]) -> Reduced:
        name = term.operator.name
        self._loop[term] = union(self._loop.get(one, 0) for one in term.arguments)
        if name in ("sum", "max", "mean"):
            return self._reduced(term, axes[0])
        if name == "fold":
            return self._folded(term, axes[0])
        if name == "matmul":
            if axes[0][-1] != axes[1][-2]:
                raise unlike(axes[0][-1], axes[1][-2])
            lead = together(axes[0][:-2], axes[1][:-2])
            self._laid[term] = (*lead, axes[0][-2], axes[1][-1])
        else:
            self._laid[term] = axes[0] if len(axes) == 1 else together(*axes)
        return Reduced(name, term.arguments)

    def _numbered(self, term: Term) -> None:
        if term not in self._reference.values:
            raise OutsideError("a number that the reference has not")
        self._laid[term], self.forms[term] = (), self._reference.values[term].form

    def _form(self, term: Term, axes: Sequence[Laid]) -> int:
        forms = self._reference.forms
        own = [self.forms[one] for one in term.arguments]
        name = term.operator.name
        if name in ("sum", "max", "mean"):
            (axis,) = term.parameter("axes")
            kind = "none" if name == "sum" else name
            return self._gathered(own[0], kind, mask_of(axes[0][axis]))
        if name == "fold":
            at = term.parameter("axis")
            return forms.sum(own[0], mask_of(parted(axes[0][at], term.parameter("size"), name)[0]))
        if name == "matmul":
            return forms.sum(forms.multiply(*own), mask_of(axes[0][-1]))
        operands = [
            LabelledTensor(form, tuple(tuple(piece for piece, _ in axis) for axis in laid))
            for form, laid in zip(own, axes, strict=True)
        ]
        found: LabelledTensor = term.operator.meaning(self._algebra, *operands)
        return found.form

    def _rooted(self, tile: int) -> int:
        forms = self._reference.forms
        return forms.sqrt(forms.multiply(tile, tile))

    def _gathered(self, tile: int, kind: str, mask: Mask) -> int:
        forms = self._reference.forms
        if kind == "none" or not mask:
            return forms.sum(tile, mask)
        if kind == "max":
            return forms.largest(tile, mask)
        whole = forms.multiply(tile, tile) if kind == "rms" else tile
        mean = forms.divide(forms.sum(whole, mask), forms.size(mask))
        return forms.sqrt(mean) if kind == "rms" else mean

    def _reduced(self, term: Term, axes: Laid) -> Reduced:
        (axis,) = term.parameter("axes")
        self._laid[term] = (*axes[:axis], (), *axes[axis + 1 :])
        name = term.operator.name
        mask = mask_of(axes[axis])
        return Reduced(name, term.arguments, mask, nothing=not mask)

    def _folded(self, term: Term, axes: Laid) -> Reduced:
        axis, size = term.parameter("axis"), term.parameter("size")
        gone, left = parted(axes[axis], size, "fold")
        self._laid[term] = (*axes[:axis], left, *axes[axis + 1 :])
        return Reduced("fold", term.arguments, mask_of(gone), nothing=not gone)

    # Kernels

    def _custom(self, kernel: Kernel) -> Recipe:
        loads = [term for term in kernel.body if term.operator.name == "load"]
        cut = [self._cut_by(number, size, loads) for number, size in enumerate(kernel.grid)]
        grid = [label for label in cut if label is not None]
        if len(set(grid)) < len(grid):
            raise OutsideError("two grid axes split one index")
        loops = kernel.range != 1 and any(load.parameter("loop") is not None for load in loads)
        recipe = Recipe(grid, loops)
        for term in kernel.body:
            if term.place is Place.ANYWHERE:
                continue
            if term.operator.name == "load":
                own: Loaded | Accumulated | Reduced = self._loaded(term, cut, kernel)
            elif term.operator.name == "accumulate":
                own = self._accumulated(term, kernel.range, loops)
            else:
                own = self._operated(term, self._space.tile)
            recipe.body.append((term, own))
        self._stored(kernel, cut, recipe)
        return recipe

    def _cut_by(self, number: int, size: object, loads: Sequence[Term]) -> int | None:
        """The label that an axis of the grid splits."""
        if size == 1:
            return None
        found = set()
        for load in loads:
            axis = load.parameter("map")[number]
            if axis is not None:
                pieces = self._laid[load.arguments[0]][axis]
                if not pieces:
                    raise OutsideError("an axis of one element split")
                found.add(label_of(pieces[0][0]))
        if len(found) != 1:
            raise OutsideError("a grid axis that splits two indices or none")
        return found.pop()

    def _loaded(self, term: Term, cut: Sequence[int | None], kernel: Kernel) -> Loaded:
        axes = [*self._laid[term.arguments[0]]]
        cuts = set()
        for label, axis, size in zip(cut, term.parameter("map"), kernel.grid, strict=True):
            if label is not None and axis is not None:
                if axes[axis][0][0] >> BITS * label != WHOLE:
                    raise OutsideError("a grid over partial sums")
                axes[axis] = less(axes[axis], LOOP | REST, size)
                cuts.add(label)
        loop, axis = 0, term.parameter("loop")
        if axis is not None and kernel.range != 1:
            if not axes[axis]:
                raise OutsideError("an axis of one element split")
            first = axes[axis][0][0]
            part = first >> BITS * label_of(first)
            taken = LOOP if part & LOOP else GRID ^ LEFT
            if not part & taken:
                raise OutsideError("a loop over a part of partial sums")
            axes[axis] = less(axes[axis], part & ~taken, kernel.range)
            loop = taken << BITS * label_of(first)
        self._laid[term], self._loop[term] = tuple(axes), loop
        self.forms[term] = self.forms[term.arguments[0]]
        return Loaded(term.arguments[0], frozenset(cuts), loop)

    def _accumulated(self, term: Term, range_: object, loops: bool) -> Accumulated:
        (tile,) = term.arguments
        kind: str = term.parameter("kind")
        axes, loop = self._laid[tile], self._loop[tile]
        last = axes[-1] if axes else ()
        if range_ != 1 and not loop and kind in ("none", "sum", "redtox"):
            raise OutsideError("adds up what the loop does not change")
        gone: tuple[Piece, ...] = ()
        if kind == "redtox":
            gone, last = parted(last, self._columns(term), "redtox")
        elif kind in ("sum", "mean", "rms"):
            gone, last = last, ()
        if kind == "mean" and not gone:
            if loop:
                raise OutsideError("a mean over a loop alone")
            kind = "max"
        if kind == "rms" and not gone:
            if loop or self._rooted(self.forms[tile]) != self.forms[tile]:
                raise OutsideError("a root of a mean of one square")
            kind = "max"
        if kind == "max" and not loops:
            kind = "none"
        axes = (*axes[:-1], last) if axes else axes
        mask = mask_of(gone)
        if kind in ("none", "sum", "redtox"):
            kind = "none"
            label = label_of(loop) if loop else -1
            ends = [
                piece
                for axis in axes
                for piece, size in axis
                if size == 1 and loop and label_of(piece) == label
            ]
            mask |= sum(ends)
            axes = tuple(tuple(one for one in axis if one[0] not in ends) for axis in axes)
        self._laid[term], self._loop[term] = axes, 0
        self.forms[term] = self._gathered(self.forms[tile], kind, loop | mask)
        return Accumulated(tile, kind, mask)

    def _columns(self, term: Term) -> int:
        """How many columns stay; none where all that is done with them is to add them up."""
        users = [one for one in self._program.terms() if term in one.arguments]
        summed = all(
            one.operator.name == "sum" and one.parameter("axes") == (len(term.shape) - 1,)
            for one in users
        )
        found: int = term.parameter("columns")
        return 1 if summed and users else found

    def _stored(self, kernel: Kernel, cut: Sequence[int | None], recipe: Recipe) -> None:
        results = [
            term
            for term in self._program.terms()
            if term.operator.name == "result" and term.parameter("kernel") is kernel
        ]
        for result in results:
            tile, maps = kernel.outputs[result.parameter("index")]
            axes = [*self._laid[tile]]
            for label, axis, size in zip(cut, maps, kernel.grid, strict=True):
                if label is None or axis is None or not isinstance(size, int):
                    continue
                rest = (LOOP | REST) << BITS * label
                if any(rest == piece for own in axes for piece, _ in own):
                    if not axes[axis] or axes[axis][0][0] != rest:
                        raise OutsideError("blocks put together on another axis")
                    (_, own), *more = axes[axis]
                    axes[axis] = ((WHOLE << BITS * label, own * size), *more)
                else:
                    recipe.partial.add(label)
                    axes[axis] = ((GRID << BITS * label, size), *axes[axis])
            parts = {piece >> BITS * label_of(piece) for own in axes for piece, _ in own}
            if parts - {WHOLE, GRID}:
                raise OutsideError("parts of an index lost")
            self._laid[result] = tuple(axes)
            self.forms[result] = self.forms[tile]
            recipe.outputs.append((tile, result))
