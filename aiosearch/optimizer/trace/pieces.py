"""The pieces of a traced function: what each runs, takes and gives, and the tensor program that a
region is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
from jax.extend.core import Jaxpr, Literal, Var

from ...capture.constants import ClosedOverConstants
from ...capture.errors import CaptureError
from ...capture.jaxprs import JaxprReader
from ...capture.values import TracedValue
from ...tensor import Program, Term
from .equations import ClassifiedEquation, is_known, unknown
from .flat_jaxpr import Atom, FlatJaxpr
from .regions import dependencies, ordered


@dataclass(frozen=True)
class Subject:
    """What is searched: a program, and which of its inputs stay the same from call to call."""

    program: Program
    constant: tuple[int, ...] = ()


class ValueOrder(NamedTuple):
    """In which order something takes and gives: the places in the order before."""

    inputs: Sequence[int]
    outputs: Sequence[int]


@dataclass(frozen=True, eq=False)
class Piece:
    """Equations that run as one. A region's are a program too; regions that are alike share it."""

    jaxpr: Jaxpr
    inputs: tuple[Var, ...]
    outputs: tuple[Var, ...]
    constant: tuple[int, ...] = ()
    """The places among its inputs of arrays that stay the same from call to call."""
    held: tuple[Any, ...] = ()
    """Numbers that were closed over, which the equations take before the inputs."""
    program: Program | None = None

    @property
    def subject(self) -> Subject | None:
        return None if self.program is None else Subject(self.program, self.constant)

    def arranged(self, order: ValueOrder) -> Piece:
        """The same, which takes and gives in another order."""
        inputs = tuple(self.inputs[at] for at in order.inputs)
        outputs = tuple(self.outputs[at] for at in order.outputs)
        jaxpr: Any = self.jaxpr
        taken = [*jaxpr.invars[: len(self.held)], *inputs]
        jaxpr = jaxpr.replace(invars=taken, outvars=list(outputs))
        return replace(self, jaxpr=jaxpr, inputs=inputs, outputs=outputs)

    def original(self, *inputs: Any) -> list[Any]:
        """Runs the equations as they are."""
        return jax.core.eval_jaxpr(self.jaxpr, (), *self.held, *inputs)


def pieces(
    flat: FlatJaxpr,
    steps: Sequence[ClassifiedEquation],
    regions: Sequence[Sequence[ClassifiedEquation]],
    constant: Iterable[Var],
    names: Mapping[Var, str],
    title: str,
) -> list[Piece]:
    """The regions, and the equations between them, in an order in which they can run."""
    return list(_Pieces(flat, steps, frozenset(constant), names, title).made(regions))


