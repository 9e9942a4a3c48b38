"""What two programs must have in common to be compared at all."""

from __future__ import annotations

import pytest
from testkit.programs.float_pairs import over

from aiosearch.equivalence.runnables import require_comparable
from aiosearch.tensor import ShapeError, tensor


def test_programs_are_comparable_when_shapes_and_types_are_alike_whatever_the_names() -> None:
    x = tensor("X", "f32", (2, 3))
    named = tensor("Other", "f32", (2, 3), ("row", None))
    require_comparable(over(x)(x), over(named)(named * 2))


def test_programs_of_other_inputs_or_outputs_are_refused() -> None:
    x = tensor("X", "f32", (2, 3))
    half = tensor("Y", "f16", (2, 3))
    with pytest.raises(ShapeError, match="other inputs"):
        require_comparable(over(x)(x), over(x, half)(x))
    with pytest.raises(ShapeError, match=r"other inputs: f32.2, ?3. and f16.2, ?3."):
        require_comparable(over(x)(x), over(half)(half))
    with pytest.raises(ShapeError, match="other outputs"):
        require_comparable(over(x)(x), over(x)(x, x))
