"""Whole modules: programs drawn at random by schedules drawn at random, and what outputs may be."""

from __future__ import annotations

import os
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from testkit.kernels.error_bounds import assert_right, wrong
from testkit.kernels.native_run import MACHINES, drawn, program, run
from testkit.kernels.random_schedules import drawn_schedules
from testkit.programs.random_programs import ALONG_SHORT_AXES, random_program

from aiosearch.codegen.cpu.emit.kernel import print_module
from aiosearch.codegen.cpu.schedule import Schedule
from aiosearch.codegen.ir import (
    Buffer,
    BufferLoad,
    Constant,
    KernelStage,
    LoopIndex,
    Module,
    TileKernel,
    index,
)
from aiosearch.codegen.lower.lowering import lower
from aiosearch.codegen.native.machine import host
from aiosearch.tensor import DType, Program, apply, tensor

COUNT = int(os.environ.get("AIOSEARCH_RANDOM_PROGRAMS", "36"))
SIZES = (1, 2, 3, 4, 8, 15, 16, 17, 33, 40, 64)


def large(seed: int) -> Program:
    """With axes that fill vectors."""
    return random_program(seed, sizes=SIZES, most=20_000, without=ALONG_SHORT_AXES)


@pytest.mark.parametrize("part", range(6))
def test_random_programs_by_random_schedules(part: int) -> None:
    """Each is right on its machine, in whatever order its schedule has things done."""
    names = list(MACHINES)
    for seed in range(part, COUNT, 6):
        made = random_program(seed) if seed % 2 else large(seed)
        module, machine = lower(made), MACHINES[names[seed % len(names)]]
        ways = drawn_schedules(module, Random(seed), machine)
        error = wrong(module, drawn(module, seed), ways, machine)
        assert not error, error


def test_the_text_is_always_the_same() -> None:
    """Equal modules and schedules give equal texts: object code is found again by them."""
    for seed in range(8):
        module = lower(large(seed))
        texts = {
            print_module(module, drawn_schedules(module, Random(seed), host()), host()).text
            for _ in range(3)
        }
        assert len(texts) == 1


def test_outputs_that_are_inputs_or_come_twice() -> None:
    """Each output is an array of its own."""
    x = tensor("X", DType.F32, (3, 19))
    y = apply("exp", x)
    assert_right(lower(program(x, y, x, y)))


def test_outputs_with_fewer_indices_than_the_blocks() -> None:
    """One block fills them, once, whichever blocks run first."""
    i, j = LoopIndex("i", 9), LoopIndex("j", 21)
    x = Buffer("X", DType.F32, (9, 21))
    all_, some, one = (Buffer(name, DType.F32, x.shape[:rank]) for name, rank in
                       (("all", 2), ("some", 1), ("one", 0)))  # fmt: skip
    both = (index(i), index(j))
    stages = (
        KernelStage(some, (index(i),), BufferLoad(x, (index(i), index(j, 0, 3)))),
        KernelStage(one, (), Constant(2.5)),
        KernelStage(all_, both, BufferLoad(x, both)),
    )
    kernel = TileKernel("blocks", (x,), (all_, some, one), stages)
    module = Module("blocks", (x,), kernel.outputs, (kernel,))
    assert_right(module, schedules={"blocks": Schedule({"i": 2, "j": 5})})


def test_outputs_that_other_blocks_read() -> None:
    """What one block writes for all is computed by each block for itself before it is read."""
    i, j = LoopIndex("i", 9), LoopIndex("j", 21)
    x = Buffer("X", DType.F32, (9, 21))
    first, then = Buffer("first", DType.F32, (9,)), Buffer("then", DType.F32, (9, 21))
    stages = (
        KernelStage(first, (index(i),), BufferLoad(x, (index(i), index(j, 0, 4)))),
        KernelStage(then, (index(i), index(j)), BufferLoad(first, (index(i),))),
    )
    kernel = TileKernel("read", (x,), (first, then), stages)
    module = Module("read", (x,), kernel.outputs, (kernel,))
    assert_right(module, schedules={"read": Schedule({"i": 2, "j": 5})})


