"""Folders that are a user's alone."""

from __future__ import annotations

import os
from pathlib import Path

from aiosearch.folders import make_folder, shared


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
