"""The closing table, from whatever the steps' logs hold so far: `python closing.py FOLDER`.

One row for each program and size: ratios beside what they are to be, then microseconds of kernels,
of a graph's turn and of a call that is waited for, of each side.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

AIMS: Mapping[str, tuple[float, float]] = {
    "rms_norm": (1.5, 1.0), "gated_mlp": (1.2, 1.0), "lora": (2.0, 1.0), "qk_norm": (3.0, 1.0),
    "gqa": (1.0, 1.0), "attention": (1.0, 1.0),
}  # fmt: skip
"""Times as fast as jax.jit, and as the best of the others, that kernels are to be."""
OURS, JIT = "ours", "jit"


def figures(path: Path) -> Iterator[dict[str, Any]]:
    """The JSON lines of a log."""
    if path.exists():
        for text in path.read_text(errors="replace").splitlines():
            if text.startswith("{"):
                try:
                    yield json.loads(text)
                except ValueError:  # the process ended in the middle of it
                    continue


def rows(records: Iterator[dict[str, Any]]) -> dict[str, dict[str, dict[str, Any]]]:
    """By row and side what is known of it."""
    table: dict[str, dict[str, dict[str, Any]]] = defaultdict(lambda: defaultdict(dict))
    for record in records:
        if "table" in record:
            table[record["table"]][record["side"]] |= record
    return table


def floor_us(name: str, gpu: str) -> float | None:
    """The time of a row's inputs and outputs from the memory of a described GPU at its greatest
    speed."""
    try:
        from lib.kernels.rows import gpu_rows

        from aiosearch.devices import device
        from aiosearch.optimizer.array_types import array_types
    except ImportError:  # what is printed beside it needs neither
        return None
    import math

    counts = sorted({int(word) for word in name.split() if word.isdigit()})
    for row in gpu_rows(counts):
        if row.name == name:
            types = array_types(row.program)
            size = sum(math.prod(array.shape) * 2 for array in types)
            return size / device(gpu).bytes_per_second * 1e6
    return None


def ratio(baseline: float | None, ours: float | None) -> str:
    return f"{baseline / ours:.2f}" if baseline and ours else "-"


def shown(value: Any) -> str:
    return f"{value:.1f}" if isinstance(value, (int, float)) else "-"


def print_table(table: Mapping[str, Mapping[str, Mapping[str, Any]]], gpu: str) -> None:
    for name, sides in table.items():
        ours, jit = sides.get(OURS, {}), sides.get(JIT, {})
        rivals = {
            side: result["kernel_us"]
            for side, result in sides.items()
            if side not in (OURS, JIT, "best plain") and result.get("kernel_us")
        }
        best = min(rivals, key=rivals.__getitem__, default=None)
        aim = AIMS.get(name.partition(",")[0], (1.0, 1.0))
        kernel = ours.get("kernel_us")
        graph = ratio(jit.get("graph_us"), ours.get("graph_us"))
        call = ratio(jit.get("call_us"), ours.get("call_us"))
        over_best = ratio(rivals.get(best) if best else None, kernel)
        print(
            f"{name}: kernel {ratio(jit.get('kernel_us'), kernel)} x jit (aim {aim[0]}),"
            f" {over_best} x the best other ({best or 'none'}; aim {aim[1]});"
            f" graph {graph} x jit; call {call} x jit;"
            f" floor by bytes {shown(floor_us(name, gpu))} us"
        )
        for side, result in sides.items():
            if result.get("why"):
                print(f"    {side:28s} {result['why'][:150]}")
                continue
            how = f"  {result['how']}" if "how" in result else ""
            print(
                f"    {side:28s} kernel {shown(result.get('kernel_us')):>7s}  graph"
                f" {shown(result.get('graph_us')):>7s}  call {shown(result.get('call_us')):>7s}"
                f"  in a row {shown(result.get('in_a_row_us')):>7s}"
                + (
                    f"  graph call {shown(result['graph_call_us'])}"
                    if "graph_call_us" in result
                    else ""
                )
                + how[:110]
            )


def print_correctness(records: Iterator[dict[str, Any]]) -> None:
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for record in records:
        if "right" in record and "row" in record and "plain" not in record:
            counts[record["row"]][0 if record["right"] else 1] += 1
            if not record["right"]:
                print(f"    WRONG {record['row']}: {str(record.get('why'))[:200]}")
        elif record.get("step") == "closing":
            print(f"    {json.dumps(record)}")
    right = sum(good for good, _ in counts.values())
    total = sum(good + bad for good, bad in counts.values())
    print(f"    {right} of {total} kernels of {len(counts)} rows right")


def main() -> None:
    folder = Path(sys.argv[1])
    sys.path.append(str(Path(__file__).parent.parent))
    for step, words in (("facts", ("jax ", "NVIDIA", "described", "LACK", "OLD")),
                        ("contact", ("ok ", "FAIL", "contact:")),
                        ("ceilings", ("ceilings",))):  # fmt: skip
        path = folder / f"{step}.log"
        if path.exists():
            print(f"== {step}")
            for text in path.read_text(errors="replace").splitlines():
                if text.startswith(words):
                    print("   ", text[:220])
    if (folder / "correctness.log").exists():
        print("== correctness: kernels on the device against float64, outputs poisoned beforehand")
        print_correctness(figures(folder / "correctness.log"))
    lines = [*figures(folder / "table.log")]
    table = rows(iter(lines))
    if table:
        print("== table: microseconds of kernels, of a graph's turn, of a call that is waited for")
        gpu = next((record["gpu"] for record in lines if record.get("step") == "ready"), "H100")
        print_table(table, gpu)
    for step in ("corpus", "command"):
        path = folder / f"{step}.log"
        if path.exists():
            print(f"== {step}")
            for text in path.read_text(errors="replace").splitlines()[-14:]:
                print("   ", text[:200])
    print("== how the steps ended")
    for path in sorted(folder.glob("*.log")):
        for text in path.read_text(errors="replace").splitlines():
            if text.startswith("### exit") or text.startswith("### ended"):
                print("   ", path.stem, text[4:])


if __name__ == "__main__":
    main()
