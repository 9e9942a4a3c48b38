"""What continues on the same cores is fused, as in the published mapping."""

from __future__ import annotations

from aiosearch.mapper.costs import FaithfulModel
from aiosearch.mapper.fusion import fuse, fused_score
from aiosearch.mapper.levels import flatten
from aiosearch.mapper.mappings import MappingResult, StepMapping
from aiosearch.mapper.published import batch_classification, claix
from aiosearch.mapper.splits import PatternSplit, SplitSizes
from aiosearch.mapper.teams import Team

ROWS = 65536
FIRST, SECOND = Team(0, 0, 0, 24), Team(0, 0, 1, 24)


def published(split: PatternSplit) -> Team:
    """Who runs what in the published mapping, as far as it matters for fusion."""
    block = split.starts[0] // ROWS
    if split.name == "normalize":
        return SECOND if block in (0, 5) else FIRST
    if split.name == "extract":
        return SECOND if block in (0, 2, 5) else FIRST
    if split.name == "classify" and block != 6:
        return Team(1, 0, block % 2, 24)
    return FIRST


def test_chains_of_the_published_mapping() -> None:
    """Six pairs, of which the one of block 6 has the classifier too; five are left alone."""
    levels = flatten(batch_classification(), SplitSizes(ROWS, ROWS))
    result = MappingResult(
        tuple(
            StepMapping(number, tuple((split, published(split)) for split in level.placed), 0.0)
            for number, level in enumerate(levels)
            if level.placed
        )
    )
    steps = fuse(result)
    chains = {
        chain.splits[0].starts[0] // ROWS: [split.name for split in chain.splits]
        for chain in steps[1]
    }
    pair = ["normalize", "extract"]
    assert chains == {
        0: pair, 1: pair, 2: ["normalize"], 3: pair, 4: pair, 5: pair,
        6: [*pair, "classify"], 7: pair,
    }  # fmt: skip
    assert [chain.splits[0].starts[0] // ROWS for chain in steps[2]] == [2]
    blocks = [chain.splits[0].starts[0] // ROWS for chain in steps[3]]
    assert blocks == [0, 1, 2, 3, 4, 5, 7]
    assert fused_score(FaithfulModel(claix()), steps) > 0