def test_neighbours_in_scratch() -> None:
    """A stage that reads another's elements at other places finds all of them."""
    i, j = LoopIndex("i", 18), LoopIndex("j", 5)
    x = Buffer("X", DType.F32, (18, 5))
    t, out = Buffer("t", DType.F32, (18, 5)), Buffer("out", DType.F32, (17, 5))
    k = LoopIndex("k", 17)
    stages = (
        KernelStage(t, (index(i), index(j)), BufferLoad(x, (index(i), index(j)))),
        KernelStage(out, (index(k), index(j)), BufferLoad(t, (index(k, 1, 1), index(j)))),
    )
    kernel = TileKernel("near", (x,), (out,), stages)
    module = Module("near", (x,), (out,), (kernel,))
    assert_right(module, schedules={"near": Schedule({"i": 4, "j": 2, "k": 3})})


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3), (3, 0, 5)])
def test_empty_arrays(shape: tuple[int, ...]) -> None:
    """Nothing is read or written, and what is folded over nothing is as the referee says."""
    x = tensor("X", DType.F32, shape)
    axes = (len(shape) - 1,)
    assert_right(lower(program(apply("exp", x), apply("sum", x, axes=axes))))


def test_scratch_of_three_axes() -> None:
    """Tiles of any rank lie in scratch memory without touching one another."""
    x = tensor("X", DType.F32, (3, 4, 256))
    e = apply("exp", x)
    module = lower(program(e / apply("sum", e, axes=(2,), keep=True)))
    (kernel,) = module.kernels
    names = [one.name for one in kernel.indices if one.size < 5]
    ways = {kernel.name: Schedule(dict.fromkeys(names, 2), staged=("X",))}
    assert_right(module, schedules=ways, machines=[host()])


def test_blocks_in_any_order() -> None:
    """A block's result does not depend on the blocks before it."""
    x, w = tensor("X", DType.F32, (9, 21)), tensor("W", DType.F32, (21, 40))
    module = lower(program(x @ w))
    ways = {"program": Schedule(dict.fromkeys("ij", 4))}
    together, apart = (run(module, drawn(module), own, host())[0] for own in ({}, ways))
    np.testing.assert_allclose(together, apart, rtol=1e-5, atol=1e-5)


def test_a_schedule_that_names_what_is_not_there_changes_nothing() -> None:
    """Tiles of other indices are none, and one as long as its index is the whole of it."""
    module = lower(program(tensor("X", DType.F32, (9, 21)) @ tensor("W", DType.F32, (21, 40))))
    plain, odd = Schedule(), Schedule({"nothing": 4, "i": 9, "k": 50}, "nothing")
    texts = [print_module(module, {"program": one}, host()).text for one in (plain, odd)]
    assert texts[0] == texts[1]
    assert replace(odd, serial="k").tile(module.kernels[0].indices[0]) == 9


def test_behind_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    """Called through XLA, with slices of larger arrays, on its threads, it gives the same."""
    import jax
    import jax.numpy as jnp

    from aiosearch.codegen.native.jax_call import jax_function

    monkeypatch.setattr("aiosearch.measure.worker.expendable._expendable", True)
    module = lower(program(tensor("X", DType.F32, (9, 21)) @ tensor("W", DType.F32, (21, 40))))
    inputs = drawn(module)
    ways = {"program": Schedule(dict.fromkeys("ij", 4))}
    call = jax_function(print_module(module, ways, host()))
    wider = [jnp.pad(one, ((1, 0), (3, 2))) for one in inputs]

    def sliced(x: jax.Array, w: jax.Array) -> jax.Array:
        return call(x[1:, 3:-2], w[1:, 3:-2])[0]

    found = jax.jit(sliced)(*wider)
    np.testing.assert_array_equal(found, run(module, inputs, ways)[0])
