"""Which stages are products of two loads, and of what types these are."""

from __future__ import annotations

from ...tensor.types import HALVES, DType
from ..ir import Apply, Load, Operation, Stage

_FLOATS = HALVES | {DType.F32}
"""Those that are multiplied as f32."""


def factors(stage: Stage) -> tuple[Load, Load] | None:
    """Both, where a stage's value is their product; it may be folded."""
    match stage.value:
        case Apply(operation=Operation.MULTIPLY, arguments=(Load() as one, Load() as other)):
            return one, other
    return None


def of_bf16(stage: Stage) -> bool:
    """Whether it is a product that an instruction for pairs takes."""
    return all(one is DType.BF16 for one in _types(stage)) and factors(stage) is not None


def of_halves(stage: Stage) -> bool:
    return HALVES.issuperset(_types(stage)) and factors(stage) is not None


def of_floats(stage: Stage) -> bool:
    return _FLOATS.issuperset(_types(stage)) and factors(stage) is not None


def _types(stage: Stage) -> list[DType]:
    return [one.buffer.dtype for one in factors(stage) or ()]
