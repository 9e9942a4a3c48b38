"""What the system says of its caches."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiosearch.measure import processor


@pytest.mark.parametrize(
    ("sizes", "first", "private", "last"),
    [
        ({1: "48K", 2: "1024K", 3: "32M"}, 48 << 10, 1 << 20, 32 << 20),
        ({1: "64K", 2: "2M"}, 64 << 10, 2 << 20, 2 << 20),
    ],
)
def test_caches_are_read_from_the_system(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    sizes: dict[int, str],
    first: int,
    private: int,
    last: int,
) -> None:
    """A core's own is of the second level; the last is the largest. Instructions' do not count."""
    (tmp_path / "index0").mkdir()
    for name, text in (("level", "1"), ("size", "16K"), ("type", "Instruction")):
        (tmp_path / "index0" / name).write_text(f"{text}\n")
    for level, size in sizes.items():
        folder = tmp_path / f"index{level}"
        folder.mkdir()
        (folder / "level").write_text(f"{level}\n")
        (folder / "size").write_text(f"{size}\n")
        (folder / "type").write_text("Data\n" if level == 1 else "Unified\n")
    monkeypatch.setattr(processor, "_FOLDER", tmp_path)
    assert processor.first_cache() == first
    assert processor.private_cache() == private
    assert processor.last_cache("cpu") == last


def test_there_is_always_a_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system says nothing, usual sizes are taken."""
    monkeypatch.setattr(processor, "_FOLDER", tmp_path)
    assert 0 < processor.first_cache() < processor.private_cache() <= processor.last_cache("cpu")
