"""XLA is shown where libdevice lies, or its user is told how to get it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from aiosearch.measure import (
    Allowance,
    Candidate,
    Cause,
    Compiled,
    Failure,
    JaxExecutor,
    gpu_compilation,
)
from aiosearch.measure.gpu_compilation import (
    HELD,
    LACKING,
    LIBDEVICE,
    LOST,
    PTXAS,
    cuda_root,
    explained,
    is_tuned,
    share,
    shared_folder,
    use_toolkit,
)
from aiosearch.testing import no_leaks


@pytest.fixture(autouse=True)
def nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No toolkit anywhere, and an empty cache."""
    monkeypatch.setattr(gpu_compilation, "_USUAL", ())
    monkeypatch.setattr(gpu_compilation, "_package", lambda name: [])
    monkeypatch.setattr(Path, "glob", lambda *_: iter(()))
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XLA_FLAGS", "--xla_gpu_autotune_level=0")
    monkeypatch.delenv("CUDA_ROOT", raising=False)


def write(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"of this file")
    return path


def test_where_there_is_none_nothing_is_set_and_a_sentence_says_what_to_do() -> None:
    use_toolkit()
    assert "CUDA_ROOT" not in os.environ
    assert os.environ["XLA_FLAGS"] == "--xla_gpu_autotune_level=0"
    assert explained("libdevice not found at ./libdevice.10.bc").endswith(f"({LACKING})")
    assert explained("out of memory") == "out of memory"


def test_the_users_own_word_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual, own = tmp_path / "usual", tmp_path / "own"
    for root in (usual, own):
        write(root / LIBDEVICE)
    monkeypatch.setattr(gpu_compilation, "_USUAL", (str(usual),))
    assert cuda_root() == usual
    monkeypatch.setenv("CUDA_ROOT", str(own))
    assert cuda_root() == own


def test_a_toolkit_in_its_usual_folder_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / LIBDEVICE)
    monkeypatch.setattr(gpu_compilation, "_USUAL", (str(tmp_path),))
    use_toolkit()
    assert os.environ["CUDA_ROOT"] == str(tmp_path)
    flags = os.environ["XLA_FLAGS"].split()
    assert flags == ["--xla_gpu_autotune_level=0", f"--xla_gpu_cuda_data_dir={tmp_path}"]


def test_the_copy_in_tritons_wheel_is_laid_out_as_a_toolkit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "triton" / "backends" / "nvidia"
    library, assembler = write(own / "lib" / LIBDEVICE.name), write(own / PTXAS)
    packages = {"triton": [tmp_path / "triton"]}
    monkeypatch.setattr(gpu_compilation, "_package", lambda name: packages.get(name, []))
    for _ in range(2):  # a second process finds the links there
        use_toolkit()
        root = Path(os.environ.pop("CUDA_ROOT"))
        assert (root / LIBDEVICE).resolve() == library
        assert (root / PTXAS).resolve() == assembler


def test_it_is_read_without_jax() -> None:
    text = "import sys, aiosearch.measure.gpu_compilation; print('jax' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "False"


@pytest.mark.parametrize(("platform", "used"), [("cuda", True), ("cpu", False)])
def test_a_process_that_compiles_for_a_gpu_uses_it(
    platform: str, used: bool, tmp_path: Path
) -> None:
    write(tmp_path / LIBDEVICE)
    text = f"""
import os
from aiosearch.measure.worker.request_loop import _prepare_environment
_prepare_environment({platform!r})
print(os.environ["XLA_FLAGS"])
"""
    environment = {**os.environ, "CUDA_ROOT": str(tmp_path)}
    said = subprocess.run(
        [sys.executable, "-c", text], env=environment, capture_output=True, text=True, check=True
    )
    assert (f"--xla_gpu_cuda_data_dir={tmp_path}" in said.stdout) is used


def test_memory_that_another_process_holds_is_explained() -> None:
    """As a process says that starts beside one which jax gave three quarters of the memory."""
    said = "JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 4 bytes."
    assert explained(said) == f"{said} ({HELD})"
    assert "XLA_PYTHON_CLIENT_PREALLOCATE=false" in HELD
    shared = "JaxRuntimeError: RESOURCE_EXHAUSTED: Shared memory size limit exceeded"
    assert explained(shared) == shared


def test_a_gpu_that_is_lost_is_explained() -> None:
    said = "JaxRuntimeError: INTERNAL: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected"
    assert explained(said) == f"{said} ({LOST})"


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
