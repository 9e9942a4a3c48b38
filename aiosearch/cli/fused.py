"""What a search of fused kernels came to, for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ..superoptimizer.findings import Answer, Findings
from ..superoptimizer.formal import Reference
from ..tensor import Program
from ..tensor.files import to_json
from ..tensor.text import write
from .figures import of, size
from .following import Wanted
from .output import table


def space_text(reference: Reference, wanted: Wanted) -> str:
    """The declared space of a program."""
    labels = zip(reference.labels, reference.sizes, strict=True)
    rows = [
        ("program", signature(wanted.program)),
        ("operators", operators(wanted.program)),
        ("axes", ", ".join(f"{label} {size:,}" for label, size in labels)),
        ("device", wanted.device.name),
        ("", ""),
        *wanted.space.lines(),
    ]
    return table(rows)


def space_facts(reference: Reference, wanted: Wanted) -> dict[str, Any]:
    """The same as data."""
    return {
        "program": json.loads(to_json(wanted.program)),
        "axes": dict(zip(reference.labels, reference.sizes, strict=True)),
        "device": wanted.device.name,
        "space": msgspec.to_builtins(wanted.space),
        "lines": dict(wanted.space.lines()),
    }


def signature(program: Program) -> str:
    """Its name and inputs."""
    inputs = (f"{one.parameter('name')} {one.type}" for one in program.inputs)
    return f"{program.name}({', '.join(inputs)})"


def operators(program: Program) -> str:
    """What it applies, in order."""
    names = [term.operator.name for term in program.terms() if term.arguments]
    return f"{len(names)}: {', '.join(names)}"


def text(findings: Findings, seconds: Mapping[str, float]) -> str:
    """The figures, a line for each program, and the best one whole."""
    parts = [f"{signature(findings.reference)} on {findings.device.name}", _figures(findings)]
    if findings.answers:
        parts += [_listed(findings.answers), write(findings.answers[0].program).rstrip()]
    parts += [f"not taken: {why}" for why in findings.refused]
    parts.append(_seconds(seconds))
    return "\n\n".join(parts)


def _figures(findings: Findings) -> str:
    sizes = findings.sizes
    rows = [
        ("search", findings.status),
        ("found", f"{of(findings.programs, 'program')} on {of(findings.graphs, 'kernel graph')}"),
        ("tables", f"{of(sizes['classes'], 'value')}, {of(sizes['steps'], 'step')} between them"),
        *(
            ("" if number else "pruned", f"{count:,} {reason}")
            for number, (reason, count) in enumerate(findings.pruned.most_common())
        ),
    ]
    return table(rows)


def _listed(answers: Sequence[Answer]) -> str:
    rows = [("", "predicted", "traffic", "launches", "programs", "evidence", "numbers")]
    for number, answer in enumerate(answers, 1):
        prediction = answer.ranked.filling.prediction
        rows.append(
            (
                str(number),
                f"{prediction.seconds * 1e6:.2f} us",
                size(prediction.device_bytes),
                str(prediction.launches),
                f"{answer.ranked.programs:,}",
                answer.verdict.summary()[0],
                " ".join(f"{name}={n}" for name, n in answer.ranked.filling.sizes.items()),
            )
        )
    return table(rows, right=frozenset(range(5)))


def _seconds(seconds: Mapping[str, float]) -> str:
    parts = ", ".join(f"{what} {taken:.2f}" for what, taken in seconds.items())
    return f"CPU seconds: {sum(seconds.values()):.2f}, of them {parts}"


def facts(findings: Findings, seconds: Mapping[str, float], drawn: Sequence[str]) -> dict[str, Any]:
    """Everything as data."""
    return {
        "program": json.loads(to_json(findings.reference)),
        "device": findings.device.name,
        "space": msgspec.to_builtins(findings.problem.space),
        "status": findings.status,
        "kernel_graphs": findings.graphs,
        "programs": findings.programs,
        "tables": findings.sizes,
        "pruned": dict(findings.pruned.most_common()),
        "answers": [_answer(one) for one in findings.answers],
        "refused": findings.refused,
        "drawings": drawn,
        "cpu_seconds": {**seconds, "all": sum(seconds.values())},
    }


def _answer(answer: Answer) -> dict[str, Any]:
    filling = answer.ranked.filling
    return {
        "predicted": msgspec.to_builtins(filling.prediction),
        "sizes": filling.sizes,
        "programs": answer.ranked.programs,
        "evidence": answer.verdict.to_dict(),
        "text": write(answer.program),
        "program": json.loads(to_json(answer.program)),
    }
