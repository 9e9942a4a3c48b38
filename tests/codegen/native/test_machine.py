"""What a processor can do."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from aiosearch.codegen.native import machine as machines
from aiosearch.codegen.native.machine import CpuMachine, host, masked, portable

AVX512 = "+avx512f,+avx512bw,+avx512dq,+avx512vl"
LARGE = CpuMachine("x86_64-linux-gnu", "large", f"+avx,+avx2,+fma,+f16c,{AVX512},+avx512bf16,-amx")


def test_widths() -> None:
    """The widest vectors are those for which everything needed is there."""
    assert LARGE.width == 64
    assert masked(LARGE, "avx512bw").width == 32
    assert masked(LARGE, "avx512").width == 32
    assert masked(LARGE, "avx").width == 16
    assert portable(LARGE).width == 16


def test_instructions() -> None:
    """Masking takes away what it names and nothing else."""
    assert LARGE.fma
    assert LARGE.f16c
    assert LARGE.bf16_dot
    without = masked(LARGE, "avx512")
    assert without.fma
    assert without.f16c
    assert not without.bf16_dot
    assert not masked(LARGE, "fma").fma
    assert not portable(LARGE).f16c


def test_registers() -> None:
    """The wider vectors come with more of them; processors of another kind have as many."""
    assert LARGE.registers == 32
    assert masked(LARGE, "avx512").registers == 16
    assert CpuMachine("aarch64-linux-gnu", "generic", "").registers == 32


def test_arm() -> None:
    """A processor of another kind has vectors of 16 bytes, and products and sums in one."""
    arm = CpuMachine("aarch64-linux-gnu", "neoverse-v2", "+neon,+fullfp16")
    assert arm.width == 16
    assert arm.fma
    assert arm.f16c
    assert not arm.bf16_dot
    assert portable(arm).name == "generic"


def test_which_code_runs_where() -> None:
    """Code runs where all is there that it was made for."""
    assert LARGE.runs(LARGE)
    assert LARGE.runs(masked(LARGE, "avx512"))
    assert LARGE.runs(portable(LARGE))
    assert not masked(LARGE, "avx512").runs(LARGE)
    assert not replace(LARGE, triple="aarch64-linux-gnu").runs(portable(LARGE))


def test_this_one() -> None:
    """The processor that the tests run on is known, with caches of its own."""
    assert host().runs(host())
    assert host().width in (16, 32, 64)
    assert 0 < host().l1 < host().l2


@pytest.mark.parametrize("allowed", [True, False])
def test_a_matrix_unit_is_there_where_the_system_keeps_its_tiles(
    monkeypatch: pytest.MonkeyPatch, allowed: bool
) -> None:
    """The processor alone does not say so, and everything else stays as it is."""
    features = LARGE.features.replace("-amx", "+amx-tile,+amx-bf16")
    found = SimpleNamespace(flatten=lambda: features)
    monkeypatch.setattr(machines.llvm, "get_host_cpu_features", lambda: found)
    monkeypatch.setattr(machines, "_supports_amx_state", lambda: allowed)
    one = machines.host.__wrapped__()
    assert one.bf16_matrix == allowed
    assert one.bf16_dot
    assert not masked(one, "amx").bf16_matrix
    assert not masked(one, "avx512").bf16_matrix
