"""Fuses what follows on the same cores: a consumer runs right after its producer, data in cache.

Problem: a mapping that keeps rows 0-99 on one socket in two levels still writes and reads all of
the rows between the levels. Run as a chain, block by block, the rows of a block never leave the
cache.

Method: level by level, a split of a map is appended to the first split, or chain, of the level
above that is on the same cache group, has no consumer yet, and writes all that it reads. Chains
grow across levels; a level that becomes empty vanishes.

Example: normalize 6, extract 6 and classify 6 on one socket become a chain of three; normalize 2 on
one socket and extract 2 on another stay apart. Cost: splits of a level x splits of the level above.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, structs

from .costs import StepCostModel, score
from .mappings import Assignment, MappingResult
from .patterns import PatternKind
from .splits import PatternSplit
from .teams import Team


class FusedChain(Struct, frozen=True):
    """Splits that a team runs one after another, the data between them in its cache."""

    team: Team
    splits: tuple[PatternSplit, ...]


FusedStep = tuple[FusedChain, ...]


def fuse(result: MappingResult) -> tuple[FusedStep, ...]:
    """Gives the steps of a mapping with chains in place of splits; most have a single split."""
    steps: list[list[FusedChain]] = []
    above: list[FusedChain] = []
    for step in result.steps:
        # A producer that has a consumer is no tail any more: chains do not fork.
        tails = {id(chain): chain for chain in above}
        current: list[FusedChain] = []
        grown: list[FusedChain] = []
        for split, team in step.assignment:
            producer = next(
                (chain for chain in tails.values() if _continues(chain, split, team)), None
            )
            if producer is None:
                current.append(FusedChain(team, (split,)))
                continue
            del tails[id(producer)]
            longer = FusedChain(team, (*producer.splits, split))
            _replace(steps, producer, longer)
            grown.append(longer)
        if current:
            steps.append(current)
        above = [*current, *grown]
    return tuple(tuple(step) for step in steps)


def _continues(chain: FusedChain, split: PatternSplit, team: Team) -> bool:
    return (
        split.kind is PatternKind.MAP
        and chain.splits[-1].kind not in (PatternKind.IO, PatternKind.SERIAL)
        and chain.team.location == team.location
        and bool(split.inputs)
        and set(split.inputs) <= set(chain.splits[-1].outputs)
    )


def _replace(steps: list[list[FusedChain]], old: FusedChain, new: FusedChain) -> None:
    for step in reversed(steps):
        for position, chain in enumerate(step):
            if chain is old:
                step[position] = new
                return


def fused_score(model: StepCostModel, steps: Sequence[FusedStep]) -> float:
    """The score of fused steps: what a chain passes on within itself is not fetched."""
    return score(model, [_unchained(step) for step in steps])


def _unchained(step: FusedStep) -> Assignment:
    return tuple(
        (split if position == 0 else structs.replace(split, inputs=()), chain.team)
        for chain in step
        for position, split in enumerate(chain.splits)
    )
