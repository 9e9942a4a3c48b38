from __future__ import annotations

import os
from pathlib import Path

import pytest
from testkit.hosts.os_limits import full_disk

from aiosearch.cli.output.files import require_drawing, require_place, write
from aiosearch.cli.output.streams import UsageError


def test_looking_for_a_place_changes_nothing(tmp_path: Path) -> None:
    """Neither a file that is there, nor the folder where none is."""
    old = tmp_path / "old"
    old.write_text("kept")
    require_place(str(old))
    require_place(str(tmp_path / "new"))
    assert [path.read_text() for path in tmp_path.iterdir()] == ["kept"]


@pytest.mark.parametrize(
    ("name", "told"),
    [("no/where", "there is no folder .*no"), (".", "Is a directory")],
)
def test_a_place_where_nothing_can_be_written_is_named(
    tmp_path: Path, name: str, told: str
) -> None:
    with pytest.raises(UsageError, match=f"cannot write .*: {told}"):
        require_place(str(tmp_path / name))


def test_what_goes_wrong_at_the_end_is_a_sentence_too(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot write .*: No such file"):
        write(str(tmp_path / "no" / "where"), lambda: "text")


def test_where_a_disk_is_full_no_half_file_stays(tmp_path: Path) -> None:
    with full_disk(100), pytest.raises(UsageError, match=r"cannot write .*: File too large"):
        write(str(tmp_path / "new"), lambda: "text" * 1000)
    assert not list(tmp_path.iterdir())


def test_where_a_disk_is_full_an_old_file_stays_as_it_was(tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.write_text("kept")
    with full_disk(100), pytest.raises(UsageError, match=r"cannot write .*: File too large"):
        write(str(old), lambda: "text" * 1000)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["kept"]


def test_a_link_and_what_is_no_file_stay_what_they_are(tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_text("old")
    file.chmod(0o640)
    link.symlink_to(file)
    write(str(link), lambda: "new")
    assert link.is_symlink()
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("new", 0o640)
    write(os.devnull, lambda: "text")
    assert Path(os.devnull).is_char_device()


def test_a_drawing_has_a_name_that_says_what_it_is(tmp_path: Path) -> None:
    require_drawing(str(tmp_path / "plot.SVG"))
    with pytest.raises(UsageError, match=r"a plot is SVG.* not .*plot\.png"):
        require_drawing(str(tmp_path / "plot.png"))


def test_nothing_is_made_for_nobody() -> None:
    require_place(None)
    write(None, pytest.fail)
