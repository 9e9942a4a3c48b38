from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from aiosearch.lab.mirage.subterm_questions import SubtermQuestions
from aiosearch.lab.mirage.z3_referee import referee
from aiosearch.superoptimizer.derive.derivations import DerivationGraph
from aiosearch.superoptimizer.enumeration.problem import Fusion
from aiosearch.tensor.files import to_json
from aiosearch.tensor.programs import builtin


@cache
def tables() -> DerivationGraph:
    return Fusion(to_json(builtin("rms_norm", row=4, feature=8, column=8))).tables


async def test_z3_agrees_with_most_and_denies_nothing(tmp_path: Path) -> None:
    """Each term is asked about once, however many values it is; a second run asks nothing."""
    cache = tmp_path / "verdicts"
    first = await referee(tables(), cache=cache)
    assert first.agree + first.unknown == len(tables().classes)
    assert first.agree > first.unknown
    assert first.denied == ()
    assert 0 < first.asked <= first.terms < len(tables().classes)
    assert bool(first.unproved) == bool(first.unknown)
    again = await referee(tables(), cache=cache)
    assert (again.agree, again.asked) == (first.agree, 0)


async def test_a_referee_with_other_rules_disagrees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing makes one term a part of another, z3 denies, and that is told."""
    monkeypatch.setattr(SubtermQuestions, "_rules", lambda self: iter(()))
    found = await referee(tables(), cache=None)
    assert found.agree == 0
    assert "X" in found.denied
    assert len(found.denied) == found.terms


async def test_it_ends_when_there_is_enough() -> None:
    told: list[str] = []

    def going(text: str) -> bool:
        told.append(text)
        return len(told) < 3

    found = await referee(tables(), cache=None, going=going)
    assert len(told) == 3
    assert found.agree + found.unknown == len(tables().classes)
