"""The pieces of a traced function: what each runs, takes and gives, and the tensor program that a
region is.

Problem: regions and the equations between them become functions that can be called one after the
other, and regions that compute the same become one `Subject`, whatever the order of their operands.

Example: of two layers `y = relu(x @ w1)` and `z = relu(y @ w2)` on f32[16, 16], each region reads
as

    maximum(x0 @ x1, 0)

with its inputs numbered. The readings are equal, so that both pieces hold one `Program`, whose
inputs are called x and w1 after the first, and it is searched once.

Invariant: every variable that a piece takes is an argument of the function, a constant, or an
output of an earlier piece; equations that depend on no input (`ClassifiedEquation.fixed`) are
copied into each region that needs them, so that they never cross a border.

Cost: one pass over the equations for each piece, and one reading of each region by `JaxprReader`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
from jax.extend.core import Jaxpr, Literal, Var

from ...capture.constants import ClosedOverConstants
from ...capture.errors import CaptureError
from ...capture.jax_types import Atom, Leaf
from ...capture.jaxprs import JaxprReader
from ...capture.values import TracedValue
from ...tensor import Program, Term
from .equations import ClassifiedEquation, is_known, unknown
from .flat_jaxpr import FlatJaxpr
from .regions import dependencies, ordered


@dataclass(frozen=True)
class Subject:
    """What is searched: a program, and the positions of its inputs that stay the same from call to
    call."""

    program: Program
    constant: tuple[int, ...] = ()


class ValueOrder(NamedTuple):
    """A permutation of a piece's inputs and outputs: at each new place the old one."""

    inputs: Sequence[int]
    outputs: Sequence[int]


@dataclass(frozen=True, eq=False)
class Piece:
    """Equations that run as one function; the equations of a region are a `Program` too, which
    equal regions share."""

    jaxpr: Jaxpr
    inputs: tuple[Var, ...]
    outputs: tuple[Var, ...]
    constant: tuple[int, ...] = ()
    """Positions among `inputs` of arrays that stay the same from call to call."""
    held: tuple[Leaf, ...] = ()
    """Small arrays that were closed over and are numbers in `program`; the equations take them
    before `inputs`."""
    program: Program | None = None
    """What the equations compute; `None` for those that are no region."""

    @property
    def subject(self) -> Subject | None:
        """What is searched for this piece; `None` where it is no region."""
        return None if self.program is None else Subject(self.program, self.constant)

    def arranged(self, order: ValueOrder) -> Piece:
        """This piece with its inputs and outputs in another order."""
        inputs = tuple(self.inputs[at] for at in order.inputs)
        outputs = tuple(self.outputs[at] for at in order.outputs)
        jaxpr: Any = self.jaxpr
        operands = [*jaxpr.invars[: len(self.held)], *inputs]
        jaxpr = jaxpr.replace(invars=operands, outvars=list(outputs))
        return replace(self, jaxpr=jaxpr, inputs=inputs, outputs=outputs)

    def original(self, *inputs: Leaf) -> list[Leaf]:
        """Runs the equations as they are traced; takes `inputs` in order."""
        return jax.core.eval_jaxpr(self.jaxpr, (), *self.held, *inputs)


