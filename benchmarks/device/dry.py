"""The sitecustomize of a dry run: what is called cuda is this machine's CPU.

Kernels of Pallas are interpreted. Plumbing, imports, paths and flags are proved, and no figure is.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any


def _jax(module: Any) -> None:
    devices = module.devices
    module.devices = lambda backend=None: devices("cpu" if backend in ("cuda", "gpu") else backend)


def _device_kind(module: Any) -> None:
    module.platform = lambda target, places=(): "cuda" if target != "cpu" else "cpu"
    module.described_gpu = lambda: "H100"
    module.device_kind = lambda target: f"{target}: dry"


def _printer(module: Any) -> None:
    write = module.write

    def interpreted(*arguments: Any, **named: Any) -> str:
        text: str = write(*arguments, **named)
        return text.replace("interpret=False)", "interpret=True)")

    module.write = interpreted


def _request_loop(module: Any) -> None:
    prepare = module._prepare_environment
    module._prepare_environment = lambda platform: prepare("cpu")


PATCHES: Mapping[str, Callable[[Any], None]] = {
    "jax": _jax,
    "aiosearch.optimizer.device_kind": _device_kind,
    "aiosearch.measure.worker.request_loop": _request_loop,
    "aiosearch.codegen.pallas.printer.module": _printer,
}


class PatchingFinder(importlib.abc.MetaPathFinder):
    """Finds the modules above as usual, and patches each once it has run."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in PATCHES:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return None
        run = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            run(module)
            PATCHES[name](module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]  # of this spec alone
        return spec


sys.meta_path.insert(0, PatchingFinder())
