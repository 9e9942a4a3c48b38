"""The benchmarks of models and of other people's functions: what they time, and what they say."""

from __future__ import annotations

import io
import json
from argparse import ArgumentTypeError
from contextlib import redirect_stdout
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from lib.programs import contest, trial
from lib.programs.command import count, summed
from lib.programs.contest import Outcome, child
from lib.programs.formulas import Made, layer_norm
from lib.programs.models import SUBJECTS, TRAINING
from lib.programs.subject import FORMULAS, Rng, Subject, Subjects, subjects
from lib.programs.summary import as_table, resumed, tell, totals
from lib.programs.trial import Measured, Told, objections
from lib.programs.ways import TAIL, Calling, Sample, quantile, summary, timed

SMALL = jnp.ones((4, 4))


def way(ratio: float, noise: float = 0.01) -> dict[str, float]:
    between = {"low": ratio - 0.01, "high": ratio + 0.01, "noise": noise}
    beside = {"p10_over_jit": ratio, "cpu_over_jit": ratio, "jit_us": 100.0}
    return {"over_jit": ratio, **between, **beside}


def outcome(name: str, ratio: float, claimed: float | None, **more: object) -> Outcome:
    told = Told(3.0, claimed=claimed, faster=claimed is not None, programs=1)
    ways = {calling.value: way(ratio) for calling in Calling}
    measured = Measured(told, ways, tuple(more.get("slower", ())), bool(more.get("right", True)))
    return Outcome(name, FORMULAS, told, 5.0, measured)


def test_a_limit_of_no_functions_is_refused() -> None:
    assert count("3") == 3
    for text in ("0", "-1", "some"):
        with pytest.raises(ArgumentTypeError, match="give 1 or more"):
            count(text)


def test_there_are_twelve_models_three_losses_and_sixty_functions_of_others() -> None:
    names = [subject.name for subject in subjects("models")]
    assert len(names) == 15
    assert names[12:] == list(TRAINING)
    assert len(subjects("third-party")) >= 60


@pytest.mark.parametrize(
    "subject",
    [each for each in SUBJECTS.by_name.values() if each.origin == FORMULAS],
    ids=lambda subject: subject.name,
)
def test_a_model_is_traced_and_another_seed_draws_other_arguments(subject: Subject) -> None:
    function, arguments = subject.made()
    results = jax.tree.leaves(jax.eval_shape(function, *arguments))
    assert all(result.dtype == jnp.float32 for result in results)
    _, drawn_anew = subject.made(1)
    ours, theirs = (jax.tree.leaves(each) for each in (arguments, drawn_anew))
    assert [leaf.shape for leaf in ours] == [leaf.shape for leaf in theirs]
    assert any(not np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True))


def test_two_subjects_of_a_name_are_refused() -> None:
    group = Subjects()

    def twice(rng: Rng) -> Made:
        return layer_norm, (SMALL,)

    group.add(FORMULAS)(twice)
    with pytest.raises(ValueError, match="two subjects are called twice"):
        group.add(FORMULAS)(twice)


@pytest.mark.parametrize("calling", list(Calling))
def test_real_calls_are_timed_in_every_way(calling: Calling) -> None:
    small = jax.jit(jnp.sin)
    facts = timed(calling, lambda: small(SMALL), lambda: small(SMALL), seconds=0.0).facts()
    assert facts["low"] <= facts["over_jit"] <= facts["high"]
    assert facts["p90_us"] > 0


def test_tails_and_heads_are_of_calls_and_ratios_of_rounds() -> None:
    """Two late calls of ten move the tail, and neither the head nor the median of the rounds."""
    calm = Sample([1.0] * 10, 1.0)
    late = Sample([1.0] * 8 + [3.0] * 2, 2.0)
    times = summary([(calm, calm, calm)] * 8 + [(calm, late, calm)] * 3)
    assert times.wall.ratio.median == 1.0
    assert times.cpu_ratio == 1.0
    assert times.heads == (1.0, 1.0, 1.0)
    assert quantile([1.0] * 8 + [3.0] * 2, TAIL) == 3.0
    assert quantile([1.0] * 8 + [3.0] * 2, 0.8) == 1.0


