"""What is made of a program does not depend on what anything in it is called."""

from __future__ import annotations

import re
from itertools import count

import pytest

from aiosearch.codegen.native.lines import inside
from aiosearch.codegen.native.machine import host
from aiosearch.optimizer.kernels import kernel_sources
from aiosearch.tensor import Program
from aiosearch.tensor.files import from_json, to_json
from aiosearch.tensor.programs import builtin

SIZES = {
    "rms_norm": {"row": 3, "feature": 64, "column": 48},
    "gated_mlp": {"row": 9, "feature": 64, "hidden": 48},
    "gqa": {"head": 2, "row": 16, "feature": 16, "key": 128, "value": 16},
    "linear_layernorm": {},
}


@pytest.mark.parametrize("name", SIZES)
def test_kernels_know_no_names(name: str) -> None:
    program = builtin(name, "f32", **SIZES[name])
    other = _renamed(program)
    assert (other.name, other.inputs) != (program.name, program.inputs)
    texts = [_texts(one) for one in (program, other)]
    assert texts[0]
    for mine, theirs in zip(*texts, strict=True):
        assert re.sub(r"\bthing0(?=[_.])", name, theirs) == mine


def _renamed(program: Program) -> Program:
    """The same under another name, and its inputs, too."""
    number = count()
    text = re.sub(
        r'"name":"\w+"', lambda _: f'"name":"thing{next(number)}"', to_json(program).decode()
    )
    return from_json(text.encode())


def _texts(program: Program) -> list[str]:
    found = kernel_sources(program, host(), 2, 4, (1,))
    return [one.native.text for source in found for _, one in inside(source.source)]
