"""What XLA tunes on a GPU has the device for itself, and other processes find what it found."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from aiosearch.measure import Allowance, Candidate, Cause, Compiled, Failure, JaxExecutor
from aiosearch.measure.autotuning import is_tuned, share, shared_folder
from aiosearch.testing import no_leaks

ALLOWANCE = Allowance(compile_seconds=30, run_seconds=5, memory_mb=4096)


def recording(name: str, log: Path, more: str = "") -> Candidate:
    """One that writes down when it begins and ends to be compiled."""
    source = f"""
import os, time
log = open({str(log)!r}, "a", buffering=1)
print({name!r}, "begins", file=log)
{more}
print({name!r}, "ends", file=log)
def f():
    return 1.0
"""
    return Candidate(name, source, "f", ())


async def compiled(*candidates: Candidate) -> None:
    """With two workers, by an executor that takes this machine's processor for a GPU."""
    async with no_leaks(), JaxExecutor(allowance=ALLOWANCE, compilers=2) as executor:
        executor.platform = "cuda"
        found = await asyncio.gather(*map(executor.compile, candidates))
    assert all(isinstance(one, Compiled) for one in found), found


async def test_two_that_are_tuned_are_compiled_one_after_the_other(tmp_path: Path) -> None:
    log = tmp_path / "log"
    await compiled(*(recording(name, log, "time.sleep(0.2)") for name in "ab"))
    lines = log.read_text().split("\n")[:-1]
    first, second = lines[0][0], lines[2][0]
    assert lines == [f"{one} {what}" for one in (first, second) for what in ("begins", "ends")]


async def test_kernels_of_pallas_are_compiled_side_by_side(tmp_path: Path) -> None:
    """Each of these only ends when both have begun."""
    log = tmp_path / "log"
    waiting = f"while open({str(log)!r}).read().count('begins') < 2: time.sleep(0.01)"
    kernels = [recording(name, log, f"{waiting}  # pl.pallas_call(") for name in "ab"]
    assert not any(is_tuned(one.source) for one in kernels)
    await compiled(*kernels)


async def test_what_is_tuned_has_more_time_than_it_takes_to_compile() -> None:
    """Both take longer than compiling may, and only kernels of Pallas are ended for it."""
    source = "import time\ntime.sleep(1)\ndef f():\n    return 1.0\n"
    tuned = Candidate("tuned", source, "f", ())
    kernel = Candidate("kernel", f"{source}# pl.pallas_call(", "f", ())
    allowance = Allowance(compile_seconds=0.5, run_seconds=5, memory_mb=4096)
    async with no_leaks(), JaxExecutor(allowance=allowance, compilers=1) as executor:
        executor.platform = "cuda"
        assert isinstance(await executor.compile(tuned), Compiled)
        late = await executor.compile(kernel)
    assert isinstance(late, Failure)
    assert late.cause is Cause.HUNG


def test_xla_is_told_of_the_folder_unless_its_user_named_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--xla_gpu_autotune_level=4")
    with shared_folder() as folder:
        share(folder)
        flags = os.environ["XLA_FLAGS"]
        own = f"--xla_gpu_per_fusion_autotune_cache_dir={folder}"
        assert flags == f"--xla_gpu_autotune_level=4 {own}"
        share("elsewhere")
        assert os.environ["XLA_FLAGS"] == flags
    assert not Path(folder).exists()


async def test_all_processes_of_an_executor_share_one_folder(tmp_path: Path) -> None:
    """Each of the compilers waits for the other, so that both have been asked."""
    log = tmp_path / "log"
    source = f"""# pl.pallas_call(
import os, time
with open({str(log)!r}, "a") as log:
    print(os.environ["XLA_FLAGS"], file=log)
while open({str(log)!r}).read().count("\\n") < 2: time.sleep(0.01)
def f():
    return 1.0
"""
    executor = JaxExecutor(allowance=ALLOWANCE, compilers=2)
    executor.platform = "cuda"
    async with no_leaks(), executor:
        found = await asyncio.gather(
            *(executor.compile(Candidate(name, source, "f", ())) for name in "ab")
        )
    assert all(isinstance(one, Compiled) for one in found), found
    first, second = log.read_text().splitlines()
    assert "--xla_gpu_per_fusion_autotune_cache_dir=" in first
    assert first == second
