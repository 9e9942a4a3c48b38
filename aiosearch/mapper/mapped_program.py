"""Maps a program of patterns to a cluster, with split sizes that are given or chosen by themselves.

Choosing sizes: a level of many small splits is predicted ever faster, as the published model
charges nothing for starting a split, while the search for it takes longer. So sizes begin at a
whole call and are halved until a halving promises less than `gain`; the size before that is taken.

Example, the published sweep of `batch`: 524288 rows 0.640 s, 262144 0.534, 131072 0.418, 65536
0.400, 32768 0.400: the last halving gains nothing, and 65536 is taken.

Data is cut as calls are. An array of which an iteration touches rows far apart, `scale * i`, is cut
that much more coarsely, so that a split of a call finds its rows in few splits of the array.
"""

from __future__ import annotations

import time

from msgspec import Struct

from ..arguments import is_positive, require
from ..documents import Document
from ..limits import Limits
from ..pool import Pool
from ..search import Search
from .clusters import Cluster
from .costs import MODELS
from .errors import MappingError
from .fusion import FusedStep, fuse, fused_score
from .mappings import MappingResult, report
from .patterns import PatternProgram
from .splits import SplitSizes
from .stair_climb import Mapping

GAIN = 0.02
"""What halving the splits must promise, relative to the score, to be worth it."""


class SizeTrial(Struct, frozen=True):
    """Split sizes that were tried, the predicted score, and how long the search took."""

    sizes: SplitSizes
    score: float
    seconds: float


class MappedProgram(Struct, frozen=True, kw_only=True):
    """A program mapped to a cluster."""

    program: PatternProgram
    cluster: Cluster
    sizes: SplitSizes
    result: MappingResult
    fused: tuple[FusedStep, ...]
    fused_score: float
    trials: tuple[SizeTrial, ...]

    @property
    def score(self) -> float:
        """Predicted seconds, before fusion: what published scores are."""
        return self.result.score

    def report(self) -> Document:
        """The mapping as an object with the fields of Pattern-OPT's reports."""
        return report(self.program.name, self.cluster, self.result.steps)


async def map_program(
    program: PatternProgram,
    cluster: Cluster,
    sizes: SplitSizes | None = None,
    *,
    lookahead: int = 1,
    overlap: float = 0.0,
    width: int = 1,
    solver: str = "highs",
    model: str = "faithful",
    gain: float = GAIN,
    workers: int = 0,
    pool: Pool | None = None,
    limits: Limits | None = None,
) -> MappedProgram:
    """Searches for the mapping of least predicted time.

    - `sizes`: how calls and data are cut; None halves them until that no longer helps.
    - `model`: `faithful` for the published model, `calibrated` for the one of `CalibratedModel`.
    - `width`: how many sets of teams each level continues with; 1 is stair climbing.
    - `workers`, `pool`, `limits`: as for `Search`.
    """
    require({"gain": ("a number above 0", is_positive)}, gain=gain)

    async def searched(at: SplitSizes) -> tuple[MappingResult, SizeTrial]:
        problem = Mapping(
            program=program, cluster=cluster, sizes=at, lookahead=lookahead, overlap=overlap,
            width=width, solver=solver, model=model,
        )  # fmt: skip
        begun = time.perf_counter()
        placement: Document = {"workers": workers} if pool is None else {"pool": pool}
        async with Search(problem, limits=limits, **placement) as search:
            outcome = await search.wait()
        if outcome.best is None:
            raise MappingError(f"no mapping was outcome: {outcome.reason}; allow the search more")
        result = problem.result(outcome.best)
        return result, SizeTrial(at, result.score, time.perf_counter() - begun)

    if sizes is not None:
        result, trial = await searched(sizes)
        trials = [trial]
    else:
        sizes = _coarsest(program)
        result, trial = await searched(sizes)
        trials = [trial]
        # Each halving is searched anew: a coarser mapping says little of where finer splits go.
        while sizes.pattern > 1:
            halved = SplitSizes(-(-sizes.pattern // 2), -(-sizes.data // 2))
            finer, trial = await searched(halved)
            trials.append(trial)
            if finer.score > result.score * (1 - gain):
                break
            sizes, result = halved, finer
    fused = fuse(result)
    return MappedProgram(
        program=program,
        cluster=cluster,
        sizes=sizes,
        result=result,
        fused=fused,
        fused_score=fused_score(MODELS[model](cluster, overlap), fused),
        trials=tuple(trials),
    )


def _coarsest(program: PatternProgram) -> SplitSizes:
    whole = max(call.lengths[0] for call in program.calls)
    return SplitSizes(whole, whole)
