"""Machine code held to what its module computes, as closely as its types can say it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any
from unittest import mock

import ml_dtypes
import numpy as np
from testkit.kernels.native_run import KINDS, MACHINES, Array, drawn, run

from aiosearch.codegen.cpu.schedule import Schedule
from aiosearch.codegen.ir import (
    Buffer,
    KernelStage,
    Module,
    Operation,
    ReductionKind,
    Round,
    interpreter,
    walk,
)
from aiosearch.codegen.ir.interpreter import interpret
from aiosearch.codegen.ir.semantics import NUMPY_OPERATIONS
from aiosearch.codegen.native.machine import CpuMachine
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
_OF_WORKING, _OF_STORING = 64, 4
"""How many times as far as with noise a result may be off: functions are approximations, and sums
are added up in any order; but what is stored is rounded, and no more than that."""


def wrong(
    module: Module,
    inputs: Sequence[Array],
    schedules: Mapping[str, Schedule] | None = None,
    machine: CpuMachine | None = None,
) -> str:
    """In which element the machine code is off by more than rounding; nothing, if in none."""
    error = Referee(module, inputs).wrong(run(module, inputs, schedules, machine))
    return f"{error}\n{module}\n{schedules}\n{machine}" if error else ""


def assert_right(
    module: Module,
    inputs: Sequence[Array] | None = None,
    schedules: Mapping[str, Schedule] | None = None,
    machines: Iterable[CpuMachine] = MACHINES.values(),
) -> None:
    """Demands that machine code for each machine computes what the module says."""
    referee = _referee(module) if inputs is None else Referee(module, inputs)
    assert referee.judges, f"nothing can be said of results on these inputs\n{module}"
    for machine in machines:
        error = referee.wrong(run(module, referee.inputs, schedules, machine))
        assert not error, f"{error}\n{module}\n{schedules}\n{machine}"


class Referee:
    """What a module computes from some inputs, and what roundings could make of it."""

    def __init__(self, module: Module, inputs: Sequence[Array]) -> None:
        self.inputs = inputs
        self._module = module
        self._unit = _worked(module)
        self.judges = _whole(module, inputs)
        """Whether results mean anything here; where they do not, none is wrong."""
        self._exact = _exact(module, inputs)

    def wrong(self, found: Sequence[Array]) -> str:
        """In which element outputs are off; nothing, if in none."""
        outputs = zip(self._module.outputs, found, self._exact, strict=True)
        for number, (buffer, ours, exact) in enumerate(outputs if self.judges else ()):
            bad = _off(buffer.dtype, ours, exact, self._unit)
            if bad.any():
                working, storing = ([one[number] for one in noisy] for noisy in self._noisy)
                bad = _off(buffer.dtype, ours, exact, self._unit, working, storing)
            if bad.any():
                place = tuple(map(int, np.argwhere(bad)[0]))
                many = f"{bad.sum()} of {bad.size}"
                return f"{buffer} at {place}: {ours[place]} for {exact[place]}, {many}"
        return ""

    @cached_property
    def _noisy(self) -> tuple[list[list[Array]], list[list[Array]]]:
        """With noise of working, and with that of storing; only where it matters: it takes long."""
        noises = [_Noise(self._module, self._unit, seed) for seed in range(_NOISES)]
        working = [one.of_working(self.inputs) for one in noises]
        narrow = _stores_narrow(self._module, self._unit)
        return working, [one.of_storing(self.inputs) for one in noises] if narrow else []


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


def _worked(module: Module) -> float:
    """How far one rounding goes in the type that is computed in, of the number."""
    stages = [stage for kernel in module.kernels for stage in kernel.stages]
    types = {one.dtype for one in (*module.inputs, *(stage.target for stage in stages))}
    return UNITS[DType.F64 if types <= {DType.F64, DType.I32, DType.BOOL} else DType.F32]


def _stores_narrow(module: Module, unit: float) -> bool:
    """Whether anything on the way to the outputs is rounded further than what is computed."""
    stages = [stage for kernel in module.kernels for stage in kernel.stages]
    types = {one.dtype for one in _read_again(module)}
    types |= {one.dtype for stage in stages for one in walk(stage.value) if isinstance(one, Round)}
    return any(_unit(one) > unit for one in types)


def _read_again(module: Module) -> set[Buffer]:
    """What stages read that others have filled."""
    stages = [stage for kernel in module.kernels for stage in kernel.stages]
    return {load.buffer for stage in stages for load in stage.loads} - set(module.inputs)


def _exact(module: Module, inputs: Sequence[Array]) -> list[Array]:
    wide = [np.asarray(one, np.float64) for one in inputs]
    return [
        np.broadcast_to(one, buffer.shape)
        for buffer, one in zip(module.outputs, interpret(module, wide), strict=True)
    ]


@dataclass(frozen=True)
class _Noise:
    """A module's outputs, with numbers on the way moved by up to two roundings."""

    module: Module
    unit: float
    seed: int

    def of_working(self, inputs: Sequence[Array]) -> list[Array]:
        """All numbers, after each operation; by roundings of what is computed in."""
        moved = self._moving()

        def after(function: Callable[..., Any]) -> Callable[..., Any]:
            return lambda *operands: moved(function(*operands), self.unit)

        def total(value: Any, axis: tuple[int, ...]) -> Array:
            return moved(np.sum(moved(value, self.unit), axis=axis), self.unit)

        noisy = {
            one: after(meaning) for one, meaning in NUMPY_OPERATIONS.items() if one not in _EXACTLY
        }
        given = [moved(one, self.unit) if one.dtype.kind not in "bi" else one for one in inputs]
        with (
            np.errstate(all="ignore"),
            mock.patch.dict(interpreter.NUMPY_OPERATIONS, noisy),
            mock.patch.dict(interpreter._NUMPY_REDUCTIONS, {ReductionKind.SUM: total}),
        ):
            return _exact(self.module, given)

    def of_storing(self, inputs: Sequence[Array]) -> list[Array]:
        """What is rounded to an element type, or stored in one and read again."""
        moved, fill, value = self._moving(), interpreter._fill, interpreter._value
        read = _read_again(self.module)

        def filled(stage: KernelStage, held: dict[str, Array]) -> None:
            fill(stage, held)
            if stage.target in read:
                held[stage.target.name] = moved(held[stage.target.name], _unit(stage.target.dtype))

        def valued(one: Any, *more: Any) -> Array:
            found = value(one, *more)
            return moved(found, _unit(one.dtype)) if isinstance(one, Round) else found

        with (
            np.errstate(all="ignore"),
            mock.patch.object(interpreter, "_fill", filled),
            mock.patch.object(interpreter, "_value", valued),
        ):
            return _exact(self.module, inputs)

    def _moving(self) -> Callable[[Any, float], Array]:
        random = np.random.default_rng(self.seed)

        def moved(value: Any, unit: float) -> Array:
            one = np.asarray(value, np.float64)
            return one * (1 + unit * random.uniform(-2.0, 2.0, one.shape))

        return moved