def pieces(
    flat: FlatJaxpr,
    steps: Sequence[ClassifiedEquation],
    regions: Sequence[Sequence[ClassifiedEquation]],
    constant: Iterable[Var],
    names: Mapping[Var, str],
    title: str,
) -> list[Piece]:
    """The regions and the equations between them, in an order in which they can run.

    `regions` as `regions.regions` gives them, `constant` the variables of arrays that stay the
    same, `names` those of the arguments for a reader, and `title` what programs are named after.
    """
    return list(_Pieces(flat, steps, frozenset(constant), names, title).scheduled(regions))


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

    def scheduled(self, regions: Sequence[Sequence[ClassifiedEquation]]) -> Iterator[Piece]:
        """The pieces in a topological order; equations between two regions are gathered into one
        piece."""
        inside = {step.index for region in regions for step in region}
        groups = [[step.index for step in region] for region in regions]
        # Each equation outside of a region is a group of its own, and can run as soon as it is
        # ready.
        groups += [[step.index] for step in self.steps if step.index not in inside]
        pending: list[ClassifiedEquation] = []
        for place in ordered(groups, self.edges):
            group = [self.steps[index] for index in groups[place]]
            # A region that cannot be read as a whole is demoted: its equations join those that are
            # left to JAX, and the function stays right.
            region = self.region(group) if place < len(regions) else None
            if region is None:
                pending += group
                continue
            if pending:
                yield self.piece(pending)
                pending = []
            yield region
        if pending:
            yield self.piece(pending)

    def region(self, group: Sequence[ClassifiedEquation]) -> Piece | None:
        """The region with all that it needs beforehand, if it can be read as a whole and anything
        uses a result of it."""
        steps = sorted({*group, *self.needed(group)}, key=lambda step: step.index)
        # Only `group` gives: what is fixed is copied, and others have copies of their own.
        piece = self.piece(steps, group)
        reading = self.program(piece) if piece.outputs else None
        if reading is None:
            return None
        program, order = reading
        piece = piece.arranged(order)
        constant = (at for at, var in enumerate(piece.inputs) if var in self.constant)
        return replace(piece, constant=tuple(constant), program=program)

    def needed(self, group: Iterable[ClassifiedEquation]) -> set[ClassifiedEquation]:
        """The fixed equations that `group` needs, through others that are fixed."""
        needed: set[ClassifiedEquation] = set()
        stack = list(group)
        while stack:
            atoms = stack.pop().equation.invars
            new = {
                self.fixed[atom]
                for atom in atoms
                if not isinstance(atom, Literal) and atom in self.fixed
            }
            stack.extend(new - needed)
            needed |= new
        return needed

    def piece(
        self,
        steps: Sequence[ClassifiedEquation],
        giving: Sequence[ClassifiedEquation] | None = None,
    ) -> Piece:
        """Equations as a `Piece`, whose outputs are the results of `giving` that are used
        outside."""
        indices = {step.index for step in steps}
        produced = {var for step in steps for var in step.equation.outvars}
        operands = dict.fromkeys(
            atom
            for step in steps
            for atom in step.equation.invars
            if not isinstance(atom, Literal) and atom not in produced
        )
        outputs = tuple(
            var
            for step in (steps if giving is None else giving)
            for var in step.equation.outvars
            # Uses by these equations themselves are inside; -1, the caller, never is.
            if self.uses.get(var, frozenset()) - indices
        )
        # Numbers are closed over by the piece, not taken by it: a program has them as literals, and
        # a replacement gets no array for them.
        numbers = tuple(var for var in operands if var in self.numbers)
        inputs = tuple(var for var in operands if var not in self.numbers)
        jaxpr = self.flat.part((*numbers, *inputs), [step.equation for step in steps], outputs)
        held = tuple(self.flat.constants[var] for var in numbers)
        return Piece(jaxpr, inputs, outputs, held=held)

    def program(self, piece: Piece) -> tuple[Program, ValueOrder] | None:
        """The program of a region and the order of its inputs and outputs; equal regions get one
        program.

        The first reading names inputs `x0`, `x1`, … and is the key; the second has the names and
        the order of the region that came first, for a reader.
        """
        # Input names are a part of equality of programs: neutral ones let equal regions meet.
        plain = self.read(piece, [f"x{at}" for at in range(len(piece.inputs))])
        if plain is None:
            return None
        if plain not in self.programs:
            order = self.order(piece)
            piece = piece.arranged(order)
            described = self.read(piece, list(self.reader_names(piece)))
            assert described is not None
            self.programs[plain] = described, order
        return self.programs[plain]

    def order(self, piece: Piece) -> ValueOrder:
        """The order that a reader expects: arguments and results of the function itself come first,
        as it has them."""
        return ValueOrder(
            _sorted(piece.inputs, self.flat.inputs), _sorted(piece.outputs, self.flat.outputs)
        )

    def reader_names(self, piece: Piece) -> Iterator[str]:
        """A name for each input: that of the argument where it is one, else `x0`, `x1`, …, each
        once."""
        used = set(self.names.values())
        for at, var in enumerate(piece.inputs):
            name = self.names.get(var, f"x{at}")
            # A name of an argument stays as it is; one that is made up gives way.
            while var not in self.names and name in used:
                name += "_"
            yield name

    def read(self, piece: Piece, names: Sequence[str]) -> Program | None:
        """The region as a `Program` with these input names, where all of it can be read."""
        number = f"_{len(self.programs) + 1}" if self.programs else ""
        return read_piece(piece, names, f"{self.title}{number}")


def read_piece(piece: Piece, names: Sequence[str], title: str) -> Program | None:
    """What a piece computes as a `Program`, with these names for its inputs; `None` where a part of
    it cannot be read."""
    inputs = [unknown(var, name) for var, name in zip(piece.inputs, names, strict=True)]
    reader = JaxprReader(ClosedOverConstants())
    results = reader.open(piece.jaxpr, (), [*map(reader.constant, piece.held), *inputs])
    values = [traced for traced in results if isinstance(traced, TracedValue)]
    terms: list[Term] = [traced.term for traced in inputs if isinstance(traced, TracedValue)]
    # One output or input that cannot be read is enough: a program takes and gives all that the
    # piece does.
    if len(values) < len(results) or len(terms) < len(inputs):
        return None
    try:
        return Program(title, tuple(terms), tuple(value.full() for value in values))
    except CaptureError:
        return None


def _sorted(variables: Sequence[Var], first: Sequence[Atom]) -> list[int]:
    """The places of `variables`, those that are in `first` before all others and in its order."""
    # Reversed, so that a variable that occurs twice has its first place.
    ranks = {var: at for at, var in reversed([*enumerate(first)]) if not isinstance(var, Literal)}
    return sorted(range(len(variables)), key=lambda at: ranks.get(variables[at], len(first)))


def _numbers(constants: Mapping[Var, Leaf]) -> frozenset[Var]:
    """The arrays that were closed over and that `JaxprReader` writes as literals or ramps in place
    of inputs."""
    reader = JaxprReader(ClosedOverConstants())
    values = {var: reader.constant(array) for var, array in constants.items()}
    return frozenset(
        var for var, value in values.items() if isinstance(value, TracedValue) and is_known(value)
    )


def _uses(
    steps: Iterable[ClassifiedEquation], outputs: Iterable[Atom]
) -> dict[Var, frozenset[int]]:
    """For each variable the equations that take it, by `ClassifiedEquation.index`; -1 stands for
    the caller."""
    takers: dict[Var, set[int]] = {}
    for step in steps:
        for atom in step.equation.invars:
            if not isinstance(atom, Literal):
                takers.setdefault(atom, set()).add(step.index)
    for atom in outputs:
        if not isinstance(atom, Literal):
            takers.setdefault(atom, set()).add(-1)
    return {var: frozenset(taking) for var, taking in takers.items()}
