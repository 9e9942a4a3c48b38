"""Tries the lowering's decisions on real arguments, and keeps the fastest that gives the same.

Which values to store, how wide vectors are, how many rows of threads go together: the best answers
differ between machines, so they are measured. All candidates take turns, so that a machine that
slows down slows all; one that leads in only one half of the rounds is taken for noise.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from .compiled.lowering import Choices, compiled, lowered
from .ir.operations import ParallelFunction
from .launches import Dims
from .passes.minimum_cut import Policy

if TYPE_CHECKING:
    from .modules import KernelLaunch

_LANES = (None, 4, 8, 16, 32)
_ROWS = (None, 1, 2, 4)
_BLOCKS = (2, 4, 8)
_GAIN = 0.97
"""What a candidate may take at most, of the time of the decisions that stand."""


def candidates(function: ParallelFunction, grid: Dims, block: Dims, base: Choices) -> list[Choices]:
    """The decisions that give different code, the ones that stand first."""
    collected: dict[str, Choices] = {}
    for policy, lanes, rows in itertools.product(Policy, _LANES, _ROWS):
        choices = replace(base, policy=policy, lanes=lanes, rows=rows)
        if choices == base:
            continue
        collected.setdefault(lowered(function, block, choices).emitted.text, choices)
    for blocks, rows in itertools.product(_BLOCKS, _ROWS):
        choices = replace(base, blocks=blocks, rows=rows)
        if choices.for_grid(grid) == choices:
            collected.setdefault(lowered(function, block, choices).emitted.text, choices)
    local = lowered(function, block, base).emitted.text
    collected.pop(local, None)
    return [base, *collected.values()]


def fastest(launch: KernelLaunch, arguments: Sequence[object], rounds: int) -> Choices:
    """The decisions under which a launch is fastest, among those that change no result.

    The arguments are copied for each candidate, so the caller's arrays stay as they are.
    """
    function, block = launch.function, launch.block
    base: Choices = launch.choices
    held = [(base, _copied(arguments))]
    launch.with_choices(base)(*held[0][1])
    expected = held[0][1]
    for choices in candidates(function, launch.grid, block, base)[1:]:
        copies = _copied(arguments)
        compiled(function, block, choices)
        launch.with_choices(choices)(*copies)
        if _same(copies, expected):
            held.append((choices, copies))
    times = [[0.0] * len(held) for _ in range(rounds)]
    for row in times:
        for place, (choices, copies) in enumerate(held):
            run = launch.with_choices(choices)
            start = time.perf_counter()
            run(*copies)
            row[place] = time.perf_counter() - start
    first, second = (np.min(half, axis=0) for half in (times[::2], times[1::2]))
    best = int(np.argmin(first + second))
    leads = first[best] < _GAIN * first[0] and second[best] < _GAIN * second[0]
    winner: Choices = held[best][0] if leads else base
    return winner


def _copied(arguments: Sequence[object]) -> list[object]:
    return [item.copy() if isinstance(item, np.ndarray) else item for item in arguments]


def _same(left: Sequence[object], right: Sequence[object]) -> bool:
    """Whether arrays hold the same, floats up to the order in which atomics were added."""
    for a, b in zip(left, right, strict=True):
        if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
            continue
        if a.dtype.kind == "f" and not np.allclose(a, b, rtol=1e-5, atol=1e-6, equal_nan=True):
            return False
        if a.dtype.kind != "f" and not np.array_equal(a, b):
            return False
    return True
