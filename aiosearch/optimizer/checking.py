"""The third layer of verification on the real thing: what the device gives, against float64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anyio import to_thread

from ..equivalence.floats import FloatEvidence
from ..equivalence.tensorfloat import product_unit
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
    """Runs both on every distribution of inputs; a failure is that of the one that cannot run.

    Both are judged at the precision that the device gives products under jax's settings.
    """
    sides = original, candidate

    async def run(side: int, arrays: Sequence[Any]) -> tuple[Any, ...] | Failure:
        if packer is not None and sides[side] is candidate:
            packed = await packer.packed(arrays)
            if isinstance(packed, Failure):
                return packed
            arrays = packed
        return await executor.run(sides[side], arrays)

    text = await to_thread.run_sync(to_json, program)
    unit = product_unit(executor.platform, original.candidate.precision)
    return await judged(Case(text, dict(inputs.draws), seed, strict, unit), run)
