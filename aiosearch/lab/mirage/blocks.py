"""Mirage's search as it was: every program of a thread block, pruned by what z3 says of its terms.

One level of it, with shapes, shared memory and the order of operators as in its first version.
Nothing is joined: programs that compute the same in another tiling, or with other operators, are
all there, and ask the same questions again and again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct

from . import residues
from .abstract_terms import axioms, declarations, is_part
from .block_operators import PIECE, BlockState, tiles_of, written
from .tasks import TASKS, Tiling

if TYPE_CHECKING:
    from ...problem import Obligation

LONGEST = 12
"""The most operators of a program."""


class BlockPrefix(Struct, frozen=True, array_like=True):
    """A tiling, by its number, and the first operators of a program."""

    tiling: int
    """-1 at the root, before it is chosen."""
    code: bytes


class BlockProgram(Struct, frozen=True):
    """A program for a task, in one tiling."""

    task: str
    tiling: Tiling
    text: str


@dataclass(frozen=True)
class Blocks:
    """Enumerates block programs of up to `length` operators for a task.

    A tiling is chosen first, then one operator after the other, none twice; with `ordered` each is
    later than the last in Mirage's order. A prefix lives if its newest result is a part of the
    target, which z3 is asked; of what is no part it says `unknown`, so search with
    `on_unknown="drop"`. A solution computes the target, and is not extended.
    """

    task: str = "rms-norm"
    length: int = 4
    tilings: int = 0
    """How many tilings are tried; 0 for all that fit the memory."""
    ordered: bool = True

    def __post_init__(self) -> None:
        if self.task not in TASKS:
            raise ValueError(f"no task {self.task!r}: there are {', '.join(TASKS)}")
        if not 1 <= self.length <= LONGEST:
            raise ValueError(f"a program has 1 to {LONGEST} operators, not {self.length}")

    def root(self) -> BlockPrefix:
        """The choice of a tiling."""
        return BlockPrefix(-1, b"")

    def expand(self, node: BlockPrefix) -> list[BlockPrefix] | tuple[()]:
        """The tilings, or the prefixes one operator longer than `node`."""
        if node.tiling < 0:
            return [BlockPrefix(number, b"") for number in range(len(self._blocks))]
        # A program that computes the target is not extended: whatever it computed besides would be
        # unread.
        if len(node.code) == PIECE * self.length or self._solves(node):
            return ()
        choices = self._blocks[node.tiling].choices(node.code, self.ordered)
        return [BlockPrefix(node.tiling, node.code + piece) for piece in choices]

    def solutions(self, node: BlockPrefix) -> tuple[BlockProgram, ...]:
        """The program, where its newest result is the target."""
        if not self._solves(node):
            return ()
        text = written(node.code, TASKS[self.task].names)
        return (BlockProgram(self.task, self._tilings[node.tiling], text),)

    def obligation(self, node: BlockPrefix) -> Obligation | None:
        """Asks whether the newest result is a part of the target."""
        if not node.code:
            return None
        newest = self._blocks[node.tiling].tensors(node.code)[-1]
        return is_part(self._declared, newest.term, self.task)

    @cached_property
    def axioms(self) -> Mapping[str, str]:
        """The axioms of parts, by the task's name."""
        task = TASKS[self.task]
        return {self.task: axioms(task.names, task.target)}

    @cached_property
    def _declared(self) -> str:
        return declarations(TASKS[self.task].names)

    def _solves(self, node: BlockPrefix) -> bool:
        """Whether the newest result of `node` is the target, but for a chance of one in 2**60."""
        if not node.code:
            return False
        newest = self._blocks[node.tiling].tensors(node.code)[-1]
        return newest.after and newest.residue == self._goal

    @cached_property
    def _goal(self) -> int:
        return residues.of_term(TASKS[self.task].target)

    @cached_property
    def _tilings(self) -> tuple[Tiling, ...]:
        task = TASKS[self.task]
        fitting = [tiling for tiling in task.tilings() if BlockState(*tiles_of(task, tiling)).fits]
        return tuple(fitting[: self.tilings or None])

    @cached_property
    def _blocks(self) -> tuple[BlockState, ...]:
        task = TASKS[self.task]
        return tuple(BlockState(*tiles_of(task, tiling)) for tiling in self._tilings)
