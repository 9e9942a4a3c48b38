"""The calibrated model: caches forget, writes take time, memories have a size, links are shared."""

from __future__ import annotations

import jax.numpy as jnp
import msgspec
import pytest

from aiosearch import solve
from aiosearch.mapper import CalibratedModel, MappingError, PatternKind, SplitSizes, Team
from aiosearch.mapper.calibration import FRESH_SIZES, Calibration, predict_rows
from aiosearch.mapper.costs import CachedHolders, step_cost
from aiosearch.mapper.patterns import Work
from aiosearch.mapper.published import claix, multi_filter
from aiosearch.mapper.rows.blocked import RowSchedule
from aiosearch.mapper.rows.choice import choose_rows
from aiosearch.mapper.rows.equations import trace
from aiosearch.mapper.splits import DataSplit, PatternSplit
from aiosearch.mapper.stair_climb import Mapping

MB = 1e6
SOCKET, OTHER, MULTIPROCESSOR = Team(0, 0, 0, 24), Team(0, 0, 1, 24), Team(0, 1, 0, 64)


def data(name: str, megabytes: float) -> DataSplit:
    return DataSplit(name, 0, 1, megabytes * MB)


def split(*inputs: DataSplit, writes: tuple[DataSplit, ...] = (), call: int = 0) -> PatternSplit:
    return PatternSplit(
        call, 0, f"call{call}", PatternKind.MAP, Work(10), (0,), (1000,), inputs, writes
    )


def test_a_cache_forgets_what_was_used_longest_ago() -> None:
    """Of 20 and 20 MB that were written, a cache of 32 MB holds the latter."""
    a, b = data("a", 20), data("b", 20)
    holdings = CachedHolders(claix()).after(((split(writes=(a,)), SOCKET),))
    assert [holder.cached for holder in holdings.of(a)] == [True, False]
    holdings = holdings.after(((split(writes=(b,)), SOCKET),))
    assert [holder.cached for holder in holdings.of(a)] == [False]
    assert [holder.cached for holder in holdings.of(b)] == [True, False]


def test_reading_makes_a_copy_and_writing_ends_copies() -> None:
    """A socket that has read another's data has it at hand, until somebody writes it anew."""
    a = data("a", 4)
    written = CachedHolders(claix()).after(((split(writes=(a,)), SOCKET),))
    read = written.after(((split(a), OTHER),))
    assert {holder.team for holder in read.of(a) if holder.cached} == {SOCKET, OTHER}
    again = read.after(((split(writes=(a,)), SOCKET),))
    assert {holder.team for holder in again.of(a) if holder.cached} == {SOCKET}


def test_what_left_the_cache_costs_the_memory() -> None:
    """Reading 20 MB takes longer once 20 MB of something else have pushed them out."""
    model = CalibratedModel(claix(), overlap=0.0)
    a, b = data("a", 20), data("b", 20)
    reading = ((split(a), SOCKET),)
    near = model.holdings().after(((split(writes=(a,)), SOCKET),))
    far = near.after(((split(writes=(b,)), SOCKET),))
    assert step_cost(model, reading, far) > 2 * step_cost(model, reading, near)


def test_writes_and_launches_take_time() -> None:
    """A call that writes 97.3 MB takes a millisecond longer, and a second call its launch."""
    model = CalibratedModel(claix(), overlap=0.0, launch=1e-3)
    nothing = model.holdings()
    plain = step_cost(model, ((split(), SOCKET),), nothing)
    writing = step_cost(model, ((split(writes=(data("a", 97.3),)), SOCKET),), nothing)
    assert writing - plain == pytest.approx(1e-3)
    both = step_cost(model, ((split(), SOCKET), (split(call=1), SOCKET)), nothing)
    assert both - 2 * plain == pytest.approx(0.0, abs=1e-9)


def test_a_device_has_a_size() -> None:
    """17 GB do not fit a GPU of 16 GB, and do fit the host."""
    model = CalibratedModel(claix())
    large = split(data("a", 17_000))
    assert step_cost(model, ((large, MULTIPROCESSOR),), model.holdings()) == float("inf")
    assert step_cost(model, ((large, SOCKET),), model.holdings()) < 1


def test_teams_of_a_device_share_its_link() -> None:
    """What is minimised knows that eighty multiprocessors cannot each have all of the link."""
    model = CalibratedModel(claix())
    holder = (
        CachedHolders(claix()).after(((split(writes=(data("a", 4),)), SOCKET),)).of(data("a", 4))
    )
    alone, _ = model.fetching(holder, (MULTIPROCESSOR,))
    many, _ = model.fetching(holder, tuple(Team(0, 1, group, 64) for group in range(80)))
    assert many[0] == pytest.approx(80 * alone[0])


def test_it_is_searched_with_like_the_published_model() -> None:
    """The same problem with another model: a mapping that costs more, as nothing is free."""
    program, sizes = multi_filter(), SplitSizes(4096, 128)
    scores = {}
    for model in ("faithful", "calibrated"):
        problem = Mapping(program=program, cluster=claix(), sizes=sizes, lookahead=0, model=model)
        scores[model] = solve(problem, workers=0).best_cost
    assert scores["calibrated"] is not None
    assert scores["faithful"] is not None
    assert scores["calibrated"] > scores["faithful"]
    with pytest.raises(MappingError, match=r"there is no model 'calibrate'.*calibrated"):
        msgspec.structs.replace(problem, model="calibrate")


FIGURES = Calibration(
    core_stream=20e9, machine_stream=30e9, cache_stream=90e9, operations=100e9, dispatch=5e-6,
    simple=30e9, divisions=4e9, dear=1e9, dear_fused=0.5e9, dear_behind=4e9, block=4e-9,
    fresh=(1e-5, 1e-4, 1e-3, 1e-2, 2e-2), cache_size=16e6,
)  # fmt: skip
"""Figures of a processor as `calibrate` gives them."""


@pytest.mark.parametrize(
    ("size", "seconds"),
    [
        (1 << 19, 5e-6),
        (1 << 20, 1e-5),
        (5 << 19, 5.5e-5),
        (1 << 25, 1e-2),
        (1 << 27, 4e-2),
    ],
)
def test_new_arrays_cost_what_lies_between_those_that_were_timed(size: int, seconds: float) -> None:
    """Halfway between 1 and 4 MB it is the mean of both; beyond the last, in proportion to it."""
    assert len(FIGURES.fresh) == len(FRESH_SIZES)
    assert FIGURES.filled(size) == pytest.approx(seconds)


def test_teams_take_as_much_of_the_processor_as_one_that_computes_all() -> None:
    """What two teams compute takes half as long and as much CPU; joining comes on top."""
    pulled = choose_rows(trace(lambda x: jnp.tanh(x) / (x + 2), (jnp.ones((4096, 64)),))[0])
    assert pulled is not None
    alone, both = (
        predict_rows(pulled, RowSchedule(teams, 64, fence=True), 4096, FIGURES) for teams in (1, 2)
    )
    assert alone.dear == pytest.approx(2 * both.dear) == pytest.approx(4096 * 64 / 1e9)
    assert alone.divisions == pytest.approx(4096 * 64 / 4e9)
    assert alone.cpu_seconds == pytest.approx(alone.seconds)
    computed = both.cpu_seconds - both.joining - both.dispatch
    assert computed == pytest.approx(2 * (both.seconds - both.joining - both.dispatch))
