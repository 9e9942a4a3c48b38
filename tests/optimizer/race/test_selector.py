"""Which contender wins, on a clock that only the executor moves."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import jax
import msgspec
import numpy as np
import pytest

from aiosearch.equivalence.rounding.machine import in_tensor_float
from aiosearch.measure import (
    Act,
    ArrayType,
    Cause,
    Compiled,
    Lap,
    MockExecutor,
    Race,
    Samples,
    Stage,
    Way,
)
from aiosearch.measure.race import LEAST_ROUNDS
from aiosearch.optimizer.candidates.generation import CandidateSource, Prepacking
from aiosearch.optimizer.candidates.schedule_point import SchedulePoint
from aiosearch.optimizer.effort import BUDGETS, Deadline, Effort
from aiosearch.optimizer.errors import OptimizeError
from aiosearch.optimizer.race.selection import Selection, decoded_guesses, encoded_guesses
from aiosearch.optimizer.race.selector import RANKING_ROUNDS, Selector
from aiosearch.tensor import Program
from aiosearch.tensor.text import parse

PROGRAM = parse("program doubled(x: f32[6]) {\n  a = mul(x, 2)\n  return a\n}\n")
BUDGET = BUDGETS[Effort.QUICK]


def doubled(inputs: Any) -> tuple[Any, ...]:
    return (inputs[0] * np.float32(2),)


def act(milliseconds: float, outputs: Callable[..., Any] = doubled, **options: Any) -> Act:
    return Act(seconds=milliseconds / 1e3, outputs=outputs, **options)


BEFORE = Prepacking((0,), "pack", (ArrayType("float32", (6,)),))


POINT = SchedulePoint(0, (), ())
"""Where a kernel is in its space, which nothing here looks at."""


def contender(how: str, form: int) -> CandidateSource:
    if how.startswith("kernel"):
        return CandidateSource(
            how, form, b"", f"# {how}", "doubled", (f"proved: {how}",), place=POINT
        )
    if how.endswith("beforehand"):
        return CandidateSource(how, form, b"", f"# {how}", "doubled_packed", ("proved",), BEFORE)
    return CandidateSource(
        how, form, b"", f"# {how}", "doubled", (f"proved: {how}",) if form else ()
    )


async def selected(
    acts: dict[str, Act],
    noise: float = 0.01,
    plain: Sequence[str] = (),
    hidden: Sequence[str] = (),
    program: Program = PROGRAM,
    platform: str = "cpu",
) -> tuple[Selection, list[str]]:
    """What is chosen of these, of which the first is the original; and what is told."""
    contenders = [
        contender(how, 0 if number == 0 or how in plain else number)
        for number, how in enumerate(acts)
        if how not in hidden
    ]
    messages: list[str] = []
    async with MockExecutor(acts, noise=noise) as executor:
        executor.platform = platform
        selector = Selector(executor, program, BUDGET, 0, False, messages.append)
        return await selector.select(contenders), messages


class CountingExecutor(MockExecutor):
    """Counts the rounds of each race."""

    def __init__(self, acts: dict[str, Act]) -> None:
        super().__init__(acts)
        self.counted: list[int] = []

    async def race(self, contenders: Sequence[Compiled], **options: Any) -> Race:
        race = await super().race(contenders, **options)
        self.counted.append(race.rounds)
        return race


async def test_where_calls_take_long_the_first_race_has_few_rounds_and_others_enough() -> None:
    acts = {"written": act(1000.0), "fast": act(500.0)}
    acts |= {f"slow {number}": act(1500.0) for number in range(BUDGET.finalists)}
    contenders = [contender(how, number) for number, how in enumerate(acts)]
    async with CountingExecutor(acts) as executor:
        selector = Selector(executor, PROGRAM, BUDGET, 0, False, lambda text: None)
        selection = await selector.select(contenders)
    assert selection.winner.how == "fast"
    first, *later = executor.counted
    assert first == RANKING_ROUNDS
    assert min(later) >= LEAST_ROUNDS


def notes(selection: Selection) -> dict[str, str]:
    return {entrant.how: entrant.note for entrant in selection.tried if entrant.note}


async def test_the_fastest_that_is_right_wins() -> None:
    selection, _ = await selected({"original": act(4), "fast": act(2), "faster": act(1)})
    assert selection.winner.how == "faster"
    assert selection.floats is not None
    assert selection.floats.outcome == "agree"
    assert selection.seconds(selection.winner) == pytest.approx(1e-3, rel=0.05)
    assert selection.speedup(selection.original) == pytest.approx(4, rel=0.05)
    assert [entrant.how for entrant in selection.tried if entrant.won] == ["faster"]
    assert not selection.in_doubt


async def test_one_that_is_wrong_at_the_real_shape_is_refused() -> None:
    """What the device gives counts, whatever was proved of the program."""
    wrong = act(1, lambda inputs: (inputs[0] * np.float32(2.001),))
    selection, messages = await selected({"original": act(4), "right": act(2), "wrong": wrong})
    assert selection.winner.how == "right"
    assert notes(selection)["wrong"].startswith("not as accurate: differ")
    assert any("wrong is not as accurate" in line for line in messages)


async def test_one_that_no_inputs_tell_apart_from_wrong_is_refused() -> None:
    def nowhere(inputs: Any) -> tuple[Any, ...]:
        return (inputs[0] * np.float32(np.nan),)

    selection, messages = await selected({"original": act(4, nowhere), "fast": act(1, nowhere)})
    assert selection.winner.how == "original"
    assert notes(selection)["fast"].startswith("not to be judged, as no inputs tell")
    assert any("1e+02 % of the outputs not finite" in line for line in messages)


async def test_one_that_only_lacks_numbers_runs_again_and_is_watched() -> None:
    """It is as fast, but for inputs on which it gives none: there it is the original."""

    def lacking(inputs: Any) -> tuple[Any, ...]:
        outputs = doubled(inputs)[0].copy()
        outputs[0] = np.inf
        return (outputs,)

    acts = {
        "original": act(4),
        "lacking": act(1, lacking),
        "lacking, overflow guarded": act(1.5),
        "wrong": act(1.2, lambda inputs: (inputs[0],)),
        "other": act(2),
    }
    source = "def doubled(x):\n    return x + x\n"
    contenders = [contender(how, at) for at, how in ((0, "original"), (2, "other"), (3, "wrong"))]
    contenders += [CandidateSource("lacking", 1, b"", source, "doubled", ("proved",))]
    async with MockExecutor(acts) as executor:
        selector = Selector(executor, PROGRAM, BUDGET, 0, False, lambda text: None)
        selection = await selector.select(contenders)
    assert selection.winner.how == "lacking, overflow guarded"
    assert selection.speedup(selection.original) == pytest.approx(4 / 1.5, rel=0.05)
    assert "not finite" in notes(selection)["lacking"]
    assert notes(selection)["wrong"].startswith("not as accurate"), "and does not run again"
    assert len(selection.last.entrants) == 3


async def test_a_kernel_that_overflows_is_watched_before_the_last_race() -> None:
    """Else it would win that race, be refused by the check, and have everything run again."""

    def lacking(inputs: Any) -> tuple[Any, ...]:
        return (np.full_like(inputs[0], np.inf),)

    acts = {
        "original": act(4),
        "kernel lacking": act(1, lacking),
        "kernel lacking, overflow guarded": act(1.5),
        **{f"other {number}": act(3 + number / 10) for number in range(4)},
    }
    source = "def doubled(x):\n    return x + x\n"
    lacks = CandidateSource("kernel lacking", 1, b"", source, "doubled", ("proved",), place=POINT)
    rivals = [contender(f"other {number}", number + 2) for number in range(4)]
    messages: list[str] = []
    async with MockExecutor(acts) as executor:
        selector = Selector(executor, PROGRAM, BUDGET, 0, False, messages.append)
        selection = await selector.select([contender("original", 0), lacks, *rivals])
    assert selection.winner.how == "kernel lacking, overflow guarded"
    assert "not finite" in notes(selection)["kernel lacking"]
    assert [line for line in messages if line.startswith("checking")] == [
        "checking kernel lacking, overflow guarded on the device"
    ]
    assert any(re.search(r"up to \d\.\d+ times as fast in the first", line) for line in messages)


async def test_where_all_finalists_are_wrong_the_next_best_run() -> None:
    """But none that computes the same program as they do, nor one that is slower."""
    wrong = act(1, lambda inputs: (inputs[0] * np.float32(2.001),))
    names = [f"wrong {number}" for number in range(BUDGET.finalists)]
    acts = {**dict.fromkeys(names, wrong), "right": act(2), "alike": act(3), "slow": act(5)}
    acts["spelled"] = act(3.9)
    forms = {how: form for form, how in enumerate(["original", *acts])}
    forms |= {"alike": 1, "spelled": 0}
    messages: list[str] = []
    async with MockExecutor({"original": act(4), **acts}) as executor:
        selector = Selector(executor, PROGRAM, BUDGET, 0, False, messages.append)
        selection = await selector.select([contender(*form) for form in forms.items()])
    assert selection.winner.how == "right"
    assert [entrant.how for entrant in selection.last.entrants] == ["original", "right", "spelled"]
    assert "none of them can be taken: 1 more beside the original" in messages
    assert all(notes(selection)[name].endswith("in the first race") for name in ("slow", "alike"))
    assert all(notes(selection)[name].startswith("not as accurate") for name in names)


async def test_finalists_that_take_long_race_in_one_way_and_the_winner_in_all_ways() -> None:
    """A race of all of them in all ways would take many times its seconds."""
    acts = {"original": act(400), "slow when cold": act(100, cold_seconds=0.8), "right": act(200)}
    acts |= {f"equal {number}": act(400) for number in range(BUDGET.finalists)}
    selection, _ = await selected(acts)
    assert selection.winner.how == "right"
    assert selection.last.race.ways == (Way.HOT,)
    assert Way.COLD in selection.final.race.ways
    assert "slower in some way" in notes(selection)["slow when cold"]

    quick = {name: act(timed.seconds) for name, timed in acts.items()}
    quick["slow when cold"] = act(0.1, cold_seconds=8e-4)
    selection, _ = await selected(quick)
    assert selection.winner.how == "right"
    assert Way.COLD in selection.last.race.ways


async def test_where_a_finalist_only_lost_nobody_else_runs() -> None:
    """Who came behind those that are right would lose as well."""
    wrong = act(1, lambda inputs: (inputs[0] * np.float32(2.001),))
    acts = {"original": act(4), "wrong": wrong}
    acts |= {f"equal {number}": act(4) for number in range(2 * BUDGET.finalists)}
    selection, messages = await selected(acts, noise=0.02)
    assert selection.winner.how == "original"
    assert sum(line.startswith("none of them can be taken") for line in messages) <= 1


@pytest.mark.parametrize("stage", Stage)
@pytest.mark.parametrize("cause", [Cause.HUNG, Cause.CRASHED])
async def test_one_that_hangs_or_crashes_costs_only_itself(stage: Stage, cause: Cause) -> None:
    bad = act(1, fails=(stage, cause))
    selection, _ = await selected({"original": act(4), "bad": bad, "good": act(2)})
    assert selection.winner.how == "good"
    assert notes(selection)["bad"].startswith("bad ")
    assert [entrant.how for entrant in selection.tried] == ["original", "bad", "good"]


async def test_where_nothing_is_faster_the_original_stays() -> None:
    """A gain below 3 % is none."""
    selection, _ = await selected(
        {"original": act(4), "same": act(3.95), "slow": act(8)}, noise=0.001
    )
    assert selection.winner.how == "original"
    assert selection.floats is None
    assert not selection.in_doubt
    assert [entrant.how for entrant in selection.tried if entrant.seconds is not None] == [
        "original",
        "same",
        "slow",
    ]


@pytest.mark.parametrize("stage", Stage)
async def test_an_original_that_does_not_run_is_said(stage: Stage) -> None:
    bad = act(4, fails=(stage, Cause.CRASHED))
    with pytest.raises(OptimizeError, match="the original does not run: original crashed"):
        await selected({"original": bad, "good": act(2)})


@pytest.mark.parametrize(("backend", "advised"), [("gpu", True), ("cpu", False)])
async def test_memory_of_a_gpu_may_be_held_by_the_host(
    backend: str, advised: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    bad = act(4, fails=(Stage.RACE, Cause.MEMORY))
    with pytest.raises(OptimizeError, match="ran out of memory") as raised:
        await selected({"original": bad, "good": act(2)})
    assert ("XLA_PYTHON_CLIENT_PREALLOCATE" in str(raised.value)) is advised


@pytest.mark.parametrize("platform", ["cuda", "cpu"])
async def test_what_a_gpu_rounds_of_a_product_is_no_mistake_there(platform: str) -> None:
    """XLA may have kept the original's operands as they are, and a kernel rounds them to TF32."""
    program = parse(
        "program product(x: f32[4,64], w: f32[64,8]) {\n  a = matmul(x, w)\n  return a\n}\n"
    )

    def exact(inputs: Any) -> tuple[Any, ...]:
        x, w = inputs
        return (x @ w,)

    def in_tf32(inputs: Any) -> tuple[Any, ...]:
        x, w = inputs
        return (in_tensor_float(x) @ in_tensor_float(w),)

    acts = {"original": act(4, exact), "fast": act(2, in_tf32)}
    selection, _ = await selected(acts, program=program, platform=platform)
    assert (selection.winner.how == "fast") is (platform == "cuda"), notes(selection)


