"""The benchmark of programs against themselves: what it compares and what it says."""

from __future__ import annotations

import json
import signal

import jax.numpy as jnp
import pytest
from selfjudged import AGREES, compared, late, of_corpus, tell

from aiosearch.capture import capture
from aiosearch.tensor import Program


def program(size: int) -> Program:
    return capture(lambda x: jnp.exp(x) + x, jnp.ones((size, size))).program


def test_every_function_of_the_corpus_has_programs() -> None:
    assert len({name for name, _ in of_corpus()}) > 35


def test_a_program_that_agrees_is_counted_and_one_that_is_late_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = signal.signal(signal.SIGPROF, late)
    try:
        comparisons = [compared("plain", program(4), 60.0), compared("slow", program(2048), 1e-3)]
    finally:
        signal.signal(signal.SIGPROF, before)
    assert [each.outcome == AGREES for each in comparisons] == [True, False]
    tell("these", comparisons)
    first, named, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["value"], first["of"]) == (1, 2)
    assert first["reasons"] == ["slow: it takes longer than it may"]
    assert (named["value"], named["of"]) == (1, 1)
    assert second["unit"] == "CPU s"
