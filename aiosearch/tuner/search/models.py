"""Cost models: from the numbers of traces to how long they should take, without lowering one.

A model is fitted to the logarithm of measured seconds, since a kernel that takes twice as long is
as wrong at a microsecond as at a second. What failed is a sample too: it counts as slower than all
that ran, so that the model learns where points fail and the search stays away from there.

LightGBM is used where it is installed (`pip install aiosearch[tune]`). Else boosted trees of
our own, which take a few milliseconds for some hundred samples and need nothing but NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from ..errors import TunerError
from ..space.traces import Trace

if TYPE_CHECKING:
    import numpy as np

    Matrix: TypeAlias = np.ndarray[Any, Any]

FEWEST_SAMPLES = 12
"""With fewer, a model says no more than chance would."""
FAILED_FACTOR = 4.0
"""A point that failed is learned as so many times slower than the slowest that ran."""
ABSENT = -1.0
"""The number of a site that a trace has not got; those of sites are from 0."""


class Regressor(Protocol):
    """Fits rows of numbers to targets."""

    def fit(self, rows: Matrix, targets: Matrix) -> None: ...

    def predict(self, rows: Matrix) -> Matrix: ...


class CostModel:
    """Ranks traces by how long they should take; fitted anew as measurements come."""

    def __init__(self, kind: str = "auto", seed: int = 0) -> None:
        """Takes `lightgbm`, `trees` or `auto`, which is LightGBM where it is installed."""
        if kind not in ("auto", "lightgbm", "trees"):
            raise TunerError(f"no cost model is called {kind!r}; there are auto, lightgbm, trees")
        self.kind = _installed() if kind == "auto" else kind
        self._seed = seed
        self._columns: list[str] = []
        self._regressor: Regressor | None = None

    @property
    def ready(self) -> bool:
        """Whether it has seen enough to be asked."""
        return self._regressor is not None

    def fit(self, traces: Sequence[Trace], seconds: Sequence[float | None]) -> None:
        """Learns from points and their seconds, which are None where the point failed."""
        succeeded = [math.log(value) for value in seconds if value is not None]
        if len(traces) < FEWEST_SAMPLES or len(succeeded) < FEWEST_SAMPLES // 4:
            return
        failed = max(succeeded) + math.log(FAILED_FACTOR)
        targets = [failed if value is None else math.log(value) for value in seconds]
        numbers = [trace.numbers() for trace in traces]
        self._columns = sorted(set().union(*numbers))
        regressor = _LightGBM(self._seed) if self.kind == "lightgbm" else BoostedTrees()
        regressor.fit(self._matrix(numbers), _array(targets))
        self._regressor = regressor

    def predict(self, traces: Sequence[Trace]) -> list[float]:
        """Logarithms of seconds; 0 for all while it is not ready."""
        if self._regressor is None or not traces:
            return [0.0] * len(traces)
        predicted = self._regressor.predict(self._matrix([trace.numbers() for trace in traces]))
        return [float(value) for value in predicted]

    def _matrix(self, numbers: Sequence[Mapping[str, float]]) -> Matrix:
        return _array([[row.get(column, ABSENT) for column in self._columns] for row in numbers])


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Spearman's: 1 where both order alike, -1 where oppositely, about 0 where by chance.

    None where fewer than three are compared, or one of the two tells nothing apart.
    """
    if len(first) < 3:
        return None
    a, b = _ranked(first), _ranked(second)
    middle = (len(a) - 1) / 2
    spread = math.sqrt(sum((x - middle) ** 2 for x in a) * sum((y - middle) ** 2 for y in b))
    if not spread:
        return None
    return sum((x - middle) * (y - middle) for x, y in zip(a, b, strict=True)) / spread


