"""What would be tried first on a GPU: what counts, and out of how many."""

from __future__ import annotations

import json

import gpuwinners
import pytest
from gpuwinners import tell_all, winners
from lib.kernels.rows import Row

from aiosearch.codegen.pallas.cubin import CannotCompile
from aiosearch.devices import device
from aiosearch.tensor import DType, Program, apply, tensor
from aiosearch.tensor.programs import builtin

SMALL = builtin("rms_norm", "bf16", row=1, feature=64, column=64)
X = tensor("X", DType.F64, (64,))
WITHOUT = Program("error", (X,), (apply("erf", X),))
"""Triton has no such function. A row names a built-in program; this one stands for it."""


def test_a_program_without_kernels_is_missed_and_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It counts among those that were to be right, and to be compiled."""

    async def refused(*given: object) -> None:
        raise CannotCompile("not here")

    monkeypatch.setattr(gpuwinners, "missing_compiler", lambda: None)
    monkeypatch.setattr(gpuwinners, "compile_cubin", refused)
    found = []
    for name, program in (("rms_norm", SMALL), ("ntrans", WITHOUT)):
        found += winners(Row((name, "bf16", 1), program), device("H200"), 1)
    tell_all(found)
    right, missed, all_, machine = map(json.loads, capsys.readouterr().out.splitlines())
    assert (right["value"], right["objection"], right["refused"]) == (1, "", "not here")
    assert (missed["figure"], missed["value"]) == ("first on a GPU: ntrans, bf16, 1 row", 0)
    assert "Triton has no erf" in missed["objection"]
    assert (all_["value"], all_["target"]) == (1, 2)
    assert (machine["value"], machine["target"]) == (0, 2)
