"""What is made of a program does not depend on what anything in it is called."""

from __future__ import annotations

import re
from itertools import count

import pytest

from aiosearch.codegen.native.embedded_source import embedded_programs
from aiosearch.codegen.native.machine import host
from aiosearch.devices import device
from aiosearch.optimizer.candidates.cpu_kernels import kernel_sources
from aiosearch.optimizer.candidates.gpu_kernels import gpu_kernel_sources
from aiosearch.tensor import DType, Program, apply, tensor
from aiosearch.tensor.files import from_json, to_json
from aiosearch.tensor.programs import builtin

SIZES = {
    "rms_norm": {"row": 3, "feature": 64, "column": 48},
    "gated_mlp": {"row": 9, "feature": 64, "hidden": 48},
    "gqa": {"head": 2, "row": 16, "feature": 16, "key": 128, "value": 16},
    "linear_layernorm": {},
}
ON_GPU = {
    "rms_norm": {"row": 8, "feature": 4096, "column": 64},
    "gated_mlp": {"row": 9, "feature": 4096, "hidden": 64},
    "linear_layernorm": {},
}
NAME = re.compile(r"(?<![A-Za-z0-9])thing(\d+)(?!\d)")
"""What anything is called in a renamed program."""


@pytest.mark.parametrize("name", SIZES)
def test_kernels_know_no_names(name: str) -> None:
    program = builtin(name, "f32", **SIZES[name])
    other = _renamed(program)
    texts = [_texts(one) for one in (program, other)]
    assert texts[0]
    for mine, theirs in zip(*texts, strict=True):
        assert re.sub(r"\bthing0(?=[_.])", name, theirs) == mine


@pytest.mark.parametrize("name", ON_GPU)
def test_nor_do_kernels_for_a_gpu(name: str) -> None:
    """With folds that are shared out, and without."""
    texts = _nameless_on_gpu(builtin(name, "bf16", **ON_GPU[name]))
    assert {"_parts" in text for text in texts} == {True, False}


def test_nor_do_those_that_scale_with_a_maximum() -> None:
    """Along a loop, and from part to part: attention that divides at the end."""
    sizes = {"Q": (2, 256, 64), "K": (2, 64, 4096), "V": (2, 4096, 64)}
    q, k, v = (tensor(name, DType.BF16, size) for name, size in sizes.items())
    scores = q @ k
    e = apply("exp", scores - apply("max", scores, axes=(2,), keep=True))
    late = Program("late", (q, k, v), ((e @ v) / apply("sum", e, axes=(2,), keep=True),))
    texts = _nameless_on_gpu(late)
    assert any("_scale = jnp.exp(" in text for text in texts)
    assert any("_parts_tile == -jnp.inf" in text for text in texts)


def _nameless_on_gpu(program: Program) -> list[str]:
    """The texts for a GPU, which are those of the renamed program but for the names."""
    other = _renamed(program)
    called = [program.name, *(one.parameter("name") for one in program.inputs)]
    found = [gpu_kernel_sources(one, device("H200"), 6) for one in (program, other)]
    for mine, theirs in zip(*found, strict=True):
        assert NAME.sub(lambda it: called[int(it[1])], theirs.source) == mine.source
        assert (theirs.how, theirs.seconds) == (mine.how, mine.seconds)
    return [one.source for one in found[0]]


def _renamed(program: Program) -> Program:
    """The same under another name, and its inputs, too."""
    number = count()
    text = re.sub(
        r'"name":"\w+"', lambda _: f'"name":"thing{next(number)}"', to_json(program).decode()
    )
    other = from_json(text.encode())
    assert (other.name, other.inputs) != (program.name, program.inputs)
    return other


def _texts(program: Program) -> list[str]:
    found = kernel_sources(program, host(), 2, 4, (1,))
    return [one.native.text for source in found for _, one in embedded_programs(source.source)]
