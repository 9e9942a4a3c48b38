"""How near a program comes to what its device can do at best."""

from __future__ import annotations

from typing import Any

from ..measure import Ceilings, stored_ceilings
from ..tensor import DType, Program
from ..tensor.cost import cost
from ..tensor.terms import bytes_of
from .answers import Answer

_MEASURED = {DType.BF16: "bfloat16", DType.F16: "bfloat16"}
"""Under which name the operations of a type were measured; all others are float32's."""


def work(program: Program) -> dict[str, Any]:
    """What a program has to compute and to move: it reads and writes everything once at least."""
    moved = sum(int(str(bytes_of(term.type))) for term in {*program.inputs, *program.outputs})
    kinds = {_MEASURED.get(term.dtype, "float32") for term in program.inputs}
    flops = int(str(cost(program).flops))
    return {"flops": flops, "bytes": moved, "kinds": sorted(kinds)}


def ceilings_of(answer: Answer) -> Ceilings | None:
    """What was measured of the device of an answer (`aiosearch doctor --measure`), if it was."""
    platform, _, _ = answer.key.device.partition(":")
    return next((one for one in stored_ceilings() if one.platform == platform), None)


def reached(answer: Answer) -> float | None:
    """The part of what its device can do that an answer reaches; nothing where that is unknown."""
    ceilings, facts = ceilings_of(answer), answer.evidence
    if ceilings is None or "flops" not in facts:
        return None
    speeds = [ceilings.flops_per_second.get(kind, 0.0) for kind in facts["kinds"]]
    computing = facts["flops"] / max(speeds, default=0.0) if any(speeds) else 0.0
    return float(max(facts["bytes"] / ceilings.bytes_per_second, computing) / answer.timings.answer)
