"""Schedules of several kernels, chosen together."""

from __future__ import annotations

import pytest

from aiosearch.codegen.cpu.schedule import Schedule
from aiosearch.codegen.cpu.space.choices import dissimilar_schedules, schedule_space
from aiosearch.codegen.lower.lowering import lower
from aiosearch.codegen.native.machine import host
from aiosearch.codegen.schedule.plans import IllegalPointError, ModulePlans
from aiosearch.tensor.programs import builtin


def plans() -> ModulePlans[Schedule]:
    module = lower(builtin("gated_mlp", "f32", row=4, feature=64, hidden=128))
    spaces = [schedule_space(kernel, host(), 2, []) for kernel in module.kernels]
    assert len(spaces) > 1
    return ModulePlans(module, spaces, 1e-6)


def test_the_first_plan_has_the_best_of_each_kernel() -> None:
    found = plans()
    first, *others = found.first(3, dissimilar_schedules)
    assert all(first.seconds <= one.seconds for one in others)
    assert set(first.schedules) == {kernel.name for kernel in found.module.kernels}


def test_a_plan_is_found_again_by_its_points() -> None:
    found = plans()
    for one in found.first(3, dissimilar_schedules):
        assert found.at(one.points).schedules == one.schedules


def test_beside_a_plan_one_kernel_differs() -> None:
    found = plans()
    (first, *_) = found.first(1, dissimilar_schedules)
    near = list(found.beside(first.points))
    assert near
    for one in near:
        changed = [a != b for a, b in zip(one.points, first.points, strict=True)]
        assert sum(changed) == 1


def test_points_that_are_not_legal_are_said() -> None:
    found = plans()
    with pytest.raises(IllegalPointError, match="no schedule is at"):
        found.at([tuple(len(one.values) - 1 for one in own.parameters) for own in found.spaces])
