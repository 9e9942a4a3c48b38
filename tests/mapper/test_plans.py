"""Plans run, explain themselves, are written down and read again, and refuse what does not fit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import anyio
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aiosearch import AiosearchError
from aiosearch.mapper import PlacementPlan, PlanError, place, read_plan
from aiosearch.mapper.detection import detect_cluster
from aiosearch.mapper.plans import describe_plan, predict_teams
from aiosearch.mapper.rows.blocked import RowBlocks, RowSchedule
from aiosearch.mapper.rows.choice import choose_rows
from aiosearch.mapper.rows.equations import trace


def layers(x: Any, w: Any) -> Any:
    for _ in range(3):
        x = jnp.tanh(x @ w)
    return x


ARGS = (np.ones((1000, 16), np.float32), np.full((16, 16), 0.1, np.float32))


def scheduled(schedule: RowSchedule) -> PlacementPlan[..., Any]:
    """A plan with a schedule that nothing was measured for."""
    flat, out = trace(layers, ARGS)
    pulled = choose_rows(flat)
    assert pulled is not None
    leaves, tree = jax.tree_util.tree_flatten(ARGS)
    teams = predict_teams(detect_cluster(gpus=False), schedule, 1000, 1e6, 1e5)
    description = describe_plan(layers, leaves, pulled, schedule, teams=teams)
    return PlacementPlan(layers, description, RowBlocks(pulled), (tree, out))


async def test_a_placed_function_gives_what_it_gave() -> None:
    """Whether or not anything was faster here, and whatever is asked for besides."""
    plan = await place(layers, *ARGS, seconds=2.0)
    np.testing.assert_allclose(plan(*ARGS), layers(*ARGS), rtol=1e-5)
    assert "layers" in plan.explain()
    assert ET.fromstring(plan.timeline()).tag.endswith("svg")


@pytest.mark.parametrize("schedule", [RowSchedule(1, 64), RowSchedule(2, 300, fence=True)])
def test_a_plan_is_read_again(schedule: RowSchedule) -> None:
    """From its JSON it runs as before; edited, it runs by what was edited."""
    plan = scheduled(schedule)
    again = read_plan(plan.to_json(), layers, *ARGS)
    np.testing.assert_array_equal(again(*ARGS), plan(*ARGS))
    changed = json.loads(plan.to_json())
    changed["schedule"] = {"teams": 3, "block": 100, "fence": False}
    edited = read_plan(json.dumps(changed), layers, *ARGS)
    assert [team.rows for team in edited.description.teams] == [300, 300, 400]
    np.testing.assert_allclose(edited(*ARGS), layers(*ARGS), rtol=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 99}, "has version 99"),
        ({"schedule": {"teams": 0, "block": 5, "fence": False}}, "asks for 0 teams"),
        ({"schedule": {"teams": 1, "block": 5000, "fence": False}}, "blocks of 5000 rows"),
        (
            {"rows": 7, "schedule": {"teams": 1, "block": 5, "fence": False}},
            "no longer has the rows",
        ),
        ({"arguments": [{"shape": [5], "dtype": "float32"}]}, r"for arguments float32\[5\]"),
        ({"arguments": 3}, "is no plan"),
    ],
)
def test_a_plan_that_does_not_fit_is_refused(change: dict[str, Any], message: str) -> None:
    """Another version, another shape, a schedule that cannot be: one sentence each."""
    description = {**json.loads(scheduled(RowSchedule(1, 64)).to_json()), **change}
    with pytest.raises(PlanError, match=message):
        read_plan(json.dumps(description), layers, *ARGS)


def test_other_arguments_run_the_original() -> None:
    """A call of another shape is answered all the same."""
    plan = scheduled(RowSchedule(2, 64))
    x = np.ones((10, 16), np.float32)
    assert not plan.takes(x, ARGS[1])
    np.testing.assert_allclose(plan(x, ARGS[1]), layers(x, ARGS[1]), rtol=1e-6)


def test_a_plan_is_differentiated_and_batched() -> None:
    """Gradients are the original's; vmap and jit see a function like any other."""
    plan = scheduled(RowSchedule(2, 64))
    gradient = jax.grad(lambda w: plan(ARGS[0], w).sum())(jnp.asarray(ARGS[1]))
    expected = jax.grad(lambda w: layers(ARGS[0], w).sum())(jnp.asarray(ARGS[1]))
    np.testing.assert_allclose(gradient, expected, rtol=1e-4)
    np.testing.assert_allclose(jax.jit(plan)(*ARGS), layers(*ARGS), rtol=1e-5)
    batch = jnp.stack([jnp.asarray(ARGS[1]), jnp.asarray(ARGS[1]) * 2])
    each = jax.vmap(lambda w: plan(jnp.asarray(ARGS[0]), w))(batch)
    np.testing.assert_allclose(each[1], layers(ARGS[0], batch[1]), rtol=1e-5)


