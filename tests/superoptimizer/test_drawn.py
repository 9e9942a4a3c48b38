"""What the generator of fused programs draws, and what the referee says of it."""

from __future__ import annotations

import itertools
import subprocess
import sys
from functools import cache
from pathlib import Path
from random import Random

import pytest
from drawn import MOST_OPERATORS, NAMES, drawn, equal, legal, small
from testkit.programs.rewrites import REWRITES, Rewrite
from testkit.random_mugraphs.algebraic_moves import moves
from testkit.random_mugraphs.custom_kernels import Lowering
from testkit.random_mugraphs.fusion import fused, kernels, operators
from testkit.random_mugraphs.kernel_schedules import Schedule
from testkit.random_mugraphs.regions import Region
from testkit.random_mugraphs.structure import structure

from aiosearch.tensor import Block, Program, apply, tensor
from aiosearch.tensor.analysis.substitution import substituted
from aiosearch.tensor.files import from_json, to_json
from aiosearch.tensor.programs import builtin

SEARCHED = ("rms_norm", "gated_mlp", "lora", "gqa", "qk_norm", "qk_norm_v", "ntrans", "attention")
COUNT = 60
SUPPORT = Path(__file__).parents[1] / "support"


@cache
def some(name: str) -> list[Program]:
    """The first draws of one seed."""
    return list(itertools.islice(drawn(small(name), seed=1), COUNT))


def kinds(program: Program) -> set[str]:
    """The accumulators that a program uses."""
    own = [term for term in program.terms() if term.operator.name == "accumulate"]
    return {term.parameter("kind") for term in own}


@pytest.mark.parametrize("name", SEARCHED)
def test_every_draw_is_legal(name: str) -> None:
    """Same inputs, outputs of the same shapes, within the limits, and it can be written down."""
    reference = small(name)
    for program in some(name):
        assert program.inputs == reference.inputs
        shapes = [[term.shape for term in one.outputs] for one in (program, reference)]
        assert shapes[0] == shapes[1]
        assert all(len(operators(kernel)) <= MOST_OPERATORS for kernel in kernels(program))
        assert legal(program, reference)
        assert from_json(to_json(program)) == program


@pytest.mark.parametrize("name", SEARCHED)
def test_many_draws_are_right_and_many_are_wrong(name: str) -> None:
    """At least a tenth is either, and most right ones have a structure of their own."""
    reference = small(name)
    right = [program for program in some(name) if equal(reference, program, seed=2)]
    assert COUNT // 10 <= len(right) <= COUNT - COUNT // 10
    assert len({structure(program) for program in right}) > len(right) // 2


def test_a_seed_names_its_draws() -> None:
    """The same at every call, and no program twice."""
    again = list(itertools.islice(drawn(small("lora"), seed=1), COUNT))
    others = list(itertools.islice(drawn(small("lora"), seed=2), COUNT))
    assert [to_json(program) for program in again] == [to_json(one) for one in some("lora")]
    assert again != others
    assert len(set(again)) == COUNT


def test_right_draws_have_everything() -> None:
    """Every accumulator, grids of up to three axes, loops, two outputs, two custom kernels."""
    right = [
        program
        for name in ("rms_norm", "gqa")
        for program in itertools.islice(drawn(small(name), seed=4), 250)
        if kernels(program) and equal(small(name), program, seed=2)
    ]
    own = [kernel for program in right for kernel in kernels(program)]
    used: set[str] = set().union(*map(kinds, right))
    assert used == {"none", "sum", "mean", "rms", "redtox", "max"}
    assert {sum(size != 1 for size in kernel.grid) for kernel in own} == {0, 1, 2, 3}
    assert {kernel.range != 1 for kernel in own} == {False, True}
    assert {len(kernel.outputs) for kernel in own} == {1, 2}
    assert {len(kernels(program)) for program in right} == {1, 2}


