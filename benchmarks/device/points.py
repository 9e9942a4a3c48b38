"""Points of the Pallas tiling space that lie far apart, each as a source and its prediction.

The predictor cannot be judged by its own favourites alone: where it is wrong, it is wrong about
what it never proposed. So most points are spread evenly (in logarithms) over the tile along the
output's last axis, the loop's tile, the number of parts of a split reduction, warps and stages.
Tiles may be larger, and warps fewer, than `aiosearch.codegen.pallas.space.tiling_space` allows.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

PARTS = (1, 2, 4, 8, 16, 32)
WARPS = (1, 2, 4, 8)
STAGES = (1, 2, 3, 4, 5)
WIDEST = 256
SAMPLED = 96
"""Tile combinations that are drawn of each module."""
FARTHEST = 6.0
"""How many times as slow as the best predicted a point may be predicted."""
NEAR = 2.5
"""The same of points that are drawn at random."""


class SweepPoint(Struct, frozen=True):
    """One way to run a program: what is compiled, what is predicted, and the parameters."""

    source: str
    function: str
    predicted_us: float
    parameters: dict[str, Any]


class Sweep(Struct, frozen=True):
    """A program's points, and its plain JAX sources with the original first."""

    plain: tuple[tuple[str, str, str], ...]
    """How it was rewritten, source, function."""
    points: tuple[SweepPoint, ...]
    seconds: float


def sweep(program: bytes, gpu: str, count: int, favourites: int, seed: int) -> Sweep:
    """The predictor's favourites, then points that are spread over the space. Needs no GPU."""
    import time

    from msgspec.structs import replace

    from aiosearch.optimizer.candidates.generation import CandidateQuestion, generate_candidates
    from aiosearch.optimizer.effort import BUDGETS, Effort

    began = time.monotonic()
    budget = replace(BUDGETS[Effort.QUICK], search_seconds=2.0, kernels=8)
    contenders = generate_candidates(
        CandidateQuestion(program, budget, seed, False, gpu=gpu), lambda text: None
    ).contenders
    plain: dict[int, tuple[str, str, str]] = {}
    programs: dict[bytes, str] = {}
    points: list[SweepPoint] = []
    for contender in contenders:
        if contender.place is None:
            plain.setdefault(contender.form, (contender.how, contender.source, contender.function))
            continue
        programs.setdefault(contender.program, contender.how.partition(";")[0])
        if len(points) < favourites:
            parameters = {"favourite": True, "how": contender.how}
            seconds = contender.place.seconds
            points.append(
                SweepPoint(contender.source, contender.function, seconds * 1e6, parameters)
            )
    generator = random.Random(seed)
    pool = [
        point for source, how in programs.items() for point in _pool(source, how, gpu, generator)
    ]
    points += _spread(pool, count - len(points), generator)
    return Sweep(tuple(plain.values()), tuple(points), time.monotonic() - began)


def _pool(program: bytes, how: str, gpu: str, generator: random.Random) -> Iterator[_Drawn]:
    """Tilings of the heaviest kernel of each module that a program can be lowered to."""
    from aiosearch.codegen.lower.lowering import lower
    from aiosearch.codegen.pallas import CannotPrint
    from aiosearch.codegen.passes.kernel_fusion import fuse_kernels
    from aiosearch.devices import device
    from aiosearch.tensor.files import from_json

    module = fuse_kernels(lower(from_json(program)))
    for parted, split in _parted(module, device(gpu)):
        try:
            yield from _drawn(parted, {"form": how, **split}, device(gpu), generator)
        except CannotPrint:  # another kernel of the module finds no room
            continue


def _parted(module: Any, gpu: Any) -> Iterator[tuple[Any, dict[str, Any]]]:
    """The module as it is, and with the heaviest kernel's reductions in parts."""
    from aiosearch.codegen.pallas import CannotPrint, split
    from aiosearch.codegen.pallas.layout import serial
    from aiosearch.codegen.pallas.nodes import TileNodes

    heavy = _heaviest(module, gpu)
    yield module, {"kernel": heavy.name, "split": None, "parts": 1}
    for index in serial(TileNodes(heavy)):
        for parts in PARTS[1:]:
            if index.size % parts == 0 and index.size // parts >= 16:
                try:
                    variant = split(module, heavy.name, index.name, parts)
                except CannotPrint:
                    continue
                yield (
                    variant,
                    {"kernel": f"{heavy.name}_parts", "split": index.name, "parts": parts},
                )


def _heaviest(module: Any, gpu: Any) -> Any:
    """The kernel that reads and writes most."""

    def moved(kernel: Any) -> int:
        buffers = (*kernel.inputs, *kernel.outputs)
        return sum(math.prod(buffer.shape) for buffer in buffers)

    return max(module.kernels, key=moved)


class _Drawn(Struct):
    module: Any
    schedules: Any
    seconds: float
    parameters: dict[str, Any]
    features: tuple[float, ...]


