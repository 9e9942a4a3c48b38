"""XLA is shown where libdevice lies, or its user is told how to get it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from aiosearch.measure import toolkit
from aiosearch.measure.toolkit import (
    HELD,
    LACKING,
    LIBDEVICE,
    LOST,
    PTXAS,
    cuda_root,
    explained,
    use_toolkit,
)


@pytest.fixture(autouse=True)
def nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No toolkit anywhere, and an empty cache."""
    monkeypatch.setattr(toolkit, "_USUAL", ())
    monkeypatch.setattr(toolkit, "_package", lambda name: [])
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
    monkeypatch.setattr(toolkit, "_USUAL", (str(usual),))
    assert cuda_root() == usual
    monkeypatch.setenv("CUDA_ROOT", str(own))
    assert cuda_root() == own


def test_a_toolkit_in_its_usual_folder_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / LIBDEVICE)
    monkeypatch.setattr(toolkit, "_USUAL", (str(tmp_path),))
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
    monkeypatch.setattr(toolkit, "_package", lambda name: packages.get(name, []))
    for _ in range(2):  # a second process finds the links there
        use_toolkit()
        root = Path(os.environ.pop("CUDA_ROOT"))
        assert (root / LIBDEVICE).resolve() == library
        assert (root / PTXAS).resolve() == assembler


def test_it_is_read_without_jax() -> None:
    text = "import sys, aiosearch.measure.toolkit; print('jax' in sys.modules)"
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