async def test_what_noise_hides_is_raced_again_and_left_in_doubt() -> None:
    selection, messages = await selected({"original": act(4), "fast": act(3)}, noise=1.0)
    assert selection.winner.how == "original"
    assert selection.in_doubt
    assert 1 <= sum("racing again" in line for line in messages) <= 2


async def test_after_the_deadline_nothing_but_the_original_is_compiled() -> None:
    acts = {"original": act(4), "fast": act(1)}
    async with MockExecutor(acts) as executor:
        selector = Selector(
            executor, PROGRAM, BUDGET, 0, False, lambda text: None, deadline=Deadline.after(0.0)
        )
        found = await selector.select([contender(how, at) for at, how in enumerate(acts)])
    assert found.winner.how == "original"
    assert notes(found) == {"fast": "not compiled: the seconds of this effort are for races"}


async def test_where_all_is_noise_nothing_is_certain() -> None:
    """Also where the one that is faster seems slower."""
    for seed in range(5):
        acts = {"original": act(4), "fast": act(3)}
        async with MockExecutor(acts, noise=3.0, seed=seed) as executor:
            selector = Selector(executor, PROGRAM, BUDGET, 0, False, lambda text: None)
            selection = await selector.select([contender(how, at) for at, how in enumerate(acts)])
        assert selection.winner.how == "original"
        assert selection.in_doubt


