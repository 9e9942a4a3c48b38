"""Mirage's search as it was, with kernels: operators on whole matrices, and blocks among them.

As in `blocks`, z3 is asked of every new result whether it is a part of the target.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from . import residues
from .abstract_terms import axioms, declarations, is_part
from .block_operators import PIECE, Tensor, written
from .kernel_operators import (
    BLOCK,
    KERNELS,
    KernelStep,
    TiledBlock,
    cuts,
    results_of,
    steps_over,
    tensors_of,
)
from .tasks import TASKS, MirageTask

if TYPE_CHECKING:
    from ...problem import Obligation

MOST_OPERATORS, MOST_BLOCK_OPERATORS = 8, 16


class Stage(Struct, frozen=True, array_like=True):
    """Kernels that are there, and the block that is being written in `opened`."""

    steps: tuple[KernelStep, ...] = ()
    opened: KernelStep | None = None


class Chain(Struct, frozen=True):
    """A program for a task, one kernel after the other."""

    task: str
    text: str


@dataclass(frozen=True)
class Kernels:
    """Enumerates programs of kernels for a task, of which `kernels` may be blocks.

    Loads and inputs count among the operators, as Mirage counts them. A block reads all matrices
    where there are three, or else the last two. With `ordered`, kernels come in Mirage's order, and
    so do the operators of a block. What is summed is never spread over blocks, so that there are no
    partial sums for another kernel to add. z3 says `unknown` of what is no part of the target, so
    search with `on_unknown="drop"`. A solution computes the target, and is not extended.
    """

    task: str = "rms-norm"
    operators: int = 5
    block_operators: int = 9
    kernels: int = 1
    tilings: int = 0
    """How many tilings of each block are tried; 0 for all that fit the memory."""
    ordered: bool = True

    def __post_init__(self) -> None:
        if self.task not in TASKS:
            raise ValueError(f"no task {self.task!r}: there are {', '.join(TASKS)}")
        inputs = len(TASKS[self.task].inputs)
        for name, most in (
            ("operators", MOST_OPERATORS),
            ("block_operators", MOST_BLOCK_OPERATORS),
        ):
            if not inputs < getattr(self, name) <= most:
                raise ValueError(f"{name} is {inputs + 1} to {most}, not {getattr(self, name)}")
        if self.kernels < 0:
            raise ValueError(f"kernels is 0 or more, not {self.kernels}")

    def root(self) -> Stage:
        """The inputs alone."""
        return Stage()

    def expand(self, node: Stage) -> list[Stage] | tuple[()]:
        """Gives `node` one kernel more, or ends or lengthens the block that is being written."""
        if node.opened is not None:
            return [*self._ended(node, node.opened), *self._longer(node, node.opened)]
        # Mirage counts inputs as operators, so limits here compare with its own.
        if self._solves(node) or len(self._task.inputs) + len(node.steps) >= self.operators:
            return ()
        return [*self._whole(node), *self._begun(node)]

    def solutions(self, node: Stage) -> tuple[Chain, ...]:
        """The program, where its newest result is the target and all else was read."""
        return (Chain(self.task, self._text(node)),) if self._solves(node) else ()

    def obligation(self, node: Stage) -> Obligation | None:
        """Asks whether the newest result is a part of the target; of a block's, when it is new."""
        newest = self._newest(node)
        return None if newest is None else is_part(self._declared, newest.term, self.task)

    @cached_property
    def axioms(self) -> Mapping[str, str]:
        """The axioms of parts, by the task's name."""
        return {self.task: axioms(self._task.names, self._task.target)}

    def _whole(self, node: Stage) -> Iterator[Stage]:
        """Every operator on whole matrices that may come next after `node`."""
        tensors = tensors_of(self.task, node.steps)
        for step in steps_over(len(tensors), self._task.sums):
            if self._may_follow(node, step) and results_of(self.task, step, tensors):
                yield Stage((*node.steps, step))

    def _begun(self, node: Stage) -> Iterator[Stage]:
        """A block in every tiling, without a program yet."""
        if sum(step_before.operator == BLOCK for step_before in node.steps) == self.kernels:
            return
        count = len(tensors_of(self.task, node.steps))
        # As in Mirage's first version: all three tensors, or the last two. Other inputs would be
        # other programs, which it never found.
        step = KernelStep(BLOCK, bytes(range(0 if count == 3 else count - 2, count)))
        if self._may_follow(node, step):
            for number, _ in enumerate(self._cuts(node, step)):
                yield Stage(node.steps, replace(step, tiling=number))

    def _may_follow(self, node: Stage, step: KernelStep) -> bool:
        if self.ordered and node.steps:
            return step.rank > node.steps[-1].rank
        return step not in node.steps

    def _ended(self, node: Stage, opened: KernelStep) -> Iterator[Stage]:
        """The block `opened` as it is, where its program may end so."""
        if opened.code and self._cut(node, opened).results(opened.code):
            yield Stage((*node.steps, opened))

    def _longer(self, node: Stage, opened: KernelStep) -> Iterator[Stage]:
        """The block `opened` with one operator more."""
        if len(opened.inputs) + len(opened.code) // PIECE < self.block_operators:
            block = self._cut(node, opened).block
            for piece in block.choices(opened.code, self.ordered):
                yield Stage(node.steps, replace(opened, code=opened.code + piece))

    def _cuts(self, node: Stage, step: KernelStep) -> tuple[TiledBlock, ...]:
        tensors = tensors_of(self.task, node.steps)
        return cuts(self.task, tuple(tensors[number] for number in step.inputs))[
            : self.tilings or None
        ]

    def _cut(self, node: Stage, step: KernelStep) -> TiledBlock:
        return self._cuts(node, step)[step.tiling]

    def _newest(self, node: Stage) -> Tensor | None:
        """What `node` computed last; None where that was nothing, or was within a block."""
        if node.opened is not None:
            code = node.opened.code
            return self._cut(node, node.opened).block.tensors(code)[-1] if code else None
        # The results of a block were asked about when they were computed in it.
        if not node.steps or node.steps[-1].operator == BLOCK:
            return None
        return tensors_of(self.task, node.steps)[-1]

    def _solves(self, node: Stage) -> bool:
        """Whether the target is there, whole and unread, but for a chance of one in 2**60."""
        if node.opened is not None or not node.steps:
            return False
        tensors = tensors_of(self.task, node.steps)
        read = {number for step in node.steps for number in step.inputs}
        if len(read) != len(tensors) - 1 or len(tensors) - 1 in read:
            return False
        sizes, newest = self._task.sizes, tensors[-1]
        whole = (newest.rows, newest.columns) == (sizes["m"], sizes["n"])
        return whole and newest.residue == self._goal

    def _text(self, node: Stage) -> str:
        """Writes `t1 = matmul X W`, and `t1 = block X W (m 4 n 5 loop 6): b1 = ...`."""
        names, lines = list(self._task.names), []
        for number, step in enumerate(node.steps):
            count = len(tensors_of(self.task, node.steps[: number + 1])) - len(names)
            before = len(names) - len(self._task.names)
            results = [f"t{before + number}" for number in range(1, count + 1)]
            read = [names[number] for number in step.inputs]
            words = self._words(Stage(node.steps[:number]), step, read)
            lines.append(f"{', '.join(results)} = {words}")
            names += results
        return "\n".join(lines)

    def _words(self, before: Stage, step: KernelStep, read: list[str]) -> str:
        if step.operator != BLOCK:
            return f"{KERNELS[step.operator][0]} {' '.join(read)}"
        tiling = " ".join(f"{name} {size}" for name, size in self._cut(before, step).tiling)
        return f"block {' '.join(read)} ({tiling}): {written(step.code, read, 'b')}"

    @property
    def _task(self) -> MirageTask:
        return TASKS[self.task]

    @cached_property
    def _declared(self) -> str:
        return declarations(self._task.names)

    @cached_property
    def _goal(self) -> int:
        return residues.of_term(self._task.target)
