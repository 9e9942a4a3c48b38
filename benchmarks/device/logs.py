"""Figures from the logs of `table.py`, `sweep.py` and `correctness.py`, as `docs/_figures.py` reads
them.

    python benchmarks/device/logs.py $OUT/table.log > .benchmarks/table.h100.jsonl
    python benchmarks/device/logs.py $OUT/sweep.jsonl > .benchmarks/sweep.h100.jsonl
    python benchmarks/device/logs.py $OUT/correctness.log > .benchmarks/correctness.h100.jsonl

A device without a network can print no more than its logs; this runs anywhere, on those. What lies
in a log tells which it is, but for that of `correctness.py`, which is known by its name.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from closing import AIMS, JIT, OURS, figures, rows

from aiosearch.devices import device

Line = dict[str, Any]


def main() -> None:
    lines = [one for path in sys.argv[1:] for one in figures(Path(path))]
    ready = next(one for one in lines if one.get("step") == "ready")
    if Path(sys.argv[1]).stem == "correctness":
        printed = correctness_figures(lines)
    elif any("table" in one for one in lines):
        printed = table_figures(rows(iter(lines)))
    else:
        printed = sweep_figures(lines)
    for one in printed:
        one |= {
            "machine": {
                "cpu": ready["device"],
                "cores": device(ready["gpu"]).units,
                "system": f"clocks {ready.get('clocks', '')}",
                "python": ready.get("python", "3.12"),
            },
            "versions": {"jax": ready["jax"]},
        }
        sys.stdout.write(json.dumps(one) + "\n")


def table_figures(table: Mapping[str, Mapping[str, Line]]) -> Iterator[Line]:
    """By row what kernels of ours take, over `jax.jit` and over the best of the others."""
    for name, sides in table.items():
        ours, jit = sides.get(OURS, {}), sides.get(JIT, {})
        if not ours.get("kernel_us") or not jit.get("kernel_us"):
            continue
        aim = AIMS.get(name.partition(",")[0], (1.0, 1.0))
        figure: Line = {
            "figure": f"table: {name}, kernels over jax.jit's",
            "value": round(jit["kernel_us"] / ours["kernel_us"], 2),
            "unit": "times",
            "target": aim[0],
            "kernel_us": ours["kernel_us"],
            "jit_kernel_us": jit["kernel_us"],
        }
        for side in sides:
            if side not in (OURS, JIT) and sides[side].get("kernel_us"):
                figure[f"{side}, kernel_us"] = sides[side]["kernel_us"]
        for key in ("graph_us", "call_us"):
            if ours.get(key) and jit.get(key):
                figure |= {key: ours[key], f"jit_{key}": jit[key]}
        yield figure


def sweep_figures(lines: Sequence[Line]) -> Iterator[Line]:
    """By row the best tiling and the worst, beside the best plain JAX."""
    for name in dict.fromkeys(one["row"] for one in lines if "predicted_us" in one):
        own = [one for one in lines if one.get("row") == name and one.get("right")]
        points = sorted(one["cold_us"] for one in own if "predicted_us" in one)
        plain = [one for one in own if "plain" in one]
        refused = [one for one in lines if one.get("row") == name and one.get("right") is False]
        yield {
            "figure": f"sweep: {name}, best kernels",
            "value": points[0],
            "unit": "µs",
            "jit_kernel_us": plain[0]["cold_us"],
            "best_jax_kernel_us": min(one["cold_us"] for one in plain),
            "worst_us": points[-1],
            "right": len(points),
            "refused": len(refused),
        }


def correctness_figures(lines: Sequence[Line]) -> Iterator[Line]:
    """How many kernels are right, of all rows together and of each program in all of its rows.

    `same_bits` counts those whose second run, into memory that held NaN, gave the same bits.
    """
    kernels = [one for one in lines if "right" in one and "row" in one and "plain" not in one]
    programs = dict.fromkeys(one["row"].partition(",")[0] for one in kernels)
    for program in ("all programs", *programs):
        some = [one for one in kernels if program in ("all programs", one["row"].partition(",")[0])]
        yield {
            "figure": f"correctness: {program}, kernels right against float64",
            "value": sum(one["right"] for one in some),
            "unit": f"of {len(some)} kernels",
            "target": len(some),
            "rows": len({one["row"] for one in some}),
            "same_bits": sum(one.get("repeats", False) for one in some),
        }


if __name__ == "__main__":
    main()
