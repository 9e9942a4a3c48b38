"""Spaces: sampling, replay over edits and shapes, mutation, crossover, repair, enumeration."""

from __future__ import annotations

import functools
from random import Random
from typing import Any

import numpy as np
import pytest

from aiosearch.tuner import (
    RequirementFailed,
    Sampler,
    SearchSpace,
    SpaceError,
    Trace,
    TunerError,
    find_hardware,
)


def nest(s: Sampler, rows: int = 64) -> None:
    tile = s.tile("rows", rows, parts=3, most_inner=16)
    s.categorical("block", (32, 64, 128))
    s.integer("warps", 1, 8, base=2)
    if s.fork("sketch", ("row", "column")) == "row":
        s.permutation("order", ("m", "n", "k"))
    else:
        s.location("at", ("root", "m0", "m1"))
    s.require(lambda block, warps: block // warps >= 16, "a warp has work")
    s.derive("inner", tile[-1])


SPACE = SearchSpace(nest)


def points(space: SearchSpace, seeds: int = 40) -> list[Trace]:
    return [space.sample(Random(seed)) for seed in range(seeds)]


def test_a_sampled_point_keeps_every_requirement() -> None:
    for trace in points(SPACE):
        assert trace.decisions["block"] // trace.decisions["warps"] >= 16
        assert [held.why for held in trace.requirements] == ["a warp has work"]
        assert trace.requirements[0].reads == ("block", "warps")


def test_the_same_seed_gives_the_same_point() -> None:
    assert SPACE.sample(Random(3)) == SPACE.sample(Random(3))


def test_a_trace_survives_json_and_keeps_its_key() -> None:
    for trace in points(SPACE):
        again = Trace.from_json(trace.to_json())
        assert again == trace
        assert again.key == trace.key
        assert again.digest == trace.digest


def test_what_is_no_trace_is_refused_in_a_sentence() -> None:
    with pytest.raises(TunerError, match="this is no trace"):
        Trace.from_json(b'{"sites": 3}')


def test_the_program_of_a_point_gives_the_point() -> None:
    for trace in points(SPACE):
        scope: dict[str, Any] = {}
        exec(trace.as_python(), scope)
        again = SearchSpace(scope["schedule"]).default()
        assert again.decisions == trace.decisions
        assert again.sites == trace.sites


def test_a_decision_that_is_none_of_the_values_is_refused() -> None:
    space = SearchSpace(lambda s: s.categorical("block", (1, 2), decision=3))
    with pytest.raises(SpaceError, match="'block' is held to 3"):
        space.default()


def test_replay_gives_the_same_trace() -> None:
    for trace in points(SPACE):
        assert SPACE.replay(trace.decisions) == trace


def test_replay_refuses_what_breaks_a_requirement_and_says_which() -> None:
    decisions = {**SPACE.sample(Random(0)).decisions, "block": 32, "warps": 8}
    with pytest.raises(RequirementFailed, match=r"a warp has work \(reads block, warps\)"):
        SPACE.replay(decisions)


def test_replay_names_the_site_that_nothing_is_decided_for() -> None:
    with pytest.raises(SpaceError, match="site 'rows'"):
        SPACE.replay({"row": (1, 1, 64)})


def test_a_mutation_differs_at_one_site_or_at_what_a_requirement_reads() -> None:
    random, trace = Random(0), SPACE.sample(Random(0))
    for _ in range(300):
        moved = SPACE.mutate(trace, random)
        assert moved is not None
        assert SPACE.replay(moved.decisions) == moved
        same_branch = moved.sketch == trace.sketch
        assert 1 <= trace.distance(moved) <= (2 if same_branch else 4)
        trace = moved


def test_a_cross_has_each_decision_from_a_parent() -> None:
    random = Random(1)
    for first, second in zip(points(SPACE), points(SPACE)[1:], strict=False):
        child = SPACE.cross(first, second, random)
        assert child is not None
        assert SPACE.replay(child.decisions) == child
        free = child.decisions.keys() - {"block", "warps"}
        for name in free:
            parents = (first.decisions.get(name), second.decisions.get(name))
            assert child.decisions[name] in parents


def test_a_point_of_another_shape_is_repaired_with_its_inner_factors() -> None:
    trace = SearchSpace(nest, (1024,)).replay(
        {"rows": (16, 4, 16), "block": 64, "warps": 2, "sketch": "column", "at": "m0"}
    )
    repaired = SearchSpace(nest, (96,)).repair(trace, Random(0))
    assert repaired is not None
    assert repaired.decisions == {**trace.decisions, "rows": (2, 3, 16)}


def test_a_point_survives_an_edit_of_its_program() -> None:
    """A site is renamed, one is added, one loses the value: what still fits stays."""

    def edited(s: Sampler) -> None:
        s.categorical("stages", (2, 3))
        s.categorical("block", (64, 256))
        s.integer("warps", 1, 8, base=2)
        s.require(lambda block, warps: block // warps >= 16, "a warp has work")

    trace = SPACE.replay(
        {"rows": (1, 4, 16), "block": 128, "warps": 4, "sketch": "column", "at": "m0"}
    )
    repaired = SearchSpace(edited).repair(trace, Random(0))
    assert repaired is not None
    assert repaired.decisions["warps"] == 4
    assert repaired.decisions["block"] in (64, 256)
    assert repaired.decisions.keys() == {"stages", "block", "warps"}


def test_enumeration_gives_each_point_once_and_in_order() -> None:
    listed = list(SearchSpace(nest, (4,)).points())
    assert len({trace.key for trace in listed}) == len(listed)
    # 6 tiles of 4, 9 pairs of block and warps, and 6 orders or 3 places.
    assert len(listed) == 6 * 9 * (6 + 3)
    sampled = {trace.key for trace in points(SearchSpace(nest, (4,)), 400)}
    assert sampled <= {trace.key for trace in listed}


def test_a_requirement_prunes_what_would_follow() -> None:
    """With 2 of 4 first values refused early, the program runs half as often."""
    runs = []

    def program(s: Sampler) -> None:
        first = s.integer("first", 1, 4)
        s.require(first <= 2, "small", reads=("first",))
        runs.append(s.integer("second", 1, 10))

    assert len(list(SearchSpace(program).points())) == 20
    assert len(runs) == 20


def test_shares_of_all_leaves_are_the_whole_tree() -> None:
    def program(s: Sampler) -> None:
        s.require(s.integer("first", 1, 7) != 3, "no three", reads=("first",))
        s.categorical("second", tuple(range(s.integer("width", 1, 5))))

    leaves = list(SearchSpace(program).leaves())
    assert sum(trace is None for trace, _ in leaves) == 1
    assert sum(share for _, share in leaves) == pytest.approx(1.0)


def test_a_space_without_points_says_what_stands_in_the_way() -> None:
    def program(s: Sampler) -> None:
        s.integer("block", 1, 4)
        s.require(lambda block: block > 4, "a block fills the lanes")

    with pytest.raises(SpaceError, match="a block fills the lanes"):
        SearchSpace(program).sample(Random(0))


def parts(s: Sampler, count: int = 12) -> None:
    """As kernels of one program: each part fits in one of sixteen draws."""

    def part(at: int) -> None:
        first, second = f"first {at}", f"second {at}"
        s.integer(first, 1, 16)
        s.integer(second, 1, 16)
        s.require(s.decisions[first] == s.decisions[second], "both fit", reads=(first, second))
        s.derive(f"sum {at}", s.decisions[first] + s.decisions[second])

    if s.fork("form", ("parts", "whole")) == "parts":
        for at in range(count):
            s.part(functools.partial(part, at))


def test_a_part_that_breaks_its_requirement_is_drawn_again_alone() -> None:
    """Else all that is ever drawn of such a space is the branch that requires nothing."""
    drawn = points(SearchSpace(parts), 60)
    branches = [trace for trace in drawn if trace.decisions["form"] == "parts"]
    assert 15 <= len(branches) <= 45
    for trace in branches:
        assert SearchSpace(parts).replay(trace.decisions) == trace
        assert len(trace.requirements) == len(trace.derived) == 12


def test_a_mutation_of_a_part_leaves_all_other_parts() -> None:
    space, random = SearchSpace(parts), Random(0)
    trace = next(trace for trace in points(space) if trace.decisions["form"] == "parts")
    moves = [move for _ in range(200) if (move := space.mutate(trace, random)) is not None]
    inside = [move for move in moves if move.decisions["form"] == "parts"]
    assert inside
    for move in inside:
        assert move.distance(trace) == 2


def test_a_part_without_points_says_what_stands_in_the_way() -> None:
    def program(s: Sampler) -> None:
        def part() -> None:
            s.integer("block", 1, 4)
            s.require(lambda block: block > 4, "a block fills the lanes")

        s.part(part)

    with pytest.raises(SpaceError, match="a block fills the lanes"):
        SearchSpace(program).sample(Random(0))


def test_a_requirement_on_what_stands_before_a_part_is_not_the_part_s_to_mend() -> None:
    def program(s: Sampler) -> None:
        s.integer("rows", 1, 64)

        def part() -> None:
            s.integer("block", 1, 4)
            s.require(lambda rows: rows == 64, "rows are all there are")

        s.part(part)

    for trace in points(SearchSpace(program), 20):
        assert trace.decisions["rows"] == 64


def test_two_sites_of_one_name_are_refused() -> None:
    def program(s: Sampler) -> None:
        s.integer("block", 1, 4)
        s.integer("block", 1, 8)

    with pytest.raises(SpaceError, match="two sites are called 'block'"):
        SearchSpace(program).sample(Random(0))


def test_a_site_that_is_drawn_twice_alike_gives_one_value() -> None:
    def program(s: Sampler) -> tuple[int, int]:
        return s.integer("block", 1, 99), s.integer("block", 1, 99)

    space = SearchSpace(program)
    first, second = space.build(space.sample(Random(0)))
    assert first == second


def test_a_site_on_which_nothing_depends_is_dead() -> None:
    def program(s: Sampler) -> dict[str, int]:
        s.integer("noise", 1, 9)
        block = s.integer("block", 1, 9)
        return {"block": block}

    space = SearchSpace(program)
    trace = space.sample(Random(0))
    assert set(space.without_dead(trace).decisions) == {"block"}


def test_the_default_point_has_the_defaults_that_fit() -> None:
    space = SearchSpace(nest, defaults={"block": 64, "warps": 4, "sketch": "column"})
    decisions = space.default().decisions
    assert (decisions["block"], decisions["warps"], decisions["sketch"]) == (64, 4, "column")


def test_a_default_that_breaks_a_requirement_becomes_a_near_point() -> None:
    space = SearchSpace(nest, defaults={"block": 32, "warps": 8, "sketch": "column"})
    trace = space.default()
    assert trace.decisions["sketch"] == "column"
    assert trace.decisions["block"] // trace.decisions["warps"] >= 16


def test_a_space_reads_the_hardware_it_is_for() -> None:
    def program(s: Sampler) -> None:
        s.require(s.integer("kib", 1, 512) <= s.hardware.shared_bytes >> 10, "fits", reads=("kib",))

    space = SearchSpace(program, hardware=find_hardware("sm_90"))
    assert max(trace.decisions["kib"] for trace in space.points()) == 227


def test_hardware_that_is_unknown_names_what_there_is() -> None:
    with pytest.raises(TunerError, match="did you mean sm_90"):
        find_hardware("sm90")


def test_a_size_is_drawn_for_the_hardware_and_replays_without_it() -> None:
    def program(s: Sampler) -> None:
        s.size("block", 512, itemsize=2, most=256)

    space = SearchSpace(program, hardware=find_hardware("sm_90"))
    trace = space.sample(Random(3))
    scope: dict[str, Any] = {}
    exec(trace.as_python(), scope)
    assert SearchSpace(scope["schedule"]).sample(Random(0)) == trace


def test_a_requirement_above_its_site_is_refused() -> None:
    """It would hold at every point, and its author would never know."""

    def space(s: Sampler) -> None:
        s.require(lambda block: block > 2, "blocks are large")
        s.integer("block", 1, 4)

    with pytest.raises(SpaceError, match="before it is drawn"):
        SearchSpace(space).default()


def test_a_requirement_of_a_site_that_no_branch_draws_is_refused() -> None:
    """A typing error in the name; a site of another branch is none."""

    def misspelt(s: Sampler) -> None:
        s.integer("block", 1, 4)
        s.require(lambda blok: blok > 2, "blocks are large")

    def branching(s: Sampler) -> None:
        if s.fork("form", ("plain", "tiled")) == "tiled":
            s.integer("block", 1, 4)
        s.require(lambda block: block < 9, "blocks are small")

    with pytest.raises(TunerError, match="did you mean block"):
        SearchSpace(misspelt).default()
    assert SearchSpace(branching).default().decisions == {"form": "plain"}


def test_what_a_space_raises_is_said_with_its_place() -> None:
    """An error in the user's own text is no traceback of ours."""

    def space(s: Sampler, x: int) -> None:
        raise ValueError("no rows")

    with pytest.raises(TunerError, match=r"raised ValueError: no rows, at .*test_spaces.py:\d+"):
        SearchSpace(space, (3,)).default()
    with pytest.raises(TunerError, match="takes 2 positional arguments but 3 were given"):
        SearchSpace(space, (3, 4)).default()
    with pytest.raises(TunerError, match="raised ValueError: no rows"):
        SearchSpace(space, (3,)).sample(Random(0))


@pytest.mark.parametrize("value", [np.ones(3), max, {1: 2}, object()])
def test_values_that_a_table_cannot_hold_are_refused(value: object) -> None:
    """Functions and arrays are named in a space, and looked up in the kernel."""
    with pytest.raises(SpaceError, match="a table cannot hold"):
        SearchSpace(lambda s: s.categorical("act", (value,))).default()


def test_a_number_of_numpy_is_a_number() -> None:
    """As `np.arange` gives them."""
    space = SearchSpace(lambda s: s.categorical("block", np.arange(4, 6)))
    assert space.default().decisions == {"block": 4}
    assert type(space.default().decisions["block"]) is int
