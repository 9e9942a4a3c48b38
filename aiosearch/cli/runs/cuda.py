"""What `aiosearch cuda` does."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from ...cuda.checker import Spec, check, from_file, launch, read
from ...cuda.compiled import backend
from ...cuda.compiled.lowering import Lowered
from ...cuda.errors import CudaError
from ...cuda.fidelity import Entry, Fidelity, report
from ...cuda.interpreter.findings import KernelFault
from ...cuda.ir.text import printed
from ...cuda.modules import CudaModule, load
from ...documents import Document
from ..output.streams import UsageError, complain, give, give_json

if TYPE_CHECKING:
    from ..commands.cuda import CudaArguments

_MANY_THREADS = 1 << 20
_SHOWN = ("before", "after", "reasons", "llvm", "assembly")


def run(arguments: CudaArguments) -> int:
    """Does one of the actions; gives the exit code."""
    module = load(Path(arguments.file), defines=arguments.define, include=arguments.include)
    match arguments.action:
        case "check":
            return _check(arguments, module)
        case "explain":
            return _explain(arguments, module)
        case _:
            return _fidelity(arguments, module)


def _specs(arguments: CudaArguments, module: CudaModule) -> list[Spec]:
    specs = [read(item) for item in arguments.launch]
    if arguments.launches is not None:
        specs += from_file(Path(arguments.launches))
    if not specs:
        raise UsageError(
            f"say what to launch, as --launch 'kernel[grid, block](arguments)'; the kernels of"
            f" {arguments.file} are {', '.join(module.kernels) or 'none'}"
        )
    return specs


def _check(arguments: CudaArguments, module: CudaModule) -> int:
    """Runs every launch; 1 where anything is wrong, 2 where one was not understood."""
    collected: list[tuple[Spec, tuple[KernelFault, ...]]] = []
    refused: list[tuple[Spec, str]] = []
    for spec in _specs(arguments, module):
        try:
            if not arguments.compiled:
                _announce_long(module, spec)
            collected.append(
                (spec, check(module, spec, arguments.seed, compiled=arguments.compiled))
            )
        except CudaError as error:
            refused.append((spec, str(error)))
    if arguments.json:
        give_json(_as_json(collected, refused))
    else:
        for spec, findings in collected:
            give(f"{spec.text}: {'clean' if not findings else f'{len(findings)} found'}")
            for finding in findings:
                give(f"  {finding}")
        for spec, reason in refused:
            give(f"{spec.text}: not understood: {reason}")
    if refused:
        return 2
    return int(any(findings for _, findings in collected))


def _announce_long(module: CudaModule, spec: Spec) -> None:
    """Says of a large grid that the interpreter is slow, before it runs for minutes."""
    shape = launch(module, spec)
    threads = math.prod(shape.grid) * math.prod(shape.block)
    if threads >= _MANY_THREADS:
        complain(
            f"{spec.text} has {threads} threads, which the interpreter steps through at some tens"
            " of millions of operations a second: --compiled is for such grids, and a few blocks"
            " show most faults"
        )


def _as_json(
    collected: list[tuple[Spec, tuple[KernelFault, ...]]], refused: list[tuple[Spec, str]]
) -> list[Document]:
    listed: list[Document] = [
        {"launch": spec.text, "findings": [_finding(item) for item in findings]}
        for spec, findings in collected
    ]
    return [*listed, *({"launch": spec.text, "refused": reason} for spec, reason in refused)]


def _finding(finding: KernelFault) -> Document:
    second = finding.related
    return {
        "kind": str(finding.kind),
        "kernel": finding.kernel,
        "file": finding.at.file,
        "line": finding.at.line,
        "other": {"file": second.file, "line": second.line} if second.line else None,
        "count": finding.count,
        "message": finding.message,
    }


def _explain(arguments: CudaArguments, module: CudaModule) -> int:
    parts = [item.strip() for item in arguments.show.split(",")]
    for part in parts:
        if part not in _SHOWN:
            raise UsageError(f"{part} cannot be shown; --show takes {', '.join(_SHOWN)}")
    for spec in _specs(arguments, module):
        low = launch(module, spec).lower()
        for part in parts:
            give(_text(low, part).rstrip())
    return 0


def _text(low: Lowered, part: str) -> str:
    match part:
        case "before":
            return printed(low.before)
        case "after":
            return printed(low.after)
        case "reasons":
            return "\n".join(low.reasons())
        case "llvm":
            return low.emitted.text
        case _:
            return backend.assembly(low.emitted.text, alone=low.grouping.threads == 1)


def _fidelity(arguments: CudaArguments, module: CudaModule) -> int:
    module.source.require_kernels()
    reports: dict[str, tuple[Entry, ...]] = {}
    refused: dict[str, str] = {}
    for name in module.kernels:
        try:
            reports[name] = report(module.source, name)
        except CudaError as error:
            refused[name] = str(error)
    if arguments.json:
        listed: dict[str, list[Document]] = {
            name: [asdict(item) for item in entries] for name, entries in reports.items()
        }
        give_json({**listed, **{name: {"refused": why} for name, why in refused.items()}})
    else:
        for name in module.kernels:
            give(f"{name}: not understood: {refused[name]}" if name in refused else f"{name}:")
            for entry in reports.get(name, ()):
                give(f"  {entry}")
    unsupported = any(
        item.fidelity is Fidelity.UNSUPPORTED for entries in reports.values() for item in entries
    )
    return 2 if unsupported or refused else 0
