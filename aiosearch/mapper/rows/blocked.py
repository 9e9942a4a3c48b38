"""Runs a program by rows: blocks of it in a loop, several runs of blocks at the same time.

A *team* computes a run of rows, block after block, and writes them into its part of each result.
What lies between the program's arguments and results has a block's rows at most, so it stays in a
cache whose size fits it; what is needed whole is computed once before.

On jax 0.10 XLA fuses what a block computes with writing it into the result, and compiles the fused
kernel without vector instructions: 100 sines of 2^20 floats took 0.53 s of CPU in blocks so
compiled and 0.17 s by themselves. A *fence* prevents that: the block is a branch on a condition
that holds, but that XLA cannot know. It is a choice like the size of a block, and measured like it.

Each team is called from a thread. From a single thread, jax 0.10 runs programs with loops on a CPU
one after another, though it gives their results before they are there: two teams of a network of
eight layers took 217 ms so, and 97 ms from two threads.
"""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

import jax
import jax.numpy as jnp
from jax import lax
from msgspec import Struct

from ...capture.jax_types import Leaf
from .choice import rows_of
from .demands import Pulled
from .equations import Known
from .frames import Frame, Whole

Arrays: TypeAlias = list[Leaf]
"""What a program gives: an array for each result."""


class RowSchedule(Struct, frozen=True):
    """How rows are shared out: over how many teams, in blocks of how many rows, fenced or not."""

    teams: int
    block: int
    fence: bool = False

    def runs(self, rows: int) -> list[tuple[int, int]]:
        """The first row of each team and how many it has, whole blocks where that is possible.

        Example: 10 rows for 2 teams in blocks of 3 are rows 0-5 and 6-9.
        """
        blocks = -(-rows // self.block)
        edges = [
            min(rows, blocks * team // self.teams * self.block) for team in range(self.teams + 1)
        ]
        # Whole blocks but for the last: only one team has a remainder to compile.
        edges[-1] = rows
        return [(low, high - low) for low, high in itertools.pairwise(edges) if high > low]


class RowBlocks:
    """A program that is run by rows."""

    def __init__(self, pulled: Pulled) -> None:
        self.pulled = pulled
        self.rows = rows_of(pulled)
        self._frame = Frame(pulled)
        by_rows = {n: rows.axis for n, rows in enumerate(pulled.results) if rows is not None}
        self.by_rows = list(by_rows)
        """Which results come by rows."""
        self.axes = list(by_rows.values())
        """Along which axes."""

    @property
    def hoists(self) -> bool:
        """Whether anything is computed before the first block."""
        return bool(self._frame.hoisted)

    def prepare(self, *inputs: Leaf) -> Whole:
        """Everything that is needed whole, inputs included."""
        return self._frame.prepare(self.named(inputs))

    def hoisted(self, *inputs: Leaf) -> Whole:
        """What is computed before the first block. Without the inputs: what a compiled program
        gives is copied, also where it is what came in."""
        named = self.named(inputs)
        values = self._frame.prepare(named)
        return {number: array for number, array in values.items() if number not in named}

    def named(self, inputs: Sequence[Leaf]) -> Whole:
        """The inputs by the numbers of their values."""
        values = self.pulled.flat.inputs
        return {value.number: array for value, array in zip(values, inputs, strict=True)}

    def block(self, whole: Whole, start: Leaf, rows: int) -> Arrays:
        """So many rows from `start` of every result that comes by rows."""
        results = self._frame.compute(whole, {}, start, rows)
        return [results[position] for position in self.by_rows]

    def run(
        self, whole: Whole, start: Leaf, true: Leaf, count: int, block: int, fence: bool
    ) -> Arrays:
        """`count` rows from `start`, block by block; `true` is what a fence asks."""
        if count <= block:
            return self.block(whole, start, count)
        shapes = jax.eval_shape(lambda: self.block(whole, start, block))
        axes = self.axes
        # Written in place: XLA keeps what a loop carries in one buffer.
        results = [
            jnp.empty(_resized(shape.shape, axis, count), shape.dtype)
            for shape, axis in zip(shapes, axes, strict=True)
        ]

        def write(results: Arrays, parts: Arrays, at: Leaf) -> Arrays:
            return [
                lax.dynamic_update_slice_in_dim(result, part, at, axis)
                for result, part, axis in zip(results, parts, axes, strict=True)
            ]

        def step(number: Leaf, results: Arrays) -> Arrays:
            def compute() -> Arrays:
                return self.block(whole, start + number * block, block)

            def nothing() -> Arrays:
                return [jnp.zeros(shape.shape, shape.dtype) for shape in shapes]

            # The other branch never runs; it exists because a branch needs two.
            parts = lax.cond(true, compute, nothing) if fence else compute()
            return write(results, parts, number * block)

        full = count // block
        results = lax.fori_loop(0, full, step, results)
        # Rows that make no whole block are a block of their own, of another shape.
        if remainder := count - full * block:
            parts = self.block(whole, start + full * block, remainder)
            results = write(results, parts, full * block)
        return results


def _resized(shape: Sequence[int], axis: int, rows: int) -> tuple[int, ...]:
    return (*shape[:axis], rows, *shape[axis + 1 :])


class MemoryUse(Struct, frozen=True):
    """Bytes of a compiled program, as XLA plans them; nothing where it does not say."""

    temporary: int = 0
    arguments: int = 0
    results: int = 0


def memory_of(compiled: jax.stages.Compiled) -> MemoryUse:
    analysis = compiled.memory_analysis()
    if analysis is None:
        return MemoryUse()
    return MemoryUse(
        analysis.temp_size_in_bytes, analysis.argument_size_in_bytes, analysis.output_size_in_bytes
    )


@functools.cache
def team_threads() -> ThreadPoolExecutor:
    """Threads that call teams, for all plans of this process: as many as there are cores."""
    return ThreadPoolExecutor(len(os.sched_getaffinity(0)), thread_name_prefix="team")


# A child that was forked has none of the threads, and would wait for them for ever.
os.register_at_fork(after_in_child=team_threads.cache_clear)


class RowRunner:
    """A program with a schedule, compiled: takes flat inputs, gives flat results."""

    def __init__(self, blocks: RowBlocks, schedule: RowSchedule) -> None:
        self.blocks = blocks
        self.schedule = schedule
        self.runs = schedule.runs(blocks.rows)
        self._hoist = jax.jit(blocks.hoisted)
        self._part = jax.jit(self._run, static_argnums=3)
        self._join = jax.jit(self._joined)
        self._compiled: dict[int, jax.stages.Compiled] = {}
        """A team's program by how many rows it has."""

    def _run(self, whole: Whole, start: Leaf, true: Leaf, count: int) -> Arrays:
        return self.blocks.run(whole, start, true, count, self.schedule.block, self.schedule.fence)

    def _joined(self, parts: list[Arrays]) -> Arrays:
        axes = self.blocks.axes
        return [jnp.concatenate([part[n] for part in parts], axis) for n, axis in enumerate(axes)]

    def prepared(self, inputs: Sequence[Leaf]) -> Whole:
        """Everything that is needed whole: the inputs, and what is computed before the blocks."""
        named = self.blocks.named(inputs)
        return {**named, **self._hoist(*inputs)} if self.blocks.hoists else named

    def part(self, whole: Whole, start: int, count: int) -> Arrays:
        """A team's rows of every result that comes by rows."""
        return list(self._program(whole, count)(whole, start, True))

    def _program(self, whole: Whole, count: int) -> jax.stages.Compiled:
        """A team's program, compiled where it was not yet."""
        if count not in self._compiled:
            self._compiled[count] = self._part.lower(whole, 0, True, count).compile()
        return self._compiled[count]

    def parts(self, whole: Whole) -> list[Arrays]:
        """The rows of every team, at the same time."""
        # Compiled here, as settings of jax are a thread's and those of others may differ.
        for _, count in self.runs:
            self._program(whole, count)

        def compute(run: tuple[int, int]) -> Arrays:
            part = self.part(whole, *run)
            for array in part:
                array.block_until_ready()
            return part

        first, *others = self.runs
        waiting = [team_threads().submit(compute, run) for run in others]
        return [self.part(whole, *first), *(team.result() for team in waiting)]

    def __call__(self, inputs: Sequence[Leaf]) -> Arrays:
        whole = self.prepared(inputs)
        parts = self.parts(whole)
        return self._results(parts[0] if len(parts) == 1 else self._join(parts), whole)

    def traced(self, inputs: Sequence[Leaf]) -> Arrays:
        """The same inside of another program that is being traced: one team, no fence."""
        whole = self.blocks.prepare(*inputs)
        rows = self.blocks.rows
        parts = self.blocks.run(whole, 0, True, rows, self.schedule.block, False)
        return self._results(parts, whole)

    def temporary_bytes(self, inputs: Sequence[Leaf]) -> int:
        """Bytes that all teams together need beside arguments and results, as XLA plans them."""
        whole = jax.eval_shape(self.blocks.prepare, *inputs)
        total = 0
        for start, count in self.runs:
            compiled = self._part.lower(whole, start, True, count).compile()
            total += memory_of(compiled).temporary
        return total

    def _results(self, by_rows: Arrays, whole: Whole) -> Arrays:
        """Puts results that come by rows and results that are computed whole in their order."""
        rows = iter(by_rows)
        pulled = self.blocks.pulled
        results = []
        for atom, demand in zip(pulled.flat.outputs, pulled.results, strict=True):
            if demand is not None:
                results.append(next(rows))
            elif isinstance(atom, Known):
                results.append(jnp.asarray(atom.array))
            else:
                results.append(whole[atom.number])
        return results
