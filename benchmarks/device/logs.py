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
    lines = [record for path in sys.argv[1:] for record in figures(Path(path))]
    ready = next(record for record in lines if record.get("step") == "ready")
    if Path(sys.argv[1]).stem == "correctness":
        printed = correctness_figures(lines)
    elif any("table" in record for record in lines):
        printed = table_figures(rows(iter(lines)))
    else:
        printed = sweep_figures(lines)
    for figure in printed:
        figure |= {
            "machine": {
                "cpu": ready["device"],
                "cores": device(ready["gpu"]).units,
                "system": f"clocks {ready.get('clocks', '')}",
                "python": ready.get("python", "3.12"),
            },
            "versions": {"jax": ready["jax"]},
        }
        sys.stdout.write(json.dumps(figure) + "\n")


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
    for name in dict.fromkeys(record["row"] for record in lines if "predicted_us" in record):
        judged = [record for record in lines if record.get("row") == name and record.get("right")]
        points = sorted(record["cold_us"] for record in judged if "predicted_us" in record)
        plain = [record for record in judged if "plain" in record]
        refused = [
            record for record in lines if record.get("row") == name and record.get("right") is False
        ]
        yield {
            "figure": f"sweep: {name}, best kernels",
            "value": points[0],
            "unit": "µs",
            "jit_kernel_us": plain[0]["cold_us"],
            "best_jax_kernel_us": min(record["cold_us"] for record in plain),
            "worst_us": points[-1],
            "right": len(points),
            "refused": len(refused),
        }


def correctness_figures(lines: Sequence[Line]) -> Iterator[Line]:
    """How many kernels are right, of all rows together and of each program in all of its rows.

    `same_bits` counts those whose second run, into memory that held NaN, gave the same bits.
    """
    kernels = [
        record
        for record in lines
        if "right" in record and "row" in record and "plain" not in record
    ]
    programs = dict.fromkeys(record["row"].partition(",")[0] for record in kernels)
    for program in ("all programs", *programs):
        counted = [
            record
            for record in kernels
            if program in ("all programs", record["row"].partition(",")[0])
        ]
        yield {
            "figure": f"correctness: {program}, kernels right against float64",
            "value": sum(record["right"] for record in counted),
            "unit": f"of {len(counted)} kernels",
            "target": len(counted),
            "rows": len({record["row"] for record in counted}),
            "same_bits": sum(record.get("repeats", False) for record in counted),
        }


if __name__ == "__main__":
    main()
