"""LLVM's library where it is not installed."""

from __future__ import annotations

import builtins
import sys
from typing import Any

import pytest

from aiosearch.codegen.errors import NativeError
from aiosearch.codegen.native import llvm_library, machine
from aiosearch.optimizer.candidates.generation import CandidateQuestion, generate_candidates
from aiosearch.optimizer.effort import BUDGETS, Effort
from aiosearch.tensor import Program, tensor
from aiosearch.tensor.files import to_json


def test_without_llvmlite_kernels_are_left_out_and_it_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever asks LLVM for something is told what to install; plain JAX is still tried."""
    monkeypatch.setitem(sys.modules, "llvmlite", None)
    monkeypatch.setattr(machine, "llvm", llvm_library._loaded()[1])
    machine.host.cache_clear()
    with pytest.raises(NativeError, match=r"pip install .*llvmlite"):
        machine.host()
    x = tensor("x", "f32", (4, 4))
    program = to_json(Program("twice", (x,), (x * 2 + x * 3,)))
    told: list[str] = []
    found = generate_candidates(
        CandidateQuestion(program, BUDGETS[Effort.QUICK], 0, False, threads=1), told.append
    )
    assert len(found.contenders) > 1
    assert not any(one.kernels for one in found.contenders)
    assert told[-1].startswith("kernels are left out: llvmlite, which compiles kernels, cannot")


def test_where_its_shared_library_lacks_it_is_as_if_it_was_not_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """llvmlite tells of that in another way."""
    imported = builtins.__import__

    def failing(name: str, *given: Any, **more: Any) -> Any:
        if name == "llvmlite":
            raise OSError("Could not find/load shared object file: libllvmlite.so")
        return imported(name, *given, **more)

    monkeypatch.setattr(builtins, "__import__", failing)
    with pytest.raises(NativeError, match=r"libllvmlite.so.*pip install .*llvmlite"):
        llvm_library._loaded()[0].anything()
