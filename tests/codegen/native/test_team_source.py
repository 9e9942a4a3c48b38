"""`team.ll` is what clang makes of `team.c`."""

from __future__ import annotations

import pytest
from testkit.kernels import team_source


def test_the_text_names_the_source_that_it_was_compiled_of() -> None:
    """Whoever changes `team.c` is told to compile it, also where no clang is."""
    head = team_source.TEXT.read_text().partition("\n")[0]
    assert head.endswith(f"sha256 {team_source.digest()}")


@pytest.mark.skipif(not team_source.has_compiler(), reason=f"{team_source.CLANG} is not here")
def test_the_source_compiles_to_the_text() -> None:
    assert team_source.compiled() == team_source.TEXT.read_text()
