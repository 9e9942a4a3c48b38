"""µgraphs as machine code, against the referee; `benchmarks/kernels_random.py` runs many more."""

from __future__ import annotations

from itertools import islice
from random import Random

import numpy as np
from testkit.kernels.error_bounds import assert_right, errors
from testkit.kernels.lowered import difference
from testkit.kernels.native_run import MACHINES, drawn, run
from testkit.kernels.random_schedules import drawn_schedules, in_a_way
from testkit.random_mugraphs.printable import drawn as drawn_programs
from testkit.random_mugraphs.printable import found

from aiosearch.codegen.lower.lowering import lower
from aiosearch.codegen.native.machine import host
from aiosearch.tensor import Program
from aiosearch.tensor.programs import builtin

COUNT = 15


def check(program: Program, number: int) -> None:
    """One of the ways to lower it, for one of the machines: the referee says what it computes."""
    machine = list(MACHINES.values())[number % len(MACHINES)]
    module = in_a_way(program, number)
    assert not difference(program, number, module)
    inputs = drawn(module, number)
    ways = drawn_schedules(module, Random(number), machine) if number % 2 else None
    assert_right(module, inputs, ways, [machine])


def test_random_mugraphs() -> None:
    """Drawn ones compute what they say, by plain and by drawn schedules."""
    for number, program in enumerate(islice(drawn_programs(), COUNT)):
        check(program, number)


def test_answers_of_a_search() -> None:
    """So do those that the superoptimizer finds."""
    for number, program in enumerate(islice(found(["rms_norm"]), 4)):
        check(program, number)


def test_errors_are_counted_in_units_of_the_last_place() -> None:
    """Of the largest element of an output; what is exact is not off at all."""
    program = builtin("rms_norm", "f32", row=4, feature=24, column=24)
    module = lower(program)
    inputs = drawn(module)
    exact = [np.asarray(one) for one in run(module, inputs, machine=host())]
    ours, theirs = errors(program, module, inputs, exact)
    assert 0 < ours < 8
    assert 0 < theirs < 8
    (off, _) = errors(program, module, inputs, [one * 2 for one in exact])
    assert off > 2**20
