"""Generalisation of programs with concrete sizes to programs with symbolic sizes.

Problem: a proof for all shapes, and a cheap check at a small one, both need to know which sizes may
vary, and which have to vary together.

Method: every axis of an input, every grid axis and every loop gets an unknown (`Unknowns.fresh`);
both programs are rebuilt over them, and each shape rule of an operator becomes an equation that
`Unknowns` solves as it comes. What is left over names the sizes.

Example: X: f32[8, 64] and W: f32[64, 16] with `matmul` become X: [row, k] and W: [k, column]: the
rule that inner sizes agree equates two unknowns. A reshape of 64 to [4, 16] splits that unknown
into a product of two.

Invariant: the general programs at `values` are the concrete ones, term by term. A size stays a
number where a rule counts with it (`fixed` says why). Cost: one rebuild of both programs, and one
for each other shape. See docs/why/verdicts.md.
"""

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
    """Programs over named sizes, on the inputs of the first; `generalise` returns it."""

    programs: tuple[Program, ...]
    values: dict[str, int]
    """The number of each named size in the concrete programs."""
    axes: dict[str, Dim]
    """The sizes of the inputs' axes, by readable names such as `row`."""
    fixed: dict[str, str]
    """Sizes that had to stay numbers, each with the number and the reason."""

    def at(self, values: Mapping[str, int]) -> list[Program]:
        """The programs at other sizes; raises ShapeError where they do not fit."""
        return _resized(self.programs, lambda dim: _at(dim, values))

    @cached_property
    def small(self) -> dict[str, int]:
        """Values for a small shape: twos and threes, or a little more where those do not fit."""
        # A window or a slice may need more than three elements; sizes grow by two at a time before
        # the original ones serve.
        for growth in range(5):
            chosen = {name: size + 2 * growth for name, size in self._smallest().items()}
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
        # A size that is a whole axis of an input may be summed over; parts are multiplied to larger
        # axes.
        axes = set(self.axes.values())
        return {name: 3 if Size.named(name) in axes else 2 for name in self.values}

    def reduced(self) -> list[Program]:
        """The programs at the `small` shape, for exhaustive arithmetic."""
        return self.at(self.small)

    def shape_text(self, values: Mapping[str, int] | None = None) -> str:
        """The axes at the small shape, or at other `values`: `row=2, feature=2·2·2`."""
        chosen = self.small if values is None else values
        return ", ".join(f"{axis}={_digits(dim, chosen)}" for axis, dim in self.axes.items())


def generalise(
    programs: Sequence[Program], keep: Collection[int] = (), tied: bool = False
) -> Generalised:
    """Concrete programs with equal inputs, as programs over named sizes.

    The structure stays. A size stays a number where an operator counts with it, where no unknowns
    can be found that fit for all values, and where an axis has one of the sizes to `keep`. `tied`
    keeps sizes equal that are equal now, as the sides of a mask may have to be.
    """
    _check_inputs(programs)
    try:
        return _generalised(programs, keep, tied)
    except ShapeError as error:
        # The equations have no solution, not even in numbers that are kept: a rule failed. The
        # programs are still comparable as they are.
        return _concrete(programs, str(error))


def literal_sizes(programs: Iterable[Program]) -> set[int]:
    """Sizes of axes that occur as a literal, or its reciprocal, or the square of either.

    A program that multiplies by 0.125 may be right at its own size of 64 only: these are the sizes
    to `keep`.
    """
    terms = [term for program in programs for term in program.terms()]
    sizes = {size for term in terms for size in term.shape if isinstance(size, int) and size > 1}
    said: set[int] = set()
    for term in terms:
        if term.operator is LITERAL and not isinstance(term.parameter("value"), Size):
            said |= _sizes_named_by(abs(float(term.parameter("value"))))
    return sizes & said


def _sizes_named_by(number: float) -> set[int]:
    """The integers that `number` may be a power of: 0.125 names 8 and 64."""
    if not 1e-9 < number < 1e9:
        return set()
    # 1/n is a mean, 1/√n the scale of attention; n and n² their inverses.
    meant = (number, 1 / number, number**2, number**-2)
    return {
        round(candidate)
        for candidate in meant
        if math.isclose(candidate, round(candidate), rel_tol=1e-6)
    }


