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

What a loop or a branch runs is cut likewise, into the pieces of a `Body`, where anything in it is a
region: `lax.scan(step, ...)` becomes a piece with one `Body`, that of `step`.

Cost: one pass over the equations for each piece, and one reading of each region by `JaxprReader`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, NamedTuple

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var

from ...capture.constants import ClosedOverConstants
from ...capture.errors import CaptureError
from ...capture.jax_types import Atom, Leaf, aval
from ...capture.jaxprs import JaxprReader
from ...capture.values import TracedValue
from ...mapper.rows.choice import choose_rows
from ...mapper.rows.equations import flatten_jaxpr
from ...tensor import Program, Term
from ..array_types import STREAMED_BYTES
from .control_flow import can_be_opened, functions
from .equations import ClassifiedEquation, classify_equations, is_known, unknown
from .flat_jaxpr import FlatJaxpr, inline_calls
from .regions import dependencies, ordered, regions

MOST_STREAMED = 24
"""Equations of layers that are searched together at most, where rows stream through them."""


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
    bodies: tuple[Body, ...] = ()
    """What its one equation runs, a loop or a branch, as `control_flow.functions` has it; empty
    where nothing in there is a region."""

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


@dataclass(frozen=True, eq=False)
class Body:
    """A function in pieces, in an order in which they can run: the whole one, or what a loop or a
    branch runs."""

    flat: FlatJaxpr
    steps: tuple[ClassifiedEquation, ...]
    pieces: tuple[Piece, ...]

    def nested(self) -> Iterator[Body]:
        """The body itself, and those of all loops and branches in it."""
        yield self
        for piece in self.pieces:
            for body in piece.bodies:
                yield from body.nested()

    def all_pieces(self) -> Iterator[Piece]:
        """The pieces, and those of all loops and branches among them."""
        for body in self.nested():
            yield from body.pieces


@dataclass(frozen=True)
class Cutter:
    """Cuts a function, and what its loops and branches run; equal regions of all of them get one
    program."""

    title: str
    """What programs are named after."""
    largest: int
    """Equations that a region has at most, where it can be parted."""
    precision: object = None
    """The precision of products that ask for none."""
    on_cpu: bool = False
    """Whether nothing but a CPU runs the function."""
    programs: dict[Program, tuple[Program, ValueOrder]] = field(default_factory=dict)
    """By a region as it reads with neutral names: its program for a reader, and its order."""

    def body(self, flat: FlatJaxpr, constant: Iterable[Var], names: Mapping[Var, str]) -> Body:
        """Cuts a function of which the arrays `constant` stay the same from call to call; `names`
        are those of its arguments, for a reader."""
        steps = classify_equations(flat, self.precision, self.on_cpu)
        # Arrays that are closed over never change under a trace, as jax has it.
        cut = _Pieces(self, flat, steps, frozenset(constant) | set(flat.constants), names)
        groups = regions(flat, steps, self.largest)
        if self.on_cpu:
            groups = cut.joined_streams(groups)
        return Body(flat, tuple(steps), tuple(cut.scheduled(groups)))

    def bodies(
        self, equation: JaxprEqn, constant: frozenset[Var], names: Mapping[Var, str]
    ) -> tuple[Body, ...]:
        """What a loop or a branch runs, in pieces; empty where none of them is a region."""
        if not can_be_opened(equation):
            return ()
        bodies = []
        for function in functions(equation):
            flat = inline_calls(function.jaxpr, equation.source_info)
            outside = {
                inner: atom
                for inner, atom in zip(flat.inputs, function.operands, strict=True)
                if isinstance(atom, Var)
            }
            held = [inner for inner, atom in outside.items() if atom in constant]
            named = {inner: names[atom] for inner, atom in outside.items() if atom in names}
            bodies.append(self.body(flat, held, named))
        searched = any(piece.program for body in bodies for piece in body.all_pieces())
        return tuple(bodies) if searched else ()


class _Pieces:
    def __init__(
        self,
        cutter: Cutter,
        flat: FlatJaxpr,
        steps: Sequence[ClassifiedEquation],
        constant: frozenset[Var],
        names: Mapping[Var, str],
    ) -> None:
        self.cutter, self.flat, self.steps = cutter, flat, steps
        self.constant, self.names = constant, names
        self.edges = dependencies(steps)
        self.fixed = {var: step for step in steps if step.fixed for var in step.equation.outvars}
        self.uses = _uses(steps, flat.outputs)
        self.numbers = _numbers(flat.constants)
        self.programs = cutter.programs

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
            region = self.region(group) if place < len(regions) else self.opened(group[0])
            if region is None:
                pending += group
                continue
            if pending:
                yield self.piece(pending)
                pending = []
            yield region
        if pending:
            yield self.piece(pending)

    def joined_streams(
        self, groups: Sequence[list[ClassifiedEquation]]
    ) -> list[list[ClassifiedEquation]]:
        """Regions that follow each other are one where what passes between them streams through
        memory, and rows of it do not depend on each other.

        Equal layers are cut apart so that they are searched once. But blocks of rows that stay in a
        cache have to run through all layers; between pieces, all rows would be stored.
        """
        chains: list[list[list[ClassifiedEquation]]] = []
        for group in groups:
            chain = chains[-1] if chains else []
            length = sum(map(len, chain)) + len(group)
            if chain and length <= MOST_STREAMED and self._streams(chain[-1], group):
                chain.append(group)
            else:
                chains.append([group])
        joined = []
        for chain in chains:
            together = [step for group in chain for step in group]
            if len(chain) > 1 and _is_by_rows(self.piece(together).jaxpr):
                joined.append(together)
            else:
                joined += chain
        return joined

    def _streams(
        self, earlier: Sequence[ClassifiedEquation], later: Sequence[ClassifiedEquation]
    ) -> bool:
        """Whether all that a region gives is long and goes to the next one, and nowhere else."""
        takers = {step.index for step in later}
        inside = takers | {step.index for step in earlier}
        passing = [
            (var, self.uses[var])
            for step in earlier
            for var in step.equation.outvars
            if self.uses.get(var, frozenset()) - {each.index for each in earlier}
        ]
        return bool(passing) and all(
            uses <= inside and prod(aval(var).shape) * aval(var).dtype.itemsize >= STREAMED_BYTES
            for var, uses in passing
        )

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

    def opened(self, step: ClassifiedEquation) -> Piece | None:
        """A loop or a branch as a piece of its own, if anything that it runs is a region."""
        if not step.refusal:
            return None
        bodies = self.cutter.bodies(step.equation, self.constant, self.names)
        return replace(self.piece([step]), bodies=bodies) if bodies else None

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
        return read_piece(piece, names, f"{self.cutter.title}{number}")


def _is_by_rows(jaxpr: Jaxpr) -> bool:
    """Whether rows of all that a jaxpr gives can be computed by themselves, by the rules for rows;
    what is needed whole may be a hundredth of the work."""
    pulled = choose_rows(flatten_jaxpr(ClosedJaxpr(jaxpr, ())))
    return pulled is not None and pulled.share > 0.99 and None not in pulled.results


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
