from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from testkit.superoptimizer.kernel_graphs import Speller, fusion, leaves, orders

from aiosearch import Search, SearchStatus
from aiosearch.superoptimizer.algebra.normal_form import BITS, WHOLE
from aiosearch.superoptimizer.derive.derivations import Scope, ValueClass
from aiosearch.superoptimizer.enumeration.problem import Fusion, OtherTablesError
from aiosearch.superoptimizer.space import Space
from aiosearch.tensor import Program
from aiosearch.tensor.programs import builtin

SMALL = Space(block_operators=6, kernels=2)
LARGE = Space(block_operators=8, kernels=4)

RUNNER = """
import asyncio, sys
from aiosearch import Search
from aiosearch.engine import run
from testkit.superoptimizer.kernel_graphs import fusion
from aiosearch.superoptimizer.space import Space
from aiosearch.tensor.programs import builtin

run.REPORT_SECONDS = 0.02

async def main():
    problem = fusion(builtin("rms_norm"), Space(block_operators=8, kernels=4))
    async with Search(problem, workers=2, journal=sys.argv[1], cache=None) as search:
        print("running", flush=True)
        await search.wait()

if __name__ == "__main__":
    asyncio.run(main())
"""


async def run(problem: Fusion, **options: Any) -> Any:
    async with Search(problem, cache=None, **options) as search:
        return await search.wait()


@cache
def said(name: str) -> set[tuple[str, ...]]:
    """The kernel graphs of a program as it is."""
    return _said(builtin(name))


def _said(program: Program) -> set[tuple[str, ...]]:
    problem = fusion(program, SMALL)
    found = leaves(problem)
    speller = Speller(problem)
    graphs = {speller.graph(one) for one in found}
    assert len(graphs) == len(found)
    return graphs


def _declared(*names: str) -> list[Any]:
    return [
        pytest.param(name, program, id=f"{name} of {' '.join(_names(program))}")
        for name in names
        for program in orders(builtin(name))
    ]


def _names(program: Program) -> list[str]:
    return [one.parameter("name") for one in program.inputs]


@pytest.mark.parametrize(("name", "program"), _declared("rms_norm", "gqa", "gated_mlp"))
def test_the_order_in_which_inputs_are_declared_makes_no_difference(
    name: str, program: Program
) -> None:
    """The same kernel graphs, each for as many programs."""
    assert _said(program) == said(name)


@pytest.mark.parametrize(("name", "program"), _declared("lora"))
def test_a_low_rank_adapter_may_be_added_to_the_weights(name: str, program: Program) -> None:
    """X·(W + A·B) is among the answers, as is everything else, in every order of the inputs."""
    problem = fusion(program, SMALL)
    found = leaves(problem)
    tensors = dict(zip(_names(program), problem.tables.inputs, strict=True))
    joint = _sum_of_weights(problem, tensors)
    kernels = {frozenset((kernel.loads, kernel.tensors) for kernel in one.kernels) for one in found}
    added = tuple(sorted(tensors[name] for name in "WAB")), (joint,)
    applied = tuple(sorted((tensors["X"], joint))), tuple(problem.tables.targets)
    assert frozenset((added, applied)) in kernels
    assert {Speller(problem).graph(one) for one in found} == said(name)


def _sum_of_weights(problem: Fusion, tensors: dict[str, int]) -> int:
    forms, classes = problem.tables.forms, problem.tables.classes
    w, a, b = (classes[tensors[name]] for name in "WAB")
    inner = forms.free(a.form) & forms.free(b.form)
    product = forms.sum(forms.multiply(a.form, b.form), inner)
    return classes.index(ValueClass(forms.add(w.form, product), w.axes, Scope.DEVICE, 0, 0))


@pytest.mark.parametrize("workers", [1, 2, 8])
async def test_any_number_of_workers_gives_the_same_answers(workers: int) -> None:
    """The same kernel graphs as in one process, and the same number of nodes."""
    problem = fusion(builtin("rms_norm"), LARGE)
    alone = await run(problem, workers=0)
    result = await run(problem, workers=workers)
    assert result.status is SearchStatus.COMPLETE
    assert set(result.solutions) == set(alone.solutions)
    assert len(result.solutions) == len(alone.solutions)
    assert result.statistics.nodes == alone.statistics.nodes


