"""The state of a search: what was measured, what the model thinks, and what comes next.

It has neither processes nor a clock. `ask` gives points, `tell` takes what became of them; the
pipeline does so beside a device, and a replay beside a recorded space.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from ..errors import SpaceError
from ..space.spaces import SearchSpace
from ..space.traces import Trace
from .models import CostModel, rank_correlation
from .proposals import ENUMERABLE, Measurement, Proposer, SearchView

REFIT = 4
"""After so many new measurements the model is fitted again; more at a time as they grow."""
LOOK = 256
"""Leaves of the tree of points after which it is guessed how many there are."""
LEAVES = 16
"""Leaves that are walked for each point that a list may have."""


class SearchState:
    """One search of a space."""

    def __init__(
        self,
        space: SearchSpace,
        proposer: Proposer,
        *,
        model: CostModel | None = None,
        seed: int = 0,
        pool: Sequence[Trace] | None = None,
        seeds: Sequence[Trace] = (),
    ) -> None:
        """Takes `seeds`, which are proposed before all others: what was good elsewhere."""
        self._seeds = list(seeds)
        self.measured: dict[str, Measurement] = {}
        self.correlations: list[float] = []
        """How well each batch was ranked before it was measured, from the first model on."""
        self._model = model if model is not None else CostModel(seed=seed)
        self._proposer = proposer
        self._predicted: dict[str, float] = {}
        self._fitted = 0
        self._checked = 0
        self._view = SearchView(space, Random(seed), self._model, self.measured)
        self._view.pool = listed(space) if pool is None else pool

    @property
    def space(self) -> SearchSpace:
        return self._view.space

    @property
    def size(self) -> int | None:
        """How many points there are; None where they are too many to list."""
        return None if self._view.pool is None else len(self._view.pool)

    @property
    def model_kind(self) -> str:
        return self._model.kind if self._model.ready else "none yet"

    def ask(self, count: int, progress: float = 0.0) -> list[Trace]:
        """New points, which count as pending from now on; none where there are no more."""
        self._view.progress = progress
        seeds = [trace for trace in self._seeds if self._view.is_new(trace)][:count]
        self._view.pending.update(trace.key for trace in seeds)
        try:
            points = seeds + self._proposer.propose(count - len(seeds), self._view)
        except SpaceError:  # its requirements leave no point, or none that is new
            points = seeds
        if self._model.ready:
            scores = self._model.predict(points)
            self._predicted |= {
                trace.key: score for trace, score in zip(points, scores, strict=True)
            }
        self._view.pending.update(trace.key for trace in points)
        return points

    def predicted(self, trace: Trace) -> float | None:
        """What the model thought of a point when it was proposed."""
        return self._predicted.get(trace.key)

    def tell(self, measurement: Measurement) -> None:
        """Takes what became of a point; one of another run counts as well."""
        # In this order: between the two a thread that proposes would take the point for new.
        self.measured[measurement.trace.key] = measurement
        self._view.pending.discard(measurement.trace.key)

    def forget(self, trace: Trace) -> None:
        """Lets a point that was proposed and not measured be proposed again."""
        self._view.pending.discard(trace.key)

    def needs_fit(self) -> bool:
        """Whether enough is new: a batch, or a fifth of what was learned from."""
        return len(self.measured) - self._fitted >= max(REFIT, self._fitted // 5)

    def fit(self) -> None:
        """Fits the model, having noted how well the last one ranked what came since."""
        entries = list(self.measured.values())
        self._note_correlation(entries)
        self._model.fit([entry.trace for entry in entries], [entry.seconds for entry in entries])
        self._fitted = len(entries)

    def fastest(self, count: int) -> list[Measurement]:
        return self._view.fastest(count)

    def _note_correlation(self, entries: Sequence[Measurement]) -> None:
        # Only what was measured after it was predicted counts: on what it was fitted to, any model
        # is good.
        pairs = [
            (entry.predicted, entry.seconds)
            for entry in entries[self._checked :]
            if entry.predicted is not None and entry.seconds is not None
        ]
        self._checked = len(entries)
        if len(pairs) >= 4:
            predicted, seconds = zip(*pairs, strict=True)
            correlation = rank_correlation(predicted, seconds)
            if correlation is not None:
                self.correlations.append(correlation)


def listed(space: SearchSpace, most: int = ENUMERABLE) -> list[Trace] | None:
    """All points of a space, if there are at most so many and few that requirements turn away.

    Listing what has millions would take minutes. The leaves that are seen are a share of the tree,
    and those of the rest are guessed by the share of the last ones: 256 that are 0.001 of it mean
    that 256,000 are to come.
    """
    points: list[Trace] = []
    done = window = 0.0
    for count, (trace, share) in enumerate(space.leaves(), 1):
        window += share
        if trace is not None:
            points.append(trace)
        if len(points) > most:
            return None
        if count % LOOK == 0:
            done += window
            if (1 - done) * LOOK > (LEAVES * most - count) * window:
                return None
            window = 0.0
    return points