async def test_where_nothing_else_runs_noise_hides_nothing() -> None:
    selection, _ = await selected({"original": act(4)}, noise=3.0)
    assert not selection.in_doubt


class Lucky(MockExecutor):
    """One contender is fast as long as others run beside it."""

    def __init__(self, acts: dict[str, Act], lucky: str, **options: Any) -> None:
        super().__init__(acts, **options)
        self._lucky = lucky
        self.seeds: list[int] = []

    async def race(self, contenders: Sequence[Compiled], **options: Any) -> Race:
        race = await super().race(contenders, **options)
        self.seeds.append(options["seed"])
        if len(contenders) <= 2:
            return race
        halved = {
            way: Samples(tuple(sample / 3 for sample in samples.wall), samples.cpu)
            for way, samples in race.laps[1].samples.items()
        }
        return msgspec.structs.replace(
            race, laps=(race.laps[0], Lap(self._lucky, halved), *race.laps[2:])
        )


async def test_the_winner_has_to_win_again_alone_on_other_inputs() -> None:
    """Of many, one is the fastest by chance; what it is said to gain is from a race of its own."""
    acts = {"original": act(4), "lucky": act(4), "fast": act(2)}
    contenders = [contender(how, number) for number, how in enumerate(acts)]
    messages: list[str] = []
    async with Lucky(acts, "lucky") as executor:
        selector = Selector(executor, PROGRAM, BUDGET, 5, False, messages.append)
        selection = await selector.select(contenders)
    assert selection.winner.how == "fast"
    assert notes(selection)["lucky"].startswith("not confirmed: ")
    assert any(line.startswith("lucky is not confirmed") for line in messages)
    assert [entrant.how for entrant in selection.final.entrants] == ["original", "fast"]
    assert executor.seeds == [5, 6, 6]
    assert selection.speedup(selection.original) == pytest.approx(2, rel=0.05)