def _drawn(
    module: Any, how: Mapping[str, Any], gpu: Any, generator: random.Random
) -> Iterator[_Drawn]:
    from aiosearch.codegen.pallas import CannotPrint, Tiling
    from aiosearch.codegen.pallas.cost.block_demand import block_demand
    from aiosearch.codegen.pallas.cost.kernel_cost import TilingPrediction
    from aiosearch.codegen.pallas.layout import TileLayout, parallel
    from aiosearch.codegen.pallas.nodes import TileNodes
    from aiosearch.codegen.pallas.space.tiling_space import TilingSpace, parameters

    kernel = next(candidate for candidate in module.kernels if candidate.name == how["kernel"])
    best_of = {
        candidate.name: TilingSpace(candidate, gpu).best
        for candidate in module.kernels
        if candidate is not kernel
    }
    schedules = {name: choice.schedule for name, choice in best_of.items()}
    seconds = sum(choice.seconds for choice in best_of.values())
    nodes = TileNodes(kernel)
    sizes = {index.name: index.size for index in kernel.indices}
    cuts = parameters(nodes)
    grid = [index.name for index in parallel(nodes)]
    last = [index for index in grid if index in str(nodes.outputs[0].stage.at[-1:])][-1:]
    for _ in range(SAMPLED):
        tiles = {cut.name: generator.choice(_values(cut, sizes.get(cut.name, 0))) for cut in cuts}
        loops = [cut.name for cut in cuts if cut.loop and tiles[cut.name]]
        for name in generator.sample(loops, max(0, len(loops) - 1)):
            tiles[name] = 0
        tiles = {name: tile for name, tile in tiles.items() if tile}
        fastest = generator.choice([None, None, None, *grid[1:]])
        if fastest not in tiles:
            fastest = None
        try:
            asked = block_demand(TileLayout(nodes, Tiling(tiles, fastest=fastest)))
        except CannotPrint:
            continue
        for warps in generator.sample(WARPS, 2):
            for stages in generator.sample(STAGES, 2):
                prediction = TilingPrediction(asked, warps, stages, gpu)
                if prediction.shared_bytes > gpu.shared_bytes or prediction.registers > 512:
                    continue
                tiling = Tiling(tiles, warps, stages, fastest)
                loop = next((tiles[name] for name in loops if name in tiles), 0)
                across = next((tiles[name] for name in last if name in tiles), 0)
                beside = math.prod(
                    tiles[name] for name in grid if name in tiles and name not in last
                )
                yield _Drawn(
                    module,
                    {kernel.name: tiling, **schedules},
                    seconds + prediction.seconds,
                    {
                        **how, "tiles": tiles, "warps": warps, "stages": stages, "fastest": fastest,
                        "across": across, "loop": loop,
                        "others": {name: str(tiling) for name, tiling in schedules.items()},
                        "others_predicted_us": round(seconds * 1e6, 2),
                        **_prediction(prediction),
                    },
                    tuple(
                        math.log2(max(1, value)) * weight
                        for value, weight in (
                            (across, 1.0), (beside, 0.7), (loop, 1.0), (how["parts"], 0.8),
                            (warps, 0.8), (1 << stages, 0.5),
                        )
                    ),
                )  # fmt: skip


def _values(cut: Any, size: int) -> list[int]:
    """A parameter's values, and for tiles of a matrix' sides those up to 256."""
    values = [int(value) for value in cut.values]
    most = max(values)
    while 16 <= most < min(WIDEST, size):
        most *= 2
        values.append(most)
    return values


def _prediction(prediction: Any) -> dict[str, Any]:
    """What the prediction is made of."""
    asked = prediction.asked
    terms = {
        f"{name}_us": round(getattr(prediction, f"_{name}") * 1e6, 2)
        for name in ("memory", "cache", "arithmetic", "chain")
        if hasattr(prediction, f"_{name}")
    }
    return {
        **terms,
        "resident": prediction.resident,
        "registers": prediction.registers,
        "shared_bytes": prediction.shared_bytes,
        "blocks": asked.blocks,
        "steps": asked.steps,
        "loops": asked.loops,
        "memory_bytes": asked.memory_bytes,
        "loaded_bytes": asked.loaded_bytes,
        "streamed_bytes": asked.streamed_bytes,
        "step_bytes": asked.step_bytes,
    }


def _spread(pool: Sequence[_Drawn], count: int, generator: random.Random) -> list[SweepPoint]:
    """Half lie as far apart as may be, which finds the corners; half are drawn from the middle."""
    if not pool or count <= 0:
        return []
    least = min(candidate.seconds for candidate in pool)
    written: dict[str, SweepPoint] = {}
    corners = _apart([candidate for candidate in pool if candidate.seconds <= FARTHEST * least])
    for drawn, most in ((corners, (count + 1) // 2), (_mixed(pool, least, generator), count)):
        for candidate in drawn:
            if len(written) >= most:
                break
            point = _written(candidate)
            if point is not None:
                written.setdefault(point.source, point)
    return list(written.values())


def _apart(left: Sequence[_Drawn]) -> Iterator[_Drawn]:
    """The best predicted, then each time the one that is farthest from all that came."""
    chosen = min(left, key=lambda candidate: candidate.seconds)
    far = [math.inf] * len(left)
    for _ in left:
        yield chosen
        far = [
            min(before, math.dist(chosen.features, candidate.features))
            for before, candidate in zip(far, left, strict=True)
        ]
        chosen = left[max(range(len(left)), key=lambda at: (far[at], -left[at].seconds))]


def _mixed(pool: Sequence[_Drawn], least: float, generator: random.Random) -> Iterator[_Drawn]:
    """Those predicted to be fast in random order, but each tile across and split in its turn."""
    groups: dict[tuple[int, int], list[_Drawn]] = {}
    for candidate in pool:
        if candidate.seconds <= NEAR * least:
            key = candidate.parameters["across"], candidate.parameters["parts"]
            groups.setdefault(key, []).append(candidate)
    queues = list(groups.values())
    generator.shuffle(queues)
    for queue in queues:
        generator.shuffle(queue)
    for turn in range(max(map(len, queues), default=0)):
        yield from (queue[turn] for queue in queues if turn < len(queue))


def _written(candidate: _Drawn) -> SweepPoint | None:
    """Nothing where a tiling has no text."""
    from aiosearch.codegen.pallas import CannotPrint, name_of, write

    try:
        source = write(candidate.module, candidate.schedules)
    except CannotPrint:
        return None
    return SweepPoint(
        source, name_of(candidate.module), round(candidate.seconds * 1e6, 2), candidate.parameters
    )
