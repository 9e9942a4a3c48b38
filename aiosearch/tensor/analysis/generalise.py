"""Generalisation of a program with concrete sizes to one with symbolic sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from ..errors import ShapeError, TensorError
from ..mugraph import ACCUMULATE, LOAD, RESULT, Kernel
from ..operator import NUMBERS
from ..sizes import Dim, Size
from ..terms import LITERAL, Program, Term, tensor
from .size_unification import Unknowns
from .substitution import Resize, rebuilt


@dataclass(frozen=True)
class Generalised:
    """Programs over named sizes, on the inputs of the first."""

    programs: tuple[Program, ...]
    values: dict[str, int]
    """What each named size was in the concrete programs."""
    axes: dict[str, Dim]
    """The inputs' axes in named sizes, by readable names."""
    fixed: dict[str, str]
    """Sizes that had to stay numbers, each with the number and the reason."""

    def at(self, values: Mapping[str, int]) -> list[Program]:
        """The programs at other sizes; raises ShapeError where they do not fit."""
        return _resized(self.programs, lambda dim: _at(dim, values))

    @cached_property
    def small(self) -> dict[str, int]:
        """Values for a small shape: twos and threes, or a little more where those do not fit."""
        for more in range(5):
            chosen = {name: size + 2 * more for name, size in self._smallest().items()}
            try:
                self.at(chosen)
            except ShapeError:
                continue
            return chosen
        return self.values

    def _smallest(self) -> dict[str, int]:
        """Three where a size is a whole axis, else two for each of its parts.

        Two would hide too much: the two deviations from a mean have one square.
        """
        axes = set(self.axes.values())
        return {name: 3 if Size.named(name) in axes else 2 for name in self.values}

    def reduced(self) -> list[Program]:
        """The programs at a shape small enough for exhaustive arithmetic."""
        return self.at(self.small)

    def shape_text(self, values: Mapping[str, int] | None = None) -> str:
        """What each axis is at the reduced shape, or at other values: `row=2, feature=2·2·2`."""
        chosen = self.small if values is None else values
        return ", ".join(f"{axis}={_digits(dim, chosen)}" for axis, dim in self.axes.items())


def generalise(
    programs: Sequence[Program], keep: Collection[int] = (), tied: bool = False
) -> Generalised:
    """Concrete programs with the same inputs, as programs over named sizes.

    The structure stays; a size stays a number where an operator counts with it, or where no
    unknowns can be found that fit for all values, and where an axis has one of the sizes to keep.
    `tied` keeps sizes equal that are equal now, as the sides of a mask may have to be.
    """
    _check_inputs(programs)
    try:
        return _generalised(programs, keep, tied)
    except ShapeError as error:
        return _concrete(programs, str(error))


def literal_sizes(programs: Iterable[Program]) -> set[int]:
    """The sizes of axes that a literal also is, or its reciprocal, or the square of either.

    Such a program may be right at its own shape only: these are the sizes to keep.
    """
    terms = [term for program in programs for term in program.terms()]
    sizes = {size for term in terms for size in term.shape if isinstance(size, int) and size > 1}
    said: set[int] = set()
    for term in terms:
        if term.operator is LITERAL and not isinstance(term.parameter("value"), Size):
            said |= _sizes_said(abs(float(term.parameter("value"))))
    return sizes & said


def _sizes_said(number: float) -> set[int]:
    if not 1e-9 < number < 1e9:
        return set()
    meant = (number, 1 / number, number**2, number**-2)
    return {round(one) for one in meant if math.isclose(one, round(one), rel_tol=1e-6)}


def _check_inputs(programs: Sequence[Program]) -> None:
    first = [one.type for one in programs[0].inputs]
    for program in programs[1:]:
        if [one.type for one in program.inputs] != first:
            raise TensorError(f"{program.name} has other inputs than {programs[0].name}")
    for program in programs:
        for term in program.terms():
            said = term.parameter("value") if term.operator is LITERAL else 0
            for size in (*term.shape, said):
                if isinstance(size, Size):
                    raise TensorError(f"{program.name} has the size {size}: give it as a number")


def _concrete(programs: Sequence[Program], reason: str) -> Generalised:
    inputs = programs[0].inputs
    same = tuple(rebuilt(programs, inputs, lambda term, name, place, dim: dim, NUMBERS))
    return Generalised(same, {}, _axes(inputs), {"every size": reason})


def _generalised(programs: Sequence[Program], keep: Collection[int], tied: bool) -> Generalised:
    unknowns = Unknowns()
    inputs = [_opened(one, unknowns) for one in programs[0].inputs]
    opened = rebuilt(programs, inputs, _schedules(programs, unknowns), unknowns)
    _join_outputs(programs, opened, unknowns)
    for program in opened if keep else ():
        for dim in {dim for term in program.terms() for dim in term.shape}:
            if unknowns.value(dim) in keep:
                unknowns.number(dim, "a size to keep")
    if tied:
        _tie(opened, unknowns)
    names = unknowns.names()
    pretty = {name: Size.named(own) for name, own in names.items()}

    def final(dim: Dim) -> Dim:
        return _at(unknowns.resolve(dim), pretty)

    found = tuple(_resized(opened, final))
    return Generalised(
        found,
        {own: unknowns.values[name] for name, own in names.items()},
        _axes(found[0].inputs),
        _fixed(inputs, found[0].inputs, unknowns),
    )


