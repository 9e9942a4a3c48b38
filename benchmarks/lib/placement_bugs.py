"""Programs that run by rows with a bug in them, and whether the mapper's comparison notices.

A bug is drawn from what goes wrong when programs are distributed by hand:

- *shift*: an operand's rows are those of a neighbour;
- *axis*: rows are cut along another axis that is as long;
- *local*: what needs all rows, as a mean over the batch, is computed of a block (a norm over a
  sharded dimension, a missing all-reduce);
- *swapped*: two blocks change places; *missing*: one is not written; *stale*: one is another's;
- *edge*: the last rows, that make no whole block, are those of the block before.

Some change nothing, as a shift of rows that are all the same; those are told by results that agree
on every draw, and not counted.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from aiosearch.mapper.rows.choice import choose_rows, rows_of
from aiosearch.mapper.rows.demands import Pulled
from aiosearch.mapper.rows.equations import Flat, trace
from aiosearch.mapper.rows.evidence import UNITS, compare, difference, drawn
from aiosearch.mapper.rows.frames import Frame
from aiosearch.mapper.rows.rules import RowRequirement, Rows

ROWS, BLOCK = 26, 8
"""Three blocks, and two rows that are left."""


def normalized(x: Any, w: Any) -> Any:
    y = (x - x.mean(0)) / (x.std(0) + 1e-3)
    return jax.nn.relu(y @ w)


def layers(x: Any, w: Any, b: Any) -> Any:
    return jnp.tanh(jnp.tanh(x @ w + b) @ w.T)


def attention(q: Any, k: Any, v: Any) -> Any:
    return jax.nn.softmax(jnp.einsum("bqd,bkd->bqk", q, k)) @ v


def difference_of_rows(x: Any) -> Any:
    return x[1:] * 2 - x[:-1]


def residual(x: Any, y: Any) -> Any:
    return x + jnp.sin(y) / (1 + jnp.linalg.norm(y))


def normal(seed: int, *shape: int) -> jax.Array:
    return jax.random.normal(jax.random.PRNGKey(seed), shape)


SUBJECTS: tuple[tuple[Callable[..., Any], tuple[Any, ...]], ...] = (
    (normalized, (normal(0, ROWS, 5), normal(1, 5, 5))),
    (layers, (normal(2, ROWS, ROWS), normal(3, ROWS, 4), normal(4, 4))),
    (attention, (normal(5, ROWS, 3, 4), normal(6, ROWS, 3, 4), normal(7, ROWS, 3, 4))),
    (difference_of_rows, (normal(8, ROWS + 1, 4),)),
    (residual, (normal(9, ROWS, ROWS), normal(10, ROWS, ROWS))),
)


class Subject:
    """A program, how it runs by rows, and how it runs so with a bug."""

    def __init__(self, function: Callable[..., Any], args: Sequence[Any]) -> None:
        self.args = list(args)
        self._compiled = jax.jit(function)
        self.flat: Flat = trace(function, args)[0]
        pulled = choose_rows(self.flat)
        assert pulled is not None, f"{function.__name__} has no rows"
        self.pulled: Pulled = pulled
        self.rows = rows_of(pulled)

    def original(self, values: Sequence[Any]) -> list[Any]:
        return jax.tree_util.tree_leaves(self._compiled(*values))

    def run(
        self,
        values: Sequence[Any],
        pulled: Pulled | None = None,
        starts: Sequence[int] | None = None,
        local: bool = False,
    ) -> list[Any]:
        """Block by block; rows from these starts are put one after another."""
        frame = Frame(pulled or self.pulled)
        named = dict(
            zip((value.number for value in self.flat.inputs), map(jnp.asarray, values), strict=True)
        )
        whole = frame.prepare(named)
        parts: list[list[Any]] = []
        sizes = [min(BLOCK, self.rows - first) for first in range(0, self.rows, BLOCK)]
        for first, size in zip(starts or range(0, self.rows, BLOCK), sizes, strict=True):
            context = self._local(frame, named, first, size) if local else whole
            parts.append(frame.compute({**whole, **context}, {}, first, size))
        return [
            jnp.concatenate([part[n] for part in parts], demand.axis)
            if demand is not None
            else parts[0][n]
            for n, demand in enumerate(self.pulled.results)
        ]

    def _local(self, frame: Frame, named: dict[int, Any], first: int, size: int) -> dict[int, Any]:
        """What is needed whole, computed as if a block's rows were all, repeated to full length."""
        index = first + np.arange(self.rows + 1) % size
        seen = {
            number: array[index[: array.shape[0]]]
            if array.ndim and array.shape[0] >= self.rows
            else array
            for number, array in named.items()
        }
        computed = frame.prepare(seen)
        return {number: array for number, array in computed.items() if number not in named}


