"""What part of each array a program of the grid is handed."""

from __future__ import annotations

import ast

import pytest
from testkit.kernels.native_run import program
from testkit.kernels.pallas_run import agrees

from aiosearch.codegen.ir import Module
from aiosearch.codegen.lower.lowering import lower
from aiosearch.codegen.pallas import Tiling, plans, split, write
from aiosearch.codegen.passes.kernel_fusion import fuse_kernels
from aiosearch.devices import device
from aiosearch.tensor import DType, Program, Term, apply, tensor
from aiosearch.tensor.programs import builtin

Spec = tuple[tuple[int | None, ...], str] | None
"""A block's shape, and its map's result; nothing for a whole array."""


def specs(module: Module, tilings: dict[str, Tiling]) -> list[dict[str, list[Spec]]]:
    """Of each call of a printed module, by the argument's name."""
    found = []
    for one in ast.walk(ast.parse(write(module, tilings))):
        if isinstance(one, ast.Call) and ast.unparse(one.func) == "pl.pallas_call":
            given = {str(each.arg): each.value for each in one.keywords}
            names = [name for name in given if name.endswith("_specs")]
            found.append({name: _listed(given[name]) for name in names})
    return found


def _listed(text: ast.expr) -> list[Spec]:
    assert isinstance(text, ast.List)
    return [_spec(one) for one in text.elts]


def _spec(one: ast.expr) -> Spec:
    assert isinstance(one, ast.Call)
    assert ast.unparse(one.func) == "pl.BlockSpec"
    if not one.args:
        return None
    shape, places = one.args
    assert isinstance(places, ast.Lambda)
    return ast.literal_eval(shape), ast.unparse(places.body)


def f32(name: str, *shape: int) -> Term:
    return tensor(name, DType.F32, shape)


def test_a_product_is_handed_its_rows_and_its_columns() -> None:
    own = program(f32("X", 64, 48) @ f32("W", 48, 96))
    tilings = {"program": Tiling({"i": 16, "j": 32})}
    (found,) = specs(lower(own), tilings)
    assert found == {
        "in_specs": [((16, 48), "(i, 0)"), ((48, 32), "(0, j)")],
        "out_specs": [((16, 32), "(i, j)")],
    }
    agrees(own, tilings)


def test_what_is_one_place_is_no_axis_but_the_last() -> None:
    own = program(f32("X", 3, 16, 32) @ f32("Y", 3, 32, 4))
    tilings = {"program": Tiling({"i": 1, "k": 1})}
    (found,) = specs(lower(own), tilings)
    assert found["in_specs"] == [((None, 16, 32), "(i, 0, 0)"), ((None, 32, 1), "(i, 0, k)")]
    assert found["out_specs"] == [((None, 16, 1), "(i, 0, k)")]
    agrees(own, tilings)


@pytest.mark.parametrize("size", [3, 17, 4095])
def test_tiles_that_leave_something_over_are_masked_places_of_all(size: int) -> None:
    own = program(apply("exp", f32("X", 8, size)) * f32("Y", 8, size))
    tilings = {"program": Tiling({"i": 2, "j": 4})}
    (found,) = specs(lower(own), tilings)
    cut = ((2, size), "(i, 0)")
    assert found == {"in_specs": [cut, cut], "out_specs": [cut]}
    agrees(own, tilings)


@pytest.mark.parametrize("size", [3, 17, 4095])
def test_where_nothing_is_cut_nothing_is_said(size: int) -> None:
    own = program(apply("exp", f32("X", size)))
    assert specs(lower(own), {"program": Tiling({"i": 16})}) == [{}]
    agrees(own, {"program": Tiling({"i": 16})})


def test_what_is_read_at_two_places_is_handed_whole() -> None:
    """A matrix times its own transposition: each program reads two tiles of it."""
    x = f32("X", 32, 16)
    own = program(x @ apply("transpose", x, axes=(1, 0)))
    tilings = {"program": Tiling({"i": 16, "j": 16})}
    (found,) = specs(lower(own), tilings)
    assert found == {"in_specs": [None], "out_specs": [((16, 16), "(i, j)")]}
    agrees(own, tilings)


def test_a_slice_is_handed_whole_and_read_where_it_lies() -> None:
    own = program(apply("exp", apply("slice", f32("X", 48, 16), axis=0, start=16, stop=48)))
    tilings = {"program": Tiling({"i": 16})}
    (found,) = specs(lower(own), tilings)
    assert found == {"in_specs": [None], "out_specs": [((16, 16), "(i, 0)")]}
    agrees(own, tilings)


def test_a_part_of_a_split_fold_is_one_place_of_what_parts_come_to() -> None:
    own = program(f32("X", 32, 64) @ f32("W", 64, 32))
    module = split(lower(own), "program", "k", 2)
    tilings = {"program_parts": Tiling({"k_part": 1, "i": 16}), "program": Tiling({"i": 16})}
    parts, _ = specs(module, tilings)
    assert parts["out_specs"] == [((None, 16, 32), "(k_part, i, 0)")]
    agrees(own, tilings, module)


@pytest.mark.parametrize("name", ["rms_norm", "gated_mlp", "lora", "gqa", "qk_norm", "attention"])
def test_the_best_plans_cut_their_outputs(name: str) -> None:
    """At the sizes that are timed."""
    best: Program = builtin(name, DType.BF16)
    (plan,) = plans(fuse_kernels(lower(best)), device("H200"), 1)
    for found in specs(plan.module, plan.schedules):
        assert all(one is not None for one in found["out_specs"]), name
        assert any(one is not None for one in found["in_specs"]), name
