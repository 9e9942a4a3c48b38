"""Machine code held to what its module computes, as closely as its types can say it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any
from unittest import mock

import ml_dtypes
import numpy as np
from running import KINDS, MACHINES, Array, drawn, run

from aiosearch.codegen.cpu.schedule import Schedule
from aiosearch.codegen.interpreting import interpret
from aiosearch.codegen.ir import Fold, Module, Operation, Round, walk
from aiosearch.codegen.meanings import MEANINGS
from aiosearch.codegen.native.machine import Machine
from aiosearch.tensor import Floats, Program, evaluate
from aiosearch.tensor.types import DType

UNITS = {DType.F64: 2.0**-53, DType.F32: 2.0**-24, DType.F16: 2.0**-11, DType.BF16: 2.0**-8}
"""How far rounding to a type takes a number, of the number."""
_EXACTLY = {
    Operation.MAXIMUM,
    Operation.MINIMUM,
    Operation.NEGATIVE,
    Operation.ABSOLUTE,
    Operation.FLOOR,
    Operation.ROUND,
    Operation.LESS,
    Operation.LESS_EQUAL,
    Operation.EQUAL,
    Operation.NOT_EQUAL,
    Operation.SELECT,
}
"""What no rounding follows."""
_NOISES = 8


def wrong(
    module: Module,
    inputs: Sequence[Array],
    schedules: Mapping[str, Schedule] | None = None,
    machine: Machine | None = None,
) -> str:
    """In which element the machine code is off by more than rounding; nothing, if in none."""
    error = Referee(module, inputs).wrong(run(module, inputs, schedules, machine))
    return f"{error}\n{module}\n{schedules}\n{machine}" if error else ""


def assert_right(
    module: Module,
    inputs: Sequence[Array] | None = None,
    schedules: Mapping[str, Schedule] | None = None,
    machines: Iterable[Machine] = MACHINES.values(),
) -> None:
    """Demands that machine code for each machine computes what the module says."""
    referee = _referee(module) if inputs is None else Referee(module, inputs)
    for machine in machines:
        error = referee.wrong(run(module, referee.inputs, schedules, machine))
        assert not error, f"{error}\n{module}\n{schedules}\n{machine}"


class Referee:
    """What a module computes from some inputs, and what roundings could make of it."""

    def __init__(self, module: Module, inputs: Sequence[Array]) -> None:
        self.inputs = inputs
        self._module = module
        self._unit = worked(module)
        self._judges = _whole(module, inputs)
        self._exact = _exact(module, inputs)

    def wrong(self, found: Sequence[Array]) -> str:
        """In which element outputs are off; nothing, if in none."""
        outputs = zip(self._module.outputs, found, self._exact, strict=True)
        for number, (buffer, ours, exact) in enumerate(outputs if self._judges else ()):
            bad = _off(buffer.dtype, ours, exact, [], self._unit)
            if bad.any():
                noisy = [one[number] for one in self._noisy]
                bad = _off(buffer.dtype, ours, exact, noisy, self._unit)
            if bad.any():
                place = tuple(map(int, np.argwhere(bad)[0]))
                many = f"{bad.sum()} of {bad.size}"
                return f"{buffer} at {place}: {ours[place]} for {exact[place]}, {many}"
        return ""

    @cached_property
    def _noisy(self) -> list[list[Array]]:
        """Asked for only where it matters, as it takes long."""
        return [_noisy(self._module, self.inputs, self._unit, seed) for seed in range(_NOISES)]


@lru_cache(maxsize=1)
def _referee(module: Module) -> Referee:
    """Of drawn inputs; tests run one module by several schedules, one after the other."""
    return Referee(module, drawn(module))


def errors(
    program: Program, module: Module, inputs: Sequence[Array], found: Sequence[Array]
) -> tuple[float, float]:
    """How far some results, and those of the program computed plainly in 32 bits, are off at most.

    In units of the last place of the largest element of an output.
    """
    wanted = _exact(module, inputs)
    kind = np.float64 if any(one.dtype is DType.F64 for one in program.inputs) else np.float32
    with np.errstate(all="ignore"):
        plain = evaluate(program, Floats(kind), [np.asarray(one, kind) for one in inputs])
        pairs = zip(module.outputs, zip(found, plain, strict=True), wanted, strict=True)
        both = [
            [_ulps(buffer.dtype, one, exact) for one in results] for buffer, results, exact in pairs
        ]
    ours, theirs = (max(each) for each in zip(*both, strict=True))
    return ours, theirs


def _ulps(dtype: DType, result: Any, exact: Array) -> float:
    finite = np.isfinite(exact)
    if dtype not in UNITS or not finite.any():
        return 0.0
    stored = np.asarray(np.asarray(result).astype(KINDS[dtype]), np.float64)[finite]
    unit = 2 * UNITS[dtype] * np.abs(exact[finite]).max() + _least(dtype)
    return float(np.nan_to_num(np.abs(stored - exact[finite]) / unit).max())


def _whole(module: Module, inputs: Sequence[Array]) -> bool:
    """Whether what is stored in whole numbers are some: of others, types have no meaning."""
    targets = [stage.target for kernel in module.kernels for stage in kernel.stages]
    whole = tuple(one for one in targets if one.dtype is DType.I32)
    if not whole:
        return True
    with np.errstate(all="ignore"):
        return all(
            (np.isfinite(one) <= (np.trunc(one) == one)).all()
            for one in _exact(replace(module, outputs=whole), inputs)
        )


def worked(module: Module) -> float:
    """How far one rounding goes in the narrowest type that is computed in, of the number."""
    stages = [stage for kernel in module.kernels for stage in kernel.stages]
    types = {load.buffer.dtype for stage in stages for load in stage.loads}
    types |= {one.dtype for stage in stages for one in walk(stage.value) if isinstance(one, Round)}
    narrow = max((UNITS[one] for one in types if one in UNITS), default=UNITS[DType.F32])
    wide = all(one.dtype is DType.F64 for one in module.inputs)
    return narrow if wide else max(narrow, UNITS[DType.F32])


def _exact(module: Module, inputs: Sequence[Array]) -> list[Array]:
    wide = [np.asarray(one, np.float64) for one in inputs]
    return [
        np.broadcast_to(one, buffer.shape)
        for buffer, one in zip(module.outputs, interpret(module, wide), strict=True)
    ]


def _noisy(module: Module, inputs: Sequence[Array], unit: float, seed: int) -> list[Array]:
    """The outputs, with all numbers moved by up to two roundings after each operation."""
    random = np.random.default_rng(seed)

    def moved(value: Any) -> Array:
        one = np.asarray(value, np.float64)
        return one * (1 + unit * random.uniform(-2.0, 2.0, one.shape))

    def after(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *operands: moved(function(*operands))

    def total(value: Any, axis: tuple[int, ...]) -> Array:
        return moved(np.sum(moved(value), axis=axis))

    noisy = {one: after(meaning) for one, meaning in MEANINGS.items() if one not in _EXACTLY}
    with (
        np.errstate(all="ignore"),
        mock.patch.dict("aiosearch.codegen.interpreting.MEANINGS", noisy),
        mock.patch.dict("aiosearch.codegen.interpreting._FOLDS", {Fold.SUM: total}),
    ):
        given = [moved(one) if one.dtype.kind not in "bi" else one for one in inputs]
        return _exact(module, given)


def _least(dtype: DType) -> float:
    """Below this, numbers of a type are further apart than its roundings say."""
    return float(ml_dtypes.finfo(KINDS[dtype]).tiny) if dtype in UNITS else 0.0  # type: ignore[no-untyped-call]


def _off(dtype: DType, ours: Array, exact: Array, noisy: Sequence[Array], unit: float) -> Array:
    """Where a result is none that roundings of the inputs, and some more, could lead to.

    The more `noisy` outputs there are, the more results are.
    """
    found = np.asarray(ours, np.float64)
    if dtype is DType.I32:
        noisy = [np.trunc(one) for one in noisy]
    with np.errstate(all="ignore"):
        stored = np.asarray(exact.astype(KINDS[dtype]), np.float64) if dtype in UNITS else exact
        spread = np.max([np.abs(one - exact) for one in noisy], axis=0, initial=0)
        bound = (UNITS.get(dtype, 0) * 2 + 64 * unit) * np.abs(exact) + 64 * spread
        bound = np.where(np.isnan(bound), np.inf, bound) + _least(dtype)
        near = np.isfinite(exact) & (np.abs(found - exact) <= bound)
        same = (found == stored) | (np.isnan(found) & np.isnan(exact))
    if dtype is DType.I32:
        same |= ~np.isfinite(exact)
    for one in noisy:
        same |= np.isnan(one) != np.isnan(exact)
    return np.asarray(~(near | same))
