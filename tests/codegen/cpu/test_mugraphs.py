"""µgraphs as machine code, against the referee; `benchmarks/kernels_random.py` runs many more."""

from __future__ import annotations

from functools import cache
from random import Random

import numpy as np
import pytest
from drawn_mugraphs import mugraphs
from drawn_ways import drawn_schedules
from refereed import assert_right, errors
from running import MACHINES, drawn, run

from aiosearch.codegen.lowering import lower
from aiosearch.codegen.native.machine import host
from aiosearch.tensor import Program

COUNT = 20


@cache
def programs() -> list[Program]:
    return list(mugraphs(COUNT))


@pytest.mark.parametrize("number", range(COUNT))
def test_random_mugraphs(number: int) -> None:
    """Answers of searches and drawn ones compute what they say, by plain and by drawn schedules."""
    module, machine = lower(programs()[number]), list(MACHINES.values())[number % len(MACHINES)]
    inputs = drawn(module, number)
    ways = drawn_schedules(module, Random(number), machine) if number % 2 else None
    assert_right(module, inputs, ways, [machine])


def test_errors_are_counted_in_units_of_the_last_place() -> None:
    """Of the largest element of an output; what is exact is not off at all."""
    program = programs()[0]
    module = lower(program)
    inputs = drawn(module)
    exact = [np.asarray(one) for one in run(module, inputs, machine=host())]
    ours, theirs = errors(program, module, inputs, exact)
    assert 0 < ours < 8
    assert 0 < theirs < 8
    (off, _) = errors(program, module, inputs, [one * 2 for one in exact])
    assert off > 2**20
