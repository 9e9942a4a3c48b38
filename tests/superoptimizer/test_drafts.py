from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product

import pytest
from kernel_graphs import fusion, leaves

from aiosearch.superoptimizer.building import Built
from aiosearch.superoptimizer.drafts import Draft, Drafts
from aiosearch.superoptimizer.problem import Fusion
from aiosearch.superoptimizer.space import Space
from aiosearch.tensor.programs import builtin

NAMES = ("rms_norm", "gated_mlp", "lora", "gqa")
SMALL = Space(block_operators=7, kernels=2)


@cache
def ends(name: str) -> tuple[Fusion, list[Draft], list[Built | None]]:
    """The drafts that no choice is left for, and what each of them is as a program."""
    problem = fusion(builtin(name), SMALL)
    drafts = Drafts(problem.skeletons)
    found = list(_ends(drafts, drafts.begun(problem.root()), set()))
    return problem, found, [drafts.built(draft) for draft in found]


def _ends(drafts: Drafts, draft: Draft, seen: set[Draft]) -> Iterator[Draft]:
    more = [one for one in drafts.expand(draft) if one not in seen]
    seen.update(more)
    if not more and not draft.needed:
        yield draft
    for one in more:
        yield from _ends(drafts, one, seen)


@pytest.mark.parametrize("name", NAMES)
def test_every_program_is_drafted_once(name: str) -> None:
    """They are the kernel graphs with every block graph that their kernels have."""
    problem, _, programs = ends(name)
    whole = []
    for one in leaves(problem):
        graphs = [
            [None] if kernel.step >= 0 else list(problem.skeletons.graphs(kernel))
            for kernel in one.kernels
        ]
        assert one.programs == len(list(product(*graphs)))
        whole += [Built(one.kernels, chosen) for chosen in product(*graphs)]
    assert len(set(programs)) == len(programs)
    assert set(programs) == set(whole)


@pytest.mark.parametrize("name", NAMES)
def test_no_choice_of_an_operator_leads_nowhere(name: str) -> None:
    """Once all kernels are there, whatever is chosen becomes a program."""
    _, drafts, programs = ends(name)
    assert len(programs) > 15
    assert all(programs)
    assert all(draft.graphs or all(k.step >= 0 for k in draft.kernels) for draft in drafts)


def test_a_draft_that_lacks_something_is_no_program() -> None:
    """Whether a tensor lacks its kernel, a kernel its block graph, or that an operand."""
    problem, found, _ = ends("rms_norm")
    drafts = Drafts(problem.skeletons)
    whole = next(draft for draft in found if draft.graphs)
    *_, last = whole.graphs
    shorter = type(last)(last.outputs, last.steps[:-1])
    assert drafts.built(Draft(whole.kernels, (), (*whole.graphs[:-1], shorter))) is None
    assert drafts.built(Draft(whole.kernels, (), whole.graphs[:-1])) is None
    assert drafts.built(drafts.begun(problem.root())) is None
