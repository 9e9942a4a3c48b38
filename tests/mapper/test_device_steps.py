"""Several devices run a function step by step: equal results, and moves that were planned."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import msgspec
import numpy as np
import pytest
from jax import lax

from aiosearch.mapper import Cluster, PlanError
from aiosearch.mapper.clusters import CacheGroup, CacheLevel, ComputeDevice, Node, ProcessorKind
from aiosearch.mapper.device_steps import (
    DevicePart,
    DeviceSteps,
    jax_devices,
    pipelined,
    predicted_speeds,
    shared_out,
)
from aiosearch.mapper.jaxpr_patterns import patterns_of
from aiosearch.mapper.rows.equations import trace

KEY = jax.random.PRNGKey(0)
ROWS = 101
"""A prime: it is divisible by nothing."""
SPEEDS = {"cpu:0": 1.0, "cpu:1": 3.0, "cpu:2": 2.0}


def normal(*shape: int) -> jax.Array:
    return jax.random.normal(KEY, shape)


def layers(x: Any, w: Any) -> Any:
    for _ in range(3):
        x = jnp.tanh(x @ w)
    return x


def wide(x: Any, w: Any) -> Any:
    return jnp.tanh(jnp.tanh(x @ w) @ w.T)


def normalized(x: Any) -> Any:
    scaled = jnp.tanh(x) * 3
    return (scaled - scaled.mean(0)) / (scaled.std(0) + 1), scaled.max(0)


CASES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "layers": (layers, (normal(ROWS, 8), normal(8, 8))),
    "reductions over rows": (normalized, (normal(ROWS, 5),)),
    "a stencil of a stencil": (
        lambda u: (lambda v: jnp.sin(v[:-2] + v[2:]) * v[1:-1])(jnp.cos(u[1:] * u[:-1])),
        (normal(ROWS, 3),),
    ),
    "rows that all rows are needed for": (lambda x: jnp.tanh(x @ x.T) @ x, (normal(ROWS, 4),)),
    "a recurrence": (
        lambda h, xs, w: lax.scan(lambda h, x: (jnp.tanh(h @ w + x), h.sum()), h, xs),
        (normal(ROWS, 4), normal(6, ROWS, 4), normal(4, 4)),
    ),
    "no rows": (lambda x: jnp.abs(jnp.fft.fft(jnp.sin(x))) * 2, (normal(64),)),
    "lookups, whole numbers, an argument as a result": (
        lambda table, at: (jnp.sin(table[at]), at + 1, jnp.argmax(table[at], 0), at, 3.0),
        (normal(10, 3), jnp.arange(ROWS) % 10),
    ),
}


def cluster(*frequencies: float, size: float = 8000.0) -> Cluster:
    """A node whose devices are jax's CPU devices, with these frequencies."""
    devices = tuple(
        ComputeDevice(
            identifier=f"cpu:{number} described",
            kind=ProcessorKind.CPU,
            latency=90,
            bandwidth=1e5,
            max_bandwidth=1e6,
            size=size,
            groups=(
                CacheGroup(
                    identifier="a core", cores=1, frequency=frequency,
                    caches=(CacheLevel(15, 20_000, 8),),
                ),
            ),
        )
        for number, frequency in enumerate(frequencies)
    )  # fmt: skip
    links = tuple(tuple(0.0 if a == b else 1e6 for b in devices) for a in devices)
    node = Node(identifier="here", bandwidth=links, latency=links, devices=devices)
    return Cluster(bandwidth=((0.0,),), latency=((0.0,),), nodes=(node,))


def captured(name: str) -> tuple[Any, list[Any], Any]:
    """The patterns of a case, its flat arguments, and what it gives."""
    function, args = CASES[name]
    flat, _ = trace(function, args)
    return patterns_of(flat, name, recurrences=False), list(args), function(*args)


def close(actual: Any, expected: Any) -> None:
    pairs = zip(jax.tree_util.tree_leaves(actual), jax.tree_util.tree_leaves(expected), strict=True)
    for a, b in pairs:
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5)


def in_child(folder: Path, script: str, devices: int = 4) -> None:
    """Runs a script with so many CPU devices, in which this module is `cases`."""
    path = folder / "several.py"
    path.write_text(
        f"import jax\njax.config.update('jax_num_cpu_devices', {devices})\n"
        f"import test_device_steps as cases\n{script}"
    )
    paths = [str(Path(__file__).parent), *sys.path]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    subprocess.run([sys.executable, str(path)], check=True, env=environment)


def check_shares() -> None:
    """Every case, in unequal shares."""
    for name in CASES:
        patterns, args, expected = captured(name)
        across = DeviceSteps(patterns, shared_out(patterns, SPEEDS), jax_devices(SPEEDS))
        for _ in range(2):
            close(across(args), expected)
            assert sorted(map(repr, across.moved)) == sorted(map(repr, across.transfers)), name
        used = {part.device for step in across.steps for part in step}
        assert used == set(SPEEDS) or name == "no rows", (name, used)


def test_unequal_shares_give_what_the_function_gives(tmp_path: Path) -> None:
    """Rows that nothing divides, reductions, stencils, loops; what moves is what was planned."""
    in_child(tmp_path, "cases.check_shares()")


