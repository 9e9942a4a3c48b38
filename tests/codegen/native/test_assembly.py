"""Assembly, and what is counted in it."""

from __future__ import annotations

import pytest
from testkit.kernels.llvm_texts import adding, crowded, reversing

from aiosearch.codegen.native.assembly import assembly_text, instruction_counts
from aiosearch.codegen.native.machine import host, masked, portable
from aiosearch.tensor.types import DType

x86 = pytest.mark.skipif(host().is_arm, reason="counts x86's registers")


def test_small_kernels_fit() -> None:
    """A kernel with few values spills nothing, and each phase is counted."""
    found = instruction_counts(assembly_text(reversing(100), host()))
    assert [each.function for each in found] == ["reversing.0", "reversing.1"]
    assert all(each.spills == each.reloads == 0 and each.vector_registers for each in found)
    assert all(5 < each.instructions < 40 for each in found)


@x86
def test_crowded_kernels_spill() -> None:
    """Values for which there is no register are counted as they are put away and fetched."""
    (fits,) = instruction_counts(assembly_text(crowded(8), portable(host())))
    (spills,) = instruction_counts(assembly_text(crowded(24), portable(host())))
    assert (fits.spills, fits.reloads) == (0, 0)
    assert spills.vector_registers == 16
    assert spills.spills >= 8
    assert spills.reloads >= 8


@x86
def test_features_show() -> None:
    """The assembly is that for the processor that it was asked for."""
    for machine in (portable(host()), masked(host(), "avx512"), host()):
        assert ("\tvmulps" in assembly_text(crowded(8), machine)) == machine.has("avx")


def test_the_handler_is_left_out() -> None:
    """What calls the kernel is the same everywhere, and not shown."""
    assert "pthread" not in assembly_text(adding(DType.F32, 3), host())


def test_in_words() -> None:
    """Figures read as a line."""
    (found,) = instruction_counts(assembly_text(adding(DType.F32, 3), host()))
    assert str(found).startswith("adding.0: ")
    assert str(found).endswith(" vector registers, 0 spills, 0 reloads")
