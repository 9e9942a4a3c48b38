"""The page of figures, as it is written from what benchmarks print."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


@pytest.fixture(scope="module")
def page() -> ModuleType:
    path = Path(__file__).parents[1] / "docs" / "_figures.py"
    spec = importlib.util.spec_from_file_location("_figures", path)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def figure(name: str, **more: Any) -> dict[str, Any]:
    machine = {"cpu": "a processor", "cores": 2, "system": "Linux", "python": "3.12.1"}
    about = {"load": 1.5, "machine": machine, "versions": {"anyio": "4.16.0"}}
    return {"figure": name, "value": 2.5, "unit": "times", **more, **about}


def test_a_section_says_what_every_figure_says(page: ModuleType) -> None:
    """Ratios of each way of calling, the versions of all, whatever else a benchmark prints."""
    ways = {"hot": {"jax_us": 9.0, "over_jax": 2.5}, "cold": {"jax_us": 8.0, "over_jax": 2.0}}
    found = page.section(
        "kernels.here",
        [
            figure("a", target=2.0, ways=ways, compared={"jax": "0.12.0"}, jax={"as it is": 9}),
            figure("b", ways=["hot", "cold"], compared={"jax": "0.10.2"}),
            figure("c", compared="ray", kinds=[1, 2], spread={"median": 1, "least": 0, "most": 3}),
        ],
    ).splitlines()
    assert found[:3] == [
        "## kernels.here",
        "",
        f"`{page.COMMAND.format(folder='benchmarks', name='kernels')}`",
    ]
    assert found[4] == (
        "a processor, 2 cores, Linux, Python 3.12.1; anyio 4.16.0, jax 0.12.0 and 0.10.2"
    )
    assert found[8:] == [
        "| a | 2.5 times | 2 | hot: over_jax 2.5; cold: over_jax 2 | 1.5 |",
        "| b | 2.5 times |  |  | 1.5 |",
        "| c | 2.5 times |  | kinds 1, 2; spread 1 (0 to 3); compared ray | 1.5 |",
    ]


def test_other_sections_of_the_page_stay(page: ModuleType) -> None:
    both = page.HEAD + "\n## a\n\none\n\n## b\n\ntwo\n"
    assert page.sections(both) == {"a": "## a\n\none\n", "b": "## b\n\ntwo\n"}


def test_a_benchmark_of_libraries_is_run_with_their_group(page: ModuleType) -> None:
    command = page.section("third_party.busy", [figure("a")]).splitlines()[2]
    assert command == "`uv run --group third-party python benchmarks/third_party.py`"
