"""From a JAX function to a program of patterns: which rows each step reads, found by rule.

Problem: a jaxpr has an equation for each primitive; a mapping wants a few patterns with the rows of
each array that an iteration touches.

Method: values are *stored* where an algorithm would store them: what products, reductions, loops
and lookups give, what several patterns read, and results. All other equations (elementwise ones,
and views such as slices, reshapes, broadcasts) are computed inside of the pattern that needs them.
For each stored value, its row i is pulled back through these with the rules of `rows`: what arrives
at a stored value is row i + shift, or all of it.

Example, `y = (u[:-2] + u[1:-1] + u[2:]) / 3; return (y * y).sum()`: y is a stencil of u with shifts
0, 1, 2, and the sum a reduction over rows of u of which the square is part, as y is read only once.

| primitive | pattern |
| --- | --- |
| elementwise, views | part of the pattern that reads them |
| several shifts of one array | `STENCIL` |
| rows joined or padded | `MAP` over a single index, behind which neighbours are rows |
| products | `MAP`: rows of the left, all of the right |
| reductions over axis 0 | `REDUCE` |
| scans | `RECURRENCE` of as many steps |
| lookups | `MAP`: all of the table |
| anything else | `MAP` over a single index that takes all and gives all |

The relations are checked as well: `JaxPatterns.poisoned` changes a row of each array, in turn with
NaN and with other numbers, and compares which rows of the pattern's result change.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from ..capture.jax_types import Function, Leaf, NumpyArray, PyTree
from .errors import PatternError
from .patterns import Access, Array, Pattern, PatternCall, PatternKind, PatternProgram
from .rows.demands import pull, work_of
from .rows.equations import Atom, Equation, Flat, FlatValue, Known, flatten_jaxpr, trace
from .rows.frames import bind
from .rows.loops import requirement
from .rows.rules import ELEMENTWISE, REDUCTIONS, WHOLE, Demand, Rows

Demands: TypeAlias = dict[int, frozenset[Demand]]
"""By stored value: which rows of it are asked for."""

TRANSCENDENTAL = 8
"""Operations that an exponential, logarithm or their like counts as."""
DEAR = frozenset(
    {
        "acos",
        "acosh",
        "asin",
        "asinh",
        "atan",
        "atan2",
        "atanh",
        "cbrt",
        "cos",
        "cosh",
        "digamma",
        "div",
        "erf",
        "erf_inv",
        "erfc",
        "exp",
        "exp2",
        "expm1",
        "lgamma",
        "log",
        "log1p",
        "logistic",
        "pow",
        "rsqrt",
        "sin",
        "sinh",
        "sqrt",
        "tan",
        "tanh",
    }
)
VIEWS = frozenset(
    {
        "broadcast_in_dim",
        "concatenate",
        "convert_element_type",
        "copy",
        "expand_dims",
        "iota",
        "pad",
        "reshape",
        "rev",
        "slice",
        "squeeze",
        "stop_gradient",
        "transpose",
    }
)
"""What only says where elements are: it is repeated in every pattern that reads it."""


@dataclass(frozen=True)
class CapturedCall:
    """A pattern of a function: its call, the value that it stores, and how that is computed."""

    call: PatternCall
    value: FlatValue
    equations: tuple[Equation, ...]
    """In an order in which they can run; the last one gives the value."""
    sources: tuple[FlatValue, ...]
    """The stored values and inputs that it reads."""


@dataclass(frozen=True)
class JaxPatterns:
    """A JAX function as patterns, and what they were made of."""

    flat: Flat
    program: PatternProgram
    calls: tuple[CapturedCall, ...]
    names: Mapping[int, str]
    """The array of each stored value."""

    def poisoned(self, args: Sequence[PyTree], *, seed: int = 0, rows: int = 3) -> list[str]:
        """What changes rows that no access says it changes, as a sentence each; of some rows of
        every array that a pattern reads."""
        values = self._values(jax.tree_util.tree_leaves(args))
        rng = np.random.default_rng(seed)
        objections = []
        for captured in self.calls:
            usual = self._run(captured, values)
            for source in captured.sources:
                if not source.shape or not jnp.issubdtype(source.dtype, jnp.floating):
                    # An integer may be an index, for which other numbers mean nothing.
                    continue
                objections += self._objections(captured, source, values, usual, rng, rows)
        return objections

    def _objections(
        self,
        captured: CapturedCall,
        source: FlatValue,
        values: Mapping[int, Leaf],
        usual: NumpyArray,
        rng: np.random.Generator,
        rows: int,
    ) -> list[str]:
        objections = []
        name = self.names[source.number]
        reads = [access for access in captured.call.reads if access.array == name]
        if captured.call.kind is PatternKind.REDUCE or any(access.whole for access in reads):
            return []  # every row may change then
        for row in rng.integers(source.shape[0], size=rows):
            allowed = {int(row) - access.shift for access in reads}
            array = np.array(values[source.number])
            for poison in (np.nan, array[row] * 1.5 + 1):
                spoiled = array.copy()
                spoiled[row] = poison
                result = self._run(captured, {**values, source.number: jnp.asarray(spoiled)})
                differs = ~((result == usual) | (np.isnan(result) & np.isnan(usual)))
                by_row = differs.reshape(len(differs), -1).any(axis=1)
                changed = {int(at) for at in np.flatnonzero(by_row)}
                if changed - allowed:
                    objections.append(
                        f"{captured.call.name}: row {row} of {name} changes row "
                        f"{min(changed - allowed)}, which reads "
                        f"{sorted(access.shift for access in reads)} rows further on"
                    )
        return objections

    def _values(self, inputs: Sequence[Leaf]) -> dict[int, Leaf]:
        values = {
            value.number: jnp.asarray(array)
            for value, array in zip(self.flat.inputs, inputs, strict=True)
        }
        for equation in self.flat.equations:
            _run_equation(equation, values)
        return values

    def _run(self, captured: CapturedCall, values: Mapping[int, Leaf]) -> NumpyArray:
        computed = dict(values)
        for equation in captured.equations:
            _run_equation(equation, computed, turns=1)
        return np.asarray(computed[captured.value.number])


def capture_patterns(function: Function, *args: PyTree, name: str = "") -> JaxPatterns:
    """Traces a function of these arguments, and gives its patterns.

    Raises PatternError where nothing is computed, and PlanError for what has side effects.
    """
    flat, _ = trace(function, args)
    return patterns_of(flat, name or str(getattr(function, "__name__", "function")))


def patterns_of(flat: Flat, name: str, *, recurrences: bool = True) -> JaxPatterns:
    """The patterns of a program that is traced; without `recurrences` a loop is not taken apart by
    time, but is a map over its rows, or one piece where rows depend on each other."""
    return _Capturer(flat, name, recurrences).captured()


def _run_equation(equation: Equation, values: dict[int, Leaf], turns: int | None = None) -> None:
    """Computes what an equation gives; of a scan that many turns, where that is said."""
    operands = [
        atom.array if isinstance(atom, Known) else values[atom.number] for atom in equation.inputs
    ]
    params = equation.params
    if turns is not None and equation.name == "scan":
        # What a recurrence reads is said of a step: after several, rows may have met through it.
        first = params["num_consts"] + params["num_carry"]
        operands = [*operands[:first], *(stack[:turns] for stack in operands[first:])]
        params = {**params, "length": turns}
    results = bind(equation, operands, params)
    values.update(zip((value.number for value in equation.outputs), results, strict=True))


class _Capturer:
    def __init__(self, flat: Flat, name: str, recurrences: bool) -> None:
        self.flat = flat
        self.name = name
        self.recurrences = recurrences
        self.definitions = flat.definitions()
        self.stored = self._stored()
        self.names = {value.number: f"x{at}" for at, value in enumerate(flat.inputs)}
        defined = (value for equation in flat.equations for value in equation.outputs)
        self.values = [*flat.inputs, *defined]

    def _stored(self) -> set[int]:
        """The numbers of values that are stored, inputs left out."""
        uses = Counter(
            atom.number
            for equation in self.flat.equations
            for atom in {a for a in equation.inputs if isinstance(a, FlatValue)}
        )
        results = {atom.number for atom in self.flat.outputs if isinstance(atom, FlatValue)}
        stored = set()
        for equation in self.flat.equations:
            view = equation.name in VIEWS and not joins_rows(equation)
            cheap = view or equation.name in ELEMENTWISE
            for value in equation.outputs:
                repeated = uses[value.number] > 1 and not view
                if value.number in results or (uses[value.number] and (not cheap or repeated)):
                    stored.add(value.number)
        return stored

    def captured(self) -> JaxPatterns:
        calls = []
        patterns = []
        for equation in self.flat.equations:
            for position, value in enumerate(equation.outputs):
                if value.number in self.stored:
                    captured, pattern = self.call(equation, position)
                    calls.append(captured)
                    patterns.append(pattern)
        if not calls:
            raise PatternError(f"{self.name} computes nothing, so there is nothing to place")
        arrays = [
            Array(self.names[value.number], value.shape, np.dtype(value.dtype).itemsize)
            for value in (*self.flat.inputs, *(captured.value for captured in calls))
            if math.prod(value.shape)
        ]
        program = PatternProgram(
            name=self.name,
            arrays=tuple(arrays),
            patterns=tuple(patterns),
            calls=tuple(captured.call for captured in calls),
        )
        return JaxPatterns(self.flat, program, tuple(calls), self.names)

    def call(self, equation: Equation, position: int) -> tuple[CapturedCall, Pattern]:
        value = equation.outputs[position]
        name = self.names[value.number] = f"{equation.name}{len(self.names)}"
        equations = self.inside(equation)
        work = sum(operations(each) for each in equations)
        kind, rows, steps, demands = self.relation(equation, position, equations)
        reads = []
        for number, wanted in demands.items():
            by_rows = [d for d in wanted if d is not WHOLE and d.axis == 0]
            # Rows along another axis touch a part of every row, which is all of them.
            if len(by_rows) < len(wanted) or not by_rows:
                reads.append(Access(self.names[number], whole=True))
            else:
                shifts = sorted({demand.shift for demand in by_rows})
                reads += [Access(self.names[number], shift=shift) for shift in shifts]
        shifted = Counter(access.array for access in reads if not access.whole)
        if kind is PatternKind.MAP and any(count > 1 for count in shifted.values()):
            kind = PatternKind.STENCIL
        single = rows == 1 or kind is PatternKind.REDUCE
        call = PatternCall(
            name, kind, pattern=f"{name} body", lengths=(rows,), reads=tuple(reads),
            writes=(Access(name, whole=single and bool(value.shape)),), steps=steps,
        )  # fmt: skip
        pattern = Pattern(f"{name} body", max(1, round(work / rows / steps)))
        sources = [source for source in self.values if source.number in demands]
        return CapturedCall(call, value, tuple(equations), tuple(sources)), pattern

    def inside(self, last: Equation) -> list[Equation]:
        """The equations of a pattern: the one that gives its value, and what is not stored."""
        needed = {id(last)}
        waiting = [last]
        while waiting:
            for atom in waiting.pop().inputs:
                before = self.unstored(atom)
                if before is not None and id(before) not in needed:
                    needed.add(id(before))
                    waiting.append(before)
        return [equation for equation in self.flat.equations if id(equation) in needed]

    def unstored(self, atom: Atom) -> Equation | None:
        """The equation that computes a value inside of the pattern that reads it."""
        if isinstance(atom, Known) or atom.number in self.stored:
            return None
        return self.definitions[atom.number][0] if atom.number in self.definitions else None

    def relation(
        self, equation: Equation, position: int, equations: Sequence[Equation]
    ) -> tuple[PatternKind, int, int, Demands]:
        """The kind, how many rows and steps there are, and what is asked of each stored value."""
        value = equation.outputs[position]
        before = [each for each in equations if each is not equation]
        if equation.name in REDUCTIONS and 0 in equation.params.get("axes", ()):
            (operand, *_) = equation.inputs
            demands = self.pulled([(operand, Rows(0))], before)
            return PatternKind.REDUCE, operand.shape[0], 1, demands
        if equation.name == "scan" and self.recurrences:
            return self.recurrence(equation, position, before)
        rows = value.shape[0] if value.shape else 1
        if rows > 1 and requirement(equation, position, Rows(0)) is not None:
            return PatternKind.MAP, rows, 1, self.pulled([(value, Rows(0))], equations)
        return PatternKind.MAP, 1, 1, self.pulled([(value, WHOLE)], equations)

    def recurrence(
        self, equation: Equation, position: int, before: Sequence[Equation]
    ) -> tuple[PatternKind, int, int, Demands]:
        """A scan: steps one after another, in each of which rows of what is carried are computed.

        What the body asks for in the same rows is read by rows. All else is read whole: slices over
        time, and neighbours, whose rows at both ends the body treats apart.
        """
        params = equation.params
        constants, carries = params["num_consts"], params["num_carry"]
        value, steps = equation.outputs[position], max(1, params["length"])
        body = flatten_jaxpr(params["jaxpr"])
        pulled = None
        if position < carries and value.shape and value.shape[0] > 1:
            pulled = pull(body, [(body.outputs[position], Rows(0))], requirement)
        if pulled is None:
            whole = self.pulled([(atom, WHOLE) for atom in equation.inputs], before)
            return PatternKind.RECURRENCE, 1, steps, whole
        targets: list[tuple[Atom, Demand]] = []
        for at, atom in enumerate(equation.inputs):
            asked = pulled.inputs[body.inputs[at].number]
            if asked:
                same = asked == {Rows(0)} and at < constants + carries
                targets.append((atom, Rows(0) if same else WHOLE))
        return PatternKind.RECURRENCE, value.shape[0], steps, self.pulled(targets, before)

    def pulled(
        self, targets: Sequence[tuple[Atom, Demand]], equations: Sequence[Equation]
    ) -> Demands:
        """What is asked of stored values and inputs for these rows, through these equations."""
        defined = {value.number for equation in equations for value in equation.outputs}
        inputs = tuple(value for value in self.values if value.number not in defined)
        result = pull(Flat(inputs, tuple(equations), ()), list(targets), requirement)
        if result is None:
            raise PatternError(f"{self.name} asks for too many shifts of an array to be a pattern")
        return {number: asked for number, asked in result.inputs.items() if asked}


def joins_rows(equation: Equation) -> bool:
    """Whether rows of a result come from several places, as where the edges of a stencil are
    padded: what reads neighbours then reads those of the joined array."""
    if equation.name == "concatenate":
        return bool(equation.params["dimension"] == 0)
    return equation.name == "pad" and equation.params["padding_config"][0] != (0, 0, 0)


def operations(equation: Equation) -> int:
    """Operations of an equation: two for each term of a product, several for an exponential."""
    if equation.name in VIEWS:
        return 0
    work = sum(work_of(equation, value) for value in equation.outputs[:1])
    return work * {"dot_general": 2}.get(
        equation.name, TRANSCENDENTAL if equation.name in DEAR else 1
    )