def _ranked(values: Sequence[float]) -> list[float]:
    """Ranks from 0; equal values share the mean of theirs."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end + 1 < len(order) and values[order[end + 1]] == values[order[start]]:
            end += 1
        for at in order[start : end + 1]:
            ranks[at] = (start + end) / 2
        start = end + 1
    return ranks


class BoostedTrees:
    """Gradient boosting of small regression trees on squared error.

    Problem: some hundred rows of some ten columns, fitted again every few seconds beside a search.
    Each column is cut at up to 32 of its values. A tree splits its node with the largest gain first
    until it has `leaves` of them, and all trees together sum to the prediction:

        targets 1, 1, 5, 5 of x = 0, 1, 2, 3  ->  mean 3, then a cut at x <= 1 with -2 and +2, of
        which each tree takes a tenth: after 60 trees 1.004, 1.004, 4.996, 4.996.

    Cost: trees x leaves x rows x columns, in NumPy: 200 rows of 20 columns take about 50 ms.
    """

    def __init__(self, trees: int = 60, leaves: int = 8, rate: float = 0.1) -> None:
        self._count = trees
        self._leaves = leaves
        self._rate = rate
        self._mean = 0.0
        self._trees: list[_Tree] = []

    def fit(self, rows: Matrix, targets: Matrix) -> None:
        self._mean = float(targets.mean())
        self._trees = []
        cuts = _cuts(rows)
        residual = targets - self._mean
        for _ in range(self._count):
            tree = _Tree(rows, residual, cuts, self._leaves)
            residual = residual - self._rate * tree.predict(rows)
            self._trees.append(tree)

    def predict(self, rows: Matrix) -> Matrix:
        import numpy as np

        total = np.full(len(rows), self._mean)
        for tree in self._trees:
            total += self._rate * tree.predict(rows)
        return total


class _Tree:
    """One tree: splits in the order they were made, each of a leaf that a mask describes."""

    def __init__(self, rows: Matrix, targets: Matrix, cuts: list[Matrix], leaves: int) -> None:
        import numpy as np

        self._splits: list[tuple[int, int, float]] = []
        """A leaf, the column and the threshold that cut it; what is above becomes a new leaf."""
        members = [np.ones(len(rows), bool)]
        candidates = [_best_split(rows, targets, members[0], cuts)]
        while len(members) < leaves:
            leaf = max(range(len(members)), key=lambda at: candidates[at][0])
            gain, column, threshold = candidates[leaf]
            if gain <= 1e-12:
                break
            above = members[leaf] & (rows[:, column] > threshold)
            self._splits.append((leaf, column, threshold))
            members[leaf] = members[leaf] & ~above
            members.append(above)
            candidates[leaf] = _best_split(rows, targets, members[leaf], cuts)
            candidates.append(_best_split(rows, targets, above, cuts))
        self._values = np.array([targets[mask].mean() for mask in members])

    def predict(self, rows: Matrix) -> Matrix:
        import numpy as np

        leaf = np.zeros(len(rows), int)
        for number, (split, column, threshold) in enumerate(self._splits, 1):
            leaf[(leaf == split) & (rows[:, column] > threshold)] = number
        return self._values[leaf]


def _best_split(
    rows: Matrix, targets: Matrix, members: Matrix, cuts: list[Matrix]
) -> tuple[float, int, float]:
    """The cut of a leaf that lowers the squared error most, two rows at least on either side."""
    values, count = targets[members], int(members.sum())
    best = (0.0, 0, 0.0)
    if count < 4:
        return best
    total = values.sum()
    for column, thresholds in enumerate(cuts):
        if not len(thresholds):
            continue
        above = rows[members, column][:, None] > thresholds
        counts = above.sum(axis=0)
        sums = values @ above
        allowed = (counts >= 2) & (counts <= count - 2)
        if not allowed.any():
            continue
        counts, sums, allowed_cuts = counts[allowed], sums[allowed], thresholds[allowed]
        # What a split gains is the squared distance of the two means, weighted by both sizes.
        gains = sums**2 / counts + (total - sums) ** 2 / (count - counts) - total**2 / count
        at = int(gains.argmax())
        if gains[at] > best[0]:
            best = (float(gains[at]), column, float(allowed_cuts[at]))
    return best


def _cuts(rows: Matrix) -> list[Matrix]:
    """Thresholds of each column: halfway between neighbouring values, 32 at most."""
    import numpy as np

    thresholds = []
    for column in rows.T:
        values = np.unique(column)
        middles = (values[1:] + values[:-1]) / 2
        if len(middles) > 32:
            middles = middles[np.linspace(0, len(middles) - 1, 32).astype(int)]
        thresholds.append(middles)
    return thresholds


class _LightGBM:
    """LightGBM, set for samples by the hundred: its own settings want thousands."""

    def __init__(self, seed: int) -> None:
        self._parameters = {
            "objective": "regression",
            "learning_rate": 0.1,
            "num_leaves": 15,
            "min_data_in_leaf": 2,
            "min_data_in_bin": 1,
            "num_threads": 1,
            "deterministic": True,
            "seed": seed,
            "verbose": -1,
        }
        self._booster: Any = None

    def fit(self, rows: Matrix, targets: Matrix) -> None:
        import lightgbm

        data = lightgbm.Dataset(rows, targets, params={"verbose": -1})
        self._booster = lightgbm.train(self._parameters, data, num_boost_round=100)

    def predict(self, rows: Matrix) -> Matrix:
        predicted: Matrix = self._booster.predict(rows)
        return predicted


def _installed() -> str:
    from importlib.util import find_spec

    return "lightgbm" if find_spec("lightgbm") is not None else "trees"


def _array(values: Any) -> Matrix:
    import numpy as np

    return np.asarray(values, dtype=np.float64)
