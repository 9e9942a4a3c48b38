from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from testkit.superoptimizer.kernel_graphs import fusion, leaves

from aiosearch import Limits
from aiosearch.devices import device
from aiosearch.equivalence import Status
from aiosearch.superoptimizer.algebra.program_reader import UnsearchableError
from aiosearch.superoptimizer.progress import PhaseClock, always_continue
from aiosearch.superoptimizer.space import Space
from aiosearch.superoptimizer.superoptimization import Findings, superoptimize, verified
from aiosearch.tensor import Program, Term, apply, tensor
from aiosearch.tensor.programs import builtin

A100 = device("A100")
SMALL = Space(block_operators=8, kernels=2)


async def found(name: str, **options: Any) -> Findings:
    return await superoptimize(builtin(name), A100, **{"space": SMALL, "top": 3, **options})


@pytest.mark.parametrize("name", ["rms_norm", "gqa"])
async def test_the_best_programs_are_proved(name: str) -> None:
    """They come best first, with their numbers, and nothing that was found is refused."""
    result = await found(name)
    assert result.status == "complete"
    assert result.refused == ()
    assert [answer.verdict.status for answer in result.answers] == [Status.PROVED] * 3
    seconds = [answer.ranked.filling.prediction.seconds for answer in result.answers]
    assert seconds == sorted(seconds)
    for answer in result.answers:
        assert answer.program.inputs == result.reference.inputs
        assert [one.shape for one in answer.program.outputs] == [
            one.shape for one in result.reference.outputs
        ]


async def test_everything_in_the_space_is_counted() -> None:
    """Kernel graphs, the programs that they stand for, what was pruned, and the time it took."""
    result = await found("rms_norm")
    graphs = leaves(fusion(builtin("rms_norm"), SMALL))
    assert result.graphs == len(graphs)
    assert result.programs == sum(one.programs for one in graphs)
    assert result.pruned["no part of the reference"] > 0
    assert set(result.seconds) == {"tables", "search", "ranking", "verification"}
    assert all(count > 0 for count in result.sizes.values())


async def test_workers_find_the_same() -> None:
    """The same answers in the same order."""
    one, two = await found("rms_norm"), await found("rms_norm", workers=2)
    assert (one.graphs, one.programs) == (two.graphs, two.programs)
    assert [answer.program for answer in one.answers] == [answer.program for answer in two.answers]


async def test_a_search_that_a_limit_ended_goes_on(tmp_path: Path) -> None:
    """What it found by then is ranked; with the journal, all of it in the end."""
    journal = tmp_path / "j"
    part = await found("rms_norm", journal=journal, limits=Limits(nodes=20))
    assert part.status == "limit"
    whole = await found("rms_norm", journal=journal, resume=True)
    assert whole.status == "complete"
    assert part.graphs < whole.graphs == (await found("rms_norm")).graphs


async def test_a_space_without_the_program_gives_no_answer() -> None:
    """It is complete, and says so."""
    result = await found("rms_norm", space=Space(block_operators=2, kernels=1))
    assert (result.status, result.graphs, result.answers) == ("complete", 0, ())


async def test_what_cannot_be_searched_is_an_error() -> None:
    """Before anything is searched."""
    x = tensor("X", "f16", (4, 4), ("row", "column"))
    program = Program("part", (x,), (apply("slice", x, axis=0, start=0, stop=2, step=1),))
    with pytest.raises(UnsearchableError, match="part of an axis"):
        await superoptimize(program, A100)


async def test_what_happens_is_told() -> None:
    """How large the tables are, and how much was found."""
    told: list[str] = []
    result = await found("rms_norm", tell=told.append)
    counts = f"{result.graphs:,}", f"{result.programs:,}"
    assert any(f"{result.sizes['classes']:,}" in text for text in told)
    assert any(all(number in text for number in counts) for text in told)


@pytest.mark.parametrize("axes", [(1,), (0,), (0, 1)])
async def test_an_output_may_have_lost_the_axes_that_it_sums_over(axes: tuple[int, ...]) -> None:
    """As sums have in JAX, where nobody asks for them to stay."""
    x = tensor("x", "f32", (8, 12))
    program = Program("total", (x,), (apply("sum", x, axes=axes),))
    result = await superoptimize(program, A100, space=SMALL, top=3)
    assert result.answers
    for answer in result.answers:
        assert answer.program.outputs[0].shape == program.outputs[0].shape
        assert answer.verdict.status is Status.PROVED


async def test_no_index_is_walked_by_the_grid_and_along_an_axis_at_once() -> None:
    """A block of x and one of its transpose are about different rows."""
    x, z = tensor("x", "f32", (4, 6)), tensor("z", "f32", (6, 4))
    squares = apply("sum", apply("square", x), axes=(0, 1), keep=True)
    other = apply("transpose", x, axes=(1, 0)) + z
    result = await superoptimize(Program("both", (x, z), (squares * other,)), A100, top=20)
    assert result.answers
    assert result.refused == ()


async def test_with_a_bound_the_best_is_the_same() -> None:
    """And what was left out is counted."""
    whole = await found("rms_norm", top=1)
    cut = await found("rms_norm", top=3, bound=True)
    assert (whole.cut, cut.status) == (None, "complete")
    assert cut.cut is not None
    assert cut.cut.pruned > 0
    assert cut.graphs < whole.graphs
    best, other = (one.answers[0].ranked.filling.prediction for one in (whole, cut))
    assert best.rank == other.rank
    assert cut.answers[0].verdict.status is Status.PROVED


X = tensor("X", "f32", (8, 16), ("row", "column"))
LARGEST = apply("max", X, axes=(1,), keep=True)


def softmax(shifted: Term) -> Program:
    exps = apply("exp", shifted)
    return Program("softmax", (X,), (exps / apply("sum", exps, axes=(1,), keep=True),))


SAFE, RISKY = softmax(X - LARGEST), softmax(X + LARGEST)
WRONG = Program("softmax", (X,), (apply("exp", X),))


async def test_verdicts_are_on_real_numbers_and_doubts_on_floats() -> None:
    """What overflows is right in real numbers, and is told beside the verdict."""
    found = await verified(SAFE, [SAFE, RISKY, WRONG], False, always_continue, PhaseClock())
    assert [verdict.status.accepted for verdict, _ in found] == [True, True, False]
    assert [bool(doubt) for _, doubt in found] == [False, True, False]


async def test_floats_at_full_size_are_in_the_verdict() -> None:
    """Then what overflows is refused."""
    clock = PhaseClock()
    found = await verified(SAFE, [SAFE, RISKY], True, always_continue, clock)
    assert [verdict.status.accepted for verdict, _ in found] == [True, False]
    assert found[1][0].status is Status.REFUTED
    assert [doubt for _, doubt in found] == ["", ""]
    assert set(clock.seconds) == {"verification", "floats"}


@pytest.mark.parametrize("floats", [False, True])
async def test_it_may_be_left_off(floats: bool) -> None:
    """What was verified until then is there."""
    heard: list[str] = []

    def twice(text: str) -> bool:
        heard.append(text)
        return len(heard) < 3

    found = await verified(SAFE, [SAFE, RISKY, WRONG], floats, twice, PhaseClock())
    assert [verdict.status.accepted for verdict, _ in found] == [True, True]
    assert heard[:3] == [f"verifying {number} of 3" for number in (1, 2, 3)]
