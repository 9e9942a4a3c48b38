"""What is tried for a program, with and without inputs that stay the same."""

from __future__ import annotations

from functools import partial

import msgspec
import numpy as np
import pytest
from testkit.programs.emitted_sources import beside, contending, drawn

from aiosearch.optimizer.candidates.generation import (
    CandidateGenerator,
    CandidateQuestion,
    CandidateSet,
    generate_candidates,
    varied,
)
from aiosearch.optimizer.candidates.schedule_point import SchedulePoint
from aiosearch.optimizer.effort import BUDGETS, Deadline, Effort
from aiosearch.tensor import Program, Term, apply, literal, tensor
from aiosearch.tensor.files import to_json

QUICK = msgspec.structs.replace(BUDGETS[Effort.QUICK], search_seconds=0.3)
X, W = tensor("x", "f32", (8, 64)), tensor("w", "f32", (64, 64))
A, B = tensor("a", "f32", (64, 2)), tensor("b", "f32", (2, 64))
LORA = Program("lora", (X, W, A, B), (X @ W + (X @ A) @ B,))
Q, K = tensor("q", "bf16", (64, 64)), tensor("k", "bf16", (64, 32))
Y = tensor("y", "bf16", (8, 64))
HEADS = Program("heads", (Y, Q, K), (Y @ apply("transpose", Q, axes=(1, 0)), Y @ K))


def held(program: Program, *constant: int) -> CandidateSet:
    question = CandidateQuestion(to_json(program), QUICK, 0, False, constant)
    return generate_candidates(question, lambda text: None)


def sources(found: CandidateSet) -> str:
    return "\n".join(one.source for one in found.contenders if one.beforehand is not None)


def test_without_constant_inputs_nothing_is_made_beforehand() -> None:
    found = held(LORA)
    assert all(one.beforehand is None for one in found.contenders)
    assert len(found.contenders) <= QUICK.contenders


def test_after_the_deadline_there_is_the_original_and_its_best_kernels() -> None:
    told: list[str] = []
    question = CandidateQuestion(to_json(LORA), QUICK, 0, False, (1, 2, 3), threads=1)
    late = CandidateGenerator(question, told.append, Deadline.after(0.0)).contest()
    assert {one.form for one in late.contenders} == {0}
    assert late.contenders[0].how == "as written"
    assert sum(one.kernels for one in late.contenders) == 1
    assert told[0].startswith("a rewritten program: left out, as the seconds of this effort")


def test_each_candidate_is_heard_of_when_it_is_there() -> None:
    """The original before anything is verified, kernels before the last of them is printed."""
    events: list[str] = []
    question = CandidateQuestion(to_json(LORA), QUICK, 0, False, (1, 2, 3), threads=1)
    generator = CandidateGenerator(
        question, lambda text: events.append("told"), hear=lambda one: events.append(one.source)
    )
    contenders = generator.contest().contenders
    assert events[0] == contenders[0].source
    assert {*events} - {"told"} == {one.source for one in contenders}


def test_weights_are_merged_where_a_product_is_spared() -> None:
    found = held(LORA, 1, 2, 3)
    assert "return (w + a @ b,)" in sources(found)
    assert "return x @ packed" in sources(found)
    assert "concatenate([w, a], axis=1)" in sources(found)
    assert found.contenders[0].how == "as written"


def test_weights_are_laid_out_widened_and_put_side_by_side() -> None:
    text = sources(held(HEADS, 1, 2))
    assert "concatenate([q.T, k], axis=1)" in text
    assert ".astype(jnp.float32)" in text
    assert "preferred_element_type" in text


def test_a_norms_gain_goes_into_the_weight_behind_it() -> None:
    gain = tensor("g", "f32", (64,))
    normed = apply("rms_norm", X) * apply("reshape", gain, shape=(1, 64))
    text = sources(held(Program("norm", (X, gain, W), (normed @ W,)), 1, 2))
    assert "w * g[:, None]" in text or "g[:, None] * w" in text


