"""What XLA needs to compile for a GPU, and what it times while it does so.

It needs libdevice, and ptxas beside it: a part of a CUDA toolkit. jax finds both where CUDA_ROOT
says, or in NVIDIA's own wheels. Many machines have neither but have a toolkit in its usual folder,
or Triton's wheel, which carries a copy of both.

It times how to multiply matrices, and more. Two processes that tune at once, or one that tunes
while another is timed, spoil each other's figures, and `jax.jit` as a baseline would be slower than
users have it. So what is tuned has the device for itself; what XLA found is kept in a folder for
the other processes, and the time it takes has an allowance of its own.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

from ..folders import cache_folder, make_folder

LIBDEVICE = Path("nvvm", "libdevice", "libdevice.10.bc")
PTXAS = Path("bin", "ptxas")
LACKING = (
    "XLA compiles for a GPU with libdevice.10.bc of a CUDA toolkit, which is not found here: set"
    " CUDA_ROOT to a folder that has nvvm/libdevice/libdevice.10.bc, or install it with"
    " pip install nvidia-cuda-nvcc nvidia-nvvm"
)
HELD = (
    "if another process holds the GPU's memory, that is what lacks: jax takes three quarters of it"
    " unless XLA_PYTHON_CLIENT_PREALLOCATE=false is set before it is imported, also in the process"
    " that calls aiosearch"
)
LOST = (
    "if the GPU was there before, it was lost while it was used: nvidia-smi says whether it is"
    " there, and after an Xid error it has to be reset"
)
_LOST_TEXTS = ("CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA_ERROR_NO_DEVICE", "CUDA_ERROR_SYSTEM", "Xid")
_MEMORY_TEXTS = (
    "CUDA_ERROR_OUT_OF_MEMORY",
    "RESOURCE_EXHAUSTED: Out of memory",
)
_USUAL = ("/usr/local/cuda", "/opt/cuda")


def cuda_root() -> Path | None:
    """The folder of a toolkit that has libdevice: none where there is none."""
    return next((root for root in _roots() if (root / LIBDEVICE).exists()), None)


def use_toolkit() -> None:
    """Has jax and XLA use what there is, in this process; before anything is compiled.

    jax reads CUDA_ROOT when it is imported, and XLA its flags when it first compiles.
    """
    root = cuda_root() or _of_triton()
    if root is None:
        return
    os.environ["CUDA_ROOT"] = str(root)
    flags = os.environ.get("XLA_FLAGS", "")
    if "--xla_gpu_cuda_data_dir" not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} --xla_gpu_cuda_data_dir={root}".strip()


def explained(reason: str) -> str:
    """What XLA says, and how to help it where it lacks libdevice, memory or the GPU itself."""
    if "libdevice" in reason:
        return f"{reason} ({LACKING})"
    if any(text in reason for text in _MEMORY_TEXTS):
        return f"{reason} ({HELD})"
    if any(text in reason for text in _LOST_TEXTS):
        return f"{reason} ({LOST})"
    return reason


def _roots() -> Iterator[Path]:
    """Where a toolkit may be, the user's own word first."""
    if os.environ.get("CUDA_ROOT"):
        yield Path(os.environ["CUDA_ROOT"])
    for name in ("nvidia.cu13", "nvidia.cuda_nvcc"):
        yield from _package(name)
    yield from map(Path, _USUAL)
    yield from sorted(Path("/usr/local").glob("cuda-*"), reverse=True)
    if compiler := shutil.which("nvcc"):
        yield Path(compiler).resolve().parent.parent


def _of_triton() -> Path | None:
    """A folder of links into Triton's wheel, laid out as a toolkit is."""
    for package in _package("triton"):
        place = package / "backends" / "nvidia"
        library, assembler = place / "lib" / LIBDEVICE.name, place / PTXAS
        if library.exists():
            root = cache_folder() / "toolkit"
            with suppress(OSError):  # without a cache there is no such folder
                _link(root / LIBDEVICE, library)
                if assembler.exists():
                    _link(root / PTXAS, assembler)
                return root
    return None


def _link(place: Path, target: Path) -> None:
    """Makes a link in one step, over one that may be there."""
    if place.is_symlink() and place.readlink() == target:
        return
    make_folder(place.parent)
    new = place.with_name(f".{place.name}.{os.getpid()}")
    new.symlink_to(target)
    new.replace(place)


def _package(name: str) -> list[Path]:
    try:
        spec = find_spec(name)
    except (ModuleNotFoundError, ValueError):
        return []
    places = spec.submodule_search_locations if spec is not None else None
    return [Path(place) for place in places or ()]


SECONDS = 240.0
"""What tuning may take, beside compiling: some dozens of products, each in some dozens of ways."""


def is_tuned(source: str) -> bool:
    """Whether XLA tries several ways of running it: kernels of Pallas are compiled as written."""
    return "pallas_call(" not in source


@contextmanager
def shared_folder() -> Iterator[str]:
    """Where processes find what others have tuned; a folder of the same life as an executor."""
    with tempfile.TemporaryDirectory(prefix="aiosearch-tuned-", ignore_cleanup_errors=True) as path:
        yield path


def share(folder: str) -> None:
    """Has XLA look in the folder before it tunes; for this process, before anything is compiled."""
    flags = os.environ.get("XLA_FLAGS", "")
    if "--xla_gpu_per_fusion_autotune_cache_dir" not in flags:
        flag = f"--xla_gpu_per_fusion_autotune_cache_dir={folder}"
        os.environ["XLA_FLAGS"] = f"{flags} {flag}".strip()
