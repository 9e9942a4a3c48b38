"""The shape of the house: public names, light imports, and arrows that point one way."""

from __future__ import annotations

import ast
import graphlib
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import aiosearch
from aiosearch.tensor.programs import BUILTINS

PACKAGE = Path(aiosearch.__file__).parent
HEAVY = ("jax", "z3", "numpy", "rich", "ray", "sqlite3")

ALLOWED = {
    "errors": set(),
    "arguments": {"errors"},
    "limits": {"errors"},
    "memory": set(),
    "problem": set(),
    "processes": set(),
    "orders": {"errors", "problem"},
    "events": set(),
    "display": {"errors", "events", "folders", "plain"},
    "strategies": {"errors", "_lazy"},
    "folders": set(),
    "documents": set(),
    "database": {"folders"},
    "checks": {"errors", "problem", "processes", "_lazy", "folders", "database"},
    "workloads": {"_lazy", "devices", "lab", "problem", "superoptimizer", "tensor"},
    "tensor": {"documents", "errors"},
    "equivalence": {"_lazy", "documents", "errors", "tensor"},
    "capture": {"_lazy", "errors", "tensor"},
    "devices": {"errors", "measure", "tensor"},
    "codegen": {
        "_lazy", "devices", "errors", "folders", "measure", "memory", "processes", "tensor",
    },
    "optimizer": {
        "_blocking", "_lazy", "arguments", "capture", "codegen",
        "database", "display",
        "devices", "equivalence", "errors", "folders", "limits", "mapper", "measure", "memory",
        "orders", "pool", "problem", "processes", "search", "superoptimizer", "tensor",
    },
    "superoptimizer": {
        "_lazy", "checks", "devices", "equivalence", "errors", "events", "lab", "limits", "measure",
        "orders", "problem", "search", "tensor",
    },
    "cuda": {
        "_lazy", "codegen", "errors", "folders", "measure", "processes", "tensor", "tuner",
    },
    "mapper": {
        "_lazy", "arguments", "capture", "documents", "equivalence", "errors", "folders", "limits",
        "memory", "pool", "processes", "remote", "search",
    },
    "recording": {"_lazy", "lab"},
    "tuner": {
        "_blocking", "_lazy", "arguments", "capture", "codegen", "database", "devices",
        "equivalence", "errors", "folders", "measure", "optimizer", "pool", "tensor", "__version__",
    },
    "measure": {"_blocking", "_lazy", "errors", "folders", "memory", "pool", "processes"},
    "lab": {
        "_blocking", "_lazy", "checks", "display", "engine", "errors", "limits", "orders", "pool",
        "problem",
        "processes", "remote", "result", "search", "statistics", "strategies", "superoptimizer",
        "tensor", "testing", "workloads", "__version__",
    },
    "engine": {
        "_lazy", "checks", "documents", "errors", "events", "limits", "memory", "orders", "pool",
        "problem",
        "processes", "result", "statistics", "strategies", "__version__",
    },
}  # fmt: skip
"""What each part of the package may import from the others.

`superoptimizer` and `workloads` give some public names that are in `lab` now, when they are used.
"""


@pytest.mark.parametrize(
    "name",
    [
        "aiosearch",
        "aiosearch.checks",
        "aiosearch.strategies",
        "aiosearch.tensor",
        "aiosearch.equivalence",
        "aiosearch.measure",
        "aiosearch.recording",
        "aiosearch.optimizer",
        "aiosearch.superoptimizer",
        "aiosearch.mapper",
        "aiosearch.tuner",
    ],
)
def test_all_is_sorted_and_true(name: str) -> None:
    """Every public name is there, and listed once, in order."""
    module = importlib.import_module(name)
    assert module.__all__ == sorted(module.__all__, key=_as_ruff_sorts)
    for public in module.__all__:
        assert getattr(module, public) is not None


def _as_ruff_sorts(name: str) -> tuple[int, str]:
    """Constants, then classes, then the rest."""
    return (0 if name.isupper() else 1 if name[:1].isupper() else 2), name


@pytest.mark.parametrize(
    "statement", ["import aiosearch", "import aiosearch.engine.worker.worker_main"]
)
def test_imports_are_light(statement: str) -> None:
    """A program that only imports aiosearch pays for nothing that it does not use."""
    script = f"import sys; {statement}; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not set(HEAVY) & set(loaded)
    assert "asyncio" not in loaded


@pytest.mark.parametrize("package", ["aiosearch.tensor", "aiosearch.equivalence.judging"])
def test_programs_are_judged_without_jax(package: str) -> None:
    """Numbers need NumPy; neither jax nor z3 is loaded before something asks for it."""
    script = f"import sys, {package}; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"jax", "z3", "aiosearch.engine"} & set(loaded)