async def test_a_search_that_is_killed_goes_on_to_the_same_answers(tmp_path: Path) -> None:
    """However far it was, no kernel graph is lost and none is there twice."""
    journal = tmp_path / "j"
    script = tmp_path / "runner.py"
    script.write_text(RUNNER)
    support = Path(__file__).parents[2] / "support"
    path = os.pathsep.join(map(str, [support, *filter(None, sys.path)]))
    process = subprocess.Popen(  # noqa: ASYNC220  # the test has nothing else to do
        [sys.executable, str(script), str(journal)],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    size = journal.stat().st_size
    while process.poll() is None and journal.stat().st_size < size + 5_000:
        pass
    assert process.poll() is None
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    problem = fusion(builtin("rms_norm"), LARGE)
    result = await run(problem, workers=0, journal=journal, resume=True)
    assert result.status is SearchStatus.COMPLETE
    whole = leaves(problem)
    assert len(result.solutions) == len(whole)
    assert set(result.solutions) == set(whole)


@pytest.mark.parametrize("name", ["rms_norm", "gated_mlp", "lora"])
def test_one_kernel_may_do_it_all(name: str) -> None:
    """It loads every input and stores the output, of nine operators at most."""
    problem = fusion(builtin(name), Space(kernels=1))
    (found,) = leaves(problem)
    (kernel,) = found.kernels
    assert kernel.loads == tuple(sorted(problem.tables.inputs))
    assert kernel.tensors == tuple(problem.tables.targets)
    assert kernel.step < 0


def test_attention_may_be_split_along_its_keys() -> None:
    """One kernel stores partial sums of both, another adds them up and divides."""
    problem = fusion(builtin("gqa"), Space(kernels=2))
    label = WHOLE << BITS * problem.tables.reference.labels.index("key")
    split = [
        [kernel.step < 0 for kernel in found.kernels]
        for found in leaves(problem)
        for tensors in [found.kernels[0].tensors]
        if len(tensors) == 2 and all(_pieces(problem, one) & label for one in tensors)
    ]
    assert [True, True] in split


def _pieces(problem: Fusion, tensor: int) -> int:
    return sum(piece for axis in problem.tables.classes[tensor].axes for piece in axis)


def test_attention_may_follow_what_normalises_its_inputs() -> None:
    """Nine operators are one kernel from normalised queries and values to the output."""
    space = Space(
        tile=("exp", "div", "matmul", "rms_norm"), accumulators=("none", "sum"), kernels=3
    )
    problem = fusion(builtin("qk_norm_v"), space)
    tables = problem.tables
    normed = [
        tables.classes.index(ValueClass(value.form, value.axes, Scope.DEVICE, 0, 0))
        for term, value in tables.reference.values.items()
        if term.operator.name == "rms_norm"
    ]
    loads = tuple(sorted((tables.inputs[1], *normed)))
    (after,) = [
        node
        for node in problem.expand(problem.root())
        if [(kernel.loads, kernel.step < 0) for kernel in node.kernels] == [(loads, True)]
    ]
    assert problem.skeletons.count(after.kernels[0]) > 0
    before = [
        [kernel for kernel in node.kernels if kernel not in after.kernels]
        for one in problem.expand(after)
        for node in (problem.expand(one) or [one])
        if not node.needed
    ]
    steps = {tuple(sorted(kernel.step < 0 for kernel in kernels)) for kernels in before}
    assert steps >= {(False, False), (True,)}


def test_a_program_that_cannot_be_computed_in_the_space_has_no_answers() -> None:
    """The tree is its root."""
    problem = fusion(builtin("gqa"), Space(block_operators=2, kernels=1))
    assert leaves(problem) == []


def test_a_kernel_graph_knows_what_it_moves_at_least() -> None:
    """Each tensor that a kernel loads or stores, once for each kernel."""
    problem = fusion(builtin("rms_norm", row=2, feature=8, column=4), SMALL)
    alone = min(leaves(problem), key=lambda found: found.least_bytes)
    assert len(alone.kernels) == 1
    assert alone.least_bytes == 2 * (2 * 8 + 8 * 4 + 2 * 4)


def test_nodes_of_other_tables_are_refused() -> None:
    """Their numbers would mean something else; the message tells the tables of both."""
    problem = fusion(builtin("rms_norm"), SMALL)
    tied = problem.tied()
    assert tied.root() == problem.root()
    assert fusion(builtin("rms_norm"), LARGE).tied().digest == tied.digest
    assert fusion(builtin("gated_mlp"), SMALL).tied().digest != tied.digest
    assert Fusion(problem.program, SMALL, tied.digest).root() == problem.root()
    with pytest.raises(
        OtherTablesError, match=f"tables another.*: here the tables are {tied.digest}"
    ):
        Fusion(problem.program, SMALL, "another").root()


def test_a_problem_is_shown_as_its_program_and_its_limits() -> None:
    """Not as bytes; and what is no program does not keep it from being shown."""
    shown = repr(fusion(builtin("rms_norm"), SMALL))
    assert shown.startswith("Fusion(rms_norm(X f16[16, 4096], W f16[4096, 6144]), 2 kernels")
    assert "no program" in repr(Fusion(b"nothing"))
