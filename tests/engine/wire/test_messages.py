from __future__ import annotations

import pytest

from aiosearch.engine.wire.messages import error_of, failure_of
from aiosearch.errors import AiosearchError, ProblemError


def test_an_error_of_a_problem_arrives_as_it_was() -> None:
    """With its way to the node, and with the traceback of what the problem raised."""
    error = ProblemError("Count", "expand", "ValueError: two", (0, 1))
    error.__cause__ = ValueError("two")
    told = failure_of(1, "Count", error)
    assert told.trace == "ValueError: two\n"
    assert str(error_of(told)) == str(error)


def test_another_one_is_the_engine_s() -> None:
    with pytest.raises(AiosearchError, match="Count: the engine failed: KeyError: 3"):
        raise error_of(failure_of(1, "Count", KeyError(3)))
