"""Kernel graphs as they come, and said without the numbers that a run happens to give."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import permutations

from aiosearch.superoptimizer.algebra.normal_form import (
    BITS,
    CallUnit,
    FactorUnit,
    InputUnit,
    LargestUnit,
    Mask,
    SumUnit,
)
from aiosearch.superoptimizer.algebra.program_reader import NormalFormProgram
from aiosearch.superoptimizer.enumeration.kernel_graphs import Skeleton, SkeletonKernel
from aiosearch.superoptimizer.enumeration.problem import Found, Fusion
from aiosearch.superoptimizer.space import Space
from aiosearch.tensor import Program
from aiosearch.tensor.files import to_json


def fusion(program: Program, space: Space) -> Fusion:
    return Fusion(to_json(program), space)


def walk(problem: Fusion) -> Iterator[Skeleton]:
    """Every node once, as the engine does."""
    left, seen = [problem.root()], {problem.key(problem.root())}
    while left:
        node = left.pop()
        yield node
        for child in problem.expand(node):
            if problem.key(child) not in seen:
                seen.add(problem.key(child))
                left.append(child)


def leaves(problem: Fusion) -> list[Found]:
    return [found for node in walk(problem) for found in problem.solutions(node)]


def orders(program: Program) -> Iterator[Program]:
    """The program with its inputs declared in every order."""
    for inputs in permutations(program.inputs):
        yield Program(program.name, inputs, program.outputs)


class Speller:
    """Says what the classes of a problem are, the same in whatever order they came."""

    def __init__(self, problem: Fusion) -> None:
        self._tables = problem.tables
        self._reference: NormalFormProgram = problem.tables.reference
        self.form = cache(self._form)

    def graph(self, found: Found) -> tuple[str, ...]:
        """The kernels of a graph, and for how many programs it stands."""
        return (*sorted(map(self.kernel, found.kernels)), str(found.programs))

    def kernel(self, kernel: SkeletonKernel) -> str:
        loads, tensors = (
            sorted(map(self.tensor, numbers)) for numbers in (kernel.loads, kernel.tensors)
        )
        if kernel.step < 0:
            return f"{loads} -> {tensors}"
        step = self._tables.steps[kernel.tensors[0]][kernel.step]
        operands = list(map(self.tensor, step.operands))
        ordered = sorted(operands) if step.operator in ("add", "mul") else operands
        return f"{step.operator} {step.detail} {ordered} -> {tensors}"

    def tensor(self, number: int) -> str:
        own = self._tables.classes[number]
        axes = ["·".join(map(self._mask, axis)) for axis in own.axes]
        return f"{self.form(own.form)} along {axes}"

    def _mask(self, mask: Mask) -> str:
        labels = self._reference.labels
        bits = (bit for bit in range(mask.bit_length()) if mask >> bit & 1)
        return ",".join(sorted(f"{labels[bit // BITS]}{bit % BITS}" for bit in bits))

    def _form(self, form: int) -> str:
        terms = []
        for (above, below, root, sizes), factor in self._reference.forms.items[form]:
            sides = [
                sorted(f"{self._unit(unit)}^{power}" for unit, power in side)
                for side in (above, below)
            ]
            counts = sorted(f"{self._mask(1 << leaf)}^{power}" for leaf, power in sizes)
            terms.append(f"{factor} {root} {counts} {sides}")
        return " + ".join(sorted(terms))

    def _unit(self, number: int) -> str:
        match self._reference.forms.units[number]:
            case InputUnit(name):
                return name
            case CallUnit(name, arguments):
                return f"{name}({[self.form(argument) for argument in arguments]})"
            case FactorUnit(form):
                return f"({self.form(form)})"
            case LargestUnit(bound, form):
                return f"largest {self._mask(bound)} ({self.form(form)})"
            case SumUnit(bound, above, below):
                product = [
                    sorted(f"{self._unit(factor)}^{power}" for factor, power in side)
                    for side in (above, below)
                ]
                return f"sum {self._mask(bound)} {product}"