def test_results_are_right_that_are_as_near_to_float64_and_wrong_that_are_not() -> None:
    def mean(x: jax.Array) -> jax.Array:
        return jnp.mean(x, axis=-1)

    def made(seed: int) -> Made:
        return mean, (jnp.asarray(np.random.default_rng(seed).normal(size=(8, 64)), jnp.float32),)

    assert not objections(made, lambda x: jnp.sum(x / 64, axis=-1))
    (first, *_) = objections(made, lambda x: jnp.mean(x[:, :-1], axis=-1))
    assert first.startswith("arguments 0: from the original by")
    assert len(objections(made, lambda x: mean(x)[:4])) == len(trial.SEEDS)


def test_results_are_right_that_are_the_truth_where_the_originals_are_not() -> None:
    """A sum of large numbers that cancel is nothing in float32, and 1 in float64."""

    def total(x: jax.Array) -> jax.Array:
        return (x[0] + x[1]) + x[2]

    def made(seed: int) -> Made:
        return total, (jnp.asarray([1.0, 1e9, -1e9], jnp.float32),)

    assert not objections(made, lambda x: x[0] + (x[1] + x[2]))
    assert len(objections(made, lambda x: x[0] + 1)) == len(trial.SEEDS)


def test_sums_say_what_is_faster_slower_wrong_and_claimed_too_high() -> None:
    all_of_them = [
        outcome("gained", 1.5, 1.6),
        outcome("boasted", 1.2, 1.6),
        outcome("lost", 1.4, 1.4, slower=(Calling.IN_FLIGHT.value,)),
        outcome("spoilt", 2.0, 2.0, right=False),
        Outcome("late", FORMULAS, Told(120.0, error="no answer within 120 s"), 90.0, None, ""),
    ]
    sums = {name: (value, more) for name, value, _, more in totals(all_of_them)}
    assert sums["faster beyond noise"][1]["names"] == ["gained", "boasted", "spoilt"]
    assert sums["slower in any way"][1]["names"] == ["lost"]
    assert sums["wrong"][1]["names"] == ["spoilt"]
    assert sums["claims above 1.25 times the measurement"][1]["names"] == ["boasted"]
    assert sums["no answer within the limit"][1]["names"] == ["late"]
    assert sums["geomean over jax.jit"][0] == pytest.approx((1.5 * 1.2 * 1.4 * 2) ** 0.2)
    assert "WRONG" in as_table(all_of_them)


def test_a_place_in_a_library_is_told_from_the_library_on() -> None:
    where = "scan at /home/somebody/.venv/lib/python3.11/site-packages/rlax/base.py:3:1 (returns)"
    told = Told(3.0, left_alone=(where,))
    printed = io.StringIO()
    with redirect_stdout(printed):
        tell("models", Outcome("opaque", FORMULAS, told, 5.0, None))
    line = json.loads(printed.getvalue())
    assert line["left_alone"] == ["scan at rlax/base.py:3:1 (returns)"]


def test_a_run_that_was_cut_is_resumed_from_its_lines(tmp_path: Path) -> None:
    """Half a line, and sums of the earlier run, are passed over."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        tell("models", outcome("gained", 1.5, 1.6))
    path = tmp_path / "earlier.jsonl"
    total = json.dumps({"figure": "models: wrong", "value": 0})
    path.write_text(printed.getvalue() + total + '\n{"figure": "models: lo')
    assert resumed(path, "models") == [outcome("gained", 1.5, 1.6)]


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder with a `lib.programs.trial` that never ends."""
    module = tmp_path / "lib" / "programs" / "trial.py"
    module.parent.mkdir(parents=True)
    module.write_text("import threading\nthreading.Event().wait()\n")
    monkeypatch.setattr(contest, "BENCHMARKS", tmp_path)
    return tmp_path


def test_a_process_that_is_late_is_ended(waiting: Path) -> None:
    why = child("search", (), 0.2, waiting / "out.json", Told)
    assert why == "no answer within 0.2 s"


def test_a_process_that_fails_says_why(tmp_path: Path) -> None:
    why = child("search", ("models",), 60.0, tmp_path / "out.json", Told)
    assert isinstance(why, str)
    assert why.startswith("the process failed")
    assert "ValueError" in why


def test_parts_of_a_group_are_summed_up_apart() -> None:
    outcomes = [outcome("forward", 1.5, 1.5), outcome("loss", 1.0, None)]
    sums = summed("models", outcomes, {"training steps": ("loss",)})
    assert {name: [each.name for each in part] for name, part in sums.items()} == {
        "models": ["forward"],
        "training steps": ["loss"],
    }