class LoudBesideLucky(Lucky):
    """While the lucky one is lucky, the original seems a third faster or slower than itself."""

    async def race(self, contenders: Sequence[Compiled], **options: Any) -> Race:
        race = await super().race(contenders, **options)
        if len(contenders) <= 2:
            return race
        wall = tuple((3e-3, 5e-3)[number % 2] for number in range(race.rounds))
        again = Lap("original", dict.fromkeys(race.ways, Samples(wall, wall)))
        return msgspec.structs.replace(race, again=again)


async def test_what_noise_hid_beside_a_winner_that_is_not_confirmed_runs_alone() -> None:
    """The race was not run again, as something had won it."""
    acts = {"original": act(4), "lucky": act(4), "hidden": act(3.4), "slow": act(8)}
    messages: list[str] = []
    async with LoudBesideLucky(acts, "lucky") as executor:
        selector = Selector(executor, PROGRAM, BUDGET, 0, False, messages.append)
        selection = await selector.select([contender(how, at) for at, how in enumerate(acts)])
    assert notes(selection)["lucky"].startswith("not confirmed: ")
    assert not any("racing again" in line for line in messages)
    assert selection.winner.how == "hidden"
    assert [entrant.how for entrant in selection.last.entrants] == ["original", "hidden"]
    assert not selection.in_doubt


