"""Programs that have to be found are looked for, and are not seen where they are not."""

from __future__ import annotations

import pytest
from lib.superoptimizer.expected_programs import WANTED, Programs, sighted

from aiosearch.superoptimizer import Fusion, Space, device
from aiosearch.tensor.files import to_json
from aiosearch.tensor.programs import builtin

SMALL = {
    "rms_norm": {"row": 16, "feature": 64, "column": 64},
    "gated_mlp": {"row": 16, "feature": 64, "hidden": 64},
    "lora": {"row": 16, "feature": 64, "rank": 16, "column": 64},
    "gqa": {"row": 16, "key": 64},
}


def programs(name: str, space: Space) -> Programs:
    return Programs(Fusion(to_json(builtin(name, **SMALL[name])), space))


CASES = [(name, what) for name in SMALL for what in WANTED[name]]


@pytest.mark.parametrize(("name", "what"), CASES)
def test_what_is_wanted_is_found_and_verified(name: str, what: str) -> None:
    """One of them is proved, and shown with its numbers."""
    found = programs(name, Space(kernels=2))
    seen = sighted(found, what, WANTED[name][what], device("A100"))
    assert (seen.evidence, seen.programs > 0) == ("proved", True)
    assert seen.text.startswith(f"program {name}(")


@pytest.mark.parametrize(("name", "what"), CASES)
def test_in_a_space_that_is_too_small_nothing_is_seen(name: str, what: str) -> None:
    """Blocks of five operators have no room for any of them, nor a single kernel operator."""
    found = programs(name, Space(block_operators=5, kernels=1))
    seen = sighted(found, what, WANTED[name][what], device("A100"))
    assert (seen.programs, seen.evidence, seen.text) == (0, "", "")


def test_the_kernels_of_a_program_are_counted_as_they_are_listed() -> None:
    """As many programs are read off the tables as the search says."""
    found = programs("rms_norm", Space(kernels=2, block_operators=6))
    for one in found.found:
        assert len(list(found.built(one))) == one.programs
