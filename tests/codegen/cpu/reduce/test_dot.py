"""Products of half-typed neighbours, as instructions."""

from __future__ import annotations

import re

import pytest
from testkit.kernels.error_bounds import assert_right
from testkit.kernels.native_run import program

from aiosearch.codegen.cpu.emit.kernel import print_module
from aiosearch.codegen.cpu.packing import PackedLayout
from aiosearch.codegen.cpu.register_layout import RegisterRequest
from aiosearch.codegen.cpu.schedule import Schedule
from aiosearch.codegen.lower.lowering import lower
from aiosearch.codegen.native.assembly import assembly_text
from aiosearch.codegen.native.machine import CpuMachine, host
from aiosearch.tensor import DType, tensor

ROWS = 16
FEATURES = "+avx,+avx2,+fma,+f16c,+avx512f,+avx512bw,+avx512dq,+avx512vl,+avx512bf16"
SPREADING = re.compile(r"vdpbf16ps\s+-?\w*\([^)]*\)\{1to16\}")


@pytest.mark.parametrize("name", ["znver4", "znver5", "sapphirerapids"])
def test_a_word_that_meets_one_vector_is_spread_by_the_product(name: str) -> None:
    """No instruction of its own spreads it, which on some processors costs as much as a product."""
    inputs = tensor("X", DType.BF16, (ROWS, 64)), tensor("Y", DType.BF16, (64, 48))
    module = lower(program(inputs[0] @ inputs[1]))
    schedules = {
        "program": Schedule(
            registers=RegisterRequest(ROWS, 1, 1), layouts={"Y": PackedLayout(0, 1, 16, True)}
        )
    }
    machine = CpuMachine("x86_64-unknown-linux-gnu", name, FEATURES)
    text = assembly_text(print_module(module, schedules, machine), machine)
    products = [line for line in text.splitlines() if "vdpbf16ps" in line]
    assert len(products) >= ROWS
    assert all(map(SPREADING.search, products)), text
    assert_right(module, schedules=schedules, machines=[host()])
