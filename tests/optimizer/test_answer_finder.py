"""What was found elsewhere, or before, may not run here; then it is found anew."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp
import pytest

from aiosearch.capture import capture
from aiosearch.codegen.cpu.emit.kernel import print_module
from aiosearch.codegen.lower.lowering import lower
from aiosearch.codegen.native import jax_call
from aiosearch.codegen.native.embedded_source import encode_program
from aiosearch.codegen.native.machine import host, masked
from aiosearch.optimizer.answer_finder import why_unloadable


def answer(source: str) -> Any:
    return SimpleNamespace(source=source)


@pytest.fixture(scope="module")
def kernel() -> Any:
    module = lower(capture(lambda x: jnp.tanh(x) * 2, jnp.ones(40)).program)
    text = encode_program(print_module(module, {}, host()), host())
    return answer(f'def f(x):\n    return carried("""\n{text}\n""")(x)\n')


def test_plain_jax_always_runs() -> None:
    assert not why_unloadable(answer("def f(x):\n    return x + 1\n"))


def test_a_kernel_of_this_machine_runs(kernel: Any) -> None:
    assert not why_unloadable(kernel)


def test_a_kernel_of_another_machine_does_not(kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if host().is_arm:
        pytest.skip("nothing is masked there")
    monkeypatch.setattr(jax_call, "host", lambda: masked(host(), "avx"))
    assert "was made for" in why_unloadable(kernel)
