"""The roofline of a program: how near it comes to the arithmetic and bandwidth limits of its
device.

Example: 134 MFLOP and 8.4 MB in 0.5 ms on a device of 1 TFLOP/s and 20 GB/s: moving takes 0.42 ms
at best, computing 0.13, so that `roofline_fraction` is 0.84.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...measure import Ceilings, stored_ceilings
from ...measure.processor import cpu_kind
from ...tensor import DType, Program
from ...tensor.analysis.cost import cost
from ...tensor.terms import bytes_of
from ...tensor.text import parse
from .answer import Answer
from .evidence import Evidence

_MEASURED = {DType.BF16: "bfloat16", DType.F16: "bfloat16", DType.F64: "float64"}
"""Under which name `Ceilings` has the operations of a type; all others are float32's.

Those of float64 are not measured: nothing is said of how near a program with them comes.
"""


def work(program: Program) -> Evidence:
    """What a program has to compute and to move: `Evidence` with `flops`, `bytes` and `kinds`
    alone.

    It reads and writes everything once at least.
    """
    moved = sum(int(str(bytes_of(term.type))) for term in {*program.inputs, *program.outputs})
    # An approximation: casts in between are not looked at.
    kinds = {_MEASURED.get(term.dtype, "float32") for term in program.inputs}
    flops = int(str(cost(program).flops))
    return Evidence(flops=flops, bytes=moved, kinds=tuple(sorted(kinds)))


def ceilings_of(answer: Answer) -> Ceilings | None:
    """What was measured of the device of an answer (`aiosearch doctor --measure`); `None` where
    nothing was."""
    device = answer.key.device
    return next(
        (ceilings for ceilings in stored_ceilings() if f"{device},".startswith(_kind(ceilings))),
        None,
    )


def measured(ceilings: Ceilings, kinds: Iterable[str]) -> bool:
    """Whether it is known how fast the device computes with all of these types."""
    return all(kind in ceilings.flops_per_second for kind in kinds)


def roofline_fraction(answer: Answer) -> float | None:
    """The part of what its device can do that an answer reaches; `None` where that is unknown."""
    ceilings, evidence = ceilings_of(answer), answer.evidence
    flops, moved, kinds = evidence.flops, evidence.bytes, evidence.kinds or ()
    if ceilings is None or flops is None or moved is None or not measured(ceilings, kinds):
        return None
    # The fastest of its types: nothing tells which operations are done in which.
    speeds = [ceilings.fastest(kind) for kind in kinds]
    computing = flops / max(speeds) if speeds else 0.0
    return float(max(moved / ceilings.bytes_per_second, computing) / answer.timings.answer)


def why_faster(answer: Answer) -> list[str]:
    """What was done to the original, and what there is less of for it, a sentence each."""
    evidence = answer.evidence
    lines = [f"what was done: {trial.how}" for trial in evidence.tried if trial.won]
    if evidence.program is None:
        return lines
    if evidence.original is None:
        reason = "it computes what the original does: what differs is how that is compiled"
        return [*lines, reason]
    before, after = (
        int(str(cost(parse(text)).flops)) for text in (evidence.original, evidence.program)
    )
    if after < before:
        share = f"{before / max(after, 1):.3g} times fewer"
        lines.append(f"it has {after:,} operations to compute, the original {before:,}: {share}")
    else:
        lines.append(
            f"it has {after:,} operations to compute, the original {before:,}: what is saved is"
            " memory that is not written and read again, or work that the compiler does better"
        )
    return lines


def _kind(ceilings: Ceilings) -> str:
    """How the name of the device begins in `Key.device`."""
    if ceilings.platform == "cpu":
        return f"{cpu_kind()},"
    return f"{ceilings.platform}: {ceilings.device},"