def _check_inputs(programs: Sequence[Program]) -> None:
    """Raises TensorError unless all programs have equal inputs of concrete sizes."""
    first = [input_.type for input_ in programs[0].inputs]
    for program in programs[1:]:
        if [input_.type for input_ in program.inputs] != first:
            raise TensorError(f"{program.name} has other inputs than {programs[0].name}")
    for program in programs:
        for term in program.terms():
            said = term.parameter("value") if term.operator is LITERAL else 0
            for size in (*term.shape, said):
                if isinstance(size, Size):
                    raise TensorError(f"{program.name} has the size {size}: give it as a number")


def _concrete(programs: Sequence[Program], reason: str) -> Generalised:
    """The programs as they are, where nothing could be generalised for the given `reason`."""
    inputs = programs[0].inputs
    same = tuple(rebuilt(programs, inputs, lambda term, name, place, dim: dim, NUMBERS))
    return Generalised(same, {}, _axes(inputs), {"every size": reason})


def _generalised(programs: Sequence[Program], keep: Collection[int], tied: bool) -> Generalised:
    """Rebuilds the programs over unknowns, and names what is left of these."""
    unknowns = Unknowns()
    inputs = [_opened(input_, unknowns) for input_ in programs[0].inputs]
    opened = rebuilt(programs, inputs, _schedules(programs, unknowns), unknowns)
    _join_outputs(programs, opened, unknowns)
    for program in opened if keep else ():
        for dim in {dim for term in program.terms() for dim in term.shape}:
            if unknowns.value(dim) in keep:
                # Kept sizes are fixed last, when all axes that have to be equal share their
                # unknowns.
                unknowns.number(dim, "a size to keep")
    if tied:
        _tie(opened, unknowns)
    # Only unknowns that are left get names, so that they read `row`, `row_part`, without gaps.
    names = unknowns.names()
    pretty = {name: Size.named(readable) for name, readable in names.items()}

    def final(dim: Dim) -> Dim:
        return _at(unknowns.resolve(dim), pretty)

    resized = tuple(_resized(opened, final))
    return Generalised(
        resized,
        {readable: unknowns.values[name] for name, readable in names.items()},
        _axes(resized[0].inputs),
        _fixed(inputs, resized[0].inputs, unknowns),
    )


def _tie(programs: Iterable[Program], unknowns: Unknowns) -> None:
    """Equates all unknowns that stand for one number."""
    first: dict[int, Dim] = {}
    for program in programs:
        for term in program.terms():
            for dim in term.shape:
                if not isinstance(dim, int):
                    # The first unknown of each value stands for all of them.
                    unknowns.same(first.setdefault(unknowns.value(dim), dim), dim, "equal sizes")


def _fixed(before: Sequence[Term], after: Sequence[Term], unknowns: Unknowns) -> dict[str, str]:
    """The axes, grids and loops that are numbers, each with the reason."""
    reasons: dict[str, str] = {}
    for was, now in zip(before, after, strict=True):
        for name, unknown, dim in zip(_axis_names(was), was.shape, now.shape, strict=True):
            if isinstance(dim, int):
                reasons.setdefault(name, f"{dim}: {unknowns.reason(unknown)}")
    for name, why in unknowns.fixed.items():
        if unknowns.hint(name) in _SCHEDULE:
            reasons.setdefault(unknowns.hint(name), f"{unknowns.values[name]}: {why}")
    return reasons


def _join_outputs(
    programs: Sequence[Program], opened: Sequence[Program], unknowns: Unknowns
) -> None:
    """Equates the sizes of outputs in one position that have one shape: they are to be compared."""
    first, *following = zip(programs, opened, strict=True)
    for program, general in following:
        was, now = (first[0].outputs, program.outputs), (first[1].outputs, general.outputs)
        for first_output, output, ours, theirs in zip(*was, *now, strict=False):
            # Different shapes are the candidate's mistake, which the comparison reports.
            if first_output.shape == output.shape:
                for a, b in zip(ours.shape, theirs.shape, strict=True):
                    unknowns.same(a, b, "outputs")


