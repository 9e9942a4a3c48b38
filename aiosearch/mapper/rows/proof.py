"""Is a program that runs by rows equal to the original, whatever its arguments and their sizes?

Problem: comparing results, as `evidence` does, says something of the arguments that were tried.

Method. A program by rows is a program again: its blocks, each cut from the arguments at a known
row, put one after another. Both are captured as tensor programs and given to `verify`, which
compares them as functions of real numbers. How many blocks there are changes nothing in how one is
made, so two halves stand for all; where rows are odd the halves are unlike, as whole blocks and a
remainder are. What cannot be captured or proved is said, and rests on what was tried.

Example, `tanh(x @ w)` of 8 rows: the rows 0-3 of x times w, and the rows 4-7, side by side.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import jax
import jax.numpy as jnp

from ...capture import CaptureError, capture
from ...capture.jax_types import Function, Leaf, PyTree
from ...equivalence import Status, verify
from .blocked import RowBlocks
from .demands import Pulled
from .equations import Known

SECONDS = 2.0
"""For how long random numbers of finite fields are computed with, beside the proof."""
MOST_ELEMENTS = 1 << 14
"""Of how many elements a value may be where a counterexample is looked for."""


def in_halves(blocks: RowBlocks, inputs: Sequence[Leaf]) -> list[Leaf]:
    """What a program gives, computed from the first half of its rows and from the others."""
    whole = blocks.prepare(*inputs)
    middle = blocks.rows // 2
    runs = ((0, middle), (middle, blocks.rows - middle))
    parts = [blocks.block(whole, start, count) for start, count in runs]
    joined = iter(
        jnp.concatenate([part[n] for part in parts], axis) for n, axis in enumerate(blocks.axes)
    )
    results = []
    for atom, demand in zip(blocks.pulled.flat.outputs, blocks.pulled.results, strict=True):
        if demand is not None:
            results.append(next(joined))
        else:
            results.append(
                jnp.asarray(atom.array) if isinstance(atom, Known) else whole[atom.number]
            )
    return results


def prove_rows(function: Function, args: Sequence[PyTree], pulled: Pulled) -> str:
    """Says `proved` and for which shapes, `refuted`, or `not proved`, and why."""
    blocks = RowBlocks(pulled)
    tree = jax.tree_util.tree_structure(tuple(args))

    def whole(*args: PyTree) -> list[Leaf]:
        return jax.tree_util.tree_leaves(function(*args))

    def by_rows(*args: PyTree) -> list[Leaf]:
        return in_halves(blocks, jax.tree_util.tree_leaves(args))

    struct: Function = jax.ShapeDtypeStruct  # which jax leaves without annotations
    leaves = [
        struct(jnp.shape(leaf), jnp.result_type(leaf))
        for leaf in jax.tree_util.tree_leaves(tuple(args))
    ]
    kinds = jax.tree_util.tree_unflatten(tree, leaves)
    try:
        original, candidate = capture(whole, *kinds).program, capture(by_rows, *kinds).program
    except CaptureError as error:
        return f"not proved: {str(error).splitlines()[0]}"
    verdict = verify(
        # A counterexample is looked for among few numbers: results were compared in size before.
        original,
        candidate,
        floats=False,
        seconds=SECONDS,
        most_elements=MOST_ELEMENTS,
        until=time.monotonic() + SECONDS,
    )
    if verdict.status is Status.PROVED:
        return f"proved {verdict.scope}"
    if verdict.status is Status.REFUTED:
        return f"refuted: {verdict.reason.splitlines()[0]}"
    return f"not proved: {(verdict.reason or verdict.scope).splitlines()[0]}"
