"""How near a program comes to what its device can do at best."""

from __future__ import annotations

from typing import Any

from ..measure import Ceilings, stored_ceilings
from ..tensor import DType, Program
from ..tensor.cost import cost
from ..tensor.terms import bytes_of

_MEASURED = {DType.BF16: "bfloat16", DType.F16: "bfloat16"}
"""Under which name the operations of a type were measured; all others are float32's."""


def reach(program: Program, seconds: float, platform: str) -> dict[str, Any]:
    """Gives what it has to compute and to move, and the part of the ceiling that it reaches.

    It has to read its inputs and write its outputs once. Where the ceilings were not measured
    (`aiosearch doctor --measure`), nothing is said of them.
    """
    moved = sum(_bytes(term) for term in {*program.inputs, *program.outputs})
    flops = int(str(cost(program).flops))
    facts: dict[str, Any] = {"flops": flops, "bytes": moved}
    for ceilings in stored_ceilings():
        if ceilings.platform == platform:
            least = max(moved / ceilings.bytes_per_second, flops / _most(ceilings, program))
            facts["ceiling"] = least / seconds
    return facts


def _most(ceilings: Ceilings, program: Program) -> float:
    """Operations in a second, in the narrowest type that the program multiplies in."""
    kinds = {_MEASURED.get(term.dtype, "float32") for term in program.inputs}
    return max(ceilings.flops_per_second[kind] for kind in kinds or {"float32"})


def _bytes(term: Any) -> int:
    return int(str(bytes_of(term.type)))
