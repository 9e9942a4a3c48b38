"""The figures of the machine, measured and kept."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from aiosearch.folders import make_folder
from aiosearch.measure import (
    Ceilings,
    JaxExecutor,
    Race,
    Way,
    ceilings_path,
    machine_id,
    measure_ceilings,
    store_ceilings,
    stored_ceilings,
)
from aiosearch.measure import ceilings as module
from aiosearch.measure.processor import last_cache

FIGURES = Ceilings(
    machine=machine_id(),
    platform="cpu",
    device="cpu",
    cores=2,
    versions="jax 0",
    protocol=module.PROTOCOL,
    taken="2026-11-20T10:00:00+00:00",
    bytes_per_second=2e10,
    flops_per_second={"float32": 5e11},
    noise=0.01,
    sweeps={"read": 2e10, "triad": 1.5e10},
)


def test_figures_are_kept() -> None:
    """What is stored is read again, the latest of a device in place of the one before."""
    assert stored_ceilings() == ()
    later = msgspec.structs.replace(FIGURES, bytes_per_second=3e10)
    other = msgspec.structs.replace(FIGURES, platform="cuda", device="H200")
    for each in (FIGURES, other, later):
        store_ceilings(each)
    assert sorted(stored_ceilings(), key=lambda each: each.platform) == [later, other]
    assert [file.name for file in ceilings_path().parent.iterdir()] == ["ceilings.json"]


def test_halves_may_be_computed_as_floats() -> None:
    """Their ceiling is no lower than that of floats, which a processor may be faster with."""
    both = msgspec.structs.replace(FIGURES, flops_per_second={"float32": 3e11, "bfloat16": 2e11})
    assert both.fastest("bfloat16") == both.fastest("float32") == 3e11
    quick = msgspec.structs.replace(FIGURES, flops_per_second={"float32": 3e11, "bfloat16": 6e11})
    assert (quick.fastest("float32"), quick.fastest("bfloat16")) == (3e11, 6e11)


def test_others_figures_do_not_count() -> None:
    """Figures of another machine or protocol stay in the file and are not ours."""
    store_ceilings(msgspec.structs.replace(FIGURES, machine="another"))
    store_ceilings(msgspec.structs.replace(FIGURES, protocol=0))
    assert stored_ceilings() == ()


def test_figures_of_an_older_protocol_are_not_measured() -> None:
    """The file they are in is read, and other devices' figures in it stay."""
    older = json.loads(msgspec.json.encode(msgspec.structs.replace(FIGURES, protocol=1)))
    del older["sweeps"]
    here = json.loads(msgspec.json.encode(msgspec.structs.replace(FIGURES, platform="cuda")))
    make_folder(ceilings_path().parent)
    ceilings_path().write_text(json.dumps([older, here]))
    assert [one.platform for one in stored_ceilings()] == ["cuda"]
    store_ceilings(FIGURES)
    assert [one.platform for one in stored_ceilings()] == ["cuda", "cpu"]


def test_figures_of_a_busy_machine_do_not_count() -> None:
    store_ceilings(msgspec.structs.replace(FIGURES, noise=1.44))
    assert stored_ceilings() == ()


@pytest.mark.parametrize("text", [b"", b"[", b'{"a": 1}', b"\xff"])
def test_a_damaged_file_is_no_figures(tmp_path: Path, text: bytes) -> None:
    """What cannot be read counts as not measured, and is replaced by the next figures."""
    path = tmp_path / "ceilings.json"
    path.write_bytes(text)
    assert stored_ceilings(path) == ()
    store_ceilings(FIGURES, path)
    assert stored_ceilings(path) == (FIGURES,)


def test_the_last_cache_is_a_size() -> None:
    """It is some megabytes at least, here and on a GPU."""
    assert 1 << 20 <= last_cache("cpu") < 1 << 32
    assert last_cache("cuda") == 64 << 20


async def test_the_protocol(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every figure is measured on the device, here with small buffers and few rounds."""
    monkeypatch.setattr(module, "ROUNDS", 2)
    monkeypatch.setattr(module, "_ROWS", 256)
    monkeypatch.setattr(module, "_ELEMENTS", 1 << 12)
    monkeypatch.setattr(module, "last_cache", lambda _: 1 << 20)
    heard = [0.1, 0.4, 0.2, 0.3, 0.0]
    monkeypatch.setattr(Race, "noise", lambda race, way: heard.pop())
    async with JaxExecutor(ways=(Way.HOT,), compilers=1) as executor:
        found = await measure_ceilings(executor)
    assert found.device == "cpu"
    assert found.versions.startswith("jax ")
    assert set(found.sweeps) == {"read", "triad"}
    assert min(found.sweeps.values()) > 1e8
    assert found.bytes_per_second == max(found.sweeps.values())
    assert set(found.flops_per_second) == {"float32", "bfloat16"}
    assert min(found.flops_per_second.values()) > 1e8
    assert (found.noise, heard) == (0.4, []), "the largest of all races"