async def test_the_best_plain_jax_is_in_the_race_that_confirms() -> None:
    """Be it a spelling of the original or a program that was rewritten: whatever is verified."""
    acts = {"original": act(4), "kernel": act(1), "spelled": act(3.5), "slow": act(3)}
    selection, _ = await selected(acts, plain=["spelled"])
    assert [entrant.how for entrant in selection.final.entrants] == ["original", "kernel", "slow"]
    selection, _ = await selected({**acts, "rewritten": act(2)}, plain=["spelled"])
    assert [entrant.how for entrant in selection.final.entrants] == [
        "original",
        "kernel",
        "rewritten",
    ]
    assert selection.plain.how == "rewritten"
    assert selection.speedup(selection.plain) == pytest.approx(2, rel=0.05)
    over = selection.ratio(selection.plain)
    assert over.low <= over.median <= over.high


async def test_plain_jax_that_is_wrong_is_nothing_to_be_compared_with() -> None:
    """It is checked where it would keep a kernel from being taken."""
    wrong = act(0.9, lambda inputs: (inputs[0] * np.float32(2.001),))
    selection, _ = await selected({"original": act(4), "kernel": act(1), "rewritten": wrong})
    assert selection.winner.how == "kernel"
    assert notes(selection)["rewritten"].startswith("not as accurate: differ")
    assert selection.plain.how == "original"


