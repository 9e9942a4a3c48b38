"""The name of a question: equal digests mean that one answer serves both.

Search workers import this module, so it imports neither z3 nor anything that is slow to load.
"""

from __future__ import annotations

from functools import cache, lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..problem import Obligation

DIGEST_SIZE = 16
PROFILE = b"aiosearch-z3-1"
"""Changes when z3 is asked in another way, so that old unknowns are asked again."""


def digest(obligation: Obligation, axioms_text: str, z3_version: str) -> bytes:
    """Gives the 16 bytes under which the obligation's verdict is kept.

    They cover the query (or the author's `key` in its place), the text of its axioms, the logic
    and z3's version, but not the budget: a verdict is looked up for any budget.
    """
    state = _context(axioms_text, obligation.logic, z3_version).copy()
    if obligation.key:
        state.update(b"key\0" + obligation.key)
    else:
        state.update(b"query\0" + canonical(obligation.query))
    return state.digest()


def canonical(query: str) -> bytes:
    """Gives the query without comments and with single spaces.

    A query with string literals or quoted symbols, in which spaces and semicolons mean something,
    is left as it is.
    """
    raw = query.encode()
    if b'"' in raw or b"|" in raw:
        return raw.strip()
    if b";" in raw:
        raw = b"\n".join([line.partition(b";")[0] for line in raw.split(b"\n")])
    return b" ".join(raw.split())


@cache
def z3_version() -> str:
    """Gives the installed z3's version without loading it; raises WorkerError without one.

    The first call takes some 40 ms: it is made once, in the host, and the workers are told.
    """
    from importlib import metadata

    from ..errors import WorkerError

    try:
        return metadata.version("z3-solver")
    except metadata.PackageNotFoundError:
        raise WorkerError("z3 is not installed; `pip install z3-solver` provides it") from None


@lru_cache(maxsize=256)
def _context(axioms_text: str, logic: str, version: str) -> blake2b:
    state = blake2b(PROFILE, digest_size=DIGEST_SIZE)
    for part in (axioms_text, logic, version):
        raw = part.encode()
        state.update(len(raw).to_bytes(8, "little") + raw)
    return state
