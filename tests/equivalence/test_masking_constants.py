"""A mask that is multiplied by a large number, which nothing survives but where the mask is 0."""

from __future__ import annotations

import pytest
from testkit.programs.float_pairs import over, softmax

from aiosearch.equivalence.floats import compare_floats
from aiosearch.equivalence.lost_values import masking_remark
from aiosearch.tensor import Term, tensor

X = tensor("X", "f32", (4, 8))
M = tensor("M", "f32", (4, 8))


@pytest.mark.parametrize("masked", [X + (1 - M) * -1e9, X - 1e9 * M])
def test_a_mask_in_floats_is_judged_as_truth_values(masked: Term) -> None:
    program, blind = over(X, M)(softmax(masked)), over(X, M)(softmax(X))
    assert compare_floats(program, program).outcome == "agree"
    assert compare_floats(program, blind).outcome == "differ"


@pytest.mark.parametrize("masked", [X + (2 + M) * -1e9, X - 1e9 * (M * M + 1)])
def test_the_number_is_named_where_rounding_decides(masked: Term) -> None:
    program = over(X, M)(softmax(masked))
    evidence = compare_floats(program, program)
    assert evidence.outcome == "unknown"
    assert evidence.remark == masking_remark(program)
    assert str(evidence).endswith(evidence.remark)
    assert evidence.to_dict()["remark"] == masking_remark(program)


def test_where_something_is_known_nothing_is_remarked() -> None:
    """The number alone is no reason; and there may be none."""
    scaled = over(X, M)(X * 1e9 + M * 1e9)
    assert "1e+09" in masking_remark(scaled)
    assert compare_floats(scaled, scaled).remark == ""
    assert masking_remark(over(X, M)(X * 100 + M)) == ""
