"""What is Triton's stays in one file."""

from __future__ import annotations

import re
from pathlib import Path

import aiosearch
from aiosearch.codegen.pallas import dialect

CODE = re.compile(rf"\b{dialect.ALIAS}\b|pallas import triton|pallas\.triton|num_warps|num_stages")


def test_no_other_file_spells_it() -> None:
    found = Path(aiosearch.__file__).parent.rglob("*.py")
    named = [one for one in found if CODE.search(one.read_text(encoding="utf-8"))]
    assert named == [Path(dialect.__file__)]
