"""Object code on disk."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from aiosearch.codegen.native.object_cache import ObjectCache, default_objects_path

TWO = """
import sys
from pathlib import Path
from aiosearch.codegen.native.object_cache import ObjectCache
kept, (folder, letter) = ObjectCache(Path(sys.argv[1])), sys.argv[1:]
for number in range(300):
    code = kept.get(str(number), lambda: letter.encode() * 5000)
    assert code in (b"a" * 5000, b"b" * 5000), code[:9]
"""


def unmade() -> bytes:
    raise AssertionError("was compiled again")


def test_kept(tmp_path: Path) -> None:
    """What was compiled once is found, in this process and others."""
    assert ObjectCache(tmp_path).get("one", lambda: b"code") == b"code"
    assert ObjectCache(tmp_path).get("one", unmade) == b"code"


def test_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It lies in the cache folder, which only the user may look into."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    kept = ObjectCache(default_objects_path())
    kept.get("one", lambda: b"code")
    assert kept.folder == tmp_path / "cache" / "aiosearch" / "objects"
    assert kept.folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("damage", [b"", b"x", b"x" * 36, b"x" * 100])
def test_damaged(tmp_path: Path, damage: bytes) -> None:
    """A damaged file is replaced by what is compiled again."""
    kept = ObjectCache(tmp_path)
    kept.get("one", lambda: b"code")
    (tmp_path / "one.o").write_bytes(damage)
    assert kept.get("one", lambda: b"again") == b"again"
    assert kept.get("one", unmade) == b"again"


def test_one_bit(tmp_path: Path) -> None:
    """So is one in which a single bit has turned."""
    kept = ObjectCache(tmp_path)
    kept.get("one", lambda: b"code")
    whole = bytearray((tmp_path / "one.o").read_bytes())
    whole[-1] ^= 1
    (tmp_path / "one.o").write_bytes(whole)
    assert kept.get("one", lambda: b"again") == b"again"


def test_another_ones_name(tmp_path: Path) -> None:
    """A file that was given the name of another one is no more than a damaged one."""
    kept = ObjectCache(tmp_path)
    kept.get("one", lambda: b"code")
    kept.trust("one", b"code")
    for ending in ("o", "tried"):
        (tmp_path / f"one.{ending}").rename(tmp_path / f"two.{ending}")
    assert kept.get("two", lambda: b"again") == b"again"
    assert not kept.trusts("two", b"code")


def test_trust(tmp_path: Path) -> None:
    """Trust is in exactly the code that was tried out, and a damaged file gives none."""
    kept = ObjectCache(tmp_path)
    assert not kept.trusts("one", b"code")
    kept.trust("one", b"code")
    assert ObjectCache(tmp_path).trusts("one", b"code")
    assert not kept.trusts("one", b"other")
    (tmp_path / "one.tried").write_bytes(b"yes")
    assert not kept.trusts("one", b"code")


def test_no_folder(tmp_path: Path) -> None:
    """Where nothing can be kept, it is compiled each time."""
    (tmp_path / "file").write_text("in the way")
    kept = ObjectCache(tmp_path / "file")
    kept.trust("one", b"code")
    assert kept.get("one", lambda: b"code") == b"code"
    assert kept.get("one", lambda: b"again") == b"again"
    assert not kept.trusts("one", b"code")


def test_size(tmp_path: Path) -> None:
    """What was not used for longest goes when there is too much."""
    kept = ObjectCache(tmp_path, limit=10_000)
    for number in range(5):
        kept.get(str(number), lambda: bytes(1000))
        os.utime(tmp_path / f"{number}.o", (number, number))
    kept.get("0", unmade)
    for number in range(5, 40):
        kept.get(str(number), lambda: bytes(1000))
        assert kept.get("0", unmade) == bytes(1000)
    assert not (tmp_path / "1.o").exists()
    assert sum(each.stat().st_size for each in tmp_path.iterdir()) <= 14_000


def test_two_processes_at_once(tmp_path: Path) -> None:
    """Each finds whole files only, and leaves nothing behind but those."""
    both = [subprocess.Popen([sys.executable, "-c", TWO, tmp_path, letter]) for letter in "ab"]
    assert [each.wait() for each in both] == [0, 0]
    assert {each.suffix for each in tmp_path.iterdir()} == {".o"}


def test_what_others_can_write_is_not_read(tmp_path: Path) -> None:
    """What lies there is run; others may not put it there, nor change it."""
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    ObjectCache(folder).get("one", lambda: b"code")
    assert not list(folder.iterdir())
    kept = ObjectCache(tmp_path)
    kept.get("one", lambda: b"code")
    assert (tmp_path / "one.o").stat().st_mode & 0o777 == 0o600
    (tmp_path / "one.o").chmod(0o622)
    assert kept.get("one", lambda: b"again") == b"again"


def test_what_may_not_be_changed_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ObjectCache(tmp_path).get("one", lambda: b"code")

    def refused(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "utime", refused)
    assert ObjectCache(tmp_path).get("one", unmade) == b"code"
