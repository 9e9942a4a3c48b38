"""Runs emitted sources, whole or in two parts, all of them compiled at once.

That takes a third of the time that they take one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
import numpy as np

from aiosearch.optimizer.array_types import array_types
from aiosearch.optimizer.candidates.generation import CandidateSource
from aiosearch.optimizer.candidates.jax_source import emit, emit_pack, names
from aiosearch.optimizer.candidates.weight_packing import PackedProgram
from aiosearch.tensor import Program

Way: TypeAlias = Callable[[Sequence[Any]], list[Any]]


def drawn(program: Program, seed: int = 0) -> list[jax.Array]:
    """Arrays of the types of its inputs."""
    random = np.random.default_rng(seed)
    return [
        jax.numpy.asarray(random.integers(-8, 9, one.shape) / 4, one.dtype)
        for one in array_types(program)
    ]


def beside(
    program: Program, ways: Sequence[Way], values: Sequence[Any]
) -> tuple[list[Any], list[list[Any]]]:
    """What the program gives, and what every way of computing it gives."""

    def all_of_them(values: Sequence[Any]) -> tuple[list[Any], list[list[Any]]]:
        return _whole(program, values), [way(values) for way in ways]

    return jax.jit(all_of_them)(values)


def _whole(program: Program, values: Sequence[Any]) -> list[Any]:
    return jax.tree.leaves(_call(emit(program), names(program)[0], values))


def parted(packing: PackedProgram, values: Sequence[Any]) -> list[Any]:
    """What the second part gives for what the first one made."""
    given = [values[at] for at in packing.positions]
    others = [one for at, one in enumerate(values) if at not in packing.positions]
    packed = _call(emit_pack(packing.pack), names(packing.pack)[0], given)
    assert isinstance(packed, tuple)
    return jax.tree.leaves(_call(emit(packing.run), names(packing.run)[0], [*others, *packed]))


def contending(contender: CandidateSource, values: Sequence[Any]) -> list[Any]:
    """What a contender gives, with what it makes beforehand."""
    if contender.beforehand is not None:
        positions = contender.beforehand.positions
        given = [values[at] for at in positions]
        packed = _call(contender.source, contender.beforehand.function, given)
        types = [(str(one.dtype), one.shape) for one in packed]
        assert types == [(one.dtype, one.shape) for one in contender.beforehand.types]
        values = [*(one for at, one in enumerate(values) if at not in positions), *packed]
    return jax.tree.leaves(_call(contender.source, contender.function, values))


def _call(source: str, function: str, values: Sequence[Any]) -> Any:
    scope: dict[str, Any] = {}
    exec(source, scope)
    return scope[function](*values)