class _Pieces:
    def __init__(
        self,
        flat: FlatJaxpr,
        steps: Sequence[ClassifiedEquation],
        constant: frozenset[Var],
        names: Mapping[Var, str],
        title: str,
    ) -> None:
        self.flat, self.steps, self.constant = flat, steps, constant
        self.names, self.title = names, title
        self.edges = dependencies(steps)
        self.fixed = {var: step for step in steps if step.fixed for var in step.equation.outvars}
        self.uses = _uses(steps, flat.outputs)
        self.numbers = _numbers(flat.constants)
        self.programs: dict[Program, tuple[Program, ValueOrder]] = {}

    def made(self, regions: Sequence[Sequence[ClassifiedEquation]]) -> Iterator[Piece]:
        inside = {step.index for region in regions for step in region}
        groups = [[step.index for step in region] for region in regions]
        groups += [[step.index] for step in self.steps if step.index not in inside]
        rest: list[ClassifiedEquation] = []
        for place in ordered(groups, self.edges):
            group = [self.steps[index] for index in groups[place]]
            region = self.region(group) if place < len(regions) else None
            if region is None:
                rest += group
                continue
            if rest:
                yield self.piece(rest)
                rest = []
            yield region
        if rest:
            yield self.piece(rest)

    def region(self, group: Sequence[ClassifiedEquation]) -> Piece | None:
        """The region, if as a whole it can still be read and anything uses it."""
        own = sorted({*group, *self.needed(group)}, key=lambda step: step.index)
        piece = self.piece(own, group)
        found = self.program(piece) if piece.outputs else None
        if found is None:
            return None
        program, order = found
        piece = piece.arranged(order)
        constant = (at for at, var in enumerate(piece.inputs) if var in self.constant)
        return replace(piece, constant=tuple(constant), program=program)

    def needed(self, group: Iterable[ClassifiedEquation]) -> set[ClassifiedEquation]:
        """The steps behind these that no argument has a say in."""
        found: set[ClassifiedEquation] = set()
        stack = list(group)
        while stack:
            atoms = stack.pop().equation.invars
            new = {
                self.fixed[atom]
                for atom in atoms
                if not isinstance(atom, Literal) and atom in self.fixed
            }
            stack.extend(new - found)
            found |= new
        return found

    def piece(
        self,
        steps: Sequence[ClassifiedEquation],
        giving: Sequence[ClassifiedEquation] | None = None,
    ) -> Piece:
        """These steps as a jaxpr, which gives what others use of some of them."""
        own = {step.index for step in steps}
        made = {var for step in steps for var in step.equation.outvars}
        taken = dict.fromkeys(
            atom
            for step in steps
            for atom in step.equation.invars
            if not isinstance(atom, Literal) and atom not in made
        )
        given = tuple(
            var
            for step in (steps if giving is None else giving)
            for var in step.equation.outvars
            if self.uses.get(var, frozenset()) - own
        )
        numbers = tuple(var for var in taken if var in self.numbers)
        inputs = tuple(var for var in taken if var not in self.numbers)
        jaxpr = self.flat.part((*numbers, *inputs), [step.equation for step in steps], given)
        held = tuple(self.flat.constants[var] for var in numbers)
        return Piece(jaxpr, inputs, given, held=held)

    def program(self, piece: Piece) -> tuple[Program, ValueOrder] | None:
        """What it computes, and in which order that takes and gives."""
        plain = self.read(piece, [f"x{at}" for at in range(len(piece.inputs))])
        if plain is None:
            return None
        if plain not in self.programs:
            order = self.order(piece)
            piece = piece.arranged(order)
            told = self.read(piece, list(self.told(piece)))
            assert told is not None
            self.programs[plain] = told, order
        return self.programs[plain]

    def order(self, piece: Piece) -> ValueOrder:
        """The function's own arguments and results come first and in its order, for a reader."""
        return ValueOrder(
            _sorted(piece.inputs, self.flat.inputs), _sorted(piece.outputs, self.flat.outputs)
        )

    def told(self, piece: Piece) -> Iterator[str]:
        """Names for a reader: the arguments' own where there are any."""
        taken = set(self.names.values())
        for at, var in enumerate(piece.inputs):
            name = self.names.get(var, f"x{at}")
            while var not in self.names and name in taken:
                name += "_"
            yield name

    def read(self, piece: Piece, names: Sequence[str]) -> Program | None:
        """The program, where the region as a whole can be read as one."""
        number = f"_{len(self.programs) + 1}" if self.programs else ""
        return read_piece(piece, names, f"{self.title}{number}")


def read_piece(piece: Piece, names: Sequence[str], title: str) -> Program | None:
    """What a piece computes, with these names for its inputs, where it can be read as a whole."""
    inputs = [unknown(var, name) for var, name in zip(piece.inputs, names, strict=True)]
    reader = JaxprReader(ClosedOverConstants())
    found = reader.open(piece.jaxpr, (), [*map(reader.constant, piece.held), *inputs])
    values = [one for one in found if isinstance(one, TracedValue)]
    terms: list[Term] = [one.term for one in inputs if isinstance(one, TracedValue)]
    if len(values) < len(found) or len(terms) < len(inputs):
        return None
    try:
        return Program(title, tuple(terms), tuple(value.full() for value in values))
    except CaptureError:
        return None


def _sorted(own: Sequence[Var], first: Sequence[Atom]) -> list[int]:
    """The places of these, those of `first` before all others."""
    ranks = {var: at for at, var in reversed([*enumerate(first)]) if not isinstance(var, Literal)}
    return sorted(range(len(own)), key=lambda at: ranks.get(own[at], len(first)))


def _numbers(constants: Mapping[Var, Any]) -> frozenset[Var]:
    """The arrays that were closed over and that a program says as numbers."""
    reader = JaxprReader(ClosedOverConstants())
    found = {var: reader.constant(array) for var, array in constants.items()}
    return frozenset(
        var for var, value in found.items() if isinstance(value, TracedValue) and is_known(value)
    )


def _uses(
    steps: Iterable[ClassifiedEquation], outputs: Iterable[Atom]
) -> dict[Var, frozenset[int]]:
    """Which steps take a value; -1 stands for the caller."""
    found: dict[Var, set[int]] = {}
    for step in steps:
        for atom in step.equation.invars:
            if not isinstance(atom, Literal):
                found.setdefault(atom, set()).add(step.index)
    for atom in outputs:
        if not isinstance(atom, Literal):
            found.setdefault(atom, set()).add(-1)
    return {var: frozenset(taking) for var, taking in found.items()}
