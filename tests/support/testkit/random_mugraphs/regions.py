"""Parts of a kernel graph that may become one custom kernel, and the axes that run together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TypeAlias

from testkit.random_mugraphs.algebraic_moves import over_last, plain

from aiosearch.tensor import Place, Program, Term

Value: TypeAlias = tuple[Term, "Term | None"]
"""A value of a region: a term, and its user where users load an input each in its own way."""

Axis: TypeAlias = tuple[Value, int]

_REDUCTIONS = ("sum", "mean", "max")


@dataclass(eq=False)
class Region:
    """Operators of a kernel graph, with nothing between them that is not one of them."""

    terms: list[Term]
    """Operands first."""
    outputs: list[Term]
    """What is used outside."""
    apart: frozenset[Term] = frozenset()
    """Inputs that each user loads in its own way."""
    _same: dict[Axis, Axis] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for term in self.terms:
            for one, two in self._links(term):
                self._same[self._root(one)] = self._root(two)

    def without_last(self) -> Region:
        """The same without what nothing in it uses, or itself where nothing would be left."""
        inner = {argument for term in self.terms for argument in term.arguments}
        rest = [term for term in self.terms if term in inner]
        used = {argument for term in self.terms if term not in inner for argument in term.arguments}
        outputs = [term for term in rest if term in used or term in self.outputs]
        return Region(rest, outputs, self.apart) if rest else self

    @property
    def fewest(self) -> int:
        """A block graph has at least so many operators: a root of a mean of squares can be one."""
        loads = {
            operand
            for term in self.terms
            for operand in self.operands(term)
            if operand[0] not in self.terms and operand[0].place is Place.DEVICE
        }
        names = [term.operator.name for term in self.terms if self._is_accumulator(term)]
        return len(loads) + len(self.terms) + (1 if not names else -2 * names.count("mean"))

    def _is_accumulator(self, term: Term) -> bool:
        """Whether an accumulator can do what it does, together with its operands."""
        return term.operator.name == "fold" or (
            term.operator.name in ("sum", "mean", "max") and over_last(term)
        )

    def operands(self, term: Term) -> list[Value]:
        return [(argument, term if argument in self.apart else None) for argument in term.arguments]

    def classes(self, value: Value) -> list[Axis | None]:
        """For each axis the class of axes that it runs with; None where the size is one."""
        return [
            None if size == 1 else self._root((value, axis))
            for axis, size in enumerate(value[0].shape)
        ]

    def contracted(self, term: Term) -> list[Axis]:
        """The classes that an operator adds up over."""
        axes: tuple[int, ...] = ()
        if term.operator.name == "matmul":
            axes = (len(term.shape) - 1,)
        elif term.operator.name in _REDUCTIONS:
            axes = term.parameter("axes")
        elif term.operator.name == "fold":
            axes = (term.parameter("axis"),)
        own = self.classes(self.operands(term)[0]) if axes else []
        return [found for axis in axes if (found := own[axis]) is not None]

    def _root(self, axis: Axis) -> Axis:
        while axis in self._same and self._same[axis] != axis:
            axis = self._same[axis]
        return axis

    def _links(self, term: Term) -> Iterator[tuple[Axis, Axis]]:
        own: Value = (term, None)
        last = len(term.shape) - 1
        operands = self.operands(term)
        if term.operator.name == "matmul":
            left, right = operands
            yield (left, last), (right, last - 1)
            yield (left, last - 1), (own, last - 1)
            yield (right, last), (own, last)
        for operand in operands:
            for axis, (size, mine) in enumerate(zip(operand[0].shape, term.shape, strict=False)):
                inner = term.operator.name == "matmul" and axis >= last - 1
                if size == mine != 1 and not inner and axis not in self._gone(term):
                    yield (operand, axis), (own, axis)

    def _gone(self, term: Term) -> Sequence[int]:
        if term.operator.name == "fold":
            return (term.parameter("axis"),)
        return term.parameter("axes") if term.operator.name in _REDUCTIONS else ()


def region(program: Program, random: Random, least: int, most: int) -> Region | None:
    """A random region of about so many operators, or None where none came about."""
    terms = plain(program)
    if not terms or least > most:
        return None
    graph = _Graph(program)
    chosen = _begun(program, terms, random)
    chosen |= graph.between(chosen)
    for _ in range(random.randint(max(least, 1), most) - 1):
        around = [
            other
            for other in terms
            for _ in range(graph.nearness(other, chosen))
            if other not in chosen
        ]
        if not around:
            break
        chosen.add(random.choice(around))
        chosen |= graph.between(chosen)
    if not least <= len(chosen) or not chosen <= set(terms):
        return None
    outputs = [term for term in terms if term in chosen and graph.leaves(term, chosen)]
    apart = frozenset(
        argument
        for argument in dict.fromkeys(argument for term in terms for argument in term.arguments)
        if argument not in chosen and random.random() < 0.15
    )
    return Region([term for term in terms if term in chosen], outputs, apart)


def _begun(program: Program, terms: Sequence[Term], random: Random) -> set[Term]:
    """Folds, which kernels do well; else an output rather than another operator."""
    folds = {term for term in terms if term.operator.name == "fold"}
    last = [term for term in program.outputs if term in terms]
    return folds or {random.choice(last if last and random.random() < 0.6 else terms)}


class _Graph:
    """Who depends on whom among the tensors of the device."""

    def __init__(self, program: Program) -> None:
        self._outputs = program.outputs
        self._needs: dict[Term, set[Term]] = {}
        """All that a tensor is made of."""
        self._tiles: dict[Term, set[Term]] = {}
        self._operands: dict[Term, set[Term]] = {}
        for term in program.terms():
            own = set().union(
                *(
                    {argument} if argument.place is Place.DEVICE else self._tiles.get(argument, ())
                    for argument in term.arguments
                )
            )
            if term.place is Place.DEVICE:
                self._operands[term] = own
                self._needs[term] = own.union(*(self._needs[one] for one in own))
            else:
                self._tiles[term] = own

    def nearness(self, term: Term, chosen: set[Term]) -> int:
        """Three for an operand, one for a user or for what shares an operand, else zero."""
        if any(term in self._operands[one] for one in chosen):
            return 3
        own = self._operands[term]
        return int(any(one in own or own & self._operands[one] for one in chosen))

    def between(self, chosen: set[Term]) -> set[Term]:
        """What needs some of the chosen and is needed by some."""
        needed = set().union(*(self._needs[one] for one in chosen))
        return {term for term in needed if self._needs[term] & chosen}

    def leaves(self, term: Term, chosen: set[Term]) -> bool:
        return term in self._outputs or any(
            term in operands for user, operands in self._operands.items() if user not in chosen
        )
