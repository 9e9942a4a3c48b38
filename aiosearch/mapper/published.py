"""The cluster and the five kernels whose scores were published, written down from their figures.

The cluster is CLAIX-2018: nodes of two Xeon Platinum 8160 with, in its GPU nodes, two V100. The
published scores count one operation per core and cycle, whatever `arithmetic-units` says.
"""

from __future__ import annotations

from collections.abc import Callable

from .clusters import CacheGroup, CacheLevel, Cluster, ComputeDevice, Node, ProcessorKind
from .patterns import Access, Array, Nested, Pattern, PatternCall, PatternKind, PatternProgram
from .splits import SplitSizes


def claix(nodes: int = 2, gpus: int = 2, arithmetic_units: float = 1.0) -> Cluster:
    """That many nodes of CLAIX-2018, each with two sockets and that many GPUs."""
    socket_caches = (CacheLevel(0, 0, 1.5), CacheLevel(0, 0, 24), CacheLevel(20.95, 38000, 32))
    cpu = ComputeDevice(
        identifier="cpu",
        kind=ProcessorKind.CPU,
        latency=42.38,
        bandwidth=21330,
        max_bandwidth=97300,
        size=192000,
        groups=tuple(
            CacheGroup(
                identifier=f"socket{number}",
                cores=24,
                frequency=2100,
                arithmetic_units=arithmetic_units,
                vectorization="avx512",
                caches=socket_caches,
            )
            for number in (1, 2)
        ),
    )
    multiprocessors = tuple(
        CacheGroup(
            identifier=f"sm{number}",
            cores=64,
            frequency=1380,
            warp_size=32,
            caches=(CacheLevel(20.3, 150600, 0.128),),
        )
        for number in range(80)
    )
    devices = (
        cpu,
        *(
            ComputeDevice(
                identifier=f"gpu{number + 1}",
                kind=ProcessorKind.GPU,
                latency=55.07,
                bandwidth=9375,
                max_bandwidth=9375,
                size=16000,
                groups=multiprocessors,
            )
            for number in range(gpus)
        ),
    )
    return Cluster(
        topology="fat tree",
        bandwidth=_off_diagonal(nodes, 4148),
        latency=_off_diagonal(nodes, 1840),
        nodes=tuple(
            Node(
                identifier=f"node{number + 1}",
                bandwidth=_off_diagonal(len(devices), 12152),
                latency=_off_diagonal(len(devices), 7210),
                devices=devices,
            )
            for number in range(nodes)
        ),
    )


def _off_diagonal(size: int, value: float) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(0.0 if a == b else value for b in range(size)) for a in range(size))


def declaration(*arrays: Array) -> PatternCall:
    return PatternCall(
        "declare", PatternKind.SERIAL, writes=tuple(Access(array.name) for array in arrays)
    )


def batch_classification() -> PatternProgram:
    """Rows are normalised, reduced to a feature, and classified."""
    rows, columns = 524288, 4096
    arrays = (
        Array("batch", (rows, columns)),
        Array("normalized", (rows, columns)),
        Array("features", (rows,)),
        Array("classes", (rows,), 4),
    )
    return PatternProgram(
        name="batch",
        arrays=arrays,
        patterns=(
            Pattern("scale", 2),
            Pattern("accumulate", 3),
            # Keeping the nearest classifier is a branch: two assignments after a comparison.
            Pattern("compare", 3, branched=2),
            Pattern("normalize", 0, nested=(Nested("scale", (columns,)),)),
            Pattern("extract", 1, nested=(Nested("accumulate", (columns,)),)),
            Pattern("classify", 2, nested=(Nested("compare", (columns,)),)),
        ),
        calls=(
            declaration(*arrays),
            PatternCall("read", PatternKind.IO, writes=(Access("batch"),)),
            _rows("normalize", "normalize", rows, ("batch",), "normalized"),
            _rows("extract", "extract", rows, ("normalized",), "features"),
            _rows("classify", "classify", rows, ("features",), "classes"),
            PatternCall("print", PatternKind.IO, reads=(Access("classes"),)),
        ),
    )


def _rows(
    name: str, pattern: str, rows: int, reads: tuple[str, ...], writes: str, *whole: str
) -> PatternCall:
    """A map over rows, each of which reads the same row of some arrays, and all of others."""
    return PatternCall(
        name,
        PatternKind.MAP,
        pattern=pattern,
        lengths=(rows,),
        reads=(
            *(Access(array) for array in reads),
            *(Access(array, whole=True) for array in whole),
        ),
        writes=(Access(writes),),
    )


