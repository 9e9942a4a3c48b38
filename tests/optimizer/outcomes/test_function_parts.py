"""Reports of three models say which part got faster, and where it is."""

from __future__ import annotations

import re
from typing import Any

import pytest
from answers import answer
from testkit.programs.models import MODELS, ROWS, WIDTH, floats
from testkit.programs.opaque import unread

from aiosearch.optimizer.outcomes.answer import Timings
from aiosearch.optimizer.outcomes.function_parts import OUTSIDE, function_parts
from aiosearch.optimizer.outcomes.report import Found, Report, WholeFunctionResult
from aiosearch.optimizer.outcomes.report_page import report_page
from aiosearch.optimizer.trace.traced import CutFunction, cut

LAYERS = 12


def network(name: str) -> CutFunction:
    """Twelve blocks of a model with a head behind them, cut."""
    block, (_, *weights) = MODELS[name]

    def model(x: Any, layers: Any, head: Any) -> Any:
        for layer in layers:
            x = block(x, *layer)
        return unread(x) @ head

    return cut(model, floats(ROWS, WIDTH), [weights] * LAYERS, floats(WIDTH, WIDTH))


def reported(made: CutFunction) -> Report:
    """What optimize says where every part of the blocks is twice as fast, and the head is not."""
    parts = function_parts(made)
    found = []
    for at, part in enumerate(parts[:-1]):
        faster = part.occurrences == LAYERS
        changes: dict[str, Any] = {"timings": Timings(1e-3, 1e-3, 5e-4 if faster else 1e-3, 1.01)}
        found.append(Found(answer(at, name=part.name, faster=faster, **changes), False))
    used = [outcome for outcome in found if outcome.answer.faster]
    before = LAYERS * 1e-3 * len(used) + 2e-3
    evidence = {"speedup": 1.9, "kept": [outcome.answer.id for outcome in used]}
    whole = answer(
        99, name="model (whole)", evidence=evidence,
        timings=Timings(before, before, before / 1.9, 1.01),
    )  # fmt: skip
    return Report(tuple(found), (), 1.0, WholeFunctionResult(whole, False), parts)


@pytest.mark.parametrize("name", ["gpt2", "flax", "llama"])
def test_a_reader_of_a_models_report_sees_what_got_faster_and_where(name: str) -> None:
    report = reported(network(name))
    blocks = [part for part in report.parts if part.occurrences == LAYERS]
    assert blocks
    for part in blocks:
        assert {place.file.rpartition("/")[2] for place in part.places} == {"models.py"}
        row = next(
            line for line in report.table(160).splitlines() if line.startswith(f"{part.name} ")
        )
        assert re.search(r"models\.py:\d+-\d+ \(.*\) +12 +~\d+% -> ~\d+% +2\.00x, used", row), row
    assert any(f"{name}_block" in str(place) for part in blocks for place in part.places)
    outside = report.parts[-1]
    assert (outside.name, outside.operations) == (OUTSIDE, ("reduce_precision",))
    page = report_page(report)
    assert "1.90x" in page
    assert f"{name}_block)" in page


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_shares_of_the_time_add_up(name: str) -> None:
    report = reported(network(name))
    shares = [report.share(part) for part in report.parts]
    assert sum(share.before or 0.0 for share in shares) == pytest.approx(1.0, abs=0.1)
    assert all((share.after or 0.0) >= 0.0 for share in shares)
