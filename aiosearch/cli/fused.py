"""What a search of fused kernels came to, for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import msgspec

from ..superoptimizer.findings import Answer, Findings
from ..superoptimizer.formal import Reference
from ..superoptimizer.refereeing import Refereed
from ..tensor import Program
from ..tensor.files import to_json
from ..tensor.text import write
from .figures import of, size
from .following import Outcome, Wanted
from .tables import table

LOOP = "range"
UNPROVED = 5
"""Terms that are told one by one where z3 does not know."""


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


def text(outcome: Outcome) -> str:
    """The figures, a line for each program, and the best one whole."""
    findings = outcome.findings
    parts = [f"{signature(findings.reference)} on {findings.device.name}", _figures(outcome)]
    if findings.answers:
        best = min(findings.answers, key=lambda answer: bool(answer.doubt))
        parts += [_listed(findings), write(best.program).rstrip()]
        parts += [
            f"in floats, {number} may be wrong: {answer.doubt}"
            for number, answer in enumerate(findings.answers, 1)
            if answer.doubt
        ]
    parts += [f"not taken: {why}" for why in findings.refused]
    if findings.status == "complete" and not findings.graphs:
        parts.append(_advice(outcome))
    if outcome.refereed is not None:
        parts.append(_refereed(outcome.refereed))
    return "\n\n".join([*parts, seconds_text(outcome.seconds)])


def _advice(outcome: Outcome) -> str:
    ways = [f"--{limit.replace('_', '-')} {value}" for limit, value in outcome.raised]
    if not ways and outcome.undone:
        return "nothing equal is in this space; not all limits were tried higher"
    if not ways:
        return "nothing equal is in this space, nor where one limit is somewhat higher"
    return f"nothing equal is in this space; there is something with {' or with '.join(ways)}"


def _refereed(refereed: Refereed) -> str:
    counts = (
        f"z3 on {of(refereed.terms, 'term')}: {refereed.agree:,} values agree,"
        f" {refereed.unknown:,} unknown, {len(refereed.denied):,} denied"
    )
    if refereed.left:
        counts += f"; interrupted: {of(refereed.left, 'term')} of these not asked about"
    rows = [counts, *(f"  denied: {term}" for term in refereed.denied)]
    shown = [f"  unknown: {term}" for term in refereed.unproved[:UNPROVED]]
    more = len(refereed.unproved) - len(shown)
    return "\n".join([*rows, *shown, *([f"  and {more} more unknown"] if more else [])])


def _figures(outcome: Outcome) -> str:
    findings = outcome.findings
    sizes = findings.sizes
    rows = [
        *_searched(findings),
        *(("interrupted", f"not done: {what}, and those after it") for what in outcome.undone),
        ("tables", f"{of(sizes['classes'], 'value')}, {of(sizes['steps'], 'step')} between them"),
        *(
            ("" if number else "pruned", f"{count:,} {reason}")
            for number, (reason, count) in enumerate(findings.pruned.most_common())
        ),
    ]
    return table(rows)


def _searched(findings: Findings) -> list[tuple[str, str]]:
    graphs = of(findings.graphs, "kernel graph")
    if findings.cut is None:
        return [
            ("search", findings.status),
            ("found", f"{of(findings.programs, 'program')} on {graphs}"),
        ]
    nodes, pruned = of(findings.cut.nodes, "state"), findings.cut.pruned
    return [
        ("search", f"{findings.status} under the cost model"),
        ("found", f"{graphs}, each better than the ones before"),
        ("visited", f"{nodes}; {pruned:,} more cannot lead to anything better"),
    ]


def _listed(findings: Findings) -> str:
    rows = [("", "predicted", "traffic", "launches", "programs", "evidence", "kernels")]
    for number, answer in enumerate(findings.answers, 1):
        prediction = answer.ranked.filling.prediction
        rows.append(
            (
                str(number),
                f"{prediction.seconds * 1e6:.2f} us",
                size(prediction.device_bytes),
                str(prediction.launches),
                f"{answer.ranked.programs:,}",
                answer.verdict.summary()[0] + (", but see below" if answer.doubt else ""),
                ", ".join(_kernels(answer, findings)),
            )
        )
    return table(rows, right=frozenset(range(5)))


def _kernels(answer: Answer, findings: Findings) -> Iterator[str]:
    """What runs one after the other; of fused kernels, how often something is split."""
    tables = findings.problem.tables
    sizes = answer.ranked.filling.sizes
    for place, kernel in enumerate(answer.ranked.built.kernels):
        if kernel.step >= 0:
            (tensor,) = kernel.tensors
            yield tables.steps[tensor][kernel.step].operator
            continue
        cuts = {name: sizes.get(f"{name}{place}", 1) for name in (*tables.reference.labels, LOOP)}
        split = " ".join(f"{name}/{cut}" for name, cut in cuts.items() if cut > 1)
        yield f"fused[{split}]"


def seconds_text(seconds: Mapping[str, float]) -> str:
    """CPU seconds, all and by what was done."""
    parts = ", ".join(f"{what} {taken:.2f}" for what, taken in seconds.items())
    return f"CPU seconds: {sum(seconds.values()):.2f}, of them {parts}"


def facts(outcome: Outcome, drawn: Sequence[str]) -> dict[str, Any]:
    """Everything as data."""
    findings, seconds = outcome.findings, outcome.seconds
    return {
        "program": json.loads(to_json(findings.reference)),
        "device": findings.device.name,
        "space": msgspec.to_builtins(findings.problem.space),
        "status": findings.status,
        "kernel_graphs": findings.graphs,
        "programs": findings.programs,
        "cut": None if findings.cut is None else asdict(findings.cut),
        "tables": findings.sizes,
        "pruned": dict(findings.pruned.most_common()),
        "answers": [_answer(one) for one in findings.answers],
        "refused": findings.refused,
        "undone": outcome.undone,
        "raise": dict(outcome.raised),
        "referee": msgspec.to_builtins(outcome.refereed),
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
        "doubt": answer.doubt,
        "text": write(answer.program),
        "program": json.loads(to_json(answer.program)),
    }
