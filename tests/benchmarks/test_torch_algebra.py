"""The tensor language in torch, against NumPy; where torch is installed."""

from __future__ import annotations

import numpy as np
import pytest
from testkit.programs.random_programs import random_program

from aiosearch.tensor import Floats, Program, evaluate

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("part", range(4))
def test_torch_computes_what_numpy_does(part: int) -> None:
    """Every operator and kernel, in programs drawn at random, wherever NumPy's result is finite."""
    from lib.optimizer.torch_algebra import TorchWords

    for seed in range(part * 250, (part + 1) * 250):
        program = random_program(seed)
        if _has_nothing_to_reduce(program):
            continue
        draw = np.random.default_rng(seed)
        inputs = [draw.integers(-8, 9, size=term.shape) / 4 for term in program.inputs]
        with np.errstate(all="ignore"):
            wanted = evaluate(program, Floats(), inputs)
            found = evaluate(program, TorchWords("cpu"), [torch.tensor(x) for x in inputs])
        for ours, theirs in zip(found, wanted, strict=True):
            got = np.asarray(ours, dtype=np.float64)
            assert got.shape == theirs.shape, seed
            at = np.isfinite(theirs)
            room = 1e-2 * np.max(np.abs(theirs), initial=1.0, where=at)
            assert np.allclose(got[at], theirs[at], rtol=1e-2, atol=room), f"{seed}\n{program}"


def _has_nothing_to_reduce(program: Program) -> bool:
    """torch refuses to take the largest of nothing."""
    return any(0 in term.shape for term in program.terms())
