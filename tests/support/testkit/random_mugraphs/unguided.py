"""Kernel graphs that grow at random, with no thought of what they are to compute."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from testkit.random_mugraphs.operators import BINARY, UNARY, Operators, sizes

from aiosearch.tensor import Block, Program, ShapeError, Term, walk

KINDS = ("none", "none", "none", "sum", "mean", "rms", "redtox", "max")

MOST_STEPS = 5
MOST_BLOCKS = 16


@dataclass(frozen=True)
class Slot:
    """A grid axis or the loop: how many parts it makes, mostly of axes of one size."""

    count: int
    size: int


def grown(reference: Program, random: Random, most: int) -> Program | None:
    """A program whose outputs have the reference's shapes and use all inputs, or None."""
    operators = Operators(_names(reference, random), random)
    pool = list(reference.inputs)
    custom = random.choice((0, 1, 1, 1, 1, 2, 2))
    for step in random.sample(range(MOST_STEPS), MOST_STEPS):
        if step < custom:
            pool.extend(_Kernel(pool, operators, random).results(most))
        else:
            pool.extend(operators.more(pool))
    whole = [term for term in pool if set(reference.inputs) <= {*walk([term])}]
    outputs = []
    for output in reference.outputs:
        alike = [term for term in whole if term.shape == output.shape]
        fused = [term for term in alike if any(one.operator.name == "load" for one in walk([term]))]
        if not (fused if custom else alike):
            return None
        outputs.append(random.choice(fused if custom else alike))
    return Program("blind", reference.inputs, tuple(outputs))


def _names(reference: Program, random: Random) -> set[str]:
    """All operators, or mostly those of the reference, so that chance comes nearer to it."""
    if random.random() < 0.3:
        return {*UNARY, *BINARY}
    own = {term.operator.name for term in reference.terms()}
    return own | {*random.sample(UNARY + BINARY, random.randint(0, 2))}


class _Kernel:
    """Grows one block graph over some of the tensors that are there."""

    def __init__(self, pool: Sequence[Term], operators: Operators, random: Random) -> None:
        self._pool, self._operators, self._random = pool, operators, random
        known = sorted({size for term in pool for size in sizes(term) if size > 1})
        slots = [self._slot(random.choice(known)) for _ in range(random.randint(1, 3))]
        if math.prod(slot.count for slot in slots) > MOST_BLOCKS:
            del slots[1:]
        self._loop = self._slot(random.choice(known))
        self._slots = slots
        self._block = Block([slot.count for slot in slots], self._loop.count)

    def _slot(self, size: int) -> Slot:
        return Slot(self._random.choice([n for n in (1, 2, 3, 4) if size % n == 0]), size)

    def results(self, most: int) -> Sequence[Term]:
        """What the kernel stores, if one comes about with a block graph of at most `most`."""
        random = self._random
        count = random.randint(1, min(4, len(self._pool)))
        sources = [self._operators.one_of(self._pool, self._pool) for _ in range(count)]
        loop = [tile for source in sources for tile in self._loads(source)]
        for _ in range(random.randint(0, max(0, most - len(loop)))):
            loop.extend(self._operators.more(loop))
        after = [self._accumulated(tile) for tile in self._ends(loop, random.randint(1, 3))]
        for _ in range(random.randint(0, 3)):
            after.extend(self._operators.more(after))
        stores = [(tile, self._map(tile)) for tile in self._ends(after, random.choice((1, 1, 2)))]
        try:
            made = self._block.results(*stores) if stores else ()
        except ShapeError:
            return ()
        return made if made and len(made[0].parameter("kernel").body) <= most else ()

    def _loads(self, source: Term) -> Iterator[Term]:
        axes = [self._axis(slot, sizes(source)) for slot in self._slots]
        try:
            yield self._block.load(source, axes, self._axis(self._loop, sizes(source)))
        except ShapeError:
            return

    def _axis(self, slot: Slot, own: Sequence[int]) -> int | None:
        """Mostly an axis of the slot's size, if there is one."""
        if slot.count == 1:
            return None
        axes: list[int | None] = [axis for axis, size in enumerate(own) if size == slot.size]
        if self._random.random() < 0.25:
            axes = [None, *range(len(own))]
        return self._random.choice(axes or [None])

    def _accumulated(self, tile: Term) -> Term:
        width = sizes(tile)[-1]
        columns = self._random.choice([n for n in range(1, width + 1) if width % n == 0])
        return self._block.accumulate(tile, self._random.choice(KINDS), columns)

    def _map(self, tile: Term) -> list[int | None]:
        """Mostly puts together what was an axis of the slot's size."""
        axes: list[int | None] = []
        for slot in self._slots:
            whole = [size * slot.count for size in sizes(tile)]
            axis = self._axis(slot, whole)
            free = [own for own in range(len(whole)) if own not in axes]
            if axis is None and slot.count > 1 and free:
                axis = self._random.choice(free)
            axes.append(axis)
        return axes

    def _ends(self, tiles: Sequence[Term], count: int) -> list[Term]:
        """The last that nothing uses."""
        used = {argument for tile in tiles for argument in tile.arguments}
        return [tile for tile in tiles if tile not in used][-count:]
