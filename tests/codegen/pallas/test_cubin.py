"""Machine code for a GPU that is not there."""

from __future__ import annotations

import pytest

from aiosearch.codegen.lowering import lower
from aiosearch.codegen.pallas import choices, cubin, write
from aiosearch.codegen.pallas.cubin import Argument, CannotCompile, compiled, missing
from aiosearch.devices import device
from aiosearch.tensor import DType
from aiosearch.tensor.programs import builtin

H200 = device("H200")
wheels = pytest.mark.skipif(missing() is not None, reason=missing() or "")


async def test_without_the_wheels_a_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cubin, "_found", lambda name: False)
    with pytest.raises(CannotCompile, match="install aiosearch with the extra cuda-aot"):
        await compiled("", "f", [], H200)


@wheels
async def test_a_printed_module_becomes_machine_code_without_spills() -> None:
    module = lower(builtin("gated_mlp", DType.BF16))
    tilings = {kernel.name: choices(kernel, H200)[0] for kernel in module.kernels}
    given = [Argument(one.dtype, one.shape) for one in module.inputs]
    made = await compiled(write(module, tilings), module.name, given, H200)
    assert [one.name for one in made.kernels] == [one.name for one in module.kernels]
    assert all(not one.spilled_bytes and one.shared_bytes for one in made.kernels)


@wheels
async def test_what_the_compiler_says_is_passed_on() -> None:
    with pytest.raises(CannotCompile, match="nowhere"):
        await compiled("def f(): raise ValueError('nowhere')", "f", [], H200)
