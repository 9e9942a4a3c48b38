"""Folders that are a user's alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aiosearch.folders import cache_folder, make_folder, shared


def test_a_user_without_a_home_has_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """It can be asked for, and nothing can be made in it."""

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    assert not cache_folder().exists()
    with pytest.raises(OSError, match="no home folder, and XDG_CACHE_HOME is not set"):
        make_folder(cache_folder())


def test_what_is_made_on_the_way_is_its_users_alone_too(tmp_path: Path) -> None:
    before = os.umask(0o002)
    try:
        make_folder(tmp_path / "a" / "b" / "c")
        make_folder(tmp_path / "a" / "b" / "c")
    finally:
        os.umask(before)
    for folder in (tmp_path / "a", tmp_path / "a" / "b", tmp_path / "a" / "b" / "c"):
        assert folder.stat().st_mode & 0o777 == 0o700
    assert shared(tmp_path / "a" / "b" / "c") is None


def test_a_folder_is_shared_where_others_can_put_something_in_its_place(tmp_path: Path) -> None:
    inner = tmp_path / "outer" / "inner"
    make_folder(inner)
    inner.parent.chmod(0o777)
    assert shared(inner) == inner.parent.resolve()
    inner.parent.chmod(0o1777)  # as /tmp: nobody moves what is another's
    assert shared(inner) is None
    assert shared(inner.parent) == inner.parent.resolve()
