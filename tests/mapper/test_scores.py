"""Published mappings have their scores, to all digits; the search finds them, or better."""

from __future__ import annotations

import json
from collections.abc import Callable

import msgspec
import pytest

from aiosearch import solve
from aiosearch.mapper.clusters import Cluster
from aiosearch.mapper.costs import FaithfulModel, score, step_cost
from aiosearch.mapper.errors import MappingError
from aiosearch.mapper.levels import Level, flatten
from aiosearch.mapper.mapped_program import map_program
from aiosearch.mapper.mappings import Assignment, DataHolders, read_report
from aiosearch.mapper.patterns import PatternProgram
from aiosearch.mapper.published import (
    KERNELS,
    batch_classification,
    claix,
    jacobi,
    monte_carlo,
    multi_filter,
    neural_network,
)
from aiosearch.mapper.splits import PatternSplit, SplitSizes
from aiosearch.mapper.stair_climb import Mapping
from aiosearch.mapper.teams import Team

FIRST, SECOND = Team(0, 0, 0, 24), Team(0, 0, 1, 24)
Place = Callable[[PatternSplit], Team]


def placed(levels: tuple[Level, ...], place: Place) -> list[Assignment]:
    return [
        tuple((split, place(split)) for split in level.placed) for level in levels if level.placed
    ]


def place_batch(split: PatternSplit) -> Team:
    """Halves, swapped between the two maps; all of the rest on the second socket."""
    upper = split.starts[0] < 4 * 65536
    if split.name == "normalize":
        return FIRST if upper else SECOND
    if split.name == "extract":
        return SECOND if upper else FIRST
    return SECOND


def place_jacobi(split: PatternSplit) -> Team:
    """The first rows of two systems are on the socket that did not read the matrix."""
    away = split.name.startswith(("sweep2", "sweep3")) and split.starts[0] == 0
    return SECOND if away else FIRST


def place_filters(split: PatternSplit) -> Team:
    """Half of the image's filters on each socket."""
    if split.name == "laplacian":
        return SECOND if split.starts[0] < 4097 else FIRST
    return FIRST if split.name == "sobel" else SECOND


@pytest.mark.parametrize(
    ("program", "sizes", "place", "published"),
    [
        (batch_classification(), SplitSizes(65536, 65536), place_batch, 0.6727511482839811),
        (jacobi(), SplitSizes(4096, 4096), place_jacobi, 0.43456649516955903),
        (multi_filter(), SplitSizes(4096, 128), place_filters, 0.01902707234136348),
        (multi_filter(), SplitSizes(4096, 8192), place_filters, 0.01902707234136348),
    ],
    ids=["batch", "jacobi", "multifilter", "multifilter-coarse"],
)
def test_published_mappings_have_their_scores(
    program: PatternProgram, sizes: SplitSizes, place: Place, published: float
) -> None:
    """The posterior model gives every digit."""
    model = FaithfulModel(claix())
    assert score(model, placed(flatten(program, sizes), place)) == published


def place_chains(split: PatternSplit) -> Team:
    """Half of the chains on each socket."""
    return FIRST if split.name == "chains" and split.starts[0] < 48 else SECOND


def place_layers(split: PatternSplit) -> Team:
    """Two layers by halves, as the published tool's base mapping has it; all else on one socket."""
    upper = split.starts[0] < 131_072
    if split.name == "layer0":
        return FIRST if upper else SECOND
    return FIRST if split.name == "layer1" and not upper else SECOND


@pytest.mark.parametrize(
    ("program", "sizes", "place", "published", "digits"),
    [
        (monte_carlo(), SplitSizes(24, 1), place_chains, 13.611111246625484, 7e-9),
        (neural_network(), SplitSizes(4096, 4096), place_layers, 0.3074889954596412, 3e-6),
    ],
    ids=["monte", "nn"],
)
def test_mappings_that_reports_leave_open_are_near_their_scores(
    program: PatternProgram, sizes: SplitSizes, place: Place, published: float, digits: float
) -> None:
    """Reports do not say where scalars and weights are, which the last digits depend on."""
    total = score(FaithfulModel(claix()), placed(flatten(program, sizes), place))
    assert total == pytest.approx(published, rel=digits)


