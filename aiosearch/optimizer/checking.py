"""The third layer of verification on the real thing: what the device gives, against float64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anyio import to_thread

from ..equivalence.floats import FloatEvidence
from ..measure import Compiled, Executor, Failure
from ..tensor import Program
from ..tensor.files import to_json
from .entering import Packer
from .refereeing import Case, judged
from .suiting import Suited


async def check(
    executor: Executor,
    program: Program,
    original: Compiled,
    candidate: Compiled,
    inputs: Suited,
    packer: Packer | None = None,
    *,
    seed: int,
    strict: bool,
) -> FloatEvidence | Failure:
    """Runs both on every distribution of inputs; a failure is that of the one that cannot run."""
    sides = original, candidate

    async def run(side: int, arrays: Sequence[Any]) -> tuple[Any, ...] | Failure:
        if packer is not None and sides[side] is candidate:
            packed = await packer.packed(arrays)
            if isinstance(packed, Failure):
                return packed
            arrays = packed
        return await executor.run(sides[side], arrays)

    text = await to_thread.run_sync(to_json, program)
    return await judged(Case(text, dict(inputs.draws), seed, strict), run)
