"""Value classes as terms without index labels, as the first version of Mirage gave them to z3.

A sum keeps how many it adds up, but not over which index. To count a part of an index, each label
has the fourth power of its size, and each of its four parts the size.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...superoptimizer import Derivation, DerivationGraph, ValueClass
from ...tensor import Term
from ...tensor.abstract import INFIX, Abstract, Abstracts, Shaped
from ...tensor.evaluation import step as evaluated
from ...tensor.operator import OPERATORS


class UnlabelledTerms:
    """The terms of a reference's outputs, and one of each class, by the derivation that came
    first.
    """

    def __init__(self, tables: DerivationGraph) -> None:
        self._tables = tables
        self._algebra = Abstracts()
        self._reference = self._evaluated()
        self.targets = [self._reference[output].term for output in tables.reference.program.outputs]
        self.terms: list[Abstract] = []
        inputs = dict(zip(tables.inputs, tables.reference.program.inputs, strict=True))
        inputs |= tables.views
        for number, steps in enumerate(tables.steps):
            input_term = inputs.get(number)
            # Operands have smaller numbers than the first class that is made of them, so their
            # terms are there.
            self.terms.append(
                self._reference[input_term].term if input_term else self._term(steps[0])
            )

    def _evaluated(self) -> dict[Term, Shaped]:
        reference = self._tables.reference
        shaped: dict[Term, Shaped] = {}
        for term in (*reference.program.inputs, *reference.program.terms()):
            if term in reference.program.inputs:
                abstract = Abstract.of(term.parameter("name"))
            else:
                abstract = evaluated(
                    term, self._algebra, [shaped[argument] for argument in term.arguments]
                ).term
            shaped[term] = Shaped(abstract, self._shape(reference.values[term].axes))
        return shaped

    def _shape(self, axes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
        return tuple(self._tables.reference.count(sum(axis)) for axis in axes)

    def _term(self, step: Derivation) -> Abstract:
        operand_class = self._tables.classes[step.operands[0]]
        operands = [self._shaped(operand) for operand in step.operands]
        if step.operator in ("load", "store"):
            return operands[0].term
        if step.operator == "accumulate":
            return self._accumulated(step.detail, operand_class, operands[0].term)
        if step.operator == "fold":
            return self._reduced("sum", operands[0].term, operand_class.axes[int(step.detail)][0])
        if step.detail.isdecimal():
            return self._reduced(
                step.operator, operands[0].term, sum(operand_class.axes[int(step.detail)])
            )
        if step.detail:
            side, place = step.detail.split()
            number = Shaped(self._number(int(place)), ())
            operands = [*operands, number] if side == "right" else [number, *operands]
        meaning: Shaped = OPERATORS[step.operator].meaning(self._algebra, *operands)
        return meaning.term

    def _number(self, place: int) -> Abstract:
        return self._reference[self._tables.numbers[place][0]].term

    def _shaped(self, number: int) -> Shaped:
        return Shaped(self.terms[number], self._shape(self._tables.classes[number].axes))

    def _reduced(self, name: str, term: Abstract, mask: int) -> Abstract:
        """A reduction over parts of indices."""
        flat = Shaped(term, (self._tables.reference.count(mask),))
        reduced: Shaped = OPERATORS[name].meaning(self._algebra, flat, axes=(0,), keep=True)
        return reduced.term

    def _accumulated(self, kind: str, operand_class: ValueClass, term: Abstract) -> Abstract:
        if kind in ("none", "max"):
            return self._reduced("max" if kind == "max" else "sum", term, operand_class.loop)
        last = operand_class.axes[-1]
        if kind == "redtox":
            return self._reduced("sum", term, operand_class.loop | last[0])
        mask = operand_class.loop | sum(last)
        if kind != "rms":
            return self._reduced(kind, term, mask)
        square = self._algebra.multiply(Shaped(term, ()), Shaped(term, ()))
        return self._algebra.sqrt(Shaped(self._reduced("mean", square.term, mask), ())).term


def without_sizes(term: Abstract) -> str:
    """The term as a person reads it: a mean is a sum, and a sum says nothing of its size."""
    if term.symbol == "divide" and term.arguments[1].symbol == "constant":
        return without_sizes(term.arguments[0])
    inner = [without_sizes(argument) for argument in term.arguments]
    if term.symbol in INFIX:
        return f"({INFIX[term.symbol].join(inner)})"
    bare = [argument[1:-1] if argument[0] == "(" else argument for argument in inner]
    return f"{term.symbol}({', '.join(bare)})" if inner else str(term)