def jacobi(iterations: int = 50, systems: int = 3) -> PatternProgram:
    """Several linear systems with one matrix, each iterated by itself, one after another."""
    size = 8192
    names = range(1, systems + 1)
    arrays = (
        Array("A", (size, size)),
        *(Array(f"b{system}", (size,)) for system in names),
        *(Array(f"x{system}{buffer}", (size,)) for system in names for buffer in "ab"),
    )
    calls = [
        declaration(*arrays),
        PatternCall(
            "read",
            PatternKind.IO,
            writes=tuple(Access(name) for name in ("A", *(f"b{s}" for s in names))),
        ),
    ]
    for system in names:
        for iteration in range(iterations):
            old, new = ("a", "b") if iteration % 2 == 0 else ("b", "a")
            # All three use the first right-hand side, as the published program does.
            calls.append(
                _rows(
                    f"sweep{system}.{iteration}", "row", size, ("A", "b1"), f"x{system}{new}",
                    f"x{system}{old}",
                )
            )  # fmt: skip
    return PatternProgram(
        name="jacobi",
        arrays=arrays,
        patterns=(Pattern("dot", 3), Pattern("row", 2, nested=(Nested("dot", (size,)),))),
        calls=tuple(calls),
    )


def monte_carlo() -> PatternProgram:
    """Pi from 96 chains of a billion points each."""
    chains, points = 96, 1_000_000_000
    arrays = (Array("hits", (chains,)), Array("pi", ()))
    return PatternProgram(
        name="monte",
        arrays=arrays,
        patterns=(
            Pattern("point", 13, branched=1),
            Pattern("chain", 5, nested=(Nested("point", (points,)),)),
            Pattern("add", 1),
        ),
        calls=(
            declaration(*arrays),
            PatternCall(
                "chains", PatternKind.MAP, "chain", lengths=(chains,), writes=(Access("hits"),)
            ),
            PatternCall(
                "sum", PatternKind.REDUCE, "add", lengths=(chains,), reads=(Access("hits"),),
                writes=(Access("pi"),),
            ),
            PatternCall("print", PatternKind.IO, reads=(Access("pi"),)),
        ),
    )  # fmt: skip


def multi_filter() -> PatternProgram:
    """Three filters of an image: of its upper half, its lower half, and all of it."""
    size = 8194
    arrays = tuple(Array(name, (size, size)) for name in ("image", "sobel", "prewitt", "laplacian"))

    def stencil(name: str, first: int, rows: int) -> PatternCall:
        return PatternCall(
            name,
            PatternKind.STENCIL,
            pattern=name,
            starts=(first, 1),
            lengths=(rows, size - 3),
            reads=tuple(Access("image", shift=shift) for shift in (-1, 0, 1)),
            writes=(Access(name),),
        )

    return PatternProgram(
        name="multifilter",
        arrays=arrays,
        patterns=(Pattern("sobel", 7), Pattern("prewitt", 5), Pattern("laplacian", 5)),
        calls=(
            declaration(*arrays),
            PatternCall("read", PatternKind.IO, writes=(Access("image"),)),
            stencil("sobel", 1, 4095),
            stencil("prewitt", 4096, 4096),
            stencil("laplacian", 1, 8191),
        ),
    )


def neural_network() -> PatternProgram:
    """Seven layers of 64 neurons and one of 10, on 262,144 rows of 32-bit floats."""
    rows, width, classes, layers = 262144, 64, 10, 8
    outputs = [width] * (layers - 1) + [classes]
    values = [Array("values0", (rows, width), 4)]
    values += [Array(f"values{n + 1}", (rows, size), 4) for n, size in enumerate(outputs)]
    weights = [Array(f"weights{n}", (width, size), 4) for n, size in enumerate(outputs)]
    arrays = (*values, *weights)
    layer = [
        _rows(
            f"layer{n}", "last" if n == layers - 1 else "layer", rows, (f"values{n}",),
            f"values{n + 1}", f"weights{n}",
        )
        for n in range(layers)
    ]  # fmt: skip
    return PatternProgram(
        name="nn",
        arrays=arrays,
        patterns=(
            Pattern("multiply", 2),
            Pattern("neuron", 21, nested=(Nested("multiply", (width,)),)),
            Pattern("layer", 0, nested=(Nested("neuron", (width,)),)),
            Pattern("last", 0, nested=(Nested("neuron", (classes,)),)),
        ),
        calls=(
            declaration(*arrays),
            PatternCall("read", PatternKind.IO, writes=(Access("values0"),)),
            PatternCall(
                "weights", PatternKind.IO, writes=tuple(Access(array.name) for array in weights)
            ),
            *layer,
            PatternCall("print", PatternKind.IO, reads=(Access(f"values{layers}"),)),
        ),
    )


KERNELS: dict[str, tuple[Callable[[], PatternProgram], SplitSizes]] = {
    "batch": (batch_classification, SplitSizes(65536, 65536)),
    "jacobi": (jacobi, SplitSizes(4096, 4096)),
    "monte": (monte_carlo, SplitSizes(24, 1)),
    "multifilter": (multi_filter, SplitSizes(4096, 128)),
    "nn": (neural_network, SplitSizes(4096, 4096)),
}
"""Each kernel and the split sizes of its published report."""