def renamed(cluster: Cluster) -> Cluster:
    """The same cluster, every node of which has another name."""
    nodes = tuple(
        msgspec.structs.replace(node, identifier=f"host {number}")
        for number, node in enumerate(cluster.nodes)
    )
    return msgspec.structs.replace(cluster, nodes=nodes)


def wider(cluster: Cluster) -> Cluster:
    """The same cluster, whose links, network and memories are twice as fast."""

    def doubled(matrix: tuple[tuple[float, ...], ...]) -> tuple[tuple[float, ...], ...]:
        return tuple(tuple(2 * value for value in row) for row in matrix)

    nodes = tuple(
        msgspec.structs.replace(
            node,
            bandwidth=doubled(node.bandwidth),
            devices=tuple(
                msgspec.structs.replace(
                    device, bandwidth=2 * device.bandwidth, max_bandwidth=2 * device.max_bandwidth
                )
                for device in node.devices
            ),
        )
        for node in cluster.nodes
    )
    return msgspec.structs.replace(cluster, nodes=nodes, bandwidth=doubled(cluster.bandwidth))


def test_names_do_not_matter_and_bandwidth_does_not_hurt() -> None:
    """The best score is that of the machine: the same under other names, no worse with more."""
    program, sizes = KERNELS["multifilter"]

    def best(cluster: Cluster) -> float:
        problem = Mapping(program=program(), cluster=cluster, sizes=sizes, lookahead=0)
        cost = solve(problem, workers=0).best_cost
        assert cost is not None
        return cost

    usual = best(claix())
    assert best(renamed(claix())) == usual
    assert best(wider(claix())) < usual


def test_a_step_is_made_of_execution_and_transfer() -> None:
    """The first sweep of the published Jacobi mapping, term by term."""
    model, holdings = FaithfulModel(claix()), DataHolders()
    read, sweep = placed(flatten(jacobi(), SplitSizes(4096, 4096)), place_jacobi)[:2]
    assert step_cost(model, read, holdings) == 0.005519749677019528
    first, second = model.judge(sweep, holdings.after(read))
    assert (first.execution, first.transfer) == (0.007991263611111112, 0.00059083007246768)
    assert first.total == 0.008582093683578792
    assert second.total == pytest.approx(0.0039958756349206355 + 0.002760611954244605, rel=1e-12)


def test_overlap_is_the_classical_roofline() -> None:
    """With overlap 1, a team takes the longer of computing and fetching."""
    read, sweep = placed(flatten(jacobi(), SplitSizes(4096, 4096)), place_jacobi)[:2]
    holdings = DataHolders().after(read)
    for cost in FaithfulModel(claix(), overlap=1.0).judge(sweep, holdings):
        assert cost.total == pytest.approx(max(cost.execution, cost.transfer), rel=1e-12)


@pytest.mark.parametrize(
    ("kernel", "published"),
    [
        ("batch", 0.40006307962033366),
        ("jacobi", 0.43456649516955903),
        ("multifilter", 0.015023565427608772),
    ],
)
def test_the_search_finds_published_optima(kernel: str, published: float) -> None:
    """On the published cluster, with lookahead 1, to all digits."""
    program, sizes = KERNELS[kernel]
    problem = Mapping(program=program(), cluster=claix(), sizes=sizes)
    assert solve(problem, workers=0).best_cost == published


def test_chains_use_both_nodes_and_no_gpu() -> None:
    """A branch costs a warp 32 times as much, so Monte Carlo stays on four sockets."""
    program, sizes = KERNELS["monte"]
    problem = Mapping(program=program(), cluster=claix(), sizes=sizes)
    found = solve(problem, workers=0)
    assert found.best_cost == pytest.approx(6.94444824, abs=1e-8)
    assert found.best is not None
    first = problem.result(found.best).steps[0]
    assert {(team.node, team.device, team.group) for team in first.teams()} == {
        (0, 0, 0), (0, 0, 1), (1, 0, 0), (1, 0, 1),
    }  # fmt: skip


def test_layers_go_to_gpus() -> None:
    """The network is read on a CPU, runs on the GPUs of the same node, and is printed by a CPU."""
    program, sizes = KERNELS["nn"]
    problem = Mapping(program=program(), cluster=claix(), sizes=sizes, lookahead=0)
    found = solve(problem, workers=0)
    assert found.best is not None
    assert found.best_cost is not None
    assert found.best_cost <= 0.0090829614
    steps = problem.result(found.best).steps
    devices = [{team.device for team in step.teams()} for step in steps]
    assert devices[0] == devices[-1] == {0}
    assert all(0 not in used for used in devices[1:-1])
    assert {team.node for step in steps for team in step.teams()} == {0}


