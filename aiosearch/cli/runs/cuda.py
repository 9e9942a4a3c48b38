"""What `aiosearch cuda` does."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...cuda.checking import Spec, check, from_file, launch, read
from ...cuda.compiled import backend
from ...cuda.compiled.lowering import Lowered
from ...cuda.errors import CudaError
from ...cuda.fidelity import Fidelity, report
from ...cuda.interpreter.findings import Finding
from ...cuda.ir.text import printed
from ...cuda.modules import Module, load
from ..output.streams import UsageError, give, give_json

if TYPE_CHECKING:
    from ..commands.cuda import CudaArguments

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


def _specs(arguments: CudaArguments, module: Module) -> list[Spec]:
    specs = [read(each) for each in arguments.launch]
    if arguments.launches is not None:
        specs += from_file(Path(arguments.launches))
    if not specs:
        raise UsageError(
            f"say what to launch, as --launch 'kernel[grid, block](arguments)'; the kernels of"
            f" {arguments.file} are {', '.join(module.kernels) or 'none'}"
        )
    return specs


def _check(arguments: CudaArguments, module: Module) -> int:
    """Runs every launch; 1 where anything is wrong, 2 where one was not understood."""
    found: list[tuple[Spec, tuple[Finding, ...]]] = []
    refused: list[tuple[Spec, str]] = []
    for spec in _specs(arguments, module):
        try:
            found.append((spec, check(module, spec, arguments.seed)))
        except CudaError as error:
            refused.append((spec, str(error)))
    if arguments.json:
        give_json(_as_json(found, refused))
    else:
        for spec, findings in found:
            give(f"{spec.text}: {'clean' if not findings else f'{len(findings)} found'}")
            for finding in findings:
                give(f"  {finding}")
        for spec, reason in refused:
            give(f"{spec.text}: not understood: {reason}")
    if refused:
        return 2
    return int(any(findings for _, findings in found))


def _as_json(
    found: list[tuple[Spec, tuple[Finding, ...]]], refused: list[tuple[Spec, str]]
) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = [
        {"launch": spec.text, "findings": [_finding(each) for each in findings]}
        for spec, findings in found
    ]
    return [*listed, *({"launch": spec.text, "refused": reason} for spec, reason in refused)]


def _finding(finding: Finding) -> dict[str, Any]:
    other = finding.other
    return {
        "kind": str(finding.kind),
        "kernel": finding.kernel,
        "file": finding.at.file,
        "line": finding.at.line,
        "other": {"file": other.file, "line": other.line} if other.line else None,
        "count": finding.count,
        "message": finding.message,
    }


def _explain(arguments: CudaArguments, module: Module) -> int:
    parts = [each.strip() for each in arguments.show.split(",")]
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
            return backend.assembly(low.emitted.text)


def _fidelity(arguments: CudaArguments, module: Module) -> int:
    reports = {name: report(module.source, name) for name in module.kernels}
    if arguments.json:
        give_json({name: [asdict(each) for each in entries] for name, entries in reports.items()})
    else:
        for name, entries in reports.items():
            give(f"{name}:")
            for entry in entries:
                give(f"  {entry}")
    unsupported = any(
        each.fidelity is Fidelity.UNSUPPORTED for entries in reports.values() for each in entries
    )
    return 2 if unsupported else 0
