"""Mistakes on purpose: one operator, operand, map or accumulator of a program is another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from testkit.random_mugraphs.algebraic_moves import plain
from testkit.random_mugraphs.layouts import restored

from aiosearch.tensor import Block, Place, Program, ShapeError, Term, apply
from aiosearch.tensor.analysis.substitution import substituted

CONFUSED = {
    "add": ("sub", "mul"), "sub": ("add", "div"), "mul": ("add", "div"), "div": ("mul", "sub"),
    "exp": ("silu", "square"), "silu": ("gelu", "relu"), "square": ("exp", "sqrt"),
    "sqrt": ("square", "relu"),
}  # fmt: skip
"""What an operator may be mistaken for."""

KINDS = ("none", "sum", "mean", "rms", "max")
"""Accumulators that may stand in each other's place without another shape around them."""

_TRIES = 10


def mistaken(program: Program, random: Random) -> Program:
    """The program with a mistake in one place, or as it was where none of some tries fits.

    Some mistakes do no harm.
    """
    tiles = [term for term in program.terms() if term.place in (Place.LOOP, Place.AFTER)]
    device = [*program.inputs, *plain(program)]
    results = [term for term in program.terms() if term.operator.name == "result"]
    pools = [pool for pool in (tiles, tiles, device, results) if pool]
    for _ in range(_TRIES):
        pool = random.choice(pools)
        try:
            changes = _wrong(program, random.choice(pool), pool, random)
            if _alters(changes):
                return substituted(program, changes)
        except ShapeError:
            continue
    return program


def _alters(changes: Mapping[Term, Term]) -> bool:
    """Whether something changes, and nothing of its shape."""
    return any(new is not old for old, new in changes.items()) and all(
        new.type == old.type for old, new in changes.items()
    )


def _wrong(program: Program, term: Term, pool: Sequence[Term], random: Random) -> dict[Term, Term]:
    name = term.operator.name
    if name == "input":
        return {}
    if name == "result":
        maps = list(term.parameter("kernel").outputs[term.parameter("index")][1])
        return restored(program, term, random.sample(maps, len(maps)))
    if name == "load":
        return {term: _loaded(term, random)}
    if name == "accumulate":
        return {term: _accumulated(term, random)}
    if name in CONFUSED and random.random() < 0.5:
        return {term: apply(random.choice(CONFUSED[name]), *term.arguments)}
    return {term: _rearranged(term, [one for one in pool if not _uses(one, term)], random)}


def _loaded(term: Term, random: Random) -> Term:
    """Another map or loop, where the grid or the loop has parts at all."""
    block = Block(term.parameter("grid"), term.parameter("range"))
    axes = [None, *range(len(term.shape))]
    maps, loop = list(term.parameter("map")), term.parameter("loop")
    slots = [slot for slot, count in enumerate((*block.grid, block.range)) if count != 1]
    slot = random.choice(slots or [3])
    if slot == 3:
        loop = random.choice(axes)
    else:
        other = random.choice(slots)
        maps[slot] = random.choice(axes)
        if other < 3 and random.random() < 0.5:
            maps[slot], maps[other] = term.parameter("map")[other], term.parameter("map")[slot]
    return block.load(term.arguments[0], maps, loop)


def _accumulated(term: Term, random: Random) -> Term:
    block = Block((), term.parameter("range"))
    kinds = [kind for kind in KINDS if kind != term.parameter("kind")]
    return block.accumulate(term.arguments[0], random.choice(kinds))


def _rearranged(term: Term, others: Sequence[Term], random: Random) -> Term:
    """Another operand, or the operands in reverse where that matters."""
    arguments = list(term.arguments)
    if others and (term.operator.commutative or random.random() < 0.7):
        arguments[random.randrange(len(arguments))] = random.choice(others)
    else:
        arguments.reverse()
    return apply(term.operator, *arguments, **dict(term.parameters))


def _uses(term: Term, other: Term) -> bool:
    return term is other or any(_uses(argument, other) for argument in term.arguments)
