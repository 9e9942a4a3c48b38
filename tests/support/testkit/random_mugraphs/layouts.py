"""Tensors between kernels that lie otherwise: blocks' parts along another axis than they belong."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from aiosearch.tensor import Block, Kernel, Program, ShapeError, Term
from aiosearch.tensor.analysis.substitution import substituted


def relaid(program: Program, random: Random) -> Program:
    """The program with one tensor that only kernels load laid out otherwise, where that fits."""
    terms = list(program.terms())
    users = {
        term: [user for user in terms if term in user.arguments]
        for term in terms
        if term.operator.name == "result" and term not in program.outputs
    }
    chosen = [
        term
        for term, own in users.items()
        if own and all(user.operator.name == "load" for user in own)
    ]
    if not chosen:
        return program
    term = random.choice(chosen)
    try:
        return substituted(program, _turned(program, term, users[term], random))
    except ShapeError:
        return program


def _turned(program: Program, result: Term, loads: list[Term], random: Random) -> dict[Term, Term]:
    """One grid axis stores along another axis, and every load splits that instead."""
    maps = list(result.parameter("kernel").outputs[result.parameter("index")][1])
    stored = [slot for slot, axis in enumerate(maps) if axis is not None]
    free = [axis for axis in range(len(result.shape)) if axis not in maps]
    if not stored or not free:
        return {}
    slot, new = random.choice(stored), random.choice(free)
    old, maps[slot] = maps[slot], new
    changes = restored(program, result, maps)
    return changes | {load: _loaded(load, changes[result], old, new) for load in loads}


def restored(program: Program, result: Term, maps: Sequence[int | None]) -> dict[Term, Term]:
    """What becomes of all results of a kernel when one is stored by another map."""
    kernel: Kernel = result.parameter("kernel")
    outputs = [
        (tile, maps if index == result.parameter("index") else own)
        for index, (tile, own) in enumerate(kernel.outputs)
    ]
    made = Block(kernel.grid, kernel.range).results(*outputs)
    return {
        term: made[term.parameter("index")]
        for term in program.terms()
        if term.operator.name == "result" and term.parameter("kernel") == kernel
    }


def _loaded(load: Term, source: Term, old: int | None, new: int) -> Term:
    """The same tile of the other layout, where what splits the axis is the same number of parts."""
    grid, count = load.parameter("grid"), load.parameter("range")
    maps = [new if axis == old else axis for axis in load.parameter("map")]
    loop: int | None = load.parameter("loop")
    found = Block(grid, count).load(source, maps, new if loop == old else loop)
    if found.shape != load.shape:
        raise ShapeError("the parts are not those that were stored")
    return found
