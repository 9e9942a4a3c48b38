"""µgraphs to print as code: drawn at random, and found by the superoptimizer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from random import Random

from testkit.programs.random_programs import ALONG_SHORT_AXES, random_program
from testkit.superoptimizer.kernel_graphs import fusion, leaves

from aiosearch.superoptimizer.build.mugraph import BuiltKernels
from aiosearch.superoptimizer.space import Space
from aiosearch.tensor import Program, ShapeError
from aiosearch.tensor.programs import BUILTINS, builtin
from aiosearch.tensor.types import DType

FOUND = ("rms_norm", "gated_mlp", "lora", "gqa")
"""Programs with answers of one custom kernel."""
_SIZES = (1, 2, 3, 4, 6, 8, 16, 20, 33, 64)
_SMALL = {"head": 2, "row": 4, "rank": 2}
_USUAL = 24
_UNWANTED = ALONG_SHORT_AXES | {"digamma"}
"""Of a number that rounding takes to a pole digamma is none, beside it as large as may be."""


def mugraphs(count: int) -> Iterator[Program]:
    """So many programs with custom kernels: a quarter are answers, as far as there are some."""
    answers = list(islice(found(), count // 4))
    yield from answers
    yield from islice(drawn(), count - len(answers))


def drawn() -> Iterator[Program]:
    """Programs drawn at random that have custom kernels."""
    seed = 0
    while True:
        program = random_program(seed, sizes=_SIZES, most=5000, without=_UNWANTED)
        if any(term.operator.name == "result" for term in program.terms()):
            yield program
        seed += 1


def found(names: Sequence[str] = FOUND) -> Iterator[Program]:
    """Answers of searches, with numbers drawn for their grids and loops, of each search in turn."""
    searches = [_answers(name) for name in names]
    while searches:
        for search in list(searches):
            program = next(search, None)
            if program is None:
                searches.remove(search)
            else:
                yield program


def _answers(name: str) -> Iterator[Program]:
    sizes = {label: _SMALL.get(label, _USUAL) for label in BUILTINS[name].sizes}
    random = Random(name)
    for dtype in (DType.F32, DType.BF16):
        problem = fusion(builtin(name, dtype, **sizes), Space(kernels=1))
        for one in leaves(problem):
            if one.kernels[0].step >= 0:
                continue
            for graph in problem.skeletons.graphs(one.kernels[0]):
                built = BuiltKernels(one.kernels, (graph,))
                numbers = {each: random.choice((1, 2)) for each in problem.builder.extents(built)}
                try:
                    yield problem.builder.build(built, numbers)
                except ShapeError:
                    continue
