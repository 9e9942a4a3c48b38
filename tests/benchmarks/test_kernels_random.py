"""Random µgraphs as machine code: what is said of them."""

from __future__ import annotations

import json

import kernels_random
import pytest


def test_it_says_how_many_were_judged(capsys: pytest.CaptureFixture[str]) -> None:
    """Of programs in which results mean nothing, none would be wrong."""
    kernels_random.main(2)
    (line,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert line["value"] == 0
    assert line["judged"] == line["programs"] == 2
