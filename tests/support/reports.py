"""A report as optimize would give it, for tests of what shows it."""

from __future__ import annotations

from typing import Any

from answers import answer

from aiosearch.optimizer.outcomes.evidence import Tried
from aiosearch.optimizer.outcomes.function_parts import OUTSIDE, FunctionPart, SourcePlace
from aiosearch.optimizer.outcomes.report import Found, Report, WholeFunctionResult

ROUNDING = (
    "not to be judged, as no inputs tell: unknown on 4 of 10 distributions; large, mixed skipped:"
    " rounding decides the original's value"
)
TRIED = (
    Tried("as written", 8e-4, 1.0, low=7e-4, high=9e-4),
    Tried("scale after the product", 1e-4, 8.0, "", "proved — for all shapes", 9e-5, 1.1e-4, True),
    Tried("one fused kernel, W packed", 7e-5, 11.0, ROUNDING, "proved", 6e-5, 8e-5),
    Tried("2 fused kernels", None, None, "2 fused kernels crashed its process (compile): signal 6"),
)
BLOCK = SourcePlace("/home/me/model.py", "block", 12, 31)
HEAD = SourcePlace("/home/me/model.py", "head", 40, 40)


def report(faster: bool = True) -> Report:
    """A network of twelve blocks, whose head is left as it is; speed-ups are 3 alone and 2 in
    all."""
    blocks = answer(1, name="gpt", evidence={"speedup": 3.0})
    head = answer(2, name="gpt_2", faster=False)
    evidence: dict[str, Any] = {"speedup": 2.0, "kept": [blocks.id] if faster else []}
    evidence["tried"] = [Tried("as written", 1e-2, 1.0), Tried("all that are faster", 1.2e-2, 0.83)]
    timings = type(blocks.timings)(1.2e-2, 1.2e-2, 6e-3, 1.01)
    whole = answer(3, name="gpt (whole)", faster=faster, evidence=evidence, timings=timings)
    parts = (
        FunctionPart("gpt", 12, (BLOCK,)),
        FunctionPart("gpt_2", 1, (HEAD,)),
        FunctionPart(OUTSIDE, 1, (HEAD,), ("sort",)),
    )
    found = (Found(blocks, False, TRIED), Found(head, False, TRIED[:1] + TRIED[2:]))
    return Report(found, (), 1.0, WholeFunctionResult(whole, False), parts)
