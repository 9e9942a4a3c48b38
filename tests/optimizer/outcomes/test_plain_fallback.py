"""Emitted kernels, with plain JAX for wherever they do not run."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aiosearch.capture import capture
from aiosearch.codegen.cpu.emit.kernel import print_module
from aiosearch.codegen.lower.lowering import lower
from aiosearch.codegen.native.embedded_source import encode_program
from aiosearch.codegen.native.machine import host
from aiosearch.optimizer.candidates.jax_source import module
from aiosearch.optimizer.outcomes.plain_fallback import HELPER, fallback
from aiosearch.tensor.text import write


def original(x: jax.Array, y: jax.Array) -> jax.Array:
    return jnp.tanh(x) * 2 + y


KERNEL = '''def f(x, y):
    from aiosearch.codegen.native.carrying import carried

    kernels = carried("""
{lines}
""")
    return kernels(x, y)[0]
'''
X, Y = jnp.linspace(-2.0, 2.0, 40).reshape(4, 10), jnp.arange(10.0)


@pytest.fixture(scope="module")
def text() -> str:
    """A module whose function runs a kernel for arrays of the types of `X` and `Y`."""
    program = capture(original, X, Y).program
    lines = encode_program(print_module(lower(program), {}, host()), host())
    source = KERNEL.format(lines=lines)
    return module(f"{HELPER}\n\n{source}\n\n{fallback(source, 'f', write(program))}\n")


def loaded(text: str) -> Any:
    names: dict[str, Any] = {}
    exec(compile(text, "<emitted>", "exec"), names)
    return names["f"]


def test_the_kernel_runs_for_what_it_was_written_for(text: str) -> None:
    """Under `jit` too, where the text of what is compiled has a call of machine code."""
    f = loaded(text)
    np.testing.assert_allclose(f(X, Y), original(X, Y), rtol=1e-5)
    np.testing.assert_allclose(f(y=Y, x=X), original(X, Y), rtol=1e-5)
    assert "custom_call" in jax.jit(f).lower(X, Y).as_text()


def test_other_shapes_and_types_run_as_plain_jax(text: str) -> None:
    f = loaded(text)
    assert f(X[:2], Y).shape == (2, 10)
    assert f(X.astype(jnp.bfloat16), Y.astype(jnp.bfloat16)).dtype == jnp.bfloat16
    assert "custom_call" not in jax.jit(f).lower(X[:2], Y).as_text()


def test_derivatives_and_batches_are_those_of_plain_jax(text: str) -> None:
    f = loaded(text)
    gradients = jax.grad(lambda x, y: f(x, y).sum(), (0, 1))(X, Y)
    expected = jax.grad(lambda x, y: original(x, y).sum(), (0, 1))(X, Y)
    for gradient, wanted in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(gradient, wanted, rtol=1e-5)
    stacked = jnp.stack([X, 2 * X])
    batch = jax.vmap(f, (0, None))(stacked, Y)
    np.testing.assert_allclose(batch, jax.vmap(original, (0, None))(stacked, Y), rtol=1e-5)
    jax.jvp(f, (X, Y), (X, Y))


def test_a_damaged_kernel_is_told_once_and_done_without(text: str) -> None:
    begin = text.index('carried("""') + 12
    f = loaded(f"{text[:begin]}damaged{text[begin:]}")
    with pytest.warns(RuntimeWarning, match="f_plain runs in the place of kernels"):
        np.testing.assert_allclose(f(X, Y), original(X, Y), rtol=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f(X, Y)


def test_it_runs_where_aiosearch_is_not_installed(text: str, tmp_path: Path) -> None:
    hidden = "import sys\nsys.modules['aiosearch'] = None\n"
    use = "print(f(jnp.ones((4, 10)), jnp.zeros(10)).sum())\n"
    file = tmp_path / "emitted.py"
    file.write_text(f"{hidden}{text}\n{use}")
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "f_plain runs in the place of kernels" in done.stderr
    assert float(done.stdout) == pytest.approx(80 * np.tanh(1.0), rel=1e-5)


def test_plain_jax_needs_nothing_beside_it() -> None:
    assert not fallback("def f(x):\n    return x + 1\n", "f", "")
