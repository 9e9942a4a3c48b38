from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from aiosearch_sockets import new_token, own_token, read_token

from aiosearch import AiosearchError


def written(folder: Path, content: bytes, mode: int = 0o600) -> Path:
    path = folder / "token"
    path.write_bytes(content)
    path.chmod(mode)
    return path


def test_a_token_is_read_without_the_space_around_it(tmp_path: Path) -> None:
    """An editor's line feed does not make another token."""
    assert read_token(written(tmp_path, b" 0123456789abcdef\r\n")) == b"0123456789abcdef"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o610, 0o777])
def test_a_token_that_others_can_read_or_change_is_refused(tmp_path: Path, mode: int) -> None:
    path = written(tmp_path, b"0123456789abcdef", mode)
    with pytest.raises(AiosearchError, match=f"is open to others; say chmod 600 {path}"):
        read_token(path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is empty"),
        (b" \n\t", "is empty"),
        (b"0123456789abcde\n", "is too short: a token has 16 bytes"),
        (b"x" * 5000, "is longer than 4096 bytes"),
    ],
)
def test_a_file_that_holds_no_token_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    """The error names the file, and says nothing of what is in it."""
    path = written(tmp_path, content)
    with pytest.raises(AiosearchError) as caught:
        read_token(path)
    assert str(caught.value) == f"token file {path} {reason}"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(AiosearchError, match="nothing: No such file"):
        read_token(tmp_path / "nothing")


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    """Also a pipe to which nobody writes, without waiting for it."""
    os.mkfifo(tmp_path / "pipe", 0o600)
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(AiosearchError, match="is not a file"):
            read_token(path)


def test_a_new_token_is_its_users_only(tmp_path: Path) -> None:
    """Whatever the umask; no draft is left."""
    before = os.umask(0)
    try:
        token = new_token(tmp_path / "token")
    finally:
        os.umask(before)
    assert read_token(tmp_path / "token") == token
    assert len(token) >= 32
    assert [file.name for file in tmp_path.iterdir()] == ["token"]
    assert new_token(tmp_path / "other") != token


def test_a_token_is_never_written_over(tmp_path: Path) -> None:
    path = written(tmp_path, b"0123456789abcdef")
    with pytest.raises(AiosearchError, match="is there already"):
        new_token(path)
    assert read_token(path) == b"0123456789abcdef"
    assert [file.name for file in tmp_path.iterdir()] == ["token"]


def test_a_token_in_a_folder_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(AiosearchError, match="No such file or directory"):
        new_token(tmp_path / "nowhere" / "token")


def test_a_users_own_token_stays_the_same(tmp_path: Path) -> None:
    """It is in a folder that nobody else can enter."""
    token, path = own_token()
    assert path == tmp_path / "runtime" / "aiosearch" / "token"
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert own_token() == (token, path)
    assert read_token(path) == token


def test_a_users_own_token_is_in_the_cache_where_there_is_no_runtime_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    _, path = own_token()
    assert path.is_relative_to(tmp_path / "cache")


def test_two_who_want_the_first_own_token_get_the_same() -> None:
    with ThreadPoolExecutor(8) as threads:
        assert len(set(threads.map(lambda _: own_token(), range(32)))) == 1


def test_a_folder_that_others_can_change_holds_no_own_token(tmp_path: Path) -> None:
    """They could put a token there that they know."""
    folder = tmp_path / "runtime" / "aiosearch"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    with pytest.raises(AiosearchError, match="can be changed by others"):
        own_token()


def test_an_own_token_that_others_can_read_is_refused(tmp_path: Path) -> None:
    _, path = own_token()
    path.chmod(0o644)
    with pytest.raises(AiosearchError, match="is open to others"):
        own_token()