def _axis_names(input_: Term) -> list[str]:
    """The label of each axis; without one, the input's name and the axis."""
    name = input_.parameter("name")
    joint = "_" if name[-1:].isdigit() else ""
    return [
        label or f"{name}{joint}{axis}" for axis, label in enumerate(input_.parameter("labels"))
    ]


def _axes(inputs: Iterable[Term]) -> dict[str, Dim]:
    """The sizes of the inputs' axes; a label with several sizes is told apart by the input."""
    sizes: dict[str, Dim] = {}
    for input_ in inputs:
        for axis, (name, dim) in enumerate(zip(_axis_names(input_), input_.shape, strict=True)):
            # One label with two sizes: the second is shown with its input, as `X.1`.
            if sizes.setdefault(name, dim) != dim:
                sizes[f"{input_.parameter('name')}.{axis}"] = dim
    return sizes


def _opened(input_: Term, unknowns: Unknowns) -> Term:
    """An input with an unknown for each axis."""
    shape = [
        unknowns.fresh(name, unknowns.value(size))
        for name, size in zip(_axis_names(input_), input_.shape, strict=True)
    ]
    return tensor(input_.parameter("name"), input_.dtype, shape, input_.parameter("labels"))


Schedule: TypeAlias = tuple[Dim, Dim, Dim, Dim]
"""A kernel's grid, and the range of its loop."""
_SCHEDULE = ("gx", "gy", "gz", "f")
"""How the unknowns of a `Schedule` are called."""


def _schedules(programs: Sequence[Program], unknowns: Unknowns) -> Resize:
    """Unknowns for size parameters; the terms of one kernel share grid and loop."""
    schedules: dict[Term, Schedule] = {}
    for program in programs:
        for term in program.terms():
            if term.operator is RESULT and term not in schedules:
                _schedule(term, schedules, unknowns)

    def resize(term: Term, name: str, place: int, dim: Dim) -> Dim:
        # Grid and range occur in every load of a kernel: one unknown for all of them, not one each.
        if name in ("grid", "range"):
            return schedules[term][3 if name == "range" else place]
        return unknowns.fresh(name, unknowns.value(dim))

    return resize


def _schedule(result: Term, schedules: dict[Term, Schedule], unknowns: Unknowns) -> None:
    """Gives a kernel's result and body one `Schedule`."""
    kernel: Kernel = result.parameter("kernel")
    body = [term for term in kernel.body if term.operator in (LOAD, ACCUMULATE)]
    loops = any(term.operator is LOAD and term.parameter("loop") is not None for term in body)
    # Kernels may share loads, since equal terms are one object; they then share grid and loop,
    # whichever is seen first.
    held = {schedules[term] for term in body if term in schedules}
    chosen = next(iter(held), None)
    if chosen is None:
        x, y, z = (
            unknowns.fresh(hint, unknowns.value(size))
            for hint, size in zip(_SCHEDULE, kernel.grid, strict=False)
        )
        count = unknowns.fresh("f", unknowns.value(kernel.range))
        # A loop that splits no load repeats its body; its range is part of the result, not a free
        # size.
        chosen = (x, y, z, count if loops else unknowns.number(count, "a loop that splits nothing"))
    schedules.update(dict.fromkeys([result, *body], chosen))
    for term, schedule in list(schedules.items()):
        if schedule in held:
            schedules[term] = chosen


def _resized(programs: Sequence[Program], final: Callable[[Dim], Dim]) -> list[Program]:
    """The programs with `final` applied to every size."""
    inputs = [
        tensor(
            input_.parameter("name"), input_.dtype, [final(dim) for dim in input_.shape],
            input_.parameter("labels"),
        )
        for input_ in programs[0].inputs
    ]  # fmt: skip
    return rebuilt(programs, inputs, lambda term, name, place, dim: final(dim), NUMBERS)


def _digits(dim: Dim, values: Mapping[str, int]) -> str:
    """A size as the product of its parts: `2·3`."""
    if isinstance(dim, int) or dim.monomial is None:
        return str(_at(dim, values))
    powers, factor = dim.monomial
    parts = [str(factor)] if factor != 1 else []
    return "·".join(parts + [str(values[name]) for name, power in powers for _ in range(power)])


def _at(dim: Dim, values: Mapping[str, Dim]) -> Dim:
    """A size with `values` for its names."""
    return dim if isinstance(dim, int) else dim.at(values)