async def test_a_memory_limit_is_met_or_said() -> None:
    """A plan within the limit needs no more, as XLA plans it; none within it is an error."""
    plan = await place(layers, *ARGS, seconds=2.0, memory=40_000)
    assert not plan.is_original
    assert plan.temporary_bytes(*ARGS) <= 40_000
    with pytest.raises(PlanError, match="no plan fits 8 bytes"):
        await place(layers, *ARGS, seconds=1.0, memory=8)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"teams": 0}, "teams must be a whole number above 0"),
        ({"memory": -1}, "memory must be a number of bytes above 0"),
        ({"seconds": 0}, "seconds must be a number above 0"),
        ({"w": 3}, "positional arguments of the function only, not w"),
        ({"cluster": "nowhere.json"}, "cannot read the cluster file nowhere.json"),
        ({"cluster": 3}, "a cluster is a description, its file, or 'auto', not 3"),
    ],
)
async def test_wrong_options_are_said(options: dict[str, Any], message: str) -> None:
    """Before anything is traced or timed."""
    with pytest.raises(AiosearchError, match=message):
        await place(layers, *ARGS, **options)


async def test_placing_can_be_cancelled() -> None:
    """A task that is cancelled ends at once; its thread measures nothing more."""
    with anyio.move_on_after(0.2) as scope:
        await place(layers, *ARGS, seconds=600.0)
    assert scope.cancelled_caught


async def test_what_cannot_be_traced_is_said() -> None:
    """Arguments of shapes that do not fit are one sentence, jax's reason in it."""
    with pytest.raises(PlanError, match="cannot be traced"):
        await place(layers, ARGS[0], np.ones((3, 3), np.float32))


async def test_types_alone_cannot_be_placed() -> None:
    """What is measured has to run."""
    types = [jax.ShapeDtypeStruct(argument.shape, argument.dtype) for argument in ARGS]
    with pytest.raises(PlanError, match="takes arrays, not their types"):
        await place(layers, *types)


async def test_rows_that_depend_on_each_other_run_as_they_are() -> None:
    """A transform of a vector has no rows; the plan says so, and runs it."""
    x = np.arange(64, dtype=np.float32)
    plan = await place(jnp.fft.rfft, x, seconds=1.0)
    assert plan.is_original
    assert "depend on each other" in plan.explain()
    np.testing.assert_allclose(plan(x), jnp.fft.rfft(x))


def test_caches_are_read_from_the_system(tmp_path: Path) -> None:
    """Four cores of which two and two share a last-level cache are two cache groups."""
    for core in range(4):
        cache = tmp_path / "cpu" / f"cpu{core}" / "cache"
        for index, (level, kind, size) in enumerate(
            ((1, "Data", "32K"), (1, "Instruction", "32K"), (3, "Unified", "8M"))
        ):
            folder = cache / f"index{index}"
            folder.mkdir(parents=True)
            shared = f"{core // 2 * 2}-{core // 2 * 2 + 1}" if level == 3 else str(core)
            (folder / "level").write_text(f"{level}\n")
            (folder / "type").write_text(f"{kind}\n")
            (folder / "size").write_text(f"{size}\n")
            (folder / "shared_cpu_list").write_text(f"{shared}\n")
    from aiosearch.mapper.detection import cache_groups

    assert cache_groups([0, 1, 2, 3], tmp_path) == [(0, 1), (2, 3)]
    assert cache_groups([1, 2], tmp_path) == [(1,), (2,)]


def test_an_even_plan_is_a_sharding(tmp_path: Path) -> None:
    """On four CPU devices, a normal jit takes the shardings, and moves nothing between them."""
    script = tmp_path / "four.py"
    script.write_text(
        "import jax\n"
        "jax.config.update('jax_num_cpu_devices', 4)\n"
        "import jax.numpy as jnp\n"
        "from aiosearch.mapper import PlanError\n"
        "import test_plans as plans\n"
        "plan = plans.scheduled(plans.RowSchedule(1, 64))\n"
        "shardings = plan.shardings(jax.devices())\n"
        "assert [s.spec for s in shardings] == [jax.P('rows'), jax.P()], shardings\n"
        "compiled = jax.jit(plans.layers, in_shardings=shardings).lower(*plans.ARGS).compile()\n"
        "assert 'all-' not in compiled.as_text()\n"
        "y = compiled(*map(jax.device_put, plans.ARGS, shardings))\n"
        "assert len(y.sharding.device_set) == 4\n"
        "assert jnp.allclose(y, plans.layers(*plans.ARGS), rtol=1e-5)\n"
        "try:\n"
        "    plan.shardings(jax.devices()[:3])\n"
        "except PlanError as error:\n"
        "    assert '1000 rows, which 3 devices' in str(error)\n"
        "else:\n"
        "    raise AssertionError\n"
    )
    folder = str(Path(__file__).parent)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([folder, *sys.path])}
    subprocess.run([sys.executable, str(script)], check=True, env=environment)