def check_pipeline() -> None:
    patterns, args, expected = captured("layers")
    names = list(SPEEDS)
    steps = pipelined(patterns, names, 5)
    # The first and the last part pass alone, in between all devices work.
    assert [len({part.device for part in step}) for step in steps] == [1, 2, 3, 3, 3, 2, 1]
    across = DeviceSteps(patterns, steps, jax_devices(names))
    close(across(args), expected)
    assert sorted(map(repr, across.moved)) == sorted(map(repr, across.transfers))
    carried = [move for move in across.transfers if move.value not in ("x0", "x1")]
    assert {(move.source, move.to) for move in carried} == {
        ("cpu:0", "cpu:1"), ("cpu:1", "cpu:2"), ("cpu:2", "cpu:0"),
    }  # fmt: skip


def test_stages_of_a_chain_work_on_parts_of_the_rows_at_the_same_time(tmp_path: Path) -> None:
    """A pipeline over three devices, with moves only from a stage to the next and back home."""
    in_child(tmp_path, "cases.check_pipeline()")


PLACE = """
import asyncio, json
import numpy as np
from aiosearch.mapper import PlanError, place, read_plan

x = np.random.default_rng(0).standard_normal((1009, 16), np.float32)
w = np.full((16, 256), 0.02, np.float32)
# The original needs more than a device is allowed, so that the devices have to do it.
plan = asyncio.run(place(cases.wide, x, w, cluster=cases.cluster(1000, 3000), seconds=2.0,
                         memory=900_000))
assert not plan.is_original, plan.explain()
cases.close(plan(x, w), cases.wide(x, w))
assert {team.name for team in plan.description.teams} == {"cpu:0", "cpu:1"}
assert all(team.measured > 0 and team.predicted > 0 for team in plan.description.teams)
assert "from cpu:0 to cpu:1" in plan.explain(), plan.explain()
assert "cpu:1" in plan.timeline()
# Within another transformation, and of other shapes, it is the function that runs.
slopes = [jax.grad(lambda w: f(x, w).sum())(w) for f in (plan, cases.wide)]
cases.close(*slopes)
cases.close(plan(x[:5], w), cases.wide(x[:5], w))
changed = json.loads(plan.to_json())
part = {"call": "tanh4", "device": "cpu:1", "first": 0, "rows": 1009}
names = list(dict.fromkeys(p["call"] for step in changed["steps"] for p in step))
changed["steps"] = [[{**part, "call": name} for name in names]]
edited = read_plan(json.dumps(changed), cases.wide, x, w)
cases.close(edited(x, w), cases.wide(x, w))
assert len(edited.device_steps.moved) == 3
changed["devices"] = ["cpu:0", "cpu:9"]
try:
    read_plan(json.dumps(changed), cases.wide, x, w)
except PlanError as error:
    assert "cpu:9 is to compute, and jax has cpu:0, cpu:1, cpu:2, cpu:3" in str(error), error
else:
    raise AssertionError
small = asyncio.run(place(cases.wide, x, w, cluster=cases.cluster(1000, 3000, size=0.01),
                          seconds=1.0))
assert "fits their memory" in small.explain()
"""


def test_a_cluster_that_names_devices_of_jax_is_placed_on(tmp_path: Path) -> None:
    """`place` gives a plan that several devices run, which is written, edited and read again."""
    in_child(tmp_path, PLACE)


def test_shares_follow_from_the_roofs_of_the_devices() -> None:
    """A device of three times the frequency is to compute about three times as many rows."""
    patterns, _, _ = captured("layers")
    speeds = predicted_speeds(patterns, cluster(100, 300), "cpu:0")
    assert speeds["cpu:1"] / speeds["cpu:0"] == pytest.approx(3, rel=0.2)
    rows = {part.device: part.rows for part in shared_out(patterns, speeds)[0]}
    assert rows["cpu:0"] + rows["cpu:1"] == ROWS
    assert rows["cpu:1"] == pytest.approx(3 * rows["cpu:0"], rel=0.25)


def test_steps_between_which_nothing_moves_are_joined() -> None:
    """Three layers of rows are one step; a mean over rows needs two more."""
    patterns, _, _ = captured("layers")
    assert len(shared_out(patterns, SPEEDS)) == 1
    patterns, _, _ = captured("reductions over rows")
    assert len(shared_out(patterns, SPEEDS)) > 2
    assert len(shared_out(patterns, {"cpu:0": 1.0})) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda parts: parts[:-1], r"parts of .* are not rows 0 to 100, each once"),
        (lambda parts: [*parts, parts[0]], r"are not rows 0 to 100, each once"),
        (lambda parts: [msgspec.structs.replace(parts[0], device="gpu:0"), *parts[1:]],
         "runs .* on gpu:0; there are cpu:0"),
        (lambda parts: [*parts, DevicePart("sort9", "cpu:0", 0, 5)], "does not have"),
        (lambda parts: list(reversed(parts)), "which no step before it has computed"),
    ],
)  # fmt: skip
def test_a_plan_that_leaves_rows_out_is_refused(change: Any, message: str) -> None:
    """Rows that nobody or two compute, unknown devices and calls, and what is not there yet."""
    patterns, _, _ = captured("layers")
    (step,) = shared_out(patterns, {"cpu:0": 1.0})
    with pytest.raises(PlanError, match=message):
        DeviceSteps(patterns, (tuple(change(list(step))),), jax_devices(["cpu:0"]))


def test_what_is_no_chain_of_rows_is_no_pipeline() -> None:
    """A sum over all rows cannot be computed part by part behind the parts."""
    patterns, _, _ = captured("reductions over rows")
    with pytest.raises(PlanError, match=r"the same rows|other rows"):
        pipelined(patterns, ["cpu:0", "cpu:1"], 4)
