"""How long products take by an instruction for pairs, and by those of f32."""

from __future__ import annotations

import json

import dots
import pytest

from aiosearch.codegen.native.machine import host, masked


@pytest.mark.skipif(not host().bf16_dot, reason="this processor adds no pairs of bf16")
def test_there_are_figures_of_both_and_their_ratio(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(dots, "TURNS", 1000)
    dots.main()
    pairs, single, ratio = map(json.loads, capsys.readouterr().out.splitlines())
    assert ratio["value"] == pytest.approx(single["value"] / pairs["value"], rel=1e-3)
    assert ratio["taken_for_slow"] is host().slow_dots


def test_without_the_instruction_there_is_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(dots, "host", lambda: masked(host(), "avx512bf16"))
    dots.main()
    out, err = capsys.readouterr()
    assert not out
    assert "adds no pairs" in err
