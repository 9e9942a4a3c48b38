"""Verifying the best of what was found: in exact arithmetic, and in floats."""

from __future__ import annotations

from collections.abc import Sequence

from anyio import to_thread

from ..equivalence import Status, Verdict, verify
from ..tensor import Program
from ..tensor.generalise import generalise
from ..tensor.sizes import product
from .clock import Clock
from .going import Going

SMALL = 1 << 16
"""Elements of a tensor, above which floats are compared only where that is asked for."""


async def verified(
    reference: Program, programs: Sequence[Program], floats: bool, going: Going, clock: Clock
) -> list[tuple[Verdict, str]]:
    """The verdict on each program, and what floats at small sizes say against it.

    Where `floats` are compared at full size, that is in the verdict. There are fewer verdicts than
    programs where `going` says that what there is will do.
    """
    verdicts: list[Verdict] = []
    for number, one in enumerate(programs, 1):
        if not going(f"verifying {number} of {len(programs)}"):
            break
        verdicts.append(await to_thread.run_sync(_verified, reference, one, False))
    pairs = list(zip(programs, verdicts, strict=False))
    if not floats:
        doubts = [await to_thread.run_sync(_doubt, reference, *pair) for pair in pairs]
        clock.took("verification")
        return list(zip(verdicts, doubts, strict=True))
    clock.took("verification")
    for number, (one, _) in enumerate(pairs):
        if not going(f"comparing floats {number + 1} of {len(programs)}"):
            break
        verdicts[number] = await to_thread.run_sync(_verified, reference, one, True)
    clock.took("floats")
    return [(verdict, "") for verdict in verdicts]


def _verified(reference: Program, program: Program, floats: bool) -> Verdict:
    return verify(reference, program, floats=floats)


def _doubt(reference: Program, program: Program, verdict: Verdict) -> str:
    """What floats say against it at small sizes, where the programs can be made so small."""
    if not verdict.status.accepted:
        return ""
    small = generalise([reference, program]).reduced()
    sizes = [product(term.shape) for one in small for term in one.terms()]
    if not all(isinstance(size, int) and size <= SMALL for size in sizes):
        return ""
    rounded = verify(*small)
    return rounded.reason if rounded.status is Status.REFUTED else ""