@pytest.mark.parametrize(
    ("cluster", "program", "expected"),
    [
        (claix(1), batch_classification(), 0.45283132),
        (claix(1, 0), batch_classification(), 0.45283132),
        (claix(1), monte_carlo(), 13.611111),
        (claix(1), multi_filter(), 0.015023565),
        (claix(arithmetic_units=4), batch_classification(), 0.26362175),
        (claix(arithmetic_units=4), multi_filter(), 0.0091132287),
        (claix(arithmetic_units=4), monte_carlo(), 1.7361149),
        (claix(1), jacobi(5), 0.048425488),
        (claix(arithmetic_units=4), jacobi(5), 0.021815744),
    ],
)
def test_variants_of_the_cluster(
    cluster: Cluster, program: PatternProgram, expected: float
) -> None:
    """One node, no GPU, four operations a cycle: each has the score it had when first studied."""
    problem = Mapping(program=program, cluster=cluster, sizes=KERNELS[program.name][1])
    assert solve(problem, workers=0).best_cost == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize(
    ("program", "size"),
    [(batch_classification(), 65536), (monte_carlo(), 24), (jacobi(5), 2048)],
)
async def test_split_sizes_are_found(program: PatternProgram, size: int) -> None:
    """Halving stops where the next half promises less than 2 %."""
    mapped = await map_program(program, claix(), lookahead=0)
    assert mapped.sizes.pattern == size
    assert mapped.trials[-1].score > 0.98 * mapped.score


@pytest.mark.parametrize(
    ("program", "sizes", "levels"),
    [
        (batch_classification(), SplitSizes(65536, 65536), 6),
        (jacobi(), SplitSizes(4096, 4096), 52),
        (monte_carlo(), SplitSizes(24, 1), 5),
        (multi_filter(), SplitSizes(4096, 128), 3),
        (neural_network(), SplitSizes(4096, 4096), 11),
    ],
)
def test_levels_of_the_published_kernels(
    program: PatternProgram, sizes: SplitSizes, levels: int
) -> None:
    """Three chains written one after another run beside each other; filters share a level."""
    assert len(flatten(program, sizes)) == levels


@pytest.mark.parametrize("kernel", ["batch", "multifilter"])
def test_bounds_stay_below_costs(kernel: str) -> None:
    """On the way to a mapping, no bound is above what it costs in the end; a beam is no worse."""
    program, sizes = KERNELS[kernel]
    problem = Mapping(program=program(), cluster=claix(), sizes=sizes, lookahead=0)
    node, bounds = problem.root(), []
    while children := problem.expand(node):
        bounds.append(problem.bound(node))
        node = children[0]
    assert bounds == sorted(bounds)
    assert 0 < bounds[0] <= bounds[-1] <= problem.cost(node) == problem.bound(node)
    beam = Mapping(program=program(), cluster=claix(), sizes=sizes, lookahead=0, width=3)
    assert solve(beam, workers=0).best_cost <= problem.cost(node)


async def test_workers_find_what_one_process_does() -> None:
    """The search is a problem like any other: in worker processes it gives the same mapping."""
    program, sizes = KERNELS["multifilter"]
    problem = Mapping(program=program(), cluster=claix(), sizes=sizes, width=2)
    assert solve(problem, workers=1).best_cost == 0.015023565427608772


async def test_a_report_is_read_and_costed_again() -> None:
    """A mapping that was written down has its score; one that does not fit is said."""
    program, sizes = KERNELS["multifilter"]
    mapped = await map_program(program(), claix(), sizes)
    report, levels = mapped.report(), flatten(program(), sizes)
    steps = read_report(json.dumps(report), claix(), levels)
    assert score(FaithfulModel(claix()), steps) == mapped.score == report["Score"]
    row = report["stepMappings"][1]["Nodes"][0]["Assignment"][0]
    row["Processor"] = "socket9"
    with pytest.raises(MappingError, match="the cluster has no node1/cpu/socket9"):
        read_report(json.dumps(report), claix(), levels)
    with pytest.raises(MappingError, match="no report of a mapping"):
        read_report("[]", claix(), levels)
