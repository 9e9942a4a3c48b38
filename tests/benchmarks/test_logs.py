"""What a device printed becomes figures."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "benchmarks" / "device"))
from logs import correctness_figures


def test_kernels_that_are_wrong_or_not_written_count_against_their_program() -> None:
    row = {"row": "gqa, bf16, batch 8"}
    lines = [
        {"step": "ready"},
        {**row, "plain": "as it is", "right": True},
        {**row, "right": True, "repeats": True},
        {**row, "right": False, "why": "into poisoned memory: is nan"},
        {"row": "lora, bf16, 1 row", "right": True, "repeats": False},
        {"row": "ntrans, bf16, 1 row", "right": False, "why": "writing: CannotPrint"},
    ]
    figures = [
        (one["figure"].split(", ")[0], one["value"], one["target"], one["rows"], one["same_bits"])
        for one in correctness_figures(lines)
    ]
    assert figures == [
        ("correctness: all programs", 2, 4, 3, 1),
        ("correctness: gqa", 1, 2, 1, 1),
        ("correctness: lora", 1, 1, 1, 0),
        ("correctness: ntrans", 0, 1, 1, 0),
    ]
