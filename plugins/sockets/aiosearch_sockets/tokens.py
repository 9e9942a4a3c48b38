"""Tokens: the secret that all hosts of a search share, kept in files that only their user reads."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from aiosearch import AiosearchError
from aiosearch.folders import cache_folder

LEAST_BYTES = 16
MOST_TOKEN_BYTES = 4096


def read_token(path: str | os.PathLike[str]) -> bytes:
    """Reads a token file, without the white space around; refuses one that others could know."""
    try:
        # A pipe that nobody writes to must not hold us up
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise AiosearchError(f"token file {path}: {error.strerror}") from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise AiosearchError(f"token file {path} is not a file")
        if status.st_mode & 0o077:
            raise AiosearchError(f"token file {path} is open to others; say chmod 600 {path}")
        token = os.read(descriptor, MOST_TOKEN_BYTES + 1)
    finally:
        os.close(descriptor)
    return _checked(token, path)


def _checked(token: bytes, path: str | os.PathLike[str]) -> bytes:
    if len(token) > MOST_TOKEN_BYTES:
        raise AiosearchError(f"token file {path} is longer than {MOST_TOKEN_BYTES} bytes")
    token = token.strip()
    if not token:
        raise AiosearchError(f"token file {path} is empty")
    if len(token) < LEAST_BYTES:
        raise AiosearchError(f"token file {path} is too short: a token has {LEAST_BYTES} bytes")
    return token


def new_token(path: str | os.PathLike[str]) -> bytes:
    """Writes a new random token to a new file that only its user can read, whole or not at all.

    Gives the token. Never writes over a file: a search may depend on it.
    """
    token = secrets.token_hex(32).encode()
    path = Path(path)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as file:
            file.write(token + b"\n")
        # A link, not a rename: it fails where the name is taken
        os.link(draft, path)
    except FileExistsError:
        raise AiosearchError(f"token file {path} is there already") from None
    except OSError as error:
        raise AiosearchError(f"token file {path}: {error.strerror}") from None
    finally:
        with suppress(OSError):
            draft.unlink()
    return token


def own_token() -> tuple[bytes, Path]:
    """Gives this user's own token and its file, which is made by `new_token` where there is
    none.

    It connects processes of one user on one machine without a word about tokens. It stays until
    the user logs out, or, without `$XDG_RUNTIME_DIR`, for good: a search that is started again
    has it too.
    """
    path = _runtime_folder() / "token"
    if not path.exists():
        with suppress(AiosearchError):  # another process made it just now, or reading says why not
            new_token(path)
    return read_token(path), path


def _runtime_folder() -> Path:
    base = Path(os.environ.get("XDG_RUNTIME_DIR", ""))
    folder = base / "aiosearch" if base.is_absolute() else cache_folder() / "sockets"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except OSError as error:
        raise AiosearchError(f"folder {folder} for a token: {error.strerror}") from None
    if status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise AiosearchError(f"folder {folder} for a token can be changed by others")
    return folder
