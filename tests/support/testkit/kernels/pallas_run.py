"""Printed modules, run without a GPU and held to the float64 evaluation of their programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from aiosearch.codegen import ir
from aiosearch.codegen.lower.lowering import lower
from aiosearch.codegen.pallas import Tiling, dialect, write
from aiosearch.tensor import DType, Program, referee

EPSILON = {DType.F32: 2e-6, DType.F16: 2e-3, DType.BF16: 2e-2}
"""How far an output may be off, as a part of the largest element."""

HURRIED = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
"""Compiling takes most of the time of a test."""


def function(module: ir.Module, tilings: Mapping[str, Tiling]) -> Callable[..., Any]:
    """The function of the printed text, which knows nothing but that text."""
    space: dict[str, Any] = {}
    exec(write(module, tilings), space)
    return space[module.name]  # type: ignore[no-any-return]


def drawn(buffers: Sequence[ir.Buffer], seed: int = 0) -> list[NDArray[Any]]:
    random = np.random.default_rng(seed)
    types = (dialect.argument(one.dtype, one.shape).dtype for one in buffers)
    return [
        random.normal(size=one.shape).astype(dtype)
        for one, dtype in zip(buffers, types, strict=True)
    ]


def outputs(module: ir.Module, tilings: Mapping[str, Tiling], given: Sequence[Any]) -> list[Any]:
    """What the module gives in interpret mode; and it lowers for a GPU that is not there."""
    return _called(_ready(module, tilings), given)


def _ready(module: ir.Module, tilings: Mapping[str, Tiling]) -> Callable[..., Any]:
    made = function(module, tilings)
    arguments = [dialect.argument(one.dtype, one.shape) for one in module.inputs]
    assert "triton" in dialect.lowered(made, arguments, "NVIDIA H200", 132).as_text()
    run = jax.jit(lambda *values: made(*values, interpret=True)).lower(*arguments)
    return run.compile(compiler_options=HURRIED)


@lru_cache(maxsize=1)
def _plain(module: ir.Module) -> Callable[..., Any]:
    """Compiled once for all inputs that a test has for it."""
    return _ready(module, {})


def _called(run: Callable[..., Any], given: Sequence[Any]) -> list[Any]:
    found = run(*given)
    return [np.asarray(one, float) for one in (found if isinstance(found, tuple) else (found,))]


def results(module: ir.Module, given: Sequence[Any]) -> list[NDArray[Any]]:
    """What a plain printing gives in interpret mode, in the types of the outputs."""
    arguments = (dialect.argument(one.dtype, one.shape) for one in module.outputs)
    pairs = zip(_called(_plain(module), given), arguments, strict=True)
    return [one.astype(argument.dtype) for one, argument in pairs]


def agrees(
    program: Program,
    tilings: Mapping[str, Tiling] | None = None,
    module: ir.Module | None = None,
) -> None:
    """Asserts that a program's module, or another one that was made of it, gives what it means."""
    module = module or lower(program)
    given = drawn(module.inputs)
    wanted = referee.run(program, [np.asarray(one, float) for one in given])
    for buffer, found, right in zip(
        module.outputs, outputs(module, tilings or {}, given), wanted, strict=True
    ):
        assert found.shape == right.shape
        most = EPSILON[buffer.dtype] * max(1.0, float(np.abs(right).max()))
        np.testing.assert_allclose(found, right, rtol=0, atol=most)