def _unit(dtype: DType) -> float:
    return UNITS.get(dtype, 0.0)


def _least(dtype: DType) -> float:
    """Below this, numbers of a type are further apart than its roundings say."""
    return float(ml_dtypes.finfo(KINDS[dtype]).tiny) if dtype in UNITS else 0.0  # type: ignore[no-untyped-call]


def _off(
    dtype: DType,
    ours: Array,
    exact: Array,
    unit: float,
    working: Sequence[Array] = (),
    storing: Sequence[Array] = (),
) -> Array:
    """Where a result is none that roundings of the inputs, and some more, could lead to.

    The more noisy outputs there are, the more results are.
    """
    found = np.asarray(ours, np.float64)
    if dtype is DType.I32:
        working, storing = ([np.trunc(one) for one in noisy] for noisy in (working, storing))
    with np.errstate(all="ignore"):
        stored = np.asarray(exact.astype(KINDS[dtype]), np.float64) if dtype in UNITS else exact
        bound = (_unit(dtype) * 2 + _OF_WORKING * unit) * np.abs(exact)
        for times, noisy in ((_OF_WORKING, working), (_OF_STORING, storing)):
            bound += times * np.max([np.abs(one - exact) for one in noisy], axis=0, initial=0)
        bound = np.where(np.isnan(bound), np.inf, bound) + _least(dtype)
        near = np.isfinite(exact) & (np.abs(found - exact) <= bound)
        same = (found == stored) | (np.isnan(found) & np.isnan(exact))
    if dtype is DType.I32:
        same |= ~np.isfinite(exact)
    for one in (*working, *storing):
        same |= np.isnan(one) != np.isnan(exact)
    return np.asarray(~(near | same))