class Turning(MockExecutor):
    """Where only three run, the second is slower than the third in most rounds."""

    async def race(self, contenders: Sequence[Compiled], **options: Any) -> Race:
        race = await super().race(contenders, **options)
        if len(contenders) != 3:
            return race
        spelled = race.laps[2].samples
        slower = {
            way: Samples(
                tuple(
                    sample * (1.25 if at % 3 else 1e-3)
                    for at, sample in enumerate(spelled[way].wall)
                ),
                spelled[way].cpu,
            )
            for way in race.ways
        }
        laps = (race.laps[0], Lap(race.laps[1].name, slower), race.laps[2])
        return msgspec.structs.replace(race, laps=laps)


async def test_one_that_is_told_as_slower_than_the_best_spelling_is_refused() -> None:
    """By paired rounds, though it wins against the original; then the best spelling is taken."""
    acts = {"original": act(8), "kernel": act(1), "spelled": act(2), "slow": act(3)}
    contenders = [contender(how, 2 * (how != "spelled")) for how in acts]
    contenders[0] = contender("original", 0)
    messages: list[str] = []
    async with Turning(acts) as executor:
        selector = Selector(executor, PROGRAM, BUDGET, 0, False, messages.append)
        selection = await selector.select(contenders)
    assert selection.winner.how == "spelled"
    assert "0.80 times the best plain JAX, with noise" in notes(selection)["kernel"]
    assert selection.speedup(selection.plain) == 1


async def test_one_that_is_faster_hot_and_slower_cold_is_refused() -> None:
    cold = act(1, cold_seconds=5e-3)
    selection, _ = await selected({"original": act(4), "cold": cold, "fast": act(2)})
    assert selection.winner.how == "fast"
    assert notes(selection)["cold"].startswith("slower in some way: 0.8")
    assert notes(selection)["cold"].endswith("times called on inputs in no cache")


async def test_where_only_what_is_slower_cold_is_faster_hot_there_is_no_doubt() -> None:
    cold = act(1, cold_seconds=8e-3)
    selection, messages = await selected({"original": act(4), "cold": cold})
    assert selection.winner.how == "original"
    assert not selection.in_doubt
    assert not any("racing again" in line for line in messages)


async def test_a_judge_that_fails_costs_only_the_contender() -> None:
    short = act(1, lambda inputs: (inputs[0][:3],))
    selection, messages = await selected({"original": act(4), "short": short, "fast": act(2)})
    assert selection.winner.how == "fast"
    assert notes(selection)["short"].startswith("not judged: it cannot be judged")
    assert any(line.startswith("short is not judged") for line in messages)


async def test_one_with_an_output_that_no_inputs_tell_of_is_refused() -> None:
    """It agrees where the original is finite; the other output might be anything.

    A product of two numbers of one sign is not below 0, which no interval of either says.
    """

    def both(inputs: Any) -> tuple[Any, ...]:
        (x,) = inputs
        with np.errstate(all="ignore"):
            return x * np.float32(2), np.log(-(np.tanh(x) * (x / (np.abs(x) + np.float32(1)))))

    acts = {"original": act(4, both), "fast": act(1, both)}
    program = parse(
        "program both(x: f32[6]) {\n  a = mul(x, 2)\n  b = abs(x)\n  c = add(b, 1)\n"
        "  d = div(x, c)\n  e = tanh(x)\n  f = mul(e, d)\n  g = neg(f)\n  h = log(g)\n"
        "  return a, h\n}\n"
    )
    contenders = [contender(how, number) for number, how in enumerate(acts)]
    async with MockExecutor(acts) as executor:
        selector = Selector(executor, program, BUDGET, 0, False, lambda line: None)
        selection = await selector.select(contenders)
    assert selection.winner.how == "original"
    assert notes(selection)["fast"].startswith(
        "not to be judged, as no inputs tell of output 1: agree"
    )