def test_ways_that_make_something_beforehand_take_no_room_from_others() -> None:
    plain, more = held(LORA), held(LORA, 1)
    assert [one for one in more.contenders if one.beforehand is None] == [*plain.contenders]
    assert len({one.how for one in more.contenders}) == len(more.contenders)


@pytest.mark.parametrize(
    ("program", "constant"),
    [(LORA, (1, 2, 3)), (LORA, (2, 3)), (LORA, (0,)), (HEADS, (1, 2)), (HEADS, (2,))],
)
def test_every_contender_computes_what_the_program_does(
    program: Program, constant: tuple[int, ...]
) -> None:
    values = drawn(program)
    near = 1e-4 if _is_single(program.inputs[0]) else 4e-2
    ways = [partial(contending, one) for one in held(program, *constant).contenders]
    wanted, results = beside(program, ways, values)
    for result in results:
        for ours, theirs in zip(result, wanted, strict=True):
            one, other = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
            np.testing.assert_allclose(one, other, rtol=0, atol=near * np.max(np.abs(other)))


def _is_single(term: Term) -> bool:
    return str(term.dtype) == "f32"


def test_kernels_that_several_forms_have_alike_leave_room_for_others() -> None:
    """Beside the first of each form one is enough, as long as there are others."""

    def place(form: int, at: int, seconds: float, module: int = 0) -> SchedulePoint:
        return SchedulePoint(module, ((at,),), (seconds,), form)

    ways = [[place(form, at, 1.0 + at) for at in range(4)] for form in range(3)]
    found = varied(ways, 6)
    assert [(one.form, one.points) for one in found] == [
        *((form, ((0,),)) for form in range(3)),
        *((0, ((at,),)) for at in range(1, 4)),
    ]
    assert len(varied(ways, 9)) == 9
    apart = [[place(0, 0, 1.0), place(0, 0, 1.0, module=1)], [place(1, 0, 1.0)]]
    assert len(set(varied(apart, 3))) == 3


def test_whole_numbers_that_may_find_no_room_are_summed_as_they_are() -> None:
    """As floats they would not begin again below; the rules know no difference."""
    n = tensor("n", "i32", (8, 64))
    floats = apply("cast", n, dtype="f32")
    sums = [apply("sum", one, axes=(1,)) for one in (n, floats)]
    root = apply("sqrt", apply("cast", n * n, dtype="f32"))
    for outputs in ((sums[0], sums[1]), (root,), (apply("cast", n + literal(1), dtype="f32"),)):
        program = Program("wholes", (n,), outputs)
        assert {one.how for one in held(program).contenders} == {"as written"}


@pytest.mark.parametrize("product", [False, True])
def test_no_rewrite_sums_whole_numbers_that_were_summed_as_floats(product: bool) -> None:
    """That is faster, equal in numbers without end, and wrong where there is no room."""
    n, w = tensor("n", "i32", (8, 64)), tensor("w", "i32", (64, 8))
    floats = apply("cast", n, dtype="f32")
    output = apply("sum", floats, axes=(1,))
    if product:
        output = apply("matmul", floats, apply("cast", w, dtype="f32"))
    for one in held(Program("floats", (n, w), (output,))).contenders:
        assert "dtype=jnp.int32" not in one.source
        assert "n @ w" not in one.source


def test_rows_are_tried_in_blocks_where_a_cpu_is_asked_for() -> None:
    x, w = tensor("x", "f32", (65_536, 64)), tensor("w", "f32", (64, 64))
    program = Program("network", (x, w), (apply("tanh", apply("tanh", x @ w) @ w),))
    question = CandidateQuestion(to_json(program), QUICK, 0, False, row_blocks=True)
    blocked = [
        contender
        for contender in generate_candidates(question, lambda text: None).contenders
        if "lax.map" in contender.source
    ]
    assert [contender.how for contender in blocked][:2] == [
        "blocks of 2,048 rows", "blocks of 8,192 rows",
    ]  # fmt: skip
    plain = msgspec.structs.replace(question, row_blocks=False)
    contenders = generate_candidates(plain, lambda text: None).contenders
    assert not any("lax.map" in contender.source for contender in contenders)