def test_keys_over_blocks_are_added_up_by_a_second_kernel() -> None:
    """Blocks and iterations share the keys of attention; what they store is partial."""
    reference = small("gqa")
    q, k, v = reference.inputs
    e = apply("exp", q @ k)
    total = apply("sum", e, axes=(2,), keep=True)
    out = e @ v
    own = Region([e.arguments[0], e, total, out], [out, total])
    (head, *_), (key,) = own.classes((out, None)), own.contracted(out)
    plan = Schedule((2, 2, 1, 3), (head, key, None, key))
    found = []
    for seed in range(10):
        parts = Lowering(own, plan, Random(seed)).changes()
        first = substituted(Program("parts", reference.inputs, (out / total,)), parts)
        both = fused(first, Random(seed), MOST_OPERATORS)
        if both is not None and legal(both, reference):
            found.append(both)
    assert {len(kernels(program)) for program in found} == {2}
    assert all(equal(reference, program, seed=1) for program in found)


@pytest.mark.parametrize("name", NAMES)
def test_a_program_equals_itself(name: str) -> None:
    assert equal(small(name), small(name), seed=1)


@pytest.mark.parametrize("rewrite", REWRITES, ids=lambda rewrite: rewrite.name)
def test_the_referee_knows_what_is_right(rewrite: Rewrite) -> None:
    """What built-in programs may be rewritten to is equal to them."""
    assert equal(*rewrite.pair("f32"), seed=1)


def test_the_referee_knows_what_is_wrong() -> None:
    """A scale too few, and a root of negative numbers."""
    reference = small("rms_norm")
    x, w = reference.inputs
    for wrong in (x @ w, apply("sqrt", x @ w)):
        assert not equal(reference, Program("wrong", (x, w), (wrong,)), seed=1)


def test_equations_are_used_both_ways() -> None:
    """What one side makes of the other is an equal program."""
    x, w, v = (tensor(name, "f32", (6, 6)) for name in "xwv")
    sides = x @ (w + v), x @ w + x @ v
    assert sides[1] in moves(sides[0])
    assert sides[0] in moves(sides[1])


def normalised(grid: tuple[int, ...], column: int, swapped: bool = False) -> Program:
    """The norm before a linear layer in one kernel; grid axes that are one split nothing."""
    x, w = inputs = builtin("rms_norm", "f32", row=4, feature=8, column=8).inputs
    block = Block(grid, 2)
    by = [column if size != 1 else None for size in grid]
    tile = block.load(x, loop=1)
    product = block.accumulate(tile @ block.load(w, by, loop=0))
    one = apply("sqrt", block.accumulate(tile * tile, "mean"))
    both = one * one if not swapped else apply("square", one)
    return Program("n", inputs, block.results((product / (both / one), by)))


def test_a_structure_is_what_sizes_and_orders_leave() -> None:
    """Neither the number of blocks nor the axis of the grid matters; the operators do."""
    assert structure(normalised((2,), 1)) == structure(normalised((1, 4), 1))
    assert structure(normalised((2,), 1)) != structure(normalised((2,), 1, swapped=True))
    assert structure(normalised((1,), 1)) != structure(normalised((2,), 1))


def run(*arguments: str) -> str:
    """What Python says in a process of its own."""
    return subprocess.run(
        [sys.executable, *arguments], cwd=SUPPORT, capture_output=True, text=True, check=True
    ).stdout


def test_the_command_saves_what_is_equal(tmp_path: Path) -> None:
    """A line of JSON for each, and how many there are."""
    saved = tmp_path / "equal.jsonl"
    said = run("drawn.py", "lora", "--count", "20", "--save", str(saved))
    found = [from_json(line) for line in saved.read_bytes().splitlines()]
    assert said.startswith("lora all: 20 drawn ")
    assert f", {len(found)} equal " in said.splitlines()[0]
    assert all(equal(small("lora"), program, seed=2) for program in found)


def test_the_generator_knows_nothing_of_the_search() -> None:
    """What it finds is no echo of what the search looks for."""
    code = "import sys, drawn; print([name for name in sys.modules if 'superoptimizer' in name])"
    assert run("-c", code) == "[]\n"