async def test_the_best_spelling_is_in_the_last_race() -> None:
    """So that an answer is compared with it, however many rewritten ones are faster."""
    acts = {"original": act(8), "spelled": act(6), "slowly spelled": act(7)}
    acts |= {f"kernel {number}": act(1 + number / 10) for number in range(5)}
    selection, _ = await selected(acts, plain=["spelled", "slowly spelled"])
    assert [entrant.how for entrant in selection.last.entrants] == [
        "original", "kernel 0", "kernel 1", "kernel 2", "spelled",
    ]  # fmt: skip
    assert selection.plain.how == "spelled"
    assert notes(selection)["slowly spelled"].endswith("times in the first race")


def beforehand(milliseconds: float, pack: Callable[..., Any], **options: Any) -> dict[str, Act]:
    """A contender that is given what `pack` makes, and that contender's way of making it."""
    run = act(milliseconds, lambda inputs: (inputs[0] + 0,), **options)
    return {"beforehand": run, "beforehand: pack": act(0.1, pack)}


async def test_what_is_made_beforehand_wins_and_the_best_without_it_stays_beside() -> None:
    acts = {"original": act(4), "plain": act(3), "slow": act(8)}
    selection, messages = await selected(acts | beforehand(1, doubled), hidden=["beforehand: pack"])
    assert selection.winner.how == "beforehand"
    assert selection.otherwise.how == "plain"
    assert selection.floats is not None
    assert selection.floats.outcome == "agree"
    assert [line for line in messages if line.startswith("checking")] == [
        "checking beforehand on the device",
        "checking plain on the device",
    ]


async def test_where_nothing_else_is_faster_the_original_stays_beside() -> None:
    acts = {"original": act(4), **beforehand(1, doubled)}
    selection, _ = await selected(acts, hidden=["beforehand: pack"], plain=["beforehand"])
    assert selection.otherwise.how == "original"
    assert selection.plain.how == "original"


async def test_what_is_made_wrong_beforehand_is_refused() -> None:
    wrong = beforehand(1, lambda inputs: (inputs[0] * np.float32(2.001),))
    selection, _ = await selected(
        {"original": act(4), "plain": act(2), **wrong}, hidden=["beforehand: pack"]
    )
    assert selection.winner is selection.otherwise
    assert selection.winner.how == "plain"
    assert notes(selection)["beforehand"].startswith("not as accurate: differ")


@pytest.mark.parametrize("stage", [Stage.COMPILE, Stage.RUN])
async def test_what_cannot_be_made_beforehand_costs_only_itself(stage: Stage) -> None:
    acts = {"original": act(4), **beforehand(1, doubled)}
    acts["beforehand: pack"] = act(0.1, fails=(stage, Cause.CRASHED))
    selection, _ = await selected(acts, hidden=["beforehand: pack"])
    assert selection.winner.how == "original"
    assert notes(selection)["beforehand"].startswith("beforehand: pack crashed")


async def test_one_that_makes_nothing_beforehand_is_in_the_last_race() -> None:
    acts = {"original": act(8), "plain": act(6)}
    for number in range(5):
        pair = beforehand(1 + number / 10, doubled)
        acts |= {f"{number} {name}": behaviour for name, behaviour in pair.items()}
    selection, _ = await selected(acts, hidden=[name for name in acts if name.endswith("pack")])
    assert selection.otherwise.how == "plain"
    assert {entrant.how for entrant in selection.last.entrants} >= {"original", "plain"}


async def test_what_noise_hides_is_kept_as_a_guess() -> None:
    """In full: it is raced again the next time, where a search would take a minute."""
    acts = {"original": act(4), "hidden": act(3.6), "slow": act(8)}
    selection, _ = await selected(acts, noise=0.5)
    assert selection.winner.how == "original"
    assert selection.in_doubt
    assert "hidden" in [guess.how for guess in selection.guesses]
    restored = decoded_guesses(encoded_guesses(selection.original, selection.guesses))
    assert restored == (selection.original, *selection.guesses)