def _tie(programs: Iterable[Program], unknowns: Unknowns) -> None:
    """Makes one size of all that have one value."""
    first: dict[int, Dim] = {}
    for program in programs:
        for term in program.terms():
            for dim in term.shape:
                if not isinstance(dim, int):
                    unknowns.same(first.setdefault(unknowns.value(dim), dim), dim, "equal sizes")


def _fixed(before: Sequence[Term], after: Sequence[Term], unknowns: Unknowns) -> dict[str, str]:
    """The axes, grids and loops that are numbers, and why."""
    found: dict[str, str] = {}
    for was, now in zip(before, after, strict=True):
        for name, unknown, dim in zip(_axis_names(was), was.shape, now.shape, strict=True):
            if isinstance(dim, int):
                found.setdefault(name, f"{dim}: {unknowns.reason(unknown)}")
    for name, why in unknowns.fixed.items():
        if unknowns.hint(name) in _SCHEDULE:
            found.setdefault(unknowns.hint(name), f"{unknowns.values[name]}: {why}")
    return found


def _join_outputs(
    programs: Sequence[Program], opened: Sequence[Program], unknowns: Unknowns
) -> None:
    """Outputs in the same position with the same shape are meant to be the same."""
    first, *others = zip(programs, opened, strict=True)
    for program, own in others:
        was, now = (first[0].outputs, program.outputs), (first[1].outputs, own.outputs)
        for one, two, ours, theirs in zip(*was, *now, strict=False):
            if one.shape == two.shape:
                for a, b in zip(ours.shape, theirs.shape, strict=True):
                    unknowns.same(a, b, "outputs")


def _axis_names(one: Term) -> list[str]:
    """The label of each axis, or the input's name and the axis."""
    name = one.parameter("name")
    joint = "_" if name[-1:].isdigit() else ""
    return [label or f"{name}{joint}{axis}" for axis, label in enumerate(one.parameter("labels"))]


def _axes(inputs: Iterable[Term]) -> dict[str, Dim]:
    """The sizes of the inputs' axes; a label that has several is told apart by the input."""
    found: dict[str, Dim] = {}
    for one in inputs:
        for axis, (name, dim) in enumerate(zip(_axis_names(one), one.shape, strict=True)):
            if found.setdefault(name, dim) != dim:
                found[f"{one.parameter('name')}.{axis}"] = dim
    return found


def _opened(one: Term, unknowns: Unknowns) -> Term:
    """An input with an unknown for each axis."""
    shape = [
        unknowns.fresh(name, unknowns.value(size))
        for name, size in zip(_axis_names(one), one.shape, strict=True)
    ]
    return tensor(one.parameter("name"), one.dtype, shape, one.parameter("labels"))


Schedule: TypeAlias = tuple[Dim, Dim, Dim, Dim]
"""A kernel's grid and its range."""
_SCHEDULE = ("gx", "gy", "gz", "f")


def _schedules(programs: Sequence[Program], unknowns: Unknowns) -> Resize:
    """Unknowns for parameters; the terms of one kernel share its grid and its loop."""
    schedules: dict[Term, Schedule] = {}
    for program in programs:
        for term in program.terms():
            if term.operator is RESULT and term not in schedules:
                _schedule(term, schedules, unknowns)

    def resize(term: Term, name: str, place: int, dim: Dim) -> Dim:
        if name in ("grid", "range"):
            return schedules[term][3 if name == "range" else place]
        return unknowns.fresh(name, unknowns.value(dim))

    return resize


def _schedule(result: Term, schedules: dict[Term, Schedule], unknowns: Unknowns) -> None:
    kernel: Kernel = result.parameter("kernel")
    body = [term for term in kernel.body if term.operator in (LOAD, ACCUMULATE)]
    loops = any(term.operator is LOAD and term.parameter("loop") is not None for term in body)
    held = {schedules[term] for term in body if term in schedules}
    chosen = next(iter(held), None)
    if chosen is None:
        x, y, z = (
            unknowns.fresh(hint, unknowns.value(size))
            for hint, size in zip(_SCHEDULE, kernel.grid, strict=False)
        )
        count = unknowns.fresh("f", unknowns.value(kernel.range))
        chosen = (x, y, z, count if loops else unknowns.number(count, "a loop that splits nothing"))
    schedules.update(dict.fromkeys([result, *body], chosen))
    for term, other in list(schedules.items()):
        if other in held:
            schedules[term] = chosen


def _resized(programs: Sequence[Program], final: Callable[[Dim], Dim]) -> list[Program]:
    inputs = [
        tensor(
            one.parameter("name"), one.dtype, [final(dim) for dim in one.shape],
            one.parameter("labels"),
        )
        for one in programs[0].inputs
    ]  # fmt: skip
    return rebuilt(programs, inputs, lambda term, name, place, dim: final(dim), NUMBERS)


def _digits(dim: Dim, values: Mapping[str, int]) -> str:
    """A size as the product of its parts."""
    if isinstance(dim, int) or dim.monomial is None:
        return str(_at(dim, values))
    powers, factor = dim.monomial
    parts = [str(factor)] if factor != 1 else []
    return "·".join(parts + [str(values[name]) for name, power in powers for _ in range(power)])


def _at(dim: Dim, values: Mapping[str, Dim]) -> Dim:
    return dim if isinstance(dim, int) else dim.at(values)
