"""How well the predicted order of tilings is the measured one, on a GPU that was swept.

    python benchmarks/device/predictor.py          # by row: as it is, and as it was before the fit
    python benchmarks/device/predictor.py --fit    # constants fitted anew, each program left out

`sweep_h100.jsonl` holds 355 tilings of six programs: the numbers that `TilingFigures` predicts
from, and what the GPU counted for the kernel. Rank correlation is Spearman's. Regret is the time of
the tiling that is predicted to be best, over the best measured. No GPU is needed.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from msgspec import Struct

sys.path.append(str(Path(__file__).parents[1]))

from lib.figures import figure

from aiosearch.codegen.pallas.cost import kernel_cost
from aiosearch.codegen.pallas.cost.kernel_cost import TilingFigures
from aiosearch.devices import device

DATA = Path(__file__).with_name("sweep_h100.jsonl")
FITTED = (
    "_DRAM_LATENCY_SECONDS",
    "_DRAM_EFFICIENCY",
    "_MULTIPROCESSOR_BYTES_PER_SECOND",
    "_ARITHMETIC_EFFICIENCY",
    "_DOT_ISSUE_SECONDS",
    "_SPILL_SECONDS",
)
ROUNDS = 250
"""Of the fit, each of which changes one or two constants."""


class SweptTiling(Struct, frozen=True):
    """One tiling of a kernel, with what was measured of it."""

    row: str
    microseconds: float
    predicted_before: float
    figures: TilingFigures

    @property
    def program(self) -> str:
        return self.row.partition(",")[0]


Predict = Callable[[SweptTiling], float]


def swept(path: Path = DATA) -> list[SweptTiling]:
    """Reads the data; the first line says of which device."""
    head, *lines = map(json.loads, path.read_text().splitlines())
    gpu = device(head["described"])
    names = {name for name in TilingFigures.__dataclass_fields__ if name != "device"}
    return [
        SweptTiling(
            line["row"],
            line["microseconds"],
            line["predicted_before"],
            TilingFigures(
                **{name: line[name] for name in names if name in line},
                arithmetic_seconds=line["arithmetic_microseconds"] / 1e6,
                device=gpu,
            ),
        )
        for line in lines
    ]


def by_row(tilings: Iterable[SweptTiling]) -> dict[str, list[SweptTiling]]:
    rows: dict[str, list[SweptTiling]] = {}
    for tiling in tilings:
        rows.setdefault(tiling.row, []).append(tiling)
    return rows


def as_it_is(tiling: SweptTiling) -> float:
    return tiling.figures.seconds


def as_it_was(tiling: SweptTiling) -> float:
    """Before anything was measured on a GPU."""
    return tiling.predicted_before


def rank_correlation(row: Sequence[SweptTiling], predict: Predict) -> float:
    """Spearman's: 1 where both orders are the same, 0 where they have nothing in common.

    >>> # times 20, 22, 30 predicted as 1, 3, 2 have ranks 0, 1, 2 and 0, 2, 1: 1 - 6 * 2 / 24 = 0.5
    """
    ours = _ranks([predict(tiling) for tiling in row])
    theirs = _ranks([tiling.microseconds for tiling in row])
    apart = sum((a - b) ** 2 for a, b in zip(ours, theirs, strict=True))
    return 1 - 6 * apart / (len(row) * (len(row) ** 2 - 1))


def _ranks(values: Sequence[float]) -> list[int]:
    ranks = [0] * len(values)
    for rank, at in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        ranks[at] = rank
    return ranks


def regret(row: Sequence[SweptTiling], predict: Predict) -> float:
    """The time of the best predicted over the best time: 1 where the prediction picks the best."""
    return min(row, key=predict).microseconds / min(tiling.microseconds for tiling in row)


def mean_regret(rows: Iterable[Sequence[SweptTiling]], predict: Predict) -> float:
    """The geometric mean, since these are ratios."""
    return math.exp(fmean(math.log(regret(row, predict)) for row in rows))


def _objective(tilings: Sequence[SweptTiling], best: Mapping[str, float]) -> float:
    """Mean error of the logarithm, where those near the best count most and outliers little."""
    total = weights = 0.0
    for tiling in tilings:
        weight = min(1.0, max(0.3, 2 * best[tiling.row] / tiling.microseconds))
        error = abs(math.log(tiling.figures.seconds * 1e6 / tiling.microseconds))
        total += weight * min(error, 1.5)
        weights += weight
    return total / weights


def fit(tilings: Sequence[SweptTiling], seed: int = 0) -> dict[str, float]:
    """Changes the module's constants until the objective gets no better; gives them."""
    generator = random.Random(seed)
    best = {
        name: min(tiling.microseconds for tiling in row) for name, row in by_row(tilings).items()
    }
    least = _objective(tilings, best)
    for turn in range(ROUNDS):
        names = generator.sample(FITTED, generator.choice((1, 2)))
        before = {name: getattr(kernel_cost, name) for name in names}
        spread = 0.4 * (1 - turn / ROUNDS) + 0.03
        for name in names:
            setattr(kernel_cost, name, before[name] * math.exp(generator.gauss(0, spread)))
        objective = _objective(tilings, best)
        if objective < least:
            least = objective
        else:
            for name in names:
                setattr(kernel_cost, name, before[name])
    return {name: getattr(kernel_cost, name) for name in FITTED}


def print_rows(rows: Mapping[str, Sequence[SweptTiling]]) -> None:
    for name, row in rows.items():
        correlations = [round(rank_correlation(row, model), 2) for model in (as_it_was, as_it_is)]
        regrets = [round(regret(row, model), 2) for model in (as_it_was, as_it_is)]
        figure(
            f"predictor: {name}", correlations[1], "rank correlation",
            before=correlations[0], regret=regrets[1], regret_before=regrets[0], tilings=len(row),
        )  # fmt: skip


def print_means(rows: Mapping[str, Sequence[SweptTiling]], name: str, **fields: Any) -> None:
    figure(
        f"predictor: {name}",
        round(fmean(rank_correlation(row, as_it_is) for row in rows.values()), 3),
        "mean rank correlation",
        before=round(fmean(rank_correlation(row, as_it_was) for row in rows.values()), 3),
        regret=round(mean_regret(rows.values(), as_it_is), 3),
        regret_before=round(mean_regret(rows.values(), as_it_was), 3),
        rows=len(rows),
        **fields,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--fit", action="store_true", help="fit anew, leaving out each program")
    options = parser.parse_args()
    tilings = swept()
    print_rows(by_row(tilings))
    print_means(by_row(tilings), "all programs")
    if not options.fit:
        return
    written = {name: getattr(kernel_cost, name) for name in FITTED}
    for program in dict.fromkeys(tiling.program for tiling in tilings):
        training = [tiling for tiling in tilings if tiling.program != program]
        held_out = [tiling for tiling in tilings if tiling.program == program]
        for name, value in written.items():
            setattr(kernel_cost, name, value)
        constants = fit(training)
        rounded = {name: float(f"{value:.3g}") for name, value in constants.items()}
        print_means(by_row(held_out), f"{program}, left out of the fit", constants=rounded)


if __name__ == "__main__":
    main()