def with_bug(subject: Subject, rng: random.Random) -> tuple[str, Callable[[Any], list[Any]]] | None:
    """A bug by its kind, and the program that has it; None where the draw makes no sense."""
    kind = rng.choice(["shift", "axis", "local", "swapped", "missing", "stale", "edge"])
    starts = list(range(0, subject.rows, BLOCK))
    if kind in ("shift", "axis"):
        pulled = _changed(subject.pulled, kind, rng)
        return pulled and (kind, lambda values: subject.run(values, pulled))
    if kind == "local":
        if not subject.pulled.hoisted():
            return None
        return kind, lambda values: subject.run(values, local=True)
    if kind == "swapped":
        a, b = rng.sample(range(len(starts) - 1), 2)
        starts[a], starts[b] = starts[b], starts[a]
    elif kind == "stale":
        a, b = rng.sample(range(len(starts) - 1), 2)
        starts[a] = starts[b]
    elif kind == "edge":
        starts[-1] -= rng.randint(1, 2)
    else:
        lost = rng.randrange(len(starts))
        return kind, lambda values: _unwritten(subject, subject.run(values), starts[lost])
    return kind, lambda values: subject.run(values, starts=starts)


def _unwritten(subject: Subject, results: list[Any], first: int) -> list[Any]:
    return [
        result.at[(slice(None),) * demand.axis + (slice(first, first + BLOCK),)].set(0)
        if demand is not None
        else result
        for result, demand in zip(results, subject.pulled.results, strict=True)
    ]


def _changed(pulled: Pulled, kind: str, rng: random.Random) -> Pulled | None:
    key = rng.choice(list(pulled.requirements))
    how = pulled.requirements[key]
    by_rows = [n for n, demand in enumerate(how.operands) if demand is not None]
    if not by_rows:
        return None
    at = rng.choice(by_rows)
    demand = how.operands[at]
    assert demand is not None
    definition = next(
        equation
        for equation in pulled.flat.equations
        if any(value.number == key[0] for value in equation.outputs)
    )
    operand = definition.inputs[at]
    if not hasattr(operand, "number"):
        return None
    if kind == "axis":
        shape = operand.shape
        same = [a for a in range(len(shape)) if a != demand.axis and shape[a] == shape[demand.axis]]
        if not same:
            return None
        wrong = Rows(rng.choice(same), demand.shift)
    else:
        wrong = Rows(demand.axis, demand.shift + rng.choice([-1, 1]))
    # Rows that nobody computes are cut from the whole value, so that has to be there.
    operands = tuple(wrong if n == at else wish for n, wish in enumerate(how.operands))
    requirements = {**pulled.requirements, key: RowRequirement(operands, how.params, how.emit)}
    numbers = {operand.number}
    for equation in reversed(pulled.flat.equations):
        if any(value.number in numbers for value in equation.outputs):
            numbers |= {atom.number for atom in equation.inputs if hasattr(atom, "number")}
    return replace(pulled, requirements=requirements, whole=pulled.whole | numbers)


def count_accepted(bugs: int, seed: int = 0) -> dict[str, Any]:
    """Draws so many bugs that change something, and counts those that the comparison accepts."""
    rng, generator = random.Random(seed), np.random.default_rng(seed)
    subjects = [Subject(*subject) for subject in SUBJECTS]
    counts: dict[str, int] = {}
    accepted: list[str] = []
    harmless = misfits = tried = 0
    while tried < bugs:
        subject = rng.choice(subjects)
        drawn_bug = with_bug(subject, rng)
        if drawn_bug is None:
            continue
        kind, program = drawn_bug
        try:
            evidence = compare(subject.original, program, subject.args, seed=rng.randrange(2**30))
        except (TypeError, ValueError):
            misfits += 1  # shapes that do not fit are refused before anything is compared
            continue
        if evidence.holds:
            values = [drawn(subject.args, generator) for _ in range(4)]
            pairs = [
                (np.asarray(a), np.asarray(b))
                for each in values
                for a, b in zip(subject.original(each), program(each), strict=True)
            ]
            if all(difference(a, b) <= UNITS for a, b in pairs):
                harmless += 1
                continue
            accepted.append(kind)
        tried += 1
        counts[kind] = counts.get(kind, 0) + 1
    return {
        "bugs": tried,
        "accepted": len(accepted),
        "harmless": harmless,
        "misfits": misfits,
        "kinds": counts,
    }
