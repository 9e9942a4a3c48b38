"""Programs that travel as text, to the processes that compile and time."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from testkit.kernels.llvm_texts import adding, reading, source_of

from aiosearch.codegen.native.carrying import carried_texts
from aiosearch.codegen.native.kernel_program import KernelProgram
from aiosearch.measure import (
    ArrayType,
    Candidate,
    Cause,
    Compiled,
    Failure,
    JaxExecutor,
    Stage,
    Way,
)
from aiosearch.tensor.types import DType
from aiosearch.testing import no_leaks

TYPE = ArrayType("float32", (1000,))
JAX = Candidate("jax", "def function(a, b): return (a + b,)", "function", (TYPE, TYPE))
COMPILED_BY = """
import os


def signed(a, b):
    return (function(a, b)[0] * 0 + os.getpid(),)
"""


def candidate(name: str, native: KernelProgram) -> Candidate:
    inputs = tuple(TYPE for _ in native.inputs)
    return Candidate(name, source_of(native), "function", inputs)


async def compiled(executor: JaxExecutor, candidate: Candidate) -> Compiled:
    found = await executor.compile(candidate)
    assert isinstance(found, Compiled), found
    return found


def test_the_text_gives_the_function(expendable: None) -> None:
    """Whoever runs it has the program as a function, and no line of it is long."""
    text = source_of(adding(DType.F32, 5), "added")
    scope: dict[str, Any] = {}
    exec(text, scope)
    np.testing.assert_array_equal(scope["added"](jnp.ones(5), jnp.arange(5.0))[0], np.arange(1, 6))
    assert max(map(len, text.splitlines())) <= 100


def test_what_was_carried_is_told_as_of_now(expendable: None) -> None:
    """Other threads may carry more while somebody looks through it."""
    before = carried_texts()
    exec(source_of(adding(DType.F32, 7), "added"), {})
    assert len(carried_texts()) == len(before) + 1


async def test_in_an_executor() -> None:
    """A kernel is compiled in one process, loaded in another, and raced against jax's own."""
    async with no_leaks(), JaxExecutor("cpu", compilers=1, ways=(Way.HOT,)) as executor:
        theirs = await compiled(executor, JAX)
        ours = await compiled(executor, candidate("ours", adding(DType.F32, 1000)))
        expected, found = await executor.run(theirs, 3), await executor.run(ours, 3)
        assert not isinstance(expected, Failure)
        assert not isinstance(found, Failure)
        np.testing.assert_array_equal(found[0], expected[0])
        race = await executor.race([theirs, ours], rounds=2)
        assert [lap.failure for lap in race.laps] == [None, None]
        await compiled_once(executor)
        await beside(executor)


async def compiled_once(executor: JaxExecutor) -> None:
    """The device's process loads what another one compiled, and compiles nothing itself."""
    native = adding(DType.F32, 1000)
    source = source_of(native) + COMPILED_BY
    signed = Candidate("signed", source, "signed", (TYPE, TYPE))
    found = await executor.run(await compiled(executor, signed), 3)
    assert not isinstance(found, Failure)
    device, compiler = executor.pids
    assert set(found[0]) == {compiler} != {device}


async def beside(executor: JaxExecutor) -> None:
    """One that reads beside its arrays ends the process that tries it out, and no other."""
    failure = await executor.compile(candidate("beside", reading(1000, 1)))
    assert isinstance(failure, Failure)
    assert (failure.stage, failure.cause) == (Stage.COMPILE, Cause.CRASHED)
    assert "reading was at its first run, with forbidden pages around" in failure.message