@pytest.mark.parametrize("part", sorted(ALLOWED))
def test_arrows_point_one_way(part: str) -> None:
    """Each part knows those below it only; engine and checks know nothing of tensors."""
    folder = PACKAGE / part
    files = sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]
    for file in files:
        for imported in _imports(file):
            assert imported in ALLOWED[part] | {part}, f"{file.name} imports {imported}"


def test_packages_import_each_other_in_no_circle() -> None:
    """At run time: what type checkers alone read, and what a function imports, is left out."""
    imports: dict[str, set[str]] = {}
    for file in PACKAGE.rglob("*.py"):
        part = file.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if part not in ("__init__", "__main__"):
            imports.setdefault(part, set()).update(_run_time_imports(file) - {part, "__version__"})
    assert len(imports) > 30
    graphlib.TopologicalSorter(imports).prepare()  # raises CycleError, with the circle


def _run_time_imports(file: Path) -> set[str]:
    depth = len(file.relative_to(PACKAGE).parts)
    return {
        name.partition(".")[0]
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.ImportFrom) and node.level == depth
        for name in ([node.module] if node.module else [alias.name for alias in node.names])
    }


FACADES = (
    "codegen.cpu", "codegen.pallas", "codegen.native", "equivalence", "equivalence.finite_field",
    "optimizer", "superoptimizer",
)  # fmt: skip
"""Packages of which others import what `__init__` exports, and not the modules behind it."""
BEHIND = {
    "codegen.native.carrying": "sources of kernels import it by this path",
    "codegen.native.llvm_library": "tests say for a while that LLVM is not there",
    "codegen.pallas.dialect": "what is of one version of jax is asked for by its name",
}
"""Modules behind a facade that others import all the same, and why."""
LLVM_OF_CUDA = "cuda.compiled.backend"
"""Where kernels in CUDA meet LLVM, as `codegen` does: it compiles and keeps objects by itself."""


@pytest.mark.parametrize("facade", FACADES)
def test_nobody_reaches_behind_a_facade(facade: str) -> None:
    """Parts of one package, as of `codegen`, may know each other's modules."""
    home = facade.split(".")[0]
    for file in PACKAGE.rglob("*.py"):
        module = ".".join(file.relative_to(PACKAGE).with_suffix("").parts)
        if not module.startswith((f"{home}.", LLVM_OF_CUDA)):
            for imported in _modules(file):
                behind = imported.startswith(f"{facade}.") and imported not in (*BEHIND, *FACADES)
                assert not behind, (
                    f"{module} imports aiosearch.{imported}, which is behind {facade}"
                )


def _modules(file: Path) -> set[str]:
    """The modules of aiosearch that a file imports from, without `aiosearch.`."""
    package = file.relative_to(PACKAGE).parts[:-1]
    modules = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - (node.level - 1)]
            module = ".".join([*base, *([node.module] if node.module else [])])
            modules |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
    return {module for module in modules if _is_module(module)}


def _is_module(name: str) -> bool:
    """Whether `name`, without `aiosearch.`, is a module and not something in one."""
    path = PACKAGE.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").exists()


def _imports(file: Path) -> set[str]:
    """The parts of aiosearch that a file imports."""
    depth = len(file.relative_to(PACKAGE).parts)
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == depth:
            names = [node.module] if node.module else [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("aiosearch."):
            names = [(node.module or "").removeprefix("aiosearch.")]
        else:
            continue
        found |= {name.split(".")[0] for name in names if name}
    return found


def test_code_is_written_of_any_program() -> None:
    """Nothing where kernels are made knows a program by its name, or those that come with us."""
    for file in (PACKAGE / "codegen").rglob("*.py"):
        tree = ast.parse(file.read_text())
        words = {word for one in ast.walk(tree) for word in _said(one)}
        assert words.isdisjoint({*BUILTINS, "builtin", "programs"}), file


def _said(node: ast.AST) -> list[str]:
    """The names and short texts that code works with, and the modules that it imports."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
            return [name]
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.alias(name=name):
            return name.split(".")
        case ast.ImportFrom(module=str(name)) | ast.keyword(arg=str(name)):
            return name.split(".")
        case ast.Constant(value=str(text)):
            return [text]
    return []


def test_plugins_use_public_names_only() -> None:
    """A plugin imports what a third party could."""
    for file in (PACKAGE.parent / "plugins").rglob("*.py"):
        for imported in _imports_absolute(file):
            private = "engine" in imported.split(".") or "._" in imported
            assert not private, f"{file} imports {imported}"


def _imports_absolute(file: Path) -> set[str]:
    return {
        node.module
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("aiosearch.")
    }
